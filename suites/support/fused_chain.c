#include "suites/support/fused_chain.h"
#include "base/buffer.h"
#include "suites/harness/must.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 16 };

const char *kg_chain_name(enum kg_chain_kind kind) {
    static const char *const NAMES[KG_N_CHAINS] = { [KG_CHAIN_NORM_QKV] = "norm_qkv",
                                                    [KG_CHAIN_NORM_SWIGLU] = "norm_swiglu",
                                                    [KG_CHAIN_RESIDUAL] = "residual",
                                                    [KG_CHAIN_LAYER] = "layer",
                                                    [KG_CHAIN_EXPERTS] = "experts" };
    return NAMES[kind];
}

/* Rows and columns of a kind's matrices, by what the shape calls them. */
enum width { NO_MATRIX, IN, OUT, QUERIES, KEYS };
static const struct {
    enum width outputs, inputs;
} MATRICES[KG_N_CHAINS][KG_CHAIN_MATRICES] = {
    [KG_CHAIN_NORM_QKV] = { { QUERIES, IN }, { KEYS, IN }, { KEYS, IN } },
    [KG_CHAIN_NORM_SWIGLU] = { { OUT, IN }, { OUT, IN } },
    [KG_CHAIN_RESIDUAL] = { { OUT, IN } },
    [KG_CHAIN_LAYER] = { { QUERIES, IN },
                         { KEYS, IN },
                         { KEYS, IN },
                         { IN, QUERIES },
                         { OUT, IN },
                         { OUT, IN },
                         { IN, OUT } },
    [KG_CHAIN_EXPERTS] = { { OUT, IN }, { OUT, IN }, { IN, OUT } },
};
enum { Q, K, V, PROJECTION, GATE, UP, DOWN }; /* of LAYER */

static uint32_t width_of(const struct kg_chain_shape *s, enum width width) {
    const uint32_t widths[] = {
        [IN] = s->n_in, [OUT] = s->n_out, [QUERIES] = s->n_heads * s->head_dim, [KEYS] = s->n_kv_heads * s->head_dim
    };
    return widths[width];
}

uint32_t kg_chain_n_matrices(enum kg_chain_kind kind) {
    uint32_t n = 0;
    while (n < KG_CHAIN_MATRICES && MATRICES[kind][n].outputs != NO_MATRIX) n++;
    return n;
}

uint32_t kg_chain_outputs(const struct kg_chain_shape *s, uint32_t matrix) {
    return width_of(s, MATRICES[s->kind][matrix].outputs);
}

uint32_t kg_chain_inputs(const struct kg_chain_shape *s, uint32_t matrix) {
    return width_of(s, MATRICES[s->kind][matrix].inputs);
}

/* A layer that is being written. */
struct emitter {
    const struct kg_chain_shape *shape;
    const struct kg_chain_memory *memory;
    enum kg_precision precision;
    int layer;
    struct kg_node *at;
};

static union kg_op_args *emit(struct emitter *e, enum kg_op op) {
    *e->at = (struct kg_node){ .op = op, .layer = e->layer, .rows_per_id = 1 };
    return &e->at++->args;
}

static void norm(struct emitter *e, const float *weight) {
    emit(e, KG_OP_rmsnorm)->rmsnorm = (struct kg_rmsnorm_args){ .activations = e->precision,
                                                                .x = e->memory->x,
                                                                .weight = weight,
                                                                .y = e->memory->normed,
                                                                .n_cols = e->shape->n_in,
                                                                .eps = e->shape->eps };
}

static void linear(struct emitter *e, const void *x, uint32_t matrix) {
    const struct kg_chain_memory *m = e->memory;
    emit(e, KG_OP_linear)->linear = (struct kg_linear_args){
        .activations = e->precision,
        .output = e->precision,
        .x = x,
        .weight = { m->w[matrix], e->shape->weight, kg_chain_outputs(e->shape, matrix),
                    kg_chain_inputs(e->shape, matrix) },
        .bias = m->bias[matrix],
        .y = m->y[matrix],
        .workspace = m->workspace,
    };
}

static void rope(struct emitter *e, uint32_t matrix, uint32_t n_heads) {
    emit(e, KG_OP_rope)->rope = (struct kg_rope_args){ .activations = e->precision,
                                                       .x = e->memory->y[matrix],
                                                       .y = e->memory->y[matrix],
                                                       .n_heads = n_heads,
                                                       .head_dim = e->shape->head_dim,
                                                       .n_rot = e->shape->head_dim,
                                                       .pairing = KG_ROPE_HALF,
                                                       .freq_base = 10000,
                                                       .freq_scale = 1,
                                                       .magnitude = 1 };
}

static void norm_qkv(struct emitter *e) {
    const struct kg_chain_shape *s = e->shape;
    const struct kg_chain_memory *m = e->memory;
    norm(e, m->norm);
    for (uint32_t i = Q; i <= V; i++) linear(e, m->normed, i);
    rope(e, Q, s->n_heads);
    rope(e, K, s->n_kv_heads);
    emit(e, KG_OP_kv_write)->kv_write = (struct kg_kv_write_args){ .activations = e->precision,
                                                                   .kv = e->precision,
                                                                   .k = m->y[K],
                                                                   .v = m->y[V],
                                                                   .k_cache = m->k_cache,
                                                                   .v_cache = m->v_cache,
                                                                   .n_kv_heads = s->n_kv_heads,
                                                                   .head_dim = s->head_dim,
                                                                   .n_ctx = s->n_ctx };
}

/* gate = swiglu(gate, up), of matrices `gate` and the one after it. */
static void gated(struct emitter *e, const float *norm_weight, uint32_t gate) {
    const struct kg_chain_memory *m = e->memory;
    norm(e, norm_weight);
    for (uint32_t i = gate; i < gate + 2; i++) linear(e, m->normed, i);
    emit(e, KG_OP_swiglu)->swiglu = (struct kg_swiglu_args){ .activations = e->precision,
                                                             .gate = m->y[gate],
                                                             .up = m->y[gate + 1],
                                                             .y = m->y[gate],
                                                             .n_cols = e->shape->n_out,
                                                             .alpha = 1 };
}

static void norm_swiglu(struct emitter *e) {
    gated(e, e->memory->norm, 0);
}

/* residual += x W^T */
static void add_product(struct emitter *e, const void *x, uint32_t matrix) {
    const struct kg_chain_memory *m = e->memory;
    linear(e, x, matrix);
    emit(e, KG_OP_add)->add = (struct kg_add_args){ .activations = e->precision,
                                                    .a = m->residual,
                                                    .b = m->y[matrix],
                                                    .y = m->residual,
                                                    .n_cols = kg_chain_outputs(e->shape, matrix) };
}

static void residual(struct emitter *e) {
    add_product(e, e->memory->x, 0);
}

static void attend(struct emitter *e) {
    const struct kg_chain_shape *s = e->shape;
    const struct kg_chain_memory *m = e->memory;
    emit(e, KG_OP_attention)->attention = (struct kg_attention_args){ .activations = e->precision,
                                                                      .kv = e->precision,
                                                                      .q = m->y[Q],
                                                                      .k_cache = m->k_cache,
                                                                      .v_cache = m->v_cache,
                                                                      .y = m->attention,
                                                                      .n_heads = s->n_heads,
                                                                      .n_kv_heads = s->n_kv_heads,
                                                                      .head_dim = s->head_dim,
                                                                      .n_ctx = s->n_ctx,
                                                                      .scale = 1 / sqrtf((float)s->head_dim),
                                                                      .causal = true,
                                                                      .workspace = m->workspace };
}

static void layer(struct emitter *e) {
    norm_qkv(e);
    attend(e);
    add_product(e, e->memory->attention, PROJECTION);
    gated(e, e->memory->ffn_norm, GATE);
    add_product(e, e->memory->y[GATE], DOWN);
}

/* n_sharing results are of one row of x. */
static void experts_linear(struct emitter *e, const void *x, uint32_t matrix, uint32_t n_sharing) {
    const struct kg_chain_shape *s = e->shape;
    const struct kg_chain_memory *m = e->memory;
    emit(e, KG_OP_experts_linear)->experts_linear = (struct kg_experts_linear_args){
        .activations = e->precision,
        .x = x,
        .weight = { m->w[matrix], s->weight, s->n_experts * kg_chain_outputs(s, matrix), kg_chain_inputs(s, matrix) },
        .n_experts = s->n_experts,
        .bias = m->bias[matrix],
        .ids = m->ids,
        .y = m->y[matrix],
        .n_sharing = n_sharing,
        .workspace = m->workspace,
    };
    e->at[-1].rows_per_id = s->n_used;
}

/* Gated as GPT-OSS does. */
static void experts(struct emitter *e) {
    const struct kg_chain_shape *s = e->shape;
    const struct kg_chain_memory *m = e->memory;
    for (uint32_t i = 0; i < 2; i++) experts_linear(e, m->x, i, s->n_used);
    emit(e, KG_OP_swiglu)->swiglu = (struct kg_swiglu_args){ .activations = e->precision,
                                                             .gate = m->y[0],
                                                             .up = m->y[1],
                                                             .y = m->y[0],
                                                             .n_cols = s->n_out,
                                                             .limit = 7,
                                                             .alpha = 1.702f,
                                                             .up_offset = 1 };
    e->at[-1].rows_per_id = s->n_used;
    experts_linear(e, m->y[0], 2, 1);
    emit(e, KG_OP_experts_combine)->experts_combine = (struct kg_experts_combine_args){ .activations = e->precision,
                                                                                        .x = m->y[2],
                                                                                        .weights = m->shares,
                                                                                        .y = m->combined,
                                                                                        .n_used = s->n_used,
                                                                                        .n_cols = s->n_in };
    emit(e, KG_OP_add)->add = (struct kg_add_args){
        .activations = e->precision, .a = m->residual, .b = m->combined, .y = m->residual, .n_cols = s->n_in
    };
}

void kg_fused_chain_open(struct kg_backend *backend, const struct kg_chain_shape *shape, enum kg_precision precision,
                         const struct kg_chain_memory *layers, uint32_t n_layers, void (*change)(struct kg_node *nodes),
                         struct kg_fused_chain *c) {
    static void (*const EMIT[KG_N_CHAINS])(struct emitter *) = { [KG_CHAIN_NORM_QKV] = norm_qkv,
                                                                 [KG_CHAIN_NORM_SWIGLU] = norm_swiglu,
                                                                 [KG_CHAIN_RESIDUAL] = residual,
                                                                 [KG_CHAIN_LAYER] = layer,
                                                                 [KG_CHAIN_EXPERTS] = experts };
    struct kg_error err;
    *c = (struct kg_fused_chain){ .backend = backend,
                                  .nodes = kg_xcalloc((size_t)n_layers * MOST_NODES, sizeof *c->nodes),
                                  .run = { .n_rows = shape->n_rows, .position = shape->position } };
    struct emitter e = { .shape = shape, .precision = precision, .at = c->nodes };
    for (uint32_t i = 0; i < n_layers; i++) {
        e.layer = (int)i, e.memory = &layers[i];
        EMIT[shape->kind](&e);
    }
    const uint32_t n = (uint32_t)(e.at - c->nodes);
    c->plan = (struct kg_plan){ .nodes = c->nodes,
                                .n_nodes = n,
                                .n_cached = n,
                                .n_body = n,
                                .activations = precision,
                                .residual = precision,
                                .kv = precision,
                                .max_rows = shape->n_rows,
                                .n_ctx = shape->n_ctx,
                                .workspace = layers[0].workspace };
    if (change) change(c->nodes);
    if (backend->ops->lower) kg_must(backend->ops->lower(backend, &c->plan, &c->lowered, &err), &err);
}

enum kg_status kg_fused_chain_run_apart(struct kg_fused_chain *c, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (uint32_t i = 0; i < c->plan.n_nodes && !status; i++)
        status = kg_plan_run_node(c->backend, &c->nodes[i], &c->run, err);
    return status;
}

enum kg_status kg_fused_chain_run(struct kg_fused_chain *c, struct kg_error *err) {
    const struct kg_backend_ops *ops = c->backend->ops;
    const struct kg_step_args step = { .run = c->run, .id = KG_ID_IN_PLACE };
    if (!c->lowered) return kg_fused_chain_run_apart(c, err);
    if (c->run.n_rows == 1) return ops->decode_step(c->backend, c->lowered, &step, err);
    enum kg_status status = KG_OK;
    c->n_taken = 0;
    for (uint32_t i = 0, n; i < c->plan.n_nodes && !status; i += n) {
        status = ops->run_rows(c->backend, c->lowered, i, &c->run, &n, err);
        c->n_taken += status ? 0 : n;
        if (status || n > 0) continue;
        status = kg_plan_run_node(c->backend, &c->nodes[i], &c->run, err);
        n = 1;
    }
    return status;
}

void kg_fused_chain_close(struct kg_fused_chain *c) {
    if (c->lowered) c->backend->ops->free_lowered(c->backend, c->lowered);
    free(c->nodes);
    *c = (struct kg_fused_chain){ 0 };
}

/* The steps of the first layer. */
static uint32_t steps_of(const struct kg_fused_chain *c, const struct kg_lowered_step **steps) {
    const bool one = c->run.n_rows == 1;
    uint32_t n = 0;
    *steps = one ? c->lowered->steps : c->lowered->row_steps;
    while (n < (one ? c->lowered->n_steps : c->lowered->n_row_steps) && c->nodes[(*steps)[n].first].layer == 0) n++;
    return n;
}

void kg_fused_chain_record(struct kg_record *rec, const struct kg_fused_chain *c) {
    const struct kg_lowered_step *steps = NULL;
    const uint32_t n = c->lowered ? steps_of(c, &steps) : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_before = 0, n_same = 0;
        for (uint32_t k = 0; k < n; k++) {
            const bool same = strcmp(steps[k].kernel, steps[i].kernel) == 0;
            n_same += same;
            n_before += same && k < i;
        }
        if (n_before == 0) kg_record_metric(rec, steps[i].kernel, "count", n_same);
    }
}
