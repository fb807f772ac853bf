#include "suites/fuzz/mutate.h"
#include "base/size.h"
#include <stdint.h>
#include <string.h>

typedef void change_fn(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);

uint64_t kg_mutate_edge(struct kg_rng *rng) {
    static const uint64_t EDGES[] = { 0,
                                      1,
                                      2,
                                      9,
                                      12,
                                      13,
                                      0x7F,
                                      0x80,
                                      0xFF,
                                      0x7FFF,
                                      0xFFFF,
                                      0xFFFFFF,
                                      0x7FFFFFFF,
                                      0x80000000,
                                      0xFFFFFFFF,
                                      0x100000000,
                                      0x3FFFFFFFFFFFFFFF,
                                      0xFFFFFFFFFFFFFFE0,
                                      UINT64_MAX,
                                      INT64_MAX,
                                      (uint64_t)INT64_MIN };
    return EDGES[kg_rng_below(rng, KG_COUNT_OF(EDGES))] + kg_rng_below(rng, 3) - 1;
}

void kg_mutate_replace(struct kg_buffer *image, size_t at, size_t n, const void *with, size_t n_with) {
    if (image->len - n + n_with > KG_FUZZ_MAX_BYTES) return;
    if (n_with > n) kg_buffer_reserve(image, n_with - n);
    memmove(image->data + at + n_with, image->data + at + n, image->len - at - n);
    memcpy(image->data + at, with, n_with);
    image->len += n_with - n;
}

static size_t place(const struct kg_buffer *image, struct kg_rng *rng) {
    /* Headers come first, and are where parsing is: half of all places lie in the first eighth. */
    const size_t range = kg_rng_below(rng, 2) ? image->len : image->len / 8 + 1;
    return (size_t)kg_rng_below(rng, range < image->len ? range : image->len);
}

static void flip_bit(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    image->data[place(image, rng)] ^= (char)(1 << kg_rng_below(rng, 8));
}

static void set_byte(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    image->data[place(image, rng)] = (char)kg_rng_below(rng, 256);
}

static void set_number(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    const size_t at = place(image, rng), width = kg_rng_below(rng, 2) ? 8 : 4;
    const uint64_t value = kg_mutate_edge(rng);
    memcpy(image->data + at, &value, width < image->len - at ? width : image->len - at);
}

static void add_to_byte(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    char *byte = &image->data[place(image, rng)];
    *byte = (char)(*byte + (kg_rng_below(rng, 2) ? 1 : -1));
}

static void remove_range(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    const size_t at = place(image, rng), n = (size_t)kg_rng_below(rng, image->len - at < 64 ? image->len - at + 1 : 64);
    kg_mutate_replace(image, at, n, "", 0);
}

/* Up to 64 bytes of `from`, put before a byte of the image. */
static void insert_range(struct kg_buffer *image, const struct kg_buffer *from, struct kg_rng *rng) {
    char bytes[64];
    if (from->len == 0) return;
    const size_t begin = place(from, rng), left = from->len - begin;
    const size_t n = (size_t)kg_rng_below(rng, left < sizeof bytes ? left + 1 : sizeof bytes);
    memcpy(bytes, from->data + begin, n);
    kg_mutate_replace(image, place(image, rng), 0, bytes, n);
}

static void repeat_range(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    insert_range(image, image, rng);
}

static void take_range(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    insert_range(image, other, rng);
}

static void copy_range(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    const size_t from = place(image, rng), to = place(image, rng);
    const size_t left = image->len - (from > to ? from : to);
    memmove(image->data + to, image->data + from, (size_t)kg_rng_below(rng, left < 64 ? left + 1 : 64));
}

/* The image's beginning, the other's end. */
static void cross(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    if (other->len == 0) return;
    const size_t at = place(image, rng), from = place(other, rng);
    kg_mutate_replace(image, at, image->len - at, other->data + from, other->len - from);
}

static void cut(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    (void)other;
    if (kg_rng_below(rng, 4) == 0) image->len = place(image, rng); /* a cut file ends most stories early */
}

void kg_mutate_bytes(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    static change_fn *const WAYS[] = { flip_bit,     set_byte,   set_number, add_to_byte, remove_range,
                                       repeat_range, take_range, copy_range, cross,       cut };
    WAYS[kg_rng_below(rng, KG_COUNT_OF(WAYS))](image, other, rng);
}

void kg_mutate(enum kg_fuzz_form form, struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng) {
    static change_fn *const FORMS[] = {
        [KG_FUZZ_BYTES] = kg_mutate_bytes,
        [KG_FUZZ_GGUF] = kg_mutate_gguf,
        [KG_FUZZ_SAFETENSORS] = kg_mutate_safetensors,
        [KG_FUZZ_JSON] = kg_mutate_json,
        [KG_FUZZ_LINES] = kg_mutate_lines,
        [KG_FUZZ_TAR] = kg_mutate_tar,
    };
    const uint64_t n_changes = 1 + kg_rng_below(rng, 4);
    const bool by_form = kg_rng_below(rng, 4) != 0; /* else a file that lost its form for good */
    for (uint64_t i = 0; i < n_changes && image->len > 0; i++)
        (by_form ? FORMS[form] : kg_mutate_bytes)(image, other, rng);
}
