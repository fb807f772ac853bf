/* Prefill attention in float32 arithmetic, for activations and caches of f32 or f16 in any mixture.
 *
 *     y[r] = sum_j softmax_j(q[r] . k[j] * scale) v[j]   over the keys row r sees
 *
 * q, y (n_rows, n_heads, head_dim), k and v (n_kv_heads, n_ctx, head_dim). A block takes ROWS query rows of one head
 * and goes through the keys they see in tiles, keeping for each row the running maximum, the sum of weights and the
 * weighted values (online softmax). Tiles of q, of k and then v (in the same place) and of the weights are float32 in
 * shared memory. Thread (i, c), i < 8, c < 16, has rows 4i to 4i + 3; of the scores keys c, c + 16, ..., of the values
 * dims 4c to 4c + 3, then 64 further on. So a row belongs to 16 lanes of one warp, which reduce by butterflies and
 * share its weights without a barrier. A dot product is summed in the order of its dims, values in the order of keys;
 * expf is the full-precision one. Rows of a tile are padded by 4 floats: 16-byte accesses of neighbouring rows meet
 * different banks. Keys that no row of the tile sees are not read: slots that were never written may hold anything. */
#include "kernels/attention/attention.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/softmax_state.cuh"
#include "kernels/preload.h"

KG_PRELOADED(attention_prefill, KG_FIRST_TOKEN)

constexpr int THREADS = 128, ROWS = 32, COLUMNS = 16, ROWS_EACH = 4, PAD = 4;
static_assert(THREADS / COLUMNS * ROWS_EACH == ROWS, "every row has its threads");
static_assert(COLUMNS * 2 == KG_WARP, "a row's threads are half a warp");

/* DIMS: the head size rounded up to 64, 128 or 256. Fewer keys at a time where a key is longer: 48 KiB hold the tiles,
 * but for 256, whose tiles are in dynamic shared memory. */
template <int DIMS> struct tile {
    static constexpr int KEYS = DIMS == 64 ? 64 : 32;
    static constexpr int STRIDE = DIMS + PAD, WEIGHT_STRIDE = ROWS + PAD;
    float q[ROWS * STRIDE], kv[KEYS * STRIDE], weight[KEYS * WEIGHT_STRIDE];
};
constexpr size_t STATIC_BYTES = 48 * 1024;
template <int DIMS> constexpr bool IS_STATIC = sizeof(tile<DIMS>) <= STATIC_BYTES;
static_assert(IS_STATIC<64> && IS_STATIC<128> && !IS_STATIC<256>, "only the largest heads' tiles are dynamic");

extern __shared__ __align__(16) unsigned char dynamic_bytes[];

template <int DIMS> static __device__ __forceinline__ tile<DIMS> &shared_tile() {
    if constexpr (IS_STATIC<DIMS>) {
        __shared__ __align__(16) tile<DIMS> t;
        return t;
    } else {
        return *reinterpret_cast<tile<DIMS> *>(dynamic_bytes);
    }
}

/* Rows [0, n) of `to` = rows at from + row * row_elems, zeros beyond n_valid and beyond the head size. */
template <int DIMS>
static __device__ __forceinline__ void load_rows(float *to, int n, uint32_t n_valid, const void *from,
                                                 enum kg_precision precision, size_t at, size_t row_elems,
                                                 uint32_t head_dim) {
    constexpr int VECTORS = DIMS / KG_VECTOR;
    for (int i = threadIdx.x; i < n * VECTORS; i += THREADS) {
        const uint32_t row = i / VECTORS, d = i % VECTORS * KG_VECTOR;
        float x[KG_VECTOR] = { 0, 0, 0, 0, 0, 0, 0, 0 };
        if (row < n_valid && d < head_dim) kg_load_vector_any(from, precision, at + row * row_elems + d, x);
        kg_store_vector(to + row * tile<DIMS>::STRIDE + d, x);
    }
}

static __device__ __forceinline__ float4 read4(const float *p) {
    return *reinterpret_cast<const float4 *>(p);
}

/* What a thread keeps of its four rows. */
template <int DIMS> struct row_state {
    static constexpr int PARTS = DIMS / 64;
    float largest[ROWS_EACH], weight[ROWS_EACH];
    float4 value[ROWS_EACH][PARTS];
};

/* score[a][b] = q row (first_row + a) . k row (column + 16 b) */
template <int DIMS>
static __device__ __forceinline__ void dot_products(float (&score)[ROWS_EACH][tile<DIMS>::KEYS / COLUMNS],
                                                    const tile<DIMS> &t, int first_row, int column, uint32_t head_dim) {
    constexpr int N = tile<DIMS>::KEYS / COLUMNS, STRIDE = tile<DIMS>::STRIDE;
#pragma unroll
    for (int a = 0; a < ROWS_EACH; a++)
#pragma unroll
        for (int b = 0; b < N; b++) score[a][b] = 0;
    for (uint32_t d = 0; d < head_dim; d += 4) {
        float4 q[ROWS_EACH], k[N];
#pragma unroll
        for (int a = 0; a < ROWS_EACH; a++) q[a] = read4(&t.q[(first_row + a) * STRIDE + d]);
#pragma unroll
        for (int b = 0; b < N; b++) k[b] = read4(&t.kv[(column + COLUMNS * b) * STRIDE + d]);
#pragma unroll
        for (int a = 0; a < ROWS_EACH; a++)
#pragma unroll
            for (int b = 0; b < N; b++) {
                score[a][b] = fmaf(q[a].x, k[b].x, score[a][b]);
                score[a][b] = fmaf(q[a].y, k[b].y, score[a][b]);
                score[a][b] = fmaf(q[a].z, k[b].z, score[a][b]);
                score[a][b] = fmaf(q[a].w, k[b].w, score[a][b]);
            }
    }
}

/* Scores become weights relative to the row's new maximum; what was summed so far is scaled to it. */
template <int DIMS, int N>
static __device__ __forceinline__ void softmax_step(row_state<DIMS> &s, float (&score)[ROWS_EACH][N]) {
#pragma unroll
    for (int a = 0; a < ROWS_EACH; a++) {
        float largest = score[a][0];
#pragma unroll
        for (int b = 1; b < N; b++) largest = fmaxf(largest, score[a][b]);
        largest = fmaxf(s.largest[a], kg_warp_reduce<kg_max, COLUMNS>(largest));
        const float shrink = kg_softmax_weight(s.largest[a], largest);
        float sum = 0;
#pragma unroll
        for (int b = 0; b < N; b++) {
            score[a][b] = kg_softmax_weight(score[a][b], largest);
            sum += score[a][b];
        }
        s.largest[a] = largest;
        s.weight[a] = fmaf(s.weight[a], shrink, kg_warp_reduce<kg_sum, COLUMNS>(sum));
#pragma unroll
        for (int part = 0; part < row_state<DIMS>::PARTS; part++) {
            float4 &v = s.value[a][part];
            v.x *= shrink, v.y *= shrink, v.z *= shrink, v.w *= shrink;
        }
    }
}

static __device__ __forceinline__ void add_scaled(float4 &sum, float weight, const float4 &v) {
    sum.x = fmaf(weight, v.x, sum.x);
    sum.y = fmaf(weight, v.y, sum.y);
    sum.z = fmaf(weight, v.z, sum.z);
    sum.w = fmaf(weight, v.w, sum.w);
}

/* value += weights of the first n keys * their values */
template <int DIMS>
static __device__ __forceinline__ void add_values(row_state<DIMS> &s, const tile<DIMS> &t, int first_row, int column,
                                                  uint32_t n) {
    for (uint32_t key = 0; key < n; key++) {
        const float4 weight = read4(&t.weight[key * tile<DIMS>::WEIGHT_STRIDE + first_row]);
#pragma unroll
        for (int part = 0; part < row_state<DIMS>::PARTS; part++) {
            const float4 v = read4(&t.kv[key * tile<DIMS>::STRIDE + 64 * part + 4 * column]);
            add_scaled(s.value[0][part], weight.x, v);
            add_scaled(s.value[1][part], weight.y, v);
            add_scaled(s.value[2][part], weight.z, v);
            add_scaled(s.value[3][part], weight.w, v);
        }
    }
}

template <int DIMS>
static __global__ void __launch_bounds__(THREADS) attention_prefill_kernel(const kg_attention_args p) {
    constexpr int KEYS = tile<DIMS>::KEYS, N = KEYS / COLUMNS;
    tile<DIMS> &t = shared_tile<DIMS>();
    const uint32_t head = blockIdx.x, kv_head = head / (p.n_heads / p.n_kv_heads), first = blockIdx.y * ROWS;
    const uint32_t n_rows = min((uint32_t)ROWS, p.n_rows - first);
    const size_t q_row = (size_t)p.n_heads * p.head_dim, plane = (size_t)kv_head * p.n_ctx * p.head_dim;
    const size_t q_at = first * q_row + (size_t)head * p.head_dim;
    const int column = threadIdx.x % COLUMNS, first_row = threadIdx.x / COLUMNS * ROWS_EACH;

    const uint32_t first_position = p.n_keys - p.n_rows + first;
    const uint32_t key_end = p.causal ? first_position + n_rows : p.n_keys;
    const uint32_t key_begin = p.window > 0 && first_position + 1 > p.window ? first_position + 1 - p.window : 0;

    row_state<DIMS> s;
#pragma unroll
    for (int a = 0; a < ROWS_EACH; a++) {
        s.largest[a] = -CUDART_INF_F;
        s.weight[a] = 0;
#pragma unroll
        for (int part = 0; part < row_state<DIMS>::PARTS; part++) s.value[a][part] = make_float4(0, 0, 0, 0);
    }
    load_rows<DIMS>(t.q, ROWS, n_rows, p.q, p.activations, q_at, q_row, p.head_dim);

    for (uint32_t key = key_begin; key < key_end; key += KEYS) {
        const uint32_t n_keys = min((uint32_t)KEYS, key_end - key);
        const size_t kv_at = plane + (size_t)key * p.head_dim;
        __syncthreads(); /* the values of the tile before have been read */
        load_rows<DIMS>(t.kv, KEYS, n_keys, p.k_cache, p.kv, kv_at, p.head_dim, p.head_dim);
        __syncthreads(); /* q and the keys are visible */

        float score[ROWS_EACH][N];
        dot_products<DIMS>(score, t, first_row, column, p.head_dim);
#pragma unroll
        for (int a = 0; a < ROWS_EACH; a++) {
            const uint32_t position = first_position + first_row + a;
#pragma unroll
            for (int b = 0; b < N; b++) {
                const uint32_t j = key + column + COLUMNS * b;
                const bool seen =
                    j < key_end && (!p.causal || j <= position) && (p.window == 0 || position - j < p.window);
                score[a][b] = seen ? score[a][b] * p.scale : -CUDART_INF_F;
            }
        }
        softmax_step<DIMS, N>(s, score);
#pragma unroll
        for (int b = 0; b < N; b++)
            *reinterpret_cast<float4 *>(&t.weight[(column + COLUMNS * b) * tile<DIMS>::WEIGHT_STRIDE + first_row]) =
                make_float4(score[0][b], score[1][b], score[2][b], score[3][b]);
        __syncthreads(); /* all have read the keys, in whose place the values come */
        load_rows<DIMS>(t.kv, KEYS, n_keys, p.v_cache, p.kv, kv_at, p.head_dim, p.head_dim);
        __syncthreads(); /* values and weights are visible */
        add_values<DIMS>(s, t, first_row, column, n_keys);
    }

#pragma unroll
    for (int a = 0; a < ROWS_EACH; a++) {
        if (first_row + a >= (int)n_rows) break;
        const size_t at = q_at + (first_row + a) * q_row;
        const kg_with_sink all = kg_add_sink(p.sinks, head, s.largest[a], s.weight[a]);
#pragma unroll
        for (int part = 0; part < row_state<DIMS>::PARTS; part++) {
            const uint32_t d = 64 * part + 4 * column;
            if (d >= p.head_dim) continue;
            const float4 v = s.value[a][part];
            kg_store_any(p.y, p.activations, at + d, __fdiv_rn(v.x * all.shrink, all.weight));
            kg_store_any(p.y, p.activations, at + d + 1, __fdiv_rn(v.y * all.shrink, all.weight));
            kg_store_any(p.y, p.activations, at + d + 2, __fdiv_rn(v.z * all.shrink, all.weight));
            kg_store_any(p.y, p.activations, at + d + 3, __fdiv_rn(v.w * all.shrink, all.weight));
        }
    }
}

template <int DIMS>
static enum kg_status launch(cudaStream_t stream, const struct kg_attention_args *p, struct kg_error *err) {
    const dim3 grid(p->n_heads, kg_blocks_for(p->n_rows, ROWS));
    const size_t dynamic = IS_STATIC<DIMS> ? 0 : sizeof(tile<DIMS>);
    if (dynamic > 0) {
        const cudaError_t code = cudaFuncSetAttribute(attention_prefill_kernel<DIMS>,
                                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dynamic);
        if (code != cudaSuccess) return kg_cuda_fail(err, "attention (prefill)", code);
    }
    attention_prefill_kernel<DIMS><<<grid, THREADS, dynamic, stream>>>(*p);
    return kg_cuda_launched(err, "attention (prefill)");
}

enum kg_status kg_attention_prefill(cudaStream_t stream, const struct kg_attention_args *p, struct kg_error *err) {
    if (p->head_dim <= 64) return launch<64>(stream, p, err);
    return p->head_dim <= 128 ? launch<128>(stream, p, err) : launch<256>(stream, p, err);
}
