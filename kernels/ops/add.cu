/* add: y = a + b (contract in ops/add.h). One float32 addition, rounded once to the activations' precision. */
#include "kernels/block/elementwise.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_add, KG_FIRST_TOKEN)

struct add_op {
    __device__ __forceinline__ float operator()(float a, float b) const {
        return a + b;
    }
};

extern "C" enum kg_status kg_cuda_add(struct kg_backend *backend, const struct kg_add_args *args,
                                      struct kg_error *err) {
    const enum kg_status status = kg_add_check(args, err);
    if (status) return status;
    return kg_elementwise(backend, "add", add_op(), args->activations, args->a, args->b, args->y,
                          (size_t)args->n_rows * args->n_cols, err);
}
