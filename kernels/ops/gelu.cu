/* gelu: y = x Phi(x), in the tanh or the erf form (contract in ops/gelu.h).
 *
 * Float32 with the full-precision expf and division. tanh as x / (1 + exp(-2u)): the exponential is infinite below
 * x = -8.6, where the quotient becomes -0 and the true value is under 2^-120. erf by normcdff, within five units in the
 * last place over its whole range. */
#include "kernels/block/elementwise.cuh"
#include "kernels/preload.h"

KG_PRELOADED(ops_gelu, KG_SOME_PROMPTS)

struct gelu_tanh_op {
    __device__ __forceinline__ float operator()(float x) const {
        const float twice_u = x * (1.5957691216057308f + 0.07135481627159652f * (x * x));
        return __fdiv_rn(x, 1.0f + expf(-twice_u));
    }
};

struct gelu_erf_op {
    __device__ __forceinline__ float operator()(float x) const {
        return x * normcdff(x);
    }
};

extern "C" enum kg_status kg_cuda_gelu(struct kg_backend *backend, const struct kg_gelu_args *args,
                                       struct kg_error *err) {
    const enum kg_status status = kg_gelu_check(args, err);
    if (status) return status;
    const size_t n = (size_t)args->n_rows * args->n_cols;
    if (args->form == KG_GELU_TANH)
        return kg_elementwise(backend, "gelu", gelu_tanh_op(), args->activations, args->x, NULL, args->y, n, err);
    return kg_elementwise(backend, "gelu", gelu_erf_op(), args->activations, args->x, NULL, args->y, n, err);
}
