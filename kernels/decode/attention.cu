/* Attention of a fused decode step in one launch (launches.h):
 *
 *     s_j = q . k_j * scale,   y = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
 *
 * q (n_heads, head_dim), k and v (n_kv_heads, n_ctx, head_dim), y (n_heads, head_dim).
 *
 * Numerics: float32 with the full-precision expf. Orders depend on shapes and the number of keys only.
 *
 * Map: a cluster of 8 blocks has a KV head and some of its query heads; a block has an eighth of the keys. Two kernels:
 * 1. Head size 64, float16 cache. A warp has a query head and 32 keys at a time: a lane computes one key's score, then
 * two dims of all values. Keys of earlier steps are loaded before the dependency wait (ptx/dependent.cuh). Each block
 * sends a head's result to the block that merges that head, in order of keys.
 * 2. Others: the key loop of block/decode_keys.cuh for up to 4 query heads. Lanes merge by a butterfly, warps through
 * shared memory in order; then each block merges an eighth of the elements from the shared memory of all blocks. Few
 * keys are loaded one at a time by a subgroup of lanes, more keys several at a time. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/block/decode_keys.cuh"
#include "kernels/decode/launches.h"
#include <cstddef>

constexpr int THREADS = 256, N_WARPS = THREADS / KG_WARP, MAX_HEADS = 4, CLUSTER = 8;
constexpr uint32_t MOST_KEYS = 4096; /* more are better split over all multiprocessors */

/* A block's result: relative to the largest score, -inf where it had no key. Aligned, as an array's elements are stored
 * by vectors, too. */
template <int HEADS, int DIMS> struct __align__(16) block_result {
    float value[HEADS][DIMS], largest[HEADS], weight[HEADS];
};

/* Merges the warps' states into the block's result. */
template <int LANES, int HEADS>
static __device__ __forceinline__ void merge_warps(softmax_state (&state)[HEADS],
                                                   block_result<HEADS, LANES * KG_VECTOR> *of_warp,
                                                   block_result<HEADS, LANES * KG_VECTOR> *result) {
    constexpr int DIMS = LANES * KG_VECTOR;
    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP;
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int apart = LANES; apart < KG_WARP; apart *= 2) merge_lanes(state[h], apart);
        if (lane < LANES) kg_store_vector(&of_warp[warp].value[h][lane * KG_VECTOR], state[h].value);
        if (lane == 0) of_warp[warp].largest[h] = state[h].largest, of_warp[warp].weight[h] = state[h].weight;
    }
    __syncthreads(); /* all warps' results are visible */
    for (int i = threadIdx.x; i < HEADS * DIMS; i += THREADS) {
        const int h = i / DIMS, d = i % DIMS;
        float largest = of_warp[0].largest[h], weight = 0, value = 0;
#pragma unroll
        for (int w = 1; w < N_WARPS; w++) largest = fmaxf(largest, of_warp[w].largest[h]);
#pragma unroll
        for (int w = 0; w < N_WARPS; w++) {
            const float share = kg_softmax_weight(of_warp[w].largest[h], largest);
            weight = fmaf(of_warp[w].weight[h], share, weight);
            value = fmaf(of_warp[w].value[h][d], share, value);
        }
        result->value[h][d] = value;
        if (d == 0) result->largest[h] = largest, result->weight[h] = weight;
    }
}

/* Element d of head h, of all the cluster's results. */
template <int HEADS, int DIMS>
static __device__ __forceinline__ float merge_blocks(const block_result<HEADS, DIMS> &own, int h, uint32_t d,
                                                     const float *sinks, uint32_t head) {
    float largests[CLUSTER], weights[CLUSTER], values[CLUSTER];
#pragma unroll
    for (int r = 0; r < CLUSTER; r++) {
        largests[r] = kg_load_peer<float>(kg_peer_address(&own.largest[h], (unsigned)r));
        weights[r] = kg_load_peer<float>(kg_peer_address(&own.weight[h], (unsigned)r));
        values[r] = kg_load_peer<float>(kg_peer_address(&own.value[h][d], (unsigned)r));
    }
    float largest = largests[0], weight = 0, value = 0;
#pragma unroll
    for (int r = 1; r < CLUSTER; r++) largest = fmaxf(largest, largests[r]);
#pragma unroll
    for (int r = 0; r < CLUSTER; r++) {
        const float share = kg_softmax_weight(largests[r], largest);
        weight = fmaf(weights[r], share, weight);
        value = fmaf(values[r], share, value);
    }
    const kg_with_sink all = kg_add_sink(sinks, head, largest, weight);
    return __fdiv_rn(value * all.shrink, all.weight);
}

/* TC: the cache's element type; LANES: lanes that share a key, 8 dims each; HEADS: query heads of a block. Grid:
 * (CLUSTER, KV heads, groups of HEADS query heads). */
template <typename TC, int LANES, int HEADS>
static __global__ void __launch_bounds__(THREADS, 2) step_attention_kernel(const kg_attention_params p) {
    constexpr int DIMS = LANES * KG_VECTOR, UNROLL = sizeof(TC) == sizeof(__half) ? 4 : 2;
    __shared__ __align__(16) float q_shared[HEADS][DIMS];
    __shared__ block_result<HEADS, DIMS> of_warp[N_WARPS], result;
    const uint32_t rank = kg_cluster_rank(), group = p.n_heads / p.n_kv_heads, first_in_group = blockIdx.z * HEADS;
    const uint32_t first_head = blockIdx.y * group + first_in_group;
    const uint32_t n_heads = min((uint32_t)HEADS, group - first_in_group);
    kg_dependents_start();
    kg_dependency_wait(); /* q, the cache and the position are visible; nothing reads y any more */
    const kg_key_range all = kg_keys_of_last(p.step->position + 1, p.window);
    const uint32_t per_block = (all.end - all.begin + CLUSTER - 1) / CLUSTER;
    const uint32_t begin = min(all.end, all.begin + rank * per_block), end = min(all.end, begin + per_block);
    for (int i = threadIdx.x; i < HEADS * DIMS; i += THREADS) {
        const uint32_t h = i / DIMS, d = i % DIMS;
        q_shared[h][d] = h < n_heads && d < p.head_dim
                             ? kg_load_any(p.q, p.activations, (size_t)(first_head + h) * p.head_dim + d)
                             : 0.0f;
    }
    __syncthreads(); /* q is visible */

    const uint32_t lane_dim = threadIdx.x % LANES * KG_VECTOR;       /* of q_shared */
    const uint32_t cache_dim = lane_dim < p.head_dim ? lane_dim : 0; /* a lane of zeros reads what another one reads */
    const size_t plane = (size_t)blockIdx.y * p.n_ctx * p.head_dim + cache_dim;
    const TC *k = (const TC *)p.k + plane, *v = (const TC *)p.v + plane;
    softmax_state state[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) clear(state[h]);
    if (per_block <= N_WARPS * (KG_WARP / LANES))
        add_key_range<TC, LANES, HEADS, 1, N_WARPS>(state, q_shared, k, v, p.head_dim, p.scale, begin, end);
    else add_key_range<TC, LANES, HEADS, UNROLL, N_WARPS>(state, q_shared, k, v, p.head_dim, p.scale, begin, end);
    merge_warps<LANES, HEADS>(state, of_warp, &result);
    kg_cluster_arrive();
    kg_cluster_wait(); /* all blocks' results are visible */
    const uint32_t n = n_heads * p.head_dim, share = (n + CLUSTER - 1) / CLUSTER;
    for (uint32_t i = rank * share + threadIdx.x; i < min(n, (rank + 1) * share); i += THREADS) {
        const uint32_t h = i / p.head_dim, d = i % p.head_dim;
        kg_store_any(p.y, p.activations, (size_t)first_head * p.head_dim + i,
                     merge_blocks<HEADS, DIMS>(result, (int)h, d, p.sinks, first_head + h));
    }
    __syncwarp();
    kg_cluster_arrive();
    kg_cluster_wait(); /* write-after-read: peers have read this block's result */
}

constexpr int HEADS_64 = N_WARPS, DIMS_64 = 64;

/* What a block knows of a head. */
struct __align__(8) head_result {
    float2 value[DIMS_64 / 2], largest_weight;
};

/* A lane's part of 32 keys: its own key, and its two dims of all values. */
struct keys_64 {
    kg_raw_vector<__half> k[DIMS_64 / KG_VECTOR];
    __half2 v[KG_WARP];

    __device__ __forceinline__ void load_key(const __half *keys, uint32_t key) {
#pragma unroll
        for (int i = 0; i < DIMS_64 / KG_VECTOR; i++) k[i].load(keys + (size_t)key * DIMS_64 + i * KG_VECTOR);
    }
    __device__ __forceinline__ void load_value(const __half *values, uint32_t key, int j) {
        v[j] = reinterpret_cast<const __half2 *>(values + (size_t)key * DIMS_64)[threadIdx.x % KG_WARP];
    }
    /* Keys [first, end) and past them the last. */
    __device__ __forceinline__ void load(const __half *keys, const __half *values, uint32_t first, uint32_t end) {
        load_key(keys, min(first + threadIdx.x % KG_WARP, end - 1));
#pragma unroll
        for (int j = 0; j < KG_WARP; j++) load_value(values, min(first + j, end - 1), j);
    }
    __device__ __forceinline__ float dot(const float *q) const {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < DIMS_64 / KG_VECTOR; i++) {
            float a[KG_VECTOR], b[KG_VECTOR];
            k[i].to_floats(a);
            kg_load_vector(q + i * KG_VECTOR, b);
#pragma unroll
            for (int e = 0; e < KG_VECTOR; e++) sum = fmaf(a[e], b[e], sum);
        }
        return sum;
    }
};

/* y of a head from the blocks' results, by a warp. */
static __device__ __forceinline__ void merge_blocks_64(const kg_attention_params &p,
                                                       const head_result (&results)[CLUSTER], uint32_t head) {
    const uint32_t lane = threadIdx.x % KG_WARP;
    float largest = results[0].largest_weight.x;
#pragma unroll
    for (int r = 1; r < CLUSTER; r++) largest = fmaxf(largest, results[r].largest_weight.x);
    float weight = 0;
    float2 value = make_float2(0, 0);
#pragma unroll
    for (int r = 0; r < CLUSTER; r++) {
        const float share = kg_softmax_weight(results[r].largest_weight.x, largest);
        weight = fmaf(results[r].largest_weight.y, share, weight);
        value.x = fmaf(results[r].value[lane].x, share, value.x);
        value.y = fmaf(results[r].value[lane].y, share, value.y);
    }
    const kg_with_sink sunk = kg_add_sink(p.sinks, head, largest, weight);
    const size_t at = (size_t)(head)*DIMS_64 + 2 * lane;
    kg_store_any(p.y, p.activations, at, __fdiv_rn(value.x * sunk.shrink, sunk.weight));
    kg_store_any(p.y, p.activations, at + 1, __fdiv_rn(value.y * sunk.shrink, sunk.weight));
}

/* Grid: (CLUSTER, KV heads, groups of HEADS_64 query heads). */
static __global__ void __launch_bounds__(THREADS, 2) step_attention_64_kernel(const kg_attention_params p) {
    __shared__ __align__(16) float q_shared[HEADS_64][DIMS_64], powers[HEADS_64][KG_WARP];
    __shared__ head_result results[CLUSTER]; /* of the head that this block merges, by block */
    __shared__ uint64_t arrived;
    const uint32_t rank = kg_cluster_rank(), warp = threadIdx.x / KG_WARP, lane = threadIdx.x % KG_WARP;
    const uint32_t group = p.n_heads / p.n_kv_heads, first_in_group = blockIdx.z * HEADS_64;
    const uint32_t n_heads = min((uint32_t)HEADS_64, group - first_in_group);
    const uint32_t first_head = blockIdx.y * group + first_in_group;
    const unsigned arrived_at = kg_shared_address(&arrived);
    if (threadIdx.x == 0) {
        kg_mbarrier_init(arrived_at, 1);
        kg_mbarrier_init_fence();
        kg_mbarrier_expect(arrived_at, rank < n_heads ? (uint32_t)sizeof results : 0);
    }
    kg_dependents_start();
    __syncwarp();
    kg_cluster_arrive();
    const uint32_t position = p.step->position; /* written before the step's first launch */
    const kg_key_range all = kg_keys_of_last(position + 1, p.window);
    const uint32_t per_block = (all.end - all.begin + CLUSTER - 1) / CLUSTER;
    const uint32_t begin = min(all.end, all.begin + rank * per_block), end = min(all.end, begin + per_block);
    const size_t plane = (size_t)blockIdx.y * p.n_ctx * DIMS_64;
    const __half *k = static_cast<const __half *>(p.k) + plane, *v = static_cast<const __half *>(p.v) + plane;
    keys_64 keys = {};
    if (warp < n_heads && begin < min(end, position)) keys.load(k, v, begin, min(end, position)); /* older keys */
    kg_dependency_wait(); /* q and the newest key are visible; nothing reads y any more */
    float largest = -CUDART_INF_F, weight = 0;
    float2 value = make_float2(0, 0);
    if (warp < n_heads) {
        const size_t at = (size_t)(first_head + warp) * DIMS_64 + 2 * lane;
        if (end == position + 1) { /* this block has the newest */
            if (position - begin < KG_WARP) {
                if (begin + lane >= position) keys.load_key(k, position);
#pragma unroll
                for (int j = 0; j < KG_WARP; j++)
                    if (begin + j >= position) keys.load_value(v, position, j);
            }
        }
        q_shared[warp][2 * lane] = kg_load_any(p.q, p.activations, at);
        q_shared[warp][2 * lane + 1] = kg_load_any(p.q, p.activations, at + 1);
        __syncwarp(); /* q is visible */
        for (uint32_t first = begin; first < end; first += KG_WARP) {
            if (first > begin) keys.load(k, v, first, end);
            const float score = first + lane < end ? keys.dot(q_shared[warp]) * p.scale : -CUDART_INF_F;
            const float larger = fmaxf(largest, kg_warp_reduce<kg_max>(score));
            const float shrink = kg_softmax_weight(largest, larger), power = kg_softmax_weight(score, larger);
            largest = larger;
            weight = fmaf(weight, shrink, power);
            value.x *= shrink, value.y *= shrink;
            __syncwarp(); /* write-after-read: the powers before are read */
            powers[warp][lane] = power;
            __syncwarp(); /* powers are visible */
#pragma unroll
            for (int j = 0; j < KG_WARP; j++) {
                const float2 of = __half22float2(keys.v[j]);
                value.x = fmaf(powers[warp][j], of.x, value.x);
                value.y = fmaf(powers[warp][j], of.y, value.y);
            }
        }
        weight = kg_warp_reduce<kg_sum>(weight);
    }
    kg_cluster_wait(); /* all blocks run, and are ready to receive */
    if (warp < n_heads) {
        const unsigned to = kg_peer_address(kg_shared_address(&results[rank]), warp),
                       barrier = kg_peer_address(arrived_at, warp);
        kg_send_peer(to + lane * (unsigned)sizeof(float2), value, barrier);
        if (lane == 0)
            kg_send_peer(to + (unsigned)offsetof(head_result, largest_weight), make_float2(largest, weight), barrier);
    }
    if (rank >= n_heads || warp > 0) return;
    kg_mbarrier_wait_cluster(arrived_at, 0);
    merge_blocks_64(p, results, first_head + rank);
}

template <typename TC, int LANES, int HEADS>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const kg_attention_params &p, struct kg_error *err) {
    const dim3 grid(CLUSTER, p.n_kv_heads, kg_blocks_for(p.n_heads / p.n_kv_heads, HEADS));
    return kg_launch_dependent(cuda, step_attention_kernel<TC, LANES, HEADS>, grid, THREADS, p,
                               "decode step: attention", err, 0, CLUSTER);
}

template <typename TC, int LANES>
static enum kg_status launch_heads(const struct kg_cuda_backend *cuda, const kg_attention_params &p,
                                   struct kg_error *err) {
    const uint32_t group = p.n_heads / p.n_kv_heads;
    if (group == 1) return launch<TC, LANES, 1>(cuda, p, err);
    if (group == 2) return launch<TC, LANES, 2>(cuda, p, err);
    return launch<TC, LANES, MAX_HEADS>(cuda, p, err);
}

template <typename TC>
static enum kg_status launch_lanes(const struct kg_cuda_backend *cuda, const kg_attention_params &p,
                                   struct kg_error *err) {
    return p.head_dim <= 64 ? launch_heads<TC, 8>(cuda, p, err) : launch_heads<TC, 16>(cuda, p, err);
}

bool kg_step_attention_fits(const struct kg_cuda_backend *cuda, uint32_t n_ctx, uint32_t window) {
    return cuda->compute_capability >= 90 && (n_ctx <= MOST_KEYS || (window > 0 && window <= MOST_KEYS));
}

enum kg_status kg_step_attend(const struct kg_cuda_backend *cuda, const struct kg_attention_params *p,
                              struct kg_error *err) {
    if (p->kv == KG_PRECISION_F16 && p->head_dim == DIMS_64) {
        const dim3 grid(CLUSTER, p->n_kv_heads, kg_blocks_for(p->n_heads / p->n_kv_heads, HEADS_64));
        return kg_launch_dependent(cuda, step_attention_64_kernel, grid, THREADS, *p, "decode step: attention", err, 0,
                                   CLUSTER);
    }
    return p->kv == KG_PRECISION_F16 ? launch_lanes<__half>(cuda, *p, err) : launch_lanes<float>(cuda, *p, err);
}
