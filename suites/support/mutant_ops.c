#include "suites/support/mutant_ops.h"
#include "base/buffer.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const struct kg_backend_ops *original;

void kg_mutant_ops_make(struct kg_backend_ops *mutant, const struct kg_backend_ops *ops,
                        void (*change)(struct kg_backend_ops *mutant)) {
    original = ops;
    *mutant = *ops;
    if (change) change(mutant);
}

/* DEFINE_MUTANT(name, op, statements that change `a`): kg_mutant_<name> replaces op by one with changed arguments. */
#define DEFINE_MUTANT(name, op, ...)                                                                                   \
    static enum kg_status name(struct kg_backend *backend, const struct kg_##op##_args *args, struct kg_error *err) {  \
        struct kg_##op##_args a = *args;                                                                               \
        __VA_ARGS__                                                                                                    \
        return original->op(backend, &a, err);                                                                         \
    }                                                                                                                  \
    void kg_mutant_##name(struct kg_backend_ops *m) {                                                                  \
        m->op = name;                                                                                                  \
    }

DEFINE_MUTANT(other_rope_pairing, rope, a.pairing = a.pairing == KG_ROPE_HALF ? KG_ROPE_INTERLEAVED : KG_ROPE_HALF;)
DEFINE_MUTANT(position_off_by_one, rope, a.position += 1;)
DEFINE_MUTANT(rope_base_ignored, rope, a.freq_base = 10000;)
DEFINE_MUTANT(rope_factors_ignored, rope, a.freq_factors = NULL;)
DEFINE_MUTANT(rope_scale_ignored, rope, a.freq_scale = 1;)
DEFINE_MUTANT(rope_magnitude_ignored, rope, a.magnitude = 1;)
DEFINE_MUTANT(whole_head_rotated, rope, a.n_rot = a.head_dim;)
DEFINE_MUTANT(unwired_bias, linear, a.bias = NULL;)
DEFINE_MUTANT(epsilon_times_ten, rmsnorm, a.eps *= 10;)
DEFINE_MUTANT(norm_epsilon_times_ten, layernorm, a.eps *= 10;)
DEFINE_MUTANT(norm_bias_dropped, layernorm, a.bias = NULL;)
DEFINE_MUTANT(other_gelu_form, gelu, a.form = a.form == KG_GELU_TANH ? KG_GELU_ERF : KG_GELU_TANH;)
DEFINE_MUTANT(softmax_unscaled, softmax, a.scale = 1;)
DEFINE_MUTANT(dropped_mask, attention, a.causal = false;)
DEFINE_MUTANT(scale_of_head_dim, attention, a.scale = 1.0f / (float)a.head_dim;)
DEFINE_MUTANT(own_key_unseen, attention, if (a.n_rows == 1 && a.n_keys > 1) a.n_keys -= 1;)
DEFINE_MUTANT(window_of_forty, attention, a.window = 40;)
DEFINE_MUTANT(window_one_longer, attention, if (a.window) a.window += 1;)
DEFINE_MUTANT(window_one_shorter, attention, if (a.window > 1) a.window -= 1;)
DEFINE_MUTANT(windows_ignored, attention, a.window = 0;)
DEFINE_MUTANT(other_layers_slide, attention, a.window = a.window ? 0 : 24;)
DEFINE_MUTANT(sinks_ignored, attention, a.sinks = NULL;)
DEFINE_MUTANT(clamp_ignored, swiglu, a.limit = 0;)
DEFINE_MUTANT(up_without_one, swiglu, a.up_offset = 0;)
DEFINE_MUTANT(alpha_of_one, swiglu, a.alpha = 1;)
DEFINE_MUTANT(gate_by_silu, swiglu, a.alpha = 1; a.cubic = 0;)
DEFINE_MUTANT(cube_ignored, swiglu, a.cubic = 0;)
DEFINE_MUTANT(all_positions_scaled, rope, a.freq_scale = 0.125f;)
DEFINE_MUTANT(embedding_unscaled, embedding, a.scale = 0;)
DEFINE_MUTANT(positions_from_zero, embedding, a.position = 0;)
DEFINE_MUTANT(positions_ignored, embedding, a.positions.data = NULL;)
DEFINE_MUTANT(expert_bias_ignored, experts_linear, a.bias = NULL;)
DEFINE_MUTANT(experts_residual_dropped, experts_combine, a.residual = NULL;)
DEFINE_MUTANT(gate_and_up_exchanged, swiglu, const void *gate = a.gate; a.gate = a.up; a.up = gate;)
DEFINE_MUTANT(residual_dropped, add, a.a = a.b;)
DEFINE_MUTANT(next_id, embedding, a.weight.data = (const char *)a.weight.data + kg_weight_row_bytes(&a.weight);
              a.weight.n_rows -= 1;)

/* Norms of heads and of what a layer adds, both in place: a head is the shorter row. */
enum { LONGEST_HEAD = 40 };
DEFINE_MUTANT(head_norms_left_out, rmsnorm, if (a.x == a.y && a.n_cols <= LONGEST_HEAD) return KG_OK;)
DEFINE_MUTANT(post_norms_left_out, rmsnorm, if (a.x == a.y && a.n_cols > LONGEST_HEAD) return KG_OK;)

/* gelu's other form, of float32. */
static enum kg_status geglu_by_erf(struct kg_backend *backend, const struct kg_swiglu_args *args,
                                   struct kg_error *err) {
    const size_t n = (size_t)args->n_rows * args->n_cols;
    float *gate = kg_xcalloc(n, sizeof *gate), *up = kg_xcalloc(n, sizeof *up);
    ck_assert_int_eq(args->activations, KG_PRECISION_F32);
    enum kg_status status = original->download(backend, gate, args->gate, n * sizeof *gate, err);
    if (status == KG_OK) status = original->download(backend, up, args->up, n * sizeof *up, err);
    for (size_t i = 0; i < n; i++) gate[i] = (float)(gate[i] / 2 * (1 + erf(gate[i] / sqrt(2))) * (double)up[i]);
    if (status == KG_OK) status = original->upload(backend, args->y, gate, n * sizeof *gate, err);
    free(up);
    free(gate);
    return status;
}

void kg_mutant_geglu_by_erf(struct kg_backend_ops *m) {
    m->swiglu = geglu_by_erf;
}

/* The mean is not taken off. */
static enum kg_status norm_about_zero(struct kg_backend *backend, const struct kg_layernorm_args *args,
                                      struct kg_error *err) {
    const struct kg_rmsnorm_args a = { args->activations, args->x,      args->weight, args->y,
                                       args->n_rows,      args->n_cols, args->eps,    false };
    ck_assert_ptr_null(args->bias);
    return original->rmsnorm(backend, &a, err);
}

void kg_mutant_norm_about_zero(struct kg_backend_ops *m) {
    m->layernorm = norm_about_zero;
}

static size_t kv_elem_bytes(enum kg_precision kv) {
    ck_assert(kv == KG_PRECISION_F32 || kv == KG_PRECISION_F16);
    return kv == KG_PRECISION_F32 ? 4 : 2;
}

/* Written where it belongs and again one slot further, so that slot p keeps the key of p - 1 (slot 0 its own). */
static enum kg_status shifted_kv_slot(struct kg_backend *backend, const struct kg_kv_write_args *args,
                                      struct kg_error *err) {
    struct kg_kv_write_args a = *args;
    if (args->position == 0) {
        const enum kg_status status = original->kv_write(backend, args, err);
        if (status != KG_OK) return status;
    }
    a.position += 1;
    if (a.position + a.n_rows > a.n_ctx) a.n_rows = a.n_ctx - a.position;
    return original->kv_write(backend, &a, err);
}

void kg_mutant_shifted_kv_slot(struct kg_backend_ops *m) {
    m->kv_write = shifted_kv_slot;
}

static enum kg_status first_kv_head_twice(struct kg_backend *backend, const struct kg_kv_write_args *args,
                                          struct kg_error *err) {
    const size_t head_bytes = (size_t)args->n_ctx * args->head_dim * kv_elem_bytes(args->kv);
    ck_assert_uint_eq(args->n_rows, 1);
    enum kg_status status = KG_OK;
    for (uint32_t h = 0; h < args->n_kv_heads && status == KG_OK; h++) {
        struct kg_kv_write_args a = *args;
        a.n_kv_heads = 1;
        a.k_cache = (char *)args->k_cache + h * head_bytes;
        a.v_cache = (char *)args->v_cache + h * head_bytes;
        status = original->kv_write(backend, &a, err);
    }
    return status;
}

void kg_mutant_first_kv_head_twice(struct kg_backend_ops *m) {
    m->kv_write = first_kv_head_twice;
}

static enum kg_status kv_heads_interleaved(struct kg_backend *backend, const struct kg_attention_args *args,
                                           struct kg_error *err) {
    const size_t head_bytes = (size_t)args->n_ctx * args->head_dim * kv_elem_bytes(args->kv);
    const size_t q_bytes = args->head_dim * kv_elem_bytes(args->activations);
    ck_assert_uint_eq(args->n_rows, 1);
    enum kg_status status = KG_OK;
    for (uint32_t h = 0; h < args->n_heads && status == KG_OK; h++) {
        const uint32_t kv_head = h % args->n_kv_heads;
        struct kg_attention_args a = *args;
        a.n_heads = a.n_kv_heads = 1;
        a.q = (const char *)args->q + h * q_bytes;
        a.y = (char *)args->y + h * q_bytes;
        a.k_cache = (const char *)args->k_cache + kv_head * head_bytes;
        a.v_cache = (const char *)args->v_cache + kv_head * head_bytes;
        status = original->attention(backend, &a, err);
    }
    return status;
}

void kg_mutant_kv_heads_interleaved(struct kg_backend_ops *m) {
    m->attention = kv_heads_interleaved;
}

/* Row r gets the experts, and their weights, of row r + 1; the last row those of row 0. */
static enum kg_status next_rows_experts(struct kg_backend *backend, const struct kg_router_args *args,
                                        struct kg_error *err) {
    struct kg_router_args a = *args;
    a.n_rows = args->n_rows - 1;
    a.logits += args->n_experts;
    const enum kg_status status = a.n_rows ? original->router(backend, &a, err) : KG_OK;
    a.ids += (size_t)a.n_rows * args->n_used;
    a.weights += (size_t)a.n_rows * args->n_used;
    a.logits = args->logits;
    a.n_rows = 1;
    return status == KG_OK ? original->router(backend, &a, err) : status;
}

void kg_mutant_next_rows_experts(struct kg_backend_ops *m) {
    m->router = next_rows_experts;
}

/* A router whose rows are computed on the host by `row`: of logits[n_experts], n_used ids and weights. */
static enum kg_status router_on_host(struct kg_backend *backend, const struct kg_router_args *args,
                                     void (*row)(const struct kg_router_args *one), struct kg_error *err) {
    const size_t n = (size_t)args->n_rows * args->n_experts, n_out = (size_t)args->n_rows * args->n_used;
    float *logits = kg_xcalloc(n, sizeof *logits), *weights = kg_xcalloc(n_out, sizeof *weights);
    int32_t *ids = kg_xcalloc(n_out, sizeof *ids);
    enum kg_status status = original->download(backend, logits, args->logits, n * sizeof *logits, err);
    for (size_t r = 0; r < args->n_rows && status == KG_OK; r++) {
        const struct kg_router_args one = { logits + r * args->n_experts,
                                            ids + r * args->n_used,
                                            weights + r * args->n_used,
                                            1,
                                            args->n_experts,
                                            args->n_used };
        row(&one);
    }
    if (status == KG_OK) status = original->upload(backend, args->ids, ids, n_out * sizeof *ids, err);
    if (status == KG_OK) status = original->upload(backend, args->weights, weights, n_out * sizeof *weights, err);
    free(ids);
    free(weights);
    free(logits);
    return status;
}

static void route(const struct kg_router_args *one) {
    struct kg_error err;
    ck_assert_msg(kg_cpu_router(NULL, one, &err) == KG_OK, "%s", err.message);
}

static void part_of_all(const struct kg_router_args *one) {
    double sum = 0;
    route(one);
    const double largest = one->logits[one->ids[0]];
    for (uint32_t e = 0; e < one->n_experts; e++) sum += exp((double)one->logits[e] - largest);
    for (uint32_t j = 0; j < one->n_used; j++)
        one->weights[j] = (float)(exp((double)one->logits[one->ids[j]] - largest) / sum);
}

static void last_of_equal(const struct kg_router_args *one) {
    struct kg_router_args from_behind = *one;
    float *logits = kg_xcalloc(one->n_experts, sizeof *logits);
    for (uint32_t e = 0; e < one->n_experts; e++) logits[e] = one->logits[one->n_experts - 1 - e];
    from_behind.logits = logits;
    route(&from_behind);
    for (uint32_t j = 0; j < one->n_used; j++) one->ids[j] = (int32_t)one->n_experts - 1 - one->ids[j];
    free(logits);
}

static enum kg_status softmax_before_top_k(struct kg_backend *backend, const struct kg_router_args *args,
                                           struct kg_error *err) {
    return router_on_host(backend, args, part_of_all, err);
}

void kg_mutant_softmax_before_top_k(struct kg_backend_ops *m) {
    m->router = softmax_before_top_k;
}

static enum kg_status last_of_equal_experts(struct kg_backend *backend, const struct kg_router_args *args,
                                            struct kg_error *err) {
    return router_on_host(backend, args, last_of_equal, err);
}

void kg_mutant_last_of_equal_experts(struct kg_backend_ops *m) {
    m->router = last_of_equal_experts;
}
