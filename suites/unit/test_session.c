/* Sessions over tiny models: however a sequence is fed, the logits are the same bits. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "engine/session.h"
#include "suites/harness/case.h"
#include "suites/support/tiny_model.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CTX = 600, N_IDS = 530 /* more than two chunks of a prefill */ };

struct opened {
    struct kg_backend *backend;
    struct kg_model *model;
};

static void open_model(struct kg_record *rec, const struct kg_tiny_model *tiny, const struct kg_backend_ops *ops,
                       int n_threads, struct opened *o) {
    struct kg_error err;
    char *path = kg_path_join(kg_scratch_dir(rec), "model.gguf");
    kg_tiny_model_write(path, tiny, NULL, 0);
    enum kg_status status = kg_backend_open_ops(ops, n_threads, &o->backend, &err);
    if (!status) status = kg_model_load(path, o->backend, NULL, &o->model, &err);
    if (status) ck_abort_msg("%s", err.message);
    free(path);
}

static void close_model(struct opened *o) {
    kg_model_free(o->model);
    kg_backend_close(o->backend);
}

static struct kg_session *new_session(const struct opened *o, uint32_t n_ctx) {
    const struct kg_session_options options = { .n_ctx = n_ctx };
    struct kg_session *session;
    struct kg_error err;
    if (kg_session_create(o->model, &options, &session, &err)) ck_abort_msg("%s", err.message);
    return session;
}

static const float *eval(struct kg_session *session, const int32_t *ids, size_t n, enum kg_logits_wanted wanted) {
    const float *logits;
    struct kg_error err;
    if (kg_session_eval(session, ids, n, wanted, &logits, &err)) ck_abort_msg("%s", err.message);
    return logits;
}

static void random_ids(struct kg_record *rec, int32_t *ids, size_t n) {
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)kg_rng_below(&rng, KG_TINY_TOKENS);
}

/* Logits of every position, fed in pieces of `piece` ids; malloc'ed. */
static float *all_logits(const struct opened *o, const int32_t *ids, size_t n, size_t piece) {
    const size_t n_vocab = kg_model_config(o->model)->n_vocab;
    float *all = kg_xcalloc(n * n_vocab, sizeof *all);
    struct kg_session *session = new_session(o, N_CTX);
    for (size_t done = 0, take; done < n; done += take) {
        take = n - done < piece ? n - done : piece;
        memcpy(all + done * n_vocab, eval(session, ids + done, take, KG_LOGITS_ALL), take * n_vocab * sizeof *all);
    }
    ck_assert_uint_eq(kg_session_n_past(session), n);
    kg_session_free(session);
    return all;
}

static const struct kg_tiny_model QWEN2 = KG_TINY_QWEN2, LLAMA = KG_TINY_LLAMA;

static void prefill_is_decodes(struct kg_record *rec, const void *arg) {
    const size_t pieces[] = { 1, 7, 256, 257, N_IDS };
    int32_t ids[N_IDS];
    struct opened o;
    random_ids(rec, ids, N_IDS);
    open_model(rec, arg, &kg_cpu_ops, 2, &o);
    const size_t n_vocab = kg_model_config(o.model)->n_vocab, n_bytes = N_IDS * n_vocab * sizeof(float);
    float *first = all_logits(&o, ids, N_IDS, pieces[0]);
    for (size_t i = 1; i < KG_COUNT_OF(pieces); i++) {
        float *other = all_logits(&o, ids, N_IDS, pieces[i]);
        ck_assert_msg(memcmp(first, other, n_bytes) == 0, "pieces of %zu differ from single ids", pieces[i]);
        free(other);
    }
    struct kg_session *session = new_session(&o, N_CTX);
    const float *last = eval(session, ids, N_IDS, KG_LOGITS_LAST);
    ck_assert_mem_eq(last, first + (N_IDS - 1) * n_vocab, n_vocab * sizeof(float));
    ck_assert_mem_ne(last, first, n_vocab * sizeof(float)); /* they do depend on the position */
    kg_session_free(session);
    free(first);
    close_model(&o);
}

static void threads_change_nothing(struct kg_record *rec, const void *arg) {
    (void)arg;
    int32_t ids[64];
    float *first = NULL;
    random_ids(rec, ids, 64);
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        struct opened o;
        open_model(rec, &QWEN2, &kg_cpu_ops, n_threads, &o);
        float *logits = all_logits(&o, ids, 64, 64);
        if (first) ck_assert_mem_eq(logits, first, 64 * kg_model_config(o.model)->n_vocab * sizeof *first);
        if (first) free(logits);
        else first = logits;
        close_model(&o);
    }
    free(first);
}

static void sessions_do_not_touch_one_another(struct kg_record *rec, const void *arg) {
    (void)arg;
    int32_t ids[2][20];
    struct opened o;
    random_ids(rec, ids[0], 40);
    open_model(rec, &LLAMA, &kg_cpu_ops, 2, &o);
    const size_t row = kg_model_config(o.model)->n_vocab * sizeof(float);
    float *alone[2] = { all_logits(&o, ids[0], 20, 1), all_logits(&o, ids[1], 20, 1) };
    struct kg_session *session[2] = { new_session(&o, N_CTX), new_session(&o, 33) };
    for (size_t i = 0; i < 20; i++)
        for (int which = 0; which < 2; which++) {
            const float *logits = eval(session[which], &ids[which][i], 1, KG_LOGITS_LAST);
            ck_assert_mem_eq(logits, (char *)alone[which] + i * row, row);
        }
    for (int which = 0; which < 2; which++) {
        kg_session_free(session[which]);
        free(alone[which]);
    }
    close_model(&o);
}

static void truncated_and_fed_again(struct kg_record *rec, const void *arg) {
    (void)arg;
    int32_t ids[30], other[30];
    struct opened o;
    struct kg_error err;
    random_ids(rec, ids, 30);
    for (int i = 0; i < 30; i++) other[i] = ids[29 - i];
    open_model(rec, &QWEN2, &kg_cpu_ops, 1, &o);
    const size_t n_vocab = kg_model_config(o.model)->n_vocab;
    float *want = all_logits(&o, ids, 30, 30);
    struct kg_session *session = new_session(&o, 64);
    eval(session, ids, 10, KG_LOGITS_LAST);
    eval(session, other, 25, KG_LOGITS_LAST);
    ck_assert_int_eq(kg_session_truncate(session, 36, &err), KG_ERR_RANGE);
    ck_assert_uint_eq(kg_session_n_past(session), 35);
    ck_assert_int_eq(kg_session_truncate(session, 10, &err), KG_OK);
    const float *got = eval(session, ids + 10, 20, KG_LOGITS_ALL);
    ck_assert_mem_eq(got, want + 10 * n_vocab, 20 * n_vocab * sizeof *got);
    kg_session_free(session);
    free(want);
    close_model(&o);
}

/* Fails at the call that brings it to 0. */
static int calls_until_failure;

static enum kg_status rope_that_fails(struct kg_backend *backend, const struct kg_rope_args *args,
                                      struct kg_error *err) {
    if (--calls_until_failure == 0) return kg_fail(err, KG_ERR_IO, "made to fail");
    return kg_cpu_ops.rope(backend, args, err);
}

/* Cached keys are being rotated by the other list of factors when a layer fails: whatever comes after begins with all
 * of them again. */
static void rope_lists_after_a_failure(struct kg_record *rec, const void *arg) {
    enum { N_SHORT = 20, N_ALL = 40 }; /* of an original context of 32 */
    struct kg_tiny_model tiny = KG_TINY_PHI3;
    struct kg_backend_ops ops = kg_cpu_ops;
    int32_t ids[N_ALL];
    const float *logits;
    struct opened o;
    struct kg_error err;
    (void)arg;
    tiny.long_short = true;
    tiny.window = 0;
    ops.rope = rope_that_fails;
    random_ids(rec, ids, N_ALL);
    calls_until_failure = 0;
    open_model(rec, &tiny, &ops, 1, &o);
    const size_t row_bytes = kg_model_config(o.model)->n_vocab * sizeof *logits;
    struct kg_session *at_once = new_session(&o, 64), *failed = new_session(&o, 64);
    const float *want = eval(at_once, ids, N_ALL, KG_LOGITS_LAST);
    eval(failed, ids, N_SHORT, KG_LOGITS_LAST);
    calls_until_failure = 3; /* q and k of the first layer are done */
    ck_assert_int_eq(kg_session_eval(failed, ids + N_SHORT, N_ALL - N_SHORT, KG_LOGITS_LAST, &logits, &err), KG_ERR_IO);
    ck_assert_uint_eq(kg_session_n_past(failed), N_SHORT);
    ck_assert_mem_eq(eval(failed, ids + N_SHORT, N_ALL - N_SHORT, KG_LOGITS_LAST), want, row_bytes);
    kg_session_free(failed);
    kg_session_free(at_once);
    close_model(&o);
}

static void refusals_change_nothing(struct kg_record *rec, const void *arg) {
    (void)arg;
    const int32_t good[] = { 1, 2, 3, 4, 5 }, outside[] = { 1, KG_TINY_TOKENS }, negative[] = { -1 };
    const float *logits = NULL;
    struct opened o;
    struct kg_error err;
    open_model(rec, &QWEN2, &kg_cpu_ops, 1, &o);
    struct kg_session *session = new_session(&o, 4);
    ck_assert_uint_eq(kg_session_n_ctx(session), 4);
    ck_assert_int_eq(kg_session_eval(session, good, 5, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE);
    ck_assert_msg(strstr(err.message, "context of 4") != NULL, "%s", err.message);
    eval(session, good, 3, KG_LOGITS_LAST);
    ck_assert_int_eq(kg_session_eval(session, good, 2, KG_LOGITS_ALL, &logits, &err), KG_ERR_RANGE);
    ck_assert_int_eq(kg_session_eval(session, good, SIZE_MAX, KG_LOGITS_ALL, &logits, &err), KG_ERR_RANGE);
    ck_assert_int_eq(kg_session_eval(session, outside, 1 + 1, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE);
    ck_assert_int_eq(kg_session_eval(session, outside + 1, 1, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE);
    ck_assert_msg(strstr(err.message, "id 261 at index 0") != NULL, "%s", err.message);
    ck_assert_int_eq(kg_session_eval(session, negative, 1, KG_LOGITS_LAST, &logits, &err), KG_ERR_RANGE);
    ck_assert_int_eq(kg_session_eval(session, good, 0, KG_LOGITS_LAST, &logits, &err), KG_ERR_USAGE);
    ck_assert_uint_eq(kg_session_n_past(session), 3);
    ck_assert_ptr_null(logits);
    eval(session, good, 1, KG_LOGITS_LAST);
    kg_session_free(session);
    close_model(&o);
}

static void precisions_the_cpu_lacks(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_session_options asked[] = { { 8, KG_PRECISION_F16, KG_PRECISION_F32 },
                                                { 8, KG_PRECISION_F32, KG_PRECISION_F16 },
                                                { 8, KG_PRECISION_F32, KG_PRECISION_F8 },
                                                { 8, KG_PRECISION_I8, KG_PRECISION_F32 },
                                                { 8, KG_PRECISION_F32, KG_PRECISION_I8 } };
    const char *const says[] = { "f16 activations", "f16 KV cache", "f8 KV cache", "i8 activations", "i8 KV cache" };
    struct opened o;
    open_model(rec, &QWEN2, &kg_cpu_ops, 1, &o);
    for (size_t i = 0; i < KG_COUNT_OF(asked); i++) {
        struct kg_session *session = NULL;
        struct kg_error err;
        ck_assert_int_eq(kg_session_create(o.model, &asked[i], &session, &err), KG_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(err.message, says[i]) != NULL, "%s", err.message);
        ck_assert_ptr_null(session);
    }
    close_model(&o);
}

/* A context that memory cannot hold is refused when it is asked for, and the model serves on. */
static void context_beyond_memory(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_session_options options = { .n_ctx = UINT32_MAX };
    struct kg_tiny_model wide = KG_TINY_QWEN2;
    struct opened o;
    struct kg_error err;
    struct kg_session *session = NULL;
    struct kg_memory_use before, after;
    wide.head_dim = 1024;
    open_model(rec, &wide, &kg_cpu_ops, 1, &o);
    kg_backend_memory(o.backend, &before);
    ck_assert_int_eq(kg_session_create(o.model, &options, &session, &err), KG_ERR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.message, "bytes needed for the KV cache"));
    kg_backend_memory(o.backend, &after);
    ck_assert_uint_eq(after.total_current_bytes, before.total_current_bytes);
    session = new_session(&o, 0);
    ck_assert_uint_eq(kg_session_n_ctx(session), wide.n_ctx); /* as trained */
    const int32_t id = 7;
    eval(session, &id, 1, KG_LOGITS_LAST);
    kg_session_free(session);
    close_model(&o);
}

static void memory_of_a_session(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct opened o;
    struct kg_memory_use before, during, after;
    int32_t ids[40];
    random_ids(rec, ids, 40);
    open_model(rec, &QWEN2, &kg_cpu_ops, 1, &o);
    kg_backend_memory(o.backend, &before);
    struct kg_session *session = new_session(&o, 50);
    kg_backend_memory(o.backend, &during);
    const uint64_t kv = kg_kv_cache_bytes(kg_model_config(o.model), 50, KG_PRECISION_F32);
    ck_assert_uint_eq(kv, 2 * 2 * 2 * 8 * 50 * 4); /* layers, K and V, KV heads, head size, positions, bytes */
    ck_assert_uint_eq(during.current_bytes[KG_MEMORY_KV], kv);
    eval(session, ids, 10, KG_LOGITS_LAST);
    eval(session, ids, 10, KG_LOGITS_ALL);
    for (int i = 0; i < 30; i++) eval(session, ids + i, 1, KG_LOGITS_LAST);
    kg_backend_memory(o.backend, &after);
    ck_assert_uint_eq(after.n_allocations, during.n_allocations); /* none while evaluating */
    ck_assert_uint_eq(after.total_peak_bytes, during.total_current_bytes);
    kg_session_free(session);
    kg_backend_memory(o.backend, &after);
    ck_assert_uint_eq(after.total_current_bytes, before.total_current_bytes);
    close_model(&o);
}

/* Taps */

enum { TAP_ROWS = 300 };
struct seen_taps {
    char names[256][24];
    size_t n_rows[256]; /* by name, over all chunks */
    size_t n_names;
    float logits[TAP_ROWS * KG_TINY_TOKENS];
};

static void see(void *user, const struct kg_tap *tap) {
    struct seen_taps *seen = user;
    size_t i = 0;
    while (i < seen->n_names && strcmp(seen->names[i], tap->name) != 0) i++;
    if (i == seen->n_names) snprintf(seen->names[seen->n_names++], sizeof *seen->names, "%s", tap->name);
    ck_assert_uint_eq(tap->first_position, seen->n_rows[i]); /* chunks follow one another without a gap */
    seen->n_rows[i] += tap->n_rows;
    for (size_t j = 0; j < tap->n_rows * tap->n_cols; j++) ck_assert(isfinite(tap->data[j]));
    if (strcmp(tap->name, "logits") != 0) return;
    ck_assert_uint_eq(tap->n_cols, KG_TINY_TOKENS);
    memcpy(seen->logits + (size_t)tap->first_position * KG_TINY_TOKENS, tap->data,
           tap->n_rows * tap->n_cols * sizeof *tap->data);
}

static void taps_name_every_activation(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const char *const OF_LAYER[] = { "attn_norm",     "q",        "k",        "v",
                                            "q_rope",        "k_rope",   "attn",     "attn_out",
                                            "attn_residual", "ffn_norm", "ffn_gate", "ffn_up",
                                            "ffn_act",       "ffn_out",  "out" };
    static struct seen_taps seen;
    int32_t ids[TAP_ROWS];
    struct opened o;
    memset(&seen, 0, sizeof seen);
    random_ids(rec, ids, TAP_ROWS);
    open_model(rec, &QWEN2, &kg_cpu_ops, 2, &o);
    float *want = all_logits(&o, ids, TAP_ROWS, TAP_ROWS);
    struct kg_session *session = new_session(&o, N_CTX);
    kg_session_set_tap(session, see, &seen);
    eval(session, ids, TAP_ROWS, KG_LOGITS_ALL);
    size_t at = 0;
    ck_assert_str_eq(seen.names[at++], "embd");
    for (int layer = 0; layer < 2; layer++)
        for (size_t i = 0; i < KG_COUNT_OF(OF_LAYER); i++) {
            char name[24];
            snprintf(name, sizeof name, "blk.%d.%s", layer, OF_LAYER[i]);
            ck_assert_str_eq(seen.names[at++], name);
        }
    ck_assert_str_eq(seen.names[at++], "output_norm");
    ck_assert_str_eq(seen.names[at++], "logits");
    ck_assert_uint_eq(seen.n_names, at);
    for (size_t i = 0; i < at; i++) ck_assert_uint_eq(seen.n_rows[i], TAP_ROWS);
    ck_assert_mem_eq(seen.logits, want, sizeof seen.logits);

    kg_session_set_tap(session, NULL, NULL);
    eval(session, ids, 1, KG_LOGITS_LAST);
    ck_assert_uint_eq(seen.n_rows[0], TAP_ROWS);
    kg_session_free(session);
    free(want);
    close_model(&o);
}

struct seen_rows {
    size_t n_all, n_asked, n_others;
};

/* Of ids 3 to 9 with the last one's logits asked for. */
static void see_rows(void *user, const struct kg_tap *tap) {
    struct seen_rows *seen = user;
    const bool all = tap->n_rows == 7 && tap->first_position == 3, asked = tap->n_rows == 1 && tap->first_position == 9;
    const bool is_output = strcmp(tap->name, "output_norm") == 0 || strcmp(tap->name, "logits") == 0;
    seen->n_all += all && !is_output;
    seen->n_asked += asked && is_output;
    seen->n_others += !(is_output ? asked : all);
}

/* Taps see every row of the layers, also of the last, and of the output those whose logits are asked for. */
static void taps_say_which_rows(struct kg_record *rec, const void *arg) {
    struct seen_rows seen = { 0 };
    int32_t ids[10];
    struct opened o;
    (void)arg;
    random_ids(rec, ids, 10);
    open_model(rec, &QWEN2, &kg_cpu_ops, 2, &o);
    struct kg_session *session = new_session(&o, N_CTX);
    eval(session, ids, 3, KG_LOGITS_LAST);
    kg_session_set_tap(session, see_rows, &seen);
    eval(session, ids + 3, 7, KG_LOGITS_LAST);
    ck_assert_uint_eq(seen.n_others, 0);
    ck_assert_uint_eq(seen.n_asked, 2);
    ck_assert_uint_eq(seen.n_all, 1 + 2 * 15);
    kg_session_free(session);
    close_model(&o);
}

/* A back end's whole step */

static int n_steps;

/* Lowered to nothing but the plan. */
struct scripted_lowered {
    struct kg_lowered base;
    const struct kg_plan *plan;
};

static enum kg_status scripted_lower(struct kg_backend *backend, const struct kg_plan *plan,
                                     struct kg_lowered **lowered, struct kg_error *err) {
    struct scripted_lowered *l = calloc(1, sizeof *l);
    (void)backend, (void)err;
    ck_assert_ptr_nonnull(l);
    l->plan = plan;
    *lowered = &l->base;
    return KG_OK;
}

static enum kg_status scripted_step(struct kg_backend *backend, struct kg_lowered *lowered,
                                    const struct kg_step_args *args, struct kg_error *err) {
    const struct kg_plan *plan = ((struct scripted_lowered *)lowered)->plan;
    const struct kg_linear_args *output = &plan->nodes[plan->n_nodes - 1].args.linear;
    float *logits = output->y;
    (void)backend, (void)err;
    n_steps++;
    ck_assert_uint_eq(args->run.n_rows, 1);
    for (uint32_t i = 0; i < output->weight.n_rows; i++)
        logits[i] = (float)args->run.position * 1000 + (float)args->id + (float)i / 1000;
    return KG_OK;
}

static void scripted_free(struct kg_backend *backend, struct kg_lowered *lowered) {
    (void)backend;
    free(lowered);
}

static void whole_step_serves_single_ids(struct kg_record *rec, const void *arg) {
    (void)arg;
    static struct kg_backend_ops ops;
    static struct seen_taps seen;
    const int32_t ids[] = { 5, 6, 7 };
    struct opened o;
    memset(&seen, 0, sizeof seen);
    ops = kg_cpu_ops;
    ops.lower = scripted_lower;
    ops.decode_step = scripted_step;
    ops.free_lowered = scripted_free;
    open_model(rec, &QWEN2, &ops, 1, &o);
    struct kg_session *session = new_session(&o, 16);
    n_steps = 0;
    eval(session, ids, 3, KG_LOGITS_LAST); /* a prefill is no step */
    ck_assert_int_eq(n_steps, 0);
    const float *logits = eval(session, ids, 1, KG_LOGITS_LAST);
    ck_assert_int_eq(n_steps, 1);
    ck_assert_float_eq(logits[2], 3000 + 5 + 2.f / 1000);
    ck_assert_uint_eq(kg_session_n_past(session), 4);
    kg_session_free(session);
    close_model(&o);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "session", .name = #function, .backend = "cpu", .dtype = "f32", .run = function }
static const struct kg_case CASES[] = {
    { .layer = "unit",
      .op = "session",
      .name = "prefill_is_decodes_qwen2",
      .backend = "cpu",
      .dtype = "f32",
      .shape = "ids=530 pieces=1,7,256,257,530",
      .run = prefill_is_decodes,
      .arg = &QWEN2 },
    { .layer = "unit",
      .op = "session",
      .name = "prefill_is_decodes_llama",
      .backend = "cpu",
      .dtype = "f32",
      .shape = "ids=530 pieces=1,7,256,257,530",
      .run = prefill_is_decodes,
      .arg = &LLAMA },
    CASE(threads_change_nothing),
    CASE(sessions_do_not_touch_one_another),
    CASE(truncated_and_fed_again),
    CASE(refusals_change_nothing),
    CASE(rope_lists_after_a_failure),
    CASE(precisions_the_cpu_lacks),
    CASE(context_beyond_memory),
    CASE(memory_of_a_session),
    CASE(taps_name_every_activation),
    CASE(taps_say_which_rows),
    CASE(whole_step_serves_single_ids),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
