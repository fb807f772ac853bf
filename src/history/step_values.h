/* Figures of a few cases through many runs, read by case: what other cases gave is not looked at. */
#ifndef KIGO_HISTORY_STEP_VALUES_H
#define KIGO_HISTORY_STEP_VALUES_H

#include "history/run.h"
#include "history/series.h"

struct kg_step_values {
    const struct kg_run_result **results; /* of the newest run, by series */
    const struct kg_figure_info **figures;
    size_t *occurrences, *cases; /* of the figure's name in the case; a number for each case */
    struct kg_series *series;
    double *values; /* what series point into */
    size_t n, n_columns;
};

/* Every figure of one class that the newest run gives and `wants` (NULL: all) takes. Columns: the runs of `runs` in
 * their order. */
KG_WARN_UNUSED enum kg_status kg_step_values_load(struct kg_history *history, const struct kg_catalogue *catalogue,
                                                  const struct kg_run *newest, enum kg_figure_class class,
                                                  bool (*wants)(void *arg, const struct kg_case_info *c,
                                                                const struct kg_figure_info *figure),
                                                  void *arg, const struct kg_run_head *const *runs, size_t n_runs,
                                                  struct kg_step_values *out, struct kg_error *err);
void kg_step_values_free(struct kg_step_values *values);

#endif
