/* FT-056: how far results are off at the shapes that are timed: products and attention from float64 loops, logits of
 * the fixture from the cpu back end's. The limits are those of the tolerance suites. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/support/float64_loops.h"
#include <kigo/engine.h>
#include <kigo/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32 KG_PRECISION_F32
#define F16 KG_PRECISION_F16
static const struct kg_loops_mode MODES[] = {
    { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL },
};

static const struct {
    uint32_t m, n, k;
} LINEARS[] = { { 1, 9728, 896 }, { 1, 896, 4864 }, { 128, 9728, 896 }, { 128, 896, 4864 } };
static const struct kg_loops_attention ATTENTIONS[] = { { 512, 512, 14, 2, 64, 0 }, { 1, 8192, 14, 2, 64, 0 } };

struct numerics_case {
    const struct kg_loops_mode *mode;
    size_t row;
};
static struct numerics_case kept[KG_COUNT_OF(MODES) * (KG_COUNT_OF(LINEARS) + KG_COUNT_OF(ATTENTIONS) + 1)];
static size_t n_kept;

static void linear(struct kg_record *rec, const void *arg) {
    const struct numerics_case *c = arg;
    kg_loops_linear_case(rec, c->mode, LINEARS[c->row].m, LINEARS[c->row].n, LINEARS[c->row].k, 0, false);
}

static void attention(struct kg_record *rec, const void *arg) {
    const struct numerics_case *c = arg;
    kg_loops_attention_case(rec, c->mode, &ATTENTIONS[c->row]);
}

/* malloc'ed: logits of all of ids. */
static float *logits_on(const char *backend_name, enum kg_precision precision, const int32_t *ids, size_t n,
                        size_t *n_values) {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    const float *logits;
    struct kg_error err = { 0 };
    const struct kg_session_options options = { .n_ctx = (uint32_t)n, .activations = precision, .kv = precision };
    kg_op_expect_ok(kg_backend_open(backend_name, 0, &backend, &err), &err);
    kg_op_expect_ok(kg_model_load(kg_fixture_path("haiku-qwen2/haiku-qwen2-f16.gguf"), backend, NULL, &model, &err),
                    &err);
    kg_op_expect_ok(kg_session_create(model, &options, &session, &err), &err);
    kg_op_expect_ok(kg_session_eval(session, ids, n, KG_LOGITS_ALL, &logits, &err), &err);
    *n_values = n * kg_model_config(model)->n_vocab;
    float *all = kg_xcalloc(*n_values, sizeof *all);
    memcpy(all, logits, *n_values * sizeof *all);
    kg_session_free(session);
    kg_model_free(model);
    kg_backend_close(backend);
    return all;
}

/* Ids of ordinary tokens, drawn. */
static void logits(struct kg_record *rec, const void *arg) {
    enum { N = 200, ORDINARY = 1000 };
    const struct numerics_case *c = arg;
    if (!kg_backend_or_skip(rec, c->mode->backend)) return;
    int32_t ids[N];
    size_t n, n_want;
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (size_t i = 0; i < N; i++) ids[i] = (int32_t)kg_rng_below(&rng, ORDINARY);
    float *got = logits_on(c->mode->backend, c->mode->activations, ids, N, &n);
    float *want = logits_on("cpu", F32, ids, N, &n_want);
    const double rms = c->mode->activations == F16 ? 1e-2 : 1e-4;
    const struct kg_tolerance tol = { .nmse = rms * rms,
                                      .why = "logits of the cpu reference: 1e-4 of their root mean square in FP32, "
                                             "1e-2 in FP16" };
    kg_expect_close_f32(rec, "logits_from_cpu", got, want, n, &tol);
    free(want);
    free(got);
}

static void add(struct kg_case_list *list, size_t mode, const char *name, size_t row, const char *shape,
                void (*run)(struct kg_record *, const void *)) {
    kept[n_kept] = (struct numerics_case){ &MODES[mode], row };
    kg_case_list_add(list, &(struct kg_case){ .layer = "bench",
                                              .op = "numerics",
                                              .name = name,
                                              .backend = MODES[mode].backend,
                                              .dtype = MODES[mode].dtype,
                                              .shape = shape,
                                              .spec = "FT-056",
                                              .timeout_s = 120,
                                              .run = run,
                                              .arg = &kept[n_kept++] });
}

static void build(struct kg_case_list *list) {
    char shape[64];
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(LINEARS); i++) {
            snprintf(shape, sizeof shape, "M=%u N=%u K=%u", LINEARS[i].m, LINEARS[i].n, LINEARS[i].k);
            add(list, m, "linear", i, shape, linear);
        }
        for (size_t i = 0; i < KG_COUNT_OF(ATTENTIONS); i++) {
            snprintf(shape, sizeof shape, "rows=%u keys=%u heads=14/2 D=64", ATTENTIONS[i].n_rows,
                     ATTENTIONS[i].n_keys);
            add(list, m, "attention", i, shape, attention);
        }
        add(list, m, "logits", 0, "fixture", logits);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
