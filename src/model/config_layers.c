/* The configuration of layers: windows and sinks of attention; gates, activations and experts. */
#include "model/config_reader.h"
#include "ops/router.h"

/* attention.sliding_window_pattern: a period, or one flag per layer, which must match the architecture's pattern. */
static enum kg_status read_pattern(struct kg_config_reader *in, struct kg_model_config *c) {
    const struct kg_gguf_key *key = kg_gguf_find_key(in->gguf, kg_config_key(in, "attention.sliding_window_pattern"));
    if (!key) return KG_OK;
    if (key->type != KG_GGUF_ARRAY) {
        const enum kg_status status = kg_gguf_get_u32(in->gguf, in->key, &c->window_period, in->err);
        if (status) return status;
        if (c->window_period == 0) return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is 0", in->path, in->key);
        return KG_OK;
    }
    const enum kg_gguf_type type = key->value.array.elem_type;
    if (type == KG_GGUF_STRING || type == KG_GGUF_F32 || type == KG_GGUF_F64 || key->value.array.n != c->n_layers)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is no flag for each of %u layers", in->path, in->key,
                       c->n_layers);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        if ((kg_gguf_array_int(key, layer) != 0) != (kg_model_layer_window(c, layer) != 0))
            return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s of layer %u is not that of %s", in->path, in->key,
                           layer, in->architecture->name);
    return KG_OK;
}

enum kg_status kg_config_windows(struct kg_config_reader *in, struct kg_model_config *c) {
    uint32_t window = 0;
    c->has_sinks = in->architecture->has_sinks;
    enum kg_status status = kg_config_count_or_none(in, "attention.sliding_window", &window);
    if (status) return status;
    if (window == 0 && in->architecture->window_period > 0 && !in->architecture->window_optional)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is missing or 0", in->path, in->key);
    if (!in->architecture->slides) {
        if (window == 0 || window >= c->n_ctx_train) return KG_OK;
        return kg_fail(in->err, KG_ERR_UNSUPPORTED,
                       "%s: %s %u is less than the context of %u; windows are not supported for %s", in->path, in->key,
                       window, c->n_ctx_train, in->architecture->name);
    }
    c->window = window;
    c->window_period = in->architecture->window_period;
    return window > 0 ? read_pattern(in, c) : KG_OK;
}

static enum kg_status read_experts(struct kg_config_reader *in, struct kg_model_config *c) {
    uint32_t dense = 0, gating = 3; /* llama.cpp's number for a softmax over the chosen */
    enum kg_status status = kg_config_count(in, "expert_count", &c->n_experts);
    if (!status && c->n_experts > KG_ROUTER_MAX_EXPERTS)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %u; at most %d are supported", in->path, in->key,
                       c->n_experts, KG_ROUTER_MAX_EXPERTS);
    if (!status) status = kg_config_count(in, "expert_used_count", &c->n_experts_used);
    if (!status && c->n_experts_used > c->n_experts)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %u, of %u experts", in->path, in->key, c->n_experts_used,
                       c->n_experts);
    if (!status) status = kg_config_count_or_none(in, "expert_gating_func", &gating);
    if (!status && gating != 3)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %u; only 3, a softmax over the chosen, is supported",
                       in->path, in->key, gating);
    if (!status) status = kg_config_count_or_none(in, "feed_forward_length", &dense);
    if (!status) status = kg_config_count(in, "expert_feed_forward_length", &c->n_ff);
    if (!status && dense != 0 && dense != c->n_ff)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %u, but feed_forward_length %u", in->path, in->key, c->n_ff,
                       dense);
    return status;
}

enum kg_status kg_config_ffn(struct kg_config_reader *in, struct kg_model_config *c) {
    uint32_t n_experts = 0, n_used = 0;
    c->ffn = in->architecture->ffn;
    c->swiglu = in->architecture->swiglu;
    c->wide_residual = in->architecture->wide_residual;
    if (c->ffn == KG_FFN_EXPERTS) return read_experts(in, c);
    const enum kg_status status = kg_config_count_or_none(in, "expert_count", &n_experts);
    if (status) return status;
    if (n_experts > 0)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %u; experts are not supported for %s", in->path, in->key,
                       n_experts, in->architecture->name);
    const enum kg_status used = kg_config_count_or_none(in, "expert_used_count", &n_used);
    if (used) return used;
    if (n_used > 0) return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %u, of 0 experts", in->path, in->key, n_used);
    return kg_config_count(in, "feed_forward_length", &c->n_ff);
}
