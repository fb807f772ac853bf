/* Rotary positions: which dims are rotated, the base frequency, and the scaling for contexts longer than the trained
 * one. */
#include "base/size.h"
#include "base/utf8.h"
#include "model/config_reader.h"
#include "ops/rope.h"
#include <math.h>

/* Keys that only YaRN has, without a scaling type, are an error: they must not be read as linear scaling. */
static enum kg_status refuse_yarn_untold(struct kg_config_reader *in) {
    static const char *const OF_YARN[] = { "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
                                           "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor" };
    for (size_t i = 0; i < KG_COUNT_OF(OF_YARN); i++)
        if (kg_gguf_find_key(in->gguf, kg_config_key(in, OF_YARN[i])))
            return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s.rope.scaling.type is missing, but %s is there", in->path,
                           in->architecture->name, in->key);
    return KG_OK;
}

/* rope.scaling.type, or its default. */
static enum kg_status read_type(struct kg_config_reader *in, struct kg_str *type) {
    static const char *const KNOWN[] = { "none", "linear", "yarn", "longrope" };
    const char *key = kg_config_key(in, "rope.scaling.type");
    *type = (struct kg_str){ "linear", 6 };
    if (!kg_gguf_find_key(in->gguf, key)) return refuse_yarn_untold(in);
    const enum kg_status status = kg_gguf_get_str(in->gguf, key, type, in->err);
    if (status) return status;
    for (size_t i = 0; i < KG_COUNT_OF(KNOWN); i++)
        if (kg_str_eq(*type, KNOWN[i])) return KG_OK;
    return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s '%s' is not supported (none, linear, yarn and longrope are)",
                   in->path, key, kg_quote(type->data, type->len).text);
}

/* LongRoPE: either both lists of factors and the length that selects one, or none of them. */
static enum kg_status read_lists(struct kg_config_reader *in, struct kg_model_config *c, bool named) {
    static const char *const NAMES[] = { "rope_factors_long.weight", "rope_factors_short.weight" };
    const bool is_there[] = { kg_gguf_find_tensor(in->gguf, NAMES[0]) != NULL,
                              kg_gguf_find_tensor(in->gguf, NAMES[1]) != NULL };
    c->rope_long_short = is_there[0] || is_there[1];
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++)
        if ((c->rope_long_short || named) && !is_there[i])
            return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor %s is missing", in->path, NAMES[i]);
    if (c->rope_long_short && c->rope_original_ctx == 0)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is missing, which decides between long and short rope factors",
                       in->path, kg_config_key(in, "rope.scaling.original_context_length"));
    return KG_OK;
}

static enum kg_status read_yarn(struct kg_config_reader *in, struct kg_model_config *c) {
    const struct {
        const char *suffix;
        float *out, fallback;
    } numbers[] = {
        { "rope.scaling.factor", &c->yarn.factor, NAN },
        { "rope.scaling.yarn_beta_fast", &c->yarn.beta_fast, 32 },
        { "rope.scaling.yarn_beta_slow", &c->yarn.beta_slow, 1 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(numbers); i++) {
        *numbers[i].out = numbers[i].fallback;
        const enum kg_status status = kg_config_number(in, numbers[i].suffix, true, numbers[i].out);
        if (status) return status;
    }
    if (c->yarn.factor < 1)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %g, less than 1", in->path,
                       kg_config_key(in, "rope.scaling.factor"), (double)c->yarn.factor);
    if (c->yarn.beta_fast <= c->yarn.beta_slow)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s %g is not above yarn_beta_slow %g", in->path,
                       kg_config_key(in, "rope.scaling.yarn_beta_fast"), (double)c->yarn.beta_fast,
                       (double)c->yarn.beta_slow);
    float mixed = 1, extra = 0;
    enum kg_status status = kg_config_number(in, "rope.scaling.yarn_ext_factor", false, &mixed);
    if (!status && mixed != 1)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %g; only 1 is supported", in->path, in->key,
                       (double)mixed);
    if (!status) status = kg_config_number(in, "rope.scaling.yarn_log_multiplier", false, &extra);
    if (!status && extra != 0)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %g, which is not supported", in->path, in->key,
                       (double)extra);
    c->yarn.rounded = !in->architecture->yarn_exact;
    if (!status && kg_gguf_find_key(in->gguf, KG_YARN_TRUNCATE_KEY))
        status = kg_gguf_get_bool(in->gguf, KG_YARN_TRUNCATE_KEY, &c->yarn.rounded, in->err);
    if (c->rope_original_ctx == 0) c->rope_original_ctx = c->n_ctx_train;
    c->rope_magnitude *= 0.1f * logf(c->yarn.factor) + 1;
    if (!status && !kg_gguf_find_key(in->gguf, kg_config_key(in, "rope.scaling.attn_factor")))
        status = kg_config_number(in, "rope.scaling.yarn_attn_factor", true, &c->rope_magnitude);
    return status;
}

/* rope.scale_linear is the older key of the linear factor. */
static enum kg_status read_linear(struct kg_config_reader *in, struct kg_model_config *c) {
    float factor = 1;
    enum kg_status status = kg_config_number(in, "rope.scale_linear", true, &factor);
    if (!status) status = kg_config_number(in, "rope.scaling.factor", true, &factor);
    if (status) return status;
    c->rope_freq_scale = 1 / factor;
    if (!isfinite(c->rope_freq_scale) || c->rope_freq_scale <= 0)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %g", in->path, in->key, (double)factor);
    return KG_OK;
}

static enum kg_status read_scaling(struct kg_config_reader *in, struct kg_model_config *c) {
    struct kg_str type;
    c->rope_freq_scale = c->rope_magnitude = 1;
    enum kg_status status = read_type(in, &type);
    if (!status) status = kg_config_number(in, "rope.scaling.attn_factor", true, &c->rope_magnitude);
    if (!status) status = kg_config_count_or_none(in, "rope.scaling.original_context_length", &c->rope_original_ctx);
    if (!status) status = read_lists(in, c, kg_str_eq(type, "longrope"));
    if (!status && kg_str_eq(type, "linear")) status = read_linear(in, c);
    if (!status && kg_str_eq(type, "yarn")) status = read_yarn(in, c);
    if (!status && c->yarn.factor > 0 && (c->rope_long_short || kg_gguf_find_tensor(in->gguf, "rope_freqs.weight")))
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s 'yarn' beside rope factors is not supported", in->path,
                       kg_config_key(in, "rope.scaling.type"));
    return status;
}

/* The rope base of sliding-window layers. If the architecture has no separate one, a file may only repeat the base of
 * the other layers. */
static enum kg_status read_window_base(struct kg_config_reader *in, struct kg_model_config *c) {
    const float own = in->architecture->window_freq_base;
    c->window_freq_base = own > 0 ? own : c->rope_freq_base;
    const enum kg_status status = kg_config_number(in, "rope.freq_base_swa", true, &c->window_freq_base);
    if (status || own > 0 || c->window_freq_base == c->rope_freq_base) return status;
    return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %g, another base than %g, which is not supported for %s",
                   in->path, in->key, (double)c->window_freq_base, (double)c->rope_freq_base, in->architecture->name);
}

/* Linear scaling applies to chosen layers; YaRN's magnitude and lists of factors apply to all layers. */
static enum kg_status scale_window_layers(struct kg_config_reader *in, struct kg_model_config *c) {
    const bool own = in->architecture->window_freq_base > 0;
    c->window_freq_scale = own ? 1 : c->rope_freq_scale;
    if (!own || (c->yarn.factor == 0 && !c->rope_long_short && c->rope_magnitude == 1)) return KG_OK;
    return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: the RoPE scaling of %s.%s is not supported beside linear for %s",
                   in->path, in->architecture->name, "rope.scaling", in->architecture->name);
}

enum kg_status kg_config_rope(struct kg_config_reader *in, struct kg_model_config *c) {
    c->rope_pairing = in->architecture->rope_pairing;
    c->has_positions = c->rope_pairing == KG_ROPE_NONE;
    c->rope_freq_base = c->window_freq_base = 10000;
    c->rope_freq_scale = c->window_freq_scale = c->rope_magnitude = 1;
    if (c->has_positions) return KG_OK;
    c->n_rot = c->head_dim;
    enum kg_status status = kg_config_count(in, "rope.dimension_count", &c->n_rot);
    if (status) return status;
    if (c->n_rot > c->head_dim || c->n_rot % 2 != 0 || c->n_rot > KG_ROPE_MAX_ROT)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s %u must be even and at most the head size %u", in->path, in->key,
                       c->n_rot, c->head_dim);
    status = kg_config_number(in, "rope.freq_base", true, &c->rope_freq_base);
    if (!status) status = read_window_base(in, c);
    if (!status) status = read_scaling(in, c);
    return status ? status : scale_window_layers(in, c);
}
