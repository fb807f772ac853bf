/* What the products of one row of a fused decode step share (launches.h): y = f(n W^T + bias), n = x, or rmsnorm(x).
 * Rows of W come in pairs, whose sums f combines. matrix.cu has rows of F16, BF16 and F32, blocks.cu those of block
 * formats, repacked.cu those of repacked MXFP4.
 *
 * A block has a range of pairs. Producer warps copy their rows to a ring in shared memory, consumer warps multiply, and
 * one epilogue warp loads the operands of f meanwhile and then computes f of 32 pairs, the consumers of the others. */
#ifndef KIGO_KERNELS_DECODE_MATRIX_CUH
#define KIGO_KERNELS_DECODE_MATRIX_CUH

#include "kernels/decode/launches.h"
#include "kernels/ptx/dependent.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/rmsnorm.cuh"
#include <algorithm>

namespace kg_step_product {

enum { WARP = 32, LANE_VECTORS = 2 /* of a normalised row */ };

/* The warps of a block: consumers, then producers, and the epilogue warp, which is one of several producers, too.
 * PARTIAL_STRIDE: how far apart the sums of a pair's rows lie. */
template <int N_CONSUMERS, int N_PRODUCERS = 1> struct block_warps {
    static constexpr int CONSUMERS = N_CONSUMERS, PRODUCER = N_CONSUMERS, PRODUCERS = N_PRODUCERS,
                         EPILOGUE = PRODUCER + (PRODUCERS > 1 ? PRODUCERS - 1 : 1), CONSUMER_THREADS = CONSUMERS * WARP,
                         PRODUCER_THREADS = PRODUCERS * WARP, WARPS = EPILOGUE + 1, THREADS = WARPS * WARP,
                         PARTIAL_STRIDE = CONSUMERS + 1;
};

enum {
    CONSUMER_BARRIER = 1,
    EPILOGUE_BARRIER,
    START_BARRIER,
    OPERAND_BARRIER,
    SQUARES_BARRIER
}; /* 0 is __syncthreads */

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

/* Row `which` of a pair: (matrix, row). */
template <enum kg_step_form F>
static __device__ __forceinline__ uint2 row_of(const kg_step_matrix &m, uint32_t pair, uint32_t which) {
    if constexpr (F == KG_STEP_QKV) {
        const head_pair p = head_pair_of(m.heads, pair);
        return make_uint2(p.matrix, p.head * m.heads.head_dim + dim_of(m.heads, p.i, which));
    } else if constexpr (F == KG_STEP_GATED || F == KG_STEP_GELU) {
        return make_uint2(which, pair);
    } else {
        return make_uint2(0, 2 * pair + which);
    }
}

/* x plus what is pending, elements [i, i + 8) of the residual stream. */
template <typename T>
static __device__ __forceinline__ void load_pending_of(const kg_step_pending &p, uint32_t n_in, uint32_t i,
                                                       float (&x)[KG_VECTOR]) {
    constexpr uint32_t AT_ONCE = 4;
    for (uint32_t first = 0; first < p.n_used; first += AT_ONCE) {
        kg_raw_vector<T> raw[AT_ONCE];
        float weight[AT_ONCE];
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) { /* past the last: it again, which is not added */
            const uint32_t row = min(first + j, p.n_used - 1);
            weight[j] = p.weights[row];
            raw[j].load(static_cast<const T *>(p.rows) + (size_t)row * n_in + i);
        }
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++)
            if (first + j < p.n_used) {
                float v[KG_VECTOR];
                raw[j].to_floats(v);
#pragma unroll
                for (int e = 0; e < KG_VECTOR; e++) x[e] = fmaf(weight[j], v[e], x[e]);
            }
    }
}
static __device__ __forceinline__ void load_pending(const kg_step_pending &p, enum kg_precision precision,
                                                    uint32_t n_in, uint32_t i, float (&x)[KG_VECTOR]) {
    if (precision == KG_PRECISION_F16) load_pending_of<__half>(p, n_in, i, x);
    else load_pending_of<float>(p, n_in, i, x);
}

/* The sum over all consumers, the same in each. */
template <typename B> static __device__ __forceinline__ float sum_of_all(float x, float *sums) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    x = kg_warp_reduce<kg_sum>(x);
    if (lane == 0) sums[warp] = x;
    kg_barrier_sync(CONSUMER_BARRIER, B::CONSUMER_THREADS); /* all warps' sums are written */
    float total = sums[0];
#pragma unroll
    for (int w = 1; w < B::CONSUMERS; w++) total += sums[w];
    return total;
}

/* Operands of f beside the sums, loaded by the epilogue warp. */
struct pair_operands {
    float bias[2];
    float2 rotation; /* QKV: cosine, sine */
    float y[2];      /* RESIDUAL: y before */
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
        o->rotation = p.matrix < 2 && p.i < m.heads.n_rot / 2 ? m.heads.cos_sin[p.i] : make_float2(1, 0);
    }
    if constexpr (F == KG_STEP_RESIDUAL) {
        const size_t n_out = 2 * (size_t)m.n_pairs;
#pragma unroll
        for (uint32_t which = 0; which < 2; which++) {
            const size_t at = 2 * pair + which;
            o->y[which] = kg_load_any(m.y, m.y_precision, at);
#pragma unroll 4
            for (uint32_t j = 0; j < m.pending.n_used; j++)
                o->y[which] =
                    fmaf(m.pending.weights[j], kg_load_any(m.pending.rows, m.y_precision, j * n_out + at), o->y[which]);
        }
    }
}

/* f, to where it goes. */
template <enum kg_step_form F>
static __device__ __forceinline__ void epilogue(const kg_step_matrix &m, uint32_t pair, const pair_operands &o, float a,
                                                float b) {
    if constexpr (F == KG_STEP_GATED) {
        kg_store_any(m.y, m.y_precision, pair, m.gate(a, b));
    } else if constexpr (F == KG_STEP_GELU) {
        kg_store_any(m.y, m.y_precision, pair, m.gelu(a, b));
    } else if constexpr (F == KG_STEP_PLAIN) {
        kg_store_any(m.y, m.y_precision, 2 * (size_t)pair, a);
        kg_store_any(m.y, m.y_precision, 2 * (size_t)pair + 1, b);
    } else if constexpr (F == KG_STEP_RESIDUAL) {
        kg_store_any(m.y, m.y_precision, 2 * (size_t)pair, o.y[0] + a);
        kg_store_any(m.y, m.y_precision, 2 * (size_t)pair + 1, o.y[1] + b);
    } else {
        const kg_step_heads &h = m.heads;
        const head_pair p = head_pair_of(h, pair);
        const uint32_t at = dim_of(h, p.i, 0), other = dim_of(h, p.i, 1);
        const bool rotates = p.matrix < 2 && p.i < h.n_rot / 2;
        const float first = rotates ? a * o.rotation.x - b * o.rotation.y : a,
                    second = rotates ? a * o.rotation.y + b * o.rotation.x : b;
        const size_t row =
            p.matrix == 0 ? (size_t)p.head * h.head_dim : ((size_t)p.head * h.n_ctx + h.step->position) * h.head_dim;
        void *y = p.matrix == 0 ? m.y : p.matrix == 1 ? h.k_cache : h.v_cache;
        const enum kg_precision precision = p.matrix == 0 ? m.y_precision : h.kv;
        kg_store_any(y, precision, row + at, first);
        kg_store_any(y, precision, row + other, second);
    }
}

static __device__ __forceinline__ float sum_of_parts(const float *partial, uint32_t n_parts) {
    float sum = partial[0];
    for (uint32_t k = 1; k < n_parts; k++) sum += partial[k];
    return sum;
}

/* f of a pair whose rows have n_parts sums each, in units of `unit`. */
template <typename B, enum kg_step_form F>
static __device__ __forceinline__ void finish_pair(const kg_step_matrix &m, uint32_t pair,
                                                   const pair_operands &operands, const float *sums, uint32_t n_parts,
                                                   float unit) {
    epilogue<F>(m, pair, operands, fmaf(unit, sum_of_parts(sums, n_parts), operands.bias[0]),
                fmaf(unit, sum_of_parts(sums + B::PARTIAL_STRIDE, n_parts), operands.bias[1]));
}

/* The same of every n_threads'th of a block's pairs [begin, end) from `first` on. */
template <typename B, enum kg_step_form F>
static __device__ __forceinline__ void finish_pairs(const kg_step_matrix &m, const float *partial, uint32_t n_parts,
                                                    uint32_t begin, uint32_t end, uint32_t first, uint32_t n_threads,
                                                    float unit = 1) {
    for (uint32_t pair = first; pair < end; pair += n_threads) {
        pair_operands operands = {};
        load_biases<F>(m, pair, &operands);
        load_operands<F>(m, pair, &operands);
        finish_pair<B, F>(m, pair, operands, partial + 2 * (pair - begin) * B::PARTIAL_STRIDE, n_parts, unit);
    }
}

/* Of the sums, where it is 1. */
struct unit_of_one {
    __device__ __forceinline__ float operator()() const {
        return 1;
    }
};

/* The epilogue warp: a lane has one of the block's first 32 pairs, whose operands it loads before the sums are
 * complete. unit(): that of the sums, asked once the launch before is complete. */
template <typename B, enum kg_step_form F, typename Unit = unit_of_one>
static __device__ __forceinline__ void run_epilogue(const kg_step_matrix &m, const float *partial, uint32_t n_parts,
                                                    uint32_t begin, uint32_t end, const Unit &unit = Unit()) {
    const uint32_t pair = begin + threadIdx.x % WARP;
    pair_operands operands = {};
    if (pair < end) load_biases<F>(m, pair, &operands);
    kg_dependency_wait(); /* operands are visible; nothing reads y any more */
    if (pair < end) load_operands<F>(m, pair, &operands);
    const float of_sums = unit();
    kg_barrier_sync(EPILOGUE_BARRIER, B::CONSUMER_THREADS + WARP); /* all sums are visible */
    if (pair < end)
        finish_pair<B, F>(m, pair, operands, partial + 2 * (pair - begin) * B::PARTIAL_STRIDE, n_parts, of_sums);
}

} // namespace kg_step_product

#endif
