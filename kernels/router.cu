/* router: the experts of the k largest logits of a row, and a softmax over them (contract in ops/router.h).
 *
 * logits (n_rows, n_experts), ids and weights (n_rows, k). A warp has a row; its lanes look at experts lane, lane + 32, ...
 * k times for the first of those that come after the one found before, by logit, then by number: an order that needs no
 * list of those taken. Largest logits first, so that exponentials are at most 1; their sum is float32, lane by lane in
 * order, then by a butterfly. A NaN counts as -inf in the order; it or an infinity makes the row's weights NaN. */
#include "kernels/precision.cuh"
#include "kernels/reduce.cuh"
#include <math_constants.h>

constexpr int ROWS_PER_BLOCK = 4, THREADS = ROWS_PER_BLOCK * KG_WARP;

struct candidate {
    float logit;
    uint32_t expert;
};

/* Whether a comes before b; an expert is before none that is itself. */
static __device__ __forceinline__ bool is_before(const candidate &a, const candidate &b) {
    return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

/* The first of the row after `last`; of all, if there is none yet. Every lane gets it. */
static __device__ __forceinline__ candidate first_after(const float *logits, uint32_t n_experts, bool has_last,
                                                        const candidate &last) {
    candidate best = { -CUDART_INF_F, UINT32_MAX };
    for (uint32_t e = threadIdx.x % KG_WARP; e < n_experts; e += KG_WARP) {
        const candidate c = { isnan(logits[e]) ? -CUDART_INF_F : logits[e], e };
        if ((!has_last || is_before(last, c)) && is_before(c, best)) best = c;
    }
#pragma unroll
    for (int apart = KG_WARP / 2; apart > 0; apart /= 2) {
        const candidate other = { __shfl_xor_sync(0xFFFFFFFF, best.logit, apart),
                                  __shfl_xor_sync(0xFFFFFFFF, best.expert, apart) };
        if (is_before(other, best)) best = other;
    }
    return best;
}

static __global__ void __launch_bounds__(THREADS) router_kernel(const struct kg_router_args p) {
    const uint32_t lane = threadIdx.x % KG_WARP, row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / KG_WARP;
    if (row >= p.n_rows) return; /* the whole warp */
    const float *logits = p.logits + (size_t)row * p.n_experts;
    int32_t *ids = p.ids + (size_t)row * p.n_used;
    float *weights = p.weights + (size_t)row * p.n_used;

    bool finite = true;
    for (uint32_t e = lane; e < p.n_experts; e += KG_WARP) finite = finite && isfinite(logits[e]);
    finite = __all_sync(0xFFFFFFFF, finite);

    candidate last = {};
    float largest = 0;
    for (uint32_t j = 0; j < p.n_used; j++) {
        last = first_after(logits, p.n_experts, j > 0, last);
        if (j == 0) largest = last.logit;
        if (lane == 0) ids[j] = (int32_t)last.expert;
    }
    __syncwarp(); /* the ids are written */
    float sum = 0;
    for (uint32_t j = lane; j < p.n_used; j += KG_WARP) sum += expf(logits[ids[j]] - largest);
    sum = kg_warp_reduce<kg_sum>(sum);
    for (uint32_t j = lane; j < p.n_used; j += KG_WARP)
        weights[j] = finite ? __fdiv_rn(expf(logits[ids[j]] - largest), sum) : CUDART_NAN_F;
}

extern "C" enum kg_status kg_cuda_router(struct kg_backend *backend, const struct kg_router_args *args,
                                         struct kg_error *err) {
    const enum kg_status status = kg_router_check(args, err);
    if (status || args->n_rows == 0) return status;
    router_kernel<<<kg_blocks_for(args->n_rows, ROWS_PER_BLOCK), THREADS, 0, kg_cuda_of(backend)->stream>>>(*args);
    return kg_cuda_launched(err, "router");
}
