/* swiglu: y = g / (1 + exp(-alpha (g + cubic g^3))) * (u + up_offset), g and u clamped (contract in ops/swiglu.h,
 * numerics in swiglu.cuh). */
#include "kernels/block/elementwise.cuh"
#include "kernels/block/swiglu.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_swiglu, KG_FIRST_TOKEN)

extern "C" enum kg_status kg_cuda_swiglu(struct kg_backend *backend, const struct kg_swiglu_args *args,
                                         struct kg_error *err) {
    const enum kg_status status = kg_swiglu_check(args, err);
    if (status) return status;
    const size_t n = (size_t)args->n_rows * args->n_cols;
    if (args->cubic > 0)
        return kg_elementwise(backend, "swiglu", kg_geglu_op{ args->alpha, args->cubic, args->up_offset },
                              args->activations, args->gate, args->up, args->y, n, err);
    return kg_elementwise(backend, "swiglu", kg_swiglu_op_of(args->limit, args->alpha, args->up_offset),
                          args->activations, args->gate, args->up, args->y, n, err);
}
