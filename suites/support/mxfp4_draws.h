/* Ids drawn from logits over MXFP4 weights, against the draw that float64's probabilities say. */
#ifndef KIGO_SUITES_MXFP4_DRAWS_H
#define KIGO_SUITES_MXFP4_DRAWS_H

#include "suites/support/mxfp4_values.h"

enum kg_mxfp4_draw { KG_MXFP4_GREEDY, KG_MXFP4_TEMPERATURE, KG_MXFP4_TOP_K, KG_MXFP4_TOP_P };

/* Draws each id that is likely enough for its share of [0, 1) to be told apart from its neighbours', by a number in the
 * middle of that share. Cuts (k, and p of the sum) lie where the logits on either side are apart. logits: one row,
 * float32. */
void kg_mxfp4_expect_draws(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *logits, enum kg_mxfp4_draw way);

#endif
