/* Launches gemv_row.cuh and gemv.cuh. */
#include "kernels/mxfp4/gemv.cuh"
#include "kernels/mxfp4/gemv_row.cuh"
#include <algorithm>

namespace kg_mxfp4 {

constexpr uint32_t MOST_X_BYTES = 176 * 1024, SM_BYTES = 224 * 1024, MOST_WARPS = 32;

template <int COLUMNS, int WARPS>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t chunk_rows,
                             struct kg_error *err) {
    const uint32_t x_bytes = p->n_cols * (uint32_t)sizeof(__half) + X_PAD_BYTES, shared_bytes = chunk_rows * x_bytes;
    const uint32_t fixed_bytes = 2 * WARPS * COLUMNS * (GROUP_ROWS + 1) * (uint32_t)sizeof(float) + 4096;
    const uint32_t stay = std::min(MOST_WARPS / WARPS, std::max(1u, SM_BYTES / (shared_bytes + fixed_bytes)));
    /* Every row may have an expert, and a chunk, of its own. */
    const uint64_t n_chunks = p->ids ? p->n_rows : (p->n_rows + chunk_rows - 1) / chunk_rows,
                   n_items = n_chunks * (p->n_out / GROUP_ROWS);
    const uint32_t n_blocks = (uint32_t)std::min<uint64_t>((uint64_t)stay * (uint64_t)cuda->n_sms, n_items);
    return kg_launch_dependent(cuda, gemv_kernel<COLUMNS, WARPS>, dim3(n_blocks), WARPS * 32,
                               gemv_params{ *p, chunk_rows }, "linear: mxfp4", err, shared_bytes);
}

/* Up to so many groups for a multiprocessor, more warps take each: measured at 1 to 95. */
constexpr uint32_t FEW_GROUPS = 8;

template <int WARPS>
static enum kg_status launch_warps(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p, uint32_t fit,
                                   struct kg_error *err) {
    return fit > 8 ? launch<16, WARPS>(cuda, p, std::min(fit, 16u), err)
                   : launch<8, WARPS>(cuda, p, std::min(fit, 8u), err);
}

/* Shared memory of a block of which two stay on a multiprocessor. */
constexpr uint32_t HALF_SM_BYTES = 113 * 1024, LEAST_SLOTS = 2;

/* Rows of y by themselves: each reads its weights. */
template <int MATRICES>
static enum kg_status launch_rows(const struct kg_cuda_backend *cuda, struct row_params g, struct kg_error *err) {
    const struct kg_mxfp4_product &p = g.p;
    const uint32_t n_groups = p.n_out / GROUP_ROWS, n_items = p.n_rows * n_groups,
                   n_blocks = std::min((uint32_t)cuda->n_sms, n_items), most = (n_items + n_blocks - 1) / n_blocks;
    const uint32_t x_rows = std::min(p.n_rows, (most + n_groups - 2) / n_groups + 1), /* that a block's items touch */
        x_bytes = x_rows * row_x_bytes(p.n_cols);
    g.slot_tiles = std::min((uint32_t)PIECE_TILES, p.n_cols / TILE_COLS);
    const uint32_t slot_bytes = g.slot_tiles * (CODES_BYTES + SCALES_BYTES), fixed_bytes = sizeof(row_shared) + x_bytes,
                   fit = fixed_bytes < HALF_SM_BYTES ? (HALF_SM_BYTES - fixed_bytes) / slot_bytes : 0;
    g.n_slots = std::min((uint32_t)ROW_MOST_SLOTS, std::max(LEAST_SLOTS, fit));
    return kg_launch_dependent(cuda, gemv_row_kernel<MATRICES>, dim3(n_blocks), ROW_THREADS, g, "linear: mxfp4", err,
                               g.n_slots * slot_bytes + x_bytes);
}

} // namespace kg_mxfp4

enum kg_status kg_mxfp4_gemv(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *p,
                             struct kg_error *err) {
    using namespace kg_mxfp4;
    if (p->n_rows > KG_MXFP4_GEMV_MAX_ROWS)
        return kg_fail(err, KG_ERR_INTERNAL, "mxfp4: %u rows for a kernel of %d", p->n_rows, KG_MXFP4_GEMV_MAX_ROWS);
    const uint32_t x_bytes = p->n_cols * (uint32_t)sizeof(__half) + X_PAD_BYTES,
                   fit = std::min(p->n_rows, MOST_X_BYTES / x_bytes);
    const bool few = p->n_out / GROUP_ROWS <= FEW_GROUPS * (uint32_t)cuda->n_sms;
    if (few && p->n_rows <= (p->ids ? KG_MXFP4_OWN_ROWS : 1))
        return launch_rows<1>(cuda, row_params{ *p, NULL, NULL, {}, 0, 0 }, err);
    return few ? launch_warps<16>(cuda, p, fit, err) : launch_warps<8>(cuda, p, fit, err);
}

enum kg_status kg_mxfp4_gemv_gated(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_product *gate,
                                   const uint8_t *up, const float *up_bias, const struct kg_swiglu_form *form,
                                   struct kg_error *err) {
    using namespace kg_mxfp4;
    if (gate->n_rows > KG_MXFP4_OWN_ROWS)
        return kg_fail(err, KG_ERR_INTERNAL, "mxfp4: %u rows for a kernel of %d", gate->n_rows, KG_MXFP4_OWN_ROWS);
    return launch_rows<2>(
        cuda, row_params{ *gate, up, up_bias, kg_swiglu_op_of(form->limit, form->alpha, form->up_offset), 0, 0 }, err);
}
