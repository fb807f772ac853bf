/* UTF-8 by the Unicode Standard's table 3-7 (RFC 3629): reading, writing and judging it, and making bytes fit to print.
 * No overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef KIGO_BASE_UTF8_H
#define KIGO_BASE_UTF8_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KG_UTF8_MAX_BYTES = 4 };

/* What stands at the start of data[0..len), len > 0. */
enum kg_utf8_kind {
    KG_UTF8_WHOLE,  /* a character of *n bytes */
    KG_UTF8_CUT,    /* the *n = len bytes begin a character, but end inside it */
    KG_UTF8_BROKEN, /* the *n bytes form a maximal ill-formed subsequence: one U+FFFD */
};
enum kg_utf8_kind kg_utf8_look(const char *data, size_t len, size_t *n);

/* Length in bytes (1 to 4) of the well-formed sequence that data begins with, and its code point; 0 if there is none.
 */
size_t kg_utf8_sequence(const char *data, size_t len, uint32_t *code_point);

/* Offset of the first byte that is no part of well-formed UTF-8; len if all is well-formed. */
size_t kg_utf8_first_error(const char *data, size_t len);
bool kg_utf8_valid(const char *data, size_t len);

/* For well-formed text: bytes of the character with this first byte; the character at text and its length in bytes. */
static inline size_t kg_utf8_length(char first) {
    const unsigned char byte = (unsigned char)first;
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
size_t kg_utf8_get(const char *text, uint32_t *code_point);

/* Writes a code point (no surrogate, at most U+10FFFF) and returns its length in bytes. */
size_t kg_utf8_put(uint32_t code_point, char out[KG_UTF8_MAX_BYTES]);

/* Appends the bytes as valid UTF-8: each byte that begins no well-formed sequence becomes U+FFFD. */
void kg_utf8_append(struct kg_buffer *out, const char *data, size_t len);

/* A name as an error message shows it: control characters and malformed bytes as \xNN, cut with "..." if long. By
 * value, so that kg_quote(name, len).text serves as an argument of kg_fail. */
struct kg_quoted {
    char text[160];
};
struct kg_quoted kg_quote(const char *data, size_t len);

#endif
