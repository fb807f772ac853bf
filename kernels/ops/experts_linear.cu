/* experts_linear on the GPU (contract in ops/experts_linear.h): y[r] = x[r / n_sharing] W[e]^T + bias[e], e = ids[r].
 *
 * Repacked MXFP4 by f16 x: mxfp4/mxfp4.h. Else each row of y is a separate matrix-vector product (gemv/gemv.h): any
 * format, as exact, but a weight is read again for each row that has its expert. */
#include "kernels/gemv/gemv.h"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/block/dequant.cuh"
#include "kernels/block/precision.cuh"
#include <climits>

extern "C" enum kg_status kg_cuda_experts_linear(struct kg_backend *backend, const struct kg_experts_linear_args *args,
                                                 struct kg_error *err) {
    enum kg_status status = kg_experts_linear_check(args, err);
    if (!status) status = kg_cuda_require_float("experts_linear", "activations", args->activations, err);
    if (status || args->n_rows == 0) return status;
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    if (args->weight.n_cols > INT_MAX - kg_dequant::CHUNK)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "experts_linear: %u columns are too many for the cuda back end",
                       args->weight.n_cols);
    const struct kg_mxfp4_range *repacked = kg_mxfp4_repacked_range(cuda, &args->weight);
    if (!repacked || args->activations != KG_PRECISION_F16)
        return kg_cuda_gemv(cuda, args, repacked != NULL, "experts_linear", err);
    const struct kg_mxfp4_product p = kg_mxfp4_product_of(args, repacked);
    return kg_mxfp4_multiply(cuda, &p, err);
}
