/* Products of float16 activations and repacked MXFP4 weights (layout.cuh):
 *     y[r][o] = sum_i x[r / n_sharing][i] * W[e][o][i] + bias[e][o],    e = ids[r], or 0 without ids
 *
 * Weights are decoded in registers, as operands of tensor cores; sums are float32. */
#ifndef KIGO_KERNELS_MXFP4_MXFP4_H
#define KIGO_KERNELS_MXFP4_MXFP4_H

#include "kernels/cuda_backend.h"

struct kg_mxfp4_product {
    const __half *x;       /* (n_rows / n_sharing, n_cols), on 16 bytes */
    const uint8_t *weight; /* (n_experts, n_out, n_cols), repacked */
    const float *bias;     /* (n_experts, n_out), NULL for none */
    const int32_t *ids;    /* (n_rows), NULL for one matrix */
    void *y;               /* (n_rows, n_out), on 16 bytes */
    bool y_is_f16;
    uint32_t n_rows, n_out, n_cols, n_experts, n_sharing;
    bool weight_f16; /* kg_mxfp4_range.f16 */
    bool adds; /* y += in place of y =, by kg_mxfp4_gemm without ids. A float16 y is rounded as by a product and an
                  add: twice */
    void *workspace; /* on 256 bytes; used with ids only, and for many rows */
    bool ids_known; /* the launch before is kg_mxfp4_gemv_gated with the same ids: this one reads weights while that one
                       runs */
};

/* Repacks an MXFP4 weight of n_matrices, one below the other, in place, and adds it to the back end's list:
 * kg_cuda_linear, _embedding and _experts_linear look there. Does nothing for other formats, for matrices that are not
 * whole groups and tiles, for what is repacked already, for scale bytes of 0 or 255 in a block that is not zeros, and
 * on devices other than compute capability 9.0. Synchronises with the device, to read the scales. */
enum kg_status kg_cuda_repack_weight(struct kg_backend *backend, const struct kg_weight *weight, uint32_t n_matrices,
                                     struct kg_error *err);

/* Memory that holds repacked weights. */
struct kg_mxfp4_range {
    const char *begin, *end;
    bool f16; /* scaled weights are float16 (times one power of two), exactly: what kernels for many rows need */
};
/* The range that holds the weight, or rows of it from a multiple of 16 on; NULL: it is not repacked. Valid until the
 * list changes. */
const struct kg_mxfp4_range *kg_mxfp4_repacked_range(const struct kg_cuda_backend *cuda,
                                                     const struct kg_weight *weight);

/* The product of f16 activations by a repacked weight. */
static inline struct kg_mxfp4_product kg_mxfp4_product_of(const struct kg_experts_linear_args *a,
                                                          const struct kg_mxfp4_range *repacked) {
    struct kg_mxfp4_product p = {};
    p.x = static_cast<const __half *>(a->x);
    p.weight = static_cast<const uint8_t *>(a->weight.data);
    p.bias = a->bias;
    p.ids = a->ids;
    p.y = a->y;
    p.y_is_f16 = !a->wide_output;
    p.n_rows = a->n_rows;
    p.n_out = a->weight.n_rows / a->n_experts;
    p.n_cols = a->weight.n_cols;
    p.n_experts = a->n_experts;
    p.n_sharing = a->n_sharing;
    p.weight_f16 = repacked->f16;
    p.workspace = a->workspace;
    return p;
}

/* Removes the ranges that begin in memory that is freed or overwritten. */
void kg_mxfp4_drop_ranges(struct kg_cuda_backend *cuda, const void *data, uint64_t size_bytes);

/* Up to so many rows of one matrix the product is limited by reading the weights. */
enum { KG_MXFP4_FEW_ROWS = 16 };

/* Enqueues the product by the fastest kernel for its rows (gemv.cu). x on 16 bytes, or KG_ERR_USAGE. */
enum kg_status kg_mxfp4_multiply(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                                 struct kg_error *err);

/* Few rows, 1 to KG_MXFP4_GEMV_MAX_ROWS. A row of y has the same bits whatever the other rows are. */
enum { KG_MXFP4_GEMV_MAX_ROWS = 128 };
enum kg_status kg_mxfp4_gemv(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                             struct kg_error *err);

/* y = swiglu(gate, up) of few rows, 1 to KG_MXFP4_OWN_ROWS. gate describes the first product; up has the same shape.
 * Both stay float32 until they are gated. */
enum { KG_MXFP4_OWN_ROWS = 8 };
enum kg_status kg_mxfp4_gemv_gated(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *gate,
                                   const uint8_t *up, const float *up_bias, const struct kg_swiglu_form *form,
                                   struct kg_error *err);

/* Many rows, if it takes them: x and y on 16 bytes, p->weight_f16, on compute capability 9.0. */
bool kg_mxfp4_gemm_takes(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p);
enum kg_status kg_mxfp4_gemm(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                             struct kg_error *err);

/* Many rows through gate, up and activation in one launch:
 *     y[r][o] = act(x[r] Wgate^T + bgate, x[r] Wup^T + bup),    act: swiglu, or geglu where the form is cubic
 * Gate and up stay float32 until they are gated. `gate` describes the first product and y, of float16; up has its
 * shape. takes: kg_mxfp4_gemm does, there are no ids, and two products and a launch of the activation are estimated to
 * be no faster. */
struct kg_mxfp4_gated {
    struct kg_mxfp4_product gate;
    const uint8_t *up;
    const float *up_bias;
    struct kg_swiglu_form form;
};
bool kg_mxfp4_gated_takes(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *gate);
enum kg_status kg_mxfp4_gemm_gated(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_gated *p,
                                   struct kg_error *err);

/* Bytes of p->workspace for many rows with ids. */
uint64_t kg_mxfp4_gemm_workspace_bytes(uint32_t n_rows, uint32_t n_experts);

/* Experts of many rows in one pass over their weights (experts.cu), on compute capability 9.0:
 *     h[r] = swiglu(x[r / n_sharing] Wgate[e]^T + bgate[e], x[r / n_sharing] Wup[e]^T + bup[e]),
 *     y[r] = h[r] Wdown[e]^T + bdown[e],    e = ids[r]
 * Gate and up stay float32 until they are gated. `gate` and `down` describe their products, of the same rows and ids,
 * each weight_f16; up is as gate. gate.y, (n_rows, n_out) of float16, is overwritten: by h, sorted by expert. */
struct kg_mxfp4_experts {
    struct kg_mxfp4_product gate, down;
    const uint8_t *up;
    const float *up_bias;
    struct kg_swiglu_form form; /* cubic 0 */
};
/* Whether the kernel has so many: rows are those of y. */
bool kg_mxfp4_experts_take(uint32_t n_rows, uint32_t n_experts);
enum kg_status kg_mxfp4_run_experts(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_experts *p,
                                    struct kg_error *err);
/* Bytes of p->gate.workspace, which is on 256 bytes. n_embd: columns of x; n_ff: of h. */
uint64_t kg_mxfp4_experts_workspace_bytes(uint32_t n_rows, uint32_t n_experts, uint32_t n_embd, uint32_t n_ff);

#endif
