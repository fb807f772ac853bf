/* An eval whose last logits alone are asked for leaves out what the last layer would do with the other rows. Its logits
 * are those of an eval that gives all: the same bits on cpu, within the tolerance of another kernel elsewhere; so are
 * those after it, which read the keys and values of the rows left out. Then mutants. */
#include "base/buffer.h"
#include "base/size.h"
#include "engine/session.h"
#include "suites/support/golden.h"
#include "suites/support/layer_models.h"
#include "suites/support/op_device.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct target {
    const char *backend, *dtype;
    enum kg_precision precision;
} TARGETS[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};

static void keys_of_last_row_only(struct kg_session *s) {
    s->plan->n_cached--;
}
static void query_of_first_row(struct kg_session *s) {
    s->buffers.q = NULL;
}
static void residual_of_first_row(struct kg_session *s) {
    s->buffers.x = NULL;
}
static const struct mutant {
    const char *name;
    void (*change)(struct kg_session *session);
} MUTANTS[] = {
    { "keys_of_last_row_only", keys_of_last_row_only },
    { "query_of_first_row", query_of_first_row },
    { "residual_of_first_row", residual_of_first_row },
};

struct rows_case {
    const struct kg_layer_model *model;
    const struct target *target;
    const struct mutant *mutant; /* NULL: none */
};
static struct rows_case kept[256];
static size_t n_kept;

/* Evals of the ids before `end` from `from` on; their last row of logits to out. */
static void eval_last(struct kg_session *s, const int32_t *ids, size_t from, size_t end, enum kg_logits_wanted which,
                      float *out) {
    const size_t n_vocab = s->config->n_vocab, n = end - from;
    const float *logits;
    struct kg_error err;
    kg_op_expect_ok(kg_session_eval(s, ids + from, n, which, &logits, &err), &err);
    memcpy(out, logits + (which == KG_LOGITS_ALL ? n - 1 : 0) * n_vocab, n_vocab * sizeof *out);
}

/* Of a first half, of all but the last id, and of that, which nothing is left out of. */
static void eval_parts(struct kg_session *s, const int32_t *ids, size_t n, enum kg_logits_wanted which, float *out) {
    const size_t ends[] = { n / 2, n - 1, n }, n_vocab = s->config->n_vocab;
    for (size_t i = 0, from = 0; i < KG_COUNT_OF(ends); from = ends[i++])
        eval_last(s, ids, from, ends[i], which, out + i * n_vocab);
}

/* The cache of another prompt: what a mutant does not write is wrong there, and not what memory happened to hold. */
static void fill_cache(struct kg_session *s, const int32_t *ids, size_t n) {
    int32_t *reversed = kg_xcalloc(n, sizeof *reversed);
    const float *logits;
    struct kg_error err;
    for (size_t i = 0; i < n; i++) reversed[i] = ids[n - 1 - i];
    kg_op_expect_ok(kg_session_eval(s, reversed, n, KG_LOGITS_ALL, &logits, &err), &err);
    kg_op_expect_ok(kg_session_truncate(s, 0, &err), &err);
    free(reversed);
}

/* False after a skip. On cpu every bit counts. */
static bool compare(struct kg_record *rec, const struct rows_case *c, struct kg_compare *out, bool *same_bits) {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *all, *last;
    struct kg_error err;
    size_t n_ids;
    if (!kg_backend_or_skip(rec, c->target->backend)) return false;
    struct kg_golden *golden = kg_golden_open(kg_fixture_path(c->model->golden));
    const int32_t *ids = kg_golden_i32(golden, "ids", &n_ids);
    const struct kg_session_options options = { (uint32_t)n_ids, c->target->precision, c->target->precision };
    kg_op_expect_ok(kg_backend_open(c->target->backend, 0, &backend, &err), &err);
    kg_op_expect_ok(kg_model_load(kg_fixture_path(c->model->model), backend, NULL, &model, &err), &err);
    kg_op_expect_ok(kg_session_create(model, &options, &all, &err), &err);
    kg_op_expect_ok(kg_session_create(model, &options, &last, &err), &err);
    if (c->mutant) {
        fill_cache(last, ids, n_ids);
        c->mutant->change(last);
    }
    const size_t n = 3 * (size_t)all->config->n_vocab;
    struct kg_guarded want, got;
    kg_guarded_init(&want, n);
    kg_guarded_init(&got, n);
    eval_parts(all, ids, n_ids, KG_LOGITS_ALL, want.data);
    eval_parts(last, ids, n_ids, KG_LOGITS_LAST, got.data);
    kg_compare_f32(got.data, want.data, n, out);
    *same_bits = memcmp(got.data, want.data, n * sizeof(float)) == 0;
    kg_guarded_free(&got);
    kg_guarded_free(&want);
    kg_session_free(last);
    kg_session_free(all);
    kg_model_free(model);
    kg_backend_close(backend);
    kg_golden_close(golden);
    return true;
}

/* Only the last layer differs, and of it what comes after the cache: of 8 roundings to float16 by other kernels, 2^-11
 * each, the mean square is 8 * 2^-22 = 2e-6; their chain through two norms and a product is not much longer. */
#define NMSE_F16 5e-6

static struct kg_tolerance tolerance_of(const struct rows_case *c) {
    const bool half = c->target->precision == KG_PRECISION_F16;
    return (struct kg_tolerance){ .nmse = half ? NMSE_F16 : KG_LAYER_TIMES_FLOAT32 * c->model->float32_nmse,
                                  .why = half ? "one layer's roundings to float16 by other kernels, 2^-11 each, squared"
                                              : KG_LAYER_WHY_FLOAT32 };
}

static void last_of_all(struct kg_record *rec, const void *arg) {
    const struct rows_case *c = arg;
    struct kg_compare difference;
    double margin;
    bool same_bits;
    if (!compare(rec, c, &difference, &same_bits)) return;
    struct kg_tolerance tol = tolerance_of(c);
    tol.far = kg_far_on_cpu(rec);
    kg_record_judged(rec, "logits", &difference, &tol);
    ck_assert_msg(kg_within(&difference, &tol, &margin), "outside the tolerance by a factor of %.4g", margin);
    ck_assert_msg(same_bits || strcmp(c->target->backend, "cpu") != 0, "other bits on cpu");
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct rows_case *c = arg;
    const struct kg_tolerance tol = tolerance_of(c);
    struct kg_compare difference;
    double margin;
    bool same_bits;
    if (!compare(rec, c, &difference, &same_bits)) return;
    ck_assert_msg(!kg_within(&difference, &tol, &margin), "the mutant lives, at %.4g of the tolerance", margin);
    kg_record_compare(rec, "logits", &difference, &tol);
    kg_record_metric(rec, "kill_factor", "ratio", margin);
}

static void add(struct kg_case_list *cases, const struct kg_layer_model *model, const struct target *target,
                const struct mutant *mutant) {
    struct rows_case *c = &kept[n_kept++];
    *c = (struct rows_case){ model, target, mutant };
    kg_case_list_add(cases, &(struct kg_case){ .layer = mutant ? "mutation" : "tolerance",
                                               .op = "unasked_rows",
                                               .name = mutant ? mutant->name : "last_of_all",
                                               .backend = target->backend,
                                               .dtype = target->dtype,
                                               .shape = model->name,
                                               .run = mutant ? mutant_is_rejected : last_of_all,
                                               .arg = c });
}

static void build(struct kg_case_list *cases) {
    for (size_t t = 0; t < KG_COUNT_OF(TARGETS); t++) {
        for (size_t m = 0; m < kg_n_layer_models; m++) add(cases, &kg_layer_models[m], &TARGETS[t], NULL);
        for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++)
            add(cases, kg_layer_model_find("llama_f32"), &TARGETS[t], &MUTANTS[m]);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
