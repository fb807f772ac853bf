/* attention_weights against float64 loops, every element relative to itself, at shapes on both sides of each tile; with
 * windows, sinks, shared KV heads and queries that see no key; mistakes that must be outside; calls that are refused.
 */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/float64_loops.h"
#include "suites/support/plain_f16.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const struct kg_backend_ops *plain_f16(void) {
    return kg_plain_f16(KG_PLAIN_F16_ELEMENTARY);
}

static const struct mode {
    const char *backend, *dtype;
    enum kg_precision activations;
    const struct kg_backend_ops *(*ops)(void); /* NULL: the back end's */
} MODES[] = { { "cpu", "f32", KG_PRECISION_F32, NULL },
              { "cpu", "plain_f16", KG_PRECISION_F16, plain_f16 },
              { "cuda", "f32", KG_PRECISION_F32, NULL },
              { "cuda", "f16", KG_PRECISION_F16, NULL } };

static bool open_mode(struct kg_record *rec, const struct mode *mode, struct kg_op_device *d) {
    return kg_op_device_open(rec, mode->backend, mode->ops ? mode->ops() : NULL, d);
}

static const struct shape {
    const char *name;
    uint32_t n_queries, n_keys, n_heads, n_kv_heads, head_dim, window;
    bool causal, sinks;
    double deviation; /* of q: scores of so many deviations */
} SHAPES[] = {
    { "one_of_each", 1, 1, 1, 1, 1, 0, false, false, 1 },
    { "one_query", 1, 513, 4, 2, 64, 0, true, false, 1 },
    { "tile_less_one", 63, 63, 2, 1, 64, 0, true, false, 1 },
    { "one_tile", 64, 64, 2, 2, 64, 0, false, false, 1 },
    { "tile_and_one", 65, 65, 3, 1, 64, 0, true, false, 1 },
    { "last_of_many_keys", 17, 300, 4, 4, 96, 0, true, false, 1 },
    { "head_128_shared_by_four", 130, 200, 8, 2, 128, 0, true, false, 1 },
    { "head_256", 33, 129, 2, 1, 256, 0, false, false, 1 },
    { "head_80", 40, 90, 4, 2, 80, 0, true, false, 1 },
    { "head_of_no_vectors", 9, 70, 2, 1, 65, 0, true, false, 1 },
    { "head_beyond_the_tensor_cores", 5, 40, 2, 1, 264, 0, true, false, 1 },
    { "window", 130, 200, 2, 1, 64, 33, true, false, 1 },
    { "window_of_one", 70, 140, 2, 1, 64, 1, true, false, 1 },
    { "window_beyond_the_keys", 20, 30, 2, 1, 64, 1000, true, false, 1 },
    { "sinks", 66, 130, 6, 2, 64, 0, true, true, 1 },
    { "window_and_sinks", 80, 300, 4, 2, 64, 100, true, true, 1 },
    { "queries_without_keys", 200, 70, 2, 1, 64, 0, true, false, 1 },
    { "queries_without_keys_but_sinks", 90, 3, 2, 1, 40, 0, true, true, 1 },
    { "peaked", 65, 257, 2, 1, 128, 0, true, false, 4 },
    { "a_block_of_keys_and_one", 40, 257, 2, 1, 128, 0, false, false, 1 },
    { "four_blocks_of_keys", 70, 1000, 4, 2, 96, 0, true, false, 1 },
    { "blocks_of_keys_in_a_window", 140, 2000, 2, 1, 128, 300, true, true, 1 },
    { "blocks_without_a_seen_key", 1500, 1501, 1, 1, 64, 0, true, false, 1 },
    { "more_blocks_than_keys_fill", 20, 2305, 3, 1, 64, 0, true, true, 4 },
    { "keys_in_no_vectors", 66, 1203, 2, 2, 128, 0, true, false, 1 },
    { "as_many_keys_as_registers_hold", 65, 4096, 2, 1, 64, 0, true, false, 1 },
    { "one_key_more_than_registers_hold", 65, 4097, 2, 1, 64, 0, true, false, 1 },
    { "two_passes_in_a_window_with_sinks", 140, 4200, 2, 1, 128, 300, true, true, 1 },
    { "two_passes_in_no_vectors", 66, 4203, 4, 2, 96, 0, true, false, 1 },
    { "two_passes_of_many_tiles", 200, 4352, 1, 1, 64, 0, true, false, 4 },
    { "head_256_in_a_window_with_sinks", 70, 200, 4, 2, 256, 90, true, true, 1 },
    { "more_keys_than_a_block_has_room_for", 3, 70001, 1, 1, 64, 0, true, false, 1 },
};

struct weights_case {
    const struct mode *mode;
    const struct shape *shape;
};

struct problem {
    const struct shape *shape;
    struct kg_attention_weights_args args; /* without pointers */
    float *q, *k, *sinks;                  /* of values that the precision holds; sinks NULL for none */
    size_t n_q, n_k, n_y;
};

static void problem_init(struct problem *p, const struct mode *mode, const struct shape *s) {
    *p = (struct problem){ .shape = s };
    p->n_q = (size_t)s->n_queries * s->n_heads * s->head_dim;
    p->n_k = (size_t)s->n_keys * s->n_kv_heads * s->head_dim;
    p->n_y = (size_t)s->n_heads * s->n_queries * s->n_keys;
    p->q = kg_loops_normal(p->n_q, 1, 0, s->deviation, mode->activations);
    p->k = kg_loops_normal(p->n_k, 2, 0, 1, mode->activations);
    p->sinks = s->sinks ? kg_loops_normal(s->n_heads, 3, 2, 1, KG_PRECISION_F32) : NULL;
    p->args = (struct kg_attention_weights_args){
        .activations = mode->activations,
        .n_queries = s->n_queries,
        .n_keys = s->n_keys,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .scale = (float)(1 / sqrt((double)s->head_dim)),
        .causal = s->causal,
        .window = s->window,
    };
}

static void problem_free(struct problem *p) {
    free(p->sinks);
    free(p->k);
    free(p->q);
}

static bool sees(const struct shape *s, size_t query, size_t key) {
    const int64_t position = (int64_t)s->n_keys - s->n_queries + (int64_t)query, apart = position - (int64_t)key;
    return !s->causal || (apart >= 0 && (s->window == 0 || apart < (int64_t)s->window));
}

struct solution {
    const struct problem *problem;
    double *want;  /* (n_heads, n_queries, n_keys) */
    double *units; /* of a row: the largest sum|q k| scale that was seen */
};

static void solve_rows(void *arg, size_t begin, size_t end) {
    const struct solution *solution = arg;
    const struct problem *p = solution->problem;
    const struct shape *s = p->shape;
    const size_t dim = s->head_dim;
    for (size_t r = begin; r < end; r++) {
        const size_t h = r / s->n_queries, i = r % s->n_queries, g = h * s->n_kv_heads / s->n_heads;
        double *want = solution->want + r * s->n_keys, largest = p->sinks ? (double)p->sinks[h] : -HUGE_VAL, sum = 0;
        for (size_t j = 0; j < s->n_keys; j++) {
            double score = 0, unit = 0;
            for (size_t d = 0; d < dim; d++) {
                const double product = (double)p->q[(i * s->n_heads + h) * dim + d] *
                                       (double)p->k[(j * s->n_kv_heads + g) * dim + d] * (double)p->args.scale;
                score += product, unit += fabs(product);
            }
            want[j] = score;
            if (!sees(s, i, j)) continue;
            largest = fmax(largest, score);
            solution->units[r] = fmax(solution->units[r], unit);
        }
        for (size_t j = 0; j < s->n_keys; j++) {
            want[j] = sees(s, i, j) ? exp(want[j] - largest) : 0;
            sum += want[j];
        }
        if (p->sinks) sum += exp((double)p->sinks[h] - largest);
        for (size_t j = 0; j < s->n_keys; j++)
            if (want[j] > 0) want[j] /= sum;
    }
}

/* The weights in float64, malloc'ed, and what a back end's may be away from them. */
static double *solve(const struct problem *p, const struct mode *mode, struct kg_tolerance *tol) {
    const struct shape *s = p->shape;
    const size_t n_rows = (size_t)s->n_heads * s->n_queries;
    struct solution solution = { p, kg_xcalloc(p->n_y, sizeof *solution.want), kg_xcalloc(n_rows, sizeof(double)) };
    kg_loops_on_all_processors(n_rows, (double)p->n_y * s->head_dim, solve_rows, &solution);
    double unit = 0;
    for (size_t r = 0; r < n_rows; r++) unit = fmax(unit, solution.units[r]);
    free(solution.units);
    /* A score's error becomes a weight's relative error, and once more through the sum; the sum itself rounds once for
     * each of a tree's levels and of a thread's keys. */
    const double score = (8 + sqrt((double)s->head_dim)) * KG_ROUNDOFF * unit;
    const double sums = (16 + sqrt((double)s->n_keys)) * KG_ROUNDOFF;
    *tol = (struct kg_tolerance){
        .mixed_abs = 0x1p-126,
        .mixed_rel = 2 * score + sums,
        .why = "of each weight: twice what float32 sums of the scores' products may be off, and the sum of weights",
        .far = "products of both signs: scores use little of what sum|q k| allows",
    };
    if (mode->activations == KG_PRECISION_F32 && strcmp(mode->backend, "cpu") == 0)
        *tol = (struct kg_tolerance){ .mixed_abs = 0x1p-149,
                                      .mixed_rel = 1.01 * KG_ROUNDOFF,
                                      .why = "sums in double, rounded once to float32" };
    if (mode->activations == KG_PRECISION_F16) tol->mixed_abs = KG_ROUNDOFF_F16_ABS, tol->mixed_rel += KG_ROUNDOFF_F16;
    return solution.want;
}

/* y on the device, not yet read. */
static void run(struct kg_op_device *d, const struct problem *p, const struct kg_attention_weights_args *changed,
                struct kg_op_output *y) {
    struct kg_attention_weights_args args = *changed;
    struct kg_error err;
    kg_op_output_init(d, y, p->n_y, args.activations);
    args.q = kg_op_device_put_as(d, p->q, p->n_q, args.activations);
    args.k = kg_op_device_put_as(d, p->k, p->n_k, args.activations);
    args.sinks = p->sinks ? kg_op_device_put(d, p->sinks, p->shape->n_heads * sizeof *p->sinks) : NULL;
    args.y = y->y;
    kg_op_expect_ok(d->backend->ops->attention_weights(d->backend, &args, &err), &err);
}

static void against_float64(struct kg_record *rec, const void *arg) {
    const struct weights_case *c = arg;
    struct kg_op_device d;
    struct kg_op_output y, again;
    struct kg_tolerance tol;
    struct problem p;
    if (!open_mode(rec, c->mode, &d)) return;
    problem_init(&p, c->mode, c->shape);
    double *want = solve(&p, c->mode, &tol);
    run(&d, &p, &p.args, &y);
    kg_op_output_read_all(&d, &y, "weights");
    run(&d, &p, &p.args, &again);
    kg_op_output_read_all(&d, &again, "weights again");
    for (size_t i = 0; i < p.n_y; i++) {
        const size_t query = i / c->shape->n_keys % c->shape->n_queries, key = i % c->shape->n_keys;
        if (!sees(c->shape, query, key) && !(y.host.data[i] == 0)) ck_abort_msg("an unseen key has a weight");
        if (!kg_same_bits(y.host.data[i], again.host.data[i])) ck_abort_msg("element %zu differs the second time", i);
    }
    kg_expect_close_f64(rec, "weights", y.host.data, want, p.n_y, &tol);
    free(want);
    kg_op_output_free(&again);
    kg_op_output_free(&y);
    problem_free(&p);
    kg_op_device_close(&d);
}

/* Mistakes that a kernel could make, made in the arguments. */
static void scale_left_out(struct problem *p, struct kg_attention_weights_args *a) {
    (void)p;
    a->scale = 1;
}
static void window_of_one_more(struct problem *p, struct kg_attention_weights_args *a) {
    (void)p;
    a->window++;
}
static void sees_all_keys(struct problem *p, struct kg_attention_weights_args *a) {
    (void)p;
    a->causal = false, a->window = 0;
}
static void sink_of_the_next_head(struct problem *p, struct kg_attention_weights_args *a) {
    const float first = p->sinks[0];
    for (uint32_t h = 0; h + 1 < a->n_heads; h++) p->sinks[h] = p->sinks[h + 1];
    p->sinks[a->n_heads - 1] = first;
}
static void last_dim_left_out(struct problem *p, struct kg_attention_weights_args *a) {
    for (size_t i = a->head_dim - 1; i < p->n_q; i += a->head_dim) p->q[i] = 0;
}
static void one_key_of_the_next_head(struct problem *p, struct kg_attention_weights_args *a) {
    float *k = p->k + p->n_k - (size_t)a->n_kv_heads * a->head_dim;
    for (uint32_t d = 0; d < a->head_dim; d++) k[d] = k[a->head_dim + d];
}

static const struct mutant {
    const char *name;
    void (*change)(struct problem *p, struct kg_attention_weights_args *a);
} MUTANTS[] = {
    { "scale_left_out", scale_left_out },       { "window_of_one_more", window_of_one_more },
    { "sees_all_keys", sees_all_keys },         { "sink_of_the_next_head", sink_of_the_next_head },
    { "last_dim_left_out", last_dim_left_out }, { "one_key_of_the_next_head", one_key_of_the_next_head },
};

struct mutant_case {
    const struct mode *mode;
    const struct mutant *mutant;
};

static void mutant_is_outside(struct kg_record *rec, const void *arg) {
    static const struct shape SHAPE = { "mutant", 80, 300, 4, 2, 64, 100, true, true, 1 };
    const struct mutant_case *c = arg;
    struct kg_op_device d;
    struct kg_op_output y;
    struct kg_tolerance tol;
    struct kg_compare compare;
    struct problem p;
    double margin;
    if (!open_mode(rec, c->mode, &d)) return;
    problem_init(&p, c->mode, &SHAPE);
    double *want = solve(&p, c->mode, &tol);
    struct kg_attention_weights_args args = p.args;
    c->mutant->change(&p, &args);
    run(&d, &p, &args, &y);
    kg_op_output_read_all(&d, &y, "weights");
    kg_compare_f64(y.host.data, want, p.n_y, &compare);
    (void)kg_within(&compare, &tol, &margin);
    kg_record_compare(rec, "weights", &compare, &tol);
    ck_assert_msg(margin > 1, "the wrong weights are within the limit: %g of it", margin);
    free(want);
    kg_op_output_free(&y);
    problem_free(&p);
    kg_op_device_close(&d);
}

/* A NaN among the keys that a query sees makes all it sees NaN, and nobody else's weights; -inf is a weight of 0. */
static void not_finite(struct kg_record *rec, const void *arg) {
    static const struct shape SHAPE = { "not_finite", 3, 70, 1, 1, 64, 0, true, false, 1 };
    const struct mode *mode = arg;
    struct kg_op_device d;
    struct kg_op_output y;
    struct problem p;
    if (!open_mode(rec, mode, &d)) return;
    problem_init(&p, mode, &SHAPE);
    for (size_t i = 0; i < p.n_q; i++) p.q[i] = 1;
    p.k[69 * (size_t)SHAPE.head_dim] = NAN;      /* seen by the last query alone */
    p.k[5 * (size_t)SHAPE.head_dim] = -INFINITY; /* seen by all */
    run(&d, &p, &p.args, &y);
    kg_op_output_read(&d, &y);
    const float *rows = y.host.data;
    for (size_t j = 0; j < SHAPE.n_keys; j++) {
        ck_assert_msg(isnan(rows[2 * SHAPE.n_keys + j]), "key %zu of the row with a NaN", j);
        for (size_t i = 0; i < 2; i++) {
            const float w = rows[i * SHAPE.n_keys + j];
            if (!sees(&SHAPE, i, j) || j == 5) ck_assert_msg(w == 0, "key %zu of query %zu: %g", j, i, (double)w);
            else ck_assert_msg(w > 0 && w < 1, "key %zu of query %zu: %g", j, i, (double)w);
        }
    }
    kg_op_output_free(&y);
    problem_free(&p);
    kg_op_device_close(&d);
}

/* What a call must not be, and the message names. */
static void refused(struct kg_record *rec, const void *arg) {
    float x[8] = { 0 }, y[8];
    struct kg_error err;
    const struct kg_attention_weights_args good = {
        .q = x, .k = x, .y = y, .n_queries = 1, .n_keys = 2, .n_heads = 2, .n_kv_heads = 1, .head_dim = 4, .scale = 1
    };
    struct kg_attention_weights_args bad[9];
    const char *const says[] = { "q, k or y", "q, k or y", "0 dims",         "2049 dims", "2 heads cannot share 0",
                                 "3 heads",   "nan",       "without causal", "f16" };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) bad[i] = good;
    bad[0].k = NULL, bad[1].y = NULL;
    bad[2].head_dim = 0, bad[3].head_dim = 2049;
    bad[4].n_kv_heads = 0;
    bad[5].n_heads = 3, bad[5].n_kv_heads = 2;
    bad[6].scale = NAN;
    bad[7].window = 1;
    bad[8].activations = KG_PRECISION_F16;
    ck_assert_int_eq(kg_attention_weights_check(&good, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) {
        ck_assert_int_eq(kg_cpu_attention_weights(NULL, &bad[i], &err), i == 8 ? KG_ERR_UNSUPPORTED : KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, says[i]), "'%s' does not say '%s'", err.message, says[i]);
    }
    struct kg_attention_weights_args nothing = good;
    nothing.n_queries = 0;
    kg_op_expect_ok(kg_cpu_attention_weights(NULL, &nothing, &err), &err);
}

static void add(struct kg_case_list *list, const char *layer, const struct mode *mode, const char *name,
                void (*run_it)(struct kg_record *rec, const void *arg), const void *arg) {
    kg_case_list_add(list, &(struct kg_case){ .layer = layer,
                                              .op = "attention_weights",
                                              .name = name,
                                              .backend = mode->backend,
                                              .dtype = mode->dtype,
                                              .spec = "FT-055",
                                              .run = run_it,
                                              .arg = arg });
}

static void build(struct kg_case_list *list) {
    static struct weights_case cases[KG_COUNT_OF(MODES) * KG_COUNT_OF(SHAPES)];
    static struct mutant_case mutants[KG_COUNT_OF(MODES) * KG_COUNT_OF(MUTANTS)];
    size_t n = 0, n_mutants = 0;
    kg_case_list_add(
        list, &(struct kg_case){ .layer = "tolerance", .op = "attention_weights", .name = "refused", .run = refused });
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++) {
            cases[n] = (struct weights_case){ &MODES[m], &SHAPES[i] };
            add(list, "tolerance", &MODES[m], SHAPES[i].name, against_float64, &cases[n++]);
        }
        add(list, "tolerance", &MODES[m], "not_finite", not_finite, &MODES[m]);
        for (size_t i = 0; i < KG_COUNT_OF(MUTANTS); i++) {
            mutants[n_mutants] = (struct mutant_case){ &MODES[m], &MUTANTS[i] };
            add(list, "mutation", &MODES[m], MUTANTS[i].name, mutant_is_outside, &mutants[n_mutants++]);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
