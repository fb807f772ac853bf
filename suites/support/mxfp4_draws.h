/* Ids drawn from logits over MXFP4 weights, against the draw that float64's probabilities say. */
#ifndef KIGO_SUITES_MXFP4_DRAWS_H
#define KIGO_SUITES_MXFP4_DRAWS_H

#include "suites/support/mxfp4_values.h"

enum kg_mxfp4_draw { KG_MXFP4_GREEDY, KG_MXFP4_TEMPERATURE, KG_MXFP4_TOP_K, KG_MXFP4_TOP_P };

/* Draws each id whose share of [0, 1) is large enough to be distinguished from its neighbours', with a uniform number
 * in the middle of that share. The cuts (k, and p of the sum) lie between logits that are far apart. logits: one row,
 * float32. */
void kg_mxfp4_expect_draws(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *logits, enum kg_mxfp4_draw way);

#endif
