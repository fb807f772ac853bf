#include "kernels/attention/sdpa/call.h"
#include "kernels/ptx/tensor_map.h"
#include "kernels/block/precision.cuh"

namespace kg_sdpa {

constexpr uint32_t MAX_HEAD_DIM = 128;
constexpr double LOG2_E = 1.4426950408889634;

static uint32_t input_bytes(const struct kg_sdpa_args *a) {
    return (uint32_t)kg_precision_bytes(a->inputs);
}

/* Whether every stride is good, in elements of so many bytes, but for those of a dimension of one entry: they are not
 * used. */
template <typename Good> static bool strides_good(const struct kg_sdpa_args *a, Good good) {
    const auto of = [&](const struct kg_sdpa_strides &s, uint32_t n_heads, uint32_t n_rows, uint32_t bytes) {
        return (a->n_batch <= 1 || good(s.batch, bytes)) && (n_heads <= 1 || good(s.head, bytes)) &&
               (n_rows <= 1 || good(s.row, bytes));
    };
    const uint32_t bytes = input_bytes(a);
    return of(a->q_strides, a->n_heads, a->n_queries, bytes) && of(a->k_strides, a->n_kv_heads, a->n_keys, bytes) &&
           of(a->v_strides, a->n_kv_heads, a->n_keys, bytes) &&
           of(a->y_strides, a->n_heads, a->n_queries, sizeof(__half));
}

const char *refuses_operands(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *a) {
    static_assert(MAX_HEAD_DIM == 128, "the message names it");
    if (cuda->compute_capability < 80) return "the device is older than compute capability 8.0";
    if (a->head_dim * input_bytes(a) % KG_VECTOR_ALIGN_BYTES || a->head_dim > MAX_HEAD_DIM)
        return "the head size is not a multiple of 16 bytes up to 128 elements";
    if (!kg_vector_aligned(a->q) || !kg_vector_aligned(a->k) || !kg_vector_aligned(a->v) || !kg_vector_aligned(a->y))
        return "a tensor is not aligned to 16 bytes";
    if (!strides_good(a, [](uint64_t stride, uint32_t bytes) { return stride * bytes % KG_VECTOR_ALIGN_BYTES == 0; }))
        return "a stride is not a multiple of 16 bytes";
    return NULL;
}

struct call_params call_params_make(const struct kg_sdpa_args *a, uint32_t tile_rows) {
    struct call_params p = {};
    p.y = (__half *)a->y;
    p.y_strides = a->y_strides;
    p.sinks = a->sinks;
    p.q_scale = a->q_scale;
    p.k_scale = a->k_scale;
    p.v_scale = a->v_scale;
    p.n_batch = (int)a->n_batch;
    p.n_heads = (int)a->n_heads;
    p.group = (int)(a->n_heads / a->n_kv_heads);
    p.n_queries = (int)a->n_queries;
    p.n_keys = (int)a->n_keys;
    p.head_dim = (int)a->head_dim;
    p.n_row_tiles = (int)kg_blocks_for(a->n_queries, tile_rows);
    p.window = a->window < a->n_keys ? (int)a->window : 0; /* else it hides nothing */
    p.scale = (float)((double)a->scale * LOG2_E);
    p.causal = a->causal;
    return p;
}

enum kg_status hopper_params_make(struct hopper_params *p, const struct kg_sdpa_args *a, uint32_t tile_rows,
                                  uint32_t box_keys, struct kg_error *err) {
    const uint32_t bytes = input_bytes(a), box_bytes = bytes == 1 ? (uint32_t)narrow_row_bytes((int)a->head_dim) : 128;
    const auto make = [=](CUtensorMap *map, const void *data, const struct kg_sdpa_strides &strides, uint32_t n_heads,
                          uint32_t n_rows, uint32_t box_rows, const char *what) {
        const kg_tensor_extent extent = { data,        strides, a->n_batch, n_heads,  n_rows,
                                          a->head_dim, bytes,   box_rows,   box_bytes };
        return kg_tensor_map_make(map, &extent, what, err);
    };
    static_cast<call_params &>(*p) = call_params_make(a, tile_rows);
    enum kg_status status = make(&p->q, a->q, a->q_strides, a->n_heads, a->n_queries, ROWS, "sdpa: queries");
    if (!status) status = make(&p->k, a->k, a->k_strides, a->n_kv_heads, a->n_keys, box_keys, "sdpa: keys");
    if (!status) status = make(&p->v, a->v, a->v_strides, a->n_kv_heads, a->n_keys, box_keys, "sdpa: values");
    return status;
}

} // namespace kg_sdpa

const char *kg_sdpa_wgmma_refuses(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *a) {
    using namespace kg_sdpa;
    constexpr uint64_t MAX_STRIDE = (uint64_t)1 << 38; /* elements; a tensor map takes 2^40 bytes */
    if (cuda->compute_capability != 90) return "the device is not of compute capability 9.0";
    if (a->n_keys == 0) return "there are no keys";
    if (!(a->scale > 0)) return "the scale is not above 0";
    if ((uint64_t)a->n_batch * a->n_heads * a->n_queries > INT32_MAX) return "there are 2^31 queries or more";
    if (!strides_good(a, [](uint64_t stride, uint32_t) { return stride > 0 && stride < MAX_STRIDE; }))
        return "a stride is 0 or too large";
    return refuses_operands(cuda, a);
}
