/* A sprint's criteria against records with known answers: what is met, missed and unproven, each figure's arithmetic,
 * and every way a sprint's file can be wrong. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "signoff/judge.h"
#include "signoff/report.h"
#include "suites/harness/case.h"
#include "suites/support/html_tags.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The records of the made run, which had a GPU: two shapes in two precisions, 3 and 2 times as fast in f16, a shape
 * whose timing was slowed down, a model in two files, a case of each status. */
static const char RECORDS[] =
    "[{'k': 'bench/linear/a[cuda,f16,M=1]', 'timings': [['time', 'graph', 'cold', 100, 90, 110, true]]},"
    " {'k': 'bench/linear/a[cuda,f32,M=1]', 'timings': [['time', 'graph', 'cold', 300, 297, 330, true]]},"
    " {'k': 'bench/linear/b[cuda,f16,M=2]', 'timings': [['time', 'graph', 'cold', 100, 100, 100, true]]},"
    " {'k': 'bench/linear/b[cuda,f32,M=2]', 'timings': [['time', 'graph', 'cold', 200, 200, 200, true]]},"
    " {'k': 'bench/slow/c[cuda,f16,M=1]', 'timings': [['time', 'graph', 'cold', 100, 100, 100, false]]},"
    " {'k': 'bench/alone/c[cuda,f16,M=1]', 'timings': [['time', 'graph', 'cold', 100, 100, 100, true]]},"
    " {'k': 'bench/model/decode[cuda,f16,small]', 'metrics': [['weights', 'bytes', 10], ['params', 'count', 5],"
    "  ['speed', 'tokens/s', 900], ['total', 'bytes', 60], ['share', 'ratio', 0.04]],"
    "  'timings': [['token', 'host', 'warm', 1e6, 0.5e6, 2e6, true]]},"
    " {'k': 'bench/model/decode[cuda,f32,large]', 'metrics': [['weights', 'bytes', 20], ['params', 'count', 5],"
    "  ['speed', 'tokens/s', 300], ['total', 'bytes', 100]]},"
    " {'k': 'bench/model/decode[cuda,f16,other]', 'metrics': [['weights', 'bytes', 1], ['params', 'count', 9],"
    "  ['speed', 'tokens/s', 1]]},"
    " {'k': 'tolerance/x/one[cuda,f16,-]', 'spec': 'FT-1', 'errors': [['y', 0.004, 0.4], ['z', 0.02, 0.2]]},"
    " {'k': 'tolerance/x/two[cuda,f16,-]', 'spec': 'FT-1', 'errors': [['y', 0.009, 0.9]],"
    "  'memory': [['kv', 512]]},"
    " {'k': 'tolerance/x/three[cuda,f16,-]', 'spec': 'FT-2', 'errors': [['y', null, null]]},"
    " {'k': 'tolerance/w/four[cuda,f16,-]', 'errors': [['y', 0.001, 0.1], ['z', null, null]]},"
    " {'k': 'tolerance/w/five[cuda,f16,-]', 'errors': [['y', null, null], ['z', 0.001, 0.1]]},"
    " {'k': 'bench/touching/a[cuda,f16,M=1]', 'timings': [['time', 'graph', 'cold', 100, 0, 110, true]]},"
    " {'k': 'bench/touching/a[cuda,f32,M=1]', 'timings': [['time', 'graph', 'cold', 300, 297, 330, true]]},"
    " {'k': 'unit/s/failed', 's': 'fail'}, {'k': 'unit/s/skipped', 's': 'skip'}, {'k': 'unit/s/crashed', 's': 'crash'},"
    " {'k': 'unit/s/never', 's': 'norun'}, {'k': 'unit/s/passed'}, {'k': 'unit/s/passed_too'}]";

/* JSON with ' for ". malloc'ed. */
static char *quoted(const char *text) {
    char *copy = kg_xstrdup(text);
    for (char *s = copy; *s; s++)
        if (*s == '\'') *s = '"';
    return copy;
}

static json_t *parse(const char *text) {
    char *json = quoted(text);
    json_error_t error;
    json_t *value = json_loads(json, JSON_DECODE_ANY, &error);
    ck_assert_msg(value != NULL, "%s: %s", error.text, json);
    free(json);
    return value;
}

/* Items of a short list as objects with these members. */
static json_t *expand(const json_t *rows, const char *const *members) {
    json_t *list = json_array();
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        json_t *object = json_object();
        for (size_t m = 0; members[m]; m++) json_object_set(object, members[m], json_array_get(row, m));
        json_array_append_new(list, object);
    }
    return list;
}

static void set_part(json_t *plan, const char *name, const char *begin, const char *end) {
    const size_t len = (size_t)(end - begin);
    const bool none = len == 0 || (len == 1 && *begin == '-');
    json_object_set_new(plan, name, none ? json_null() : json_stringn(begin, len));
}

/* layer/op/name[backend,dtype,shape] */
static json_t *plan_of(const char *key, const char *spec) {
    json_t *plan = json_pack("{s:s, s:s?}", "key", key, "spec", spec);
    const char *op = strchr(key, '/') + 1, *name = strchr(op, '/') + 1, *bracket = strchr(name, '[');
    set_part(plan, "layer", key, op - 1);
    set_part(plan, "op", op, name - 1);
    set_part(plan, "name", name, bracket ? bracket : name + strlen(name));
    if (!bracket) return plan;
    const char *dtype = strchr(bracket, ',') + 1, *shape = strchr(dtype, ',') + 1;
    set_part(plan, "backend", bracket + 1, dtype - 1);
    set_part(plan, "dtype", dtype, shape - 1);
    set_part(plan, "shape", shape, shape + strlen(shape) - 1);
    return plan;
}

static json_t *result_of(const json_t *row) {
    static const char *const TIMING[] = { "name", "kind", "state", "median", "ci_lo", "ci_hi", "valid", NULL };
    static const char *const METRIC[] = { "name", "unit", "value", NULL }, *const MEMORY[] = { "tag", "peak_bytes",
                                                                                               NULL };
    static const char *const ERROR[] = { "name", "max_abs", "margin", NULL };
    const char *status = kg_json_text(row, "s");
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "status", status ? status : "pass", "timings",
                     expand(json_object_get(row, "timings"), TIMING), "metrics",
                     expand(json_object_get(row, "metrics"), METRIC), "memory",
                     expand(json_object_get(row, "memory"), MEMORY), "errors",
                     expand(json_object_get(row, "errors"), ERROR));
}

/* A run of these records; release it by free_run. */
static struct kg_evidence_run make_run(const char *id, const char *text, bool has_gpu) {
    json_t *rows = parse(text), *lines = json_array();
    struct kg_evidence_run run = { .id = id, .commit = "c", .has_gpu = has_gpu };
    run.records.cases = kg_xcalloc(json_array_size(rows) + 1, sizeof *run.records.cases);
    run.records.lines = lines;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_t *plan = plan_of(kg_json_text(row, "k"), kg_json_text(row, "spec")), *result = result_of(row);
        json_array_append_new(lines, plan);
        json_array_append_new(lines, result);
        run.records.cases[run.records.n_cases++] =
            (struct kg_case_records){ .key = kg_json_text(plan, "key"), .plan = plan, .result = result };
    }
    json_decref(rows);
    return run;
}

static void free_run(struct kg_evidence_run *run) {
    kg_records_free(&run->records);
}

static enum kg_status load(struct kg_record *rec, const char *text, struct kg_sprint *sprint, struct kg_error *err) {
    char *path = kg_path_join(kg_scratch_dir(rec), "sprint.json"), *json = quoted(text);
    struct kg_error why;
    EXPECT_OK(kg_file_write(path, json, strlen(json), &why), why);
    const enum kg_status status = kg_sprint_load(path, sprint, err);
    free(json);
    free(path);
    return status;
}

/* A sprint of one story with these criteria ("'cases': [...]"). */
static json_t *judge(struct kg_record *rec, const char *needs, const char *criteria, struct kg_evidence_run *runs,
                     size_t n_runs) {
    const struct kg_evidence evidence = { runs, n_runs };
    struct kg_sprint sprint;
    struct kg_error err = { .message = "" };
    char *text =
        kg_xasprintf("{'sprint': 'x', 'title': 'X', 'stories': [{'spec': 'FT-1', 'title': 'one', 'needs': '%s', "
                     "%s}]}",
                     needs, criteria);
    EXPECT_OK(load(rec, text, &sprint, &err), err);
    json_t *judgement = kg_signoff_judge(&sprint, &evidence);
    kg_sprint_free(&sprint);
    free(text);
    return judgement;
}

static const json_t *first_criterion(const json_t *judgement) {
    return json_array_get(json_object_get(judgement, "criteria"), 0);
}

static void expect_state(const json_t *judgement, const char *state) {
    char *text = json_dumps(judgement, JSON_COMPACT);
    ck_assert_msg(strcmp(kg_json_text(first_criterion(judgement), "state"), state) == 0, "not %s: %s", state, text);
    free(text);
}

static const struct figure_row {
    const char *name, *figure; /* without "what" */
    const char *state;
    double value; /* of the record; NAN: none */
    double lo, hi;
} FIGURES[] = {
#define COLD "'timing': 'time.graph.cold'"
#define A16 "'of': {'match': 'bench/linear/a[cuda,f16,*', " COLD "}"
#define SAME "'over': {'same_but': {'dtype': 'f32'}, " COLD "}"
    { "the_limit_inside_the_interval", "'figure': 'speedup >= 3', " A16 ", " SAME, "unproven", 3, 2.7, 330.0 / 90 },
    { "speedup_met", "'figure': 'speedup >= 2.6', " A16 ", " SAME, "met", 3, 2.7, 330.0 / 90 },
    { "speedup_missed", "'figure': 'gemm_speedup >= 3.7', " A16 ", " SAME, "missed", 3, 2.7, 330.0 / 90 },
    { "ratio_is_not_inverted", "'figure': 'time_ratio <= 0.38', " A16 ", " SAME, "met", 1.0 / 3, 90.0 / 330,
      110.0 / 297 },
    { "every_shape_counts", "'figure': 'speedup >= 2.5', 'of': {'match': 'bench/linear/*[cuda,f16,*', " COLD "}, " SAME,
      "missed", 3, 2.7, 330.0 / 90 },
    { "geometric_mean",
      "'figure': 'speedup >= 2.3', 'take': 'geometric_mean', 'of': {'match': 'bench/linear/*[cuda,f16,*', " COLD
      "}, " SAME,
      "met", 2.449489742783178, 2.32379000772445, 2.70801280154532 },
#define MEAN_WITH(other)                                                                                               \
    "'figure': 'speedup >= 2.3', 'take': 'geometric_mean', 'of': {'match': ['bench/linear/*[cuda,f16,*', '" other      \
    "'], " COLD "}, " SAME
    { "mean_is_of_all", MEAN_WITH("bench/slow/*"), "unproven", 2.449489742783178, 2.32379000772445, 2.70801280154532 },
    { "mean_may_leave_out_what_was_slowed", MEAN_WITH("bench/slow/*") ", 'at_least': 2", "met", 2.449489742783178,
      2.32379000772445, 2.70801280154532 },
    { "mean_of_too_few", MEAN_WITH("bench/slow/*") ", 'at_least': 3", "unproven", 2.449489742783178, 2.32379000772445,
      2.70801280154532 },
    { "mean_without_a_partner", MEAN_WITH("bench/alone/*") ", 'at_least': 2", "unproven", 2.449489742783178,
      2.32379000772445, 2.70801280154532 },
    { "mean_with_a_failed_case", MEAN_WITH("unit/s/failed") ", 'at_least': 2", "unproven", 2.449489742783178,
      2.32379000772445, 2.70801280154532 },
    { "slowed_down_is_no_proof", "'figure': 'time <= 1000', 'of': {'match': 'bench/slow/*', " COLD "}", "unproven", NAN,
      0, 0 },
    { "no_partner", "'figure': 'speedup >= 1', 'of': {'match': 'bench/alone/*', " COLD "}, " SAME, "unproven", NAN, 0,
      0 },
    { "no_record", "'figure': 'speedup >= 1', 'of': {'match': 'bench/none/*', " COLD "}, " SAME, "unproven", NAN, 0,
      0 },
    { "no_such_timing",
      "'figure': 'time <= 1', 'of': {'match': 'bench/linear/a[cuda,f16,*', 'timing': 'time.graph.warm'}", "unproven",
      NAN, 0, 0 },
    { "several_bases", "'figure': 'speedup >= 1', " A16 ", 'over': {'match': 'bench/linear/*[cuda,f32,*', " COLD "}",
      "unproven", NAN, 0, 0 },
#define SMALL "'match': 'bench/model/decode[cuda,f16,*', 'where': {'params': [4, 6]}, 'prefer': {'least': 'weights'}"
#define LARGE "'match': 'bench/model/decode*', 'where': {'params': [4, 6]}, 'prefer': {'most': 'weights'}"
    { "of_rates_more_is_faster",
      "'figure': 'speedup >= 3', 'of': {" SMALL ", 'metric': 'speed'}, 'over': {" LARGE ", 'metric': 'speed'}", "met",
      3, 3, 3 },
    { "vram_reduction",
      "'figure': 'vram_reduction >= 0.40', 'of': {" SMALL ", 'metric': 'total'}, 'over': {" LARGE
      ", 'metric': 'total'}",
      "met", 0.4, 0.4, 0.4 },
    { "reduction_missed",
      "'figure': 'vram_reduction >= 0.41', 'of': {" SMALL ", 'metric': 'total'}, 'over': {" LARGE
      ", 'metric': 'total'}",
      "missed", 0.4, 0.4, 0.4 },
    { "reduction_has_the_far_ends", "'figure': 'time_reduction >= 0.6', " A16 ", " SAME, "met", 2.0 / 3,
      1 - 110.0 / 297, 1 - 90.0 / 330 },
    { "base_that_may_be_nothing",
      "'figure': 'speedup >= 2.5', 'of': {'match': 'bench/touching/*[cuda,f16,*', " COLD "}, " SAME, "unproven", NAN, 0,
      0 },
    { "rate_of_a_time", "'figure': 'tokens_per_second >= 400', 'unit': '/s', 'of': {" SMALL ", 'timing': 'token.*'}",
      "met", 1000, 500, 2000 },
    { "milliseconds", "'figure': 'latency <= 3', 'unit': 'ms', 'of': {" SMALL ", 'timing': 'token.host.warm'}", "met",
      1, 0.5, 2 },
    { "percent", "'figure': 'mismatch <= 5', 'unit': '%', 'of': {" SMALL ", 'metric': 'share'}", "met", 4, 4, 4 },
    { "exactly", "'figure': 'bytes == 512', 'of': {'match': 'tolerance/x/two*', 'memory': 'kv'}", "met", 512, 512,
      512 },
    { "error_met", "'figure': 'max_abs <= 1e-2', 'of': {'match': 'tolerance/x/two*', 'error': 'y'}", "met", 0.009,
      0.009, 0.009 },
    { "worst_of_a_cases_errors", "'figure': 'max_abs <= 1e-2', 'of': {'match': 'tolerance/x/one*', 'error': '*'}",
      "missed", 0.02, 0.02, 0.02 },
    { "margin", "'figure': 'margin <= 0.5', 'of': {'match': 'tolerance/x/one*', 'error': '?'}", "met", 0.4, 0.4, 0.4 },
    { "error_not_finite", "'figure': 'max_abs <= 1e-2', 'of': {'match': 'tolerance/x/three*', 'error': 'y'}",
      "unproven", NAN, 0, 0 },
    { "not_finite_is_the_worst", "'figure': 'max_abs <= 1e-2', 'of': {'match': 'tolerance/w/*', 'error': '*'}",
      "unproven", NAN, 0, 0 },
    { "one_case_without_a_figure", "'figure': 'max_abs <= 1', 'of': {'match': 'tolerance/x/*', 'error': 'y'}",
      "unproven", 0.004, 0.004, 0.004 },
};

static void figure(struct kg_record *rec, const void *arg) {
    const struct figure_row *row = arg;
    struct kg_evidence_run run = make_run("r", RECORDS, true);
    char *criteria = kg_xasprintf("'figures': [{'what': 'w', %s}]", row->figure);
    json_t *judgement = judge(rec, "gpu", criteria, &run, 1);
    expect_state(judgement, row->state);
    const json_t *records = json_object_get(first_criterion(judgement), "records"),
                 *record = json_array_get(records, 0);
    const char *found = kg_json_text(first_criterion(judgement), "found");
    ck_assert_int_eq(record == NULL, isnan(row->value));
    ck_assert_ptr_nonnull(found);
    if (!record) ck_assert_str_eq(found, "no record");
    if (json_array_size(records) == 1) ck_assert_double_eq_tol(atof(found), row->value, 1e-3 * fabs(row->value));
    if (record) {
        ck_assert_double_eq_tol(kg_json_number(record, "value", NAN), row->value, 1e-12 * fabs(row->value));
        ck_assert_double_eq_tol(kg_json_number(record, "lo", NAN), row->lo, 1e-12 * fabs(row->lo));
        ck_assert_double_eq_tol(kg_json_number(record, "hi", NAN), row->hi, 1e-12 * fabs(row->hi));
    } else {
        ck_assert(json_array_size(json_object_get(first_criterion(judgement), "notes")) > 0 ||
                  strcmp(row->name, "no_record") == 0);
    }
    json_decref(judgement);
    free(criteria);
    free_run(&run);
}

static const struct cases_row {
    const char *name, *criterion, *state;
} CASES_ROWS[] = {
    { "all_passed", "'match': 'unit/s/passed*', 'at_least': 2", "met" },
    { "too_few", "'match': 'unit/s/passed*', 'at_least': 3", "unproven" },
    { "one_failed", "'match': ['unit/s/passed*', 'unit/s/failed']", "missed" },
    { "one_crashed", "'match': ['unit/s/passed*', 'unit/s/crashed']", "missed" },
    { "one_skipped", "'match': ['unit/s/passed*', 'unit/s/skipped']", "unproven" },
    { "one_never_ran", "'match': ['unit/s/passed*', 'unit/s/never']", "unproven" },
    { "none_there", "'match': 'unit/none/*'", "unproven" },
    { "of_a_spec", "'match': '*', 'spec': 'FT-1', 'at_least': 2", "met" },
    { "of_no_such_spec", "'match': '*', 'spec': 'FT-9'", "unproven" },
    { "brackets_stand_for_themselves", "'match': 'tolerance/x/one[cuda,f16,-]'", "met" },
};

static void cases(struct kg_record *rec, const void *arg) {
    const struct cases_row *row = arg;
    struct kg_evidence_run run = make_run("r", RECORDS, true);
    char *criteria = kg_xasprintf("'cases': [{'what': 'w', %s}]", row->criterion);
    json_t *judgement = judge(rec, "any", criteria, &run, 1);
    expect_state(judgement, row->state);
    json_decref(judgement);
    free(criteria);
    free_run(&run);
}

/* A case skipped in one run and passed in another is proven; one that failed in any is not. */
static void several_runs(struct kg_record *rec, const void *arg) {
    struct kg_evidence_run runs[] = {
        make_run("skipped", "[{'k': 'unit/s/a', 's': 'skip'}, {'k': 'unit/s/b'}]", true),
        make_run("passed", "[{'k': 'unit/s/a'}, {'k': 'unit/s/b', 's': 'fail'}]", true),
    };
    (void)arg;
    json_t *a = judge(rec, "any", "'cases': [{'what': 'w', 'match': 'unit/s/a'}]", runs, 2);
    json_t *b = judge(rec, "any", "'cases': [{'what': 'w', 'match': 'unit/s/b'}]", runs, 2);
    expect_state(a, "met");
    expect_state(b, "missed");
    json_decref(b);
    json_decref(a);
    for (size_t i = 0; i < 2; i++) free_run(&runs[i]);
}

/* Both sides of a figure are of one run: a fast one's f16 is not held against a slow one's f32. */
static void sides_of_one_run(struct kg_record *rec, const void *arg) {
    struct kg_evidence_run runs[] = {
        make_run("fast", "[{'k': 'bench/l/a[cuda,f16,M=1]', 'timings': [['time', 'graph', 'cold', 1, 1, 1, true]]}]",
                 true),
        make_run("slow", "[{'k': 'bench/l/a[cuda,f32,M=1]', 'timings': [['time', 'graph', 'cold', 9, 9, 9, true]]}]",
                 true),
    };
    (void)arg;
    json_t *judgement =
        judge(rec, "gpu",
              "'figures': [{'what': 'w', 'figure': 'speedup >= 2', 'of': {'match': 'bench/l/a[cuda,f16,*', " COLD
              "}, " SAME "}]",
              runs, 2);
    expect_state(judgement, "unproven");
    json_decref(judgement);
    for (size_t i = 0; i < 2; i++) free_run(&runs[i]);
}

static void without_gpu_nothing_is_proven_of_one(struct kg_record *rec, const void *arg) {
    struct kg_evidence_run run = make_run("r", RECORDS, false);
    (void)arg;
    json_t *gpu = judge(rec, "gpu", "'cases': [{'what': 'w', 'match': 'unit/s/passed*'}]", &run, 1);
    json_t *any = judge(rec, "any", "'cases': [{'what': 'w', 'match': 'unit/s/passed*'}]", &run, 1);
    expect_state(gpu, "unproven");
    expect_state(any, "met");
    json_decref(any);
    json_decref(gpu);
    free_run(&run);
}

#define STORY(text) "{'sprint': 'x', 'title': 'X', 'stories': [{'spec': 'S', 'title': 'T', " text "}]}"
#define FIGURE_STORY(text) STORY("'figures': [{'what': 'w', " text "}]")

static const struct bad_row {
    const char *name, *text, *says;
} BAD[] = {
    { "no_json", "{'sprint': ", "line 1" },
    { "no_object", "[1]", "a sprint" },
    { "same_member_twice", "{'sprint': 'x', 'sprint': 'y'}", "duplicate" },
    { "no_stories", "{'sprint': 'x', 'title': 'X'}", "a sprint lacks 'stories'" },
    { "empty_stories", "{'sprint': 'x', 'title': 'X', 'stories': []}", "stories: is [], not a list that is not empty" },
    { "misspelt_member", STORY("'case': []"), "stories[0]: a story has no member 'case'" },
    { "story_that_asks_nothing", STORY("'needs': 'any'"), "stories[0]: a story without cases and figures" },
    { "unknown_need", STORY("'needs': 'tpu', 'cases': [{'what': 'w', 'match': '*'}]"),
      "stories[0].needs: is \"tpu\", not gpu or any" },
    { "case_without_match", STORY("'cases': [{'what': 'w'}]"), "stories[0].cases[0]: a cases criterion lacks 'match'" },
    { "empty_match", STORY("'cases': [{'what': 'w', 'match': ''}]"), "stories[0].cases[0].match" },
    { "match_of_numbers", STORY("'cases': [{'what': 'w', 'match': [1]}]"), "a pattern of case keys" },
    { "at_least_none", STORY("'cases': [{'what': 'w', 'match': '*', 'at_least': 0}]"), "a whole number above 0" },
    { "no_sense", FIGURE_STORY("'figure': 'speedup 2', 'of': {'match': '*', 'metric': 'm'}"),
      "stories[0].figures[0].figure: is \"speedup 2\"" },
    { "other_sense", FIGURE_STORY("'figure': 'speedup => 2', 'of': {'match': '*', 'metric': 'm'}"),
      "<name> >=|<=|== <number>" },
    { "limit_no_number", FIGURE_STORY("'figure': 'value >= fast', 'of': {'match': '*', 'metric': 'm'}"),
      "\"value >= fast\"" },
    { "limit_not_finite", FIGURE_STORY("'figure': 'value >= nan', 'of': {'match': '*', 'metric': 'm'}"),
      "\"value >= nan\"" },
    { "words_behind", FIGURE_STORY("'figure': 'value >= 1 x', 'of': {'match': '*', 'metric': 'm'}"),
      "\"value >= 1 x\"" },
    { "speedup_over_nothing", FIGURE_STORY("'figure': 'speedup >= 2', 'of': {'match': '*', 'metric': 'm'}"),
      "a speedup needs 'over'" },
    { "value_over_something",
      FIGURE_STORY(
          "'figure': 'value >= 2', 'of': {'match': '*', 'metric': 'm'}, 'over': {'match': '*', 'metric': 'm'}"),
      "a value has no 'over'" },
    { "reads_two", FIGURE_STORY("'figure': 'value >= 2', 'of': {'match': '*', 'metric': 'm', 'timing': 't'}"),
      "exactly one of" },
    { "reads_nothing", FIGURE_STORY("'figure': 'value >= 2', 'of': {'match': '*'}"), "exactly one of" },
    { "error_of_a_timing", FIGURE_STORY("'figure': 'max_abs <= 1', 'of': {'match': '*', 'timing': 't'}"),
      "read from an error" },
    { "value_of_an_error", FIGURE_STORY("'figure': 'value <= 1', 'of': {'match': '*', 'error': 'y'}"),
      "not from an error" },
    { "base_of_two_kinds",
      FIGURE_STORY("'figure': 'speedup >= 2', 'of': {'match': '*', 'metric': 'm'}, 'over': {'match': '*', 'same_but': "
                   "{'dtype': 'f32'}, 'metric': 'm'}"),
      "either 'match' or 'same_but'" },
    { "at_least_of_each", FIGURE_STORY("'figure': 'value >= 2', 'at_least': 2, 'of': {'match': '*', 'metric': 'm'}"),
      "stories[0].figures[0]: 'at_least' is of a geometric_mean" },
    { "range_upside_down",
      FIGURE_STORY("'figure': 'value >= 2', 'of': {'match': '*', 'metric': 'm', 'where': {'p': [2, 1]}}"),
      "[lowest, highest]" },
    { "unknown_unit", FIGURE_STORY("'figure': 'value >= 2', 'unit': 'parsec', 'of': {'match': '*', 'metric': 'm'}"),
      "not us or ms" },
    { "name_as_a_path",
      "{'sprint': '../x', 'title': 'X', 'stories': [{'spec': 'S', 'title': 'T', 'cases': [{'what': 'w', "
      "'match': '*'}]}]}",
      "not made of a-z" },
};

static void bad_sprint(struct kg_record *rec, const void *arg) {
    const struct bad_row *row = arg;
    struct kg_sprint sprint;
    struct kg_error err = { .message = "" };
    ck_assert_int_eq(load(rec, row->text, &sprint, &err), KG_ERR_SCHEMA);
    ck_assert_msg(strstr(err.message, row->says) && strstr(err.message, "sprint.json"), "%s", err.message);
}

/* A mean is shown by the record of its least figure, the first of equal ones. */
static void mean_names_the_least(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *figure, *record;
    } MEANS[] = {
        { "'figure': 'time <= 200', 'take': 'geometric_mean', 'of': {'match': 'bench/linear/*[cuda,f16,*', "
          "'timing': 'time.graph.cold'}",
          "bench/linear/a[cuda,f16,M=1]" },
        { "'figure': 'time <= 300', 'take': 'geometric_mean', 'of': {'match': 'bench/linear/?[cuda,f32,*', "
          "'timing': 'time.graph.cold'}",
          "bench/linear/b[cuda,f32,M=2]" },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(MEANS); i++) {
        struct kg_evidence_run run = make_run("r", RECORDS, true);
        char *criteria = kg_xasprintf("'figures': [{'what': 'w', %s}]", MEANS[i].figure);
        json_t *judgement = judge(rec, "gpu", criteria, &run, 1);
        const json_t *record = json_array_get(json_object_get(first_criterion(judgement), "records"), 0);
        ck_assert_ptr_nonnull(record);
        ck_assert_str_eq(kg_json_text(record, "record"), MEANS[i].record);
        json_decref(judgement);
        free(criteria);
        free_run(&run);
    }
}

/* Those that ship are valid, named like their files, and ask for something. */
static void shipped_sprints(struct kg_record *rec, const void *arg) {
    static const char *const NAMES[] = { "fp16", "fused", "mxfp4", "sdpa-fp16", "sdpa-fp8" };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        char *path = kg_xasprintf("%s/../suites/sprints/%s.json", kg_fixture_path("."), NAMES[i]);
        struct kg_sprint sprint;
        struct kg_error err = { .message = "" };
        EXPECT_OK(kg_sprint_load(path, &sprint, &err), err);
        ck_assert_str_eq(sprint.name, NAMES[i]);
        ck_assert(sprint.needs_gpu);
        kg_sprint_free(&sprint);
        free(path);
    }
}

/* Records as bench_fused makes them, of the criterion of the sprint of fused kernels that reads `memory`. */
static const struct fused_memory_row {
    const char *name, *records, *state;
} FUSED_MEMORY[] = {
#define FUSED(chain, bytes)                                                                                            \
    "{'k': 'bench/fused/memory[cuda,f16," chain "]', 'metrics': [['workspace.scratch', 'bytes', 1],"                   \
    " ['workspace', 'bytes', " bytes "]]}"
#define UNFUSED(chain, bytes)                                                                                          \
    "{'k': 'bench/unfused/memory[cuda,f16," chain "]', 'metrics': [['workspace', 'bytes', " bytes "]]}"
    { "less_at_each_shape", "[" FUSED("a", "60") "," UNFUSED("a", "100") "," FUSED("b", "5") "," UNFUSED("b", "10") "]",
      "met" },
    { "not_enough_less_at_one",
      "[" FUSED("a", "61") "," UNFUSED("a", "100") "," FUSED("b", "5") "," UNFUSED("b", "10") "]", "missed" },
    { "as_much", "[" FUSED("a", "100") "," UNFUSED("a", "100") "]", "missed" },
    { "more", "[" FUSED("a", "101") "," UNFUSED("a", "100") "]", "missed" },
    { "partner_of_another_shape", "[" FUSED("a", "60") "," UNFUSED("b", "100") "]", "unproven" },
    { "only_times",
      "[{'k': 'bench/fused/decode_residual[cuda,f16,a]', 'timings': [['time', 'kernel', 'cold', 1, 1, 1, true]]}]",
      "unproven" },
};

static void fused_memory(struct kg_record *rec, const void *arg) {
    const struct fused_memory_row *row = arg;
    char *path = kg_xasprintf("%s/../suites/sprints/fused.json", kg_fixture_path("."));
    struct kg_evidence_run run = make_run("r", row->records, true);
    const struct kg_evidence evidence = { &run, 1 };
    struct kg_sprint sprint;
    struct kg_error err = { .message = "" };
    const json_t *criterion;
    size_t i, n = 0;
    (void)rec;
    EXPECT_OK(kg_sprint_load(path, &sprint, &err), err);
    json_t *judgement = kg_signoff_judge(&sprint, &evidence);
    json_array_foreach(json_object_get(judgement, "criteria"), i, criterion) {
        const bool is_it = strncmp(kg_json_text(criterion, "wanted"), "vram_reduction", 14) == 0;
        const char *state = kg_json_text(criterion, "state"), *found = kg_json_text(criterion, "found");
        n += is_it;
        if (is_it) ck_assert_msg(strcmp(state, row->state) == 0, "%s, not %s: %s", state, row->state, found);
        /* what has no time is no kernel that was not timed */
        else if (strcmp(row->name, "only_times") != 0)
            ck_assert_uint_eq(json_array_size(json_object_get(criterion, "notes")), 0);
    }
    ck_assert_uint_eq(n, 1);
    json_decref(judgement);
    kg_sprint_free(&sprint);
    free_run(&run);
    free(path);
}

/* What the texts of a record hold cannot break out of the documents. */
static void documents_hold_any_text(struct kg_record *rec, const void *arg) {
    struct kg_evidence_run run = make_run("<b>|run", "[{'k': 'unit/s/<script>|x', 's': 'fail'}]", true);
    const struct kg_evidence evidence = { &run, 1 };
    struct kg_buffer markdown = KG_BUFFER_INIT, html = KG_BUFFER_INIT;
    (void)arg;
    json_t *judgement = judge(rec, "any", "'cases': [{'what': '<i>|w', 'match': '*'}]", &run, 1);
    json_t *document = kg_signoff_document(judgement, &evidence, "2026-11-20T00:00:00Z");
    json_t *statement = kg_signoff_statement(document, NULL);
    kg_signoff_markdown(document, &markdown);
    kg_signoff_html(document, &html);
    ck_assert(strstr(markdown.data, "&lt;i>\\|w") && strstr(markdown.data, "missed"));
    ck_assert(!strstr(html.data, "<script>") && strstr(html.data, "&lt;script&gt;|x") && strstr(html.data, "missed"));
    ck_assert(!strstr(html.data, "http://") && !strstr(html.data, "https://"));
    const json_t *predicate = json_object_get(statement, "predicate");
    ck_assert_str_eq(kg_json_text(predicate, "result"), "FAILED");
    ck_assert_uint_eq(json_array_size(json_object_get(predicate, "passedTests")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(predicate, "warnedTests")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(predicate, "failedTests")), 1);
    const char *failed = json_string_value(json_array_get(json_object_get(predicate, "failedTests"), 0));
    ck_assert_msg(failed && strstr(failed, "<i>|w"), "%s", failed ? failed : "no text");
    const json_t *runs = json_object_get(document, "runs");
    ck_assert_uint_eq(json_array_size(runs), 1);
    ck_assert_str_eq(kg_json_text(json_array_get(runs, 0), "run"), "<b>|run");
    kg_expect_html_closed(html.data);
    kg_buffer_free(&html);
    kg_buffer_free(&markdown);
    json_decref(statement);
    json_decref(document);
    json_decref(judgement);
    free_run(&run);
}

static void add(struct kg_case_list *list, const char *op, const char *name,
                void (*run)(struct kg_record *rec, const void *arg), const void *arg) {
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit", .op = op, .name = name, .run = run, .arg = arg });
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(FIGURES); i++) add(list, "signoff_figure", FIGURES[i].name, figure, &FIGURES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(CASES_ROWS); i++)
        add(list, "signoff_cases", CASES_ROWS[i].name, cases, &CASES_ROWS[i]);
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++) add(list, "sprint_refused", BAD[i].name, bad_sprint, &BAD[i]);
    for (size_t i = 0; i < KG_COUNT_OF(FUSED_MEMORY); i++)
        add(list, "signoff_fused_memory", FUSED_MEMORY[i].name, fused_memory, &FUSED_MEMORY[i]);
    add(list, "signoff", "several_runs", several_runs, NULL);
    add(list, "signoff", "sides_of_one_run", sides_of_one_run, NULL);
    add(list, "signoff", "without_gpu_nothing_is_proven_of_one", without_gpu_nothing_is_proven_of_one, NULL);
    add(list, "signoff", "shipped_sprints", shipped_sprints, NULL);
    add(list, "signoff", "documents_hold_any_text", documents_hold_any_text, NULL);
    add(list, "signoff", "mean_names_the_least", mean_names_the_least, NULL);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
