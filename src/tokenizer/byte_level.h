/* GPT-2's byte-to-Unicode alphabet: vocabularies of byte-level BPE spell each byte as one printable character.
 *
 * Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF are spelled as the same code point. The other 68, in ascending order, are
 * spelled as U+0100 onwards; a space is U+0120, the G-dot before words. Source: GPT-2's encoder.py. */
#ifndef KIGO_TOKENIZER_BYTE_LEVEL_H
#define KIGO_TOKENIZER_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code point that spells a byte. */
uint32_t kg_byte_level_code_point(unsigned char byte);

/* Writes text[0..len) byte by byte in the alphabet into out, which has room for 2 * len; returns the bytes written. */
size_t kg_byte_level_encode(const char *text, size_t len, char *out);

/* The inverse: decodes well-formed UTF-8 text[0..len); out receives *n_out <= len bytes. False if a character is
 * outside the alphabet. */
bool kg_byte_level_decode(const char *text, size_t len, char *out, size_t *n_out);

#endif
