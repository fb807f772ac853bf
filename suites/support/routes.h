/* Which experts a mixture's routers choose, taken down in one session and forced upon another: what rounding changes in
 * the sums is seen apart from what it changes by choosing other experts, where two are nearly as good.
 *
 * One back end at a time, whose table is replaced by one with another router; the sessions evaluate the same ids in the
 * same pieces, not as decode steps. */
#ifndef KIGO_SUITES_ROUTES_H
#define KIGO_SUITES_ROUTES_H

#include "backend/backend.h"

struct kg_route_call {
    uint32_t n_rows, n_experts, n_used;
    int32_t *ids;  /* (n_rows, n_used) */
    float *logits; /* (n_rows, n_experts) */
};

struct kg_routes {
    struct kg_route_call *calls; /* of the router, in order */
    size_t n_calls, next;        /* next: the call that is forced next */
    size_t n_decisions, n_flips; /* rows of calls that were forced, and those that would have chosen other experts */
    double widest_flip; /* of the flips: what the last expert taken down was ahead of the first not chosen, at most */
};

/* Adds the calls from now on to `routes`. */
void kg_routes_take_down(struct kg_backend *backend, struct kg_routes *routes);
/* From now on calls get the experts that were taken down, weighted by their own logits. Fails the case where there is
 * no such call. */
void kg_routes_force(struct kg_backend *backend, struct kg_routes *routes);
/* The back end has its own table again. */
void kg_routes_end(struct kg_backend *backend);
/* Frees the calls; the counts stay. */
void kg_routes_clear(struct kg_routes *routes);

#endif
