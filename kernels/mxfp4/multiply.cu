/* Chooses the kernel of a product with repacked MXFP4 weights.
 *
 * Few rows (KG_MXFP4_FEW_ROWS of one matrix, KG_MXFP4_GEMV_MAX_ROWS of experts): gemv.cuh, which reads weights at the
 * speed of memory. Else the entry of VARIANTS, with the split of the columns, whose estimated time is the shortest. The
 * choice depends on shapes and the device only. */
#include "kernels/mxfp4/mxfp4.h"
#include <algorithm>
#include <iterator>

enum { TILE_COLS = 64, VECTOR_BYTES = 16 };

using gemm_function = enum kg_status (*)(const struct kg_cuda_backend *, const struct kg_mxfp4_product *, int, uint32_t,
                                         uint32_t, struct kg_error *);

/* Kernels for many rows. m, n: outputs and rows of a cluster whose columns are not split. Times of a block in ns,
 * measured on the H200: a step of 64 columns, prologue and epilogue, the exchange of sums in a cluster. */
static const struct variant {
    gemm_function run;
    uint32_t (*clusters)(int tile, uint32_t n_split);
    int tile;
    uint32_t max_split;
    bool any_rows; /* rows by expert or shared, too */
    uint32_t m, n, step, ends, exchange;
} VARIANTS[] = {
    { kg_mxfp4_gemm, kg_mxfp4_gemm_clusters, KG_MXFP4_GEMM_128x64, 8, true, 128, 64, 320, 3900, 1200 },
    { kg_mxfp4_gemm, kg_mxfp4_gemm_clusters, KG_MXFP4_GEMM_256x64, 8, true, 256, 64, 505, 5000, 1200 },
    { kg_mxfp4_gemm, kg_mxfp4_gemm_clusters, KG_MXFP4_GEMM_192x128, 8, true, 192, 128, 537, 5000, 1700 },
    { kg_mxfp4_gemm, kg_mxfp4_gemm_clusters, KG_MXFP4_GEMM_256x128, 8, true, 256, 128, 716, 6700, 5000 },
    { kg_mxfp4_gemm_tma, kg_mxfp4_gemm_tma_clusters, KG_MXFP4_TMA_64x64, 4, false, 64, 64, 235, 1100, 500 },
    { kg_mxfp4_gemm_tma, kg_mxfp4_gemm_tma_clusters, KG_MXFP4_TMA_128x64, 4, false, 128, 64, 270, 2000, 900 },
    { kg_mxfp4_gemm_tma, kg_mxfp4_gemm_tma_clusters, KG_MXFP4_TMA_192x128, 2, false, 192, 128, 460, 2400, 1000 },
    { kg_mxfp4_gemm_tma, kg_mxfp4_gemm_tma_clusters, KG_MXFP4_TMA_128x128, 1, false, 128, 128, 340, 1700, 0 },
    { kg_mxfp4_gemm_tma, kg_mxfp4_gemm_tma_clusters, KG_MXFP4_TMA_128x256, 1, false, 256, 256, 640, 1500, 0 },
};

static_assert(std::size(VARIANTS) == KG_MXFP4_MAX_KERNELS, "the back end has a row of clusters for each");

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}

static enum kg_status gemm(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t n_matrices,
                           struct kg_error *err) {
    const uint64_t steps = p->n_cols / TILE_COLS;
    const bool rows_apart = p->ids || p->n_sharing > 1;
    const struct variant *best = VARIANTS;
    uint32_t best_split = 1;
    uint64_t least = UINT64_MAX;
    for (const struct variant &variant : VARIANTS)
        for (uint32_t n_split = 1; n_split <= variant.max_split && n_split <= steps; n_split++) {
            if (rows_apart && !variant.any_rows) continue;
            uint32_t *clusters = &cuda->mxfp4_clusters[&variant - VARIANTS][n_split];
            if (*clusters == 0) *clusters = variant.clusters(variant.tile, n_split);
            const uint64_t rows = ceil_div(ceil_div(p->n_rows, n_matrices), variant.n) * n_matrices,
                           waves = ceil_div(ceil_div(p->n_out, variant.m) * rows, *clusters);
            const uint64_t ns =
                waves * (ceil_div(steps, n_split) * variant.step + variant.ends + (n_split > 1 ? variant.exchange : 0));
            if (ns < least) least = ns, best = &variant, best_split = n_split;
        }
    return best->run(cuda, p, best->tile, best_split, cuda->mxfp4_clusters[best - VARIANTS][best_split], err);
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
