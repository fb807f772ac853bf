#include "suites/fuzz/mutate.h"
#include "base/size.h"
#include <stdint.h>
#include <string.h>

/* Numbers that parsers trip over. */
static const uint64_t EDGES[] = { 0,
                                  1,
                                  2,
                                  9,
                                  12,
                                  13,
                                  0x7F,
                                  0x80,
                                  0xFF,
                                  0x7FFFFFFF,
                                  0x80000000,
                                  0xFFFFFFFF,
                                  0x100000000,
                                  0xFFFFFFFFFFFFFFE0,
                                  UINT64_MAX,
                                  INT64_MAX,
                                  (uint64_t)INT64_MIN };

static size_t place(const struct kg_buffer *image, struct kg_rng *rng) {
    /* Headers come first, and are where parsing is: half of all places lie in the first eighth. */
    const size_t range = kg_rng_below(rng, 2) ? image->len : image->len / 8 + 1;
    return (size_t)kg_rng_below(rng, range < image->len ? range : image->len);
}

static void flip_bit(struct kg_buffer *image, struct kg_rng *rng) {
    image->data[place(image, rng)] ^= (char)(1 << kg_rng_below(rng, 8));
}

static void set_byte(struct kg_buffer *image, struct kg_rng *rng) {
    image->data[place(image, rng)] = (char)kg_rng_below(rng, 256);
}

static void set_number(struct kg_buffer *image, struct kg_rng *rng) {
    const size_t at = place(image, rng), width = kg_rng_below(rng, 2) ? 8 : 4;
    const uint64_t value = EDGES[kg_rng_below(rng, KG_COUNT_OF(EDGES))] + kg_rng_below(rng, 3) - 1;
    memcpy(image->data + at, &value, width < image->len - at ? width : image->len - at);
}

static void add_to_byte(struct kg_buffer *image, struct kg_rng *rng) {
    char *byte = &image->data[place(image, rng)];
    *byte = (char)(*byte + (kg_rng_below(rng, 2) ? 1 : -1));
}

static void remove_range(struct kg_buffer *image, struct kg_rng *rng) {
    const size_t at = place(image, rng), n = (size_t)kg_rng_below(rng, image->len - at < 64 ? image->len - at + 1 : 64);
    memmove(image->data + at, image->data + at + n, image->len - at - n);
    image->len -= n;
}

static void repeat_range(struct kg_buffer *image, struct kg_rng *rng) {
    char bytes[64];
    const size_t from = place(image, rng), at = place(image, rng), left = image->len - from;
    const size_t n = (size_t)kg_rng_below(rng, left < sizeof bytes ? left + 1 : sizeof bytes);
    memcpy(bytes, image->data + from, n);
    kg_buffer_reserve(image, n);
    memmove(image->data + at + n, image->data + at, image->len - at);
    memcpy(image->data + at, bytes, n);
    image->len += n;
}

static void copy_range(struct kg_buffer *image, struct kg_rng *rng) {
    const size_t from = place(image, rng), to = place(image, rng);
    const size_t left = image->len - (from > to ? from : to);
    memmove(image->data + to, image->data + from, (size_t)kg_rng_below(rng, left < 64 ? left + 1 : 64));
}

static void cut(struct kg_buffer *image, struct kg_rng *rng) {
    image->len = place(image, rng);
}

void kg_mutate(struct kg_buffer *image, struct kg_rng *rng) {
    static void (*const WAYS[])(struct kg_buffer *, struct kg_rng *) = {
        flip_bit, set_byte, set_number, add_to_byte, remove_range, repeat_range, copy_range, cut,
    };
    const uint64_t n_changes = 1 + kg_rng_below(rng, 4);
    for (uint64_t i = 0; i < n_changes && image->len > 0; i++) {
        const uint64_t way = kg_rng_below(rng, KG_COUNT_OF(WAYS));
        if (WAYS[way] == cut && kg_rng_below(rng, 4) != 0) continue; /* a cut file ends most stories early */
        WAYS[way](image, rng);
    }
}
