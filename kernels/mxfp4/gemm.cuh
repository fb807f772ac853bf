/* Many rows times repacked MXFP4 weights (equation: mxfp4.h): the kernel, by wgmma (sm_90a).
 *
 * A block has M outputs of N rows and iterates over the columns, a tile of 64 at a time. It computes y^T = W x^T: W is
 * the left operand, which may come from registers, where it is decoded; x is the right one, in shared memory.
 *
 * Map: the last warpgroup is the producer. It copies tiles of W and rows of x (by index, with experts) to a ring of
 * STAGES. The other CONSUMERS have 64 outputs each. With n_split > 1 the blocks of a cluster split the columns.
 *
 * Numerics: consumers multiply codes by scale times 2^-SHIFT in float16. That is exact, as callers pass only scales
 * from LEAST_F16_SCALE to MOST_F16_SCALE. Products are exact, sums float32. Sums of a cluster's blocks are added in
 * order of columns; then come the bias and one rounding. A row's bits depend on the variant and the split, not on the
 * other rows. */
#ifndef KIGO_KERNELS_MXFP4_GEMM_CUH
#define KIGO_KERNELS_MXFP4_GEMM_CUH

#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/mxfp4/layout.cuh"
#include "kernels/ptx/tma.cuh"

namespace kg_mxfp4 {

enum { SHIFT = 4, ROW_BYTES = 128 };

/* Rows [first, first + size) of those sorted by expert. */
struct gemm_tile {
    uint32_t expert, first, size;
};

struct gemm_params {
    struct kg_mxfp4_product p;
    const uint32_t *row;           /* rows of y sorted by expert; NULL: rows in order */
    const struct gemm_tile *tiles; /* with row: N rows at most */
    const uint32_t *n_tiles;
    uint32_t n_split; /* blocks of a cluster */
};

/* What both kernels' shapes have. CONSUMERS warpgroups multiply a tile of columns for M outputs; tiles alternate
 * between SLICES such groups. Another warpgroup produces: BY_THREADS, or by TMA. */
template <int CONSUMERS_, int N_, int STAGES_, int SLICES_, int PRODUCER_REGISTERS_, bool BY_THREADS_>
struct ring_shape {
    static constexpr int CONSUMERS = CONSUMERS_, N = N_, STAGES = STAGES_, SLICES = SLICES_;
    static constexpr bool BY_THREADS = BY_THREADS_;
    static constexpr int SLICE_THREADS = CONSUMERS * 128, CONSUMER_THREADS = SLICES * SLICE_THREADS,
                         THREADS = CONSUMER_THREADS + 128;
    /* Both kinds of warpgroups divide the launch's registers (setmaxnreg). */
    static constexpr int PRODUCER_REGISTERS = PRODUCER_REGISTERS_, LAUNCH_REGISTERS = 65536 / THREADS / 8 * 8;
    static constexpr int CONSUMER_REGISTERS =
        ((CONSUMERS * SLICES + 1) * LAUNCH_REGISTERS - PRODUCER_REGISTERS) / (CONSUMERS * SLICES) / 8 * 8;
    static constexpr int M = CONSUMERS * 64, GROUPS = M / GROUP_ROWS;
    /* A stage: x, codes and scales of the groups; on 1024 bytes, the swizzle's atom. */
    static constexpr int CODES = N * ROW_BYTES, SCALES = CODES + GROUPS * CODES_BYTES,
                         COPIED_BYTES = SCALES + GROUPS * SCALES_BYTES,
                         STAGE_BYTES = (COPIED_BYTES + 1023) / 1024 * 1024, RING_BYTES = STAGES * STAGE_BYTES;
    static_assert(STAGES % SLICES == 0, "a stage is always the same slice's, which so has seen its use before");
    static_assert(STAGES / SLICES >= 3,
                  "a slice leaves a tile's stage after it has waited for the two tiles behind it");
};

template <int CONSUMERS, int N, int STAGES, int PRODUCER_REGISTERS>
struct gemm_shape : ring_shape<CONSUMERS, N, STAGES, 1, PRODUCER_REGISTERS, true> {
    using ring = ring_shape<CONSUMERS, N, STAGES, 1, PRODUCER_REGISTERS, true>;
    static constexpr int MULTICAST = 1;
    static constexpr bool GATED = false;
    /* Padding: neither writing columns nor reading rows of the sums has bank conflicts. */
    static constexpr int SUM_FLOATS = ring::M + 4, SUM_BYTES = N * SUM_FLOATS * 4;
    static constexpr int BYTES = (ring::RING_BYTES > SUM_BYTES ? ring::RING_BYTES : SUM_BYTES) + 1024; /* to align */
};

/* A position in the ring, which advances STEP stages at a time. */
template <int STAGES, int STEP> struct ring_cursor {
    uint32_t stage, parity;
    __device__ __forceinline__ void next() {
        stage += STEP;
        if (stage >= STAGES) stage -= STAGES, parity ^= 1;
    }
};

/* What a block computes. */
struct gemm_part : gemm_tile {
    uint32_t group;      /* first group of outputs */
    uint32_t begin, end; /* tiles of columns */
};

/* Codes of columns [16 K, 16 K + 16) of a tile as left operands, times 2^(e-127-SHIFT). */
template <int K> static __device__ __forceinline__ void scaled_operand(const lane_tile &tile, unsigned (&a)[4]) {
    constexpr uint32_t STEP = 0x0400, UNITS = (127 - 14 + SHIFT - 15) * 0x04000400u;
    const uint32_t words[2] = { K / 2 ? tile.codes.z : tile.codes.x, K / 2 ? tile.codes.w : tile.codes.y };
    /* Both rows' scales, a half each. */
    const uint32_t scales = __byte_perm(tile.scales, 0, K / 2 ? 0x4342 : 0x4140) * STEP - UNITS;
    const __half2 both = *reinterpret_cast<const __half2 *>(&scales);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const __half2 scale = row ? __high2half2(both) : __low2half2(both);
        uint32_t pairs[4];
        unpack(words[row], pairs);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const __half2 value = __hmul2(*reinterpret_cast<const __half2 *>(&pairs[K % 2 * 2 + i]), scale);
            a[row + i * 2] = *reinterpret_cast<const unsigned *>(&value);
        }
    }
}

/* n_producers arrive at a stage's `full`. */
template <typename S>
static __device__ __forceinline__ void init_barriers(unsigned full, unsigned empty, uint32_t n_producers) {
    for (int i = 0; i < S::STAGES; i++) {
        kg_mbarrier_init(full + 8 * i, n_producers);
        kg_mbarrier_init(empty + 8 * i, S::SLICE_THREADS / 32 * S::MULTICAST);
    }
}

template <int N> static __device__ __forceinline__ void zero_sums(float (&sum)[N]) {
#pragma unroll
    for (int k = 0; k < N; k++) sum[k] = 0;
    kg_pin(sum);
}

/* One thread's share of a stage's copies: 8 of 128 threads share a row of x, 32 a group's codes. */
template <typename S> struct stage_copier {
    static constexpr int PIECES = S::N / 16, GROUPS_EACH = S::GROUPS / 4;
    const __half *x[PIECES];
    const uint8_t *codes[GROUPS_EACH], *scales;
    uint32_t valid;
    unsigned to_x, to_codes, to_scales;
    bool has_scales;

    __device__ __forceinline__ stage_copier(const gemm_params &g, const gemm_part &part, unsigned ring) {
        const uint32_t thread = threadIdx.x % 128, piece = thread % 8, r0 = thread / 8;
        valid = 0;
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            const uint32_t r = r0 + 16 * i, at = part.first + min(r, part.size - 1);
            valid |= (uint32_t)(r < part.size) << i;
            x[i] = g.p.x + (size_t)((g.row ? g.row[at] : at) / g.p.n_sharing) * g.p.n_cols + part.begin * TILE_COLS +
                   piece * 8;
        }
        to_x = ring + r0 * ROW_BYTES + ((piece ^ (r0 & 7)) << 4);
        const uint32_t n_groups = g.p.n_out / GROUP_ROWS, n_tiles = g.p.n_cols / TILE_COLS;
        const size_t group_bytes = (size_t)n_tiles * (CODES_BYTES + SCALES_BYTES);
        /* Groups past the last read the last; their outputs are not stored. */
        const auto group_at = [&](uint32_t i) {
            return g.p.weight + ((size_t)part.expert * n_groups + min(part.group + i, n_groups - 1)) * group_bytes;
        };
#pragma unroll
        for (int i = 0; i < GROUPS_EACH; i++)
            codes[i] = group_at(4 * i + thread / 32) + (size_t)part.begin * CODES_BYTES + thread % 32 * LANE_BYTES;
        to_codes = ring + S::CODES + thread * LANE_BYTES;
        has_scales = thread < S::GROUPS * SCALES_BYTES / 16;
        scales =
            group_at(thread / 2) + (size_t)n_tiles * CODES_BYTES + (size_t)part.begin * SCALES_BYTES + thread % 2 * 16;
        to_scales = ring + S::SCALES + thread * 16;
    }

    __device__ __forceinline__ void copy(uint32_t tile, uint32_t stage) {
        const unsigned at = stage * S::STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < GROUPS_EACH; i++)
            kg_copy_16(to_codes + at + i * 4 * CODES_BYTES, codes[i] + (size_t)tile * CODES_BYTES, true);
        if (has_scales) kg_copy_16(to_scales + at, scales + (size_t)tile * SCALES_BYTES, true);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            kg_copy_16(to_x + at + i * 16 * ROW_BYTES, x[i] + tile * TILE_COLS, valid >> i & 1);
    }
};

/* The producer warpgroup. `full` completes when all copies of a stage have landed. */
template <typename S>
static __device__ __forceinline__ void produce(const gemm_params &g, const gemm_part &part, unsigned ring,
                                               unsigned full, unsigned empty) {
    stage_copier<S> from(g, part, ring);
    ring_cursor<S::STAGES, 1> at = { 0, 1 };
    for (uint32_t k = 0; k < part.end - part.begin; k++, at.next()) {
        kg_mbarrier_wait(empty + 8 * at.stage, at.parity);
        from.copy(k, at.stage);
        kg_copies_arrive(full + 8 * at.stage);
    }
    kg_copies_wait();
}

/* Moves a loaded tile to the one to decode. Opaque: else the compiler decodes right after the loads, and waits for
 * them. */
static __device__ __forceinline__ void consume_loaded(lane_tile &to, const lane_tile &from) {
    to = from;
    kg_pin(to.codes, to.scales);
}

/* A consumer warp's codes of a tile: those of its group of 16 rows; or, GATED, of 8 rows of a group of gates, then of
 * the same rows of ups, so that a thread's sums are gate and up of the same outputs. */
template <typename S> struct tile_loader {
    unsigned codes, scales; /* of stage 0, shared */
    bool upper;             /* GATED: the last 8 rows of the groups */
    lane_tile next[S::GATED ? 2 : 1];

    __device__ __forceinline__ explicit tile_loader(unsigned ring) {
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 128 % S::CONSUMERS * 4 + threadIdx.x / 32 % 4;
        const uint32_t group = S::GATED ? warp / 2 : warp;
        codes = kg_opaque(ring + S::CODES + group * CODES_BYTES + lane * LANE_BYTES);
        scales = kg_opaque(ring + S::SCALES + group * SCALES_BYTES + lane / 4 * 4);
        upper = warp % 2 != 0;
    }
    __device__ __forceinline__ void load(uint32_t stage) {
        const unsigned at = stage * S::STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < (S::GATED ? 2 : 1); i++) {
            next[i].codes = kg_load_shared<uint4>(codes + at + i * (S::GROUPS / 2) * CODES_BYTES);
            next[i].scales = kg_load_shared<uint32_t>(scales + at + i * (S::GROUPS / 2) * SCALES_BYTES);
        }
    }
    __device__ __forceinline__ void take(lane_tile &now) const {
        if constexpr (S::GATED) {
            const uint4 gate = next[0].codes, up = next[1].codes;
            lane_tile both;
            both.codes = upper ? make_uint4(gate.y, up.y, gate.w, up.w) : make_uint4(gate.x, up.x, gate.z, up.z);
            both.scales = __byte_perm(next[0].scales, next[1].scales, upper ? 0x7351 : 0x6240);
            consume_loaded(now, both);
        } else {
            consume_loaded(now, next[0]);
        }
    }
};

/* sum += the products of 16 columns and N rows. Waits until no more than three quarters are in flight. */
template <int N, int K>
static __device__ __forceinline__ void multiply_quarter(float (&sum)[N / 2], unsigned (&a)[4], const lane_tile &tile,
                                                        uint64_t x) {
    scaled_operand<K>(tile, a);
    kg_pin(a);
    kg_wgmma_fence();
    kg_wgmma<N>::template registers<false>(sum, a, x + (uint64_t)(K * 2), 1);
    kg_wgmma_commit();
    kg_wgmma_wait<3>();
}

/* A consumer warpgroup: sum = the products of its n_tiles tiles of columns and the block's first N rows. split: of the
 * cluster's parts of the columns, which have MULTICAST blocks each.
 *
 * A warpgroup issues in order: each instruction costs a clock, each wait or branch tens. So codes are loaded to
 * registers one tile ahead, the next stage's mbarrier is tested well before it matters, and stages are counted in
 * warp-uniform registers. */
template <typename S, int N>
static __device__ __forceinline__ void consume_tiles(float (&sum)[N / 2], uint32_t n_tiles, uint32_t split,
                                                     ring_cursor<S::STAGES, S::SLICES> &at, unsigned ring,
                                                     unsigned full, unsigned empty) {
    const uint32_t lane = threadIdx.x % 32;
    tile_loader<S> loader(ring);
    const bool arrives = lane < S::MULTICAST; /* lane i arrives at block i's mbarriers */
    const unsigned empty_there =
        S::MULTICAST == 1 ? empty : kg_opaque(kg_peer_address(empty, split * S::MULTICAST + lane % S::MULTICAST));
    lane_tile now;
    unsigned a[4][4];
    uint64_t x_next = 0;
    zero_sums(sum);
    kg_wgmma_fence();
    const auto load = [&](uint32_t stage) {
        if (S::BY_THREADS) kg_async_proxy_fence(); /* their copies: visible to wgmma, which reads by the async proxy */
        loader.load(stage);
        x_next = kg_matrix_descriptor<ROW_BYTES>(ring + stage * S::STAGE_BYTES);
    };
    const auto release = [&](bool yes, uint32_t stage) {
        if (S::MULTICAST == 1) kg_mbarrier_arrive_if(yes, empty_there + 8 * stage);
        else kg_mbarrier_arrive_peer_if(yes, empty_there + 8 * stage);
    };
    if (n_tiles == 0) return;
    kg_mbarrier_wait(full + 8 * at.stage, at.parity);
    load(at.stage);
    uint32_t stage = at.stage, stage_before = stage;
    at.next();
    bool has_come = n_tiles > 1 && kg_mbarrier_test(full + 8 * at.stage, at.parity); /* of the next tile */
#pragma unroll 4
    for (uint32_t tile = 0; tile + 1 < n_tiles; tile++) {
        const uint64_t x = x_next;
        loader.take(now);
        const uint32_t stage_next = at.stage;
        kg_mbarrier_wait_unless(has_come, full + 8 * stage_next, at.parity);
        load(stage_next);
        at.next();
        multiply_quarter<N, 0>(sum, a[0], now, x);
        has_come = kg_mbarrier_test(full + 8 * at.stage, at.parity);
        multiply_quarter<N, 1>(sum, a[1], now, x);
        multiply_quarter<N, 2>(sum, a[2], now, x);
        multiply_quarter<N, 3>(sum, a[3], now, x);
        release(arrives && tile > 0, stage_before); /* wgmma has read the tile before */
        stage_before = stage, stage = stage_next;
    }
    const uint64_t x = x_next;
    loader.take(now);
    multiply_quarter<N, 0>(sum, a[0], now, x);
    multiply_quarter<N, 1>(sum, a[1], now, x);
    multiply_quarter<N, 2>(sum, a[2], now, x);
    multiply_quarter<N, 3>(sum, a[3], now, x);
    kg_wgmma_wait<0>();
    kg_pin(sum);
    release(arrives && n_tiles > 1, stage_before);
    release(arrives, stage);
}

/* Address of sum k of this thread (ptx/wgmma.cuh): rows of y, SUM_FLOATS apart. */
template <typename S> __device__ __forceinline__ unsigned sum_at(unsigned sums, int k) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t o = warp * 16 + lane / 4 + k / 2 % 2 * 8, col = k / 4 * 8 + lane % 4 * 2 + k % 2;
    return sums + (col * S::SUM_FLOATS + o) * (unsigned)sizeof(float);
}

/* The epilogue: y of this block's rows, every n_splitth, from the sums of the cluster's blocks. */
template <typename S>
static __device__ void store_outputs(const gemm_params &g, const gemm_part &part, unsigned sums, uint32_t mine) {
    constexpr uint32_t PIECES = S::M / 4;
    for (uint32_t i = threadIdx.x; i < S::N * PIECES; i += S::THREADS) {
        const uint32_t col = i / PIECES, piece = i % PIECES, o = part.group * GROUP_ROWS + piece * 4;
        if (col % g.n_split != mine || col >= part.size || o >= g.p.n_out) continue;
        const unsigned at = sums + (col * S::SUM_FLOATS + piece * 4) * (unsigned)sizeof(float);
        float4 v = g.n_split == 1 ? kg_load_shared<float4>(at) : kg_load_peer<float4>(kg_peer_address(at, 0));
        for (uint32_t r = 1; r < g.n_split; r++) {
            const float4 w = kg_load_peer<float4>(kg_peer_address(at, r));
            v.x += w.x, v.y += w.y, v.z += w.z, v.w += w.w;
        }
        if (g.p.bias) {
            const float4 b = *reinterpret_cast<const float4 *>(g.p.bias + (size_t)part.expert * g.p.n_out + o);
            v.x += b.x, v.y += b.y, v.z += b.z, v.w += b.w;
        }
        const uint32_t row = g.row ? g.row[part.first + col] : part.first + col;
        const size_t y = (size_t)row * g.p.n_out + o;
        if (g.p.y_is_f16) {
            const __half2 halves[2] = { __floats2half2_rn(v.x, v.y), __floats2half2_rn(v.z, v.w) };
            *reinterpret_cast<uint2 *>(static_cast<__half *>(g.p.y) + y) = *reinterpret_cast<const uint2 *>(halves);
        } else {
            *reinterpret_cast<float4 *>(static_cast<float *>(g.p.y) + y) = v;
        }
    }
}

/* Grid: (blocks of a cluster, tiles of outputs, tiles of rows). */
template <typename S>
__global__ void __launch_bounds__(S::THREADS, 1) gemm_kernel(const __grid_constant__ gemm_params g) {
    extern __shared__ unsigned char gemm_memory[];
    __shared__ uint64_t barriers[2][S::STAGES];
    kg_require_sm_90a();
    const unsigned ring = (kg_shared_address(gemm_memory) + 1023) & ~1023u, full = kg_shared_address(barriers[0]),
                   empty = kg_shared_address(barriers[1]);
    const uint32_t rank = g.n_split > 1 ? kg_cluster_rank() : 0, n_tiles = g.p.n_cols / TILE_COLS;
    kg_dependents_start();
    if (threadIdx.x == 0) {
        init_barriers<S>(full, empty, 128);
        kg_mbarrier_init_fence();
    }
    gemm_part part;
    part.group = blockIdx.y * (S::M / GROUP_ROWS);
    part.begin = n_tiles * rank / g.n_split;
    part.end = n_tiles * (rank + 1) / g.n_split;
    part.expert = 0;
    part.first = blockIdx.z * S::N;
    part.size = min((uint32_t)S::N, g.p.n_rows - part.first);
    if (g.row) {
        kg_dependency_wait(); /* the sort is visible */
        if (blockIdx.z >= *g.n_tiles) return;
        static_cast<gemm_tile &>(part) = g.tiles[blockIdx.z];
    }
    __syncthreads(); /* barriers are initialised */
    if (threadIdx.x >= S::CONSUMER_THREADS) {
        kg_registers_decrease<S::PRODUCER_REGISTERS>();
        kg_dependency_wait(); /* x is visible */
        produce<S>(g, part, ring, full, empty);
    } else {
        kg_registers_increase<S::CONSUMER_REGISTERS>();
        float sum[S::N / 2];
        ring_cursor<S::STAGES, 1> at = { 0, 0 };
        consume_tiles<S, S::N>(sum, part.end - part.begin, 0, at, ring, full, empty);
        kg_barrier_sync(1, S::CONSUMER_THREADS); /* write-after-read: sums overwrite the ring */
#pragma unroll
        for (int k = 0; k < S::N / 2; k++) kg_store_shared(sum_at<S>(ring, k), sum[k] * (float)(1 << SHIFT));
    }
    if (g.n_split > 1) {
        kg_cluster_arrive();
        kg_cluster_wait(); /* the cluster's sums are visible */
    } else {
        __syncthreads(); /* sums are visible */
    }
    kg_dependency_wait(); /* write-after-read: nothing reads y any more */
    store_outputs<S>(g, part, ring, rank);
    if (g.n_split > 1) {
        kg_cluster_arrive();
        kg_cluster_wait(); /* peers have read this block's sums */
    }
}

} // namespace kg_mxfp4

#endif
