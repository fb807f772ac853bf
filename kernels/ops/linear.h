/* What fusions of many rows use of linear beside its entry in the back end's table (linear.cu). */
#ifndef KIGO_KERNELS_OPS_LINEAR_H
#define KIGO_KERNELS_OPS_LINEAR_H

#include "kernels/cuda_backend.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/mxfp4/mxfp4.h"

/* The product of one x with the n matrices of `args` (of one number of rows and one x), PLAIN: whether all are float16
 * and there are more rows than a matrix-vector product has; and whether it is one that gemm/few_rows.h takes. */
bool kg_cuda_linear_plain_product(const struct kg_linear_args *args, uint32_t n, struct kg_few_rows_product *product);
bool kg_cuda_linear_few_rows(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, uint32_t n,
                             struct kg_few_rows_product *product);

/* The products of one x with the n matrices of `args`, which differ in weight, bias and y alone: together where few
 * rows are, or where neighbours lie as gemm.h wants them; else one after the other. */
enum kg_status kg_cuda_linear_each(struct kg_cuda_backend *cuda, const struct kg_linear_args *args, uint32_t n,
                                   struct kg_error *err);

/* Whether there are more rows, and more of W, than a matrix-vector product has. */
bool kg_cuda_linear_many_rows(const struct kg_linear_args *args);

/* The product by a repacked W: whether mxfp4/gemm.cu takes it. */
bool kg_cuda_linear_repacked(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                             struct kg_mxfp4_product *product);

/* y += x W^T + bias: whether there is a kernel for it (float16 W and x, or float32 W and x, with a bias only where
 * there are few rows or y is float32; a repacked W and more than few rows; a block format that gemm/blocks.h takes;
 * more than the rows of a matrix-vector product), and its launch. y is rounded once, unless the library does not add
 * the bias or W is repacked. */
bool kg_cuda_linear_adds(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args);
enum kg_status kg_cuda_linear_residual(struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                                       struct kg_error *err);

/* Whether a bias costs one more launch, which a product of float32 without one does not: float16 W and x, and more
 * rows than few. */
bool kg_cuda_linear_finishes(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args);

/* A part of args->workspace that the product of float16 W and x leaves alone, and its bytes. */
void *kg_cuda_linear_free_space(const struct kg_linear_args *args, uint64_t *size_bytes);

#endif
