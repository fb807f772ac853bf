/* Generation over a scripted model: where it ends, what streams when, and what is refused. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/host_draws.h"
#include "suites/unit/scripted.h"
#include <check.h>
#include <kigo/tokenizer.h>
#include <string.h>

enum { MAX_IDS = 24, END = KG_TINY_IM_END };

/* The prompt is one 'p' unless said otherwise; the script's ids come one after another from then on. */
struct story {
    const char *name;
    int32_t script[MAX_IDS]; /* 0 ends it */
    int32_t stops[3][6];     /* 0 ends each */
    uint32_t max_tokens, n_ctx;
    bool ignore_end;
    const char *text;   /* of the result, and of the stream put together */
    const char *pieces; /* as they stream, '|' after each; NULL if it does not matter */
    enum kg_finish finish;
};

static const struct story STORIES[] = {
    { "length", { 'a', 'b', 'c' }, { { 0 } }, 3, 0, false, "abc", "a|b|c|", KG_FINISH_LENGTH },
    { "length_of_one", { 'a', 'b' }, { { 0 } }, 1, 0, false, "a", "a|", KG_FINISH_LENGTH },
    { "length_of_none", { 'a' }, { { 0 } }, 0, 0, false, "", "", KG_FINISH_LENGTH },
    { "end_token", { 'a', END, 'b' }, { { 0 } }, 9, 0, false, "a", "a|", KG_FINISH_END_TOKEN },
    { "end_token_first", { END, 'b' }, { { 0 } }, 9, 0, false, "", "", KG_FINISH_END_TOKEN },
    { "end_token_ignored", { 'a', END, 'b' }, { { 0 } }, 3, 0, true, "ab", "a|b|", KG_FINISH_LENGTH },
    { "stop_of_one", { 'a', 'b', 'S', 'c' }, { { 'S' } }, 9, 0, false, "ab", "a|b|", KG_FINISH_STOP_SEQUENCE },
    { "stop_across_tokens",
      { 'a', 'S', 'T', 'O', 'c' },
      { { 'S', 'T', 'O' } },
      9,
      0,
      false,
      "a",
      "a|",
      KG_FINISH_STOP_SEQUENCE },
    { "stop_first", { 'S', 'T', 'c' }, { { 'S', 'T' } }, 9, 0, false, "", "", KG_FINISH_STOP_SEQUENCE },
    { "held_back_until_it_is_none",
      { 'a', 'S', 'T', 'x', 'y' },
      { { 'S', 'T', 'O' } },
      5,
      0,
      false,
      "aSTxy",
      "a|STx|y|",
      KG_FINISH_LENGTH },
    { "held_back_at_the_end", { 'a', 'S', 'T' }, { { 'S', 'T', 'O' } }, 3, 0, false, "aST", "a|ST|", KG_FINISH_LENGTH },
    { "held_back_at_the_end_token",
      { 'a', 'S', END },
      { { 'S', 'T' } },
      9,
      0,
      false,
      "aS",
      "a|S|",
      KG_FINISH_END_TOKEN },
    { "stop_that_overlaps_itself",
      { 'x', 'a', 'a', 'a', 'b', 'c' },
      { { 'a', 'a', 'b' } },
      9,
      0,
      false,
      "xa",
      "x|a|",
      KG_FINISH_STOP_SEQUENCE },
    { "longest_of_two_stops",
      { 'x', 'a', 'b', 'c' },
      { { 'b' }, { 'a', 'b' } },
      9,
      0,
      false,
      "x",
      "x|",
      KG_FINISH_STOP_SEQUENCE },
    { "first_of_two_stops",
      { 'x', 'b', 'a', 'c' },
      { { 'a' }, { 'b' } },
      9,
      0,
      false,
      "x",
      "x|",
      KG_FINISH_STOP_SEQUENCE },
    { "stop_with_the_last_token", { 'x', 'S' }, { { 'S' } }, 2, 0, false, "x", "x|", KG_FINISH_STOP_SEQUENCE },
    { "stop_of_a_special_token",
      { 'x', KG_TINY_IM_START, 'y' },
      { { KG_TINY_IM_START } },
      9,
      0,
      false,
      "x",
      "x|",
      KG_FINISH_STOP_SEQUENCE },
    { "special_token_is_no_text",
      { 'x', KG_TINY_IM_START, 'y' },
      { { 0 } },
      3,
      0,
      false,
      "xy",
      "x|y|",
      KG_FINISH_LENGTH },
    { "prompt_is_no_part_of_a_stop", { 'S', 'c' }, { { 'p', 'S' } }, 2, 0, false, "Sc", "S|c|", KG_FINISH_LENGTH },
    /* the prompt takes one of four positions; the fourth id needs none */
    { "context_ends", { 'a', 'b', 'c', 'd', 'e' }, { { 0 } }, 9, 4, false, "abcd", "a|b|c|d|", KG_FINISH_CONTEXT },
    { "context_as_long_as_the_prompt", { 'a', 'b' }, { { 0 } }, 9, 1, false, "a", "a|", KG_FINISH_CONTEXT },
    { "length_at_the_context_end", { 'a', 'b', 'c', 'd' }, { { 0 } }, 4, 4, false, "abcd", NULL, KG_FINISH_LENGTH },
    { "two_byte_character", { 0xC3, 0xA9, 'x' }, { { 0 } }, 3, 0, false, "\xC3\xA9x", "\xC3\xA9|x|", KG_FINISH_LENGTH },
    { "four_byte_character",
      { 0xF0, 0x9F, 0x8D, 0x81 },
      { { 0 } },
      4,
      0,
      false,
      "\xF0\x9F\x8D\x81",
      "\xF0\x9F\x8D\x81|",
      KG_FINISH_LENGTH },
    { "character_cut_at_the_end",
      { 'x', 0xC3 },
      { { 0 } },
      2,
      0,
      false,
      "x\xEF\xBF\xBD",
      "x|\xEF\xBF\xBD|",
      KG_FINISH_LENGTH },
    { "stop_inside_a_character",
      { 'x', 0xC3, 0xA9 },
      { { 0xA9 } },
      9,
      0,
      false,
      "x\xEF\xBF\xBD",
      NULL,
      KG_FINISH_STOP_SEQUENCE },
};

/* A case as it runs: with the logits brought to the host, or with draws by the back end, one step ahead. */
struct way {
    void (*run)(struct kg_record *rec, const void *arg);
    const void *arg;
    bool draws;
};
static bool back_end_draws; /* of the way that runs */

static void go(struct kg_record *rec, const void *arg) {
    const struct way *way = arg;
    back_end_draws = way->draws;
    way->run(rec, way->arg);
}

static void open_script(struct kg_record *rec, const int32_t *ids, size_t n_ids, uint32_t n_ctx,
                        struct kg_scripted *s) {
    kg_scripted_open(rec, ids, n_ids, n_ctx, back_end_draws, s);
    kg_host_draws_asked = kg_host_draws_given = 0;
}

/* How many draws were asked for in vain: none where the end can be foreseen, else one. */
static void expect_one_ahead(const struct kg_generate_result *r, uint32_t max_tokens) {
    const uint64_t n_in_vain = kg_host_draws_asked - kg_host_draws_given;
    if (!back_end_draws || max_tokens == 0) {
        ck_assert_uint_eq(kg_host_draws_asked, 0);
        return;
    }
    ck_assert_uint_eq(kg_host_draws_given, r->n_evals + 1);
    const bool foreseen = r->n_evals == 0 || r->n_evals + 1 == max_tokens || r->finish == KG_FINISH_CONTEXT;
    ck_assert_uint_eq(n_in_vain, foreseen ? 0 : 1);
}

/* Streamed text, a '|' after each piece; stops after n_pieces of them. */
struct listener {
    struct kg_buffer pieces, text;
    size_t n_pieces;
};

static bool listen(void *user, const char *text, size_t len) {
    struct listener *l = user;
    ck_assert_uint_gt(len, 0);
    kg_buffer_append(&l->pieces, text, len);
    kg_buffer_puts(&l->pieces, "|");
    kg_buffer_append(&l->text, text, len);
    return --l->n_pieces > 0;
}

static void listener_free(struct listener *l) {
    kg_buffer_free(&l->pieces);
    kg_buffer_free(&l->text);
}

static const struct kg_sampler_options GREEDY = { .repeat_penalty = 1, .top_p = 1 };
static const int32_t PROMPT[] = { 'p' };

static size_t length_of(const int32_t *ids, size_t most) {
    size_t n = 0;
    while (n < most && ids[n]) n++;
    return n;
}

static struct kg_generate_result generate(struct kg_scripted *s, const struct kg_generate_options *options) {
    struct kg_generate_result result;
    struct kg_error err;
    if (kg_generate(s->session, PROMPT, 1, options, &result, &err)) ck_abort_msg("%s", err.message);
    return result;
}

static void run_story(struct kg_record *rec, const void *arg) {
    const struct story *t = arg;
    struct kg_scripted s;
    struct listener l = { .n_pieces = SIZE_MAX };
    struct kg_stop_sequence stops[3];
    size_t n_stops = 0;
    for (; n_stops < 3 && t->stops[n_stops][0]; n_stops++)
        stops[n_stops] = (struct kg_stop_sequence){ t->stops[n_stops], length_of(t->stops[n_stops], 6) };
    open_script(rec, t->script, length_of(t->script, MAX_IDS), t->n_ctx, &s);
    const struct kg_generate_options options = { .sampler = GREEDY,
                                                 .max_tokens = t->max_tokens,
                                                 .stops = stops,
                                                 .n_stops = n_stops,
                                                 .ignore_end = t->ignore_end,
                                                 .on_text = listen,
                                                 .user = &l };
    struct kg_generate_result r = generate(&s, &options);
    ck_assert_str_eq(kg_finish_name(r.finish), kg_finish_name(t->finish));
    ck_assert_str_eq(r.text, t->text);
    ck_assert_uint_eq(r.text_len, strlen(t->text));
    ck_assert_str_eq(kg_buffer_text(&l.text), t->text);
    if (t->pieces) ck_assert_str_eq(kg_buffer_text(&l.pieces), t->pieces);
    for (size_t i = 0; i < r.n_ids; i++) ck_assert_int_eq(r.ids[i], t->script[i]);
    ck_assert_uint_eq(r.n_decode_allocations, 0);
    ck_assert_uint_eq(kg_session_n_past(s.session), 1 + r.n_evals);
    expect_one_ahead(&r, t->max_tokens);
    if (t->finish == KG_FINISH_LENGTH && t->max_tokens) {
        ck_assert_uint_eq(r.n_ids, t->max_tokens);
        ck_assert_uint_eq(r.n_evals, r.n_ids - 1);
    }
    kg_generate_result_free(&r);
    listener_free(&l);
    kg_scripted_close(&s);
}

static void cancelled_by_the_listener(struct kg_record *rec, const void *arg) {
    (void)arg;
    const int32_t script[] = { 'a', 'b', 'c', 'd' };
    struct kg_scripted s;
    struct listener l = { .n_pieces = 2 };
    open_script(rec, script, 4, 0, &s);
    const struct kg_generate_options options = { .sampler = GREEDY, .max_tokens = 9, .on_text = listen, .user = &l };
    struct kg_generate_result r = generate(&s, &options);
    ck_assert_int_eq(r.finish, KG_FINISH_CANCELLED);
    ck_assert_str_eq(r.text, "ab");
    ck_assert_str_eq(kg_buffer_text(&l.pieces), "a|b|");
    kg_generate_result_free(&r);
    listener_free(&l);
    kg_scripted_close(&s);
}

/* A NaN at any step is an error naming position and index; the session stays where it was and can go on. */
static void nan_names_position_and_index(struct kg_record *rec, const void *arg) {
    (void)arg;
    const int32_t script[] = { 'a', 'b', KG_SCRIPT_NAN };
    struct kg_scripted s;
    struct kg_generate_result r;
    struct kg_error err;
    open_script(rec, script, 3, 0, &s);
    const struct kg_generate_options options = { .sampler = GREEDY, .max_tokens = 9 };
    ck_assert_int_eq(kg_generate(s.session, PROMPT, 1, &options, &r, &err), KG_ERR_NUMERIC);
    ck_assert_msg(strstr(err.message, "logit 3 at position 2") != NULL, "%s", err.message);
    ck_assert_uint_eq(kg_session_n_past(s.session), 2);
    kg_scripted_close(&s);
}

/* Every row of many is looked at, not the first alone. */
static void nan_in_the_last_row(struct kg_record *rec, const void *arg) {
    (void)arg;
    const int32_t script[] = { 'a', 'b', KG_SCRIPT_NAN };
    const int32_t ids[] = { 'x', 'y', 'z' };
    const float *logits;
    struct kg_scripted s;
    struct kg_error err;
    open_script(rec, script, 3, 0, &s);
    ck_assert_int_eq(kg_session_eval(s.session, ids, 3, KG_LOGITS_ALL, &logits, &err), KG_ERR_NUMERIC);
    ck_assert_msg(strstr(err.message, "logit 3 at position 2") != NULL, "%s", err.message);
    ck_assert_uint_eq(kg_session_n_past(s.session), 0);
    kg_scripted_close(&s);
}

/* The logits of a prompt's last id alone are of that id's position. */
static void nan_after_a_prompt(struct kg_record *rec, const void *arg) {
    (void)arg;
    const int32_t script[] = { 'a', 'b', KG_SCRIPT_NAN };
    const int32_t ids[] = { 'x', 'y', 'z' };
    const float *logits;
    struct kg_scripted s;
    struct kg_error err;
    open_script(rec, script, 3, 0, &s);
    ck_assert_int_eq(kg_session_eval(s.session, ids, 3, KG_LOGITS_LAST, &logits, &err), KG_ERR_NUMERIC);
    ck_assert_msg(strstr(err.message, "logit 3 at position 2") != NULL, "%s", err.message);
    kg_scripted_close(&s);
}

/* The prompt's ids and those just drawn are repetitions alike. */
static void penalty_counts_prompt_and_answer(struct kg_record *rec, const void *arg) {
    (void)arg;
    const int32_t script[] = { 'p', 'q', 'q' };
    struct kg_scripted s;
    open_script(rec, script, 3, 0, &s);
    struct kg_generate_options options = { .sampler = GREEDY, .max_tokens = 3, .ignore_end = true };
    options.sampler.repeat_penalty = 1e9;
    options.sampler.repeat_last_n = 64;
    struct kg_generate_result r = generate(&s, &options);
    ck_assert_uint_eq(r.n_ids, 3);
    ck_assert_int_ne(r.ids[0], 'p');
    ck_assert_int_eq(r.ids[1], 'q');
    ck_assert_int_ne(r.ids[2], 'q');
    kg_generate_result_free(&r);
    kg_scripted_close(&s);
}

/* Rows past the tokenizer's tokens pad the matrix: likeliest or not, they are never drawn. */
static void padded_rows_are_never_drawn(struct kg_record *rec, const void *arg) {
    (void)arg;
    int32_t script[30];
    struct kg_scripted s;
    for (int i = 0; i < 30; i++) script[i] = KG_TINY_TOKENS + i % 9;
    for (int greedy = 0; greedy < 2; greedy++) {
        open_script(rec, script, 30, 0, &s);
        struct kg_generate_options options = { .sampler = GREEDY, .max_tokens = 30, .ignore_end = true };
        options.sampler.temperature = greedy ? 0 : 1000;
        struct kg_generate_result r = generate(&s, &options);
        ck_assert_uint_eq(r.n_ids, 30);
        for (size_t i = 0; i < r.n_ids; i++) ck_assert_int_lt(r.ids[i], KG_TINY_TOKENS);
        kg_generate_result_free(&r);
        kg_scripted_close(&s);
    }
}

static void goes_on_after_an_answer(struct kg_record *rec, const void *arg) {
    (void)arg;
    const int32_t script[] = { 'a', 'b', 'c', 'd' };
    struct kg_scripted s;
    open_script(rec, script, 4, 0, &s);
    const struct kg_generate_options options = { .sampler = GREEDY, .max_tokens = 2 };
    struct kg_generate_result first = generate(&s, &options), second = generate(&s, &options);
    ck_assert_str_eq(first.text, "ab");  /* position 0 is the prompt, 1 the 'a'; 'b' was never evaluated */
    ck_assert_str_eq(second.text, "cd"); /* position 2 is the second prompt */
    ck_assert_uint_eq(kg_session_n_past(s.session), 4);
    kg_generate_result_free(&second);
    kg_generate_result_free(&first);
    kg_scripted_close(&s);
}

static void refuses(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const int32_t long_prompt[9] = { 'p', 'p', 'p', 'p', 'p', 'p', 'p', 'p', 'p' };
    const int32_t outside[] = { 'p', 270 }, negative[] = { -1 };
    const struct kg_stop_sequence empty = { long_prompt, 0 };
    struct kg_scripted s;
    struct kg_generate_result r;
    struct kg_error err;
    open_script(rec, NULL, 0, 8, &s);
    struct kg_generate_options options = { .sampler = GREEDY, .max_tokens = 2 };
    ck_assert_int_eq(kg_generate(s.session, long_prompt, 0, &options, &r, &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_generate(s.session, long_prompt, 9, &options, &r, &err), KG_ERR_RANGE);
    ck_assert_ptr_nonnull(strstr(err.message, "9 tokens"));
    ck_assert_int_eq(kg_generate(s.session, outside, 2, &options, &r, &err), KG_ERR_RANGE);
    ck_assert_ptr_nonnull(strstr(err.message, "id 270 at index 1"));
    ck_assert_int_eq(kg_generate(s.session, negative, 1, &options, &r, &err), KG_ERR_RANGE);
    options.sampler.top_p = 2;
    ck_assert_int_eq(kg_generate(s.session, long_prompt, 2, &options, &r, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "top_p 2"));
    options.sampler = GREEDY;
    options.stops = &empty;
    options.n_stops = 1;
    ck_assert_int_eq(kg_generate(s.session, long_prompt, 2, &options, &r, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "stop sequence 0"));
    ck_assert_uint_eq(kg_session_n_past(s.session), 0);
    kg_scripted_close(&s);
}

static const struct {
    const char *name;
    void (*run)(struct kg_record *rec, const void *arg);
} SINGLE[] = {
#define CASE(function)                                                                                                 \
    { #function, function }
    CASE(cancelled_by_the_listener),
    CASE(nan_names_position_and_index),
    CASE(nan_in_the_last_row),
    CASE(nan_after_a_prompt),
    CASE(penalty_counts_prompt_and_answer),
    CASE(padded_rows_are_never_drawn),
    CASE(goes_on_after_an_answer),
    CASE(refuses),
#undef CASE
};

static void add(struct kg_case_list *list, const char *name, const struct way *way) {
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = way->draws ? "pipeline" : "generate",
                                              .name = name,
                                              .backend = "cpu",
                                              .run = go,
                                              .arg = way });
}

static void build(struct kg_case_list *list) {
    static struct way ways[2][KG_COUNT_OF(STORIES) + KG_COUNT_OF(SINGLE)];
    for (int draws = 0; draws < 2; draws++) {
        struct way *way = ways[draws];
        for (size_t i = 0; i < KG_COUNT_OF(STORIES); i++, way++) {
            *way = (struct way){ run_story, &STORIES[i], draws };
            add(list, STORIES[i].name, way);
        }
        for (size_t i = 0; i < KG_COUNT_OF(SINGLE); i++, way++) {
            *way = (struct way){ SINGLE[i].run, NULL, draws };
            add(list, SINGLE[i].name, way);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
