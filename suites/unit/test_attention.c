/* The reference of attention at its edges, against loops of another form in long double; and that a row's bits depend
 * neither on the threads nor on the rows beside it. */
#include "ops/attention.h"
#include "suites/unit/ops_shared.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct attention_shape {
    const char *name, *shape;
    uint32_t n_rows, n_keys, n_heads, n_kv_heads, head_dim, window;
    bool not_causal, sinks;
};
static const struct attention_shape ATTENTIONS[] = {
    { "first_token", "rows=1 keys=1 heads=2/1 dim=64", 1, 1, 2, 1, 64, 0, false, false },
    { "second_token", "rows=1 keys=2 heads=2/1 dim=64", 1, 2, 2, 1, 64, 0, false, false },
    { "one_below_a_block", "rows=1 keys=63 heads=2/2 dim=64", 1, 63, 2, 2, 64, 0, false, false },
    { "one_block", "rows=1 keys=64 heads=2/2 dim=80", 1, 64, 2, 2, 80, 0, false, false },
    { "one_above_a_block", "rows=1 keys=65 heads=4/2 dim=96", 1, 65, 4, 2, 96, 0, false, false },
    { "keys_511", "rows=1 keys=511 heads=4/2 dim=128", 1, 511, 4, 2, 128, 0, false, false },
    { "keys_512", "rows=1 keys=512 heads=2/1 dim=64", 1, 512, 2, 1, 64, 0, false, false },
    { "keys_513", "rows=1 keys=513 heads=2/1 dim=64", 1, 513, 2, 1, 64, 0, false, false },
    { "keys_1025", "rows=1 keys=1025 heads=2/1 dim=80", 1, 1025, 2, 1, 80, 0, false, false },
    { "keys_4097", "rows=1 keys=4097 heads=14/2 dim=64", 1, 4097, 14, 2, 64, 0, false, false },
    { "prefill_65", "rows=65 keys=65 heads=4/2 dim=64", 65, 65, 4, 2, 64, 0, false, false },
    { "prefill_257_head_96", "rows=257 keys=257 heads=3/1 dim=96", 257, 257, 3, 1, 96, 0, false, false },
    { "rows_at_the_end", "rows=7 keys=130 heads=6/3 dim=80", 7, 130, 6, 3, 80, 0, false, false },
    { "head_of_one", "rows=3 keys=5 heads=1/1 dim=1", 3, 5, 1, 1, 1, 0, false, false },
    { "head_of_seven", "rows=3 keys=70 heads=5/1 dim=7", 3, 70, 5, 1, 7, 0, false, false },
    { "window_of_one", "rows=4 keys=70 heads=2/1 dim=64", 4, 70, 2, 1, 64, 1, false, false },
    { "window_inside_a_block", "rows=70 keys=140 heads=2/1 dim=64", 70, 140, 2, 1, 64, 33, false, false },
    { "window_of_all", "rows=5 keys=70 heads=2/1 dim=64", 5, 70, 2, 1, 64, 70, false, false },
    { "not_causal", "rows=5 keys=70 heads=2/1 dim=64", 5, 70, 2, 1, 64, 0, true, false },
    { "sinks", "rows=5 keys=70 heads=6/2 dim=64", 5, 70, 6, 2, 64, 0, false, true },
    { "sinks_at_one_key", "rows=1 keys=1 heads=4/2 dim=16", 1, 1, 4, 2, 16, 0, false, true },
    { "sinks_and_window", "rows=70 keys=140 heads=4/2 dim=64", 70, 140, 4, 2, 64, 33, false, true },
};

/* All weights of a row first, then one value dim after the other. */
static double *attention_naive(const struct kg_attention_args *a) {
    const float *q = a->q, *k = a->k_cache, *v = a->v_cache;
    double *want = kg_xcalloc((size_t)a->n_rows * a->n_heads * a->head_dim, sizeof *want);
    long double *weight = kg_xcalloc(a->n_keys, sizeof *weight);
    for (size_t row = 0; row < a->n_rows; row++) {
        const size_t position = a->n_keys - a->n_rows + row;
        for (size_t h = 0; h < a->n_heads; h++) {
            const size_t plane = (h * a->n_kv_heads / a->n_heads) * a->n_ctx;
            const float *mine = q + (row * a->n_heads + h) * a->head_dim;
            long double largest = -INFINITY, sum = 0;
            for (size_t j = 0; j < a->n_keys; j++) {
                const bool hidden = (a->causal && j > position) || (a->window && position >= j + a->window);
                long double score = 0;
                for (size_t d = 0; d < a->head_dim; d++)
                    score += (long double)mine[d] * k[(plane + j) * a->head_dim + d];
                weight[j] = hidden ? -INFINITY : score * a->scale;
                if (weight[j] > largest) largest = weight[j];
            }
            const long double sink = a->sinks ? a->sinks[h] : -INFINITY;
            if (sink > largest) largest = sink;
            for (size_t j = 0; j < a->n_keys; j++) sum += weight[j] = expl(weight[j] - largest);
            sum += expl(sink - largest);
            for (size_t d = 0; d < a->head_dim; d++) {
                long double value = 0;
                for (size_t j = 0; j < a->n_keys; j++)
                    if (weight[j] > 0) value += weight[j] * v[(plane + j) * a->head_dim + d];
                want[(row * a->n_heads + h) * a->head_dim + d] = (double)(value / sum);
            }
        }
    }
    free(weight);
    return want;
}

static void attention_case(struct kg_record *rec, const void *arg) {
    const struct attention_shape *s = arg;
    const uint32_t n_ctx = s->n_keys + 3; /* the slots past the keys hold NaN and must not be looked at */
    const size_t row = (size_t)s->n_heads * s->head_dim, n = s->n_rows * row;
    const size_t n_cache = (size_t)s->n_kv_heads * n_ctx * s->head_dim;
    float *q = kg_filled(n, kg_record_seed(rec)), *k = kg_filled(n_cache, kg_record_seed(rec) + 1);
    float *v = kg_filled(n_cache, kg_record_seed(rec) + 2), *sinks = kg_filled(s->n_heads, 3);
    for (size_t h = 0; h < s->n_heads; h++) sinks[h] *= 5; /* above all scores, below them and among them */
    for (size_t h = 0; h < s->n_kv_heads; h++)
        for (size_t i = (size_t)s->n_keys * s->head_dim; i < (size_t)n_ctx * s->head_dim; i++)
            k[h * n_ctx * s->head_dim + i] = v[h * n_ctx * s->head_dim + i] = NAN;
    struct kg_guarded y, again;
    struct kg_error err;
    kg_guarded_init(&y, n);
    struct kg_attention_args args = { .q = q,
                                      .k_cache = k,
                                      .v_cache = v,
                                      .y = y.data,
                                      .n_rows = s->n_rows,
                                      .n_keys = s->n_keys,
                                      .n_heads = s->n_heads,
                                      .n_kv_heads = s->n_kv_heads,
                                      .head_dim = s->head_dim,
                                      .n_ctx = n_ctx,
                                      .scale = 0.37f,
                                      .causal = !s->not_causal,
                                      .window = s->window,
                                      .sinks = s->sinks ? sinks : NULL };
    kg_must(kg_cpu_attention(NULL, &args, &err), &err);
    kg_guarded_expect_written(&y, "y");
    double *want = attention_naive(&args);
    kg_expect_close_f64(rec, "y", y.data, want, n, &KG_ONE_ROUNDING);
    free(want);

    for (size_t i = 0; i < KG_COUNT_OF(KG_POOL_SIZES); i++) {
        struct kg_thread_pool *pool = kg_pool_of(KG_POOL_SIZES[i]);
        kg_guarded_init(&again, n);
        args.y = again.data;
        kg_must(kg_cpu_attention(pool, &args, &err), &err);
        kg_guarded_expect_written(&again, "y on threads");
        ck_assert_mem_eq(again.data, y.data, n * sizeof *y.data);
        kg_guarded_free(&again);
        kg_thread_pool_destroy(pool);
    }
    for (size_t r = 0; r < s->n_rows && args.causal; r++) {
        struct kg_attention_args alone = args;
        kg_guarded_init(&again, row);
        alone.q = q + r * row;
        alone.y = again.data;
        alone.n_rows = 1;
        alone.n_keys = s->n_keys - s->n_rows + (uint32_t)r + 1;
        kg_must(kg_cpu_attention(NULL, &alone, &err), &err);
        kg_guarded_expect_written(&again, "a row alone");
        ck_assert_mem_eq(again.data, y.data + r * row, row * sizeof *y.data);
        kg_guarded_free(&again);
    }
    kg_guarded_free(&y);
    free(sinks);
    free(v);
    free(k);
    free(q);
}

/* Scores of a thousand would overflow exp without the largest taken out; a late larger one rescales what was summed. */
static void attention_large_scores(struct kg_record *rec, const void *arg) {
    (void)arg;
    enum { N_KEYS = 200, LATE = 150 };
    static float k[N_KEYS], v[N_KEYS];
    const float q[] = { 1 };
    struct kg_guarded y;
    struct kg_error err;
    for (int j = 0; j < N_KEYS; j++) {
        k[j] = j == LATE ? 1000 : (float)(j % 7) - 900;
        v[j] = (float)j;
    }
    kg_guarded_init(&y, 1);
    const struct kg_attention_args args = { .q = q,
                                            .k_cache = k,
                                            .v_cache = v,
                                            .y = y.data,
                                            .n_rows = 1,
                                            .n_keys = N_KEYS,
                                            .n_heads = 1,
                                            .n_kv_heads = 1,
                                            .head_dim = 1,
                                            .n_ctx = N_KEYS,
                                            .scale = 1,
                                            .causal = true };
    kg_must(kg_cpu_attention(NULL, &args, &err), &err);
    const double want[] = { LATE };
    kg_expect_close_f64(rec, "y", y.data, want, 1, &KG_ONE_ROUNDING);
    kg_guarded_free(&y);
}

/* A sink far above every score leaves nothing, one far below changes nothing, and neither overflows. */
static void attention_extreme_sinks(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float q[] = { 1, 1 }, k[] = { -3e4f, 2e4f }, v[] = { 5, 7 }, sinks[] = { 3e38f, -3e38f };
    float y[2] = { 9, 9 };
    struct kg_error err;
    const struct kg_attention_args args = { .q = q,
                                            .k_cache = k,
                                            .v_cache = v,
                                            .y = y,
                                            .n_rows = 1,
                                            .n_keys = 2,
                                            .n_heads = 2,
                                            .n_kv_heads = 1,
                                            .head_dim = 1,
                                            .n_ctx = 2,
                                            .scale = 1,
                                            .causal = true,
                                            .sinks = sinks };
    kg_must(kg_cpu_attention(NULL, &args, &err), &err);
    ck_assert_float_eq(y[0], 0);
    ck_assert_float_eq(y[1], 7);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(ATTENTIONS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "attention",
                                                  .spec = "FT-052",
                                                  .name = ATTENTIONS[i].name,
                                                  .backend = "cpu",
                                                  .dtype = "f32",
                                                  .shape = ATTENTIONS[i].shape,
                                                  .definition = "against long double; 1, 2, 3, 7 threads; rows alone",
                                                  .run = attention_case,
                                                  .arg = &ATTENTIONS[i] });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "attention",
                                              .spec = "FT-052",
                                              .name = "large_scores",
                                              .backend = "cpu",
                                              .run = attention_large_scores });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "attention",
                                              .name = "extreme_sinks",
                                              .backend = "cpu",
                                              .run = attention_extreme_sinks });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
