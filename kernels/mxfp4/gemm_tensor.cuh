/* Many rows times MXFP4 weights in tiles (equation: mxfp4.h) where rows come as they are: gemm.cuh's product of tiles,
 * fed by tensor copies (sm_90a).
 *
 * A cluster is SHARE blocks of neighbouring outputs, times n_split that divide the columns. Each of the SHARE fetches
 * its part of a tile of x for all of them. In a block WAYS workers take tiles of columns in turn. Where columns are not
 * divided, clusters walk over tiles of the product, and copies run ahead into the next tile while sums of the last are
 * stored. Else each part of the columns has some rows to finish: the others send it their sums of them, which count at
 * its barrier. Where there are two parts at most (HALVES) a block's own rows lie first in its memory, so that both
 * blocks run the same code, and they share MIDDLE tiles in the middle of the columns: each takes them last, by its own
 * rows only, while sums travel.
 *
 * Numerics: gemm.cuh; sums of parts are added in the parts' order, the middle last. */
#ifndef KIGO_KERNELS_MXFP4_GEMM_TENSOR_CUH
#define KIGO_KERNELS_MXFP4_GEMM_TENSOR_CUH

#include "kernels/mxfp4/gemm.cuh"

namespace kg_mxfp4 {

struct tensor_params {
    struct kg_mxfp4_product p;
    CUtensorMap x, codes, scales, y; /* boxes: X_ROWS x 64 columns, GROUPS of a tile, BOX_ROWS x 64 outputs */
    uint32_t n_split, unit_shift;    /* 2^unit_shift units of rows are the same part's to finish */
    uint32_t n_across, n_tiles;      /* of a cluster: side by side in outputs; all */
};

/* WORKERS: of each way. */
template <int WORKERS_, int WIDE_, int N_, int STAGES_, int SHARE_, int WAYS_, int MOST_SPLIT_> struct tensor_shape {
    static constexpr int WORKERS = WORKERS_, WIDE = WIDE_, N = N_, STAGES = STAGES_;
    static constexpr int SHARE = SHARE_, SHARE_ROWS = N / SHARE, WAYS = WAYS_, MOST_SPLIT = MOST_SPLIT_;
    static constexpr bool WALKS = WAYS == 1 && MOST_SPLIT == 1; /* over tiles */
    static constexpr bool HALVES = WAYS == 1 && MOST_SPLIT == 2 && SHARE == 1;
    static constexpr int X_ROWS = HALVES ? N / 2 : SHARE_ROWS, MIDDLE = 3;
    static constexpr int WAY_THREADS = WORKERS * 128, WORKER_THREADS = WAYS * WAY_THREADS,
                         THREADS = WORKER_THREADS + 128;
    static constexpr int FETCH_REGISTERS = 40, LAUNCH_REGISTERS = 65536 / THREADS / 8 * 8;
    static constexpr int WORKER_REGISTERS =
        ((WORKERS * WAYS + 1) * LAUNCH_REGISTERS - FETCH_REGISTERS) / (WORKERS * WAYS) / 8 * 8;
    static constexpr int M = WORKERS * WIDE * 64, GROUPS = M / GROUP_ROWS;
    /* A stage: x, codes and scales of the groups. */
    static constexpr int CODES = N * ROW_BYTES, SCALES = CODES + GROUPS * CODES_BYTES,
                         COPIED_BYTES = SCALES + GROUPS * SCALES_BYTES;
    static constexpr int STAGE_BYTES = (COPIED_BYTES + 1023) / 1024 * 1024, RING_BYTES = STAGES * STAGE_BYTES;
    static_assert(STAGES % WAYS == 0, "a stage is always the same way's, which so has seen its use before");
    static_assert(STAGES / WAYS >= 3, "a way leaves a tile's stage after it has waited for the two tiles behind it");
    static_assert(SHARE_ROWS % 8 == 0 && N % 16 == 0, "whole atoms of the swizzle, and units of rows");
    /* Parts of the columns finish units of 16 rows. A thread's sums of a unit are PIECES of 16 bytes, PIECE_BYTES
     * apart. */
    static constexpr int UNITS = N / 16, PIECES = WIDE * 2, PIECE_BYTES = WAY_THREADS * 16;
    static constexpr int unit_shift(int n_split) {
        int shift = 0;
        while (n_split << shift < UNITS) shift++;
        return shift;
    }
    static constexpr int exchange_bytes() {
        int most = 0;
        for (int n = 1; n <= MOST_SPLIT; n++) {
            const int units = 1 << unit_shift(n) < UNITS ? 1 << unit_shift(n) : UNITS,
                      bytes = units * (n * WAYS - 1) * PIECES * PIECE_BYTES;
            most = bytes > most ? bytes : most;
        }
        return most;
    }
    /* Results, on their way as float16: slabs of 64 outputs x N rows. They may lie where the ring was if nothing
     * follows, or, a warpgroup's, where the sums that it was sent were. */
    static constexpr int UNIT_ROWS = HALVES ? N / 2 : 16, BOX_ROWS = WALKS ? N : UNIT_ROWS, SLAB_BYTES = N * ROW_BYTES,
                         SLABS_BYTES = WORKERS * WIDE * SLAB_BYTES;
    static constexpr int SLABS = WALKS || HALVES ? RING_BYTES : 0,
                         EXCHANGE = WALKS ? RING_BYTES + SLABS_BYTES : RING_BYTES;
    static_assert(HALVES || WALKS || RING_BYTES >= SLABS_BYTES, "slabs lie in the ring");
    static_assert(!HALVES || exchange_bytes() == SLABS_BYTES, "a warpgroup's slabs take what it was sent");
    static constexpr int BYTES = EXCHANGE + exchange_bytes() + 1024; /* to begin at 1024 */
};

/* Where a thread is: in its cluster (share of outputs, split of columns), its block (way) and its part's columns, in
 * tiles; where those in the middle begin, and how many there are. */
struct tensor_place {
    uint32_t share, split, way, begin, end, middle, n_middle;
};

/* A place in the ring, that goes STEP at a time. */
template <int STAGES, int STEP> struct ring_place {
    uint32_t stage, parity;
    __device__ __forceinline__ void next() {
        stage += STEP;
        if (stage >= STAGES) stage -= STAGES, parity ^= 1;
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

/* kg_hopper::barrier_arrive_if at a peer_address. */
__device__ __forceinline__ void barrier_arrive_peer_if(bool yes, unsigned barrier) {
#if KG_HOPPER
    asm volatile("{\n"
                 ".reg .pred yes;\n"
                 "setp.ne.u32 yes, %1, 0;\n"
                 "@yes mbarrier.arrive.shared::cluster.b64 _, [%0];\n"
                 "}" ::"r"(barrier),
                 "r"((unsigned)yes)
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

/* For each stage that one of two fetching threads fills: once it is empty, copy(stage, its barrier, tile, columns,
 * whether of all rows). */
template <typename S, typename Copy>
static __device__ __forceinline__ void fill_ring(const tensor_params &t, const tensor_place &place, uint32_t cluster,
                                                 uint32_t n_clusters, unsigned ring, unsigned full, unsigned empty,
                                                 const Copy &copy) {
    ring_place<S::STAGES, 1> at = { 0, 1 };
    const uint32_t n_steps = place.end - place.begin;
    for (uint32_t tile = cluster; tile < t.n_tiles; tile += n_clusters) {
        const uint32_t across = (tile % t.n_across * S::SHARE + place.share) * S::GROUPS,
                       row = tile / t.n_across * S::N + place.share * S::SHARE_ROWS;
        for (uint32_t i = 0; i < n_steps + place.n_middle; i++) {
            const bool all_rows = !S::HALVES || i < n_steps;
            const uint32_t k = all_rows ? place.begin + i : place.middle + i - n_steps;
            kg_hopper::barrier_wait(empty + 8 * at.stage, at.parity);
            copy(ring + at.stage * S::STAGE_BYTES, full + 8 * at.stage, (int)across, (int)row, (int)k, all_rows);
            at.next();
        }
    }
}

/* Weights are there before anything this launch waits for. */
template <typename S>
static __device__ __forceinline__ void fetch_weights(const tensor_params &t, const tensor_place &place,
                                                     uint32_t cluster, uint32_t n_clusters, unsigned ring,
                                                     unsigned full, unsigned empty) {
    fill_ring<S>(t, place, cluster, n_clusters, ring, full, empty,
                 [&](unsigned stage, unsigned barrier, int group, int, int k, bool) {
                     kg_hopper::barrier_expect(barrier, S::COPIED_BYTES - S::CODES);
                     kg_hopper::copy_box(stage + S::CODES, &t.codes, barrier, k * (CODES_BYTES / 2), group, 0, 0);
                     kg_hopper::copy_box(stage + S::SCALES, &t.scales, barrier, k * (SCALES_BYTES / 2), group, 0, 0);
                 });
}

template <typename S>
static __device__ __forceinline__ void fetch_x(const tensor_params &t, const tensor_place &place, uint32_t cluster,
                                               uint32_t n_clusters, unsigned ring, unsigned full, unsigned empty) {
    const uint32_t mask = ((1u << S::SHARE) - 1) << place.split * S::SHARE,
                   mine = place.share * S::SHARE_ROWS * ROW_BYTES;
    kg_dependency_wait(); /* x is there */
    fill_ring<S>(t, place, cluster, n_clusters, ring, full, empty,
                 [&](unsigned stage, unsigned barrier, int, int row, int k, bool all_rows) {
                     const int x_row = S::HALVES ? row + (int)place.split * S::X_ROWS : row;
                     kg_hopper::barrier_expect(barrier, all_rows ? S::CODES : S::X_ROWS * ROW_BYTES);
                     if (S::SHARE > 1) copy_box_to_all(stage + mine, &t.x, barrier, k * TILE_COLS, x_row, mask);
                     else kg_hopper::copy_box(stage, &t.x, barrier, k * TILE_COLS, x_row, 0, 0);
                     if (S::HALVES && all_rows)
                         kg_hopper::copy_box(stage + S::X_ROWS * ROW_BYTES, &t.x, barrier, k * TILE_COLS,
                                             row + (int)(1 - place.split) * S::X_ROWS, 0, 0);
                 });
}

/* Placed codes of columns 16 K on of a tile as left operands, times 2^(e-127-SHIFT) (gemm.cuh: numerics). */
template <int K> __device__ __forceinline__ void scaled_operand(const lane_tile &tile, unsigned (&a)[4]) {
    constexpr uint32_t STEP = 0x0400, UNITS = (127 - 14 + SHIFT - 15) * 0x04000400u;
    const uint32_t words[2] = { K / 2 ? tile.codes.z : tile.codes.x, K / 2 ? tile.codes.w : tile.codes.y };
    /* Both rows' scales, a half each. */
    const uint32_t scales = __byte_perm(tile.scales, 0, K / 2 ? 0x4342 : 0x4140) * STEP - UNITS;
    const __half2 both = *reinterpret_cast<const __half2 *>(&scales);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const __half2 scale = row ? __high2half2(both) : __low2half2(both);
        uint32_t placed[4];
        place(words[row], placed);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const __half2 value = __hmul2(*reinterpret_cast<const __half2 *>(&placed[K % 2 * 2 + i]), scale);
            a[row + i * 2] = *reinterpret_cast<const unsigned *>(&value);
        }
    }
}

/* Tiles that were loaded become those to decode; the compiler would begin to where they are loaded, and wait for them.
 */
template <typename S> __device__ __forceinline__ void take(lane_tile (&to)[S::WIDE], const lane_tile (&from)[S::WIDE]) {
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) {
        to[i] = from[i];
        asm volatile(""
                     : "+r"(to[i].codes.x), "+r"(to[i].codes.y), "+r"(to[i].codes.z), "+r"(to[i].codes.w),
                       "+r"(to[i].scales)::"memory");
    }
}

/* A quarter of a tile: sum += the products of 16 columns and N rows, as soon as `a` is made of their codes; then all
 * but the last three quarters are done. */
template <typename S, int N, int K>
__device__ __forceinline__ void multiply_quarter(float (&sum)[S::WIDE][N / 2], unsigned (&a)[S::WIDE][4],
                                                 const lane_tile (&tile)[S::WIDE], uint64_t x) {
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) scaled_operand<K>(tile[i], a[i]);
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(a[i]);
    kg_hopper::products_fence();
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
        kg_hopper::products<N>::template registers<false>(sum[i], a[i], x + (uint64_t)(K * 2), 1);
    kg_hopper::products_commit();
    kg_hopper::products_wait<3>();
}

/* Keeps the compiler from working an address out again and again. */
__device__ __forceinline__ unsigned kept(unsigned address) {
    asm volatile("" : "+r"(address));
    return address;
}

/* sum = the products of the way's n_tiles tiles of columns and N rows, the first of the block.
 *
 * Warps are few and issue in order: an instruction more costs a clock, one that waits, or a branch, tens. So codes are
 * in registers a tile ahead, whether the tile after them has come is asked well before it matters, and stages are
 * counted in what is the same for all of a warp. */
template <typename S, int N>
static __device__ __forceinline__ void work_boxes(float (&sum)[S::WIDE][N / 2], uint32_t n_tiles,
                                                  const tensor_place &place, ring_place<S::STAGES, S::WAYS> &at,
                                                  unsigned ring, unsigned full, unsigned empty) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t group = threadIdx.x / 128 % S::WORKERS * S::WIDE * 4 + threadIdx.x / 32 % 4;
    const unsigned codes = kept(ring + S::CODES + group * CODES_BYTES + lane * LANE_BYTES),
                   scales = kept(ring + S::SCALES + group * SCALES_BYTES + lane / 4 * 4);
    const bool arrives = lane < S::SHARE; /* lane i at block i's barriers */
    const unsigned empty_there =
        S::SHARE == 1 ? empty : kept(kg_hopper::peer_address(empty, place.split * S::SHARE + lane % S::SHARE));
    lane_tile now[S::WIDE], next[S::WIDE];
    unsigned a[4][S::WIDE][4];
    uint64_t x_next = 0;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
#pragma unroll
        for (int k = 0; k < N / 2; k++) sum[i][k] = 0;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(sum[i]);
    kg_hopper::products_fence();
    const auto load = [&](uint32_t stage) {
        const unsigned offset = stage * S::STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < S::WIDE; i++) { /* four warps make 64 outputs */
            next[i].codes = kg_hopper::load_shared_16(codes + offset + i * 4 * CODES_BYTES);
            asm volatile("ld.shared.u32 %0, [%1];"
                         : "=r"(next[i].scales)
                         : "r"(scales + offset + i * 4 * SCALES_BYTES)
                         : "memory");
        }
        x_next = kg_hopper::matrix_descriptor<ROW_BYTES>(ring + offset);
    };
    const auto release = [&](bool yes, uint32_t stage) {
        if (S::SHARE == 1) kg_hopper::barrier_arrive_if(yes, empty_there + 8 * stage);
        else barrier_arrive_peer_if(yes, empty_there + 8 * stage);
    };
    if (n_tiles == 0) return;
    kg_hopper::barrier_wait(full + 8 * at.stage, at.parity);
    load(at.stage);
    uint32_t stage = at.stage, stage_before = stage;
    at.next();
    bool has_come = n_tiles > 1 && kg_hopper::barrier_test(full + 8 * at.stage, at.parity); /* the next one */
#pragma unroll 4
    for (uint32_t tile = 0; tile + 1 < n_tiles; tile++) {
        const uint64_t x = x_next;
        take<S>(now, next);
        const uint32_t stage_next = at.stage;
        kg_hopper::barrier_wait_unless(has_come, full + 8 * stage_next, at.parity);
        load(stage_next);
        at.next();
        multiply_quarter<S, N, 0>(sum, a[0], now, x);
        has_come = kg_hopper::barrier_test(full + 8 * at.stage, at.parity);
        multiply_quarter<S, N, 1>(sum, a[1], now, x);
        multiply_quarter<S, N, 2>(sum, a[2], now, x);
        multiply_quarter<S, N, 3>(sum, a[3], now, x);
        release(arrives && tile > 0, stage_before); /* of the tile before this one no product is left */
        stage_before = stage, stage = stage_next;
    }
    const uint64_t x = x_next;
    take<S>(now, next);
    multiply_quarter<S, N, 0>(sum, a[0], now, x);
    multiply_quarter<S, N, 1>(sum, a[1], now, x);
    multiply_quarter<S, N, 2>(sum, a[2], now, x);
    multiply_quarter<S, N, 3>(sum, a[3], now, x);
    kg_hopper::products_wait<0>();
#pragma unroll
    for (int i = 0; i < S::WIDE; i++) kg_hopper::pin(sum[i]);
    release(arrives && n_tiles > 1, stage_before);
    release(arrives, stage);
}

/* Whether a unit of rows is this worker's to finish: of a block's units, ways take turns. */
template <typename S>
__device__ __forceinline__ bool is_mine(uint32_t unit, const tensor_params &t, const tensor_place &place) {
    if (S::WALKS) return true;
    if (S::HALVES) return unit < S::UNITS / 2 || t.n_split == 1;
    return unit >> t.unit_shift == place.split && unit % S::WAYS == place.way;
}

/* Bytes of sums that the other blocks send to a block. */
template <typename S> __device__ __forceinline__ uint32_t sent_bytes(uint32_t block, const tensor_params &t) {
    const uint32_t first = min(block << t.unit_shift, (uint32_t)S::UNITS),
                   end = min(block + 1 << t.unit_shift, (uint32_t)S::UNITS);
    return (end - first) * (t.n_split - 1) * S::WAYS * S::PIECES * S::PIECE_BYTES;
}

/* HALVES: sends the last sums, of the rows that the other block finishes; adds those that it sent to the first, and
 * then those of the middle: every row's are added in the same order. */
template <typename S> __device__ __forceinline__ unsigned sent_at(unsigned buffer, int unit, int piece) {
    return buffer + (threadIdx.x / 32 * (S::UNITS / 2 * S::PIECES) + unit * S::PIECES + piece) * 512 +
           threadIdx.x % 32 * 16;
}
template <typename S>
static __device__ __forceinline__ void send_half(const worker_sums<S> &sum, const tensor_place &place, unsigned buffer,
                                                 unsigned barrier) {
    const unsigned there = kg_hopper::peer_address(sent_at<S>(buffer, 0, 0), 1 - place.split),
                   at = kg_hopper::peer_address(barrier, 1 - place.split),
                   step = sent_at<S>(0, 0, 1) - sent_at<S>(0, 0, 0);
#pragma unroll
    for (int u = 0; u < S::UNITS / 2; u++)
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            const float *s = &sum[i / 2][8 * (S::UNITS / 2 + u) + i % 2 * 4];
            kg_hopper::send_peer(there + (u * S::PIECES + i) * step, make_float4(s[0], s[1], s[2], s[3]), at);
        }
}
template <typename S>
static __device__ __forceinline__ void add_half(worker_sums<S> &sum, const float (&middle)[S::WIDE][S::N / 4],
                                                unsigned buffer, unsigned barrier) {
    kg_hopper::barrier_wait(barrier, 0);
#pragma unroll
    for (int u = 0; u < S::UNITS / 2; u++)
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            float *s = &sum[i / 2][8 * u + i % 2 * 4];
            const float4 v = kg_hopper::load_shared_4(sent_at<S>(buffer, u, i));
            s[0] += v.x, s[1] += v.y, s[2] += v.z, s[3] += v.w;
        }
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
#pragma unroll
        for (int k = 0; k < S::N / 4; k++) sum[i][k] += middle[i][k];
}

/* Sends sums of the units that other parts finish, waits for theirs of this part's, and adds them to `sum` in order of
 * parts. */
template <typename S>
static __device__ __forceinline__ void exchange(worker_sums<S> &sum, const tensor_params &t, const tensor_place &place,
                                                unsigned buffer, unsigned barrier) {
    const uint32_t n_split = t.n_split, n_parts = n_split * S::WAYS, me = place.split * S::WAYS + place.way;
    const auto slot_at = [&](uint32_t unit, uint32_t from) {
        const uint32_t block = unit >> t.unit_shift, to = block * S::WAYS + unit % S::WAYS;
        const uint32_t slot = (unit - (block << t.unit_shift)) * (n_parts - 1) + from - (uint32_t)(from > to);
        return buffer + slot * (S::PIECES * S::PIECE_BYTES) + threadIdx.x % S::WAY_THREADS * 16;
    };
#pragma unroll
    for (uint32_t u = 0; u < S::UNITS; u++) {
        if (is_mine<S>(u, t, place)) continue;
        const uint32_t block = u >> t.unit_shift, rank = block * S::SHARE + place.share;
        const unsigned to = slot_at(u, me);
        unsigned there = to, at = barrier;
        if (n_split > 1) there = kg_hopper::peer_address(to, rank), at = kg_hopper::peer_address(barrier, rank);
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            const float *s = &sum[i / 2][8 * u + i % 2 * 4];
            const float4 v = make_float4(s[0], s[1], s[2], s[3]);
            if (block == place.split) kg_hopper::store_shared(to + i * S::PIECE_BYTES, v);
            else kg_hopper::send_peer(there + i * S::PIECE_BYTES, v, at);
        }
    }
    if (S::WAYS > 1) kg_hopper::named_barrier_sync(1, S::WORKER_THREADS); /* the block's own sums are there */
    if (n_split > 1) kg_hopper::barrier_wait(barrier, 0);                 /* and the others' */
#pragma unroll
    for (uint32_t u = 0; u < S::UNITS; u++) {
        if (!is_mine<S>(u, t, place)) continue;
#pragma unroll
        for (int i = 0; i < S::PIECES; i++) {
            float *s = &sum[i / 2][8 * u + i % 2 * 4];
            const unsigned at = slot_at(u, 0) + i * S::PIECE_BYTES; /* slots of the others, in order */
            float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
            for (uint32_t from = 0; from < S::MOST_SPLIT * S::WAYS; from++) {
                if (from >= n_parts) break;
                float4 v = make_float4(s[0], s[1], s[2], s[3]);
                if (from != me)
                    v = kg_hopper::load_shared_4(at + (from - (uint32_t)(from > me)) * (S::PIECES * S::PIECE_BYTES));
                total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
            }
            s[0] = total.x, s[1] = total.y, s[2] = total.z, s[3] = total.w;
        }
    }
}

/* y of a worker's units: float16 by way of shared memory, floats as they are (a warp's 8 lanes of a row are 32 bytes).
 */
template <typename S>
static __device__ __forceinline__ void store_worker(const tensor_params &t, worker_sums<S> &sum,
                                                    const tensor_place &place, uint32_t group, uint32_t first,
                                                    unsigned slabs) {
    const uint32_t all = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const uint32_t slab0 = all % S::WORKERS * S::WIDE;
    const struct kg_mxfp4_product &p = t.p;
    if (p.y_is_f16) {
        if (S::WALKS && threadIdx.x % 128 == 0) stores_read();
        /* The slabs may be written: they are the warpgroup's own, or the ring is no longer read. */
        if (S::WALKS || S::HALVES) kg_hopper::named_barrier_sync(1 + (int)all, 128);
        else kg_hopper::named_barrier_sync(1, S::WORKER_THREADS);
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
            const uint32_t chunk = warp * 2 + lane / 8 % 2, r = lane / 16 * 8 + lane % 8;
            const unsigned to = slabs + (slab0 + i) * S::SLAB_BYTES + r * ROW_BYTES + ((chunk ^ (r & 7)) << 4);
#pragma unroll
            for (int u = 0; u < S::UNITS; u++) {
                if (!is_mine<S>(u, t, place)) continue;
                unsigned m[4];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const __half2 two = __floats2half2_rn(result(8 * u + 2 * j), result(8 * u + 2 * j + 1));
                    m[j] = *reinterpret_cast<const unsigned *>(&two);
                }
                store_matrices_transposed(to + u * 16 * ROW_BYTES, m);
            }
            continue;
        }
#pragma unroll
        for (int k = 0; k < S::N / 2; k++) {
            const uint32_t row = first + k / 4 * 8 + lane % 4 * 2 + k % 2;
            if (is_mine<S>(k / 8, t, place) && row < p.n_rows && here[k / 2 % 2])
                static_cast<float *>(p.y)[(size_t)row * p.n_out + o + k / 2 % 2 * 8] = result(k);
        }
    }
    if (!p.y_is_f16) return;
    kg_hopper::stores_fence();
    kg_hopper::named_barrier_sync(1 + (int)all, 128); /* the slabs are written */
    if (threadIdx.x % 128 != 0) return;
#pragma unroll
    for (int i = 0; i < S::WIDE; i++)
#pragma unroll
        for (int row = 0; row < S::N; row += S::BOX_ROWS)
            if (is_mine<S>(row / 16, t, place))
                store_box(&t.y, slabs + (slab0 + i) * S::SLAB_BYTES + row * ROW_BYTES,
                          (int)(group * GROUP_ROWS + (slab0 + i) * 64), (int)first + row);
}

/* What a worker does of the cluster's tiles. */
template <typename S>
static __device__ __forceinline__ void work_tiles(const tensor_params &t, const tensor_place &place, uint32_t cluster,
                                                  uint32_t n_clusters, unsigned memory, unsigned full, unsigned empty,
                                                  unsigned sums_sent) {
    worker_sums<S> sum;
    ring_place<S::STAGES, S::WAYS> at = { S::WAYS > 1 ? place.way : 0, 0 };
    const uint32_t n_steps = place.end - place.begin, mine = (n_steps + S::WAYS - 1 - place.way) / S::WAYS;
    const unsigned sums = memory + S::EXCHANGE;
    /* While the first tile is on its way, which waits for the launch before this one too. */
    if (S::SHARE == 1 && S::MOST_SPLIT > 1 && t.n_split > 1)
        kg_hopper::cluster_wait(); /* the others' barriers are there */
    kg_dependency_wait();          /* whoever read y has done so */
    for (uint32_t tile = cluster; tile < t.n_tiles; tile += n_clusters) {
        const uint32_t group = kept((tile % t.n_across * S::SHARE + place.share) * S::GROUPS),
                       row = kept(tile / t.n_across * S::N);
        work_boxes<S, S::N>(sum, mine, place, at, memory, full, empty);
        if constexpr (S::HALVES) {
            if (t.n_split > 1) {
                float middle[S::WIDE][S::N / 4];
                send_half<S>(sum, place, sums, sums_sent);
                work_boxes<S, S::N / 2>(middle, place.n_middle > 0 ? S::MIDDLE : 0, place, at, memory, full, empty);
                add_half<S>(sum, middle, sums, sums_sent);
            }
        } else if constexpr (!S::WALKS) {
            __syncwarp();
            exchange<S>(sum, t, place, sums, sums_sent);
        }
        store_worker<S>(t, sum, place, group, row + (S::HALVES ? place.split * S::X_ROWS : 0), memory + S::SLABS);
        if (!S::WALKS) break;
    }
    if (threadIdx.x % 128 == 0) stores_done();
}

/* Grid: clusters of SHARE n_split blocks; where the shape walks, as many as run at once, else one for each tile. */
template <typename S>
__global__ void __launch_bounds__(S::THREADS, 1) tensor_kernel(const __grid_constant__ tensor_params t) {
    extern __shared__ unsigned char tensor_memory[];
    __shared__ uint64_t barriers[2 * S::STAGES + 1];
    kg_hopper::require_hopper();
    const unsigned memory = kept((kg_shared_address(tensor_memory) + 1023) & ~1023u),
                   full = kept(kg_shared_address(barriers)), empty = full + 8 * S::STAGES,
                   sums_sent = empty + 8 * S::STAGES;
    /* From here on what is the same for all of a warp is known to be so: the loop then keeps it in uniform registers.
     */
    const uint32_t n_split = S::MOST_SPLIT > 1 ? t.n_split : 1, size = S::SHARE * n_split, rank = blockIdx.x % size;
    const uint32_t cluster = blockIdx.x / size, n_clusters = gridDim.x / size, n_steps = t.p.n_cols / TILE_COLS;
    tensor_place place = { rank % S::SHARE, rank / S::SHARE, 0, 0, 0, 0, 0 };
    if (S::WAYS > 1) place.way = __shfl_sync(0xFFFFFFFFu, threadIdx.x / S::WAY_THREADS, 0);
    if (S::HALVES) {
        place.n_middle = n_split > 1 && n_steps > S::MIDDLE ? S::MIDDLE : 0;
        place.middle = n_split > 1 ? (n_steps - place.n_middle) / 2 : n_steps;
        place.begin = place.split ? place.middle + place.n_middle : 0, place.end = place.split ? n_steps : place.middle;
    } else {
        place.begin = n_steps * place.split / n_split, place.end = n_steps * (place.split + 1) / n_split;
    }
    kg_dependents_start();
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            kg_hopper::barrier_init(full + 8 * i, 2); /* x and weights */
            kg_hopper::barrier_init(empty + 8 * i, S::WAY_THREADS / 32 * S::SHARE);
        }
        kg_hopper::barrier_init(sums_sent, 1);
        if (t.n_split > 1) kg_hopper::barrier_expect(sums_sent, sent_bytes<S>(place.split, t));
        kg_hopper::barrier_init_fence();
    }
    if (size > 1) kg_hopper::cluster_arrive_barriers();
    if (S::SHARE > 1) kg_hopper::cluster_wait(); /* the cluster's barriers are there */
    else __syncthreads();                        /* the block's are */
    if (threadIdx.x >= S::WORKER_THREADS) {
        kg_hopper::registers_less<S::FETCH_REGISTERS>();
        if (threadIdx.x == S::WORKER_THREADS) fetch_x<S>(t, place, cluster, n_clusters, memory, full, empty);
        if (threadIdx.x == S::WORKER_THREADS + 32) fetch_weights<S>(t, place, cluster, n_clusters, memory, full, empty);
        __syncwarp();
        if (S::SHARE == 1 && size > 1) kg_hopper::cluster_wait();
    } else {
        kg_hopper::registers_more<S::WORKER_REGISTERS>();
        work_tiles<S>(t, place, cluster, n_clusters, memory, full, empty, sums_sent);
    }
    if (S::SHARE > 1) {
        __syncwarp();
        kg_hopper::cluster_arrive();
        kg_hopper::cluster_wait(); /* no block leaves that others copy to */
    }
}

} // namespace kg_mxfp4

#endif
