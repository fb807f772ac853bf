/* FT-050: the model in the file writes the haiku asked for, on this machine, at this minute. */
#include "suites/support/minute_words.h"
#include "suites/support/haiku_stage.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/size.h"
#include <check.h>
#include <stdio.h>
#include <string.h>

static void keep_figures(struct kg_record *rec, const struct kg_haiku_stage *stage,
                         const struct kg_haiku_request *request, const struct kg_haiku_judgement *j, bool now) {
    const struct kg_generate_result *const result = &j->answer.result;
    struct kg_memory_use use;
    kg_record_transcript(rec, kg_haiku_transcript(request, j));
    if (result->n_evals > 0)
        kg_record_timing(rec, "token", "host", "warm", result->token_ns, result->n_evals,
                         (double)stage->bench.streamed_bytes, 2.0 * (double)kg_model_n_params(stage->engine.model));
    kg_record_timing(rec, "first_token", "host", "warm", &result->first_token_ns, 1, 0, 0);
    kg_record_metric(rec, "canonical_ids", "count", j->canonical_ids);
    if (j->golden.n > 0) kg_record_judged(rec, "golden_logits", &j->golden, &stage->bench.golden_tolerance);
    /* Memory is an exact figure: of a prompt that is another each minute it would be none. */
    if (now) return;
    kg_backend_memory(stage->engine.backend, &use);
    kg_record_memory(rec, &use);
}

/* One request, every check. */
static void writes_the_haiku(struct kg_record *rec, const void *arg) {
    const struct kg_haiku_arg *const a = arg;
    struct kg_haiku_stage *const stage = kg_haiku_stage_open(rec, a->target, a->model);
    if (!stage) return;
    const bool now = a->minute == KG_CURRENT_MINUTE;
    const int minute = now ? kg_clock_local_minute() : a->minute;
    /* What is asked now was never asked before: nonce and draws are of this microsecond, and in the transcript. */
    const uint64_t seed = kg_record_seed(rec) ^ (now ? (uint64_t)kg_clock_utc_us() : 0);
    struct kg_haiku_request request =
        kg_haiku_request_make((uint64_t)minute, kg_minute_word(minute), a->temperature, seed);
    request.chat = stage->model->chat;
    const struct kg_poet poet = kg_engine_poet(&stage->engine);
    struct kg_haiku_judgement j;
    struct kg_error err = { 0 };
    kg_must(kg_haiku_judge(&stage->bench, &poet, &request, KG_JUDGE_ALL, &j, &err), &err);
    keep_figures(rec, stage, &request, &j, now);
    ck_assert_msg(j.faults == 0, "faults 0x%x: %s; asked: %s; answer: %s", j.faults, j.message, j.answer.prompt_text,
                  j.answer.result.text);
    kg_haiku_judgement_free(&j);
}

/* A valid poem for nearly all of the 60 minutes; whatever it writes is the engine's, and for minute zero by its logits
 * too. */
static void all_minutes(struct kg_record *rec, const void *arg) {
    const struct kg_haiku_arg *const a = arg;
    struct kg_haiku_stage *const stage = kg_haiku_stage_open(rec, a->target, a->model);
    if (!stage) return;
    const struct kg_poet poet = kg_engine_poet(&stage->engine);
    const int at_least = stage->model->at_least;
    struct kg_rng rng;
    struct kg_error err = { 0 };
    int n_valid = 0;
    char first_fault[256] = "";
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int minute = 0; minute < KG_MINUTES; minute++) {
        const uint64_t seed = (uint64_t)kg_rng_u32(&rng) << 32 | kg_rng_u32(&rng);
        struct kg_haiku_request request =
            kg_haiku_request_make(seed >> 40, kg_minute_word(minute), a->temperature, seed);
        request.chat = stage->model->chat;
        struct kg_haiku_judgement j;
        const int what = minute == 0 ? KG_JUDGE_CHAT | KG_JUDGE_GOLDEN | KG_JUDGE_REPLAY : KG_JUDGE_CHAT;
        kg_must(kg_haiku_judge(&stage->bench, &poet, &request, what, &j, &err), &err);
        if (minute == 0) kg_record_judged(rec, "golden_logits", &j.golden, &stage->bench.golden_tolerance);
        kg_record_transcript(rec, kg_haiku_transcript(&request, &j));
        ck_assert_msg(j.faults == 0, "minute %d: faults 0x%x: %s", minute, j.faults, j.message);
        const bool ended = j.answer.result.finish == KG_FINISH_END_TOKEN;
        n_valid += ended && j.poem.faults == 0;
        if (j.poem.faults && !first_fault[0]) memcpy(first_fault, j.poem.message, sizeof first_fault);
        kg_haiku_judgement_free(&j);
    }
    kg_record_metric(rec, "valid_haiku", "count", n_valid);
    ck_assert_msg(n_valid >= at_least, "%d of %d are haiku, at least %d asked for; %s", n_valid, KG_MINUTES, at_least,
                  first_fault);
}

/* Topic, nonce and seed alike: another minute word gives another poem, the same one the same. */
static void poem_follows_the_prompt(struct kg_record *rec, const void *arg) {
    const struct kg_haiku_arg *const a = arg;
    struct kg_haiku_stage *const stage = kg_haiku_stage_open(rec, a->target, a->model);
    if (!stage) return;
    static const int MINUTES[] = { 7, 17, 47, 7 };
    struct kg_haiku_judgement j[KG_COUNT_OF(MINUTES)];
    const struct kg_poet poet = kg_engine_poet(&stage->engine);
    struct kg_error err = { 0 };
    for (size_t i = 0; i < KG_COUNT_OF(MINUTES); i++) {
        struct kg_haiku_request request =
            kg_haiku_request_make(0, kg_minute_word(MINUTES[i]), a->temperature, kg_record_seed(rec));
        request.chat = stage->model->chat;
        kg_must(kg_haiku_judge(&stage->bench, &poet, &request, KG_JUDGE_ALL, &j[i], &err), &err);
        ck_assert_msg(j[i].faults == 0, "%s", j[i].message);
    }
    for (size_t i = 1; i < KG_COUNT_OF(MINUTES); i++) {
        const struct kg_generate_result *const first = &j[0].answer.result, *const other = &j[i].answer.result;
        const bool same =
            first->n_ids == other->n_ids && memcmp(first->ids, other->ids, first->n_ids * sizeof *first->ids) == 0;
        ck_assert_msg(same == (MINUTES[i] == MINUTES[0]), "minute %d: '%s', minute %d: '%s'", MINUTES[0], first->text,
                      MINUTES[i], other->text);
    }
    for (size_t i = 0; i < KG_COUNT_OF(MINUTES); i++) kg_haiku_judgement_free(&j[i]);
}

/* Single-token steps in a row, past end tokens, as `kigo regress` compares them between runs; no time decides here. */
static void decode_speed(struct kg_record *rec, const void *arg) {
    enum { N_TOKENS = 192 };
    const struct kg_haiku_arg *const a = arg;
    struct kg_haiku_stage *const stage = kg_haiku_stage_open(rec, a->target, a->model);
    if (!stage) return;
    const struct kg_session_options options = { .n_ctx = N_TOKENS + 16,
                                                .activations = stage->engine.precision,
                                                .kv = stage->engine.precision };
    const struct kg_generate_options generate = { .sampler = KG_SAMPLER_DEFAULTS,
                                                  .max_tokens = N_TOKENS,
                                                  .ignore_end = true };
    static const int32_t PROMPT[] = { 1, 2, 3 };
    struct kg_session *session;
    struct kg_generate_result result;
    struct kg_error err = { 0 };
    kg_must(kg_session_create(stage->engine.model, &options, &session, &err), &err);
    kg_must(kg_generate(session, PROMPT, KG_COUNT_OF(PROMPT), &generate, &result, &err), &err);
    ck_assert_uint_eq(result.n_ids, N_TOKENS);
    ck_assert_uint_ge(result.n_evals, N_TOKENS - 1);
    ck_assert_uint_eq(result.n_decode_allocations, 0);
    ck_assert_uint_gt(result.decode_ns, 0);
    kg_record_timing(rec, "token", "host", "warm", result.token_ns, result.n_evals, (double)stage->bench.streamed_bytes,
                     2.0 * (double)kg_model_n_params(stage->engine.model));
    kg_record_metric(rec, "decode_speed", "tokens/s", 1e9 * (double)result.n_evals / (double)result.decode_ns);
    kg_generate_result_free(&result);
    kg_session_free(session);
}

/* A model the user named: whatever it writes is its own, seen in ids, text, memory, time and replay. */
static void model_of_the_user(struct kg_record *rec, const void *arg) {
    const struct kg_haiku_arg *const a = arg;
    const char *const path = a->row;
    const enum kg_precision precision = KG_HAIKU_TARGETS[a->target].precision;
    struct kg_engine_poet engine;
    struct kg_haiku_bench bench;
    struct kg_error err = { 0 };
    const enum kg_status status =
        kg_engine_poet_open(KG_HAIKU_TARGETS[a->target].backend, precision, path, &engine, &err);
    if (status == KG_ERR_UNSUPPORTED) {
        kg_record_skip(rec, "%s", err.message);
        return;
    }
    kg_must(status, &err);
    kg_must(kg_haiku_bench_open(path, NULL, KG_HAIKU_TARGETS[a->target].backend, precision, &bench, &err), &err);
    engine.plain = true;
    const struct kg_poet poet = kg_engine_poet(&engine);
    struct kg_haiku_request request =
        kg_haiku_request_make(0, kg_minute_word(kg_clock_local_minute()), a->temperature, kg_record_seed(rec));
    request.max_tokens = 12;
    struct kg_haiku_judgement j;
    kg_must(kg_haiku_judge(&bench, &poet, &request, KG_JUDGE_REPLAY, &j, &err), &err);
    kg_record_transcript(rec, kg_haiku_transcript(&request, &j));
    if (j.answer.result.n_evals > 0)
        kg_record_timing(rec, "token", "host", "warm", j.answer.result.token_ns, j.answer.result.n_evals,
                         (double)bench.streamed_bytes, 2.0 * (double)kg_model_n_params(engine.model));
    ck_assert_msg(j.faults == 0, "faults 0x%x: %s", j.faults, j.message);
    kg_haiku_judgement_free(&j);
    kg_haiku_bench_close(&bench);
    kg_engine_poet_close(&engine);
}

/* "model=0 file.gguf": a shape a case key may hold. */
static void name_model(const char *path, size_t index, char *shape, size_t size) {
    const char *const slash = strrchr(path, '/');
    snprintf(shape, size, "model=%zu %s", index, slash ? slash + 1 : path);
    for (char *c = shape; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '[' || *c == ']') *c = '_';
}

static void build_for(struct kg_case_list *list, size_t target) {
    const struct kg_haiku_arg greedy = { .target = target, .minute = KG_CURRENT_MINUTE };
    struct kg_haiku_arg sampled = greedy;
    sampled.temperature = 0.7;
    for (int minute = 0; minute < KG_MINUTES; minute++) {
        struct kg_haiku_arg arg = greedy;
        char name[64];
        arg.minute = minute;
        snprintf(name, sizeof name, "minute_%02d_%s", minute, kg_minute_word(minute));
        kg_haiku_add(list, "generate", name, "temperature=0", KG_HAIKU_MODEL, writes_the_haiku, arg);
    }
    /* Behind those whose prompts are the same in every run: the peak of memory is the process's so far. */
    kg_haiku_add(list, "generate", "current_minute", "temperature=0", KG_HAIKU_MODEL, writes_the_haiku, greedy);
    kg_haiku_add(list, "generate", "current_minute", "temperature=0.7", KG_HAIKU_MODEL, writes_the_haiku, sampled);
    kg_haiku_add(list, "generate", "all_minutes", "temperature=0.7", KG_HAIKU_MODEL, all_minutes, sampled);
    kg_haiku_add(list, "generate", "poem_follows_the_prompt", "temperature=0", KG_HAIKU_MODEL, poem_follows_the_prompt,
                 greedy);
    kg_haiku_add(list, "generate", "decode_speed", NULL, "192 tokens past end tokens", decode_speed, greedy);
    size_t n_models;
    const char *const *const models = kg_extra_models(&n_models);
    for (size_t i = 0; i < n_models; i++) {
        struct kg_haiku_arg arg = sampled;
        char shape[128];
        arg.row = models[i];
        name_model(models[i], i, shape, sizeof shape);
        kg_haiku_add(list, "generate", "model_of_the_user", shape, models[i], model_of_the_user, arg);
    }
}

/* The other architectures: every minute, greedily and sampled, and the poem that follows its prompt. */
static void build_others(struct kg_case_list *list, size_t target) {
    static const struct {
        const char *name, *temperature;
        void (*run)(struct kg_record *, const void *);
        double value;
    } CASES[] = { { "all_minutes", "temperature=0", all_minutes, 0 },
                  { "all_minutes", "temperature=0.7", all_minutes, 0.7 },
                  { "poem_follows_the_prompt", "temperature=0", poem_follows_the_prompt, 0 },
                  { "decode_speed", NULL, decode_speed, 0 } };
    for (size_t m = 1; m < KG_HAIKU_N_MODELS; m++)
        for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
            const struct kg_haiku_arg arg = {
                .target = target, .model = m, .minute = KG_CURRENT_MINUTE, .temperature = CASES[i].value
            };
            char shape[96];
            snprintf(shape, sizeof shape, "model=%s%s%s", KG_HAIKU_MODELS[m].architecture,
                     CASES[i].temperature ? " " : "", CASES[i].temperature ? CASES[i].temperature : "");
            kg_haiku_add(list, "generate", CASES[i].name, shape, KG_HAIKU_MODELS[m].file, CASES[i].run, arg);
        }
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_HAIKU_N_TARGETS; i++) {
        build_for(list, i);
        build_others(list, i);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
