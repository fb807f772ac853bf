/* What a back end's repack_weight makes of a model's weights is what operations get: it is asked for each matrix once,
 * after all of them were imported, and may change format and place; a failure ends the load. The back end is the CPU's,
 * with a repack_weight that keeps BF16 as float16. One that spoils the first weight must be seen. */
#include "backend/backend.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "engine/session.h"
#include "format/dtype.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/support/tiny_model.h"
#include <check.h>
#include <kigo/model.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROWS = 7, MOST_WEIGHTS = 64 };

static struct {
    size_t n_before_the_last_import, n_repacked;
    size_t fails_at; /* the nth; 0: never */
    bool spoils;     /* the first */
    void *kept[MOST_WEIGHTS];
} seen;

static enum kg_status counted_import(struct kg_backend *backend, const void *host, uint64_t size_bytes,
                                     const char *what, struct kg_block *block, struct kg_error *err) {
    seen.n_before_the_last_import = seen.n_repacked;
    return kg_cpu_ops.import_weights(backend, host, size_bytes, what, block, err);
}

static enum kg_status as_float16(struct kg_backend *backend, struct kg_weight *weight, uint32_t n_matrices,
                                 struct kg_error *err) {
    (void)backend;
    ck_assert_uint_eq(n_matrices, 1);
    if (weight->dtype != KG_DTYPE_BF16) return KG_OK;
    if (seen.n_repacked + 1 == seen.fails_at) return kg_fail(err, KG_ERR_NO_MEMORY, "repacking failed");
    const size_t n = (size_t)weight->n_rows * weight->n_cols;
    float *values = kg_xmalloc(n * sizeof *values);
    void *halves = kg_xmalloc(n * sizeof(uint16_t));
    kg_dtype_info(KG_DTYPE_BF16)->decode(weight->data, values, n);
    kg_dtype_info(KG_DTYPE_F16)->encode(values, halves, n);
    free(values);
    if (seen.spoils && seen.n_repacked == 0) memset(halves, 0, n * sizeof(uint16_t));
    ck_assert_uint_lt(seen.n_repacked, MOST_WEIGHTS);
    seen.kept[seen.n_repacked++] = halves;
    weight->data = halves;
    weight->dtype = KG_DTYPE_F16;
    return KG_OK;
}

static const struct kg_backend_ops *repacking_ops(void) {
    static struct kg_backend_ops ops;
    ops = kg_cpu_ops;
    ops.import_weights = counted_import;
    ops.repack_weight = as_float16;
    return &ops;
}

static void drop_kept(void) {
    for (size_t i = 0; i < seen.n_repacked; i++) free(seen.kept[i]);
    memset(&seen, 0, sizeof seen);
}

static char *write_model(struct kg_record *rec, struct kg_tiny_model model) {
    model.matrices = KG_DTYPE_BF16;
    char *path = kg_path_join(kg_scratch_dir(rec), "repacked.gguf");
    kg_tiny_model_write(path, &model, NULL, 0);
    return path;
}

/* Logits of N_ROWS tokens; malloc'ed. */
static float *logits_of(const char *path, const struct kg_backend_ops *ops, size_t *n) {
    const struct kg_session_options options = { .n_ctx = 16 };
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    struct kg_error err;
    const float *logits;
    int32_t ids[N_ROWS];
    for (int i = 0; i < N_ROWS; i++) ids[i] = 17 * i + 5;
    kg_must(kg_backend_open_ops(ops, 1, &backend, &err), &err);
    kg_must(kg_model_load(path, backend, NULL, &model, &err), &err);
    kg_must(kg_session_create(model, &options, &session, &err), &err);
    kg_must(kg_session_eval(session, ids, N_ROWS, KG_LOGITS_ALL, &logits, &err), &err);
    *n = (size_t)N_ROWS * session->config->n_vocab;
    float *copy = kg_xmalloc(*n * sizeof *copy);
    memcpy(copy, logits, *n * sizeof *copy);
    kg_session_free(session);
    kg_model_free(model);
    kg_backend_close(backend);
    return copy;
}

/* qwen2: the output is the embedding; phi3: q, k and v are of one tensor, gate and up of another. */
static const struct form {
    struct kg_tiny_model model;
    size_t n_weights;
} FORMS[] = { { KG_TINY_QWEN2, 1 + 7 * 2 }, { KG_TINY_PHI3, 2 + 7 * 2 } };

static void operations_get_it(struct kg_record *rec, const void *arg) {
    static const struct kg_tolerance TOLERANCE = {
        .nmse = 4e-15, .why = "weights below 2^-17, one in thousands, are off by up to 2^-25: 2.2e-16 measured"
    };
    const struct form *form = arg;
    size_t n;
    struct kg_compare spoiled;
    double margin;
    char *path = write_model(rec, form->model);
    memset(&seen, 0, sizeof seen);
    float *want = logits_of(path, &kg_cpu_ops, &n), *got = logits_of(path, repacking_ops(), &n);
    ck_assert_uint_eq(seen.n_repacked, form->n_weights);
    ck_assert_uint_eq(seen.n_before_the_last_import, 0);
    kg_expect_close_f32(rec, "logits", got, want, n, &TOLERANCE);
    free(got);
    drop_kept();
    seen.spoils = true;
    got = logits_of(path, repacking_ops(), &n);
    kg_compare_f32(got, want, n, &spoiled);
    ck_assert_msg(!kg_within(&spoiled, &TOLERANCE, &margin), "no operation gets the first repacked weight");
    free(got);
    drop_kept();
    free(want);
    free(path);
}

static void a_failure_ends_the_load(struct kg_record *rec, const void *arg) {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_error err;
    (void)arg;
    char *path = write_model(rec, (struct kg_tiny_model)KG_TINY_QWEN2);
    memset(&seen, 0, sizeof seen);
    seen.fails_at = 4;
    kg_must(kg_backend_open_ops(repacking_ops(), 1, &backend, &err), &err);
    ck_assert_int_eq(kg_model_load(path, backend, NULL, &model, &err), KG_ERR_NO_MEMORY);
    ck_assert_str_eq(err.message, "repacking failed");
    ck_assert_uint_eq(seen.n_repacked, 3);
    kg_backend_close(backend);
    drop_kept();
    free(path);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(FORMS); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "repack",
                                                   .name = "operations_get_it",
                                                   .shape = FORMS[i].model.architecture,
                                                   .run = operations_get_it,
                                                   .arg = &FORMS[i] });
    kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                               .op = "repack",
                                               .name = "a_failure_ends_the_load",
                                               .run = a_failure_ends_the_load });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
