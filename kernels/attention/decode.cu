/* Decode attention: one query row per head over a long cache, bound by reading keys and values once.
 *
 *     s_j = q . k_j * scale,   y = sum_j exp(s_j - m) v_j / sum_j exp(s_j - m),   m = max_j s_j
 *
 * q (n_heads, head_dim), k and v (n_kv_heads, n_ctx, head_dim), y (n_heads, head_dim). Two kernels:
 * 1. Block (split, KV head, group of up to 8 of its query heads): the split's keys for all those heads at once, so that
 * a key and its value are read once for 8 query heads. A key is held by LANES neighbouring lanes, 8 dims each (16 bytes
 *    of an f16 cache); a warp takes 32/LANES keys at once and UNROLL of them in flight. Every subgroup of lanes keeps
 * its own running maximum, sum and weighted values (online softmax); at the end subgroups merge by a butterfly, warps
 *    through shared memory in order, and the block writes its partial result.
 * 2. Block (head): merges the partial results of the splits that have keys, and the head's sink.
 * All arithmetic is float32 with the full-precision expf; orders depend on the shapes and the number of keys only.
 * Lanes past the head size hold zeros. Keys past the split's end are read as its last key and given a score of -inf:
 * positions that were never written are not touched. */
#include "kernels/attention/attention.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/decode_keys.cuh"

constexpr int THREADS = 128, N_WARPS = THREADS / KG_WARP, MAX_HEADS = 8, COMBINE_THREADS = 256;
static_assert(KG_MAX_SPLITS <= COMBINE_THREADS, "one thread weighs one split");
static_assert(COMBINE_THREADS >= KG_ATTENTION_CUDA_MAX_HEAD_DIM, "a thread sums one dim");

/* TC: the cache's element type; LANES: lanes that share a key, 8 dims each; HEADS: query heads of a block. */
template <typename TC, int LANES, int HEADS>
static __global__ void __launch_bounds__(THREADS) attention_decode_kernel(const kg_attention_params p) {
    constexpr int DIMS = LANES * KG_VECTOR;
    constexpr int UNROLL = sizeof(TC) == sizeof(__half) ? 4 : 2;
    static_assert(HEADS <= MAX_HEADS && DIMS <= (int)KG_ATTENTION_CUDA_MAX_HEAD_DIM, "registers are planned for these");
    __shared__ __align__(16) float q_shared[HEADS][DIMS];
    __shared__ float values[N_WARPS][HEADS][DIMS], largests[N_WARPS][HEADS], weights[N_WARPS][HEADS];

    kg_dependents_start();
    kg_dependency_wait(); /* q, the cache and the position are visible; nothing reads the partial results any more
                           */
    const uint32_t n_keys = p.step ? p.step->position + 1 : p.n_keys;
    const kg_key_range all = kg_keys_of_last(n_keys, p.window);
    const uint32_t per_split = kg_keys_per_split(all, p.n_splits);
    const uint32_t begin = all.begin + blockIdx.x * per_split;
    if (begin >= all.end) return; /* the whole block: a split without keys, which the second kernel does not read */
    const uint32_t end = min(all.end, begin + per_split);

    const uint32_t group = p.n_heads / p.n_kv_heads, first_in_group = blockIdx.z * HEADS;
    const uint32_t first_head = blockIdx.y * group + first_in_group;
    const uint32_t n_heads = min((uint32_t)HEADS, group - first_in_group);
    for (int i = threadIdx.x; i < HEADS * DIMS; i += THREADS) {
        const uint32_t h = i / DIMS, d = i % DIMS;
        q_shared[h][d] = h < n_heads && d < p.head_dim
                             ? kg_load_any(p.q, p.activations, (size_t)(first_head + h) * p.head_dim + d)
                             : 0.0f;
    }
    __syncthreads(); /* q is visible */

    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP;
    const uint32_t lane_dim = lane % LANES * KG_VECTOR;              /* of q_shared */
    const uint32_t cache_dim = lane_dim < p.head_dim ? lane_dim : 0; /* a lane of zeros reads what another one reads */
    const size_t plane = (size_t)blockIdx.y * p.n_ctx * p.head_dim + cache_dim;
    const TC *k = (const TC *)p.k + plane, *v = (const TC *)p.v + plane;
    softmax_state state[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) clear(state[h]);

    add_key_range<TC, LANES, HEADS, UNROLL, N_WARPS>(state, q_shared, k, v, p.head_dim, p.scale, begin, end);

#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int apart = LANES; apart < KG_WARP; apart *= 2) merge_lanes(state[h], apart);
        if (lane < LANES) {
#pragma unroll
            for (int d = 0; d < KG_VECTOR; d++) values[warp][h][lane_dim + d] = state[h].value[d];
        }
        if (lane == 0) largests[warp][h] = state[h].largest, weights[warp][h] = state[h].weight;
    }
    __syncthreads(); /* every warp's result is visible */

    float *out_largest = p.partials + (size_t)p.n_heads * p.n_splits * p.head_dim;
    float *out_weight = out_largest + (size_t)p.n_heads * p.n_splits;
    for (uint32_t i = threadIdx.x; i < n_heads * p.head_dim; i += THREADS) {
        const uint32_t h = i / p.head_dim, d = i % p.head_dim;
        float largest = largests[0][h], weight = 0, value = 0;
#pragma unroll
        for (int w = 1; w < N_WARPS; w++) largest = fmaxf(largest, largests[w][h]);
#pragma unroll
        for (int w = 0; w < N_WARPS; w++) {
            const float share = kg_softmax_weight(largests[w][h], largest);
            weight = fmaf(weights[w][h], share, weight);
            value = fmaf(values[w][h][d], share, value);
        }
        const size_t partial = (size_t)(first_head + h) * p.n_splits + blockIdx.x;
        p.partials[partial * p.head_dim + d] = value;
        if (d == 0) out_largest[partial] = largest, out_weight[partial] = weight;
    }
}

/* Thread t < n_used weighs split t; then thread (part, d) sums every n_parts-th split's dim d, and the parts are added
 * in order. */
static __global__ void __launch_bounds__(COMBINE_THREADS) attention_combine_kernel(const kg_attention_params p) {
    __shared__ float shared[KG_MAX_WARPS], share_of[KG_MAX_SPLITS], sums[COMBINE_THREADS];
    kg_dependents_start();
    kg_dependency_wait(); /* the partial results are visible; nothing reads y any more */
    const uint32_t n_keys = p.step ? p.step->position + 1 : p.n_keys;
    const uint32_t n_used = kg_n_splits_used(kg_keys_of_last(n_keys, p.window), p.n_splits);
    const size_t first = (size_t)blockIdx.x * p.n_splits; /* of the head's partial results */
    const float *largests = p.partials + (size_t)p.n_heads * p.n_splits * p.head_dim;
    const float *weights = largests + (size_t)p.n_heads * p.n_splits;

    const uint32_t t = threadIdx.x;
    const float own = t < n_used ? largests[first + t] : -CUDART_INF_F;
    const float largest = kg_block_reduce<kg_max>(own, shared);
    const float share = kg_softmax_weight(own, largest);
    if (t < n_used) share_of[t] = share;
    const float weight = kg_block_reduce<kg_sum>(t < n_used ? weights[first + t] * share : 0.0f, shared);
    const kg_with_sink all = kg_add_sink(p.sinks, blockIdx.x, largest, weight);

    const uint32_t n_parts = COMBINE_THREADS / p.head_dim, part = t / p.head_dim, d = t % p.head_dim;
    float value = 0; /* share_of is visible: the sum above has barriers after its writes */
    if (part < n_parts)
        for (uint32_t s = part; s < n_used; s += n_parts)
            value = fmaf(p.partials[(first + s) * p.head_dim + d], share_of[s], value);
    sums[t] = value;
    __syncthreads(); /* all parts' sums are visible */
    if (part > 0) return;
    for (uint32_t other = 1; other < n_parts; other++) value += sums[other * p.head_dim + d];
    kg_store_any(p.y, p.activations, (size_t)blockIdx.x * p.head_dim + d, __fdiv_rn(value * all.shrink, all.weight));
}

template <typename TC, int LANES, int HEADS>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const kg_attention_params &p, uint32_t n_splits,
                             struct kg_error *err) {
    const uint32_t group = p.n_heads / p.n_kv_heads;
    const dim3 grid(n_splits, p.n_kv_heads, kg_blocks_for(group, HEADS));
    return kg_launch_dependent(cuda, attention_decode_kernel<TC, LANES, HEADS>, grid, THREADS, p, "attention (decode)",
                               err);
}

template <typename TC, int LANES>
static enum kg_status launch_heads(const struct kg_cuda_backend *cuda, const kg_attention_params &p, uint32_t n_splits,
                                   struct kg_error *err) {
    const uint32_t group = p.n_heads / p.n_kv_heads;
    if (group == 1) return launch<TC, LANES, 1>(cuda, p, n_splits, err);
    if (group == 2) return launch<TC, LANES, 2>(cuda, p, n_splits, err);
    if (group <= 4) return launch<TC, LANES, 4>(cuda, p, n_splits, err);
    return launch<TC, LANES, MAX_HEADS>(cuda, p, n_splits, err);
}

template <typename TC>
static enum kg_status launch_lanes(const struct kg_cuda_backend *cuda, const kg_attention_params &p, uint32_t n_splits,
                                   struct kg_error *err) {
    if (p.head_dim <= 64) return launch_heads<TC, 8>(cuda, p, n_splits, err);
    if (p.head_dim <= 128) return launch_heads<TC, 16>(cuda, p, n_splits, err);
    return launch_heads<TC, 32>(cuda, p, n_splits, err);
}

enum kg_status kg_attention_decode(const struct kg_cuda_backend *cuda, const struct kg_attention_params *p,
                                   struct kg_error *err) {
    /* A captured step runs at every position of the context: blocks for all splits, those without keys return. */
    const uint32_t n_splits =
        p->step ? p->n_splits : kg_n_splits_used(kg_keys_of_last(p->n_keys, p->window), p->n_splits);
    const enum kg_status status = p->kv == KG_PRECISION_F16 ? launch_lanes<__half>(cuda, *p, n_splits, err)
                                                            : launch_lanes<float>(cuda, *p, n_splits, err);
    if (status) return status;
    return kg_launch_dependent(cuda, attention_combine_kernel, dim3(p->n_heads), COMBINE_THREADS, *p,
                               "attention (combining splits)", err);
}
