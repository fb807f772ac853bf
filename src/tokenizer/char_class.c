#include "tokenizer/char_class.h"
#include "base/size.h"
#include "base/utf8.h"
#include <stdint.h>
#include <string.h>

enum char_class { LU, LL, LM, LO, N, M, N_CLASSES };

/* The substitutes by class and UTF-8 length: characters of Unicode 10 or older. */
static const uint32_t STAND_IN_3[N_CLASSES] = { 0x1e00, 0x1e01, 0x1d2c, 0x4e00, 0x0966, 0x0900 };
static const uint32_t STAND_IN_4[N_CLASSES] = { 0x10400, 0x10428, 0x16f93, 0x20000, 0x1d7ce, 0x1d165 };

struct class_range {
    uint32_t first, last;
    enum char_class class;
};

/* The characters that Unicode 15, 15.1 and 16 added, with the reference's class. */
static const struct class_range NEWER[] = {
    { 0x897, 0x897, M },      { 0xcf3, 0xcf3, M },      { 0xece, 0xece, M },      { 0x1c89, 0x1c89, LU },
    { 0x1c8a, 0x1c8a, LL },   { 0xa7cb, 0xa7cc, LU },   { 0xa7cd, 0xa7cd, LL },   { 0xa7da, 0xa7da, LU },
    { 0xa7db, 0xa7db, LL },   { 0xa7dc, 0xa7dc, LU },   { 0x105c0, 0x105f3, LO }, { 0x10d40, 0x10d49, N },
    { 0x10d4a, 0x10d4d, LO }, { 0x10d4e, 0x10d4e, LM }, { 0x10d4f, 0x10d4f, LO }, { 0x10d50, 0x10d65, LU },
    { 0x10d69, 0x10d6d, M },  { 0x10d6f, 0x10d6f, LM }, { 0x10d70, 0x10d85, LL }, { 0x10ec2, 0x10ec4, LO },
    { 0x10efc, 0x10eff, M },  { 0x1123f, 0x11240, LO }, { 0x11241, 0x11241, M },  { 0x11380, 0x11389, LO },
    { 0x1138b, 0x1138b, LO }, { 0x1138e, 0x1138e, LO }, { 0x11390, 0x113b5, LO }, { 0x113b7, 0x113b7, LO },
    { 0x113b8, 0x113c0, M },  { 0x113c2, 0x113c2, M },  { 0x113c5, 0x113c5, M },  { 0x113c7, 0x113ca, M },
    { 0x113cc, 0x113d0, M },  { 0x113d1, 0x113d1, LO }, { 0x113d2, 0x113d2, M },  { 0x113d3, 0x113d3, LO },
    { 0x113e1, 0x113e2, M },  { 0x116d0, 0x116e3, N },  { 0x11bc0, 0x11be0, LO }, { 0x11bf0, 0x11bf9, N },
    { 0x11f00, 0x11f01, M },  { 0x11f02, 0x11f02, LO }, { 0x11f03, 0x11f03, M },  { 0x11f04, 0x11f10, LO },
    { 0x11f12, 0x11f33, LO }, { 0x11f34, 0x11f3a, M },  { 0x11f3e, 0x11f42, M },  { 0x11f50, 0x11f59, N },
    { 0x11f5a, 0x11f5a, M },  { 0x1342f, 0x1342f, LO }, { 0x13440, 0x13440, M },  { 0x13441, 0x13446, LO },
    { 0x13447, 0x13455, M },  { 0x13460, 0x143fa, LO }, { 0x16100, 0x1611d, LO }, { 0x1611e, 0x1612f, M },
    { 0x16130, 0x16139, N },  { 0x16d40, 0x16d42, LM }, { 0x16d43, 0x16d6a, LO }, { 0x16d6b, 0x16d6c, LM },
    { 0x16d70, 0x16d79, N },  { 0x18cff, 0x18cff, LO }, { 0x1b132, 0x1b132, LO }, { 0x1b155, 0x1b155, LO },
    { 0x1ccf0, 0x1ccf9, N },  { 0x1d2c0, 0x1d2d3, N },  { 0x1df25, 0x1df2a, LL }, { 0x1e030, 0x1e06d, LM },
    { 0x1e08f, 0x1e08f, M },  { 0x1e4d0, 0x1e4ea, LO }, { 0x1e4eb, 0x1e4eb, LM }, { 0x1e4ec, 0x1e4ef, M },
    { 0x1e4f0, 0x1e4f9, N },  { 0x1e5d0, 0x1e5ed, LO }, { 0x1e5ee, 0x1e5ef, M },  { 0x1e5f0, 0x1e5f0, LO },
    { 0x1e5f1, 0x1e5fa, N },  { 0x2b739, 0x2b739, LO }, { 0x2ebf0, 0x2ee5d, LO }, { 0x31350, 0x323af, LO },
};

/* Sequences of three and four bytes that can be in the table begin with these. */
static bool may_be_newer(unsigned char first) {
    return first == 0xe0 || first == 0xe1 || first == 0xea || first >= 0xf0;
}

static const struct class_range *find_range(uint32_t c) {
    size_t low = 0, high = KG_COUNT_OF(NEWER);
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (c > NEWER[mid].last) low = mid + 1;
        else if (c < NEWER[mid].first) high = mid;
        else return &NEWER[mid];
    }
    return NULL;
}

/* Offset of the next newer character at or after `at`, len if there is none. */
static size_t next_newer(const char *text, size_t len, size_t at, const struct class_range **range) {
    while (at < len) {
        uint64_t word;
        if (len - at >= sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                at += sizeof word;
                continue;
            }
        }
        const unsigned char first = (unsigned char)text[at];
        if (may_be_newer(first)) {
            uint32_t c;
            kg_utf8_get(text + at, &c);
            *range = find_range(c);
            if (*range) return at;
        }
        at += kg_utf8_length(text[at]);
    }
    return len;
}

bool kg_char_class_stand_in(const char *text, size_t len, struct kg_buffer *copy) {
    const struct class_range *range = NULL;
    size_t at = next_newer(text, len, 0, &range);
    if (at == len) return false;
    kg_buffer_clear(copy);
    kg_buffer_append(copy, text, len);
    while (at < len) {
        const size_t n = kg_utf8_length(text[at]);
        char bytes[KG_UTF8_MAX_BYTES];
        kg_utf8_put((n == 3 ? STAND_IN_3 : STAND_IN_4)[range->class], bytes);
        memcpy(copy->data + at, bytes, n);
        at = next_newer(text, len, at + n, &range);
    }
    return true;
}
