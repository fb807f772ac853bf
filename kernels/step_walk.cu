/* A token's walk through the layers in few launches, for models whose matrices, but for experts' and router's, are all F16
 * or all F32.
 *
 * At one row a launch costs as much as the reading of a small matrix, so what needs no other block's result is one kernel:
 *     turns             cos, sin of the token's position, once
 *     per layer         norm and q, k, v;  rope and cache;  attention (its two kernels);  attn_out and residual;
 *                       norm, gate, up and swiglu;  down and residual
 *                       (experts: norm;  router's product;  router;  gate;  up;  swiglu;  down;  sum and residual)
 *     at the end        norm;  logits
 *
 * Matrix kernel (step_gemv_kernel): y[o] = f(sum_i n[i] W[o][i]), n = x or x * norm_weight / rms(x).
 * Numerics: float32 throughout, one rounding to y. The normalised row is never rounded: the kernel multiplies W by
 * x * norm_weight and the sum by 1 / rms. Order of additions as in gemv.cuh; a block's sum of squares is added by lanes,
 * then warps, in order, the same in every block.
 * Map: as in gemv.cuh, 1, 2 or 4 warps an output. A lane loads its first PRELOADED chunks of W before it looks at x: they
 * do not depend on what the previous kernel wrote, and are on their way while a row is normalised. */
#include "kernels/gemv.cuh"
#include "kernels/precision.cuh"
#include "kernels/rope_turn.cuh"
#include "kernels/step_walk.h"
#include "kernels/swiglu.cuh"

using kg_dequant::CHUNK;
using kg_gemv::BLOCK_THREADS;
using kg_gemv::WARP;
using kg_gemv::WARPS;

enum { PRELOADED = 4, MAX_SEGMENTS = 3, MAX_NORM_COLS = 8192, ROPE_THREADS = 128, TURN_THREADS = 128 };
static_assert(MAX_NORM_COLS * sizeof(float) <= 40 * 1024, "a normalised row fits shared memory beside the sums");

/* Rows of W that write one output array. */
struct segment {
    const uint8_t *weight;
    const float *bias; /* NULL for none */
    void *y;
    uint32_t n_out;
};

enum combination { PLAIN, RESIDUAL, GATED };

struct gemv_params {
    const void *x;            /* (n_in) of X */
    const float *norm_weight; /* (n_in) where the row is normalised */
    float eps;
    uint32_t n_in, parts;
    size_t row_bytes;
    struct segment segments[MAX_SEGMENTS]; /* GATED: gate and up, of one output array */
    uint32_t n_outputs;                    /* of all segments; of gate where GATED */
    struct kg_swiglu_op gate;              /* where GATED */
};

/* Eight elements of W as they lie in memory. */
template <enum kg_dtype D> struct raw_chunk;
template <> struct raw_chunk<KG_DTYPE_F16> : kg_raw_vector<__half> {
    __device__ __forceinline__ void load_at(const uint8_t *row, uint32_t i) {
        load(reinterpret_cast<const __half *>(row) + i);
    }
};
template <> struct raw_chunk<KG_DTYPE_F32> : kg_raw_vector<float> {
    __device__ __forceinline__ void load_at(const uint8_t *row, uint32_t i) {
        load(reinterpret_cast<const float *>(row) + i);
    }
};

/* x * norm_weight to shared memory, and 1 / sqrt(mean of squares + eps). Has a barrier: the row is there for all. */
template <typename X> static __device__ float normalise(const gemv_params &p, float *row, float *sums) {
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    float squares = 0;
    for (uint32_t i = threadIdx.x * CHUNK; i < p.n_in; i += BLOCK_THREADS * CHUNK) {
        float x[CHUNK], w[CHUNK];
        kg_load_vector(static_cast<const X *>(p.x) + i, x);
        kg_load_vector(p.norm_weight + i, w);
#pragma unroll
        for (int j = 0; j < CHUNK; j++) {
            squares = fmaf(x[j], x[j], squares);
            w[j] *= x[j];
        }
        kg_store_vector(row + i, w);
    }
#pragma unroll
    for (int mask = WARP / 2; mask > 0; mask /= 2) squares += __shfl_xor_sync(0xFFFFFFFFu, squares, mask);
    if (lane == 0) sums[warp] = squares;
    __syncthreads(); /* the row and all warps' sums are written */
    float total = sums[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) total += sums[w];
    return 1.0f / sqrtf(total / (float)p.n_in + p.eps);
}

template <enum kg_dtype D, typename X, bool NORM>
static __device__ __forceinline__ float add_chunk(const gemv_params &p, const float *row, const raw_chunk<D> &raw,
                                                  uint32_t i, float sum) {
    float x[CHUNK], w[CHUNK];
    if constexpr (NORM) kg_load_vector(row + i, x);
    else kg_load_vector(static_cast<const X *>(p.x) + i, x);
    raw.to_floats(w);
#pragma unroll
    for (int j = 0; j < CHUNK; j++) sum = fmaf(x[j], w[j], sum);
    return sum;
}

/* X, Y: of x and y. Grid: outputs over WARPS / parts of them a block. Shared memory: n_in floats where NORM. */
template <enum kg_dtype D, typename X, typename Y, bool NORM, enum combination C>
static __global__ void __launch_bounds__(BLOCK_THREADS) step_gemv_kernel(const gemv_params p) {
    constexpr int N = C == GATED ? 2 : 1; /* rows of W an output needs */
    extern __shared__ __align__(16) float row[];
    __shared__ float squares[WARPS], partial[WARPS][N];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, part = warp % p.parts;
    const uint32_t index = blockIdx.x * (WARPS / p.parts) + warp / p.parts;
    const bool active = index < p.n_outputs;
    uint32_t o = active ? index : 0, s = 0; /* a warp without an output reads the first row and writes nothing */
    if constexpr (C == PLAIN) {
        while (s + 1 < MAX_SEGMENTS && o >= p.segments[s].n_out) o -= p.segments[s++].n_out;
    }
    const uint8_t *w[N];
#pragma unroll
    for (int n = 0; n < N; n++) w[n] = p.segments[s + n].weight + o * p.row_bytes;

    const uint32_t first = (part * WARP + lane) * CHUNK, step = p.parts * WARP * CHUNK;
    raw_chunk<D> raw[N][PRELOADED];
#pragma unroll
    for (int k = 0; k < PRELOADED; k++)
#pragma unroll
        for (int n = 0; n < N; n++)
            if (first + k * step < p.n_in) raw[n][k].load_at(w[n], first + k * step);

    float inverse_rms = 1;
    if constexpr (NORM) inverse_rms = normalise<X>(p, row, squares);

    float sum[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        sum[n] = 0;
#pragma unroll
        for (int k = 0; k < PRELOADED; k++)
            if (first + k * step < p.n_in) sum[n] = add_chunk<D, X, NORM>(p, row, raw[n][k], first + k * step, sum[n]);
    }
#pragma unroll 2
    for (uint32_t i = first + PRELOADED * step; i < p.n_in; i += step) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            raw_chunk<D> next;
            next.load_at(w[n], i);
            sum[n] = add_chunk<D, X, NORM>(p, row, next, i, sum[n]);
        }
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int mask = WARP / 2; mask > 0; mask /= 2) sum[n] += __shfl_xor_sync(0xFFFFFFFFu, sum[n], mask);
        if (lane == 0) partial[warp][n] = sum[n];
    }
    __syncthreads(); /* the sums of an output's other warps are read below */
    if (!active || part != 0 || lane != 0) return;

    float total[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        total[n] = partial[warp][n];
        for (uint32_t k = 1; k < p.parts; k++) total[n] += partial[warp + k][n];
        total[n] *= inverse_rms;
        const float *bias = p.segments[s + n].bias;
        if (bias) total[n] += bias[o];
    }
    Y *y = static_cast<Y *>(p.segments[s].y) + o;
    if constexpr (C == GATED) kg_store(y, p.gate(total[0], total[1]));
    else if constexpr (C == RESIDUAL) kg_store(y, kg_load(y) + total[0]);
    else kg_store(y, total[0]);
}

struct rope_params {
    void *q;                 /* (n_heads, head_dim), turned in place */
    const void *k, *v;       /* (n_kv_heads, head_dim) */
    void *k_cache, *v_cache; /* (n_kv_heads, n_ctx, head_dim) */
    const float2 *turns;     /* (n_rot / 2): cosine, sine */
    uint32_t n_heads, n_kv_heads, head_dim, n_ctx, n_rot;
    bool half; /* pairs (i, i + n_rot/2), else (2i, 2i + 1) */
    const struct kg_cuda_step *step;
};

/* turns[i] of the step's position. */
static __global__ void __launch_bounds__(TURN_THREADS)
    step_turns_kernel(const struct kg_cuda_step *step, float2 *turns, const struct kg_rope_turns of) {
    for (uint32_t i = threadIdx.x; i < of.n_rot / 2; i += TURN_THREADS) turns[i] = kg_rope_turn(of, step->position, i);
}

/* A block to a head: of q, of k, of v, in this order. Keys go turned, values as they are, to the cache; a thread writes
 * only elements that it alone reads. */
template <typename T, typename C>
static __global__ void __launch_bounds__(ROPE_THREADS) step_rope_kernel(const rope_params p) {
    const uint32_t block = blockIdx.x, n_pairs = p.n_rot / 2;
    if (block >= p.n_heads + p.n_kv_heads) {
        const uint32_t h = block - p.n_heads - p.n_kv_heads;
        const T *v = static_cast<const T *>(p.v) + (size_t)h * p.head_dim;
        C *out = static_cast<C *>(p.v_cache) + ((size_t)h * p.n_ctx + p.step->position) * p.head_dim;
        for (uint32_t d = threadIdx.x; d < p.head_dim; d += ROPE_THREADS) kg_store(out + d, kg_load(v + d));
        return;
    }
    const bool is_q = block < p.n_heads;
    const uint32_t h = is_q ? block : block - p.n_heads;
    T *q = static_cast<T *>(p.q) + (size_t)h * p.head_dim;
    const T *x = is_q ? q : static_cast<const T *>(p.k) + (size_t)h * p.head_dim;
    C *k = static_cast<C *>(p.k_cache) + ((size_t)h * p.n_ctx + p.step->position) * p.head_dim;
    for (uint32_t i = threadIdx.x; i < n_pairs; i += ROPE_THREADS) {
        const uint32_t at = p.half ? i : 2 * i, other = p.half ? i + n_pairs : 2 * i + 1;
        const float2 turn = p.turns[i];
        const float a = kg_load(x + at), b = kg_load(x + other);
        const float first = a * turn.x - b * turn.y, second = a * turn.y + b * turn.x;
        if (is_q) kg_store(q + at, first), kg_store(q + other, second);
        else kg_store(k + at, first), kg_store(k + other, second);
    }
    if (is_q) return;
    for (uint32_t d = p.n_rot + threadIdx.x; d < p.head_dim; d += ROPE_THREADS) kg_store(k + d, kg_load(x + d));
}

/* A walk under way. */
struct walk {
    struct kg_cuda_backend *cuda;
    const struct kg_decode_step_args *args;
    struct kg_error *err;
    enum kg_precision activations, residual;
    enum kg_dtype dtype; /* of the matrices */
};

template <enum kg_dtype D, typename X, typename Y, bool NORM, enum combination C>
static enum kg_status launch_gemv(const struct walk &w, gemv_params p) {
    p.parts = kg_gemv::parts_of(p.n_outputs, p.n_in, w.cuda->n_sms);
    const uint32_t outputs = WARPS / p.parts;
    step_gemv_kernel<D, X, Y, NORM, C>
        <<<(p.n_outputs + outputs - 1) / outputs, BLOCK_THREADS, NORM ? p.n_in * sizeof(float) : 0, w.cuda->stream>>>(
            p);
    return kg_cuda_launched(w.err, "decode step: matrix");
}

/* Of the residual stream (R) into activations (T), or of these into the residual stream. */
template <typename T, typename R, bool NORM, enum combination C>
static enum kg_status gemv_of(const struct walk &w, const gemv_params &p) {
    using X = typename std::conditional<C == RESIDUAL, T, R>::type;
    using Y = typename std::conditional<C == RESIDUAL, R, T>::type;
    return w.dtype == KG_DTYPE_F16 ? launch_gemv<KG_DTYPE_F16, X, Y, NORM, C>(w, p)
                                   : launch_gemv<KG_DTYPE_F32, X, Y, NORM, C>(w, p);
}

template <bool NORM, enum combination C> static enum kg_status gemv(const struct walk &w, const gemv_params &p) {
    if (w.activations == KG_PRECISION_F32) return gemv_of<float, float, NORM, C>(w, p);
    return w.residual == KG_PRECISION_F32 ? gemv_of<__half, float, NORM, C>(w, p)
                                          : gemv_of<__half, __half, NORM, C>(w, p);
}

static struct segment segment_of(const struct kg_weight *weight, const float *bias, void *y) {
    return { static_cast<const uint8_t *>(weight->data), bias, y, weight->n_rows };
}

static gemv_params params_of(const struct kg_weight *weight, const void *x, const float *norm_weight, float eps) {
    gemv_params p = {};
    p.x = x;
    p.norm_weight = norm_weight;
    p.eps = eps;
    p.n_in = weight->n_cols;
    p.row_bytes = kg_weight_row_bytes(weight);
    return p;
}

static enum kg_status project_qkv(const struct walk &w, const struct kg_layer_weights *layer) {
    const struct kg_activation_buffers *b = w.args->buffers;
    gemv_params p = params_of(&layer->q, b->x, layer->attn_norm, w.args->config->norm_eps);
    p.segments[0] = segment_of(&layer->q, layer->q_bias, b->q);
    p.segments[1] = segment_of(&layer->k, layer->k_bias, b->k);
    p.segments[2] = segment_of(&layer->v, layer->v_bias, b->v);
    p.n_outputs = layer->q.n_rows + layer->k.n_rows + layer->v.n_rows;
    return gemv<true, PLAIN>(w, p);
}

static enum kg_status add_to_residual(const struct walk &w, const struct kg_weight *weight, const float *bias,
                                      const void *x) {
    gemv_params p = params_of(weight, x, NULL, 0);
    p.segments[0] = segment_of(weight, bias, w.args->buffers->x);
    p.n_outputs = weight->n_rows;
    return gemv<false, RESIDUAL>(w, p);
}

static enum kg_status gate_and_up(const struct walk &w, const struct kg_layer_weights *layer) {
    const struct kg_swiglu_form *form = &w.args->config->swiglu;
    const struct kg_activation_buffers *b = w.args->buffers;
    gemv_params p = params_of(&layer->gate, b->x, layer->ffn_norm, w.args->config->norm_eps);
    p.segments[0] = segment_of(&layer->gate, layer->gate_bias, b->gate);
    p.segments[1] = segment_of(&layer->up, layer->up_bias, NULL);
    p.n_outputs = layer->gate.n_rows;
    p.gate = kg_swiglu_op_of(form->limit, form->alpha, form->up_offset);
    return gemv<true, GATED>(w, p);
}

/* Nothing else of this walk uses `projected`. */
static float2 *turns_of(const struct walk &w) {
    return static_cast<float2 *>(w.args->buffers->projected);
}

template <typename T, typename C> static void launch_rope(const struct walk &w, const rope_params &p) {
    step_rope_kernel<T, C><<<p.n_heads + 2 * p.n_kv_heads, ROPE_THREADS, 0, w.cuda->stream>>>(p);
}

static enum kg_status rope_and_cache(const struct walk &w, uint32_t layer) {
    const struct kg_model_config *c = w.args->config;
    const struct kg_activation_buffers *b = w.args->buffers;
    const struct kg_kv_cache *kv = w.args->kv;
    rope_params p;
    p.q = b->q;
    p.k = b->k;
    p.v = b->v;
    p.k_cache = kg_kv_cache_keys(kv, layer);
    p.v_cache = kg_kv_cache_values(kv, layer);
    p.turns = turns_of(w);
    p.n_heads = c->n_heads;
    p.n_kv_heads = kv->n_kv_heads;
    p.head_dim = kv->head_dim;
    p.n_ctx = kv->n_ctx;
    p.n_rot = c->n_rot;
    p.half = c->rope_pairing == KG_ROPE_HALF;
    p.step = w.cuda->step;
    const bool x_f16 = w.activations == KG_PRECISION_F16, kv_f16 = kv->precision == KG_PRECISION_F16;
    if (x_f16 && kv_f16) launch_rope<__half, __half>(w, p);
    else if (x_f16) launch_rope<__half, float>(w, p);
    else if (kv_f16) launch_rope<float, __half>(w, p);
    else launch_rope<float, float>(w, p);
    return kg_cuda_launched(w.err, "decode step: rope");
}

static enum kg_status attend(const struct walk &w, uint32_t layer) {
    const struct kg_model_config *c = w.args->config;
    const struct kg_kv_cache *kv = w.args->kv;
    struct kg_attention_args args = {};
    args.activations = w.activations;
    args.kv = kv->precision;
    args.q = w.args->buffers->q;
    args.k_cache = kg_kv_cache_keys(kv, layer);
    args.v_cache = kg_kv_cache_values(kv, layer);
    args.y = w.args->buffers->attn;
    args.n_rows = 1;
    args.n_keys = w.args->position + 1;
    args.n_heads = c->n_heads;
    args.n_kv_heads = kv->n_kv_heads;
    args.head_dim = kv->head_dim;
    args.n_ctx = kv->n_ctx;
    args.scale = c->attn_scale;
    args.causal = true;
    args.window = kg_model_layer_window(c, layer);
    args.sinks = w.args->weights->layers[layer].sinks;
    args.workspace = w.args->workspace;
    return kg_cuda_attention(&w.cuda->base, &args, w.err);
}

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const enum kg_status try_status = (call);                                                                      \
        if (try_status) return try_status;                                                                             \
    } while (0)

static enum kg_status begin(const struct walk &w) {
    const struct kg_model_config *c = w.args->config;
    const struct kg_activation_buffers *b = w.args->buffers;
    struct kg_embedding_args embed = {};
    embed.activations = w.residual;
    embed.weight = w.args->weights->embedding;
    embed.ids = b->ids;
    embed.n_rows = 1;
    embed.y = b->x;
    TRY(kg_cuda_embedding(&w.cuda->base, &embed, w.err));
    const struct kg_rope_turns turns = { (double)c->rope_freq_base, (double)c->rope_freq_scale,
                                         (double)c->rope_magnitude, w.args->rope_factors, c->n_rot };
    step_turns_kernel<<<1, TURN_THREADS, 0, w.cuda->stream>>>(w.cuda->step, turns_of(w), turns);
    return kg_cuda_launched(w.err, "decode step: turns");
}

/* buffers->norm = norm(x) */
static enum kg_status normalise_x(const struct walk &w, const float *weight) {
    struct kg_rmsnorm_args norm = {};
    norm.activations = w.activations;
    norm.x = w.args->buffers->x;
    norm.weight = weight;
    norm.y = w.args->buffers->norm;
    norm.n_rows = 1;
    norm.n_cols = w.args->config->n_embd;
    norm.eps = w.args->config->norm_eps;
    norm.wide_input = w.residual != w.activations;
    return kg_cuda_rmsnorm(&w.cuda->base, &norm, w.err);
}

/* y (float32) = norm W + bias */
static enum kg_status project_norm(const struct walk &w, const struct kg_weight *weight, const float *bias, float *y) {
    struct kg_linear_args args = {};
    args.activations = w.activations;
    args.output = KG_PRECISION_F32;
    args.x = w.args->buffers->norm;
    args.weight = *weight;
    args.bias = bias;
    args.y = y;
    args.n_rows = 1;
    args.workspace = w.args->workspace;
    return kg_cuda_linear(&w.cuda->base, &args, w.err);
}

static enum kg_status finish(const struct walk &w) {
    TRY(normalise_x(w, w.args->weights->output_norm));
    return project_norm(w, &w.args->weights->output, NULL, w.args->buffers->logits);
}

static enum kg_status route(const struct walk &w, const struct kg_layer_weights *layer) {
    const struct kg_activation_buffers *b = w.args->buffers;
    struct kg_router_args args = {};
    args.logits = b->router_logits;
    args.ids = b->expert_ids;
    args.weights = b->expert_weights;
    args.n_rows = 1;
    args.n_experts = w.args->config->n_experts;
    args.n_used = w.args->config->n_experts_used;
    TRY(project_norm(w, &layer->router, layer->router_bias, b->router_logits));
    return kg_cuda_router(&w.cuda->base, &args, w.err);
}

/* Rows of the experts chosen; n_sharing of them are of one row of x. */
static enum kg_status multiply_experts(const struct walk &w, const struct kg_weight *weight, const float *bias,
                                       const void *x, uint32_t n_sharing, void *y, bool wide_output) {
    struct kg_experts_linear_args args = {};
    args.activations = w.activations;
    args.x = x;
    args.weight = *weight;
    args.n_experts = w.args->config->n_experts;
    args.bias = bias;
    args.ids = w.args->buffers->expert_ids;
    args.y = y;
    args.n_rows = w.args->config->n_experts_used;
    args.n_sharing = n_sharing;
    args.workspace = w.args->workspace;
    args.wide_output = wide_output;
    return kg_cuda_experts_linear(&w.cuda->base, &args, w.err);
}

static enum kg_status gate_experts(const struct walk &w) {
    const struct kg_swiglu_form *form = &w.args->config->swiglu;
    struct kg_swiglu_args args = {};
    args.activations = w.activations;
    args.gate = w.args->buffers->gate;
    args.up = w.args->buffers->up;
    args.n_rows = w.args->config->n_experts_used;
    args.n_cols = w.args->config->n_ff;
    args.limit = form->limit;
    args.alpha = form->alpha;
    args.up_offset = form->up_offset;
    args.y = w.args->buffers->gate;
    return kg_cuda_swiglu(&w.cuda->base, &args, w.err);
}

static enum kg_status add_experts(const struct walk &w) {
    const struct kg_activation_buffers *b = w.args->buffers;
    struct kg_experts_combine_args args = {};
    args.activations = w.residual;
    args.x = b->expert_out;
    args.weights = b->expert_weights;
    args.residual = b->x;
    args.y = b->x;
    args.n_rows = 1;
    args.n_used = w.args->config->n_experts_used;
    args.n_cols = w.args->config->n_embd;
    return kg_cuda_experts_combine(&w.cuda->base, &args, w.err);
}

static enum kg_status ffn_experts(const struct walk &w, const struct kg_layer_weights *layer) {
    const struct kg_activation_buffers *b = w.args->buffers;
    TRY(normalise_x(w, layer->ffn_norm));
    TRY(route(w, layer));
    TRY(multiply_experts(w, &layer->gate, layer->gate_bias, b->norm, w.args->config->n_experts_used, b->gate, false));
    TRY(multiply_experts(w, &layer->up, layer->up_bias, b->norm, w.args->config->n_experts_used, b->up, false));
    TRY(gate_experts(w));
    TRY(multiply_experts(w, &layer->down, layer->down_bias, b->gate, 1, b->expert_out, w.residual != w.activations));
    return add_experts(w);
}

static enum kg_status ffn_gated(const struct walk &w, const struct kg_layer_weights *layer) {
    TRY(gate_and_up(w, layer));
    return add_to_residual(w, &layer->down, layer->down_bias, w.args->buffers->gate);
}

enum kg_status kg_cuda_step_walk(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                                 struct kg_error *err) {
    const struct walk w = { cuda,
                            args,
                            err,
                            args->activations,
                            kg_residual_precision(args->config, args->activations),
                            args->weights->layers[0].q.dtype };
    TRY(begin(w));
    for (uint32_t i = 0; i < args->config->n_layers; i++) {
        const struct kg_layer_weights *layer = &args->weights->layers[i];
        TRY(project_qkv(w, layer));
        TRY(rope_and_cache(w, i));
        TRY(attend(w, i));
        TRY(add_to_residual(w, &layer->attn_out, layer->attn_out_bias, args->buffers->attn));
        TRY(args->config->ffn == KG_FFN_EXPERTS ? ffn_experts(w, layer) : ffn_gated(w, layer));
    }
    return finish(w);
}

/* Every entry that the walk stands for is this back end's own: a table with another one is walked by its entries. */
static bool table_is_original(const struct kg_backend_ops *ops) {
    bool same = true;
#define COMPARE(op) same = same && ops->op == kg_cuda_ops.op;
    KG_OP_LIST(COMPARE)
#undef COMPARE
    return same;
}

static bool is_one(const struct kg_weight *w, enum kg_dtype dtype) {
    return w->dtype == dtype && kg_dequant::rows_are_whole(w);
}

static bool matrices_are(const struct kg_model_weights *weights, const struct kg_model_config *c, enum kg_dtype dtype) {
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const struct kg_layer_weights *l = &weights->layers[i];
        for (const struct kg_weight *w : { &l->q, &l->k, &l->v, &l->attn_out })
            if (!is_one(w, dtype)) return false;
        for (const struct kg_weight *w : { &l->gate, &l->up, &l->down })
            if (c->ffn != KG_FFN_EXPERTS && !is_one(w, dtype)) return false;
    }
    return true;
}

bool kg_cuda_step_can_walk(const struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args) {
    const struct kg_model_config *c = args->config;
    const enum kg_dtype dtype = args->weights->layers[0].q.dtype;
    const uint64_t turns_bytes = (uint64_t)args->buffers->max_rows * c->n_embd *
                                 kg_precision_bytes(kg_residual_precision(c, args->activations)); /* of `projected` */
    return table_is_original(cuda->base.ops) && (dtype == KG_DTYPE_F16 || dtype == KG_DTYPE_F32) &&
           c->norm == KG_NORM_RMS && c->ffn != KG_FFN_GELU && c->rope_pairing != KG_ROPE_NONE && !c->has_positions &&
           c->n_embd <= MAX_NORM_COLS && c->n_rot / 2 * sizeof(float2) <= turns_bytes &&
           matrices_are(args->weights, c, dtype);
}
