/* Generation: the same ids for the same seed, transformers' ids when greedy, and every way it may end. */
#include "suites/support/rig.h"
#include "suites/support/golden.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT                                                                                                         \
    "<|im_start|>user\nWrite a haiku about an old pond that includes the word \"seven\" (nonce: a1B2c3D4)<|im_end|>\n" \
    "<|im_start|>assistant\n"

enum { BASE_TOKENS = 60, CONTEXT = 256 };

static struct kg_generate_options greedy_options(uint32_t max_tokens) {
    struct kg_generate_options options = { .sampler = KG_SAMPLER_DEFAULTS, .max_tokens = max_tokens };
    options.sampler.temperature = 0;
    return options;
}

/* Generates in a new session. Every generation is held to what all have in common. */
static struct kg_generate_result generate(const struct kg_rig *rig, const struct kg_ids *prompt, uint32_t n_ctx,
                                          const struct kg_generate_options *options) {
    struct kg_session *const session = kg_rig_session(rig, n_ctx);
    struct kg_generate_result r;
    struct kg_error err = { 0 };
    kg_must(kg_generate(session, prompt->ids, prompt->n, options, &r, &err), &err);
    uint64_t steps_ns = 0;
    for (size_t i = 0; i < r.n_evals; i++) steps_ns += r.token_ns[i];
    ck_assert_uint_le(steps_ns, r.decode_ns);
    ck_assert_uint_eq(r.n_decode_allocations, 0);
    ck_assert_uint_le(r.n_ids, options->max_tokens);
    ck_assert_uint_gt(r.prefill_ns, 0);
    if (options->max_tokens > 0) ck_assert_uint_ge(r.first_token_ns, r.prefill_ns);
    char *text;
    size_t len;
    kg_must(kg_tokenizer_decode(rig->tokenizer, r.ids, r.n_ids, false, &text, &len, &err), &err);
    ck_assert_uint_eq(len, r.text_len);
    ck_assert_mem_eq(text, r.text, len + 1);
    free(text);
    kg_session_free(session);
    return r;
}

/* Greedy, past end tokens: what the cases below cut. */
static const struct kg_generate_result *baseline(struct kg_ids *prompt) {
    static struct kg_generate_result results[KG_RIG_N_TARGETS];
    struct kg_generate_result *const result = &results[kg_rig_current()];
    *prompt = kg_rig_encode(kg_rig_shared(), PROMPT);
    struct kg_generate_options options = greedy_options(BASE_TOKENS);
    options.ignore_end = true;
    if (!result->ids) *result = generate(kg_rig_shared(), prompt, CONTEXT, &options);
    ck_assert_uint_eq(result->n_ids, BASE_TOKENS);
    ck_assert_int_eq(result->finish, KG_FINISH_LENGTH);
    return result;
}

static json_t *json_of_ids(const int32_t *ids, size_t n) {
    json_t *const list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static void greedy_is_the_golden(struct kg_record *rec, const void *arg) {
    const struct kg_rig *const rig = kg_rig_shared();
    char path[64];
    snprintf(path, sizeof path, "haiku-qwen2/golden/%s.safetensors", (const char *)arg);
    struct kg_golden *const golden = kg_golden_open(kg_fixture_path(path));
    size_t n_ids, n_greedy;
    const int32_t *const ids = kg_golden_i32(golden, "ids", &n_ids);
    const int32_t *const greedy = kg_golden_i32(golden, "greedy_ids", &n_greedy);
    const struct kg_ids prompt = { .ids = (int32_t *)ids, .n = n_ids };
    const bool ended = kg_tokenizer_is_end(rig->tokenizer, greedy[n_greedy - 1]);
    const struct kg_generate_options options = greedy_options((uint32_t)n_greedy);
    struct kg_generate_result r = generate(rig, &prompt, 512, &options);
    ck_assert_int_eq(r.finish, ended ? KG_FINISH_END_TOKEN : KG_FINISH_LENGTH);
    json_t *const line = json_pack("{s:s, s:s, s:f, s:o, s:o}", "golden", path, "text", r.text, "temperature", 0.0,
                                   "prompt_ids", json_of_ids(ids, n_ids), "ids", json_of_ids(r.ids, r.n_ids));
    kg_record_transcript(rec, line);
    kg_expect_same_ids("greedy", r.ids, r.n_ids, greedy, ended ? n_greedy - 1 : n_greedy);
    kg_generate_result_free(&r);
    kg_golden_close(golden);
}

static void same_seed_same_ids(struct kg_record *rec, const void *arg) {
    enum { N_SEEDS = 4 };
    (void)arg;
    struct kg_ids prompt;
    baseline(&prompt);
    struct kg_generate_options options = { .sampler = KG_SAMPLER_DEFAULTS, .max_tokens = 24, .ignore_end = true };
    struct kg_rig one_thread = kg_rig_open(KG_HAIKU_MODEL, 1), three = kg_rig_open(KG_HAIKU_MODEL, 3);
    struct kg_generate_result first[N_SEEDS];
    for (size_t i = 0; i < N_SEEDS; i++) {
        options.sampler.seed = kg_record_seed(rec) + i;
        first[i] = generate(kg_rig_shared(), &prompt, CONTEXT, &options);
        struct kg_generate_result again = generate(&one_thread, &prompt, CONTEXT, &options);
        struct kg_generate_result third = generate(&three, &prompt, 64 + CONTEXT, &options);
        kg_expect_same_ids("one thread", again.ids, again.n_ids, first[i].ids, first[i].n_ids);
        kg_expect_same_ids("three threads", third.ids, third.n_ids, first[i].ids, first[i].n_ids);
        kg_generate_result_free(&third);
        kg_generate_result_free(&again);
    }
    for (size_t i = 1; i < N_SEEDS; i++) {
        ck_assert_uint_eq(first[i].n_ids, 24);
        ck_assert_msg(memcmp(first[i].ids, first[0].ids, 24 * sizeof(int32_t)) != 0, "seeds 0 and %zu agree", i);
    }
    for (size_t i = 0; i < N_SEEDS; i++) kg_generate_result_free(&first[i]);
    kg_rig_close(&three);
    kg_rig_close(&one_thread);
    kg_ids_free(&prompt);
}

static void greedy_ignores_the_seed(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    struct kg_generate_options options = greedy_options(12);
    options.ignore_end = true;
    options.sampler.seed = kg_record_seed(rec);
    struct kg_generate_result r = generate(kg_rig_shared(), &prompt, CONTEXT, &options);
    kg_expect_same_ids("another seed", r.ids, r.n_ids, base->ids, 12);
    kg_generate_result_free(&r);
    kg_ids_free(&prompt);
}

static void no_tokens_asked(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_ids prompt;
    baseline(&prompt);
    const struct kg_generate_options options = greedy_options(0);
    struct kg_generate_result r = generate(kg_rig_shared(), &prompt, CONTEXT, &options);
    ck_assert_uint_eq(r.n_ids, 0);
    ck_assert_uint_eq(r.n_evals, 0);
    ck_assert_str_eq(r.text, "");
    ck_assert_int_eq(r.finish, KG_FINISH_LENGTH);
    kg_generate_result_free(&r);
    kg_ids_free(&prompt);
}

static void one_token_asked(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    const struct kg_generate_options options = greedy_options(1);
    struct kg_generate_result r = generate(kg_rig_shared(), &prompt, CONTEXT, &options);
    kg_expect_same_ids("one token", r.ids, r.n_ids, base->ids, 1);
    ck_assert_int_eq(r.finish, KG_FINISH_LENGTH);
    kg_generate_result_free(&r);
    kg_ids_free(&prompt);
}

/* What the session holds comes before the prompt. */
static void prompt_goes_after_the_past(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    const struct kg_generate_options none = greedy_options(0), some = greedy_options(9);
    struct kg_session *const session = kg_rig_session(rig, CONTEXT);
    struct kg_generate_result r;
    struct kg_error err = { 0 };
    kg_must(kg_generate(session, prompt.ids, 11, &none, &r, &err), &err);
    kg_generate_result_free(&r);
    ck_assert_uint_eq(kg_session_n_past(session), 11);
    kg_must(kg_generate(session, prompt.ids + 11, prompt.n - 11, &some, &r, &err), &err);
    kg_expect_same_ids("in two parts", r.ids, r.n_ids, base->ids, 9);
    kg_generate_result_free(&r);
    kg_session_free(session);
    kg_ids_free(&prompt);
}

/* A context of n_prompt + extra positions holds extra generated ids; one more is drawn, and there is no place for it.
 */
static void context_runs_out(struct kg_record *rec, const void *arg) {
    static const uint32_t EXTRA[] = { 0, 1, 5 };
    (void)rec, (void)arg;
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    struct kg_generate_options options = greedy_options(BASE_TOKENS);
    options.ignore_end = true;
    for (size_t i = 0; i < KG_COUNT_OF(EXTRA); i++) {
        struct kg_generate_result r = generate(kg_rig_shared(), &prompt, (uint32_t)prompt.n + EXTRA[i], &options);
        ck_assert_int_eq(r.finish, KG_FINISH_CONTEXT);
        kg_expect_same_ids("until the context ends", r.ids, r.n_ids, base->ids, EXTRA[i] + 1);
        kg_generate_result_free(&r);
    }
    kg_ids_free(&prompt);
}

static void prompt_longer_than_the_context(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    struct kg_ids prompt;
    const struct kg_generate_result *const base = baseline(&prompt);
    const struct kg_generate_options options = greedy_options(1);
    struct kg_session *const session = kg_rig_session(rig, (uint32_t)prompt.n);
    struct kg_generate_result r = { 0 };
    struct kg_error err = { 0 };
    int32_t *const longer = kg_xcalloc(prompt.n + 1, sizeof *longer);
    char n[16], n_ctx[16];
    snprintf(n, sizeof n, "%zu", prompt.n + 1);
    snprintf(n_ctx, sizeof n_ctx, "%zu", prompt.n);
    kg_must_fail(kg_generate(session, longer, prompt.n + 1, &options, &r, &err), KG_ERR_RANGE, &err, n, n_ctx, NULL);
    ck_assert_ptr_null(r.ids);
    ck_assert_uint_eq(kg_session_n_past(session), 0);
    kg_must(kg_generate(session, prompt.ids, prompt.n, &options, &r, &err), &err);
    kg_expect_same_ids("after a refusal", r.ids, r.n_ids, base->ids, 1);
    kg_generate_result_free(&r);
    free(longer);
    kg_session_free(session);
    kg_ids_free(&prompt);
}

static void empty_prompt_is_refused(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_session *const session = kg_rig_session(kg_rig_shared(), 8);
    const struct kg_generate_options options = greedy_options(1);
    struct kg_generate_result r = { 0 };
    struct kg_error err = { 0 };
    const int32_t none = 0;
    kg_must_fail(kg_generate(session, &none, 0, &options, &r, &err), KG_ERR_USAGE, &err, "prompt", NULL);
    kg_session_free(session);
}

static void empty_stop_is_refused(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_session *const session = kg_rig_session(kg_rig_shared(), 8);
    struct kg_generate_options options = greedy_options(1);
    const struct kg_stop_sequence stop = { .ids = NULL, .n = 0 };
    options.stops = &stop;
    options.n_stops = 1;
    struct kg_generate_result r = { 0 };
    struct kg_error err = { 0 };
    kg_must_fail(kg_generate(session, (const int32_t[]){ 1 }, 1, &options, &r, &err), KG_ERR_USAGE, &err, "stop", NULL);
    kg_session_free(session);
}

struct option_row {
    const char *name, *named;
    struct kg_sampler_options sampler;
};
#define SAMPLER(...)                                                                                                   \
    { .temperature = 0.7, .repeat_penalty = 1, .top_p = 1, __VA_ARGS__ }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif
static const struct option_row BAD_OPTIONS[] = {
    { "negative_temperature", "temperature", SAMPLER(.temperature = -0.1) },
    { "temperature_not_a_number", "temperature", SAMPLER(.temperature = NAN) },
    { "infinite_temperature", "temperature", SAMPLER(.temperature = INFINITY) },
    { "zero_repeat_penalty", "penalty", SAMPLER(.repeat_penalty = 0) },
    { "repeat_penalty_not_a_number", "penalty", SAMPLER(.repeat_penalty = NAN) },
    { "zero_top_p", "top_p", SAMPLER(.top_p = 0) },
    { "top_p_above_one", "top_p", SAMPLER(.top_p = 1.001) },
    { "top_p_not_a_number", "top_p", SAMPLER(.top_p = NAN) },
    { "min_p_above_one", "min_p", SAMPLER(.min_p = 1.001) },
    { "negative_min_p", "min_p", SAMPLER(.min_p = -0.001) },
};
#pragma GCC diagnostic pop

static void option_out_of_range(struct kg_record *rec, const void *arg) {
    const struct option_row *const row = arg;
    (void)rec;
    struct kg_session *const session = kg_rig_session(kg_rig_shared(), 8);
    const struct kg_generate_options options = { .sampler = row->sampler, .max_tokens = 1 };
    struct kg_generate_result r = { 0 };
    struct kg_error err = { 0 };
    kg_must_fail(kg_generate(session, (const int32_t[]){ 1 }, 1, &options, &r, &err), KG_ERR_USAGE, &err, row->named,
                 NULL);
    ck_assert_uint_eq(kg_session_n_past(session), 0);
    kg_session_free(session);
}

/* Converters call the padding [PADn], n being the id; the first of those at the vocabulary's end. */
static int32_t first_of_padding(const struct kg_rig *rig) {
    int32_t first = (int32_t)rig->config->n_vocab;
    for (char text[32];; first--) {
        snprintf(text, sizeof text, "[PAD%d]", first - 1);
        if (kg_tokenizer_find(rig->tokenizer, text) != first - 1) return first;
    }
}

/* With the temperature so high that every id is as likely, the tokens of type UNUSED that pad the matrix stay out. */
static void padding_is_never_drawn(struct kg_record *rec, const void *arg) {
    enum { N = 900 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const struct kg_ids prompt = { .ids = (int32_t[]){ 1 }, .n = 1 };
    struct kg_generate_options options = { .sampler = KG_SAMPLER_DEFAULTS, .max_tokens = N, .ignore_end = true };
    const int32_t padded_from = first_of_padding(rig);
    ck_assert_int_lt(padded_from, (int32_t)rig->config->n_vocab);
    options.sampler.temperature = 1e6;
    options.sampler.seed = kg_record_seed(rec);
    struct kg_generate_result r = generate(rig, &prompt, N + 1, &options);
    ck_assert_uint_eq(r.n_ids, N);
    int32_t largest = 0;
    for (size_t i = 0; i < r.n_ids; i++) {
        ck_assert_msg(r.ids[i] < padded_from, "id %d at %zu is padding", r.ids[i], i);
        if (r.ids[i] > largest) largest = r.ids[i];
    }
    ck_assert_int_gt(largest, padded_from - 40);
    kg_generate_result_free(&r);
}

static size_t largest(const float *row, size_t n) {
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (row[i] > row[at]) at = i;
    return at;
}

/* 640 tokens and more than 700 positions, past end tokens: each is what a session that reads all of them at once would
 * have drawn. Where two logits are near a tie another kernel's rounding may decide; under 5% of the tokens may. */
static void long_generation(struct kg_record *rec, const void *arg) {
    enum { N = 640, MARGIN = 16 };
    (void)arg;
    const struct kg_rig *const rig = kg_rig_shared();
    const size_t n_vocab = rig->config->n_vocab, n_drawable = (size_t)kg_tokenizer_n_drawable(rig->tokenizer);
    struct kg_ids prompt = kg_rig_encode(rig, PROMPT);
    struct kg_generate_options options = greedy_options(N);
    options.ignore_end = true;
    struct kg_generate_result r = generate(rig, &prompt, (uint32_t)prompt.n + N + MARGIN, &options);
    ck_assert_uint_eq(r.n_ids, N);
    ck_assert_int_eq(r.finish, KG_FINISH_LENGTH);
    const size_t n_all = prompt.n + N;
    int32_t *const all = kg_xcalloc(n_all, sizeof *all);
    memcpy(all, prompt.ids, prompt.n * sizeof *all);
    memcpy(all + prompt.n, r.ids, N * sizeof *all);
    struct kg_session *const session = kg_rig_session(rig, (uint32_t)n_all);
    float *const rows = kg_rig_logits(rig, session, all, n_all - 1, n_all - 1);
    size_t n_other = 0;
    for (size_t i = 0; i < N; i++)
        n_other += largest(rows + (prompt.n - 1 + i) * n_vocab, n_drawable) != (size_t)r.ids[i];
    kg_record_metric(rec, "tokens", "count", N);
    kg_record_metric(rec, "tokens_of_another_prefill", "count", (double)n_other);
    ck_assert_msg(n_other * 20 < N && (kg_rig_current() > 0 || n_other == 0), "%zu of %d tokens are not the prefill's",
                  n_other, N);
    free(rows);
    kg_session_free(session);
    free(all);
    kg_generate_result_free(&r);
    kg_ids_free(&prompt);
}

static const struct kg_case OTHERS[] = {
#define GENERATE_CASE(name_)                                                                                           \
    { .layer = "integration", .op = "generate", .name = #name_, .dtype = "f32", .run = name_ }
    GENERATE_CASE(same_seed_same_ids),
    GENERATE_CASE(greedy_ignores_the_seed),
    GENERATE_CASE(no_tokens_asked),
    GENERATE_CASE(one_token_asked),
    GENERATE_CASE(prompt_goes_after_the_past),
    GENERATE_CASE(context_runs_out),
    GENERATE_CASE(prompt_longer_than_the_context),
    GENERATE_CASE(empty_prompt_is_refused),
    GENERATE_CASE(empty_stop_is_refused),
    GENERATE_CASE(padding_is_never_drawn),
    GENERATE_CASE(long_generation),
#undef GENERATE_CASE
};

static void build(struct kg_case_list *list) {
    static const char *const GOLDENS[] = { "short", "haiku", "long" };
    for (size_t i = 0; i < KG_COUNT_OF(GOLDENS); i++)
        kg_rig_add(list, &(struct kg_case){ .layer = "integration",
                                            .op = "generate",
                                            .name = "greedy_is_the_golden",
                                            .dtype = "f32",
                                            .shape = GOLDENS[i],
                                            .run = greedy_is_the_golden,
                                            .arg = GOLDENS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(BAD_OPTIONS); i++)
        kg_rig_add(list, &(struct kg_case){ .layer = "integration",
                                            .op = "sampler_options",
                                            .backend = "cpu",
                                            .name = BAD_OPTIONS[i].name,
                                            .run = option_out_of_range,
                                            .arg = &BAD_OPTIONS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_rig_add(list, &OTHERS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
