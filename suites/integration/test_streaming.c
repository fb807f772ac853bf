/* Streams and stop sequences: whole characters only, nothing of a stop sequence, and all that is in the result. */
#include "suites/support/rig.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT                                                                                                         \
    "<|im_start|>user\nWrite a haiku about an old pond that includes the word \"seven\" (nonce: a1B2c3D4)<|im_end|>\n" \
    "<|im_start|>assistant\n"

enum { BASE_TOKENS = 40, CONTEXT = 128 };

/* What came through the stream. */
struct stream {
    struct kg_buffer text;
    size_t n_pieces, n_empty, n_ill_formed;
    size_t cancel_at; /* the piece that says stop; 0: none */
};

static bool is_whole_utf8(const char *text, size_t len) {
    struct kg_utf8_stream utf8 = { 0 };
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_utf8_stream_push(&utf8, text, len, &out);
    const bool same = utf8.n_pending == 0 && out.len == len && (len == 0 || memcmp(out.data, text, len) == 0);
    kg_buffer_free(&out);
    return same;
}

static bool take_piece(void *user, const char *text, size_t len) {
    struct stream *const s = user;
    s->n_pieces++;
    s->n_empty += len == 0;
    s->n_ill_formed += !is_whole_utf8(text, len);
    kg_buffer_append(&s->text, text, len);
    return s->cancel_at == 0 || s->n_pieces < s->cancel_at;
}

/* Generates with a stream, holds it to what all streams have in common, and gives it back. */
static struct kg_generate_result stream(struct kg_generate_options options, const struct kg_ids *prompt,
                                        struct stream *s) {
    struct kg_session *const session = kg_rig_session(kg_rig_shared(), CONTEXT);
    struct kg_generate_result r;
    struct kg_error err = { 0 };
    options.on_text = take_piece;
    options.user = s;
    kg_must(kg_generate(session, prompt->ids, prompt->n, &options, &r, &err), &err);
    char *text;
    size_t len;
    kg_must(kg_tokenizer_decode(kg_rig_shared()->tokenizer, r.ids, r.n_ids, false, &text, &len, &err), &err);
    ck_assert_str_eq(r.text, text);
    ck_assert_uint_eq(r.text_len, len);
    free(text);
    ck_assert_uint_eq(s->n_empty, 0);
    ck_assert_uint_eq(s->n_ill_formed, 0);
    if (s->cancel_at == 0) {
        ck_assert_str_eq(kg_buffer_text(&s->text), r.text);
        ck_assert_uint_eq(s->text.len, r.text_len);
    }
    kg_session_free(session);
    return r;
}

static struct kg_generate_options greedy_options(void) {
    struct kg_generate_options options = { .sampler = KG_SAMPLER_DEFAULTS,
                                           .max_tokens = BASE_TOKENS,
                                           .ignore_end = true };
    options.sampler.temperature = 0;
    return options;
}

/* Greedy, past end tokens: every id the cases below stop at. */
static const struct kg_generate_result *baseline(struct kg_ids *prompt) {
    static struct kg_generate_result results[KG_RIG_N_TARGETS];
    struct kg_generate_result *const result = &results[kg_rig_current()];
    struct stream s = { 0 };
    *prompt = kg_rig_encode(kg_rig_shared(), PROMPT);
    if (!result->ids) *result = stream(greedy_options(), prompt, &s);
    ck_assert_uint_eq(result->n_ids, BASE_TOKENS);
    kg_buffer_free(&s.text);
    return result;
}

/* Stop sequences as pieces of the baseline: ids [from, from + n), then `tail` if it is not negative. */
struct stop_piece {
    size_t from, n;
    int32_t tail;
};
enum { NO_TAIL = -1, OTHER_ID = 3, MAX_STOPS = 3 };
struct stop_row {
    const char *name;
    struct stop_piece stops[MAX_STOPS];
    size_t n_stops;
};
static const struct stop_row STOPS[] = {
    { "stop_at_the_first_token", { { 0, 1, NO_TAIL } }, 1 },
    { "stop_of_one_token", { { 4, 1, NO_TAIL } }, 1 },
    { "stop_across_three_tokens", { { 3, 3, NO_TAIL } }, 1 },
    { "stop_of_the_first_tokens", { { 0, 4, NO_TAIL } }, 1 },
    { "stop_that_only_begins", { { 3, 2, OTHER_ID } }, 1 },
    { "stop_that_begins_with_the_last_token", { { BASE_TOKENS - 1, 1, OTHER_ID } }, 1 },
    { "stop_at_the_last_tokens", { { BASE_TOKENS - 3, 3, NO_TAIL } }, 1 },
    { "shorter_stop_inside_a_longer", { { 2, 4, NO_TAIL }, { 3, 2, NO_TAIL } }, 2 },
    { "two_stops_end_together", { { 4, 2, NO_TAIL }, { 3, 3, NO_TAIL } }, 2 },
    { "one_begins_and_another_completes", { { 2, 2, OTHER_ID }, { 3, 2, NO_TAIL } }, 2 },
    { "the_earlier_of_two", { { 9, 2, NO_TAIL }, { 5, 2, NO_TAIL } }, 2 },
    { "three_that_only_begin", { { 1, 1, OTHER_ID }, { 2, 3, OTHER_ID }, { 4, 5, OTHER_ID } }, 3 },
};

/* How many ids come before the stop that is complete first (the longest of those), by looking everywhere. */
static size_t cut_by(const int32_t *ids, size_t n, const struct kg_stop_sequence *stops, size_t n_stops) {
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < n_stops; i++)
            if (stops[i].n <= end && stops[i].n > longest &&
                memcmp(ids + end - stops[i].n, stops[i].ids, stops[i].n * sizeof *ids) == 0)
                longest = stops[i].n;
        if (longest > 0) return end - longest;
    }
    return n;
}

static void expect_cut(const struct kg_generate_result *base, const struct kg_ids *prompt,
                       const struct kg_stop_sequence *stops, size_t n_stops) {
    const size_t n = cut_by(base->ids, base->n_ids, stops, n_stops);
    struct kg_generate_options options = greedy_options();
    struct stream s = { 0 };
    options.stops = stops;
    options.n_stops = n_stops;
    struct kg_generate_result r = stream(options, prompt, &s);
    kg_expect_same_ids("before the stop", r.ids, r.n_ids, base->ids, n);
    ck_assert_int_eq(r.finish, n < base->n_ids ? KG_FINISH_STOP_SEQUENCE : KG_FINISH_LENGTH);
    kg_generate_result_free(&r);
    kg_buffer_free(&s.text);
}

static void stops(struct kg_record *rec, const void *arg) {
    const struct stop_row *const row = arg;
    (void)rec;
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    struct kg_stop_sequence sequences[MAX_STOPS];
    int32_t ids[MAX_STOPS][BASE_TOKENS + 1];
    for (size_t i = 0; i < row->n_stops; i++) {
        const struct stop_piece *const piece = &row->stops[i];
        ck_assert_uint_le(piece->from + piece->n, base->n_ids);
        memcpy(ids[i], base->ids + piece->from, piece->n * sizeof *ids[i]);
        if (piece->tail != NO_TAIL) {
            ck_assert(piece->from + piece->n == base->n_ids || base->ids[piece->from + piece->n] != piece->tail);
            ids[i][piece->n] = piece->tail;
        }
        sequences[i] = (struct kg_stop_sequence){ .ids = ids[i], .n = piece->n + (piece->tail != NO_TAIL) };
    }
    expect_cut(base, &prompt, sequences, row->n_stops);
    kg_ids_free(&prompt);
}

/* A stretch of the answer whose end is also its beginning (a, b, a), so that it overlaps with itself. */
static void stop_that_overlaps_itself(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    size_t n_tried = 0;
    for (size_t from = 0; from + 3 <= base->n_ids && n_tried < 4; from++)
        for (size_t n = 3; n < 9 && from + n <= base->n_ids && n_tried < 4; n++) {
            if (base->ids[from] != base->ids[from + n - 1]) continue;
            const struct kg_stop_sequence stop = { .ids = base->ids + from, .n = n };
            expect_cut(base, &prompt, &stop, 1);
            n_tried++;
        }
    ck_assert_uint_gt(n_tried, 0);
    kg_ids_free(&prompt);
}

/* Stops match ids: the text of a stop inside a longer token is no stop. */
static void stop_inside_a_token_is_none(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    struct kg_error err = { 0 };
    const char *bytes = "";
    size_t len = 0, at = 0;
    for (; at < base->n_ids && len < 4; at++)
        kg_must(kg_tokenizer_token_bytes(rig->tokenizer, base->ids[at], false, &bytes, &len, &err), &err);
    ck_assert_uint_ge(len, 4);
    struct kg_ids inside = { 0 };
    kg_must(kg_tokenizer_encode(rig->tokenizer, bytes + 1, len - 2, false, &inside, &err), &err);
    const struct kg_stop_sequence stop = { .ids = inside.ids, .n = inside.n };
    expect_cut(base, &prompt, &stop, 1);
    kg_ids_free(&inside);
    kg_ids_free(&prompt);
}

/* At a high temperature bytes come that are no characters: they stream as U+FFFD, and never in halves. */
static void no_character_is_split(struct kg_record *rec, const void *arg) {
    enum { N_SEEDS = 6 };
    (void)arg;
    const struct kg_ids prompt = { .ids = (int32_t[]){ 1, 2 }, .n = 2 };
    size_t n_replaced = 0;
    for (uint64_t i = 0; i < N_SEEDS; i++) {
        struct kg_generate_options options = greedy_options();
        struct stream s = { 0 };
        options.sampler.temperature = 50;
        options.sampler.seed = kg_record_seed(rec) + i;
        struct kg_generate_result r = stream(options, &prompt, &s);
        ck_assert(is_whole_utf8(r.text, r.text_len));
        n_replaced += strstr(r.text, "\xef\xbf\xbd") != NULL;
        kg_generate_result_free(&r);
        kg_buffer_free(&s.text);
    }
    ck_assert_uint_gt(n_replaced, 0);
    kg_record_metric(rec, "texts_with_ill_formed_bytes", "count", (double)n_replaced);
}

static void text_streams_as_it_is_decided(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_ids prompt = kg_rig_encode(kg_rig_shared(), PROMPT);
    struct stream s = { 0 };
    struct kg_generate_result r = stream(greedy_options(), &prompt, &s);
    ck_assert_uint_ge(s.n_pieces, BASE_TOKENS / 2);
    kg_generate_result_free(&r);
    kg_buffer_free(&s.text);
    kg_ids_free(&prompt);
}

static void cancelled_by_the_listener(struct kg_record *rec, const void *arg) {
    static const size_t AT[] = { 1, 2, 7 };
    (void)rec, (void)arg;
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    for (size_t i = 0; i < KG_COUNT_OF(AT); i++) {
        struct stream s = { .cancel_at = AT[i] };
        struct kg_generate_result r = stream(greedy_options(), &prompt, &s);
        ck_assert_int_eq(r.finish, KG_FINISH_CANCELLED);
        ck_assert_uint_eq(s.n_pieces, AT[i]);
        ck_assert_uint_lt(r.n_ids, base->n_ids);
        kg_expect_same_ids("until cancelled", r.ids, r.n_ids, base->ids, r.n_ids);
        ck_assert_uint_le(s.text.len, r.text_len);
        ck_assert_mem_eq(s.text.data, r.text, s.text.len);
        kg_generate_result_free(&r);
        kg_buffer_free(&s.text);
    }
    kg_ids_free(&prompt);
}

/* Cancelling while the last piece is shown still says so. */
static void cancelled_at_the_last_token(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_ids prompt = kg_rig_encode(kg_rig_shared(), PROMPT);
    struct kg_generate_options options = greedy_options();
    struct stream s = { .cancel_at = 1 };
    options.max_tokens = 1;
    struct kg_generate_result r = stream(options, &prompt, &s);
    ck_assert_int_eq(r.finish, KG_FINISH_CANCELLED);
    kg_generate_result_free(&r);
    kg_buffer_free(&s.text);
    kg_ids_free(&prompt);
}

static const struct kg_case OTHERS[] = {
#define STREAM_CASE(name_)                                                                                             \
    { .layer = "integration", .op = "streaming", .name = #name_, .dtype = "f32", .run = name_ }
    STREAM_CASE(stop_that_overlaps_itself), STREAM_CASE(stop_inside_a_token_is_none),
    STREAM_CASE(no_character_is_split),     STREAM_CASE(text_streams_as_it_is_decided),
    STREAM_CASE(cancelled_by_the_listener), STREAM_CASE(cancelled_at_the_last_token),
#undef STREAM_CASE
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(STOPS); i++)
        kg_rig_add(list, &(struct kg_case){ .layer = "integration",
                                            .op = "streaming",
                                            .name = STOPS[i].name,
                                            .dtype = "f32",
                                            .run = stops,
                                            .arg = &STOPS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_rig_add(list, &OTHERS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
