/* The row n of a product with quantised weights, rmsnorm(x) or x: how the consumer warps of a block (matrix.cuh) load
 * it, and store it as their format's codes want it.
 *
 * rmsnorm(x) = s (x w), s = 1 / sqrt(mean x^2 + eps). Where the format has its units anyway, the product may be that of
 * x w, and s counts once a sum: then nothing waits for the sum over all of x. */
#ifndef KIGO_KERNELS_DECODE_OPERAND_CUH
#define KIGO_KERNELS_DECODE_OPERAND_CUH

#include "kernels/decode/matrix.cuh"

namespace kg_step_product {

enum { MAX_NORM_COLS = 8192 };

/* x[v] = elements [first + v step, ... + 8) of `from` below n; zeros behind it. All loads are in flight together. */
template <typename T, int N>
static __device__ __forceinline__ void load_vectors(const T *from, uint32_t first, uint32_t step, uint32_t n,
                                                    float (&x)[N][KG_VECTOR]) {
    kg_raw_vector<T> raw[N] = {};
#pragma unroll
    for (uint32_t v = 0; v < N; v++)
        if (first + v * step < n) raw[v].load(from + first + v * step);
#pragma unroll
    for (uint32_t v = 0; v < N; v++) raw[v].to_floats(x[v]);
}

template <int N>
static __device__ __forceinline__ void load_vectors_any(const void *from, enum kg_precision precision, uint32_t first,
                                                        uint32_t step, uint32_t n, float (&x)[N][KG_VECTOR]) {
    if (precision == KG_PRECISION_F16) load_vectors((const __half *)from, first, step, n, x);
    else load_vectors((const float *)from, first, step, n, x);
}

/* Waits for x; store(i, n[i .. i + 7]) for multiples i of 8 below n_all, zeros from n_in on. All consumers call it.
 * S_LATER: where x is normalised, n = x w, and squares[warp] becomes the sum of the warp's x^2 (inverse_rms_of).
 * A barrier has to follow. */
template <typename B, bool S_LATER, typename Store>
static __device__ __forceinline__ void load_operand(const kg_step_matrix &m, uint32_t n_all, float *squares,
                                                    const Store &store) {
    constexpr int VECTORS = MAX_NORM_COLS / KG_VECTOR / B::CONSUMER_THREADS; /* of a lane, at once */
    constexpr int PLAIN_VECTORS = 2 * VECTORS;
    constexpr uint32_t STEP = B::CONSUMER_THREADS * KG_VECTOR;
    const uint32_t lane_first = threadIdx.x * KG_VECTOR;
    if (m.norm_weight) {
        float weight[VECTORS][KG_VECTOR], x[VECTORS][KG_VECTOR], sum = 0;
        load_vectors(m.norm_weight, lane_first, STEP, m.n_in, weight);
        kg_dependency_wait(); /* x is visible */
        load_vectors_any(m.x, m.x_precision, lane_first, STEP, m.n_in, x);
#pragma unroll
        for (uint32_t v = 0; v < VECTORS; v++) {
            if (lane_first + v * STEP >= m.n_in) continue;
            load_pending(m.pending, m.x_precision, m.n_in, lane_first + v * STEP, x[v]);
            kg_add_squares(sum, x[v]);
        }
        float inverse_rms = 1;
        if constexpr (S_LATER) {
            sum = kg_warp_reduce<kg_sum>(sum);
            if (threadIdx.x % WARP == 0) squares[threadIdx.x / WARP] = sum;
        } else {
            inverse_rms = kg_inverse_rms(sum_of_all<B>(sum, squares), m.n_in, m.eps);
        }
#pragma unroll
        for (uint32_t v = 0; v < VECTORS; v++) {
            const uint32_t i = lane_first + v * STEP;
            if (i < m.n_in) kg_normalise(x[v], inverse_rms, weight[v]);
            if (i < n_all) store(i, x[v]);
        }
    } else {
        kg_dependency_wait(); /* x is visible */
        for (uint32_t first = lane_first; first < n_all; first += PLAIN_VECTORS * STEP) {
            float x[PLAIN_VECTORS][KG_VECTOR];
            load_vectors_any(m.x, m.x_precision, first, STEP, m.n_in, x);
#pragma unroll
            for (uint32_t v = 0; v < PLAIN_VECTORS; v++)
                if (first + v * STEP < n_all) store(first + v * STEP, x[v]);
        }
    }
}

/* s, from what S_LATER left. */
template <typename B>
static __device__ __forceinline__ float inverse_rms_of(const kg_step_matrix &m, const float *squares) {
    return m.norm_weight ? kg_inverse_rms(sum_of_parts(squares, B::CONSUMERS), m.n_in, m.eps) : 1.0f;
}

} // namespace kg_step_product

#endif
