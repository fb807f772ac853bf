/* Whole models in block formats against the same weights written out as float32: the formats may cost nothing but what
 * their values say. The values themselves are held to the gguf package by fixtures/ops and fixtures/tiny-llama. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/gguf_edit.h"
#include "suites/support/golden.h"
#include "suites/support/op_device.h"
#include "suites/support/layer_models.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const BACKENDS[] = { "cpu", "cuda" };

/* Limits of the logits' NMSE when a model is rounded to a format: 100 times the mean square relative rounding error of
 * a normal weight, as it passes a dozen matrices and their softmax. F16 and BF16 round to 11 and 8 bits; Q8_0's step is
 * the largest of 32 over 127; E2M1 has one bit of mantissa. */
static const struct {
    enum kg_dtype dtype;
    double weight_error; /* mean square, relative */
} ENCODED[] = {
    { KG_DTYPE_F16, 3e-8 },
    { KG_DTYPE_BF16, 2e-6 },
    { KG_DTYPE_Q8_0, 3e-5 },
    { KG_DTYPE_MXFP4, 1.5e-2 },
};
static const char ENCODED_MODEL[] = "llama_f32";

struct format_case {
    const struct kg_layer_model *model;
    const char *backend;
    size_t encoded; /* row of ENCODED, where kigo encodes */
};
static struct format_case format_cases[64];
static size_t n_format_cases;

static void to_f32(struct kg_edited_tensor *t, const void *user) {
    (void)user;
    float *values = kg_edited_values(t);
    kg_edited_set_values(t, KG_DTYPE_F32, values);
    free(values);
}

static void encode_matrix(struct kg_edited_tensor *t, const void *user) {
    if (t->n_dims < 2) return; /* converters keep vectors in F32 */
    float *values = kg_edited_values(t);
    kg_edited_set_values(t, *(const enum kg_dtype *)user, values);
    free(values);
}

/* The logits of all the golden's ids, one eval; *out was initialised for n_ids rows. */
static void run_model(const char *path, const struct format_case *c, const struct kg_golden *golden,
                      struct kg_guarded *out) {
    struct kg_error err;
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    const float *logits;
    size_t n_ids;
    const int32_t *ids = kg_golden_i32(golden, "ids", &n_ids);
    const struct kg_session_options options = { (uint32_t)n_ids, KG_PRECISION_F32, KG_PRECISION_F32 };
    kg_op_expect_ok(kg_backend_open(c->backend, 0, &backend, &err), &err);
    kg_op_expect_ok(kg_model_load(path, backend, NULL, &model, &err), &err);
    kg_op_expect_ok(kg_session_create(model, &options, &session, &err), &err);
    kg_op_expect_ok(kg_session_eval(session, ids, n_ids, KG_LOGITS_ALL, &logits, &err), &err);
    kg_guarded_init(out, n_ids * kg_model_config(model)->n_vocab);
    memcpy(out->data, logits, out->n * sizeof *logits);
    kg_session_free(session);
    kg_model_free(model);
    kg_backend_close(backend);
}

static void expect_same(struct kg_record *rec, const struct format_case *c, const struct kg_guarded *blocks,
                        const struct kg_guarded *f32) {
    const struct kg_tolerance tol = { .nmse = KG_LAYER_TIMES_FLOAT32 * c->model->float32_nmse,
                                      .why = KG_LAYER_WHY_FLOAT32,
                                      .far = "equal where one kernel decodes both; a format may have its own" };
    ck_assert_uint_eq(blocks->n, f32->n);
    kg_guarded_expect_written(blocks, "logits of the blocks");
    kg_guarded_expect_written(f32, "logits of float32 weights");
    kg_expect_close_f32(rec, "logits", blocks->data, f32->data, f32->n, &tol);
    if (strcmp(c->backend, "cpu") == 0 && memcmp(blocks->data, f32->data, f32->n * sizeof(float)) != 0)
        ck_abort_msg("cpu: the logits are not the same bits");
}

/* The file's blocks and their values in F32 give the same logits. */
static void blocks_are_their_values(struct kg_record *rec, const void *arg) {
    const struct format_case *c = arg;
    if (!kg_backend_or_skip(rec, c->backend)) return;
    struct kg_golden *golden = kg_golden_open(kg_fixture_path(c->model->golden));
    const struct kg_gguf_edit decode = { .tensors = "*", .change = to_f32 };
    char *written_out = kg_xasprintf("%s/f32.gguf", kg_scratch_dir(rec));
    struct kg_guarded blocks, f32;
    kg_gguf_rewrite(kg_fixture_path(c->model->model), written_out, &decode);
    run_model(kg_fixture_path(c->model->model), c, golden, &blocks);
    run_model(written_out, c, golden, &f32);
    expect_same(rec, c, &blocks, &f32);
    kg_guarded_free(&f32);
    kg_guarded_free(&blocks);
    free(written_out);
    kg_golden_close(golden);
}

/* A model rounded by kigo to a format is as far from the original as the format's rounding, and no farther. */
static void encoded_model(struct kg_record *rec, const void *arg) {
    const struct format_case *c = arg;
    if (!kg_backend_or_skip(rec, c->backend)) return;
    struct kg_golden *golden = kg_golden_open(kg_fixture_path(c->model->golden));
    const struct kg_gguf_edit encode = { .tensors = "*.weight",
                                         .change = encode_matrix,
                                         .user = &ENCODED[c->encoded].dtype };
    const struct kg_gguf_edit decode = { .tensors = "*", .change = to_f32 };
    char *rounded = kg_xasprintf("%s/rounded.gguf", kg_scratch_dir(rec));
    char *written_out = kg_xasprintf("%s/f32.gguf", kg_scratch_dir(rec));
    struct kg_guarded exact, blocks, f32;
    kg_gguf_rewrite(kg_fixture_path(c->model->model), rounded, &encode);
    kg_gguf_rewrite(rounded, written_out, &decode);
    run_model(kg_fixture_path(c->model->model), c, golden, &exact);
    run_model(rounded, c, golden, &blocks);
    run_model(written_out, c, golden, &f32);
    expect_same(rec, c, &blocks, &f32);
    const struct kg_tolerance tol = { .nmse = 100 * ENCODED[c->encoded].weight_error,
                                      .why = "100 times the format's mean square rounding error" };
    kg_expect_close_f32(rec, "logits_of_rounded_weights", blocks.data, exact.data, exact.n, &tol);
    struct kg_compare compare;
    kg_compare_f32(blocks.data, exact.data, exact.n, &compare);
    if (!(compare.nmse > ENCODED[c->encoded].weight_error / 10))
        ck_abort_msg("logits are only %.3g from those of unrounded weights: were they rounded?", compare.nmse);
    kg_guarded_free(&f32);
    kg_guarded_free(&blocks);
    kg_guarded_free(&exact);
    free(written_out);
    free(rounded);
    kg_golden_close(golden);
}

static void add(struct kg_case_list *cases, const char *name, const char *dtype, const struct format_case *values,
                void (*run)(struct kg_record *, const void *)) {
    struct format_case *c = &format_cases[n_format_cases++];
    *c = *values;
    kg_case_list_add(cases, &(struct kg_case){
                                .layer = "tolerance",
                                .op = "formats",
                                .name = name,
                                .backend = c->backend,
                                .dtype = dtype,
                                .definition = c->model->golden,
                                .run = run,
                                .arg = c,
                            });
}

static void build(struct kg_case_list *cases) {
    static const char *const models[] = { "haiku_prompt", "llama_blocks_of_32", "llama_k_blocks_linear_rope",
                                          "llama3_rope_factors_tied", "qwen2_head_80" };
    for (size_t b = 0; b < KG_COUNT_OF(BACKENDS); b++) {
        for (size_t m = 0; m < KG_COUNT_OF(models); m++) {
            const struct format_case c = { kg_layer_model_find(models[m]), BACKENDS[b], 0 };
            add(cases, models[m], NULL, &c, blocks_are_their_values);
        }
        for (size_t e = 0; e < KG_COUNT_OF(ENCODED); e++) {
            const struct format_case c = { kg_layer_model_find(ENCODED_MODEL), BACKENDS[b], e };
            add(cases, "rounded_by_kigo", kg_dtype_info(ENCODED[e].dtype)->name, &c, encoded_model);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
