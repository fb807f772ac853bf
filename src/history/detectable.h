/* Which changes one run could not have shown, and how many runs would. */
#ifndef KIGO_HISTORY_DETECTABLE_H
#define KIGO_HISTORY_DETECTABLE_H

#include "history/noisy.h"

enum { KG_UNSEEN_MOST = 5 };

/* Figures of which changes as small as these go unseen. The groups' bounds are 2, 4, 8 and 16 times the least change.
 */
struct kg_unseen {
    size_t n_figures;
    double below;  /* relative: of any of them a change by so much is found in 9 of 10 runs; INFINITY: too few runs */
    size_t n_runs; /* of each build (`regress --confirm`) show the least change; or how many the baseline lacks */
    size_t worst;  /* the figure */
};

/* A change of figure i is found in 9 of 10 runs if it is as large as what regress' rule (noisy.h) demands and 1.28
 * sigmas more. n runs of each build show the least change in 9 of 10 if it is 4 + 1.28 standard errors of their
 * difference, 4 being what Mann-Whitney's test must reach among some hundred suspects. Returns the number of groups
 * that have figures. */
size_t kg_unseen_find(const struct kg_noisy_runs *runs, const struct kg_noisy *noisy,
                      struct kg_unseen groups[KG_UNSEEN_MOST]);

#endif
