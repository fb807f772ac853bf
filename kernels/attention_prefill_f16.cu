/* Prefill attention by tensor cores, for activations and cache in f16.
 *
 *     y[r] = sum_j softmax_j(q[r] . k[j] * scale) v[j]   over the keys row r sees
 *
 * q, y (n_rows, n_heads, head_dim), k and v (n_kv_heads, n_ctx, head_dim). A block takes 16 query rows a warp of one head
 * and walks the keys they see in tiles of 64. Products are exact and summed in float32 by mma (16 x 8 x 16); softmax is
 * online in float32; weights, at most 1, are rounded to f16 for the product with the values; the result is rounded once.
 * A warp keeps its rows of q, scores and sums in registers, where the scores' layout is that of the weights as a left
 * operand. Keys and values come by asynchronous copies, the values while scores are made, the next keys while values are
 * summed. Rows in shared memory are padded by 16 bytes: the 8 rows of a matrix meet different banks.
 * Keys that no row of the tile sees are not read: slots that were never written may hold anything. */
#include "kernels/attention.cuh"
#include "kernels/mma.cuh"

constexpr int KEYS = 64, WARP_ROWS = 16, PAD = 8;
constexpr int KEY_TILES = KEYS / 8;
constexpr unsigned MANY_BLOCKS = 128; /* from here on 4 warps a block, which read the keys half as often as 2 */

/* `keys` rows of a cache from row `first` of its plane; zeros from n_valid on and beyond the head size. */
template <int DIMS, int THREADS>
static __device__ __forceinline__ void copy_tile(__half (*to)[DIMS + PAD], const __half *from, uint32_t n_valid,
                                                 uint32_t head_dim) {
    constexpr int VECTORS = DIMS / KG_VECTOR;
#pragma unroll 4
    for (int i = threadIdx.x; i < KEYS * VECTORS; i += THREADS) {
        const uint32_t row = i / VECTORS, d = i % VECTORS * KG_VECTOR;
        const bool valid = row < n_valid && d < head_dim;
        kg_copy_16(&to[row][d], valid ? from + (size_t)row * head_dim + d : from, valid);
    }
}

/* Two rows of a lane: g and g + 8 of the warp's. */
template <int DIMS> struct lane_rows {
    float largest[2], weight[2];
    float value[DIMS / 8][4]; /* as accumulators of mma: dims 8 i + 2t, + 1 of both rows */
};

/* The warp's rows as left operands; rows from n_valid on and dims beyond the head size are zero. */
template <int DIMS>
static __device__ __forceinline__ void load_queries(unsigned (&q)[DIMS / 16][4], const __half *rows, size_t row_elems,
                                                    int row, uint32_t n_valid, uint32_t head_dim, int t) {
#pragma unroll
    for (int i = 0; i < DIMS / 16; i++)
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const uint32_t r = row + part % 2 * 8, d = 16 * i + part / 2 * 8 + 2 * t;
            q[i][part] =
                r < n_valid && d < head_dim ? *reinterpret_cast<const unsigned *>(rows + (size_t)r * row_elems + d) : 0;
        }
}

template <int DIMS>
static __device__ __forceinline__ void dot_products(float (&score)[KEY_TILES][4], const unsigned (&q)[DIMS / 16][4],
                                                    const __half (*k)[DIMS + PAD], int lane) {
#pragma unroll
    for (int j = 0; j < KEY_TILES; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) score[j][e] = 0;
#pragma unroll
        for (int i = 0; i < DIMS / 32; i++) { /* 8 keys by 32 dims */
            unsigned b[4];
            kg_load_matrices(b, &k[8 * j + lane % 8][32 * i + lane / 8 * 8]);
            kg_mma_16x8x16(score[j], q[2 * i], b[0], b[1]);
            kg_mma_16x8x16(score[j], q[2 * i + 1], b[2], b[3]);
        }
    }
}

/* Scores become weights relative to the rows' new maxima; what was summed so far is scaled to them. */
template <int DIMS>
static __device__ __forceinline__ void softmax_step(lane_rows<DIMS> &s, float (&score)[KEY_TILES][4]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float largest = s.largest[row], sum = 0;
#pragma unroll
        for (int j = 0; j < KEY_TILES; j++) largest = fmaxf(largest, fmaxf(score[j][2 * row], score[j][2 * row + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, 1)); /* the row's four lanes */
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, 2));
        const float zero = largest == -CUDART_INF_F ? 0.0f : largest; /* no key seen yet: all weights are exp(-inf) */
        const float shrink = __expf(s.largest[row] - zero);
#pragma unroll
        for (int j = 0; j < KEY_TILES; j++)
#pragma unroll
            for (int e = 2 * row; e < 2 * row + 2; e++) {
                score[j][e] = __expf(score[j][e] - zero);
                sum += score[j][e];
            }
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
        s.largest[row] = largest;
        s.weight[row] = fmaf(s.weight[row], shrink, sum);
#pragma unroll
        for (int i = 0; i < DIMS / 8; i++) s.value[i][2 * row] *= shrink, s.value[i][2 * row + 1] *= shrink;
    }
}

template <int DIMS>
static __device__ __forceinline__ void add_values(lane_rows<DIMS> &s, const float (&weight)[KEY_TILES][4],
                                                  const __half (*v)[DIMS + PAD], int lane) {
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        const unsigned a[4] = { kg_pack_halves(weight[2 * j][0], weight[2 * j][1]),
                                kg_pack_halves(weight[2 * j][2], weight[2 * j][3]),
                                kg_pack_halves(weight[2 * j + 1][0], weight[2 * j + 1][1]),
                                kg_pack_halves(weight[2 * j + 1][2], weight[2 * j + 1][3]) };
#pragma unroll
        for (int i = 0; i < DIMS / 16; i++) { /* 16 keys by 16 dims: keys 0-7, 8-15 of dims 0-7, then of dims 8-15 */
            unsigned b[4];
            kg_load_matrices_transposed(b, &v[16 * j + lane / 8 % 2 * 8 + lane % 8][16 * i + lane / 16 * 8]);
            kg_mma_16x8x16(s.value[2 * i], a, b[0], b[1]);
            kg_mma_16x8x16(s.value[2 * i + 1], a, b[2], b[3]);
        }
    }
}

/* DIMS: the head size rounded up to a multiple of 32. */
template <int DIMS, int N_WARPS>
static __global__ void __launch_bounds__(N_WARPS * 32) attention_prefill_f16_kernel(const kg_attention_params p) {
    constexpr int THREADS = N_WARPS * 32, ROWS = N_WARPS * WARP_ROWS;
    __shared__ __align__(16) __half k_tile[KEYS][DIMS + PAD];
    __shared__ __align__(16) __half v_tile[KEYS][DIMS + PAD];
    static_assert(sizeof k_tile + sizeof v_tile <= 48 * 1024, "static shared memory ends there");
    static_assert((DIMS + PAD) * sizeof(__half) % 16 == 0, "rows are aligned for copies and matrix loads");

    const uint32_t head = blockIdx.x, kv_head = head / (p.n_heads / p.n_kv_heads), first = blockIdx.y * ROWS;
    const uint32_t n_rows = min((uint32_t)ROWS, p.n_rows - first);
    const size_t q_row = (size_t)p.n_heads * p.head_dim, q_at = first * q_row + (size_t)head * p.head_dim;
    const size_t plane = (size_t)kv_head * p.n_ctx * p.head_dim;
    const __half *k = (const __half *)p.k + plane, *v = (const __half *)p.v + plane;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = threadIdx.x / 32 * WARP_ROWS + g;

    const uint32_t first_position = p.n_keys - p.n_rows + first;
    const uint32_t key_end = p.causal ? first_position + n_rows : p.n_keys;
    const uint32_t key_begin = p.window > 0 && first_position + 1 > p.window ? first_position + 1 - p.window : 0;

    unsigned q[DIMS / 16][4];
    load_queries<DIMS>(q, (const __half *)p.q + q_at, q_row, row, n_rows, p.head_dim, t);
    lane_rows<DIMS> s;
#pragma unroll
    for (int i = 0; i < 2; i++) s.largest[i] = -CUDART_INF_F, s.weight[i] = 0;
#pragma unroll
    for (int i = 0; i < DIMS / 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) s.value[i][e] = 0;

    copy_tile<DIMS, THREADS>(k_tile, k + (size_t)key_begin * p.head_dim, key_end - key_begin, p.head_dim);
    for (uint32_t key = key_begin; key < key_end; key += KEYS) {
        kg_copies_wait();
        __syncthreads(); /* the keys are there; the values of the tile before have been read */
        copy_tile<DIMS, THREADS>(v_tile, v + (size_t)key * p.head_dim, key_end - key, p.head_dim);

        float score[KEY_TILES][4];
        dot_products<DIMS>(score, q, k_tile, lane);
#pragma unroll
        for (int j = 0; j < KEY_TILES; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const uint32_t at = key + 8 * j + 2 * t + e % 2, position = first_position + row + e / 2 * 8;
                const bool seen =
                    at < key_end && (!p.causal || at <= position) && (p.window == 0 || position - at < p.window);
                score[j][e] = seen ? score[j][e] * p.scale : -CUDART_INF_F;
            }
        softmax_step<DIMS>(s, score);

        kg_copies_wait();
        __syncthreads(); /* the values are there; all have read the keys */
        if (key + KEYS < key_end)
            copy_tile<DIMS, THREADS>(k_tile, k + (size_t)(key + KEYS) * p.head_dim, key_end - (key + KEYS), p.head_dim);
        add_values<DIMS>(s, score, v_tile, lane);
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t r = row + 8 * half;
        if (r >= n_rows) continue;
        __half *y = (__half *)p.y + q_at + r * q_row;
        const float share = __fdiv_rn(1.0f, s.weight[half]);
#pragma unroll
        for (int i = 0; i < DIMS / 8; i++) {
            const uint32_t d = 8 * i + 2 * t;
            if (d < p.head_dim)
                *reinterpret_cast<unsigned *>(y + d) =
                    kg_pack_halves(s.value[i][2 * half] * share, s.value[i][2 * half + 1] * share);
        }
    }
}

template <int DIMS> static void launch(cudaStream_t stream, const kg_attention_params &p) {
    const unsigned many = kg_blocks_for(p.n_rows, 4 * WARP_ROWS), few = kg_blocks_for(p.n_rows, 2 * WARP_ROWS);
    if (p.n_heads * many >= MANY_BLOCKS)
        attention_prefill_f16_kernel<DIMS, 4><<<dim3(p.n_heads, many), 4 * 32, 0, stream>>>(p);
    else attention_prefill_f16_kernel<DIMS, 2><<<dim3(p.n_heads, few), 2 * 32, 0, stream>>>(p);
}

enum kg_status kg_attention_prefill_f16(cudaStream_t stream, const struct kg_attention_params *p,
                                        struct kg_error *err) {
    if (p->head_dim <= 32) launch<32>(stream, *p);
    else if (p->head_dim <= 64) launch<64>(stream, *p);
    else if (p->head_dim <= 96) launch<96>(stream, *p);
    else launch<128>(stream, *p);
    return kg_cuda_launched(err, "attention (prefill, f16)");
}
