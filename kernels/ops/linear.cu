/* linear on the GPU (contract in ops/linear.h): y[r][o] = sum_i x[r][i] * W[o][i] + bias[o].
 *
 * Repacked MXFP4 by f16 x is multiplied as it is (mxfp4/mxfp4.h), unless there are many rows and scales too far apart.
 * Else: up to GEMV_MAX_ROWS rows, and where W is a vector (of one row or column, at the edge of what libraries make
 * matrix products of): gemv/gemv.h, which decodes W in registers. Else, if they take them, gemm/few_rows.h,
 * gemm/blocks.h, which decodes W in registers for the tensor cores, and gemm/few_rows_f32.h. Else gemv.h again for few
 * rows of a small W, gemm/few_outputs.h for a float32 W of few outputs, and gemm.h for the rest: over W itself where it
 * has the operands' type, or over tiles of W's rows, decoded into the workspace one after the other, so that W is never
 * copied as a whole. The operands are
 * - float32 if x is f32, or W is F32: float32 products, x f16 widened;
 * - float16 if x is f16 and W is F16 or a quantised format whose scale is a float16. A value of these, scale times a
 *   small integer, is rounded to float16; what is beyond its 65504 becomes infinite and is reported as such;
 * - bfloat16 if x is f16 and W is BF16 or MXFP4: their values are bfloat16 (float16 has not their range), and x is the
 *   sum of two bfloat16, exactly: 11 significant bits are 8 and 3. The product is made of both parts, as rows one below
 *   the other, and the two sums are added. Rounding x to one bfloat16 would cost 2^-9.
 *
 * Numerics: products are exact in the 16-bit types and float32 products else (no TF32); sums are float32. The bias is
 * added to the float32 product, so that a float16 y is rounded once. */
#include "kernels/ops/linear.h"
#include "kernels/gemm/blocks.h"
#include "kernels/gemm/few_outputs.h"
#include "kernels/gemm/few_rows_f32.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemv/gemv.h"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/block/dequant.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include <algorithm>
#include <climits>
#include <cuda_bf16.h>

KG_PRELOADED(ops_linear, KG_FIRST_TOKEN)

using kg_dequant::CHUNK;

enum { GEMV_MAX_ROWS = 8, TILE_MAX_ROWS = 4096, FLAT_THREADS = 256 };
static const uint64_t TILE_BYTES = 32u << 20;
static const uint64_t ALIGNMENT_BYTES = 256;

static uint64_t aligned(uint64_t bytes) {
    return (bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

/* The workspace: the library's, a tile of W, x as another type (float32, or two parts of bfloat16), float32 products of
 * a tile (of both parts) before they are finished. */
struct layout {
    uint64_t tile_at, x_at, product_at, size_bytes;
};

static struct layout lay_out(uint64_t n_rows, uint64_t n_in) {
    struct layout l;
    l.tile_at = KG_GEMM_WORKSPACE_BYTES;
    l.x_at = l.tile_at + TILE_BYTES;
    l.product_at = l.x_at + aligned(n_rows * n_in * sizeof(float));
    l.size_bytes = l.product_at + aligned(2 * n_rows * TILE_MAX_ROWS * sizeof(float));
    return l;
}

enum kg_status kg_cuda_linear_plan(struct kg_cuda_backend *cuda, const struct kg_session_plan *plan,
                                   uint64_t *workspace_bytes, struct kg_error *err) {
    const struct kg_model_config *c = plan->config;
    const uint64_t widths[] = { c->n_embd, c->n_ff, (uint64_t)c->n_heads * c->head_dim };
    uint64_t n_in = 0;
    for (const uint64_t width : widths) n_in = width > n_in ? width : n_in;
    if (kg_precision_is_quantized(plan->activations))
        return kg_fail(err, KG_ERR_UNSUPPORTED, "the cuda back end has no %s activations, only f32 and f16",
                       kg_precision_name(plan->activations));
    *workspace_bytes = plan->max_rows > GEMV_MAX_ROWS ? lay_out(plan->max_rows, n_in).size_bytes : 0;
    kg_cuda_gemm_expect(cuda, plan->activations == KG_PRECISION_F16 ? CUDA_R_16F : CUDA_R_32F);
    return plan->max_rows > GEMV_MAX_ROWS ? kg_cuda_gemm_announce(cuda, err) : KG_OK;
}

/* 16-byte stores of 8 elements; `out` is on 16 bytes. */
template <typename T> __device__ __forceinline__ void store_chunk(T *out, const float w[CHUNK]) {
    alignas(16) T packed[CHUNK];
#pragma unroll
    for (int j = 0; j < CHUNK; j++) packed[j] = (T)w[j];
#pragma unroll
    for (size_t part = 0; part < sizeof packed / sizeof(uint4); part++)
        reinterpret_cast<uint4 *>(out)[part] = reinterpret_cast<const uint4 *>(packed)[part];
}

/* tile[t][i] = W[first + t][i], a thread to a chunk of 8. */
template <enum kg_dtype D, typename T, bool WHOLE>
__global__ __launch_bounds__(FLAT_THREADS) void decode_tile_kernel(const uint8_t *weight, size_t row_bytes,
                                                                   uint32_t first, uint32_t n_rows, uint32_t n_in,
                                                                   void *tile) {
    const uint32_t chunks = (n_in + CHUNK - 1) / CHUNK;
    const size_t at = (size_t)blockIdx.x * FLAT_THREADS + threadIdx.x;
    if (at >= (size_t)n_rows * chunks) return;
    const uint32_t row = (uint32_t)(at / chunks), i = (uint32_t)(at % chunks) * CHUNK;
    float w[CHUNK];
    kg_dequant::decode_chunk<D, WHOLE>(kg_dequant::row_of<D>(weight, (size_t)first + row, row_bytes), i, n_in, w);
    T *out = static_cast<T *>(tile) + (size_t)row * n_in + i;
    if constexpr (WHOLE) {
        store_chunk(out, w);
    } else {
#pragma unroll
        for (uint32_t j = 0; j < CHUNK; j++)
            if (i + j < n_in) out[j] = (T)w[j];
    }
}

/* parts[i] + parts[n + i] = x[i]. What is not finite stays so in the first part. A thread to an element. */
__global__ __launch_bounds__(FLAT_THREADS) void split_kernel(const __half *x, __nv_bfloat16 *parts, size_t n) {
    const size_t i = (size_t)blockIdx.x * FLAT_THREADS + threadIdx.x;
    if (i >= n) return;
    const float value = __half2float(x[i]);
    const __nv_bfloat16 high = __float2bfloat16_rn(value);
    parts[i] = high;
    parts[n + i] = __float2bfloat16_rn(isfinite(value) ? value - __bfloat162float(high) : 0.0f);
}

/* y[r][o] = sum over parts of product[part][r][o - first] + bias[o] for the n_cols outputs from `first`; product may be
 * y itself where y is all of it. A thread to an element. */
template <typename Y>
__global__ __launch_bounds__(FLAT_THREADS) void finish_kernel(const float *product, uint32_t n_parts, const float *bias,
                                                              void *y, uint32_t n_rows, uint32_t n_cols, uint32_t first,
                                                              uint32_t n_out) {
    const size_t i = (size_t)blockIdx.x * FLAT_THREADS + threadIdx.x, n = (size_t)n_rows * n_cols;
    if (i >= n) return;
    const size_t row = i / n_cols, o = first + i % n_cols;
    float sum = product[i];
    if (n_parts == 2) sum += product[n + i];
    kg_store(static_cast<Y *>(y) + row * n_out + o, sum + (bias ? bias[o] : 0.0f));
}

static uint32_t flat_blocks(size_t n) {
    return kg_blocks_for(n, FLAT_THREADS);
}

/* A linear under way. */
struct job {
    struct kg_cuda_backend *cuda;
    const struct kg_linear_args *args;
    const struct kg_mxfp4_range *repacked; /* the range that has W, or NULL (mxfp4/mxfp4.h) */
    bool adds;                             /* y += in place of y = (linear.h) */
    struct kg_error *err;
};

/* Rows of a weight, from `first`, as `type` in row-major order. */
static enum kg_status decode_tile(const struct job &job, const struct kg_weight *w, bool is_repacked, uint32_t first,
                                  uint32_t n_rows, cudaDataType type, void *tile) {
    return kg_dequant::visit_format(
        w, is_repacked, true, "linear", job.err, [&](auto format, auto whole) -> enum kg_status {
            const auto kernel = type == CUDA_R_16F    ? decode_tile_kernel<format, __half, whole>
                                : type == CUDA_R_16BF ? decode_tile_kernel<format, __nv_bfloat16, whole>
                                                      : decode_tile_kernel<format, float, whole>;
            kernel<<<flat_blocks((size_t)n_rows * kg_blocks_for(w->n_cols, CHUNK)), FLAT_THREADS, 0,
                     job.cuda->stream>>>(static_cast<const uint8_t *>(w->data), kg_weight_row_bytes(w), first, n_rows,
                                         w->n_cols, tile);
            return kg_cuda_launched(job.err, "linear: decoding rows");
        });
}

static enum kg_status finish(const struct job &job, const void *product, uint32_t n_parts, uint32_t first,
                             uint32_t n_cols) {
    const struct kg_linear_args *a = job.args;
    const auto kernel = a->output == KG_PRECISION_F16 ? finish_kernel<__half> : finish_kernel<float>;
    kernel<<<flat_blocks((size_t)a->n_rows * n_cols), FLAT_THREADS, 0, job.cuda->stream>>>(
        static_cast<const float *>(product), n_parts, a->bias, a->y, a->n_rows, n_cols, first, a->weight.n_rows);
    return kg_cuda_launched(job.err, "linear: bias");
}

/* What is multiplied: the type of x and of W's tiles, x in it, and W's own format that is that type. */
struct operands {
    cudaDataType type;
    size_t elem_bytes;
    enum kg_dtype in_place;
    uint32_t n_parts; /* of x, one below the other */
    const void *x;
};

static struct operands choose_operands(const struct kg_linear_args *args) {
    const enum kg_dtype dtype = args->weight.dtype;
    if (args->activations == KG_PRECISION_F32 || dtype == KG_DTYPE_F32)
        return { CUDA_R_32F, sizeof(float), KG_DTYPE_F32, 1, args->x };
    if (dtype == KG_DTYPE_BF16 || dtype == KG_DTYPE_MXFP4)
        return { CUDA_R_16BF, sizeof(__nv_bfloat16), KG_DTYPE_BF16, 2, args->x };
    return { CUDA_R_16F, sizeof(__half), KG_DTYPE_F16, 1, args->x };
}

/* Makes x of the operands' type, in the workspace unless it is so already. */
static enum kg_status convert_x(const struct job &job, void *to, struct operands *ops) {
    const struct kg_linear_args *args = job.args;
    const size_t n = (size_t)args->n_rows * args->weight.n_cols;
    const struct kg_weight x = { args->x, KG_DTYPE_F16, args->n_rows, args->weight.n_cols };
    if (args->activations == KG_PRECISION_F32 || ops->type == CUDA_R_16F) return KG_OK;
    ops->x = to;
    if (ops->type == CUDA_R_32F) return decode_tile(job, &x, false, 0, args->n_rows, CUDA_R_32F, to);
    split_kernel<<<flat_blocks(n), FLAT_THREADS, 0, job.cuda->stream>>>(static_cast<const __half *>(x.data),
                                                                        static_cast<__nv_bfloat16 *>(to), n);
    return kg_cuda_launched(job.err, "linear: converting x");
}

/* Rows of W at a time: as many as their tile and their products have room for, and pieces of one size. 0: not even one.
 */
static uint32_t rows_at_a_time(const struct kg_weight *w, const struct operands &ops, bool in_place,
                               bool finished_apart) {
    uint64_t most = w->n_rows;
    if (!in_place) most = std::min(most, TILE_BYTES / ((uint64_t)w->n_cols * ops.elem_bytes));
    if (finished_apart) most = std::min<uint64_t>(most, TILE_MAX_ROWS);
    return most > 0 ? kg_blocks_for(w->n_rows, kg_blocks_for(w->n_rows, most)) : 0;
}

/* A product that is not yet y (it is of two parts, or it was summed from float32, or a bias is missing that the library
 * does not add) is finished on its way there. */
static enum kg_status run_gemm(const struct job &job) {
    const struct kg_linear_args *args = job.args;
    const struct kg_weight *w = &args->weight;
    char *workspace = static_cast<char *>(args->workspace);
    if (!workspace) return kg_fail(job.err, KG_ERR_USAGE, "linear: %u rows need a workspace", args->n_rows);
    const struct layout l = lay_out(args->n_rows, w->n_cols);
    const bool y_f16 = args->output == KG_PRECISION_F16;
    struct operands ops = choose_operands(args);
    const bool in_place = w->dtype == ops.in_place;
    const bool apart = ops.n_parts > 1 || (y_f16 && (ops.type != CUDA_R_16F || args->bias));
    const uint32_t piece = rows_at_a_time(w, ops, in_place, apart);
    if (piece == 0)
        return kg_fail(job.err, KG_ERR_UNSUPPORTED, "linear: rows of %u elements are too long for the cuda back end",
                       w->n_cols);
    bool has_bias = apart || !args->bias; /* or gets it on the way */
    enum kg_status status = convert_x(job, workspace + l.x_at, &ops);
    for (uint32_t first = 0, n; first < w->n_rows && !status; first += n) {
        n = w->n_rows - first < piece ? w->n_rows - first : piece;
        const char *rows = static_cast<const char *>(w->data) + first * kg_weight_row_bytes(w);
        struct kg_gemm_args product = { .operands = ops.type,
                                        .result = y_f16 && !apart ? CUDA_R_16F : CUDA_R_32F,
                                        .x = ops.x,
                                        .w = in_place ? rows : workspace + l.tile_at,
                                        .y = apart ? workspace + l.product_at
                                                   : static_cast<char *>(args->y) +
                                                         first * kg_precision_bytes(args->output),
                                        .n_rows = args->n_rows * ops.n_parts,
                                        .n_in = w->n_cols,
                                        .n_outputs = n,
                                        .ldy = apart ? n : w->n_rows,
                                        .adds = job.adds,
                                        .workspace = workspace };
        if (!has_bias && piece == w->n_rows) { /* a later piece's bias begins anywhere */
            product.bias = args->bias;
            has_bias = kg_cuda_gemm_takes_bias(job.cuda, &product);
            if (!has_bias) product.bias = NULL;
        }
        if (!in_place) status = decode_tile(job, w, job.repacked, first, n, ops.type, workspace + l.tile_at);
        if (!status) status = kg_cuda_gemm(job.cuda, &product, job.err);
        if (!status && apart) status = finish(job, product.y, ops.n_parts, first, n);
    }
    return status || has_bias ? status : finish(job, args->y, 1, 0, w->n_rows);
}

bool kg_cuda_linear_many_rows(const struct kg_linear_args *args) {
    return args->n_rows > GEMV_MAX_ROWS && args->weight.n_rows > 1 && args->weight.n_cols > 1;
}

bool kg_cuda_linear_plain_product(const struct kg_linear_args *args, uint32_t n, struct kg_few_rows_product *product) {
    struct kg_few_rows_product p = {};
    p.form = KG_FEW_ROWS_PLAIN;
    p.x = args->x, p.n_rows = args->n_rows, p.n_cols = args->weight.n_cols, p.n_parts = n, p.output = args->output;
    for (uint32_t i = 0; i < n; i++) {
        const struct kg_weight *w = &args[i].weight;
        if (args[i].activations != KG_PRECISION_F16 || w->dtype != KG_DTYPE_F16 || w->n_cols != p.n_cols ||
            args[i].x != p.x || args[i].output != p.output || !kg_cuda_linear_many_rows(&args[i]))
            return false;
        p.part[i].w = w->data, p.part[i].bias = args[i].bias, p.part[i].y = args[i].y, p.part[i].n_out = w->n_rows;
    }
    *product = p;
    return true;
}

bool kg_cuda_linear_few_rows(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, uint32_t n,
                             struct kg_few_rows_product *product) {
    return kg_cuda_linear_plain_product(args, n, product) && kg_cuda_few_rows_takes(cuda, product);
}

/* Few rows of a small matrix, as experts' routers are: not worth the library, whose first use costs a fresh process
 * some 80 ms. */
static bool is_small(const struct kg_linear_args *args) {
    enum { MOST_ROWS = 32, MOST_BYTES = 1 << 20 };
    const struct kg_weight *w = &args->weight;
    return args->n_rows <= MOST_ROWS && w->n_rows * kg_weight_row_bytes(w) <= MOST_BYTES;
}

/* The same product as of one expert. */
static struct kg_experts_linear_args one_matrix(const struct kg_linear_args *args) {
    return { .activations = args->activations,
             .x = args->x,
             .weight = args->weight,
             .n_experts = 1,
             .bias = args->bias,
             .ids = NULL,
             .y = args->y,
             .n_rows = args->n_rows,
             .n_sharing = 1,
             .workspace = NULL,
             .wide_output = args->output != args->activations };
}

bool kg_cuda_linear_repacked(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                             struct kg_mxfp4_product *product) {
    const struct kg_mxfp4_range *repacked = kg_mxfp4_repacked_range(cuda, &args->weight);
    const struct kg_experts_linear_args one = one_matrix(args);
    if (!repacked || args->activations != KG_PRECISION_F16) return false;
    *product = kg_mxfp4_product_of(&one, repacked);
    return kg_mxfp4_gemm_takes(cuda, product);
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
    if (w->n_rows > INT_MAX || w->n_cols > INT_MAX - CHUNK || args->n_rows >= 1u << 30)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "linear: %u x %u by %u rows is too large for the cuda back end",
                       w->n_rows, w->n_cols, args->n_rows);
    if (args->n_rows == 0) return KG_OK;
    const struct job job = { kg_cuda_of(backend), args, kg_mxfp4_repacked_range(kg_cuda_of(backend), w), false, err };
    const struct kg_experts_linear_args one = one_matrix(args);
    if (job.repacked && args->activations == KG_PRECISION_F16 &&
        (job.repacked->f16 || args->n_rows <= KG_MXFP4_FEW_ROWS)) {
        const struct kg_mxfp4_product p = kg_mxfp4_product_of(&one, job.repacked);
        return kg_mxfp4_multiply(job.cuda, &p, err);
    }
    const bool is_vector = w->n_rows == 1 || w->n_cols == 1;
    if (args->n_rows <= GEMV_MAX_ROWS || (is_vector && args->n_rows <= KG_GEMV_MAX_ROWS))
        return kg_cuda_gemv(job.cuda, &one, job.repacked, "linear", err);
    struct kg_few_rows_product few;
    if (kg_cuda_linear_few_rows(job.cuda, args, 1, &few)) return kg_cuda_few_rows(job.cuda, &few, err);
    if (kg_cuda_block_gemm_takes(job.cuda, args)) return kg_cuda_block_gemm(job.cuda, args, false, err);
    if (kg_cuda_few_rows_f32_takes(args)) return kg_cuda_few_rows_f32(job.cuda, args, job.repacked, false, err);
    if (is_small(args)) return kg_cuda_gemv(job.cuda, &one, job.repacked, "linear", err);
    if (kg_cuda_few_outputs_takes(job.cuda, args)) return kg_cuda_few_outputs(job.cuda, args, err);
    return run_gemm(job);
}

/* Whether the library multiplies by W as it lies, and its result is y (float16, or float32). */
static bool is_plain(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args) {
    const enum kg_dtype in_place = args->activations == KG_PRECISION_F16 ? KG_DTYPE_F16 : KG_DTYPE_F32;
    struct kg_few_rows_product few;
    return args->weight.dtype == in_place && !args->bias && kg_cuda_linear_many_rows(args) &&
           !kg_cuda_linear_few_rows(cuda, args, 1, &few) && !kg_cuda_few_rows_f32_takes(args);
}

/* The product of the first of the `args` that lie equally far apart: as many as there are. */
static uint32_t gather(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args, uint32_t n,
                       struct kg_gemm_args *product) {
    const struct kg_linear_args *a = args;
    const struct kg_weight *w = &a->weight;
    const auto apart = [](const void *from, const void *to, enum kg_precision precision) {
        return (int64_t)((intptr_t)to - (intptr_t)from) / (int64_t)kg_precision_bytes(precision);
    };
    const auto w_apart = [&](const struct kg_linear_args *b) {
        return apart(b[-1].weight.data, b->weight.data, a->activations);
    };
    const auto y_apart = [&](const struct kg_linear_args *b) { return apart(b[-1].y, b->y, a->output); };
    if (!is_plain(cuda, a) || !a->workspace) return 1; /* what is missing, linear says */
    const auto type_of = [](enum kg_precision p) { return p == KG_PRECISION_F16 ? CUDA_R_16F : CUDA_R_32F; };
    *product = { .operands = type_of(a->activations),
                 .result = type_of(a->output),
                 .x = a->x,
                 .w = w->data,
                 .y = a->y,
                 .n_rows = a->n_rows,
                 .n_in = w->n_cols,
                 .n_outputs = w->n_rows,
                 .ldy = w->n_rows,
                 .workspace = a->workspace };
    if (n < 2) return 1;
    product->w_stride = w_apart(&args[1]), product->y_stride = y_apart(&args[1]);
    for (product->n_products = 1; product->n_products < n; product->n_products++) {
        const struct kg_linear_args *b = &args[product->n_products];
        if (!is_plain(cuda, b) || b->weight.n_rows != w->n_rows || b->weight.n_cols != w->n_cols || b->x != a->x ||
            b->n_rows != a->n_rows || b->activations != a->activations || b->output != a->output ||
            product->w_stride <= 0 || product->y_stride <= 0 || w_apart(b) != product->w_stride ||
            y_apart(b) != product->y_stride)
            break;
    }
    return product->n_products;
}

enum kg_status kg_cuda_linear_each(struct kg_cuda_backend *cuda, const struct kg_linear_args *args, uint32_t n,
                                   struct kg_error *err) {
    struct kg_few_rows_product few;
    if (kg_cuda_linear_few_rows(cuda, args, n, &few)) return kg_cuda_few_rows(cuda, &few, err);
    enum kg_status status = KG_OK;
    for (uint32_t i = 0, together; i < n && !status; i += together) {
        struct kg_gemm_args product;
        together = gather(cuda, args + i, n - i, &product);
        status = together > 1 ? kg_cuda_gemm(cuda, &product, err) : kg_cuda_linear(&cuda->base, &args[i], err);
    }
    return status;
}

bool kg_cuda_linear_adds(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args) {
    const enum kg_dtype in_place = args->activations == KG_PRECISION_F16 ? KG_DTYPE_F16 : KG_DTYPE_F32;
    struct kg_few_rows_product few;
    struct kg_mxfp4_product repacked;
    return kg_cuda_linear_few_rows(cuda, args, 1, &few) || kg_cuda_linear_repacked(cuda, args, &repacked) ||
           (kg_cuda_linear_many_rows(args) &&
            ((args->weight.dtype == in_place && (!args->bias || args->output == KG_PRECISION_F32)) ||
             kg_cuda_block_gemm_takes(cuda, args)));
}

enum kg_status kg_cuda_linear_residual(struct kg_cuda_backend *cuda, const struct kg_linear_args *args,
                                       struct kg_error *err) {
    const struct job job = { cuda, args, NULL, true, err };
    struct kg_few_rows_product few;
    struct kg_mxfp4_product repacked;
    if (kg_cuda_linear_repacked(cuda, args, &repacked)) {
        repacked.adds = true;
        return kg_mxfp4_gemm(cuda, &repacked, err);
    }
    if (kg_cuda_few_rows_f32_takes(args)) return kg_cuda_few_rows_f32(cuda, args, false, true, err);
    if (!kg_cuda_linear_few_rows(cuda, args, 1, &few))
        return kg_cuda_block_gemm_takes(cuda, args) ? kg_cuda_block_gemm(cuda, args, true, err) : run_gemm(job);
    few.form = KG_FEW_ROWS_RESIDUAL;
    return kg_cuda_few_rows(cuda, &few, err);
}

bool kg_cuda_linear_finishes(const struct kg_cuda_backend *cuda, const struct kg_linear_args *args) {
    struct kg_few_rows_product few;
    return args->bias && args->activations == KG_PRECISION_F16 && args->output == KG_PRECISION_F16 &&
           args->weight.dtype == KG_DTYPE_F16 && kg_cuda_linear_many_rows(args) &&
           !kg_cuda_linear_few_rows(cuda, args, 1, &few);
}

void *kg_cuda_linear_free_space(const struct kg_linear_args *args, uint64_t *size_bytes) {
    const struct layout l = lay_out(args->n_rows, args->weight.n_cols);
    *size_bytes = l.size_bytes - l.tile_at;
    return static_cast<char *>(args->workspace) + l.tile_at;
}
