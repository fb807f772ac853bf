/* attention_weights of keys that a cluster's registers hold (contract in ops/attention_weights.h): scores are computed
 * once, and go nowhere.
 *
 * q (n_queries, n_heads, head_dim), k (n_keys, n_kv_heads, head_dim), y (n_heads, n_queries, n_keys), halves; heads of
 * at most 128 dims in whole vectors (sm_90). A cluster has 64 queries of a head, each of its blocks up to 256 keys. A
 * warp has 32 queries and every fourth 32 keys, as accumulators of mma.sync (exact products, float32 sums): first
 * scores, then their exponentials relative to the warp's largest of a row, then weights. Blocks exchange a row's
 * largest score and sum of exponentials (of powers of two) and merge them in one order: the same bits in each. */
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

namespace kg_weights {

namespace {

constexpr int QUERIES = 64, KEYS = 256, WARPS = 8, THREADS = WARPS * KG_WARP, MOST_DIMS = 128;
/* A warp has M matrices of 16 queries, and of each chunk of keys WARP_KEYS, TILES matrices of 8. */
constexpr int M = 2, WARP_QUERIES = 16 * M, QUERY_WARPS = QUERIES / WARP_QUERIES, KEY_WARPS = WARPS / QUERY_WARPS,
              WARP_KEYS = 32, TILES = WARP_KEYS / 8, CHUNK = KEY_WARPS * WARP_KEYS, CHUNKS = KEYS / CHUNK;
/* Blocks of a cluster at most; where fewer would not fill multiprocessors, which run AT_ONCE each. */
constexpr uint32_t MOST_BLOCKS = 16, FILLING_BLOCKS = 8, AT_ONCE = 2;

/* Rows padded by 16 bytes: the 8 of a matrix meet different banks. */
template <int DIMS> struct held_tiles {
    __half q[QUERIES][DIMS + KG_VECTOR], k[KEYS][DIMS + KG_VECTOR];
    float2 of_warp[KEY_WARPS][QUERIES]; /* largest score, sum of exponentials */
    float2 of_block[2][QUERIES];        /* of every second item, for the cluster */
    float2 of_all[QUERIES];             /* largest score, share of an exponential */
};

/* ROWS rows from row `first` on, zeros beyond the rows there are and the head size. */
template <int ROWS, int DIMS>
__device__ __forceinline__ void copy_rows(__half (*to)[DIMS + KG_VECTOR], const __half *from, size_t stride, int first,
                                          int n_rows, int head_dim) {
    constexpr int UNITS = DIMS / KG_VECTOR, ROWS_AT_ONCE = THREADS / UNITS;
    static_assert(ROWS % ROWS_AT_ONCE == 0 && THREADS % UNITS == 0, "as many units a thread");
    const int row = (int)threadIdx.x / UNITS, d = (int)threadIdx.x % UNITS * KG_VECTOR,
              n_valid = d < head_dim ? n_rows - first - row : 0;
    const unsigned place = kg_shared_address(&to[row][d]);
    const __half *at = from + (size_t)(first + row) * stride + d;
#pragma unroll
    for (int i = 0; i < ROWS / ROWS_AT_ONCE; i++) {
        const bool valid = i * ROWS_AT_ONCE < n_valid;
        kg_copy_16(place + i * ROWS_AT_ONCE * (unsigned)sizeof *to, valid ? at : from, valid);
        at += ROWS_AT_ONCE * stride;
    }
}

/* score[16 queries' matrix][8 keys' matrix][of the accumulator] of the warp's queries and its keys of chunk C. */
template <int C, int DIMS>
__device__ __forceinline__ void multiply(float (&score)[M][CHUNKS * TILES][4], const held_tiles<DIMS> &shared,
                                         int first_query, int first_key) {
    const int lane = threadIdx.x % KG_WARP;
#pragma unroll
    for (int d = 0; d < DIMS; d += 16) {
        unsigned a[M][4];
#pragma unroll
        for (int m = 0; m < M; m++)
            kg_load_matrices(a[m], &shared.q[first_query + 16 * m + lane % 16][d + lane / 16 * 8]);
#pragma unroll
        for (int t = 0; t < TILES; t += 2) { /* two matrices of keys, both halves of the dims */
            unsigned b[4];
            kg_load_matrices(b,
                             &shared.k[C * CHUNK + first_key + 8 * t + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]);
#pragma unroll
            for (int m = 0; m < M; m++) {
                const auto &x = a[m];
                kg_mma_16x8x16_free(score[m][C * TILES + t], x[0], x[1], x[2], x[3], b[0], b[1]);
                kg_mma_16x8x16_free(score[m][C * TILES + t + 1], x[0], x[1], x[2], x[3], b[2], b[3]);
            }
        }
    }
}

/* The state of row threadIdx.x / 4 over the keys of the cluster's blocks, the same bits in each. A row has four lanes,
 * each some of the blocks, whose states it loads together. */
__device__ __forceinline__ row_state of_all(const float2 (&states)[QUERIES], uint32_t n_blocks) {
    constexpr uint32_t LANES = 4;
    float2 of_block[MOST_BLOCKS / LANES];
    row_state all = { -FLT_MAX, 0 };
#pragma unroll
    for (uint32_t i = 0; i < MOST_BLOCKS / LANES; i++) {
        const uint32_t rank = i * LANES + threadIdx.x % LANES;
        of_block[i] = make_float2(-FLT_MAX, 0);
        if (rank < n_blocks) of_block[i] = kg_load_peer<float2>(kg_peer_address(&states[threadIdx.x / LANES], rank));
    }
#pragma unroll
    for (uint32_t i = 0; i < MOST_BLOCKS / LANES; i++) all.largest = fmaxf(all.largest, of_block[i].x);
#pragma unroll
    for (uint32_t apart = 1; apart < LANES; apart *= 2)
        all.largest = fmaxf(all.largest, __shfl_xor_sync(0xFFFFFFFF, all.largest, apart));
#pragma unroll
    for (uint32_t i = 0; i < MOST_BLOCKS / LANES; i++)
        all.sum = fmaf(of_block[i].y, kg_exp2_fast(of_block[i].x - all.largest), all.sum);
#pragma unroll
    for (uint32_t apart = 1; apart < LANES; apart *= 2) all.sum += __shfl_xor_sync(0xFFFFFFFF, all.sum, apart);
    return all;
}

/* A cluster's item: a tile of queries of a head; what a block has of it, and which of its chunks matter. */
struct item_part {
    int head, first, last;          /* queries [first, last] */
    unsigned needed = 0, whole = 0; /* chunks of which a query sees a key; of which each sees all */
    __device__ __forceinline__ item_part(const weights_params &a, uint32_t item, int own, int own_end) {
        const uint32_t n_tiles = (a.n_queries + QUERIES - 1) / QUERIES;
        head = (int)(item / n_tiles), first = (int)(item % n_tiles) * QUERIES;
        last = min(first + QUERIES, (int)a.n_queries) - 1;
        const seen_keys of_first(a, first), of_last(a, last);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = own + c * CHUNK;
            if (at < min(own_end, of_last.end) && at + CHUNK > of_first.begin) needed |= 1u << c;
            if (at >= of_last.begin && at + CHUNK <= min(own_end, of_first.end)) whole |= 1u << c;
        }
    }
};

/* Enqueues the copies of an item's queries, and of its keys in a group for each chunk, the first with the queries. */
template <int DIMS>
__device__ __forceinline__ void copy_item(held_tiles<DIMS> &shared, const weights_params &a, const item_part &item,
                                          int own) {
    const size_t q_stride = (size_t)a.n_heads * a.head_dim, k_stride = (size_t)a.n_kv_heads * a.head_dim;
    const __half *q = (const __half *)a.q + (size_t)item.head * a.head_dim,
                 *k = (const __half *)a.k + (size_t)(item.head / (a.n_heads / a.n_kv_heads)) * a.head_dim;
    copy_rows<QUERIES, DIMS>(shared.q, q, q_stride, item.first, (int)a.n_queries, (int)a.head_dim);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (item.needed >> c & 1)
            copy_rows<CHUNK, DIMS>(shared.k + c * CHUNK, k, k_stride, own + c * CHUNK, (int)a.n_keys, (int)a.head_dim);
        kg_copies_commit();
    }
}

/* Where a thread's scores are: that of its r-th query, at row + 8 r of the tile, and of key base + key_of(i) is
 * score_of(score, r, i), i < ROW_SCORES. */
using warp_scores = float[M][CHUNKS * TILES][4];
constexpr int ROWS = 2 * M, ROW_SCORES = CHUNKS * TILES * 2;
__device__ __forceinline__ constexpr int key_of(int i) {
    return i / (TILES * 2) * CHUNK + i / 2 % TILES * 8 + i % 2;
}
__device__ __forceinline__ float &score_of(warp_scores &score, int r, int i) {
    return score[r / 2][i / 2][2 * (r % 2) + i % 2];
}

/* Of a thread's query, the keys that it sees, counted from `base`. */
struct seen_places {
    int begin, end;
    __device__ __forceinline__ bool has(int i) const {
        return key_of(i) >= begin && key_of(i) < end;
    }
};

/* Scores become those of powers of two, then exponentials relative to the warp's largest of a row; a row's state goes
 * to its four threads. ALL: every query sees every key; else places_of(r) says which. */
template <bool ALL, typename Places>
__device__ __forceinline__ void make_exponentials(warp_scores &score, row_state (&state)[ROWS], float scale,
                                                  const Places &places_of) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const seen_places seen = places_of(r);
        float largest = -FLT_MAX, sum = 0;
#pragma unroll
        for (int i = 0; i < ROW_SCORES; i++) {
            float &s = score_of(score, r, i);
            s = ALL || seen.has(i) ? s * scale : -CUDART_INF_F;
            largest = fmaxf(largest, s); /* NaN is passed over, and is in the sum */
        }
#pragma unroll
        for (int apart = 1; apart < 4; apart *= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, apart));
#pragma unroll
        for (int i = 0; i < ROW_SCORES; i++) {
            float &s = score_of(score, r, i);
            s = kg_exp2_fast(s - largest);
            sum += s;
        }
#pragma unroll
        for (int apart = 1; apart < 4; apart *= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, apart);
        state[r] = { largest, sum };
    }
}

/* The thread's weights to y, where its first query's first key is. FAST: every query sees every key, and vectors lie on
 * 16 bytes; else those of n_keys keys are stored. */
template <bool FAST, typename Places>
__device__ __forceinline__ void store_weights(warp_scores &score, const float (&factor)[ROWS], __half *y,
                                              size_t row_stride, int n_rows, int n_keys, bool in_vectors,
                                              const Places &places_of) {
    const int ahead = (int)threadIdx.x % 4 * (KG_VECTOR - 2);
#pragma unroll
    for (int r = 0; r < ROWS; r++, y += 8 * row_stride) {
        if (8 * r >= n_rows && !FAST) n_keys = 0;
        const seen_places seen = places_of(r);
        const auto weight = [&](int i) { return FAST || seen.has(i) ? score_of(score, r, i) * factor[r] : 0.0f; };
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            if (FAST || in_vectors) { /* a thread has two keys of each of four vectors, then one of them */
                unsigned w[TILES];
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    const int i = 2 * (c * TILES + t);
                    w[t] = kg_convert_to_halves(weight(i), weight(i + 1));
                }
                kg_sdpa::transpose_quad(w);
                if (FAST ? 8 * r < n_rows : c * CHUNK + ahead < n_keys)
                    *reinterpret_cast<uint4 *>(y + c * CHUNK + ahead) = make_uint4(w[0], w[1], w[2], w[3]);
            } else {
#pragma unroll
                for (int i = c * TILES * 2; i < (c + 1) * TILES * 2; i++)
                    if (key_of(i) < n_keys) kg_store(y + key_of(i), weight(i));
            }
        }
    }
}

/* Grid: (items at once times blocks of a cluster). Shared memory: held_tiles<DIMS>. A cluster goes through items that
 * lie as far apart as there are clusters; the next one's copies are under way once the scores are there. */
template <int DIMS>
__global__ void __launch_bounds__(THREADS, AT_ONCE) held_kernel(const __grid_constant__ weights_params a) {
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    held_tiles<DIMS> &shared = *reinterpret_cast<held_tiles<DIMS> *>(dynamic_shared);
    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP,
              first_query = warp % QUERY_WARPS * WARP_QUERIES, row = first_query + lane / 4,
              key_warp = warp / QUERY_WARPS, first_key = key_warp * WARP_KEYS;
    /* The block's share of all keys, in whole chunks. */
    const int n_chunks = ((int)a.n_keys + CHUNK - 1) / CHUNK,
              share = (n_chunks + (int)a.cluster - 1) / (int)a.cluster * CHUNK,
              own = min((int)(blockIdx.x % a.cluster) * share, (int)a.n_keys),
              own_end = min(own + share, (int)a.n_keys), base = own + first_key + lane % 4 * 2;
    const uint32_t n_items = (a.n_queries + QUERIES - 1) / QUERIES * a.n_heads, stride = gridDim.x / a.cluster;
    const bool in_vectors = a.n_keys % KG_VECTOR == 0 && (uintptr_t)a.y % (KG_VECTOR * sizeof(__half)) == 0;
    uint32_t item = blockIdx.x / a.cluster, parity = 0;
    kg_dependency_wait(); /* q and k are visible, y is no longer read */
    copy_item(shared, a, item_part(a, item, own, own_end), own);
    for (; item < n_items; item += stride, parity ^= 1) {
        const item_part part(a, item, own, own_end);
        const auto places_of = [&](int r) {
            const seen_keys seen(a, part.first + row + 8 * r);
            return seen_places{ seen.begin - base, min(seen.end, own_end) - base };
        };
        const bool all = part.whole == (1u << CHUNKS) - 1;
        warp_scores score = {};
        const auto multiply_chunk = [&](auto chunk) {
            constexpr int C = decltype(chunk)::value;
            kg_copies_wait_but<CHUNKS - 1 - C>();
            __syncthreads(); /* this chunk is visible */
            if (part.needed >> C & 1) multiply<C>(score, shared, first_query, first_key);
        };
        static_assert(CHUNKS == 2, "both are multiplied");
        multiply_chunk(std::integral_constant<int, 0>());
        multiply_chunk(std::integral_constant<int, 1>());
        __syncthreads(); /* write-after-read: all have multiplied */
        if (item + stride < n_items) copy_item(shared, a, item_part(a, item + stride, own, own_end), own);
        row_state state[ROWS];
        if (all) make_exponentials<true>(score, state, a.scale * LOG2_E, places_of);
        else make_exponentials<false>(score, state, a.scale * LOG2_E, places_of);
        if (lane % 4 == 0)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                shared.of_warp[key_warp][row + 8 * r] = make_float2(state[r].largest, state[r].sum);
        __syncthreads(); /* all warps' states are visible */
        if (threadIdx.x < QUERIES) {
            row_state block = { -FLT_MAX, 0 };
#pragma unroll
            for (int i = 0; i < KEY_WARPS; i++) {
                const float2 of = shared.of_warp[i][threadIdx.x];
                block.add({ of.x, of.y });
            }
            shared.of_block[parity][threadIdx.x] = make_float2(block.largest, block.sum);
        }
        kg_cluster_arrive();
        kg_cluster_wait(); /* every block's states are there; all have read those of the item before */
        row_state all_keys = of_all(shared.of_block[parity], a.cluster);
        if (a.sinks) all_keys.add({ a.sinks[part.head] * LOG2_E, 1 });
        if (lane % 4 == 0) shared.of_all[threadIdx.x / 4] = make_float2(all_keys.largest, share_of(all_keys.sum));
        __syncthreads(); /* rows' largest scores and shares are visible */
        float factor[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float2 of = shared.of_all[row + 8 * r];
            factor[r] = kg_exp2_fast(state[r].largest - of.x) * of.y;
        }
        const size_t y_stride = a.n_keys;
        __half *y = (__half *)a.y + ((size_t)part.head * a.n_queries + part.first + row) * y_stride + base;
        const int n_rows = part.last + 1 - part.first - row, n_keys = own_end - base;
        if (all && in_vectors) store_weights<true>(score, factor, y, y_stride, n_rows, n_keys, true, places_of);
        else store_weights<false>(score, factor, y, y_stride, n_rows, n_keys, in_vectors, places_of);
    }
    kg_cluster_arrive();
    kg_cluster_wait(); /* the others have read this block's states */
}

template <int DIMS>
enum kg_status launch_dims(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a,
                           struct kg_error *err) {
    const uint32_t n_items = (a.n_queries + QUERIES - 1) / QUERIES * a.n_heads;
    uint32_t cluster = 1;
    while (cluster * KEYS < a.n_keys) cluster *= 2;
    while (cluster < FILLING_BLOCKS && (uint64_t)2 * cluster * n_items <= (uint64_t)AT_ONCE * cuda->n_sms &&
           2 * cluster * CHUNK <= a.n_keys)
        cluster *= 2;
    const uint32_t n_clusters =
        std::min(n_items, kg_clusters_at_once(held_kernel<DIMS>, THREADS, sizeof(held_tiles<DIMS>), cluster));
    return kg_launch_dependent(cuda, held_kernel<DIMS>, dim3(n_clusters * cluster), THREADS,
                               weights_params{ a, cluster }, "attention_weights", err, sizeof(held_tiles<DIMS>),
                               cluster);
}

} // namespace

bool held_suits(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a) {
    return kg_has_clusters(cuda) && a.head_dim <= MOST_DIMS && a.n_keys <= MOST_BLOCKS * KEYS;
}

enum kg_status launch_held(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a,
                           struct kg_error *err) {
    return a.head_dim <= 64 ? launch_dims<64>(cuda, a, err) : launch_dims<MOST_DIMS>(cuda, a, err);
}

} // namespace kg_weights
