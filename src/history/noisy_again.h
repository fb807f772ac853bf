/* What a run's times and rates make suspect, measured again. */
#ifndef KIGO_HISTORY_NOISY_AGAIN_H
#define KIGO_HISTORY_NOISY_AGAIN_H

#include "history/again.h"
#include "history/noisy.h"

enum { KG_AGAIN_SAMPLE = 30 }; /* figures that stand for all of a back end */

/* Suspects are figures that are a sixth of their floor slower than their baseline's centre, and back ends of which what
 * canaries do not explain (D, drift.h) is a sixth of the least change above its lowest level. */
struct kg_noisy_again {
    struct kg_again_item *items; /* the figures' come first */
    size_t n_items, n_of_figures, n_left_out;
    size_t *places;  /* of items: the figure's, or the drift's */
    size_t *figures; /* what items point into */
};

/* At most `most` figures, those furthest from their baseline first. */
void kg_noisy_suspects(const struct kg_noisy_runs *runs, const struct kg_noisy *noisy, size_t most,
                       struct kg_noisy_again *again);
void kg_noisy_again_free(struct kg_noisy_again *again);

/* Measures them, and puts what was found in the place of the screen's verdicts: WORSE confirmed, SUSPECT undecided,
 * SAME refuted or too small to matter. What could not be measured stays as it was. */
KG_WARN_UNUSED enum kg_status kg_noisy_decide(const struct kg_noisy_runs *runs, struct kg_noisy *noisy,
                                              struct kg_noisy_again *again, const struct kg_again_source *source,
                                              struct kg_error *err);

/* The baseline run (1 .. n_runs - 1) that a build to compare with should be of: the newest that flagged figures are
 * worse than by more than half of their change, as they are than the two before it; of the most figures that agree. */
size_t kg_noisy_baseline(const struct kg_noisy_runs *runs, const struct kg_noisy *noisy);

#endif
