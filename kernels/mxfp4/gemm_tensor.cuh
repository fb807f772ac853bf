/* Many rows times MXFP4 weights in tiles (equation: mxfp4.h) where rows come as they are: gemm.cuh's product of tiles, fed by
 * tensor copies (sm_90a).
 *
 * A cluster is SHARE blocks of neighbouring outputs, times n_split that divide the columns. Each of the SHARE fetches its part
 * of a tile of x for all of them: what is read of x is less by SHARE, which is what limits a block that fetches all by itself.
 * Clusters walk over tiles of the product; copies run ahead into the next tile while sums of the last are stored.
 *
 * Numerics: gemm.cuh. */
#ifndef KIGO_KERNELS_MXFP4_GEMM_TENSOR_CUH
#define KIGO_KERNELS_MXFP4_GEMM_TENSOR_CUH

#include "kernels/mxfp4/gemm.cuh"

namespace kg_mxfp4 {

struct tensor_params {
    gemm_params g;
    CUtensorMap x, codes, scales, y; /* boxes: N / SHARE rows x 64 columns, GROUPS of a tile, and 64 outputs x N rows */
    uint32_t n_across, n_tiles;      /* of a cluster: side by side in outputs; all */
};

template <int WORKERS_, int WIDE_, int N_, int STAGES_, int OPERANDS_, int SHARE_>
struct tensor_shape
    : gemm_shape<WORKERS_, WIDE_, N_, STAGES_, OPERANDS_,
                 ((WORKERS_ + 1) * (65536 / ((WORKERS_ + 1) * 128) / 8 * 8) - 40) / WORKERS_ / 8 * 8, 40> {
    using base = gemm_shape<WORKERS_, WIDE_, N_, STAGES_, OPERANDS_,
                            ((WORKERS_ + 1) * (65536 / ((WORKERS_ + 1) * 128) / 8 * 8) - 40) / WORKERS_ / 8 * 8, 40>;
    static constexpr int SHARE = SHARE_, SHARE_ROWS = N_ / SHARE_;
    static_assert(SHARE_ROWS % 8 == 0, "whole atoms of the swizzle");
    static constexpr int COPIED_BYTES = base::SCALES + base::GROUPS * SCALES_BYTES; /* of a stage */
    static constexpr int SLAB_BYTES = N_ * ROW_BYTES;                               /* of results: N rows of 64 */
    static constexpr int SLABS = base::RING_BYTES, BYTES = SLABS + WORKERS_ * WIDE_ * SLAB_BYTES + 1024;
    static_assert(base::SUM_BYTES <= SLABS + WORKERS_ * WIDE_ * SLAB_BYTES, "sums lie in the ring");
};

/* Where a cluster's block is: of its outputs, rows and columns. */
struct tensor_place {
    uint32_t share, split, begin, end;
};

struct ring_place {
    uint32_t stage, parity;
    template <int STAGES> __device__ __forceinline__ void next() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
};

__device__ __forceinline__ void copy_box_to_all(unsigned to, const CUtensorMap *map, unsigned barrier, int d, int row,
                                                uint32_t mask) {
#if KG_HOPPER
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5, %5}], [%2], %6;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(d), "r"(row), "r"(0), "h"((uint16_t)mask)
                 : "memory");
#endif
}

__device__ __forceinline__ void store_box(const CUtensorMap *map, unsigned from, int d, int row) {
#if KG_HOPPER
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(d), "r"(row), "r"(0)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/* Until boxes that were stored have been read (their memory may be written), or stored. */
__device__ __forceinline__ void stores_read() {
#if KG_HOPPER
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}
__device__ __forceinline__ void stores_done() {
#if KG_HOPPER
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

__device__ __forceinline__ void barrier_arrive_peer(unsigned barrier, uint32_t rank) {
#if KG_HOPPER
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(kg_hopper::peer_address(barrier, rank))
                 : "memory");
#endif
}

/* Four 8 x 8 matrices of halves, transposed, to rows in shared memory (as kg_load_matrices_at gives them). */
__device__ __forceinline__ void store_matrices_transposed(unsigned row, const unsigned (&r)[4]) {
#if KG_HOPPER
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
#endif
}

/* By one thread. Weights are there before anything this launch waits for. */
template <typename S>
static __device__ __forceinline__ void fetch_boxes(const tensor_params &t, const tensor_place &place, uint32_t cluster,
                                                   uint32_t n_clusters, unsigned ring, unsigned full, unsigned empty) {
    const uint32_t mask = ((1u << S::SHARE) - 1) << place.split * S::SHARE;
    const auto weights = [&](uint32_t stage, uint32_t tile, uint32_t k) {
        const unsigned at = ring + stage * S::STAGE_BYTES, barrier = full + 8 * stage;
        const int group = (int)((tile % t.n_across * S::SHARE + place.share) * S::GROUPS);
        kg_hopper::barrier_expect(barrier, S::COPIED_BYTES);
        kg_hopper::copy_box(at + S::CODES, &t.codes, barrier, (int)(k * (CODES_BYTES / 2)), group, 0, 0);
        kg_hopper::copy_box(at + S::SCALES, &t.scales, barrier, (int)(k * (SCALES_BYTES / 2)), group, 0, 0);
    };
    const uint32_t n = place.end - place.begin, ahead = n < S::STAGES ? n : S::STAGES;
    for (uint32_t i = 0; i < ahead; i++) weights(i, cluster, place.begin + i);
    kg_dependency_wait(); /* x is there */
    ring_place at = { 0, 1 };
    uint32_t sent = 0;
    for (uint32_t tile = cluster; tile < t.n_tiles; tile += n_clusters) {
        const int row = (int)(tile / t.n_across * S::N + place.share * S::SHARE_ROWS);
        for (uint32_t k = place.begin; k < place.end; k++) {
            if (sent++ >= ahead) {
                kg_hopper::barrier_wait(empty + 8 * at.stage, at.parity);
                weights(at.stage, tile, k);
            }
            const unsigned to = ring + at.stage * S::STAGE_BYTES + place.share * S::SHARE_ROWS * ROW_BYTES;
            if (S::SHARE > 1) copy_box_to_all(to, &t.x, full + 8 * at.stage, (int)(k * TILE_COLS), row, mask);
            else kg_hopper::copy_box(to, &t.x, full + 8 * at.stage, (int)(k * TILE_COLS), row, 0, 0);
            at.template next<S::STAGES>();
        }
    }
}

/* sum = the products of n_tiles tiles of columns. */
template <typename S>
static __device__ __forceinline__ void work_boxes(worker_sums<S> &sum, uint32_t n_tiles, const tensor_place &place,
                                                  ring_place &at, unsigned ring, unsigned full, unsigned empty) {
    constexpr int TILES = S::OPERANDS / 2; /* of whose halves the operands are */
    const uint32_t lane = threadIdx.x % 32;
    unsigned a[S::OPERANDS][S::WIDE][2][4];
    lane_tile now[S::WIDE], next[S::WIDE];
    uint32_t done = at.stage;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
#pragma unroll
        for (int k = 0; k < S::N / 2; k++) sum[i][k] = 0;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(sum[i]);
    kg_hopper::products_fence();
    const auto take = [&]() {
        kg_hopper::barrier_wait(full + 8 * at.stage, at.parity);
#pragma unroll
        for (int i = 0; i < S::WIDE; i++) next[i] = load_stage<S>(ring + at.stage * S::STAGE_BYTES, i);
    };
    const auto release = [&]() {
        if (S::SHARE == 1 ? lane == 0 : lane < S::SHARE) {
            if (S::SHARE == 1) kg_hopper::barrier_arrive(empty + 8 * done);
            else barrier_arrive_peer(empty + 8 * done, place.split * S::SHARE + lane);
        }
        if (++done == S::STAGES) done = 0;
    };
    take();
    const auto step = [&](uint32_t tile, unsigned(&low)[S::WIDE][2][4], unsigned(&high)[S::WIDE][2][4]) {
        const uint64_t x = kg_hopper::matrix_descriptor<ROW_BYTES>(ring + at.stage * S::STAGE_BYTES);
#pragma unroll
        for (int i = 0; i < S::WIDE; i++) now[i] = next[i];
        at.template next<S::STAGES>();
        multiply_half<S>(sum, low, now, 0, x);
        if (tile >= TILES) release(); /* tiles up to TILES before this one are done */
        if (tile + 1 < n_tiles) take();
        multiply_half<S>(sum, high, now, 1, x);
    };
    uint32_t tile = 0;
#pragma unroll 1
    for (; tile + TILES <= n_tiles; tile += TILES)
#pragma unroll
        for (int i = 0; i < TILES; i++) step(tile + i, a[2 * i], a[2 * i + 1]);
    if (TILES > 1 && tile < n_tiles) step(tile, a[0], a[1]);
    kg_hopper::products_wait<0>();
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(sum[i]);
    for (uint32_t i = n_tiles < TILES ? 0 : n_tiles - TILES; i < n_tiles; i++) release();
}

/* y of a worker's outputs: halves by way of shared memory, floats as they are (a warp's 8 lanes of a row are 32 bytes). */
template <typename S>
static __device__ __forceinline__ void store_worker(const tensor_params &t, worker_sums<S> &sum, uint32_t group,
                                                    uint32_t first, unsigned slabs) {
    const uint32_t worker = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const struct kg_mxfp4_product &p = t.g.p;
    const uint32_t slab0 = worker * S::WIDE;
    if (p.y_is_f16) {
        if (threadIdx.x % 128 == 0) stores_read();
        kg_hopper::named_barrier_sync(1 + (int)worker, 128); /* the slabs may be written */
    }
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) {
        const uint32_t o = group * GROUP_ROWS + (slab0 + i) * 64 + warp * 16 + lane / 4;
        const bool here[2] = { o < p.n_out, o + 8 < p.n_out };
        float bias[2] = { 0, 0 };
#pragma unroll
        for (int h = 0; h < 2; h++)
            if (p.bias && here[h]) bias[h] = p.bias[o + 8 * h];
        const auto result = [&](int k) { return fmaf(sum[i][k], (float)(1 << SHIFT), bias[k / 2 % 2]); };
        if (p.y_is_f16) {
            const unsigned slab = slabs + (slab0 + i) * S::SLAB_BYTES;
            const uint32_t chunk = warp * 2 + lane / 8 % 2, r = lane / 16 * 8 + lane % 8;
            const unsigned to = slab + r * ROW_BYTES + ((chunk ^ (r & 7)) << 4);
#pragma unroll
            for (int k = 0; k < S::N / 16; k++) {
                unsigned m[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const __half2 two = __floats2half2_rn(result(8 * k + 2 * j), result(8 * k + 2 * j + 1));
                    m[j] = *reinterpret_cast<const unsigned *>(&two);
                }
                store_matrices_transposed(to + k * 16 * ROW_BYTES, m);
            }
        } else {
#pragma unroll
            for (int k = 0; k < S::N / 2; k++) {
                const uint32_t row = first + k / 4 * 8 + lane % 4 * 2 + k % 2;
                if (row < p.n_rows && here[k / 2 % 2])
                    static_cast<float *>(p.y)[(size_t)row * p.n_out + o + k / 2 % 2 * 8] = result(k);
            }
        }
    }
    if (!p.y_is_f16) return;
    kg_hopper::stores_fence();
    kg_hopper::named_barrier_sync(1 + (int)worker, 128); /* the slabs are written */
    if (threadIdx.x % 128 != 0) return;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
        store_box(&t.y, slabs + (slab0 + i) * S::SLAB_BYTES, (int)(group * GROUP_ROWS + (slab0 + i) * 64), (int)first);
}

/* Grid: clusters of SHARE n_split blocks, as many as run at once or as there are tiles; a tile each where columns are split. */
template <typename S>
__global__ void __launch_bounds__(S::THREADS, 1) tensor_kernel(const __grid_constant__ tensor_params t) {
    extern __shared__ unsigned char tensor_memory[];
    __shared__ uint64_t barriers[2][S::STAGES];
    kg_hopper::require_hopper();
    const unsigned ring = (kg_shared_address(tensor_memory) + 1023) & ~1023u, full = kg_shared_address(barriers[0]),
                   empty = kg_shared_address(barriers[1]);
    const uint32_t n_split = t.g.n_split, size = S::SHARE * n_split, rank = size > 1 ? kg_hopper::cluster_rank() : 0;
    const uint32_t cluster = blockIdx.x / size, n_clusters = gridDim.x / size, n_steps = t.g.p.n_cols / TILE_COLS;
    tensor_place place = { rank % S::SHARE, rank / S::SHARE, 0, 0 };
    place.begin = n_steps * place.split / n_split, place.end = n_steps * (place.split + 1) / n_split;
    kg_dependents_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            kg_hopper::barrier_init(full + 8 * i, 1);
            kg_hopper::barrier_init(empty + 8 * i, S::WORKER_THREADS / 32 * S::SHARE);
        }
        kg_hopper::barrier_init_fence();
    }
    if (size > 1) {
        kg_hopper::cluster_arrive();
        kg_hopper::cluster_wait(); /* the cluster's barriers are there */
    } else {
        __syncthreads(); /* barriers are there */
    }
    if (threadIdx.x >= S::WORKER_THREADS) {
        kg_hopper::registers_less<S::FETCH_REGISTERS>();
        if (threadIdx.x == S::WORKER_THREADS) fetch_boxes<S>(t, place, cluster, n_clusters, ring, full, empty);
        __syncwarp();
    } else {
        kg_hopper::registers_more<S::WORKER_REGISTERS>();
        worker_sums<S> sum;
        ring_place at = { 0, 0 };
        for (uint32_t tile = cluster; tile < t.n_tiles; tile += n_clusters) {
            work_boxes<S>(sum, place.end - place.begin, place, at, ring, full, empty);
            if (n_split > 1) break;
            kg_dependency_wait(); /* whoever read y has done so */
            store_worker<S>(t, sum, (tile % t.n_across * S::SHARE + place.share) * S::GROUPS, tile / t.n_across * S::N,
                            ring + S::SLABS);
        }
        if (n_split > 1) {
            kg_hopper::named_barrier_sync(1, S::WORKER_THREADS); /* the ring is no longer read */
#pragma unroll
            for (int i = 0; i < S::WIDE; i++)
#pragma unroll
                for (int k = 0; k < S::N / 2; k++)
                    asm volatile("st.shared.f32 [%0], %1;" ::"r"(sum_at<S>(ring, i, k)),
                                 "f"(sum[i][k] * (float)(1 << SHIFT))
                                 : "memory");
        } else if (threadIdx.x % 128 == 0) {
            stores_done();
        }
    }
    if (size > 1) {
        kg_hopper::cluster_arrive();
        kg_hopper::cluster_wait(); /* sums are there, and no block leaves that others copy to */
    }
    if (n_split == 1) return;
    kg_dependency_wait(); /* whoever read y has done so */
    gemm_part part = {};
    part.group = (cluster % t.n_across * S::SHARE + place.share) * S::GROUPS;
    part.first = cluster / t.n_across * S::N;
    part.size = min((uint32_t)S::N, t.g.p.n_rows - part.first);
    store_outputs<S, S::SHARE>(t.g, part, ring, place.split, place.share);
    kg_hopper::cluster_arrive();
    kg_hopper::cluster_wait(); /* no block leaves whose sums are read */
}

} // namespace kg_mxfp4

#endif
