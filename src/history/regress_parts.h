/* The parts of a judgement: which runs are the baseline, what is exact, what is noisy. */
#ifndef KIGO_HISTORY_REGRESS_PARTS_H
#define KIGO_HISTORY_REGRESS_PARTS_H

#include "history/annotation.h"
#include "history/regress.h"

/* What the baseline runs have of a case of the judged run, in its definition. */
struct kg_matched {
    const struct kg_run_result *results[KG_BASELINE_RUNS]; /* NULL: nothing, or an annotation takes it out */
    uint32_t same_seed;                                    /* of those that had the judged run's seed: the i-th bit */
};

struct kg_comparison {
    const struct kg_regress_options *options;
    struct kg_regression *out;
    const struct kg_catalogue *catalogue;
    struct kg_annotations annotations;
    struct kg_run run;
    struct kg_run baseline[KG_BASELINE_RUNS]; /* as out->baseline */
    size_t n_baseline;
    struct kg_matched *matched;    /* beside run.results */
    int commits[KG_BASELINE_RUNS]; /* the same number for runs of the same commit */
};

/* Fills out->run and out->baseline, and says in out->reasons why there is none. */
KG_WARN_UNUSED enum kg_status kg_regress_choose(struct kg_history *history, struct kg_comparison *comparison,
                                                struct kg_error *err);
/* Whether a baseline run counts for a case: no annotation takes it out. */
bool kg_regress_counts(const struct kg_comparison *comparison, size_t baseline, const char *key);
/* Fills matched and commits, once the runs are loaded. */
void kg_regress_match(struct kg_comparison *comparison);
/* Of a result of the judged run. */
const struct kg_matched *kg_regress_matched(const struct kg_comparison *comparison, const struct kg_run_result *r);

/* Statuses, missing cases, changed definitions, exact figures; registers and spills of kernels. */
void kg_regress_exact(struct kg_comparison *comparison);
void kg_regress_kernels(struct kg_comparison *comparison);
/* Times and rates: drift, then the screen. */
void kg_regress_noisy(struct kg_comparison *comparison);

/* What a case's result says of its limits, against the tightest that a baseline run had. */
void kg_regress_limits(struct kg_comparison *comparison, const struct kg_run_result *r);
/* Whether both results have the same limits, each of as many values: else their margins do not compare. */
bool kg_regress_same_limits(const struct kg_run *a, const struct kg_run_result *x, const struct kg_run *b,
                            const struct kg_run_result *y);

/* With options->again: names are of runs->figures; what was found takes the place of the screen's verdicts. */
void kg_regress_measure_again(struct kg_comparison *comparison, const struct kg_noisy_runs *runs,
                              const struct kg_confirmation *names, struct kg_noisy *noisy);

/* A new judgement; figure and unit are of the info, if it is not NULL. Valid until the next. */
struct kg_judgement *kg_regress_add(struct kg_comparison *comparison, enum kg_judged judged, const char *subject,
                                    const char *key, const struct kg_figure_info *info, const char *why_fmt, ...)
    KG_PRINTF(6, 7);
void kg_regress_reason(struct kg_regression *out, const char *fmt, ...) KG_PRINTF(2, 3);

#endif
