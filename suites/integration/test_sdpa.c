/* What scaled-dot-product attention keeps whatever its numbers are, in every variant: the same bits each time, nothing
 * read or written that is not its own, finite results of finite inputs, zeros where a query sees nothing, sinks that
 * take what they outweigh, and shapes at the ends of their ranges. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/sdpa_problem.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mode {
    const char *backend, *dtype;
    enum kg_precision inputs;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32 },  { "cpu", "f8", KG_PRECISION_F8 },  { "cpu", "i8", KG_PRECISION_I8 },
    { "cuda", "f16", KG_PRECISION_F16 }, { "cuda", "f8", KG_PRECISION_F8 }, { "cuda", "i8", KG_PRECISION_I8 },
};

struct property_case {
    const struct mode *mode;
    enum kg_sdpa_variant variant;
};

/* A case under way. */
struct scene {
    const struct property_case *c;
    struct kg_record *rec;
    struct kg_op_device d;
    size_t n_taken, n_refused;
};

static bool on_gpu(const struct mode *mode) {
    return strcmp(mode->backend, "cpu") != 0;
}

static bool open_scene(struct kg_record *rec, const void *arg, struct scene *scene) {
    *scene = (struct scene){ .c = arg, .rec = rec };
    return kg_op_device_open(rec, scene->c->mode->backend, NULL, &scene->d);
}

static void close_scene(struct scene *scene) {
    kg_op_device_close(&scene->d);
    kg_record_metric(scene->rec, "problems_run", "count", (double)scene->n_taken);
    ck_assert_msg(scene->n_taken > 0, "the variant refuses all of %zu problems", scene->n_refused);
    if (scene->n_refused > 0) kg_record_metric(scene->rec, "problems_refused", "count", (double)scene->n_refused);
}

static struct kg_sdpa_problem new_problem(const struct scene *scene, const struct kg_sdpa_problem_shape *shape) {
    struct kg_sdpa_problem p;
    kg_sdpa_problem_fill(&p, shape, scene->c->mode->inputs, KG_SDPA_NORMAL, kg_record_seed(scene->rec) >> 8);
    return p;
}

/* A named variant may refuse a shape, but for the scalar one; false if it does. */
static bool take(struct scene *scene, struct kg_sdpa_placed *placed, float *got) {
    const enum kg_sdpa_variant variant = scene->c->variant;
    struct kg_error err;
    const enum kg_status status = kg_sdpa_run(&scene->d, placed, variant, &err);
    if (status == KG_ERR_UNSUPPORTED && variant != KG_SDPA_AUTO && variant != KG_SDPA_SCALAR) {
        scene->n_refused++;
        return false;
    }
    kg_op_expect_ok(status, &err);
    kg_sdpa_fetch(&scene->d, placed, got);
    scene->n_taken++;
    return true;
}

/* got[n_want], malloc'ed, NULL if refused. */
static float *run_once(struct scene *scene, const struct kg_sdpa_problem *p, enum kg_sdpa_layout layout) {
    struct kg_sdpa_placed placed;
    float *got = kg_xcalloc(p->q.n + 1, sizeof *got);
    kg_sdpa_place(&scene->d, p, layout, scene->c->mode->inputs, &placed);
    if (!take(scene, &placed, got)) {
        free(got);
        got = NULL;
    }
    kg_op_device_clear(&scene->d);
    return got;
}

/* Rounds, solves, runs and judges by the limits of the tolerance suite. */
static void expect_right(struct scene *scene, struct kg_sdpa_problem *p, enum kg_sdpa_layout layout) {
    char text[KG_SDPA_PROBLEM_TEXT];
    kg_sdpa_problem_round(p);
    float *got = run_once(scene, p, layout);
    if (!got) return;
    struct kg_compare compare;
    kg_sdpa_problem_solve(p, false);
    const struct kg_tolerance tol = kg_sdpa_tolerance(p, on_gpu(scene->c->mode) ? KG_PRECISION_F16 : KG_PRECISION_F32);
    const double margin = kg_sdpa_margin(p, got, &tol, &compare);
    kg_sdpa_problem_text(&p->shape, text);
    ck_assert_msg(margin <= 1,
                  "%s: outside its tolerance by a factor of %.4g: [%zu] is %.9g, %.9g is meant; %zu not finite", text,
                  margin, compare.worst_index, compare.worst_got, compare.worst_want, compare.n_nonfinite);
    free(got);
}

static const struct kg_sdpa_problem_shape SOME[] = {
    { 1, 4, 4, 200, 200, 64, false, 0, false }, { 2, 6, 2, 130, 130, 128, true, 0, true },
    { 1, 6, 2, 65, 513, 80, true, 100, false }, { 1, 4, 2, 1, 700, 96, true, 0, true },
    { 2, 14, 2, 7, 1000, 64, true, 0, false },
};

/* On one workspace, which every call must leave fit for the next. */
static void same_bits_each_time(struct kg_record *rec, const void *arg) {
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    const size_t n_runs = on_gpu(scene.c->mode) ? 100 : 5;
    for (size_t i = 0; i < KG_COUNT_OF(SOME); i++) {
        struct kg_sdpa_problem p = new_problem(&scene, &SOME[i]);
        struct kg_sdpa_placed placed;
        float *first = kg_xcalloc(p.q.n, sizeof *first), *got = kg_xcalloc(p.q.n, sizeof *got);
        kg_sdpa_problem_round(&p);
        kg_sdpa_place(&scene.d, &p, KG_SDPA_DENSE, scene.c->mode->inputs, &placed);
        for (size_t r = 0; r < n_runs && take(&scene, &placed, r ? got : first); r++)
            ck_assert_msg(r == 0 || memcmp(first, got, p.q.n * sizeof *got) == 0, "shape %zu: run %zu differs", i, r);
        free(got);
        free(first);
        kg_sdpa_problem_free(&p);
        kg_op_device_clear(&scene.d);
    }
    close_scene(&scene);
}

/* Two shapes, alternating on a workspace that is large enough for either. */
static void workspace_serves_other_shapes(struct kg_record *rec, const void *arg) {
    static const struct kg_sdpa_problem_shape SHAPES[] = { { 1, 8, 2, 1, 3000, 64, true, 0, false },
                                                           { 2, 6, 3, 16, 130, 128, true, 0, true } };
    struct kg_sdpa_problem p[2];
    struct kg_sdpa_placed placed[2];
    float *first[2], *again[2];
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    uint64_t bytes = 0;
    for (size_t i = 0; i < 2; i++) {
        p[i] = new_problem(&scene, &SHAPES[i]);
        kg_sdpa_problem_round(&p[i]);
        kg_sdpa_place(&scene.d, &p[i], KG_SDPA_DENSE, scene.c->mode->inputs, &placed[i]);
        first[i] = kg_xcalloc(p[i].q.n, sizeof **first);
        again[i] = kg_xcalloc(p[i].q.n, sizeof **again);
        const uint64_t needed = kg_sdpa_workspace_bytes(&placed[i].args);
        if (needed > bytes) bytes = needed;
    }
    void *zeros = kg_xcalloc(bytes, 1);
    placed[0].args.workspace = placed[1].args.workspace = kg_op_device_put(&scene.d, zeros, bytes);
    free(zeros);
    for (size_t iteration = 0; iteration < 6; iteration++) {
        const size_t i = iteration % 2;
        if (take(&scene, &placed[i], iteration < 2 ? first[i] : again[i]) && iteration >= 2)
            ck_assert_msg(memcmp(first[i], again[i], p[i].q.n * sizeof **first) == 0, "iteration %zu differs",
                          iteration);
    }
    for (size_t i = 0; i < 2; i++) {
        free(again[i]);
        free(first[i]);
        kg_sdpa_problem_free(&p[i]);
    }
    kg_op_device_clear(&scene.d);
    close_scene(&scene);
}

/* Lengths that end inside a tile, in a cache whose further positions are NaN; and every other layout: kg_sdpa_place has
 * NaN wherever there is no element, and kg_sdpa_fetch looks at what lies between those of the output. */
static void nothing_beside_the_rows_is_touched(struct kg_record *rec, const void *arg) {
    static const uint32_t LENGTHS[] = { 1, 15, 63, 65, 127, 129, 200 };
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    for (size_t i = 0; i < KG_COUNT_OF(LENGTHS) * 3; i++) {
        const uint32_t n_keys = LENGTHS[i / 3], n_queries = LENGTHS[(i + i / 3) % KG_COUNT_OF(LENGTHS)];
        const struct kg_sdpa_problem_shape shape = { 2,          4, 2,         n_queries, n_keys, i % 2 ? 64 : 128,
                                                     i % 3 != 0, 0, i % 5 == 0 };
        for (int layout = KG_SDPA_DENSE; layout <= KG_SDPA_ODD; layout++) {
            if (layout != KG_SDPA_CACHE && i % 4 != 0) continue;
            struct kg_sdpa_problem p = new_problem(&scene, &shape);
            expect_right(&scene, &p, (enum kg_sdpa_layout)layout);
            kg_sdpa_problem_free(&p);
        }
    }
    close_scene(&scene);
}

/* Sets all of a tensor. */
static void set_all(struct kg_sdpa_tensor *t, float value) {
    for (size_t i = 0; i < t->n; i++) t->original[i] = value;
}

/* Scores of these, all the same or one that takes all; each finite in float32. */
static void change_none(struct kg_sdpa_problem *p) {
    (void)p;
}
static void zero_queries(struct kg_sdpa_problem *p) {
    set_all(&p->q, 0);
}
static void equal_large(struct kg_sdpa_problem *p) {
    set_all(&p->q, 100);
    set_all(&p->k, 100);
}
static void equal_large_negative(struct kg_sdpa_problem *p) {
    set_all(&p->q, 100);
    set_all(&p->k, -100);
}
/* The first key of every head outweighs the rest by more than exp can tell from nothing; a window may hide it. */
static void first_key_takes_all(struct kg_sdpa_problem *p) {
    const size_t dim = p->shape.head_dim;
    set_all(&p->q, 100);
    for (size_t i = 0; i < p->k.n; i++) p->k.original[i] = i / dim % p->shape.n_keys == 0 ? 100 : -100;
}
/* Each key outweighs all before it: every block of keys brings a new maximum. */
static void rising_scores(struct kg_sdpa_problem *p) {
    const size_t dim = p->shape.head_dim;
    set_all(&p->q, 16);
    for (size_t i = 0; i < p->k.n; i++) p->k.original[i] = (float)(i / dim % p->shape.n_keys) - 500;
}
static void falling_scores(struct kg_sdpa_problem *p) {
    const size_t dim = p->shape.head_dim;
    set_all(&p->q, 16);
    for (size_t i = 0; i < p->k.n; i++) p->k.original[i] = 500 - (float)(i / dim % p->shape.n_keys);
}
static void no_scale(struct kg_sdpa_problem *p) {
    p->scale = 0;
}
static void negative_scale(struct kg_sdpa_problem *p) {
    p->scale = -p->scale;
}
static void large_scale(struct kg_sdpa_problem *p) {
    set_all(&p->q, 1);
    set_all(&p->k, 1);
    p->scale = 1e30F;
}

/* All values alike must come out as they are, whatever the weights: 1000 is more than the limits of an error in
 * absolute terms, so that the error is judged as a share. */
static void equal_values_come_out(struct scene *scene, const struct kg_sdpa_problem_shape *shape,
                                  void (*change)(struct kg_sdpa_problem *)) {
    struct kg_sdpa_problem p = new_problem(scene, shape);
    const double rel = on_gpu(scene->c->mode) ? 0x1p-9 : 1e-6;
    change(&p);
    set_all(&p.v, 1000);
    kg_sdpa_problem_round(&p);
    float *got = run_once(scene, &p, KG_SDPA_DENSE);
    for (size_t i = 0; got && i < p.q.n; i++)
        if (!(fabs((double)got[i] - 1000) <= 1000 * rel))
            ck_abort_msg("[%zu] of %zu is %.9g, 1000 is meant", i, p.q.n, got[i]);
    free(got);
    kg_sdpa_problem_free(&p);
}

/* Where only the changed scores matter; sharper ones make rounding of a score another weight and are not held
 * to float64. */
static void finite_inputs_give_finite_results(struct kg_record *rec, const void *arg) {
    static const struct {
        void (*change)(struct kg_sdpa_problem *);
        bool exact;
    } CHANGES[] = { { change_none, true },          { zero_queries, true },  { equal_large, true },
                    { equal_large_negative, true }, { rising_scores, true }, { falling_scores, true },
                    { first_key_takes_all, true },  { no_scale, true },      { negative_scale, true },
                    { large_scale, false } };
    static const struct kg_sdpa_problem_shape SHAPES[] = { { 1, 4, 2, 130, 200, 64, true, 0, false },
                                                           { 1, 2, 2, 65, 300, 128, false, 0, false },
                                                           { 1, 6, 2, 1, 1000, 64, true, 0, false },
                                                           { 1, 4, 2, 130, 200, 96, true, 70, false } };
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    for (size_t i = 0; i < KG_COUNT_OF(CHANGES) * KG_COUNT_OF(SHAPES); i++) {
        const struct kg_sdpa_problem_shape *shape = &SHAPES[i % KG_COUNT_OF(SHAPES)];
        void (*const change)(struct kg_sdpa_problem *) = CHANGES[i / KG_COUNT_OF(SHAPES)].change;
        equal_values_come_out(&scene, shape, change);
        if (!CHANGES[i / KG_COUNT_OF(SHAPES)].exact) continue;
        struct kg_sdpa_problem p = new_problem(&scene, shape);
        change(&p);
        expect_right(&scene, &p, KG_SDPA_DENSE);
        kg_sdpa_problem_free(&p);
    }
    close_scene(&scene);
}

/* expect_right wants zeros there, by kg_sdpa_margin; no keys at all are no pointers either. */
static void queries_that_see_nothing_give_zeros(struct kg_record *rec, const void *arg) {
    static const struct kg_sdpa_problem_shape SHAPES[] = {
        { 1, 4, 2, 65, 1, 64, true, 0, false },   { 2, 4, 2, 200, 3, 64, true, 0, true },
        { 1, 2, 2, 130, 65, 128, true, 1, true }, { 1, 4, 1, 513, 129, 80, true, 64, false },
        { 1, 4, 2, 5, 0, 64, true, 0, true },     { 2, 4, 2, 12, 3, 64, true, 0, true },
        { 1, 4, 2, 70, 0, 96, false, 0, false },
    };
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++) {
        struct kg_sdpa_problem p = new_problem(&scene, &SHAPES[i]);
        kg_sdpa_problem_round(&p);
        float *got = run_once(&scene, &p, KG_SDPA_DENSE);
        for (size_t row = 0; got && row < p.q.n / SHAPES[i].head_dim; row++) {
            const size_t query = row % SHAPES[i].n_queries;
            const bool seen = query + SHAPES[i].n_keys >= SHAPES[i].n_queries && SHAPES[i].n_keys > 0;
            size_t n_zeros = 0; /* two values of E4M3 may cancel, those of a whole row do not */
            for (size_t d = 0; d < SHAPES[i].head_dim; d++) {
                const float x = got[row * SHAPES[i].head_dim + d];
                if (!isfinite(x)) ck_abort_msg("shape %zu, query %zu: %.9g", i, query, x);
                n_zeros += x == 0;
            }
            if (seen ? n_zeros == SHAPES[i].head_dim : n_zeros < SHAPES[i].head_dim)
                ck_abort_msg("shape %zu, query %zu: %zu zeros", i, query, n_zeros);
        }
        free(got);
        kg_sdpa_problem_free(&p);
    }
    close_scene(&scene);
}

/* The same problem with every sink at `sink`. */
static float *with_sink(struct scene *scene, const struct kg_sdpa_problem_shape *shape, float sink) {
    struct kg_sdpa_problem p = new_problem(scene, shape);
    for (size_t h = 0; p.sinks && h < shape->n_heads; h++) p.sinks[h] = sink;
    kg_sdpa_problem_round(&p);
    float *got = run_once(scene, &p, KG_SDPA_DENSE);
    kg_sdpa_problem_free(&p);
    return got;
}

/* One far above all scores takes everything; one far below takes nothing; one of a head is not another's. */
static void sinks_take_what_they_outweigh(struct kg_record *rec, const void *arg) {
    static const struct kg_sdpa_problem_shape SHAPES[] = { { 1, 4, 2, 130, 130, 64, true, 0, true },
                                                           { 1, 6, 2, 1, 700, 128, true, 0, true },
                                                           { 2, 2, 2, 65, 65, 80, false, 0, true } };
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++) {
        struct kg_sdpa_problem_shape none = SHAPES[i];
        const size_t n = (size_t)none.n_batch * none.n_heads * none.n_queries * none.head_dim;
        none.sinks = false;
        float *without = with_sink(&scene, &none, 0), *above = with_sink(&scene, &SHAPES[i], 3e4F);
        float *below = with_sink(&scene, &SHAPES[i], -3e4F);
        for (size_t k = 0; without && above && below && k < n; k++) {
            if (above[k] != 0) ck_abort_msg("shape %zu: [%zu] is %.9g under a sink of 30000", i, k, above[k]);
            if (!(fabs((double)below[k] - (double)without[k]) <= 0x1p-10 * fabs((double)without[k]) + 0x1p-20))
                ck_abort_msg("shape %zu: [%zu] is %.9g under a sink of -30000, %.9g without", i, k, below[k],
                             without[k]);
        }
        free(below);
        free(above);
        free(without);
        struct kg_sdpa_problem p = new_problem(&scene, &SHAPES[i]);
        for (size_t h = 0; h < SHAPES[i].n_heads; h++) p.sinks[h] = h % 2 ? 20 : -20;
        expect_right(&scene, &p, KG_SDPA_PADDED);
        kg_sdpa_problem_free(&p);
    }
    close_scene(&scene);
}

/* The largest finite number where a query must not look, of either sign. */
static void set_loud(enum kg_precision inputs, struct kg_sdpa_tensor *t, size_t i) {
    const bool is_i8 = inputs == KG_PRECISION_I8;
    const float largest = is_i8 ? KG_SDPA_I8_LARGEST : KG_SDPA_E4M3_LARGEST;
    t->values[i] = i % 2 ? largest : -largest;
    if (t->bytes) t->bytes[i] = is_i8 ? (i % 2 ? 0x7F : 0x81) : i % 2 ? 0x7E : 0xFE;
}

/* Queries keep their bits whatever keys and values lie past them; those from key `from` on are loud. */
static void expect_hidden(struct scene *scene, const struct kg_sdpa_problem_shape *shape, size_t from) {
    struct kg_sdpa_problem one = new_problem(scene, shape), other = new_problem(scene, shape);
    kg_sdpa_problem_round(&one);
    kg_sdpa_problem_round(&other);
    for (size_t i = 0; i < other.k.n; i++) {
        if (i / shape->head_dim % shape->n_keys < from) continue;
        set_loud(other.inputs, &other.k, i);
        set_loud(other.inputs, &other.v, i);
    }
    float *a = run_once(scene, &one, KG_SDPA_DENSE), *b = run_once(scene, &other, KG_SDPA_DENSE);
    size_t n_changed = 0;
    for (size_t i = 0; a && b && i < one.q.n; i++) {
        const size_t position = shape->n_keys - shape->n_queries + i / shape->head_dim % shape->n_queries;
        const bool same = kg_same_bits(a[i], b[i]);
        if (!same && position < from) ck_abort_msg("the query at %zu sees keys from %zu on", position, from);
        n_changed += !same;
    }
    ck_assert(!a || n_changed > 0); /* those from there on do see them */
    free(b);
    free(a);
    kg_sdpa_problem_free(&other);
    kg_sdpa_problem_free(&one);
}

static void the_hidden_is_not_seen(struct kg_record *rec, const void *arg) {
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    for (uint32_t window = 0; window <= 40; window += 40) {
        const struct kg_sdpa_problem_shape many = { 1, 4, 2, 200, 200, 64, true, window, false };
        const struct kg_sdpa_problem_shape few = { 1, 4, 2, 12, 200, 64, true, window, false };
        expect_hidden(&scene, &many, 67);
        expect_hidden(&scene, &few, 194);
    }
    close_scene(&scene);
}

/* Head sizes that are no multiple of anything, and lengths and counts at the ends of their ranges: more batch entries
 * and heads than a grid has rows. */
static void any_size_is_right_or_refused(struct kg_record *rec, const void *arg) {
    static const uint32_t HEAD_DIMS[] = { 1, 2, 7, 8, 16, 33, 72, 100, 200, 256 };
    static const struct kg_sdpa_problem_shape LARGE[] = {
        { 1, 2, 1, 3, KG_SDPA_MAX_LENGTH, 64, true, 0, false },
        { 1, 1, 1, KG_SDPA_MAX_LENGTH, 3, 64, false, 0, false },
        { 66000, 1, 1, 1, 2, 64, false, 0, false },
        { 1, 66000, 33000, 1, 2, 64, true, 0, true },
    };
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    for (size_t i = 0; i < KG_COUNT_OF(HEAD_DIMS); i++) {
        const struct kg_sdpa_problem_shape shape = { 2, 4, 2, i % 2 ? 33 : 3, 70, HEAD_DIMS[i], true, 0, i % 3 == 0 };
        struct kg_sdpa_problem p = new_problem(&scene, &shape);
        expect_right(&scene, &p, i % 2 ? KG_SDPA_DENSE : KG_SDPA_ODD);
        kg_sdpa_problem_free(&p);
    }
    for (size_t i = 0; i < KG_COUNT_OF(LARGE) && on_gpu(scene.c->mode); i++) {
        struct kg_sdpa_problem p = new_problem(&scene, &LARGE[i]);
        expect_right(&scene, &p, KG_SDPA_DENSE);
        kg_sdpa_problem_free(&p);
    }
    close_scene(&scene);
}

/* No queries and no batch entries write nothing; precisions of the other kind are refused and named. */
static void empty_calls_and_other_precisions(struct kg_record *rec, const void *arg) {
    static const struct kg_sdpa_problem_shape EMPTY[] = { { 1, 4, 2, 0, 5, 64, true, 0, false },
                                                          { 0, 4, 2, 3, 5, 64, false, 0, true } };
    static const struct kg_sdpa_problem_shape SHAPE = { 1, 4, 2, 3, 5, 64, true, 0, false };
    struct scene scene;
    if (!open_scene(rec, arg, &scene)) return;
    const bool gpu = on_gpu(scene.c->mode);
    for (size_t i = 0; i < KG_COUNT_OF(EMPTY); i++) {
        struct kg_sdpa_problem p = new_problem(&scene, &EMPTY[i]);
        kg_sdpa_problem_round(&p);
        free(run_once(&scene, &p, KG_SDPA_DENSE)); /* kg_sdpa_fetch sees what was written */
        kg_sdpa_problem_free(&p);
    }
    struct kg_sdpa_problem p = new_problem(&scene, &SHAPE);
    struct kg_sdpa_placed placed;
    struct kg_error err;
    kg_sdpa_problem_round(&p);
    kg_sdpa_place(&scene.d, &p, KG_SDPA_DENSE, scene.c->mode->inputs, &placed);
    struct kg_sdpa_args other = placed.args;
    other.variant = scene.c->variant;
    other.output = gpu ? KG_PRECISION_F32 : KG_PRECISION_F16;
    ck_assert_int_eq(scene.d.backend->ops->sdpa(scene.d.backend, &other, &err), KG_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "output") != NULL, "%s", err.message);
    other.output = placed.args.output;
    other.inputs = gpu ? KG_PRECISION_F32 : KG_PRECISION_F16;
    other.q_scale = other.k_scale = other.v_scale = NULL;
    ck_assert_int_eq(scene.d.backend->ops->sdpa(scene.d.backend, &other, &err), KG_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "inputs") != NULL, "%s", err.message);
    kg_sdpa_problem_free(&p);
    kg_op_device_clear(&scene.d);
    close_scene(&scene);
}

static const struct property {
    const char *name;
    void (*run)(struct kg_record *, const void *);
} PROPERTIES[] = {
    { "same_bits_each_time", same_bits_each_time },
    { "workspace_serves_other_shapes", workspace_serves_other_shapes },
    { "nothing_beside_the_rows_is_touched", nothing_beside_the_rows_is_touched },
    { "finite_inputs_give_finite_results", finite_inputs_give_finite_results },
    { "queries_that_see_nothing_give_zeros", queries_that_see_nothing_give_zeros },
    { "sinks_take_what_they_outweigh", sinks_take_what_they_outweigh },
    { "the_hidden_is_not_seen", the_hidden_is_not_seen },
    { "any_size_is_right_or_refused", any_size_is_right_or_refused },
    { "empty_calls_and_other_precisions", empty_calls_and_other_precisions },
};

static struct property_case property_cases[KG_COUNT_OF(MODES) * KG_SDPA_VARIANT_COUNT];

static void build(struct kg_case_list *cases) {
    for (size_t m = 0, n = 0; m < KG_COUNT_OF(MODES); m++)
        for (size_t v = 0; v < (on_gpu(&MODES[m]) ? KG_SDPA_VARIANT_COUNT : 1); v++) {
            static const struct kg_sdpa_problem_shape SMALLEST = { 1, 1, 1, 1, 1, 64, true, 0, false };
            if (kg_sdpa_is_untaken((enum kg_sdpa_variant)v, MODES[m].inputs, &SMALLEST)) continue;
            struct property_case *c = &property_cases[n++];
            *c = (struct property_case){ &MODES[m], (enum kg_sdpa_variant)v };
            for (size_t i = 0; i < KG_COUNT_OF(PROPERTIES); i++) {
                char name[96];
                snprintf(name, sizeof name, "%s_%s", kg_sdpa_variant_name(c->variant), PROPERTIES[i].name);
                kg_case_list_add(cases, &(struct kg_case){ .layer = "integration",
                                                           .op = "sdpa",
                                                           .name = name,
                                                           .backend = MODES[m].backend,
                                                           .dtype = MODES[m].dtype,
                                                           .timeout_s = 120,
                                                           .run = PROPERTIES[i].run,
                                                           .arg = c });
            }
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
