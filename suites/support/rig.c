#include "suites/support/rig.h"
#include "suites/harness/compare.h"
#include "suites/support/layer_models.h"
#include "base/buffer.h"
#include "base/rng.h"
#include <check.h>
#include <math.h>
#include <string.h>

const struct kg_rig_target KG_RIG_TARGETS[KG_RIG_N_TARGETS] = {
    { "cpu", "f32", KG_PRECISION_F32, NULL },
    { "cuda", "f32", KG_PRECISION_F32, NULL },
    { "cuda", "f16", KG_PRECISION_F16, "FT-056" },
};
static size_t current;

/* A case on one target; lives as long as the process, like the case. */
struct on_target {
    size_t target;
    void (*run)(struct kg_record *rec, const void *arg);
    const void *arg;
    struct on_target *next;
};
static struct on_target *all_added;

static void run_on_target(struct kg_record *rec, const void *arg) {
    const struct on_target *const on = arg;
    struct kg_backend *backend;
    struct kg_error err = { 0 };
    current = on->target;
    const enum kg_status status = kg_backend_open(KG_RIG_TARGETS[current].backend, 0, &backend, &err);
    if (status == KG_ERR_UNSUPPORTED && strcmp(KG_RIG_TARGETS[current].backend, "cpu") != 0) {
        kg_record_skip(rec, "%s", err.message);
        return;
    }
    kg_must(status, &err);
    kg_backend_close(backend);
    on->run(rec, on->arg);
}

void kg_rig_add(struct kg_case_list *list, const struct kg_case *c) {
    for (size_t i = 0; i < KG_RIG_N_TARGETS; i++) {
        if (c->backend && strcmp(c->backend, KG_RIG_TARGETS[i].backend) != 0) continue;
        struct on_target *const on = kg_xmalloc(sizeof *on);
        *on = (struct on_target){ .target = i, .run = c->run, .arg = c->arg, .next = all_added };
        all_added = on;
        struct kg_case added = *c;
        added.backend = KG_RIG_TARGETS[i].backend;
        if (c->dtype) added.dtype = KG_RIG_TARGETS[i].dtype;
        if (!c->spec) added.spec = KG_RIG_TARGETS[i].spec;
        added.run = run_on_target;
        added.arg = on;
        kg_case_list_add(list, &added);
    }
}

size_t kg_rig_current(void) {
    return current;
}

struct kg_rig kg_rig_open(const char *fixture, int n_threads) {
    struct kg_rig rig = { 0 };
    struct kg_error err = { 0 };
    kg_must(kg_backend_open(KG_RIG_TARGETS[current].backend, n_threads, &rig.backend, &err), &err);
    kg_must(kg_model_load(kg_fixture_path(fixture), rig.backend, NULL, &rig.model, &err), &err);
    rig.tokenizer = kg_model_tokenizer(rig.model);
    rig.config = kg_model_config(rig.model);
    for (size_t i = 0; i < kg_n_layer_models; i++)
        if (strcmp(kg_layer_models[i].model, fixture) == 0)
            rig.float32_nmse = fmax(rig.float32_nmse, kg_layer_models[i].float32_nmse);
    return rig;
}

void kg_rig_close(struct kg_rig *rig) {
    kg_model_free(rig->model);
    kg_backend_close(rig->backend);
    memset(rig, 0, sizeof *rig);
}

const struct kg_rig *kg_rig_shared(void) {
    static struct kg_rig rigs[KG_RIG_N_TARGETS];
    struct kg_rig *const rig = &rigs[current];
    if (!rig->model) *rig = kg_rig_open(KG_HAIKU_MODEL, 0);
    return rig;
}

struct kg_session_options kg_rig_options(uint32_t n_ctx) {
    const enum kg_precision precision = KG_RIG_TARGETS[current].precision;
    return (struct kg_session_options){ .n_ctx = n_ctx, .activations = precision, .kv = precision };
}

struct kg_session *kg_rig_session(const struct kg_rig *rig, uint32_t n_ctx) {
    const struct kg_session_options options = kg_rig_options(n_ctx);
    struct kg_session *session;
    struct kg_error err = { 0 };
    kg_must(kg_session_create(rig->model, &options, &session, &err), &err);
    return session;
}

int32_t *kg_rig_random_ids(const struct kg_rig *rig, uint64_t seed, size_t n) {
    int32_t *const ids = kg_xcalloc(n, sizeof *ids);
    struct kg_rng rng;
    kg_rng_init(&rng, seed, 0);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)kg_rng_below(&rng, rig->config->n_vocab);
    return ids;
}

struct kg_ids kg_rig_encode(const struct kg_rig *rig, const char *text) {
    struct kg_ids ids = { 0 };
    struct kg_error err = { 0 };
    kg_must(kg_tokenizer_encode(rig->tokenizer, text, strlen(text), true, &ids, &err), &err);
    return ids;
}

float *kg_rig_logits(const struct kg_rig *rig, struct kg_session *session, const int32_t *ids, size_t n,
                     size_t n_at_once) {
    const size_t n_vocab = rig->config->n_vocab;
    float *const all = kg_xcalloc(n, n_vocab * sizeof *all);
    struct kg_error err = { 0 };
    for (size_t at = 0, step; at < n; at += step) {
        const float *rows;
        step = n - at < n_at_once ? n - at : n_at_once;
        kg_must(kg_session_eval(session, ids + at, step, KG_LOGITS_ALL, &rows, &err), &err);
        memcpy(all + at * n_vocab, rows, step * n_vocab * sizeof *all);
    }
    return all;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void kg_expect_same_bits(const char *what, const float *got, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bits_of(got[i]) != bits_of(want[i]))
            ck_abort_msg("%s: element %zu of %zu is %.9g, not %.9g", what, i, n, (double)got[i], (double)want[i]);
}

void kg_rig_expect_same(const struct kg_rig *rig, const char *what, const float *got, const float *want, size_t n) {
    const bool half = KG_RIG_TARGETS[current].precision == KG_PRECISION_F16;
    const struct kg_tolerance tol = { .nmse = half ? KG_LAYER_NMSE_F16 : KG_LAYER_TIMES_FLOAT32 * rig->float32_nmse,
                                      .why = half ? KG_LAYER_WHY_F16 : KG_LAYER_WHY_FLOAT32 };
    struct kg_compare compare;
    double margin;
    if (current == 0) {
        kg_expect_same_bits(what, got, want, n);
        return;
    }
    ck_assert_msg(rig->float32_nmse > 0, "%s: the model has no goldens that say how far float32 sums may be", what);
    kg_compare_f32(got, want, n, &compare);
    if (!kg_within(&compare, &tol, &margin)) ck_abort_msg("%s: NMSE %.3g, at most %.3g", what, compare.nmse, tol.nmse);
}

void kg_expect_same_ids(const char *what, const int32_t *got, size_t n_got, const int32_t *want, size_t n_want) {
    for (size_t i = 0; i < n_got && i < n_want; i++)
        if (got[i] != want[i]) ck_abort_msg("%s: id %zu is %d, not %d", what, i, got[i], want[i]);
    ck_assert_msg(n_got == n_want, "%s: %zu ids, not %zu", what, n_got, n_want);
}
