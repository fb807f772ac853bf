/* attention_weights of few queries (contract in ops/attention_weights.h): bound by reading the keys once.
 *
 * q (n_queries, n_heads, head_dim), k (n_keys, n_kv_heads, head_dim), y (n_heads, n_queries, n_keys), halves.
 * A cluster has one query of a head, each of its blocks a share of the keys, whose scores stay in its shared memory as
 * float32: keys are read once, and a score never goes to memory. LANES lanes have a key, 8 dims each, AT_ONCE keys in
 * flight; sums are float32, of 8 dims in order, then a butterfly over the lanes. Blocks exchange their largest score
 * and sum of exponentials (of powers of two) and merge them in the order of the blocks: the same bits in each. */
#include "kernels/attention/weights.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/ptx/dependent.cuh"

namespace kg_weights {

namespace {

constexpr int THREADS = 256, N_WARPS = THREADS / KG_WARP, AT_ONCE = 8;
constexpr uint32_t MOST_QUERIES = 8, LEAST_KEYS = 256;

__device__ __forceinline__ float dot(const float (&q)[KG_VECTOR], const uint4 &words) {
    const __half2 *k = reinterpret_cast<const __half2 *>(&words);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < KG_VECTOR / 2; i++) {
        const float2 pair = __half22float2(k[i]);
        sum = fmaf(q[2 * i], pair.x, sum);
        sum = fmaf(q[2 * i + 1], pair.y, sum);
    }
    return sum;
}

/* Scores of keys [begin, end), in powers of two, to to[0] on; keys of the block are from `begin` on. */
template <int LANES>
__device__ __forceinline__ void make_scores(const weights_params &a, const __half *k, const float (&q)[KG_VECTOR],
                                            int begin, int end, float *to) {
    constexpr int KEYS = KG_WARP / LANES; /* of a warp at a time */
    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP, d = lane % LANES * KG_VECTOR;
    const size_t stride = (size_t)a.n_kv_heads * a.head_dim;
    const float scale = a.scale * LOG2_E;
    for (int at = begin + warp * KEYS * AT_ONCE; at < end; at += N_WARPS * KEYS * AT_ONCE) {
        uint4 words[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int key = at + i * KEYS + lane / LANES;
            words[i] = make_uint4(0, 0, 0, 0);
            if (key < end && d < (int)a.head_dim)
                words[i] = *reinterpret_cast<const uint4 *>(k + (size_t)key * stride + d);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int key = at + i * KEYS + lane / LANES;
            float sum = dot(q, words[i]);
#pragma unroll
            for (int apart = 1; apart < LANES; apart *= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, apart);
            if (lane % LANES == 0 && key < end) to[key - begin] = sum * scale;
        }
    }
}

/* Grid: (queries times blocks of a cluster, heads). Shared memory: a float for each key of the block's share. */
template <int LANES>
__global__ void __launch_bounds__(THREADS) few_queries_kernel(const __grid_constant__ weights_params a) {
    extern __shared__ float score[];
    __shared__ float reduced[KG_MAX_WARPS], largest_of, sum_of;
    const int query = (int)(blockIdx.x / a.cluster), rank = (int)(blockIdx.x % a.cluster), head = blockIdx.y,
              n_share = ((int)a.n_keys + (int)a.cluster - 1) / (int)a.cluster, own = min(rank * n_share, (int)a.n_keys),
              own_end = min(own + n_share, (int)a.n_keys);
    const seen_keys seen(a, query);
    const int begin = max(seen.begin, own), end = max(min(seen.end, own_end), begin);
    const __half *k = (const __half *)a.k + (size_t)(head / (a.n_heads / a.n_kv_heads)) * a.head_dim;
    const uint32_t d = threadIdx.x % LANES * KG_VECTOR;
    float q[KG_VECTOR] = {};
    kg_dependency_wait(); /* q and k are visible, y is no longer read */
    if (d < a.head_dim)
        kg_load_some<KG_VECTOR>((const __half *)a.q + ((size_t)query * a.n_heads + head) * a.head_dim + d, q);
    make_scores<LANES>(a, k, q, begin, end, score);
    __syncthreads(); /* scores are visible */
    float most = -FLT_MAX, sum = 0;
    for (int i = threadIdx.x; i < end - begin; i += THREADS) most = fmaxf(most, score[i]); /* NaN is passed over */
    most = kg_block_reduce<kg_max>(most, reduced);
    for (int i = threadIdx.x; i < end - begin; i += THREADS) sum += score[i] = exp2f(score[i] - most);
    sum = kg_block_reduce<kg_sum>(sum, reduced);
    row_state all = { most, sum };
    if (a.cluster > 1) {
        if (threadIdx.x == 0) largest_of = most, sum_of = sum;
        kg_cluster_arrive();
        kg_cluster_wait(); /* every block's state is there */
        all = of_cluster(&largest_of, &sum_of, a.cluster);
        kg_cluster_arrive(); /* this one has read them */
    }
    if (a.sinks) all.add({ a.sinks[head] * LOG2_E, 1 });
    const float share = exp2f(most - all.largest) * share_of(all.sum);
    __half *y = (__half *)a.y + ((size_t)head * a.n_queries + query) * a.n_keys;
    for (int key = own + (int)threadIdx.x; key < own_end; key += THREADS)
        y[key] = __float2half_rn(key >= begin && key < end ? score[key - begin] * share : 0.0f);
    if (a.cluster > 1) kg_cluster_wait(); /* the others have read this block's state */
}

uint32_t cluster_of(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a) {
    return blocks_of_cluster(cuda, a, (uint64_t)a.n_queries * a.n_heads, LEAST_KEYS, 1);
}

size_t shared_bytes(const kg_attention_weights_args &a, uint32_t cluster) {
    return (size_t)((a.n_keys + cluster - 1) / cluster) * sizeof(float);
}

} // namespace

bool few_queries_suit(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a) {
    constexpr size_t STATIC_BYTES = 1024; /* beside what is asked for */
    return a.n_queries <= MOST_QUERIES && shared_bytes(a, cluster_of(cuda, a)) + STATIC_BYTES <= cuda->shared_bytes;
}

enum kg_status launch_few_queries(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a,
                                  struct kg_error *err) {
    const weights_params p = { a, cluster_of(cuda, a) };
    const dim3 grid(a.n_queries * p.cluster, a.n_heads);
    const auto launch = [&](void (*kernel)(weights_params)) {
        return kg_launch_dependent(cuda, kernel, grid, THREADS, p, "attention_weights (few queries)", err,
                                   shared_bytes(a, p.cluster), p.cluster);
    };
    if (a.head_dim <= 8 * KG_VECTOR) return launch(few_queries_kernel<8>);
    if (a.head_dim <= 16 * KG_VECTOR) return launch(few_queries_kernel<16>);
    return launch(few_queries_kernel<32>);
}

} // namespace kg_weights
