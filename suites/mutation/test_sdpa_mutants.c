/* Wrong scaled-dot-product attentions against the limits of the tolerance suite: each must be outside, and the same
 * loop without its mistake inside. Computed by the reference in float32 from float16 or E4M3 values, and held to the
 * limits that the kernels of those inputs are held to. */
#include "base/buffer.h"
#include "base/size.h"
#include "format/dtype.h"
#include "suites/support/sdpa_problem.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Mistakes in the arguments: the original is called with others. */

static enum kg_status call(struct kg_backend *backend, const struct kg_sdpa_args *args, struct kg_error *err) {
    return kg_cpu_ops.sdpa(backend, args, err);
}

#define DEFINE_MUTANT(name, ...)                                                                                       \
    static enum kg_status name(struct kg_backend *backend, const struct kg_sdpa_args *args, struct kg_error *err) {    \
        struct kg_sdpa_args a = *args;                                                                                 \
        __VA_ARGS__;                                                                                                   \
        return call(backend, &a, err);                                                                                 \
    }
DEFINE_MUTANT(unchanged, (void)a)
DEFINE_MUTANT(dropped_scale, a.scale = 1)
DEFINE_MUTANT(scale_of_head_dim, a.scale *= a.scale)
DEFINE_MUTANT(dropped_mask, a.causal = false, a.window = 0)
DEFINE_MUTANT(own_key_unseen, a.n_keys -= 1)
DEFINE_MUTANT(last_key_forgotten, a.n_keys -= 1)
DEFINE_MUTANT(window_one_wider, a.window += 1)
DEFINE_MUTANT(window_one_narrower, a.window -= 1)
DEFINE_MUTANT(window_ignored, a.window = 0)
DEFINE_MUTANT(sinks_dropped, a.sinks = NULL)
DEFINE_MUTANT(first_batch_for_all, a.k_strides.batch = a.v_strides.batch = 0)
DEFINE_MUTANT(scales_exchanged, const float *k_scale = a.k_scale; a.k_scale = a.v_scale; a.v_scale = k_scale)
DEFINE_MUTANT(q_scale_for_k, a.k_scale = a.q_scale)

/* Query h of batch entry b alone, with KV head g. */
static struct kg_sdpa_args one_head(const struct kg_sdpa_args *args, size_t b, size_t h, size_t g) {
    struct kg_sdpa_args a = *args;
    a.n_batch = a.n_heads = a.n_kv_heads = 1;
    a.q = (const float *)args->q + b * args->q_strides.batch + h * args->q_strides.head;
    a.k = (const float *)args->k + b * args->k_strides.batch + g * args->k_strides.head;
    a.v = (const float *)args->v + b * args->v_strides.batch + g * args->v_strides.head;
    a.y = (float *)args->y + b * args->y_strides.batch + h * args->y_strides.head;
    a.sinks = args->sinks ? args->sinks + h : NULL;
    return a;
}

/* Calls with every head's KV head by `kv_head`. */
static enum kg_status by_head(struct kg_backend *backend, const struct kg_sdpa_args *args,
                              size_t (*kv_head)(const struct kg_sdpa_args *args, size_t h), struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t b = 0; b < args->n_batch; b++)
        for (size_t h = 0; h < args->n_heads && status == KG_OK; h++) {
            const struct kg_sdpa_args a = one_head(args, b, h, kv_head(args, h));
            status = call(backend, &a, err);
        }
    return status;
}

static size_t interleaved(const struct kg_sdpa_args *args, size_t h) {
    return h % args->n_kv_heads;
}
static size_t always_first(const struct kg_sdpa_args *args, size_t h) {
    (void)args, (void)h;
    return 0;
}

static enum kg_status kv_heads_taken_in_turn(struct kg_backend *backend, const struct kg_sdpa_args *args,
                                             struct kg_error *err) {
    return by_head(backend, args, interleaved, err);
}
static enum kg_status first_kv_head_for_all(struct kg_backend *backend, const struct kg_sdpa_args *args,
                                            struct kg_error *err) {
    return by_head(backend, args, always_first, err);
}

/* Causal by one key too many: each query but the last is called alone, as if it were one position further. */
static enum kg_status next_key_seen(struct kg_backend *backend, const struct kg_sdpa_args *args, struct kg_error *err) {
    enum kg_status status = call(backend, args, err);
    for (uint32_t i = 0; i + 1 < args->n_queries && status == KG_OK; i++) {
        struct kg_sdpa_args a = *args;
        if (args->n_keys + i + 2 <= args->n_queries) continue;
        a.n_queries = 1;
        a.n_keys = args->n_keys - args->n_queries + i + 2;
        a.q = (const float *)args->q + i * args->q_strides.row;
        a.y = (float *)args->y + i * args->y_strides.row;
        status = call(backend, &a, err);
    }
    return status;
}

/* What a query that sees nothing must not give: the first value. */
static enum kg_status unseeing_queries_give_a_value(struct kg_backend *backend, const struct kg_sdpa_args *args,
                                                    struct kg_error *err) {
    const enum kg_status status = call(backend, args, err);
    float *y = args->y;
    ck_assert_uint_gt(args->n_queries, args->n_keys);
    y[0] = 1e-6F; /* far below any limit of an error */
    return status;
}

/* Mistakes in the loop: an online softmax over blocks of keys, as kernels have it. */

struct mistakes {
    bool no_rescale;        /* sums keep the scale of an older maximum */
    bool weight_not_scaled; /* the values' sum is rescaled, the weights' is not */
    bool sink_in_numerator; /* the sink is a key with the first value, not one with zeros */
    bool weights_in_e4m3;
    bool half_sums; /* values summed in float16 */
};

static float half_if(bool half, double x) {
    return half ? kg_f16_to_f32(kg_f32_to_f16((float)x)) : (float)x;
}

static void attend(const struct kg_sdpa_args *a, size_t query, const struct mistakes *m) {
    enum { BLOCK = 64 };
    const float *q = (const float *)a->q + query * a->q_strides.row, *k = a->k, *v = a->v;
    const int64_t end = a->causal ? (int64_t)a->n_keys - a->n_queries + (int64_t)query + 1 : a->n_keys;
    double largest = a->sinks ? (double)a->sinks[0] : -INFINITY, weight = a->sinks ? 1 : 0;
    float *sum = kg_xcalloc(a->head_dim, sizeof *sum);
    for (size_t d = 0; d < a->head_dim && m->sink_in_numerator; d++) sum[d] = v[d];
    for (int64_t block = 0; block < end; block += BLOCK) {
        const int64_t stop = block + BLOCK < end ? block + BLOCK : end;
        double scores[BLOCK] = { 0 }, next = largest;
        for (int64_t j = block; j < stop; j++) {
            double score = 0;
            for (size_t d = 0; d < a->head_dim; d++)
                score += (double)q[d] * (double)k[(size_t)j * a->k_strides.row + d];
            scores[j - block] = score * (double)a->scale;
            next = fmax(next, scores[j - block]);
        }
        const double shrink = m->no_rescale ? 1 : exp(largest - next);
        if (!m->weight_not_scaled) weight *= shrink;
        for (size_t d = 0; d < a->head_dim; d++) sum[d] *= (float)shrink;
        largest = next;
        for (int64_t j = block; j < stop; j++) {
            const double exact = exp(scores[j - block] - largest);
            const double p = m->weights_in_e4m3 ? (double)kg_e4m3_to_f32(kg_f32_to_e4m3((float)exact)) : exact;
            weight += p;
            for (size_t d = 0; d < a->head_dim; d++)
                sum[d] = half_if(m->half_sums, (double)sum[d] + p * (double)v[(size_t)j * a->v_strides.row + d]);
        }
    }
    float *y = (float *)a->y + query * a->y_strides.row;
    for (size_t d = 0; d < a->head_dim; d++) y[d] = end > 0 ? (float)(sum[d] / weight) : 0;
    free(sum);
}

static enum kg_status with_mistakes(const struct kg_sdpa_args *args, const struct mistakes *m) {
    ck_assert_uint_eq(args->window, 0);
    for (size_t b = 0; b < args->n_batch; b++)
        for (size_t h = 0; h < args->n_heads; h++) {
            const struct kg_sdpa_args a = one_head(args, b, h, h / (args->n_heads / args->n_kv_heads));
            for (size_t i = 0; i < args->n_queries; i++) attend(&a, i, m);
        }
    return KG_OK;
}

#define DEFINE_LOOP(name, ...)                                                                                         \
    static enum kg_status name(struct kg_backend *backend, const struct kg_sdpa_args *args, struct kg_error *err) {    \
        static const struct mistakes m = { __VA_ARGS__ };                                                              \
        (void)backend, (void)err;                                                                                      \
        return with_mistakes(args, &m);                                                                                \
    }
DEFINE_LOOP(the_loop, .no_rescale = false)
DEFINE_LOOP(no_rescale_on_a_new_maximum, .no_rescale = true)
DEFINE_LOOP(weights_keep_an_old_maximum, .weight_not_scaled = true)
DEFINE_LOOP(sink_in_the_numerator, .sink_in_numerator = true)
DEFINE_LOOP(weights_in_e4m3, .weights_in_e4m3 = true)
DEFINE_LOOP(values_summed_in_float16, .half_sums = true)

/* Shapes of the tolerance suite's configurations. */
#define CAUSAL                                                                                                         \
    { 1, 6, 2, 65, 512, 64, true, 0, false }
#define SQUARE                                                                                                         \
    { 2, 6, 2, 65, 65, 96, true, 0, false }
#define FULL                                                                                                           \
    { 1, 2, 2, 63, 1000, 128, false, 0, false }
#define WINDOW                                                                                                         \
    { 1, 2, 2, 127, 127, 80, true, 48, false }
#define SINKS                                                                                                          \
    { 1, 6, 2, 127, 127, 64, true, 0, true }
#define UNSEEING                                                                                                       \
    { 1, 2, 2, 64, 2, 64, true, 0, false }

typedef enum kg_status sdpa_entry(struct kg_backend *, const struct kg_sdpa_args *, struct kg_error *);
#define MUTANT(name, control, ...)                                                                                     \
    { #name, name, control, __VA_ARGS__ }
static const struct sdpa_mutant {
    const char *name;
    sdpa_entry *wrong, *control;
    struct kg_sdpa_problem_shape shape;
    enum kg_precision inputs;
} MUTANTS[] = {
    MUTANT(dropped_scale, unchanged, CAUSAL, KG_PRECISION_F16),
    MUTANT(scale_of_head_dim, unchanged, CAUSAL, KG_PRECISION_F16),
    MUTANT(dropped_mask, unchanged, SQUARE, KG_PRECISION_F16),
    MUTANT(own_key_unseen, unchanged, CAUSAL, KG_PRECISION_F16),
    MUTANT(next_key_seen, unchanged, { 1, 2, 2, 63, 512, 64, true, 0, false }, KG_PRECISION_F16),
    MUTANT(last_key_forgotten, unchanged, FULL, KG_PRECISION_F16),
    MUTANT(window_one_wider, unchanged, WINDOW, KG_PRECISION_F16),
    MUTANT(window_one_narrower, unchanged, WINDOW, KG_PRECISION_F16),
    MUTANT(window_ignored, unchanged, WINDOW, KG_PRECISION_F16),
    MUTANT(sinks_dropped, unchanged, SINKS, KG_PRECISION_F16),
    MUTANT(first_batch_for_all, unchanged, SQUARE, KG_PRECISION_F16),
    MUTANT(kv_heads_taken_in_turn, unchanged, CAUSAL, KG_PRECISION_F16),
    MUTANT(first_kv_head_for_all, unchanged, SQUARE, KG_PRECISION_F16),
    MUTANT(unseeing_queries_give_a_value, unchanged, UNSEEING, KG_PRECISION_F16),
    MUTANT(no_rescale_on_a_new_maximum, the_loop, CAUSAL, KG_PRECISION_F16),
    MUTANT(weights_keep_an_old_maximum, the_loop, CAUSAL, KG_PRECISION_F16),
    MUTANT(sink_in_the_numerator, the_loop, SINKS, KG_PRECISION_F16),
    MUTANT(weights_in_e4m3, the_loop, CAUSAL, KG_PRECISION_F16),
    MUTANT(values_summed_in_float16, the_loop, FULL, KG_PRECISION_F16),
    MUTANT(scales_exchanged, unchanged, CAUSAL, KG_PRECISION_F8),
    MUTANT(q_scale_for_k, unchanged, { 1, 2, 2, 65, 512, 64, true, 0, false }, KG_PRECISION_F8),
    MUTANT(dropped_scale, unchanged, CAUSAL, KG_PRECISION_F8),
    MUTANT(own_key_unseen, unchanged, CAUSAL, KG_PRECISION_F8),
    MUTANT(scales_exchanged, unchanged, CAUSAL, KG_PRECISION_I8),
    MUTANT(q_scale_for_k, unchanged, { 1, 2, 2, 65, 512, 64, true, 0, false }, KG_PRECISION_I8),
    MUTANT(dropped_scale, unchanged, CAUSAL, KG_PRECISION_I8),
    MUTANT(own_key_unseen, unchanged, CAUSAL, KG_PRECISION_I8),
};

/* Against the limits of a float16 output. Nothing is read or written out of place by any of them. */
static double margin_of(struct kg_record *rec, const struct sdpa_mutant *mutant, sdpa_entry *entry) {
    struct kg_backend_ops ops = kg_cpu_ops;
    struct kg_op_device d;
    struct kg_sdpa_problem p;
    struct kg_sdpa_placed placed;
    struct kg_compare compare;
    struct kg_error err;
    ops.sdpa = entry;
    ck_assert(kg_op_device_open(rec, "cpu", &ops, &d));
    kg_sdpa_problem_fill(&p, &mutant->shape, mutant->inputs, KG_SDPA_NORMAL, kg_record_seed(rec) >> 8);
    kg_sdpa_problem_round(&p);
    kg_sdpa_problem_solve(&p, false);
    kg_sdpa_place(&d, &p, KG_SDPA_DENSE, mutant->inputs == KG_PRECISION_F16 ? KG_PRECISION_F32 : mutant->inputs,
                  &placed);
    float *got = kg_xcalloc(p.n_want, sizeof *got);
    kg_op_expect_ok(kg_sdpa_run(&d, &placed, KG_SDPA_AUTO, &err), &err);
    kg_sdpa_fetch(&d, &placed, got);
    const struct kg_tolerance tol = kg_sdpa_tolerance(&p, KG_PRECISION_F16);
    const double margin = kg_sdpa_margin(&p, got, &tol, &compare);
    ck_assert_uint_eq(compare.n_nonfinite, 0);
    free(got);
    kg_sdpa_problem_free(&p);
    kg_op_device_close(&d);
    return margin;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct sdpa_mutant *mutant = arg;
    const double control = margin_of(rec, mutant, mutant->control), margin = margin_of(rec, mutant, mutant->wrong);
    if (!(control <= 1)) ck_abort_msg("without its mistake it is outside its tolerance by a factor of %.4g", control);
    if (!(margin > 1)) ck_abort_msg("the mutant lives: at %.4g of its tolerance", margin);
    if (isfinite(margin)) kg_record_metric(rec, "kill_factor", "ratio", margin); /* not by a zero that is none */
    kg_record_metric(rec, "control_margin", "ratio", control);
}

/* A variant that refuses what KG_SDPA_UNTAKEN does not say, or takes what it says: some answer of the shapes must be
 * found out. Against them stands a variant that follows the table. */

static const struct kg_sdpa_problem_shape ASKED[] = {
    { 1, 2, 2, 1, 64, 64, true, 0, false },   { 1, 2, 2, 5, 65, 80, true, 0, false },
    { 1, 2, 2, 16, 65, 96, true, 0, false },  { 1, 2, 2, 17, 64, 128, true, 0, false },
    { 1, 6, 2, 64, 512, 64, false, 0, true }, { 1, 6, 2, 3, 513, 64, false, 0, false },
};

static bool as_the_table(enum kg_sdpa_variant v, const struct kg_sdpa_problem_shape *s) {
    return !kg_sdpa_is_untaken(v, KG_PRECISION_F16, s);
}
static bool nothing(enum kg_sdpa_variant v, const struct kg_sdpa_problem_shape *s) {
    (void)v, (void)s;
    return false;
}
static bool no_head_of_80(enum kg_sdpa_variant v, const struct kg_sdpa_problem_shape *s) {
    return as_the_table(v, s) && s->head_dim != 80;
}
static bool fifteen_queries(enum kg_sdpa_variant v, const struct kg_sdpa_problem_shape *s) {
    return as_the_table(v, s) && s->n_queries <= 15;
}
static bool one_key_more(enum kg_sdpa_variant v, const struct kg_sdpa_problem_shape *s) {
    return as_the_table(v, s) || s->n_keys == 513;
}

static const struct refusing {
    const char *name;
    enum kg_sdpa_variant variant;
    bool (*takes)(enum kg_sdpa_variant, const struct kg_sdpa_problem_shape *);
} REFUSING[] = {
    { "split_refuses_everything", KG_SDPA_SPLIT, nothing },
    { "cluster_refuses_everything", KG_SDPA_CLUSTER, nothing },
    { "wgmma_refuses_heads_of_80", KG_SDPA_WGMMA, no_head_of_80 },
    { "split_refuses_16_queries", KG_SDPA_SPLIT, fifteen_queries },
    { "cluster_takes_513_keys", KG_SDPA_CLUSTER, one_key_more },
};

static size_t n_found_out(enum kg_sdpa_variant v,
                          bool (*takes)(enum kg_sdpa_variant, const struct kg_sdpa_problem_shape *)) {
    struct kg_sdpa_share share = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++)
        n += !kg_sdpa_share_count(&share, v, KG_PRECISION_F16, &ASKED[i], takes(v, &ASKED[i]));
    return n;
}

static void refusal_is_found_out(struct kg_record *rec, const void *arg) {
    const struct refusing *r = arg;
    ck_assert_uint_eq(n_found_out(r->variant, as_the_table), 0);
    ck_assert_uint_gt(n_found_out(r->variant, r->takes), 0);
    kg_record_metric(rec, "found_out", "count", (double)n_found_out(r->variant, r->takes));
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(REFUSING); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "mutation",
                                                   .op = "sdpa_variant",
                                                   .name = REFUSING[i].name,
                                                   .backend = "cpu",
                                                   .dtype = "f16",
                                                   .run = refusal_is_found_out,
                                                   .arg = &REFUSING[i] });
    for (size_t i = 0; i < KG_COUNT_OF(MUTANTS); i++) {
        char shape[KG_SDPA_PROBLEM_TEXT];
        kg_sdpa_problem_text(&MUTANTS[i].shape, shape);
        kg_case_list_add(cases, &(struct kg_case){ .layer = "mutation",
                                                   .op = "sdpa",
                                                   .name = MUTANTS[i].name,
                                                   .backend = "cpu",
                                                   .dtype = kg_precision_name(MUTANTS[i].inputs),
                                                   .shape = shape,
                                                   .run = mutant_is_rejected,
                                                   .arg = &MUTANTS[i] });
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
