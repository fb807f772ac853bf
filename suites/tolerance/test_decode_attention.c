/* FT-052: the attention of a decode step as the engine has it: the number of keys is read on the device, the launches
 * are captured for all of the context, and memory is zeroed once. Every length twice, up and down: the second time has
 * the bits of the first, whatever lay between. */
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/attention_step.h"
#include "suites/support/float64_loops.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32 KG_PRECISION_F32
#define F16 KG_PRECISION_F16
static const struct kg_loops_mode MODES[] = {
    { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL },
    { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f32_kv_f16", F32, F16, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f16_kv_f32", F16, F32, F16, KG_DTYPE_F16, NULL },
};

/* One block, more than one, more than a cluster, more than one cluster; few keys, the most of them, and more. A context
 * has some positions more than the most keys. */
static const uint32_t LENGTHS[] = {
    1, 127, 128, 129, 253, 256, 257, 381, 384, 385, 1000, 1024, 1025, 2048, 8192, 32768
};
enum { N_LENGTHS = KG_COUNT_OF(LENGTHS), HIDDEN = 64 };

struct step_shape {
    uint32_t n_heads, n_kv_heads, head_dim, window, most_keys;
    bool sinks, all_modes;
    const char *kernel; /* in float16 throughout, on GPUs of compute capability 9.0 */
};
#define BY_KEYS "few_keys, split" /* each at its keys */
static const struct step_shape SHAPES[] = {
    { 14, 2, 64, 0, 32768, false, false, BY_KEYS },     { 14, 2, 64, 0, 2048, false, true, BY_KEYS },
    { 32, 32, 96, 0, 8192, false, false, BY_KEYS },     { 64, 8, 64, 0, 32768, true, false, BY_KEYS },
    { 64, 8, 64, 128, 32768, true, false, "few_keys" }, { 64, 8, 64, 128, 2048, true, true, "few_keys" },
    { 32, 8, 128, 0, 32768, false, false, BY_KEYS },    { 4, 1, 256, 0, 8192, false, true, "cuda_cores" },
    { 5, 1, 80, 0, 32768, false, true, "split" },       { 34, 2, 128, 0, 2048, true, false, BY_KEYS },
    { 64, 8, 64, 0, 1000, true, true, BY_KEYS },        { 14, 2, 64, 96, 1000, false, true, "few_keys" },
    { 9, 1, 64, 0, 1000, true, false, BY_KEYS },        { 12, 12, 64, 0, 1000, false, true, BY_KEYS },
    { 32, 8, 128, 0, 1000, false, true, BY_KEYS },      { 32, 32, 96, 0, 1000, false, true, BY_KEYS },
    { 64, 8, 64, 0, 253, true, true, "few_keys" },      { 32, 8, 128, 0, 381, false, true, "few_keys" },
    { 12, 12, 64, 0, 253, false, true, "few_keys" },    { 12, 12, 64, 300, 1000, true, true, BY_KEYS },
    { 6, 2, 96, 96, 1000, true, true, "few_keys" },     { 34, 2, 128, 0, 1000, true, true, BY_KEYS },
};

/* few_keys has any activations beside a float16 cache, split float16 alone. */
static const char *kernel_of(const struct step_shape *s, const struct kg_loops_mode *mode) {
    if (mode->kv == F16 && (mode->activations == F16 || strcmp(s->kernel, "few_keys") == 0)) return s->kernel;
    return mode->kv == F16 && strcmp(s->kernel, BY_KEYS) == 0 ? "few_keys, cuda_cores" : "cuda_cores";
}

struct step_case {
    const struct kg_loops_mode *mode;
    const struct step_shape *shape;
};
static struct step_case step_cases[KG_COUNT_OF(MODES) * KG_COUNT_OF(SHAPES)];
static size_t n_step_cases;

/* Keys and values of positions from n_keys on become NaN, up to HIDDEN of them, or what they were. */
static void hide(struct kg_op_device *d, const struct kg_loops_mode *mode, const struct step_shape *s,
                 const struct kg_loops_attended *a, void *cache, const float *values, uint32_t n_keys, bool hides) {
    const size_t n = a->n_ctx - n_keys < HIDDEN ? a->n_ctx - n_keys : HIDDEN, elem = kg_precision_bytes(mode->kv);
    struct kg_error err;
    float nan[HIDDEN * 256];
    for (size_t i = 0; i < n * s->head_dim; i++) nan[i] = NAN;
    for (size_t h = 0; h < s->n_kv_heads; h++) {
        const size_t at = (h * a->n_ctx + n_keys) * s->head_dim;
        const float *from = hides ? nan : values + at;
        uint8_t bytes[sizeof nan];
        for (size_t i = 0; i < n * s->head_dim; i++) {
            const uint16_t half = kg_f32_to_f16(from[i]);
            memcpy(bytes + i * elem, mode->kv == F16 ? (const void *)&half : (const void *)(from + i), elem);
        }
        kg_op_expect_ok(
            d->backend->ops->upload(d->backend, (uint8_t *)cache + at * elem, bytes, n * s->head_dim * elem, &err),
            &err);
    }
}

static void poison(struct kg_op_output *y) {
    for (size_t i = 0; i < y->host.n; i++) y->host.data[i] = NAN;
}

static void as_the_engine_has_it(struct kg_record *rec, const void *arg) {
    const struct step_case *c = arg;
    const struct step_shape *shape = c->shape;
    const struct kg_loops_mode *mode = c->mode;
    struct kg_loops_attention s = {
        1, shape->most_keys, shape->n_heads, shape->n_kv_heads, shape->head_dim, shape->window
    };
    struct kg_loops_attended a;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_loops_open(rec, mode, &d)) return;
    kg_loops_attention_init(mode, &s, kg_record_seed(rec), &a);
    float *sinks = kg_loops_normal(s.n_heads, kg_record_seed(rec) + 3, 1, 1, F32);
    if (shape->sinks) a.sinks = sinks;
    const struct kg_attention_args args = kg_loops_attention_args(&d, mode, &s, &a);
    struct kg_attention_step step;
    kg_attention_step_open(d.backend, &args, 1, &step);
    kg_attention_step_expect(rec, &step, kernel_of(shape, mode));
    float *first[N_LENGTHS] = { NULL };
    for (size_t i = 0; i < 2 * (size_t)N_LENGTHS; i++) {
        const size_t l = i < N_LENGTHS ? i : 2 * N_LENGTHS - 1 - i;
        s.n_keys = LENGTHS[l];
        if (s.n_keys > shape->most_keys) continue;
        hide(&d, mode, shape, &a, (void *)args.k_cache, a.k, s.n_keys, true);
        hide(&d, mode, shape, &a, (void *)args.v_cache, a.v, s.n_keys, true);
        kg_op_expect_ok(kg_attention_step_run(&step, s.n_keys, &err), &err);
        poison(&a.y);
        kg_op_output_read_all(&d, &a.y, "a step's attention");
        if (!first[l]) {
            first[l] = kg_op_device_own(&d, malloc(a.n_q * sizeof(float)));
            ck_assert_ptr_nonnull(first[l]);
            memcpy(first[l], a.y.host.data, a.n_q * sizeof(float));
            kg_loops_attention_judge(rec, mode, &s, &a);
        }
        for (size_t j = 0; j < a.n_q; j++)
            ck_assert_msg(kg_same_bits(first[l][j], a.y.host.data[j]), "%u keys again: element %zu is %.9g, was %.9g",
                          s.n_keys, j, (double)a.y.host.data[j], (double)first[l][j]);
        hide(&d, mode, shape, &a, (void *)args.k_cache, a.k, s.n_keys, false);
        hide(&d, mode, shape, &a, (void *)args.v_cache, a.v, s.n_keys, false);
    }
    kg_attention_step_close(&step);
    free(sinks);
    kg_loops_attention_free(&a);
    kg_op_device_close(&d);
}

static void build(struct kg_case_list *cases) {
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++)
        for (size_t i = 0; i < KG_COUNT_OF(SHAPES); i++) {
            const struct step_shape *s = &SHAPES[i];
            if (m > 0 && !s->all_modes) continue;
            struct step_case *c = &step_cases[n_step_cases++];
            char shape[80];
            *c = (struct step_case){ &MODES[m], s };
            snprintf(shape, sizeof shape, "keys<=%u heads=%u/%u D=%u window=%u%s", s->most_keys, s->n_heads,
                     s->n_kv_heads, s->head_dim, s->window, s->sinks ? " sinks" : "");
            kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                       .op = "attention",
                                                       .name = "step",
                                                       .backend = MODES[m].backend,
                                                       .dtype = MODES[m].dtype,
                                                       .shape = shape,
                                                       .spec = "FT-052",
                                                       .timeout_s = 300,
                                                       .run = as_the_engine_has_it,
                                                       .arg = c });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
