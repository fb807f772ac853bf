/* Times and sizes that people read are in the unit that a person would choose, in every verb's text. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "run/publish.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include "suites/support/run_kigo.h"
#include <check.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { N_RUNS = 16, N_CASES = 3, STEP_AT = 9 };

static const double USUAL_NS = 12741300, SLOW_NS = 25482600, PEAK_BYTES = 3.0 * (1 << 30);

/* A case takes 12.74 ms, and from the tenth run on twice that. */
static void fill(void *arg, size_t i, struct kg_made_case *c) {
    const size_t run = *(const size_t *)arg;
    c->time_ns = i == 0 && run >= STEP_AT ? SLOW_NS : USUAL_NS;
    c->time_ns *= 1 + 0.001 * (double)(run % 3); /* a scale to judge by */
    c->peak_bytes = PEAK_BYTES + (run >= STEP_AT ? (double)(1 << 30) : 0);
}

static void write_history(struct kg_history_lab *lab) {
    for (size_t run = 0; run < N_RUNS; run++)
        kg_history_lab_runs(
            lab, run, 1,
            (struct kg_made_run){ .n_cases = N_CASES, .canary = run < STEP_AT ? 1 : 0.9, .fill = fill, .arg = &run });
}

/* What is none of a person's: powers of ten, and long numbers that are no part of an id, a commit or a date. */
static void expect_readable(const char *verb, const char *text) {
    static const char *const PATTERNS[] = {
        "[0-9]e[+][0-9]", "(^|[ |(])([0-9]{5,}([.][0-9]+)? (ns|us|bytes|B)|[0-9]{7,}([.][0-9]+)?)([ |,)]|$)"
    };
    for (size_t i = 0; i < KG_COUNT_OF(PATTERNS); i++) {
        regex_t regex;
        regmatch_t at;
        ck_assert_int_eq(regcomp(&regex, PATTERNS[i], REG_EXTENDED | REG_NEWLINE), 0);
        const bool found = regexec(&regex, text, 1, &at, 0) == 0;
        ck_assert_msg(!found, "kigo %s prints '%.80s'", verb, found ? text + at.rm_so : "");
        regfree(&regex);
    }
}

static const struct row {
    const char *args[7];
    const char *holds[3]; /* each in the text */
    int exit_code;
} ROWS[] = {
    { { "show", "latest", "--case", "*" }, { "median 25.48 ms", "peak 4 GiB" }, 0 },
    { { "show", "latest", "--slowest", "2" }, { "duration", "ms" }, 0 },
    { { "show", "latest", "--markdown" }, { " ms", "12.7" }, 0 },
    { { "diff", "latest~8", "latest" }, { "12.75 ms", "25.48 ms", "3 GiB" }, 0 },
    { { "diff", "latest~8", "latest", "--markdown" }, { "12.75 ms | 25.48 ms", "3 GiB | 4 GiB" }, 0 },
    { { "regress", "latest~6", "--all" }, { "25.48 ms", "    4 GiB  +33.33%", "\nchanges below 3.2% of 3 times" }, 1 },
    { { "regress", "latest~6", "--markdown" }, { "3 GiB | 4 GiB" }, 1 },
    { { "history", "*case_0*" }, { "25.48 ms", "4 GiB" }, 0 },
    { { "history", "*case_0*", "--figure", "*" }, { "12.74 ms", "3 GiB" }, 0 },
    { { "steps", "--least-change", "3" }, { " ms  ", "commits", "change" }, 0 },
    { { "report", "latest", "--markdown" }, { " ms", "4 GiB" }, 0 },
    { { "report", "--history", "--markdown" }, { "", "" }, 0 },
    { { "list" }, { "seconds" }, 0 },
    { { "prune" }, { "KiB" }, 0 },
};

static void every_verb_writes_for_people(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    (void)arg;
    kg_history_lab_open_in(&lab, kg_scratch_dir(rec), N_RUNS);
    write_history(&lab);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        struct kg_process_result r;
        kg_verb_run(lab.root, ROWS[i].args, false, &r);
        const int code = ROWS[i].exit_code;
        ck_assert_msg(r.exit_code == code, "row %zu: kigo %s ended with %d: %.1500s%.1500s", i, ROWS[i].args[0],
                      r.exit_code, r.out, r.err);
        expect_readable(ROWS[i].args[0], r.out);
        for (size_t k = 0; k < KG_COUNT_OF(ROWS[i].holds) && ROWS[i].holds[k]; k++)
            ck_assert_msg(strstr(r.out, ROWS[i].holds[k]) != NULL, "row %zu: kigo %s says no '%s': %.3000s", i,
                          ROWS[i].args[0], ROWS[i].holds[k], r.out);
        kg_process_result_free(&r);
    }
    kg_history_lab_close(&lab);
}

/* A figure's own lists and objects stand in a line, as short as they can. */
static void objects_of_a_figure(struct kg_record *rec, const void *arg) {
    char *dir = kg_verb_seal(kg_scratch_dir(rec)), *text;
    (void)arg;
    kg_verb_expect(kg_scratch_dir(rec), ARGS("show", "latest", "--case", "*"), KG_EXIT_OK, &text);
    ck_assert_msg(strstr(text, ", tolerance {\"max_abs\":0.01}, why ") != NULL, "%s", text);
    free(text);
    free(dir);
}

/* Their numbers have four digits, as all others. */
static void numbers_of_a_tolerance(struct kg_record *rec, const void *arg) {
    struct kg_bundle *bundle = NULL;
    struct kg_bundle_summary summary;
    struct kg_error err;
    char *text;
    (void)arg;
    const struct kg_bundle_options options = { .root = kg_scratch_dir(rec), .seed = 7 };
    json_t *line = kg_maker_plan_line(0), *result = kg_maker_result(0, "pass");
    json_object_set_new(json_array_get(json_object_get(result, "errors"), 0), "tolerance",
                        json_pack("{s:f}", "max_abs", 0.1));
    EXPECT_OK(kg_bundle_create(&options, &bundle, &err), err);
    EXPECT_OK(kg_bundle_plan(bundle, line, &err), err);
    EXPECT_OK(kg_bundle_plan_done(bundle, &err), err);
    EXPECT_OK(kg_bundle_start(bundle, json_string_value(json_object_get(line, "key")), &err), err);
    EXPECT_OK(kg_maker_samples(bundle, 0, result, &err), err);
    EXPECT_OK(kg_bundle_end(bundle, result, &err), err);
    EXPECT_OK(kg_run_seal(bundle, &summary, &err), err);
    kg_bundle_close(bundle);
    kg_verb_expect(kg_scratch_dir(rec), ARGS("show", "latest", "--case", "*"), KG_EXIT_OK, &text);
    ck_assert_msg(strstr(text, ", tolerance {\"max_abs\":0.1}") != NULL, "%s", text);
    free(text);
    json_decref(result);
    json_decref(line);
}

static void expect_matches(const char *verb, const char *pattern, const char *text) {
    regex_t regex;
    ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB), 0);
    ck_assert_msg(regexec(&regex, text, 0, NULL, 0) == 0, "kigo %s prints nothing like '%s': %.3000s", verb, pattern,
                  text);
    regfree(&regex);
}

/* Verbs over models; @out: a file that the call writes. */
static const struct model_row {
    const char *args[12];
    const char *patterns[3]; /* each in what is printed, on either stream */
} MODEL_ROWS[] = {
    { { "inspect", MODEL, "--tensors" },
      { " F16    256 x 64 +32 KiB$", " F32    256 +1 KiB$", "  all +50 tensors +3[.]526 M parameters +6[.]733 MiB$" } },
    { { "generate", "-m", MODEL, "-n", "2", "--seed", "1", "-p", "a" },
      { "first after [0-9.]+ (µs|ms|s), then [0-9.]+ tokens/s, peak memory [0-9.]+ MiB [(]" } },
    { { "synth", "--like", "tiny-qwen2.5", "-o", "@out" },
      { ", [0-9.]+( [BM])? parameters, [0-9.]+ [KM]iB in [0-9.]+ (µs|ms|s)$" } },
    { { "reindex", "--bundles", "@store" }, { "^indexed 0 bundles in [0-9.]+ (µs|ms|s)$" } },
};

static void verbs_over_models(struct kg_record *rec, const void *arg) {
    struct kg_error err;
    (void)arg;
    char *store = kg_path_join(kg_scratch_dir(rec), "store");
    ck_assert_msg(kg_dir_make(store, &err) == KG_OK, "%s", err.message);
    free(store);
    for (size_t i = 0; i < KG_COUNT_OF(MODEL_ROWS); i++) {
        const struct model_row *row = &MODEL_ROWS[i];
        struct kg_process_result r = kg_run_kigo(rec, row->args, (struct kg_process){ .timeout_s = 60 });
        ck_assert_msg(r.exit_code == 0, "kigo %s ended with %d: %s", row->args[0], r.exit_code, r.err);
        char *text = kg_xasprintf("%s%s", r.out, r.err);
        for (size_t k = 0; k < KG_COUNT_OF(row->patterns) && row->patterns[k]; k++)
            expect_matches(row->args[0], row->patterns[k], text);
        expect_readable(row->args[0], text);
        free(text);
        kg_process_result_free(&r);
    }
}

/* JSON and CSV keep the recorded unit, all digits of it. */
static void programs_get_the_recorded_unit(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    char *csv;
    (void)arg;
    kg_history_lab_open_in(&lab, kg_scratch_dir(rec), N_RUNS);
    write_history(&lab);
    kg_verb_expect(lab.root, ARGS("diff", "latest~8", "latest", "--csv"), KG_EXIT_OK, &csv);
    ck_assert_msg(strstr(csv, ",ns,12754041.299999999,25482600,") != NULL, "%s", csv);
    ck_assert_msg(strstr(csv, "roofline.") != NULL, "%s", csv);
    free(csv);
    kg_history_lab_close(&lab);
}

/* A line for each of what the machine itself gave, apart from the cases. */
static void rooflines_come_apart(struct kg_record *rec, const void *arg) {
    static const char SECTION[] = "\nthe machine's own speed (roofline)\n";
    struct kg_history_lab lab;
    char *text;
    (void)arg;
    kg_history_lab_open_in(&lab, kg_scratch_dir(rec), N_RUNS);
    write_history(&lab);
    kg_verb_expect(lab.root, ARGS("diff", "latest~8", "latest"), KG_EXIT_OK, &text);
    const char *section = strstr(text, SECTION), *first = strstr(text, "roofline.");
    ck_assert_msg(section && first && first > section, "%s", text);
    const char *again = strstr(first + 1, "roofline.copy"), *end = strstr(section, " differences\n");
    ck_assert_msg(end && (!again || again > end || strncmp(first, "roofline.copy", 13) != 0), "%s", text);
    free(text);
    kg_history_lab_close(&lab);
}

/* Of the second run: all cases but the first are skipped, the last two for another reason than the rest. */
static void skip_some(void *arg, size_t i, struct kg_made_case *c) {
    if (!*(const bool *)arg || i == 0) return;
    c->status = "skip";
    c->reason = i < 6 ? "no CUDA device" : "no such library";
}

static void write_skips(struct kg_history_lab *lab, bool skipped_first) {
    bool skips = skipped_first;
    const struct kg_made_run run = { .n_cases = 8, .fill = skip_some, .arg = &skips };
    kg_history_lab_runs(lab, 0, 1, run);
    skips = !skips;
    kg_history_lab_runs(lab, 1, 1, run);
}

static void one_byte_more(void *arg, size_t i, struct kg_made_case *c) {
    c->peak_bytes = PEAK_BYTES + (i == 0 ? *(const double *)arg : 0);
}

/* Of an exact figure any change counts: two values are never shown alike. */
static void values_that_differ_look_different(struct kg_record *rec, const void *arg) {
    static const char *const VERBS[] = { "diff", "regress", "report" };
    struct kg_history_lab lab;
    (void)arg;
    kg_history_lab_open_in(&lab, kg_scratch_dir(rec), N_RUNS);
    for (size_t run = 0; run < 2; run++)
        kg_history_lab_runs(
            &lab, run, 1, (struct kg_made_run){ .n_cases = 2, .fill = one_byte_more, .arg = &(double){ (double)run } });
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) {
        struct kg_process_result r;
        const char *const diff[] = { "diff", "latest~1", "latest", NULL }, *const regress[] = { "regress", NULL },
                          *const report[] = { "report", "latest", "--markdown", NULL };
        kg_verb_run(lab.root, i == 0 ? diff : i == 1 ? regress : report, false, &r);
        ck_assert_msg(strstr(r.out, "3221225472 bytes") && strstr(r.out, "3221225473 bytes"), "kigo %s: %s%s", VERBS[i],
                      r.out, r.err);
        kg_process_result_free(&r);
    }
    kg_history_lab_close(&lab);
}

static void slower_by_a_tenth(void *arg, size_t i, struct kg_made_case *c) {
    const size_t run = *(const size_t *)arg;
    (void)i;
    c->time_ns = USUAL_NS * (1 + 0.001 * (double)(run % 3)) * (run == N_RUNS - 1 ? 1.1 : 1);
}

/* The machine's drift, which canaries show, is removed from all times, and that is said once; without one nothing is.
 */
static void drift_is_said_where_there_is_one(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (int drifts = 0; drifts < 2; drifts++) {
        struct kg_history_lab lab;
        struct kg_process_result r;
        char dir[512];
        snprintf(dir, sizeof dir, "%s/%d", kg_scratch_dir(rec), drifts);
        kg_history_lab_open_in(&lab, dir, N_RUNS);
        for (size_t run = 0; run < N_RUNS; run++)
            kg_history_lab_runs(&lab, run, 1,
                                (struct kg_made_run){ .n_cases = N_CASES,
                                                      .canary = drifts && run == N_RUNS - 1 ? 1 / 1.1 : 1,
                                                      .fill = slower_by_a_tenth,
                                                      .arg = drifts ? &run : &(size_t){ run % 3 } });
        kg_verb_run(lab.root, ARGS("regress"), false, &r);
        const char *said = strstr(r.out, "drift of '");
        ck_assert_msg((said != NULL) == (drifts == 1), "%d: %s%s", drifts, r.out, r.err);
        ck_assert_msg(!said || (strstr(said, "removed: +") && !strstr(said + 1, "drift of '")), "%s", r.out);
        kg_process_result_free(&r);
        kg_history_lab_close(&lab);
    }
}

static const struct skip_row {
    const char *args[7];
    bool skipped_first;
    const char *lines[2];
    int exit_code;
} SKIP_ROWS[] = {
    { { "diff", "latest~1", "latest" },
      false,
      { "\npass in a, skip in b, no CUDA device: 5 cases: bench/linear/case_1[",
        "\npass in a, skip in b, no such library: 2 cases: bench/linear/case_6[" },
      0 },
    { { "diff", "latest~1", "latest", "--markdown" },
      false,
      { "\n- pass in a, skip in b, no CUDA device: 5 cases: bench/linear/case\\_1",
        "\n- pass in a, skip in b, no such library: 2 cases: bench/linear/case\\_6" },
      0 },
    { { "diff", "latest~1", "latest" },
      true,
      { "\nskip in a, pass in b, no CUDA device: 5 cases: bench/linear/case_1[",
        "\nskip in a, pass in b, no such library: 2 cases: bench/linear/case_6[" },
      0 },
    { { "regress" },
      false,
      { "\nregression: it was pass, now skip, no CUDA device: 5 cases: bench/linear/case_1[",
        "\nregression: it was pass, now skip, no such library: 2 cases: bench/linear/case_6[" },
      1 },
    { { "regress", "--markdown" },
      false,
      { "\n- regression: it was pass, now skip, no CUDA device: 5 cases: bench/linear/case\\_1",
        "\n- regression: it was pass, now skip, no such library: 2 cases: bench/linear/case\\_6" },
      1 },
    { { "regress", "--all" },
      true,
      { "\nbetter: it was skip, now pass, no CUDA device: 5 cases: bench/linear/case_1[",
        "\nbetter: it was skip, now pass, no such library: 2 cases: bench/linear/case_6[" },
      0 },
};

/* A judgement a case, with the reason. */
static void programs_get_every_skip(const struct kg_history_lab *lab, const struct skip_row *row) {
    json_t *answer = kg_verb_json(lab->root, ARGS("regress", "--all"), row->exit_code), *judgement;
    size_t i, n_device = 0, n_library = 0;
    json_array_foreach(json_object_get(answer, "judgements"), i, judgement) {
        const char *reason = json_string_value(json_object_get(judgement, "skip_reason"));
        n_device += reason && strcmp(reason, "no CUDA device") == 0;
        n_library += reason && strcmp(reason, "no such library") == 0;
    }
    ck_assert_uint_eq(n_device, 5);
    ck_assert_uint_eq(n_library, 2);
    json_decref(answer);
}

/* What one side skipped is a line a reason with a count and a few names, not a line a case and one for each figure. */
static void skips_are_grouped(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(SKIP_ROWS); i++) {
        const struct skip_row *row = &SKIP_ROWS[i];
        struct kg_history_lab lab;
        char *text, dir[512];
        snprintf(dir, sizeof dir, "%s/%zu", kg_scratch_dir(rec), i);
        kg_history_lab_open_in(&lab, dir, 6);
        write_skips(&lab, row->skipped_first);
        kg_verb_expect(lab.root, row->args, row->exit_code, &text);
        if (strcmp(row->args[0], "regress") == 0) programs_get_every_skip(&lab, row);
        for (size_t k = 0; k < KG_COUNT_OF(row->lines); k++)
            ck_assert_msg(strstr(text, row->lines[k]) != NULL, "row %zu: no '%s': %s", i, row->lines[k], text);
        ck_assert_msg(strstr(text, ", ...\n") && !strstr(text, "case_4[") && !strstr(text, "case\\_4"), "row %zu: %s",
                      i, text);
        free(text);
        kg_history_lab_close(&lab);
    }
}

#define UNITS(function)                                                                                                \
    { .layer = "integration", .op = "units", .name = #function, .run = function, .timeout_s = 120 }

static const struct kg_case CASES[] = {
    UNITS(every_verb_writes_for_people),
    UNITS(objects_of_a_figure),
    UNITS(numbers_of_a_tolerance),
    UNITS(verbs_over_models),
    UNITS(programs_get_the_recorded_unit),
    UNITS(rooflines_come_apart),
    UNITS(skips_are_grouped),
    UNITS(values_that_differ_look_different),
    UNITS(drift_is_said_where_there_is_one),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
