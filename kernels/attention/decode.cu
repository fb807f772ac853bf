/* Decode attention: one query row per head over the cache, bound by reading keys and values once.
 *
 *     s_j = q . k_j * scale,   y = sum_j exp(s_j - m) v_j / (sum_j exp(s_j - m) + exp(sink - m))
 *
 * q, y (n_heads, head_dim), k and v (n_kv_heads, n_ctx, head_dim). Few keys of a step run few_keys.cu; float16
 * throughout and heads of at most 128 run on tensor cores (sdpa/split.cu); the rest here, in float32 on the CUDA cores.
 * Splits of the keys, clusters and the merge of partial results are the same (sdpa/split.cuh, sdpa/partial.cuh).
 *
 * Map: block (split, KV head, up to HEADS of its query heads). A key is held by LANES neighbouring lanes, 8 dims each
 * (16 bytes of float16); a warp takes 32 / LANES keys at once and has UNROLL of them in flight, read once for HEADS
 * query heads. Every subgroup of lanes has its own running maximum, sum and weighted values; at the end subgroups merge
 * by a butterfly, then warps, blocks and clusters as items. Exponentials of scores are the full-precision expf, those
 * of the merges 2^x within 2^-22. Orders depend on the device, the shapes and the number of keys only. Lanes past the
 * head size hold zeros. Keys past the split's end are read as its last key and given a score of -inf: positions that
 * were never written are not touched. */
#include "kernels/attention/attention.cuh"
#include "kernels/attention/sdpa/split.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/softmax_state.cuh"
#include "kernels/preload.h"

KG_PRELOADED(attention_decode, KG_NEXT_TOKENS)

using namespace kg_sdpa_mma;

constexpr int N_WARPS = 8, THREADS = N_WARPS * KG_WARP, MOST_HEADS = 4;

/* Keys that a lane has in flight, and all of the block's lanes: float32 takes twice the registers. */
template <typename TC, int HEADS> constexpr int UNROLL = sizeof(TC) == sizeof(__half) || HEADS == 1 ? 4 : 2;
template <typename TC, int LANES, int HEADS> constexpr int KEYS_IN_FLIGHT = UNROLL<TC, HEADS> *THREADS / LANES;

/* Adds keys [begin, end), shared among the block's warps, to the lane's states. q_shared: zeros past head_dim; k, v:
 * where the lane's dims begin. */
template <typename TC, int LANES, int HEADS>
static __device__ __forceinline__ void add_key_range(softmax_state (&state)[HEADS],
                                                     const float (*q_shared)[LANES * KG_VECTOR], const TC *k,
                                                     const TC *v, const struct kg_sdpa_args &a, int begin, int end) {
    constexpr int N = UNROLL<TC, HEADS>, KEYS_AT_ONCE = KG_WARP / LANES, STRIDE = N_WARPS * KEYS_AT_ONCE;
    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP;
    for (int key = begin + warp * KEYS_AT_ONCE + lane / LANES, at = begin; at < end;
         at += STRIDE * N, key += STRIDE * N) { /* `at` is uniform in the block: all lanes take part in the shuffles */
        kg_raw_vector<TC> k_raw[N], v_raw[N];
#pragma unroll
        for (int u = 0; u < N; u++) k_raw[u].load(k + (size_t)min(key + u * STRIDE, end - 1) * a.head_dim);
#pragma unroll
        for (int u = 0; u < N; u++) v_raw[u].load(v + (size_t)min(key + u * STRIDE, end - 1) * a.head_dim);
        float k_dims[N][KG_VECTOR], v_dims[N][KG_VECTOR];
#pragma unroll
        for (int u = 0; u < N; u++) {
            k_raw[u].to_floats(k_dims[u]);
            v_raw[u].to_floats(v_dims[u]);
        }
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float q[KG_VECTOR], score[N];
            kg_load_vector(&q_shared[h][lane % LANES * KG_VECTOR], q);
#pragma unroll
            for (int u = 0; u < N; u++) {
                float dot = 0;
#pragma unroll
                for (int d = 0; d < KG_VECTOR; d++) dot = fmaf(q[d], k_dims[u][d], dot);
                dot = kg_warp_reduce<kg_sum, LANES>(dot);
                score[u] = key + u * STRIDE < end ? dot * a.scale : -CUDART_INF_F;
            }
            add_keys<N>(state[h], score, v_dims);
        }
    }
}

/* TC: the cache's element type; LANES: lanes that share a key, 8 dims each; HEADS: query heads of a block. */
template <typename TC, int LANES, int HEADS>
static __global__ void __launch_bounds__(THREADS, 1) attention_decode_kernel(const split_params p) {
    using shared_t = split_shared<LANES * KG_VECTOR, HEADS, N_WARPS>;
    constexpr int DIMS = shared_t::DIMS;
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    __shared__ __align__(16) float q_shared[HEADS][DIMS];
    shared_t &shared = *reinterpret_cast<shared_t *>(dynamic_shared);
    const struct kg_sdpa_args &a = p.args;
    /* Twice what is in flight takes as long as the way through memory. */
    const block_job job = job_of<true, 2 * KEYS_IN_FLIGHT<TC, LANES, HEADS>>(p);
    if (blockIdx.x >> p.cluster_log2 >= job.n_parts) return; /* whole clusters without keys */
    const split_cluster cluster(p, shared);
    kg_dependents_start();
    const TC *k = (const TC *)a.k + job.kv_head * a.k_strides.head,
             *v = (const TC *)a.v + job.kv_head * a.v_strides.head;
    prefetch_keys(p, job, k, v, THREADS);
    kg_dependency_wait(); /* q and the cache are visible; nothing reads y any more */

    const uint32_t first_in_group = job.row_tile * HEADS, first_head = job.kv_head * p.group + first_in_group;
    const uint32_t n_heads = min((uint32_t)HEADS, p.group - first_in_group);
    for (int i = threadIdx.x; i < HEADS * DIMS; i += THREADS) {
        const uint32_t h = i / DIMS, d = i % DIMS;
        q_shared[h][d] = h < n_heads && d < a.head_dim
                             ? kg_load_any(a.q, a.output, (size_t)(first_head + h) * a.head_dim + d)
                             : 0.0f;
    }
    if (threadIdx.x < HEADS)
        shared.sinks[threadIdx.x] =
            a.sinks && threadIdx.x < n_heads ? a.sinks[first_head + threadIdx.x] * LOG2_E : -CUDART_INF_F;
    __syncthreads();                      /* q is visible */
    if (cluster.n > 1) kg_cluster_wait(); /* every block of the cluster has started */

    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP;
    const uint32_t lane_dim = lane % LANES * KG_VECTOR;              /* of q_shared */
    const uint32_t cache_dim = lane_dim < a.head_dim ? lane_dim : 0; /* a lane of zeros reads what another one reads */
    softmax_state state[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) clear(state[h]);
    add_key_range<TC, LANES, HEADS>(state, q_shared, k + cache_dim, v + cache_dim, a, job.begin, job.end);
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
#pragma unroll
        for (int apart = LANES; apart < KG_WARP; apart *= 2) merge_lanes(state[h], apart);
        if (lane < LANES) kg_store_vector(&shared.values[warp][h][lane_dim], state[h].value);
        if (lane == 0) shared.weights[warp][h] = make_float2(top_exponent(state[h].largest, LOG2_E), state[h].weight);
    }
    __syncthreads(); /* every warp's result is visible */
    merge_items(p, job, shared, cluster, [&](uint32_t row, uint32_t place, const partial &x) {
        if (row >= n_heads || place >= a.head_dim) return;
        const float share = share_of_sum(x.weight.x, x.weight.y, shared.sinks[row]);
        const float value[PER_ITEM] = { x.value.x, x.value.y, x.value.z, x.value.w };
        const size_t at = (size_t)(first_head + row) * a.head_dim + place;
#pragma unroll
        for (int i = 0; i < PER_ITEM; i++) kg_store_any(a.y, a.output, at + i, value[i] * share);
    });
}

template <typename TC, int LANES, int HEADS>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const split_call &call, struct kg_error *err) {
    return launch_split<split_shared<LANES * KG_VECTOR, HEADS, N_WARPS>>(
        cuda, attention_decode_kernel<TC, LANES, HEADS>, call, err);
}

template <typename TC, int LANES>
static enum kg_status launch_heads(const struct kg_cuda_backend *cuda, const split_call &call, struct kg_error *err) {
    const uint32_t group = call.args->n_heads / call.args->n_kv_heads;
    if (group == 1) return launch<TC, LANES, 1>(cuda, call, err);
    return group == 2 ? launch<TC, LANES, 2>(cuda, call, err) : launch<TC, LANES, MOST_HEADS>(cuda, call, err);
}

template <typename TC>
static enum kg_status launch_lanes(const struct kg_cuda_backend *cuda, const split_call &call, struct kg_error *err) {
    if (call.args->head_dim <= 64) return launch_heads<TC, 8>(cuda, call, err);
    return call.args->head_dim <= 128 ? launch_heads<TC, 16>(cuda, call, err) : launch_heads<TC, 32>(cuda, call, err);
}

uint64_t kg_attention_decode_bytes(const struct kg_cuda_backend *cuda, uint32_t group, uint32_t head_dim) {
    const uint64_t rows = group <= 8 ? 8 : 16; /* the most of a block */
    const uint64_t dims = head_dim == 64 ? 64 : head_dim <= 96 ? 96 : head_dim <= 128 ? 128 : 256;
    return most_split_blocks(cuda) * rows * (dims / PER_ITEM) * (sizeof(float4) + sizeof(float2));
}

static const char *split_refuses(const struct kg_cuda_backend *cuda, const struct kg_attention_args *args) {
    if (args->kv != KG_PRECISION_F16 || args->activations != KG_PRECISION_F16)
        return "activations and KV cache are not both f16";
    const struct kg_sdpa_args row = kg_attention_as_sdpa(args);
    return refuses_operands(cuda, &row);
}

static const char *refuses_nothing(const struct kg_cuda_backend *, const struct kg_attention_args *) {
    return NULL;
}

const struct kg_attention_kernel kg_attention_kernels[KG_ATTENTION_KERNELS] = {
    { "few_keys", kg_attention_few_keys_refuses }, { "split", split_refuses }, { "cuda_cores", refuses_nothing }
};

enum kg_status kg_attention_decode(const struct kg_cuda_backend *cuda, const struct kg_attention_args *args,
                                   void *zeroed, struct kg_error *err) {
    int kernel = cuda->step ? KG_ATTENTION_FEW_KEYS : KG_ATTENTION_SPLIT;
    while (kg_attention_kernels[kernel].refuses(cuda, args)) kernel++;
    if (kernel == KG_ATTENTION_FEW_KEYS) return kg_attention_few_keys(cuda, args, err);
    struct kg_sdpa_args row = kg_attention_as_sdpa(args);
    row.causal = true; /* the last row sees every key */
    row.inputs = args->kv;
    row.output = args->activations;
    row.workspace = zeroed;
    /* A captured step runs at every position of the context. */
    if (cuda->step) row.n_keys = args->n_ctx;
    const split_call call = { &row, cuda->step, args->n_ctx };
    if (kernel == KG_ATTENTION_SPLIT) return decode_split(cuda, call, err);
    return args->kv == KG_PRECISION_F16 ? launch_lanes<__half>(cuda, call, err) : launch_lanes<float>(cuda, call, err);
}
