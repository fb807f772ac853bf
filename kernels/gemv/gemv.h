/* The linear map for few rows, W in any format, decoded in registers:
 *     y[r][o] = sum_i x[r / n_sharing][i] * W[e][o][i] + bias[e][o],    e = ids[r], or 0 without ids
 *
 * A row whose id is no expert's is not written: the caller is to refuse it. */
#ifndef KIGO_KERNELS_GEMV_GEMV_H
#define KIGO_KERNELS_GEMV_GEMV_H

#include "kernels/cuda_backend.h"

enum { KG_GEMV_MAX_ROWS = 65535 * 4 }; /* without ids */

/* Enqueues the product; `what` names the operation. Block formats need x on 16 bytes, or KG_ERR_USAGE. */
enum kg_status kg_cuda_gemv(const struct kg_cuda_backend *cuda, const struct kg_experts_linear_args *a,
                            bool is_repacked, const char *what, struct kg_error *err);

#endif
