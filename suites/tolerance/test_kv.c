/* FT-053: the KV cache on every back end and in every mixture of precisions: it holds what was written, rounded once to
 * its precision; appended bit by bit or at once it is the same; a full one takes no more; the session's allocation is
 * the formula, for float16 exactly half of float32. */
#include "base/size.h"
#include "engine/kv_cache.h"
#include "suites/support/float64_loops.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define F32 KG_PRECISION_F32
#define F16 KG_PRECISION_F16
static const struct kg_loops_mode MODES[] = {
    { "cpu", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL },
    { "cuda", "f32_kv_f16", F32, F16, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f16_kv_f32", F16, F32, F16, KG_DTYPE_F16, NULL },
};

struct kv_shape {
    const char *name;
    uint32_t n_rows, n_kv_heads, head_dim, n_ctx, position;
};
static const struct kv_shape SHAPES[] = {
    { "second_kv_head", 3, 2, 64, 8, 0 }, { "last_slot", 1, 2, 64, 8, 7 },        { "whole_cache", 8, 3, 80, 8, 0 },
    { "head_of_96", 5, 32, 96, 9, 3 },    { "head_of_128", 2, 8, 128, 513, 511 }, { "middle", 65, 2, 64, 513, 64 },
    { "odd_head_size", 4, 5, 7, 16, 9 },  { "one_slot_one_dim", 1, 1, 1, 1, 0 },  { "long", 512, 2, 64, 4097, 3585 },
    { "nothing", 0, 2, 8, 4, 4 },
};

struct kv_case {
    const struct kg_loops_mode *mode;
    const struct kv_shape *shape;
};
static struct kv_case kv_cases[KG_COUNT_OF(MODES) * (KG_COUNT_OF(SHAPES) + 4)];
static size_t n_kv_cases;

/* A cache of poison, and rows to write into it. */
struct written {
    struct kg_op_device d;
    const struct kg_loops_mode *mode;
    struct kv_shape s;
    float *k, *v; /* (n_rows, heads, dim) as given */
    struct kg_op_output keys, values;
    const void *k_put, *v_put;
};

static bool written_open(struct kg_record *rec, const struct kg_loops_mode *mode, const struct kv_shape *s,
                         struct written *w) {
    *w = (struct written){ .mode = mode, .s = *s };
    if (!kg_loops_open(rec, mode, &w->d)) return false;
    const size_t n = (size_t)s->n_rows * s->n_kv_heads * s->head_dim;
    const size_t plane = (size_t)s->n_kv_heads * s->n_ctx * s->head_dim;
    w->k = kg_loops_normal(n, kg_record_seed(rec), 0, 1, mode->activations);
    w->v = kg_loops_normal(n, kg_record_seed(rec) + 1, 5, 1, mode->activations);
    w->k_put = kg_op_device_put_as(&w->d, w->k, n + 1, mode->activations); /* nothing is no size of memory */
    w->v_put = kg_op_device_put_as(&w->d, w->v, n + 1, mode->activations);
    kg_op_output_init(&w->d, &w->keys, plane, mode->kv);
    kg_op_output_init(&w->d, &w->values, plane, mode->kv);
    return true;
}

static void written_close(struct written *w) {
    kg_op_output_free(&w->values);
    kg_op_output_free(&w->keys);
    free(w->v);
    free(w->k);
    kg_op_device_close(&w->d);
}

/* Rows [first, first + n) to slots from position on. */
static enum kg_status append(struct written *w, uint32_t first, uint32_t n, uint32_t position, struct kg_error *err) {
    const size_t from =
        (size_t)first * w->s.n_kv_heads * w->s.head_dim * (size_t)kg_precision_bytes(w->mode->activations);
    const struct kg_kv_write_args args = { .activations = w->mode->activations,
                                           .kv = w->mode->kv,
                                           .k = (const char *)w->k_put + from,
                                           .v = (const char *)w->v_put + from,
                                           .k_cache = w->keys.y,
                                           .v_cache = w->values.y,
                                           .n_rows = n,
                                           .n_kv_heads = w->s.n_kv_heads,
                                           .head_dim = w->s.head_dim,
                                           .n_ctx = w->s.n_ctx,
                                           .position = position };
    return w->d.backend->ops->kv_write(w->d.backend, &args, err);
}

/* Slots that were written hold the row's values rounded once; all others are still poison. */
static void expect_plane(struct written *w, struct kg_op_output *cache, const float *rows, const char *what) {
    kg_op_output_read(&w->d, cache);
    for (size_t h = 0; h < w->s.n_kv_heads; h++)
        for (size_t p = 0; p < w->s.n_ctx; p++)
            for (size_t d = 0; d < w->s.head_dim; d++) {
                const float got = cache->host.data[(h * w->s.n_ctx + p) * w->s.head_dim + d];
                const bool is_written = p >= w->s.position && p - w->s.position < w->s.n_rows;
                if (!is_written && !isnan(got))
                    ck_abort_msg("%s: head %zu slot %zu dim %zu was touched", what, h, p, d);
                if (!is_written) continue;
                float want = rows[((p - w->s.position) * w->s.n_kv_heads + h) * w->s.head_dim + d];
                kg_loops_round(&want, 1, w->mode->kv);
                if (!kg_same_bits(got, want))
                    ck_abort_msg("%s: head %zu slot %zu dim %zu holds %.9g, not %.9g", what, h, p, d, (double)got,
                                 (double)want);
            }
}

static void expect_written(struct written *w) {
    expect_plane(w, &w->keys, w->k, "keys");
    expect_plane(w, &w->values, w->v, "values");
}

static void round_trip(struct kg_record *rec, const void *arg) {
    const struct kv_case *c = arg;
    struct kg_error err = { 0 };
    struct written w;
    if (!written_open(rec, c->mode, c->shape, &w)) return;
    kg_op_expect_ok(append(&w, 0, w.s.n_rows, w.s.position, &err), &err);
    expect_written(&w);
    written_close(&w);
}

/* One row after the other, as decoding does it. */
static void appended_one_by_one(struct kg_record *rec, const void *arg) {
    static const struct kv_shape S = { .n_rows = 70, .n_kv_heads = 2, .head_dim = 64, .n_ctx = 80, .position = 5 };
    const struct kv_case *c = arg;
    struct kg_error err = { 0 };
    struct written w;
    if (!written_open(rec, c->mode, &S, &w)) return;
    for (uint32_t r = 0; r < S.n_rows; r++) kg_op_expect_ok(append(&w, r, 1, S.position + r, &err), &err);
    expect_written(&w);
    written_close(&w);
}

/* One past the end, and positions far past it: refused by name, and nothing is written. */
static void overflow_is_refused(struct kg_record *rec, const void *arg) {
    static const struct kv_shape S = { .n_rows = 3, .n_kv_heads = 2, .head_dim = 64, .n_ctx = 8, .position = 5 };
    static const struct {
        uint32_t n, position;
    } BEYOND[] = { { 3, 6 }, { 1, 8 }, { 1, 9 }, { 1, UINT32_MAX }, { 2, UINT32_MAX }, { UINT32_MAX, 1 } };
    const struct kv_case *c = arg;
    struct kg_error err = { 0 };
    struct written w;
    if (!written_open(rec, c->mode, &S, &w)) return;
    kg_op_expect_ok(append(&w, 0, S.n_rows, S.position, &err), &err); /* up to the end is good */
    for (size_t i = 0; i < KG_COUNT_OF(BEYOND); i++) {
        const enum kg_status status = append(&w, 0, BEYOND[i].n, BEYOND[i].position, &err);
        ck_assert_msg(status == KG_ERR_RANGE, "%u rows at %u: %s", BEYOND[i].n, BEYOND[i].position,
                      kg_status_name(status));
        ck_assert_msg(err.message[0] != '\0', "the refusal says nothing");
    }
    expect_written(&w);
    written_close(&w);
}

/* Beyond float16's range a cached value is infinite, at the edge and in the middle rounded to nearest even. */
static void values_are_rounded_once(struct kg_record *rec, const void *arg) {
    static const struct kv_shape S = { .n_rows = 1, .n_kv_heads = 1, .head_dim = 8, .n_ctx = 2, .position = 1 };
    static const float GIVEN[8] = {
        65519, -65519, 1.00048828125f, 1.00146484375f, 0x1p-24f, 0x1p-25f, 0x1.8p-24f, -0.0f
    };
    const struct kv_case *c = arg;
    struct kg_error err = { 0 };
    struct written w;
    if (!written_open(rec, c->mode, &S, &w)) return;
    for (size_t i = 0; i < 8; i++) w.k[i] = w.v[i] = GIVEN[i];
    kg_loops_round(w.k, 8, c->mode->activations);
    kg_loops_round(w.v, 8, c->mode->activations);
    w.k_put = kg_op_device_put_as(&w.d, w.k, 8, c->mode->activations);
    w.v_put = kg_op_device_put_as(&w.d, w.v, 8, c->mode->activations);
    kg_op_expect_ok(append(&w, 0, 1, 1, &err), &err);
    expect_written(&w);
    written_close(&w);
}

/* What the allocator hands out is the formula, f16 half of f32, and all of it comes back. */
static void allocated_is_the_formula(struct kg_record *rec, const void *arg) {
    static const struct kg_model_config MODELS[] = { { .n_layers = 24, .n_kv_heads = 2, .head_dim = 64 },
                                                     { .n_layers = 3, .n_kv_heads = 32, .head_dim = 96 },
                                                     { .n_layers = 1, .n_kv_heads = 1, .head_dim = 8 } };
    static const uint32_t CONTEXTS[] = { 1, 512, 1025 };
    const struct kv_case *c = arg;
    struct kg_op_device d;
    struct kg_error err = { 0 };
    if (!kg_loops_open(rec, c->mode, &d)) return;
    for (size_t m = 0; m < KG_COUNT_OF(MODELS); m++)
        for (size_t i = 0; i < KG_COUNT_OF(CONTEXTS); i++) {
            const struct kg_model_config *const config = &MODELS[m];
            const uint64_t elems = 2ull * config->n_layers * config->n_kv_heads * config->head_dim * CONTEXTS[i];
            struct kg_kv_cache cache;
            struct kg_memory_use use;
            kg_op_expect_ok(kg_kv_cache_create(d.backend, config, CONTEXTS[i], c->mode->kv, &cache, &err), &err);
            kg_backend_memory(d.backend, &use);
            ck_assert_uint_eq(use.current_bytes[KG_MEMORY_KV], elems * (c->mode->kv == F16 ? 2 : 4));
            ck_assert_uint_eq(use.current_bytes[KG_MEMORY_KV], kg_kv_cache_bytes(config, CONTEXTS[i], c->mode->kv));
            kg_kv_cache_free(d.backend, &cache);
            kg_backend_memory(d.backend, &use);
            ck_assert_uint_eq(use.current_bytes[KG_MEMORY_KV], 0);
        }
    kg_op_device_close(&d);
}

static void add(struct kg_case_list *cases, size_t mode, const struct kv_shape *s, const char *name,
                void (*run)(struct kg_record *, const void *)) {
    struct kv_case *c = &kv_cases[n_kv_cases++];
    char shape[80];
    *c = (struct kv_case){ &MODES[mode], s };
    if (s)
        snprintf(shape, sizeof shape, "rows=%u heads=%u dim=%u ctx=%u at=%u", s->n_rows, s->n_kv_heads, s->head_dim,
                 s->n_ctx, s->position);
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = "kv_cache",
                                               .name = name,
                                               .backend = MODES[mode].backend,
                                               .dtype = MODES[mode].dtype,
                                               .shape = s ? shape : NULL,
                                               .spec = "FT-053",
                                               .run = run,
                                               .arg = c });
}

static void build(struct kg_case_list *cases) {
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++) add(cases, m, &SHAPES[i], SHAPES[i].name, round_trip);
        add(cases, m, NULL, "appended_one_by_one", appended_one_by_one);
        add(cases, m, NULL, "overflow_is_refused", overflow_is_refused);
        add(cases, m, NULL, "values_are_rounded_once", values_are_rounded_once);
        add(cases, m, NULL, "allocated_is_the_formula", allocated_is_the_formula);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
