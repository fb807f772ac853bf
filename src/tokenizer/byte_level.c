#include "tokenizer/byte_level.h"
#include "base/utf8.h"
#include <string.h>

enum { FIRST_STAND_IN = 0x100, N_STAND_INS = 68 };

static bool stands_for_itself(uint32_t c) {
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

/* The bytes spelled as U+0100 onwards are 0x00-0x20, 0x7F-0xA0 and 0xAD. */
static unsigned char stand_in_byte(uint32_t index) {
    if (index <= 0x20) return (unsigned char)index;
    if (index < N_STAND_INS - 1) return (unsigned char)(0x7f + (index - 0x21));
    return 0xad;
}

uint32_t kg_byte_level_code_point(unsigned char byte) {
    if (stands_for_itself(byte)) return byte;
    if (byte <= 0x20) return FIRST_STAND_IN + byte;
    if (byte == 0xad) return FIRST_STAND_IN + N_STAND_INS - 1;
    return FIRST_STAND_IN + 0x21 + (byte - 0x7fu);
}

size_t kg_byte_level_encode(const char *text, size_t len, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        char bytes[KG_UTF8_MAX_BYTES];
        const size_t k = kg_utf8_put(kg_byte_level_code_point((unsigned char)text[i]), bytes);
        memcpy(out + n, bytes, k);
        n += k;
    }
    return n;
}

bool kg_byte_level_decode(const char *text, size_t len, char *out, size_t *n_out) {
    size_t n = 0;
    for (size_t at = 0; at < len; n++) {
        uint32_t c;
        at += kg_utf8_get(text + at, &c);
        if (stands_for_itself(c)) out[n] = (char)(unsigned char)c;
        else if (c >= FIRST_STAND_IN && c < FIRST_STAND_IN + N_STAND_INS)
            out[n] = (char)stand_in_byte(c - FIRST_STAND_IN);
        else return false;
    }
    *n_out = n;
    return true;
}
