/* Launches experts_plan.cuh, then experts.cuh in the shape for so many rows. */
#include "kernels/mxfp4/experts.cuh"
#include "kernels/preload.h"
#include "kernels/ptx/tensor_map.h"
#include <algorithm>
#include <cmath>

KG_PRELOADED(mxfp4_experts, KG_SOME_PROMPTS)

namespace kg_mxfp4 {

static const char WHAT[] = "experts: mxfp4";

/* Where the workspace has what. */
struct room {
    experts_queue *queue;
    uint32_t *row, *n_done;
    experts_unit *units;
    __half *sorted;
};

template <typename S>
static enum kg_status launch_shape(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_experts *p,
                                   const struct room *at, struct kg_error *err);

struct tile_shape {
    enum kg_status (*launch)(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_experts *p,
                             const struct room *at, struct kg_error *err);
    uint32_t width, half; /* rows of a tile, at most; outputs of each of its two products */
};
template <typename S> static constexpr tile_shape shape_of() {
    return { launch_shape<S>, S::ROWS, S::HALF };
}

/* Narrow ones first. */
static constexpr tile_shape SHAPES[] = {
    shape_of<experts_shape<3, 16>>(), shape_of<experts_shape<3, 32>>(), shape_of<experts_shape<3, 48>>(),
    shape_of<experts_shape<3, 64>>(), shape_of<experts_shape<3, 80>>(), shape_of<experts_shape<2, 128>>(),
};
static constexpr uint32_t N_SHAPES = sizeof SHAPES / sizeof *SHAPES, WIDEST = SHAPES[N_SHAPES - 1].width;

/* The narrowest whose tiles hold the rows of most experts: two standard deviations above the mean, where tokens choose
 * at random. */
static const tile_shape *shape_for(uint32_t n_rows, uint32_t n_experts) {
    const double mean = (double)n_rows / n_experts;
    for (const tile_shape &s : SHAPES)
        if (mean + 2 * std::sqrt(mean) <= s.width) return &s;
    return &SHAPES[N_SHAPES - 1];
}

static uint32_t across_of(const tile_shape &s, uint32_t phase, uint32_t n_out) {
    return div_up(n_out, phase == GATED ? s.half : 2 * s.half);
}

/* Tiles of rows, at most, whatever the shape: they are of the widest, or hold an expert's rows on average; and an
 * expert's last may be short. */
static uint64_t most_tiles(uint32_t n_rows, uint32_t n_experts) {
    return n_rows / WIDEST + 2 * (uint64_t)n_experts;
}

/* Returns the bytes. */
static uint64_t lay_out(struct room *to, void *workspace, uint32_t n_rows, uint32_t n_experts, uint32_t n_embd,
                        uint32_t n_ff) {
    const uint64_t n_tiles = most_tiles(n_rows, n_experts);
    uint64_t n_bytes = 0, across = 0;
    for (const tile_shape &s : SHAPES)
        across = std::max<uint64_t>(across, across_of(s, GATED, n_ff) + across_of(s, DOWN, n_embd));
    const auto place = [&](uint64_t size) {
        char *at = static_cast<char *>(workspace) + n_bytes;
        n_bytes += (size + 255) / 256 * 256;
        return static_cast<void *>(at);
    };
    to->queue = static_cast<experts_queue *>(place(sizeof(experts_queue)));
    to->row = static_cast<uint32_t *>(place((uint64_t)n_rows * sizeof(uint32_t)));
    to->n_done = static_cast<uint32_t *>(place(n_tiles * sizeof(uint32_t)));
    to->units = static_cast<experts_unit *>(place(n_tiles * across * sizeof(experts_unit)));
    to->sorted = static_cast<__half *>(place((uint64_t)n_rows * n_embd * sizeof(__half)));
    return n_bytes;
}

static enum kg_status launch_plan(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_experts *p,
                                  const struct room *at, const tile_shape &shape, struct kg_error *err) {
    const struct kg_mxfp4_product *gate = &p->gate;
    plan_params plan = {};
    plan.x = gate->x, plan.ids = gate->ids;
    plan.sorted = at->sorted, plan.row = at->row;
    plan.units = at->units, plan.queue = at->queue, plan.n_done = at->n_done;
    plan.n_pairs = gate->n_rows, plan.n_cols = gate->n_cols;
    plan.n_experts = gate->n_experts, plan.n_sharing = gate->n_sharing, plan.width = shape.width;
    plan.n_across[GATED] = across_of(shape, GATED, gate->n_out);
    plan.n_across[DOWN] = across_of(shape, DOWN, p->down.n_out);
    return kg_launch_dependent(cuda, experts_plan_kernel, dim3(1 + div_up(gate->n_rows, PLAN_BLOCK_PAIRS)),
                               PLAN_THREADS, plan, "experts: sorting rows", err);
}

/* Tensor maps of a product's x and of one half's matrix. */
template <typename S>
static enum kg_status map_rows(experts_phase *to, const void *x, uint32_t n_rows, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (uint32_t i = 0; i < S::WIDTHS && !status; i++)
        status = kg_tensor_map_make_rows(&to->x[i], x, n_rows, to->n_cols, to->n_cols, (i + 1) * ROWS_STEP, ROW_BYTES,
                                         WHAT, err);
    return status;
}
template <typename S>
static enum kg_status map_matrix(experts_phase *to, int half, const uint8_t *weight, uint32_t n_experts,
                                 struct kg_error *err) {
    const uint32_t n_steps = to->n_cols / TILE_COLS, n_groups = n_experts * (to->n_out / GROUP_ROWS),
                   group_halves = n_steps * (CODES_BYTES + SCALES_BYTES) / 2;
    const enum kg_status status = kg_tensor_map_make_rows(&to->codes[half], weight, n_groups, n_steps * CODES_BYTES / 2,
                                                          group_halves, S::HALF_GROUPS, CODES_BYTES, WHAT, err);
    if (status) return status;
    return kg_tensor_map_make_rows(&to->scales[half], weight + (size_t)n_steps * CODES_BYTES, n_groups,
                                   n_steps * SCALES_BYTES / 2, group_halves, S::HALF_GROUPS, SCALES_BYTES, WHAT, err);
}

static void set_phase(experts_phase *to, const struct kg_mxfp4_product *p, const float *other_bias,
                      uint32_t half_step) {
    to->n_cols = p->n_cols, to->n_out = p->n_out, to->half_step = half_step, to->y = p->y;
    to->bias[0] = p->bias, to->bias[1] = other_bias;
}

template <typename S>
static enum kg_status launch_shape(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_experts *p,
                                   const struct room *at, struct kg_error *err) {
    const struct kg_mxfp4_product *gate = &p->gate, *down = &p->down;
    experts_params t = {};
    experts_phase *gated = &t.phase[GATED], *last = &t.phase[DOWN];
    set_phase(gated, gate, p->up_bias, 0);
    set_phase(last, down, down->bias, S::HALF);
    enum kg_status status = map_rows<S>(gated, at->sorted, gate->n_rows, err);
    if (!status) status = map_rows<S>(last, gate->y, gate->n_rows, err);
    if (!status) status = map_matrix<S>(gated, 0, gate->weight, gate->n_experts, err);
    if (!status) status = map_matrix<S>(gated, 1, p->up, gate->n_experts, err);
    for (int half = 0; half < 2 && !status; half++)
        status = map_matrix<S>(last, half, down->weight, gate->n_experts, err);
    if (status) return status;
    t.units = at->units, t.queue = at->queue, t.row = at->row, t.n_done = at->n_done;
    t.gate = kg_swiglu_op_of(p->form.limit, p->form.alpha, p->form.up_offset);
    t.y_is_f16 = down->y_is_f16;
    return kg_launch_dependent(cuda, experts_kernel<S>, dim3(cuda->n_sms), S::THREADS, t, WHAT, err, S::BYTES);
}

} // namespace kg_mxfp4

using namespace kg_mxfp4;

bool kg_mxfp4_experts_take(uint32_t n_rows, uint32_t n_experts) {
    return n_rows > 0 && n_experts <= PLAN_MAX_EXPERTS && most_tiles(n_rows, n_experts) <= UINT16_MAX;
}

uint64_t kg_mxfp4_experts_workspace_bytes(uint32_t n_rows, uint32_t n_experts, uint32_t n_embd, uint32_t n_ff) {
    struct room room;
    return lay_out(&room, NULL, n_rows, n_experts, n_embd, n_ff);
}

enum kg_status kg_mxfp4_run_experts(const struct kg_cuda_backend *cuda, const struct kg_mxfp4_experts *p,
                                    struct kg_error *err) {
    const struct kg_mxfp4_product *gate = &p->gate;
    struct room room;
    lay_out(&room, gate->workspace, gate->n_rows, gate->n_experts, gate->n_cols, gate->n_out);
    const tile_shape *shape = shape_for(gate->n_rows, gate->n_experts);
    const enum kg_status status = launch_plan(cuda, p, &room, *shape, err);
    return status ? status : shape->launch(cuda, p, &room, err);
}
