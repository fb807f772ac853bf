/* Generation where the back end draws, one step ahead: the same ids as with the logits brought to the host, and no
 * trace of a step that was enqueued in vain. The cpu draws by the reference, so that the way through the engine is the
 * same. */
#include "suites/support/rig.h"
#include "base/buffer.h"
#include "base/size.h"
#include "backend/backend.h"
#include "suites/support/host_draws.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT "<|im_start|>user\nWrite a haiku about an old pond<|im_end|>\n<|im_start|>assistant\n"
enum { CONTEXT = 200, N_IDS = 48 };

/* The haiku model on the case's back end, drawing or not; opened once each in a process. */
static const struct kg_rig *rig_that(bool draws) {
    static struct kg_rig rigs[KG_RIG_N_TARGETS][2];
    static struct kg_backend_ops tables[KG_RIG_N_TARGETS][2];
    struct kg_rig *const rig = &rigs[kg_rig_current()][draws];
    struct kg_backend_ops *const table = &tables[kg_rig_current()][draws];
    const struct kg_backend_ops *original;
    struct kg_error err = { 0 };
    if (rig->model) return rig;
    kg_must(kg_backend_find_ops(KG_RIG_TARGETS[kg_rig_current()].backend, &original, &err), &err);
    *table = *original;
    if (!draws) table->draws = NULL;
    else if (!table->draws) table->draws = &kg_host_draw_ops;
    kg_must(kg_backend_open_ops(table, 0, &rig->backend, &err), &err);
    kg_must(kg_model_load(kg_fixture_path(KG_HAIKU_MODEL), rig->backend, NULL, &rig->model, &err), &err);
    rig->tokenizer = kg_model_tokenizer(rig->model);
    rig->config = kg_model_config(rig->model);
    return rig;
}

static struct kg_generate_options options_of(const struct kg_sampler_options *sampler, uint32_t max_tokens) {
    return (struct kg_generate_options){ .sampler = *sampler, .max_tokens = max_tokens, .ignore_end = true };
}

static struct kg_generate_result generate(struct kg_session *session, const int32_t *ids, size_t n,
                                          const struct kg_generate_options *options) {
    struct kg_generate_result r;
    struct kg_error err = { 0 };
    kg_must(kg_generate(session, ids, n, options, &r, &err), &err);
    ck_assert_uint_eq(r.n_decode_allocations, 0);
    return r;
}

static void expect_same(const struct kg_generate_result *got, const struct kg_generate_result *want) {
    kg_expect_same_ids("generated", got->ids, got->n_ids, want->ids, want->n_ids);
    ck_assert_int_eq(got->finish, want->finish);
}

static const struct sampler_row {
    const char *name;
    struct kg_sampler_options sampler;
} SAMPLERS[] = {
    { "greedy", { .repeat_penalty = 1, .top_p = 1 } },
    { "greedy_penalty", { .repeat_penalty = 1.3, .repeat_last_n = 32, .top_p = 1 } },
    { "temperature", { .temperature = 0.9, .repeat_penalty = 1, .top_p = 1, .seed = 3 } },
    { "top_k", { .temperature = 1.5, .repeat_penalty = 1, .top_k = 20, .top_p = 1, .seed = 4 } },
    { "top_p", { .temperature = 1.5, .repeat_penalty = 1, .top_p = 0.8, .seed = 5 } },
    { "min_p", { .temperature = 2, .repeat_penalty = 1, .top_p = 1, .min_p = 0.02, .seed = 6 } },
    { "everything",
      { .temperature = 1.2,
        .repeat_penalty = 1.1,
        .repeat_last_n = 64,
        .top_k = 200,
        .top_p = 0.95,
        .min_p = 0.001,
        .seed = 7 } },
};

/* The host waits for drawn ids alone: for nothing where the back end draws, for the logits of each step where it does
 * not (the cpu makes nobody wait). */
static void expect_waits(const struct kg_generate_result *drawn, const struct kg_generate_result *brought) {
    ck_assert_uint_eq(drawn->n_decode_waits, 0);
    if (strcmp(KG_RIG_TARGETS[kg_rig_current()].backend, "cpu") != 0)
        ck_assert_uint_ge(brought->n_decode_waits, brought->n_evals);
}

static void same_ids_either_way(struct kg_record *rec, const void *arg) {
    const struct sampler_row *const row = arg;
    const struct kg_generate_options options = options_of(&row->sampler, N_IDS);
    struct kg_generate_result r[2];
    for (int draws = 0; draws < 2; draws++) {
        const struct kg_rig *const rig = rig_that(draws);
        struct kg_ids prompt = kg_rig_encode(rig, PROMPT);
        struct kg_session *const session = kg_rig_session(rig, CONTEXT);
        r[draws] = generate(session, prompt.ids, prompt.n, &options);
        ck_assert_uint_eq(r[draws].n_ids, N_IDS);
        ck_assert_uint_eq(kg_session_n_past(session), prompt.n + N_IDS - 1);
        kg_session_free(session);
        kg_ids_free(&prompt);
    }
    expect_same(&r[1], &r[0]);
    expect_waits(&r[1], &r[0]);
    kg_record_metric(rec, "ids_compared", "count", N_IDS);
    for (int draws = 0; draws < 2; draws++) kg_generate_result_free(&r[draws]);
}

/* The step ahead never passes the context's end. */
static void context_end(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_generate_options options = options_of(&SAMPLERS[0].sampler, 1000);
    struct kg_generate_result r[2];
    for (int draws = 0; draws < 2; draws++) {
        const struct kg_rig *const rig = rig_that(draws);
        struct kg_ids prompt = kg_rig_encode(rig, PROMPT);
        struct kg_session *const session = kg_rig_session(rig, (uint32_t)prompt.n + 20);
        r[draws] = generate(session, prompt.ids, prompt.n, &options);
        ck_assert_int_eq(r[draws].finish, KG_FINISH_CONTEXT);
        ck_assert_uint_eq(kg_session_n_past(session), kg_session_n_ctx(session));
        kg_session_free(session);
        kg_ids_free(&prompt);
    }
    expect_same(&r[1], &r[0]);
    for (int draws = 0; draws < 2; draws++) kg_generate_result_free(&r[draws]);
}

static bool stop_at_fifth(void *user, const char *text, size_t len) {
    int *const n_pieces = user;
    (void)text, (void)len;
    return ++*n_pieces < 5;
}

/* A generation that was cancelled with a step ahead under way, against one that ended there because of its length: what
 * both do next is the same, ids, positions and logits. */
static void cancelled_leaves_no_trace(struct kg_record *rec, const void *arg) {
    const struct sampler_row *const row = arg;
    const struct kg_rig *const rig = rig_that(true);
    struct kg_ids prompt = kg_rig_encode(rig, PROMPT);
    struct kg_session *sessions[2];
    struct kg_generate_result first[2], second[2];
    int n_pieces = 0;
    const float *rows;
    float *logits[2];
    struct kg_error err = { 0 };
    (void)rec;
    for (int i = 0; i < 2; i++) {
        struct kg_generate_options options = options_of(&row->sampler, i == 0 ? N_IDS : (uint32_t)first[0].n_ids);
        if (i == 0) options.on_text = stop_at_fifth, options.user = &n_pieces;
        sessions[i] = kg_rig_session(rig, CONTEXT);
        first[i] = generate(sessions[i], prompt.ids, prompt.n, &options);
        ck_assert_int_eq(first[i].finish, i == 0 ? KG_FINISH_CANCELLED : KG_FINISH_LENGTH);
    }
    kg_expect_same_ids("before", first[0].ids, first[0].n_ids, first[1].ids, first[1].n_ids);
    for (int i = 0; i < 2; i++) {
        const struct kg_generate_options options = options_of(&row->sampler, 12);
        ck_assert_uint_eq(kg_session_n_past(sessions[i]), prompt.n + first[i].n_ids - 1);
        second[i] = generate(sessions[i], &first[i].ids[first[i].n_ids - 1], 1, &options);
        kg_must(kg_session_eval(sessions[i], prompt.ids, 3, KG_LOGITS_ALL, &rows, &err), &err);
        logits[i] = kg_xmalloc(3 * (size_t)rig->config->n_vocab * sizeof *rows);
        memcpy(logits[i], rows, 3 * (size_t)rig->config->n_vocab * sizeof *rows);
    }
    expect_same(&second[0], &second[1]);
    kg_expect_same_bits("logits afterwards", logits[0], logits[1], 3 * (size_t)rig->config->n_vocab);
    for (int i = 0; i < 2; i++) {
        free(logits[i]);
        kg_generate_result_free(&second[i]);
        kg_generate_result_free(&first[i]);
        kg_session_free(sessions[i]);
    }
    kg_ids_free(&prompt);
}

/* A generation in pieces, each going on from the last id of the one before. */
struct pieces {
    struct kg_session *session;
    struct kg_sampler_options sampler;
    int32_t ids[64];
    size_t n_ids, n_prompt; /* the prompt's first */
};
enum { PIECE = 3 };

static void one_piece(struct pieces *p) {
    const struct kg_generate_options options = options_of(&p->sampler, PIECE);
    const bool first = p->n_ids == p->n_prompt;
    if (p->n_ids + PIECE > KG_COUNT_OF(p->ids)) return;
    struct kg_generate_result r = first ? generate(p->session, p->ids, p->n_prompt, &options)
                                        : generate(p->session, &p->ids[p->n_ids - 1], 1, &options);
    memcpy(p->ids + p->n_ids, r.ids, r.n_ids * sizeof *r.ids);
    p->n_ids += r.n_ids;
    kg_generate_result_free(&r);
}

static struct pieces begin_pieces(const struct kg_rig *rig) {
    struct pieces p = { .session = kg_rig_session(rig, CONTEXT), .sampler = SAMPLERS[2].sampler };
    struct kg_ids prompt = kg_rig_encode(rig, "an old pond");
    ck_assert_uint_lt(prompt.n, KG_COUNT_OF(p.ids) / 2);
    memcpy(p.ids, prompt.ids, prompt.n * sizeof *p.ids);
    p.n_ids = p.n_prompt = prompt.n;
    kg_ids_free(&prompt);
    return p;
}

static bool other_piece_between(void *user, const char *text, size_t len) {
    (void)text, (void)len;
    one_piece(user);
    return true;
}

/* While a session has a step ahead under way, another one runs; both give the ids that they give alone. */
static void sessions_in_turn(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_rig *const rig = rig_that(true);
    struct kg_ids prompt = kg_rig_encode(rig, PROMPT);
    struct kg_generate_options options = options_of(&SAMPLERS[6].sampler, N_IDS);
    struct pieces alone = begin_pieces(rig), between = begin_pieces(rig);
    struct kg_generate_result r[2];
    for (int i = 0; i < 2; i++) {
        struct kg_session *const session = kg_rig_session(rig, CONTEXT);
        if (i == 1) options.on_text = other_piece_between, options.user = &between;
        r[i] = generate(session, prompt.ids, prompt.n, &options);
        kg_session_free(session);
    }
    ck_assert_uint_gt(between.n_ids, between.n_prompt + 4 * PIECE);
    while (alone.n_ids < between.n_ids) one_piece(&alone);
    expect_same(&r[1], &r[0]);
    kg_expect_same_ids("the other session", between.ids, between.n_ids, alone.ids, alone.n_ids);
    for (int i = 0; i < 2; i++) kg_generate_result_free(&r[i]);
    kg_session_free(alone.session);
    kg_session_free(between.session);
    kg_ids_free(&prompt);
}

static void count_taps(void *user, const struct kg_tap *tap) {
    *(size_t *)user += strcmp(tap->name, "logits") == 0;
}

/* A tap sees the steps that count and no other: with one on, no step goes ahead of a cancellation. */
static void taps_see_what_counts(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_rig *const rig = rig_that(true);
    struct kg_generate_options options = options_of(&SAMPLERS[0].sampler, N_IDS);
    struct kg_ids prompt = kg_rig_encode(rig, PROMPT);
    struct kg_session *const session = kg_rig_session(rig, CONTEXT);
    size_t n_logits = 0;
    int n_pieces = 0;
    options.on_text = stop_at_fifth;
    options.user = &n_pieces;
    kg_session_set_tap(session, count_taps, &n_logits);
    struct kg_generate_result r = generate(session, prompt.ids, prompt.n, &options);
    ck_assert_int_eq(r.finish, KG_FINISH_CANCELLED);
    ck_assert_uint_eq(n_logits, r.n_evals + 1);
    kg_generate_result_free(&r);
    kg_session_free(session);
    kg_ids_free(&prompt);
}

static void build(struct kg_case_list *list) {
    struct kg_case c = { .layer = "integration", .op = "pipeline", .dtype = "" };
    for (size_t i = 0; i < KG_COUNT_OF(SAMPLERS); i++) {
        c.op = "pipeline_same_ids";
        c.name = SAMPLERS[i].name;
        c.run = same_ids_either_way;
        c.arg = &SAMPLERS[i];
        kg_rig_add(list, &c);
    }
    static const size_t CANCELLED[] = { 0, 6 };
    for (size_t i = 0; i < KG_COUNT_OF(CANCELLED); i++) {
        c.op = "pipeline_cancelled";
        c.name = SAMPLERS[CANCELLED[i]].name;
        c.run = cancelled_leaves_no_trace;
        c.arg = &SAMPLERS[CANCELLED[i]];
        kg_rig_add(list, &c);
    }
    static const struct {
        const char *name;
        void (*run)(struct kg_record *rec, const void *arg);
    } SINGLE[] = { { "context_end", context_end },
                   { "sessions_in_turn", sessions_in_turn },
                   { "taps_see_what_counts", taps_see_what_counts } };
    for (size_t i = 0; i < KG_COUNT_OF(SINGLE); i++) {
        c.op = "pipeline";
        c.name = SINGLE[i].name;
        c.run = SINGLE[i].run;
        c.arg = NULL;
        kg_rig_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
