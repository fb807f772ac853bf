/* UTF-8 (RFC 3629; Unicode Standard, table 3-7): reading, writing, validating, and making bytes printable. Overlong
 * forms, surrogates and code points above U+10FFFF are ill-formed. */
#ifndef KIGO_BASE_UTF8_H
#define KIGO_BASE_UTF8_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KG_UTF8_MAX_BYTES = 4 };

/* Classifies the start of data[0..len), len > 0. */
enum kg_utf8_kind {
    KG_UTF8_WHOLE,  /* a character of *n bytes */
    KG_UTF8_CUT,    /* all *n = len bytes are the start of an incomplete character */
    KG_UTF8_BROKEN, /* the *n bytes form a maximal ill-formed subsequence: one U+FFFD */
};
enum kg_utf8_kind kg_utf8_look(const char *data, size_t len, size_t *n);

/* The length in bytes (1 to 4) and the code point of the well-formed sequence at the start of data; 0 if there is
 * none. */
size_t kg_utf8_sequence(const char *data, size_t len, uint32_t *code_point);

/* Offset of the first byte outside a well-formed sequence; len if all of data is well-formed. */
size_t kg_utf8_first_error(const char *data, size_t len);
bool kg_utf8_valid(const char *data, size_t len);

/* For well-formed text: kg_utf8_length is the length in bytes of a character by its first byte; kg_utf8_get reads the
 * character at text and returns its length. */
static inline size_t kg_utf8_length(char first) {
    const unsigned char byte = (unsigned char)first;
    return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
size_t kg_utf8_get(const char *text, uint32_t *code_point);

/* Encodes a code point (not a surrogate, at most U+10FFFF) and returns its length in bytes. */
size_t kg_utf8_put(uint32_t code_point, char out[KG_UTF8_MAX_BYTES]);

/* Appends data[0..len) as valid UTF-8: each byte that does not start a well-formed sequence becomes U+FFFD. */
void kg_utf8_append(struct kg_buffer *out, const char *data, size_t len);

/* Makes a name printable for an error message: hidden characters and malformed bytes in their visible form
 * (base/visible.h), and a long name is cut with "...". Returned by value, so that kg_quote(name, len).text can be an
 * argument of kg_fail. */
struct kg_quoted {
    char text[160];
};
struct kg_quoted kg_quote(const char *data, size_t len);

#endif
