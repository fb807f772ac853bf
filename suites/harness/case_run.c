#include "suites/harness/case_run.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "bundle/source_tree.h"
#include <check.h>
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

/* In place of Check's _mark_point, which writes the place of each assertion that holds to a file, for the report of a
 * process that dies. Cases run in Check's own process here and the runner says which case was running, so nobody reads
 * them; a case that looks at every byte of an answer wrote half a million.
 */
void kg_assertion_held(const char *file, int line) {
    (void)file;
    (void)line;
}

/* Check calls test functions without an argument, so the case that runs is handed over here. */
static struct kg_record *running;

START_TEST(run_running_case) {
    if (running->c->source_tree && !kg_source_tree())
        kg_record_skip(running, "it reads kigo's source tree, which is not where this kigo is");
    else running->c->run(running, running->c->arg);
}
END_TEST

const char *kg_outcome_name(enum kg_outcome outcome) {
    static const char *const NAMES[] = { "pass", "fail", "skip" };
    return NAMES[outcome];
}

/* Relative to the source tree, so that records of two checkouts read alike. */
static const char *source_path(const char *file) {
    static const char PREFIX[] = KG_SOURCE_DIR "/";
    if (!file) return "?";
    return strncmp(file, PREFIX, sizeof PREFIX - 1) == 0 ? file + sizeof PREFIX - 1 : file;
}

static void read_result(SRunner *runner, struct kg_case_result *result) {
    if (srunner_ntests_run(runner) != 1) {
        result->outcome = KG_OUTCOME_FAIL;
        result->reason = kg_xasprintf("Check ran %d tests, not 1", srunner_ntests_run(runner));
        return;
    }
    TestResult **results = srunner_results(runner);
    TestResult *r = results[0];
    if (tr_rtype(r) == CK_PASS) {
        result->outcome = KG_OUTCOME_PASS;
    } else {
        const char *message = tr_msg(r);
        result->outcome = KG_OUTCOME_FAIL;
        result->reason = kg_xstrdup(message && *message ? message : "failed without a message");
        result->where = kg_xasprintf("%s:%d", source_path(tr_lfile(r)), tr_lno(r));
    }
    free(results);
}

void kg_case_run(struct kg_record *rec, struct kg_case_result *result) {
    *result = (struct kg_case_result){ .outcome = KG_OUTCOME_FAIL }; /* until Check says that it passed */
    Suite *suite = suite_create("kigo");
    TCase *tcase = tcase_create("case");
    tcase_add_test(tcase, run_running_case);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    running = rec;
    fesetenv(FE_DFL_ENV);
    const uint64_t start_ns = kg_clock_monotonic_ns();
    srunner_run(runner, NULL, NULL, CK_SILENT);
    kg_record_clean_up(rec); /* what a case leaves behind is part of what it costs */
    result->duration_ns = kg_clock_monotonic_ns() - start_ns;
    fesetenv(FE_DFL_ENV);
    running = NULL;
    read_result(runner, result);
    srunner_free(runner);
    if (result->outcome == KG_OUTCOME_PASS && rec->skip_reason) {
        result->outcome = KG_OUTCOME_SKIP;
        result->reason = kg_xstrdup(rec->skip_reason);
    }
}

void kg_case_result_free(struct kg_case_result *result) {
    free(result->reason);
    free(result->where);
}
