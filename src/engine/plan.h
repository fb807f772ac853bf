/* Makes the plan of a session (backend/plan.h): what a decoder layer is, once for every back end.
 *
 *     x = scale embedding[ids] + positions
 *     layer: n = norm(x); q, k, v = n Wq + bq, n Wk + bk, n Wv + bv; q, k = [norm of each head];
 *            q, k = rope(q), rope(k); cache <- k, v
 *            x = x + [norm] (attention(q, cache) Wo + bo)
 *            n = norm(x), then by the model's kind
 *              gated    x = x + [norm] (swiglu(n Wgate, n Wup) Wdown)
 *              gelu     x = x + gelu(n Wup) Wdown
 *              experts  e, w = router(n Wrouter); x = x + sum_j w_j swiglu(n Wgate[e_j], n Wup[e_j]) Wdown[e_j]
 *     logits = norm(x) Woutput
 *
 * each product with its bias; what stands in brackets is there where the model has weights for it. */
#ifndef KIGO_ENGINE_PLAN_H
#define KIGO_ENGINE_PLAN_H

#include "backend/plan.h"

struct kg_session;

/* Of a session whose cache, buffers and workspace are there. KG_ERR_NO_MEMORY. */
KG_WARN_UNUSED enum kg_status kg_plan_create(const struct kg_session *session, struct kg_plan **plan,
                                             struct kg_error *err);
void kg_plan_free(struct kg_plan *plan); /* NULL is good */

/* The name of a buffer that nodes read or write: "norm"; "cache" for memory that is none of the plan's buffers. */
const char *kg_plan_buffer_name(const struct kg_plan *plan, const void *data);

#endif
