#include "suites/tolerance/lowered_mistakes.h"
#include "suites/harness/must.h"
#include <check.h>
#include <string.h>

/* The nth node of that operation in the step. */
static struct kg_node *node_of(const struct kg_lowered_site *s, enum kg_op op, uint32_t nth) {
    for (uint32_t i = 0; i < s->n_step; i++)
        if (s->n[i].op == op && nth-- == 0) return &s->n[i];
    ck_abort_msg("the step has no such %s", kg_op_name(op));
}

/* All nodes of the operation: of the step, or of all layers. */
#define FOR_EACH(s, op_name, args_name, ...)                                                                           \
    for (uint32_t i = 0; i < ((s)->alike ? (s)->n_nodes : (s)->n_step); i++) {                                         \
        struct kg_node *each = (s)->alike ? &(s)->nodes[i] : &(s)->n[i];                                               \
        struct kg_##op_name##_args *args_name = &each->args.op_name;                                                   \
        if (each->op != KG_OP_##op_name) continue;                                                                     \
        __VA_ARGS__;                                                                                                   \
    }

static struct kg_linear_args *linear(const struct kg_lowered_site *s, uint32_t nth) {
    return &node_of(s, KG_OP_linear, nth)->args.linear;
}

static struct kg_experts_linear_args *experts(const struct kg_lowered_site *s, uint32_t nth) {
    return &node_of(s, KG_OP_experts_linear, nth)->args.experts_linear;
}

/* The node that does the same in another layer. */
static const struct kg_node *in_other_layer(const struct kg_lowered_site *s, const struct kg_node *node) {
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].layer >= 0 && s->nodes[i].layer != node->layer && s->nodes[i].taps[0].name &&
            strcmp(s->nodes[i].taps[0].name, node->taps[0].name) == 0)
            return &s->nodes[i];
    ck_abort_msg("no other layer has a %s", node->taps[0].name);
}

void kg_mistake_norm_left_out(const struct kg_lowered_site *s) {
    node_of(s, KG_OP_rmsnorm, 0)->args.rmsnorm.weight = s->ones;
}

void kg_mistake_norm_of_keys_left_out(const struct kg_lowered_site *s) {
    node_of(s, KG_OP_rmsnorm, 1)->args.rmsnorm.weight = s->ones;
}

void kg_mistake_norms_exchanged(const struct kg_lowered_site *s) {
    struct kg_rmsnorm_args *q = &node_of(s, KG_OP_rmsnorm, 0)->args.rmsnorm;
    struct kg_rmsnorm_args *k = &node_of(s, KG_OP_rmsnorm, 1)->args.rmsnorm;
    const float *weight = q->weight;
    q->weight = k->weight, k->weight = weight;
}

void kg_mistake_values_by_weight_of_keys(const struct kg_lowered_site *s) {
    linear(s, 2)->weight.data = linear(s, 1)->weight.data;
}

void kg_mistake_keys_by_weight_of_queries(const struct kg_lowered_site *s) {
    linear(s, 1)->weight.data = linear(s, 0)->weight.data;
}

void kg_mistake_first_weight_of_other_layer(const struct kg_lowered_site *s) {
    struct kg_node *node = node_of(s, KG_OP_linear, 0);
    node->args.linear.weight.data = in_other_layer(s, node)->args.linear.weight.data;
}

void kg_mistake_first_bias_left_out(const struct kg_lowered_site *s) {
    linear(s, 0)->bias = NULL;
}

void kg_mistake_bias_of_keys_left_out(const struct kg_lowered_site *s) {
    linear(s, 1)->bias = NULL;
}

void kg_mistake_out_bias_left_out(const struct kg_lowered_site *s) {
    linear(s, 3)->bias = NULL;
}

void kg_mistake_rotation_left_out(const struct kg_lowered_site *s) {
    FOR_EACH(s, rope, a, a->freq_scale = 1e-30F)
}

void kg_mistake_other_pairs(const struct kg_lowered_site *s) {
    FOR_EACH(s, rope, a, a->pairing = a->pairing == KG_ROPE_HALF ? KG_ROPE_INTERLEAVED : KG_ROPE_HALF)
}

/* Attention reads where the cache is written. */
void kg_mistake_slot_off_by_one(const struct kg_lowered_site *s) {
    struct kg_kv_write_args *kv = &node_of(s, KG_OP_kv_write, 0)->args.kv_write;
    const size_t row = kv->head_dim * kg_precision_bytes(kv->kv);
    const void *keys = kv->k_cache;
    kv->k_cache = (char *)kv->k_cache + row;
    kv->v_cache = (char *)kv->v_cache + row;
    for (uint32_t i = 0; i < s->n_step; i++) {
        struct kg_attention_args *a = &s->n[i].args.attention;
        if (s->n[i].op == KG_OP_attention && a->k_cache == keys) a->k_cache = kv->k_cache, a->v_cache = kv->v_cache;
    }
}

void kg_mistake_window_of_three(const struct kg_lowered_site *s) {
    FOR_EACH(s, attention, a, a->window = 3)
}

/* The older half of 300 keys, of a step in two splits or more. */
void kg_mistake_first_splits_unmerged(const struct kg_lowered_site *s) {
    FOR_EACH(s, attention, a, a->window = 150)
}

void kg_mistake_scale_of_head_dim(const struct kg_lowered_site *s) {
    FOR_EACH(s, attention, a, a->scale *= a->scale)
}

void kg_mistake_keys_for_values(const struct kg_lowered_site *s) {
    struct kg_attention_args *a = &node_of(s, KG_OP_attention, 0)->args.attention;
    a->v_cache = a->k_cache;
}

void kg_mistake_sinks_left_out(const struct kg_lowered_site *s) {
    node_of(s, KG_OP_attention, 0)->args.attention.sinks = NULL;
}

void kg_mistake_gate_and_up_swapped(const struct kg_lowered_site *s) {
    struct kg_linear_args *gate = linear(s, 0), *up = linear(s, 1), was = *gate;
    gate->weight = up->weight, gate->bias = up->bias;
    up->weight = was.weight, up->bias = was.bias;
}

void kg_mistake_expert_gate_and_up_swapped(const struct kg_lowered_site *s) {
    struct kg_experts_linear_args *gate = experts(s, 0), *up = experts(s, 1), was = *gate;
    gate->weight = up->weight, gate->bias = up->bias;
    up->weight = was.weight, up->bias = was.bias;
}

void kg_mistake_up_by_weight_of_gate(const struct kg_lowered_site *s) {
    linear(s, 1)->weight.data = linear(s, 0)->weight.data;
}

void kg_mistake_down_of_other_layer(const struct kg_lowered_site *s) {
    struct kg_node *node = node_of(s, KG_OP_experts_linear, 2);
    node->args.experts_linear.weight.data = in_other_layer(s, node)->args.experts_linear.weight.data;
}

void kg_mistake_down_bias_left_out(const struct kg_lowered_site *s) {
    experts(s, 2)->bias = NULL;
}

void kg_mistake_gate_half_as_steep(const struct kg_lowered_site *s) {
    node_of(s, KG_OP_swiglu, 0)->args.swiglu.alpha *= 0.5F;
}

void kg_mistake_last_expert_left_out(const struct kg_lowered_site *s) {
    node_of(s, KG_OP_experts_combine, 0)->args.experts_combine.n_used -= 1;
}

void kg_mistake_one_expert_fewer(const struct kg_lowered_site *s) {
    node_of(s, KG_OP_router, 0)->args.router.n_used -= 1;
}

void kg_mistake_next_row(const struct kg_lowered_site *s) {
    struct kg_weight *w = &s->n->args.embedding.weight;
    uint64_t row_bytes;
    struct kg_error err;
    kg_must(kg_dtype_row_bytes(w->dtype, w->n_cols, &row_bytes, &err), &err);
    w->data = (const uint8_t *)w->data + row_bytes;
    w->n_rows -= 1;
}

/* As of a tied output: of the same shape and format. */
void kg_mistake_logits_by_the_embedding(const struct kg_lowered_site *s) {
    linear(s, 0)->weight.data = s->nodes[0].args.embedding.weight.data;
}
