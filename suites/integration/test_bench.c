/* `kigo bench` as its users run it: small shapes on the cpu back end, what is sealed, and what is refused. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/integration/check_lab.h"
#include "suites/support/run_kigo.h"
#include "suites/support/fake_nvml.h"
#include <check.h>
#include <kigo/bundle.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_ARGS = 24 };

/* Runs kigo with the arguments and --bundles in the case's scratch folder. */
static struct kg_process_result bench(struct kg_record *rec, const char *const *args, const char *const *env) {
    static char bundles[512];
    const char *argv[MOST_ARGS] = { "bench" };
    size_t n = 1;
    snprintf(bundles, sizeof bundles, "%s/bundles", kg_scratch_dir(rec));
    for (; *args; args++) {
        ck_assert_uint_lt(n + 3, MOST_ARGS);
        argv[n++] = *args;
    }
    argv[n++] = "--bundles";
    argv[n++] = bundles;
    argv[n] = NULL;
    return kg_run_kigo(rec, argv, (struct kg_process){ .env = env, .timeout_s = 120 });
}

/* malloc'ed: the only bundle. */
static char *only_bundle(const struct kg_record *rec) {
    char *dir = kg_path_join(kg_scratch_dir(rec), "bundles"), *found = NULL;
    struct kg_dir_list list;
    ck_assert_int_eq(kg_dir_list(dir, &list, NULL), KG_OK);
    for (size_t i = 0; i < list.n_names; i++) {
        if (list.names[i][0] < '0' || list.names[i][0] > '9') continue;
        ck_assert_ptr_null(found);
        found = kg_path_join(dir, list.names[i]);
    }
    kg_dir_list_free(&list);
    free(dir);
    ck_assert_ptr_nonnull(found);
    return found;
}

static char *read_data(const char *bundle, const char *name) {
    char *path = kg_xasprintf("%s/data/%s", bundle, name), *text;
    size_t size;
    ck_assert_msg(kg_file_read(path, &text, &size, NULL) == KG_OK, "%s is missing", path);
    free(path);
    return text;
}

static double number(const json_t *object, const char *name) {
    return json_number_value(json_object_get(object, name));
}

/* A bench of an operation says everything a timing must. */
static void expect_complete(const json_t *result) {
    const char *key = json_string_value(json_object_get(result, "key"));
    const json_t *timings = json_object_get(result, "timings");
    ck_assert_msg(json_array_size(timings) > 0, "%s has no timing", key);
    for (size_t i = 0; i < json_array_size(timings); i++) {
        const json_t *t = json_array_get(timings, i);
        ck_assert_msg(number(t, "n") >= 10, "%s: %g samples", key, number(t, "n"));
        ck_assert_msg(number(t, "median") > 0 && number(t, "ci_lo") <= number(t, "median") &&
                          number(t, "median") <= number(t, "ci_hi"),
                      "%s: median %g in %g to %g", key, number(t, "median"), number(t, "ci_lo"), number(t, "ci_hi"));
        ck_assert_msg(number(t, "bytes") > 0 && number(t, "flops") > 0, "%s: bytes or flops were not counted", key);
        ck_assert_msg(json_is_integer(json_object_get(t, "samples_offset")), "%s: no samples", key);
        ck_assert_str_eq(json_string_value(json_object_get(t, "kind")), "host");
    }
    static const char *const FIGURES[] = { "host.warm.gb_per_s", "host.warm.tflop_per_s", "host.warm.roofline_share",
                                           "roofline.copy",      "roofline.read",         "roofline.gemm" };
    for (size_t f = 0; f < KG_COUNT_OF(FIGURES); f++) {
        bool found = false;
        const json_t *metrics = json_object_get(result, "metrics");
        for (size_t i = 0; i < json_array_size(metrics); i++) {
            const json_t *m = json_array_get(metrics, i);
            found = found ||
                    (strcmp(json_string_value(json_object_get(m, "name")), FIGURES[f]) == 0 && number(m, "value") > 0);
        }
        ck_assert_msg(found, "%s: no %s", key, FIGURES[f]);
    }
}

static void quick_bench_seals_whole_records(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = bench(
        rec, ARGS("--quick", "--backend", "cpu", "--filter", "bench/linear/*", "--filter", "bench/attention/*"), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec);
    kg_lab_expect_verified(bundle);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *result = json_array_get(results, i);
        ck_assert_str_eq(json_string_value(json_object_get(result, "status")), "pass");
        expect_complete(result);
    }
    char *csv = read_data(bundle, "bandwidth.csv"), *json = read_data(bundle, "bandwidth.json");
    char *page = read_data(bundle, "report.html");
    ck_assert_ptr_nonnull(strstr(page, ">Roofline</h2>"));
    ck_assert_ptr_nonnull(strstr(page, "%</td><td class=\"name\">bench/linear/decode_qwen_qkv["));
    free(page);
    ck_assert_ptr_nonnull(strstr(csv, "\r\n\"bench/linear/decode_qwen_qkv[cpu,f32,M=1 N=1152 K=896]\",linear,"));
    json_t *profile = json_loads(json, 0, NULL);
    ck_assert_uint_ge(json_array_size(json_object_get(profile, "cases")), 4);
    ck_assert(json_is_string(json_object_get(json_object_get(profile, "plots"), "svg"))); /* made, or why not */
    json_decref(profile);
    free(json);
    free(csv);
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
}

static json_int_t kv_bytes(const json_t *results, const char *ctx) {
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        if (!strstr(json_string_value(json_object_get(result, "key")), ctx)) continue;
        const json_t *metrics = json_object_get(result, "metrics");
        for (size_t m = 0; m < json_array_size(metrics); m++)
            if (strcmp(json_string_value(json_object_get(json_array_get(metrics, m), "name")), "memory.kv") == 0)
                return (json_int_t)number(json_array_get(metrics, m), "value");
    }
    ck_abort_msg("no memory.kv of %s", ctx);
    return 0;
}

/* Two contexts are two readings: 8192 positions take sixteen times what 512 take. */
static void memory_is_read_for_each_context(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r =
        bench(rec, ARGS("--quick", "--backend", "cpu", "--filter", "bench/model/memory*", "--json"), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    json_t *printed = json_loads(r.out, 0, NULL);
    ck_assert_msg(json_is_object(printed), "not one JSON object: %s", r.out);
    json_decref(printed);
    char *bundle = only_bundle(rec);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 2);
    ck_assert_int_gt(kv_bytes(results, "ctx=512]"), 0);
    ck_assert_int_eq(kv_bytes(results, "ctx=8192]"), 16 * kv_bytes(results, "ctx=512]"));
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
}

/* Without gnuplot there is a profile all the same, and it says why it has no picture. */
static void no_gnuplot_is_no_failure(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = bench(rec, ARGS("--backend", "cpu", "--filter", "bench/linear/decode*"),
                                       (const char *const[]){ "PATH=/nowhere", NULL });
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec), *json = read_data(bundle, "bandwidth.json");
    json_t *profile = json_loads(json, 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(profile, "plots"), "png")),
                     "gnuplot is not installed");
    json_decref(profile);
    free(json);
    free(bundle);
    kg_process_result_free(&r);
}

/* A timing without what the machine did meanwhile is half a figure: NVML's telemetry lies beside it. */
static void telemetry_lies_beside_timings(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *nvml = kg_xasprintf("KIGO_NVML=%s", kg_fake_nvml_path());
    struct kg_process_result r = bench(rec, ARGS("--backend", "cpu", "--quick", "--filter", "bench/rmsnorm/*"),
                                       (const char *const[]){ nvml, NULL });
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec), *telemetry = read_data(bundle, "telemetry.csv");
    ck_assert_ptr_nonnull(strstr(telemetry, ",0,1500,2600,123456,700000,40,0x0,1000000000,77\n"));
    free(telemetry);
    free(bundle);
    free(nvml);
    kg_process_result_free(&r);
}

/* sdpa on the cpu: f32, f8 and i8, right in the rows that are looked at; a glob may leave out the layer; no peer unless
 * asked. */
static void attention_is_checked_where_it_is_timed(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = bench(rec, ARGS("--quick", "--backend", "cpu", "--filter", "sdpa*"), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 8);
    const json_t *f8 = kg_lab_result(results, "bench/sdpa/auto[cpu,f8,B=1 H=4/2 S=48 D=64 causal]");
    const json_t *error = json_array_get(json_object_get(f8, "errors"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(error, "name")), "rows_from_float64");
    ck_assert(number(error, "max_abs") < 1e-5);
    expect_complete(f8);
    /* 48 queries see 1 to 48 keys: 1176 pairs, 4 operations for each of 64 dimensions and 4 heads. */
    ck_assert_double_eq(number(json_array_get(json_object_get(f8, "timings"), 0), "flops"), 4.0 * 4 * 64 * 1176);
    /* q of 4 heads, k and v of 2, a byte each; y four bytes each. */
    ck_assert_double_eq(number(json_array_get(json_object_get(f8, "timings"), 0), "bytes"),
                        48 * 64 * (4 + 2 * 2 + 4 * 4));
    json_decref(results);
    free(bundle);
    kg_process_result_free(&r);
}

/* A script in PyTorch's place: it answers with what `answer` says, or not at all. */
static char *stand_in_python(const struct kg_record *rec, const char *body) {
    char *path = kg_path_join(kg_scratch_dir(rec), "python"), *variable = kg_xasprintf("KIGO_PYTHON=%s", path);
    char *script = kg_xasprintf("#!/bin/sh\n%s", body);
    ck_assert_int_eq(kg_file_write(path, script, strlen(script), NULL), KG_OK);
    ck_assert_int_eq(chmod(path, 0700), 0);
    free(script);
    free(path);
    return variable;
}

struct peer_row {
    const char *name, *body, *status, *reason;
};
#define ANSWERS(json) "while read -r request; do echo '" json "'; done\n"
#define ANSWER_OF(samples, max_abs)                                                                                    \
    ANSWERS("{\"status\": \"pass\", \"timings\": [{\"name\": \"time\", \"kind\": \"graph\", \"state\": \"warm\", "     \
            "\"bytes\": 8, \"flops\": 8, \"samples\": [" samples                                                       \
            "]}], \"errors\": [{\"name\": \"rows_from_float64\", "                                                     \
            "\"n\": 64, \"n_nonfinite\": 0, \"max_abs\": " max_abs ", \"nmse\": 1e-8}]}")
static const struct peer_row PEERS[] = {
    { "answers", ANSWER_OF("1000, 1100, 1200", "1e-4"), "pass", "" },
    { "is_wrong", ANSWER_OF("1000, 1100, 1200", "0.5"), "fail", "max_abs 0.5" },
    { "says_no_error", ANSWER_OF("1000, 1100, 1200", "null"), "fail", "max_abs inf" },
    { "took_no_time", ANSWER_OF("0", "1e-4"), "fail", "a sample of 0 ns" },
    { "has_no_samples", ANSWER_OF("", "1e-4"), "fail", "0 samples" },
    { "does_not_take_the_shape", ANSWERS("{\"status\": \"skip\", \"reason\": \"no kernel\"}"), "skip", "no kernel" },
    { "fails", ANSWERS("{\"status\": \"fail\", \"reason\": \"out of luck\"}"), "fail", "out of luck" },
    { "answers_no_json", ANSWERS("hello"), "fail", "no JSON object: hello" },
    { "dies", "exit 3\n", "fail", "without an answer" },
    { "is_not_installed", NULL, "skip", "not installed" },
};

/* All four peers of the two small shapes say so, and the run ends well unless one was wrong. */
static void peer(struct kg_record *rec, const void *arg) {
    const struct peer_row *row = arg;
    char *python = row->body ? stand_in_python(rec, row->body) : kg_xstrdup("KIGO_PYTHON=/nowhere/python");
    const char *const env[] = { python, NULL };
    struct kg_process_result r =
        bench(rec, ARGS("--quick", "--backend", "cuda", "--filter", "sdpa_peer/*", "--peer"), env);
    const int exit_code = strcmp(row->status, "fail") == 0 ? KG_EXIT_FAILED : KG_EXIT_OK;
    ck_assert_msg(r.exit_code == exit_code, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    ck_assert_ptr_nonnull(strstr(r.out, "peers: nothing was timed by both"));
    char *bundle = only_bundle(rec), *csv = read_data(bundle, "peers.csv");
    ck_assert_ptr_nonnull(strstr(csv, "op,backend,dtype,shape,"));
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 9); /* and that the program ended well; no peers of models */
    const json_t *result = kg_lab_result(results, "bench/sdpa_peer/flash[cuda,f16,B=1 H=4/2 S=48 D=64 causal]");
    ck_assert_str_eq(json_string_value(json_object_get(result, "status")), row->status);
    const char *reason = json_string_value(json_object_get(result, "reason"));
    ck_assert_msg(strstr(reason ? reason : "", row->reason) != NULL, "'%s' does not say '%s'", reason, row->reason);
    if (strcmp(row->status, "pass") == 0)
        ck_assert_double_eq(number(json_array_get(json_object_get(result, "timings"), 0), "median"), 1100);
    json_decref(results);
    free(csv);
    free(bundle);
    free(python);
    kg_process_result_free(&r);
}

/* The comparison is printed, a row a timing of kigo's, and sealed. */
static void peers_side_by_side(struct kg_record *rec, const void *arg) {
    static const char *const LINES[] = {
        "dtype  shape  timing      kigo  other  third  times as fast as other\n",
        "f32    A      graph warm  4 µs  10 µs   2 µs                    2.50\n",
        "f32    A      graph cold  5 µs   6 µs                           1.20\n",
        "f32    B      graph warm  7 µs         21 µs\n",
    };
    struct kg_lab lab;
    (void)arg;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "bench_beside", "bench_beside");
    struct kg_process_result r = bench(rec, ARGS("--suites", lab.suites, "--peer"), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    for (size_t i = 0; i < KG_COUNT_OF(LINES); i++)
        ck_assert_msg(strstr(r.out, LINES[i]) != NULL, "no '%s' in:\n%s", LINES[i], r.out);
    ck_assert_ptr_null(strstr(r.out, "\nf32    C")); /* which no peer timed */
    kg_process_result_free(&r);
    char *bundle = only_bundle(rec), *csv = read_data(bundle, "peers.csv");
    ck_assert_ptr_nonnull(strstr(csv, "\r\npull,cpu,f32,B,graph,warm,7000,third,21000,3,3,3\r\n"));
    free(csv);
    free(bundle);
    kg_lab_close(&lab);
}

/* A sprint's report runs the benches that its figures read, and no other; says what they came to, which is no failure;
 * and seals nothing of it. A sprint without figures of benches runs nothing. */
static void report_of_a_sprint(struct kg_record *rec, const void *arg) {
    static const char FIGURE[] = "{\"what\": \"%s\", \"figure\": \"time <= %d\", \"unit\": \"us\", \"of\": {\"match\": "
                                 "\"%s\", \"timing\": \"time.graph.warm\"}}";
    static const char *const LINES[] = {
        "state     spec  what       wanted        found\n",
        "met       S-1   fast       time <= 4 us  4 us\n",
        "missed    S-1   not so     time <= 8 us  9 us, the worst of several\n",
        "unproven  S-1   elsewhere  time <= 1 us  no record\n",
        "Sample: missed; 1 met, 1 missed, 1 unproven\n",
    };
    struct kg_lab lab;
    struct kg_error err;
    (void)arg;
    kg_lab_open(&lab, rec);
    kg_lab_add(&lab, "bench_beside", "bench_beside");
    char *fast = kg_xasprintf(FIGURE, "fast", 4, "bench/pull/auto[cpu,f32,A]");
    char *slow = kg_xasprintf(FIGURE, "not so", 8, "bench/pull/auto[cpu,*");
    char *other = kg_xasprintf(FIGURE, "elsewhere", 1, "unit/x/*");
    for (int with = 1; with >= 0; with--) {
        char *path = kg_path_join(kg_scratch_dir(rec), "sample.json");
        char *sprint = kg_xasprintf("{\"sprint\": \"sample\", \"title\": \"Sample\", \"stories\": [{\"spec\": \"S-1\", "
                                    "\"title\": \"one\", \"cases\": [{\"what\": \"all\", \"match\": \"bench/*\"}], "
                                    "\"figures\": [%s%s%s%s%s]}]}",
                                    with ? fast : "", with ? "," : "", with ? slow : "", with ? "," : "", other);
        ck_assert_msg(kg_file_write(path, sprint, strlen(sprint), &err) == KG_OK, "%s", err.message);
        struct kg_process_result r = bench(rec, ARGS("--suites", lab.suites, "--report", path), NULL);
        const int exit_code = with ? KG_EXIT_OK : KG_EXIT_INCOMPLETE;
        ck_assert_msg(r.exit_code == exit_code, "exit code %d: %s%s", r.exit_code, r.out, r.err);
        for (size_t i = 0; with && i < KG_COUNT_OF(LINES); i++)
            ck_assert_msg(strstr(r.out, LINES[i]) != NULL, "no '%s' in:\n%s", LINES[i], r.out);
        kg_process_result_free(&r);
        free(sprint);
        free(path);
    }
    char *bundle = only_bundle(rec);
    json_t *results = kg_lab_lines(bundle, "results.ndjson");
    ck_assert_uint_eq(json_array_size(results), 3); /* the shapes of auto */
    json_decref(results);
    free(bundle);
    free(other);
    free(slow);
    free(fast);
    kg_lab_close(&lab);
}

/* Without --peer they are no part of a run, whatever the globs say, unless named; nor are others than those named. */
static void peers_only_when_asked(struct kg_record *rec, const void *arg) {
    static const char ONE[] = "bench/sdpa_peer/cudnn[cuda,f16,B=1 H=4/2 S=48 D=64 causal]";
    (void)arg;
    struct kg_process_result r = bench(rec, ARGS("--quick", "--list"), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK && !strstr(r.out, "sdpa_peer"), "%s%s", r.out, r.err);
    kg_process_result_free(&r);
    r = bench(rec, ARGS("--quick", "--list", "--peer"), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK && strstr(r.out, ONE), "%s%s", r.out, r.err);
    kg_process_result_free(&r);
    r = bench(rec, ARGS("--quick", "--list", "--case", ONE), NULL);
    ck_assert_msg(r.exit_code == KG_EXIT_OK && strcmp(r.out + strlen(ONE), "\n") == 0, "%s%s", r.out, r.err);
    kg_process_result_free(&r);
    r = bench(rec, ARGS("--quick", "--list", "--peer", "--filter", "sdpa/auto*"), NULL);
    ck_assert_msg(strstr(r.out, ONE) && !strstr(r.out, "bench/linear"), "%s%s", r.out, r.err);
    kg_process_result_free(&r);
    r = bench(rec, ARGS("--quick", "--list", "--peer", "--filter", "sdpa/auto*", "--filter", "model_peer/*"), NULL);
    ck_assert_msg(strstr(r.out, "bench/model_peer/") && strstr(r.out, "bench/sdpa/auto") && !strstr(r.out, ONE), "%s%s",
                  r.out, r.err);
    kg_process_result_free(&r);
}

/* Counters need ncu: said before anything runs. */
static void no_counters_without_ncu(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = bench(rec, ARGS("--quick", "--backend", "cpu", "--filter", "sdpa*", "--ncu"),
                                       (const char *const[]){ "PATH=/nowhere", "KIGO_NCU=", NULL });
    ck_assert_msg(r.exit_code == KG_EXIT_USAGE, "exit code %d: %s", r.exit_code, r.out);
    ck_assert_ptr_nonnull(strstr(r.err, "Nsight Compute is not installed: ncu is no program in PATH"));
    kg_process_result_free(&r);
    r = bench(rec, ARGS("--quick", "--ncu-filter", "sdpa/auto*"), (const char *const[]){ "KIGO_NCU=/no/ncu", NULL });
    ck_assert_msg(r.exit_code == KG_EXIT_USAGE && strstr(r.err, "/no/ncu is no program"), "%d: %s", r.exit_code, r.err);
    kg_process_result_free(&r);
    char *dir = kg_path_join(kg_scratch_dir(rec), "bundles");
    ck_assert(!kg_path_exists(dir));
    free(dir);
}

struct refused {
    const char *name;
    const char *args[6];
    int exit_code;
    const char *message;
};
static const struct refused REFUSED[] = {
    { "fp16_on_a_back_end_without_it", { "--report", "fp16", "--backend", "cpu" }, KG_EXIT_USAGE, "are of a GPU" },
    { "report_nobody_knows", { "--report", "fp17" }, KG_EXIT_USAGE, "fp17" },
    { "back_end_nobody_knows", { "--backend", "tpu" }, KG_EXIT_USAGE, "tpu" },
    { "model_that_is_not_there", { "--model", MISSING }, KG_EXIT_USAGE, MISSING },
    { "filter_that_selects_nothing", { "--filter", "nothing*" }, KG_EXIT_INCOMPLETE, "nothing to run" },
    { "case_nobody_has", { "--case", "bench/none/at_all" }, KG_EXIT_INCOMPLETE, "bench/none/at_all" },
};

static void refused(struct kg_record *rec, const void *arg) {
    const struct refused *row = arg;
    struct kg_process_result r = bench(rec, row->args, NULL);
    ck_assert_msg(r.exit_code == row->exit_code, "exit code %d, not %d: %s", r.exit_code, row->exit_code, r.err);
    ck_assert_msg(strstr(r.err, row->message) != NULL, "'%s' does not say '%s'", r.err, row->message);
    char *dir = kg_path_join(kg_scratch_dir(rec), "bundles");
    ck_assert(!kg_path_exists(dir)); /* nothing was begun */
    free(dir);
    kg_process_result_free(&r);
}

/* Timings are no part of the check. */
static void check_runs_no_bench(struct kg_record *rec, const void *arg) {
    (void)arg;
    const char *const argv[] = { "check", "--list", "--layer", "bench", NULL };
    struct kg_process_result r = kg_run_kigo(rec, argv, (struct kg_process){ .timeout_s = 120 });
    ck_assert_msg(r.exit_code == KG_EXIT_USAGE, "exit code %d: %s", r.exit_code, r.out);
    ck_assert_str_eq(r.out, "");
    ck_assert_ptr_nonnull(strstr(r.err, "run by 'kigo bench'"));
    kg_process_result_free(&r);
}

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        { .name = "quick_bench_seals_whole_records", .run = quick_bench_seals_whole_records, .timeout_s = 180 },
        { .name = "memory_is_read_for_each_context", .run = memory_is_read_for_each_context, .timeout_s = 180 },
        { .name = "no_gnuplot_is_no_failure", .run = no_gnuplot_is_no_failure, .timeout_s = 180 },
        { .name = "telemetry_lies_beside_timings", .run = telemetry_lies_beside_timings, .timeout_s = 180 },
        { .name = "check_runs_no_bench", .run = check_runs_no_bench, .timeout_s = 180 },
        { .name = "attention_is_checked_where_it_is_timed",
          .run = attention_is_checked_where_it_is_timed,
          .timeout_s = 180 },
        { .name = "peers_side_by_side", .run = peers_side_by_side, .timeout_s = 180 },
        { .name = "report_of_a_sprint", .run = report_of_a_sprint, .timeout_s = 180 },
        { .name = "peers_only_when_asked", .run = peers_only_when_asked, .timeout_s = 180 },
        { .name = "no_counters_without_ncu", .run = no_counters_without_ncu, .timeout_s = 180 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        struct kg_case c = CASES[i];
        c.layer = "integration";
        c.op = "bench";
        c.spec = "FT-054";
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(PEERS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "bench_peer",
                                                  .spec = "Phase D",
                                                  .name = PEERS[i].name,
                                                  .run = peer,
                                                  .arg = &PEERS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "bench_refuses",
                                                  .spec = "FT-054",
                                                  .name = REFUSED[i].name,
                                                  .run = refused,
                                                  .arg = &REFUSED[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
