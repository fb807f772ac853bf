/* Many rows times weights of a block format: y[r][o] = sum_i x[r][i] W[o][i] + bias[o], by tensor cores, W decoded on
 * the way (sm_90a).
 *
 * x (n_rows, n_cols) float16, W (n_out, n_cols) in Q4_0, Q5_0, Q8_0, Q4_K, Q5_K or Q6_K as in a file, y (n_rows,
 * n_out), all row-major in device memory.
 *
 * Numerics: an element of W is rounded to float16, as for the library's product (ops/linear.cu); of Q4_K and Q5_K,
 * step code - low is one float32 fma with 128 step + low, which is rounded to 2^-24 of itself. Products are exact;
 * sums are float32, in an order that depends on shapes and the device only, not on the other rows. */
#ifndef KIGO_KERNELS_GEMM_BLOCKS_H
#define KIGO_KERNELS_GEMM_BLOCKS_H

#include "kernels/cuda_backend.h"

/* Whether kg_cuda_block_gemm takes it: x is float16, and it and y on 16 bytes, as W is; at most 1,024 rows, as for more
 * decoding W once and the library are faster; W has 8 to 8,388,480 rows of whole 64 columns; the device is sm_90. */
bool kg_cuda_block_gemm_takes(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args);

/* Enqueues the product; where `adds`, y += in place of y =: one rounding, of the float32 sum with y. Allocates nothing
 * on the device. */
enum kg_status kg_cuda_block_gemm(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, bool adds,
                                  struct kg_error *err);

#endif
