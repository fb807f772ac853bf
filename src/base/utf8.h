/* UTF-8 (RFC 3629): judging bytes from files, and making them fit to print. */
#ifndef KIGO_BASE_UTF8_H
#define KIGO_BASE_UTF8_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes (1 to 4) of the well-formed sequence that data begins with, and its code point; 0 if there is none:
 * stray or missing continuation, overlong form, surrogate, above U+10FFFF, or cut off by len. */
size_t kg_utf8_sequence(const char *data, size_t len, uint32_t *code_point);

bool kg_utf8_valid(const char *data, size_t len);

/* Appends the bytes as valid UTF-8: each byte that begins no well-formed sequence becomes U+FFFD. */
void kg_utf8_append(struct kg_buffer *out, const char *data, size_t len);

/* A name as an error message shows it: control characters and malformed bytes as \xNN, cut with "..." if long. By
 * value, so that kg_quote(name, len).text serves as an argument of kg_fail. */
struct kg_quoted {
    char text[160];
};
struct kg_quoted kg_quote(const char *data, size_t len);

#endif
