/* Rows of y of their own, times MXFP4 weights in tiles (equation: mxfp4.h): the kernel for a row of x, and for the few experts
 * of a token. Of two matrices at once, y = swiglu(gate, up) (swiglu.cuh).
 *
 * Numerics: gemv.cuh's, to the bit: a warp's tiles w, w + 16, ... in order, then the warps in order. Gate and up stay float32
 * until they are gated.
 *
 * Map: a block takes neighbouring items, each a group of 16 rows of W for one row of y (of both matrices, if there are two),
 * in pieces of up to 64 tiles. One warp, the keeper, has pieces copied to a ring in shared memory (persistent/ring.cuh), and
 * adds up and stores what the 16 others made of them: these do nothing but multiply. The first pieces are under way before the launch
 * waits for the one before it; a block leaves room for one of the next launch on its multiprocessor. */
#ifndef KIGO_KERNELS_MXFP4_GEMV_ROW_CUH
#define KIGO_KERNELS_MXFP4_GEMV_ROW_CUH

#include "kernels/mxfp4/gemv.cuh"
#include "kernels/persistent/ring.cuh"
#include "kernels/swiglu.cuh"

namespace kg_mxfp4 {

enum {
    ROW_WARPS = 16,
    ROW_THREADS = (ROW_WARPS + 1) * 32,
    ROW_MOST_SLOTS = 6,
    PIECE_TILES = 4 * ROW_WARPS,
    ROW_SUMS = 8 /* units of which sums may wait: ROW_MOST_SLOTS, and two that are added up */
};

struct row_params {
    struct kg_mxfp4_product p;
    const uint8_t *up;    /* where two matrices are multiplied: p has the gate */
    const float *up_bias; /* NULL for none */
    struct kg_swiglu_op gate;
    uint32_t n_slots, slot_tiles;
};

/* Bytes of x's row, in the right operand's order. */
static __host__ __device__ __forceinline__ uint32_t row_x_bytes(uint32_t n_cols) {
    return n_cols * (uint32_t)sizeof(__half);
}

struct row_shared {
    uint64_t full[ROW_MOST_SLOTS], empty[ROW_MOST_SLOTS];
    float sums[ROW_SUMS][ROW_WARPS][GROUP_ROWS]; /* of a unit: a matrix's group */
};

/* A place among a block's pieces: of a matrix's group for a row of y. */
template <int MATRICES> struct row_place {
    uint32_t row, group, matrix, piece, n_groups, n_pieces;
    int32_t id; /* of the row's expert */

    __device__ __forceinline__ row_place(const row_params &g, uint32_t item)
        : matrix(0), piece(0), n_groups(g.p.n_out / GROUP_ROWS),
          n_pieces((g.p.n_cols / TILE_COLS + PIECE_TILES - 1) / PIECE_TILES) {
        row = item / n_groups, group = item % n_groups;
        id = g.p.ids ? g.p.ids[row] : 0;
    }
    __device__ __forceinline__ void advance(const row_params &g) {
        if (++piece < n_pieces) return;
        piece = 0;
        if (++matrix < MATRICES) return;
        matrix = 0;
        if (++group < n_groups) return;
        group = 0, row++;
        if (g.p.ids && row < g.p.n_rows) id = g.p.ids[row];
    }
    /* An id that is no expert's takes another's weights, and is not stored. */
    __device__ __forceinline__ bool is_expert(const row_params &g) const {
        return (uint32_t)id < g.p.n_experts;
    }
};

/* A slot: codes of up to slot_tiles tiles, then their scales. */
struct row_ring {
    uint32_t full, empty, data, slot_bytes, n_slots, slot, parity;
    __device__ __forceinline__ row_ring(const row_params &g, const row_shared &shared, const void *slots)
        : full(kg_shared_address(shared.full)), empty(kg_shared_address(shared.empty)), data(kg_shared_address(slots)),
          slot_bytes(g.slot_tiles * (CODES_BYTES + SCALES_BYTES)), n_slots(g.n_slots), slot(0), parity(0) {
    }
    __device__ __forceinline__ void advance() {
        if (++slot == n_slots) slot = 0, parity ^= 1;
    }
};

template <int MATRICES>
static __device__ __forceinline__ void fetch_piece(const row_params &g, const row_place<MATRICES> &at,
                                                   const row_ring &ring, uint64_t policy) {
    using namespace kg_persistent;
    const uint32_t n_tiles = g.p.n_cols / TILE_COLS, first = at.piece * PIECE_TILES,
                   count = min(n_tiles - first, (uint32_t)PIECE_TILES);
    const uint8_t *group =
        (MATRICES == 2 && at.matrix ? g.up : g.p.weight) +
        ((size_t)(at.is_expert(g) ? at.id : 0) * at.n_groups + at.group) * n_tiles * (CODES_BYTES + SCALES_BYTES);
    const uint32_t to = ring.data + ring.slot * ring.slot_bytes, full = ring.full + ring.slot * 8;
    barrier_expect(full, count * (CODES_BYTES + SCALES_BYTES));
    copy_bulk(to, group + first * CODES_BYTES, count * CODES_BYTES, full, policy);
    copy_bulk(to + g.slot_tiles * CODES_BYTES, group + n_tiles * CODES_BYTES + first * SCALES_BYTES,
              count * SCALES_BYTES, full, policy);
}

/* The group's sums of all warps, lane by lane a row of W; of the second matrix in the upper half of the lanes. */
template <int MATRICES>
static __device__ __forceinline__ void store_group(const row_params &g, const row_place<MATRICES> &at,
                                                   const row_shared &shared, uint32_t unit) {
    const uint32_t lane = threadIdx.x % 32, r = lane % GROUP_ROWS, m = MATRICES == 2 ? lane / GROUP_ROWS : 0;
    const uint32_t o = at.group * GROUP_ROWS + r;
    const float(*sums)[GROUP_ROWS] = shared.sums[(unit - (MATRICES - 1) + m) % ROW_SUMS];
    const float *bias = m ? g.up_bias : g.p.bias;
    float y = 0;
#pragma unroll
    for (int w = 0; w < ROW_WARPS; w++) y += sums[w][r];
    y *= 1 / PLACED_UNIT;
    if (bias && at.is_expert(g)) y += bias[(size_t)at.id * g.p.n_out + o];
    if constexpr (MATRICES == 2) y = g.gate(y, __shfl_xor_sync(0xFFFFFFFFu, y, GROUP_ROWS));
    if (lane >= GROUP_ROWS || !at.is_expert(g)) return;
    const size_t to = (size_t)at.row * g.p.n_out + o;
    if (g.p.y_is_f16) static_cast<__half *>(g.p.y)[to] = __float2half_rn(y);
    else static_cast<float *>(g.p.y)[to] = y;
}

static __device__ __forceinline__ uint4 read_shared_4(uint32_t from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from));
    return v;
}

static __device__ __forceinline__ uint32_t read_shared(uint32_t from) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from));
    return v;
}

/* low, high (of rows g and g + 8) += COUNT tiles, ROW_WARPS apart, times x: all columns of the right operand are x. */
template <int COUNT>
static __device__ __forceinline__ void add_tiles(float &low, float &high, uint32_t codes, uint32_t scales, uint32_t x) {
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        const uint4 code = read_shared_4(codes + u * ROW_WARPS * CODES_BYTES);
        const uint32_t words[4] = { code.x, code.y, code.z, code.w };
        float scale[4];
        float_scales(read_shared(scales + u * ROW_WARPS * SCALES_BYTES), scale);
#pragma unroll
        for (int block = 0; block < 2; block++) {
            const uint4 v = read_shared_4(x + u * ROW_WARPS * TILE_COLS * 2 + block * 64);
            uint32_t a[4], b[4];
            place(words[2 * block], a);
            place(words[2 * block + 1], b);
            float part[4] = { 0, 0, 0, 0 };
            multiply(part, a[0], b[0], a[1], b[1], v.x, v.y);
            multiply(part, a[2], b[2], a[3], b[3], v.z, v.w);
            low = fmaf(part[0], scale[2 * block], low);
            high = fmaf(part[2], scale[2 * block + 1], high);
        }
    }
}

template <int MATRICES>
static __device__ __forceinline__ void keep(const row_params &g, row_shared &shared, row_place<MATRICES> next,
                                            row_place<MATRICES> done, row_ring ring, uint32_t n_pieces,
                                            uint32_t n_fetched, uint64_t policy) {
    using namespace kg_persistent;
    for (uint32_t i = 0, unit = 0; i < n_pieces; i++) {
        barrier_wait(ring.empty + ring.slot * 8, ring.parity);
        if (n_fetched < n_pieces) {
            if (threadIdx.x % 32 == 0) fetch_piece(g, next, ring, policy);
            n_fetched++;
            next.advance(g);
        }
        if (done.piece + 1 == done.n_pieces) {
            if (done.matrix + 1 == MATRICES) store_group(g, done, shared, unit);
            unit++;
        }
        done.advance(g);
        ring.advance();
    }
}

static __device__ __forceinline__ void multiply_pieces(const row_params &g, row_shared &shared, row_ring ring,
                                                       uint32_t x_at, uint32_t first_group, uint32_t n_units,
                                                       uint32_t n_matrices) {
    using namespace kg_persistent;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_tiles = g.p.n_cols / TILE_COLS;
    const uint32_t codes_at = ring.data + warp * CODES_BYTES + lane * LANE_BYTES,
                   scales_at = ring.data + g.slot_tiles * CODES_BYTES + warp * SCALES_BYTES + lane / 4 * 4;
    uint32_t left = (g.p.n_out / GROUP_ROWS - first_group) * n_matrices; /* units of this row of y */
    x_at += warp * TILE_COLS * 2 + lane % 4 * 16;
    for (uint32_t unit = 0; unit < n_units; unit++) {
        float low = 0, high = 0;
        for (uint32_t tile = warp, first = 0; first < n_tiles; tile += PIECE_TILES, first += PIECE_TILES) {
            const uint32_t at = ring.slot * ring.slot_bytes, x = x_at + first * TILE_COLS * 2;
            const uint32_t count = tile < n_tiles ? min((n_tiles - tile + ROW_WARPS - 1) / ROW_WARPS, 4u) : 0;
            barrier_wait(ring.full + ring.slot * 8, ring.parity);
            if (count == 4) add_tiles<4>(low, high, codes_at + at, scales_at + at, x);
            else if (count == 3) add_tiles<3>(low, high, codes_at + at, scales_at + at, x);
            else if (count == 2) add_tiles<2>(low, high, codes_at + at, scales_at + at, x);
            else if (count == 1) add_tiles<1>(low, high, codes_at + at, scales_at + at, x);
            if (first + PIECE_TILES >= n_tiles && lane % 4 == 0) {
                float *to = shared.sums[unit % ROW_SUMS][warp];
                to[lane / 4] = low, to[lane / 4 + 8] = high;
            }
            __syncwarp(); /* all lanes have read the slot, and written their sums */
            if (lane == 0) barrier_arrive(ring.empty + ring.slot * 8);
            ring.advance();
        }
        if (--left == 0) left = g.p.n_out / GROUP_ROWS * n_matrices, x_at += row_x_bytes(g.p.n_cols);
    }
}

template <int MATRICES>
__global__ void __launch_bounds__(ROW_THREADS, 2) gemv_row_kernel(const __grid_constant__ row_params g) {
    using namespace kg_persistent;
    extern __shared__ uint4 row_memory[];
    __shared__ row_shared shared;
    const uint32_t warp = threadIdx.x / 32, n_groups = g.p.n_out / GROUP_ROWS;
    const uint32_t n_items = g.p.n_rows * n_groups, each = n_items / gridDim.x, more = n_items % gridDim.x;
    const uint32_t begin = blockIdx.x * each + min(blockIdx.x, more), n = each + (blockIdx.x < more);
    const uint32_t first_row = begin / n_groups, n_x = (begin + n - 1) / n_groups - first_row + 1;
    unsigned char *x_shared =
        reinterpret_cast<unsigned char *>(row_memory) + g.n_slots * g.slot_tiles * (CODES_BYTES + SCALES_BYTES);
    row_ring ring(g, shared, row_memory);
    /* A launch that reads weights of these ids before it waits (ids_known) begins once they are there. */
    if (g.p.ids && !g.p.ids_known) kg_dependency_wait();
    kg_dependents_start();
    const row_place<MATRICES> first(g, begin);
    row_place<MATRICES> next = first;
    const uint32_t n_pieces = n * MATRICES * first.n_pieces;
    uint32_t n_fetched = 0;
    const uint64_t policy = read_once_policy();
    if (warp == ROW_WARPS) {
        if (threadIdx.x % 32 == 0) {
            for (uint32_t i = 0; i < g.n_slots; i++) {
                barrier_init(ring.full + i * 8, 1);
                barrier_init(ring.empty + i * 8, ROW_WARPS);
            }
            barrier_init_fence();
        }
        __syncwarp();
        row_ring filled = ring;
        for (; n_fetched < n_pieces && n_fetched < g.n_slots; n_fetched++) {
            if (threadIdx.x % 32 == 0) fetch_piece(g, next, filled, policy);
            next.advance(g);
            filled.advance();
        }
    }
    if (!g.p.ids || g.p.ids_known) kg_dependency_wait(); /* x is there, and whoever read y has done so */
    stage_x(x_shared, n_x, g.p, row_x_bytes(g.p.n_cols), [&](uint32_t i) { return (first_row + i) / g.p.n_sharing; });
    __syncthreads(); /* x is there, and the barriers are */
    if (warp == ROW_WARPS) keep<MATRICES>(g, shared, next, first, ring, n_pieces, n_fetched, policy);
    else multiply_pieces(g, shared, ring, kg_shared_address(x_shared), begin % n_groups, n * MATRICES, MATRICES);
}

} // namespace kg_mxfp4

#endif
