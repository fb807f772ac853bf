#include "ops/attention_weights.h"
#include "ops/attention.h"
#include "ops/check.h"
#include "ops/dot.h"
#include <float.h>
#include <math.h>

/* The least multiplications in a thread's range of rows. */
enum { MIN_PRODUCTS_PER_RANGE = 32768 };

enum kg_status kg_attention_weights_check(const struct kg_attention_weights_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->q && args->k && args->y, "attention_weights: q, k or y is missing");
    KG_OP_REQUIRE(args->head_dim > 0 && args->head_dim <= KG_ATTENTION_MAX_HEAD_DIM,
                  "attention_weights: a head of %u dims; 1 to %d are possible", args->head_dim,
                  (int)KG_ATTENTION_MAX_HEAD_DIM);
    KG_OP_REQUIRE(args->n_heads > 0 && args->n_kv_heads > 0 && args->n_heads % args->n_kv_heads == 0,
                  "attention_weights: %u heads cannot share %u KV heads", args->n_heads, args->n_kv_heads);
    KG_OP_REQUIRE(isfinite(args->scale), "attention_weights: the scale is %g", (double)args->scale);
    KG_OP_REQUIRE(args->window == 0 || args->causal, "attention_weights: a window of %u keys without causal",
                  args->window);
    return KG_OK;
}

struct range {
    size_t begin, end;
};

static struct range seen_keys(const struct kg_attention_weights_args *args, size_t query) {
    struct range seen = { 0, args->n_keys };
    if (!args->causal) return seen;
    const int64_t end = (int64_t)args->n_keys - args->n_queries + (int64_t)query + 1;
    seen.end = end > 0 ? (size_t)end : 0;
    if (args->window > 0 && seen.end > args->window) seen.begin = seen.end - args->window;
    return seen;
}

/* A row is a query of a head. Scores are computed again for each pass. */
static void rows(void *arg, size_t begin, size_t end) {
    const struct kg_attention_weights_args *args = arg;
    const size_t dim = args->head_dim, n_keys = args->n_keys;
    for (size_t r = begin; r < end; r++) {
        const size_t head = r / args->n_queries, query = r % args->n_queries;
        const size_t kv_head = head / (args->n_heads / args->n_kv_heads), k_stride = args->n_kv_heads * dim;
        const float *q = (const float *)args->q + (query * args->n_heads + head) * dim;
        const float *k = (const float *)args->k + kv_head * dim;
        float *y = (float *)args->y + r * n_keys;
        const struct range seen = seen_keys(args, query);
        const double scale = (double)args->scale;
        /* The smallest finite number keeps -inf from being the largest; its exponential is then 0. */
        double largest = args->sinks ? (double)args->sinks[head] : -DBL_MAX, sum = 0;
        for (size_t j = seen.begin; j < seen.end; j++)
            largest = fmax(largest, scale * kg_dot(q, k + j * k_stride, dim));
        for (size_t j = seen.begin; j < seen.end; j++) sum += exp(scale * kg_dot(q, k + j * k_stride, dim) - largest);
        if (args->sinks) sum += exp((double)args->sinks[head] - largest);
        const double share = sum == 0 ? 0 : 1 / sum;
        for (size_t j = 0; j < n_keys; j++) {
            const bool sees = j >= seen.begin && j < seen.end;
            y[j] = sees ? (float)(exp(scale * kg_dot(q, k + j * k_stride, dim) - largest) * share) : 0;
        }
    }
}

enum kg_status kg_cpu_attention_weights(struct kg_thread_pool *pool, const struct kg_attention_weights_args *args,
                                        struct kg_error *err) {
    enum kg_status status = kg_attention_weights_check(args, err);
    if (!status) status = kg_cpu_require_f32("attention_weights", "activations", args->activations, err);
    if (status) return status;
    const size_t products = (size_t)args->n_keys * args->head_dim;
    kg_parallel_for(pool, (size_t)args->n_heads * args->n_queries, MIN_PRODUCTS_PER_RANGE / (products + 1) + 1, rows,
                    (void *)args);
    return KG_OK;
}
