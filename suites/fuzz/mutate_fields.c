/* Formats of fields: GGUF's numbers and strings, lines of text, headers of tar. */
#include "suites/fuzz/mutate.h"
#include "base/size.h"
#include "format/gguf.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* One number of a GGUF file; of a string its length, the text follows. */
struct field {
    size_t at, width;
    bool is_string;
};
/* Reads on as long as the file makes sense, and keeps the n-th field. */
struct fields {
    const struct kg_buffer *image;
    size_t at, n, nth;
    struct field kept;
    bool ended;
};

static uint64_t number(struct fields *f, size_t width, bool is_string) {
    uint64_t value = 0;
    f->ended = f->ended || f->image->len - f->at < width;
    if (f->ended) return 0;
    memcpy(&value, f->image->data + f->at, width);
    if (f->n++ == f->nth) f->kept = (struct field){ f->at, width, is_string };
    f->at += width;
    return value;
}

static void string(struct fields *f) {
    const uint64_t len = number(f, 8, true);
    f->ended = f->ended || len > f->image->len - f->at;
    if (!f->ended) f->at += (size_t)len;
}

static void value(struct fields *f, uint64_t type) {
    static const uint8_t WIDTHS[] = { [KG_GGUF_U8] = 1,  [KG_GGUF_I8] = 1,  [KG_GGUF_U16] = 2, [KG_GGUF_I16] = 2,
                                      [KG_GGUF_U32] = 4, [KG_GGUF_I32] = 4, [KG_GGUF_F32] = 4, [KG_GGUF_BOOL] = 1,
                                      [KG_GGUF_U64] = 8, [KG_GGUF_I64] = 8, [KG_GGUF_F64] = 8 };
    if (type == KG_GGUF_STRING) string(f);
    else if (type < sizeof WIDTHS && WIDTHS[type]) (void)number(f, WIDTHS[type], false);
    else f->ended = true;
}

static void key(struct fields *f) {
    string(f);
    const uint64_t type = number(f, 4, false);
    if (type != KG_GGUF_ARRAY) {
        value(f, type);
        return;
    }
    const uint64_t elem_type = number(f, 4, false), n = number(f, 8, false);
    for (uint64_t i = 0; i < n && !f->ended; i++) value(f, elem_type);
}

static void tensor(struct fields *f) {
    string(f);
    const uint64_t n_dims = number(f, 4, false);
    for (uint64_t i = 0; i < n_dims && !f->ended; i++) (void)number(f, 8, false);
    (void)number(f, 4, false);
    (void)number(f, 8, false);
}

static size_t read_fields(const struct kg_buffer *image, size_t nth, struct field *kept) {
    struct fields f = { .image = image, .at = 4, .nth = nth, .ended = image->len < 4 };
    (void)number(&f, 4, false);
    const uint64_t n_tensors = number(&f, 8, false), n_keys = number(&f, 8, false);
    for (uint64_t i = 0; i < n_keys && !f.ended; i++) key(&f);
    for (uint64_t i = 0; i < n_tensors && !f.ended; i++) tensor(&f);
    *kept = f.kept;
    return f.n;
}

/* Half of all picks are among the first 32 fields: arrays of tokens are long. */
static bool pick_field(const struct kg_buffer *image, struct kg_rng *rng, struct field *field) {
    const size_t n = read_fields(image, SIZE_MAX, field), range = kg_rng_below(rng, 2) ? n : kg_min_size(n, 32);
    return n > 0 && read_fields(image, (size_t)kg_rng_below(rng, range), field) > 0;
}

/* A string with another text and the length of that. */
static void put_string(struct kg_buffer *image, const struct field *field, struct kg_rng *rng) {
    char text[64];
    uint64_t len = 0, n = kg_rng_below(rng, sizeof text);
    struct field other;
    memcpy(&len, image->data + field->at, sizeof len);
    if (len > image->len - field->at - sizeof len) return;
    memset(text, kg_rng_below(rng, 4) ? 'a' : 0xC3, sizeof text);
    if (pick_field(image, rng, &other) && other.is_string) { /* a text that means something here */
        uint64_t m = 0;
        memcpy(&m, image->data + other.at, sizeof m);
        if (m <= sizeof text && m <= image->len - other.at - sizeof m) {
            memcpy(text, image->data + other.at + sizeof m, (size_t)m);
            n = m;
        }
    }
    kg_mutate_replace(image, field->at + sizeof len, (size_t)len, text, (size_t)n);
    memcpy(image->data + field->at, &n, sizeof n);
}

void kg_mutate_gguf(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    struct field field, from;
    const uint64_t way = kg_rng_below(rng, 8);
    if (way == 0 || !pick_field(image, rng, &field)) {
        kg_mutate_bytes(image, other, rng);
        return;
    }
    uint64_t value = 0;
    memcpy(&value, image->data + field.at, field.width);
    if (way == 1 && field.is_string) {
        put_string(image, &field, rng);
        return;
    }
    if (way < 3) value += kg_rng_below(rng, 2) ? 1 : UINT64_MAX;
    else if (way == 3) value = kg_rng_below(rng, 40); /* a type, a small count */
    else if (way == 4) value = image->len - field.at - kg_rng_below(rng, 16);
    else if (way == 5 && pick_field(image, rng, &from)) memcpy(&value, image->data + from.at, from.width);
    else value = kg_mutate_edge(rng);
    memcpy(image->data + field.at, &value, field.width);
}

/* The n-th line with its end; counts them if there are fewer. */
static size_t find_line(const struct kg_buffer *b, size_t nth, size_t *at, size_t *n) {
    size_t count = 0;
    for (size_t begin = 0; begin < b->len; count++) {
        const char *end = memchr(b->data + begin, '\n', b->len - begin);
        const size_t len = end ? (size_t)(end - b->data) + 1 - begin : b->len - begin;
        if (count == nth) {
            *at = begin;
            *n = len;
        }
        begin += len;
    }
    return count;
}

static bool pick_line(const struct kg_buffer *b, struct kg_rng *rng, size_t *at, size_t *n) {
    const size_t count = find_line(b, SIZE_MAX, at, n);
    return count > 0 && find_line(b, (size_t)kg_rng_below(rng, count), at, n) > 0;
}

void kg_mutate_lines(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    size_t at, n, from, n_from;
    const uint64_t way = kg_rng_below(rng, 8);
    const struct kg_buffer *source = way == 2 ? other : image;
    struct kg_buffer line = KG_BUFFER_INIT;
    if (!pick_line(image, rng, &at, &n)) return;
    if (way == 0) {
        kg_mutate_replace(image, at, n, "", 0);
    } else if (way < 4) { /* a line again, or another's */
        if (!pick_line(source, rng, &from, &n_from)) return;
        kg_buffer_append(&line, source->data + from, n_from);
        kg_mutate_replace(image, at, way == 3 ? n : 0, line.data, line.len);
    } else if (way == 4) { /* joined with the next */
        kg_mutate_replace(image, at + n - 1, 1, "", 0);
    } else {
        kg_buffer_append(&line, image->data + at, n);
        (image->data[at] == '{' ? kg_mutate_json : kg_mutate_bytes)(&line, other, rng);
        kg_mutate_replace(image, at, n, kg_buffer_text(&line), line.len);
    }
    kg_buffer_free(&line);
}

void kg_mutate_tar(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    enum { BLOCK = 512 };
    static const struct {
        uint16_t at, n;
        const char *texts[6];
    } FIELDS[] = {
        { 0, 100, { "../x", "/abs", "a/../../x", "", "20261120T093822Z-nogit-89abcdef", "a//b" } },
        { 100, 8, { "0000000", "7777777", "-1", "", "0104755", "9" } },
        { 124,
          12,
          { "00000000000", "77777777777", "-0000000001", "\x80\xFF\xFF\xFF", "\xFF\xFF\xFF\xFF", "00000001000" } },
        { 136, 12, { "00000000000", "77777777777", "\x80\xFF\xFF\xFF", "", "x", "-1" } },
        { 156, 1, { "0", "1", "2", "5", "x", "L" } },
        { 156, 1, { "g", "S", "K", "6", "3", "V" } },
        { 157, 100, { "/etc/passwd", "..", "", "x", "data/a", "./" } },
        { 257,
          8,
          { "ustar", "ustar  ", "", "USTAR",
            "ustar\0"
            "99",
            "x" } },
        { 345, 155, { "../..", "/", "", "a", "data", "20261120T093822Z-nogit-89abcdef" } },
    };
    const size_t n_blocks = image->len / BLOCK;
    const uint64_t way = kg_rng_below(rng, 6);
    if (n_blocks == 0 || way == 0) {
        kg_mutate_bytes(image, other, rng);
        return;
    }
    char *block = image->data + BLOCK * kg_rng_below(rng, n_blocks);
    if (way == 1) { /* blocks in another order, or twice */
        memcpy(block, image->data + BLOCK * kg_rng_below(rng, n_blocks), BLOCK);
        return;
    }
    const size_t f = (size_t)kg_rng_below(rng, KG_COUNT_OF(FIELDS));
    const char *text = FIELDS[f].texts[kg_rng_below(rng, KG_COUNT_OF(FIELDS[f].texts))];
    char bytes[160] = "";
    snprintf(bytes, sizeof bytes, "%s", text);
    memcpy(block + FIELDS[f].at, bytes, FIELDS[f].n);
}
