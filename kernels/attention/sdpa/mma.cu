/* Attention by mma.sync (contract in ops/sdpa.h; sm_80 and later).
 *
 * A block takes N_WARPS x ROW_TILES x 16 queries of one head and goes through the keys they see in tiles of 64 or 32,
 * the next tile's keys and values coming by asynchronous copies while this tile is computed. A warp keeps scores,
 * weights and sums of its rows in registers, where the scores' layout is that of the weights as a left operand; queries
 * lie in shared memory, or in registers where they fit. A key read from shared memory serves ROW_TILES products.
 *
 * Products are exact and summed in float32 by mma (16 x 8 x 16); softmax is online in float32; weights, at most 1, are
 * rounded to f16 for the product with the values; the result is rounded once.
 * f8, i8: bytes become f16 in registers, exactly. A matrix load gives a lane 4 neighbouring dims of a key: two
 * registers of a product over dims in an order that q has too. Of the values, transposed, it gives 2 neighbouring dims
 * of 2 keys, which become the operands of an even and an odd tile of dims.
 *
 * Rows in shared memory are padded by 16 bytes: the 8 rows of a matrix meet different banks. Causal blocks with many
 * keys come first. Tiles that every row of a warp sees whole are not masked. */
#include "kernels/ptx/async_copy.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/dependent.cuh"
#include "kernels/attention/sdpa/fragment.cuh"
#include "kernels/attention/sdpa/operands.cuh"

KG_PRELOADED(sdpa_mma, KG_SOME_PROMPTS)

namespace kg_sdpa {

using kg_sdpa_mma::halves_of_high;
using kg_sdpa_mma::halves_of_low;

namespace {

constexpr int PAD_BYTES = 16, N_WARPS = 4, THREADS = N_WARPS * 32;

struct mma_params : call_params {
    struct kg_sdpa_args args;
};

template <typename T, int DIMS_, int ROW_TILES_> struct mma_shared {
    static constexpr int DIMS = DIMS_, ROW_TILES = ROW_TILES_, WARP_ROWS = ROW_TILES * 16;
    static constexpr int QUERIES = N_WARPS * WARP_ROWS;
    static constexpr int KEYS = ROW_TILES > 1 && DIMS > 64 ? 32 : 64; /* of a tile: their scores fit the registers */
    /* Beside what makes halves of int8 they would spill. */
    static constexpr bool Q_IN_REGISTERS = ROW_TILES * DIMS <= 128 && !std::is_same_v<T, int8_t>;
    static constexpr int STEPS = DIMS / 16;
    static constexpr int Q_ROW = DIMS + PAD_BYTES / 2, KV_ROW = DIMS + PAD_BYTES / (int)sizeof(T); /* elements */
    T k[2][KEYS][KV_ROW], v[2][KEYS][KV_ROW];
    __half q[QUERIES][Q_ROW];
};

/* Rows of a tile, zeros from n_valid on and beyond the head size. */
template <int DIMS, typename T, int KEYS, int ROW>
__device__ __forceinline__ void copy_tile(T (&to)[KEYS][ROW], const T *from, uint64_t stride, int n_valid,
                                          int head_dim) {
    constexpr int UNIT = 16 / sizeof(T), UNITS = DIMS / UNIT;
#pragma unroll 1
    for (int unit = threadIdx.x; unit < KEYS * UNITS; unit += THREADS) {
        const int row = unit / UNITS, d = unit % UNITS * UNIT;
        const bool valid = row < n_valid && d < head_dim;
        kg_copy_16(kg_shared_address(&to[row][d]), valid ? from + row * stride + d : from, valid);
    }
}

/* The block's queries as f16, signs flipped if the scale is negative; bytes in the order of dims in which keys are
 * read.
 */
template <int DIMS, typename T, int QUERIES, int ROW>
__device__ __forceinline__ void load_queries(__half (&to)[QUERIES][ROW], const T *from, uint64_t stride, int n_valid,
                                             int head_dim, unsigned flip) {
    constexpr int UNIT = 16 / sizeof(T), UNITS = DIMS / UNIT;
    for (int unit = threadIdx.x; unit < QUERIES * UNITS; unit += THREADS) {
        const int row = unit / UNITS, d = unit % UNITS * UNIT;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (row < n_valid && d < head_dim) x = *reinterpret_cast<const uint4 *>(from + row * stride + d);
        uint4 *place = reinterpret_cast<uint4 *>(&to[row][d]);
        if constexpr (sizeof(T) == sizeof(__half)) {
            *place = make_uint4(x.x ^ flip, x.y ^ flip, x.z ^ flip, x.w ^ flip);
        } else {
            place[0] = make_uint4(halves_of_low<T>(x.x) ^ flip, halves_of_low<T>(x.y) ^ flip,
                                  halves_of_low<T>(x.z) ^ flip, halves_of_low<T>(x.w) ^ flip);
            place[1] = make_uint4(halves_of_high<T>(x.x) ^ flip, halves_of_high<T>(x.y) ^ flip,
                                  halves_of_high<T>(x.z) ^ flip, halves_of_high<T>(x.w) ^ flip);
        }
    }
}

/* The four accumulators of columns 8 i to 8 i + 7. */
template <int N> __device__ __forceinline__ float (&columns(float (&x)[N], int i))[4] {
    return reinterpret_cast<float(&)[4]>(x[4 * i]);
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
        for (int i = 0; i < 4; i++)
            b[i / 2][i % 2][0] = halves_of_low<T>(r[i]), b[i / 2][i % 2][1] = halves_of_high<T>(r[i]);
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
            b[i / 2 * 2][i % 2] = halves_of_low<T>(pairs), b[i / 2 * 2 + 1][i % 2] = halves_of_high<T>(pairs);
        }
    }
}

/* Scores of the tile of keys in a buffer. q: the warp's rows, in registers or in shared memory from warp_row on. */
template <typename Shared, int ROW_TILES, int STEPS_KEPT>
__device__ __forceinline__ void add_scores(float (&score)[ROW_TILES][Shared::KEYS / 2],
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
        for (int j = 0; j < Shared::KEYS / 8; j += 2) {
            unsigned b[2][2][2];
            load_key_tiles(b, shared.k[buffer] + 8 * j, 16 * i);
#pragma unroll
            for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
                for (int jj = 0; jj < 2; jj++)
#pragma unroll
                    for (int step = 0; step < 2; step++)
                        kg_mma_16x8x16(columns(score[tile], j + jj), a_step[tile][step], b[jj][step][0],
                                       b[jj][step][1]);
        }
    }
}

/* Adds the values in a buffer by their weights. */
template <typename Shared, int ROW_TILES>
__device__ __forceinline__ void add_values(float (&value)[ROW_TILES][Shared::DIMS / 2],
                                           const unsigned (&weight)[ROW_TILES][Shared::KEYS / 4], const Shared &shared,
                                           int buffer) {
#pragma unroll
    for (int j = 0; j < Shared::KEYS / 16; j++)
#pragma unroll
        for (int i = 0; i < Shared::DIMS / 32; i++) {
            unsigned b[4][2];
            load_value_tiles(b, shared.v[buffer] + 16 * j, 32 * i);
#pragma unroll
            for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
                for (int n = 0; n < 4; n++)
                    kg_mma_16x8x16(columns(value[tile], 4 * i + n),
                                   reinterpret_cast<const unsigned(&)[4]>(weight[tile][4 * j]), b[n][0], b[n][1]);
        }
}

/* store_rows of values of a byte: tiles of the even dims of 16 alternate with those of the odd ones. */
template <int N>
__device__ __forceinline__ void store_even_odd(__half *y, uint64_t row_stride, int row, int n_rows, int head_dim,
                                               const float (&value)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 8)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int r = row + 8 * half, d = 2 * i + threadIdx.x % 4 * 4;
            const float *even = value + i + 2 * half, *odd = even + 4;
            if (r < n_rows && d < head_dim)
                *reinterpret_cast<uint2 *>(y + r * row_stride + d) =
                    make_uint2(kg_pack_halves(even[0], odd[0]), kg_pack_halves(even[1], odd[1]));
        }
}

/* Grid: the call's tiles of queries (work_item). */
template <typename T, int DIMS, int ROW_TILES>
__global__ void __launch_bounds__(THREADS) mma_kernel(const __grid_constant__ mma_params p) {
    using shared_t = mma_shared<T, DIMS, ROW_TILES>;
    constexpr bool NARROW = sizeof(T) == 1;
    constexpr int KEYS = shared_t::KEYS, WARP_ROWS = shared_t::WARP_ROWS;
    extern __shared__ __align__(16) unsigned char dynamic_shared[];
    shared_t &shared = *reinterpret_cast<shared_t *>(dynamic_shared);

    const struct kg_sdpa_args &a = p.args;
    const work_item<shared_t> item(p, (int)blockIdx.x);
    const int kv_head = item.head / p.group, plane = item.batch * p.n_heads + item.head, kv_plane = plane / p.group,
              lane = threadIdx.x % 32, warp_row = (int)threadIdx.x / 32 * WARP_ROWS, first = item.first + warp_row;
    const T *q_rows = (const T *)a.q + item.batch * a.q_strides.batch + item.head * a.q_strides.head;
    const T *k = (const T *)a.k + item.batch * a.k_strides.batch + kv_head * a.k_strides.head;
    const T *v = (const T *)a.v + item.batch * a.v_strides.batch + kv_head * a.v_strides.head;
    const auto copy = [&](int tile) {
        const int key = tile * KEYS, n_valid = p.n_keys - key;
        copy_tile<DIMS>(shared.k[tile % 2], k + key * a.k_strides.row, a.k_strides.row, n_valid, p.head_dim);
        copy_tile<DIMS>(shared.v[tile % 2], v + key * a.v_strides.row, a.v_strides.row, n_valid, p.head_dim);
    };
    kg_dependency_wait();
    if (item.tile_begin < item.tile_end) copy(item.tile_begin);
    load_queries<DIMS>(shared.q, q_rows + item.first * a.q_strides.row, a.q_strides.row, p.n_queries - item.first,
                       p.head_dim, kg_sdpa_mma::sign_flip(p.scale));
    float scale = fabsf(p.scale), unit = 1; /* of scores in powers of two, and of values */
    if (NARROW) scale *= p.q_scale[plane] * p.k_scale[kv_plane], unit = p.v_scale[kv_plane];
    scale = fmaxf(scale, FLT_MIN);

    const key_range mine(p, first, WARP_ROWS);
    row_sums sums[ROW_TILES];
    float value[ROW_TILES][DIMS / 2] = {};
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++) sums[tile].clear();
    __syncthreads(); /* queries are visible */
    unsigned q[ROW_TILES][shared_t::Q_IN_REGISTERS ? shared_t::STEPS : 1][4];
    if constexpr (shared_t::Q_IN_REGISTERS) {
#pragma unroll
        for (int tile = 0; tile < ROW_TILES; tile++)
#pragma unroll
            for (int i = 0; i < shared_t::STEPS; i++) load_step(q[tile][i], shared.q + warp_row + 16 * tile, i);
    }

    for (int at = item.tile_begin; at < item.tile_end; at++) {
        kg_copies_wait();
        __syncthreads(); /* this tile is visible; all have read the one before */
        if (at + 1 < item.tile_end) copy(at + 1);
        float score[ROW_TILES][KEYS / 2] = {}, shrink[2];
        unsigned weight[ROW_TILES][KEYS / 4];
        add_scores(score, q, shared, warp_row, at % 2);
        const bool all = at * KEYS >= mine.all_begin && (at + 1) * KEYS <= mine.all_end; /* the same for the warp */
#pragma unroll
        for (int tile = 0; tile < ROW_TILES; tile++) {
            if (!all) {
                int first_key[2], last_key[2];
                row_limits(p, first + 16 * tile + lane / 4, first_key, last_key);
                mask_scores(score[tile], at * KEYS, first_key, last_key);
            }
            softmax_exact(sums[tile], score[tile], weight[tile], shrink, scale, { false, false });
            scale_rows(value[tile], shrink);
        }
        add_values(value, weight, shared, at % 2);
    }

    const float sink = p.sinks ? p.sinks[item.head] * LOG2_E : -CUDART_INF_F;
    __half *y = p.y + item.batch * p.y_strides.batch + item.head * p.y_strides.head;
#pragma unroll
    for (int tile = 0; tile < ROW_TILES; tile++) {
        const int row = first + 16 * tile + lane / 4;
        const float share[2] = {
            unit * row_share(sums[tile].reference[0], row_weight(sums[tile].weight[0]), scale, sink),
            unit * row_share(sums[tile].reference[1], row_weight(sums[tile].weight[1]), scale, sink)
        };
        scale_rows(value[tile], share);
        if constexpr (NARROW) store_even_odd(y, p.y_strides.row, row, p.n_queries, p.head_dim, value[tile]);
        else store_rows(y, p.y_strides.row, row, p.n_queries, p.head_dim, value[tile]);
    }
}

template <typename T, int DIMS, int ROW_TILES>
enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args, struct kg_error *err) {
    using shared_t = mma_shared<T, DIMS, ROW_TILES>;
    const mma_params p = { call_params_make(args, shared_t::QUERIES), *args };
    return kg_launch_dependent(cuda, mma_kernel<T, DIMS, ROW_TILES>, dim3(p.n_batch * p.n_heads * p.n_row_tiles),
                               THREADS, p, "sdpa (mma)", err, sizeof(shared_t));
}

} // namespace

} // namespace kg_sdpa

const char *kg_sdpa_mma_refuses(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args) {
    const uint64_t n_blocks = (uint64_t)args->n_batch * args->n_heads * kg_blocks_for(args->n_queries, 64);
    if ((uint64_t)args->n_batch * args->n_heads > INT32_MAX || n_blocks > INT32_MAX)
        return "too many heads and queries";
    return kg_sdpa::refuses_operands(cuda, args);
}

enum kg_status kg_sdpa_mma_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                                  struct kg_error *err) {
    using namespace kg_sdpa;
    /* Where 128 queries a block give every multiprocessor two blocks, keys are read half as often as with 64. */
    const bool many =
        (uint64_t)args->n_batch * args->n_heads * kg_blocks_for(args->n_queries, 128) >= 2 * (uint64_t)cuda->n_sms;
    return launch_for(args, [=](auto in, auto dims) {
        return many ? launch<decltype(in), dims, 2>(cuda, args, err) : launch<decltype(in), dims, 1>(cuda, args, err);
    });
}
