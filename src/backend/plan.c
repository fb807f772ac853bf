#include "backend/plan.h"
#include "backend/backend.h"

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

struct kg_node_places kg_node_places(const struct kg_node *node) {
    const union kg_op_args *a = &node->args;
    switch (node->op) {
    case KG_OP_embedding: return (struct kg_node_places){ { a->embedding.ids }, { a->embedding.y } };
    case KG_OP_rmsnorm: return (struct kg_node_places){ { a->rmsnorm.x }, { a->rmsnorm.y } };
    case KG_OP_layernorm: return (struct kg_node_places){ { a->layernorm.x }, { a->layernorm.y } };
    case KG_OP_linear: return (struct kg_node_places){ { a->linear.x }, { a->linear.y } };
    case KG_OP_rope: return (struct kg_node_places){ { a->rope.x }, { a->rope.y } };
    case KG_OP_kv_write:
        return (struct kg_node_places){ { a->kv_write.k, a->kv_write.v },
                                        { a->kv_write.k_cache, a->kv_write.v_cache } };
    case KG_OP_attention:
        return (struct kg_node_places){ { a->attention.q, a->attention.k_cache, a->attention.v_cache },
                                        { a->attention.y } };
    case KG_OP_add: return (struct kg_node_places){ { a->add.a, a->add.b }, { a->add.y } };
    case KG_OP_swiglu: return (struct kg_node_places){ { a->swiglu.gate, a->swiglu.up }, { a->swiglu.y } };
    case KG_OP_gelu: return (struct kg_node_places){ { a->gelu.x }, { a->gelu.y } };
    case KG_OP_router: return (struct kg_node_places){ { a->router.logits }, { a->router.ids, a->router.weights } };
    case KG_OP_experts_linear:
        return (struct kg_node_places){ { a->experts_linear.x, a->experts_linear.ids }, { a->experts_linear.y } };
    case KG_OP_experts_combine:
        return (struct kg_node_places){
            { a->experts_combine.x, a->experts_combine.weights, a->experts_combine.residual }, { a->experts_combine.y }
        };
    case KG_OP_softmax:
    case KG_OP_sdpa:
    case KG_OP_sdpa_quantize:
    case KG_N_OPS: break;
    }
    return (struct kg_node_places){ 0 };
}

const struct kg_weight *kg_node_weight(const struct kg_node *node) {
    return node->op == KG_OP_embedding        ? &node->args.embedding.weight
           : node->op == KG_OP_linear         ? &node->args.linear.weight
           : node->op == KG_OP_experts_linear ? &node->args.experts_linear.weight
                                              : NULL;
}
