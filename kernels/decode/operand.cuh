/* The row n of a product with quantised weights, rmsnorm(x) or x: how the consumer warps of a block (matrix.cuh) load
 * it, and store it as their format's codes want it. */
#ifndef KIGO_KERNELS_DECODE_OPERAND_CUH
#define KIGO_KERNELS_DECODE_OPERAND_CUH

#include "kernels/decode/matrix.cuh"

namespace kg_step_product {

enum { MAX_NORM_COLS = 8192 };

/* Waits for x; store(i, n[i .. i + 7]) for multiples i of 8 below n_all, zeros from n_in on. All consumers call it;
 * what was stored is visible to all on return. */
template <typename B, typename Store>
static __device__ __forceinline__ void load_operand(const kg_step_matrix &m, uint32_t n_all, float *squares,
                                                    const Store &store) {
    constexpr int VECTORS = MAX_NORM_COLS / KG_VECTOR / B::CONSUMER_THREADS; /* of a lane, at once */
    constexpr uint32_t STEP = B::CONSUMER_THREADS * KG_VECTOR;
    const uint32_t lane_first = threadIdx.x * KG_VECTOR;
    if (m.norm_weight) {
        float weight[VECTORS][KG_VECTOR], x[VECTORS][KG_VECTOR] = {}, sum = 0;
#pragma unroll
        for (uint32_t v = 0; v < VECTORS; v++)
            if (lane_first + v * STEP < m.n_in) kg_load_vector(m.norm_weight + lane_first + v * STEP, weight[v]);
        kg_dependency_wait(); /* x is visible */
#pragma unroll
        for (uint32_t v = 0; v < VECTORS; v++)
            if (lane_first + v * STEP < m.n_in) kg_load_vector_any(m.x, m.x_precision, lane_first + v * STEP, x[v]);
#pragma unroll
        for (uint32_t v = 0; v < VECTORS; v++) {
            if (lane_first + v * STEP >= m.n_in) continue;
            load_pending(m.pending, m.x_precision, m.n_in, lane_first + v * STEP, x[v]);
            kg_add_squares(sum, x[v]);
        }
        const float inverse_rms = kg_inverse_rms(sum_of_all<B>(sum, squares), m.n_in, m.eps);
#pragma unroll
        for (uint32_t v = 0; v < VECTORS; v++) {
            const uint32_t i = lane_first + v * STEP;
            if (i < m.n_in) kg_normalise(x[v], inverse_rms, weight[v]);
            if (i < n_all) store(i, x[v]);
        }
    } else {
        kg_dependency_wait(); /* x is visible */
        for (uint32_t first = lane_first; first < n_all; first += VECTORS * STEP) {
            float x[VECTORS][KG_VECTOR] = {};
#pragma unroll
            for (uint32_t v = 0; v < VECTORS; v++)
                if (first + v * STEP < m.n_in) kg_load_vector_any(m.x, m.x_precision, first + v * STEP, x[v]);
#pragma unroll
            for (uint32_t v = 0; v < VECTORS; v++)
                if (first + v * STEP < n_all) store(first + v * STEP, x[v]);
        }
    }
    kg_barrier_sync(CONSUMER_BARRIER, B::CONSUMER_THREADS); /* what was stored is visible */
}

} // namespace kg_step_product

#endif
