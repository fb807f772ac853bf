/* Sessions: what was evaluated how, next to whom and on how many threads changes no bit of a logit (on a GPU: no more
 * than rounding, and no bit where it was computed alike); what does not fit is refused and changes nothing. */
#include "suites/support/rig.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sequence of n_ids evaluated n_at_once at a time against one by one, on any of the fixtures. */
struct pieces_row {
    const char *name, *fixture;
    size_t n_ids, n_at_once;
};
static const struct pieces_row PIECES[] = {
    /* The engine's chunks are of 512 rows, logits of 32: both edges, and neither. */
    { "haiku", KG_HAIKU_MODEL, 1, 1 },
    { "haiku", KG_HAIKU_MODEL, 2, 2 },
    { "haiku", KG_HAIKU_MODEL, 3, 3 },
    { "haiku", KG_HAIKU_MODEL, 31, 31 },
    { "haiku", KG_HAIKU_MODEL, 32, 32 },
    { "haiku", KG_HAIKU_MODEL, 33, 33 },
    { "haiku", KG_HAIKU_MODEL, 65, 65 },
    { "haiku", KG_HAIKU_MODEL, 511, 511 },
    { "haiku", KG_HAIKU_MODEL, 512, 512 },
    { "haiku", KG_HAIKU_MODEL, 513, 513 },
    { "haiku", KG_HAIKU_MODEL, 100, 7 },
    { "haiku", KG_HAIKU_MODEL, 546, 545 },
    { "head_size_80", "tiny-qwen2/qwen2-head80.gguf", 40, 40 },
    { "interleaved_rope", "tiny-llama/llama-f32.gguf", 40, 40 },
    { "block_formats", "tiny-llama/llama-blocks.gguf", 40, 13 },
    { "super_blocks", "tiny-llama/llama-k.gguf", 40, 40 },
    { "rope_factors", "tiny-llama/llama3-freqs.gguf", 40, 40 },
};

static void prefill_equals_decodes(struct kg_record *rec, const void *arg) {
    const struct pieces_row *const row = arg;
    struct kg_rig rig = kg_rig_open(row->fixture, 0);
    int32_t *const ids = kg_rig_random_ids(&rig, kg_record_seed(rec), row->n_ids);
    struct kg_session *const whole = kg_rig_session(&rig, (uint32_t)row->n_ids);
    struct kg_session *const steps = kg_rig_session(&rig, (uint32_t)row->n_ids);
    float *const at_once = kg_rig_logits(&rig, whole, ids, row->n_ids, row->n_at_once);
    float *const one_by_one = kg_rig_logits(&rig, steps, ids, row->n_ids, 1);
    kg_rig_expect_same(&rig, "prefill against decodes", at_once, one_by_one, row->n_ids * rig.config->n_vocab);
    kg_record_metric(rec, "logits_compared", "count", (double)(row->n_ids * rig.config->n_vocab));
    free(one_by_one);
    free(at_once);
    kg_session_free(steps);
    kg_session_free(whole);
    free(ids);
    kg_rig_close(&rig);
}

static void load_and_free_leaves_nothing(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (int i = 0; i < 5; i++) {
        struct kg_error err = { 0 };
        struct kg_memory_use use;
        struct kg_rig rig = kg_rig_open(KG_HAIKU_MODEL, 2);
        struct kg_session *const session = kg_rig_session(&rig, 32);
        const float *logits;
        kg_must(kg_session_eval(session, (const int32_t[]){ 1, 2, 3 }, 3, KG_LOGITS_LAST, &logits, &err), &err);
        kg_session_free(session);
        kg_backend_memory(rig.backend, &use);
        ck_assert_uint_eq(use.total_current_bytes, kg_model_weight_bytes(rig.model));
        kg_model_free(rig.model);
        kg_backend_memory(rig.backend, &use);
        ck_assert_uint_eq(use.total_current_bytes, 0);
        for (int tag = 0; tag < KG_MEMORY_TAG_COUNT; tag++) ck_assert_uint_eq(use.current_bytes[tag], 0);
        kg_backend_close(rig.backend);
    }
}

static void free_of_nothing_is_good(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    kg_session_free(NULL);
    kg_model_free(NULL);
    kg_backend_close(NULL);
}

enum { N_BESIDE = 48 };

static void two_sessions_take_turns(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const size_t n_vocab = rig->config->n_vocab;
    int32_t *const a = kg_rig_random_ids(rig, kg_record_seed(rec), N_BESIDE);
    int32_t *const b = kg_rig_random_ids(rig, kg_record_seed(rec) + 1, N_BESIDE);
    struct kg_session *const alone = kg_rig_session(rig, N_BESIDE);
    float *const want = kg_rig_logits(rig, alone, a, N_BESIDE, 1);
    struct kg_session *const one = kg_rig_session(rig, N_BESIDE), *const other = kg_rig_session(rig, N_BESIDE);
    for (size_t i = 0; i < N_BESIDE; i++) {
        float *const got = kg_rig_logits(rig, one, a + i, 1, 1), *const between =
                                                                     kg_rig_logits(rig, other, b + i, 1, 1);
        kg_expect_same_bits("beside another session", got, want + i * n_vocab, n_vocab);
        free(between);
        free(got);
    }
    kg_session_free(other);
    kg_session_free(one);
    kg_session_free(alone);
    free(want);
    free(b);
    free(a);
}

struct beside {
    const struct kg_rig *rig;
    const int32_t *ids;
    float *logits;
    enum kg_status status;
};

/* No assertion on this thread: Check's failures belong to the case's own. */
static void *evaluate_on_a_thread(void *arg) {
    struct beside *const b = arg;
    const size_t n_vocab = b->rig->config->n_vocab;
    const struct kg_session_options options = kg_rig_options(N_BESIDE);
    struct kg_session *session = NULL;
    b->status = kg_session_create(b->rig->model, &options, &session, NULL);
    for (size_t i = 0; b->status == KG_OK && i < N_BESIDE; i++) {
        const float *row;
        b->status = kg_session_eval(session, b->ids + i, 1, KG_LOGITS_LAST, &row, NULL);
        if (b->status == KG_OK) memcpy(b->logits + i * n_vocab, row, n_vocab * sizeof *row);
    }
    kg_session_free(session);
    return NULL;
}

static void two_sessions_on_two_threads(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const size_t n_vocab = rig->config->n_vocab;
    pthread_t threads[2];
    struct beside beside[2];
    int32_t *ids[2];
    for (size_t i = 0; i < 2; i++) {
        ids[i] = kg_rig_random_ids(rig, kg_record_seed(rec) + i, N_BESIDE);
        beside[i] =
            (struct beside){ .rig = rig, .ids = ids[i], .logits = kg_xcalloc(N_BESIDE, n_vocab * sizeof(float)) };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, evaluate_on_a_thread, &beside[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(beside[i].status, KG_OK);
        struct kg_session *const alone = kg_rig_session(rig, N_BESIDE);
        float *const want = kg_rig_logits(rig, alone, ids[i], N_BESIDE, 1);
        kg_expect_same_bits("beside another thread", beside[i].logits, want, N_BESIDE * n_vocab);
        kg_session_free(alone);
        free(want);
        free(beside[i].logits);
        free(ids[i]);
    }
}

static void thread_count_changes_nothing(struct kg_record *rec, const void *arg) {
    static const int COUNTS[] = { 1, 2, 3, 7 };
    enum { N = 37 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    int32_t *const ids = kg_rig_random_ids(rig, kg_record_seed(rec), N);
    struct kg_session *const first = kg_rig_session(rig, N);
    float *const want = kg_rig_logits(rig, first, ids, N, N - 1);
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++) {
        struct kg_rig other = kg_rig_open(KG_HAIKU_MODEL, COUNTS[i]);
        struct kg_session *const session = kg_rig_session(&other, N);
        float *const got = kg_rig_logits(&other, session, ids, N, N - 1);
        char what[32];
        snprintf(what, sizeof what, "%d threads", COUNTS[i]);
        kg_expect_same_bits(what, got, want, N * rig->config->n_vocab);
        free(got);
        kg_session_free(session);
        kg_rig_close(&other);
    }
    kg_session_free(first);
    free(want);
    free(ids);
}

/* A, B, back to after A, C: what B left in the cache is not seen. */
static void truncate_forgets(struct kg_record *rec, const void *arg) {
    enum { A = 20, B = 30, C = 25 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const size_t n_vocab = rig->config->n_vocab;
    int32_t *const ids = kg_rig_random_ids(rig, kg_record_seed(rec), A + C);
    int32_t *const other = kg_rig_random_ids(rig, kg_record_seed(rec) + 1, B);
    struct kg_session *const fresh = kg_rig_session(rig, A + C), *const session = kg_rig_session(rig, A + B);
    float *const want = kg_rig_logits(rig, fresh, ids, A + C, A + C);
    struct kg_error err = { 0 };
    free(kg_rig_logits(rig, session, ids, A, A));
    free(kg_rig_logits(rig, session, other, B, B));
    kg_must(kg_session_truncate(session, A, &err), &err);
    ck_assert_uint_eq(kg_session_n_past(session), A);
    float *const after = kg_rig_logits(rig, session, ids + A, C, C);
    kg_rig_expect_same(rig, "after truncation", after, want + A * n_vocab, C * n_vocab);
    kg_must(kg_session_truncate(session, 0, &err), &err);
    float *const again = kg_rig_logits(rig, session, ids, A + C, 9);
    kg_rig_expect_same(rig, "after truncation to nothing", again, want, (A + C) * n_vocab);
    kg_must_fail(kg_session_truncate(session, A + C + 1, &err), KG_ERR_RANGE, &err, "46", "45", NULL);
    ck_assert_uint_eq(kg_session_n_past(session), A + C);
    free(again);
    free(after);
    free(want);
    kg_session_free(session);
    kg_session_free(fresh);
    free(other);
    free(ids);
}

static void id_outside_the_vocabulary(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const int32_t n_vocab = (int32_t)rig->config->n_vocab;
    const int32_t bad[] = { -1, n_vocab, n_vocab + 1, INT32_MIN, INT32_MAX };
    struct kg_session *const session = kg_rig_session(rig, 8), *const fresh = kg_rig_session(rig, 8);
    struct kg_error err = { 0 };
    const float *logits = NULL;
    free(kg_rig_logits(rig, session, (const int32_t[]){ 5 }, 1, 1));
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++) {
        const int32_t ids[] = { 6, 7, bad[i] };
        char name[16];
        snprintf(name, sizeof name, "%d", bad[i]);
        kg_must_fail(kg_session_eval(session, ids, 3, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE, &err, name, "2",
                     NULL);
        ck_assert_uint_eq(kg_session_n_past(session), 1);
        ck_assert_ptr_null(logits);
    }
    const int32_t good[] = { 5, 0, n_vocab - 1 };
    float *const want = kg_rig_logits(rig, fresh, good, 3, 3), *const got = kg_rig_logits(rig, session, good + 1, 2, 2);
    kg_rig_expect_same(rig, "after refused ids", got, want + n_vocab, 2 * (size_t)n_vocab);
    free(got);
    free(want);
    kg_session_free(fresh);
    kg_session_free(session);
}

static void context_overflow_changes_nothing(struct kg_record *rec, const void *arg) {
    enum { N_CTX = 16 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const size_t n_vocab = rig->config->n_vocab;
    int32_t *const ids = kg_rig_random_ids(rig, kg_record_seed(rec), N_CTX + 1);
    struct kg_session *const session = kg_rig_session(rig, N_CTX), *const larger = kg_rig_session(rig, N_CTX + 1);
    float *const want = kg_rig_logits(rig, larger, ids, N_CTX, 1);
    struct kg_error err = { 0 };
    const float *logits = NULL;
    kg_must_fail(kg_session_eval(session, ids, N_CTX + 1, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE, &err, "17",
                 "16", NULL);
    ck_assert_uint_eq(kg_session_n_past(session), 0);
    float *const got = kg_rig_logits(rig, session, ids, N_CTX, N_CTX);
    kg_rig_expect_same(rig, "a full context", got, want, N_CTX * n_vocab);
    kg_must_fail(kg_session_eval(session, ids, 1, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE, &err, "16", NULL);
    kg_must_fail(kg_session_eval(session, ids, SIZE_MAX, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE, &err, NULL);
    ck_assert_uint_eq(kg_session_n_past(session), N_CTX);
    kg_must(kg_session_truncate(session, N_CTX - 1, &err), &err);
    float *const last = kg_rig_logits(rig, session, ids + N_CTX - 1, 1, 1);
    kg_rig_expect_same(rig, "the last position again", last, want + (N_CTX - 1) * n_vocab, n_vocab);
    free(last);
    free(got);
    free(want);
    kg_session_free(larger);
    kg_session_free(session);
    free(ids);
}

static void nothing_to_evaluate(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_session *const session = kg_rig_session(kg_rig_shared(), 4);
    const int32_t none = 0;
    const float *logits = NULL;
    struct kg_error err = { 0 };
    kg_must_fail(kg_session_eval(session, &none, 0, KG_LOGITS_ALL, &logits, &err), KG_ERR_USAGE, &err, "ids", NULL);
    kg_session_free(session);
}

static void last_is_the_last_of_all(struct kg_record *rec, const void *arg) {
    enum { N = 70 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    int32_t *const ids = kg_rig_random_ids(rig, kg_record_seed(rec), N);
    struct kg_session *const a = kg_rig_session(rig, N), *const b = kg_rig_session(rig, N);
    float *const all = kg_rig_logits(rig, a, ids, N, N);
    const float *last;
    struct kg_error err = { 0 };
    kg_must(kg_session_eval(b, ids, N, KG_LOGITS_LAST, &last, &err), &err);
    kg_rig_expect_same(rig, "last", last, all + (N - 1) * (size_t)rig->config->n_vocab, rig->config->n_vocab);
    free(all);
    kg_session_free(b);
    kg_session_free(a);
    free(ids);
}

/* Rows past the tokenizer's tokens are computed like any other. */
static void every_row_of_logits_is_finite(struct kg_record *rec, const void *arg) {
    enum { N = 33 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const size_t n_vocab = rig->config->n_vocab;
    int32_t *const ids = kg_rig_random_ids(rig, kg_record_seed(rec), N);
    struct kg_session *const session = kg_rig_session(rig, N);
    float *const logits = kg_rig_logits(rig, session, ids, N, N);
    size_t n_zero = 0;
    for (size_t i = 0; i < N * n_vocab; i++) {
        ck_assert_msg(isfinite(logits[i]), "logit %zu at position %zu is %g", i % n_vocab, i / n_vocab,
                      (double)logits[i]);
        n_zero += logits[i] == 0.0f;
    }
    ck_assert_msg(n_zero < N, "%zu logits are 0: not all were written", n_zero);
    free(logits);
    kg_session_free(session);
    free(ids);
}

static void kv_bytes_are_the_formula(struct kg_record *rec, const void *arg) {
    static const uint32_t CONTEXTS[] = { 1, 7, 64, 512, 1024 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const struct kg_model_config *const c = rig->config;
    for (size_t i = 0; i < KG_COUNT_OF(CONTEXTS); i++) {
        struct kg_memory_use before, after;
        kg_backend_memory(rig->backend, &before);
        struct kg_session *const session = kg_rig_session(rig, CONTEXTS[i]);
        kg_backend_memory(rig->backend, &after);
        const uint64_t measured = after.current_bytes[KG_MEMORY_KV] - before.current_bytes[KG_MEMORY_KV];
        const uint64_t expected = (uint64_t)c->n_layers * 2 * c->n_kv_heads * c->head_dim * CONTEXTS[i] * 4;
        const bool half = kg_rig_options(1).kv == KG_PRECISION_F16;
        ck_assert_uint_eq(measured, half ? expected / 2 : expected);
        ck_assert_uint_eq(kg_kv_cache_bytes(c, CONTEXTS[i], KG_PRECISION_F32), expected);
        ck_assert_uint_eq(kg_kv_cache_bytes(c, CONTEXTS[i], KG_PRECISION_F16), expected / 2);
        ck_assert_uint_eq(kg_kv_cache_bytes(c, CONTEXTS[i], KG_PRECISION_F8), expected / 4);
        kg_record_metric(rec, "kv_cache", "bytes", (double)measured);
        kg_session_free(session);
    }
}

/* PITFALLS: Qwen2.5-0.5B 6 MiB, Phi-3-mini 192 MiB, FP16 at 512 tokens. */
static void kv_bytes_of_known_models(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_model_config qwen = { .n_layers = 24, .n_kv_heads = 2, .head_dim = 64 };
    const struct kg_model_config phi = { .n_layers = 32, .n_kv_heads = 32, .head_dim = 96 };
    ck_assert_uint_eq(kg_kv_cache_bytes(&qwen, 512, KG_PRECISION_F16), 6u << 20);
    ck_assert_uint_eq(kg_kv_cache_bytes(&phi, 512, KG_PRECISION_F16), 192u << 20);
}

static void context_of_the_model_by_default(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    struct kg_session *const session = kg_rig_session(rig, 0);
    ck_assert_uint_eq(kg_session_n_ctx(session), rig->config->n_ctx_train);
    ck_assert_uint_eq(kg_session_n_past(session), 0);
    kg_session_free(session);
}

static void too_large_a_cache_is_refused(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const struct kg_session_options options = kg_rig_options(UINT32_MAX);
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)kg_kv_cache_bytes(rig->config, UINT32_MAX, options.kv));
    struct kg_memory_use before, after;
    struct kg_session *session = NULL;
    struct kg_error err = { 0 };
    kg_backend_memory(rig->backend, &before);
    kg_must_fail(kg_session_create(rig->model, &options, &session, &err), KG_ERR_NO_MEMORY, &err, bytes, "free", "KV",
                 NULL);
    kg_backend_memory(rig->backend, &after);
    ck_assert_uint_eq(after.total_current_bytes, before.total_current_bytes);
    ck_assert_ptr_null(session);
    int32_t *const ids = kg_rig_random_ids(rig, kg_record_seed(rec), 3);
    struct kg_session *const next = kg_rig_session(rig, 3);
    free(kg_rig_logits(rig, next, ids, 3, 3));
    kg_session_free(next);
    free(ids);
}

static void precision_is_never_implied(struct kg_record *rec, const void *arg) {
    static const struct kg_session_options ASKED[] = {
        { .n_ctx = 4, .activations = KG_PRECISION_F16, .kv = KG_PRECISION_F32 },
        { .n_ctx = 4, .activations = KG_PRECISION_F32, .kv = KG_PRECISION_F16 },
        { .n_ctx = 4, .activations = KG_PRECISION_F32, .kv = KG_PRECISION_F8 },
    };
    static const char *const NAMED[] = { "f16", "f16", "f8" };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) {
        struct kg_session *session = NULL;
        struct kg_error err = { 0 };
        kg_must_fail(kg_session_create(kg_rig_shared()->model, &ASKED[i], &session, &err), KG_ERR_UNSUPPORTED, &err,
                     NAMED[i], "cpu", NULL);
    }
}

static void unknown_back_end_is_named(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_backend *backend = NULL;
    struct kg_error err = { 0 };
    kg_must_fail(kg_backend_open("abacus", 0, &backend, &err), KG_ERR_USAGE, &err, "abacus", NULL);
    ck_assert_ptr_null(backend);
}

struct tap_count {
    size_t n_taps, n_values;
    bool logits_seen;
};

static void count_tap(void *user, const struct kg_tap *tap) {
    struct tap_count *const count = user;
    count->n_taps++;
    count->n_values += tap->n_rows * tap->n_cols;
    count->logits_seen = count->logits_seen || strcmp(tap->name, "logits") == 0;
}

static void taps_change_nothing(struct kg_record *rec, const void *arg) {
    enum { N = 40 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    int32_t *const ids = kg_rig_random_ids(rig, kg_record_seed(rec), N);
    struct kg_session *const plain = kg_rig_session(rig, N), *const tapped = kg_rig_session(rig, N);
    struct tap_count count = { 0 };
    float *const want = kg_rig_logits(rig, plain, ids, N, N - 1);
    kg_session_set_tap(tapped, count_tap, &count);
    float *const got = kg_rig_logits(rig, tapped, ids, N, N - 1);
    kg_rig_expect_same(rig, "with taps", got, want, N * (size_t)rig->config->n_vocab);
    ck_assert_uint_ge(count.n_taps, 2 * (3 + 15 * rig->config->n_layers));
    ck_assert(count.logits_seen);
    kg_record_metric(rec, "tapped_values", "count", (double)count.n_values);
    count = (struct tap_count){ 0 };
    kg_session_set_tap(tapped, NULL, NULL);
    struct kg_error err = { 0 };
    kg_must(kg_session_truncate(tapped, N - 1, &err), &err);
    free(kg_rig_logits(rig, tapped, ids, 1, 1));
    ck_assert_uint_eq(count.n_taps, 0);
    free(got);
    free(want);
    kg_session_free(tapped);
    kg_session_free(plain);
    free(ids);
}

static const struct kg_case OTHERS[] = {
#define SESSION_CASE(name_)                                                                                            \
    { .layer = "integration", .op = "session", .name = #name_, .dtype = "f32", .run = name_ }
    SESSION_CASE(load_and_free_leaves_nothing),  SESSION_CASE(free_of_nothing_is_good),
    SESSION_CASE(two_sessions_take_turns),       SESSION_CASE(two_sessions_on_two_threads),
    SESSION_CASE(thread_count_changes_nothing),  SESSION_CASE(truncate_forgets),
    SESSION_CASE(id_outside_the_vocabulary),     SESSION_CASE(context_overflow_changes_nothing),
    SESSION_CASE(nothing_to_evaluate),           SESSION_CASE(last_is_the_last_of_all),
    SESSION_CASE(every_row_of_logits_is_finite), SESSION_CASE(kv_bytes_are_the_formula),
    SESSION_CASE(kv_bytes_of_known_models),      SESSION_CASE(context_of_the_model_by_default),
    SESSION_CASE(too_large_a_cache_is_refused),  SESSION_CASE(taps_change_nothing),
#undef SESSION_CASE
};

static const struct kg_case OF_THE_CPU[] = {
    { .layer = "integration",
      .op = "session",
      .name = "precision_is_never_implied",
      .backend = "cpu",
      .dtype = "f32",
      .run = precision_is_never_implied },
    { .layer = "integration",
      .op = "session",
      .name = "unknown_back_end_is_named",
      .backend = "cpu",
      .dtype = "f32",
      .run = unknown_back_end_is_named },
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(PIECES); i++) {
        char shape[64], name[64];
        snprintf(shape, sizeof shape, "N=%zu at_once=%zu", PIECES[i].n_ids, PIECES[i].n_at_once);
        snprintf(name, sizeof name, "prefill_equals_decodes_%s", PIECES[i].name);
        kg_rig_add(list, &(struct kg_case){ .layer = "integration",
                                            .op = "session",
                                            .name = name,
                                            .dtype = "f32",
                                            .shape = shape,
                                            .definition = PIECES[i].fixture,
                                            .run = prefill_equals_decodes,
                                            .arg = &PIECES[i] });
    }
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_rig_add(list, &OTHERS[i]);
    for (size_t i = 0; i < KG_COUNT_OF(OF_THE_CPU); i++) kg_rig_add(list, &OF_THE_CPU[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
