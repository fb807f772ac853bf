/* A conversation's answers are what one prompt of all its messages gives, though only what is new of it is evaluated;
 * a failure or a cancelled answer leaves it usable. */
#include "engine/conversation.h"
#include "backend/backend.h"
#include "base/buffer.h"
#include "base/size.h"
#include "engine/prompt.h"
#include "suites/support/host_draws.h"
#include "suites/support/rig.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 256, ANSWER_TOKENS = 24 };

static const char *const QUESTIONS[] = { "Write a haiku about an old pond", "seven more", "and one about rain" };

/* A fixture on the cpu, whose results do not depend on chunks, or on the cpu drawing as a GPU does. */
struct setting {
    const char *fixture;
    bool draws;
    struct kg_sampler_options sampler;
    bool holds_answers; /* the format writes an answer as the model did */
};
#define GREEDY                                                                                                         \
    { .repeat_penalty = 1, .top_p = 1 }
#define PENALTY                                                                                                        \
    { .repeat_penalty = 1.4, .repeat_last_n = 64, .top_p = 1 }
#define WARM                                                                                                           \
    { .temperature = 0.9, .repeat_penalty = 1.1, .repeat_last_n = 40, .top_p = 1, .seed = 11 }

static const struct setting QWEN2 = { KG_HAIKU_MODEL, false, GREEDY, true };
static const struct setting QWEN2_DRAWS = { KG_HAIKU_MODEL, true, GREEDY, true };
static const struct setting QWEN2_PENALTY = { KG_HAIKU_MODEL, false, PENALTY, true };
static const struct setting QWEN2_DRAWS_WARM = { KG_HAIKU_MODEL, true, WARM, true };
/* The conversation grows past the 128 positions up to which its short rope factors hold. */
static const struct setting PHI3_LONG = { "haiku-phi3/haiku-phi3-q8_0.gguf", false, WARM, true };
static const struct setting HARMONY = { "haiku-gpt-oss/haiku-gpt-oss-mxfp4.gguf", false, GREEDY, false };

/* Opened once for each setting in a process. */
struct lab {
    const struct setting *setting;
    struct kg_backend_ops table;
    struct kg_backend *backend;
    struct kg_model *model;
};

static struct lab open_lab(const struct setting *setting) {
    struct lab lab = { .setting = setting };
    const struct kg_backend_ops *original;
    struct kg_error err;
    kg_must(kg_backend_find_ops("cpu", &original, &err), &err);
    lab.table = *original;
    if (setting->draws) lab.table.draws = &kg_host_draw_ops;
    return lab;
}

static void load(struct lab *lab) {
    struct kg_error err;
    kg_must(kg_backend_open_ops(&lab->table, 0, &lab->backend, &err), &err);
    kg_must(kg_model_load(kg_fixture_path(lab->setting->fixture), lab->backend, NULL, &lab->model, &err), &err);
}

static void close_lab(struct lab *lab) {
    kg_model_free(lab->model);
    kg_backend_close(lab->backend);
}

static struct kg_session *new_session(const struct lab *lab, uint32_t n_ctx) {
    const struct kg_session_options options = { .n_ctx = n_ctx };
    struct kg_session *session;
    struct kg_error err;
    kg_must(kg_session_create(lab->model, &options, &session, &err), &err);
    return session;
}

static struct kg_conversation new_conversation(const struct lab *lab, uint32_t n_ctx) {
    return (struct kg_conversation){
        .cache.session = new_session(lab, n_ctx),
        .tokenizer = kg_model_tokenizer(lab->model),
        .options = { .date = kg_chat_has_channels(kg_model_tokenizer(lab->model)) ? "2026-01-31" : NULL }
    };
}

static void end_conversation(struct kg_conversation *c) {
    kg_session_free(c->cache.session);
    kg_conversation_free(c);
}

static struct kg_generate_options options_of(const struct lab *lab) {
    return (struct kg_generate_options){ .sampler = lab->setting->sampler, .max_tokens = ANSWER_TOKENS };
}

static struct kg_conversation_answer ask(struct kg_conversation *c, const char *question,
                                         const struct kg_generate_options *options) {
    struct kg_conversation_answer answer;
    struct kg_error err;
    kg_must(kg_conversation_ask(c, question, options, &answer, &err), &err);
    return answer;
}

/* All messages in front of the last n_left as one prompt, in a session that has seen nothing. */
static struct kg_ids prompt_of(const struct kg_conversation *c, size_t n_left) {
    struct kg_chat_message messages[16];
    struct kg_ids ids = { 0 };
    struct kg_error err;
    char *rendered;
    ck_assert_uint_le(c->n_messages, KG_COUNT_OF(messages));
    for (size_t i = 0; i < c->n_messages; i++)
        messages[i] = (struct kg_chat_message){ c->messages[i].role, c->messages[i].content };
    kg_must(
        kg_prompt_encode_chat_with(c->tokenizer, messages, c->n_messages - n_left, &c->options, &rendered, &ids, &err),
        &err);
    free(rendered);
    return ids;
}

static void expect_one_prompt(const struct lab *lab, const struct kg_conversation *c,
                              const struct kg_conversation_answer *answer, const struct kg_generate_options *options) {
    struct kg_ids prompt = prompt_of(c, 1);
    struct kg_session *fresh = new_session(lab, CONTEXT);
    struct kg_generate_result whole;
    struct kg_error err;
    ck_assert_uint_eq(answer->n_prompt, prompt.n);
    kg_must(kg_generate(fresh, prompt.ids, prompt.n, options, &whole, &err), &err);
    kg_expect_same_ids("answer", answer->result.ids, answer->result.n_ids, whole.ids, whole.n_ids);
    ck_assert_int_eq(answer->result.finish, whole.finish);
    kg_generate_result_free(&whole);
    kg_session_free(fresh);
    kg_ids_free(&prompt);
}

static void answers_are_one_prompts(struct kg_record *rec, const void *arg) {
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, CONTEXT);
    const struct kg_generate_options options = options_of(&lab);
    size_t n_before = 0, n_evaluated = 0;
    for (size_t i = 0; i < KG_COUNT_OF(QUESTIONS); i++) {
        struct kg_conversation_answer answer = ask(&c, QUESTIONS[i], &options);
        ck_assert(answer.is_kept);
        ck_assert_str_eq(answer.text, answer.result.text);
        expect_one_prompt(&lab, &c, &answer, &options);
        if (i > 0 && lab.setting->holds_answers) ck_assert_uint_eq(answer.n_held, n_before);
        ck_assert(i == 0 ? answer.n_held == 0 : answer.n_held > answer.n_prompt / 2);
        n_evaluated += answer.n_prompt - answer.n_held;
        n_before = kg_session_n_past(c.cache.session);
        kg_conversation_answer_free(&answer);
    }
    kg_record_metric(rec, "prefill", "count", (double)n_evaluated);
    end_conversation(&c);
    close_lab(&lab);
}

/* What a tap sees: rows evaluated, and the logits of the last. */
struct seen {
    size_t n_rows, n_logits;
    float *logits;
};

static void see(void *user, const struct kg_tap *tap) {
    struct seen *seen = user;
    if (strcmp(tap->name, "embd") == 0) seen->n_rows += tap->n_rows;
    if (strcmp(tap->name, "logits") != 0) return;
    seen->n_logits = tap->n_cols;
    seen->logits = kg_xrealloc(seen->logits, tap->n_cols * sizeof *seen->logits);
    memcpy(seen->logits, tap->data + (tap->n_rows - 1) * tap->n_cols, tap->n_cols * sizeof *seen->logits);
}

/* The back end is given the new tokens and no others, and what it makes of them is the same to the bit. */
static void prefill_is_of_what_is_new(struct kg_record *rec, const void *arg) {
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, CONTEXT);
    struct kg_generate_options options = options_of(&lab);
    struct kg_conversation_answer first = ask(&c, QUESTIONS[0], &options), second;
    struct seen apart = { 0 }, whole = { 0 };
    struct kg_error err;
    options.max_tokens = 0; /* the prompt alone */
    kg_session_set_tap(c.cache.session, see, &apart);
    second = ask(&c, QUESTIONS[1], &options);
    struct kg_ids prompt = prompt_of(&c, 1);
    struct kg_session *fresh = new_session(&lab, CONTEXT);
    const float *logits;
    kg_session_set_tap(fresh, see, &whole);
    kg_must(kg_session_eval(fresh, prompt.ids, prompt.n, KG_LOGITS_LAST, &logits, &err), &err);
    ck_assert_uint_eq(whole.n_rows, prompt.n);
    ck_assert_uint_eq(apart.n_rows, prompt.n - first.n_prompt - first.result.n_ids);
    ck_assert_uint_eq(apart.n_rows, second.n_prompt - second.n_held);
    ck_assert_uint_eq(apart.n_logits, whole.n_logits);
    kg_expect_same_bits("logits", apart.logits, whole.logits, whole.n_logits);
    kg_record_metric(rec, "rows", "count", (double)apart.n_rows);
    free(apart.logits);
    free(whole.logits);
    kg_session_free(fresh);
    kg_ids_free(&prompt);
    kg_conversation_answer_free(&second);
    kg_conversation_answer_free(&first);
    end_conversation(&c);
    close_lab(&lab);
}

static bool cancels(void *user) {
    size_t *n_left = user;
    return *n_left == 0 || --*n_left == 0;
}

static void cancelled_answer_stays_as_far_as_written(struct kg_record *rec, const void *arg) {
    (void)rec;
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, CONTEXT);
    const struct kg_generate_options plain = options_of(&lab);
    size_t n_left = 6;
    struct kg_generate_options cut = plain;
    cut.is_cancelled = cancels;
    cut.user = &n_left;
    struct kg_conversation_answer answer = ask(&c, QUESTIONS[0], &cut);
    ck_assert_int_eq(answer.result.finish, KG_FINISH_CANCELLED);
    ck_assert_uint_gt(answer.result.n_ids, 0);
    ck_assert_uint_lt(answer.result.n_ids, 7);
    ck_assert_str_eq(c.messages[1].content, answer.result.text);
    kg_conversation_answer_free(&answer);
    answer = ask(&c, QUESTIONS[1], &plain);
    expect_one_prompt(&lab, &c, &answer, &plain);
    kg_conversation_answer_free(&answer);
    end_conversation(&c);
    close_lab(&lab);
}

/* In the middle of a prompt: the question is out again, and what was evaluated of it serves the next. */
static void cancelled_prompt_leaves_no_question(struct kg_record *rec, const void *arg) {
    (void)rec;
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, CONTEXT);
    const struct kg_generate_options plain = options_of(&lab);
    size_t n_left = 2;
    struct kg_generate_options cut = plain;
    cut.is_cancelled = cancels;
    cut.user = &n_left;
    const char *longer = "Write a haiku about an old pond and about what the frogs in it do when the rain begins, and "
                         "then a second one about the same pond on a morning in autumn";
    struct kg_conversation_answer answer = ask(&c, longer, &cut);
    ck_assert_int_eq(answer.result.finish, KG_FINISH_CANCELLED);
    ck_assert(!answer.is_kept);
    ck_assert_uint_eq(c.n_messages, 0);
    const size_t n_past = kg_session_n_past(c.cache.session);
    ck_assert(n_past > 0 && n_past < answer.n_prompt);
    kg_conversation_answer_free(&answer);
    answer = ask(&c, longer, &plain);
    ck_assert_uint_eq(answer.n_held, n_past);
    expect_one_prompt(&lab, &c, &answer, &plain);
    kg_conversation_answer_free(&answer);
    end_conversation(&c);
    close_lab(&lab);
}

static void question_past_the_context(struct kg_record *rec, const void *arg) {
    (void)rec;
    enum { SMALL = 48 };
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, SMALL);
    const struct kg_generate_options options = options_of(&lab);
    struct kg_conversation_answer answer = ask(&c, QUESTIONS[0], &options);
    kg_conversation_answer_free(&answer);
    struct kg_error err;
    const uint32_t n_past = kg_session_n_past(c.cache.session);
    kg_must_fail(kg_conversation_ask(&c, "a question for which there is no room in a context of so few positions",
                                     &options, &answer, &err),
                 KG_ERR_RANGE, &err, "room for 48", NULL);
    ck_assert_uint_eq(c.n_messages, 2);
    ck_assert_uint_eq(kg_session_n_past(c.cache.session), n_past);
    kg_conversation_reset(&c);
    answer = ask(&c, QUESTIONS[1], &options);
    expect_one_prompt(&lab, &c, &answer, &options);
    kg_conversation_answer_free(&answer);
    end_conversation(&c);
    close_lab(&lab);
}

/* Its ids were evaluated, and are no part of the answer. */
static void stop_text_is_not_held(struct kg_record *rec, const void *arg) {
    (void)rec;
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, CONTEXT);
    struct kg_generate_options options = options_of(&lab);
    struct kg_conversation_answer answer = ask(&c, QUESTIONS[0], &options);
    ck_assert_uint_gt(answer.result.n_ids, 6);
    const int32_t stop_ids[] = { answer.result.ids[4], answer.result.ids[5] };
    const struct kg_stop_sequence stop = { .ids = stop_ids, .n = 2 };
    options.stops = &stop;
    options.n_stops = 1;
    const size_t n_prompt = answer.n_prompt;
    struct kg_conversation_answer again;
    struct kg_error err;
    kg_must(kg_conversation_ask_again(&c, &options, &again, &err), &err);
    ck_assert_int_eq(again.result.finish, KG_FINISH_STOP_SEQUENCE);
    ck_assert_uint_eq(again.n_held, n_prompt - 1); /* the last id is evaluated for its logits */
    ck_assert_uint_eq(kg_session_n_past(c.cache.session), n_prompt + again.result.n_ids);
    kg_conversation_answer_free(&again);
    kg_conversation_answer_free(&answer);
    answer = ask(&c, QUESTIONS[1], &options);
    expect_one_prompt(&lab, &c, &answer, &options);
    kg_conversation_answer_free(&answer);
    end_conversation(&c);
    close_lab(&lab);
}

static void asked_again_replaces_the_answer(struct kg_record *rec, const void *arg) {
    (void)rec;
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, CONTEXT);
    const struct kg_generate_options options = options_of(&lab);
    struct kg_conversation_answer first = { 0 }, again = { 0 };
    struct kg_error err;
    kg_must_fail(kg_conversation_ask_again(&c, &options, &again, &err), KG_ERR_USAGE, &err, "no answer", NULL);
    first = ask(&c, QUESTIONS[0], &options);
    kg_must(kg_conversation_ask_again(&c, &options, &again, &err), &err);
    ck_assert_uint_eq(c.n_messages, 2);
    kg_expect_same_ids("again", again.result.ids, again.result.n_ids, first.result.ids, first.result.n_ids);
    kg_conversation_answer_free(&again);
    size_t n_left = 1;
    struct kg_generate_options cut = options;
    cut.is_cancelled = cancels;
    cut.user = &n_left;
    kg_must(kg_conversation_ask_again(&c, &cut, &again, &err), &err);
    ck_assert(!again.is_kept);
    ck_assert_str_eq(c.messages[1].content, first.result.text); /* nothing was written: the answer stands */
    ck_assert(kg_conversation_take_back(&c));
    ck_assert_uint_eq(c.n_messages, 0);
    ck_assert(!kg_conversation_take_back(&c));
    kg_conversation_answer_free(&again);
    kg_conversation_answer_free(&first);
    end_conversation(&c);
    close_lab(&lab);
}

static const struct refused_row {
    const char *name, *named;
    struct kg_chat_message messages[4];
} REFUSED[] = {
    { "answer_first", "message 0 has the role 'assistant'", { { "assistant", "x" } } },
    { "two_questions", "message 1 has the role 'user'", { { "user", "x" }, { "user", "y" } } },
    { "question_without_answer", "message 1, the last", { { "system", "x" }, { "user", "y" } } },
    { "system_in_the_middle", "'system'", { { "user", "x" }, { "assistant", "y" }, { "system", "z" } } },
    { "unknown_role", "'tool'", { { "user", "x" }, { "tool", "y" } } },
};

static void refused_messages_change_nothing(struct kg_record *rec, const void *arg) {
    (void)rec;
    struct lab lab = open_lab(arg);
    load(&lab);
    struct kg_conversation c = new_conversation(&lab, CONTEXT);
    const struct kg_chat_message good[] = { { "system", "s" }, { "user", "q" }, { "assistant", "a" } };
    struct kg_error err;
    kg_must(kg_conversation_replace(&c, good, KG_COUNT_OF(good), &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++) {
        size_t n = 0;
        while (n < KG_COUNT_OF(REFUSED[i].messages) && REFUSED[i].messages[n].role) n++;
        kg_must_fail(kg_conversation_replace(&c, REFUSED[i].messages, n, &err), KG_ERR_FORMAT, &err, REFUSED[i].named,
                     NULL);
        ck_assert_uint_eq(c.n_messages, 3);
        ck_assert_str_eq(c.messages[2].content, "a");
    }
    kg_must(kg_conversation_set_system(&c, "t", &err), &err);
    ck_assert_str_eq(kg_conversation_system(&c), "t");
    ck_assert_str_eq(c.messages[1].content, "q");
    kg_conversation_reset(&c);
    ck_assert_str_eq(kg_conversation_system(&c), "t");
    kg_must(kg_conversation_set_system(&c, NULL, &err), &err);
    ck_assert_uint_eq(c.n_messages, 0);
    end_conversation(&c);
    close_lab(&lab);
}

#define ROW(name_, run_, arg_)                                                                                         \
    { .layer = "integration", .op = "conversation", .name = name_, .backend = "cpu", .run = run_, .arg = &(arg_) }
static const struct kg_case CASES[] = {
    ROW("answers_are_one_prompts_qwen2", answers_are_one_prompts, QWEN2),
    ROW("answers_are_one_prompts_drawn_ahead", answers_are_one_prompts, QWEN2_DRAWS_WARM),
    ROW("penalty_looks_back_over_all", answers_are_one_prompts, QWEN2_PENALTY),
    ROW("answers_are_one_prompts_phi3_long_rope", answers_are_one_prompts, PHI3_LONG),
    ROW("answers_are_one_prompts_harmony", answers_are_one_prompts, HARMONY),
    ROW("prefill_is_of_what_is_new", prefill_is_of_what_is_new, QWEN2),
    ROW("cancelled_answer_stays_as_far_as_written", cancelled_answer_stays_as_far_as_written, QWEN2),
    ROW("cancelled_answer_drawn_ahead", cancelled_answer_stays_as_far_as_written, QWEN2_DRAWS),
    ROW("cancelled_prompt_leaves_no_question", cancelled_prompt_leaves_no_question, QWEN2),
    ROW("question_past_the_context", question_past_the_context, QWEN2),
    ROW("stop_text_is_not_held", stop_text_is_not_held, QWEN2),
    ROW("stop_text_is_not_held_drawn_ahead", stop_text_is_not_held, QWEN2_DRAWS),
    ROW("asked_again_replaces_the_answer", asked_again_replaces_the_answer, QWEN2),
    ROW("refused_messages_change_nothing", refused_messages_change_nothing, QWEN2),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
