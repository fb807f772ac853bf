/* Attention of a decode step over few keys (kg_attention_few): heads of 64, 96 or 128, a float16 cache.
 *
 *     s_j = q . k_j * scale,   y = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
 *
 * q, y (n_heads, D), k and v (n_kv_heads, n_ctx, D). The blocks are few: on multiprocessors without one, those of the
 * next launch start and stream weights meanwhile (ptx/dependent.cuh). More keys are faster on tensor cores
 * (sdpa/split.cu).
 *
 * Numerics: float32 with the full-precision expf. Orders depend on shapes and the number of keys only.
 *
 * Map: a cluster has a KV head and up to 8 of its query heads; its keys are split over its blocks, and a block's over
 * the warps of a head: 8, or fewer where there are more heads. A warp has 32 keys at a time, or 16 where a key is more
 * than 64 dims: a lane, or two, compute a key's score; then a lane has two dims, or four, of all values. Keys of
 * earlier steps are loaded before the dependency wait. Each warp sends its result to the block that merges its head, in
 * order of keys. */
#include "kernels/attention/attention.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/softmax_state.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include <algorithm>
#include <cstddef>

KG_PRELOADED(attention_few_keys, KG_FIRST_TOKEN)

constexpr int THREADS = 256, N_WARPS = THREADS / KG_WARP, HEADS = N_WARPS, MAX_CLUSTER = 8;
constexpr int SPLITS_OF_MANY = MAX_CLUSTER, SPLITS_OF_FEW = 2 * MAX_CLUSTER; /* of more heads than 4; of fewer */

struct few_keys_params {
    const void *q, *k, *v;
    void *y;
    const float *sinks; /* (n_heads), NULL for none */
    const struct kg_cuda_step *step;
    uint32_t n_heads, n_kv_heads, n_ctx, window; /* window: 0 for none */
    float scale;
    enum kg_precision activations;
    uint32_t head_warps; /* of a block, for each head; a power of two */
};

/* How a warp shares heads of D dims out to its lanes. */
template <int D> struct lanes {
    static constexpr int OF_KEY = D > 64 ? 2 : 1, KEYS = KG_WARP / OF_KEY; /* of the warp at a time */
    static constexpr int KEY_VECTORS = D / OF_KEY / KG_VECTOR;
    static constexpr int PAIRS = D > 64 ? 2 : 1, OF_VALUE = D / (2 * PAIRS); /* pairs of dims of a lane; such lanes */
};

/* What a warp knows of a head. */
template <int D> struct __align__(8) head_result {
    float2 value[D / 2], largest_weight;
};

/* A lane's part of the warp's keys: of one key, and its dims of all values. */
template <int D> struct keys_of_lane {
    using of = lanes<D>;
    kg_raw_vector<__half> k[of::KEY_VECTORS];
    __half2 v[of::KEYS][of::PAIRS];

    static __device__ __forceinline__ uint32_t lane() {
        return threadIdx.x % KG_WARP;
    }
    /* Vector i of the lane's, of the key's. */
    static __device__ __forceinline__ uint32_t vector(int i) {
        return i * of::OF_KEY + lane() % of::OF_KEY;
    }
    __device__ __forceinline__ void load_key(const __half *keys, uint32_t key) {
#pragma unroll
        for (int i = 0; i < of::KEY_VECTORS; i++) k[i].load(keys + (size_t)key * D + vector(i) * KG_VECTOR);
    }
    __device__ __forceinline__ void load_value(const __half *values, uint32_t key, int j) {
        if (lane() >= of::OF_VALUE) return;
        const __half2 *from = reinterpret_cast<const __half2 *>(values + (size_t)key * D) + lane() * of::PAIRS;
        if constexpr (of::PAIRS == 2) {
            const uint2 bits = *reinterpret_cast<const uint2 *>(from);
            v[j][0] = reinterpret_cast<const __half2 &>(bits.x), v[j][1] = reinterpret_cast<const __half2 &>(bits.y);
        } else {
            v[j][0] = *from;
        }
    }
    /* Keys [first, end) and past them the last. */
    __device__ __forceinline__ void load(const __half *keys, const __half *values, uint32_t first, uint32_t end) {
        load_key(keys, min(first + lane() / of::OF_KEY, end - 1));
#pragma unroll
        for (int j = 0; j < of::KEYS; j++) load_value(values, min(first + j, end - 1), j);
    }
    __device__ __forceinline__ float dot(const float *q) const {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < of::KEY_VECTORS; i++) {
            float a[KG_VECTOR], b[KG_VECTOR];
            k[i].to_floats(a);
            kg_load_vector(q + vector(i) * KG_VECTOR, b);
#pragma unroll
            for (int e = 0; e < KG_VECTOR; e++) sum = fmaf(a[e], b[e], sum);
        }
        if constexpr (of::OF_KEY == 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        return sum;
    }
};

/* y of a head from the splits' results, by a warp. */
template <int D, int SPLITS>
static __device__ __forceinline__ void merge_splits(const few_keys_params &p, const head_result<D> (&results)[SPLITS],
                                                    uint32_t head) {
    const uint32_t lane = threadIdx.x % KG_WARP;
    float largest = results[0].largest_weight.x;
#pragma unroll
    for (int r = 1; r < SPLITS; r++) largest = fmaxf(largest, results[r].largest_weight.x);
    float weight = 0;
    float2 value[(D + 63) / 64] = {};
#pragma unroll
    for (int r = 0; r < SPLITS; r++) {
        const float share = kg_softmax_weight(results[r].largest_weight.x, largest);
        weight = fmaf(results[r].largest_weight.y, share, weight);
#pragma unroll
        for (int i = 0; i < (D + 63) / 64; i++) {
            const float2 of = results[r].value[min(lane + i * KG_WARP, D / 2 - 1)];
            value[i].x = fmaf(of.x, share, value[i].x);
            value[i].y = fmaf(of.y, share, value[i].y);
        }
    }
    const kg_with_sink sunk = kg_add_sink(p.sinks, head, largest, weight);
#pragma unroll
    for (int i = 0; i < (D + 63) / 64; i++) {
        if (lane + i * KG_WARP >= D / 2) continue;
        const size_t at = (size_t)head * D + 2 * (lane + i * KG_WARP);
        kg_store_any(p.y, p.activations, at, __fdiv_rn(value[i].x * sunk.shrink, sunk.weight));
        kg_store_any(p.y, p.activations, at + 1, __fdiv_rn(value[i].y * sunk.shrink, sunk.weight));
    }
}

/* Grid: (blocks of a cluster, KV heads, groups of HEADS query heads). SPLITS: head_warps times the blocks. */
template <int D, int SPLITS>
static __global__ void __launch_bounds__(THREADS, 2) attention_few_keys_kernel(const few_keys_params p) {
    using of = lanes<D>;
    __shared__ __align__(16) float q_shared[N_WARPS][D], powers[N_WARPS][of::KEYS];
    __shared__ head_result<D> results[SPLITS]; /* of the head that this block merges, in order of keys */
    __shared__ uint64_t arrived;
    const uint32_t rank = kg_cluster_rank(), warp = threadIdx.x / KG_WARP, lane = threadIdx.x % KG_WARP;
    const uint32_t group = p.n_heads / p.n_kv_heads, first_in_group = blockIdx.z * HEADS;
    const uint32_t n_heads = min((uint32_t)HEADS, group - first_in_group);
    const uint32_t first_head = blockIdx.y * group + first_in_group;
    const uint32_t head = warp / p.head_warps, split = rank * p.head_warps + warp % p.head_warps;
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
    const uint32_t per_split = (n_seen + SPLITS - 1) / SPLITS;
    const uint32_t begin = min(n_keys, n_keys - n_seen + split * per_split), end = min(n_keys, begin + per_split);
    const size_t plane = (size_t)blockIdx.y * p.n_ctx * D;
    const __half *k = static_cast<const __half *>(p.k) + plane, *v = static_cast<const __half *>(p.v) + plane;
    keys_of_lane<D> keys = {};
    if (head < n_heads && begin < min(end, position)) keys.load(k, v, begin, min(end, position)); /* older keys */
    kg_dependency_wait(); /* q and the newest key are visible; nothing reads y any more */
    float largest = -CUDART_INF_F, weight = 0;
    float2 value[of::PAIRS] = {};
    if (head < n_heads) {
        if (end == position + 1) { /* this split has the newest */
            if (position - begin < of::KEYS) {
                if (begin + lane / of::OF_KEY >= position) keys.load_key(k, position);
#pragma unroll
                for (int j = 0; j < of::KEYS; j++)
                    if (begin + j >= position) keys.load_value(v, position, j);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < (D + 63) / 64; i++) {
            const uint32_t dim = 2 * (lane + i * KG_WARP);
            if (dim >= D) continue;
            const size_t at = (size_t)(first_head + head) * D + dim;
            q_shared[warp][dim] = kg_load_any(p.q, p.activations, at);
            q_shared[warp][dim + 1] = kg_load_any(p.q, p.activations, at + 1);
        }
        __syncwarp(); /* q is visible */
        for (uint32_t first = begin; first < end; first += of::KEYS) {
            if (first > begin) keys.load(k, v, first, end);
            const float dot = keys.dot(q_shared[warp]);
            const float score = first + lane / of::OF_KEY < end ? dot * p.scale : -CUDART_INF_F;
            const float larger = fmaxf(largest, kg_warp_reduce<kg_max>(score));
            const float shrink = kg_softmax_weight(largest, larger), power = kg_softmax_weight(score, larger);
            largest = larger;
            weight = fmaf(weight, shrink, lane % of::OF_KEY == 0 ? power : 0);
#pragma unroll
            for (int i = 0; i < of::PAIRS; i++) value[i].x *= shrink, value[i].y *= shrink;
            __syncwarp(); /* write-after-read: the powers before are read */
            if (lane % of::OF_KEY == 0) powers[warp][lane / of::OF_KEY] = power;
            __syncwarp(); /* powers are visible */
#pragma unroll
            for (int j = 0; j < of::KEYS; j++)
#pragma unroll
                for (int i = 0; i < of::PAIRS; i++) {
                    const float2 pair = __half22float2(keys.v[j][i]);
                    value[i].x = fmaf(powers[warp][j], pair.x, value[i].x);
                    value[i].y = fmaf(powers[warp][j], pair.y, value[i].y);
                }
        }
        weight = kg_warp_reduce<kg_sum>(weight);
    }
    kg_cluster_wait(); /* all blocks run, and are ready to receive */
    if (head < n_heads) {
        const unsigned to = kg_peer_address(kg_shared_address(&results[split]), head),
                       barrier = kg_peer_address(arrived_at, head);
#pragma unroll
        for (int i = 0; i < of::PAIRS; i++)
            if (lane < of::OF_VALUE)
                kg_send_peer(to + (lane * of::PAIRS + i) * (unsigned)sizeof(float2), value[i], barrier);
        if (lane == 0)
            kg_send_peer(to + (unsigned)offsetof(head_result<D>, largest_weight), make_float2(largest, weight),
                         barrier);
    }
    if (rank >= n_heads || warp > 0) return;
    kg_mbarrier_wait_cluster(arrived_at, 0);
    merge_splits(p, results, first_head + rank);
}

uint32_t kg_attention_few(const struct kg_attention_args *a) {
    const uint32_t group = a->n_heads / a->n_kv_heads;
    return group > 1 && group < HEADS ? 384 : 256;
}

const char *kg_attention_few_keys_refuses(const struct kg_cuda_backend *cuda, const struct kg_attention_args *a) {
    if (cuda->compute_capability < 90) return "compute capability below 9.0";
    if (a->kv != KG_PRECISION_F16 || (a->head_dim != 64 && a->head_dim != 96 && a->head_dim != 128))
        return "the kernel has an f16 KV cache, heads of 64, 96 and 128";
    const uint64_t n_keys = cuda->step ? std::min<uint64_t>(a->n_ctx, cuda->step_keys) : a->n_ctx,
                   n_seen = a->window > 0 ? std::min<uint64_t>(n_keys, a->window) : n_keys;
    return n_seen <= kg_attention_few(a) ? NULL : "context and window are more than the 256 or 384 keys that it takes";
}

/* By D. */
template <int SPLITS> static void (*kernel_of(uint32_t head_dim))(few_keys_params) {
    return head_dim == 64   ? attention_few_keys_kernel<64, SPLITS>
           : head_dim == 96 ? attention_few_keys_kernel<96, SPLITS>
                            : attention_few_keys_kernel<128, SPLITS>;
}

enum kg_status kg_attention_few_keys(const struct kg_cuda_backend *cuda, const struct kg_attention_args *a,
                                     struct kg_error *err) {
    const uint32_t group = a->n_heads / a->n_kv_heads, n_heads = std::min(group, (uint32_t)HEADS);
    uint32_t head_warps = N_WARPS;
    while (head_warps * n_heads > N_WARPS) head_warps /= 2;
    const uint32_t n_splits = head_warps == 1 ? SPLITS_OF_MANY : SPLITS_OF_FEW, cluster = n_splits / head_warps;
    const few_keys_params p = { a->q,       a->k_cache,    a->v_cache,         a->y,      a->sinks, cuda->step,
                                a->n_heads, a->n_kv_heads, (uint32_t)a->n_ctx, a->window, a->scale, a->activations,
                                head_warps };
    const dim3 grid(cluster, p.n_kv_heads, kg_blocks_for(group, (uint32_t)HEADS));
    return kg_launch_dependent(
        cuda, head_warps == 1 ? kernel_of<SPLITS_OF_MANY>(a->head_dim) : kernel_of<SPLITS_OF_FEW>(a->head_dim), grid,
        THREADS, p, "decode step: attention", err, 0, cluster);
}
