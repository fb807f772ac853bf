/* What `kigo check` prints while it runs and at its end: text for people, TAP for Automake (the summary as comments,
 * and as plain text on standard error), or one JSON object. */
#ifndef KIGO_CLI_CHECK_REPORT_H
#define KIGO_CLI_CHECK_REPORT_H

#include "run/runner.h"

enum kg_check_format { KG_CHECK_TEXT, KG_CHECK_VERBOSE, KG_CHECK_QUIET, KG_CHECK_TAP, KG_CHECK_JSON };

/* Cases that have ended. */
struct kg_check_tally {
    size_t n_pass, n_fail, n_skip; /* crash and timeout count as failed */
};

struct kg_check_report {
    const json_t *run; /* what was asked for, as the bundle keeps it */
    enum kg_check_format format;
    bool on_terminal; /* one line on standard error is redrawn with the case that runs */
    size_t n_planned, n_ended;
    struct kg_check_tally all;
    struct kg_check_tally *programs; /* of each program of the plan; several may run at once */
    const struct kg_case_plan *plan; /* NULL until there is one */
    json_t *not_passed;              /* failures and skips, in the order they came */
};

/* run: as in kg_bundle_options; it must outlive the report. */
void kg_check_report_init(struct kg_check_report *report, const json_t *run, enum kg_check_format format);
struct kg_run_observer kg_check_report_observer(struct kg_check_report *report);
void kg_check_report_finish(struct kg_check_report *report, const struct kg_run_outcome *outcome);
/* In TAP the reader of standard output learns of an error there too. */
void kg_check_report_error(struct kg_check_report *report, const struct kg_error *err);
void kg_check_report_free(struct kg_check_report *report);

#endif
