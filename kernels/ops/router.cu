/* router: the experts of the k largest logits of a row, and a softmax over them (contract in ops/router.h). logits
 * (n_rows, n_experts), ids and weights (n_rows, k). A warp has a row: router.cuh. */
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/router.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_router, KG_SOME_PROMPTS)

constexpr int ROWS_PER_BLOCK = 4, THREADS = ROWS_PER_BLOCK * KG_WARP;

static __global__ void __launch_bounds__(THREADS) router_kernel(const struct kg_router_args p) {
    const uint32_t row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / KG_WARP;
    kg_dependents_start();
    kg_dependency_wait();        /* logits are visible; nothing reads ids and weights any more */
    if (row >= p.n_rows) return; /* the whole warp */
    kg_route_row(p.logits + (size_t)row * p.n_experts, p.n_experts, p.n_used, p.ids + (size_t)row * p.n_used,
                 p.weights + (size_t)row * p.n_used);
}

extern "C" enum kg_status kg_cuda_router(struct kg_backend *backend, const struct kg_router_args *args,
                                         struct kg_error *err) {
    const enum kg_status status = kg_router_check(args, err);
    if (status || args->n_rows == 0) return status;
    return kg_launch_dependent(kg_cuda_of(backend), router_kernel, dim3(kg_blocks_for(args->n_rows, ROWS_PER_BLOCK)),
                               THREADS, *args, "router", err);
}
