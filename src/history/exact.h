/* Exact figures: the same program gives the same value, unless the figure's own past says that it does not. */
#ifndef KIGO_HISTORY_EXACT_H
#define KIGO_HISTORY_EXACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values that a figure had in baseline runs, newest first, more is worse; of what commit each is: equal numbers are
 * one commit, distinct ones several. At most 32. */
struct kg_exact_past {
    const double *values;
    const int *commits;
    size_t n;
};

enum kg_exact_verdict {
    KG_EXACT_SAME,
    KG_EXACT_WORSE,
    KG_EXACT_BETTER,
    KG_EXACT_SUSPECT, /* worse, but figures of this name take several values without any change */
};

/* A bit (1 << place) for the last run of each value that came and went: some newer and some older run have one and the
 * same other value. A change that was taken back ends in one place, a figure that takes two values by chance in many.
 */
uint32_t kg_exact_visits(const struct kg_exact_past *past);

/* The limit is the lowest level in the past, where a commit's level is the worst of its runs: a worse value stays worse
 * however many runs have had it. Where at least 4 values change in most runs, the figure follows something that runs do
 * not share, and the limit is the worst of all.
 * SUSPECT instead of worse: of a value no worse than one that came and went in this figure, and of any where figures of
 * the same name came and went in at least 3 places (others_visits: the union of theirs). n > 0. */
enum kg_exact_verdict kg_exact_judge(const struct kg_exact_past *past, double value, uint32_t others_visits,
                                     double *limit);

#endif
