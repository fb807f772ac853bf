/* What llama.cpp takes for the models of bench_model.c, in the same run and on the same files: its own benchmark,
 * llama-bench, is run with the lengths of kigo's cases. Its samples are recorded as kigo's are: of a prompt's pass, and
 * of a token; and of fresh processes their time to the end of a short prompt. Skipped where there is no llama-bench;
 * KIGO_LLAMA_BENCH names one that is not in PATH. llama.cpp computes in the precision that it chooses, so a case has no
 * dtype.
 *
 * Its JSON (tools/llama-bench/llama-bench.cpp): an array with an object a test, {"build_commit", "backends",
 * "model_filename", "n_prompt", "n_gen", "n_depth", "avg_ts", "stddev_ts", ..., "samples_ns": [..], "samples_ts":
 * [..]}; a sample is of all n_prompt or n_gen tokens. */
#include "base/program.h"
#include "base/size.h"
#include "base/threads.h"
#include "bundle/records.h"
#include "suites/bench/fresh_process.h"
#include "suites/bench/model_work.h"
#include "suites/harness/must.h"
#include "suites/support/haiku_stage.h"
#include "suites/support/machine.h"
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SAMPLES = 10, N_STARTS = 5 };

struct peer_case {
    const char *backend, *path; /* path NULL: the fixture */
    bool whole_prompt;          /* else tokens one by one, behind the prompt */
    bool cold_start;            /* a prompt in fresh processes, whose whole time counts */
    struct kg_model_work work;
};

static const char *path_of(const struct peer_case *c) {
    return c->path ? c->path : kg_fixture_path(KG_HAIKU_MODEL);
}

static const char *llama_bench(void) {
    const char *given = getenv("KIGO_LLAMA_BENCH");
    return given && *given ? given : "llama-bench";
}

static const char NO_GPU[] = "CUDA_VISIBLE_DEVICES=", NO_WARMUP[] = "--no-warmup";

/* Its command line, and where the numbers in it stand. */
struct command {
    const char *argv[20];
    char n_prompt[16], n_gen[16], n_depth[16], n_samples[16], n_threads[16];
};

static bool on_cpu(const struct peer_case *c) {
    return strcmp(c->backend, "cpu") == 0;
}

static void make_command(const struct peer_case *c, struct command *to) {
    snprintf(to->n_prompt, sizeof to->n_prompt, "%u", c->whole_prompt ? c->work.n_prompt : 0);
    snprintf(to->n_gen, sizeof to->n_gen, "%u", c->whole_prompt ? 0 : c->work.n_tokens);
    snprintf(to->n_depth, sizeof to->n_depth, "%u", c->whole_prompt ? 0 : c->work.n_prompt);
    snprintf(to->n_samples, sizeof to->n_samples, "%d", c->cold_start ? 1 : N_SAMPLES);
    snprintf(to->n_threads, sizeof to->n_threads, "%d", kg_processors_allowed());
    const char *const argv[] = {
        llama_bench(),
        "-m",
        path_of(c),
        "-o",
        "json",
        "-p",
        to->n_prompt,
        "-n",
        to->n_gen,
        "-r",
        to->n_samples,
        "-ngl",
        on_cpu(c) ? "0" : "99",
        "-t",
        to->n_threads,
        /* older ones do not know either option */
        c->cold_start     ? NO_WARMUP
        : c->whole_prompt ? NULL
                          : "-d",
        c->cold_start ? NULL : to->n_depth,
        NULL,
    };
    _Static_assert(sizeof argv <= sizeof to->argv, "room for the arguments");
    memcpy(to->argv, argv, sizeof argv);
}

/* The array that it printed; fails the case. */
static json_t *tests_of(int exit_code, const char *complaint, const struct kg_buffer *out) {
    json_error_t err;
    ck_assert_msg(exit_code == 0, "%s ended with %d: %s", llama_bench(), exit_code, complaint);
    json_t *tests = json_loadb(kg_buffer_text(out), out->len, 0, &err);
    ck_assert_msg(json_is_array(tests), "%s printed no JSON array: %s: %.200s", llama_bench(), err.text,
                  kg_buffer_text(out));
    return tests;
}

static void skip_missing(struct kg_record *rec) {
    kg_record_skip(rec, "llama.cpp's %s was not found (KIGO_LLAMA_BENCH names it)", llama_bench());
}

/* The array it printed; NULL, the case skipped, if there is no such program. */
static json_t *run_llama_bench(struct kg_record *rec, const struct peer_case *c) {
    static const char *const ENV[] = { NO_GPU, NULL };
    enum { MOST_OUTPUT = 1 << 20 };
    struct command command;
    make_command(c, &command);
    const struct kg_program program = { .argv = command.argv,
                                        .env = on_cpu(c) ? ENV : NULL,
                                        .max_out_bytes = MOST_OUTPUT };
    struct kg_program_result result = { 0 };
    struct kg_error err = { 0 };
    json_t *tests = NULL;
    const enum kg_status status = kg_program_run(&program, &result, &err);
    if (status == KG_ERR_NOT_FOUND) {
        skip_missing(rec);
    } else {
        kg_must(status, &err);
        char *complaint = kg_program_complaint(&result);
        tests = tests_of(result.exit_code, complaint, &result.out);
        free(complaint);
    }
    kg_program_result_free(&result);
    return tests;
}

/* What it says it did is what kigo does beside it: this file, on as many threads. */
static void expect_same_work(const json_t *test, const struct peer_case *c) {
    const char *file = kg_json_text(test, "model_filename");
    const int64_t n_threads = kg_json_int(test, "n_threads", -1);
    ck_assert_msg(file && strcmp(file, path_of(c)) == 0, "%s measured '%s', not '%s'", llama_bench(), file ? file : "",
                  path_of(c));
    ck_assert_msg(n_threads == kg_processors_allowed(), "%s ran on %lld threads, not %d", llama_bench(),
                  (long long)n_threads, kg_processors_allowed());
}

/* The object of the lengths asked for; one without n_depth knows none. */
static json_t *find_test(const json_t *tests, const struct peer_case *c) {
    const int64_t n_prompt = c->whole_prompt ? c->work.n_prompt : 0, n_gen = c->whole_prompt ? 0 : c->work.n_tokens;
    const int64_t n_depth = c->whole_prompt ? 0 : c->work.n_prompt;
    size_t i;
    json_t *test;
    json_array_foreach(tests, i, test) {
        if (kg_json_int(test, "n_prompt", -1) == n_prompt && kg_json_int(test, "n_gen", -1) == n_gen &&
            kg_json_int(test, "n_depth", 0) == n_depth) {
            expect_same_work(test, c);
            return test;
        }
    }
    ck_abort_msg("%s printed no test of n_prompt %lld, n_gen %lld, n_depth %lld", llama_bench(), (long long)n_prompt,
                 (long long)n_gen, (long long)n_depth);
    return NULL;
}

static void record_test(struct kg_record *rec, const struct peer_case *c, json_t *test) {
    const json_t *samples = json_object_get(test, "samples_ns");
    const uint32_t tokens_of_sample = c->whole_prompt ? 1 : c->work.n_tokens;
    uint64_t samples_ns[N_SAMPLES];
    ck_assert_uint_eq(json_array_size(samples), N_SAMPLES);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const json_int_t ns = json_integer_value(json_array_get(samples, i));
        ck_assert_msg(ns >= tokens_of_sample, "a sample of %lld ns", (long long)ns);
        samples_ns[i] = (uint64_t)ns / tokens_of_sample;
    }
    kg_record_timing(rec, c->whole_prompt ? "prefill" : "token", "host", "warm", samples_ns, N_SAMPLES, 0, 0);
    kg_record_metric(rec, "avg_ts", "tokens/s", kg_json_number(test, "avg_ts", 0)); /* as it says itself */
    kg_record_transcript(rec, json_incref(test));
}

/* Whether it ran where kigo does; else the case is skipped. */
static bool ran_there(struct kg_record *rec, const struct peer_case *c, const json_t *test) {
    const char *backends = kg_json_text(test, "backends");
    if (on_cpu(c) || (backends && strstr(backends, "CUDA"))) return true;
    kg_record_skip(rec, "%s was built without CUDA: %s", llama_bench(), backends ? backends : "it does not say");
    return false;
}

static void peer(struct kg_record *rec, const void *arg) {
    const struct peer_case *c = arg;
    if (!kg_model_work_is_timed(rec, c->backend, path_of(c))) return; /* nothing to put a peer beside */
    json_t *tests = run_llama_bench(rec, c);
    if (!tests) return;
    json_t *test = find_test(tests, c);
    if (ran_there(rec, c, test)) record_test(rec, c, test);
    json_decref(tests);
}

/* False, the case skipped: there is no such program, or it is too old. */
static bool starts(struct kg_record *rec, const struct kg_fresh_process *process, struct kg_fresh_times *times) {
    if (!kg_fresh_process_run(process, times)) {
        skip_missing(rec);
        return false;
    }
    if (times->exit_code == 0 || !strstr(times->complaint, NO_WARMUP)) return true;
    kg_record_skip(rec, "this %s does not know %s, and would time a start and a warm-up", llama_bench(), NO_WARMUP);
    return false;
}

/* Fresh processes, from the spawn to the result of the one test, after one that is not counted: bench_cold_start.c. The
 * test is the pass over the prompt; its first token would be some microseconds more. */
static void cold_start(struct kg_record *rec, const void *arg) {
    const struct peer_case *c = arg;
    struct command command;
    uint64_t samples_ns[N_STARTS];
    if (!kg_model_work_is_timed(rec, c->backend, path_of(c))) return;
    make_command(c, &command);
    const struct kg_fresh_process process = { command.argv, on_cpu(c) ? NO_GPU : NULL, "\"samples_ns\"" };
    for (int i = -1; i < N_STARTS; i++) {
        struct kg_fresh_times times;
        bool counts = starts(rec, &process, &times);
        json_t *tests = counts ? tests_of(times.exit_code, times.complaint, &times.out) : NULL;
        json_t *test = counts ? find_test(tests, c) : NULL;
        counts = counts && ran_there(rec, c, test);
        ck_assert_msg(!counts || times.said_ns > 0, "%s gave no samples_ns", llama_bench());
        if (i >= 0) samples_ns[i] = times.said_ns;
        if (counts && i + 1 == N_STARTS) kg_record_transcript(rec, json_incref(test));
        json_decref(tests);
        kg_fresh_times_free(&times);
        if (!counts) return;
    }
    kg_record_timing(rec, "wall", "host", "warm", samples_ns, N_STARTS, 0, 0);
}

/* Arguments live as long as the process, like the cases they belong to. */
static const struct peer_case *keep(struct peer_case c) {
    static struct kept {
        struct peer_case c;
        struct kept *next;
    } * all;
    struct kept *kept = kg_xmalloc(sizeof *kept);
    *kept = (struct kept){ .c = c, .next = all };
    all = kept;
    return &kept->c;
}

static void add(struct kg_case_list *list, const char *model, struct peer_case c) {
    char shape[KG_MODEL_WORK_TEXT];
    kg_model_work_shape(model, &c.work, shape);
    kg_case_list_add(list, &(struct kg_case){ .layer = "bench",
                                              .op = "model_peer",
                                              .name = "llama-bench",
                                              .backend = c.backend,
                                              .shape = shape,
                                              .spec = "FT-056",
                                              .definition = c.cold_start
                                                                ? "llama-bench -p prompt -r 1; 5 processes after one"
                                                                : "llama-bench -p prompt, or -n tokens -d prompt; 10 "
                                                                  "samples",
                                              .timeout_s = 600,
                                              .run = c.cold_start ? cold_start : peer,
                                              .arg = keep(c) });
}

static void build(struct kg_case_list *list) {
    static const char *const BACKENDS[] = { "cpu", "cuda" };
    size_t n_models;
    const char *const *const models = kg_extra_models(&n_models);
    for (size_t b = 0; b < KG_COUNT_OF(BACKENDS); b++) {
        const bool device = strcmp(BACKENDS[b], "cpu") != 0;
        for (size_t i = 0; i <= n_models; i++) {
            char model[KG_MODEL_WORK_TEXT];
            struct peer_case c = { .backend = BACKENDS[b], .path = i > 0 ? models[i - 1] : NULL };
            kg_model_work_name(i > 0 ? i - 1 : 0, c.path, model);
            c.whole_prompt = c.cold_start = true, c.work = kg_cold_start_work();
            add(list, model, c);
            c.cold_start = false, c.work = kg_prefill_work();
            add(list, model, c);
            c.whole_prompt = false, c.work = kg_decode_work(false);
            add(list, model, c);
            c.work = kg_decode_work(true);
            if (device && !kg_bench_quick()) add(list, model, c);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
