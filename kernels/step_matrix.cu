/* One row times matrices of a decode step (step_parts.h): y = f(n W^T + bias), n = x, or x * norm_weight / rms(x).
 *
 * x (n_in), W (rows, n_in) of F16 or F32, row-major; rows come in pairs whose sums are combined.
 *
 * Numerics: float32 throughout, one rounding to y. The normalised row is never rounded: W is multiplied by x * norm_weight
 * and the sum by 1 / rms. A lane adds its chunks of 8 in order, lanes are added by a butterfly, the warps of a row in order; then come
 * the bias and f. The sum of squares is added by lanes, then warps, in order, the same in every block.
 *
 * Map: a block a multiprocessor; it has a range of pairs. A producer warp brings their rows to shared memory, a slot of the
 * ring a pair (bulk copies): it does not wait for the launch before this one (dependent.cuh), so that the rows come in while that
 * one ends. `parts` of the 8 other warps share a pair; a lane keeps its chunks of n in registers. What f needs is loaded before the
 * products, a thread a pair. */
#include "kernels/step_parts.h"
#include "kernels/dependent.cuh"
#include "kernels/persistent/ring.cuh"
#include "kernels/precision.cuh"
#include <algorithm>

using kg_persistent::barrier_arrive;
using kg_persistent::barrier_expect;
using kg_persistent::barrier_init;
using kg_persistent::barrier_init_fence;
using kg_persistent::barrier_wait;
using kg_persistent::copy_bulk;

enum {
    WARP = 32,
    WARPS = 8, /* that multiply */
    CONSUMERS = WARPS * WARP,
    THREADS = CONSUMERS + WARP,
    LANE_CHUNKS = 4,
    MAX_IN = WARPS * WARP * LANE_CHUNKS * KG_VECTOR,
    MAX_SLOTS = 64,
    MIN_SLOTS = 2,
    SHARED_BYTES = 200 * 1024, /* the launches beside this one want some too */
};

struct matrix_params {
    struct kg_step_matrix m;
    uint32_t row_bytes, parts, n_slots, row_at, partial_at; /* in shared memory, behind the ring */
};

/* Dims of pair i of a head. Those past n_rot are neighbours. */
static __device__ __forceinline__ uint32_t dim_of(const kg_step_heads &h, uint32_t i, uint32_t which) {
    if (i >= h.n_rot / 2 || !h.half) return 2 * i + which;
    return i + which * (h.n_rot / 2);
}

/* Which heads' dims a pair of QKV has: head counts those of q, then k, then v. */
struct head_pair {
    uint32_t matrix, head, i; /* head: of this matrix */
};

static __device__ __forceinline__ head_pair head_pair_of(const kg_step_heads &h, uint32_t pair) {
    const uint32_t per_head = h.head_dim / 2, head = pair / per_head, i = pair % per_head;
    if (head < h.n_heads) return { 0, head, i };
    if (head < h.n_heads + h.n_kv_heads) return { 1, head - h.n_heads, i };
    return { 2, head - h.n_heads - h.n_kv_heads, i };
}

/* Row `which` of a pair: its matrix, and its number there. */
template <enum kg_step_form F>
static __device__ __forceinline__ uint2 row_of(const kg_step_matrix &m, uint32_t pair, uint32_t which) {
    if constexpr (F == KG_STEP_QKV) {
        const head_pair p = head_pair_of(m.heads, pair);
        return make_uint2(p.matrix, p.head * m.heads.head_dim + dim_of(m.heads, p.i, which));
    } else if constexpr (F == KG_STEP_GATED) {
        return make_uint2(which, pair);
    } else {
        return make_uint2(0, 2 * pair + which);
    }
}

/* x plus what is pending, elements [i, i + 8) of the residual stream. */
static __device__ __forceinline__ void load_pending(const kg_step_pending &p, enum kg_precision precision,
                                                    uint32_t n_in, uint32_t i, float (&x)[KG_VECTOR]) {
#pragma unroll 4
    for (uint32_t j = 0; j < p.n_used; j++) {
        float v[KG_VECTOR];
        kg_load_vector_any(p.rows, precision, (size_t)j * n_in + i, v);
        const float weight = p.weights[j];
#pragma unroll
        for (int e = 0; e < KG_VECTOR; e++) x[e] = fmaf(weight, v[e], x[e]);
    }
}

/* x * norm_weight to shared memory, and 1 / sqrt(mean of squares + eps). All consumers call; the row is there for all. */
static __device__ float normalise(const kg_step_matrix &m, float *row, float *sums) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float squares = 0;
    for (uint32_t i = threadIdx.x * KG_VECTOR; i < m.n_in; i += CONSUMERS * KG_VECTOR) {
        float x[KG_VECTOR], w[KG_VECTOR];
        kg_load_vector_any(m.x, m.x_precision, i, x);
        kg_load_vector(m.norm_weight + i, w);
        load_pending(m.pending, m.x_precision, m.n_in, i, x);
#pragma unroll
        for (int j = 0; j < KG_VECTOR; j++) {
            squares = fmaf(x[j], x[j], squares);
            w[j] *= x[j];
        }
        kg_store_vector(row + i, w);
    }
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, mask);
    if (lane == 0) sums[warp] = squares;
    kg_persistent::named_barrier(1, CONSUMERS); /* the row and all warps' sums are written */
    float total = sums[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) total += sums[w];
    return __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(total, (float)m.n_in) + m.eps));
}

/* What f needs of a pair beside the sums; loaded by the thread that finishes it. */
struct pair_operands {
    float bias[2];
    float2 turn; /* QKV */
    float y[2];  /* RESIDUAL: what is added to */
};

template <enum kg_step_form F>
static __device__ __forceinline__ void load_biases(const kg_step_matrix &m, uint32_t pair, pair_operands *o) {
#pragma unroll
    for (uint32_t which = 0; which < 2; which++) {
        const uint2 row = row_of<F>(m, pair, which);
        const float *bias = m.matrix[row.x].bias;
        o->bias[which] = bias ? bias[row.y] : 0.0f;
    }
}

template <enum kg_step_form F>
static __device__ __forceinline__ void load_operands(const kg_step_matrix &m, uint32_t pair, pair_operands *o) {
    if constexpr (F == KG_STEP_QKV) {
        const head_pair p = head_pair_of(m.heads, pair);
        o->turn = p.matrix < 2 && p.i < m.heads.n_rot / 2 ? m.heads.turns[p.i] : make_float2(1, 0);
    }
    if constexpr (F == KG_STEP_RESIDUAL) {
        const size_t n_out = 2 * (size_t)m.n_pairs;
#pragma unroll
        for (uint32_t which = 0; which < 2; which++) {
            const size_t at = 2 * pair + which;
            o->y[which] = kg_load_any(m.y, m.y_precision, at);
            for (uint32_t j = 0; j < m.pending.n_used; j++)
                o->y[which] =
                    fmaf(m.pending.weights[j], kg_load_any(m.pending.rows, m.y_precision, j * n_out + at), o->y[which]);
        }
    }
}

/* f, to where it goes. */
template <enum kg_step_form F>
static __device__ __forceinline__ void finish(const kg_step_matrix &m, uint32_t pair, const pair_operands &o, float a,
                                              float b) {
    if constexpr (F == KG_STEP_GATED) {
        kg_store_any(m.y, m.y_precision, pair, m.gate(a, b));
    } else if constexpr (F == KG_STEP_RESIDUAL) {
        kg_store_any(m.y, m.y_precision, 2 * (size_t)pair, o.y[0] + a);
        kg_store_any(m.y, m.y_precision, 2 * (size_t)pair + 1, o.y[1] + b);
    } else {
        const kg_step_heads &h = m.heads;
        const head_pair p = head_pair_of(h, pair);
        const uint32_t at = dim_of(h, p.i, 0), other = dim_of(h, p.i, 1);
        const bool turns = p.matrix < 2 && p.i < h.n_rot / 2;
        const float first = turns ? a * o.turn.x - b * o.turn.y : a, second = turns ? a * o.turn.y + b * o.turn.x : b;
        const size_t row =
            p.matrix == 0 ? (size_t)p.head * h.head_dim : ((size_t)p.head * h.n_ctx + h.step->position) * h.head_dim;
        void *y = p.matrix == 0 ? m.y : p.matrix == 1 ? h.k_cache : h.v_cache;
        const enum kg_precision precision = p.matrix == 0 ? m.y_precision : h.kv;
        kg_store_any(y, precision, row + at, first);
        kg_store_any(y, precision, row + other, second);
    }
}

struct ring_barriers {
    uint64_t full[MAX_SLOTS], empty[MAX_SLOTS];
};

template <enum kg_step_form F>
static __device__ __forceinline__ void produce(const matrix_params &p, unsigned ring, const ring_barriers &barriers,
                                               uint32_t begin, uint32_t end) {
    const uint64_t policy = kg_persistent::read_once_policy();
    uint32_t slot = 0, parity = 1; /* of the use before */
    for (uint32_t pair = begin; pair < end; pair++) {
        const unsigned full = kg_shared_address(&barriers.full[slot]), to = ring + slot * 2 * p.row_bytes;
        if (pair - begin >= p.n_slots) barrier_wait(kg_shared_address(&barriers.empty[slot]), parity);
        barrier_expect(full, 2 * p.row_bytes);
#pragma unroll
        for (uint32_t which = 0; which < 2; which++) {
            const uint2 row = row_of<F>(p.m, pair, which);
            copy_bulk(to + which * p.row_bytes, p.m.matrix[row.x].weight + (size_t)row.y * p.row_bytes, p.row_bytes,
                      full, policy);
        }
        if (++slot == p.n_slots) slot = 0, parity ^= 1;
    }
}

/* Grid: blocks that share the pairs evenly. */
template <typename W, enum kg_step_form F>
static __global__ void __launch_bounds__(THREADS, 1) step_matrix_kernel(const __grid_constant__ matrix_params p) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ ring_barriers barriers;
    __shared__ float squares[WARPS];
    const uint32_t thread = threadIdx.x, warp = thread / WARP, lane = thread % WARP;
    const uint32_t begin = (uint32_t)((uint64_t)p.m.n_pairs * blockIdx.x / gridDim.x),
                   end = (uint32_t)((uint64_t)p.m.n_pairs * (blockIdx.x + 1) / gridDim.x);
    if (thread < p.n_slots) {
        barrier_init(kg_shared_address(&barriers.full[thread]), 1);
        barrier_init(kg_shared_address(&barriers.empty[thread]), p.parts);
        barrier_init_fence();
    }
    kg_dependents_start();
    __syncthreads(); /* barriers are there */
    if (warp == WARPS) {
        if (lane == 0) produce<F>(p, kg_shared_address(memory), barriers, begin, end);
        return;
    }
    pair_operands operands = {};
    if (begin + thread < end) load_biases<F>(p.m, begin + thread, &operands);
    kg_dependency_wait(); /* x is there, and whoever read y has done so */
    if (begin + thread < end) load_operands<F>(p.m, begin + thread, &operands);

    const uint32_t part = warp % p.parts, group = warp / p.parts, n_groups = WARPS / p.parts;
    const uint32_t first = (part * WARP + lane) * KG_VECTOR, step = p.parts * WARP * KG_VECTOR;
    float *row = reinterpret_cast<float *>(memory + p.row_at),
          *partial = reinterpret_cast<float *>(memory + p.partial_at);
    float inverse_rms = 1, x[LANE_CHUNKS][KG_VECTOR] = {};
    if (p.m.norm_weight) {
        inverse_rms = normalise(p.m, row, squares);
#pragma unroll
        for (int k = 0; k < LANE_CHUNKS; k++)
            if (first + k * step < p.m.n_in) kg_load_vector(row + first + k * step, x[k]);
    } else {
#pragma unroll
        for (int k = 0; k < LANE_CHUNKS; k++)
            if (first + k * step < p.m.n_in) kg_load_vector_any(p.m.x, p.m.x_precision, first + k * step, x[k]);
    }

    for (uint32_t turn = group; turn < end - begin; turn += n_groups) {
        const uint32_t slot = turn % p.n_slots;
        barrier_wait(kg_shared_address(&barriers.full[slot]), turn / p.n_slots % 2);
        const W *w = reinterpret_cast<const W *>(memory + slot * 2 * p.row_bytes);
        float sum[2] = {};
#pragma unroll
        for (int k = 0; k < LANE_CHUNKS; k++) {
            if (first + k * step >= p.m.n_in) continue;
#pragma unroll
            for (int which = 0; which < 2; which++) {
                float v[KG_VECTOR];
                kg_load_vector(w + which * p.m.n_in + first + k * step, v);
#pragma unroll
                for (int e = 0; e < KG_VECTOR; e++) sum[which] = fmaf(x[k][e], v[e], sum[which]);
            }
        }
#pragma unroll
        for (int mask = WARP / 2; mask > 0; mask /= 2) {
            sum[0] += __shfl_xor_sync(0xFFFFFFFFu, sum[0], mask);
            sum[1] += __shfl_xor_sync(0xFFFFFFFFu, sum[1], mask);
        }
        if (lane == 0) {
            reinterpret_cast<float2 *>(partial)[turn * p.parts + part] = make_float2(sum[0], sum[1]);
            barrier_arrive(kg_shared_address(&barriers.empty[slot])); /* the shuffles came after every lane's loads */
        }
    }
    kg_persistent::named_barrier(1, CONSUMERS); /* all parts are there */
    if (begin + thread >= end) return;
    float2 sum = make_float2(0, 0);
    for (uint32_t k = 0; k < p.parts; k++) {
        const float2 part_sum = reinterpret_cast<const float2 *>(partial)[thread * p.parts + k];
        sum.x += part_sum.x, sum.y += part_sum.y;
    }
    finish<F>(p.m, begin + thread, operands, fmaf(sum.x, inverse_rms, operands.bias[0]),
              fmaf(sum.y, inverse_rms, operands.bias[1]));
}

struct plan {
    uint32_t n_blocks, parts, n_slots, row_at, partial_at, shared_bytes;
};

/* n_slots below MIN_SLOTS: it does not fit. */
static struct plan plan_of(const struct kg_cuda_backend *cuda, enum kg_dtype dtype, uint32_t n_in, uint32_t n_pairs) {
    struct plan plan = { std::min((uint32_t)cuda->n_sms, n_pairs), 1, 0, 0, 0, 0 };
    if (n_in > MAX_IN || n_pairs == 0 || cuda->compute_capability < 90) return plan;
    while (plan.parts * WARP * LANE_CHUNKS * KG_VECTOR < n_in) plan.parts *= 2;
    const uint32_t pairs = (n_pairs + plan.n_blocks - 1) / plan.n_blocks,
                   slot_bytes = 2 * n_in * (dtype == KG_DTYPE_F16 ? sizeof(__half) : sizeof(float)),
                   row_bytes = n_in * (uint32_t)sizeof(float), partial_bytes = pairs * plan.parts * sizeof(float2),
                   most = std::min<uint32_t>(SHARED_BYTES, cuda->shared_bytes - sizeof(ring_barriers) - 1024);
    if (pairs > CONSUMERS || row_bytes + partial_bytes > most) return plan;
    plan.n_slots = std::min({ (most - row_bytes - partial_bytes) / slot_bytes, pairs, (uint32_t)MAX_SLOTS });
    if (plan.n_slots < std::min((uint32_t)MIN_SLOTS, pairs)) plan.n_slots = 0;
    plan.row_at = plan.n_slots * slot_bytes;
    plan.partial_at = plan.row_at + row_bytes;
    plan.shared_bytes = plan.partial_at + partial_bytes;
    return plan;
}

bool kg_step_matrix_fits(const struct kg_cuda_backend *cuda, enum kg_dtype dtype, uint32_t n_in, uint32_t n_pairs) {
    return plan_of(cuda, dtype, n_in, n_pairs).n_slots > 0;
}

template <typename W>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct plan &plan, const matrix_params &p,
                             struct kg_error *err) {
    void (*const kernel)(matrix_params) = p.m.form == KG_STEP_QKV     ? step_matrix_kernel<W, KG_STEP_QKV>
                                          : p.m.form == KG_STEP_GATED ? step_matrix_kernel<W, KG_STEP_GATED>
                                                                      : step_matrix_kernel<W, KG_STEP_RESIDUAL>;
    return kg_launch_dependent(cuda, kernel, dim3(plan.n_blocks), THREADS, p, "decode step: matrix", err,
                               plan.shared_bytes);
}

enum kg_status kg_step_multiply(const struct kg_cuda_backend *cuda, const struct kg_step_matrix *m,
                                struct kg_error *err) {
    const struct plan plan = plan_of(cuda, m->dtype, m->n_in, m->n_pairs);
    if (plan.n_slots == 0)
        return kg_fail(err, KG_ERR_INTERNAL, "decode step: %u pairs of rows of %u elements do not fit", m->n_pairs,
                       m->n_in);
    const uint32_t row_bytes = m->n_in * (uint32_t)(m->dtype == KG_DTYPE_F16 ? sizeof(__half) : sizeof(float));
    const matrix_params p = { *m, row_bytes, plan.parts, plan.n_slots, plan.row_at, plan.partial_at };
    return m->dtype == KG_DTYPE_F16 ? launch<__half>(cuda, plan, p, err) : launch<float>(cuda, plan, p, err);
}
