/* 9 to 128 rows times float16 weights, by an own tensor core kernel (sm_90a), with what a decoder layer does to the
 * product in its epilogue:
 *
 *     PLAIN     y_p[r][o] = s_p[r][o]                    up to three matrices of one x, each to its own y_p: q, k, v
 *     RESIDUAL  y[r][o] = y[r][o] + s[r][o]
 *     SWIGLU    y[r][o] = swiglu(s_0[r][o], s_1[r][o])   of gates and ups (block/swiglu.cuh)
 *     GEGLU     the same with gelu's gate
 *
 *     s_p[r][o] = sum_i x[r][i] W_p[o][i] + bias_p[o]
 *
 * x (n_rows, n_cols) float16, W_p (n_out_p, n_cols) float16, y_p (n_rows, n_out_p) float16 or float32, all row-major in
 * device memory; y may not overlap x and W. So few rows are bound by the bytes of W; and the first token of a short
 * prompt does not wait for the library to load its kernels, which takes a tenth of a second and more.
 *
 * Numerics: products are exact; sums are float32, in an order that depends on shapes and the device only, not on the
 * other rows; s, the sum with the residual and the gated value are float32, and y is rounded once. */
#ifndef KIGO_KERNELS_GEMM_FEW_ROWS_H
#define KIGO_KERNELS_GEMM_FEW_ROWS_H

#include "kernels/block/swiglu.cuh"
#include "kernels/cuda_backend.h"

enum { KG_FEW_ROWS = 128, KG_FEW_ROWS_PARTS = 3 };
enum kg_few_rows_form { KG_FEW_ROWS_PLAIN, KG_FEW_ROWS_RESIDUAL, KG_FEW_ROWS_SWIGLU, KG_FEW_ROWS_GEGLU };

struct kg_few_rows_product {
    enum kg_few_rows_form form;
    const void *x;
    uint32_t n_rows, n_cols;
    uint32_t n_parts; /* matrices; RESIDUAL: 1; SWIGLU and GEGLU: 2, of as many outputs */
    struct {
        const void *w;
        const float *bias; /* NULL for none */
        void *y;           /* of gates and ups the first's */
        uint32_t n_out;
    } part[KG_FEW_ROWS_PARTS];
    enum kg_precision output;
    struct kg_swiglu_op gate; /* SWIGLU */
    struct kg_geglu_op gelu;  /* GEGLU */
};

/* Whether kg_cuda_few_rows takes it: 1 to 128 rows, more than 32 of matrices of together at most 64 MB; columns a
 * multiple of 8; x, W and y on 16 bytes; the device is sm_90. Of larger matrices the library's kernels are faster. */
bool kg_cuda_few_rows_takes(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p);

/* Enqueues the product. Allocates nothing on the device. */
enum kg_status kg_cuda_few_rows(const struct kg_cuda_backend *cuda, const struct kg_few_rows_product *p,
                                struct kg_error *err);

#endif
