/* One row times matrices of block formats in a fused decode step (matrix.cuh): Q4_0, Q5_0, Q8_0, Q4_K, Q5_K, Q6_K as
 * they lie in a file; each matrix may have another format.
 *
 * x (n_in), or x w of rmsnorm(x) = s x w (operand.cuh), as integers of 16 bits (digits.cuh). W (rows, n_in), row-major;
 * rows begin anywhere. Elsewhere matrix.cu.
 *
 * Numerics: sums of integers times integer codes are exact for a sub-block; their scales and all further sums are
 * float32, a warp's chunks in order, then the warps' in order, then times s. The order depends on shapes and the number
 * of multiprocessors only.
 *
 * Map: one block a multiprocessor; each has a range of pairs. A tile is up to 8 pairs: rows g and g + 8 of the tensor
 * core's 16. A segment is 256 columns (a chunk, block_codes.cuh) for each of a group's warps. Producer warps copy a
 * tile's segments, one a slot of the ring, each its part of the rows: a copy takes a warp some 65 cycles, 16 of them by
 * one warp as long as memory takes for their bytes. Groups of warps take the slots round robin. No copy waits for the
 * launch before (ptx/dependent.cuh), so weights arrive while that one ends.
 *
 * A copy begins at the 16 bytes that a row's segment begins in, and ends where its last do: a matrix of whole 16 bytes.
 */
#include "kernels/decode/block_codes.cuh"
#include "kernels/decode/operand.cuh"
#include "kernels/decode/row_map.cuh"
#include "kernels/preload.h"

KG_PRELOADED(decode_blocks, KG_NEXT_TOKENS)

using namespace kg_step_product;
using namespace kg_block_codes;

using warps = block_warps<16, 4>;

enum {
    TILE_PAIRS = 8,
    TILE_ROWS = 2 * TILE_PAIRS,
    PRODUCER_ROWS = TILE_ROWS / warps::PRODUCERS, /* of a tile: those that a producer warp copies */
    MANY_CHUNKS = 8,                              /* of a segment */
    FEW_CHUNKS = 4,
    LEAST_COPY = 800, /* bytes */
    COPY_BYTES = 16,
    CONFLICT_FREE = 128, /* rows lie 16 bytes past a multiple of it apart */
    MAX_SLOTS = 32,
    MAX_BLOCK_PAIRS = 640,
    SHARED_BYTES = 200 * 1024, /* the launches beside this one want some too */
};

/* How the blocks share a product. */
struct blocks_plan {
    uint32_t block_pairs, more_pairs;       /* pairs of a block; the first more_pairs blocks have one more */
    uint32_t n_slots, n_groups, row_stride; /* n_groups: of warps */
    row_map rows;
    uint32_t n_segments, segment_bytes[KG_STEP_MATRICES]; /* of a row */
    uint32_t n_runs, run_ends[KG_STEP_MATRICES];          /* of pairs whose rows have one format: q, k, v; or all */
    uint32_t n_chunks, segment_chunks;                    /* of a row; of a segment */
    uint32_t group_warps, group_shift;                    /* warps of a group, a power of two and its logarithm */
    uint32_t x_at, steps_at, sums_at, partial_at;         /* in shared memory, behind the ring */
    bool on_copies;                                       /* segments begin where copies may */
    uint32_t n_blocks, shared_bytes;
};

struct blocks_params : blocks_plan {
    struct kg_step_matrix m;
};

struct slot_state {
    uint64_t full, empty;
    uint8_t begins[TILE_ROWS]; /* where a row's segment begins in its place */
};

constexpr enum kg_dtype MIXED = KG_DTYPE_COUNT; /* q, k and v of several formats */

/* What depends on the form, by run(constant). The loop over tiles does not: it is the same code in all launches of a
 * token, which the instruction caches then have. */
template <enum kg_dtype D, typename Run>
static __device__ __forceinline__ void with_form(enum kg_step_form form, const Run &run) {
    if constexpr (D == MIXED) return run(std::integral_constant<enum kg_step_form, KG_STEP_QKV>());
    switch (form) {
    case KG_STEP_QKV: run(std::integral_constant<enum kg_step_form, KG_STEP_QKV>()); break;
    case KG_STEP_RESIDUAL: run(std::integral_constant<enum kg_step_form, KG_STEP_RESIDUAL>()); break;
    case KG_STEP_GATED: run(std::integral_constant<enum kg_step_form, KG_STEP_GATED>()); break;
    case KG_STEP_GELU: run(std::integral_constant<enum kg_step_form, KG_STEP_GELU>()); break;
    case KG_STEP_PLAIN: run(std::integral_constant<enum kg_step_form, KG_STEP_PLAIN>()); break;
    }
}

/* Pairs [begin, end). */
struct pair_range {
    uint32_t begin, end;
};

/* Those of the block, and of them those of a run. */
static __device__ __forceinline__ pair_range pairs_of_block(const blocks_params &p) {
    const uint32_t begin = blockIdx.x * p.block_pairs + min(blockIdx.x, p.more_pairs);
    return { begin, begin + p.block_pairs + (blockIdx.x < p.more_pairs) };
}

static __device__ __forceinline__ pair_range pairs_of_run(const blocks_params &p, const pair_range &block,
                                                          uint32_t run) {
    return { max(block.begin, run > 0 ? p.run_ends[run - 1] : 0), min(block.end, p.run_ends[run]) };
}

/* A place among the segments of a block's tiles, which all warps go through alike. */
struct ring_place {
    uint32_t item, slot, parity;
    __device__ __forceinline__ void advance(uint32_t n_slots) {
        item++;
        if (++slot == n_slots) slot = 0, parity ^= 1;
    }
};

/* Until x is there, copies into one slot a group are in flight at most: loads of x, and those of launches that still
 * run, would wait behind more. slot: the one that has to be there before another copy. */
static __device__ __forceinline__ void await_early_slot(const slot_state &slot, const volatile bool *has_x) {
    while (!*has_x && !kg_mbarrier_test(kg_shared_address(&slot.full), 0)) {}
}

/* A copy of a row's segment: from where, where it begins there, and its bytes. */
struct row_copy {
    const uint8_t *from;
    uint32_t before, n_bytes;
};

static __device__ __forceinline__ row_copy copy_of(const uint8_t *start, uint32_t n_bytes) {
    const uint32_t before = reinterpret_cast<uintptr_t>(start) % COPY_BYTES;
    return { start - before, before, (before + n_bytes + COPY_BYTES - 1) / COPY_BYTES * COPY_BYTES };
}

/* Pairs of the tile that begins at `first`: tiles end where runs do. */
template <enum kg_dtype D>
static __device__ __forceinline__ uint32_t tile_pairs_from(const blocks_params &p, uint32_t first, uint32_t end) {
    if constexpr (D == MIXED)
        end = min(end, first < p.run_ends[0] ? p.run_ends[0] : first < p.run_ends[1] ? p.run_ends[1] : end);
    return min(end - first, (uint32_t)TILE_PAIRS);
}

/* A producer warp: lane r copies the warp's row r of each tile. */
template <enum kg_dtype D>
static __device__ __forceinline__ void produce(const blocks_params &p, unsigned char *ring, slot_state *slots,
                                               const volatile bool *has_x) {
    const pair_range block = pairs_of_block(p);
    const uint64_t policy = kg_policy_evict_first();
    const uint32_t lane = threadIdx.x % WARP,
                   tile_row = (threadIdx.x / WARP - warps::PRODUCER) * PRODUCER_ROWS + lane % PRODUCER_ROWS,
                   i = tile_row % TILE_PAIRS;
    ring_place at = { 0, 0, 0 };
    for (uint32_t first = block.begin, n_pairs; first < block.end; first += n_pairs) {
        n_pairs = tile_pairs_from<D>(p, first, block.end);
        const bool copies = lane < PRODUCER_ROWS && i < n_pairs;
        const row_place row = row_place_of(p.rows, first + min(i, n_pairs - 1), tile_row / TILE_PAIRS);
        const uint32_t segment_bytes = p.segment_bytes[row.source];
        uint32_t left = p.rows.sources[row.source].row_bytes;
        const uint8_t *start = row.at;
        for (uint32_t segment = 0; segment < p.n_segments; segment++, at.advance(p.n_slots)) {
            slot_state &slot = slots[at.slot];
            const row_copy copy = copy_of(start, min(segment_bytes, left));
            const uint32_t all_bytes = __reduce_add_sync(0xFFFFFFFFu, copies ? copy.n_bytes : 0);
            if (at.item >= p.n_slots) kg_mbarrier_poll(kg_shared_address(&slot.empty), at.parity ^ 1);
            else if (at.item >= p.n_groups) await_early_slot(slots[at.item - p.n_groups], has_x);
            if (lane < PRODUCER_ROWS) slot.begins[tile_row] = (uint8_t)copy.before;
            __syncwarp(); /* the slot is empty, and `begins` written, before the arrival below */
            if (lane == 0) kg_mbarrier_expect(kg_shared_address(&slot.full), all_bytes);
            __syncwarp(); /* bytes are expected before they come */
            if (copies)
                kg_bulk_copy(kg_shared_address(ring + (at.slot * TILE_ROWS + tile_row) * p.row_stride), copy.from,
                             copy.n_bytes, kg_shared_address(&slot.full), policy);
            start += segment_bytes, left -= segment_bytes;
        }
    }
}

/* Where n's digits go, their steps, and the sums of n's groups. */
struct operand_room {
    unsigned char *digits;
    float *steps, *sums;
};

/* n as digits, zeros behind its end. n_all is whole for a warp. */
template <enum kg_dtype D>
static __device__ __forceinline__ void make_operand(const blocks_params &p, const operand_room &to, float *squares) {
    load_operand<warps, true>(p.m, p.n_chunks * CHUNK_COLS, squares, [&](uint32_t i, const float(&x)[KG_VECTOR]) {
        unsigned largest = largest_of(x); /* of 8 of 32 */
        largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
        largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
        const step by = step_of(largest);
        const digits d = digits_of(x, by.inverse);
        const int sum = HAS_OFFSETS<D> ? d.sum + __shfl_xor_sync(0xFFFFFFFFu, d.sum, 1) : 0; /* of 16 */
        *reinterpret_cast<uint2 *>(to.digits + digit_at(i)) = d.upper;
        *reinterpret_cast<uint2 *>(to.digits + digit_at(i) + LOWER_AT) = d.lower;
        if (i % STEP_COLS == 0) to.steps[i / STEP_COLS] = by.step;
        if (HAS_OFFSETS<D> && i % GROUP_COLS == 0) to.sums[i / GROUP_COLS] = by.step * (float)sum;
    });
}

/* A consumer warp's lane: its group, and the warp's place there; where its row g of a slot begins, and where its sums
 * of the block's first tile go. All of it is known before x is. */
struct consumer {
    uint32_t group, member;
    uint32_t row_at;
    float *sums;
};

static __device__ __forceinline__ consumer consumer_of(const blocks_params &p, float *partial) {
    const uint32_t warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    consumer c = { warp >> p.group_shift, warp & (p.group_warps - 1), g * p.row_stride,
                   partial + (2 * g + t % 2) * warps::PARTIAL_STRIDE + warp };
    kg_make_opaque(c.group, c.member, c.row_at); /* computed here, not behind the wait for x */
    return c;
}

/* A run's tiles of format D; c.sums is of its first tile. */
template <enum kg_dtype D>
static __device__ __forceinline__ void multiply_run(const blocks_params &p, const consumer &c,
                                                    const unsigned char *ring, slot_state *slots, const operand &x,
                                                    const pair_range &pairs, ring_place &at) {
    constexpr uint32_t BYTES = chunk_bytes(D);
    const uint32_t g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    const uint32_t first_row = c.row_at + c.member * BYTES, second_row = TILE_PAIRS * p.row_stride;
    float *to = c.sums;
    for (uint32_t first = pairs.begin; first < pairs.end;
         first += TILE_PAIRS, to += TILE_ROWS * warps::PARTIAL_STRIDE) {
        float sum[2] = {};
        for (uint32_t start = 0; start < p.n_chunks; start += p.segment_chunks, at.advance(p.n_slots)) {
            if ((at.item & (p.n_groups - 1)) != c.group) continue;
            slot_state &slot = slots[at.slot];
            const uint32_t end = min(start + p.segment_chunks, p.n_chunks);
            const unsigned char *rows[2];
            rows[0] = ring + at.slot * 2 * second_row + first_row, rows[1] = rows[0] + second_row;
            kg_mbarrier_poll(kg_shared_address(&slot.full), at.parity);
            if (!p.on_copies) rows[0] += slot.begins[g], rows[1] += slot.begins[g + TILE_PAIRS];
            for (uint32_t chunk = start + c.member; chunk < end; chunk += p.group_warps) {
                add_chunk<D>(sum, rows, x.from(chunk), p.m.n_in / STEP_COLS - chunk * CHUNK_STEPS);
                rows[0] += p.group_warps * BYTES, rows[1] += p.group_warps * BYTES;
            }
            __syncwarp(); /* the warp has read the slot */
            if (threadIdx.x % WARP == 0) kg_mbarrier_arrive(kg_shared_address(&slot.empty));
        }
        /* Even lanes have the sum of row g, odd ones that of g + 8. */
        float own = t % 2 ? sum[1] : sum[0];
        own += __shfl_xor_sync(0xFFFFFFFFu, t % 2 ? sum[0] : sum[1], 1);
        own += __shfl_xor_sync(0xFFFFFFFFu, own, 2);
        if (t < 2 && first + g < pairs.end) *to = own;
    }
}

/* Rows of format D, or a run after another by its format. */
template <enum kg_dtype D>
static __device__ __forceinline__ void multiply(const blocks_params &p, const consumer &c, const unsigned char *ring,
                                                slot_state *slots, const operand &x, const pair_range &block) {
    ring_place at = { 0, 0, 0 };
    if constexpr (D != MIXED) {
        multiply_run<D>(p, c, ring, slots, x, block, at);
    } else {
        for (uint32_t run = 0; run < p.n_runs; run++) {
            const pair_range pairs = pairs_of_run(p, block, run);
            if (pairs.begin >= pairs.end) continue;
            consumer of = c;
            of.sums += 2 * (pairs.begin - block.begin) * warps::PARTIAL_STRIDE;
            switch (p.m.matrix[run].dtype) {
            case KG_DTYPE_Q4_0: multiply_run<KG_DTYPE_Q4_0>(p, of, ring, slots, x, pairs, at); break;
            case KG_DTYPE_Q5_0: multiply_run<KG_DTYPE_Q5_0>(p, of, ring, slots, x, pairs, at); break;
            case KG_DTYPE_Q8_0: multiply_run<KG_DTYPE_Q8_0>(p, of, ring, slots, x, pairs, at); break;
            case KG_DTYPE_Q4_K: multiply_run<KG_DTYPE_Q4_K>(p, of, ring, slots, x, pairs, at); break;
            case KG_DTYPE_Q5_K: multiply_run<KG_DTYPE_Q5_K>(p, of, ring, slots, x, pairs, at); break;
            default: multiply_run<KG_DTYPE_Q6_K>(p, of, ring, slots, x, pairs, at); break;
            }
        }
    }
}

/* Grid: blocks that divide the pairs evenly. */
template <enum kg_dtype D>
static __global__ void __launch_bounds__(warps::THREADS, 1)
    step_blocks_kernel(const __grid_constant__ blocks_params p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ slot_state slots[MAX_SLOTS];
    __shared__ float squares[warps::CONSUMERS], unit; /* of the sums */
    __shared__ volatile bool has_x; /* a hint: when the producer sees it does not matter for the result */
    const uint32_t warp = threadIdx.x / WARP;
    float *partial = reinterpret_cast<float *>(memory + p.partial_at);
    kg_dependents_start();
    const pair_range block = pairs_of_block(p);
    if (warp >= warps::PRODUCER) { /* no dependency wait: weights are constant */
        has_x = false;
        kg_mbarrier_init_all(p.n_slots, warp - warps::PRODUCER, warps::PRODUCERS, [&](uint32_t slot) {
            kg_mbarrier_init(kg_shared_address(&slots[slot].full), warps::PRODUCERS);
            kg_mbarrier_init(kg_shared_address(&slots[slot].empty), p.group_warps);
        });
        kg_barrier_arrive(OPERAND_BARRIER, warps::CONSUMER_THREADS + warps::PRODUCER_THREADS);
        kg_barrier_sync(START_BARRIER, warps::PRODUCER_THREADS); /* mbarriers are initialised */
        produce<D>(p, memory, slots, &has_x);
        if (warp != warps::EPILOGUE) return;
        const auto unit_of_sums = [&] {
            kg_barrier_sync(SQUARES_BARRIER, warps::CONSUMER_THREADS + WARP); /* sums of squares are visible */
            return unit = inverse_rms_of<warps>(p.m, squares);
        };
        with_form<D>(p.m.form, [&](auto form) {
            run_epilogue<warps, form.value>(p.m, partial, warps::CONSUMERS, block.begin, block.end, unit_of_sums);
        });
        return;
    }
    const operand_room x = { memory + p.x_at, reinterpret_cast<float *>(memory + p.steps_at),
                             reinterpret_cast<float *>(memory + p.sums_at) };
    const consumer c = consumer_of(p, partial);
    make_operand<D>(p, x, squares);
    kg_barrier_arrive(SQUARES_BARRIER, warps::CONSUMER_THREADS + WARP);
    /* x is visible; mbarriers are initialised */
    kg_barrier_sync(OPERAND_BARRIER, warps::CONSUMER_THREADS + warps::PRODUCER_THREADS);
    if (threadIdx.x == 0) has_x = true;
    multiply<D>(p, c, memory, slots, { x.digits, x.steps, x.sums }, block);
    kg_barrier_sync(EPILOGUE_BARRIER, warps::CONSUMER_THREADS + WARP); /* all sums, and their unit, are visible */
    with_form<D>(p.m.form, [&](auto form) {
        finish_pairs<warps, form.value>(p.m, partial, warps::CONSUMERS, block.begin, block.end,
                                        block.begin + WARP + threadIdx.x, warps::CONSUMER_THREADS, unit);
    });
}

/* Chunks of a segment: few where many would leave more than an eighth of all warps' chunks idle in a row's last
 * segment, if copies are then long enough that memory is not faster than the warps that issue them. */
static uint32_t segment_chunks_of(uint32_t n_chunks, uint32_t shortest_chunk) {
    const uint32_t by_many = (n_chunks + MANY_CHUNKS - 1) / MANY_CHUNKS * MANY_CHUNKS,
                   by_few = (n_chunks + FEW_CHUNKS - 1) / FEW_CHUNKS * FEW_CHUNKS;
    if (n_chunks <= FEW_CHUNKS) return FEW_CHUNKS;
    return 8 * by_few < 7 * by_many && FEW_CHUNKS * shortest_chunk >= LEAST_COPY ? FEW_CHUNKS : MANY_CHUNKS;
}

/* Slots of a ring of most_bytes. */
static uint32_t slots_of(struct blocks_plan *plan, const struct kg_step_matrix *m, uint32_t most_bytes) {
    uint32_t shortest = UINT32_MAX, longest = 0; /* bytes of a chunk */
    for (int i = 0; i < KG_STEP_MATRICES && m->matrix[i].weight; i++) {
        shortest = std::min(shortest, chunk_bytes(m->matrix[i].dtype));
        longest = std::max(longest, chunk_bytes(m->matrix[i].dtype));
    }
    const uint32_t segment_chunks = segment_chunks_of(plan->n_chunks, shortest);
    const uint32_t place = segment_chunks * longest + 2 * (COPY_BYTES - 2); /* what is copied before and behind it */
    plan->segment_chunks = segment_chunks;
    for (int i = 0; i < KG_STEP_MATRICES; i++)
        plan->segment_bytes[i] = segment_chunks * chunk_bytes(m->matrix[m->form == KG_STEP_QKV ? i : 0].dtype);
    plan->n_segments = (plan->n_chunks + segment_chunks - 1) / segment_chunks;
    plan->group_warps = segment_chunks;
    plan->n_groups = warps::CONSUMERS / plan->group_warps;
    for (plan->group_shift = 0; plan->group_warps >> plan->group_shift > 1;) plan->group_shift++;
    plan->row_stride = (place - COPY_BYTES + CONFLICT_FREE - 1) / CONFLICT_FREE * CONFLICT_FREE + COPY_BYTES;
    const uint32_t fit = std::min(most_bytes / (TILE_ROWS * plan->row_stride), (uint32_t)MAX_SLOTS);
    return fit - fit % plan->n_groups; /* a slot is one group's in all of its uses */
}

static uint32_t row_bytes_of(const struct kg_step_matrix *m, int i) {
    return m->n_in / STEP_COLS * chunk_bytes(m->matrix[i].dtype) / CHUNK_STEPS;
}

static row_map map_of(const struct kg_step_matrix *m) {
    static_assert((int)ROW_SOURCES == (int)KG_STEP_MATRICES, "q, k and v");
    const struct kg_step_heads *h = &m->heads;
    const uint8_t *const weights[] = { m->matrix[0].weight, m->matrix[1].weight, m->matrix[2].weight };
    const uint32_t row_bytes[] = { row_bytes_of(m, 0), row_bytes_of(m, 1), row_bytes_of(m, 2) };
    if (m->form == KG_STEP_GATED || m->form == KG_STEP_GELU)
        return map_of_two(weights[0], weights[1], row_bytes[0], m->n_pairs);
    const bool has_heads = m->form == KG_STEP_QKV && h->head_dim > 0; /* not where only the fit is asked for */
    if (!has_heads) return map_of_neighbours(weights[0], row_bytes[0], m->n_pairs);
    return map_of_heads(weights, row_bytes, h->n_heads, h->n_kv_heads, h->head_dim, h->half ? h->n_rot / 2 : 0);
}

/* Whether all segments begin where copies may. */
static bool lie_on_copies(const struct blocks_plan *plan, const struct kg_step_matrix *m) {
    bool all = true;
    for (int i = 0; i < KG_STEP_MATRICES && m->matrix[i].weight; i++)
        all &= reinterpret_cast<uintptr_t>(m->matrix[i].weight) % COPY_BYTES == 0 &&
               row_bytes_of(m, i) % COPY_BYTES == 0 &&
               plan->segment_chunks * chunk_bytes(m->matrix[i].dtype) % COPY_BYTES == 0;
    return all;
}

static bool is_mixed(const struct kg_step_matrix *m) {
    return m->form == KG_STEP_QKV &&
           (m->matrix[1].dtype != m->matrix[0].dtype || m->matrix[2].dtype != m->matrix[0].dtype);
}

static void find_runs(struct blocks_plan *plan, const struct kg_step_matrix *m) {
    const uint32_t head_pairs = m->heads.head_dim / 2, q = m->heads.n_heads * head_pairs,
                   k = q + m->heads.n_kv_heads * head_pairs;
    plan->n_runs = is_mixed(m) ? 3 : 1;
    plan->run_ends[0] = is_mixed(m) ? q : m->n_pairs;
    plan->run_ends[1] = k;
    plan->run_ends[2] = m->n_pairs;
}

/* n_slots of 0: it does not fit. */
static struct blocks_plan plan_of(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m) {
    struct blocks_plan plan = {};
    if (cuda->compute_capability < 90 || m->n_pairs == 0 || m->n_in % STEP_COLS != 0) return plan;
    if (m->norm_weight && m->n_in > MAX_NORM_COLS) return plan;
    const uint32_t n_waves = kg_blocks_for(m->n_pairs, (uint32_t)(cuda->n_sms * MAX_BLOCK_PAIRS));
    plan.n_blocks = std::min((uint32_t)cuda->n_sms * n_waves, m->n_pairs);
    plan.block_pairs = m->n_pairs / plan.n_blocks;
    plan.more_pairs = m->n_pairs % plan.n_blocks;
    plan.n_chunks = (m->n_in + CHUNK_COLS - 1) / CHUNK_COLS;
    plan.rows = map_of(m);
    const uint32_t pairs = plan.block_pairs + (plan.more_pairs > 0);
    const uint32_t x_bytes = plan.n_chunks * X_CHUNK_BYTES,
                   steps_bytes = plan.n_chunks * CHUNK_STEPS * (uint32_t)sizeof(float),
                   sums_bytes = plan.n_chunks * CHUNK_GROUPS * (uint32_t)sizeof(float),
                   partial_bytes = 2 * pairs * warps::PARTIAL_STRIDE * (uint32_t)sizeof(float);
    const uint32_t most = std::min<uint32_t>(SHARED_BYTES, cuda->shared_bytes - MAX_SLOTS * sizeof(slot_state) - 1024);
    const uint32_t others = x_bytes + steps_bytes + sums_bytes + partial_bytes;
    if (others > most) return plan;
    plan.n_slots = slots_of(&plan, m, most - others);
    plan.on_copies = lie_on_copies(&plan, m);
    find_runs(&plan, m);
    plan.x_at = plan.n_slots * TILE_ROWS * plan.row_stride;
    plan.steps_at = plan.x_at + x_bytes;
    plan.sums_at = plan.steps_at + steps_bytes;
    plan.partial_at = plan.sums_at + sums_bytes;
    plan.shared_bytes = plan.partial_at + partial_bytes;
    return plan;
}

bool kg_step_has_blocks(enum kg_dtype dtype) {
    return chunk_bytes(dtype) > 0;
}

bool kg_step_blocks_fit(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m) {
    return plan_of(cuda, m).n_slots > 0;
}

static void (*kernel_of(const struct kg_step_matrix *m))(blocks_params) {
    if (is_mixed(m)) return step_blocks_kernel<MIXED>;
    switch (m->matrix[0].dtype) {
    case KG_DTYPE_Q4_0: return step_blocks_kernel<KG_DTYPE_Q4_0>;
    case KG_DTYPE_Q5_0: return step_blocks_kernel<KG_DTYPE_Q5_0>;
    case KG_DTYPE_Q8_0: return step_blocks_kernel<KG_DTYPE_Q8_0>;
    case KG_DTYPE_Q4_K: return step_blocks_kernel<KG_DTYPE_Q4_K>;
    case KG_DTYPE_Q5_K: return step_blocks_kernel<KG_DTYPE_Q5_K>;
    default: return step_blocks_kernel<KG_DTYPE_Q6_K>;
    }
}

enum kg_status kg_step_multiply_blocks(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                                       struct kg_error *err) {
    const blocks_params p = { plan_of(cuda, m), *m };
    if (p.n_slots == 0)
        return kg_fail(err, KG_ERR_INTERNAL, "decode step: %u pairs of rows of %u elements do not fit", m->n_pairs,
                       m->n_in);
    return kg_launch_dependent(cuda, kernel_of(m), dim3(p.n_blocks), warps::THREADS, p, "decode step: blocks", err,
                               p.shared_bytes);
}
