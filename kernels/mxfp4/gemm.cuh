/* Many rows times MXFP4 weights in tiles (equation: mxfp4.h): the kernel, by Hopper's warpgroup products (sm_90a).
 *
 * A block takes M outputs of N rows and walks the columns, 64 at a time. The product is made the other way round,
 * y^T = W x^T: W is the left operand, which may come from registers, where it is decoded; x is the right one, in shared
 * memory. The last warpgroup fetches rows of x, by index where there are experts, into a ring of STAGES; two warpgroups, the
 * workers, have WIDE x 64 outputs each, and read their weights AHEAD stages before they multiply them.
 *
 * Numerics: a worker multiplies codes by their scale times 2^-SHIFT in float16, which is exact for scales 2^-19 to 2^5;
 * products are exact, sums float32. A block that has met another scale (the others' products are lost then) sums all of it again
 * by multiply_block, which is exact for every scale, and slower. Blocks of a cluster split the columns; their sums are
 * added in order of columns. Then the bias, and one rounding. A row's result depends on the variant and the split, not on
 * the other rows, as long as all scales are within these bounds; in a block that is not so, on the outputs it has. */
#ifndef KIGO_KERNELS_MXFP4_GEMM_CUH
#define KIGO_KERNELS_MXFP4_GEMM_CUH

#include "kernels/dependent.cuh"
#include "kernels/mma.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/mxfp4/tiles.cuh"
#include "kernels/sdpa/products.cuh"

namespace kg_mxfp4 {

enum { WORKERS = 2, GEMM_THREADS = (WORKERS + 1) * 128, WORKER_THREADS = WORKERS * 128, SHIFT = 4, ROW_BYTES = 128 };

/* Rows [first, first + size) of those sorted by expert. */
struct gemm_tile {
    uint32_t expert, first, size;
};

struct gemm_params {
    struct kg_mxfp4_product p;
    const uint32_t *row;           /* rows of y sorted by expert; NULL: as they come */
    const struct gemm_tile *tiles; /* with row: of N rows at most */
    const uint32_t *n_tiles;
    uint32_t n_split; /* blocks of a cluster */
};

template <int WIDE_, int N_, int STAGES_, int AHEAD_> struct gemm_shape {
    static constexpr int WIDE = WIDE_, N = N_, STAGES = STAGES_, AHEAD = AHEAD_;
    static constexpr int M = WORKERS * WIDE * 64, STAGE_BYTES = N * ROW_BYTES;
    /* A row of sums lies so that neither writing columns of it nor reading it meets itself in the banks. */
    static constexpr int SUM_FLOATS = M + 4, SUM_BYTES = N * SUM_FLOATS * 4;
    static constexpr int RING_BYTES = STAGES * STAGE_BYTES;
    static constexpr int BYTES = (RING_BYTES > SUM_BYTES ? RING_BYTES : SUM_BYTES) + 1024; /* to begin at 1024 */
    static constexpr int FETCH_REGISTERS = 40, WORKER_REGISTERS = 232;
    static_assert(FETCH_REGISTERS + WORKERS * WORKER_REGISTERS <= GEMM_THREADS / 128 * 168, "what the launch has");
};

/* A block's part. */
struct gemm_part {
    uint32_t expert, first, size; /* rows */
    uint32_t group;               /* first of outputs, in groups */
    uint32_t begin, end;          /* columns, in tiles */
};

/* All four scales are 2^(108-127) to 2^(132-127). */
__device__ __forceinline__ bool scales_fit(uint32_t e) {
    constexpr uint32_t HIGH = 0x80808080, FROM_108 = 0x14141414, FROM_133 = 0x7B7B7B7B;
    const uint32_t low = e & ~HIGH;
    return ((((low + FROM_108) & ~e) | (~(low + FROM_133) & e)) & HIGH) == HIGH;
}

/* Placed codes of block `half` of a tile as the left operands of two products, times 2^(e-127-SHIFT). */
__device__ __forceinline__ void scaled_operands(const lane_tile &tile, int half, unsigned (&a)[2][4]) {
    constexpr uint32_t STEP = 0x04000400, UNIT = 127 - 14 + SHIFT - 15;
    const uint32_t words[2] = { half ? tile.codes.z : tile.codes.x, half ? tile.codes.w : tile.codes.y };
#pragma unroll
    for (int row = 0; row < 2; row++) {
        uint32_t placed[4];
        place(words[row], placed);
        const uint32_t scale = __byte_perm(tile.scales, 0, 0x4440 + 2 * half + row) * STEP - UNIT * STEP;
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm("mul.f16x2 %0, %1, %2;" : "=r"(a[i / 2][row + i % 2 * 2]) : "r"(placed[i]), "r"(scale));
    }
}

/* Fetches rows of x, stage after stage; 128 threads, of which 8 share a row. */
template <typename S>
static __device__ __forceinline__ void fetch(const gemm_params &g, const gemm_part &part, unsigned ring, unsigned full,
                                             unsigned empty) {
    constexpr int PIECES = S::N / 16, LAG = 3;
    static_assert(LAG < S::STAGES, "stages are told of before the ring is full");
    const uint32_t thread = threadIdx.x % 128, piece = thread % 8, r0 = thread / 8;
    const __half *from[PIECES];
    uint32_t valid = 0;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const uint32_t r = r0 + 16 * i, at = part.first + min(r, part.size - 1);
        valid |= (uint32_t)(r < part.size) << i;
        from[i] = g.p.x + (size_t)((g.row ? g.row[at] : at) / g.p.n_sharing) * g.p.n_cols + part.begin * TILE_COLS +
                  piece * 8;
    }
    const unsigned to = ring + r0 * ROW_BYTES + ((piece ^ (r0 & 7)) << 4);
    const auto tell = [&](uint32_t stage) {
        kg_hopper::stores_fence(); /* what was copied is seen by products */
        __syncwarp();
        if (threadIdx.x % 32 == 0) kg_hopper::barrier_arrive(full + 8 * stage);
    };
    const uint32_t n = part.end - part.begin;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t stage = k % S::STAGES;
        if (k >= S::STAGES) kg_hopper::barrier_wait(empty + 8 * stage, (k / S::STAGES - 1) & 1);
#pragma unroll
        for (int i = 0; i < PIECES; i++) {
            asm volatile(
                "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + stage * S::STAGE_BYTES + i * 16 * ROW_BYTES),
                "l"(from[i] + k * TILE_COLS), "r"(valid >> i & 1 ? 16 : 0)
                : "memory");
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (k < LAG) continue;
        asm volatile("cp.async.wait_group %0;" ::"n"(LAG) : "memory");
        tell((k - LAG) % S::STAGES);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (uint32_t k = n < LAG ? 0 : n - LAG; k < n; k++) tell(k % S::STAGES);
}

/* The group of 16 outputs that is i of this warp's; past the last a group repeats it, and is not stored. */
template <typename S> __device__ __forceinline__ uint32_t group_of(const gemm_params &g, const gemm_part &part, int i) {
    const uint32_t n_groups = g.p.n_out / GROUP_ROWS, warp = threadIdx.x / 32;
    const uint32_t at = part.group + (warp / 4 * S::WIDE + i) * 4 + warp % 4;
    return part.expert * n_groups + min(at, n_groups - 1);
}

/* What a worker's lane has under way: the next AHEAD tiles of its WIDE groups. */
template <typename S> struct weights_ahead {
    lane_view view;
    lane_tile ring[S::AHEAD][S::WIDE];
    uint32_t group[S::WIDE];
    __device__ __forceinline__ weights_ahead(const gemm_params &g, const gemm_part &part)
        : view(g.p.weight, g.p.n_cols, threadIdx.x % 32) {
#pragma unroll
        for (int i = 0; i < S::WIDE; i++) group[i] = group_of<S>(g, part, i);
#pragma unroll
        for (int k = 0; k < S::AHEAD; k++) load(k, part.begin + k, part.end);
    }
    __device__ __forceinline__ void load(int slot, uint32_t tile, uint32_t end) {
#pragma unroll
        for (int i = 0; i < S::WIDE; i++)
            load_tile(ring[slot][i], view.codes_at(group[i], tile), view.scales_at(group[i], tile), tile < end);
    }
    __device__ __forceinline__ void next(lane_tile (&now)[S::WIDE], uint32_t tile, uint32_t end) {
#pragma unroll
        for (int i = 0; i < S::WIDE; i++) now[i] = ring[0][i];
#pragma unroll
        for (int k = 1; k < S::AHEAD; k++)
#pragma unroll
            for (int i = 0; i < S::WIDE; i++) ring[k - 1][i] = ring[k][i];
        load(S::AHEAD - 1, tile + S::AHEAD, end);
    }
};

template <typename S> using worker_sums = float[S::WIDE][S::N / 2];

/* Returns whether all scales were fit. */
template <typename S>
static __device__ __forceinline__ bool work(worker_sums<S> &sum, const gemm_part &part, weights_ahead<S> &weights,
                                            unsigned ring, unsigned full, unsigned empty) {
    unsigned a[2][S::WIDE][2][4];
    lane_tile now[S::WIDE];
    bool fit = true;
    uint32_t stage = 0, parity = 0, before = 0;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
#pragma unroll
        for (int k = 0; k < S::N / 2; k++) sum[i][k] = 0;
#pragma unroll 1
    for (uint32_t tile = part.begin; tile < part.end; tile++) {
        weights.next(now, tile, part.end);
#pragma unroll
        for (int i = 0; i < S::WIDE; i++) fit = fit && scales_fit(now[i].scales);
        const uint64_t x = kg_hopper::matrix_descriptor<ROW_BYTES>(ring + stage * S::STAGE_BYTES);
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < S::WIDE; i++) scaled_operands(now[i], half, a[half][i]);
            if (half == 0) kg_hopper::barrier_wait(full + 8 * stage, parity);
#pragma unroll
            for (int i = 0; i < S::WIDE; i++) {
                kg_hopper::pin(sum[i]);
                kg_hopper::pin(a[half][i][0]);
                kg_hopper::pin(a[half][i][1]);
            }
            kg_hopper::products_fence();
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int i = 0; i < S::WIDE; i++)
                    kg_hopper::products<S::N>::template registers<false>(sum[i], a[half][i][j],
                                                                         x + (uint64_t)((2 * half + j) * 2), 1);
            kg_hopper::products_commit();
            kg_hopper::products_wait<1>(); /* the half before is done: its operands and its stage are free */
            if (half == 0 && tile > part.begin && threadIdx.x % 32 == 0) kg_hopper::barrier_arrive(empty + 8 * before);
        }
        before = stage;
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
    kg_hopper::products_wait<0>();
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(sum[i]);
    return fit;
}

/* Where sum k of outputs i (of a worker's WIDE x 64) belongs; with it the product's layout (products.cuh). */
template <typename S> __device__ __forceinline__ unsigned sum_at(unsigned sums, int i, int k) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t o = (warp / 4 * S::WIDE + i) * 64 + warp % 4 * 16 + lane / 4 + k / 2 % 2 * 8,
                   col = k / 4 * 8 + lane % 4 * 2 + k % 2;
    return sums + (col * S::SUM_FLOATS + o) * (unsigned)sizeof(float);
}

__device__ __forceinline__ void store_sum(unsigned at, float sum) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(sum) : "memory");
}

/* The worker's sums to shared memory, exact for every scale: PIECES x 8 rows at a time, of x in global memory. */
template <typename S>
static __device__ __noinline__ void work_exactly(const gemm_params &g, const gemm_part part, unsigned sums) {
    constexpr int PIECES = 4;
    const uint32_t lane = threadIdx.x % 32;
    const lane_view view(g.p.weight, g.p.n_cols, lane);
    const uint32_t *x[PIECES];
    for (int i = 0; i < S::WIDE; i++)
        for (int first = 0; first < S::N / 8; first += PIECES) {
            const uint32_t group = group_of<S>(g, part, i);
            float sum[PIECES][4] = {};
#pragma unroll
            for (int c = 0; c < PIECES; c++) {
                const uint32_t at = part.first + min(8 * (first + c) + lane / 4, part.size - 1);
                x[c] = reinterpret_cast<const uint32_t *>(g.p.x + (size_t)((g.row ? g.row[at] : at) / g.p.n_sharing) *
                                                                      g.p.n_cols) +
                       lane % 4;
            }
            for (uint32_t tile = part.begin; tile < part.end; tile++) {
                lane_tile now;
                load_tile(now, view.codes_at(group, tile), view.scales_at(group, tile), true);
                const uint32_t words[4] = { now.codes.x, now.codes.y, now.codes.z, now.codes.w };
                float scale[4];
                float_scales(now.scales, scale);
#pragma unroll
                for (int block = 0; block < 2; block++) {
                    uint32_t low[4], high[4];
                    place(words[2 * block], low);
                    place(words[2 * block + 1], high);
#pragma unroll
                    for (int c = 0; c < PIECES; c++) {
                        const uint32_t *at = x[c] + (tile * 2 + block) * 16;
                        const uint32_t b[4] = { at[0], at[4], at[8], at[12] };
                        multiply_block(sum[c], low, high, b, scale[2 * block], scale[2 * block + 1]);
                    }
                }
            }
#pragma unroll
            for (int c = 0; c < PIECES; c++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    store_sum(sum_at<S>(sums, i, 4 * (first + c) + k), sum[c][k] * (1 / PLACED_UNIT));
        }
}

__device__ __forceinline__ float4 load_peer(unsigned address, unsigned rank) {
    float4 v = {};
#if KG_HOPPER
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(kg_hopper::peer_address(address, rank))
                 : "memory");
#endif
    return v;
}

/* y of the rows that fall to this block of the cluster, from the sums of all of them. */
template <typename S>
static __device__ void store_outputs(const gemm_params &g, const gemm_part &part, unsigned sums, uint32_t rank) {
    constexpr uint32_t PIECES = S::M / 4;
    for (uint32_t i = threadIdx.x; i < S::N * PIECES; i += GEMM_THREADS) {
        const uint32_t col = i / PIECES, piece = i % PIECES, o = part.group * GROUP_ROWS + piece * 4;
        if (col % g.n_split != rank || col >= part.size || o >= g.p.n_out) continue;
        const unsigned at = sums + (col * S::SUM_FLOATS + piece * 4) * (unsigned)sizeof(float);
        float4 v = g.n_split == 1 ? kg_hopper::load_shared_4(at) : load_peer(at, 0);
        for (uint32_t r = 1; r < g.n_split; r++) {
            const float4 w = load_peer(at, r);
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
__global__ void __launch_bounds__(GEMM_THREADS, 1) gemm_kernel(const __grid_constant__ gemm_params g) {
    extern __shared__ unsigned char gemm_memory[];
    __shared__ uint64_t barriers[2][S::STAGES];
    __shared__ int unfit;
    kg_hopper::require_hopper();
    const unsigned ring = (kg_shared_address(gemm_memory) + 1023) & ~1023u, full = kg_shared_address(barriers[0]),
                   empty = kg_shared_address(barriers[1]);
    const uint32_t rank = g.n_split > 1 ? kg_hopper::cluster_rank() : 0, n_tiles = g.p.n_cols / TILE_COLS;
    kg_dependents_start();
    if (threadIdx.x == 0) {
        unfit = 0;
        for (int i = 0; i < S::STAGES; i++) {
            kg_hopper::barrier_init(full + 8 * i, 128 / 32);
            kg_hopper::barrier_init(empty + 8 * i, WORKER_THREADS / 32);
        }
        kg_hopper::barrier_init_fence();
    }
    gemm_part part;
    part.group = blockIdx.y * (S::M / GROUP_ROWS);
    part.begin = n_tiles * rank / g.n_split;
    part.end = n_tiles * (rank + 1) / g.n_split;
    part.expert = 0;
    part.first = blockIdx.z * S::N;
    part.size = min((uint32_t)S::N, g.p.n_rows - part.first);
    if (g.row) {
        kg_dependency_wait(); /* rows are sorted */
        if (blockIdx.z >= *g.n_tiles) return;
        const gemm_tile tile = g.tiles[blockIdx.z];
        part.expert = tile.expert, part.first = tile.first, part.size = tile.size;
    }
    __syncthreads(); /* barriers are there */
    if (threadIdx.x >= WORKER_THREADS) {
        kg_hopper::registers_less<S::FETCH_REGISTERS>();
        kg_dependency_wait(); /* x is there */
        fetch<S>(g, part, ring, full, empty);
    } else {
        kg_hopper::registers_more<S::WORKER_REGISTERS>();
        weights_ahead<S> weights(g, part);
        worker_sums<S> sum;
        if (!work<S>(sum, part, weights, ring, full, empty)) unfit = 1;
        kg_hopper::named_barrier_sync(1, WORKER_THREADS); /* the ring is no longer read; whether all scales were fit */
        if (unfit) {
            kg_dependency_wait(); /* x is there */
            work_exactly<S>(g, part, ring);
        } else {
#pragma unroll
            for (int i = 0; i < S::WIDE; i++)
#pragma unroll
                for (int k = 0; k < S::N / 2; k++) store_sum(sum_at<S>(ring, i, k), sum[i][k] * (float)(1 << SHIFT));
        }
    }
    if (g.n_split > 1) {
        kg_hopper::cluster_arrive();
        kg_hopper::cluster_wait(); /* the cluster's sums are there */
    } else {
        __syncthreads(); /* sums are there */
    }
    kg_dependency_wait(); /* whoever read y has done so */
    store_outputs<S>(g, part, ring, rank);
    if (g.n_split > 1) {
        kg_hopper::cluster_arrive();
        kg_hopper::cluster_wait(); /* no block leaves whose sums are read */
    }
}

} // namespace kg_mxfp4

#endif
