/* Attention of a decode step over few keys: heads of 64, a float16 cache, at most 1024 keys.
 *
 *     s_j = q . k_j * scale,   y = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
 *
 * q, y (n_heads, 64), k and v (n_kv_heads, n_ctx, 64). The blocks are small and need little shared memory, so that
 * those of the next launch start beside them and stream weights meanwhile (ptx/dependent.cuh). More keys are faster on
 * tensor cores (sdpa/split.cu), whose blocks fill a multiprocessor.
 *
 * Numerics: float32 with the full-precision expf. Orders depend on shapes and the number of keys only.
 *
 * Map: a cluster of 8 blocks has a KV head and up to 8 of its query heads; a block has an eighth of the keys. A warp
 * has a query head and 32 keys at a time: a lane computes one key's score, then two dims of all values. Keys of earlier
 * steps are loaded before the dependency wait. Each block sends a head's result to the block that merges that head, in
 * order of keys. */
#include "kernels/attention/attention.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/softmax_state.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include <cstddef>

KG_PRELOADED(attention_few_keys, KG_FIRST_TOKEN)

constexpr int THREADS = 256, N_WARPS = THREADS / KG_WARP, HEADS = N_WARPS, CLUSTER = 8, DIMS = 64;

struct few_keys_params {
    const void *q, *k, *v;
    void *y;
    const float *sinks; /* (n_heads), NULL for none */
    const struct kg_cuda_step *step;
    uint32_t n_heads, n_kv_heads, n_ctx, window; /* window: 0 for none */
    float scale;
    enum kg_precision activations;
};

/* What a block knows of a head. */
struct __align__(8) head_result {
    float2 value[DIMS / 2], largest_weight;
};

/* A lane's part of 32 keys: its own key, and its two dims of all values. */
struct keys_of_lane {
    kg_raw_vector<__half> k[DIMS / KG_VECTOR];
    __half2 v[KG_WARP];

    __device__ __forceinline__ void load_key(const __half *keys, uint32_t key) {
#pragma unroll
        for (int i = 0; i < DIMS / KG_VECTOR; i++) k[i].load(keys + (size_t)key * DIMS + i * KG_VECTOR);
    }
    __device__ __forceinline__ void load_value(const __half *values, uint32_t key, int j) {
        v[j] = reinterpret_cast<const __half2 *>(values + (size_t)key * DIMS)[threadIdx.x % KG_WARP];
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
        for (int i = 0; i < DIMS / KG_VECTOR; i++) {
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
static __device__ __forceinline__ void merge_blocks(const few_keys_params &p, const head_result (&results)[CLUSTER],
                                                    uint32_t head) {
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
    const size_t at = (size_t)head * DIMS + 2 * lane;
    kg_store_any(p.y, p.activations, at, __fdiv_rn(value.x * sunk.shrink, sunk.weight));
    kg_store_any(p.y, p.activations, at + 1, __fdiv_rn(value.y * sunk.shrink, sunk.weight));
}

/* Grid: (CLUSTER, KV heads, groups of HEADS query heads). */
static __global__ void __launch_bounds__(THREADS, 2) attention_few_keys_kernel(const few_keys_params p) {
    __shared__ __align__(16) float q_shared[HEADS][DIMS], powers[HEADS][KG_WARP];
    __shared__ head_result results[CLUSTER]; /* of the head that this block merges, by block */
    __shared__ uint64_t arrived;
    const uint32_t rank = kg_cluster_rank(), warp = threadIdx.x / KG_WARP, lane = threadIdx.x % KG_WARP;
    const uint32_t group = p.n_heads / p.n_kv_heads, first_in_group = blockIdx.z * HEADS;
    const uint32_t n_heads = min((uint32_t)HEADS, group - first_in_group);
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
    const uint32_t n_keys = position + 1, n_seen = p.window > 0 ? min(n_keys, p.window) : n_keys;
    const uint32_t per_block = (n_seen + CLUSTER - 1) / CLUSTER;
    const uint32_t begin = min(n_keys, n_keys - n_seen + rank * per_block), end = min(n_keys, begin + per_block);
    const size_t plane = (size_t)blockIdx.y * p.n_ctx * DIMS;
    const __half *k = static_cast<const __half *>(p.k) + plane, *v = static_cast<const __half *>(p.v) + plane;
    keys_of_lane keys = {};
    if (warp < n_heads && begin < min(end, position)) keys.load(k, v, begin, min(end, position)); /* older keys */
    kg_dependency_wait(); /* q and the newest key are visible; nothing reads y any more */
    float largest = -CUDART_INF_F, weight = 0;
    float2 value = make_float2(0, 0);
    if (warp < n_heads) {
        const size_t at = (size_t)(first_head + warp) * DIMS + 2 * lane;
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
    merge_blocks(p, results, first_head + rank);
}

const char *kg_attention_few_keys_refuses(const struct kg_cuda_backend *cuda, const struct kg_attention_args *a) {
    constexpr uint32_t FEW_KEYS = 1024;
    if (cuda->compute_capability < 90) return "compute capability below 9.0";
    if (a->kv != KG_PRECISION_F16 || a->head_dim != DIMS) return "the kernel has an f16 KV cache, heads of 64";
    const bool few = a->n_ctx <= FEW_KEYS || (a->window > 0 && a->window <= FEW_KEYS);
    return few ? NULL : "context and window are more than 1024 keys";
}

enum kg_status kg_attention_few_keys(const struct kg_cuda_backend *cuda, const struct kg_attention_args *a,
                                     struct kg_error *err) {
    const few_keys_params p = { a->q,       a->k_cache,    a->v_cache,         a->y,      a->sinks, cuda->step,
                                a->n_heads, a->n_kv_heads, (uint32_t)a->n_ctx, a->window, a->scale, a->activations };
    const dim3 grid(CLUSTER, p.n_kv_heads, kg_blocks_for(p.n_heads / p.n_kv_heads, HEADS));
    return kg_launch_dependent(cuda, attention_few_keys_kernel, grid, THREADS, p, "decode step: attention", err, 0,
                               CLUSTER);
}
