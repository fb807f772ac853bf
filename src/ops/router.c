#include "ops/router.h"
#include "ops/check.h"
#include <math.h>
#include <stdbool.h>

enum { MIN_LOGITS_PER_RANGE = 16384 };

enum kg_status kg_router_check(const struct kg_router_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->logits && args->ids && args->weights, "router: logits, ids or weights are missing");
    KG_OP_REQUIRE(args->n_experts && args->n_experts <= KG_ROUTER_MAX_EXPERTS, "router: %u experts, not in [1, %d]",
                  args->n_experts, KG_ROUTER_MAX_EXPERTS);
    KG_OP_REQUIRE(args->n_used && args->n_used <= args->n_experts, "router: %u of %u experts", args->n_used,
                  args->n_experts);
    return KG_OK;
}

/* Whether expert a ranks before b. Comparisons with NaN are false, so NaN logits rank by id. */
static bool is_before(const float *logits, uint32_t a, uint32_t b) {
    return logits[a] > logits[b] || (a < b && !(logits[b] > logits[a]));
}

/* The n_used best experts in order, by insertion sort. */
static void choose(const float *logits, uint32_t n_experts, uint32_t n_used, int32_t *ids) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < n_experts; e++) {
        uint32_t at = n < n_used ? n++ : n_used;
        if (at == n_used && !is_before(logits, e, (uint32_t)ids[--at])) continue;
        for (; at > 0 && is_before(logits, e, (uint32_t)ids[at - 1]); at--) ids[at] = ids[at - 1];
        ids[at] = (int32_t)e;
    }
}

static void rows(void *arg, size_t begin, size_t end) {
    const struct kg_router_args *args = arg;
    for (size_t r = begin; r < end; r++) {
        const float *logits = args->logits + r * args->n_experts;
        int32_t *ids = args->ids + r * args->n_used;
        float *weights = args->weights + r * args->n_used;
        bool finite = true;
        for (uint32_t e = 0; e < args->n_experts; e++) finite = finite && isfinite(logits[e]);
        choose(logits, args->n_experts, args->n_used, ids);
        const double largest = logits[ids[0]];
        double sum = 0;
        for (uint32_t j = 0; j < args->n_used; j++) sum += exp((double)logits[ids[j]] - largest);
        for (uint32_t j = 0; j < args->n_used; j++)
            weights[j] = finite ? (float)(exp((double)logits[ids[j]] - largest) / sum) : NAN;
    }
}

enum kg_status kg_cpu_router(struct kg_thread_pool *pool, const struct kg_router_args *args, struct kg_error *err) {
    const enum kg_status status = kg_router_check(args, err);
    if (status) return status;
    kg_parallel_for(pool, args->n_rows, MIN_LOGITS_PER_RANGE / args->n_experts + 1, rows, (void *)args);
    return KG_OK;
}
