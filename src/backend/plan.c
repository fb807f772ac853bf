#include "backend/plan.h"
#include "backend/backend.h"
#include <stddef.h>
#include <string.h>

const char *kg_op_name(enum kg_op op) {
#define NAME(op) [KG_OP_##op] = #op,
    static const char *const NAMES[KG_N_OPS] = { KG_OP_LIST(NAME) };
#undef NAME
    return NAMES[op];
}

bool kg_backend_same_op(const struct kg_backend_ops *a, const struct kg_backend_ops *b, enum kg_op op) {
    switch (op) {
#define SAME(op)                                                                                                       \
    case KG_OP_##op: return a->op == b->op;
        KG_OP_LIST(SAME)
#undef SAME
    case KG_N_OPS: break;
    }
    return false;
}

/* Puts the values of a run into the arguments. */
static void bind(const struct kg_node *node, const struct kg_run *run, union kg_op_args *a) {
    const uint32_t n_rows = run->n_rows * node->rows_per_id;
    switch (node->op) {
    case KG_OP_embedding: a->embedding.n_rows = n_rows, a->embedding.position = run->position; break;
    case KG_OP_rmsnorm: a->rmsnorm.n_rows = n_rows; break;
    case KG_OP_layernorm: a->layernorm.n_rows = n_rows; break;
    case KG_OP_linear: a->linear.n_rows = n_rows; break;
    case KG_OP_rope:
        a->rope.n_rows = n_rows, a->rope.position = run->position, a->rope.freq_factors = run->rope_factors;
        break;
    case KG_OP_kv_write: a->kv_write.n_rows = n_rows, a->kv_write.position = run->position; break;
    case KG_OP_attention: a->attention.n_rows = n_rows, a->attention.n_keys = run->position + n_rows; break;
    case KG_OP_add: a->add.n_rows = n_rows; break;
    case KG_OP_swiglu: a->swiglu.n_rows = n_rows; break;
    case KG_OP_gelu: a->gelu.n_rows = n_rows; break;
    case KG_OP_router: a->router.n_rows = n_rows; break;
    case KG_OP_experts_linear: a->experts_linear.n_rows = n_rows; break;
    case KG_OP_experts_combine: a->experts_combine.n_rows = n_rows; break;
    case KG_OP_softmax:
    case KG_OP_sdpa:
    case KG_OP_sdpa_quantize:
    case KG_OP_attention_weights:
    case KG_OP_norm_qkv:
    case KG_OP_norm_swiglu:
    case KG_OP_linear_add:
    case KG_N_OPS: break; /* no plan has them */
    }
}

enum kg_status kg_plan_run_node(struct kg_backend *backend, const struct kg_node *node, const struct kg_run *run,
                                struct kg_error *err) {
    union kg_op_args args = node->args;
    bind(node, run, &args);
    switch (node->op) {
#define RUN(op)                                                                                                        \
    case KG_OP_##op: return backend->ops->op(backend, &args.op, err);
        KG_OP_LIST(RUN)
#undef RUN
    case KG_N_OPS: break;
    }
    return kg_fail(err, KG_ERR_INTERNAL, "a plan's node has operation %d", (int)node->op);
}

/* Where an operation's arguments have what it reads and writes: an offset and 1, so that 0 is none. */
#define AT(op, member) (offsetof(struct kg_##op##_args, member) + 1)
static const struct places {
    size_t in[KG_NODE_INPUTS], out[KG_NODE_OUTPUTS];
} PLACES[KG_N_OPS] = {
    [KG_OP_embedding] = { { AT(embedding, ids) }, { AT(embedding, y) } },
    [KG_OP_rmsnorm] = { { AT(rmsnorm, x) }, { AT(rmsnorm, y) } },
    [KG_OP_layernorm] = { { AT(layernorm, x) }, { AT(layernorm, y) } },
    [KG_OP_linear] = { { AT(linear, x) }, { AT(linear, y) } },
    [KG_OP_rope] = { { AT(rope, x) }, { AT(rope, y) } },
    [KG_OP_kv_write] = { { AT(kv_write, k), AT(kv_write, v) }, { AT(kv_write, k_cache), AT(kv_write, v_cache) } },
    [KG_OP_attention] = { { AT(attention, q), AT(attention, k_cache), AT(attention, v_cache) }, { AT(attention, y) } },
    [KG_OP_add] = { { AT(add, a), AT(add, b) }, { AT(add, y) } },
    [KG_OP_swiglu] = { { AT(swiglu, gate), AT(swiglu, up) }, { AT(swiglu, y) } },
    [KG_OP_gelu] = { { AT(gelu, x) }, { AT(gelu, y) } },
    [KG_OP_router] = { { AT(router, logits) }, { AT(router, ids), AT(router, weights) } },
    [KG_OP_experts_linear] = { { AT(experts_linear, x), AT(experts_linear, ids) }, { AT(experts_linear, y) } },
    [KG_OP_experts_combine] = { { AT(experts_combine, x), AT(experts_combine, weights), AT(experts_combine, residual) },
                                { AT(experts_combine, y) } },
};
#undef AT

static const void *pointer_at(const struct kg_node *node, size_t place) {
    const void *p = NULL;
    if (place > 0) memcpy(&p, (const char *)&node->args + place - 1, sizeof p);
    return p;
}

struct kg_node_places kg_node_places(const struct kg_node *node) {
    struct kg_node_places found;
    for (int i = 0; i < KG_NODE_INPUTS; i++) found.in[i] = pointer_at(node, PLACES[node->op].in[i]);
    for (int i = 0; i < KG_NODE_OUTPUTS; i++) found.out[i] = pointer_at(node, PLACES[node->op].out[i]);
    return found;
}

static void move(struct kg_node *node, size_t place, const void *from, const void *to) {
    if (place > 0 && pointer_at(node, place) == from) memcpy((char *)&node->args + place - 1, &to, sizeof to);
}

void kg_node_move(struct kg_node *node, const void *from, const void *to) {
    for (int i = 0; i < KG_NODE_INPUTS; i++) move(node, PLACES[node->op].in[i], from, to);
    for (int i = 0; i < KG_NODE_OUTPUTS; i++) move(node, PLACES[node->op].out[i], from, to);
}

const struct kg_weight *kg_node_weight(const struct kg_node *node) {
    return node->op == KG_OP_embedding        ? &node->args.embedding.weight
           : node->op == KG_OP_linear         ? &node->args.linear.weight
           : node->op == KG_OP_experts_linear ? &node->args.experts_linear.weight
                                              : NULL;
}
