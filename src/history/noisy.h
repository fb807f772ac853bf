/* Judges times and rates by their values alone: what regress does once it has read them. */
#ifndef KIGO_HISTORY_NOISY_H
#define KIGO_HISTORY_NOISY_H

#include "history/drift.h"
#include "history/family.h"
#include "history/screen.h"

enum { KG_BASELINE_RUNS = 20 };

struct kg_noisy_runs {
    const struct kg_series *figures; /* more is worse; by run: the judged one, then its baseline, newest first */
    const double *floors;            /* of each figure: the smallest change of interest, as a logarithm */
    size_t n_figures;
    const struct kg_series *canaries;
    size_t n_canaries;
    size_t n_runs;       /* the judged one included; at most 1 + KG_BASELINE_RUNS */
    double least_change; /* as a logarithm */
};

struct kg_noisy {
    struct kg_screen_figure *figures; /* beside those judged */
    double (*values)[KG_BASELINE_RUNS];
    double *by_run; /* figures[i] of run j, freed of drift: [i * n_runs + j] */
    size_t *since;  /* of figures that are worse: how many of the newest baseline runs were so already */
    struct kg_drift *drifts;
    size_t n_drifts;
    struct kg_family family;
};

/* Takes drift off, screens each figure by itself, and holds what the screen calls worse against the family: worse only
 * beyond its limit `red`, SUSPECT beyond its limit `suspect`, else SAME. A figure that stays worse (family.h) since
 * some run of the baseline is worse too. */
void kg_noisy_judge(const struct kg_noisy_runs *runs, struct kg_noisy *out);
void kg_noisy_free(struct kg_noisy *noisy);

#endif
