/* Shapes of published models, and the tensors each architecture's file has. */
#include "base/buffer.h"
#include "base/size.h"
#include "convert/synth.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kg_synth_shape KG_SYNTH_SHAPES[] = {
    { .name = "qwen2.5-0.5b",
      .source = "Qwen/Qwen2.5-0.5B",
      .architecture = "qwen2",
      .n_layers = 24,
      .n_embd = 896,
      .n_ff = 4864,
      .n_heads = 14,
      .n_kv_heads = 2,
      .head_dim = 64,
      .n_vocab = 151936,
      .n_ctx = 32768,
      .rope_base = 1e6f,
      .eps = 1e-6f,
      .tied = true,
      .dtype = KG_DTYPE_F16 },
    { .name = "phi-3-mini",
      .source = "microsoft/Phi-3-mini-4k-instruct",
      .architecture = "phi3",
      .also = "llama",
      .n_layers = 32,
      .n_embd = 3072,
      .n_ff = 8192,
      .n_heads = 32,
      .n_kv_heads = 32,
      .head_dim = 96,
      .n_vocab = 32064,
      .n_ctx = 4096,
      .window = 2047,
      .rope_original_ctx = 4096,
      .rope_base = 10000,
      .eps = 1e-5f,
      .sentence_marks = true,
      .dtype = KG_DTYPE_F16 },
    { .name = "gpt-oss-20b",
      .source = "openai/gpt-oss-20b",
      .architecture = "gpt-oss",
      .n_layers = 24,
      .n_embd = 2880,
      .n_ff = 2880,
      .n_heads = 64,
      .n_kv_heads = 8,
      .head_dim = 64,
      .n_vocab = 201088,
      .n_ctx = 131072,
      .window = 128,
      .n_experts = 32,
      .n_experts_used = 4,
      .rope_base = 150000,
      .eps = 1e-5f,
      .yarn_factor = 32,
      .rope_original_ctx = 4096,
      .dtype = KG_DTYPE_MXFP4 },
    { .name = "gpt2",
      .source = "openai-community/gpt2",
      .architecture = "gpt2",
      .n_layers = 12,
      .n_embd = 768,
      .n_ff = 3072,
      .n_heads = 12,
      .n_kv_heads = 12,
      .head_dim = 64,
      .n_vocab = 50257,
      .n_ctx = 1024,
      .eps = 1e-5f,
      .tied = true,
      .dtype = KG_DTYPE_F16 },
    /* Small ones of the same forms, for tests. */
    { .name = "tiny-qwen2.5",
      .architecture = "qwen2",
      .for_tests = true,
      .n_layers = 2,
      .n_embd = 96,
      .n_ff = 160,
      .n_heads = 6,
      .n_kv_heads = 2,
      .head_dim = 16,
      .n_vocab = 1000,
      .n_ctx = 256,
      .rope_base = 1e6f,
      .eps = 1e-6f,
      .tied = true,
      .dtype = KG_DTYPE_F16 },
    { .name = "tiny-phi-3",
      .architecture = "phi3",
      .also = "llama",
      .for_tests = true,
      .n_layers = 2,
      .n_embd = 96,
      .n_ff = 128,
      .n_heads = 4,
      .n_kv_heads = 4,
      .head_dim = 24,
      .n_vocab = 515,
      .n_ctx = 128,
      .window = 63,
      .rope_original_ctx = 128,
      .rope_base = 10000,
      .eps = 1e-5f,
      .sentence_marks = true,
      .dtype = KG_DTYPE_F16 },
    { .name = "tiny-gpt-oss",
      .architecture = "gpt-oss",
      .for_tests = true,
      .n_layers = 2,
      .n_embd = 64,
      .n_ff = 64,
      .n_heads = 8,
      .n_kv_heads = 2,
      .head_dim = 16,
      .n_vocab = 700,
      .n_ctx = 256,
      .window = 32,
      .n_experts = 8,
      .n_experts_used = 4,
      .rope_base = 150000,
      .eps = 1e-5f,
      .yarn_factor = 32,
      .rope_original_ctx = 64,
      .dtype = KG_DTYPE_MXFP4 },
    { .name = "tiny-gpt2",
      .architecture = "gpt2",
      .for_tests = true,
      .n_layers = 2,
      .n_embd = 96,
      .n_ff = 384,
      .n_heads = 4,
      .n_kv_heads = 4,
      .head_dim = 24,
      .n_vocab = 515,
      .n_ctx = 128,
      .eps = 1e-5f,
      .tied = true,
      .dtype = KG_DTYPE_F16 },
    /* One layer, mostly of matrices of which a copy in float16 (470 and 265 MB) is more than a session's scratch. */
    { .name = "wide-phi-3",
      .architecture = "phi3",
      .also = "llama",
      .for_tests = true,
      .n_layers = 1,
      .n_embd = 4096,
      .n_ff = 28672,
      .n_heads = 32,
      .n_kv_heads = 8,
      .head_dim = 128,
      .n_vocab = 515,
      .n_ctx = 4096,
      .rope_base = 10000,
      .eps = 1e-5f,
      .sentence_marks = true,
      .dtype = KG_DTYPE_MXFP4 },
    { .name = "wide-gpt-oss",
      .architecture = "gpt-oss",
      .for_tests = true,
      .n_layers = 1,
      .n_embd = 2880,
      .n_ff = 2880,
      .n_heads = 64,
      .n_kv_heads = 8,
      .head_dim = 64,
      .n_vocab = 700,
      .n_ctx = 4096,
      .window = 128,
      .n_experts = 16,
      .n_experts_used = 4,
      .rope_base = 150000,
      .eps = 1e-5f,
      .yarn_factor = 32,
      .rope_original_ctx = 4096,
      .dtype = KG_DTYPE_MXFP4 },
};
const size_t KG_SYNTH_N_SHAPES = KG_COUNT_OF(KG_SYNTH_SHAPES);

enum { MAX_NAME_BYTES = sizeof((struct kg_synth_tensor *)0)->name };

/* Lengths of a tensor's sides by meaning. */
enum side { ONE, VOCAB, CONTEXT, EMBD, Q, KV, QKV, FF, GATE_AND_UP, HEADS, EXPERTS };

/* What a tensor is decides its type and values. */
enum role { EMBEDDING, MATRIX, EXPERT_MATRIX, ROUTER, POSITIONS, BIAS, NORM, SINK };

enum { QWEN2 = 1, LLAMA = 2, PHI3 = 4, GPT_OSS = 8, GPT2 = 16, ALL = QWEN2 | LLAMA | PHI3 | GPT_OSS | GPT2 };
static const struct {
    const char *name;
    unsigned bit;
} ARCHITECTURES[] = {
    { "qwen2", QWEN2 }, { "llama", LLAMA }, { "phi3", PHI3 }, { "gpt-oss", GPT_OSS }, { "gpt2", GPT2 }
};

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
};
static const struct rule LAYER[] = {
    { "attn_norm.weight", ALL, NORM, { EMBD } },
    { "attn_norm.bias", GPT2, BIAS, { EMBD } },
    { "attn_q.weight", QWEN2 | LLAMA | GPT_OSS, MATRIX, { EMBD, Q } },
    { "attn_q.bias", QWEN2 | GPT_OSS, BIAS, { Q } },
    { "attn_k.weight", QWEN2 | LLAMA | GPT_OSS, MATRIX, { EMBD, KV } },
    { "attn_k.bias", QWEN2 | GPT_OSS, BIAS, { KV } },
    { "attn_v.weight", QWEN2 | LLAMA | GPT_OSS, MATRIX, { EMBD, KV } },
    { "attn_v.bias", QWEN2 | GPT_OSS, BIAS, { KV } },
    { "attn_qkv.weight", PHI3 | GPT2, MATRIX, { EMBD, QKV } },
    { "attn_qkv.bias", GPT2, BIAS, { QKV } },
    { "attn_output.weight", ALL, MATRIX, { Q, EMBD } },
    { "attn_output.bias", GPT_OSS | GPT2, BIAS, { EMBD } },
    { "attn_sinks.weight", GPT_OSS, SINK, { HEADS } },
    { "post_attention_norm.weight", GPT_OSS, NORM, { EMBD } },
    { "ffn_norm.weight", QWEN2 | LLAMA | PHI3 | GPT2, NORM, { EMBD } },
    { "ffn_norm.bias", GPT2, BIAS, { EMBD } },
    { "ffn_gate.weight", QWEN2 | LLAMA, MATRIX, { EMBD, FF } },
    { "ffn_up.weight", QWEN2 | LLAMA | GPT2, MATRIX, { EMBD, FF } },
    { "ffn_up.weight", PHI3, MATRIX, { EMBD, GATE_AND_UP } },
    { "ffn_up.bias", GPT2, BIAS, { FF } },
    { "ffn_down.weight", QWEN2 | LLAMA | PHI3 | GPT2, MATRIX, { FF, EMBD } },
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

static enum kg_dtype role_dtype(enum role role, enum kg_dtype asked, bool has_experts) {
    if (role >= ROUTER) return KG_DTYPE_F32;
    if (asked != KG_DTYPE_MXFP4) return asked;
    return role == EXPERT_MATRIX || (role == MATRIX && !has_experts) ? KG_DTYPE_MXFP4 : KG_DTYPE_F16;
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
    t.dtype = role_dtype(rule->role, plan->dtype, s->n_experts > 0);
    for (size_t i = 0; i < KG_GGUF_MAX_DIMS; i++) {
        t.dims[i] = i < KG_COUNT_OF(rule->sides) ? side_elems(s, rule->sides[i]) : 1;
        t.n_elems *= t.dims[i];
        if (i < KG_COUNT_OF(rule->sides) && rule->sides[i] != ONE) t.n_dims = (uint32_t)i + 1;
    }
    role_values(rule->role, t.dims[0], &t.mean, &t.deviation);
    const enum kg_status status = kg_dtype_row_bytes(t.dtype, t.n_elems, &n_bytes, err);
    if (status != KG_OK) return kg_error_context(err, status, "tensor '%s'", t.name);
    plan->tensors = kg_xrealloc(plan->tensors, (plan->n_tensors + 1) * sizeof t);
    plan->tensors[plan->n_tensors++] = t;
    plan->n_params += t.n_elems;
    plan->n_bytes += n_bytes;
    return KG_OK;
}

static enum kg_status add_tensors(struct kg_synth_plan *plan, const struct rule *rules, size_t n, const char *prefix,
                                  unsigned architecture, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n && status == KG_OK; i++) {
        const bool left_out = plan->shape->tied && strcmp(rules[i].name, "output.weight") == 0;
        if ((rules[i].architectures & architecture) && !left_out) status = add_tensor(plan, &rules[i], prefix, err);
    }
    return status;
}

enum kg_status kg_synth_find(const char *name, const struct kg_synth_shape **shape, struct kg_error *err) {
    struct kg_buffer known = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_SYNTH_N_SHAPES; i++) {
        if (strcmp(name, KG_SYNTH_SHAPES[i].name) == 0) {
            *shape = &KG_SYNTH_SHAPES[i];
            kg_buffer_free(&known);
            return KG_OK;
        }
        if (!KG_SYNTH_SHAPES[i].for_tests) kg_buffer_printf(&known, "%s%s", i ? ", " : "", KG_SYNTH_SHAPES[i].name);
    }
    kg_fail(err, KG_ERR_USAGE, "no model '%s' to be like; there are %s", name, kg_buffer_text(&known));
    kg_buffer_free(&known);
    return KG_ERR_USAGE;
}

static enum kg_status choose(const struct kg_synth_options *o, struct kg_synth_plan *plan, struct kg_error *err) {
    const struct kg_synth_shape *s = plan->shape;
    plan->architecture = o->architecture ? o->architecture : s->architecture;
    if (strcmp(plan->architecture, s->architecture) != 0 && (!s->also || strcmp(plan->architecture, s->also) != 0))
        return kg_fail(err, KG_ERR_USAGE, "%s is not written as '%s', but as %s%s%s", s->name, plan->architecture,
                       s->architecture, s->also ? " or " : "", s->also ? s->also : "");
    plan->dtype = s->dtype;
    if (o->dtype) {
        const bool known = kg_dtype_from_name(o->dtype, &plan->dtype, NULL) == KG_OK;
        if (!known || (plan->dtype != KG_DTYPE_F16 && plan->dtype != KG_DTYPE_F32 && plan->dtype != KG_DTYPE_MXFP4))
            return kg_fail(err, KG_ERR_USAGE, "weights of type '%s' are not made (f16, f32 and mxfp4 are)", o->dtype);
    }
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
