/* `kigo bench` as its users run it: small shapes on the cpu back end, what is sealed, and what is refused. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/integration/check_lab.h"
#include "suites/integration/run_kigo.h"
#include "suites/unit/fake_nvml.h"
#include <check.h>
#include <kigo/bundle.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 24 };

/* Runs kigo with the words and --bundles in the case's scratch folder. */
static struct kg_process_result bench(struct kg_record *rec, const char *const *words, const char *const *env) {
    static char bundles[512];
    const char *args[MOST_WORDS] = { "bench" };
    size_t n = 1;
    snprintf(bundles, sizeof bundles, "%s/bundles", kg_scratch_dir(rec));
    for (; *words; words++) {
        ck_assert_uint_lt(n + 3, MOST_WORDS);
        args[n++] = *words;
    }
    args[n++] = "--bundles";
    args[n++] = bundles;
    args[n] = NULL;
    return kg_run_kigo(rec, args, (struct kg_process){ .env = env, .timeout_s = 120 });
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
        rec, WORDS("--quick", "--backend", "cpu", "--filter", "bench/linear/*", "--filter", "bench/attention/*"), NULL);
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
        bench(rec, WORDS("--quick", "--backend", "cpu", "--filter", "bench/model/memory*", "--json"), NULL);
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
    struct kg_process_result r = bench(rec, WORDS("--backend", "cpu", "--filter", "bench/linear/decode*"),
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
    struct kg_process_result r = bench(rec, WORDS("--backend", "cpu", "--quick", "--filter", "bench/rmsnorm/*"),
                                       (const char *const[]){ nvml, NULL });
    ck_assert_msg(r.exit_code == KG_EXIT_OK, "exit code %d: %s%s", r.exit_code, r.out, r.err);
    char *bundle = only_bundle(rec), *telemetry = read_data(bundle, "telemetry.csv");
    ck_assert_ptr_nonnull(strstr(telemetry, ",0,1500,2600,123456,700000,40,0x0,1000000000,77\n"));
    free(telemetry);
    free(bundle);
    free(nvml);
    kg_process_result_free(&r);
}

struct refused {
    const char *name;
    const char *words[6];
    int exit_code;
    const char *message;
};
static const struct refused REFUSED[] = {
    { "fp16_on_a_back_end_without_it", { "--report", "fp16", "--backend", "cpu" }, KG_EXIT_USAGE, "no f16" },
    { "report_nobody_knows", { "--report", "fp17" }, KG_EXIT_USAGE, "fp17" },
    { "back_end_nobody_knows", { "--backend", "tpu" }, KG_EXIT_USAGE, "tpu" },
    { "model_that_is_not_there", { "--model", MISSING }, KG_EXIT_USAGE, MISSING },
    { "filter_that_selects_nothing", { "--filter", "nothing*" }, KG_EXIT_INCOMPLETE, "nothing to run" },
    { "case_nobody_has", { "--case", "bench/none/at_all" }, KG_EXIT_INCOMPLETE, "bench/none/at_all" },
};

static void refused(struct kg_record *rec, const void *arg) {
    const struct refused *row = arg;
    struct kg_process_result r = bench(rec, row->words, NULL);
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
    const char *const args[] = { "check", "--list", "--layer", "bench", NULL };
    struct kg_process_result r = kg_run_kigo(rec, args, (struct kg_process){ .timeout_s = 120 });
    ck_assert_msg(r.exit_code == KG_EXIT_INCOMPLETE, "exit code %d: %s", r.exit_code, r.out);
    ck_assert_str_eq(r.out, "");
    ck_assert_ptr_nonnull(strstr(r.err, "none was selected"));
    kg_process_result_free(&r);
}

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        { .name = "quick_bench_seals_whole_records", .run = quick_bench_seals_whole_records, .timeout_s = 180 },
        { .name = "memory_is_read_for_each_context", .run = memory_is_read_for_each_context, .timeout_s = 180 },
        { .name = "no_gnuplot_is_no_failure", .run = no_gnuplot_is_no_failure, .timeout_s = 180 },
        { .name = "telemetry_lies_beside_timings", .run = telemetry_lies_beside_timings, .timeout_s = 180 },
        { .name = "check_runs_no_bench", .run = check_runs_no_bench, .timeout_s = 180 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        struct kg_case c = CASES[i];
        c.layer = "integration";
        c.op = "bench";
        c.spec = "FT-054";
        kg_case_list_add(list, &c);
    }
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
