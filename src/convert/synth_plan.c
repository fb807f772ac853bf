/* The tensors of a synthetic model: those that each architecture's file has. */
#include "base/buffer.h"
#include "base/size.h"
#include "convert/synth.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME_BYTES = sizeof((struct kg_synth_tensor *)0)->name };

/* Lengths of a tensor's sides by meaning. */
enum side { ONE, VOCAB, CONTEXT, EMBD, HEAD_DIM, ROPE_PAIRS, Q, KV, QKV, FF, GATE_AND_UP, HEADS, EXPERTS };

/* What a tensor is decides its type and values. */
enum role { EMBEDDING, MATRIX, EXPERT_MATRIX, ROUTER, POSITIONS, BIAS, NORM, SINK };

enum {
    QWEN2 = 1,
    LLAMA = 2,
    PHI3 = 4,
    GPT_OSS = 8,
    GPT2 = 16,
    QWEN3 = 32,
    ALL = QWEN2 | LLAMA | PHI3 | GPT_OSS | GPT2 | QWEN3
};
static const struct {
    const char *name;
    unsigned bit;
} ARCHITECTURES[] = { { "qwen2", QWEN2 }, { "qwen3", QWEN3 },     { "llama", LLAMA },
                      { "phi3", PHI3 },   { "gpt-oss", GPT_OSS }, { "gpt2", GPT2 } };

struct rule {
    const char *name;
    unsigned architectures;
    enum role role;
    enum side sides[3]; /* fastest first */
};

/* As llama.cpp names and orders them. */
static const struct rule BEFORE[] = {
    { "token_embd.weight", ALL, EMBEDDING, { EMBD, VOCAB } },
    { "position_embd.weight", GPT2, POSITIONS, { EMBD, CONTEXT } },
    { "rope_freqs.weight", LLAMA, NORM, { ROPE_PAIRS } }, /* of shapes with rope_factors alone */
};
static const struct rule LAYER[] = {
    { "attn_norm.weight", ALL, NORM, { EMBD } },
    { "attn_norm.bias", GPT2, BIAS, { EMBD } },
    { "attn_q.weight", QWEN2 | QWEN3 | LLAMA | GPT_OSS, MATRIX, { EMBD, Q } },
    { "attn_q.bias", QWEN2 | GPT_OSS, BIAS, { Q } },
    { "attn_q_norm.weight", QWEN3, NORM, { HEAD_DIM } },
    { "attn_k.weight", QWEN2 | QWEN3 | LLAMA | GPT_OSS, MATRIX, { EMBD, KV } },
    { "attn_k.bias", QWEN2 | GPT_OSS, BIAS, { KV } },
    { "attn_k_norm.weight", QWEN3, NORM, { HEAD_DIM } },
    { "attn_v.weight", QWEN2 | QWEN3 | LLAMA | GPT_OSS, MATRIX, { EMBD, KV } },
    { "attn_v.bias", QWEN2 | GPT_OSS, BIAS, { KV } },
    { "attn_qkv.weight", PHI3 | GPT2, MATRIX, { EMBD, QKV } },
    { "attn_qkv.bias", GPT2, BIAS, { QKV } },
    { "attn_output.weight", ALL, MATRIX, { Q, EMBD } },
    { "attn_output.bias", GPT_OSS | GPT2, BIAS, { EMBD } },
    { "attn_sinks.weight", GPT_OSS, SINK, { HEADS } },
    { "post_attention_norm.weight", GPT_OSS, NORM, { EMBD } },
    { "ffn_norm.weight", QWEN2 | QWEN3 | LLAMA | PHI3 | GPT2, NORM, { EMBD } },
    { "ffn_norm.bias", GPT2, BIAS, { EMBD } },
    { "ffn_gate.weight", QWEN2 | QWEN3 | LLAMA, MATRIX, { EMBD, FF } },
    { "ffn_up.weight", QWEN2 | QWEN3 | LLAMA | GPT2, MATRIX, { EMBD, FF } },
    { "ffn_up.weight", PHI3, MATRIX, { EMBD, GATE_AND_UP } },
    { "ffn_up.bias", GPT2, BIAS, { FF } },
    { "ffn_down.weight", QWEN2 | QWEN3 | LLAMA | PHI3 | GPT2, MATRIX, { FF, EMBD } },
    { "ffn_down.bias", GPT2, BIAS, { EMBD } },
    { "ffn_gate_inp.weight", GPT_OSS, ROUTER, { EMBD, EXPERTS } },
    { "ffn_gate_inp.bias", GPT_OSS, BIAS, { EXPERTS } },
    { "ffn_gate_exps.weight", GPT_OSS, EXPERT_MATRIX, { EMBD, FF, EXPERTS } },
    { "ffn_gate_exps.bias", GPT_OSS, BIAS, { FF, EXPERTS } },
    { "ffn_up_exps.weight", GPT_OSS, EXPERT_MATRIX, { EMBD, FF, EXPERTS } },
    { "ffn_up_exps.bias", GPT_OSS, BIAS, { FF, EXPERTS } },
    { "ffn_down_exps.weight", GPT_OSS, EXPERT_MATRIX, { FF, EMBD, EXPERTS } },
    { "ffn_down_exps.bias", GPT_OSS, BIAS, { EMBD, EXPERTS } },
};
static const struct rule AFTER[] = {
    { "output_norm.weight", ALL, NORM, { EMBD } },
    { "output_norm.bias", GPT2, BIAS, { EMBD } },
    { "output.weight", ALL, EMBEDDING, { EMBD, VOCAB } }, /* left out if tied */
};

static uint64_t side_elems(const struct kg_synth_shape *s, enum side side) {
    const uint64_t q = (uint64_t)s->n_heads * s->head_dim, kv = (uint64_t)s->n_kv_heads * s->head_dim;
    switch (side) {
    case ONE: return 1;
    case VOCAB: return s->n_vocab;
    case CONTEXT: return s->n_ctx;
    case EMBD: return s->n_embd;
    case HEAD_DIM: return s->head_dim;
    case ROPE_PAIRS: return s->head_dim / 2;
    case Q: return q;
    case KV: return kv;
    case QKV: return q + 2 * kv;
    case FF: return s->n_ff;
    case GATE_AND_UP: return 2 * (uint64_t)s->n_ff;
    case HEADS: return s->n_heads;
    case EXPERTS: return s->n_experts;
    }
    return 1;
}

/* mxfp4 is for all matrices, or for those of experts alone where there are some. */
static enum kg_dtype choose_dtype(const struct kg_synth_plan *plan, enum role role, const struct kg_synth_tensor *t) {
    const struct kg_synth_shape *s = plan->shape;
    const bool has_experts = s->n_experts > 0;
    if (role >= ROUTER) return KG_DTYPE_F32;
    if (plan->type->dtype == KG_DTYPE_MXFP4)
        return has_experts && role != EXPERT_MATRIX ? KG_DTYPE_F16 : KG_DTYPE_MXFP4;
    const struct kg_file_type_model model = { .architecture = plan->architecture,
                                              .n_layers = plan->n_layers,
                                              .n_heads = s->n_heads,
                                              .n_kv_heads = s->n_kv_heads,
                                              .n_experts = s->n_experts,
                                              .tied = s->tied };
    const struct kg_file_type_tensor tensor = { t->name, t->n_dims, t->dims };
    enum kg_dtype by_rules;
    return kg_file_type_dtype(plan->type, &model, &tensor, &by_rules);
}

static void role_values(enum role role, uint64_t n_cols, double *mean, double *deviation) {
    static const struct {
        double mean, deviation;
    } VECTORS[] = { [BIAS] = { 0, 0.1 }, [NORM] = { 1, 0.1 }, [SINK] = { 0, 1 } };
    *mean = role >= BIAS ? VECTORS[role].mean : 0;
    *deviation = role >= BIAS ? VECTORS[role].deviation : 1 / sqrt((double)n_cols);
}

static enum kg_status add_tensor(struct kg_synth_plan *plan, const struct rule *rule, const char *prefix,
                                 struct kg_error *err) {
    const struct kg_synth_shape *s = plan->shape;
    struct kg_synth_tensor t = { .n_elems = 1 };
    uint64_t n_bytes;
    snprintf(t.name, sizeof t.name, "%s%s", prefix, rule->name);
    for (size_t i = 0; i < KG_GGUF_MAX_DIMS; i++) {
        t.dims[i] = i < KG_COUNT_OF(rule->sides) ? side_elems(s, rule->sides[i]) : 1;
        t.n_elems *= t.dims[i];
        if (i < KG_COUNT_OF(rule->sides) && rule->sides[i] != ONE) t.n_dims = (uint32_t)i + 1;
    }
    t.dtype = choose_dtype(plan, rule->role, &t);
    role_values(rule->role, t.dims[0], &t.mean, &t.deviation);
    const enum kg_status status = kg_dtype_row_bytes(t.dtype, t.n_elems, &n_bytes, err);
    if (status != KG_OK) return kg_error_context(err, status, "tensor '%s'", t.name);
    plan->tensors = kg_xrealloc(plan->tensors, (plan->n_tensors + 1) * sizeof t);
    plan->tensors[plan->n_tensors++] = t;
    plan->n_params += t.n_elems;
    plan->n_bytes += n_bytes;
    return KG_OK;
}

static bool is_left_out(const struct kg_synth_shape *s, const char *name) {
    return (s->tied && strcmp(name, "output.weight") == 0) ||
           (!s->rope_factors && strcmp(name, "rope_freqs.weight") == 0);
}

static enum kg_status add_tensors(struct kg_synth_plan *plan, const struct rule *rules, size_t n, const char *prefix,
                                  unsigned architecture, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n && status == KG_OK; i++) {
        if ((rules[i].architectures & architecture) && !is_left_out(plan->shape, rules[i].name))
            status = add_tensor(plan, &rules[i], prefix, err);
    }
    return status;
}

static enum kg_status choose(const struct kg_synth_options *o, struct kg_synth_plan *plan, struct kg_error *err) {
    const struct kg_synth_shape *s = plan->shape;
    plan->architecture = o->architecture ? o->architecture : s->architecture;
    if (strcmp(plan->architecture, s->architecture) != 0 && (!s->also || strcmp(plan->architecture, s->also) != 0))
        return kg_fail(err, KG_ERR_USAGE, "%s is not written as '%s', but as %s%s%s", s->name, plan->architecture,
                       s->architecture, s->also ? " or " : "", s->also ? s->also : "");
    const enum kg_status status = kg_file_type_find(o->type ? o->type : s->type, &plan->type, err);
    if (status != KG_OK) return status;
    plan->n_layers = o->n_layers ? o->n_layers : s->n_layers;
    if (plan->n_layers > s->n_layers)
        return kg_fail(err, KG_ERR_USAGE, "%u layers: %s has %u", plan->n_layers, s->name, s->n_layers);
    return KG_OK;
}

enum kg_status kg_synth_plan_make(const struct kg_synth_options *options, struct kg_synth_plan *plan,
                                  struct kg_error *err) {
    struct kg_synth_plan made = { 0 };
    unsigned architecture = 0;
    enum kg_status status = kg_synth_find(options->like, &made.shape, err);
    if (status == KG_OK) status = choose(options, &made, err);
    for (size_t i = 0; status == KG_OK && i < KG_COUNT_OF(ARCHITECTURES); i++)
        if (strcmp(made.architecture, ARCHITECTURES[i].name) == 0) architecture = ARCHITECTURES[i].bit;
    if (status == KG_OK) status = add_tensors(&made, BEFORE, KG_COUNT_OF(BEFORE), "", architecture, err);
    for (uint32_t i = 0; status == KG_OK && i < made.n_layers; i++) {
        char prefix[MAX_NAME_BYTES];
        snprintf(prefix, sizeof prefix, "blk.%u.", i);
        status = add_tensors(&made, LAYER, KG_COUNT_OF(LAYER), prefix, architecture, err);
    }
    if (status == KG_OK) status = add_tensors(&made, AFTER, KG_COUNT_OF(AFTER), "", architecture, err);
    if (status == KG_OK) *plan = made;
    else kg_synth_plan_free(&made);
    return status;
}

void kg_synth_plan_free(struct kg_synth_plan *plan) {
    free(plan->tensors);
    *plan = (struct kg_synth_plan){ 0 };
}
