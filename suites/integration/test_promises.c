/* What a back end promises beside numbers: sessions on threads are as alone, evaluation allocates nothing, and what it
 * cannot do or what came out damaged is an error by name, after which the next session works. */
#include "suites/support/edit_model.h"
#include "suites/support/rig.h"
#include "base/buffer.h"
#include "base/size.h"
#include "engine/op_workspace.h"
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 4, N_PROMPT = 41, N_NEW = 40, N_ROUNDS = 3, N_CTX = N_PROMPT + N_NEW };

/* One sequence: a prompt (a product of many rows, on a GPU by a library), then tokens one by one (a graph). */
struct writer {
    const struct kg_rig *rig;
    const int32_t *prompt;
    uint64_t seed;
    struct kg_generate_result result;
    enum kg_status status;
    struct kg_error err;
};

static void write_once(struct writer *w) {
    const struct kg_session_options options = kg_rig_options(N_CTX);
    const struct kg_generate_options generate = {
        .sampler = { .temperature = 1, .repeat_penalty = 1, .top_p = 1, .seed = w->seed },
        .max_tokens = N_NEW,
        .ignore_end = true
    };
    struct kg_session *session = NULL;
    w->status = kg_session_create(w->rig->model, &options, &session, &w->err);
    if (w->status == KG_OK) w->status = kg_generate(session, w->prompt, N_PROMPT, &generate, &w->result, &w->err);
    kg_session_free(session);
}

static void *write_on_a_thread(void *arg) {
    write_once(arg);
    return NULL;
}

static void write_beside_others(const struct writer *alone, struct writer *together) {
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        together[i] = (struct writer){ .rig = alone[i].rig, .prompt = alone[i].prompt, .seed = alone[i].seed };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_on_a_thread, &together[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

static void threads_write_what_they_write_alone(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    struct writer alone[N_THREADS], together[N_THREADS];
    int32_t *prompts[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        prompts[i] = kg_rig_random_ids(rig, kg_record_seed(rec) + i, N_PROMPT);
        alone[i] = (struct writer){ .rig = rig, .prompt = prompts[i], .seed = i };
        write_once(&alone[i]);
        kg_must(alone[i].status, &alone[i].err);
        ck_assert_uint_eq(alone[i].result.n_ids, N_NEW);
    }
    ck_assert_int_ne(memcmp(alone[0].result.ids, alone[1].result.ids, N_NEW * sizeof(int32_t)), 0);
    for (int round = 0; round < N_ROUNDS; round++) {
        write_beside_others(alone, together);
        for (size_t i = 0; i < N_THREADS; i++) {
            kg_must(together[i].status, &together[i].err);
            kg_expect_same_ids("beside other threads", together[i].result.ids, together[i].result.n_ids,
                               alone[i].result.ids, alone[i].result.n_ids);
            kg_generate_result_free(&together[i].result);
        }
    }
    kg_record_metric(rec, "ids_compared", "count", N_ROUNDS * N_THREADS * N_NEW);
    for (size_t i = 0; i < N_THREADS; i++) {
        kg_generate_result_free(&alone[i].result);
        free(prompts[i]);
    }
}

/* Prompt, decoding and a second prompt after them: the memory in use never rises over what the session took. */
static void evaluation_allocates_nothing(struct kg_record *rec, const void *arg) {
    enum { N_DECODED = 5, N = 2 * N_PROMPT + N_DECODED };
    (void)arg;
    struct kg_rig rig = kg_rig_open(KG_HAIKU_MODEL, 0);
    int32_t *const ids = kg_rig_random_ids(&rig, kg_record_seed(rec), N);
    struct kg_session *const session = kg_rig_session(&rig, N);
    struct kg_memory_use before, after;
    kg_backend_memory(rig.backend, &before);
    free(kg_rig_logits(&rig, session, ids, N_PROMPT, N_PROMPT));
    free(kg_rig_logits(&rig, session, ids + N_PROMPT, N_DECODED, 1));
    free(kg_rig_logits(&rig, session, ids + N_PROMPT + N_DECODED, N_PROMPT, N_PROMPT));
    kg_backend_memory(rig.backend, &after);
    ck_assert_uint_eq(after.total_peak_bytes, before.total_peak_bytes);
    ck_assert_uint_eq(after.total_current_bytes, before.total_current_bytes);
    kg_session_free(session);
    free(ids);
    kg_rig_close(&rig);
}

/* A model file with one element damaged: prompts, single tokens and generation all say so; the same process then serves
 * the file as it was. */
static const struct damage {
    const char *name, *tensor;
    enum kg_tensor_edit how;
} DAMAGES[] = {
    { "a_projection_not_a_number", "blk.1.attn_v.weight", KG_TENSOR_NAN },
    { "an_infinite_norm", "output_norm.weight", KG_TENSOR_INFINITE },
};

static void expect_numeric_error(struct kg_model *model, size_t n_prompt) {
    static const int32_t IDS[N_PROMPT] = { 1 };
    const struct kg_session_options options = kg_rig_options(N_CTX);
    const struct kg_generate_options generate = { .sampler = { .repeat_penalty = 1, .top_p = 1 },
                                                  .max_tokens = 3,
                                                  .ignore_end = true };
    struct kg_session *session;
    struct kg_generate_result result = { 0 };
    struct kg_error err = { 0 };
    const float *logits = NULL;
    kg_must(kg_session_create(model, &options, &session, &err), &err);
    kg_must_fail(kg_session_eval(session, IDS, n_prompt, KG_LOGITS_LAST, &logits, &err), KG_ERR_NUMERIC, &err, "logit",
                 "position", NULL);
    ck_assert_uint_eq(kg_session_n_past(session), 0);
    kg_must_fail(kg_generate(session, IDS, n_prompt, &generate, &result, &err), KG_ERR_NUMERIC, &err, "logit", NULL);
    kg_generate_result_free(&result);
    kg_session_free(session);
}

static void damage_is_an_error(struct kg_record *rec, const void *arg) {
    const struct damage *const damage = arg;
    const struct kg_model_edit edit = { .tensor = damage->tensor, .how = damage->how };
    struct kg_rig rig = kg_rig_open(KG_HAIKU_MODEL, 0);
    struct kg_model *damaged;
    struct kg_error err = { 0 };
    char path[1024];
    snprintf(path, sizeof path, "%s/damaged.gguf", kg_scratch_dir(rec));
    kg_must(kg_model_edit(kg_fixture_path(KG_HAIKU_MODEL), path, &edit, &err), &err);
    kg_must(kg_model_load(path, rig.backend, NULL, &damaged, &err), &err);
    expect_numeric_error(damaged, 1);
    expect_numeric_error(damaged, N_PROMPT);
    kg_model_free(damaged);
    struct kg_session *const session = kg_rig_session(&rig, N_CTX);
    int32_t *const ids = kg_rig_random_ids(&rig, kg_record_seed(rec), N_PROMPT);
    free(kg_rig_logits(&rig, session, ids, N_PROMPT, N_PROMPT));
    free(ids);
    kg_session_free(session);
    kg_rig_close(&rig);
}

/* Head sizes that no kernel has are refused when a session is planned; those it has are not. */
static void head_sizes(struct kg_record *rec, const void *arg) {
    static const uint32_t GOOD[] = { 8, 16, 64, 80, 96, 128, 136, 256 }, BAD[] = { 1, 7, 12, 68, 129, 257, 264 };
    (void)rec, (void)arg;
    const bool is_cpu = strcmp(KG_RIG_TARGETS[kg_rig_current()].backend, "cpu") == 0;
    const enum kg_precision precision = KG_RIG_TARGETS[kg_rig_current()].precision;
    struct kg_op_extent extent = { .activations = precision,
                                   .kv = precision,
                                   .n_rows = 1,
                                   .n_in = 64,
                                   .n_out = 64,
                                   .n_heads = 2,
                                   .n_kv_heads = 1,
                                   .n_ctx = 64 };
    struct kg_backend *const backend = kg_rig_shared()->backend;
    struct kg_error err = { 0 };
    uint64_t size_bytes;
    for (size_t i = 0; i < KG_COUNT_OF(GOOD); i++) {
        extent.head_dim = GOOD[i];
        kg_must(kg_op_workspace_bytes(backend, &extent, &size_bytes, &err), &err);
    }
    for (size_t i = 0; i < KG_COUNT_OF(BAD) && !is_cpu; i++) {
        char size[16];
        extent.head_dim = BAD[i];
        snprintf(size, sizeof size, "%u", BAD[i]);
        kg_must_fail(kg_op_workspace_bytes(backend, &extent, &size_bytes, &err), KG_ERR_UNSUPPORTED, &err, "head size",
                     size, NULL);
    }
}

/* Without the library of matrix products: sessions that need it are refused, naming it; short ones and, once it is
 * there, all others work. */
static void library_missing_is_named(struct kg_record *rec, const void *arg) {
    static const char NOWHERE[] = "/nowhere/libcublasLt.so";
    enum { FEW = 8 };
    (void)arg;
    struct kg_rig rig = kg_rig_open(KG_HAIKU_MODEL, 0);
    const struct kg_session_options options = kg_rig_options(N_CTX);
    int32_t *const ids = kg_rig_random_ids(&rig, kg_record_seed(rec), N_PROMPT);
    struct kg_session *session = NULL;
    struct kg_error err = { 0 };
    setenv("KIGO_CUBLASLT", NOWHERE, 1);
    const enum kg_status status = kg_session_create(rig.model, &options, &session, &err);
    struct kg_session *const few = kg_rig_session(&rig, FEW);
    unsetenv("KIGO_CUBLASLT");
    kg_must_fail(status, KG_ERR_UNSUPPORTED, &err, "cuBLASLt", NOWHERE, NULL);
    ck_assert_ptr_null(session);
    free(kg_rig_logits(&rig, few, ids, FEW, FEW));
    kg_session_free(few);
    session = kg_rig_session(&rig, N_CTX);
    free(kg_rig_logits(&rig, session, ids, N_PROMPT, N_PROMPT));
    kg_session_free(session);
    free(ids);
    kg_rig_close(&rig);
}

#define PROMISE(name_, run_, arg_)                                                                                     \
    { .layer = "integration", .op = "promises", .name = (name_), .dtype = "f32", .run = (run_), .arg = (arg_) }

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        PROMISE("threads_write_what_they_write_alone", threads_write_what_they_write_alone, NULL),
        PROMISE("evaluation_allocates_nothing", evaluation_allocates_nothing, NULL),
        PROMISE("head_sizes", head_sizes, NULL),
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_rig_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(DAMAGES); i++)
        kg_rig_add(list, &(struct kg_case)PROMISE(DAMAGES[i].name, damage_is_an_error, &DAMAGES[i]));
    struct kg_case missing = PROMISE("library_missing_is_named", library_missing_is_named, NULL);
    missing.backend = "cuda";
    kg_rig_add(list, &missing);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
