#include "ops/attention.h"
#include "ops/check.h"
#include "ops/online_softmax.h"
#include <math.h>

enum { MIN_PRODUCTS_PER_RANGE = 32768 };

enum kg_status kg_attention_check(const struct kg_attention_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->q && args->k_cache && args->v_cache && args->y, "attention: q, y or a cache is missing");
    KG_OP_REQUIRE(args->q != args->y, "attention: y is q");
    KG_OP_REQUIRE(args->head_dim && args->head_dim <= KG_ATTENTION_MAX_HEAD_DIM,
                  "attention: the head size %u is outside [1, %d]", args->head_dim, KG_ATTENTION_MAX_HEAD_DIM);
    KG_OP_REQUIRE(args->n_heads && args->n_kv_heads && args->n_heads % args->n_kv_heads == 0,
                  "attention: %u heads cannot share %u KV heads", args->n_heads, args->n_kv_heads);
    KG_OP_REQUIRE(args->n_rows <= args->n_keys && args->n_keys <= args->n_ctx,
                  "attention: %u rows, %u keys, a cache of %u", args->n_rows, args->n_keys, args->n_ctx);
    KG_OP_REQUIRE(args->causal || args->window == 0, "attention: a window of %u without causal", args->window);
    KG_OP_REQUIRE(isfinite(args->scale), "attention: the scale is %g", (double)args->scale);
    return KG_OK;
}

/* Items are (row, head) pairs. */
static void row_heads(void *arg, size_t begin, size_t end) {
    const struct kg_attention_args *args = arg;
    const size_t dim = args->head_dim, group = args->n_heads / args->n_kv_heads;
    struct kg_online_softmax sum;
    for (size_t item = begin; item < end; item++) {
        const size_t row = item / args->n_heads, head = item % args->n_heads;
        const size_t position = (size_t)(args->n_keys - args->n_rows) + row;
        const size_t last = args->causal ? position + 1 : args->n_keys;
        const size_t first = args->window && position + 1 > args->window ? position + 1 - args->window : 0;
        const size_t plane = head / group * args->n_ctx * dim;
        const float *q = (const float *)args->q + item * dim;
        float *y = (float *)args->y + item * dim;

        kg_online_softmax_init(&sum, dim);
        const size_t at = plane + first * dim;
        kg_online_softmax_add(&sum, q, (const float *)args->k_cache + at, (const float *)args->v_cache + at, dim, dim,
                              last - first, dim, (double)args->scale);
        /* A large sink makes all weights small, so rescale to the larger of the sink and the largest score. */
        const double sink = args->sinks ? (double)args->sinks[head] : -INFINITY;
        const double largest = fmax(sum.largest, sink), shrink = exp(sum.largest - largest);
        const double weight = sum.weight * shrink + exp(sink - largest);
        for (size_t d = 0; d < dim; d++) y[d] = (float)(sum.value[d] * shrink / weight);
    }
}

enum kg_status kg_cpu_attention(struct kg_thread_pool *pool, const struct kg_attention_args *args,
                                struct kg_error *err) {
    enum kg_status status = kg_attention_check(args, err);
    if (!status) status = kg_cpu_require_f32("attention", "activations", args->activations, err);
    if (!status) status = kg_cpu_require_f32("attention", "KV cache", args->kv, err);
    if (status || args->n_rows == 0) return status;
    const size_t products_per_item = 2 * (size_t)args->n_keys * args->head_dim;
    kg_parallel_for(pool, (size_t)args->n_rows * args->n_heads, MIN_PRODUCTS_PER_RANGE / products_per_item + 1,
                    row_heads, (void *)args);
    return KG_OK;
}
