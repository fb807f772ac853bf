/* swiglu: y = gate / (1 + exp(-gate)) * up (contract in ops/swiglu.h).
 *
 * Float32 with the full-precision expf and division: exp(-gate) is infinite below -88.7, where the quotient becomes -0
 * and the true value is under 2^-120. */
#include "kernels/elementwise.cuh"

struct swiglu_op {
    static __device__ __forceinline__ float of(float gate, float up) {
        return __fdiv_rn(gate, 1.0f + expf(-gate)) * up;
    }
};

extern "C" enum kg_status kg_cuda_swiglu(struct kg_backend *backend, const struct kg_swiglu_args *args,
                                         struct kg_error *err) {
    const enum kg_status status = kg_swiglu_check(args, err);
    if (status) return status;
    if (args->limit != 0 || args->alpha != 1 || args->up_offset != 0)
        return kg_fail(err, KG_ERR_UNSUPPORTED,
                       "swiglu: the cuda back end has no limit %g with alpha %g and up_offset %g, only 0, 1 and 0",
                       (double)args->limit, (double)args->alpha, (double)args->up_offset);
    return kg_elementwise<swiglu_op>(backend, "swiglu", args->activations, args->gate, args->up, args->y,
                                     (size_t)args->n_rows * args->n_cols, err);
}
