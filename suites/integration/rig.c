#include "suites/integration/rig.h"
#include "base/buffer.h"
#include "base/rng.h"
#include <check.h>
#include <string.h>

struct kg_rig kg_rig_open(const char *fixture, int n_threads) {
    struct kg_rig rig = { 0 };
    struct kg_error err = { 0 };
    kg_must(kg_backend_open("cpu", n_threads, &rig.backend, &err), &err);
    kg_must(kg_model_load(kg_fixture_path(fixture), rig.backend, NULL, &rig.model, &err), &err);
    rig.tokenizer = kg_model_tokenizer(rig.model);
    rig.config = kg_model_config(rig.model);
    return rig;
}

void kg_rig_close(struct kg_rig *rig) {
    kg_model_free(rig->model);
    kg_backend_close(rig->backend);
    memset(rig, 0, sizeof *rig);
}

const struct kg_rig *kg_rig_shared(void) {
    static struct kg_rig rig;
    if (!rig.model) rig = kg_rig_open(KG_HAIKU_MODEL, 0);
    return &rig;
}

struct kg_session *kg_rig_session(const struct kg_rig *rig, uint32_t n_ctx) {
    const struct kg_session_options options = { .n_ctx = n_ctx,
                                                .activations = KG_PRECISION_F32,
                                                .kv = KG_PRECISION_F32 };
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

void kg_expect_same_ids(const char *what, const int32_t *got, size_t n_got, const int32_t *want, size_t n_want) {
    for (size_t i = 0; i < n_got && i < n_want; i++)
        if (got[i] != want[i]) ck_abort_msg("%s: id %zu is %d, not %d", what, i, got[i], want[i]);
    ck_assert_msg(n_got == n_want, "%s: %zu ids, not %zu", what, n_got, n_want);
}
