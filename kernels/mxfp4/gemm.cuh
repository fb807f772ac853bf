/* Many rows times MXFP4 weights in tiles (equation: mxfp4.h): the kernel, by Hopper's warpgroup products (sm_90a).
 *
 * A block takes M outputs of N rows and walks the columns, a tile of 64 at a time. The product is made the other way
 * round, y^T = W x^T: W is the left operand, which may come from registers, where it is decoded; x is the right one, in
 * shared memory. The last warpgroup fetches tiles of W and rows of x, by index where there are experts, into a ring of
 * STAGES; the other WORKERS have WIDE x 64 outputs each.
 *
 * Numerics: a worker multiplies codes by their scale times 2^-SHIFT in float16, which is exact (callers see to it that
 * all scales are from LEAST_F16_SCALE to MOST_F16_SCALE); products are exact, sums float32. Blocks of a cluster split
 * the columns; their sums are added in order of columns. Then the bias, and one rounding. A row's result depends on the
 * variant and the split, not on the other rows. */
#ifndef KIGO_KERNELS_MXFP4_GEMM_CUH
#define KIGO_KERNELS_MXFP4_GEMM_CUH

#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/mxfp4/tiles.cuh"
#include "kernels/attention/sdpa/products.cuh"

namespace kg_mxfp4 {

enum { SHIFT = 4, ROW_BYTES = 128 };

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

/* WORKER_REGISTERS and FETCH_REGISTERS share out what the launch gives WORKERS + 1 warpgroups. */
template <int WORKERS_, int WIDE_, int N_, int STAGES_, int OPERANDS_, int WORKER_REGISTERS_, int FETCH_REGISTERS_>
struct gemm_shape {
    static constexpr int WORKERS = WORKERS_, WIDE = WIDE_, N = N_, STAGES = STAGES_;
    static constexpr int OPERANDS = OPERANDS_; /* left operands of halves of a tile, in registers */
    static constexpr int WORKER_THREADS = WORKERS * 128, THREADS = WORKER_THREADS + 128;
    static constexpr int WORKER_REGISTERS = WORKER_REGISTERS_, FETCH_REGISTERS = FETCH_REGISTERS_;
    static constexpr int LAUNCH_REGISTERS = 65536 / THREADS / 8 * 8;
    static_assert(FETCH_REGISTERS + WORKERS * WORKER_REGISTERS <= (WORKERS + 1) * LAUNCH_REGISTERS,
                  "what the launch has");
    static_assert(OPERANDS == 2 || OPERANDS == 4, "halves of one tile or two");
    static constexpr int M = WORKERS * WIDE * 64, GROUPS = M / GROUP_ROWS;
    /* A stage: x, codes and scales of the groups. */
    static constexpr int CODES = N * ROW_BYTES, SCALES = CODES + GROUPS * CODES_BYTES;
    static constexpr int STAGE_BYTES = (SCALES + GROUPS * SCALES_BYTES + 1023) / 1024 * 1024; /* begins at 1024 */
    /* A row of sums lies so that neither writing columns of it nor reading it meets itself in the banks. */
    static constexpr int SUM_FLOATS = M + 4, SUM_BYTES = N * SUM_FLOATS * 4, RING_BYTES = STAGES * STAGE_BYTES;
    static constexpr int BYTES = (RING_BYTES > SUM_BYTES ? RING_BYTES : SUM_BYTES) + 1024; /* to begin at 1024 */
};

/* A block's part. */
struct gemm_part {
    uint32_t expert, first, size; /* rows */
    uint32_t group;               /* first of outputs, in groups */
    uint32_t begin, end;          /* columns, in tiles */
};

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

__device__ __forceinline__ void copy_16(unsigned to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

/* Copies of one of 128 threads, of which 8 share a row of x and 32 a group's codes. */
template <typename S> struct fetcher {
    static constexpr int PIECES = S::N / 16, GROUPS_EACH = S::GROUPS / 4;
    const __half *x[PIECES];
    const uint8_t *codes[GROUPS_EACH], *scales;
    uint32_t valid;
    unsigned to_x, to_codes, to_scales;
    bool has_scales;

    __device__ __forceinline__ fetcher(const gemm_params &g, const gemm_part &part, unsigned ring) {
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
        /* Past the last a group repeats it; its outputs are not stored. */
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
            copy_16(to_codes + at + i * 4 * CODES_BYTES, codes[i] + (size_t)tile * CODES_BYTES, true);
        if (has_scales) copy_16(to_scales + at, scales + (size_t)tile * SCALES_BYTES, true);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            copy_16(to_x + at + i * 16 * ROW_BYTES, x[i] + tile * TILE_COLS, valid >> i & 1);
    }
};

/* Stage after stage; a barrier completes when all copies before it have landed. */
template <typename S>
static __device__ __forceinline__ void fetch(const gemm_params &g, const gemm_part &part, unsigned ring, unsigned full,
                                             unsigned empty) {
    fetcher<S> from(g, part, ring);
    uint32_t stage = 0, parity = 1;
    for (uint32_t k = 0; k < part.end - part.begin; k++) {
        if (k >= S::STAGES) kg_hopper::barrier_wait(empty + 8 * stage, parity);
        from.copy(k, stage);
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full + 8 * stage) : "memory");
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

template <typename S> using worker_sums = float[S::WIDE][S::N / 2];

/* A lane's tile of group i of the stage. */
template <typename S> __device__ __forceinline__ lane_tile load_stage(unsigned stage, int i) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t group = (warp / 4 * S::WIDE + i) * 4 + warp % 4; /* four warps make 64 outputs */
    lane_tile tile;
    tile.codes = kg_hopper::load_shared_16(stage + S::CODES + group * CODES_BYTES + lane * LANE_BYTES);
    asm volatile("ld.shared.u32 %0, [%1];"
                 : "=r"(tile.scales)
                 : "r"(stage + S::SCALES + group * SCALES_BYTES + lane / 4 * 4)
                 : "memory");
    return tile;
}

/* Half of a tile: sum += its products, as soon as `a` is made of its codes; then all but the last OPERANDS - 1 halves
 * are done. */
template <typename S>
__device__ __forceinline__ void multiply_half(worker_sums<S> &sum, unsigned (&a)[S::WIDE][2][4],
                                              const lane_tile (&tile)[S::WIDE], int half, uint64_t x) {
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) {
        scaled_operands(tile[i], half, a[i]);
        kg_hopper::pin(a[i][0]);
        kg_hopper::pin(a[i][1]);
    }
    kg_hopper::products_fence();
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int i = 0; i < S::WIDE; i++)
            kg_hopper::products<S::N>::template registers<false>(sum[i], a[i][j], x + (uint64_t)((2 * half + j) * 2),
                                                                 1);
    kg_hopper::products_commit();
    kg_hopper::products_wait<S::OPERANDS - 1>();
}

template <typename S>
static __device__ __forceinline__ void work(worker_sums<S> &sum, uint32_t n_tiles, unsigned ring, unsigned full,
                                            unsigned empty) {
    constexpr int TILES = S::OPERANDS / 2; /* of whose halves the operands are */
    unsigned a[S::OPERANDS][S::WIDE][2][4];
    lane_tile now[S::WIDE];
    uint32_t stage = 0, parity = 0, done = 0;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
#pragma unroll
        for (int k = 0; k < S::N / 2; k++) sum[i][k] = 0;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(sum[i]);
    kg_hopper::products_fence();
    const auto step = [&](uint32_t tile, unsigned(&low)[S::WIDE][2][4], unsigned(&high)[S::WIDE][2][4]) {
        const unsigned at = ring + stage * S::STAGE_BYTES;
        const uint64_t x = kg_hopper::matrix_descriptor<ROW_BYTES>(at);
        kg_hopper::barrier_wait(full + 8 * stage, parity);
        kg_hopper::stores_fence(); /* what was copied is seen by products */
#pragma unroll
        for (int i = 0; i < S::WIDE; i++) now[i] = load_stage<S>(at, i);
        multiply_half<S>(sum, low, now, 0, x);
        /* Tiles up to TILES before this one are done: their stages are free. */
        if (tile >= TILES) {
            if (threadIdx.x % 32 == 0) kg_hopper::barrier_arrive(empty + 8 * done);
            if (++done == S::STAGES) done = 0;
        }
        multiply_half<S>(sum, high, now, 1, x);
        if (++stage == S::STAGES) stage = 0, parity ^= 1;
    };
    uint32_t tile = 0;
#pragma unroll 1
    for (; tile + TILES <= n_tiles; tile += TILES)
#pragma unroll
        for (int t = 0; t < TILES; t++) step(tile + t, a[2 * t], a[2 * t + 1]);
    if (TILES > 1 && tile < n_tiles) step(tile, a[0], a[1]);
    kg_hopper::products_wait<0>();
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(sum[i]);
}

/* Where sum k of outputs i of this thread belongs (products.cuh): rows of outputs, M + 4 apart. */
template <typename S> __device__ __forceinline__ unsigned sum_at(unsigned sums, int i, int k) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t o = (warp / 4 * S::WIDE + i) * 64 + warp % 4 * 16 + lane / 4 + k / 2 % 2 * 8,
                   col = k / 4 * 8 + lane % 4 * 2 + k % 2;
    return sums + (col * S::SUM_FLOATS + o) * (unsigned)sizeof(float);
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

/* y of the rows that fall to this block, `mine` of the n_split whose ranks are SHARE apart, from the sums of all of
 * them. */
template <typename S, int SHARE>
static __device__ void store_outputs(const gemm_params &g, const gemm_part &part, unsigned sums, uint32_t mine,
                                     uint32_t first_rank) {
    constexpr uint32_t PIECES = S::M / 4;
    for (uint32_t i = threadIdx.x; i < S::N * PIECES; i += S::THREADS) {
        const uint32_t col = i / PIECES, piece = i % PIECES, o = part.group * GROUP_ROWS + piece * 4;
        if (col % g.n_split != mine || col >= part.size || o >= g.p.n_out) continue;
        const unsigned at = sums + (col * S::SUM_FLOATS + piece * 4) * (unsigned)sizeof(float);
        float4 v = g.n_split == 1 ? kg_hopper::load_shared_4(at) : load_peer(at, first_rank);
        for (uint32_t r = 1; r < g.n_split; r++) {
            const float4 w = load_peer(at, r * SHARE + first_rank);
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
    kg_hopper::require_hopper();
    const unsigned ring = (kg_shared_address(gemm_memory) + 1023) & ~1023u, full = kg_shared_address(barriers[0]),
                   empty = kg_shared_address(barriers[1]);
    const uint32_t rank = g.n_split > 1 ? kg_hopper::cluster_rank() : 0, n_tiles = g.p.n_cols / TILE_COLS;
    kg_dependents_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            kg_hopper::barrier_init(full + 8 * i, 128);
            kg_hopper::barrier_init(empty + 8 * i, S::WORKER_THREADS / 32);
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
    if (threadIdx.x >= S::WORKER_THREADS) {
        kg_hopper::registers_less<S::FETCH_REGISTERS>();
        kg_dependency_wait(); /* x is there */
        fetch<S>(g, part, ring, full, empty);
    } else {
        kg_hopper::registers_more<S::WORKER_REGISTERS>();
        worker_sums<S> sum;
        work<S>(sum, part.end - part.begin, ring, full, empty);
        kg_hopper::named_barrier_sync(1, S::WORKER_THREADS); /* the ring is no longer read */
#pragma unroll
        for (int i = 0; i < S::WIDE; i++)
#pragma unroll
            for (int k = 0; k < S::N / 2; k++)
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(sum_at<S>(ring, i, k)),
                             "f"(sum[i][k] * (float)(1 << SHIFT))
                             : "memory");
    }
    if (g.n_split > 1) {
        kg_hopper::cluster_arrive();
        kg_hopper::cluster_wait(); /* the cluster's sums are there */
    } else {
        __syncthreads(); /* sums are there */
    }
    kg_dependency_wait(); /* whoever read y has done so */
    store_outputs<S, 1>(g, part, ring, rank, 0);
    if (g.n_split > 1) {
        kg_hopper::cluster_arrive();
        kg_hopper::cluster_wait(); /* no block leaves whose sums are read */
    }
}

/* Clusters of `size` blocks that run at the same time; asks the driver. */
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
