/* Many rows times repacked MXFP4 weights (equation: mxfp4.h): the kernel, by wgmma (sm_90a).
 *
 * A block has M outputs of N rows and iterates over the columns, a tile of 64 at a time. It computes y^T = W x^T: W is
 * the left operand, which may come from registers, where it is decoded; x is the right one, in shared memory.
 *
 * Map: the last warpgroup is the producer. It copies tiles of W and rows of x (by index, with experts) to a ring of
 * STAGES. The other CONSUMERS have M_TILES x 64 outputs each. With n_split > 1 the blocks of a cluster split the
 * columns.
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

/* CONSUMER_REGISTERS and PRODUCER_REGISTERS divide the registers of CONSUMERS + 1 warpgroups (setmaxnreg). */
template <int CONSUMERS_, int M_TILES_, int N_, int STAGES_, int OPERANDS_, int CONSUMER_REGISTERS_,
          int PRODUCER_REGISTERS_>
struct gemm_shape {
    static constexpr int CONSUMERS = CONSUMERS_, M_TILES = M_TILES_, N = N_, STAGES = STAGES_;
    static constexpr int OPERANDS = OPERANDS_; /* half tiles whose left operands are in registers */
    static constexpr int CONSUMER_THREADS = CONSUMERS * 128, THREADS = CONSUMER_THREADS + 128;
    static constexpr int CONSUMER_REGISTERS = CONSUMER_REGISTERS_, PRODUCER_REGISTERS = PRODUCER_REGISTERS_;
    static constexpr int LAUNCH_REGISTERS = 65536 / THREADS / 8 * 8;
    static_assert(PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS <= (CONSUMERS + 1) * LAUNCH_REGISTERS,
                  "what the launch has");
    static_assert(OPERANDS == 2 || OPERANDS == 4, "halves of one tile or two");
    static constexpr int M = CONSUMERS * M_TILES * 64, GROUPS = M / GROUP_ROWS;
    /* A stage: x, codes and scales of the groups. */
    static constexpr int CODES = N * ROW_BYTES, SCALES = CODES + GROUPS * CODES_BYTES;
    static constexpr int STAGE_BYTES =
        (SCALES + GROUPS * SCALES_BYTES + 1023) / 1024 * 1024; /* aligned to 1024, the swizzle's atom */
    /* Padding: neither writing columns nor reading rows of the sums has bank conflicts. */
    static constexpr int SUM_FLOATS = M + 4, SUM_BYTES = N * SUM_FLOATS * 4, RING_BYTES = STAGES * STAGE_BYTES;
    static constexpr int BYTES = (RING_BYTES > SUM_BYTES ? RING_BYTES : SUM_BYTES) + 1024; /* for alignment */
};

/* What a block computes. */
struct gemm_part {
    uint32_t expert, first, size; /* rows */
    uint32_t group;               /* first group of outputs */
    uint32_t begin, end;          /* tiles of columns */
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
    uint32_t stage = 0, parity = 1;
    for (uint32_t k = 0; k < part.end - part.begin; k++) {
        if (k >= S::STAGES) kg_mbarrier_wait(empty + 8 * stage, parity);
        from.copy(k, stage);
        kg_copies_arrive(full + 8 * stage);
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
    kg_copies_wait();
}

template <typename S> using accumulators = float[S::M_TILES][S::N / 2];

/* A lane's tile of the consumer's group i. */
template <typename S> __device__ __forceinline__ lane_tile load_stage(unsigned stage, int i) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t group = (warp / 4 * S::M_TILES + i) * 4 + warp % 4; /* four warps have 64 outputs */
    lane_tile tile;
    tile.codes = kg_load_shared<uint4>(stage + S::CODES + group * CODES_BYTES + lane * LANE_BYTES);
    tile.scales = kg_load_shared<uint32_t>(stage + S::SCALES + group * SCALES_BYTES + lane / 4 * 4);
    return tile;
}

/* sum += the products of half a tile. Waits until no more than OPERANDS - 1 halves are in flight, so that their
 * operands may be overwritten. */
template <typename S, int HALF>
__device__ __forceinline__ void multiply_half(accumulators<S> &sum, unsigned (&a)[S::M_TILES][2][4],
                                              const lane_tile (&tile)[S::M_TILES], uint64_t x) {
#pragma unroll
    for (int i = 0; i < S::M_TILES; i++) {
        scaled_operand<2 * HALF>(tile[i], a[i][0]);
        scaled_operand<2 * HALF + 1>(tile[i], a[i][1]);
        kg_pin(a[i][0]);
        kg_pin(a[i][1]);
    }
    kg_wgmma_fence();
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int i = 0; i < S::M_TILES; i++)
            kg_wgmma<S::N>::template registers<false>(sum[i], a[i][j], x + (uint64_t)((2 * HALF + j) * 2), 1);
    kg_wgmma_commit();
    kg_wgmma_wait<S::OPERANDS - 1>();
}

template <typename S>
static __device__ __forceinline__ void consume(accumulators<S> &sum, uint32_t n_tiles, unsigned ring, unsigned full,
                                               unsigned empty) {
    constexpr int TILES = S::OPERANDS / 2; /* in flight */
    unsigned a[S::OPERANDS][S::M_TILES][2][4];
    lane_tile now[S::M_TILES];
    uint32_t stage = 0, parity = 0, done = 0;
#pragma unroll
    for (int i = 0; i < S::M_TILES; i++) zero_sums(sum[i]);
    kg_wgmma_fence();
    const auto step = [&](uint32_t tile, unsigned(&low)[S::M_TILES][2][4], unsigned(&high)[S::M_TILES][2][4]) {
        const unsigned at = ring + stage * S::STAGE_BYTES;
        const uint64_t x = kg_matrix_descriptor<ROW_BYTES>(at);
        kg_mbarrier_wait(full + 8 * stage, parity);
        kg_async_proxy_fence(); /* copies by cp.async: make them visible to wgmma, which reads through the async proxy
                                 */
#pragma unroll
        for (int i = 0; i < S::M_TILES; i++) now[i] = load_stage<S>(at, i);
        multiply_half<S, 0>(sum, low, now, x);
        /* wgmma has read all tiles but the last TILES: free their stages. */
        if (tile >= TILES) {
            if (threadIdx.x % 32 == 0) kg_mbarrier_arrive(empty + 8 * done);
            if (++done == S::STAGES) done = 0;
        }
        multiply_half<S, 1>(sum, high, now, x);
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    };
    uint32_t tile = 0;
#pragma unroll 1
    for (; tile + TILES <= n_tiles; tile += TILES)
#pragma unroll
        for (int t = 0; t < TILES; t++) step(tile + t, a[2 * t], a[2 * t + 1]);
    if (TILES > 1 && tile < n_tiles) step(tile, a[0], a[1]);
    kg_wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < S::M_TILES; i++) kg_pin(sum[i]);
}

/* Address of sum k of M tile i of this thread (ptx/wgmma.cuh): rows of y, SUM_FLOATS apart. */
template <typename S> __device__ __forceinline__ unsigned sum_at(unsigned sums, int i, int k) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t o = (warp / 4 * S::M_TILES + i) * 64 + warp % 4 * 16 + lane / 4 + k / 2 % 2 * 8,
                   col = k / 4 * 8 + lane % 4 * 2 + k % 2;
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
        for (int i = 0; i < S::STAGES; i++) {
            kg_mbarrier_init(full + 8 * i, 128);
            kg_mbarrier_init(empty + 8 * i, S::CONSUMER_THREADS / 32);
        }
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
        const gemm_tile tile = g.tiles[blockIdx.z];
        part.expert = tile.expert, part.first = tile.first, part.size = tile.size;
    }
    __syncthreads(); /* barriers are initialised */
    if (threadIdx.x >= S::CONSUMER_THREADS) {
        kg_registers_decrease<S::PRODUCER_REGISTERS>();
        kg_dependency_wait(); /* x is visible */
        produce<S>(g, part, ring, full, empty);
    } else {
        kg_registers_increase<S::CONSUMER_REGISTERS>();
        accumulators<S> sum;
        consume<S>(sum, part.end - part.begin, ring, full, empty);
        kg_barrier_sync(1, S::CONSUMER_THREADS); /* write-after-read: sums overwrite the ring */
#pragma unroll
        for (int i = 0; i < S::M_TILES; i++)
#pragma unroll
            for (int k = 0; k < S::N / 2; k++) kg_store_shared(sum_at<S>(ring, i, k), sum[i][k] * (float)(1 << SHIFT));
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

/* Clusters of `size` blocks that run at the same time. Queries the driver. */
template <typename Params>
static inline uint32_t clusters_at_once(void (*kernel)(Params), uint32_t size, int n_threads, int shared_bytes) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = { size, 1, 1 };
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(size);
    config.blockDim = dim3((unsigned)n_threads);
    config.dynamicSmemBytes = (size_t)shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int n = 0;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (code == cudaSuccess) code = cudaOccupancyMaxActiveClusters(&n, kernel, &config);
    if (code != cudaSuccess) (void)cudaGetLastError();
    return code == cudaSuccess && n > 0 ? (uint32_t)n : 1;
}

} // namespace kg_mxfp4

#endif
