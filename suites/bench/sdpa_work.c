#include "suites/bench/sdpa_work.h"
#include "base/rng.h"
#include "base/size.h"
#include "backend/backend.h"
#include "suites/support/float64_loops.h"
#include <math.h>

/* n_batch, n_heads, n_kv_heads, n_queries, n_keys, head_dim, causal, quick */
#define FULL_AND_CAUSAL(b, h, s, d)                                                                                    \
    { b, h, h, s, s, d, false, false }, {                                                                              \
        b, h, h, s, s, d, true, false                                                                                  \
    }
#define PREFILL(h, g, s, d)                                                                                            \
    { 1, h, g, s, s, d, true, false }
#define DECODE(h, g, keys, d)                                                                                          \
    { 1, h, g, 1, keys, d, true, false }

const struct kg_sdpa_shape KG_SDPA_SHAPES[] = {
    /* what attention kernels are compared by */
    FULL_AND_CAUSAL(1, 8, 512, 64),
    FULL_AND_CAUSAL(1, 8, 2048, 64),
    FULL_AND_CAUSAL(4, 16, 2048, 128),
    FULL_AND_CAUSAL(1, 32, 8192, 128),
    /* one query: the heads of Qwen2.5-0.5B, GPT-OSS-20B and Phi-3-mini */
    DECODE(14, 2, 8192, 64),
    DECODE(64, 8, 8192, 64),
    DECODE(32, 32, 4096, 96),
    /* long contexts: the heads of Qwen2.5-7B and GPT-OSS-20B */
    DECODE(28, 4, 32768, 128),
    DECODE(64, 8, 131072, 64),
    /* the engine's prefill, and a length that fills no tile */
    PREFILL(14, 2, 512, 64),
    PREFILL(14, 2, 2048, 64),
    PREFILL(14, 2, 1000, 64),
    PREFILL(32, 32, 512, 96),
    /* small */
    { 1, 4, 2, 48, 48, 64, true, true },
    { 1, 4, 2, 3, 129, 64, true, true },
};
const size_t KG_N_SDPA_SHAPES = KG_COUNT_OF(KG_SDPA_SHAPES);

void kg_sdpa_shape_text(const struct kg_sdpa_shape *s, char text[KG_SDPA_PROBLEM_TEXT]) {
    const struct kg_sdpa_problem_shape shape = { .n_batch = s->n_batch,
                                                 .n_heads = s->n_heads,
                                                 .n_kv_heads = s->n_kv_heads,
                                                 .n_queries = s->n_queries,
                                                 .n_keys = s->n_keys,
                                                 .head_dim = s->head_dim,
                                                 .causal = s->causal };
    kg_sdpa_problem_text(&shape, text);
}

uint64_t kg_sdpa_query_elems(const struct kg_sdpa_shape *s) {
    return (uint64_t)s->n_batch * s->n_heads * s->n_queries * s->head_dim;
}

uint64_t kg_sdpa_key_elems(const struct kg_sdpa_shape *s) {
    return (uint64_t)s->n_batch * s->n_kv_heads * s->n_keys * s->head_dim;
}

/* How many keys query i sees, from the first. */
static uint32_t n_seen(const struct kg_sdpa_shape *s, uint32_t i) {
    if (!s->causal) return s->n_keys;
    const int64_t n = (int64_t)s->n_keys - s->n_queries + i + 1;
    return n > 0 ? (uint32_t)n : 0;
}

double kg_sdpa_flops(const struct kg_sdpa_shape *s) {
    double pairs = 0;
    for (uint32_t i = 0; i < s->n_queries; i++) pairs += n_seen(s, i);
    return 4.0 * s->n_batch * s->n_heads * s->head_dim * pairs;
}

double kg_sdpa_bytes(const struct kg_sdpa_shape *s, enum kg_precision inputs, enum kg_precision output) {
    const double queries = (double)kg_sdpa_query_elems(s), keys = (double)kg_sdpa_key_elems(s);
    return (queries + 2 * keys) * (double)kg_precision_bytes(inputs) + queries * (double)kg_precision_bytes(output);
}

float kg_sdpa_softmax_scale(const struct kg_sdpa_shape *s) {
    return (float)(1 / sqrt((double)s->head_dim));
}

void kg_sdpa_spots(const struct kg_sdpa_shape *s, uint64_t seed, struct kg_sdpa_row rows[KG_SDPA_SPOTS]) {
    const uint32_t b = s->n_batch - 1, h = s->n_heads - 1, i = s->n_queries - 1;
    const struct kg_sdpa_row edges[] = { { 0, 0, 0 },  { b, h, i },  { 0, h, 0 },         { b, 0, i },
                                         { 0, 0, 63 }, { b, h, 64 }, { 0, h / 2, i / 2 }, { b, h / 2, i / 2 + 1 } };
    struct kg_rng rng;
    kg_rng_init(&rng, seed, 0);
    for (size_t r = 0; r < KG_SDPA_SPOTS; r++) {
        const bool is_edge = r < KG_COUNT_OF(edges) && edges[r].i <= i;
        rows[r] = is_edge ? edges[r]
                          : (struct kg_sdpa_row){ (uint32_t)kg_rng_below(&rng, s->n_batch),
                                                  (uint32_t)kg_rng_below(&rng, s->n_heads),
                                                  (uint32_t)kg_rng_below(&rng, s->n_queries) };
    }
}

void kg_sdpa_float64(const struct kg_sdpa_shape *s, uint32_t i, const float *q, const float *k, const float *v,
                     double *y) {
    const uint32_t n = n_seen(s, i);
    double unit = 0;
    for (uint32_t d = 0; d < s->head_dim; d++) y[d] = 0;
    if (n > 0) (void)kg_loops_attend(q, k, v, 0, n - 1, s->head_dim, (double)kg_sdpa_softmax_scale(s), y, &unit);
}
