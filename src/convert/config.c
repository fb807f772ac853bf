/* The configuration's keys of a converted file, as llama.cpp's converter writes them. */
#include "base/size.h"
#include "model/arch_keys.h"
#include "model/config.h"
#include "convert/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QUANTIZATION_VERSION = 2, LLAMA_LIKE = KG_HF_ALL & ~KG_HF_GPT2 };

/* general.file_type: with MXFP4 experts in a file of another type but Q8_0, that of such files. */
static uint32_t file_type(const struct kg_file_type *type, bool has_packed) {
    enum { MXFP4_MOE = 38 };
    return has_packed && type->dtype != KG_DTYPE_Q8_0 ? MXFP4_MOE : type->id;
}

/* "0.5B", "32x1.1B": at least two digits. */
static void put_size_label(struct kg_gguf_writer *w, const struct kg_hf_config *c, const struct kg_convert_plan *plan) {
    static const struct {
        double above, scale;
        char suffix;
    } UNITS[] = { { 1e12, 1e-12, 'T' }, { 1e9, 1e-9, 'B' }, { 1e6, 1e-6, 'M' }, { 0, 1e-3, 'K' } };
    const double n = (double)plan->size.shared + (double)plan->size.expert;
    char experts[16] = "", label[48];
    if (c->n_experts) snprintf(experts, sizeof experts, "%ux", c->n_experts);
    for (size_t i = 0; i < KG_COUNT_OF(UNITS); i++) {
        if (n <= UNITS[i].above) continue;
        const double scaled = n * UNITS[i].scale;
        snprintf(label, sizeof label, "%s%.*f%c", experts,
                 rint(scaled) >= 10  ? 0
                 : rint(scaled) >= 1 ? 1
                                     : 2,
                 scaled, UNITS[i].suffix);
        kg_put_text(w, "general.size_label", label);
        return;
    }
}

static void put_counts(struct kg_arch_keys *n, const struct kg_hf_config *c) {
    const unsigned bit = c->architecture->bit;
    const struct kg_architecture *known = kg_architecture_find(c->architecture->gguf_name);
    const bool rotates_partially = bit == KG_HF_LLAMA || bit == KG_HF_PHI3;
    /* llama.cpp's converter does not write it for phi3: head_dim is n_embd / n_heads unless config.json has it. */
    const bool own_size = bit == KG_HF_PHI3 ? (uint64_t)c->n_heads * c->head_dim != c->n_embd : c->states_head_dim;
    const struct {
        const char *suffix;
        uint32_t value;
        bool there;
    } rows[] = {
        { "block_count", c->n_layers, true },
        { "context_length", c->n_ctx, true },
        { "embedding_length", c->n_embd, true },
        { "feed_forward_length", c->n_ff, true },
        { "attention.head_count", c->n_heads, true },
        { "attention.head_count_kv", c->n_kv_heads, (bit & LLAMA_LIKE) != 0 },
        { "attention.key_length", c->head_dim, own_size },
        { "attention.value_length", c->head_dim, own_size },
        { "rope.dimension_count", c->n_rot, rotates_partially },
        { "vocab_size", c->n_vocab, bit == KG_HF_LLAMA },
        { "attention.sliding_window", c->window,
          bit == KG_HF_PHI3 || bit == KG_HF_GPT_OSS || (bit == KG_HF_GEMMA3 && c->window > 0) }, /* phi3: 0 says none */
        { "attention.sliding_window_pattern", c->window_period,
          c->window > 0 && c->window_period != known->window_period },
        { "expert_count", c->n_experts, c->n_experts > 0 },
        { "expert_used_count", c->n_experts_used, c->n_experts > 0 },
        { "expert_feed_forward_length", c->n_ff, c->n_experts > 0 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++)
        if (rows[i].there) kg_gguf_writer_u32(n->w, kg_arch_key(n, rows[i].suffix), rows[i].value);
}

/* LongRoPE's factor of cos and sin: the one in config.json, or sqrt(1 + ln(s) / ln(original)), where s is the ratio of
 * the context to the original one or the one in config.json (transformers, _compute_longrope_parameters). */
static double longrope_magnitude(const struct kg_hf_config *c, uint32_t original_ctx) {
    const double s = isnan(c->rope.factor) ? (double)c->n_ctx / original_ctx : c->rope.factor;
    if (!isnan(c->rope.attention_factor)) return c->rope.attention_factor;
    return s > 1 ? sqrt(1 + log(s) / log((double)original_ctx)) : 1;
}

/* YaRN's factor of cos and sin under two keys. yarn_attn_factor is the whole factor, as in config.json; llama.cpp's
 * converter writes it. attn_factor multiplies 0.1 ln(factor) + 1; readers such as llama.cpp know only this one. */
static void put_rope(struct kg_arch_keys *n, const struct kg_hf_config *c) {
    const struct kg_hf_rope *r = &c->rope;
    const bool phi3 = c->architecture->bit == KG_HF_PHI3, yarn = r->scaling == KG_HF_ROPE_YARN;
    const bool linear = r->scaling == KG_HF_ROPE_LINEAR, longrope = r->scaling == KG_HF_ROPE_LONGROPE;
    const uint32_t original_ctx = r->original_ctx ? r->original_ctx : c->n_ctx;
    if (c->architecture->bit == KG_HF_GPT2) return;
    if (yarn || linear) kg_put_text(n->w, kg_arch_key(n, "rope.scaling.type"), yarn ? "yarn" : "linear");
    if (yarn || phi3) kg_gguf_writer_u32(n->w, kg_arch_key(n, "rope.scaling.original_context_length"), original_ctx);
    const struct {
        const char *suffix;
        double value;
        bool there;
    } rows[] = {
        { "rope.freq_base", r->base, true },
        { "rope.freq_base_swa", r->window_base, true },
        { "rope.scaling.factor", r->factor, yarn || linear },
        { "rope.scaling.attn_factor",
          longrope ? longrope_magnitude(c, original_ctx) : r->attention_factor / (0.1 * log(r->factor) + 1),
          longrope || yarn },
        { "rope.scaling.yarn_ext_factor", r->extrapolation_factor, yarn },
        { "rope.scaling.yarn_attn_factor", r->attention_factor, yarn },
        { "rope.scaling.yarn_beta_fast", r->beta_fast, yarn },
        { "rope.scaling.yarn_beta_slow", r->beta_slow, yarn },
    };
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++)
        if (rows[i].there && !isnan(rows[i].value))
            kg_gguf_writer_f32(n->w, kg_arch_key(n, rows[i].suffix), (float)rows[i].value);
    const bool published = c->architecture->bit != KG_HF_GPT_OSS; /* the default of readers that do not know the key */
    if (yarn && r->truncates != published) kg_gguf_writer_bool(n->w, KG_YARN_TRUNCATE_KEY, r->truncates);
}

/* Where readers would take another scale of attention's scores: llama.cpp's converter has no key for it. */
static void put_attention_scale(struct kg_arch_keys *n, const struct kg_hf_config *c) {
    const uint32_t by_width = kg_architecture_find(c->architecture->gguf_name)->n_layers_scaled_by_width;
    if (c->query_scale_dims == 0 || (c->query_scale_dims == c->head_dim && c->n_layers != by_width)) return;
    kg_gguf_writer_f32(n->w, kg_arch_key(n, "attention.scale"), (float)(1 / sqrt((double)c->query_scale_dims)));
}

void kg_convert_put_config(struct kg_gguf_writer *writer, const struct kg_hf_config *config,
                           const struct kg_convert_plan *plan, const struct kg_file_type *type, const char *name) {
    struct kg_arch_keys n = { .w = writer, .architecture = config->architecture->gguf_name };
    kg_put_text(writer, "general.architecture", n.architecture);
    kg_put_text(writer, "general.type", "model");
    kg_put_text(writer, "general.name", name);
    put_size_label(writer, config, plan);
    put_counts(&n, config);
    put_attention_scale(&n, config);
    put_rope(&n, config);
    kg_gguf_writer_f32(writer,
                       kg_arch_key(&n, config->architecture->bit == KG_HF_GPT2 ? "attention.layer_norm_epsilon"
                                                                               : "attention.layer_norm_rms_epsilon"),
                       (float)config->norm_eps);
    kg_gguf_writer_u32(writer, "general.file_type", file_type(type, plan->n_packed > 0));
    kg_gguf_writer_u32(writer, "general.quantization_version", QUANTIZATION_VERSION);
}
