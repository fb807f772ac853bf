/* One row times repacked MXFP4 matrices (mxfp4/layout.cuh) in a fused decode step (matrix.cuh).
 *
 * x (n_in) float16, or rmsnorm(x) rounded to it, which is what the operations give. W (rows, n_in) in groups of 16
 * rows. Elsewhere matrix.cu.
 *
 * Numerics: products of x and codes are exact; sums of 32 columns, their scales and all further sums are float32, a
 * warp's tiles in order, then the warps' in order. The order depends on shapes only.
 *
 * Map: one block a multiprocessor; each has a range of units, which are 16 pairs of rows: two groups. A piece is up to
 * 32 tiles of a group. The producer warp copies pieces, one a slot of the ring; sets of warps take groups round robin,
 * and the warps of a set a piece's tiles. It does not wait for the launch before (ptx/dependent.cuh), so weights
 * arrive while that one ends. All columns of the right operand are x, so that each lane has its rows' sums. */
#include "kernels/decode/operand.cuh"
#include "kernels/mxfp4/layout.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/preload.h"

KG_PRELOADED(decode_repacked, KG_NEXT_TOKENS)

using namespace kg_step_product;
using namespace kg_mxfp4;

using warps = block_warps<16>;
static_assert((int)KG_STEP_UNIT_PAIRS == (int)GROUP_ROWS, "a unit is two groups");

enum {
    UNIT_PAIRS = KG_STEP_UNIT_PAIRS,
    UNIT_GROUPS = 2,
    SET_WARPS = 8,
    N_SETS = 2,
    PIECE_TILES = 32,
    TILE_BYTES = CODES_BYTES + SCALES_BYTES,
    BLOCK_X_BYTES = 32 * sizeof(__half), /* of the columns that share a scale */
    TILE_X_BYTES = 2 * BLOCK_X_BYTES,
    MAX_SLOTS = 32,
    MIN_SLOTS = 2,
    MAX_BLOCK_UNITS = 40,
    SHARED_BYTES = 200 * 1024, /* the launches beside this one want some too */
};
static_assert((int)SET_WARPS * N_SETS == warps::CONSUMERS, "sets are all consumer warps");

/* How the blocks share a product. */
struct repacked_plan {
    uint32_t n_tiles, piece_tiles, n_pieces; /* of a group; of a piece; of a group */
    uint32_t n_slots;
    uint32_t x_at, partial_at;        /* in shared memory, behind the ring */
    uint32_t block_units, more_units; /* units of a block; the first more_units blocks have one more */
    uint32_t n_blocks, shared_bytes;
};

struct repacked_params : repacked_plan {
    struct kg_step_matrix m;
};

struct slot_state {
    uint64_t full, empty;
};

/* Whether the rows of a unit's pairs lie apart, one group of firsts and one of seconds; else they are neighbours. */
template <enum kg_step_form F>
static __device__ __forceinline__ bool lies_apart(const kg_step_matrix &m, uint32_t unit) {
    if constexpr (F == KG_STEP_GATED || F == KG_STEP_GELU) return true;
    if constexpr (F == KG_STEP_QKV)
        return m.heads.half && head_pair_of(m.heads, unit * UNIT_PAIRS).i < m.heads.n_rot / 2;
    return false;
}

/* A place among the slots, which producer and consumers go through alike. */
struct ring_place {
    uint32_t slot, parity;
    __device__ __forceinline__ void advance(uint32_t n, uint32_t n_slots) {
        for (slot += n; slot >= n_slots; slot -= n_slots) parity ^= 1;
    }
};

/* The producer's first lane copies all pieces of the units [begin, end). */
template <enum kg_step_form F>
static __device__ __forceinline__ void produce(const repacked_params &p, unsigned char *ring, slot_state *slots,
                                               uint32_t begin, uint32_t end) {
    const uint64_t policy = kg_policy_evict_first();
    ring_place at = { 0, 0 };
    uint32_t n_copied = 0;
    for (uint32_t i = begin * UNIT_GROUPS; i < end * UNIT_GROUPS; i++) {
        const uint32_t unit = i / UNIT_GROUPS, which = i % UNIT_GROUPS;
        const bool apart = lies_apart<F>(p.m, unit);
        const uint2 row = row_of<F>(p.m, unit * UNIT_PAIRS + (apart ? 0 : which * (UNIT_PAIRS / 2)), apart ? which : 0);
        const uint8_t *group = p.m.matrix[row.x].weight + (size_t)(row.y / GROUP_ROWS) * p.n_tiles * TILE_BYTES;
        for (uint32_t first = 0; first < p.n_tiles; first += p.piece_tiles, at.advance(1, p.n_slots), n_copied++) {
            const uint32_t count = min(p.piece_tiles, p.n_tiles - first),
                           full = kg_shared_address(&slots[at.slot].full),
                           to = kg_shared_address(ring + at.slot * p.piece_tiles * TILE_BYTES);
            if (n_copied >= p.n_slots) kg_mbarrier_poll(kg_shared_address(&slots[at.slot].empty), at.parity ^ 1);
            kg_mbarrier_expect(full, count * TILE_BYTES);
            kg_bulk_copy(to, group + first * CODES_BYTES, count * CODES_BYTES, full, policy);
            kg_bulk_copy(to + p.piece_tiles * CODES_BYTES, group + p.n_tiles * CODES_BYTES + first * SCALES_BYTES,
                         count * SCALES_BYTES, full, policy);
        }
    }
}

/* n as the right operands: lane (g, t) reads 16 bytes for 32 columns, columns 2 t, 2 t + 1, + 0, 8, 16, 24. */
static __device__ __forceinline__ void make_operand(const repacked_params &p, unsigned char *x_shared, float *squares) {
    load_operand<warps, false>(p.m, p.m.n_in, squares, [&](uint32_t i, const float(&x)[KG_VECTOR]) {
        unsigned *to = reinterpret_cast<unsigned *>(x_shared + i / 32 * BLOCK_X_BYTES) + i % 32 / KG_VECTOR;
#pragma unroll
        for (int t = 0; t < 4; t++) to[4 * t] = kg_pack_halves(x[2 * t], x[2 * t + 1]);
    });
}

/* sum[0], sum[1] += rows g and g + 8 of a tile times x, in units of UNPACKED_UNIT. */
static __device__ __forceinline__ void add_tile(float (&sum)[2], const unsigned char *codes,
                                                const unsigned char *scales, const unsigned char *x) {
    const uint4 code = *reinterpret_cast<const uint4 *>(codes);
    const uint32_t words[4] = { code.x, code.y, code.z, code.w };
    float scale[4];
    float_scales(*reinterpret_cast<const uint32_t *>(scales), scale);
#pragma unroll
    for (int block = 0; block < 2; block++) {
        uint32_t low[4], high[4];
        unpack(words[2 * block], low);
        unpack(words[2 * block + 1], high);
        const uint4 v = *reinterpret_cast<const uint4 *>(x + block * BLOCK_X_BYTES);
        float part[4] = { 0, 0, 0, 0 };
        kg_mma_16x8x16_free(part, low[0], high[0], low[1], high[1], v.x, v.y);
        kg_mma_16x8x16_free(part, low[2], high[2], low[3], high[3], v.z, v.w);
        sum[0] = fmaf(part[0], scale[2 * block], sum[0]);
        sum[1] = fmaf(part[2], scale[2 * block + 1], sum[1]);
    }
}

template <enum kg_step_form F>
static __device__ __forceinline__ void multiply(const repacked_params &p, const unsigned char *ring, slot_state *slots,
                                                const unsigned char *x, float *partial, uint32_t begin, uint32_t end) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const uint32_t set = warp / SET_WARPS, member = warp % SET_WARPS;
    const unsigned char *own_x = x + t * 16;
    ring_place at = { 0, 0 };
    at.advance(set * p.n_pieces, p.n_slots);
    for (uint32_t i = set; i < (end - begin) * UNIT_GROUPS; i += N_SETS) {
        float sum[2] = { 0, 0 };
        for (uint32_t first = 0; first < p.n_tiles; first += p.piece_tiles, at.advance(1, p.n_slots)) {
            const uint32_t count = min(p.piece_tiles, p.n_tiles - first);
            const unsigned char *codes = ring + at.slot * p.piece_tiles * TILE_BYTES,
                                *scales = codes + p.piece_tiles * CODES_BYTES;
            kg_mbarrier_poll(kg_shared_address(&slots[at.slot].full), at.parity);
#pragma unroll 4
            for (uint32_t tile = member; tile < count; tile += SET_WARPS)
                add_tile(sum, codes + tile * CODES_BYTES + lane * LANE_BYTES, scales + tile * SCALES_BYTES + g * 4,
                         own_x + (first + tile) * TILE_X_BYTES);
            __syncwarp(); /* the warp has read the slot */
            if (lane == 0) kg_mbarrier_arrive(kg_shared_address(&slots[at.slot].empty));
        }
        at.advance((N_SETS - 1) * p.n_pieces, p.n_slots);
        const uint32_t unit = begin + i / UNIT_GROUPS, which = i % UNIT_GROUPS;
        const bool apart = lies_apart<F>(p.m, unit);
#pragma unroll
        for (uint32_t r = 0; r < 2; r++) { /* row g + 8 r: of which pair, and which of its rows */
            const uint32_t row = g + 8 * r, of_unit = apart ? 2 * row + which : which * UNIT_PAIRS + row;
            if (t == 0)
                partial[((unit - begin) * UNIT_GROUPS * GROUP_ROWS + of_unit) * warps::PARTIAL_STRIDE + member] =
                    sum[r] * (1 / UNPACKED_UNIT);
        }
    }
}

/* Grid: blocks that divide the units evenly. */
template <enum kg_step_form F>
static __global__ void __launch_bounds__(warps::THREADS, 1)
    step_repacked_kernel(const __grid_constant__ repacked_params p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ slot_state slots[MAX_SLOTS];
    __shared__ float squares[warps::CONSUMERS];
    const uint32_t warp = threadIdx.x / WARP;
    const uint32_t begin = blockIdx.x * p.block_units + min(blockIdx.x, p.more_units),
                   end = begin + p.block_units + (blockIdx.x < p.more_units);
    const uint32_t first_pair = begin * UNIT_PAIRS, end_pair = end * UNIT_PAIRS;
    float *partial = reinterpret_cast<float *>(memory + p.partial_at);
    kg_dependents_start();
    kg_mbarrier_init_all(p.n_slots, warp, warps::WARPS, [&](uint32_t slot) {
        kg_mbarrier_init(kg_shared_address(&slots[slot].full), 1);
        kg_mbarrier_init(kg_shared_address(&slots[slot].empty), SET_WARPS);
    });
    __syncthreads();               /* mbarriers are initialised */
    if (warp == warps::PRODUCER) { /* no dependency wait: weights are constant */
        if (threadIdx.x % WARP == 0) produce<F>(p, memory, slots, begin, end);
        return;
    }
    if (warp == warps::EPILOGUE) {
        run_epilogue<warps, F>(p.m, partial, SET_WARPS, first_pair, end_pair);
        return;
    }
    make_operand(p, memory + p.x_at, squares);
    kg_barrier_sync(CONSUMER_BARRIER, warps::CONSUMER_THREADS); /* x is visible */
    multiply<F>(p, memory, slots, memory + p.x_at, partial, begin, end);
    kg_barrier_sync(EPILOGUE_BARRIER, warps::CONSUMER_THREADS + WARP); /* all sums are visible */
    finish_pairs<warps, F>(p.m, partial, SET_WARPS, first_pair, end_pair, first_pair + WARP + threadIdx.x,
                           warps::CONSUMER_THREADS);
}

/* n_slots of 0: it does not fit. */
static struct repacked_plan plan_of(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m) {
    struct repacked_plan plan = {};
    const uint32_t n_units = m->n_pairs / UNIT_PAIRS;
    if (m->n_pairs == 0 || m->n_pairs % UNIT_PAIRS != 0 || (m->norm_weight && m->n_in > MAX_NORM_COLS)) return plan;
    const uint32_t n_waves = kg_blocks_for(n_units, (uint32_t)(cuda->n_sms * MAX_BLOCK_UNITS));
    plan.n_blocks = std::min((uint32_t)cuda->n_sms * n_waves, n_units);
    plan.block_units = n_units / plan.n_blocks;
    plan.more_units = n_units % plan.n_blocks;
    plan.n_tiles = m->n_in / TILE_COLS;
    plan.piece_tiles = std::min<uint32_t>(plan.n_tiles, PIECE_TILES);
    plan.n_pieces = (plan.n_tiles + plan.piece_tiles - 1) / plan.piece_tiles;
    const uint32_t units = plan.block_units + (plan.more_units > 0), x_bytes = plan.n_tiles * TILE_X_BYTES,
                   partial_bytes = units * UNIT_GROUPS * GROUP_ROWS * warps::PARTIAL_STRIDE * (uint32_t)sizeof(float);
    const uint32_t most = std::min<uint32_t>(SHARED_BYTES, cuda->shared_bytes - MAX_SLOTS * sizeof(slot_state) - 1024),
                   fit = x_bytes + partial_bytes < most
                             ? (most - x_bytes - partial_bytes) / (plan.piece_tiles * TILE_BYTES)
                             : 0;
    if (fit < MIN_SLOTS) return plan;
    plan.n_slots = std::min<uint32_t>(fit, MAX_SLOTS);
    plan.x_at = plan.n_slots * plan.piece_tiles * TILE_BYTES;
    plan.partial_at = plan.x_at + x_bytes;
    plan.shared_bytes = plan.partial_at + partial_bytes;
    return plan;
}

bool kg_step_repacked_heads_fit(uint32_t head_dim, uint32_t n_rot) {
    return head_dim % (2 * UNIT_PAIRS) == 0 && n_rot % (2 * UNIT_PAIRS) == 0;
}

bool kg_step_repacked_fits(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m) {
    return plan_of(cuda, m).n_slots > 0;
}

enum kg_status kg_step_multiply_repacked(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                                         struct kg_error *err) {
    /* By enum kg_step_form. */
    static void (*const KERNELS[])(repacked_params) = {
        step_repacked_kernel<KG_STEP_QKV>, step_repacked_kernel<KG_STEP_RESIDUAL>, step_repacked_kernel<KG_STEP_GATED>,
        step_repacked_kernel<KG_STEP_GELU>, step_repacked_kernel<KG_STEP_PLAIN>
    };
    const repacked_params p = { plan_of(cuda, m), *m };
    if (p.n_slots == 0)
        return kg_fail(err, KG_ERR_INTERNAL, "decode step: %u pairs of rows of %u elements do not fit", m->n_pairs,
                       m->n_in);
    return kg_launch_dependent(cuda, KERNELS[m->form], dim3(p.n_blocks), warps::THREADS, p, "decode step: mxfp4", err,
                               p.shared_bytes);
}
