/* Many rows through gate, up and activation in one launch, by an own tensor core kernel (sm_90a):
 *
 *     y[r][o] = act(s_0[r][o], s_1[r][o])      swiglu or geglu (block/swiglu.cuh)
 *     s_p[r][o] = sum_i x[r][i] W_p[o][i] + bias_p[o]
 *
 * x (n_rows, n_cols), W_p (n_out, n_cols), y (n_rows, n_out), all float16 and row-major in device memory; y may not
 * overlap x and W. Gates and ups never leave registers: two products and an element-wise launch write and read them.
 *
 * Numerics: products are exact; sums are float32 in an order that depends on the shape only, gates, ups and the gated
 * value float32, and y is rounded once. */
#ifndef KIGO_KERNELS_GEMM_GATED_H
#define KIGO_KERNELS_GEMM_GATED_H

#include "kernels/gemm/few_rows.h"

/* Whether kg_cuda_gated takes it: the form is SWIGLU or GEGLU; columns a multiple of 8; y float16; x, W and y on 16
 * bytes; the device is sm_90. And not where the library's products and the activation are faster, by times that were
 * measured on an H200. */
bool kg_cuda_gated_takes(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p);

/* Enqueues the product. Allocates nothing on the device. */
enum kg_status kg_cuda_gated(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                             struct kg_error *err);

#endif
