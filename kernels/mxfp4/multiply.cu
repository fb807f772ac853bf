/* Chooses the kernel of a product with repacked MXFP4 weights.
 *
 * Few rows (KG_MXFP4_FEW_ROWS of one matrix, KG_MXFP4_GEMV_MAX_ROWS of experts): gemv.cuh, which reads weights at the
 * speed of memory. Else the kernel of gemm.cuh or gemm_tma.cuh, with the split of the columns, whose estimated time is
 * the shortest. The choice depends on shapes and the device only. */
#include "kernels/mxfp4/mxfp4.h"
#include <algorithm>

enum { TILE_COLS = 64, VECTOR_BYTES = 16 };

static_assert(KG_MXFP4_GEMMS + KG_MXFP4_GEMMS_TMA == KG_MXFP4_MAX_KERNELS, "the back end has clusters of each");

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

static enum kg_status gemm(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t n_matrices,
                           struct kg_error *err) {
    const uint64_t steps = p->n_cols / TILE_COLS;
    const bool rows_apart = p->ids || p->n_sharing > 1;
    const struct kg_mxfp4_gemm *best = NULL;
    uint32_t best_split = 1, best_clusters = 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < KG_MXFP4_MAX_KERNELS; i++) {
        const struct kg_mxfp4_gemm *k =
            i < KG_MXFP4_GEMMS ? &kg_mxfp4_gemms[i] : &kg_mxfp4_gemms_tma[i - KG_MXFP4_GEMMS];
        for (uint32_t n_split = 1; n_split <= k->max_split && n_split <= steps; n_split++) {
            if (rows_apart && !k->any_rows) continue;
            uint32_t *clusters = &cuda->mxfp4_clusters[i][n_split];
            if (*clusters == 0) *clusters = k->clusters(n_split);
            const uint64_t rows = ceil_div(ceil_div(p->n_rows, n_matrices), k->n) * n_matrices,
                           waves = ceil_div(ceil_div(p->n_out, k->m) * rows, *clusters);
            const uint64_t ns =
                waves * (ceil_div(steps, n_split) * k->step + k->ends + (n_split > 1 ? k->exchange : 0));
            if (ns < least) least = ns, best = k, best_split = n_split, best_clusters = *clusters;
        }
    }
    return best->launch(cuda, p, best_split, best_clusters, err);
}

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
    if (reinterpret_cast<uintptr_t>(p->x) % VECTOR_BYTES != 0)
        return kg_fail(err, KG_ERR_USAGE, "mxfp4: x is not on %d bytes", VECTOR_BYTES);
    const uint32_t n_matrices = p->ids ? std::min(p->n_experts, p->n_rows) : 1;
    const bool gemm_can = cuda->compute_capability == 90 && p->weight_f16 &&
                          reinterpret_cast<uintptr_t>(p->y) % VECTOR_BYTES == 0 && (!p->ids || p->workspace);
    const uint32_t few_rows = p->ids ? (uint32_t)KG_MXFP4_GEMV_MAX_ROWS : (uint32_t)KG_MXFP4_FEW_ROWS;
    if (!gemm_can || p->n_rows <= few_rows) return gemv_in_pieces(cuda, p, err);
    return gemm(cuda, p, n_matrices, err);
}
