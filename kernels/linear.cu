/* linear on the GPU (contract in ops/linear.h): y[r][o] = sum_i x[r][i] * W[o][i] + bias[o].
 *
 * Up to GEMV_MAX_ROWS rows: gemv.cuh, which decodes W in registers. More: cuBLAS, over W itself if W and x are both F32 or
 * both F16; else over tiles of W's rows, decoded into the workspace one after the other, so that W is never copied as a
 * whole. A tile is
 *     float16  if x is f16 and W's format has no more range or precision than that: F16 and the quantised formats whose
 *              scale is a float16;
 *     float32  otherwise (x f32; or W F32, BF16, MXFP4, whose values float16 may not hold), and x is widened to float32.
 *
 * Numerics: float32 operands are multiplied as they are (CUBLAS_COMPUTE_32F, no TF32); float16 operands give exact
 * products; sums are float32 in both. The bias is added to the float32 product, so that a float16 y is rounded once.
 *
 * cuBLAS is column-major: to it a row-major (rows, cols) matrix is its transpose, so y^T = W x^T is asked for as
 * (n_out x n_rows) = op(W) x, op = transpose, with leading dimensions n_in, n_in and n_out. */
#include "kernels/gemv.cuh"
#include <climits>

using kg_dequant::CHUNK;

enum { GEMV_MAX_ROWS = 8, GEMV_ROWS = 4, TILE_MAX_ROWS = 2048, FLAT_THREADS = 256 };
static const uint64_t CUBLAS_BYTES = 32u << 20; /* what cuBLAS advises for sm_90 */
static const uint64_t TILE_BYTES = 16u << 20;
static const uint64_t ALIGNMENT_BYTES = 256;

static uint64_t aligned(uint64_t bytes) {
    return (bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

/* The workspace: cuBLAS's, a tile of W, x widened, y of a tile before it is rounded. */
struct layout {
    uint64_t tile_at, x_at, y_at, size_bytes;
};

static struct layout lay_out(uint64_t n_rows, uint64_t n_in) {
    struct layout l;
    l.tile_at = CUBLAS_BYTES;
    l.x_at = l.tile_at + TILE_BYTES;
    l.y_at = l.x_at + aligned(n_rows * n_in * sizeof(float));
    l.size_bytes = l.y_at + aligned(n_rows * TILE_MAX_ROWS * sizeof(float));
    return l;
}

enum kg_status kg_cuda_linear_plan(const struct kg_session_plan *plan, uint64_t *workspace_bytes,
                                   struct kg_error *err) {
    const struct kg_model_config *c = plan->config;
    const uint64_t widths[] = { c->n_embd, c->n_ff, (uint64_t)c->n_heads * c->head_dim };
    uint64_t n_in = 0;
    for (const uint64_t width : widths) n_in = width > n_in ? width : n_in;
    if (plan->activations == KG_PRECISION_F8)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "the cuda back end has no %s activations, only f32 and f16",
                       kg_precision_name(plan->activations));
    *workspace_bytes = plan->max_rows > GEMV_MAX_ROWS ? lay_out(plan->max_rows, n_in).size_bytes : 0;
    return KG_OK;
}

/* tile[t][i] = W[first + t][i], a thread to a chunk of 8. */
template <enum kg_dtype D, typename T, bool WHOLE>
__global__ __launch_bounds__(FLAT_THREADS) void decode_tile_kernel(const uint8_t *rows, size_t row_bytes,
                                                                   uint32_t n_rows, uint32_t n_in, T *tile) {
    const uint32_t chunks = (n_in + CHUNK - 1) / CHUNK;
    const size_t at = (size_t)blockIdx.x * FLAT_THREADS + threadIdx.x;
    if (at >= (size_t)n_rows * chunks) return;
    const uint32_t row = (uint32_t)(at / chunks), i = (uint32_t)(at % chunks) * CHUNK;
    float w[CHUNK];
    kg_dequant::decode_chunk<D, WHOLE>(rows + row * row_bytes, i, n_in, w);
    T *out = tile + (size_t)row * n_in + i;
#pragma unroll
    for (uint32_t j = 0; j < CHUNK; j++)
        if (WHOLE || i + j < n_in) out[j] = (T)w[j];
}

/* A thread to an element. */
__global__ __launch_bounds__(FLAT_THREADS) void widen_kernel(const __half *x, float *wide, size_t n) {
    const size_t i = (size_t)blockIdx.x * FLAT_THREADS + threadIdx.x;
    if (i < n) wide[i] = __half2float(x[i]);
}

/* y[r][o] = product[r][o - first] + bias[o] for the n_cols outputs from `first`; product may be y itself where y is all of
 * it. A thread to an element. */
template <typename P, typename Y>
__global__ __launch_bounds__(FLAT_THREADS) void finish_kernel(const P *product, const float *bias, Y *y,
                                                              uint32_t n_rows, uint32_t n_cols, uint32_t first,
                                                              uint32_t n_out) {
    const size_t i = (size_t)blockIdx.x * FLAT_THREADS + threadIdx.x;
    if (i >= (size_t)n_rows * n_cols) return;
    const size_t row = i / n_cols, o = first + i % n_cols;
    const float sum = (float)product[i] + (bias ? bias[o] : 0.0f);
    y[row * n_out + o] = (Y)sum;
}

static uint32_t flat_blocks(size_t n) {
    return (uint32_t)((n + FLAT_THREADS - 1) / FLAT_THREADS);
}

/* A linear under way. */
struct job {
    struct kg_cuda_backend *cuda;
    const struct kg_linear_args *args;
    struct kg_error *err;
};

template <enum kg_dtype D, typename X, bool WHOLE> static enum kg_status launch_gemv(const struct job &job) {
    const struct kg_linear_args *args = job.args;
    const struct kg_weight *w = &args->weight;
    struct kg_gemv::params p;
    p.x = args->x;
    p.weight = static_cast<const uint8_t *>(w->data);
    p.row_bytes = kg_weight_row_bytes(w);
    p.bias = args->bias;
    p.y = args->y;
    p.y_is_f16 = args->output == KG_PRECISION_F16;
    p.n_rows = args->n_rows;
    p.n_in = w->n_cols;
    p.n_out = w->n_rows;
    p.parts = kg_gemv::parts_of(w->n_rows, w->n_cols, job.cuda->n_sms);
    const uint32_t outputs = kg_gemv::WARPS / p.parts, rows = args->n_rows == 1 ? 1 : GEMV_ROWS;
    const dim3 grid((w->n_rows + outputs - 1) / outputs, (args->n_rows + rows - 1) / rows);
    if (rows == 1) kg_gemv::gemv_kernel<D, X, 1, WHOLE><<<grid, kg_gemv::BLOCK_THREADS, 0, job.cuda->stream>>>(p);
    else kg_gemv::gemv_kernel<D, X, GEMV_ROWS, WHOLE><<<grid, kg_gemv::BLOCK_THREADS, 0, job.cuda->stream>>>(p);
    return kg_cuda_launched(job.err, "linear");
}

template <enum kg_dtype D, bool WHOLE> static enum kg_status gemv_of_rows(const struct job &job) {
    return job.args->activations == KG_PRECISION_F16 ? launch_gemv<D, __half, WHOLE>(job)
                                                     : launch_gemv<D, float, WHOLE>(job);
}

template <enum kg_dtype D> static enum kg_status gemv(const struct job &job) {
    const bool whole =
        kg_dequant::rows_are_whole(&job.args->weight) && reinterpret_cast<uintptr_t>(job.args->x) % 16 == 0;
    if constexpr (kg_dequant::is_plain<D>::value) {
        if (!whole) return gemv_of_rows<D, false>(job);
    }
    if (!whole) return kg_fail(job.err, KG_ERR_USAGE, "linear: x is not on 16 bytes");
    return gemv_of_rows<D, true>(job);
}

static enum kg_status run_gemv(const struct job &job) {
    switch (job.args->weight.dtype) {
#define GEMV_CASE(name, gguf_id, text, block_elems, block_bytes)                                                       \
    case KG_DTYPE_##name: return gemv<KG_DTYPE_##name>(job);
        KG_DTYPE_LIST(GEMV_CASE)
#undef GEMV_CASE
    case KG_DTYPE_COUNT: break;
    }
    return kg_fail(job.err, KG_ERR_USAGE, "linear: %d is no weight format", (int)job.args->weight.dtype);
}

template <enum kg_dtype D, typename T>
static void launch_decode(const struct job &job, uint32_t first, uint32_t n_rows, void *tile) {
    const struct kg_weight *w = &job.args->weight;
    const size_t row_bytes = kg_weight_row_bytes(w);
    const uint8_t *rows = static_cast<const uint8_t *>(w->data) + first * row_bytes;
    const uint32_t blocks = flat_blocks((size_t)n_rows * ((w->n_cols + CHUNK - 1) / CHUNK));
    T *out = static_cast<T *>(tile);
    if constexpr (kg_dequant::is_plain<D>::value) {
        if (!kg_dequant::rows_are_whole(w)) {
            decode_tile_kernel<D, T, false>
                <<<blocks, FLAT_THREADS, 0, job.cuda->stream>>>(rows, row_bytes, n_rows, w->n_cols, out);
            return;
        }
    }
    decode_tile_kernel<D, T, true>
        <<<blocks, FLAT_THREADS, 0, job.cuda->stream>>>(rows, row_bytes, n_rows, w->n_cols, out);
}

static enum kg_status decode_tile(const struct job &job, uint32_t first, uint32_t n_rows, bool f16, void *tile) {
    switch (job.args->weight.dtype) {
#define DECODE_CASE(name, gguf_id, text, block_elems, block_bytes)                                                     \
    case KG_DTYPE_##name:                                                                                              \
        if (f16) launch_decode<KG_DTYPE_##name, __half>(job, first, n_rows, tile);                                     \
        else launch_decode<KG_DTYPE_##name, float>(job, first, n_rows, tile);                                          \
        break;
        KG_DTYPE_LIST(DECODE_CASE)
#undef DECODE_CASE
    case KG_DTYPE_COUNT: return kg_fail(job.err, KG_ERR_USAGE, "linear: no weight format");
    }
    return kg_cuda_launched(job.err, "linear: decoding weights");
}

/* Operands of a matrix product, all in device memory. */
struct product {
    const void *x, *w;
    void *y;
    bool operands_f16, y_f16;
    uint32_t n_outputs; /* rows of w */
    uint32_t ldy;
};

static enum kg_status gemm(const struct job &job, const struct product &p) {
    const float one = 1, zero = 0;
    const int n_in = (int)job.args->weight.n_cols;
    const cudaDataType operand = p.operands_f16 ? CUDA_R_16F : CUDA_R_32F;
    const cublasStatus_t code =
        cublasGemmEx(job.cuda->cublas, CUBLAS_OP_T, CUBLAS_OP_N, (int)p.n_outputs, (int)job.args->n_rows, n_in, &one,
                     p.w, operand, n_in, p.x, operand, n_in, &zero, p.y, p.y_f16 ? CUDA_R_16F : CUDA_R_32F, (int)p.ldy,
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (code == CUBLAS_STATUS_SUCCESS) return KG_OK;
    return kg_fail(job.err, KG_ERR_INTERNAL, "cuda: linear of %u x %u by %u rows: %s", p.n_outputs, (unsigned)n_in,
                   job.args->n_rows, cublasGetStatusString(code));
}

template <typename P, typename Y>
static enum kg_status finish(const struct job &job, const void *product, uint32_t first, uint32_t n_cols) {
    const struct kg_linear_args *args = job.args;
    finish_kernel<P, Y><<<flat_blocks((size_t)args->n_rows * n_cols), FLAT_THREADS, 0, job.cuda->stream>>>(
        static_cast<const P *>(product), args->bias, static_cast<Y *>(args->y), args->n_rows, n_cols, first,
        args->weight.n_rows);
    return kg_cuda_launched(job.err, "linear: bias");
}

static void *output_at(const struct kg_linear_args *args, uint32_t o) {
    return static_cast<char *>(args->y) + (size_t)o * kg_precision_bytes(args->output);
}

/* Over tiles of W's rows; `f16` is the tile's type, and x is of it already. A tile of W that has this type is used where
 * it lies. A product that is not yet y (a bias is missing, or it was summed from float32) is rounded on its way there. */
static enum kg_status gemm_of_tiles(const struct job &job, const void *x, bool f16, char *workspace,
                                    const struct layout &l) {
    const struct kg_linear_args *args = job.args;
    const struct kg_weight *w = &args->weight;
    const bool in_place = w->dtype == (f16 ? KG_DTYPE_F16 : KG_DTYPE_F32);
    const bool y_f16 = args->output == KG_PRECISION_F16, round_after = y_f16 && (!f16 || args->bias);
    const uint64_t fit = TILE_BYTES / ((uint64_t)w->n_cols * (f16 ? sizeof(__half) : sizeof(float)));
    const uint32_t tile_rows = fit < TILE_MAX_ROWS ? (uint32_t)fit : (uint32_t)TILE_MAX_ROWS;
    enum kg_status status = KG_OK;
    if (tile_rows == 0)
        return kg_fail(job.err, KG_ERR_UNSUPPORTED, "linear: rows of %u elements are too long for the cuda back end",
                       w->n_cols);
    for (uint32_t first = 0, n; first < w->n_rows && !status; first += n) {
        n = w->n_rows - first < tile_rows ? w->n_rows - first : tile_rows;
        const void *tile =
            in_place ? static_cast<const char *>(w->data) + first * kg_weight_row_bytes(w) : workspace + l.tile_at;
        void *y = round_after ? workspace + l.y_at : output_at(args, first);
        const struct product p = { x, tile, y, f16, y_f16 && !round_after, n, round_after ? n : w->n_rows };
        if (!in_place) status = decode_tile(job, first, n, f16, workspace + l.tile_at);
        if (!status) status = gemm(job, p);
        if (!status && round_after) status = finish<float, __half>(job, workspace + l.y_at, first, n);
    }
    return status;
}

/* The bias of float32 products that are in y. */
static enum kg_status add_bias(const struct job &job) {
    if (!job.args->bias || job.args->output != KG_PRECISION_F32) return KG_OK;
    return finish<float, float>(job, job.args->y, 0, job.args->weight.n_rows);
}

/* Whether every value of the format is one of float16, or its rounding to it that of a product of few bits. */
static bool fits_f16(enum kg_dtype dtype) {
    return dtype != KG_DTYPE_F32 && dtype != KG_DTYPE_BF16 && dtype != KG_DTYPE_MXFP4;
}

static enum kg_status run_gemm(const struct job &job) {
    const struct kg_linear_args *args = job.args;
    const struct kg_weight *w = &args->weight;
    const bool x_f16 = args->activations == KG_PRECISION_F16, y_f16 = args->output == KG_PRECISION_F16;
    char *workspace = static_cast<char *>(args->workspace);
    const struct layout l = lay_out(args->n_rows, w->n_cols);
    if (!workspace) return kg_fail(job.err, KG_ERR_USAGE, "linear: %u rows need a workspace", args->n_rows);
    const cublasStatus_t code = cublasSetWorkspace(job.cuda->cublas, workspace, CUBLAS_BYTES);
    if (code != CUBLAS_STATUS_SUCCESS)
        return kg_fail(job.err, KG_ERR_INTERNAL, "cuda: cublasSetWorkspace: %s", cublasGetStatusString(code));

    if (w->dtype == (x_f16 ? KG_DTYPE_F16 : KG_DTYPE_F32) && !(y_f16 && args->bias)) {
        const struct product p = { args->x, w->data, args->y, x_f16, y_f16, w->n_rows, w->n_rows };
        const enum kg_status status = gemm(job, p);
        return status ? status : add_bias(job);
    }
    const bool f16 = x_f16 && fits_f16(w->dtype);
    const void *x = args->x;
    if (x_f16 && !f16) {
        const size_t n = (size_t)args->n_rows * w->n_cols;
        float *wide = reinterpret_cast<float *>(workspace + l.x_at);
        widen_kernel<<<flat_blocks(n), FLAT_THREADS, 0, job.cuda->stream>>>(static_cast<const __half *>(x), wide, n);
        const enum kg_status status = kg_cuda_launched(job.err, "linear: widening x");
        if (status) return status;
        x = wide;
    }
    const enum kg_status status = gemm_of_tiles(job, x, f16, workspace, l);
    return status ? status : add_bias(job);
}

extern "C" enum kg_status kg_cuda_linear(struct kg_backend *backend, const struct kg_linear_args *args,
                                         struct kg_error *err) {
    const enum kg_status status = kg_linear_check(args, err);
    if (status) return status;
    const struct kg_weight *w = &args->weight;
    if (args->activations != KG_PRECISION_F32 && args->activations != KG_PRECISION_F16)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "linear: the cuda back end has no %s activations",
                       kg_precision_name(args->activations));
    if (args->output != args->activations && args->output != KG_PRECISION_F32)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "linear: the cuda back end has no %s outputs of %s activations",
                       kg_precision_name(args->output), kg_precision_name(args->activations));
    if (w->n_rows > INT_MAX || w->n_cols > INT_MAX - CHUNK || args->n_rows > INT_MAX)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "linear: %u x %u by %u rows is too large for the cuda back end",
                       w->n_rows, w->n_cols, args->n_rows);
    if (args->n_rows == 0) return KG_OK;
    const struct job job = { kg_cuda_of(backend), args, err };
    return args->n_rows <= GEMV_MAX_ROWS ? run_gemv(job) : run_gemm(job);
}
