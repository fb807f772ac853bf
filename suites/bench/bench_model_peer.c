/* What llama.cpp takes for the models of bench_model.c, in the same run and on the same files: its own benchmark,
 * llama-bench, is run with the lengths of kigo's cases. Its samples are recorded as kigo's are: of a prompt's pass, and
 * of a token. Skipped where there is no llama-bench; KIGO_LLAMA_BENCH names one that is not in PATH. llama.cpp computes
 * in the precision that it chooses, so a case has no dtype.
 *
 * Its JSON (tools/llama-bench/llama-bench.cpp): an array with an object a test, {"build_commit", "backends",
 * "model_filename", "n_prompt", "n_gen", "n_depth", "avg_ts", "stddev_ts", ..., "samples_ns": [..], "samples_ts":
 * [..]}; a sample is of all n_prompt or n_gen tokens. */
#include "base/program.h"
#include "base/size.h"
#include "base/threads.h"
#include "bundle/records.h"
#include "suites/bench/model_work.h"
#include "suites/harness/must.h"
#include "suites/support/machine.h"
#include "suites/support/haiku_stage.h"
#include <check.h>
#include <jansson.h>
#include <kigo/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_SAMPLES = 10 };

struct peer_case {
    const char *backend, *path; /* path NULL: the fixture */
    bool whole_prompt;          /* else tokens one by one, behind the prompt */
    struct kg_model_work work;
};

static const char *path_of(const struct peer_case *c) {
    return c->path ? c->path : kg_fixture_path(KG_HAIKU_MODEL);
}

static const char *llama_bench(void) {
    const char *given = getenv("KIGO_LLAMA_BENCH");
    return given && *given ? given : "llama-bench";
}

/* Where kigo times nothing there is nothing to put a peer beside. False: the case was skipped. */
static bool kigo_times_it(struct kg_record *rec, const struct peer_case *c) {
    struct kg_backend *backend;
    struct kg_error err = { 0 };
    struct stat file;
    const enum kg_status status = kg_backend_open(c->backend, 0, &backend, &err);
    if (status == KG_ERR_UNSUPPORTED) {
        kg_record_skip(rec, "%s", err.message);
        return false;
    }
    kg_must(status, &err);
    kg_backend_close(backend);
    const bool on_cpu = strcmp(c->backend, "cpu") == 0;
    if (on_cpu && stat(path_of(c), &file) == 0 && file.st_size > KG_BENCH_MOST_CPU_BYTES) {
        kg_record_skip(rec, "%lld bytes are too much for the reference back end", (long long)file.st_size);
        return false;
    }
    return true;
}

/* The array it printed; NULL, the case skipped, if there is no such program. */
static json_t *run_llama_bench(struct kg_record *rec, const struct peer_case *c) {
    static const char *const NO_GPU[] = { "CUDA_VISIBLE_DEVICES=", NULL };
    enum { MOST_OUTPUT = 1 << 20 };
    const bool on_cpu = strcmp(c->backend, "cpu") == 0;
    char n_prompt[16], n_gen[16], n_depth[16], n_samples[16], n_threads[16];
    snprintf(n_prompt, sizeof n_prompt, "%u", c->whole_prompt ? c->work.n_prompt : 0);
    snprintf(n_gen, sizeof n_gen, "%u", c->whole_prompt ? 0 : c->work.n_tokens);
    snprintf(n_depth, sizeof n_depth, "%u", c->whole_prompt ? 0 : c->work.n_prompt);
    snprintf(n_samples, sizeof n_samples, "%d", N_SAMPLES);
    snprintf(n_threads, sizeof n_threads, "%d", kg_processors_allowed());
    const char *const argv[] = {
        llama_bench(),
        "-m",
        path_of(c),
        "-o",
        "json",
        "-p",
        n_prompt,
        "-n",
        n_gen,
        "-r",
        n_samples,
        "-ngl",
        on_cpu ? "0" : "99",
        "-t",
        n_threads,
        /* older ones do not know the option */
        c->whole_prompt ? NULL : "-d",
        n_depth,
        NULL,
    };
    const struct kg_program program = { .argv = argv, .env = on_cpu ? NO_GPU : NULL, .max_out_bytes = MOST_OUTPUT };
    struct kg_program_result result = { 0 };
    struct kg_error err = { 0 };
    json_error_t json_err;
    json_t *tests = NULL;
    const enum kg_status status = kg_program_run(&program, &result, &err);
    if (status == KG_ERR_NOT_FOUND) {
        kg_record_skip(rec, "llama.cpp's %s was not found (KIGO_LLAMA_BENCH names it)", llama_bench());
    } else {
        kg_must(status, &err);
        char *complaint = kg_program_complaint(&result);
        ck_assert_msg(result.exit_code == 0, "%s ended with %d: %s", llama_bench(), result.exit_code, complaint);
        free(complaint);
        tests = json_loadb(kg_buffer_text(&result.out), result.out.len, 0, &json_err);
        ck_assert_msg(json_is_array(tests), "%s printed no JSON array: %s: %.200s", llama_bench(), json_err.text,
                      kg_buffer_text(&result.out));
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

static void peer(struct kg_record *rec, const void *arg) {
    const struct peer_case *c = arg;
    if (!kigo_times_it(rec, c)) return;
    json_t *tests = run_llama_bench(rec, c);
    if (!tests) return;
    json_t *test = find_test(tests, c);
    const char *backends = kg_json_text(test, "backends");
    if (strcmp(c->backend, "cuda") == 0 && (!backends || !strstr(backends, "CUDA")))
        kg_record_skip(rec, "%s was built without CUDA: %s", llama_bench(), backends ? backends : "it does not say");
    else record_test(rec, c, test);
    json_decref(tests);
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
                                              .definition = "llama-bench -p prompt, or -n tokens -d prompt; 10 samples",
                                              .timeout_s = 600,
                                              .run = peer,
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
            c.whole_prompt = true, c.work = kg_prefill_work();
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
