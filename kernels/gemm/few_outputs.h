/* Many rows times few outputs' float32 weights, as experts' routers have them, in float32 (sm_90):
 *
 *     y[r][o] = sum_i x[r][i] W[o][i] + bias[o]
 *
 * x (n_rows, n_cols) float16, W (n_out, n_cols) float32, y (n_rows, n_out) float32, all row-major in device memory. A
 * library widens x first, and has products of 32 outputs in three launches.
 *
 * Numerics: float32 products and sums, in an order that depends on the number of columns only. */
#ifndef KIGO_KERNELS_GEMM_FEW_OUTPUTS_H
#define KIGO_KERNELS_GEMM_FEW_OUTPUTS_H

#include "kernels/cuda_backend.h"

/* At most; beyond it the library's tiles read W less often. */
enum { KG_FEW_OUTPUTS = 256 };

/* Whether kg_cuda_few_outputs takes it: such types; columns a multiple of 8, and no more than eight blocks' shared
 * memory has room for (11,520); x and W on 16 bytes; the device is sm_90. */
bool kg_cuda_few_outputs_takes(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args);

/* Enqueues the product. Allocates nothing on the device. */
enum kg_status kg_cuda_few_outputs(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                                   struct kg_error *err);

#endif
