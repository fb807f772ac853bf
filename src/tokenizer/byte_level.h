/* GPT-2's printable alphabet for bytes: vocabularies of byte-level BPE spell each byte as one Unicode character.
 *
 * Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF stand for themselves; the other 68, in rising order, are U+0100 onwards
 * (so a space is U+0120, written in vocabularies as in "the" with a leading G-dot). Source: GPT-2's encoder.py. */
#ifndef KIGO_TOKENIZER_BYTE_LEVEL_H
#define KIGO_TOKENIZER_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code point that spells a byte. */
uint32_t kg_byte_level_code_point(unsigned char byte);

/* Writes text[0..len) byte by byte in the alphabet into out, which has room for 2 * len; returns the bytes written. */
size_t kg_byte_level_encode(const char *text, size_t len, char *out);

/* The way back: reads well-formed UTF-8 text[0..len) in the alphabet; out gets *n_out <= len bytes. False if a
 * character is not of the alphabet. */
bool kg_byte_level_decode(const char *text, size_t len, char *out, size_t *n_out);

#endif
