/* One row times matrices in a fused decode step (launches.h): y = f(n W^T + bias), n = x, or rmsnorm(x).
 *
 * x (n_in), W (rows, n_in) of F16, BF16 or F32, row-major. Rows come in pairs, whose sums f combines.
 *
 * Numerics: float32 sums, one rounding to y. The normalised row is not rounded to float16. Two ways:
 * - F16 or BF16 weights by float16 activations: tensor cores. With F16, x is float16 as it is and a normalised row the
 * sum of two float16 (22 bits). With BF16, either is the sum of two bfloat16 (16 bits), which a float16 is exactly.
 * Products are exact. Sums of 16 columns are added to a warp's in order, then the warps' in order.
 * - Else: fused multiply-add. A lane adds its chunks of 8 in order, then lanes by a butterfly, then a row's warps in
 * order. Then come the bias and f. The sum of squares is added by lanes, then warps, in order, the same in every block.
 *
 * Map: one block a multiprocessor; each has a range of pairs. The producer warp streams their rows by bulk copies to a
 * ring in shared memory, a pair a slot. It does not wait for the launch before (ptx/dependent.cuh), so weights arrive
 * while that one ends. 16 consumer warps multiply: with tensor cores each has its columns of all rows, else `parts`
 * warps share a pair. The epilogue warp loads the operands of f meanwhile, and then computes f of 32 pairs,
 * the consumers of the others. */
#include "kernels/block/bfloat16.cuh"
#include "kernels/decode/matrix.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/mma.cuh"

KG_PRELOADED(decode_matrix, KG_NEXT_TOKENS)

using namespace kg_step_product;

using warps = block_warps<16>;

enum {
    TENSOR_LAUNCH_BOUND = 704, /* registers as for so many threads: the launches beside this one want some too */
    LANE_CHUNKS = 4,           /* of a row, where a lane keeps them */
    MAX_IN = warps::CONSUMER_THREADS * LANE_VECTORS * KG_VECTOR,
    MAX_TENSOR_IN = warps::CONSUMER_THREADS * KG_VECTOR,
    TILE_COLS = 16, /* of a tensor core's product */
    TILE_PAIRS = 8, /* at most: 16 rows */
    ROW_PAD_BYTES = 16,
    MAX_SLOTS = 64,
    MIN_SLOTS = 2,
    SHARED_BYTES = 200 * 1024, /* the launches beside this one want some too */
};

/* How the blocks share a product. */
struct matrix_plan {
    uint32_t row_bytes, row_stride; /* in memory; in a slot, in bytes */
    uint32_t parts, tile_pairs, n_slots;
    uint32_t row_at, partial_at;      /* in shared memory, behind the ring: n, sums of warps */
    uint32_t block_pairs, more_pairs; /* pairs of a block; the first more_pairs blocks have one more */
    uint32_t n_blocks, shared_bytes;
    bool tensor; /* by tensor cores */
};

struct matrix_params : matrix_plan {
    struct kg_step_matrix m;
};

/* n as the products read it: float32, or in W's type with the rest, times REST_SCALE, in a second row. Bfloat16 has
 * float32's range, so that its rest needs no scale. */
template <typename W> constexpr float REST_SCALE = 2048;
template <> constexpr float REST_SCALE<__nv_bfloat16> = 1;

static __device__ __forceinline__ float rounded(const __half *, float x) {
    return __half2float(__float2half_rn(x));
}
static __device__ __forceinline__ float rounded(const __nv_bfloat16 *, float x) {
    return __bfloat162float(__float2bfloat16_rn(x));
}

template <typename W, bool TENSOR>
static __device__ __forceinline__ void store_row(unsigned char *row, uint32_t n_in, uint32_t i,
                                                 const float (&n)[KG_VECTOR]) {
    if constexpr (TENSOR) {
        float high[KG_VECTOR], rest[KG_VECTOR];
#pragma unroll
        for (int e = 0; e < KG_VECTOR; e++) {
            high[e] = rounded(static_cast<const W *>(NULL), n[e]);
            rest[e] = (n[e] - high[e]) * REST_SCALE<W>;
        }
        kg_store_vector(reinterpret_cast<W *>(row) + i, high);
        kg_store_vector(reinterpret_cast<W *>(row) + n_in + i, rest);
    } else {
        kg_store_vector(reinterpret_cast<float *>(row) + i, n);
    }
}

/* Waits for x; writes n, rmsnorm(x) or x, to shared memory. All consumers call it; the row is visible to all on return.
 */
template <typename W, bool TENSOR>
static __device__ __forceinline__ void make_row(const kg_step_matrix &m, unsigned char *row, float *sums) {
    constexpr int VECTORS = TENSOR ? 1 : LANE_VECTORS;
    float weight[VECTORS][KG_VECTOR], x[VECTORS][KG_VECTOR], squares = 0;
    const auto at = [&](int v) { return (threadIdx.x + v * warps::CONSUMER_THREADS) * KG_VECTOR; };
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
        if (m.norm_weight && at(v) < m.n_in) kg_load_vector(m.norm_weight + at(v), weight[v]);
    kg_dependency_wait(); /* x is visible */
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        if (at(v) >= m.n_in) continue;
        kg_load_vector_any(m.x, m.x_precision, at(v), x[v]);
        if (!m.norm_weight) {
            store_row<W, TENSOR>(row, m.n_in, at(v), x[v]);
            continue;
        }
        load_pending(m.pending, m.x_precision, m.n_in, at(v), x[v]);
        kg_add_squares(squares, x[v]);
    }
    if (m.norm_weight) {
        const float inverse_rms = kg_inverse_rms(sum_of_all<warps>(squares, sums), m.n_in, m.eps);
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            if (at(v) >= m.n_in) continue;
            kg_normalise(x[v], inverse_rms, weight[v]);
            store_row<W, TENSOR>(row, m.n_in, at(v), x[v]);
        }
    }
    kg_barrier_sync(CONSUMER_BARRIER, warps::CONSUMER_THREADS); /* the row is visible */
}

struct ring_barriers {
    uint64_t full[MAX_SLOTS], empty[MAX_SLOTS];
};

template <enum kg_step_form F>
static __device__ __forceinline__ void produce(const matrix_params &p, unsigned ring, const ring_barriers &barriers,
                                               uint32_t begin, uint32_t end) {
    const uint64_t policy = kg_policy_evict_first();
    uint32_t slot = 0, parity = 1; /* of the use before */
    for (uint32_t pair = begin; pair < end; pair++) {
        const unsigned full = kg_shared_address(&barriers.full[slot]), to = ring + slot * 2 * p.row_stride;
        if (pair - begin >= p.n_slots) kg_mbarrier_poll(kg_shared_address(&barriers.empty[slot]), parity);
        kg_mbarrier_expect(full, 2 * p.row_bytes);
#pragma unroll
        for (uint32_t which = 0; which < 2; which++) {
            const uint2 row = row_of<F>(p.m, pair, which);
            kg_bulk_copy(to + which * p.row_stride, p.m.matrix[row.x].weight + (size_t)row.y * p.row_bytes, p.row_bytes,
                         full, policy);
        }
        if (++slot == p.n_slots) slot = 0, parity ^= 1;
    }
}

/* Where a block's warps meet. */
struct block_view {
    unsigned char *ring, *row;
    float *partial; /* (rows of the block, warps::PARTIAL_STRIDE): a warp's sums */
    const ring_barriers &barriers;
    uint32_t begin, end; /* pairs */
};

/* A warp's columns: every 16th 16, TILE_STEP apart. */
constexpr uint32_t TILE_STEP = warps::CONSUMERS * TILE_COLS, MOST_TILES = MAX_TENSOR_IN / TILE_STEP, TILES_AT_ONCE = 4;

static __device__ __forceinline__ void multiply_tile(const __half *, float (&sums)[4], const unsigned (&a)[4],
                                                     const unsigned (&x)[2]) {
    kg_mma_16x8x16(sums, a, x[0], x[1]);
}
static __device__ __forceinline__ void multiply_tile(const __nv_bfloat16 *, float (&sums)[4], const unsigned (&a)[4],
                                                     const unsigned (&x)[2]) {
    kg_mma_16x8x16_bf16(sums, a, x[0], x[1]);
}

/* sums += COUNT of the warp's tiles, of which the first is FIRST, of the rows at w (shared) by x. */
template <typename W, uint32_t FIRST, uint32_t COUNT>
static __device__ __forceinline__ void multiply_columns(float (&sums)[2][4], unsigned w,
                                                        const unsigned (&x)[MOST_TILES][2]) {
    unsigned a[COUNT][4];
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++) kg_load_matrices_at(a[i], w + (FIRST + i) * TILE_STEP * (unsigned)sizeof(W));
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++) multiply_tile(static_cast<const W *>(NULL), sums[i % 2], a[i], x[FIRST + i]);
}

/* The same for all n_tiles of the warp. */
template <typename W, uint32_t FIRST = 0>
static __device__ __forceinline__ void multiply_row(float (&sums)[2][4], unsigned w, const unsigned (&x)[MOST_TILES][2],
                                                    uint32_t n_tiles) {
    if constexpr (FIRST < MOST_TILES) {
        if (FIRST + TILES_AT_ONCE <= n_tiles) {
            multiply_columns<W, FIRST, TILES_AT_ONCE>(sums, w, x);
            multiply_row<W, FIRST + TILES_AT_ONCE>(sums, w, x, n_tiles);
        } else {
            if (FIRST < n_tiles) multiply_columns<W, FIRST, 1>(sums, w, x);
            if (FIRST + 1 < n_tiles) multiply_columns<W, FIRST + 1, 1>(sums, w, x);
            if (FIRST + 2 < n_tiles) multiply_columns<W, FIRST + 2, 1>(sums, w, x);
        }
    }
}

/* By tensor cores: a warp has every 16th 16 columns of all rows, and keeps x of them. */
template <typename W>
static __device__ __forceinline__ void multiply_tiles(const matrix_params &p, const block_view &b) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n = b.end - b.begin;
    const uint32_t row = lane % 16, col = lane / 16 * 8; /* of the lane's address */
    const uint32_t part = lane / 4, n_parts = p.m.norm_weight || !std::is_same<W, __half>::value ? 2 : 1;
    const uint32_t n_tiles = (p.m.n_in / TILE_COLS + warps::CONSUMERS - 1 - warp) / warps::CONSUMERS;
    const W *from =
        reinterpret_cast<const W *>(b.row) + min(part, n_parts - 1) * p.m.n_in + lane % 4 * 2 + warp * TILE_COLS;
    unsigned x[MOST_TILES][2]; /* other columns of x are zeros */
#pragma unroll
    for (uint32_t i = 0; i < MOST_TILES; i++) {
        const bool has = i < n_tiles && part < n_parts;
        x[i][0] = has ? *reinterpret_cast<const unsigned *>(from + i * TILE_STEP) : 0;
        x[i][1] = has ? *reinterpret_cast<const unsigned *>(from + i * TILE_STEP + 8) : 0;
    }
    const uint32_t own = min(row / 2, p.tile_pairs - 1);
    uint32_t slot0 = 0, parity0 = 0; /* of the first pair; no more than the ring's slots are taken at once */
    for (uint32_t first = 0; first < n; first += p.tile_pairs) {
        const auto slot_of = [&](uint32_t i) { return slot0 + i < p.n_slots ? slot0 + i : slot0 + i - p.n_slots; };
        const uint32_t slot = slot_of(first + own < n ? own : 0);
        kg_mbarrier_poll(kg_shared_address(&b.barriers.full[slot]), parity0 ^ (uint32_t)(slot < slot0));
        __syncwarp(); /* all lanes have waited for their pairs */
        const unsigned w = kg_shared_address(b.ring) + (slot * 2 + row % 2) * p.row_stride +
                           (col + warp * TILE_COLS) * (unsigned)sizeof(W);
        float sums[2][4] = {}; /* two chains: an instruction need not wait for the one before it */
        multiply_row<W>(sums, w, x, n_tiles);
        float sum[4];
#pragma unroll
        for (int i = 0; i < 4; i++) sum[i] = sums[0][i] + sums[1][i];
        if (lane % 4 == 0) {
#pragma unroll
            for (uint32_t half = 0; half < 2; half++) {
                const uint32_t r = part + half * 8, at = first * 2 + r;
                if (r < 2 * p.tile_pairs && at < 2 * n)
                    b.partial[at * warps::PARTIAL_STRIDE + warp] =
                        fmaf(sum[2 * half + 1], 1 / REST_SCALE<W>, sum[2 * half]);
            }
        }
        __syncwarp(); /* the warp has read the slots */
        if (lane < p.tile_pairs && first + lane < n)
            kg_mbarrier_arrive(kg_shared_address(&b.barriers.empty[slot_of(lane)]));
        slot0 += p.tile_pairs;
        if (slot0 >= p.n_slots) slot0 -= p.n_slots, parity0 ^= 1;
    }
}

/* CUDA cores: p.parts warps share a pair; a lane has its chunks of n in registers. */
template <typename W>
static __device__ __forceinline__ void multiply_pairs(const matrix_params &p, const block_view &b) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t part = warp % p.parts, group = warp / p.parts, n_groups = warps::CONSUMERS / p.parts;
    const uint32_t first = (part * WARP + lane) * KG_VECTOR, step = p.parts * WARP * KG_VECTOR;
    const float *row = reinterpret_cast<const float *>(b.row);
    float x[LANE_CHUNKS][KG_VECTOR] = {};
#pragma unroll
    for (int k = 0; k < LANE_CHUNKS; k++)
        if (first + k * step < p.m.n_in) kg_load_vector(row + first + k * step, x[k]);
    for (uint32_t i = group; i < b.end - b.begin; i += n_groups) {
        const uint32_t slot = i % p.n_slots;
        kg_mbarrier_poll(kg_shared_address(&b.barriers.full[slot]), i / p.n_slots % 2);
        const unsigned char *w = b.ring + slot * 2 * p.row_stride;
        float sum[2] = {};
#pragma unroll
        for (int k = 0; k < LANE_CHUNKS; k++) {
            if (first + k * step >= p.m.n_in) continue;
#pragma unroll
            for (int which = 0; which < 2; which++) {
                float v[KG_VECTOR];
                kg_load_vector(reinterpret_cast<const W *>(w + which * p.row_stride) + first + k * step, v);
#pragma unroll
                for (int e = 0; e < KG_VECTOR; e++) sum[which] = fmaf(x[k][e], v[e], sum[which]);
            }
        }
#pragma unroll
        for (int mask = WARP / 2; mask > 0; mask /= 2) { /* side by side: a reduction waits for each of its steps */
            sum[0] += __shfl_xor_sync(0xFFFFFFFFu, sum[0], mask);
            sum[1] += __shfl_xor_sync(0xFFFFFFFFu, sum[1], mask);
        }
        if (lane != 0) continue;
        b.partial[2 * i * warps::PARTIAL_STRIDE + part] = sum[0];
        b.partial[(2 * i + 1) * warps::PARTIAL_STRIDE + part] = sum[1];
        kg_mbarrier_arrive(kg_shared_address(&b.barriers.empty[slot])); /* the shuffles came after all lanes' loads */
    }
}

/* Grid: blocks that divide the pairs evenly. TENSOR: by tensor cores. */
template <typename W, bool TENSOR, enum kg_step_form F>
static __global__ void __launch_bounds__(TENSOR ? TENSOR_LAUNCH_BOUND : warps::THREADS, 1)
    step_matrix_kernel(const __grid_constant__ matrix_params p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ ring_barriers barriers;
    __shared__ float squares[warps::CONSUMERS];
    const uint32_t thread = threadIdx.x, warp = thread / WARP;
    const uint32_t begin = blockIdx.x * p.block_pairs + min(blockIdx.x, p.more_pairs);
    const block_view b = { memory,
                           memory + p.row_at,
                           reinterpret_cast<float *>(memory + p.partial_at),
                           barriers,
                           begin,
                           begin + p.block_pairs + (blockIdx.x < p.more_pairs) };
    kg_dependents_start();
    kg_mbarrier_init_all(p.n_slots, warp, warps::WARPS, [&](uint32_t slot) {
        kg_mbarrier_init(kg_shared_address(&barriers.full[slot]), 1);
        kg_mbarrier_init(kg_shared_address(&barriers.empty[slot]), p.parts);
    });
    __syncthreads();               /* mbarriers are initialised */
    if (warp == warps::PRODUCER) { /* no dependency wait: weights are constant */
        if (thread % WARP == 0) produce<F>(p, kg_shared_address(memory), barriers, b.begin, b.end);
        return;
    }
    const uint32_t n_parts = TENSOR ? warps::CONSUMERS : p.parts;
    if (warp == warps::EPILOGUE) {
        run_epilogue<warps, F>(p.m, b.partial, n_parts, b.begin, b.end);
        return;
    }
    make_row<W, TENSOR>(p.m, b.row, squares);
    if constexpr (TENSOR) multiply_tiles<W>(p, b);
    else multiply_pairs<W>(p, b);
    kg_barrier_sync(EPILOGUE_BARRIER, warps::CONSUMER_THREADS + WARP); /* all sums are visible */
    finish_pairs<warps, F>(p.m, b.partial, n_parts, b.begin, b.end, b.begin + WARP + thread, warps::CONSUMER_THREADS);
}

/* Gives every slot to one group of warps in all of its uses. A parity tells a phase from the next only. A group that
 * waits at a slot that another group used before could be a whole phase early, where the parity looks as if its own
 * rows had arrived. */
static void keep_slots_in_groups(struct matrix_plan *plan) {
    while (plan->n_slots > 0 && warps::CONSUMERS / plan->parts > plan->n_slots) plan->parts *= 2;
    plan->n_slots -= plan->n_slots % (warps::CONSUMERS / plan->parts);
}

/* n_slots of 0: it does not fit. */
static struct matrix_plan plan_of(const struct kg_cuda_backend *cuda, enum kg_dtype dtype,
                                  enum kg_precision activations, uint32_t n_in, uint32_t n_pairs) {
    struct matrix_plan plan = {};
    if (n_in > MAX_IN || n_pairs == 0 || cuda->compute_capability < 90) return plan;
    plan.n_blocks = std::min((uint32_t)cuda->n_sms, n_pairs);
    plan.block_pairs = n_pairs / plan.n_blocks;
    plan.more_pairs = n_pairs % plan.n_blocks;
    plan.tensor =
        dtype != KG_DTYPE_F32 && activations == KG_PRECISION_F16 && n_in % TILE_COLS == 0 && n_in <= MAX_TENSOR_IN;
    for (plan.parts = 1; plan.parts * WARP * LANE_CHUNKS * KG_VECTOR < n_in;) plan.parts *= 2;
    if (plan.tensor) plan.parts = warps::CONSUMERS;
    plan.row_bytes = n_in * kg_dtype_info(dtype)->block_bytes;
    plan.row_stride = plan.row_bytes + ROW_PAD_BYTES;
    const uint32_t pairs = plan.block_pairs + (plan.more_pairs > 0); /* of a block, at most */
    const uint32_t n_bytes = n_in * (uint32_t)sizeof(float);         /* or two of W's type */
    const uint32_t partial_bytes = 2 * pairs * warps::PARTIAL_STRIDE * (uint32_t)sizeof(float);
    const uint32_t most = std::min<uint32_t>(SHARED_BYTES, cuda->shared_bytes - sizeof(ring_barriers) - 1024);
    if (n_bytes + partial_bytes > most) return plan;
    plan.n_slots = std::min({ (most - n_bytes - partial_bytes) / (2 * plan.row_stride), pairs, (uint32_t)MAX_SLOTS });
    if (plan.n_slots < std::min((uint32_t)MIN_SLOTS, pairs)) plan.n_slots = 0;
    if (!plan.tensor && plan.n_slots < pairs) keep_slots_in_groups(&plan);
    /* Rows that stream through the ring: one tile is multiplied while the next one arrives. */
    const uint32_t most_pairs = plan.n_slots < pairs ? plan.n_slots / 2 : plan.n_slots;
    plan.tile_pairs = std::max(1u, std::min<uint32_t>(TILE_PAIRS, most_pairs));
    plan.row_at = plan.n_slots * 2 * plan.row_stride;
    plan.partial_at = plan.row_at + n_bytes;
    plan.shared_bytes = plan.partial_at + partial_bytes;
    return plan;
}

bool kg_step_rows_fit(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m) {
    return m->form != KG_STEP_PLAIN &&
           plan_of(cuda, m->matrix[0].dtype, m->activations, m->n_in, m->n_pairs).n_slots > 0;
}

/* By enum kg_step_form. */
template <typename W, bool TENSOR>
static constexpr void (*const KERNELS[])(matrix_params) = { step_matrix_kernel<W, TENSOR, KG_STEP_QKV>,
                                                            step_matrix_kernel<W, TENSOR, KG_STEP_RESIDUAL>,
                                                            step_matrix_kernel<W, TENSOR, KG_STEP_GATED>,
                                                            step_matrix_kernel<W, TENSOR, KG_STEP_GELU> };

enum kg_status kg_step_multiply_rows(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                                     struct kg_error *err) {
    const enum kg_dtype dtype = m->matrix[0].dtype;
    const matrix_params p = { plan_of(cuda, dtype, m->activations, m->n_in, m->n_pairs), *m };
    if (p.n_slots == 0)
        return kg_fail(err, KG_ERR_INTERNAL, "decode step: %u pairs of rows of %u elements do not fit", m->n_pairs,
                       m->n_in);
    void (*const *const kernels)(matrix_params) =
        dtype == KG_DTYPE_F16    ? (p.tensor ? KERNELS<__half, true> : KERNELS<__half, false>)
        : dtype == KG_DTYPE_BF16 ? (p.tensor ? KERNELS<__nv_bfloat16, true> : KERNELS<__nv_bfloat16, false>)
                                 : KERNELS<float, false>;
    return kg_launch_dependent(cuda, kernels[m->form], dim3(p.n_blocks), warps::THREADS, p, "decode step: matrix", err,
                               p.shared_bytes);
}
