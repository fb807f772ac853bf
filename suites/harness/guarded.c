#include "suites/harness/compare.h"
#include "base/buffer.h"
#include "base/rng.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sentinels at both ends are 256 bytes, so that an access a whole vector past the end still meets them and the data
 * keeps the block's alignment. */
enum { GUARD_ELEMS = 64, GUARD_BYTE = 0xA5, ALIGN_BYTES = 64 };
static const uint32_t POISON_BITS = 0x7fc0dead; /* a quiet NaN that no arithmetic makes */

void kg_guarded_init(struct kg_guarded *g, size_t n) {
    const size_t padded = (n + GUARD_ELEMS - 1) / GUARD_ELEMS * GUARD_ELEMS;
    g->block_bytes = (padded + 2 * GUARD_ELEMS) * sizeof(float);
    g->block = aligned_alloc(ALIGN_BYTES, g->block_bytes);
    if (!g->block) ck_abort_msg("no memory for a guarded buffer of %zu elements", n);
    memset(g->block, GUARD_BYTE, g->block_bytes);
    g->data = (float *)g->block + GUARD_ELEMS;
    g->n = n;
    for (size_t i = 0; i < n; i++) memcpy(&g->data[i], &POISON_BITS, sizeof POISON_BITS);
}

static size_t count_changed(const void *guard, size_t size_bytes) {
    const unsigned char *bytes = guard;
    size_t n_changed = 0;
    for (size_t i = 0; i < size_bytes; i++) n_changed += bytes[i] != GUARD_BYTE;
    return n_changed;
}

static bool is_poison(const float *x) {
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    return bits == POISON_BITS;
}

void kg_guarded_expect_intact(const struct kg_guarded *g, const char *name) {
    const size_t guard_bytes = GUARD_ELEMS * sizeof(float);
    const size_t before = count_changed(g->block, guard_bytes);
    const size_t after = count_changed(g->data + g->n, g->block_bytes - guard_bytes - g->n * sizeof(float));
    if (before > 0) ck_abort_msg("%s: %zu bytes before the buffer were written", name, before);
    if (after > 0) ck_abort_msg("%s: %zu bytes after the buffer of %zu elements were written", name, after, g->n);
}

static void expect_written(const struct kg_guarded *g, const char *name, bool finite) {
    kg_guarded_expect_intact(g, name);
    size_t n_unwritten = 0, n_nonfinite = 0, first = g->n;
    for (size_t i = 0; i < g->n; i++) {
        const bool unwritten = is_poison(&g->data[i]), nonfinite = finite && !unwritten && !isfinite(g->data[i]);
        n_unwritten += unwritten;
        n_nonfinite += nonfinite;
        if ((unwritten || nonfinite) && first == g->n) first = i;
    }
    if (first < g->n)
        ck_abort_msg("%s: of %zu elements %zu never written, %zu NaN or infinite, the first at [%zu]", name, g->n,
                     n_unwritten, n_nonfinite, first);
}

void kg_guarded_expect_written(const struct kg_guarded *g, const char *name) {
    expect_written(g, name, true);
}

void kg_guarded_expect_filled(const struct kg_guarded *g, const char *name) {
    expect_written(g, name, false);
}

void kg_guarded_free(struct kg_guarded *g) {
    free(g->block);
    *g = (struct kg_guarded){ NULL, 0, NULL, 0 };
}

struct placed_value {
    float value;
    uint32_t index;
};

enum { RADIX_BITS = 11, N_BUCKETS = 1 << RADIX_BITS, N_PASSES = 3 };

/* The bits of a float as a number that rises with it; both zeros are one. */
static uint32_t rising_bits(float value) {
    uint32_t bits;
    value += 0.0F;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

/* Ascending, equal values in the order they came: a radix sort, since tests fill many millions. `other` has n as well;
 * the sorted values are where the function returns. */
static struct placed_value *sort_by_value(struct placed_value *placed, struct placed_value *other, size_t n) {
    for (int pass = 0; pass < N_PASSES; pass++) {
        size_t begin[N_BUCKETS + 1] = { 0 };
        const int shift = pass * RADIX_BITS;
        for (size_t i = 0; i < n; i++) begin[(rising_bits(placed[i].value) >> shift) % N_BUCKETS + 1]++;
        for (int b = 0; b < N_BUCKETS; b++) begin[b + 1] += begin[b];
        for (size_t i = 0; i < n; i++) other[begin[(rising_bits(placed[i].value) >> shift) % N_BUCKETS]++] = placed[i];
        struct placed_value *const sorted = other;
        other = placed;
        placed = sorted;
    }
    return placed;
}

void kg_fill_normal(float *x, size_t n, uint64_t seed, double mean, double deviation) {
    struct placed_value *const both = kg_xcalloc(n ? 2 * n : 1, sizeof *both);
    struct kg_rng rng;
    ck_assert_uint_le(n, UINT32_MAX);
    kg_rng_init(&rng, seed, 0);
    for (size_t i = 0; i < n; i++)
        both[i] = (struct placed_value){ (float)(mean + deviation * kg_rng_normal(&rng)), (uint32_t)i };
    /* In ascending order, a value that meets its predecessor or zero moves up by the smallest step: all distinct. */
    struct placed_value *const placed = sort_by_value(both, both + n, n);
    for (size_t i = 0; i < n; i++) {
        float v = placed[i].value;
        if (i > 0 && v <= placed[i - 1].value) v = nextafterf(placed[i - 1].value, INFINITY);
        if (v == 0) v = nextafterf(v, INFINITY);
        placed[i].value = v;
        x[placed[i].index] = v;
    }
    free(both);
}
