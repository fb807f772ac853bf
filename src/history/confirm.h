/* Fresh runs of two builds, taken alternately, against each other: is what the screen flagged there when looked at
 * again?
 */
#ifndef KIGO_HISTORY_CONFIRM_H
#define KIGO_HISTORY_CONFIRM_H

#include "history/regress.h"
#include "history/series.h"

enum { KG_CONFIRM_FEWEST = 5 }; /* values on each side; five against five can give a p of 0.004 */

enum kg_confirmed {
    KG_CONFIRMED,       /* adjusted p of at most 5%, and the interval reaches the least change */
    KG_CONFIRMED_SMALL, /* sure, and by the whole interval smaller than what is of interest */
    KG_REFUTED,         /* not sure, and the interval excludes half of what was flagged, and the least change */
    KG_UNCONFIRMED,     /* too few values, or another definition in the two builds */
    KG_UNDECIDED,       /* neither: more rounds would tell */
    KG_CONFIRMED_COUNT,
};
extern const char *const KG_CONFIRMED_NAMES[KG_CONFIRMED_COUNT];

struct kg_confirmation {
    const char *key, *figure, *unit; /* what is looked for */
    int worse;                       /* as in figure_kind.h */
    double flagged;                  /* the relative change that was flagged; NaN: the least change */
    size_t n_before, n_after;        /* values on each side */
    double before, after;            /* medians; NaN: none */
    double change;                   /* relative, by the Hodges-Lehmann shift: the median of all differences */
    double change_lo, change_hi;     /* its 95% interval, of the same ranks (J. L. Hodges and E. L. Lehmann, 1963) */
    double p, adjusted;              /* one-sided exact Mann-Whitney; Benjamini-Hochberg over all confirmations */
    enum kg_confirmed verdict;
};

/* Fills all but the first five members, from the runs of history named on each side. */
KG_WARN_UNUSED enum kg_status kg_confirm(struct kg_history *history, char *const *before_ids, size_t n_before,
                                         char *const *after_ids, size_t n_after, double least_change,
                                         struct kg_confirmation *confirmations, size_t n_confirmations,
                                         struct kg_error *err);

/* What one run of history gave for figures named as above, of which more is worse, as logarithms; NaN: none. *machine:
 * the mean over its canaries; NaN: there are none. *comparison_key is malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_confirm_values(struct kg_history *history, char *id,
                                                const struct kg_confirmation *const *figures, size_t n_figures,
                                                double *values, double *machine, char **comparison_key,
                                                struct kg_error *err);

/* Of a figure's values by run, in the order in which both builds were run alternately, takes off what the canaries of
 * its back end explain (canary_fit.h). It looks at no build: where none changed the figure, the test stays exact. */
void kg_confirm_take_off(const struct kg_series *canaries, size_t n_canaries, const char *group, size_t n_runs,
                         double *by_run);
/* The same for values at hand, logarithms of which more is worse. Then, over all of
 * them, the verdicts. */
void kg_confirm_compare(const double *x, size_t n_x, const double *y, size_t n_y, struct kg_confirmation *confirmation);
void kg_confirm_decide(struct kg_confirmation *confirmations, size_t n, double least_change);
/* Of one whose adjusted p is known, sure at `rate`. */
enum kg_confirmed kg_confirm_verdict(const struct kg_confirmation *confirmation, double rate, double least_change);

#endif
