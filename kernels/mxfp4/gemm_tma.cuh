/* Many rows in order times repacked MXFP4 weights (equation: mxfp4.h): gemm.cuh's product of tiles, fed by TMA
 * (sm_90a).
 *
 * Map: a cluster is MULTICAST blocks of neighbouring outputs, times n_split that split the columns (split-K). Each of
 * the MULTICAST loads its rows of a tile of x for all of them. In a block, tiles of columns alternate between SLICES
 * groups of consumer warpgroups (sliced-K).
 *
 * PERSISTENT (columns not split): clusters iterate over tiles of the product; copies of the next tile start while sums
 * of the last are stored.
 *
 * Else each part of the columns owns some units of 16 rows. The other parts send it their sums by st.async, which
 * counts at its mbarrier.
 *
 * PAIRED (two parts at most): the owned rows lie first in a block's memory, so that both blocks run the same code. Both
 * also multiply the MIDDLE tiles between their parts, each for its own rows only, while sums are in flight.
 *
 * GATED (PERSISTENT): W is gate and up, a tile has half as many outputs, and y is their activation.
 *
 * Numerics: gemm.cuh; gate and up stay float32 until they are gated; sums of parts are added in the parts' order, the
 * middle last. */
#ifndef KIGO_KERNELS_MXFP4_GEMM_TMA_CUH
#define KIGO_KERNELS_MXFP4_GEMM_TMA_CUH

#include "kernels/block/swiglu.cuh"
#include "kernels/mxfp4/gemm.cuh"
#include <type_traits>

namespace kg_mxfp4 {

struct tma_params {
    struct kg_mxfp4_product p;
    CUtensorMap x, codes, scales, y; /* boxes: X_ROWS x 64 columns, GROUPS of a tile, BOX_ROWS x 64 outputs */
    uint32_t n_split, unit_shift;    /* a part owns 2^unit_shift units of rows */
    uint32_t n_across, n_tiles;      /* tiles of a cluster: along the outputs; all */
};

/* GATED: p, codes and scales are the gates'. */
struct gated_params : tma_params {
    CUtensorMap up_codes, up_scales;
    const float *up_bias; /* (n_out), NULL for none */
    bool is_gelu;         /* by `gelu`, else by `swiglu` */
    struct kg_swiglu_op swiglu;
    struct kg_geglu_op gelu;
};

template <int CONSUMERS, int N, int STAGES, int MULTICAST_, int SLICES, int MAX_SPLIT_, bool GATED_ = false>
struct tma_shape : ring_shape<CONSUMERS, N, STAGES, SLICES, 40, false> {
    using ring = ring_shape<CONSUMERS, N, STAGES, SLICES, 40, false>;
    static constexpr int MULTICAST = MULTICAST_, MULTICAST_ROWS = N / MULTICAST, MAX_SPLIT = MAX_SPLIT_;
    static constexpr bool GATED = GATED_;
    using params = std::conditional_t<GATED, gated_params, tma_params>;
    static constexpr int OUTPUTS = GATED ? ring::M / 2 : ring::M, OUTPUT_GROUPS = OUTPUTS / GROUP_ROWS; /* of a block */
    static constexpr bool PERSISTENT = SLICES == 1 && MAX_SPLIT == 1; /* iterates over tiles */
    static constexpr bool PAIRED = SLICES == 1 && MAX_SPLIT == 2 && MULTICAST == 1;
    static constexpr int X_ROWS = PAIRED ? N / 2 : MULTICAST_ROWS, MIDDLE = 3;
    static_assert(MULTICAST_ROWS % 8 == 0 && N % 16 == 0, "whole atoms of the swizzle, and units of rows");
    /* The exchange of sums. A thread's sums of a unit are PIECES of 16 bytes, PIECE_BYTES apart. */
    static constexpr int UNITS = N / 16, PIECES = 2, PIECE_BYTES = ring::SLICE_THREADS * 16;
    static constexpr int unit_shift(int n_split) {
        int shift = 0;
        while (n_split << shift < UNITS) shift++;
        return shift;
    }
    static constexpr int exchange_bytes() {
        int most = 0;
        for (int n = 1; n <= MAX_SPLIT; n++) {
            const int units = 1 << unit_shift(n) < UNITS ? 1 << unit_shift(n) : UNITS,
                      bytes = units * (n * SLICES - 1) * PIECES * PIECE_BYTES;
            most = bytes > most ? bytes : most;
        }
        return most;
    }
    /* The epilogue's slabs: 64 outputs x N rows of float16, from which TMA stores, for each consumer (GATED: for both).
     * They overlay the ring if nothing follows; PAIRED: the buffer of the sums that the warpgroup was sent. */
    static_assert(!GATED || (PERSISTENT && OUTPUTS == 64 && N % 32 == 0), "what epilogue_gated is written for");
    static constexpr int UNIT_ROWS = PAIRED ? N / 2 : 16, BOX_ROWS = PERSISTENT ? N : UNIT_ROWS,
                         SLAB_BYTES = N * ROW_BYTES, SLABS_BYTES = OUTPUTS / 64 * SLAB_BYTES;
    static constexpr int SLABS = PERSISTENT || PAIRED ? ring::RING_BYTES : 0,
                         EXCHANGE = PERSISTENT ? ring::RING_BYTES + SLABS_BYTES : ring::RING_BYTES;
    static_assert(PAIRED || PERSISTENT || ring::RING_BYTES >= SLABS_BYTES, "slabs lie in the ring");
    static_assert(!PAIRED || exchange_bytes() == SLABS_BYTES, "a warpgroup's slabs take what it was sent");
    static constexpr int BYTES = EXCHANGE + exchange_bytes() + 1024; /* for alignment */
};

/* A thread's place: in its cluster (share of outputs, split of columns), its block (slice), and its part's tiles of
 * columns [begin, end); first and number of the tiles in the middle. Tiles of the product go round the clusters. */
struct block_coords {
    uint32_t cluster, n_clusters;
    unsigned memory, full, empty, sums_sent; /* shared: the ring, its mbarriers, the exchange's */
    uint32_t share, split, slice, begin, end, middle, n_middle;
};

/* A producer thread (one for x, one for weights): for each stage, once it is empty, copy(stage, its mbarrier, group,
 * row, tile of columns, whether of all rows). */
template <typename S, typename Copy>
static __device__ __forceinline__ void produce_stages(const typename S::params &t, const block_coords &coords,
                                                      const Copy &copy) {
    ring_cursor<S::STAGES, 1> at = { 0, 1 };
    const uint32_t n_steps = coords.end - coords.begin;
    for (uint32_t tile = coords.cluster; tile < t.n_tiles; tile += coords.n_clusters) {
        const uint32_t across = (tile % t.n_across * S::MULTICAST + coords.share) * S::OUTPUT_GROUPS,
                       row = tile / t.n_across * S::N + coords.share * S::MULTICAST_ROWS;
        for (uint32_t i = 0; i < n_steps + coords.n_middle; i++) {
            const bool all_rows = !S::PAIRED || i < n_steps;
            const uint32_t k = all_rows ? coords.begin + i : coords.middle + i - n_steps;
            kg_mbarrier_wait(coords.empty + 8 * at.stage, at.parity);
            copy(coords.memory + at.stage * S::STAGE_BYTES, coords.full + 8 * at.stage, (int)across, (int)row, (int)k,
                 all_rows);
            at.next();
        }
    }
}

/* No dependency wait: no launch writes weights. */
template <typename S>
static __device__ __forceinline__ void produce_weights(const typename S::params &t, const block_coords &coords) {
    produce_stages<S>(t, coords, [&](unsigned stage, unsigned barrier, int group, int, int k, bool) {
        const int codes = k * (CODES_BYTES / 2), scales = k * (SCALES_BYTES / 2);
        kg_mbarrier_expect(barrier, S::COPIED_BYTES - S::CODES);
        kg_tensor_copy(stage + S::CODES, &t.codes, barrier, codes, group, 0, 0);
        kg_tensor_copy(stage + S::SCALES, &t.scales, barrier, scales, group, 0, 0);
        if constexpr (S::GATED) {
            constexpr int UP = S::OUTPUT_GROUPS;
            kg_tensor_copy(stage + S::CODES + UP * CODES_BYTES, &t.up_codes, barrier, codes, group, 0, 0);
            kg_tensor_copy(stage + S::SCALES + UP * SCALES_BYTES, &t.up_scales, barrier, scales, group, 0, 0);
        }
    });
}

template <typename S>
static __device__ __forceinline__ void produce_x(const typename S::params &t, const block_coords &coords) {
    const uint32_t mask = ((1u << S::MULTICAST) - 1) << coords.split * S::MULTICAST,
                   mine = coords.share * S::MULTICAST_ROWS * ROW_BYTES;
    kg_dependency_wait(); /* x is visible */
    produce_stages<S>(t, coords, [&](unsigned stage, unsigned barrier, int, int row, int k, bool all_rows) {
        const int x_row = S::PAIRED ? row + (int)coords.split * S::X_ROWS : row;
        kg_mbarrier_expect(barrier, all_rows ? S::CODES : S::X_ROWS * ROW_BYTES);
        if (S::MULTICAST > 1) kg_tensor_copy_multicast(stage + mine, &t.x, barrier, k * TILE_COLS, x_row, mask);
        else kg_tensor_copy(stage, &t.x, barrier, k * TILE_COLS, x_row, 0, 0);
        if (S::PAIRED && all_rows)
            kg_tensor_copy(stage + S::X_ROWS * ROW_BYTES, &t.x, barrier, k * TILE_COLS,
                           row + (int)(1 - coords.split) * S::X_ROWS, 0, 0);
    });
}

/* Whether this consumer owns a unit of rows: slices alternate among a block's units. */
template <typename S>
__device__ __forceinline__ bool owns_unit(uint32_t unit, const tma_params &t, const block_coords &coords) {
    if (S::PERSISTENT) return true;
    if (S::PAIRED) return unit < S::UNITS / 2 || t.n_split == 1;
    return unit >> t.unit_shift == coords.split && unit % S::SLICES == coords.slice;
}

/* Bytes of sums that peers send to a block. */
template <typename S> __device__ __forceinline__ uint32_t sent_bytes(uint32_t block, const tma_params &t) {
    const uint32_t first = min(block << t.unit_shift, (uint32_t)S::UNITS),
                   end = min(block + 1 << t.unit_shift, (uint32_t)S::UNITS);
    return (end - first) * (t.n_split - 1) * S::SLICES * S::PIECES * S::PIECE_BYTES;
}

/* PAIRED. send_half sends the sums of the last half of the rows, which the peer owns. add_half adds the peer's sums of
 * the first half, then those of the middle: the same order for every row. */
template <typename S> __device__ __forceinline__ unsigned sent_at(unsigned buffer, int unit, int piece) {
    return buffer + (threadIdx.x / 32 * (S::UNITS / 2 * S::PIECES) + unit * S::PIECES + piece) * 512 +
           threadIdx.x % 32 * 16;
}
/* Piece i of a thread's sums of a unit of rows. */
static __device__ __forceinline__ float4 piece_of(const float *sum, int unit, int i) {
    const float *s = &sum[8 * unit + i * 4];
    return make_float4(s[0], s[1], s[2], s[3]);
}
template <typename S>
static __device__ __forceinline__ void send_half(const float (&sum)[S::N / 2], const block_coords &coords,
                                                 unsigned buffer, unsigned barrier) {
    const unsigned there = kg_peer_address(sent_at<S>(buffer, 0, 0), 1 - coords.split),
                   at = kg_peer_address(barrier, 1 - coords.split), step = sent_at<S>(0, 0, 1) - sent_at<S>(0, 0, 0);
#pragma unroll
    for (int u = 0; u < S::UNITS / 2; u++)
#pragma unroll
        for (int i = 0; i < S::PIECES; i++)
            kg_send_peer(there + (u * S::PIECES + i) * step, piece_of(sum, S::UNITS / 2 + u, i), at);
}
template <typename S>
static __device__ __forceinline__ void add_half(float (&sum)[S::N / 2], const float (&middle)[S::N / 4],
                                                unsigned buffer, unsigned barrier) {
    kg_mbarrier_wait(barrier, 0);
#pragma unroll
    for (int u = 0; u < S::UNITS / 2; u++)
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            float *s = &sum[8 * u + i * 4];
            const float4 v = kg_load_shared<float4>(sent_at<S>(buffer, u, i));
            s[0] += v.x, s[1] += v.y, s[2] += v.z, s[3] += v.w;
        }
#pragma unroll
    for (int k = 0; k < S::N / 4; k++) sum[k] += middle[k];
}

/* Sends sums of the units that others own, waits for theirs of this consumer's units, and adds them in order of parts.
 */
template <typename S>
static __device__ __forceinline__ void reduce_split(float (&sum)[S::N / 2], const tma_params &t,
                                                    const block_coords &coords, unsigned buffer, unsigned barrier) {
    const uint32_t n_split = t.n_split, n_parts = n_split * S::SLICES, me = coords.split * S::SLICES + coords.slice;
    const auto slot_at = [&](uint32_t unit, uint32_t from) {
        const uint32_t block = unit >> t.unit_shift, to = block * S::SLICES + unit % S::SLICES;
        const uint32_t slot = (unit - (block << t.unit_shift)) * (n_parts - 1) + from - (uint32_t)(from > to);
        return buffer + slot * (S::PIECES * S::PIECE_BYTES) + threadIdx.x % S::SLICE_THREADS * 16;
    };
#pragma unroll
    for (uint32_t u = 0; u < S::UNITS; u++) {
        if (owns_unit<S>(u, t, coords)) continue;
        const uint32_t block = u >> t.unit_shift, rank = block * S::MULTICAST + coords.share;
        const unsigned to = slot_at(u, me);
        unsigned there = to, at = barrier;
        if (n_split > 1) there = kg_peer_address(to, rank), at = kg_peer_address(barrier, rank);
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            const float4 v = piece_of(sum, (int)u, i);
            if (block == coords.split) kg_store_shared(to + i * S::PIECE_BYTES, v);
            else kg_send_peer(there + i * S::PIECE_BYTES, v, at);
        }
    }
    if (S::SLICES > 1) kg_barrier_sync(1, S::CONSUMER_THREADS); /* sums of the block's slices are visible */
    if (n_split > 1) kg_mbarrier_wait(barrier, 0);              /* and the peers' */
#pragma unroll
    for (uint32_t u = 0; u < S::UNITS; u++) {
        if (!owns_unit<S>(u, t, coords)) continue;
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            const unsigned at = slot_at(u, 0) + i * S::PIECE_BYTES; /* slots of the other parts, in order */
            float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
            for (uint32_t from = 0; from < S::MAX_SPLIT * S::SLICES; from++) {
                if (from >= n_parts) break;
                float4 v = piece_of(sum, (int)u, i);
                if (from != me)
                    v = kg_load_shared<float4>(at + (from - (uint32_t)(from > me)) * (S::PIECES * S::PIECE_BYTES));
                total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
            }
            float *s = &sum[8 * u + i * 4];
            s[0] = total.x, s[1] = total.y, s[2] = total.z, s[3] = total.w;
        }
    }
}

/* The epilogue: y of a consumer's units. float16 goes through shared memory and TMA, which adds it to y where it is to
 * be added; float32 is stored directly (8 lanes of a row are 32 bytes). */
template <typename S>
static __device__ __forceinline__ void epilogue(const tma_params &t, float (&sum)[S::N / 2], const block_coords &coords,
                                                uint32_t group, uint32_t first, unsigned slabs) {
    const uint32_t all = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const uint32_t slab = all % S::CONSUMERS, o = group * GROUP_ROWS + slab * 64 + warp * 16 + lane / 4;
    const struct kg_mxfp4_product &p = t.p;
    if (p.y_is_f16) {
        if (S::PERSISTENT && threadIdx.x % 128 == 0) kg_bulk_wait_read();
        /* write-after-read: the slabs are the warpgroup's own, or all consumers have read the ring */
        if (S::PERSISTENT || S::PAIRED) kg_barrier_sync(1 + (int)all, 128);
        else kg_barrier_sync(1, S::CONSUMER_THREADS);
    }
    const bool here[2] = { o < p.n_out, o + 8 < p.n_out };
    float bias[2] = { 0, 0 };
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (p.bias && here[h]) bias[h] = p.bias[o + 8 * h];
    const auto result = [&](int k) { return fmaf(sum[k], (float)(1 << SHIFT), bias[k / 2 % 2]); };
    if (!p.y_is_f16) {
#pragma unroll
        for (int k = 0; k < S::N / 2; k++) {
            const uint32_t row = first + k / 4 * 8 + lane % 4 * 2 + k % 2;
            if (!owns_unit<S>(k / 8, t, coords) || row >= p.n_rows || !here[k / 2 % 2]) continue;
            float *y = static_cast<float *>(p.y) + (size_t)row * p.n_out + o + k / 2 % 2 * 8;
            *y = result(k) + (p.adds ? *y : 0);
        }
        return;
    }
    const uint32_t chunk = warp * 2 + lane / 8 % 2, r = lane / 16 * 8 + lane % 8;
    const unsigned from = slabs + slab * S::SLAB_BYTES, to = from + r * ROW_BYTES + ((chunk ^ (r & 7)) << 4);
#pragma unroll
    for (int u = 0; u < S::UNITS; u++) {
        if (!owns_unit<S>(u, t, coords)) continue;
        unsigned m[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const __half2 two = __floats2half2_rn(result(8 * u + 2 * j), result(8 * u + 2 * j + 1));
            m[j] = *reinterpret_cast<const unsigned *>(&two);
        }
        kg_store_matrices_transposed(to + u * 16 * ROW_BYTES, m);
    }
    kg_async_proxy_fence();
    kg_barrier_sync(1 + (int)all, 128); /* all of the slab is visible to the async proxy */
    if (threadIdx.x % 128 != 0) return;
#pragma unroll
    for (int row = 0; row < S::N; row += S::BOX_ROWS)
        if (owns_unit<S>(row / 16, t, coords)) {
            const int at = (int)(group * GROUP_ROWS + slab * 64);
            if (p.adds) kg_tensor_add(&t.y, from + row * ROW_BYTES, at, (int)first + row);
            else kg_tensor_store(&t.y, from + row * ROW_BYTES, at, (int)first + row);
            kg_bulk_commit();
        }
}

/* GATED: y of both consumers' outputs, of which a warp has 8: sum[k] of gates is beside sum[k + 2] of ups. */
template <typename S, typename Gate>
static __device__ __forceinline__ void epilogue_gated(const gated_params &t, const Gate &gate,
                                                      const float (&sum)[S::N / 2], uint32_t group, uint32_t first,
                                                      unsigned slab) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, o = group * GROUP_ROWS + warp * 8 + lane / 4;
    const struct kg_mxfp4_product &p = t.p;
    const bool here = o < p.n_out;
    const float gate_bias = p.bias && here ? p.bias[o] : 0, up_bias = t.up_bias && here ? t.up_bias[o] : 0;
    const auto result = [&](int k) {
        return gate.template of<kg_quick_sigmoid>(fmaf(sum[k], (float)(1 << SHIFT), gate_bias),
                                                  fmaf(sum[k + 2], (float)(1 << SHIFT), up_bias));
    };
    if (threadIdx.x == 0) kg_bulk_wait_read();
    kg_barrier_sync(1, S::CONSUMER_THREADS); /* write-after-read: the slab's last results are stored */
    const unsigned to = slab + lane * ROW_BYTES + ((warp ^ (lane & 7)) << 4);
#pragma unroll
    for (int u = 0; u < S::N / 32; u++) {
        unsigned m[4]; /* of 8 rows each */
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const __half2 two = __floats2half2_rn(result(16 * u + 4 * j), result(16 * u + 4 * j + 1));
            m[j] = *reinterpret_cast<const unsigned *>(&two);
        }
        kg_store_matrices_transposed(to + u * 32 * ROW_BYTES, m);
    }
    kg_async_proxy_fence();
    kg_barrier_sync(1, S::CONSUMER_THREADS); /* all of the slab is visible to the async proxy */
    if (threadIdx.x != 0) return;
    kg_tensor_store(&t.y, slab, (int)(group * GROUP_ROWS), (int)first);
    kg_bulk_commit();
}

/* A consumer warpgroup's tiles of the product. */
template <typename S>
static __device__ __forceinline__ void run_consumer(const typename S::params &t, const block_coords &coords) {
    float sum[S::N / 2];
    ring_cursor<S::STAGES, S::SLICES> at = { S::SLICES > 1 ? coords.slice : 0, 0 };
    const uint32_t n_steps = coords.end - coords.begin, mine = (n_steps + S::SLICES - 1 - coords.slice) / S::SLICES;
    const unsigned sums = coords.memory + S::EXCHANGE;
    /* The first copies are in flight meanwhile. */
    if (S::MULTICAST == 1 && S::MAX_SPLIT > 1 && t.n_split > 1) kg_cluster_wait(); /* peers' barriers are initialised */
    kg_dependency_wait(); /* write-after-read: nothing reads y any more */
    for (uint32_t tile = coords.cluster; tile < t.n_tiles; tile += coords.n_clusters) {
        const uint32_t group = kg_opaque((tile % t.n_across * S::MULTICAST + coords.share) * S::OUTPUT_GROUPS),
                       row = kg_opaque(tile / t.n_across * S::N);
        consume_tiles<S, S::N>(sum, mine, coords.split, at, coords.memory, coords.full, coords.empty);
        if constexpr (S::PAIRED) {
            if (t.n_split > 1) {
                float middle[S::N / 4];
                send_half<S>(sum, coords, sums, coords.sums_sent);
                consume_tiles<S, S::N / 2>(middle, coords.n_middle > 0 ? S::MIDDLE : 0, coords.split, at, coords.memory,
                                           coords.full, coords.empty);
                add_half<S>(sum, middle, sums, coords.sums_sent);
            }
        } else if constexpr (!S::PERSISTENT) {
            __syncwarp();
            reduce_split<S>(sum, t, coords, sums, coords.sums_sent);
        }
        if constexpr (S::GATED) {
            if (t.is_gelu) epilogue_gated<S>(t, t.gelu, sum, group, row, coords.memory + S::SLABS);
            else epilogue_gated<S>(t, t.swiglu, sum, group, row, coords.memory + S::SLABS);
        } else {
            epilogue<S>(t, sum, coords, group, row + (S::PAIRED ? coords.split * S::X_ROWS : 0),
                        coords.memory + S::SLABS);
        }
        if (!S::PERSISTENT) break;
    }
    if (threadIdx.x % 128 == 0) kg_bulk_wait();
}

/* Grid: clusters of MULTICAST n_split blocks; PERSISTENT: as many as run at the same time, else one for each tile. */
template <typename S>
__global__ void __launch_bounds__(S::THREADS, 1) gemm_tma_kernel(const __grid_constant__ typename S::params t) {
    extern __shared__ unsigned char tma_memory[];
    __shared__ uint64_t barriers[2 * S::STAGES + 1];
    kg_require_sm_90a();
    /* Warp-uniform for the compiler, so that the loop keeps it in uniform registers. */
    const uint32_t n_split = S::MAX_SPLIT > 1 ? t.n_split : 1, size = S::MULTICAST * n_split, rank = blockIdx.x % size;
    const uint32_t n_steps = t.p.n_cols / TILE_COLS;
    block_coords coords = {};
    coords.cluster = blockIdx.x / size, coords.n_clusters = gridDim.x / size;
    coords.memory = kg_opaque((kg_shared_address(tma_memory) + 1023) & ~1023u);
    coords.full = kg_opaque(kg_shared_address(barriers)), coords.empty = coords.full + 8 * S::STAGES;
    coords.sums_sent = coords.empty + 8 * S::STAGES;
    coords.share = rank % S::MULTICAST, coords.split = rank / S::MULTICAST;
    if (S::SLICES > 1) coords.slice = __shfl_sync(0xFFFFFFFFu, threadIdx.x / S::SLICE_THREADS, 0);
    if (S::PAIRED) {
        coords.n_middle = n_split > 1 && n_steps > S::MIDDLE ? S::MIDDLE : 0;
        coords.middle = n_split > 1 ? (n_steps - coords.n_middle) / 2 : n_steps;
        coords.begin = coords.split ? coords.middle + coords.n_middle : 0,
        coords.end = coords.split ? n_steps : coords.middle;
    } else {
        coords.begin = n_steps * coords.split / n_split, coords.end = n_steps * (coords.split + 1) / n_split;
    }
    kg_dependents_start();
    if (threadIdx.x == 0) {
        init_barriers<S>(coords.full, coords.empty, 2); /* producers of x and of weights */
        kg_mbarrier_init(coords.sums_sent, 1);
        if (t.n_split > 1) kg_mbarrier_expect(coords.sums_sent, sent_bytes<S>(coords.split, t));
        kg_mbarrier_init_fence();
    }
    if (size > 1) kg_cluster_arrive_relaxed();
    if (S::MULTICAST > 1) kg_cluster_wait(); /* the cluster's barriers are initialised */
    else __syncthreads();                    /* the block's barriers are initialised */
    if (threadIdx.x >= S::CONSUMER_THREADS) {
        kg_registers_decrease<S::PRODUCER_REGISTERS>();
        if (threadIdx.x == S::CONSUMER_THREADS) produce_x<S>(t, coords);
        if (threadIdx.x == S::CONSUMER_THREADS + 32) produce_weights<S>(t, coords);
        __syncwarp();
        if (S::MULTICAST == 1 && size > 1) kg_cluster_wait();
    } else {
        kg_registers_increase<S::CONSUMER_REGISTERS>();
        run_consumer<S>(t, coords);
    }
    if (S::MULTICAST > 1) {
        __syncwarp();
        kg_cluster_arrive();
        kg_cluster_wait(); /* peers' copies to this block, and arrivals, are complete */
    }
}

} // namespace kg_mxfp4

#endif
