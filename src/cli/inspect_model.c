/* How kigo computes the model of a file: what the configuration says beyond its keys. */
#include "base/json_put.h"
#include "cli/inspect.h"
#include "model/config.h"
#include <inttypes.h>
#include <string.h>

static const char *const FFN_NAMES[] = {
    [KG_FFN_GATED] = "gated", [KG_FFN_GELU] = "gelu", [KG_FFN_EXPERTS] = "experts"
};
static const char *const PAIRING_NAMES[] = {
    [KG_ROPE_NONE] = "none", [KG_ROPE_HALF] = "half", [KG_ROPE_INTERLEAVED] = "interleaved"
};

static const char *scaling_name(const struct kg_model_config *c) {
    if (c->yarn.factor > 0) return "yarn";
    if (c->rope_long_short) return "longrope";
    return c->rope_freq_scale != 1 ? "linear" : "none";
}

static void put_attention(struct kg_buffer *out, const struct kg_model_config *c) {
    kg_buffer_printf(out, "  attention  %" PRIu32 " heads of %" PRIu32 ", %" PRIu32 " KV heads", c->n_heads,
                     c->head_dim, c->n_kv_heads);
    if (c->window > 0) {
        kg_buffer_printf(out, ", a sliding window of %" PRIu32 " keys on ", c->window);
        if (c->window_period == 0) kg_buffer_puts(out, "all layers (as transformers does; llama.cpp ignores it)");
        else kg_buffer_printf(out, "all layers but one in %" PRIu32, c->window_period);
    }
    if (c->has_qk_norm) kg_buffer_puts(out, ", norms of q and k");
    if (c->has_post_norms) kg_buffer_puts(out, ", norms of what layers add");
    kg_buffer_puts(out, c->has_sinks ? ", sinks\n" : "\n");
}

static void put_rope(struct kg_buffer *out, const struct kg_model_config *c) {
    if (c->has_positions) {
        kg_buffer_printf(out, "  positions  learned, %" PRIu32 "\n", c->n_ctx_train);
        return;
    }
    kg_buffer_printf(out, "  rope       %" PRIu32 " dims, %s, base %.9g", c->n_rot,
                     c->rope_pairing == KG_ROPE_HALF ? "pairs (i, i + n/2)" : "pairs (2i, 2i + 1)",
                     (double)c->rope_freq_base);
    if (c->yarn.factor > 0)
        kg_buffer_printf(out, ", YaRN by %g from %" PRIu32 " positions, its ramp %s", (double)c->yarn.factor,
                         c->rope_original_ctx, c->yarn.rounded ? "rounded to whole pairs" : "not rounded");
    if (c->rope_long_short)
        kg_buffer_printf(out, ", long factors for sequences of more than %" PRIu32 " positions, else short ones",
                         c->rope_original_ctx);
    if (c->rope_freq_scale != 1) kg_buffer_printf(out, ", positions times %g", (double)c->rope_freq_scale);
    if (c->rope_magnitude != 1) kg_buffer_printf(out, ", magnitude %.9g", (double)c->rope_magnitude);
    if (c->window > 0 && (c->window_freq_base != c->rope_freq_base || c->window_freq_scale != c->rope_freq_scale))
        kg_buffer_printf(out, "; with a window base %.9g, positions times %g", (double)c->window_freq_base,
                         (double)c->window_freq_scale);
    kg_buffer_puts(out, "\n");
}

static void put_ffn(struct kg_buffer *out, const struct kg_model_config *c) {
    const struct kg_swiglu_form *form = &c->swiglu;
    kg_buffer_puts(out, "  ffn        ");
    if (c->ffn == KG_FFN_EXPERTS)
        kg_buffer_printf(out, "%" PRIu32 " experts, of which %" PRIu32 " run, each ", c->n_experts, c->n_experts_used);
    kg_buffer_printf(out, "%" PRIu32 " wide, %s", c->n_ff,
                     c->ffn == KG_FFN_GELU ? "gelu (tanh)"
                     : form->cubic > 0     ? "geglu (tanh)"
                                           : "swiglu");
    if (form->limit > 0)
        kg_buffer_printf(out, " clamped at %g, alpha %g, up + %g", (double)form->limit, (double)form->alpha,
                         (double)form->up_offset);
    kg_buffer_puts(out, "\n");
}

void kg_inspect_model_text(struct kg_buffer *out, const struct kg_gguf *gguf) {
    struct kg_model_config c;
    struct kg_error err;
    if (kg_config_read(gguf, &c, &err)) {
        kg_buffer_printf(out, "\nmodel: not one kigo runs: %s\n", err.message);
        return;
    }
    kg_buffer_printf(out, "\nmodel: %s, %" PRIu32 " layers of %" PRIu32 ", %s norms of epsilon %g, output %s\n",
                     c.architecture, c.n_layers, c.n_embd, c.norm == KG_NORM_RMS ? "RMS" : "layer", (double)c.norm_eps,
                     c.tied_output ? "tied to the embedding" : "a separate matrix");
    put_attention(out, &c);
    put_rope(out, &c);
    put_ffn(out, &c);
}

/* "name":value of a number, for the lists below. */
static void put_count(struct kg_buffer *out, const char *name, uint32_t value) {
    kg_buffer_printf(out, ",\"%s\":%" PRIu32, name, value);
}

static void put_f32(struct kg_buffer *out, const char *name, float value) {
    kg_buffer_printf(out, ",\"%s\":", name);
    kg_json_put_f32(out, value);
}

static void put_config_json(struct kg_buffer *out, const struct kg_model_config *c) {
    kg_buffer_printf(out, "\"architecture\":\"%s\",\"norm\":\"%s\",\"ffn\":\"%s\",\"tied_output\":%s", c->architecture,
                     c->norm == KG_NORM_RMS ? "rms" : "layer", FFN_NAMES[c->ffn], c->tied_output ? "true" : "false");
    put_count(out, "n_layers", c->n_layers);
    put_count(out, "n_embd", c->n_embd);
    put_count(out, "n_ff", c->n_ff);
    put_count(out, "n_heads", c->n_heads);
    put_count(out, "n_kv_heads", c->n_kv_heads);
    put_count(out, "head_dim", c->head_dim);
    put_count(out, "n_experts", c->n_experts);
    put_count(out, "n_experts_used", c->n_experts_used);
    put_f32(out, "norm_eps", c->norm_eps);
    put_f32(out, "embedding_scale", c->embedding_scale);
    kg_buffer_printf(out, ",\"qk_norm\":%s,\"post_norms\":%s", c->has_qk_norm ? "true" : "false",
                     c->has_post_norms ? "true" : "false");
    put_f32(out, "attn_scale", c->attn_scale);
    kg_buffer_printf(out, ",\"sinks\":%s,\"window\":%" PRIu32 ",\"sliding_layers\":[", c->has_sinks ? "true" : "false",
                     c->window);
    const char *separator = "";
    for (uint32_t i = 0; i < c->n_layers; i++) {
        if (kg_model_layer_window(c, i) == 0) continue;
        kg_buffer_printf(out, "%s%" PRIu32, separator, i);
        separator = ",";
    }
    kg_buffer_printf(out, "],\"rope\":{\"pairs\":\"%s\",\"scaling\":\"%s\"", PAIRING_NAMES[c->rope_pairing],
                     scaling_name(c));
    put_count(out, "n_rot", c->n_rot);
    put_count(out, "original_context", c->rope_original_ctx);
    put_f32(out, "base", c->rope_freq_base);
    put_f32(out, "position_scale", c->rope_freq_scale);
    put_f32(out, "window_base", c->window_freq_base);
    put_f32(out, "window_position_scale", c->window_freq_scale);
    put_f32(out, "magnitude", c->rope_magnitude);
    put_f32(out, "yarn_factor", c->yarn.factor);
    kg_buffer_printf(out, ",\"yarn_rounded\":%s},\"swiglu\":{\"limit\":", c->yarn.rounded ? "true" : "false");
    kg_json_put_f32(out, c->swiglu.limit);
    put_f32(out, "alpha", c->swiglu.alpha);
    put_f32(out, "up_offset", c->swiglu.up_offset);
    put_f32(out, "cubic", c->swiglu.cubic);
    kg_buffer_puts(out, "}");
}

void kg_inspect_model_json(struct kg_buffer *out, const struct kg_gguf *gguf) {
    struct kg_model_config c;
    struct kg_error err;
    kg_buffer_puts(out, ",\"model\":{");
    if (kg_config_read(gguf, &c, &err)) {
        kg_buffer_puts(out, "\"refused\":");
        kg_json_put_string(out, err.message, strlen(err.message));
    } else {
        put_config_json(out, &c);
    }
    kg_buffer_puts(out, "}");
}
