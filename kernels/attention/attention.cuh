/* What the attention kernels share: their parameters, which keys a row sees, and how decode splits the keys.
 *
 * A kernel is given the arguments of ops/attention.h by value. While a decode step is captured, `step` stands for the
 * position: n_keys is step->position + 1, read when the kernel runs. */
#ifndef KIGO_KERNELS_ATTENTION_ATTENTION_CUH
#define KIGO_KERNELS_ATTENTION_ATTENTION_CUH

#include "kernels/block/precision.cuh"
#include <math_constants.h>

constexpr uint32_t KG_ATTENTION_CUDA_MAX_HEAD_DIM = 256;

struct kg_attention_params {
    const void *q, *k, *v;
    void *y;
    enum kg_precision activations, kv;
    uint32_t n_rows, n_keys, n_heads, n_kv_heads, head_dim, n_ctx, window;
    float scale;
    bool causal;
    const struct kg_cuda_step *step;
    const float *sinks; /* (n_heads), NULL for none */
    /* Decode: (n_heads, n_splits, head_dim) weighted values, then (n_heads, n_splits) of largest score and sum. */
    float *partials;
    uint32_t n_splits;
};

/* Of an attention's arguments; partials and n_splits are left to who needs them. */
static inline struct kg_attention_params kg_attention_params_of(const struct kg_attention_args *a,
                                                                const struct kg_cuda_step *step) {
    return { a->q,        a->k_cache, a->v_cache, a->y,       a->activations,
             a->kv,       a->n_rows,  a->n_keys,  a->n_heads, a->n_kv_heads,
             a->head_dim, a->n_ctx,   a->window,  a->scale,   a->causal,
             step,        a->sinks,   NULL,       0 };
}

struct kg_key_range {
    uint32_t begin, end; /* [begin, end) */
};

/* Keys are split over blocks so that about KG_SPLIT_BLOCKS of them share the reading, in pieces of whole
 * KG_SPLIT_KEYS. The number of splits depends on the heads only: the same bits on every device, captured or not. */
constexpr uint32_t KG_SPLIT_BLOCKS = 256, KG_SPLIT_KEYS = 64, KG_MAX_SPLITS = 128;

static inline uint32_t kg_attention_n_splits(uint32_t n_kv_heads) {
    const uint32_t n = KG_SPLIT_BLOCKS / n_kv_heads;
    return n < 1 ? 1 : n < KG_MAX_SPLITS ? n : KG_MAX_SPLITS;
}

/* Keys that the last of n_keys positions sees. */
static inline __host__ __device__ kg_key_range kg_keys_of_last(uint32_t n_keys, uint32_t window) {
    kg_key_range range;
    range.begin = window > 0 && n_keys > window ? n_keys - window : 0;
    range.end = n_keys;
    return range;
}

static inline __host__ __device__ uint32_t kg_keys_per_split(const kg_key_range &all, uint32_t n_splits) {
    const uint32_t share = (all.end - all.begin + n_splits - 1) / n_splits;
    return (share + KG_SPLIT_KEYS - 1) / KG_SPLIT_KEYS * KG_SPLIT_KEYS;
}

/* Splits that have keys: the first ones. At least one, as a row sees at least its own key. */
static inline __host__ __device__ uint32_t kg_n_splits_used(const kg_key_range &all, uint32_t n_splits) {
    const uint32_t per_split = kg_keys_per_split(all, n_splits);
    return (all.end - all.begin + per_split - 1) / per_split;
}

/* exp(score - largest), 0 for a key that is not seen (a score of -inf) even where no key has been seen yet. */
static __device__ __forceinline__ float kg_softmax_weight(float score, float largest) {
    return score == -CUDART_INF_F ? 0.0f : expf(score - largest);
}

/* What the weights so far, relative to the largest score, become where the head has a sink: the sum with it, relative
 * to the larger of the two, and by what the weighted values shrink. */
struct kg_with_sink {
    float weight, shrink;
};

static __device__ __forceinline__ kg_with_sink kg_add_sink(const float *sinks, uint32_t head, float largest,
                                                           float weight) {
    if (!sinks) return { weight, 1.0f };
    const float sink = sinks[head], larger = fmaxf(largest, sink);
    const float shrink = kg_softmax_weight(largest, larger);
    return { fmaf(weight, shrink, kg_softmax_weight(sink, larger)), shrink };
}

/* Launchers, for parameters that have been checked; n_rows > 0. */
enum kg_status kg_attention_decode(const struct kg_cuda_backend *cuda, const struct kg_attention_params *p,
                                   struct kg_error *err);
enum kg_status kg_attention_prefill(cudaStream_t stream, const struct kg_attention_params *p, struct kg_error *err);

#endif
