/* Numbers that are none, on every back end and in every precision: weights of NaN or infinity, and values that float32
 * holds and float16 does not. Each is an error that names logit and position, through prefill, decode and generation;
 * the session stays where it was and serves what comes next. The plain FP16 implementation shows it without a GPU. */
#include "suites/support/edit_model.h"
#include "base/buffer.h"
#include "base/size.h"
#include "backend/backend.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include "suites/support/plain_f16.h"
#include <check.h>
#include <kigo/engine.h>
#include <kigo/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct target {
    const char *backend, *dtype;
    enum kg_precision precision;
    bool plain; /* on the plain FP16 table */
} TARGETS[] = {
    { "cpu", "f32", KG_PRECISION_F32, false },
    { "cpu", "plain_f16", KG_PRECISION_F16, true },
    { "cuda", "f32", KG_PRECISION_F32, false },
    { "cuda", "f16", KG_PRECISION_F16, false },
};

#define MODEL "tiny-llama/llama-f32.gguf"
static const struct numeric_row {
    const char *name;
    struct kg_model_edit edit;
    bool in_f32, in_f16; /* whether it is an error there */
} ROWS[] = {
    { "nothing_changed", { .how = KG_TENSOR_KEEP }, false, false },
    { "projection_not_a_number", { .tensor = "blk.1.attn_v.weight", .how = KG_TENSOR_NAN }, true, true },
    { "ffn_not_a_number", { .tensor = "blk.0.ffn_down.weight", .how = KG_TENSOR_NAN }, true, true },
    { "infinite_norm", { .tensor = "output_norm.weight", .how = KG_TENSOR_INFINITE }, true, true },
    { "infinite_output", { .tensor = "output.weight", .how = KG_TENSOR_INFINITE }, true, true },
    { "norm_beyond_float16", { .tensor = "blk.0.ffn_norm.weight", .how = KG_TENSOR_LARGE }, false, true },
    { "product_beyond_float16", { .tensor = "blk.1.ffn_up.weight", .how = KG_TENSOR_LARGE }, false, true },
};

struct numeric_case {
    const struct target *target;
    const struct numeric_row *row;
};
static struct numeric_case cases[KG_COUNT_OF(TARGETS) * (KG_COUNT_OF(ROWS) + 1)];
static size_t n_cases;

struct rig {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    size_t n_vocab;
};

static bool rig_open(struct kg_record *rec, const struct target *t, const struct kg_model_edit *edit, struct rig *rig) {
    struct kg_error err = { 0 };
    char path[1024];
    if (!kg_backend_or_skip(rec, t->backend)) return false;
    snprintf(path, sizeof path, "%s/model.gguf", kg_scratch_dir(rec));
    kg_must(kg_model_edit(kg_fixture_path(MODEL), path, edit, &err), &err);
    kg_must(t->plain ? kg_backend_open_ops(kg_plain_f16(KG_PLAIN_F16_FUSED), 0, &rig->backend, &err)
                     : kg_backend_open(t->backend, 0, &rig->backend, &err),
            &err);
    kg_must(kg_model_load(path, rig->backend, NULL, &rig->model, &err), &err);
    const struct kg_session_options options = { .n_ctx = 32, .activations = t->precision, .kv = t->precision };
    kg_must(kg_session_create(rig->model, &options, &rig->session, &err), &err);
    rig->n_vocab = kg_model_config(rig->model)->n_vocab;
    return true;
}

static void rig_close(struct rig *rig) {
    kg_session_free(rig->session);
    kg_model_free(rig->model);
    kg_backend_close(rig->backend);
}

static void expect(enum kg_status status, bool is_error, struct kg_error *err) {
    if (is_error) kg_must_fail(status, KG_ERR_NUMERIC, err, "logit", NULL);
    else kg_must(status, err);
}

/* Twelve ids at once, an id alone, and greedy generation. */
static void numbers_that_are_none(struct kg_record *rec, const void *arg) {
    enum { N = 12 };
    const struct numeric_case *c = arg;
    const bool is_error = c->target->precision == KG_PRECISION_F16 ? c->row->in_f16 : c->row->in_f32;
    int32_t ids[N];
    struct rig rig;
    struct kg_error err = { 0 };
    const float *logits;
    for (int32_t i = 0; i < N; i++) ids[i] = 3 + 7 * i;
    if (!rig_open(rec, c->target, &c->row->edit, &rig)) return;
    expect(kg_session_eval(rig.session, ids, N, KG_LOGITS_ALL, &logits, &err), is_error, &err);
    ck_assert_uint_eq(kg_session_n_past(rig.session), is_error ? 0 : N);
    kg_must(kg_session_truncate(rig.session, 0, &err), &err);
    expect(kg_session_eval(rig.session, ids, 1, KG_LOGITS_LAST, &logits, &err), is_error, &err);
    ck_assert_uint_eq(kg_session_n_past(rig.session), is_error ? 0 : 1);
    kg_must(kg_session_truncate(rig.session, 0, &err), &err);
    const struct kg_generate_options options = { .sampler = { .repeat_penalty = 1, .top_p = 1 },
                                                 .max_tokens = 4,
                                                 .ignore_end = true };
    struct kg_generate_result result = { 0 };
    expect(kg_generate(rig.session, ids, N, &options, &result, &err), is_error, &err);
    kg_generate_result_free(&result);
    rig_close(&rig);
}

/* One bad row of the embedding, met while decoding: the id is refused, by name, and the session goes on as if it had
 * never been given: the same bits as a session that was not. */
static void a_bad_token_is_forgotten(struct kg_record *rec, const void *arg) {
    static const struct kg_model_edit EDIT = { .tensor = "token_embd.weight", .how = KG_TENSOR_NAN };
    static const int32_t BAD = 0, GOOD[] = { 5, 9, 14 };
    const struct numeric_case *c = arg;
    struct rig rig, other;
    struct kg_error err = { 0 };
    const float *logits;
    if (!rig_open(rec, c->target, &EDIT, &rig) || !rig_open(rec, c->target, &EDIT, &other)) return;
    for (size_t i = 0; i < KG_COUNT_OF(GOOD); i++) {
        kg_must_fail(kg_session_eval(rig.session, &BAD, 1, KG_LOGITS_LAST, &logits, &err), KG_ERR_NUMERIC, &err,
                     "logit", "position", NULL);
        ck_assert_uint_eq(kg_session_n_past(rig.session), i);
        kg_must(kg_session_eval(rig.session, &GOOD[i], 1, KG_LOGITS_LAST, &logits, &err), &err);
        float *got = kg_xmalloc(rig.n_vocab * sizeof *got);
        memcpy(got, logits, rig.n_vocab * sizeof *got);
        kg_must(kg_session_eval(other.session, &GOOD[i], 1, KG_LOGITS_LAST, &logits, &err), &err);
        for (size_t v = 0; v < rig.n_vocab; v++)
            ck_assert_msg(kg_same_bits(got[v], logits[v]), "token %zu, logit %zu is %.9g, not %.9g", i, v,
                          (double)got[v], (double)logits[v]);
        free(got);
    }
    rig_close(&other);
    rig_close(&rig);
}

static void add(struct kg_case_list *list, const struct target *target, const struct numeric_row *row, const char *name,
                void (*run)(struct kg_record *, const void *)) {
    cases[n_cases] = (struct numeric_case){ target, row };
    kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                              .op = "numeric",
                                              .name = name,
                                              .backend = target->backend,
                                              .dtype = target->dtype,
                                              .spec = "FT-051",
                                              .definition = MODEL,
                                              .run = run,
                                              .arg = &cases[n_cases++] });
}

static void build(struct kg_case_list *list) {
    for (size_t t = 0; t < KG_COUNT_OF(TARGETS); t++) {
        for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
            add(list, &TARGETS[t], &ROWS[i], ROWS[i].name, numbers_that_are_none);
        add(list, &TARGETS[t], NULL, "a_bad_token_is_forgotten", a_bad_token_is_forgotten);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
