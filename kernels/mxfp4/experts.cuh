/* Experts of many rows, repacked MXFP4: gate, up, activation and down in one launch, by wgmma (sm_90a).
 *
 *     h[r] = swiglu(x[r] Wgate[e]^T + bgate[e], x[r] Wup[e]^T + bup[e]),    y[row[r]] = h[r] Wdown[e]^T + bdown[e]
 *
 * Rows r are sorted by expert e (experts_plan.cuh). As in gemm.cuh y^T = W x^T, W decoded in registers.
 *
 * Map: one block a multiprocessor takes units of work from a queue, in their order, until none is left. A unit has up
 * to ROWS rows and two halves of CONSUMERS x 64 outputs: gate and up of the same outputs, or neighbouring outputs of
 * down. A consumer warpgroup has 64 outputs of both halves: one wait, one descriptor of x and one commit serve two
 * products, and a thread has gate and up of the same outputs. One thread of the last warpgroup takes units and produces
 * by TMA, of x as many rows as the unit has, in steps of 16: products of the other rows are of an earlier unit, and
 * nobody reads them. Its ring runs on from unit to unit, so the next unit's tiles come during the epilogue.
 *
 * A down unit waits until its activations are there. It comes from the same queue behind the gated units, so that these
 * are in work already, whatever the number of blocks.
 *
 * Numerics: gemm.cuh; gate and up stay float32 until they are gated. A row's bits do not depend on other rows. */
#ifndef KIGO_KERNELS_MXFP4_EXPERTS_CUH
#define KIGO_KERNELS_MXFP4_EXPERTS_CUH

#include "kernels/block/swiglu.cuh"
#include "kernels/mxfp4/experts_plan.cuh"
#include "kernels/mxfp4/gemm.cuh"

namespace kg_mxfp4 {

enum { MOST_WIDTHS = 128 / ROWS_STEP };

template <int CONSUMERS_, int ROWS_> struct experts_shape {
    static constexpr int CONSUMERS = CONSUMERS_, ROWS = ROWS_, WIDTHS = ROWS / ROWS_STEP;
    static_assert(ROWS % ROWS_STEP == 0 && WIDTHS <= MOST_WIDTHS, "the sums of two halves are registers");
    static constexpr int SLOTS = 2; /* units that are known ahead */
    static constexpr int CONSUMER_THREADS = CONSUMERS * 128, THREADS = CONSUMER_THREADS + 128;
    static constexpr int PRODUCER_REGISTERS = 56, LAUNCH_REGISTERS = 65536 / THREADS / 8 * 8,
                         SHARE = ((CONSUMERS + 1) * LAUNCH_REGISTERS - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8,
                         CONSUMER_REGISTERS = SHARE > 240 ? 240 : SHARE;
    static constexpr int HALF = CONSUMERS * 64, HALF_GROUPS = HALF / GROUP_ROWS; /* outputs; groups of 16 */
    /* A stage: x, codes of both halves, scales of both halves; on 1024 bytes, the swizzle's atom. */
    static constexpr int CODES = ROWS * ROW_BYTES, HALF_CODES = HALF_GROUPS * CODES_BYTES,
                         SCALES = CODES + 2 * HALF_CODES, HALF_SCALES = HALF_GROUPS * SCALES_BYTES,
                         WEIGHT_BYTES = 2 * (HALF_CODES + HALF_SCALES),
                         STAGE_BYTES = (CODES + WEIGHT_BYTES + 1023) / 1024 * 1024;
    /* A warpgroup's slab: 64 outputs of all rows, through which its results are transposed. */
    static constexpr int SLAB_BYTES = ROWS * ROW_BYTES, BESIDE = CONSUMERS * SLAB_BYTES + 1024 /* to align */,
                         FIT = (226 * 1024 - BESIDE) / STAGE_BYTES, STAGES = FIT > 12 ? 12 : FIT,
                         SLABS = STAGES * STAGE_BYTES, BYTES = SLABS + BESIDE;
};

/* One of the two products of a unit's rows. */
struct experts_phase {
    CUtensorMap x[MOST_WIDTHS];      /* boxes: 16 rows of 64 columns, 32 rows, ... */
    CUtensorMap codes[2], scales[2]; /* boxes: HALF_GROUPS groups of a tile; of the halves' matrices */
    const float *bias[2];            /* (n_experts, n_out), NULL for none */
    void *y;
    uint32_t n_cols, n_out, half_step; /* the second half's outputs are so many behind the first's */
};

struct experts_params {
    experts_phase phase[PHASES];
    const experts_unit *units;
    experts_queue *queue;
    const uint32_t *row;
    uint32_t *n_done; /* by tile of rows: groups of 64 outputs whose activation is there */
    struct kg_swiglu_op gate;
    bool y_is_f16; /* of down */
};

/* Shared memory's addresses. */
struct experts_memory {
    unsigned ring, full, empty, slots, slot_full, slot_empty;
};

static __device__ __forceinline__ experts_unit unit_of(const uint4 &bits) {
    experts_unit unit;
    unit.first = bits.x;
    unit.n_rows = (uint16_t)bits.y, unit.phase = (uint16_t)(bits.y >> 16);
    unit.expert = (uint16_t)bits.z, unit.tile = (uint16_t)(bits.z >> 16);
    unit.across = bits.w;
    return unit;
}

/* ---- producer ---- */

static __device__ __forceinline__ uint4 load_unit(const experts_params &t, uint32_t i) {
    if (i >= t.queue->n_units) return make_uint4(0, (uint32_t)NO_UNIT << 16, 0, 0);
    return *reinterpret_cast<const uint4 *>(t.units + i);
}

/* Until a tile of rows has all its activations, for copies by TMA. */
static __device__ __forceinline__ void wait_for_rows(const uint32_t *n_done, uint32_t n) {
    while (kg_load_acquire(n_done) < n) __nanosleep(64);
    kg_async_proxy_fence_global();
}

template <typename S>
static __device__ __forceinline__ void produce_units(const experts_params &t, const experts_memory &at) {
    ring_cursor<S::STAGES, 1> stage = { 0, 1 };
    ring_cursor<S::SLOTS, 1> slot = { 0, 1 };
    uint4 bits = load_unit(t, atomicAdd(&t.queue->n_taken, 1));
    for (;;) {
        kg_mbarrier_wait(at.slot_empty + 8 * slot.stage, slot.parity);
        kg_store_shared(at.slots + 16 * slot.stage, bits);
        kg_mbarrier_arrive(at.slot_full + 8 * slot.stage);
        slot.next();
        const experts_unit unit = unit_of(bits);
        if (unit.phase == NO_UNIT) return;
        const experts_phase *p = &t.phase[unit.phase];
        const int group = (int)(unit.expert * (p->n_out / GROUP_ROWS) +
                                unit.across * ((S::HALF + p->half_step) / GROUP_ROWS)),
                  other = group + (int)(p->half_step / GROUP_ROWS), first = (int)unit.first;
        const uint32_t n_tiles = p->n_cols / TILE_COLS, width = div_up(unit.n_rows, ROWS_STEP);
        const CUtensorMap *x = &p->x[width - 1];
        const unsigned n_bytes = width * (ROWS_STEP * ROW_BYTES) + S::WEIGHT_BYTES;
        if (unit.phase == DOWN) wait_for_rows(t.n_done + unit.tile, div_up(p->n_cols, 64));
        /* The next unit is asked for early: two trips to L2. */
        const uint32_t next = atomicAdd(&t.queue->n_taken, 1);
        for (uint32_t k = 0; k < n_tiles; k++, stage.next()) {
            const unsigned to = at.ring + stage.stage * S::STAGE_BYTES, full = at.full + 8 * stage.stage;
            const int codes = (int)k * (CODES_BYTES / 2), scales = (int)k * (SCALES_BYTES / 2);
            kg_mbarrier_wait(at.empty + 8 * stage.stage, stage.parity);
            kg_mbarrier_expect(full, n_bytes);
            kg_tensor_copy(to + S::CODES, &p->codes[0], full, codes, group, 0, 0);
            kg_tensor_copy(to + S::CODES + S::HALF_CODES, &p->codes[1], full, codes, other, 0, 0);
            kg_tensor_copy(to, x, full, (int)k * TILE_COLS, first, 0, 0);
            kg_tensor_copy(to + S::SCALES, &p->scales[0], full, scales, group, 0, 0);
            kg_tensor_copy(to + S::SCALES + S::HALF_SCALES, &p->scales[1], full, scales, other, 0, 0);
            if (k == n_tiles / 2) bits = load_unit(t, next);
        }
    }
}

/* ---- consumers ---- */

/* What all lanes have, so that the compiler sees that they do, and counts stages in uniform registers. All lanes have
 * read it then. */
static __device__ __forceinline__ uint4 uniform(const uint4 &v) {
    return make_uint4(__reduce_or_sync(0xFFFFFFFFu, v.x), __reduce_or_sync(0xFFFFFFFFu, v.y),
                      __reduce_or_sync(0xFFFFFFFFu, v.z), __reduce_or_sync(0xFFFFFFFFu, v.w));
}

/* sum += the products of 16 columns and N rows, of both halves. Waits until no more than three quarters are in flight.
 */
template <int N, int K>
static __device__ __forceinline__ void multiply_quarters(float (&sum)[2][N / 2], unsigned (&a)[2][4],
                                                         const lane_tile (&tile)[2], uint64_t x) {
    scaled_operand<K>(tile[0], a[0]);
    scaled_operand<K>(tile[1], a[1]);
    kg_pin(a[0]);
    kg_pin(a[1]);
    kg_wgmma_fence();
    kg_wgmma<N>::template registers<false>(sum[0], a[0], x + (uint64_t)(K * 2), 1);
    kg_wgmma<N>::template registers<false>(sum[1], a[1], x + (uint64_t)(K * 2), 1);
    kg_wgmma_commit();
    kg_wgmma_wait<3>();
}

/* sum = the products of a unit's columns and N rows: consume_tiles of gemm.cuh for two matrices. */
template <typename S>
static __device__ __forceinline__ void consume_columns(float (&sum)[2][S::ROWS / 2], uint32_t n_tiles,
                                                       ring_cursor<S::STAGES, 1> at, const experts_memory &memory) {
    constexpr int N = S::ROWS;
    const uint32_t lane = threadIdx.x % 32, group = threadIdx.x / 32;
    const unsigned codes = kg_opaque(memory.ring + S::CODES + group * CODES_BYTES + lane * LANE_BYTES),
                   scales = kg_opaque(memory.ring + S::SCALES + group * SCALES_BYTES + lane / 4 * 4);
    const bool arrives = lane == 0;
    lane_tile now[2], next[2];
    unsigned a[4][2][4];
    uint64_t x_next = 0;
    zero_sums(sum[0]);
    zero_sums(sum[1]);
    kg_wgmma_fence();
    const auto load = [&](uint32_t stage) {
        const unsigned offset = stage * S::STAGE_BYTES;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            next[half].codes = kg_load_shared<uint4>(codes + offset + half * S::HALF_CODES);
            next[half].scales = kg_load_shared<uint32_t>(scales + offset + half * S::HALF_SCALES);
        }
        x_next = kg_matrix_descriptor<ROW_BYTES>(memory.ring + offset);
    };
    const auto take_loaded = [&]() {
        consume_loaded(now[0], next[0]);
        consume_loaded(now[1], next[1]);
    };
    kg_mbarrier_wait(memory.full + 8 * at.stage, at.parity);
    load(at.stage);
    uint32_t stage = at.stage, stage_before = stage;
    at.next();
    bool has_come = n_tiles > 1 && kg_mbarrier_test(memory.full + 8 * at.stage, at.parity); /* of the next tile */
#pragma unroll 2
    for (uint32_t tile = 0; tile + 1 < n_tiles; tile++) {
        const uint64_t x = x_next;
        take_loaded();
        const uint32_t stage_next = at.stage;
        kg_mbarrier_wait_unless(has_come, memory.full + 8 * stage_next, at.parity);
        load(stage_next);
        at.next();
        multiply_quarters<N, 0>(sum, a[0], now, x);
        has_come = kg_mbarrier_test(memory.full + 8 * at.stage, at.parity);
        multiply_quarters<N, 1>(sum, a[1], now, x);
        multiply_quarters<N, 2>(sum, a[2], now, x);
        multiply_quarters<N, 3>(sum, a[3], now, x);
        kg_mbarrier_arrive_if(arrives && tile > 0, memory.empty + 8 * stage_before); /* wgmma has read it */
        stage_before = stage, stage = stage_next;
    }
    const uint64_t x = x_next;
    take_loaded();
    multiply_quarters<N, 0>(sum, a[0], now, x);
    multiply_quarters<N, 1>(sum, a[1], now, x);
    multiply_quarters<N, 2>(sum, a[2], now, x);
    multiply_quarters<N, 3>(sum, a[3], now, x);
    kg_wgmma_wait<0>();
    kg_pin(sum[0]);
    kg_pin(sum[1]);
    kg_mbarrier_arrive_if(arrives && n_tiles > 1, memory.empty + 8 * stage_before);
    kg_mbarrier_arrive_if(arrives, memory.empty + 8 * stage);
}

/* A unit whose outputs end before this warpgroup's: leaves its stages as they come. */
template <typename S>
static __device__ __forceinline__ void skip_columns(uint32_t n_tiles, ring_cursor<S::STAGES, 1> at,
                                                    const experts_memory &memory) {
#pragma unroll 1
    for (uint32_t tile = 0; tile < n_tiles; tile++, at.next()) {
        kg_mbarrier_wait(memory.full + 8 * at.stage, at.parity);
        kg_mbarrier_arrive_if(threadIdx.x % 32 == 0, memory.empty + 8 * at.stage);
    }
}

/* Stores 64 outputs from o on, of N rows, as float16: transposed through the warpgroup's slab, so that 8 threads write
 * 128 neighbouring bytes. row: NULL, or where the rows go. */
template <int N>
static __device__ __forceinline__ void store_halves(const float (&v)[N / 2], unsigned slab, __half *y,
                                                    const uint32_t *row, const experts_unit &unit, uint32_t o,
                                                    uint32_t n_out) {
    const uint32_t all = threadIdx.x / 128, thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    const uint32_t chunk = warp * 2 + lane / 8 % 2, r = lane / 16 * 8 + lane % 8;
    const unsigned to = slab + r * ROW_BYTES + ((chunk ^ (r & 7)) << 4);
    kg_barrier_sync(1 + (int)all, 128); /* write-after-read: the slab's last results are stored */
#pragma unroll
    for (int u = 0; u < N / 16; u++) {
        unsigned m[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const __half2 two = __floats2half2_rn(v[8 * u + 2 * j], v[8 * u + 2 * j + 1]);
            m[j] = *reinterpret_cast<const unsigned *>(&two);
        }
        kg_store_matrices_transposed(to + u * 16 * ROW_BYTES, m);
    }
    kg_barrier_sync(1 + (int)all, 128); /* the slab is visible */
    const uint32_t piece = thread % 8, at = o + piece * 8;
#pragma unroll
    for (uint32_t i = 0; i < N / 16; i++) {
        const uint32_t line = i * 16 + thread / 8;
        if (line >= unit.n_rows || at >= n_out) break;
        const uint32_t sorted = unit.first + line, where = row ? row[sorted] : sorted;
        *reinterpret_cast<uint4 *>(y + (size_t)where * n_out + at) =
            kg_load_shared<uint4>(slab + line * ROW_BYTES + ((piece ^ (line & 7)) << 4));
    }
}

/* The same as float32, from where the sums are: 8 lanes write 32 neighbouring bytes. */
template <int N>
static __device__ __forceinline__ void store_floats(const float (&v)[N / 2], float *y, const uint32_t *row,
                                                    const experts_unit &unit, uint32_t o, uint32_t n_out) {
    const uint32_t lane = threadIdx.x % 32, at = o + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (uint32_t k = 0; k < N / 2; k++) {
        const uint32_t line = k / 4 * 8 + lane % 4 * 2 + k % 2, out = at + k / 2 % 2 * 8;
        if (line < unit.n_rows && out < n_out) y[(size_t)row[unit.first + line] * n_out + out] = v[k];
    }
}

/* Activations of 64 outputs, and word of them. */
template <int N>
static __device__ __forceinline__ void store_gated(const experts_params &t, float (&sum)[2][N / 2],
                                                   const experts_unit &unit, uint32_t o, unsigned slab) {
    const experts_phase &p = t.phase[GATED];
#pragma unroll
    for (int k = 0; k < N / 2; k++) sum[0][k] = t.gate.of<kg_quick_sigmoid>(sum[0][k], sum[1][k]);
    store_halves<N>(sum[0], slab, static_cast<__half *>(p.y), NULL, unit, o, p.n_out);
    kg_async_proxy_fence_global(); /* to copies by TMA, of any block */
    __threadfence();
    kg_barrier_sync(1 + (int)(threadIdx.x / 128), 128); /* all of the warpgroup's are stored */
    if (threadIdx.x % 128 == 0) {
        __threadfence();
        atomicAdd(t.n_done + unit.tile, 1);
    }
}

/* A warpgroup's outputs of a unit, from o on. */
template <typename S>
static __device__ __forceinline__ void consume_unit(const experts_params &t, const experts_unit &unit, uint32_t o,
                                                    ring_cursor<S::STAGES, 1> at, const experts_memory &memory) {
    constexpr int N = S::ROWS;
    const experts_phase &p = t.phase[unit.phase];
    const uint32_t lane = threadIdx.x % 32, mine = o + threadIdx.x / 32 % 4 * 16 + lane / 4;
    const unsigned slab = memory.ring + S::SLABS + threadIdx.x / 128 * S::SLAB_BYTES;
    float sum[2][N / 2], bias[2][2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *from = p.bias[i / 2];
        const uint32_t out = mine + i % 2 * 8 + i / 2 * p.half_step;
        bias[i / 2][i % 2] = from && out < p.n_out ? from[(size_t)unit.expert * p.n_out + out] : 0.0f;
    }
    consume_columns<S>(sum, p.n_cols / TILE_COLS, at, memory);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int k = 0; k < N / 2; k++) sum[half][k] = fmaf(sum[half][k], (float)(1 << SHIFT), bias[half][k / 2 % 2]);
    if (unit.phase == GATED) {
        store_gated<N>(t, sum, unit, o, slab);
        return;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t from = o + half * p.half_step;
        if (from >= p.n_out) break;
        if (t.y_is_f16) store_halves<N>(sum[half], slab, static_cast<__half *>(p.y), t.row, unit, from, p.n_out);
        else store_floats<N>(sum[half], static_cast<float *>(p.y), t.row, unit, from, p.n_out);
    }
}

template <typename S>
static __device__ __forceinline__ void consume_units(const experts_params &t, const experts_memory &memory) {
    ring_cursor<S::STAGES, 1> at = { 0, 0 };
    ring_cursor<S::SLOTS, 1> slot = { 0, 0 };
    const uint32_t group = __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0);
    for (;;) {
        kg_mbarrier_wait(memory.slot_full + 8 * slot.stage, slot.parity);
        const experts_unit unit = unit_of(uniform(kg_load_shared<uint4>(memory.slots + 16 * slot.stage)));
        kg_mbarrier_arrive_if(threadIdx.x % 32 == 0, memory.slot_empty + 8 * slot.stage);
        slot.next();
        if (unit.phase == NO_UNIT) return;
        const experts_phase &p = t.phase[unit.phase];
        const uint32_t o = unit.across * (S::HALF + p.half_step) + group * 64, n_tiles = p.n_cols / TILE_COLS;
        if (o < p.n_out) consume_unit<S>(t, unit, o, at, memory);
        else skip_columns<S>(n_tiles, at, memory);
        /* Not by what the warpgroups do: the compiler would no longer see that all have the same. */
        at.parity ^= (at.stage + n_tiles) / S::STAGES & 1;
        at.stage = (at.stage + n_tiles) % S::STAGES;
    }
}

/* Grid: as many blocks as run at once. */
template <typename S>
__global__ void __launch_bounds__(S::THREADS, 1) experts_kernel(const __grid_constant__ experts_params t) {
    extern __shared__ unsigned char experts_bytes[];
    __shared__ uint64_t barriers[2 * (S::STAGES + S::SLOTS)];
    __shared__ uint4 slots[S::SLOTS];
    kg_require_sm_90a();
    experts_memory memory;
    memory.ring = kg_opaque((kg_shared_address(experts_bytes) + 1023) & ~1023u);
    memory.full = kg_opaque(kg_shared_address(barriers)), memory.empty = memory.full + 8 * S::STAGES;
    memory.slot_full = memory.empty + 8 * S::STAGES, memory.slot_empty = memory.slot_full + 8 * S::SLOTS;
    memory.slots = kg_shared_address(slots);
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            kg_mbarrier_init(memory.full + 8 * i, 1);
            kg_mbarrier_init(memory.empty + 8 * i, S::CONSUMER_THREADS / 32);
        }
        for (int i = 0; i < S::SLOTS; i++) {
            kg_mbarrier_init(memory.slot_full + 8 * i, 1);
            kg_mbarrier_init(memory.slot_empty + 8 * i, S::CONSUMER_THREADS / 32);
        }
        kg_mbarrier_init_fence();
    }
    kg_dependents_start();
    kg_dependency_wait(); /* the plan is visible; nothing reads y any more */
    __syncthreads();      /* barriers are initialised */
    if (threadIdx.x >= S::CONSUMER_THREADS) {
        kg_registers_decrease<S::PRODUCER_REGISTERS>();
        if (threadIdx.x == S::CONSUMER_THREADS) produce_units<S>(t, memory);
    } else {
        kg_registers_increase<S::CONSUMER_REGISTERS>();
        consume_units<S>(t, memory);
    }
}

} // namespace kg_mxfp4

#endif
