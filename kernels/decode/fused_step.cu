/* A token's walk through the layers in few launches, for models whose matrices, but for experts' and router's, are all
 * F16 or all F32.
 *
 * At one row a launch costs as much as the reading of a small matrix, so what needs no other block's result is one
 * kernel, and each begins while the one before it ends (dependent.cuh): turns             cos, sin of the token's
 * position, once per layer         norm, q, k, v, rope and cache;  attention (of many keys: its two kernels);  attn_out
 * and residual; norm, gate, up and swiglu;  down and residual (experts: norm and router;  gate, up and swiglu;  down)
 *     at the end        norm;  logits
 * The experts' sum is made by those who need it: the next layer's norm, and its residual stream with attn_out. */
#include "kernels/attention/attention.cuh"
#include "kernels/ptx/dependent.cuh"
#include "kernels/block/dequant.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/block/rotation.cuh"
#include "kernels/decode/launches.h"
#include "kernels/decode/fused_step.h"

enum { TURN_THREADS = 128 };

/* turns[i] of the step's position. */
static __global__ void __launch_bounds__(TURN_THREADS)
    step_turns_kernel(const struct kg_cuda_step *step, float2 *turns, const struct kg_rope_turns of) {
    for (uint32_t i = threadIdx.x; i < of.n_rot / 2; i += TURN_THREADS) turns[i] = kg_rope_turn(of, step->position, i);
}

/* A walk under way. */
struct walk {
    struct kg_cuda_backend *cuda;
    const struct kg_decode_step_args *args;
    struct kg_error *err;
    enum kg_precision activations, residual;
    enum kg_dtype dtype;            /* of the matrices */
    struct kg_step_pending pending; /* what x lacks */
};

/* Nothing else of this walk uses `projected`. */
static float2 *turns_of(const struct walk &w) {
    return static_cast<float2 *>(w.args->buffers->projected);
}

/* What the products of a layer have in common. */
static struct kg_step_matrix matrix_of(const struct walk &w, enum kg_step_form form, const struct kg_weight *weight,
                                       const float *bias) {
    struct kg_step_matrix m = {};
    m.form = form;
    m.dtype = w.dtype;
    m.activations = w.activations;
    m.n_in = weight->n_cols;
    m.matrix[0] = { static_cast<const uint8_t *>(weight->data), bias };
    return m;
}

/* n = norm(x), with what is pending. */
static void read_norm(const struct walk &w, const float *norm_weight, struct kg_step_matrix *m) {
    m->x = w.args->buffers->x;
    m->x_precision = w.residual;
    m->norm_weight = norm_weight;
    m->eps = w.args->config->norm_eps;
    m->pending = w.pending;
}

static enum kg_status project_qkv(const struct walk &w, uint32_t layer) {
    const struct kg_model_config *c = w.args->config;
    const struct kg_kv_cache *kv = w.args->kv;
    const struct kg_layer_weights *l = &w.args->weights->layers[layer];
    struct kg_step_matrix m = matrix_of(w, KG_STEP_QKV, &l->q, l->q_bias);
    m.matrix[1] = { static_cast<const uint8_t *>(l->k.data), l->k_bias };
    m.matrix[2] = { static_cast<const uint8_t *>(l->v.data), l->v_bias };
    m.n_pairs = (l->q.n_rows + l->k.n_rows + l->v.n_rows) / 2;
    read_norm(w, l->attn_norm, &m);
    m.y = w.args->buffers->q;
    m.y_precision = w.activations;
    m.heads.k_cache = kg_kv_cache_keys(kv, layer);
    m.heads.v_cache = kg_kv_cache_values(kv, layer);
    m.heads.turns = turns_of(w);
    m.heads.step = w.cuda->step;
    m.heads.n_heads = c->n_heads;
    m.heads.n_kv_heads = kv->n_kv_heads;
    m.heads.head_dim = kv->head_dim;
    m.heads.n_ctx = kv->n_ctx;
    m.heads.n_rot = c->n_rot;
    m.heads.half = c->rope_pairing == KG_ROPE_HALF;
    m.heads.kv = kv->precision;
    return kg_step_multiply(w.cuda, &m, w.err);
}

/* x += what is pending + the product */
static enum kg_status add_to_residual(const struct walk &w, const struct kg_weight *weight, const float *bias,
                                      const void *x) {
    struct kg_step_matrix m = matrix_of(w, KG_STEP_RESIDUAL, weight, bias);
    m.n_pairs = weight->n_rows / 2;
    m.x = x;
    m.x_precision = w.activations;
    m.pending = w.pending;
    m.y = w.args->buffers->x;
    m.y_precision = w.residual;
    return kg_step_multiply(w.cuda, &m, w.err);
}

static enum kg_status gate_and_up(const struct walk &w, const struct kg_layer_weights *layer) {
    const struct kg_swiglu_form *form = &w.args->config->swiglu;
    struct kg_step_matrix m = matrix_of(w, KG_STEP_GATED, &layer->gate, layer->gate_bias);
    m.matrix[1] = { static_cast<const uint8_t *>(layer->up.data), layer->up_bias };
    m.n_pairs = layer->gate.n_rows;
    read_norm(w, layer->ffn_norm, &m);
    m.y = w.args->buffers->gate;
    m.y_precision = w.activations;
    m.gate = kg_swiglu_op_of(form->limit, form->alpha, form->up_offset);
    return kg_step_multiply(w.cuda, &m, w.err);
}

/* Attention of a few keys is one launch, of more two. */
static enum kg_status attend(const struct walk &w, uint32_t layer) {
    const struct kg_model_config *c = w.args->config;
    const struct kg_kv_cache *kv = w.args->kv;
    struct kg_attention_params p = {};
    p.q = w.args->buffers->q;
    p.k = kg_kv_cache_keys(kv, layer);
    p.v = kg_kv_cache_values(kv, layer);
    p.y = w.args->buffers->attn;
    p.activations = w.activations;
    p.kv = kv->precision;
    p.n_rows = 1;
    p.n_keys = w.args->position + 1;
    p.n_heads = c->n_heads;
    p.n_kv_heads = kv->n_kv_heads;
    p.head_dim = kv->head_dim;
    p.n_ctx = kv->n_ctx;
    p.window = kg_model_layer_window(c, layer);
    p.scale = c->attn_scale;
    p.causal = true;
    p.step = w.cuda->step;
    p.sinks = w.args->weights->layers[layer].sinks;
    p.partials = static_cast<float *>(w.args->workspace);
    p.n_splits = kg_attention_n_splits(kv->n_kv_heads);
    return kg_step_attention_fits(w.cuda, p.n_ctx, p.window) ? kg_step_attend(w.cuda, &p, w.err)
                                                             : kg_attention_decode(w.cuda, &p, w.err);
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

/* buffers->norm = norm(x); the experts of it. */
static enum kg_status route(const struct walk &w, const struct kg_layer_weights *layer) {
    const struct kg_activation_buffers *b = w.args->buffers;
    const struct kg_model_config *c = w.args->config;
    if (kg_step_router_fits(w.cuda, &layer->router)) {
        const struct kg_step_router r = { b->x,
                                          w.residual,
                                          layer->ffn_norm,
                                          c->norm_eps,
                                          b->norm,
                                          w.activations,
                                          layer->router.data,
                                          layer->router.dtype,
                                          layer->router_bias,
                                          b->expert_ids,
                                          b->expert_weights,
                                          layer->router.n_cols,
                                          c->n_experts,
                                          c->n_experts_used };
        return kg_step_route(w.cuda, &r, w.err);
    }
    struct kg_router_args args = {};
    args.logits = b->router_logits;
    args.ids = b->expert_ids;
    args.weights = b->expert_weights;
    args.n_rows = 1;
    args.n_experts = c->n_experts;
    args.n_used = c->n_experts_used;
    TRY(normalise_x(w, layer->ffn_norm));
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

static enum kg_status finish(const struct walk &w) {
    if (w.pending.n_used > 0) TRY(add_experts(w));
    TRY(normalise_x(w, w.args->weights->output_norm));
    return project_norm(w, &w.args->weights->output, NULL, w.args->buffers->logits);
}

/* Whether the experts' matrices lie in tiles, and their products are few rows. */
static bool experts_in_tiles(const struct walk &w, const struct kg_layer_weights *layer) {
    return w.activations == KG_PRECISION_F16 && w.args->config->n_experts_used <= KG_MXFP4_OWN_ROWS &&
           kg_mxfp4_repacked_range(w.cuda, &layer->gate) && kg_mxfp4_repacked_range(w.cuda, &layer->up) &&
           kg_mxfp4_repacked_range(w.cuda, &layer->down);
}

static struct kg_mxfp4_product product_of(const struct walk &w, const struct kg_weight *weight, const float *bias,
                                          const void *x, void *y, bool y_is_f16) {
    const struct kg_model_config *c = w.args->config;
    struct kg_mxfp4_product p = {};
    p.x = static_cast<const __half *>(x);
    p.weight = static_cast<const uint8_t *>(weight->data);
    p.bias = bias;
    p.ids = w.args->buffers->expert_ids;
    p.y = y;
    p.y_is_f16 = y_is_f16;
    p.n_rows = c->n_experts_used;
    p.n_out = weight->n_rows / c->n_experts;
    p.n_cols = weight->n_cols;
    p.n_experts = c->n_experts;
    p.n_sharing = 1;
    return p;
}

/* Leaves the experts' sum pending. */
static enum kg_status ffn_experts(const struct walk &w, const struct kg_layer_weights *layer) {
    const struct kg_activation_buffers *b = w.args->buffers;
    const struct kg_model_config *c = w.args->config;
    const bool wide = w.residual != w.activations;
    TRY(route(w, layer));
    if (experts_in_tiles(w, layer)) {
        struct kg_mxfp4_product gate = product_of(w, &layer->gate, layer->gate_bias, b->norm, b->gate, true),
                                down = product_of(w, &layer->down, layer->down_bias, b->gate, b->expert_out, !wide);
        gate.n_sharing = gate.n_rows;
        down.ids_known = true;
        TRY(kg_mxfp4_gemv_gated(w.cuda, &gate, static_cast<const uint8_t *>(layer->up.data), layer->up_bias, &c->swiglu,
                                w.err));
        return kg_mxfp4_gemv(w.cuda, &down, w.err);
    }
    TRY(multiply_experts(w, &layer->gate, layer->gate_bias, b->norm, c->n_experts_used, b->gate, false));
    TRY(multiply_experts(w, &layer->up, layer->up_bias, b->norm, c->n_experts_used, b->up, false));
    TRY(gate_experts(w));
    return multiply_experts(w, &layer->down, layer->down_bias, b->gate, 1, b->expert_out, wide);
}

static enum kg_status ffn_gated(const struct walk &w, const struct kg_layer_weights *layer) {
    TRY(gate_and_up(w, layer));
    return add_to_residual(w, &layer->down, layer->down_bias, w.args->buffers->gate);
}

enum kg_status kg_cuda_step_walk(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                                 struct kg_error *err) {
    const struct kg_activation_buffers *b = args->buffers;
    struct walk w = { cuda,
                      args,
                      err,
                      args->activations,
                      kg_residual_precision(args->config, args->activations),
                      args->weights->layers[0].q.dtype,
                      {} };
    TRY(begin(w));
    for (uint32_t i = 0; i < args->config->n_layers; i++) {
        const struct kg_layer_weights *layer = &args->weights->layers[i];
        TRY(project_qkv(w, i));
        TRY(attend(w, i));
        TRY(add_to_residual(w, &layer->attn_out, layer->attn_out_bias, b->attn));
        w.pending = {};
        if (args->config->ffn == KG_FFN_EXPERTS) {
            TRY(ffn_experts(w, layer));
            w.pending = { b->expert_out, b->expert_weights, args->config->n_experts_used };
        } else {
            TRY(ffn_gated(w, layer));
        }
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

/* Of n_pairs pairs of rows. */
static bool is_one(const struct kg_cuda_backend *cuda, const struct kg_weight *w, uint32_t n_pairs, enum kg_dtype dtype,
                   enum kg_precision activations) {
    return w->dtype == dtype && kg_dequant::rows_are_whole(w) &&
           kg_step_matrix_fits(cuda, dtype, activations, w->n_cols, n_pairs);
}

static bool matrices_are(const struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                         enum kg_dtype dtype) {
    const struct kg_model_weights *weights = args->weights;
    const struct kg_model_config *c = args->config;
    const uint32_t qkv_pairs = (c->n_heads + 2 * c->n_kv_heads) * (c->head_dim / 2);
    for (uint32_t i = 0; i < c->n_layers; i++) {
        const struct kg_layer_weights *l = &weights->layers[i];
        const struct {
            const struct kg_weight *weight;
            uint32_t n_pairs;
            bool wanted;
        } all[] = {
            { &l->q, qkv_pairs, true },
            { &l->k, qkv_pairs, true },
            { &l->v, qkv_pairs, true },
            { &l->attn_out, c->n_embd / 2, true },
            { &l->gate, c->n_ff, c->ffn != KG_FFN_EXPERTS },
            { &l->up, c->n_ff, c->ffn != KG_FFN_EXPERTS },
            { &l->down, c->n_embd / 2, c->ffn != KG_FFN_EXPERTS },
        };
        for (const auto &one : all)
            if (one.wanted && !is_one(cuda, one.weight, one.n_pairs, dtype, args->activations)) return false;
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
           c->head_dim % 2 == 0 && c->n_rot / 2 * sizeof(float2) <= turns_bytes && matrices_are(cuda, args, dtype);
}
