/* GGUF files as a line of text, for cases that need a byte in a certain place.
 *
 * Words, separated by spaces:
 *   =abc      these bytes
 *   ~abc      a GGUF string: u64 length, then these bytes
 *   7.4       the number 7 in 4 bytes, little-endian (0x.. and -1 too)
 *   @32       zeros up to a multiple of 32
 *   *16       16 bytes 1, 2, 3, ... */
#ifndef KIGO_SUITES_GGUF_IMAGE_H
#define KIGO_SUITES_GGUF_IMAGE_H

#include "base/buffer.h"

/* Appends the bytes of the script; ends the case if it is none. */
void kg_image_build(struct kg_buffer *image, const char *script);

/* A small file with a key of every type and tensors of three types, as version `version`. */
void kg_image_build_sample(struct kg_buffer *image, unsigned version);

#endif
