/* Chooses how to multiply by repacked MXFP4 weights: few rows (KG_MXFP4_FEW_ROWS of one matrix, KG_MXFP4_GEMV_MAX_ROWS
 * of experts) by gemv.cu, which reads weights at the speed of memory; more by gemm.cu. */
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/block/precision.cuh"
#include <algorithm>

/* Launches of as many rows as the kernel takes, whole groups of n_sharing. */
static enum kg_status gemv_in_pieces(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                                     struct kg_error *err) {
    const uint32_t most = KG_MXFP4_GEMV_MAX_ROWS / p->n_sharing * p->n_sharing;
    if (most == 0)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "mxfp4: %u rows share a row of x, the cuda back end takes %d",
                       p->n_sharing, KG_MXFP4_GEMV_MAX_ROWS);
    enum kg_status status = KG_OK;
    for (uint32_t first = 0; first < p->n_rows && !status; first += most) {
        struct kg_mxfp4_product piece = *p;
        piece.x += (size_t)(first / p->n_sharing) * p->n_cols;
        piece.ids += p->ids ? first : 0;
        piece.y = static_cast<char *>(p->y) + (size_t)first * p->n_out * (p->y_is_f16 ? sizeof(__half) : sizeof(float));
        piece.n_rows = std::min(most, p->n_rows - first);
        status = kg_mxfp4_gemv(cuda, &piece, err);
    }
    return status;
}

enum kg_status kg_mxfp4_multiply(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                                 struct kg_error *err) {
    if (!kg_vector_aligned(p->x))
        return kg_fail(err, KG_ERR_USAGE, "mxfp4: x is not on %zu bytes", KG_VECTOR_ALIGN_BYTES);
    const bool gemm_can =
        cuda->compute_capability == 90 && p->weight_f16 && kg_vector_aligned(p->y) && (!p->ids || p->workspace);
    const uint32_t few_rows = p->ids ? (uint32_t)KG_MXFP4_GEMV_MAX_ROWS : (uint32_t)KG_MXFP4_FEW_ROWS;
    return gemm_can && p->n_rows > few_rows ? kg_mxfp4_gemm(cuda, p, err) : gemv_in_pieces(cuda, p, err);
}
