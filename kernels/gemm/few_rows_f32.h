/* 9 to 32 rows of float32 times weights of any format, in float32 on the CUDA cores:
 *
 *     y[r][o] = sum_i x[r][i] W[o][i] + bias[o], or y[r][o] + that
 *
 * x (n_rows, n_cols) float32, W (n_out, n_cols) decoded to float32 on its way, y (n_rows, n_out) float32, all row-major
 * in device memory; y may not overlap x and W. The first token of a short prompt does not wait for the library to load
 * its kernels, and no tile of W goes through memory as float32.
 *
 * Numerics: float32 products and sums, in an order that depends on n_out, n_cols and the device only, not on the other
 * rows: a block's columns in order, then the blocks of a cluster in order, then bias, then y. */
#ifndef KIGO_KERNELS_GEMM_FEW_ROWS_F32_H
#define KIGO_KERNELS_GEMM_FEW_ROWS_F32_H

#include "kernels/cuda_backend.h"

enum { KG_FEW_ROWS_F32 = 32 };

/* Whether kg_cuda_few_rows_f32 takes it: x and y in float32, at most 32 rows; x on 16 bytes, unless W is F32, F16 or
 * BF16. */
bool kg_cuda_few_rows_f32_takes(const struct kg_linear_args *args);

/* Enqueues the product; `adds`: to y. Allocates nothing on the device. */
enum kg_status kg_cuda_few_rows_f32(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                                    bool is_repacked, bool adds, struct kg_error *err);

#endif
