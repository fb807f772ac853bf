#include "convert/hf_config.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include "convert/hf_config_private.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    WITH_SILU = KG_HF_QWEN2 | KG_HF_LLAMA | KG_HF_PHI3 | KG_HF_GPT_OSS | KG_HF_QWEN3,
    LLAMA_LIKE = WITH_SILU | KG_HF_GEMMA3,
    GEMMA3_PERIOD = 6,
};

static const struct kg_hf_architecture ARCHITECTURES[] = {
    { "Qwen2ForCausalLM", "qwen2", "qwen2", KG_HF_QWEN2, false },
    { "LlamaForCausalLM", "llama", "llama", KG_HF_LLAMA, false },
    { "Phi3ForCausalLM", "phi3", "phi3", KG_HF_PHI3, false },
    { "GptOssForCausalLM", "gpt_oss", "gpt-oss", KG_HF_GPT_OSS, false },
    { "GPT2LMHeadModel", "gpt2", "gpt2", KG_HF_GPT2, true },
    { "Qwen3ForCausalLM", "qwen3", "qwen3", KG_HF_QWEN3, false },
    { "Gemma3ForCausalLM", "gemma3_text", "gemma3", KG_HF_GEMMA3, true },
};

const json_t *kg_hf_get(const json_t *object, const char *names, const char **found) {
    for (const char *name = names; *name; name += strlen(name) + 1) {
        const json_t *value = json_object_get(object, name);
        if (!value || json_is_null(value)) continue;
        if (found) *found = name;
        return value;
    }
    if (found) *found = names;
    return NULL;
}

enum kg_status kg_hf_bad(const char *dir, const char *name, const json_t *value, const char *needs,
                         struct kg_error *err) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const enum kg_status status = kg_fail(err, KG_ERR_FORMAT, "%s/config.json: %s is %s, but must be %s", dir, name,
                                          text ? kg_quote(text, strlen(text)).text : "?", needs);
    free(text);
    return status;
}

enum kg_status kg_hf_unsupported(const char *dir, const char *name, const json_t *value, const char *only,
                                 struct kg_error *err) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const enum kg_status status = kg_fail(err, KG_ERR_UNSUPPORTED, "%s/config.json: %s is %s; kigo converts only %s",
                                          dir, name, text ? kg_quote(text, strlen(text)).text : "?", only);
    free(text);
    return status;
}

static enum kg_status find_architecture(const char *dir, const json_t *json, const struct kg_hf_architecture **found,
                                        struct kg_error *err) {
    const char *class_name = json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    const char *model_type = json_string_value(json_object_get(json, "model_type"));
    struct kg_buffer known = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_COUNT_OF(ARCHITECTURES); i++) {
        const struct kg_hf_architecture *a = &ARCHITECTURES[i];
        if (class_name ? strcmp(class_name, a->class_name) == 0
                       : model_type && strcmp(model_type, a->model_type) == 0) {
            *found = a;
            kg_buffer_free(&known);
            return KG_OK;
        }
        kg_buffer_printf(&known, "%s%s", i ? ", " : "", a->class_name);
    }
    const char *said = class_name ? class_name : model_type ? model_type : "";
    const enum kg_status status =
        *said
            ? kg_fail(err, KG_ERR_UNSUPPORTED, "%s/config.json: architecture '%s' is not one kigo converts (%s)", dir,
                      kg_quote(said, strlen(said)).text, kg_buffer_text(&known))
            : kg_fail(err, KG_ERR_FORMAT, "%s/config.json: neither architectures nor model_type says what it is", dir);
    kg_buffer_free(&known);
    return status;
}

static enum kg_status to_count(const char *dir, const char *name, const json_t *value, uint32_t *out,
                               struct kg_error *err) {
    const json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
    if (n < 1 || n > INT32_MAX) return kg_hf_bad(dir, name, value, "a whole number from 1 to 2147483647", err);
    *out = (uint32_t)n;
    return KG_OK;
}

enum kg_status kg_hf_number(const char *dir, const char *name, const json_t *value, double *out, struct kg_error *err) {
    const double x = json_number_value(value);
    if (!json_is_number(value) || !isfinite(x) || x < 0)
        return kg_hf_bad(dir, name, value, "a number of 0 or more", err);
    *out = x;
    return KG_OK;
}

#define COUNT(field) offsetof(struct kg_hf_config, field)
/* Names are alternatives, each ending with NUL. Absent or null leaves the count 0 where it is not required. */
static const struct {
    const char *names;
    size_t place;
    unsigned architectures, required;
} COUNTS[] = {
    { "num_hidden_layers\0n_layer\0", COUNT(n_layers), KG_HF_ALL, KG_HF_ALL },
    { "max_position_embeddings\0n_positions\0n_ctx\0", COUNT(n_ctx), KG_HF_ALL, KG_HF_ALL },
    { "hidden_size\0n_embd\0", COUNT(n_embd), KG_HF_ALL, KG_HF_ALL },
    { "intermediate_size\0n_inner\0", COUNT(n_ff), KG_HF_ALL, LLAMA_LIKE },
    { "num_attention_heads\0n_head\0", COUNT(n_heads), KG_HF_ALL, KG_HF_ALL },
    { "num_key_value_heads\0", COUNT(n_kv_heads), LLAMA_LIKE, KG_HF_QWEN3 | KG_HF_GEMMA3 }, /* its default: no ratio */
    { "head_dim\0", COUNT(head_dim), LLAMA_LIKE, 0 },
    { "vocab_size\0", COUNT(n_vocab), KG_HF_ALL, KG_HF_ALL },
    { "sliding_window\0", COUNT(window), KG_HF_PHI3 | KG_HF_GPT_OSS | KG_HF_GEMMA3, KG_HF_GPT_OSS },
    { "sliding_window_pattern\0_sliding_window_pattern\0", COUNT(window_period), KG_HF_GEMMA3, 0 },
    { "query_pre_attn_scalar\0", COUNT(query_scale_dims), KG_HF_GEMMA3, 0 },
    { "num_local_experts\0num_experts\0", COUNT(n_experts), KG_HF_GPT_OSS, KG_HF_GPT_OSS },
    { "num_experts_per_tok\0experts_per_token\0", COUNT(n_experts_used), KG_HF_GPT_OSS, KG_HF_GPT_OSS },
};

static enum kg_status read_counts(const char *dir, const json_t *json, struct kg_hf_config *c, struct kg_error *err) {
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++) {
        if (!(COUNTS[i].architectures & c->architecture->bit)) continue;
        const char *name;
        const json_t *value = kg_hf_get(json, COUNTS[i].names, &name);
        if (!value && (COUNTS[i].required & c->architecture->bit))
            return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: %s is missing", dir, name);
        if (!value) continue;
        const enum kg_status status = to_count(dir, name, value, (uint32_t *)((char *)c + COUNTS[i].place), err);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

static enum kg_status complete_heads(const char *dir, struct kg_hf_config *c, struct kg_error *err) {
    /* transformers' defaults; those of the others are hidden size over heads */
    static const struct {
        enum kg_hf_architecture_bit bit;
        uint32_t head_dim;
    } DEFAULTS[] = { { KG_HF_GPT_OSS, 64 }, { KG_HF_QWEN3, 128 }, { KG_HF_GEMMA3, 256 } };
    for (size_t i = 0; i < KG_COUNT_OF(DEFAULTS); i++)
        if (c->architecture->bit == DEFAULTS[i].bit && c->head_dim == 0) c->head_dim = DEFAULTS[i].head_dim;
    if (c->architecture->bit == KG_HF_GEMMA3 && c->query_scale_dims == 0) c->query_scale_dims = 256; /* so is this */
    c->states_head_dim = c->head_dim > 0 || c->architecture->bit == KG_HF_LLAMA;
    if (c->n_ff == 0) c->n_ff = 4 * c->n_embd;
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    if (c->n_heads % c->n_kv_heads != 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: num_key_value_heads %u does not divide the %u heads", dir,
                       c->n_kv_heads, c->n_heads);
    if (c->head_dim == 0 && c->n_embd % c->n_heads != 0)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: hidden_size %u is no multiple of the %u heads", dir,
                       c->n_embd, c->n_heads);
    if (c->head_dim == 0) c->head_dim = c->n_embd / c->n_heads;
    if (c->head_dim % 2 != 0 && c->architecture->bit != KG_HF_GPT2)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: heads of %u dims are odd", dir, c->head_dim);
    if (c->n_experts_used > c->n_experts)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: num_experts_per_tok %u of num_local_experts %u", dir,
                       c->n_experts_used, c->n_experts);
    return KG_OK;
}

/* A member that may be absent, but must have one of these values. */
static const struct {
    const char *name;
    unsigned architectures;
    const char *values; /* as compact JSON, alternatives each ending with NUL */
} DEMANDS[] = {
    { "hidden_act", WITH_SILU, "\"silu\"\0\"swish\"\0" },
    { "hidden_activation", KG_HF_GEMMA3, "\"gelu_pytorch_tanh\"\0" },
    { "attn_logit_softcapping", KG_HF_GEMMA3, "null\0" },
    { "final_logit_softcapping", KG_HF_GEMMA3, "null\0" },
    { "use_bidirectional_attention", KG_HF_GEMMA3, "false\0" },
    { "activation_function", KG_HF_GPT2, "\"gelu_new\"\0\"gelu_pytorch_tanh\"\0\"gelu_fast\"\0" },
    { "use_sliding_window", KG_HF_QWEN2 | KG_HF_QWEN3, "false\0" },
    { "swiglu_limit", KG_HF_GPT_OSS,
      "7.0\0"
      "7\0" },
    { "swiglu_alpha", KG_HF_GPT_OSS, "1.702\0" },
    { "scale_attn_weights", KG_HF_GPT2, "true\0" },
    { "scale_attn_by_inverse_layer_idx", KG_HF_GPT2, "false\0" },
    { "add_cross_attention", KG_HF_GPT2, "false\0" },
};

static bool is_one_of(const json_t *value, const char *texts) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    bool found = false;
    for (const char *t = texts; text && *t && !found; t += strlen(t) + 1) found = strcmp(text, t) == 0;
    free(text);
    return found;
}

static enum kg_status check_demands(const char *dir, const json_t *json, const struct kg_hf_config *c,
                                    struct kg_error *err) {
    for (size_t i = 0; i < KG_COUNT_OF(DEMANDS); i++) {
        const json_t *value = json_object_get(json, DEMANDS[i].name);
        if (!(DEMANDS[i].architectures & c->architecture->bit) || !value || json_is_null(value)) continue;
        if (!is_one_of(value, DEMANDS[i].values))
            return kg_hf_unsupported(dir, DEMANDS[i].name, value, DEMANDS[i].values, err);
    }
    const json_t *quantized = json_object_get(json, "quantization_config");
    const json_t *method = json_object_get(quantized, "quant_method");
    const bool is_mxfp4 = c->architecture->bit == KG_HF_GPT_OSS && is_one_of(method, "\"mxfp4\"\0");
    if (json_is_object(quantized) && !is_mxfp4)
        return kg_hf_unsupported(dir, "quantization_config.quant_method", method,
                                 "gpt-oss in mxfp4 and models that are not quantized", err);
    return KG_OK;
}

static bool is_windowed(const struct kg_hf_config *c, size_t layer) {
    return c->window > 0 && (c->window_period == 0 || (layer + 1) % c->window_period != 0);
}

static bool has_type(const struct kg_hf_config *c, const json_t *type, size_t layer) {
    return is_one_of(type, is_windowed(c, layer) ? "\"sliding_attention\"\0" : "\"full_attention\"\0");
}

/* How many of the types are as the period has them, from the first on. */
static size_t n_types_had(const struct kg_hf_config *c, const json_t *types) {
    size_t n = 0;
    while (n < json_array_size(types) && has_type(c, json_array_get(types, n), n)) n++;
    return n;
}

/* gpt-oss alternates, beginning with a window; gemma3 has a full layer behind so many with one, by layer_types where
 * they are listed; of the others all layers are alike. */
static void find_period(const json_t *types, struct kg_hf_config *c) {
    if (c->architecture->bit == KG_HF_GPT_OSS) c->window_period = 2;
    if (c->architecture->bit != KG_HF_GEMMA3) return;
    const uint32_t stated = c->window_period > 0 ? c->window_period : GEMMA3_PERIOD;
    c->window_period = stated;
    if (json_is_array(types) && n_types_had(c, types) < json_array_size(types)) {
        c->window_period = 0; /* windows only: what is counted are the layers in front of the first that is full */
        c->window_period = (uint32_t)n_types_had(c, types) + 1;
        if (n_types_had(c, types) < json_array_size(types)) c->window_period = stated;
    }
    if (c->window_period == 1) c->window = 0;
}

static enum kg_status check_layer_types(const char *dir, const json_t *json, struct kg_hf_config *c,
                                        struct kg_error *err) {
    const json_t *types = json_object_get(json, "layer_types"), *type;
    find_period(types, c);
    if (!types || json_is_null(types)) return KG_OK;
    if (!json_is_array(types)) return kg_hf_bad(dir, "layer_types", types, "a list", err);
    if (json_array_size(types) != c->n_layers)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: layer_types has %zu entries for %u layers", dir,
                       json_array_size(types), c->n_layers);
    size_t i;
    json_array_foreach(types, i, type) {
        if (has_type(c, type, i)) continue;
        const char *want = is_windowed(c, i) ? "\"sliding_attention\"\0" : "\"full_attention\"\0";
        char name[40];
        snprintf(name, sizeof name, "layer_types[%zu]", i);
        return kg_hf_unsupported(dir, name, type, want, err);
    }
    return KG_OK;
}

enum kg_status kg_hf_flag(const char *dir, const json_t *json, const char *name, bool otherwise, bool *out,
                          struct kg_error *err) {
    const json_t *value = kg_hf_get(json, name, NULL);
    *out = otherwise;
    if (!value) return KG_OK;
    if (!json_is_boolean(value)) return kg_hf_bad(dir, name, value, "true or false", err);
    *out = json_is_true(value);
    return KG_OK;
}

static enum kg_status read_flags(const char *dir, const json_t *json, struct kg_hf_config *c, struct kg_error *err) {
    const bool gpt_oss = c->architecture->bit == KG_HF_GPT_OSS;
    enum kg_status status = kg_hf_flag(dir, json, "tie_word_embeddings\0", c->architecture->tied, &c->tied_output, err);
    if (status == KG_OK) status = kg_hf_flag(dir, json, "attention_bias\0", gpt_oss, &c->attention_bias, err);
    if (status == KG_OK) status = kg_hf_flag(dir, json, "mlp_bias\0", false, &c->mlp_bias, err);
    if (status == KG_OK && gpt_oss && !c->attention_bias)
        return kg_hf_unsupported(dir, "attention_bias", json_false(), "true", err);
    return status;
}

static enum kg_status read_eps(const char *dir, const json_t *json, struct kg_hf_config *c, struct kg_error *err) {
    const char *name;
    const json_t *value = kg_hf_get(
        json, c->architecture->bit == KG_HF_GPT2 ? "layer_norm_epsilon\0layer_norm_eps\0" : "rms_norm_eps\0", &name);
    if (!value) return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: %s is missing", dir, name);
    return kg_hf_number(dir, name, value, &c->norm_eps, err);
}

enum kg_status kg_hf_config_read(const char *dir, const json_t *json, struct kg_hf_config *config,
                                 struct kg_error *err) {
    struct kg_hf_config c = { 0 };
    enum kg_status status = find_architecture(dir, json, &c.architecture, err);
    if (status == KG_OK) status = read_counts(dir, json, &c, err);
    if (status == KG_OK) status = complete_heads(dir, &c, err);
    if (status == KG_OK) status = check_demands(dir, json, &c, err);
    if (status == KG_OK) status = check_layer_types(dir, json, &c, err);
    if (status == KG_OK) status = read_flags(dir, json, &c, err);
    if (status == KG_OK) status = read_eps(dir, json, &c, err);
    if (status == KG_OK) status = kg_hf_rope_read(dir, json, &c, err);
    if (status == KG_OK) *config = c;
    else kg_hf_config_free(&c);
    return status;
}

void kg_hf_config_free(struct kg_hf_config *config) {
    free(config->rope.long_factors);
    free(config->rope.short_factors);
    *config = (struct kg_hf_config){ 0 };
}
