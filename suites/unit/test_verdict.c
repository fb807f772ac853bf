/* What the first screen of a run says, of records whose answers are known: nothing that is worse, or misses its goals,
 * is headed by "pass". */
#include "base/buffer.h"
#include "base/size.h"
#include "report/verdict.h"
#include "suites/harness/case.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 16 };
struct run {
    struct kg_records records;
    struct kg_case_records cases[MAX_CASES];
    json_t *summary, *env, *source;
    struct kg_export from;
};

static void open_run(struct run *run, const char *verdict) {
    *run = (struct run){ 0 };
    run->summary = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "verdict", verdict, "state", "complete", "n_planned", 9,
                             "n_pass", 4, "n_skip", 2, "n_fail", 0);
    run->env = json_pack("{s:{s:s}}", "run", "report", "fp16");
    run->source = json_object();
    run->records.cases = run->cases;
    run->from = (struct kg_export){ &run->records, run->summary, run->env, NULL, run->source };
}

static void close_run(struct run *run) {
    for (size_t i = 0; i < run->records.n_cases; i++) {
        json_decref(run->cases[i].plan);
        json_decref(run->cases[i].result);
    }
    json_decref(run->summary);
    json_decref(run->env);
    json_decref(run->source);
}

static struct kg_case_records *add_case(struct run *run, const char *status, const char *reason) {
    struct kg_case_records *c = &run->cases[run->records.n_cases++];
    ck_assert_uint_le(run->records.n_cases, MAX_CASES);
    c->key = "bench/numerics/logits[cuda,f16,fixture]";
    c->plan = json_pack("{s:s, s:s, s:s, s:s, s:s}", "layer", "bench", "op", "numerics", "name", "logits", "backend",
                        "cuda", "dtype", "f16");
    c->result = json_pack("{s:s, s:s?}", "status", status, "reason", reason);
    return c;
}

static const char *line_of(const struct kg_verdict *v, enum kg_verdict_line line) {
    return kg_buffer_text(&v->lines[line]);
}

static void what_heads_a_run(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *ended;
        bool unsound, compared;
        int regress_code;
        size_t n_met, n_missed;
        const char *word, *before, *goals;
    } ROWS[] = {
        { "pass", false, true, KG_EXIT_OK, 1, 0, "pass", "no worse than 3 runs before: 0 worse, 1 better",
          "not all measured: 1 met, 0 missed, " },
        { "pass", false, true, KG_EXIT_FAILED, 1, 0, "worse", "worse than 3 runs before: 2 worse, 1 missing, 1 better",
          NULL },
        { "pass", false, true, KG_EXIT_OK, 0, 1, "goals missed", NULL, "missed: 0 met, 1 missed, " },
        { "pass", false, true, KG_EXIT_FAILED, 0, 1, "worse", NULL, "missed: 0 met, 1 missed, " },
        { "pass", false, true, KG_EXIT_INCONCLUSIVE, 0, 0, "pass, undecided",
          "undecided against 3 runs before: 0 worse, 1 undecided, 1 better (the clocks differ)",
          "not all measured: 0 met" },
        { "pass", true, true, KG_EXIT_FAILED, 0, 1, "unsound", NULL, NULL },
        { "fail", true, true, KG_EXIT_FAILED, 0, 1, "fail", NULL, NULL },
        { "incomplete", false, false, KG_EXIT_OK, 0, 0, "incomplete", "not compared: there is no history", NULL },
        { "pass", false, false, KG_EXIT_OK, 1, 0, "pass, not compared", "not compared: there is no history", NULL },
    };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const bool failed = ROWS[i].regress_code == KG_EXIT_FAILED;
        struct run run;
        struct kg_verdict v;
        char *reason = (char[]){ "the clocks differ" };
        struct kg_bundle_finding finding = { 0 };
        const struct kg_bundle_findings findings = { &finding, ROWS[i].unsound };
        const struct kg_regression regression = { .baseline.n_items = 3,
                                                  .exit_code = ROWS[i].regress_code,
                                                  .reasons = &reason,
                                                  .n_reasons = 1,
                                                  .counts = { [KG_JUDGED_WORSE] = failed ? 2 : 0,
                                                              [KG_JUDGED_MISSING] = failed,
                                                              [KG_JUDGED_INCONCLUSIVE] =
                                                                  ROWS[i].regress_code == KG_EXIT_INCONCLUSIVE,
                                                              [KG_JUDGED_BETTER] = 1 } };
        open_run(&run, ROWS[i].ended);
        const struct kg_goal_counts goals = { ROWS[i].n_met, ROWS[i].n_missed, 1 };
        kg_verdict_make(&(struct kg_report){ .run = &run.from,
                                             .findings = &findings,
                                             .goals = &goals,
                                             .regression = ROWS[i].compared ? &regression : NULL,
                                             .not_compared = "there is no history" },
                        &v);
        ck_assert_str_eq(v.word, ROWS[i].word);
        if (ROWS[i].before) ck_assert_str_eq(line_of(&v, KG_VERDICT_BEFORE), ROWS[i].before);
        if (ROWS[i].goals)
            ck_assert_msg(strstr(line_of(&v, KG_VERDICT_GOALS), ROWS[i].goals), "%s", line_of(&v, KG_VERDICT_GOALS));
        kg_verdict_free(&v);
        close_run(&run);
    }
}

/* Skips by their reason's first line, the largest group first; a run that measures no goals says so. */
static void lines_of_a_run(struct kg_record *rec, const void *arg) {
    static const char *const REASONS[] = {
        "c", "no libarchive", "d\nfor this file", "no libarchive", "e", "a", "no libarchive", "d\nfor that file", "b"
    };
    struct run run;
    struct kg_verdict v;
    (void)rec, (void)arg;
    open_run(&run, "pass");
    json_object_clear(json_object_get(run.env, "run"));
    json_object_update_new(run.env, json_pack("{s:[{s:s}], s:{s:s}, s:s}", "gpus", "name", "H200", "cpu", "model",
                                              "Xeon", "os", "Debian"));
    json_object_set_new(run.source, "git",
                        json_pack("{s:s, s:b, s:s, s:s}", "commit", "abc", "dirty", 1, "subject", "what was meant",
                                  "author_date", "2001-02-03T04:05:06Z"));
    for (size_t i = 0; i < KG_COUNT_OF(REASONS); i++) add_case(&run, "skip", REASONS[i]);
    add_case(&run, "fail", "no libarchive");
    kg_verdict_make(&(struct kg_report){ .run = &run.from }, &v);
    ck_assert_str_eq(line_of(&v, KG_VERDICT_RESULT), "passed: 4 of 9 cases passed, 0 failed, 2 skipped");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_BEFORE), "not compared: this was written when the run was sealed");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_GOALS), "none: the run was not made to measure any");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_SKIPPED), "9: 3 no libarchive; 2 d; 1 c; 1 e; 2 for 2 other reasons");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_COMMIT),
                     "abc, changed (dirty.diff), \"what was meant\", authored 2001-02-03T04:05:06Z");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_MACHINE), "H200, Xeon, Debian");
    kg_verdict_free(&v);
    close_run(&run);
    open_run(&run, "pass");
    json_object_set_new(run.source, "git_why", json_string("no git"));
    kg_verdict_make(&(struct kg_report){ .run = &run.from }, &v);
    ck_assert_str_eq(line_of(&v, KG_VERDICT_GOALS), "of sprint fp16, not judged here: kigo signoff --figures does");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_SKIPPED), "none");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_COMMIT), "unknown: no git");
    ck_assert_str_eq(line_of(&v, KG_VERDICT_MACHINE), "no GPU, unknown CPU, unknown system");
    kg_verdict_free(&v);
    close_run(&run);
}

/* The sealed report.md says of a run what its sealed page says, and heads it with no verdict that history can overturn.
 */
static void sealed_report_has_the_same_words(struct kg_record *rec, const void *arg) {
    static const enum kg_verdict_line LINES[] = { KG_VERDICT_RESULT, KG_VERDICT_BEFORE, KG_VERDICT_GOALS };
    static const char *const ENDED[] = { "pass", "fail", "incomplete" };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ENDED); i++) {
        struct run run;
        struct kg_verdict v;
        struct kg_buffer report = KG_BUFFER_INIT;
        open_run(&run, ENDED[i]);
        json_object_set_new(run.summary, "bundle_id", json_string("20231114T221320Z-nogit-01234567"));
        json_object_set_new(run.summary, "seed", json_string("7"));
        kg_verdict_make(&(struct kg_report){ .run = &run.from }, &v);
        kg_export_report(&run.from, &report);
        for (size_t k = 0; k < KG_COUNT_OF(LINES); k++)
            ck_assert_msg(strstr(report.data, line_of(&v, LINES[k])) != NULL, "no '%s' in: %s", line_of(&v, LINES[k]),
                          report.data);
        ck_assert_ptr_null(strstr(report.data, "**"));
        kg_buffer_free(&report);
        kg_verdict_free(&v);
        close_run(&run);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "verdict", .name = #function, .run = function }

static const struct kg_case CASES[] = { CASE(what_heads_a_run), CASE(lines_of_a_run),
                                        CASE(sealed_report_has_the_same_words) };

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
