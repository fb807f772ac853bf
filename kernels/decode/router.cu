/* The norm before a fused step's experts, and their choice, in one launch (launches.h):
 *
 *     y = rmsnorm(x),   logits = y W^T + bias,   ids and weights of the largest logits as in block/router.cuh
 *
 * x (n_in) of the residual's precision, W (n_experts, n_in) of F16 or F32, row-major.
 *
 * Numerics: as ops/rmsnorm.cu and gemv/gemv.cuh. y is rounded before it is multiplied; float32 sums: a lane's chunks of
 * 8 in order, lanes by a butterfly, a row's 2 warps in order, the bias.
 *
 * Map: one cluster of 8 blocks of 8 warps. Each block normalises the row for itself and has every eighth expert, four
 * at a time. A lane loads its first chunks of W before the dependency wait (ptx/dependent.cuh). The first block
 * receives all logits in its shared memory, and chooses. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/rmsnorm.cuh"
#include "kernels/block/router.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/cluster.cuh"
#include "kernels/decode/operand.cuh"

extern "C" {
#include "ops/router.h"

KG_PRELOADED(decode_router, KG_NEXT_TOKENS)
}

constexpr uint32_t CLUSTER = 8, N_WARPS = 8, THREADS = N_WARPS * KG_WARP, PARTS = 2, AT_ONCE = N_WARPS / PARTS;
constexpr uint32_t BOUND = 576; /* registers as for so many threads: the launch before this one has the others */
constexpr uint32_t STEP = PARTS * KG_WARP * KG_VECTOR, PRELOADED = 6, VECTORS = 2;

/* Waits for x; the normalised row, rounded to y's precision, to `row`; the block's share of it to y. */
static __device__ __forceinline__ void normalise(const kg_step_router &p, float *row, float *sums, uint32_t rank) {
    float weight[VECTORS][KG_VECTOR], x[VECTORS][KG_VECTOR], squares = 0;
    const auto at = [&](uint32_t v) { return (threadIdx.x + v * THREADS) * KG_VECTOR; };
#pragma unroll
    for (uint32_t v = 0; v < VECTORS; v++)
        if (at(v) < p.n_in) kg_load_vector(p.norm_weight + at(v), weight[v]);
    kg_dependency_wait(); /* x is visible; nothing reads y, ids and weights any more */
    kg_step_product::load_vectors_any(p.x, p.x_precision, at(0), THREADS * KG_VECTOR, p.n_in, x);
#pragma unroll
    for (uint32_t v = 0; v < VECTORS; v++) kg_add_squares(squares, x[v]);
    const float inverse_rms = kg_inverse_rms(kg_block_reduce<kg_sum>(squares, sums), p.n_in, p.eps);
#pragma unroll
    for (uint32_t v = 0; v < VECTORS; v++) {
        if (at(v) >= p.n_in) continue;
#pragma unroll
        for (int j = 0; j < KG_VECTOR; j++) {
            x[v][j] = x[v][j] * inverse_rms * weight[v][j];
            if (p.y_precision == KG_PRECISION_F16) x[v][j] = __half2float(__float2half_rn(x[v][j]));
        }
        kg_store_vector(row + at(v), x[v]);
        if (at(v) / KG_VECTOR % CLUSTER != rank) continue;
        if (p.y_precision == KG_PRECISION_F16) kg_store_vector(static_cast<__half *>(p.y) + at(v), x[v]);
        else kg_store_vector(static_cast<float *>(p.y) + at(v), x[v]);
    }
}

template <typename W> static __global__ void __launch_bounds__(BOUND, 1) step_router_kernel(const kg_step_router p) {
    extern __shared__ __align__(16) float row[];
    __shared__ float sums[KG_MAX_WARPS], partial[2][N_WARPS], logits[KG_ROUTER_MAX_EXPERTS];
    const uint32_t rank = kg_cluster_rank(), warp = threadIdx.x / KG_WARP, lane = threadIdx.x % KG_WARP;
    const uint32_t part = warp % PARTS, first = (part * KG_WARP + lane) * KG_VECTOR;
    const auto expert_of = [&](uint32_t round) { return rank + CLUSTER * (round * AT_ONCE + warp / PARTS); };
    const auto weight_of = [&](uint32_t expert) {
        return static_cast<const W *>(p.weight) + (size_t)min(expert, p.n_experts - 1) * p.n_in;
    };
    kg_raw_vector<W> raw[PRELOADED];
#pragma unroll
    for (uint32_t k = 0; k < PRELOADED; k++)
        if (first + k * STEP < p.n_in) raw[k].load(weight_of(expert_of(0)) + first + k * STEP);
    kg_dependents_start();
    kg_cluster_arrive();
    normalise(p, row, sums, rank);
    kg_cluster_wait(); /* all blocks run, so their shared memory may be written */
    __syncthreads();   /* the row is visible */
    const uint32_t n_rounds = (p.n_experts + CLUSTER * AT_ONCE - 1) / (CLUSTER * AT_ONCE);
    for (uint32_t round = 0; round < n_rounds; round++) {
        const uint32_t expert = expert_of(round);
        float sum = 0;
        const auto add = [&](const kg_raw_vector<W> &chunk, uint32_t i) {
            float w[KG_VECTOR], x[KG_VECTOR];
            chunk.to_floats(w);
            kg_load_vector(row + i, x);
#pragma unroll
            for (int j = 0; j < KG_VECTOR; j++) sum = fmaf(x[j], w[j], sum);
        };
        uint32_t i = first;
        if (round == 0) {
#pragma unroll
            for (uint32_t k = 0; k < PRELOADED; k++, i += STEP)
                if (i < p.n_in) add(raw[k], i);
        }
        for (; i < p.n_in; i += STEP) {
            kg_raw_vector<W> next;
            next.load(weight_of(expert) + i);
            add(next, i);
        }
        sum = kg_warp_reduce<kg_sum>(sum);
        if (lane == 0) partial[round % 2][warp] = sum;
        __syncthreads(); /* all parts are visible; those of the round before last are read */
        if (part == 0 && lane == 0 && expert < p.n_experts) {
#pragma unroll
            for (uint32_t k = 1; k < PARTS; k++) sum += partial[round % 2][warp + k];
            if (p.bias) sum += p.bias[expert];
            kg_store_peer(kg_peer_address(&logits[expert], 0), sum);
        }
    }
    __syncwarp();
    kg_cluster_arrive();
    kg_cluster_wait(); /* the first block has all logits */
    if (rank == 0 && warp == 0) kg_route_row(logits, p.n_experts, p.n_used, p.ids, p.weights);
}

bool kg_step_router_fits(const struct kg_cuda_backend *cuda, const struct kg_weight *weight) {
    const uint32_t most_in = THREADS * VECTORS * KG_VECTOR;
    return cuda->compute_capability >= 90 && (weight->dtype == KG_DTYPE_F16 || weight->dtype == KG_DTYPE_F32) &&
           weight->n_cols % KG_VECTOR == 0 && kg_vector_aligned(weight->data) && weight->n_cols <= most_in;
}

enum kg_status kg_step_route(const struct kg_cuda_backend *cuda, const struct kg_step_router *r, struct kg_error *err) {
    return kg_launch_dependent(
        cuda, r->weight_dtype == KG_DTYPE_F16 ? step_router_kernel<__half> : step_router_kernel<float>, dim3(CLUSTER),
        THREADS, *r, "decode step: router", err, r->n_in * sizeof(float), CLUSTER);
}
