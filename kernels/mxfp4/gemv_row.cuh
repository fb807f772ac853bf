/* Single rows times repacked MXFP4 weights (equation: mxfp4.h): the kernel for one row of x, and for the few experts of
 * a token. With two matrices, y = swiglu(gate, up) (swiglu.cuh).
 *
 * Numerics: gemv.cuh's, to the bit. Gate and up stay float32 until they are gated.
 *
 * Map: a block has neighbouring items, each a group of 16 rows of W (of both matrices) for one row of y, in pieces of
 * up to 64 tiles. The producer warp copies pieces by TMA to a ring in shared memory, and runs the epilogue: it adds the
 * sums of the 8 consumer warps and stores y. A consumer only multiplies: it has the parts of two of gemv.cuh's warps,
 * and multiplies a set (four tiles) of each at a time. The first copies start before the dependency wait. Shared memory
 * leaves room for a block of the next launch on the multiprocessor, which begins once all copies are issued.
 *
 * The right operand's eight columns are the eight MXFP4 blocks of a set: x of a block in its own column, zeros
 * elsewhere. So one accumulator sums many tiles, each block in its own column, and a lane scales 4 sums instead of 32.
 * Products into one accumulator wait for each other, so sets of three and four tiles have two accumulators, of four
 * blocks each. An operand then has x of two blocks, one for each accumulator; the other's column is ignored. */
#ifndef KIGO_KERNELS_MXFP4_GEMV_ROW_CUH
#define KIGO_KERNELS_MXFP4_GEMV_ROW_CUH

#include "kernels/mxfp4/gemv.cuh"
#include "kernels/ptx/compiler.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/block/swiglu.cuh"

namespace kg_mxfp4 {

enum {
    ROW_WARPS = 8,
    ROW_THREADS = (ROW_WARPS + 1) * 32,  /* consumers, and the producer warp */
    WARP_PARTS = GEMV_WARPS / ROW_WARPS, /* warp w has parts w and w + 8 of a group's 16: tiles p, p + 16, ... */
    ROW_MAX_SLOTS = 6,
    SET_TILES = GEMV_STAGES,
    PIECE_TILES = SET_TILES * GEMV_WARPS,
    SET_X_BYTES = SET_TILES * TILE_COLS * (int)sizeof(__half)
};

struct row_params {
    struct kg_mxfp4_product p;
    const uint8_t *up;    /* second matrix, or unused; p has the gate */
    const float *up_bias; /* NULL for none */
    struct kg_swiglu_op gate;
    /* Set by the launcher. */
    uint32_t n_slots, slot_tiles, x_rows; /* x_rows: rows of y that a block has, at most */
    uint32_t block_items, more_items;     /* items of a block; the first more_items blocks have one more */
};

static __host__ __device__ __forceinline__ uint32_t row_pieces(uint32_t n_cols) {
    return (n_cols / TILE_COLS + PIECE_TILES - 1) / PIECE_TILES;
}

/* Bytes of a row of x: for each piece, a set for each part, in the right operand's order. */
static __host__ __device__ __forceinline__ uint32_t row_x_bytes(uint32_t n_cols) {
    return row_pieces(n_cols) * GEMV_WARPS * SET_X_BYTES;
}

/* Sums of a unit: one matrix's group for one row of y. Each slot has a buffer of them, and the epilogue reads two more.
 */
enum { MORE_SUMS = 2 };
struct row_sum {
    float part[GEMV_WARPS][GROUP_ROWS];
};

struct row_barriers {
    uint64_t full[ROW_MAX_SLOTS], empty[ROW_MAX_SLOTS];
};

/* A block's work: n_items items, the first of them group first_group of row first_row of y. It counts rows, which are
 * few, since a division would delay the first copy. */
struct row_work {
    uint32_t first_row, first_group, n_items, n_groups, n_tiles, n_pieces;

    __device__ __forceinline__ explicit row_work(const row_params &g)
        : first_row(0), first_group(blockIdx.x * g.block_items + min(blockIdx.x, g.more_items)),
          n_items(g.block_items + (blockIdx.x < g.more_items)), n_groups(g.p.n_out / GROUP_ROWS),
          n_tiles(g.p.n_cols / TILE_COLS), n_pieces(row_pieces(g.p.n_cols)) {
        for (; first_group >= n_groups; first_group -= n_groups) first_row++;
    }
    /* Rows of y that the block has. */
    __device__ __forceinline__ uint32_t n_rows() const {
        uint32_t n = 1;
        for (uint32_t groups = n_groups; groups < first_group + n_items; groups += n_groups) n++;
        return n;
    }
};

/* The row of x of a row of y. */
static __device__ __forceinline__ uint32_t x_row(const row_params &g, uint32_t row) {
    uint32_t n = 0;
    for (; row >= g.p.n_sharing; row -= g.p.n_sharing) n++;
    return n;
}

/* A position among a block's pieces. */
template <int MATRICES> struct row_cursor {
    uint32_t row, group, matrix, piece;
    int32_t id; /* of the row's expert */

    __device__ __forceinline__ row_cursor(const row_params &g, const row_work &work)
        : row(work.first_row), group(work.first_group), matrix(0), piece(0), id(g.p.ids ? g.p.ids[row] : 0) {
    }
    __device__ __forceinline__ void advance(const row_params &g, const row_work &work) {
        if (++piece < work.n_pieces) return;
        piece = 0;
        if (++matrix < MATRICES) return;
        matrix = 0;
        if (++group < work.n_groups) return;
        group = 0, row++;
        if (g.p.ids && row < g.p.n_rows) id = g.p.ids[row];
    }
    /* Else expert 0's weights are read, and nothing is stored. */
    __device__ __forceinline__ bool is_expert(const row_params &g) const {
        return (uint32_t)id < g.p.n_experts;
    }
};

/* The ring. A slot: codes of up to slot_tiles tiles, then their scales. */
struct row_ring {
    uint32_t full, empty, data, slot_bytes, n_slots, slot, parity;
    __device__ __forceinline__ row_ring(const row_params &g, const row_barriers &barriers, const void *slots)
        : full(kg_opaque(kg_shared_address(barriers.full))), empty(full + (uint32_t)sizeof barriers.full),
          data(kg_shared_address(slots)), slot_bytes(g.slot_tiles * (CODES_BYTES + SCALES_BYTES)), n_slots(g.n_slots),
          slot(0), parity(0) {
    }
    __device__ __forceinline__ void advance() {
        if (++slot == n_slots) slot = 0, parity ^= 1;
    }
};

/* A lane's output of a group: its address and bias. */
struct row_output {
    size_t to;
    float bias;
    bool is_stored;

    /* One matrix: lanes 0-15 and 16-31 add one half of the parts each. Two: one matrix each. */
    template <int MATRICES>
    static __device__ __forceinline__ row_output of(const row_params &g, const row_cursor<MATRICES> &at) {
        const uint32_t lane = threadIdx.x % 32, upper = lane / GROUP_ROWS,
                       o = at.group * GROUP_ROWS + lane % GROUP_ROWS;
        const float *bias = MATRICES == 2 && upper ? g.up_bias : g.p.bias;
        const bool is_expert = at.is_expert(g);
        return { (size_t)at.row * g.p.n_out + o, bias && is_expert ? bias[(size_t)at.id * g.p.n_out + o] : 0,
                 upper == 0 && is_expert };
    }
    /* Adds in add_warps' order. gate: sums of the first of two matrices. */
    template <int MATRICES>
    __device__ __forceinline__ void store(const row_params &g, const row_sum &gate, const row_sum &sum) const {
        const uint32_t r = threadIdx.x % GROUP_ROWS, upper = threadIdx.x % 32 / GROUP_ROWS;
        float y = 0;
        if constexpr (MATRICES == 2) {
            const row_sum &own = upper ? sum : gate;
            y = add_warps<GEMV_WARPS>([&](int i) { return own.part[i][r]; });
        } else {
#pragma unroll
            for (int i = 0; i < GEMV_WARPS / 2; i++) y += sum.part[upper * (GEMV_WARPS / 2) + i][r];
            y += __shfl_xor_sync(0xFFFFFFFFu, y, GROUP_ROWS);
        }
        y *= 1 / UNPACKED_UNIT;
        if (MATRICES == 2 && upper ? g.up_bias : g.p.bias) y += bias;
        if constexpr (MATRICES == 2) y = g.gate(y, __shfl_xor_sync(0xFFFFFFFFu, y, GROUP_ROWS));
        if (!is_stored) return;
        if (g.p.y_is_f16) static_cast<__half *>(g.p.y)[to] = __float2half_rn(y);
        else static_cast<float *>(g.p.y)[to] = y;
    }
};

/* The producer warp. What needs no id is computed before the wait for ids, what needs no sum before the wait for sums.
 */
template <int MATRICES> struct row_producer {
    const row_params &g;
    const row_work &work;
    uint32_t group_bytes, n_pieces, n_fetched;
    uint64_t matrix_bytes, policy;

    __device__ __forceinline__ row_producer(const row_params &params, const row_work &of)
        : g(params), work(of), group_bytes(kg_opaque(work.n_tiles * (CODES_BYTES + SCALES_BYTES))),
          n_pieces(kg_opaque(work.n_items * MATRICES * work.n_pieces)), n_fetched(0),
          matrix_bytes(kg_opaque((uint64_t)work.n_groups * group_bytes)), policy(kg_policy_evict_first()) {
    }
    __device__ __forceinline__ void fetch(const row_cursor<MATRICES> &at, const row_ring &ring) const {
        if (threadIdx.x % 32 != 0) return;
        const uint32_t first = at.piece * PIECE_TILES, count = min(work.n_tiles - first, (uint32_t)PIECE_TILES);
        const uint8_t *group = (MATRICES == 2 && at.matrix ? g.up : g.p.weight) + at.group * (size_t)group_bytes +
                               (at.is_expert(g) ? (uint32_t)at.id : 0u) * matrix_bytes;
        const uint32_t to = ring.data + ring.slot * ring.slot_bytes, full = ring.full + ring.slot * 8;
        kg_mbarrier_expect(full, count * (CODES_BYTES + SCALES_BYTES));
        kg_bulk_copy(to, group + first * CODES_BYTES, count * CODES_BYTES, full, policy);
        kg_bulk_copy(to + g.slot_tiles * CODES_BYTES, group + work.n_tiles * CODES_BYTES + first * SCALES_BYTES,
                     count * SCALES_BYTES, full, policy);
    }
    /* Copies of the first pieces. */
    __device__ __forceinline__ void fill(row_cursor<MATRICES> &next, row_ring ring) {
#pragma unroll 1
        for (; n_fetched < n_pieces && n_fetched < ring.n_slots; n_fetched++) {
            fetch(next, ring);
            next.advance(g, work);
            ring.advance();
        }
    }
    /* The next launch's copies would delay this one's; it may read ids and weights before its wait (ids_known). */
    __device__ __forceinline__ void start_dependents(bool ids_late) const {
        if (MATRICES == 2 && ids_late && n_fetched == n_pieces) kg_dependents_start();
    }
    /* Copies of the others as slots become empty, and the epilogue of all. */
    __device__ __forceinline__ void run(row_cursor<MATRICES> next, row_cursor<MATRICES> done, row_ring ring,
                                        const row_sum *sums, bool ids_late) {
        const row_sum *const end = sums + g.n_slots + MORE_SUMS, *sum = sums, *gate = sums;
#pragma unroll 1
        for (uint32_t i = 0; i < n_pieces; i++) {
            const bool is_unit = done.piece + 1 == work.n_pieces, is_item = is_unit && done.matrix + 1 == MATRICES;
            row_output output = {};
            if (is_item) output = row_output::of(g, done);
            kg_mbarrier_poll(ring.empty + ring.slot * 8, ring.parity);
            if (n_fetched < n_pieces) {
                fetch(next, ring);
                n_fetched++;
                next.advance(g, work);
                start_dependents(ids_late);
            }
            if (is_item) output.store<MATRICES>(g, *gate, *sum);
            if (is_unit) {
                gate = sum;
                if (++sum == end) sum = sums;
            }
            done.advance(g, work);
            ring.advance();
        }
    }
};

/* A consumer warp's part of x: 16 bytes of global memory for each lane, part and set. Addresses are computed before the
 * wait for x. */
struct warp_x {
    const __half *from; /* in the first row and piece */
    uint32_t to, tile;

    __device__ __forceinline__ warp_x(const row_params &g, const row_work &work, uint32_t x_at) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        tile = kg_opaque(lane / 8 * GEMV_WARPS + warp);
        from = kg_opaque(g.p.x + (size_t)x_row(g, work.first_row) * g.p.n_cols + tile * TILE_COLS + lane % 8 * 8);
        to = kg_opaque(x_at + warp * SET_X_BYTES + lane / 8 * (TILE_COLS * 2) + lane % 8 / 4 * 64 + lane % 4 * 4);
    }
    __device__ __forceinline__ void stage_row(const row_work &work, const __half *row, uint32_t set,
                                              uint32_t n_pieces) const {
#pragma unroll 1
        for (uint32_t first = 0; first < n_pieces * PIECE_TILES;
             first += PIECE_TILES, set += GEMV_WARPS * SET_X_BYTES) {
            uint4 v[WARP_PARTS] = {}; /* zeros past the last tile */
#pragma unroll
            for (int p = 0; p < WARP_PARTS; p++)
                if (first + tile + p * ROW_WARPS < work.n_tiles)
                    v[p] = *reinterpret_cast<const uint4 *>(row + (first + p * ROW_WARPS) * TILE_COLS);
#pragma unroll
            for (int p = 0; p < WARP_PARTS; p++) {
                const uint32_t at = set + p * ROW_WARPS * SET_X_BYTES;
                kg_store_shared(at, v[p].x), kg_store_shared(at + 16, v[p].y);
                kg_store_shared(at + 32, v[p].z), kg_store_shared(at + 48, v[p].w);
            }
        }
    }
    template <bool WHOLE>
    __device__ __forceinline__ void stage(const row_params &g, const row_work &work, uint32_t n_rows) const {
        const uint32_t n_pieces = WHOLE ? 1 : work.n_pieces;
        stage_row(work, from, to, n_pieces);
#pragma unroll 1
        for (uint32_t i = 1; i < n_rows; i++) {
            const uint32_t further = x_row(g, work.first_row + i) - x_row(g, work.first_row);
            stage_row(work, from + (size_t)further * g.p.n_cols, to + i * row_x_bytes(g.p.n_cols), n_pieces);
        }
        __syncwarp(); /* the warp's x is visible to its lanes */
    }
};

/* x of a part's set, for SUMS accumulators: operand i is for block i of each accumulator's blocks. */
template <int SUMS> struct set_x {
    static constexpr uint32_t OPERANDS = 2 * SET_TILES / SUMS;
    uint32_t operand[OPERANDS][4];

    /* Lane (g, t) has x of block g; other lanes have zeros in that column. */
    __device__ __forceinline__ void read(uint32_t x) {
        const uint32_t lane = threadIdx.x % 32, own = lane / 4 % OPERANDS;
        const uint4 v = kg_load_shared<uint4>(x + lane * 16);
#pragma unroll
        for (uint32_t i = 0; i < OPERANDS; i++) {
            operand[i][0] = i == own ? v.x : 0, operand[i][1] = i == own ? v.y : 0;
            operand[i][2] = i == own ? v.z : 0, operand[i][3] = i == own ? v.w : 0;
        }
    }
};

/* For each of the warp's parts: low, high (rows g and g + 8) += this lane's blocks (of tile t) of COUNT tiles times x.
 */
template <int COUNT, int SUMS>
static __device__ __forceinline__ void add_sets(float (&low)[WARP_PARTS], float (&high)[WARP_PARTS], uint32_t codes,
                                                const uint32_t (&scales)[WARP_PARTS], uint32_t slot,
                                                const set_x<SUMS> (&x)[WARP_PARTS]) {
    constexpr int OPERANDS = set_x<SUMS>::OPERANDS, SUM_TILES = SET_TILES / SUMS;
    float sum[WARP_PARTS][SUMS][4] = {};
    uint32_t e[WARP_PARTS];
#pragma unroll
    for (int p = 0; p < WARP_PARTS; p++) e[p] = kg_load_shared<uint32_t>(scales[p] + slot);
#pragma unroll
    for (int i = 0; i < SET_TILES; i++) {
        const int u = i % SUMS * SUM_TILES + i / SUMS; /* alternates between the accumulators */
        if (u >= COUNT) continue;
        uint4 code[WARP_PARTS];
#pragma unroll
        for (int p = 0; p < WARP_PARTS; p++)
            code[p] = kg_load_shared<uint4>(codes + slot + (u * GEMV_WARPS + p * ROW_WARPS) * CODES_BYTES);
#pragma unroll
        for (int block = 2 * u; block < 2 * u + 2; block++)
#pragma unroll
            for (int p = 0; p < WARP_PARTS; p++) {
                const uint32_t words[4] = { code[p].x, code[p].y, code[p].z, code[p].w };
                const uint32_t(&v)[4] = x[p].operand[block % OPERANDS];
                float(&s)[4] = sum[p][block / OPERANDS];
                uint32_t a[4], b[4];
                unpack(words[block % 2 * 2], a);
                unpack(words[block % 2 * 2 + 1], b);
                kg_mma_16x8x16_free(s, a[0], b[0], a[1], b[1], v[0], v[1]);
                kg_mma_16x8x16_free(s, a[2], b[2], a[3], b[3], v[2], v[3]);
            }
    }
#pragma unroll
    for (int p = 0; p < WARP_PARTS; p++) {
        float scale[4], own[4]; /* of columns 2 t and 2 t + 1 */
        float_scales(e[p], scale);
#pragma unroll
        for (int c = 0; c < 4; c++) own[c] = SUMS == 2 && threadIdx.x % 4 / 2 ? sum[p][SUMS - 1][c] : sum[p][0][c];
        low[p] = fmaf(own[0], scale[0], low[p]);
        high[p] = fmaf(own[2], scale[1], high[p]);
        low[p] = fmaf(own[1], scale[2], low[p]);
        high[p] = fmaf(own[3], scale[3], high[p]);
    }
}

/* The consumers' loop. LAST: tiles of a part in a group's last piece, at most; a missing tile reads another, with zeros
 * for x. WHOLE: a group is one piece. */
template <int LAST, bool WHOLE>
static __device__ __forceinline__ void multiply_units(const row_params &g, const row_work &work, uint32_t sums,
                                                      row_ring ring, uint32_t x_at, uint32_t n_matrices) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t n_full = WHOLE ? 0 : work.n_pieces - 1, in_last = work.n_tiles - n_full * PIECE_TILES;
    const uint32_t codes_at = kg_opaque(ring.data + warp * CODES_BYTES + lane * LANE_BYTES),
                   scales = ring.data + g.slot_tiles * CODES_BYTES + lane / 4 * 4,
                   sum_at = kg_opaque(sums + (warp * GROUP_ROWS + lane % 2 * 8 + lane / 4) * (uint32_t)sizeof(float)),
                   n_sums = g.n_slots + MORE_SUMS, n_units = work.n_items * n_matrices;
    uint32_t scales_at[WARP_PARTS], last_scales_at[WARP_PARTS];
    constexpr int SUMS = !WHOLE || LAST > SET_TILES / 2 ? 2 : 1;
    set_x<SUMS> x[WARP_PARTS];
    x_at += warp * SET_X_BYTES;
#pragma unroll
    for (uint32_t p = 0; p < WARP_PARTS; p++) {
        const uint32_t tile = lane % 4 * GEMV_WARPS + warp + p * ROW_WARPS;
        scales_at[p] = scales + tile * SCALES_BYTES;
        last_scales_at[p] = kg_opaque(scales + (tile < in_last ? tile : 0u) * SCALES_BYTES);
        if (WHOLE) x[p].read(x_at + p * ROW_WARPS * SET_X_BYTES);
    }
    const auto leave = [&] {
        __syncwarp(); /* the warp has read the slot and written its sums */
        if (lane == 0) kg_mbarrier_arrive(ring.empty + ring.slot * 8);
        ring.advance();
    };
    uint32_t left = (work.n_groups - work.first_group) * n_matrices; /* units left of this row of y */
    uint32_t sum = 0;
    for (uint32_t unit = 0; unit < n_units; unit++) {
        float low[WARP_PARTS] = {}, high[WARP_PARTS] = {};
        for (uint32_t piece = 0; !WHOLE && piece < n_full; piece++) {
#pragma unroll
            for (uint32_t p = 0; p < WARP_PARTS; p++)
                x[p].read(x_at + (piece * GEMV_WARPS + p * ROW_WARPS) * SET_X_BYTES);
            kg_mbarrier_poll(ring.full + ring.slot * 8, ring.parity);
            add_sets<SET_TILES, SUMS>(low, high, codes_at, scales_at, ring.slot * ring.slot_bytes, x);
            leave();
        }
#pragma unroll
        for (uint32_t p = 0; !WHOLE && p < WARP_PARTS; p++)
            x[p].read(x_at + (n_full * GEMV_WARPS + p * ROW_WARPS) * SET_X_BYTES);
        kg_mbarrier_poll(ring.full + ring.slot * 8, ring.parity);
        add_sets<LAST, SUMS>(low, high, codes_at, last_scales_at, ring.slot * ring.slot_bytes, x);
        /* Lanes t and t ^ 1 exchange a row's sum each, then t and t ^ 2; lanes t = 0, 1 have one row each. */
#pragma unroll
        for (uint32_t p = 0; p < WARP_PARTS; p++) {
            float y = lane % 2 ? high[p] : low[p];
            y += __shfl_xor_sync(0xFFFFFFFFu, lane % 2 ? low[p] : high[p], 1);
            y += __shfl_xor_sync(0xFFFFFFFFu, y, 2);
            if (lane % 4 < 2)
                kg_store_shared(sum_at + sum * sizeof(row_sum) + p * ROW_WARPS * GROUP_ROWS * sizeof(float),
                                __float_as_uint(y));
        }
        leave();
        if (++sum == n_sums) sum = 0;
        if (--left == 0) {
            left = work.n_groups * n_matrices, x_at += row_x_bytes(g.p.n_cols);
            if (WHOLE && unit + 1 < n_units)
#pragma unroll
                for (uint32_t p = 0; p < WARP_PARTS; p++) x[p].read(x_at + p * ROW_WARPS * SET_X_BYTES);
        }
    }
}

/* Named barrier: initialisation, once. The producer arrives without waiting. */
enum { ROW_BARRIER = 1 };

template <int LAST, bool WHOLE, int MATRICES>
__global__ void __launch_bounds__(ROW_THREADS, 2) gemv_row_kernel(const __grid_constant__ row_params g) {
    extern __shared__ uint4 row_memory[];
    __shared__ row_barriers barriers;
    const bool ids_late = g.p.ids && !g.p.ids_known;
    const row_work work(g);
    const row_ring ring(g, barriers, row_memory);
    const uint32_t x_at = ring.data + g.n_slots * ring.slot_bytes, x_bytes = g.x_rows * row_x_bytes(g.p.n_cols);
    if (threadIdx.x / 32 == ROW_WARPS) {
        if (threadIdx.x % 32 == 0) {
            for (uint32_t i = 0; i < g.n_slots; i++) {
                kg_mbarrier_init(ring.full + i * 8, 1);
                kg_mbarrier_init(ring.empty + i * 8, ROW_WARPS);
            }
            kg_mbarrier_init_fence();
        }
        __syncwarp();
        const row_sum *sums = reinterpret_cast<const row_sum *>(reinterpret_cast<const unsigned char *>(row_memory) +
                                                                g.n_slots * ring.slot_bytes + x_bytes);
        row_producer<MATRICES> producer(g, work);
        if (ids_late) {
            kg_barrier_arrive(ROW_BARRIER, ROW_THREADS);
            if (MATRICES == 1) kg_dependents_start();
            kg_dependency_wait();
        } else kg_dependents_start();
        row_cursor<MATRICES> next(g, work);
        const row_cursor<MATRICES> first = next;
        producer.fill(next, ring);
        producer.start_dependents(ids_late);
        if (!ids_late) {
            kg_barrier_arrive(ROW_BARRIER, ROW_THREADS);
            kg_dependency_wait(); /* write-after-read: nothing reads y any more */
        }
        producer.run(next, first, ring, sums, ids_late);
        return;
    }
    const warp_x x(g, work, x_at);
    const uint32_t n_rows = kg_opaque(work.n_rows());
    kg_barrier_sync(ROW_BARRIER, ROW_THREADS);     /* mbarriers are initialised */
    if (!ids_late) kg_mbarrier_poll(ring.full, 0); /* its first piece most often, too */
    kg_dependency_wait();                          /* x is visible */
    x.stage<WHOLE>(g, work, n_rows);
    multiply_units<LAST, WHOLE>(g, work, x_at + x_bytes, ring, x_at, MATRICES);
}

} // namespace kg_mxfp4

#endif
