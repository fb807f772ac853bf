/* attention: softmax(q k^T scale) v per head over a cache (contract in ops/attention.h). Checks, and which kernel runs:
 * one row by decode.cu (keys split over blocks), more by sdpa's variants (tensor cores; activations and cache in f16)
 * or prefill.cu (float32 arithmetic, any mixture). */
#include "kernels/attention/attention.cuh"

static enum kg_status require_head_dim(uint32_t head_dim, struct kg_error *err) {
    if (head_dim % KG_VECTOR == 0 && head_dim > 0 && head_dim <= KG_ATTENTION_CUDA_MAX_HEAD_DIM) return KG_OK;
    return kg_fail(err, KG_ERR_UNSUPPORTED,
                   "attention: the cuda back end has no head size %u, only multiples of %d up to %u", head_dim,
                   KG_VECTOR, KG_ATTENTION_CUDA_MAX_HEAD_DIM);
}

enum kg_status kg_cuda_attention_plan(const struct kg_cuda_backend *cuda, const struct kg_session_plan *plan,
                                      uint64_t *workspace_bytes, struct kg_error *err) {
    const struct kg_model_config *c = plan->config;
    enum kg_status status = require_head_dim(c->head_dim, err);
    if (!status) status = kg_cuda_require_float("attention", "activations", plan->activations, err);
    if (!status) status = kg_cuda_require_float("attention", "KV cache", plan->kv, err);
    if (!status) *workspace_bytes = kg_attention_decode_bytes(cuda, c->n_heads / c->n_kv_heads, c->head_dim);
    return status;
}

static enum kg_status check(const struct kg_attention_args *args, struct kg_error *err) {
    enum kg_status status = kg_attention_check(args, err);
    if (!status) status = require_head_dim(args->head_dim, err);
    if (!status) status = kg_cuda_require_float("attention", "activations", args->activations, err);
    if (!status) status = kg_cuda_require_float("attention", "KV cache", args->kv, err);
    if (status || args->n_rows == 0) return status;
    KG_OP_REQUIRE(args->n_rows > 1 || args->workspace, "attention: the workspace is missing");
    KG_OP_REQUIRE(kg_vector_aligned(args->q) && kg_vector_aligned(args->y) && kg_vector_aligned(args->k_cache) &&
                      kg_vector_aligned(args->v_cache),
                  "attention: q, y or a cache is not aligned to %zu bytes", KG_VECTOR_ALIGN_BYTES);
    return KG_OK;
}

struct kg_sdpa_args kg_attention_as_sdpa(const struct kg_attention_args *args) {
    const uint64_t head_dim = args->head_dim, plane = args->n_ctx * head_dim;
    struct kg_sdpa_args p = {};
    p.inputs = p.output = KG_PRECISION_F16;
    p.variant = KG_SDPA_AUTO;
    p.q = args->q;
    p.k = args->k_cache;
    p.v = args->v_cache;
    p.y = args->y;
    p.q_strides = p.y_strides = { args->n_rows * args->n_heads * head_dim, head_dim, args->n_heads * head_dim };
    p.k_strides = p.v_strides = { args->n_kv_heads * plane, plane, head_dim };
    p.n_batch = 1;
    p.n_heads = args->n_heads;
    p.n_kv_heads = args->n_kv_heads;
    p.n_queries = args->n_rows;
    p.n_keys = args->n_keys;
    p.head_dim = args->head_dim;
    p.scale = args->scale;
    p.causal = args->causal;
    p.window = args->window;
    p.sinks = args->sinks;
    return p;
}

/* The workspace is one that others write to. */
static enum kg_status attend_row(const struct kg_cuda_backend *cuda, const struct kg_attention_args *args,
                                 struct kg_error *err) {
    const uint64_t n_bytes = kg_attention_decode_bytes(cuda, args->n_heads / args->n_kv_heads, args->head_dim);
    const cudaError_t code = cudaMemsetAsync(args->workspace, 0, n_bytes, cuda->stream);
    if (code != cudaSuccess) return kg_cuda_fail(err, "attention", code);
    return kg_attention_decode(cuda, args, args->workspace, err);
}

/* No variant of sdpa that these calls take wants zeroed memory. */
static const char *sdpa_refuses(const struct kg_cuda_backend *, const struct kg_attention_args *args) {
    if (args->activations != KG_PRECISION_F16 || args->kv != KG_PRECISION_F16)
        return "activations and KV cache are not both f16";
    return args->n_keys > KG_SDPA_MAX_LENGTH ? "more keys than sdpa takes" : NULL;
}

static const char *prefill_refuses(const struct kg_cuda_backend *, const struct kg_attention_args *) {
    return NULL;
}

const struct kg_attention_kernel kg_attention_rows_kernels[KG_ATTENTION_ROWS_KERNELS] = {
    { "sdpa", sdpa_refuses }, { "prefill", prefill_refuses }
};

extern "C" enum kg_status kg_cuda_attention(struct kg_backend *backend, const struct kg_attention_args *args,
                                            struct kg_error *err) {
    const struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    const enum kg_status status = check(args, err);
    if (status || args->n_rows == 0) return status;
    if (args->n_rows == 1) return attend_row(cuda, args, err);
    if (kg_attention_rows_kernels[KG_ATTENTION_SDPA].refuses(cuda, args))
        return kg_attention_prefill(cuda->stream, args, err);
    const struct kg_sdpa_args p = kg_attention_as_sdpa(args);
    return kg_cuda_sdpa(backend, &p, err);
}
