#include "model/config.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include "model/config_reader.h"
#include "ops/attention.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct kg_architecture ARCHITECTURES[] = {
    { .name = "qwen2", .bit = KG_ARCH_QWEN2, .rope_pairing = KG_ROPE_HALF, .swiglu = { .alpha = 1 } },
    { .name = "llama", .bit = KG_ARCH_LLAMA, .rope_pairing = KG_ROPE_INTERLEAVED, .swiglu = { .alpha = 1 } },
    { .name = "phi3", .bit = KG_ARCH_PHI3, .rope_pairing = KG_ROPE_HALF, .swiglu = { .alpha = 1 }, .slides = true },
    { .name = "gpt-oss",
      .bit = KG_ARCH_GPT_OSS,
      .rope_pairing = KG_ROPE_HALF,
      .ffn = KG_FFN_EXPERTS,
      .swiglu = { .limit = 7, .alpha = 1.702f, .up_offset = 1 },
      .has_sinks = true,
      .slides = true,
      .window_period = 2,
      .wide_residual = true,
      .yarn_exact = true },
    { .name = "qwen3",
      .bit = KG_ARCH_QWEN3,
      .rope_pairing = KG_ROPE_HALF,
      .swiglu = { .alpha = 1 },
      .has_qk_norm = true },
    { .name = "gemma3",
      .bit = KG_ARCH_GEMMA3,
      .rope_pairing = KG_ROPE_HALF,
      .swiglu = { .alpha = 1.5957691f, .cubic = 0.044715f },
      .slides = true,
      .window_period = 6,
      .window_optional = true,
      .window_freq_base = 10000,
      .has_qk_norm = true,
      .has_post_norms = true,
      .scales_embedding = true,
      .n_layers_scaled_by_width = 62,
      .wide_residual = true },
    { .name = "gpt2", .bit = KG_ARCH_GPT2, .norm = KG_NORM_LAYER, .ffn = KG_FFN_GELU },
};

const struct kg_architecture *kg_architecture_find(const char *name) {
    for (size_t i = 0; i < KG_COUNT_OF(ARCHITECTURES); i++)
        if (strcmp(name, ARCHITECTURES[i].name) == 0) return &ARCHITECTURES[i];
    return NULL;
}

const char *kg_config_key(struct kg_config_reader *in, const char *suffix) {
    snprintf(in->key, sizeof in->key, "%s.%s", in->architecture->name, suffix);
    return in->key;
}

/* Copies text; truncates it between UTF-8 characters if it is too long. */
static void copy_text(char *to, size_t size, struct kg_str from) {
    size_t len = from.len < size - 1 ? from.len : size - 1;
    while (len < from.len && len > 0 && ((unsigned char)from.data[len] & 0xC0) == 0x80) len--;
    if (len > 0) memcpy(to, from.data, len);
    to[len] = '\0';
}

/* Rejects one of several files of a split model (gguf-split): the other files hold the rest of its tensors. */
static enum kg_status refuse_part(struct kg_config_reader *in) {
    uint32_t no = 0, count = 1;
    if (!kg_gguf_find_key(in->gguf, "split.count")) return KG_OK;
    enum kg_status status = kg_gguf_get_u32(in->gguf, "split.count", &count, in->err);
    if (!status && kg_gguf_find_key(in->gguf, "split.no")) status = kg_gguf_get_u32(in->gguf, "split.no", &no, in->err);
    if (status || count <= 1) return status;
    return kg_fail(in->err, KG_ERR_UNSUPPORTED,
                   "%s: part %u of %u of a model split into files (split.count); kigo runs whole ones, as "
                   "'llama-gguf-split --merge' makes of them",
                   in->path, no + 1, count);
}

static enum kg_status read_architecture(struct kg_config_reader *in, struct kg_model_config *config) {
    struct kg_str text;
    enum kg_status status = kg_gguf_get_str(in->gguf, "general.architecture", &text, in->err);
    if (status == KG_ERR_NOT_FOUND)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: general.architecture is missing", in->path);
    if (status) return status;
    copy_text(config->architecture, sizeof config->architecture, text);
    in->architecture = kg_architecture_find(config->architecture);
    if (!in->architecture || text.len != strlen(config->architecture)) {
        struct kg_buffer known = KG_BUFFER_INIT;
        for (size_t i = 0; i < KG_COUNT_OF(ARCHITECTURES); i++)
            kg_buffer_printf(&known, "%s%s", i ? ", " : "", ARCHITECTURES[i].name);
        kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: architecture '%s' is not one kigo runs (%s)", in->path,
                kg_quote(text.data, text.len).text, kg_buffer_text(&known));
        kg_buffer_free(&known);
        return KG_ERR_UNSUPPORTED;
    }
    config->name[0] = '\0';
    const struct kg_gguf_key *name = kg_gguf_find_key(in->gguf, "general.name");
    if (name && name->type == KG_GGUF_STRING) copy_text(config->name, sizeof config->name, name->value.s);
    return KG_OK;
}

enum kg_status kg_config_count(struct kg_config_reader *in, const char *suffix, uint32_t *out) {
    const char *key = kg_config_key(in, suffix);
    const struct kg_gguf_key *found = kg_gguf_find_key(in->gguf, key);
    if (!found && *out) return KG_OK;
    if (!found) return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is missing", in->path, key);
    if (found->type == KG_GGUF_ARRAY)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is an array: layers that differ are not supported",
                       in->path, key);
    const enum kg_status status = kg_gguf_get_u32(in->gguf, key, out, in->err);
    if (status) return status;
    if (*out == 0) return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is 0", in->path, key);
    return KG_OK;
}

enum kg_status kg_config_count_or_none(struct kg_config_reader *in, const char *suffix, uint32_t *out) {
    const char *key = kg_config_key(in, suffix);
    return kg_gguf_find_key(in->gguf, key) ? kg_gguf_get_u32(in->gguf, key, out, in->err) : KG_OK;
}

enum kg_status kg_config_number(struct kg_config_reader *in, const char *suffix, bool positive, float *out) {
    const char *key = kg_config_key(in, suffix);
    if (!kg_gguf_find_key(in->gguf, key)) {
        if (!isnan(*out)) return KG_OK;
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is missing", in->path, key);
    }
    const enum kg_status status = kg_gguf_get_f32(in->gguf, key, out, in->err);
    if (status) return status;
    if (!isfinite(*out) || *out < 0 || (positive && *out == 0))
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %g", in->path, key, (double)*out);
    return KG_OK;
}

static enum kg_status read_counts(struct kg_config_reader *in, struct kg_model_config *c) {
    const struct {
        const char *suffix;
        uint32_t *out;
    } required[] = {
        { "context_length", &c->n_ctx_train },
        { "embedding_length", &c->n_embd },
        { "block_count", &c->n_layers },
        { "attention.head_count", &c->n_heads },
    };
    for (size_t i = 0; i < KG_COUNT_OF(required); i++) {
        const enum kg_status status = kg_config_count(in, required[i].suffix, required[i].out);
        if (status) return status;
    }
    /* Checked before any loop over layers: every layer has tensors. */
    if (c->n_layers > kg_gguf_n_tensors(in->gguf))
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s.block_count is %u, but there are only %zu tensors", in->path,
                       in->architecture->name, c->n_layers, kg_gguf_n_tensors(in->gguf));
    c->n_kv_heads = c->n_heads;
    return kg_config_count(in, "attention.head_count_kv", &c->n_kv_heads);
}

static enum kg_status read_head_size(struct kg_config_reader *in, struct kg_model_config *c) {
    if (c->n_heads % c->n_kv_heads != 0)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s.attention.head_count_kv %u does not divide head_count %u",
                       in->path, in->architecture->name, c->n_kv_heads, c->n_heads);
    if (!kg_gguf_find_key(in->gguf, kg_config_key(in, "attention.key_length"))) {
        if (c->n_embd % c->n_heads != 0)
            return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s.embedding_length %u is no multiple of head_count %u",
                           in->path, in->architecture->name, c->n_embd, c->n_heads);
        c->head_dim = c->n_embd / c->n_heads;
    }
    enum kg_status status = kg_config_count(in, "attention.key_length", &c->head_dim);
    if (status) return status;
    uint32_t value_length = c->head_dim;
    status = kg_config_count(in, "attention.value_length", &value_length);
    if (status) return status;
    if (value_length != c->head_dim)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %u, but keys have %u: different sizes are not supported",
                       in->path, in->key, value_length, c->head_dim);
    if (c->head_dim > KG_ATTENTION_MAX_HEAD_DIM || (uint64_t)c->n_heads * c->head_dim > UINT32_MAX)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %u heads of %u dims: kigo runs heads of at most %d dims",
                       in->path, c->n_heads, c->head_dim, KG_ATTENTION_MAX_HEAD_DIM);
    const bool by_width = c->n_layers == in->architecture->n_layers_scaled_by_width;
    c->attn_scale = (float)(1.0 / sqrt(by_width ? (double)c->n_embd / c->n_heads : (double)c->head_dim));
    return kg_config_number(in, "attention.scale", true, &c->attn_scale);
}

/* Keys that change the computation in ways that kigo does not implement; a value that changes nothing is accepted. */
static enum kg_status refuse_unsupported(struct kg_config_reader *in) {
    static const struct {
        const char *suffix;
        double neutral[2];
    } KEYS[] = {
        { "attention.causal", { 1, 1 } },
        { "use_parallel_residual", { 0, 0 } },
        { "attn_logit_softcapping", { 0, 0 } },
        { "final_logit_softcapping", { 0, 0 } },
        { "attention.clamp_kqv", { 0, 0 } },
        { "attention.max_alibi_bias", { 0, 0 } },
        { "logit_scale", { 0, 1 } },
        { "residual_scale", { 0, 1 } },
        { "embedding_scale", { 0, 1 } },
        { "expert_weights_scale", { 0, 1 } },
        { "expert_shared_count", { 0, 0 } },
        { "expert_group_count", { 0, 1 } },
    };
    for (size_t i = 0; i < KG_COUNT_OF(KEYS); i++) {
        const struct kg_gguf_key *key = kg_gguf_find_key(in->gguf, kg_config_key(in, KEYS[i].suffix));
        if (!key || key->type == KG_GGUF_STRING) continue;
        double value = NAN; /* an array: layers that differ */
        if (key->type == KG_GGUF_BOOL) value = key->value.b;
        else if (key->type == KG_GGUF_F32 || key->type == KG_GGUF_F64) value = key->value.f;
        else if (key->type != KG_GGUF_ARRAY) value = (double)key->value.i;
        if (value == KEYS[i].neutral[0] || value == KEYS[i].neutral[1]) continue;
        char shown[32];
        snprintf(shown, sizeof shown, "%g", value);
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %s, which is not supported", in->path, in->key,
                       key->type != KG_GGUF_BOOL ? shown
                       : key->value.b            ? "true"
                                                 : "false");
    }
    return KG_OK;
}

static enum kg_status read_vocabulary(struct kg_config_reader *in, struct kg_model_config *c) {
    const struct kg_gguf_tensor *embedding = kg_gguf_find_tensor(in->gguf, "token_embd.weight");
    if (kg_gguf_n_tensors(in->gguf) == 0)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: no weights: the file holds a vocabulary only", in->path);
    if (!embedding) return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor token_embd.weight is missing", in->path);
    if (embedding->dims[1] == 0 || embedding->dims[1] > INT32_MAX)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: token_embd.weight has %llu rows", in->path,
                       (unsigned long long)embedding->dims[1]);
    c->n_vocab = (uint32_t)embedding->dims[1];
    uint32_t stated = c->n_vocab;
    const enum kg_status status = kg_config_count(in, "vocab_size", &stated);
    if (status) return status;
    if (stated != c->n_vocab)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %u, but token_embd.weight has %u rows", in->path, in->key,
                       stated, c->n_vocab);
    c->tied_output = !kg_gguf_find_tensor(in->gguf, "output.weight");
    c->has_qkv_bias = kg_gguf_find_tensor(in->gguf, "blk.0.attn_q.bias") != NULL ||
                      kg_gguf_find_tensor(in->gguf, "blk.0.attn_qkv.bias") != NULL;
    return KG_OK;
}

static enum kg_status read_norm(struct kg_config_reader *in, struct kg_model_config *c) {
    c->norm = in->architecture->norm;
    c->has_qk_norm = in->architecture->has_qk_norm;
    c->has_post_norms = in->architecture->has_post_norms;
    c->embedding_scale = in->architecture->scales_embedding ? (float)sqrt((double)c->n_embd) : 1;
    c->norm_eps = NAN;
    return kg_config_number(
        in, c->norm == KG_NORM_RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", false,
        &c->norm_eps);
}

enum kg_status kg_config_read(const struct kg_gguf *gguf, struct kg_model_config *config, struct kg_error *err) {
    struct kg_config_reader in = { .gguf = gguf, .path = kg_gguf_path(gguf), .err = err };
    struct kg_model_config c = { 0 };
    enum kg_status status = refuse_part(&in);
    if (!status) status = read_architecture(&in, &c);
    if (!status) status = read_vocabulary(&in, &c);
    if (!status) status = read_counts(&in, &c);
    if (!status) status = read_head_size(&in, &c);
    if (!status) status = kg_config_rope(&in, &c);
    if (!status) status = read_norm(&in, &c);
    if (!status) status = kg_config_windows(&in, &c);
    if (!status) status = kg_config_ffn(&in, &c);
    if (!status) status = refuse_unsupported(&in);
    if (!status) *config = c;
    return status;
}

uint32_t kg_model_layer_window(const struct kg_model_config *c, uint32_t layer) {
    return c->window_period == 0 || layer % c->window_period + 1 < c->window_period ? c->window : 0;
}

struct kg_layer_rope kg_model_layer_rope(const struct kg_model_config *c, uint32_t layer) {
    if (kg_model_layer_window(c, layer) == 0) return (struct kg_layer_rope){ c->rope_freq_base, c->rope_freq_scale };
    return (struct kg_layer_rope){ c->window_freq_base, c->window_freq_scale };
}
