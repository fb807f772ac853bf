#include "suites/support/routes.h"
#include "base/buffer.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct kg_backend_ops ops; /* a copy of the back end's table with another router */
    const struct kg_backend_ops *own;
    struct kg_routes *routes;
} active;

static void *fetch(struct kg_backend *backend, const void *from, size_t size_bytes) {
    void *host = kg_xmalloc(size_bytes);
    struct kg_error err;
    kg_must(backend->ops->download(backend, host, from, size_bytes, &err), &err);
    return host;
}

/* What the back end's own router makes of a call. */
static struct kg_route_call call_of(struct kg_backend *backend, const struct kg_router_args *args) {
    return (struct kg_route_call){
        .n_rows = args->n_rows,
        .n_experts = args->n_experts,
        .n_used = args->n_used,
        .ids = fetch(backend, args->ids, (size_t)args->n_rows * args->n_used * sizeof(int32_t)),
        .logits = fetch(backend, args->logits, (size_t)args->n_rows * args->n_experts * sizeof(float)),
    };
}

static void call_free(struct kg_route_call *call) {
    free(call->ids);
    free(call->logits);
}

static enum kg_status take_down(struct kg_backend *backend, const struct kg_router_args *args, struct kg_error *err) {
    struct kg_routes *r = active.routes;
    const enum kg_status status = active.own->router(backend, args, err);
    if (status) return status;
    r->calls = kg_xrealloc(r->calls, (r->n_calls + 1) * sizeof *r->calls);
    r->calls[r->n_calls++] = call_of(backend, args);
    return KG_OK;
}

static bool has(const int32_t *ids, uint32_t n, int32_t id) {
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* A row's choice against the one taken down, in whatever order. */
static void count_row(struct kg_routes *r, const struct kg_route_call *was, const int32_t *was_ids,
                      const float *was_logits, const int32_t *ids) {
    bool flipped = false;
    double last = INFINITY, next = -INFINITY;
    for (uint32_t i = 0; i < was->n_used; i++) flipped = flipped || !has(was_ids, was->n_used, ids[i]);
    for (uint32_t e = 0; e < was->n_experts; e++)
        if (has(was_ids, was->n_used, (int32_t)e)) last = fmin(last, was_logits[e]);
        else next = fmax(next, was_logits[e]);
    r->n_decisions++;
    r->n_flips += flipped;
    if (flipped) r->widest_flip = fmax(r->widest_flip, last - next);
}

/* The softmax over the chosen, as ops/router.h has it. */
static void weigh(const int32_t *ids, uint32_t n_used, const float *logits, float *weights) {
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n_used; i++) most = fmax(most, logits[ids[i]]);
    for (uint32_t i = 0; i < n_used; i++) sum += exp(logits[ids[i]] - most);
    for (uint32_t i = 0; i < n_used; i++) weights[i] = (float)(exp(logits[ids[i]] - most) / sum);
}

static enum kg_status force(struct kg_backend *backend, const struct kg_router_args *args, struct kg_error *err) {
    struct kg_routes *r = active.routes;
    enum kg_status status = active.own->router(backend, args, err);
    if (status) return status;
    ck_assert_msg(r->next < r->n_calls, "call %zu of the router: %zu were taken down", r->next, r->n_calls);
    const struct kg_route_call *was = &r->calls[r->next++];
    ck_assert_msg(was->n_rows == args->n_rows && was->n_experts == args->n_experts && was->n_used == args->n_used,
                  "call %zu of the router has %u rows, %u were taken down", r->next - 1, args->n_rows, was->n_rows);
    struct kg_route_call now = call_of(backend, args);
    float *weights = kg_xcalloc((size_t)args->n_rows * args->n_used, sizeof *weights);
    for (size_t row = 0; row < args->n_rows; row++) {
        const int32_t *ids = was->ids + row * args->n_used;
        count_row(r, was, ids, was->logits + row * args->n_experts, now.ids + row * args->n_used);
        weigh(ids, args->n_used, now.logits + row * args->n_experts, weights + row * args->n_used);
    }
    const size_t n = (size_t)args->n_rows * args->n_used;
    status = backend->ops->upload(backend, args->ids, was->ids, n * sizeof *was->ids, err);
    if (!status) status = backend->ops->upload(backend, args->weights, weights, n * sizeof *weights, err);
    free(weights);
    call_free(&now);
    return status;
}

static void replace(struct kg_backend *backend, struct kg_routes *routes,
                    enum kg_status (*router)(struct kg_backend *, const struct kg_router_args *, struct kg_error *)) {
    ck_assert_msg(!active.own, "another back end's routes are in the works");
    active.ops = *backend->ops;
    active.ops.router = router;
    active.own = backend->ops;
    active.routes = routes;
    backend->ops = &active.ops;
}

void kg_routes_take_down(struct kg_backend *backend, struct kg_routes *routes) {
    replace(backend, routes, take_down);
}

void kg_routes_force(struct kg_backend *backend, struct kg_routes *routes) {
    routes->next = 0;
    replace(backend, routes, force);
}

void kg_routes_end(struct kg_backend *backend) {
    backend->ops = active.own;
    active.own = NULL;
}

void kg_routes_clear(struct kg_routes *routes) {
    for (size_t i = 0; i < routes->n_calls; i++) call_free(&routes->calls[i]);
    free(routes->calls);
    routes->calls = NULL;
    routes->n_calls = routes->next = 0;
}
