/* However a sequence is cut into evals, its logits are the same: the same bits on cpu (a row's result does not depend
 * on the batch), within the float32 tolerance elsewhere. Also after going back with kg_session_truncate. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/golden.h"
#include "suites/support/op_device.h"
#include "suites/support/layer_models.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct chunk_target {
    const char *backend, *dtype;
    enum kg_precision precision;
} TARGETS[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};
/* One with a prompt of 149 ids, two architectures, block formats; chunk 0 is going back, at the end of each list. */
static const struct {
    const char *model;
    uint32_t chunks[12];
} MODELS[] = {
    { "haiku_long_prompt", { 1, 33, 64 } },
    { "llama_f32", { 1, 2, 3, 7, 16, 31, 32, 33, 64, 65 } },
    { "llama_k_blocks_linear_rope", { 1, 7, 33 } },
};

struct chunk_case {
    const struct kg_layer_model *model;
    const struct chunk_target *target;
    uint32_t chunk; /* 0: go back and evaluate the end again */
};
static struct chunk_case chunk_cases[256];
static size_t n_chunk_cases;

struct sequence {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    struct kg_golden *golden;
    const int32_t *ids;
    size_t n_ids;
    uint32_t n_vocab;
};

static void sequence_open(struct sequence *s, const struct chunk_case *c) {
    struct kg_error err;
    s->golden = kg_golden_open(kg_fixture_path(c->model->golden));
    s->ids = kg_golden_i32(s->golden, "ids", &s->n_ids);
    const struct kg_session_options options = { (uint32_t)s->n_ids, c->target->precision, c->target->precision };
    kg_op_expect_ok(kg_backend_open(c->target->backend, 0, &s->backend, &err), &err);
    kg_op_expect_ok(kg_model_load(kg_fixture_path(c->model->model), s->backend, NULL, &s->model, &err), &err);
    kg_op_expect_ok(kg_session_create(s->model, &options, &s->session, &err), &err);
    s->n_vocab = kg_model_config(s->model)->n_vocab;
}

static void sequence_close(struct sequence *s) {
    kg_session_free(s->session);
    kg_model_free(s->model);
    kg_backend_close(s->backend);
    kg_golden_close(s->golden);
}

/* Evaluates ids [from, n_ids) in chunks and puts their logits where they belong in out (n_ids, n_vocab). */
static void eval_from(struct sequence *s, size_t from, uint32_t chunk, float *out) {
    struct kg_error err;
    for (size_t at = from; at < s->n_ids; at += chunk) {
        const size_t n = s->n_ids - at < chunk ? s->n_ids - at : chunk;
        const float *logits;
        kg_op_expect_ok(kg_session_eval(s->session, s->ids + at, n, KG_LOGITS_ALL, &logits, &err), &err);
        memcpy(out + at * s->n_vocab, logits, n * s->n_vocab * sizeof *out);
    }
    ck_assert_uint_eq(kg_session_n_past(s->session), s->n_ids);
}

static void same_logits(struct kg_record *rec, const void *arg) {
    const struct chunk_case *c = arg;
    struct sequence s;
    struct kg_error err;
    if (!kg_backend_or_skip(rec, c->target->backend)) return;
    sequence_open(&s, c);
    const size_t n = s.n_ids * s.n_vocab;
    struct kg_guarded whole, chunked;
    kg_guarded_init(&whole, n);
    kg_guarded_init(&chunked, n);
    eval_from(&s, 0, (uint32_t)s.n_ids, whole.data);
    const uint32_t back_to = c->chunk ? 0 : (uint32_t)(s.n_ids / 2);
    if (!c->chunk) memcpy(chunked.data, whole.data, back_to * s.n_vocab * sizeof(float));
    kg_op_expect_ok(kg_session_truncate(s.session, back_to, &err), &err);
    eval_from(&s, back_to, c->chunk ? c->chunk : 5, chunked.data);
    kg_guarded_expect_written(&whole, "logits at once");
    kg_guarded_expect_written(&chunked, "logits in chunks");
    const bool half = c->target->precision == KG_PRECISION_F16;
    const struct kg_tolerance tol = { .nmse =
                                          half ? KG_LAYER_NMSE_F16 : KG_LAYER_TIMES_FLOAT32 * c->model->float32_nmse,
                                      .why = half ? KG_LAYER_WHY_F16 : KG_LAYER_WHY_FLOAT32,
                                      .far = kg_far_on_cpu(rec) };
    kg_expect_close_f32(rec, "logits", chunked.data, whole.data, n, &tol);
    if (strcmp(c->target->backend, "cpu") == 0)
        for (size_t i = 0; i < n; i++)
            if (!kg_same_bits(chunked.data[i], whole.data[i]))
                ck_abort_msg("position %zu, logit %zu: %.9g in chunks, %.9g at once", i / s.n_vocab, i % s.n_vocab,
                             chunked.data[i], whole.data[i]);
    kg_guarded_free(&chunked);
    kg_guarded_free(&whole);
    sequence_close(&s);
}

static void add(struct kg_case_list *cases, const char *model, const struct chunk_target *target, uint32_t chunk) {
    struct chunk_case *c = &chunk_cases[n_chunk_cases++];
    *c = (struct chunk_case){ kg_layer_model_find(model), target, chunk };
    char *shape = chunk ? kg_xasprintf("chunk=%u", chunk) : kg_xstrdup("second half again");
    kg_case_list_add(cases, &(struct kg_case){
                                .layer = "tolerance",
                                .op = "chunks",
                                .name = model,
                                .backend = target->backend,
                                .dtype = target->dtype,
                                .shape = shape,
                                .spec = target->precision == KG_PRECISION_F16 ? "FT-056" : NULL,
                                .run = same_logits,
                                .arg = c,
                            });
    free(shape);
}

static void build(struct kg_case_list *cases) {
    for (size_t m = 0; m < KG_COUNT_OF(MODELS); m++)
        for (size_t b = 0; b < KG_COUNT_OF(TARGETS); b++) {
            for (const uint32_t *chunk = MODELS[m].chunks; *chunk; chunk++)
                add(cases, MODELS[m].model, &TARGETS[b], *chunk);
            add(cases, MODELS[m].model, &TARGETS[b], 0);
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
