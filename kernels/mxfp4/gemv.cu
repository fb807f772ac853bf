/* Launches gemv_row.cuh and gemv.cuh, which read weights at the speed of memory, and chooses how many rows are few: up
 * to KG_MXFP4_FEW_ROWS of one matrix, KG_MXFP4_GEMV_MAX_ROWS of experts. gemm.cu multiplies more. */
#include "kernels/mxfp4/gemv.cuh"
#include "kernels/mxfp4/gemv_row.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include <algorithm>

KG_PRELOADED(mxfp4_gemv, KG_NEXT_TOKENS)

namespace kg_mxfp4 {

constexpr uint32_t MAX_X_BYTES = 176 * 1024, SM_BYTES = 224 * 1024, MAX_WARPS = 32;

template <int COLUMNS>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t chunk_rows,
                             struct kg_error *err) {
    constexpr uint32_t WARPS = GEMV_WARPS;
    const uint32_t x_bytes = p->n_cols * (uint32_t)sizeof(__half) + X_PAD_BYTES, shared_bytes = chunk_rows * x_bytes;
    const uint32_t fixed_bytes = 2 * WARPS * COLUMNS * (GROUP_ROWS + 1) * (uint32_t)sizeof(float) + 4096;
    const uint32_t resident = std::min(MAX_WARPS / WARPS, std::max(1u, SM_BYTES / (shared_bytes + fixed_bytes)));
    /* Bound: every row has an expert, and so a chunk, to itself. */
    const uint64_t n_chunks = p->ids ? p->n_rows : (p->n_rows + chunk_rows - 1) / chunk_rows,
                   n_items = n_chunks * (p->n_out / GROUP_ROWS);
    const uint32_t n_blocks = (uint32_t)std::min<uint64_t>((uint64_t)resident * (uint64_t)cuda->n_sms, n_items);
    return kg_launch_dependent(cuda, gemv_kernel<COLUMNS>, dim3(n_blocks), WARPS * 32, gemv_params{ *p, chunk_rows },
                               "linear: mxfp4", err, shared_bytes);
}

/* Shared memory of a block of two matrices, and of one, at most: one of each fits a multiprocessor, so that down begins
 * beside gate and up. Two of the former do not: they would share a multiprocessor's part of the bandwidth while another
 * has no block. */
constexpr uint32_t GATED_BYTES = 126 * 1024, OTHER_BYTES = 98 * 1024, LEAST_GATED_BYTES = 115 * 1024, LEAST_SLOTS = 2;

/* By whether a group is one piece, and by a warp's tiles in the last piece. */
template <int MATRICES>
static constexpr void (*const ROW_KERNELS[2][SET_TILES])(row_params) = {
    { gemv_row_kernel<1, false, MATRICES>, gemv_row_kernel<2, false, MATRICES>, gemv_row_kernel<3, false, MATRICES>,
      gemv_row_kernel<4, false, MATRICES> },
    { gemv_row_kernel<1, true, MATRICES>, gemv_row_kernel<2, true, MATRICES>, gemv_row_kernel<3, true, MATRICES>,
      gemv_row_kernel<4, true, MATRICES> }
};

/* Each row of y reads its weights for itself. */
template <int MATRICES>
static enum kg_status launch_rows(const struct kg_cuda_backend *cuda, struct row_params g, struct kg_error *err) {
    const struct kg_mxfp4_product &p = g.p;
    const uint32_t n_groups = p.n_out / GROUP_ROWS, n_items = p.n_rows * n_groups, n_tiles = p.n_cols / TILE_COLS,
                   n_blocks = std::min((uint32_t)cuda->n_sms, n_items), most = (n_items + n_blocks - 1) / n_blocks;
    g.x_rows = std::min(p.n_rows, (most + n_groups - 2) / n_groups + 1);
    g.slot_tiles = std::min((uint32_t)PIECE_TILES, n_tiles);
    const uint32_t slot_bytes = g.slot_tiles * (CODES_BYTES + SCALES_BYTES), each_bytes = slot_bytes + sizeof(row_sum),
                   fixed_bytes = sizeof(row_barriers) + g.x_rows * row_x_bytes(p.n_cols) + MORE_SUMS * sizeof(row_sum),
                   most_bytes = MATRICES == 2 ? GATED_BYTES : OTHER_BYTES,
                   fit = fixed_bytes < most_bytes ? (most_bytes - fixed_bytes) / each_bytes : 0;
    g.n_slots = std::min((uint32_t)ROW_MAX_SLOTS, std::max(LEAST_SLOTS, fit));
    g.block_items = n_items / n_blocks, g.more_items = n_items % n_blocks;
    const uint32_t n_pieces = row_pieces(p.n_cols),
                   last = (n_tiles - (n_pieces - 1) * PIECE_TILES + GEMV_WARPS - 1) / GEMV_WARPS;
    const uint32_t bytes = fixed_bytes + g.n_slots * each_bytes - (uint32_t)sizeof(row_barriers);
    return kg_launch_dependent(cuda, ROW_KERNELS<MATRICES>[n_pieces == 1][last - 1], dim3(n_blocks), ROW_THREADS, g,
                               "linear: mxfp4", err, MATRICES == 2 ? std::max(bytes, LEAST_GATED_BYTES) : bytes);
}

} // namespace kg_mxfp4

enum kg_status kg_mxfp4_gemv(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                             struct kg_error *err) {
    using namespace kg_mxfp4;
    if (p->n_rows > KG_MXFP4_GEMV_MAX_ROWS)
        return kg_fail(err, KG_ERR_INTERNAL, "mxfp4: %u rows for a kernel of %d", p->n_rows, KG_MXFP4_GEMV_MAX_ROWS);
    const uint32_t x_bytes = p->n_cols * (uint32_t)sizeof(__half) + X_PAD_BYTES,
                   fit = std::min(p->n_rows, MAX_X_BYTES / x_bytes);
    if (p->n_rows <= (p->ids ? KG_MXFP4_OWN_ROWS : 1)) {
        row_params g = {};
        g.p = *p;
        return launch_rows<1>(cuda, g, err);
    }
    return fit > 8 ? launch<16>(cuda, p, std::min(fit, 16u), err) : launch<8>(cuda, p, std::min(fit, 8u), err);
}

enum kg_status kg_mxfp4_gemv_gated(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *gate,
                                   const uint8_t *up, const float *up_bias, const struct kg_swiglu_form *form,
                                   struct kg_error *err) {
    using namespace kg_mxfp4;
    if (gate->n_rows > KG_MXFP4_OWN_ROWS)
        return kg_fail(err, KG_ERR_INTERNAL, "mxfp4: %u rows for a kernel of %d", gate->n_rows, KG_MXFP4_OWN_ROWS);
    row_params g = {};
    g.p = *gate, g.up = up, g.up_bias = up_bias;
    g.gate = kg_swiglu_op_of(form->limit, form->alpha, form->up_offset);
    return launch_rows<2>(cuda, g, err);
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
    if (!kg_vector_aligned(p->x))
        return kg_fail(err, KG_ERR_USAGE, "mxfp4: x is not on %zu bytes", KG_VECTOR_ALIGN_BYTES);
    return kg_mxfp4_gemm_takes(cuda, p) ? kg_mxfp4_gemm(cuda, p, err) : gemv_in_pieces(cuda, p, err);
}
