#include "kernels/attention/sdpa/hopper_call.h"
#include "kernels/attention/sdpa/tensor_map.h"

namespace kg_sdpa {

constexpr uint64_t VECTOR_BYTES = 16;
constexpr uint64_t MAX_STRIDE = (uint64_t)1 << 38; /* elements; a tensor map takes 2^40 bytes */
constexpr double LOG2_E = 1.4426950408889634;

static bool aligned(const void *data) {
    return (uintptr_t)data % VECTOR_BYTES == 0;
}

/* Strides that are used: the dimension has more than one entry. */
static bool strides_good(const struct kg_sdpa_strides *s, uint32_t n_batch, uint32_t n_heads, uint32_t n_rows,
                         uint32_t element_bytes) {
    const auto good = [element_bytes](uint64_t stride, uint32_t n) {
        return n <= 1 || (stride > 0 && stride < MAX_STRIDE && stride * element_bytes % VECTOR_BYTES == 0);
    };
    return good(s->batch, n_batch) && good(s->head, n_heads) && good(s->row, n_rows);
}

static uint32_t input_bytes(const struct kg_sdpa_args *a) {
    return a->inputs == KG_PRECISION_F8 ? 1 : sizeof(__half);
}

const char *hopper_refuses(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *a) {
    if (cuda->compute_capability != 90) return "the device is not of compute capability 9.0";
    const uint32_t bytes = input_bytes(a);
    if (a->head_dim * bytes % VECTOR_BYTES || a->head_dim > 128)
        return "the head size is not a multiple of 16 bytes up to 128 elements";
    if (a->n_keys == 0) return "there are no keys";
    if (!(a->scale > 0)) return "the scale is not above 0";
    if ((uint64_t)a->n_batch * a->n_heads * a->n_queries > INT32_MAX) return "there are 2^31 queries or more";
    if (!aligned(a->q) || !aligned(a->k) || !aligned(a->v) || !aligned(a->y))
        return "a tensor is not aligned to 16 bytes";
    if (!strides_good(&a->q_strides, a->n_batch, a->n_heads, a->n_queries, bytes) ||
        !strides_good(&a->y_strides, a->n_batch, a->n_heads, a->n_queries, sizeof(__half)) ||
        !strides_good(&a->k_strides, a->n_batch, a->n_kv_heads, a->n_keys, bytes) ||
        !strides_good(&a->v_strides, a->n_batch, a->n_kv_heads, a->n_keys, bytes))
        return "a stride is 0, too large or not a multiple of 16 bytes";
    return NULL;
}

enum kg_status hopper_params_make(struct hopper_params *p, const struct kg_sdpa_args *a, uint32_t tile_rows,
                                  uint32_t box_keys, struct kg_error *err) {
    const uint32_t bytes = input_bytes(a), box_bytes = bytes == 1 ? (uint32_t)e4m3_row_bytes((int)a->head_dim) : 128;
    const auto extent = [=](const void *data, const struct kg_sdpa_strides &strides, uint32_t n_heads, uint32_t n_rows,
                            uint32_t box_rows) {
        return kg_tensor_extent{ data, strides, a->n_batch, n_heads, n_rows, a->head_dim, bytes, box_rows, box_bytes };
    };
    const kg_tensor_extent q = extent(a->q, a->q_strides, a->n_heads, a->n_queries, ROWS),
                           k = extent(a->k, a->k_strides, a->n_kv_heads, a->n_keys, box_keys),
                           v = extent(a->v, a->v_strides, a->n_kv_heads, a->n_keys, box_keys);
    enum kg_status status = kg_tensor_map_make(&p->q, &q, "sdpa: queries", err);
    if (!status) status = kg_tensor_map_make(&p->k, &k, "sdpa: keys", err);
    if (!status) status = kg_tensor_map_make(&p->v, &v, "sdpa: values", err);
    if (status) return status;
    p->y = (__half *)a->y;
    p->y_strides = a->y_strides;
    p->sinks = a->sinks;
    p->q_scale = a->q_scale;
    p->k_scale = a->k_scale;
    p->v_scale = a->v_scale;
    p->n_batch = (int)a->n_batch;
    p->n_heads = (int)a->n_heads;
    p->group = (int)(a->n_heads / a->n_kv_heads);
    p->n_queries = (int)a->n_queries;
    p->n_keys = (int)a->n_keys;
    p->head_dim = (int)a->head_dim;
    p->n_row_tiles = (int)((a->n_queries + tile_rows - 1) / tile_rows);
    p->window = a->window < a->n_keys ? (int)a->window : 0; /* else it hides nothing */
    p->scale = (float)((double)a->scale * LOG2_E);
    p->causal = a->causal;
    p->folded = false;
    return KG_OK;
}

enum kg_status hopper_launch_kernel(const struct kg_cuda_backend *cuda, void (*kernel)(hopper_params),
                                    const struct hopper_launch &launch, const struct hopper_params &p, const char *what,
                                    struct kg_error *err) {
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes);
    if (code != cudaSuccess) return kg_cuda_fail(err, what, code);
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = { launch.cluster, 1, 1 };
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(launch.n_blocks);
    config.blockDim = dim3(launch.n_threads);
    config.dynamicSmemBytes = launch.shared_bytes;
    config.stream = cuda->stream;
    config.attrs = attributes;
    config.numAttrs = launch.cluster > 1 ? 2 : 1;
    code = cudaLaunchKernelEx(&config, kernel, p);
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, what, code);
}

} // namespace kg_sdpa
