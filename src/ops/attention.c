#include "ops/attention.h"
#include "base/clones.h"
#include "ops/check.h"
#include "ops/dot.h"
#include <math.h>

/* Keys are taken in blocks counted from the first one a row sees, so that its sums are in the same order in any batch.
 * Between blocks the sums are kept relative to the largest score so far. */
enum { KEY_BLOCK = 64, MIN_PRODUCTS_PER_RANGE = 32768 };

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

struct softmax_sum {
    double largest; /* score so far */
    double weight;  /* sum of exp(score - largest) */
    double value[KG_ATTENTION_MAX_HEAD_DIM];
};

/* Adds n keys, 0 < n <= KEY_BLOCK, whose rows k and v point to. */
KG_VECTOR_CLONES static void add_keys(struct softmax_sum *sum, const float *q, const float *k, const float *v, size_t n,
                                      size_t dim, double scale) {
    double score[KEY_BLOCK];
    double largest = sum->largest;
    size_t j = 0;
    do { /* n is not 0: every score used below is written */
        score[j] = kg_dot(q, k + j * dim, dim) * scale;
        if (score[j] > largest) largest = score[j];
    } while (++j < n);
    if (largest > sum->largest) {
        const double shrink = exp(sum->largest - largest); /* exp(-inf) = 0 before the first block */
        sum->weight *= shrink;
        for (size_t d = 0; d < dim; d++) sum->value[d] *= shrink;
        sum->largest = largest;
    }
    for (j = 0; j < n; j++) {
        const double p = exp(score[j] - sum->largest);
        const float *value = v + j * dim;
        sum->weight += p;
        for (size_t d = 0; d < dim; d++) sum->value[d] += p * (double)value[d];
    }
}

/* Items are (row, head) pairs. */
static void row_heads(void *arg, size_t begin, size_t end) {
    const struct kg_attention_args *args = arg;
    const size_t dim = args->head_dim, group = args->n_heads / args->n_kv_heads;
    struct softmax_sum sum;
    for (size_t item = begin; item < end; item++) {
        const size_t row = item / args->n_heads, head = item % args->n_heads;
        const size_t position = (size_t)(args->n_keys - args->n_rows) + row;
        const size_t last = args->causal ? position + 1 : args->n_keys;
        const size_t first = args->window && position + 1 > args->window ? position + 1 - args->window : 0;
        const size_t plane = head / group * args->n_ctx * dim;
        const float *q = (const float *)args->q + item * dim;
        float *y = (float *)args->y + item * dim;

        sum.largest = -INFINITY;
        sum.weight = 0;
        memset(sum.value, 0, dim * sizeof *sum.value);
        for (size_t j = first, stop; j < last; j = stop) {
            stop = last - j < KEY_BLOCK ? last : j + KEY_BLOCK;
            const size_t at = plane + j * dim;
            add_keys(&sum, q, (const float *)args->k_cache + at, (const float *)args->v_cache + at, stop - j, dim,
                     (double)args->scale);
        }
        for (size_t d = 0; d < dim; d++) y[d] = (float)(sum.value[d] / sum.weight);
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
