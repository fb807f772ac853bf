/* Attention by mma.sync (contract in ops/sdpa.h; sm_80 and later).
 *
 * A block takes N_WARPS x ROW_TILES x 16 queries of one head and goes through the keys they see in tiles of 64 or 32,
 * the next tile's keys and values coming by asynchronous copies while this tile is computed. A warp keeps scores,
 * weights and sums of its rows in registers, where the scores' layout is that of the weights as a left operand; queries
 * lie in shared memory, or in registers where they fit. A key read from shared memory serves ROW_TILES products.
 *
 * Products are exact and summed in float32 by mma (16 x 8 x 16); softmax is online in float32; weights, at most 1, are
 * rounded to f16 for the product with the values; the result is rounded once.
 * f8: E4M3 becomes f16 in registers, exactly. A matrix load gives a lane 4 neighbouring dims of a key: two registers of
 * a product over dims in an order that q has too. Of the values, transposed, it gives 2 neighbouring dims of 2 keys,
 * which become the operands of an even and an odd tile of dims.
 *
 * Rows in shared memory are padded by 16 bytes: the 8 rows of a matrix meet different banks. Causal blocks with many
 * keys come first. Tiles that every row of a warp sees whole are not masked. */
#include "kernels/ptx/async_copy.cuh"
#include "kernels/attention/sdpa/operands.cuh"

using namespace kg_sdpa_mma;

namespace {

constexpr int PAD_BYTES = 16;

struct mma_params {
    struct kg_sdpa_args args;
    uint32_t n_query_tiles;
};

template <typename T, int DIMS, int N_WARPS, int ROW_TILES> struct mma_shared {
    static constexpr int ROWS = N_WARPS * ROW_TILES * 16;
    static constexpr int KEYS = ROW_TILES > 1 && DIMS > 64 ? 32 : 64; /* of a tile: their scores fit the registers */
    static constexpr bool Q_IN_REGISTERS = ROW_TILES * DIMS <= 128;
    static constexpr int STEPS = DIMS / 16;
    static constexpr int Q_ROW = DIMS + PAD_BYTES / 2, KV_ROW = DIMS + PAD_BYTES / (int)sizeof(T); /* elements */
    T k[2][KEYS][KV_ROW], v[2][KEYS][KV_ROW];
    __half q[ROWS][Q_ROW];
};

/* Rows of a tile, zeros from n_valid on and beyond the head size. */
template <typename T, int DIMS, int KEYS, int ROW, int THREADS>
__device__ __forceinline__ void copy_tile(T (*to)[ROW], const T *from, uint64_t stride, int n_valid,
                                          uint32_t head_dim) {
    constexpr int UNIT = 16 / sizeof(T), UNITS = DIMS / UNIT;
#pragma unroll 1
    for (int unit = threadIdx.x; unit < KEYS * UNITS; unit += THREADS) {
        const int row = unit / UNITS, d = unit % UNITS * UNIT;
        const bool valid = row < n_valid && d < (int)head_dim;
        kg_copy_16(kg_shared_address(&to[row][d]), valid ? from + row * stride + d : from, valid);
    }
}

/* The block's queries as f16, signs flipped if the scale is negative; f8 in the order of dims in which keys are read.
 */
template <typename T, int DIMS, int ROW, int THREADS, int ROWS>
__device__ __forceinline__ void load_queries(__half (*to)[ROW], const T *from, uint64_t stride, int n_valid,
                                             uint32_t head_dim, unsigned flip) {
    constexpr int UNIT = 16 / sizeof(T), UNITS = DIMS / UNIT;
    for (int unit = threadIdx.x; unit < ROWS * UNITS; unit += THREADS) {
        const int row = unit / UNITS, d = unit % UNITS * UNIT;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (row < n_valid && d < (int)head_dim) x = *reinterpret_cast<const uint4 *>(from + row * stride + d);
        uint4 *place = reinterpret_cast<uint4 *>(&to[row][d]);
        if constexpr (sizeof(T) == sizeof(__half)) {
            *place = make_uint4(x.x ^ flip, x.y ^ flip, x.z ^ flip, x.w ^ flip);
        } else {
            place[0] = make_uint4(halves_of_low(x.x) ^ flip, halves_of_low(x.y) ^ flip, halves_of_low(x.z) ^ flip,
                                  halves_of_low(x.w) ^ flip);
            place[1] = make_uint4(halves_of_high(x.x) ^ flip, halves_of_high(x.y) ^ flip, halves_of_high(x.z) ^ flip,
                                  halves_of_high(x.w) ^ flip);
        }
    }
}

/* Two rows of a lane for each of its row tiles: g and g + 8. */
template <int DIMS, int ROW_TILES> struct lane_rows {
    float score[ROW_TILES][2], exponent[ROW_TILES][2], weight[ROW_TILES][2];
    float value[ROW_TILES][DIMS / 8][4];
};

template <int DIMS, int ROW_TILES> __device__ __forceinline__ void begin_rows(lane_rows<DIMS, ROW_TILES> &s) {
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++) {
#pragma unroll
        for (int row = 0; row < 2; row++)
            s.score[tile][row] = -CUDART_INF_F, s.exponent[tile][row] = -FLT_MAX, s.weight[tile][row] = 0;
#pragma unroll
        for (int i = 0; i < DIMS / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) s.value[tile][i][e] = 0;
    }
}

/* A 16-dim step of q as left operand. */
template <int ROW> __device__ __forceinline__ void load_step(unsigned (&a)[4], const __half (*rows)[ROW], int step) {
    const int lane = threadIdx.x % 32;
    kg_load_matrices(a, &rows[lane % 16][16 * step + lane / 16 * 8]);
}

/* Two tiles of 8 keys at 2 steps of 16 dims: right operands b[tile][step][register]. */
template <typename T, int ROW>
__device__ __forceinline__ void load_key_tiles(unsigned (&b)[2][2][2], const T (*keys)[ROW], int dim) {
    const int lane = threadIdx.x % 32;
    if constexpr (sizeof(T) == sizeof(__half)) {
#pragma unroll
        for (int tile = 0; tile < 2; tile++) {
            unsigned r[4];
            kg_load_matrices(r, &keys[8 * tile + lane % 8][dim + lane / 8 * 8]);
#pragma unroll
            for (int i = 0; i < 4; i++) b[tile][i / 2][i % 2] = r[i];
        }
    } else {
        unsigned r[4];
        kg_load_matrices_at(r, kg_shared_address(&keys[lane / 16 * 8 + lane % 8][dim + lane / 8 % 2 * 16]));
#pragma unroll
        for (int i = 0; i < 4; i++) b[i / 2][i % 2][0] = halves_of_low(r[i]), b[i / 2][i % 2][1] = halves_of_high(r[i]);
    }
}

/* 16 keys by 32 dims: right operands b[tile of 8 dims][register]; dims of the tiles as dim_of says. */
template <typename T, int ROW>
__device__ __forceinline__ void load_value_tiles(unsigned (&b)[4][2], const T (*keys)[ROW], int dim) {
    const int lane = threadIdx.x % 32, row = lane / 8 % 2 * 8 + lane % 8;
    if constexpr (sizeof(T) == sizeof(__half)) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            unsigned r[4];
            kg_load_matrices_transposed(r, &keys[row][dim + 16 * half + lane / 16 * 8]);
            b[2 * half][0] = r[0], b[2 * half][1] = r[1], b[2 * half + 1][0] = r[2], b[2 * half + 1][1] = r[3];
        }
    } else {
        unsigned r[4];
        kg_load_matrices_transposed(r, reinterpret_cast<const __half *>(&keys[row][dim + lane / 16 * 16]));
#pragma unroll
        for (int i = 0; i < 4; i++) { /* a lane has (key, dim), (key, dim + 1), (key + 1, dim), (key + 1, dim + 1) */
            const unsigned pairs = __byte_perm(r[i], 0, 0x3120);
            b[i / 2 * 2][i % 2] = halves_of_low(pairs), b[i / 2 * 2 + 1][i % 2] = halves_of_high(pairs);
        }
    }
}

/* Scores of the tile of keys in a buffer. q: the warp's rows, in registers or in shared memory from warp_row on. */
template <typename Shared, int ROW_TILES, int STEPS_KEPT, int KEY_TILES>
__device__ __forceinline__ void add_scores(float (&score)[ROW_TILES][KEY_TILES][4],
                                           const unsigned (&q)[ROW_TILES][STEPS_KEPT][4], const Shared &shared,
                                           int warp_row, int buffer) {
#pragma unroll
    for (int i = 0; i < Shared::STEPS; i += 2) {
        unsigned a_step[ROW_TILES][2][4];
#pragma unroll
        for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
            for (int step = 0; step < 2; step++)
                if constexpr (Shared::Q_IN_REGISTERS) {
#pragma unroll
                    for (int e = 0; e < 4; e++) a_step[tile][step][e] = q[tile][i + step][e];
                } else load_step(a_step[tile][step], shared.q + warp_row + 16 * tile, i + step);
#pragma unroll
        for (int j = 0; j < KEY_TILES; j += 2) {
            unsigned b[2][2][2];
            load_key_tiles(b, shared.k[buffer] + 8 * j, 16 * i);
#pragma unroll
            for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
                for (int jj = 0; jj < 2; jj++)
#pragma unroll
                    for (int step = 0; step < 2; step++)
                        kg_mma_16x8x16(score[tile][j + jj], a_step[tile][step], b[jj][step][0], b[jj][step][1]);
        }
    }
}

/* Scores become weights relative to the rows' new maxima; what was summed so far is scaled to them. */
template <int DIMS, int ROW_TILES, int KEY_TILES>
__device__ __forceinline__ void softmax_step(lane_rows<DIMS, ROW_TILES> &s, float (&score)[ROW_TILES][KEY_TILES][4],
                                             float c) {
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            float largest = s.score[tile][row], sum = 0;
#pragma unroll
            for (int j = 0; j < KEY_TILES; j++)
                largest = fmaxf(largest, fmaxf(score[tile][j][2 * row], score[tile][j][2 * row + 1]));
            largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, 1)); /* the row's four lanes */
            largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, 2));
            const float exponent = top_exponent(largest, c);
            const float shrink = kg_exp2_fast(s.exponent[tile][row] - exponent);
            const exponent_shift shift(largest, exponent);
            if (shift.shifts) {
#pragma unroll
                for (int j = 0; j < KEY_TILES; j++)
#pragma unroll
                    for (int e = 2 * row; e < 2 * row + 2; e++) score[tile][j][e] -= shift.score;
            }
#pragma unroll
            for (int j = 0; j < KEY_TILES; j++)
#pragma unroll
                for (int e = 2 * row; e < 2 * row + 2; e++) {
                    score[tile][j][e] = kg_exp2_fast(fmaf(score[tile][j][e], c, -shift.exponent));
                    sum += score[tile][j][e];
                }
            s.score[tile][row] = largest, s.exponent[tile][row] = exponent;
            s.weight[tile][row] = fmaf(s.weight[tile][row], shrink, sum); /* of this lane's keys */
#pragma unroll
            for (int i = 0; i < DIMS / 8; i++)
                s.value[tile][i][2 * row] *= shrink, s.value[tile][i][2 * row + 1] *= shrink;
        }
}

/* Adds the values in a buffer by their weights. */
template <typename Shared, int DIMS, int ROW_TILES, int KEY_TILES>
__device__ __forceinline__ void add_values(lane_rows<DIMS, ROW_TILES> &s, const float (&score)[ROW_TILES][KEY_TILES][4],
                                           const Shared &shared, int buffer) {
#pragma unroll
    for (int j = 0; j < KEY_TILES / 2; j++) {
        unsigned weights[ROW_TILES][4];
#pragma unroll
        for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                weights[tile][e] =
                    kg_pack_halves(score[tile][2 * j + e / 2][e % 2 * 2], score[tile][2 * j + e / 2][e % 2 * 2 + 1]);
#pragma unroll
        for (int i = 0; i < DIMS / 32; i++) {
            unsigned b[4][2];
            load_value_tiles(b, shared.v[buffer] + 16 * j, 32 * i);
#pragma unroll
            for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
                for (int n = 0; n < 4; n++) kg_mma_16x8x16(s.value[tile][4 * i + n], weights[tile], b[n][0], b[n][1]);
        }
    }
}

/* Grid: causal: (head of a batch entry, tile of queries from the last one down); full: (tile of queries, head). */
template <typename T, int DIMS, int N_WARPS, int ROW_TILES>
__global__ void __launch_bounds__(N_WARPS * 32) mma_kernel(const mma_params p) {
    using shared_t = mma_shared<T, DIMS, N_WARPS, ROW_TILES>;
    constexpr int THREADS = N_WARPS * 32, ROWS = shared_t::ROWS, WARP_ROWS = ROW_TILES * 16;
    constexpr int KEYS = shared_t::KEYS, KEY_TILES = KEYS / 8;
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    shared_t &shared = *reinterpret_cast<shared_t *>(dynamic_shared);

    const struct kg_sdpa_args &a = p.args;
    const uint32_t n_all_heads = a.n_batch * a.n_heads;
    const uint32_t query_tile =
        a.causal ? p.n_query_tiles - 1 - blockIdx.x / n_all_heads : blockIdx.x % p.n_query_tiles;
    const uint32_t at_head = a.causal ? blockIdx.x % n_all_heads : blockIdx.x / p.n_query_tiles;
    const uint32_t batch = at_head / a.n_heads, head = at_head % a.n_heads, kv_head = head / (a.n_heads / a.n_kv_heads);
    const int first = (int)query_tile * ROWS, n_rows = min(ROWS, (int)a.n_queries - first);
    const int first_position = (int)a.n_keys - (int)a.n_queries + first;
    const T *k = (const T *)a.k + batch * a.k_strides.batch + kv_head * a.k_strides.head;
    const T *v = (const T *)a.v + batch * a.v_strides.batch + kv_head * a.v_strides.head;
    const int lane = threadIdx.x % 32, warp_row = (int)threadIdx.x / 32 * WARP_ROWS, g = lane / 4, t = lane % 4;

    const int key_begin = keys_seen(a, first_position).begin;
    const int key_end = keys_seen(a, first_position + n_rows - 1).end;
    /* Keys that all rows of the warp see: the last one's window begins last, the first one's keys end first. */
    const int all_begin = keys_seen(a, first_position + warp_row + WARP_ROWS - 1).begin;
    const int all_end = keys_seen(a, first_position + warp_row).end;

    auto copy = [&](int key) {
        const int buffer = (key - key_begin) / KEYS % 2, n_valid = key_end - key;
        copy_tile<T, DIMS, KEYS, shared_t::KV_ROW, THREADS>(shared.k[buffer], k + (uint64_t)key * a.k_strides.row,
                                                            a.k_strides.row, n_valid, a.head_dim);
        copy_tile<T, DIMS, KEYS, shared_t::KV_ROW, THREADS>(shared.v[buffer], v + (uint64_t)key * a.v_strides.row,
                                                            a.v_strides.row, n_valid, a.head_dim);
    };
    if (key_begin < key_end) copy(key_begin);
    load_queries<T, DIMS, shared_t::Q_ROW, THREADS, ROWS>(
        shared.q,
        (const T *)a.q + batch * a.q_strides.batch + head * a.q_strides.head + (uint64_t)first * a.q_strides.row,
        a.q_strides.row, n_rows, a.head_dim, sign_flip(a.scale));
    float c = exponent_factor(a.scale);
    if (a.q_scale) c *= a.q_scale[at_head] * a.k_scale[(size_t)batch * a.n_kv_heads + kv_head];

    lane_rows<DIMS, ROW_TILES> s;
    begin_rows(s);
    __syncthreads(); /* queries are visible */
    unsigned q[ROW_TILES][shared_t::Q_IN_REGISTERS ? shared_t::STEPS : 1][4];
    if constexpr (shared_t::Q_IN_REGISTERS) {
#pragma unroll
        for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
            for (int i = 0; i < shared_t::STEPS; i++) load_step(q[tile][i], shared.q + warp_row + 16 * tile, i);
    }

    for (int key = key_begin; key < key_end; key += KEYS) {
        kg_copies_wait();
        __syncthreads(); /* this tile is visible; all have read the one before */
        if (key + KEYS < key_end) copy(key + KEYS);
        const int buffer = (key - key_begin) / KEYS % 2;

        float score[ROW_TILES][KEY_TILES][4] = {};
        add_scores(score, q, shared, warp_row, buffer);
        if (key < all_begin || key + KEYS > all_end) { /* uniform in the warp */
#pragma unroll
            for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
                for (int row = 0; row < 2; row++) {
                    const key_range seen = keys_seen(a, first_position + warp_row + 16 * tile + g + 8 * row);
#pragma unroll
                    for (int j = 0; j < KEY_TILES; j++)
#pragma unroll
                        for (int e = 0; e < 2; e++) {
                            const int at = key + 8 * j + 2 * t + e;
                            if (at < seen.begin || at >= seen.end) score[tile][j][2 * row + e] = -CUDART_INF_F;
                        }
                }
        }
        softmax_step(s, score, c);
        add_values(s, score, shared, buffer);
    }

    const float v_scale = a.v_scale ? a.v_scale[(size_t)batch * a.n_kv_heads + kv_head] : 1.0f;
    const float sink = a.sinks ? a.sinks[head] * LOG2_E : -CUDART_INF_F;
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            float weight = s.weight[tile][row];
            weight += __shfl_xor_sync(0xFFFFFFFF, weight, 1);
            weight += __shfl_xor_sync(0xFFFFFFFF, weight, 2);
            const int r = warp_row + 16 * tile + g + 8 * row;
            if (r >= n_rows) continue;
            const float share = share_of_sum(s.exponent[tile][row], weight, sink) * v_scale;
            __half *y = (__half *)a.y + batch * a.y_strides.batch + head * a.y_strides.head +
                        (uint64_t)(first + r) * a.y_strides.row;
#pragma unroll
            for (int i = 0; i < DIMS / 8; i += 2) {
                const float x[4] = { s.value[tile][i][2 * row] * share, s.value[tile][i][2 * row + 1] * share,
                                     s.value[tile][i + 1][2 * row] * share, s.value[tile][i + 1][2 * row + 1] * share };
                if constexpr (sizeof(T) == sizeof(__half)) { /* tiles of neighbouring dims */
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const uint32_t d = 8 * (i + half) + 2 * t;
                        if (d < a.head_dim)
                            *reinterpret_cast<unsigned *>(y + d) = kg_pack_halves(x[2 * half], x[2 * half + 1]);
                    }
                } else { /* a tile of the even dims of 16 and one of the odd ones */
                    const uint32_t d = 8 * i + 4 * t;
                    if (d < a.head_dim)
                        *reinterpret_cast<uint2 *>(y + d) =
                            make_uint2(kg_pack_halves(x[0], x[2]), kg_pack_halves(x[1], x[3]));
                }
            }
        }
}

template <typename T, int DIMS, int N_WARPS, int ROW_TILES>
enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args, struct kg_error *err) {
    using shared_t = mma_shared<T, DIMS, N_WARPS, ROW_TILES>;
    const auto kernel = mma_kernel<T, DIMS, N_WARPS, ROW_TILES>;
    mma_params p;
    p.args = *args;
    p.n_query_tiles = kg_blocks_for(args->n_queries, shared_t::ROWS);
    const cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(shared_t));
    if (code != cudaSuccess) return kg_cuda_fail(err, "sdpa (mma)", code);
    kernel<<<args->n_batch * args->n_heads * p.n_query_tiles, N_WARPS * 32, sizeof(shared_t), cuda->stream>>>(p);
    return kg_cuda_launched(err, "sdpa (mma)");
}

} // namespace

/* Where 128 queries a block give every multiprocessor two blocks, keys are read half as often as with 64. */
template <typename T, int DIMS>
static enum kg_status launch_rows(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                  struct kg_error *err) {
    const uint64_t n_blocks = (uint64_t)args->n_batch * args->n_heads * kg_blocks_for(args->n_queries, 128);
    if (n_blocks >= 2 * (uint64_t)cuda->n_sms) return launch<T, DIMS, 4, 2>(cuda, args, err);
    return launch<T, DIMS, 4, 1>(cuda, args, err);
}

template <typename T>
static enum kg_status launch_dims(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                  struct kg_error *err) {
    if (args->head_dim <= 64) return launch_rows<T, 64>(cuda, args, err);
    if (args->head_dim <= 96) return launch_rows<T, 96>(cuda, args, err);
    return launch_rows<T, 128>(cuda, args, err);
}

const char *kg_sdpa_mma_refuses(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args) {
    const uint64_t n_blocks = (uint64_t)args->n_batch * args->n_heads * kg_blocks_for(args->n_queries, 64);
    if ((uint64_t)args->n_batch * args->n_heads > INT32_MAX || n_blocks > INT32_MAX)
        return "too many heads and queries";
    return refuses_operands(cuda, args);
}

enum kg_status kg_sdpa_mma_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                  struct kg_error *err) {
    if (args->inputs == KG_PRECISION_F8) return launch_dims<uint8_t>(cuda, args, err);
    return launch_dims<__half>(cuda, args, err);
}
