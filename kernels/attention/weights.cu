/* attention_weights: y[h][i][j] = the softmax over the keys that query i sees (contract in ops/attention_weights.h).
 *
 * q (n_queries, n_heads, head_dim), k (n_keys, n_kv_heads, head_dim), y (n_heads, n_queries, n_keys), float or half.
 * Two passes over the keys, each of which computes the scores: the first keeps a row's largest score and sum of
 * exponentials, online, the second writes. So a weight is written once and a score never.
 *
 * Halves of heads up to 256 dims in whole vectors (sm_80): a block has 64 queries of a head, a warp 16 of them, and
 * tiles of 64 keys come by asynchronous copies, the next one while this one is multiplied by mma.sync (exact products,
 * float32 sums). Where blocks would not fill multiprocessors, a cluster of up to 8 shares the keys (sm_90): each block
 * has its own for both passes, and between them reads the others' rows, in their order. Few queries:
 * weights_few_queries.cu; up to 4,096 keys, whose scores are computed once: weights_held.cu. All else: a block has one
 * query of a head, a thread every THREADS-th key, float32 sums in the order of the dims. Exponentials are of powers of
 * two in the first, expf in the second. */
#include "kernels/attention/sdpa/fragment.cuh"
#include "kernels/attention/weights.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/math.cuh"
#include "kernels/ptx/mma.cuh"
#include <algorithm>
#include <type_traits>

using namespace kg_weights;

namespace {

constexpr int THREADS = 128, N_WARPS = THREADS / KG_WARP, WARP_QUERIES = 16, QUERIES = N_WARPS * WARP_QUERIES,
              KEYS = 64, MOST_DIMS = 256;

/* Rows of a tile from row `first` on, zeros beyond the rows there are and the head size. */
template <int DIMS, int ROW>
__device__ __forceinline__ void copy_tile(__half (&to)[KEYS][ROW], const __half *from, size_t stride, int first,
                                          int n_rows, int head_dim) {
    constexpr int UNITS = DIMS / KG_VECTOR;
#pragma unroll 1
    for (int unit = threadIdx.x; unit < KEYS * UNITS; unit += THREADS) {
        const int row = unit / UNITS, d = unit % UNITS * KG_VECTOR;
        const bool valid = first + row < n_rows && d < head_dim;
        kg_copy_16(kg_shared_address(&to[row][d]), valid ? from + (first + row) * stride + d : from, valid);
    }
}

/* Rows padded by 16 bytes: the 8 of a matrix meet different banks. state: of the block's keys, for its cluster. */
template <int DIMS> struct tiles {
    __half q[QUERIES][DIMS + KG_VECTOR], k[2][KEYS][DIMS + KG_VECTOR];
    float largest[QUERIES], sum[QUERIES];
};
static_assert(QUERIES == KEYS, "one copy_tile for both");

/* score[8 keys' tile][of the accumulator] of the warp's queries and a tile of keys. */
template <int DIMS>
__device__ __forceinline__ void multiply(float (&score)[KEYS / 8][4], const tiles<DIMS> &shared, int buffer) {
    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP;
#pragma unroll
    for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int e = 0; e < 4; e++) score[t][e] = 0;
#pragma unroll
    for (int d = 0; d < DIMS; d += 16) {
        unsigned a[4];
        kg_load_matrices(a, &shared.q[warp * WARP_QUERIES + lane % 16][d + lane / 16 * 8]);
#pragma unroll
        for (int t = 0; t < KEYS / 8; t += 2) { /* two tiles of keys, both halves of the dims */
            unsigned b[4];
            kg_load_matrices(b, &shared.k[buffer][8 * t + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]);
            kg_mma_16x8x16(score[t], a, b[0], b[1]);
            kg_mma_16x8x16(score[t + 1], a, b[2], b[3]);
        }
    }
}

/* Calls f(score, first key) for each tile of keys [begin, end) of the block, in warps that compute. */
template <int DIMS, typename F>
__device__ __forceinline__ void each_tile(tiles<DIMS> &shared, const __half *k, size_t stride, int begin, int end,
                                          const kg_attention_weights_args &a, bool computes, const F &f) {
    __syncthreads(); /* write-after-read: the pass before has read the buffers */
    if (begin < end) copy_tile<DIMS>(shared.k[0], k, stride, begin, (int)a.n_keys, (int)a.head_dim);
    for (int at = begin, buffer = 0; at < end; at += KEYS, buffer ^= 1) {
        kg_copies_wait();
        __syncthreads(); /* this tile is visible; all have read the one before */
        if (at + KEYS < end)
            copy_tile<DIMS>(shared.k[buffer ^ 1], k, stride, at + KEYS, (int)a.n_keys, (int)a.head_dim);
        if (!computes) continue;
        float score[KEYS / 8][4];
        multiply<DIMS>(score, shared, buffer);
        f(score, at);
    }
}

/* Of a tile, how much its block's queries see. */
enum tile_kind { NOTHING, PART, ALL };

/* Calls f(kind as a constant) for the tile of keys from `at` on. The first query sees the fewest of the last keys, the
 * last query of the first ones. */
template <typename F>
__device__ __forceinline__ void by_kind(int at, const seen_keys &of_first, const seen_keys &of_last, const F &f) {
    if (at >= of_last.begin && at + KEYS <= of_first.end) f(std::integral_constant<int, ALL>());
    else f(std::integral_constant<int, PART>());
}

/* Scores become those of powers of two, and join the state of one of the thread's two queries. */
template <int KIND>
__device__ __forceinline__ void add_scores(row_state &state, float (&score)[KEYS / 8][4], int half, int at,
                                           const seen_keys &seen, float scale) {
    float largest = state.largest, sum = 0;
#pragma unroll
    for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int key = at + 8 * t + threadIdx.x % 4 * 2 + e;
            float &s = score[t][2 * half + e];
            s = KIND == ALL || (key >= seen.begin && key < seen.end) ? s * scale : -CUDART_INF_F;
            largest = fmaxf(largest, s); /* NaN is passed over, and is in the sum */
        }
#pragma unroll
    for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) sum += kg_exp2_fast(score[t][2 * half + e] - largest);
    state.sum = fmaf(state.sum, kg_exp2_fast(state.largest - largest), sum);
    state.largest = largest;
}

/* Grid: (tiles of queries times blocks of a cluster, heads). Shared memory: tiles<DIMS>. */
template <int DIMS> __global__ void __launch_bounds__(THREADS) tensor_kernel(const __grid_constant__ weights_params a) {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    tiles<DIMS> &shared = *reinterpret_cast<tiles<DIMS> *>(dynamic_shared);
    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP, head = blockIdx.y,
              first = blockIdx.x / a.cluster * QUERIES, last = min(first + QUERIES, (int)a.n_queries) - 1;
    /* The block's share of all keys, in whole tiles. */
    const int n_tiles = ((int)a.n_keys + KEYS - 1) / KEYS, rank = (int)(blockIdx.x % a.cluster),
              n_shared = (n_tiles + (int)a.cluster - 1) / (int)a.cluster * KEYS, own = rank * n_shared,
              own_end = min(own + n_shared, (int)a.n_keys);
    const size_t q_stride = (size_t)a.n_heads * a.head_dim, k_stride = (size_t)a.n_kv_heads * a.head_dim;
    const __half *k = (const __half *)a.k + (size_t)(head / (a.n_heads / a.n_kv_heads)) * a.head_dim;
    kg_dependency_wait(); /* q and k are visible, y is no longer read */
    copy_tile<DIMS>(shared.q, (const __half *)a.q + (size_t)head * a.head_dim, q_stride, first, (int)a.n_queries,
                    (int)a.head_dim);
    /* The thread's two queries, 8 apart, and of the block all keys that one of its queries sees. */
    const int row = first + warp * WARP_QUERIES + lane / 4;
    const seen_keys seen[2] = { { a, row }, { a, row + 8 } }, of_first(a, first), of_last(a, last);
    const int begin = max(of_first.begin / KEYS * KEYS, own), end = min(of_last.end, own_end);
    const bool computes = first + warp * WARP_QUERIES <= last;
    const float scale = a.scale * LOG2_E;
    row_state state[2] = { { -FLT_MAX, 0 }, { -FLT_MAX, 0 } };
    each_tile<DIMS>(shared, k, k_stride, begin, end, a, computes, [&](float(&score)[KEYS / 8][4], int at) {
        by_kind(at, of_first, of_last, [&](auto kind) {
#pragma unroll
            for (int half = 0; half < 2; half++)
                add_scores<decltype(kind)::value>(state[half], score, half, at, seen[half], scale);
        });
    });
    float share[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int apart = 1; apart < 4; apart *= 2) /* the four threads of a row */
            state[half].add({ __shfl_xor_sync(0xFFFFFFFF, state[half].largest, apart),
                              __shfl_xor_sync(0xFFFFFFFF, state[half].sum, apart) });
        if (a.cluster == 1 || lane % 4 != 0) continue;
        shared.largest[row - first + 8 * half] = state[half].largest;
        shared.sum[row - first + 8 * half] = state[half].sum;
    }
    if (a.cluster > 1) {
        kg_cluster_arrive();
        kg_cluster_wait(); /* every block's states are there */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = row - first + 8 * half;
            state[half] = of_cluster(&shared.largest[at], &shared.sum[at], a.cluster);
        }
        kg_cluster_arrive(); /* this one has read them */
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (a.sinks) state[half].add({ a.sinks[head] * LOG2_E, 1 });
        share[half] = share_of(state[half].sum);
    }
    __half *y = (__half *)a.y + (size_t)head * a.n_queries * a.n_keys;
    const bool in_vectors = a.n_keys % KG_VECTOR == 0 && (uintptr_t)a.y % (KG_VECTOR * sizeof(__half)) == 0;
    const auto store = [&](const float(&score)[KEYS / 8][4], int at, auto kind) {
        constexpr int KIND = decltype(kind)::value;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const bool is_row = row + 8 * half < (int)a.n_queries;
            __half *to = y + (size_t)(row + 8 * half) * a.n_keys;
            /* Of key at + 8 t + lane % 4 * 2 + e. */
            const auto weight = [&](int t, int e) {
                const int key = at + 8 * t + lane % 4 * 2 + e;
                if (KIND == NOTHING || (KIND == PART && (key < seen[half].begin || key >= seen[half].end))) return 0.0f;
                return kg_exp2_fast(fmaf(score[t][2 * half + e], scale, -state[half].largest)) * share[half];
            };
            /* A thread has two keys of each of four vectors, then one of them. */
#pragma unroll
            for (int t = 0; t < KEYS / 8; t += 4) {
                if (in_vectors) {
                    unsigned w[4];
#pragma unroll
                    for (int i = 0; i < 4; i++) w[i] = kg_convert_to_halves(weight(t + i, 0), weight(t + i, 1));
                    kg_sdpa::transpose_quad(w);
                    const int key = at + 8 * (t + lane % 4);
                    if (is_row && key < (int)a.n_keys)
                        *reinterpret_cast<uint4 *>(to + key) = make_uint4(w[0], w[1], w[2], w[3]);
                } else {
#pragma unroll
                    for (int i = 0; i < 8; i++) {
                        const int key = at + 8 * (t + i / 2) + lane % 4 * 2 + i % 2;
                        if (is_row && key < (int)a.n_keys) kg_store(to + key, weight(t + i / 2, i % 2));
                    }
                }
            }
        }
    };
    each_tile<DIMS>(shared, k, k_stride, begin, end, a, computes, [&](float(&score)[KEYS / 8][4], int at) {
        by_kind(at, of_first, of_last, [&](auto kind) { store(score, at, kind); });
    });
    const float nothing[KEYS / 8][4] = {};
    for (int at = own; at < own_end && computes; at += KEYS) /* tiles that no query of the block sees */
        if (at < begin || at >= end) store(nothing, at, std::integral_constant<int, NOTHING>());
    if (a.cluster > 1) kg_cluster_wait(); /* the others have read this block's states */
}

/* Grid: (queries, heads). */
template <typename T> __global__ void __launch_bounds__(THREADS) any_kernel(const kg_attention_weights_args a) {
    __shared__ float q[KG_ATTENTION_MAX_HEAD_DIM], shared[KG_MAX_WARPS];
    const int query = blockIdx.x, head = blockIdx.y;
    const size_t k_stride = (size_t)a.n_kv_heads * a.head_dim;
    const T *k = (const T *)a.k + (size_t)(head / (a.n_heads / a.n_kv_heads)) * a.head_dim;
    for (uint32_t d = threadIdx.x; d < a.head_dim; d += THREADS)
        q[d] = kg_load((const T *)a.q + ((size_t)query * a.n_heads + head) * a.head_dim + d);
    __syncthreads(); /* q is visible */
    const seen_keys seen(a, query);
    const auto score_of = [&](int key) {
        float sum = 0;
        for (uint32_t d = 0; d < a.head_dim; d++) sum = fmaf(q[d], kg_load(k + key * k_stride + d), sum);
        return sum * a.scale;
    };
    float own = a.sinks ? a.sinks[head] : -FLT_MAX, sum = 0;
    const float sink = own;
    for (int key = seen.begin + (int)threadIdx.x; key < seen.end; key += THREADS) own = fmaxf(own, score_of(key));
    const float largest = kg_block_reduce<kg_max>(own, shared);
    for (int key = seen.begin + (int)threadIdx.x; key < seen.end; key += THREADS) sum += expf(score_of(key) - largest);
    sum = kg_block_reduce<kg_sum>(sum, shared);
    if (a.sinks) sum += expf(sink - largest);
    const float share = share_of(sum);
    T *y = (T *)a.y + ((size_t)head * a.n_queries + query) * a.n_keys;
    for (int key = threadIdx.x; key < (int)a.n_keys; key += THREADS) {
        const bool sees = key >= seen.begin && key < seen.end;
        kg_store(y + key, sees ? expf(score_of(key) - largest) * share : 0.0f);
    }
}

template <int DIMS>
enum kg_status launch_tensor(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a,
                             struct kg_error *err) {
    /* At once on a multiprocessor: by its registers, and by its shared memory, of which a block takes 1 KB more. */
    constexpr uint32_t BY_REGISTERS = 5;
    const uint32_t n_tiles = (a.n_queries + QUERIES - 1) / QUERIES,
                   at_once = std::min<uint32_t>(BY_REGISTERS, cuda->shared_bytes / (sizeof(tiles<DIMS>) + 1024));
    const weights_params p = { a, blocks_of_cluster(cuda, a, (uint64_t)n_tiles * a.n_heads, KEYS, at_once) };
    return kg_launch_dependent(cuda, tensor_kernel<DIMS>, dim3(n_tiles * p.cluster, a.n_heads), THREADS, p,
                               "attention_weights", err, sizeof(tiles<DIMS>), p.cluster);
}

} // namespace

uint32_t kg_weights::blocks_of_cluster(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a,
                                       uint64_t n_items, uint32_t least_keys, uint32_t at_once) {
    constexpr uint32_t MOST = 8;
    uint32_t n = 1;
    while (n < MOST && kg_has_clusters(cuda) && 2 * n * n_items <= (uint64_t)cuda->n_sms * at_once &&
           (uint64_t)2 * n * least_keys <= a.n_keys)
        n *= 2;
    return n;
}

extern "C" enum kg_status kg_cuda_attention_weights(struct kg_backend *backend,
                                                    const struct kg_attention_weights_args *args,
                                                    struct kg_error *err) {
    constexpr uint32_t MOST_HEADS = 65535, MOST_LENGTH = 1u << 30;
    const enum kg_status status = kg_attention_weights_check(args, err);
    if (status) return status;
    if (args->activations != KG_PRECISION_F32 && args->activations != KG_PRECISION_F16)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "attention_weights: the cuda back end has no %s activations",
                       kg_precision_name(args->activations));
    if (args->n_heads > MOST_HEADS || args->n_queries > MOST_LENGTH || args->n_keys > MOST_LENGTH)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "attention_weights: %u heads, %u queries or %u keys are too many",
                       args->n_heads, args->n_queries, args->n_keys);
    if (args->n_queries == 0 || args->n_keys == 0) return KG_OK;
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    if (args->activations == KG_PRECISION_F16 && args->head_dim % KG_VECTOR == 0 && args->head_dim <= MOST_DIMS &&
        kg_vector_aligned(args->q) && kg_vector_aligned(args->k) && cuda->compute_capability >= 80) {
        if (few_queries_suit(cuda, *args)) return launch_few_queries(cuda, *args, err);
        if (held_suits(cuda, *args)) return launch_held(cuda, *args, err);
        if (args->head_dim <= 64) return launch_tensor<64>(cuda, *args, err);
        if (args->head_dim <= 128) return launch_tensor<128>(cuda, *args, err);
        return launch_tensor<MOST_DIMS>(cuda, *args, err);
    }
    const dim3 grid(args->n_queries, args->n_heads);
    if (args->activations == KG_PRECISION_F16) any_kernel<__half><<<grid, THREADS, 0, cuda->stream>>>(*args);
    else any_kernel<float><<<grid, THREADS, 0, cuda->stream>>>(*args);
    return kg_cuda_launched(err, "attention_weights");
}
