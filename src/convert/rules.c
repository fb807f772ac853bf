#include "convert/rules.h"
#include "base/size.h"

/* Sides by the rest of their names; what differs from the plain form comes last. */
#define MATRIX(in_gguf, in_hf, n_rows, n_cols, ...)                                                                    \
    { .gguf = (in_gguf), .hf = (in_hf), .rows = KG_SIDE_##n_rows, .cols = KG_SIDE_##n_cols, __VA_ARGS__ }
#define VECTOR(in_gguf, in_hf, n_rows, ...)                                                                            \
    { .gguf = (in_gguf), .hf = (in_hf), .rows = KG_SIDE_##n_rows, __VA_ARGS__ }
#define OF_EXPERTS(in_gguf, in_hf, n_rows, n_cols, ...)                                                                \
    MATRIX(in_gguf, in_hf, n_rows, n_cols, .experts = KG_SIDE_EXPERTS, __VA_ARGS__)

#define ATTENTION_WITH_QKV_BIAS                                                                                        \
    MATRIX("attn_q.weight", "self_attn.q_proj.weight", Q, EMBD), VECTOR("attn_q.bias", "self_attn.q_proj.bias", Q),    \
        MATRIX("attn_k.weight", "self_attn.k_proj.weight", KV, EMBD),                                                  \
        VECTOR("attn_k.bias", "self_attn.k_proj.bias", KV),                                                            \
        MATRIX("attn_v.weight", "self_attn.v_proj.weight", KV, EMBD),                                                  \
        VECTOR("attn_v.bias", "self_attn.v_proj.bias", KV),                                                            \
        MATRIX("attn_output.weight", "self_attn.o_proj.weight", EMBD, Q)

/* Of all whose names are llama's. */
static const struct kg_convert_rule LLAMA_ONCE[] = {
    MATRIX("token_embd.weight", "model.embed_tokens.weight", VOCAB, EMBD),
    VECTOR("output_norm.weight", "model.norm.weight", EMBD),
    MATRIX("output.weight", "lm_head.weight", VOCAB, EMBD, .when = KG_WHEN_UNTIED),
};

static const struct kg_convert_rule QWEN2_LAYER[] = {
    VECTOR("attn_norm.weight", "input_layernorm.weight", EMBD),
    ATTENTION_WITH_QKV_BIAS,
    VECTOR("ffn_norm.weight", "post_attention_layernorm.weight", EMBD),
    MATRIX("ffn_gate.weight", "mlp.gate_proj.weight", FF, EMBD),
    MATRIX("ffn_up.weight", "mlp.up_proj.weight", FF, EMBD),
    MATRIX("ffn_down.weight", "mlp.down_proj.weight", EMBD, FF),
};

static const struct kg_convert_rule LLAMA_LAYER[] = {
    VECTOR("attn_norm.weight", "input_layernorm.weight", EMBD),
    MATRIX("attn_q.weight", "self_attn.q_proj.weight", Q, EMBD, .row_map = KG_ROWS_PAIRED),
    VECTOR("attn_q.bias", "self_attn.q_proj.bias", Q, .row_map = KG_ROWS_PAIRED, .when = KG_WHEN_ATTENTION_BIAS),
    MATRIX("attn_k.weight", "self_attn.k_proj.weight", KV, EMBD, .row_map = KG_ROWS_PAIRED),
    VECTOR("attn_k.bias", "self_attn.k_proj.bias", KV, .row_map = KG_ROWS_PAIRED, .when = KG_WHEN_ATTENTION_BIAS),
    MATRIX("attn_v.weight", "self_attn.v_proj.weight", KV, EMBD),
    VECTOR("attn_v.bias", "self_attn.v_proj.bias", KV, .when = KG_WHEN_ATTENTION_BIAS),
    MATRIX("attn_output.weight", "self_attn.o_proj.weight", EMBD, Q),
    VECTOR("attn_output.bias", "self_attn.o_proj.bias", EMBD, .when = KG_WHEN_ATTENTION_BIAS),
    VECTOR("ffn_norm.weight", "post_attention_layernorm.weight", EMBD),
    MATRIX("ffn_gate.weight", "mlp.gate_proj.weight", FF, EMBD),
    VECTOR("ffn_gate.bias", "mlp.gate_proj.bias", FF, .when = KG_WHEN_MLP_BIAS),
    MATRIX("ffn_up.weight", "mlp.up_proj.weight", FF, EMBD),
    VECTOR("ffn_up.bias", "mlp.up_proj.bias", FF, .when = KG_WHEN_MLP_BIAS),
    MATRIX("ffn_down.weight", "mlp.down_proj.weight", EMBD, FF),
    VECTOR("ffn_down.bias", "mlp.down_proj.bias", EMBD, .when = KG_WHEN_MLP_BIAS),
};

static const struct kg_convert_rule PHI3_LAYER[] = {
    VECTOR("attn_norm.weight", "input_layernorm.weight", EMBD),
    MATRIX("attn_qkv.weight", "self_attn.qkv_proj.weight", QKV, EMBD),
    MATRIX("attn_output.weight", "self_attn.o_proj.weight", EMBD, Q),
    VECTOR("ffn_norm.weight", "post_attention_layernorm.weight", EMBD),
    MATRIX("ffn_up.weight", "mlp.gate_up_proj.weight", GATE_AND_UP, EMBD),
    MATRIX("ffn_down.weight", "mlp.down_proj.weight", EMBD, FF),
};

#define QKV_AND_NORMS(...)                                                                                             \
    MATRIX("attn_q.weight", "self_attn.q_proj.weight", Q, EMBD),                                                       \
        VECTOR("attn_q.bias", "self_attn.q_proj.bias", Q, .when = KG_WHEN_ATTENTION_BIAS),                             \
        VECTOR("attn_q_norm.weight", "self_attn.q_norm.weight", HEAD_DIM, __VA_ARGS__),                                \
        MATRIX("attn_k.weight", "self_attn.k_proj.weight", KV, EMBD),                                                  \
        VECTOR("attn_k.bias", "self_attn.k_proj.bias", KV, .when = KG_WHEN_ATTENTION_BIAS),                            \
        VECTOR("attn_k_norm.weight", "self_attn.k_norm.weight", HEAD_DIM, __VA_ARGS__),                                \
        MATRIX("attn_v.weight", "self_attn.v_proj.weight", KV, EMBD),                                                  \
        VECTOR("attn_v.bias", "self_attn.v_proj.bias", KV, .when = KG_WHEN_ATTENTION_BIAS),                            \
        MATRIX("attn_output.weight", "self_attn.o_proj.weight", EMBD, Q),                                              \
        VECTOR("attn_output.bias", "self_attn.o_proj.bias", EMBD, .when = KG_WHEN_ATTENTION_BIAS)
#define GATE_UP_DOWN                                                                                                   \
    MATRIX("ffn_gate.weight", "mlp.gate_proj.weight", FF, EMBD),                                                       \
        MATRIX("ffn_up.weight", "mlp.up_proj.weight", FF, EMBD),                                                       \
        MATRIX("ffn_down.weight", "mlp.down_proj.weight", EMBD, FF)

static const struct kg_convert_rule QWEN3_LAYER[] = {
    VECTOR("attn_norm.weight", "input_layernorm.weight", EMBD),
    QKV_AND_NORMS(.plus_one = false),
    VECTOR("ffn_norm.weight", "post_attention_layernorm.weight", EMBD),
    GATE_UP_DOWN,
};

static const struct kg_convert_rule GEMMA3_ONCE[] = {
    MATRIX("token_embd.weight", "model.embed_tokens.weight", VOCAB, EMBD),
    VECTOR("output_norm.weight", "model.norm.weight", EMBD, .plus_one = true),
    MATRIX("output.weight", "lm_head.weight", VOCAB, EMBD, .when = KG_WHEN_UNTIED),
};

static const struct kg_convert_rule GEMMA3_LAYER[] = {
    VECTOR("attn_norm.weight", "input_layernorm.weight", EMBD, .plus_one = true),
    QKV_AND_NORMS(.plus_one = true),
    VECTOR("post_attention_norm.weight", "post_attention_layernorm.weight", EMBD, .plus_one = true),
    VECTOR("ffn_norm.weight", "pre_feedforward_layernorm.weight", EMBD, .plus_one = true),
    GATE_UP_DOWN,
    VECTOR("post_ffw_norm.weight", "post_feedforward_layernorm.weight", EMBD, .plus_one = true),
};

/* Experts that are not packed come transposed, (experts, cols, rows). */
static const struct kg_convert_rule GPT_OSS_LAYER[] = {
    VECTOR("attn_norm.weight", "input_layernorm.weight", EMBD),
    ATTENTION_WITH_QKV_BIAS,
    VECTOR("attn_output.bias", "self_attn.o_proj.bias", EMBD),
    VECTOR("attn_sinks.weight", "self_attn.sinks", HEADS),
    VECTOR("post_attention_norm.weight", "post_attention_layernorm.weight", EMBD),
    MATRIX("ffn_gate_inp.weight", "mlp.router.weight", EXPERTS, EMBD, .f32 = true),
    VECTOR("ffn_gate_inp.bias", "mlp.router.bias", EXPERTS),
    OF_EXPERTS("ffn_gate_exps.weight", "mlp.experts.gate_up_proj", FF, EMBD, .row_map = KG_ROWS_EVEN,
               .transposed = true, .packable = true),
    OF_EXPERTS("ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias", FF, ONE, .row_map = KG_ROWS_EVEN),
    OF_EXPERTS("ffn_up_exps.weight", "mlp.experts.gate_up_proj", FF, EMBD, .row_map = KG_ROWS_ODD, .transposed = true,
               .packable = true),
    OF_EXPERTS("ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias", FF, ONE, .row_map = KG_ROWS_ODD),
    OF_EXPERTS("ffn_down_exps.weight", "mlp.experts.down_proj", EMBD, FF, .transposed = true, .packable = true),
    OF_EXPERTS("ffn_down_exps.bias", "mlp.experts.down_proj_bias", EMBD, ONE),
};

static const struct kg_convert_rule GPT2_ONCE[] = {
    MATRIX("token_embd.weight", "wte.weight", VOCAB, EMBD),
    MATRIX("position_embd.weight", "wpe.weight", CONTEXT, EMBD, .f32 = true),
    VECTOR("output_norm.weight", "ln_f.weight", EMBD),
    VECTOR("output_norm.bias", "ln_f.bias", EMBD),
    MATRIX("output.weight", "lm_head.weight", VOCAB, EMBD, .when = KG_WHEN_UNTIED),
};

/* Its Conv1D keeps weights as (inputs, outputs). */
static const struct kg_convert_rule GPT2_LAYER[] = {
    VECTOR("attn_norm.weight", "ln_1.weight", EMBD),
    VECTOR("attn_norm.bias", "ln_1.bias", EMBD),
    MATRIX("attn_qkv.weight", "attn.c_attn.weight", QKV, EMBD, .transposed = true),
    VECTOR("attn_qkv.bias", "attn.c_attn.bias", QKV),
    MATRIX("attn_output.weight", "attn.c_proj.weight", EMBD, EMBD, .transposed = true),
    VECTOR("attn_output.bias", "attn.c_proj.bias", EMBD),
    VECTOR("ffn_norm.weight", "ln_2.weight", EMBD),
    VECTOR("ffn_norm.bias", "ln_2.bias", EMBD),
    MATRIX("ffn_up.weight", "mlp.c_fc.weight", FF, EMBD, .transposed = true),
    VECTOR("ffn_up.bias", "mlp.c_fc.bias", FF),
    MATRIX("ffn_down.weight", "mlp.c_proj.weight", EMBD, FF, .transposed = true),
    VECTOR("ffn_down.bias", "mlp.c_proj.bias", EMBD),
};

static const char *const LLAMA_IGNORED[] = { ".rotary_emb.inv_freq", NULL };
/* The causal mask and what stands in its place. */
static const char *const GPT2_IGNORED[] = { ".attn.bias", ".attn.masked_bias", NULL };

#define ONCE(table) .once = (table), .n_once = KG_COUNT_OF(table)
#define LAYER(table) .layer = (table), .n_layer = KG_COUNT_OF(table)
static const struct kg_convert_rules RULES[] = {
    { KG_HF_QWEN2, "model.layers.", NULL, ONCE(LLAMA_ONCE), LAYER(QWEN2_LAYER), .ignored = LLAMA_IGNORED },
    { KG_HF_LLAMA, "model.layers.", NULL, ONCE(LLAMA_ONCE), LAYER(LLAMA_LAYER), .ignored = LLAMA_IGNORED },
    { KG_HF_PHI3, "model.layers.", NULL, ONCE(LLAMA_ONCE), LAYER(PHI3_LAYER), .ignored = LLAMA_IGNORED },
    { KG_HF_GPT_OSS, "model.layers.", NULL, ONCE(LLAMA_ONCE), LAYER(GPT_OSS_LAYER), .ignored = LLAMA_IGNORED },
    { KG_HF_QWEN3, "model.layers.", NULL, ONCE(LLAMA_ONCE), LAYER(QWEN3_LAYER), .ignored = LLAMA_IGNORED },
    { KG_HF_GEMMA3, "model.layers.", NULL, ONCE(GEMMA3_ONCE), LAYER(GEMMA3_LAYER), .ignored = LLAMA_IGNORED },
    { KG_HF_GPT2, "h.", "transformer.", ONCE(GPT2_ONCE), LAYER(GPT2_LAYER), .ignored = GPT2_IGNORED },
};

const struct kg_convert_rules *kg_convert_rules_of(const struct kg_hf_architecture *architecture) {
    for (size_t i = 0; i < KG_COUNT_OF(RULES); i++)
        if (RULES[i].architectures & architecture->bit) return &RULES[i];
    return NULL;
}

bool kg_convert_rule_applies(const struct kg_convert_rule *rule, const struct kg_hf_config *config) {
    switch (rule->when) {
    case KG_WHEN_ALWAYS: return true;
    case KG_WHEN_UNTIED: return !config->tied_output;
    case KG_WHEN_ATTENTION_BIAS: return config->attention_bias;
    case KG_WHEN_MLP_BIAS: return config->mlp_bias;
    }
    return true;
}

uint64_t kg_convert_side_elems(enum kg_convert_side side, const struct kg_hf_config *c) {
    const uint64_t q = (uint64_t)c->n_heads * c->head_dim, kv = (uint64_t)c->n_kv_heads * c->head_dim;
    switch (side) {
    case KG_SIDE_ONE: return 1;
    case KG_SIDE_VOCAB: return c->n_vocab;
    case KG_SIDE_CONTEXT: return c->n_ctx;
    case KG_SIDE_EMBD: return c->n_embd;
    case KG_SIDE_Q: return q;
    case KG_SIDE_KV: return kv;
    case KG_SIDE_QKV: return q + 2 * kv;
    case KG_SIDE_FF: return c->n_ff;
    case KG_SIDE_GATE_AND_UP: return 2 * (uint64_t)c->n_ff;
    case KG_SIDE_HEADS: return c->n_heads;
    case KG_SIDE_HEAD_DIM: return c->head_dim;
    case KG_SIDE_EXPERTS: return c->n_experts;
    }
    return 1;
}
