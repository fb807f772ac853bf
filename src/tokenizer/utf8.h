/* UTF-8 by the Unicode Standard's table 3-7: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef KIGO_TOKENIZER_UTF8_H
#define KIGO_TOKENIZER_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { KG_UTF8_MAX_BYTES = 4 };

/* Offset of the first byte that is no part of well-formed UTF-8; len if all is well-formed. */
size_t kg_utf8_first_error(const char *text, size_t len);

/* What stands at the start of bytes[0..len), len > 0. */
enum kg_utf8_kind {
    KG_UTF8_WHOLE,  /* a character of *n bytes */
    KG_UTF8_CUT,    /* the *n = len bytes begin a character, but end inside it */
    KG_UTF8_BROKEN, /* the *n bytes form a maximal ill-formed subsequence: one U+FFFD */
};
enum kg_utf8_kind kg_utf8_look(const unsigned char *bytes, size_t len, size_t *n);

/* Bytes of the character whose first byte this is; the text must be well-formed. */
static inline size_t kg_utf8_length(unsigned char first) {
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Reads one character of well-formed text and returns its length in bytes. */
size_t kg_utf8_get(const char *text, uint32_t *code_point);

/* Writes a code point (no surrogate, at most U+10FFFF) and returns its length in bytes. */
size_t kg_utf8_put(uint32_t code_point, char out[KG_UTF8_MAX_BYTES]);

#endif
