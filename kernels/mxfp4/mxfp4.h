/* Products with MXFP4 weights that lie in tiles (tiles.cuh), float16 activations:
 *     y[r][o] = sum_i x[r / n_sharing][i] * W[e][o][i] + bias[e][o],    e = ids[r], or 0 without ids
 *
 * Weights are decoded in registers, where tensor cores take them; sums are float32. */
#ifndef KIGO_KERNELS_MXFP4_MXFP4_H
#define KIGO_KERNELS_MXFP4_MXFP4_H

#include "kernels/cuda_backend.h"

struct kg_mxfp4_product {
    const __half *x;       /* (n_rows / n_sharing, n_cols), on 16 bytes */
    const uint8_t *weight; /* (n_experts, n_out, n_cols) in tiles */
    const float *bias;     /* (n_experts, n_out), NULL for none */
    const int32_t *ids;    /* (n_rows), NULL for one matrix */
    void *y;               /* (n_rows, n_out), on 16 bytes */
    bool y_is_f16;
    uint32_t n_rows, n_out, n_cols, n_experts, n_sharing;
    bool weight_f16; /* kg_mxfp4_range.f16 */
    void *workspace; /* on 256 bytes; used with ids only, and for many rows */
    bool ids_known;  /* the launch before is kg_mxfp4_gemv_gated of the same ids: weights are read before it ends */
};

/* Brings an MXFP4 weight of n_matrices, one below the other, into tiles where it lies, and remembers where that is:
 * kg_cuda_linear, _embedding and _experts_linear look. Leaves alone what is not MXFP4 in whole tiles, is in tiles
 * already or has a scale byte of 0 or 255 in a block that is not zeros, and everything on devices other than compute
 * capability 9.0. Waits for the device to see the scales. */
enum kg_status kg_cuda_repack_weight(struct kg_backend *backend, const struct kg_weight *weight, uint32_t n_matrices,
                                     struct kg_error *err);

/* Memory in tiles. */
struct kg_mxfp4_range {
    const char *begin, *end;
    bool f16; /* scaled weights are float16 (times one power of two), exactly: what kg_mxfp4_gemm needs */
};
/* Where the weight (or rows of it from a multiple of 16 on) is in tiles; NULL: it is not. Valid until the next is
 * arranged or forgotten. */
const struct kg_mxfp4_range *kg_mxfp4_repacked_range(const struct kg_cuda_backend *cuda,
                                                     const struct kg_weight *weight);

/* Memory that is freed holds no tiles any more. */
void kg_mxfp4_drop_ranges(struct kg_cuda_backend *cuda, const void *data, uint64_t size_bytes);

/* Rows of one matrix up to which the product is one of matrix and vectors. */
enum { KG_MXFP4_FEW_ROWS = 16 };

/* Enqueues the product, in the way that suits its rows (multiply.cu). x on 16 bytes, or KG_ERR_USAGE. */
enum kg_status kg_mxfp4_multiply(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                                 struct kg_error *err);

/* Few rows, 1 to KG_MXFP4_GEMV_MAX_ROWS. A row of y is the same bits whatever the other rows are. */
enum { KG_MXFP4_GEMV_MAX_ROWS = 128 };
enum kg_status kg_mxfp4_gemv(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                             struct kg_error *err);

/* y = swiglu(gate, up) of few rows, 1 to KG_MXFP4_OWN_ROWS: gate's product with W and bias, and with up's, as of gate's
 * shape, gated before they are rounded. */
enum { KG_MXFP4_OWN_ROWS = 8 };
enum kg_status kg_mxfp4_gemv_gated(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *gate,
                                   const uint8_t *up, const float *up_bias, const struct kg_swiglu_form *form,
                                   struct kg_error *err);

/* Many rows, y on 16 bytes, p->weight_f16: blocks take M outputs of N rows each (tile: of the enum beside the
 * function), and n_split of them, up to KG_MXFP4_MAX_SPLIT, share the columns as a cluster. Rows as they come or by
 * experts (gemm.cuh), or as they come only (gemm_tensor.cuh), where n_clusters walk over the tiles. */
enum { KG_MXFP4_MAX_SPLIT = 8 };
enum kg_mxfp4_gemm_tile { KG_MXFP4_GEMM_128x64, KG_MXFP4_GEMM_256x64, KG_MXFP4_GEMM_192x128, KG_MXFP4_GEMM_256x128 };
enum kg_status kg_mxfp4_gemm(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, int tile,
                             uint32_t n_split, uint32_t n_clusters, struct kg_error *err);
enum kg_mxfp4_tensor_tile {
    KG_MXFP4_TENSOR_64x64,
    KG_MXFP4_TENSOR_128x64,
    KG_MXFP4_TENSOR_192x128,
    KG_MXFP4_TENSOR_128x128,
    KG_MXFP4_TENSOR_128x256
};
enum kg_status kg_mxfp4_tensor(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, int tile,
                               uint32_t n_split, uint32_t n_clusters, struct kg_error *err);

/* Clusters of n_split times as many blocks as one takes that the device runs at the same time. They ask the driver. */
uint32_t kg_mxfp4_gemm_clusters(int tile, uint32_t n_split);
uint32_t kg_mxfp4_tensor_clusters(int tile, uint32_t n_split);

/* Of p->workspace, where kg_mxfp4_gemm is called with ids. */
uint64_t kg_mxfp4_gemm_workspace_bytes(uint32_t n_rows, uint32_t n_experts);

#endif
