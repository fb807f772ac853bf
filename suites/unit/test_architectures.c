/* The architectures after qwen2 and llama: what their files say is understood, what is wrong with one is named, and a
 * sequence gives the same logits however it is fed. */
#include "base/buffer.h"
#include "base/size.h"
#include "backend/backend.h"
#include "engine/session.h"
#include "model/weights.h"
#include "model/yarn.h"
#include "suites/harness/compare.h"
#include "suites/unit/refusals.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED(name, architecture, status, says, ...)                                                                 \
    { name, architecture, { __VA_ARGS__ }, status, says }
#define PHI3(name, says, ...) REFUSED("phi3_" name, "phi3", KG_ERR_FORMAT, says, __VA_ARGS__)
#define OSS(name, says, ...) REFUSED("gpt_oss_" name, "gpt-oss", KG_ERR_FORMAT, says, __VA_ARGS__)
#define GPT2(name, says, ...) REFUSED("gpt2_" name, "gpt2", KG_ERR_FORMAT, says, __VA_ARGS__)

static const struct kg_refusal REFUSALS[] = {
    PHI3("qkv_missing", "blk.1.attn_qkv.weight is missing", OMIT("blk.1.attn_qkv.weight")),
    PHI3("qkv_of_other_heads", "blk.0.attn_qkv.weight is 64 x 96", DIMS("blk.0.attn_qkv.weight", 64, 96)),
    PHI3("gate_missing_in_up", "needs 64 x 192", DIMS("blk.1.ffn_up.weight", 64, 96)),
    PHI3("separate_q", "blk.0.attn_q.weight is not one that phi3 uses", ADD("blk.0.attn_q.weight", 64, 64)),
    PHI3("separate_q_of_a_layer", "blk.1.attn_q.weight is missing", OMIT("blk.0.attn_qkv.weight"),
         ADD("blk.0.attn_q.weight", 64, 64), ADD("blk.0.attn_k.weight", 64, 32), ADD("blk.0.attn_v.weight", 64, 32)),
    PHI3("separate_q_of_other_heads", "blk.0.attn_q.weight is 64 x 48", OMIT("blk.0.attn_qkv.weight"),
         ADD("blk.0.attn_q.weight", 64, 48)),
    PHI3("separate_gate", "blk.0.ffn_gate.weight is not one", ADD("blk.0.ffn_gate.weight", 64, 96)),
    PHI3("qkv_bias", "blk.0.attn_qkv.bias is not one", ADD("blk.0.attn_qkv.bias", 128, 1)),
    PHI3("long_factors_alone", "rope_factors_short.weight is missing", ADD("rope_factors_long.weight", 8, 1)),
    PHI3("short_factors_alone", "rope_factors_long.weight is missing", ADD("rope_factors_short.weight", 8, 1)),
    PHI3("longrope_without_factors", "rope_factors_long.weight is missing", TEXT("phi3.rope.scaling.type", "longrope")),
    PHI3("factors_without_original_context", "original_context_length is missing",
         ADD("rope_factors_long.weight", 8, 1), ADD("rope_factors_short.weight", 8, 1),
         OMIT("phi3.rope.scaling.original_context_length")),
    PHI3("factors_of_wrong_length", "rope_factors_short.weight is 9", ADD("rope_factors_long.weight", 8, 1),
         ADD("rope_factors_short.weight", 9, 1)),
    PHI3("factors_in_blocks", "blk.0.attn_norm.weight is Q8_0", DTYPE("blk.0.attn_norm.weight", Q8_0)),
    PHI3("no_epsilon", "layer_norm_rms_epsilon is missing", OMIT("phi3.attention.layer_norm_rms_epsilon")),
    PHI3("window_is_text", "attention.sliding_window", TEXT("phi3.attention.sliding_window", "all")),
    REFUSED("phi3_experts", "phi3", KG_ERR_UNSUPPORTED, "expert_count is 16", U32("phi3.expert_count", 16)),
    REFUSED("phi3_yarn_and_factors", "phi3", KG_ERR_UNSUPPORTED, "'yarn' beside",
            TEXT("phi3.rope.scaling.type", "yarn"), F32("phi3.rope.scaling.factor", 4), ADD("rope_freqs.weight", 8, 1)),

    OSS("sinks_missing", "blk.2.attn_sinks.weight is missing", OMIT("blk.2.attn_sinks.weight")),
    OSS("sinks_of_kv_heads", "blk.0.attn_sinks.weight is 2", DIMS("blk.0.attn_sinks.weight", 2, 1)),
    OSS("sinks_in_blocks", "blk.0.attn_norm.weight is Q4_0", DTYPE("blk.0.attn_norm.weight", Q4_0)),
    OSS("router_missing", "blk.0.ffn_gate_inp.weight is missing", OMIT("blk.0.ffn_gate_inp.weight")),
    OSS("router_bias_missing", "blk.1.ffn_gate_inp.bias is missing", OMIT("blk.1.ffn_gate_inp.bias")),
    OSS("router_of_fewer_experts", "ffn_gate_inp.weight is 64 x 4", DIMS("blk.0.ffn_gate_inp.weight", 64, 4)),
    OSS("expert_matrices_too_few", "needs 64 x 32 x 5",
        { .name = "blk.0.ffn_gate_exps.weight", .change = KG_TINY_TENSOR_DIMS, .dims = { 64, 32, 4 } }),
    OSS("expert_matrices_flat", "ffn_down_exps.weight is 32 x 320 x 1", DIMS("blk.1.ffn_down_exps.weight", 32, 320)),
    OSS("expert_bias_transposed", "ffn_up_exps.bias is 5 x 32", DIMS("blk.0.ffn_up_exps.bias", 5, 32)),
    OSS("expert_bias_missing", "blk.2.ffn_down_exps.bias is missing", OMIT("blk.2.ffn_down_exps.bias")),
    OSS("q_bias_missing", "blk.0.attn_q.bias is missing", OMIT("blk.0.attn_q.bias")),
    OSS("qkv_of_other_heads", "blk.0.attn_qkv.weight is 64 x 191", ADD("blk.0.attn_qkv.weight", 64, 191)),
    OSS("qkv_of_a_layer", "blk.1.attn_qkv.weight is missing", ADD("blk.0.attn_qkv.weight", 64, 192),
        ADD("blk.0.attn_qkv.bias", 192, 1)),
    OSS("output_missing", "output.weight is missing", OMIT("output.weight")),
    OSS("dense_ffn", "blk.0.ffn_up.weight is not one", ADD("blk.0.ffn_up.weight", 64, 32)),
    OSS("ffn_norm_by_the_other_name", "blk.0.ffn_norm.weight is not one", ADD("blk.0.ffn_norm.weight", 64, 1)),
    OSS("no_expert_count", "gpt-oss.expert_count is missing", OMIT("gpt-oss.expert_count")),
    OSS("no_used_count", "expert_used_count is missing", OMIT("gpt-oss.expert_used_count")),
    OSS("no_expert_length", "expert_feed_forward_length is missing", OMIT("gpt-oss.expert_feed_forward_length")),
    OSS("lengths_contradict", "expert_feed_forward_length is 32, but feed_forward_length 33",
        U32("gpt-oss.feed_forward_length", 33)),
    OSS("more_used_than_there_are", "expert_used_count is 6, of 5", U32("gpt-oss.expert_used_count", 6)),
    OSS("none_used", "expert_used_count is 0", U32("gpt-oss.expert_used_count", 0)),
    OSS("no_window", "sliding_window is missing", OMIT("gpt-oss.attention.sliding_window")),
    OSS("window_of_zero", "sliding_window is missing or 0", U32("gpt-oss.attention.sliding_window", 0)),
    OSS("period_of_zero", "sliding_window_pattern is 0", U32("gpt-oss.attention.sliding_window_pattern", 0)),
    OSS("pattern_of_two_layers", "no flag for each of 3", PAIR("gpt-oss.attention.sliding_window_pattern", 1)),
    OSS("yarn_without_factor", "scaling.factor is missing", OMIT("gpt-oss.rope.scaling.factor")),
    OSS("yarn_shrinks", "scaling.factor is 0.5", F32("gpt-oss.rope.scaling.factor", 0.5)),
    OSS("yarn_betas_exchanged", "yarn_beta_fast 1 is not above", F32("gpt-oss.rope.scaling.yarn_beta_fast", 1),
        F32("gpt-oss.rope.scaling.yarn_beta_slow", 32)),
    REFUSED("gpt_oss_too_many_experts", "gpt-oss", KG_ERR_UNSUPPORTED, "expert_count is 5000",
            U32("gpt-oss.expert_count", 5000)),
    REFUSED("gpt_oss_other_gating", "gpt-oss", KG_ERR_UNSUPPORTED, "expert_gating_func is 2",
            U32("gpt-oss.expert_gating_func", 2)),
    REFUSED("gpt_oss_other_base", "gpt-oss", KG_ERR_UNSUPPORTED, "freq_base_swa is 10000",
            F32("gpt-oss.rope.freq_base_swa", 10000)),
    REFUSED("gpt_oss_shared_experts", "gpt-oss", KG_ERR_UNSUPPORTED, "expert_shared_count is 1",
            U32("gpt-oss.expert_shared_count", 1)),

    GPT2("positions_missing", "position_embd.weight is missing", OMIT("position_embd.weight")),
    GPT2("positions_of_other_context", "position_embd.weight is 64 x 64", U32("gpt2.context_length", 63)),
    GPT2("no_epsilon", "attention.layer_norm_epsilon is missing", OMIT("gpt2.attention.layer_norm_epsilon")),
    GPT2("norm_bias_missing", "blk.1.attn_norm.bias is missing", OMIT("blk.1.attn_norm.bias")),
    GPT2("output_norm_bias_missing", "output_norm.bias is missing", OMIT("output_norm.bias")),
    GPT2("qkv_bias_missing", "blk.0.attn_qkv.bias is missing", OMIT("blk.0.attn_qkv.bias")),
    GPT2("qkv_bias_short", "blk.0.attn_qkv.bias is 64", DIMS("blk.0.attn_qkv.bias", 64, 1)),
    GPT2("separate_q", "blk.0.attn_qkv.weight is missing", OMIT("blk.0.attn_qkv.weight"),
         ADD("blk.0.attn_q.weight", 64, 64)),
    GPT2("gated", "blk.0.ffn_gate.weight is not one", ADD("blk.0.ffn_gate.weight", 64, 96)),
    GPT2("rope_factors", "rope_freqs.weight is not one", ADD("rope_freqs.weight", 8, 1)),
    REFUSED("qwen3_head_norm_missing", "qwen3", KG_ERR_FORMAT, "blk.1.attn_k_norm.weight is missing",
            OMIT("blk.1.attn_k_norm.weight")),
    REFUSED("qwen3_norm_of_all_heads", "qwen3", KG_ERR_FORMAT, "blk.0.attn_q_norm.weight is 64",
            DIMS("blk.0.attn_q_norm.weight", 64, 1)),
    REFUSED("qwen3_post_norm", "qwen3", KG_ERR_FORMAT, "blk.0.post_ffw_norm.weight is not one that qwen3 uses",
            ADD("blk.0.post_ffw_norm.weight", 32, 1)),
    REFUSED("qwen3_window", "qwen3", KG_ERR_UNSUPPORTED, "sliding_window 16",
            U32("qwen3.attention.sliding_window", 16)),
    REFUSED("qwen2_head_norm", NULL, KG_ERR_FORMAT, "blk.0.attn_q_norm.weight is not one that qwen2 uses",
            ADD("blk.0.attn_q_norm.weight", 8, 1)),
    REFUSED("gemma3_post_norm_missing", "gemma3", KG_ERR_FORMAT, "blk.6.post_attention_norm.weight is missing",
            OMIT("blk.6.post_attention_norm.weight")),
    REFUSED("gemma3_capped_logits", "gemma3", KG_ERR_UNSUPPORTED, "final_logit_softcapping is 30",
            F32("gemma3.final_logit_softcapping", 30)),
    REFUSED("gemma3_scale_of_zero", "gemma3", KG_ERR_FORMAT, "attention.scale is 0", F32("gemma3.attention.scale", 0)),
    REFUSED("gemma3_window_base_of_zero", "gemma3", KG_ERR_FORMAT, "freq_base_swa is 0",
            F32("gemma3.rope.freq_base_swa", 0)),
    REFUSED("gemma3_yarn", "gemma3", KG_ERR_UNSUPPORTED, "not supported beside linear",
            TEXT("gemma3.rope.scaling.type", "yarn"), F32("gemma3.rope.scaling.factor", 4)),
    REFUSED("gemma3_pattern_of_two_layers", "gemma3", KG_ERR_FORMAT, "no flag for each of 7",
            PAIR("gemma3.attention.sliding_window_pattern", 1)),
    REFUSED("gpt2_window", "gpt2", KG_ERR_UNSUPPORTED, "sliding_window 16", U32("gpt2.attention.sliding_window", 16)),
};

struct loaded {
    struct kg_backend *backend;
    struct kg_model *model;
    char *path;
};

static struct loaded load(struct kg_record *rec, const struct kg_tiny_model *tiny, const struct kg_tiny_edit *edits,
                          size_t n_edits) {
    struct loaded l = { .backend = kg_cpu_of_one_thread(), .path = kg_scratch_model(rec) };
    l.model = kg_tiny_load(l.path, tiny, edits, n_edits, l.backend);
    return l;
}

static void unload(struct loaded *l) {
    kg_model_free(l->model);
    ck_assert_uint_eq(kg_bytes_in_use(l->backend), 0);
    kg_backend_close(l->backend);
    free(l->path);
}

static void phi3_is_understood(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model tiny = KG_TINY_PHI3;
    struct loaded l = load(rec, &tiny, NULL, 0);
    const struct kg_model_config *c = kg_model_config(l.model);
    ck_assert_int_eq(c->norm, KG_NORM_RMS);
    ck_assert_int_eq(c->ffn, KG_FFN_GATED);
    ck_assert_int_eq(c->rope_pairing, KG_ROPE_HALF);
    ck_assert(!c->rope_long_short && !c->has_sinks && !c->has_qkv_bias && !c->tied_output);
    ck_assert_float_eq(c->rope_magnitude, 1);
    ck_assert_float_eq(c->swiglu.limit, 0);
    ck_assert_float_eq(c->swiglu.alpha, 1);
    for (uint32_t layer = 0; layer < 4; layer++) ck_assert_uint_eq(kg_model_layer_window(c, layer), 9);
    /* Parts of one tensor, one after the other: nothing was copied. */
    const struct kg_layer_weights *w = kg_model_weights(l.model)->layers;
    const size_t row_bytes = 64 * sizeof(float);
    ck_assert_uint_eq(w->q.n_rows, 64);
    ck_assert_uint_eq(w->k.n_rows, 32);
    ck_assert_uint_eq(w->gate.n_rows, 96);
    ck_assert_ptr_eq(w->k.data, (const char *)w->q.data + 64 * row_bytes);
    ck_assert_ptr_eq(w->v.data, (const char *)w->k.data + 32 * row_bytes);
    ck_assert_ptr_eq(w->up.data, (const char *)w->gate.data + 96 * row_bytes);
    unload(&l);
}

static void gpt_oss_is_understood(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model tiny = KG_TINY_GPT_OSS;
    const struct kg_tiny_edit patterns[] = { U32("gpt-oss.attention.sliding_window_pattern", 3) };
    struct loaded l = load(rec, &tiny, NULL, 0);
    const struct kg_model_config *c = kg_model_config(l.model);
    ck_assert_int_eq(c->ffn, KG_FFN_EXPERTS);
    ck_assert_uint_eq(c->n_experts, 5);
    ck_assert_uint_eq(c->n_experts_used, 2);
    ck_assert_uint_eq(c->n_ff, 32);
    ck_assert(c->has_sinks && c->has_qkv_bias);
    ck_assert_float_eq(c->swiglu.limit, 7);
    ck_assert_float_eq(c->swiglu.alpha, 1.702f);
    ck_assert_float_eq(c->swiglu.up_offset, 1);
    ck_assert_float_eq(c->yarn.factor, 32);
    ck_assert_float_eq(c->yarn.beta_fast, 32); /* no key says so */
    ck_assert_float_eq(c->yarn.beta_slow, 1);
    ck_assert(!c->yarn.rounded);
    ck_assert_float_eq_tol(c->rope_magnitude, 1.3465736f, 1e-6f);
    ck_assert_uint_eq(kg_model_layer_window(c, 0), 9);
    ck_assert_uint_eq(kg_model_layer_window(c, 1), 0);
    ck_assert_uint_eq(kg_model_layer_window(c, 2), 9);
    ck_assert_uint_eq(kg_model_weights(l.model)->layers[2].down.n_rows, 5 * 64);
    unload(&l);
    l = load(rec, &tiny, patterns, KG_COUNT_OF(patterns));
    c = kg_model_config(l.model);
    ck_assert_uint_eq(kg_model_layer_window(c, 1), 9);
    ck_assert_uint_eq(kg_model_layer_window(c, 2), 0);
    unload(&l);
}

/* Keys that say otherwise than as published: yarn_attn_factor alone is all of the magnitude, as llama.cpp's converter
 * has it from a config.json; beside attn_factor, which multiplies, it says nothing. */
static void gpt_oss_by_keys(struct kg_record *rec, const void *arg) {
    static const struct kg_tiny_edit WHOLE[] = {
        F32("gpt-oss.rope.scaling.yarn_attn_factor", 1.25f),
        { .name = "kigo.rope.yarn_truncate", .change = KG_TINY_KEY_BOOL, .number = 1 }
    };
    static const struct kg_tiny_edit TIMES[] = { F32("gpt-oss.rope.scaling.yarn_attn_factor", 1),
                                                 F32("gpt-oss.rope.scaling.attn_factor", 2) };
    (void)arg;
    const struct kg_tiny_model tiny = KG_TINY_GPT_OSS;
    struct loaded l = load(rec, &tiny, WHOLE, KG_COUNT_OF(WHOLE));
    ck_assert_float_eq(kg_model_config(l.model)->rope_magnitude, 1.25f);
    ck_assert(kg_model_config(l.model)->yarn.rounded);
    unload(&l);
    l = load(rec, &tiny, TIMES, KG_COUNT_OF(TIMES));
    ck_assert_float_eq_tol(kg_model_config(l.model)->rope_magnitude, 2 * 1.3465736f, 2e-6f);
    ck_assert(!kg_model_config(l.model)->yarn.rounded);
    unload(&l);
}

static void gpt2_is_understood(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model tiny = KG_TINY_GPT2;
    struct loaded l = load(rec, &tiny, NULL, 0);
    const struct kg_model_config *c = kg_model_config(l.model);
    ck_assert_int_eq(c->norm, KG_NORM_LAYER);
    ck_assert_int_eq(c->ffn, KG_FFN_GELU);
    ck_assert_int_eq(c->rope_pairing, KG_ROPE_NONE);
    ck_assert(c->has_positions && c->tied_output && c->has_qkv_bias);
    const struct kg_layer_weights *w = kg_model_weights(l.model)->layers;
    ck_assert_ptr_eq(w->k_bias, w->q_bias + 64);
    ck_assert_ptr_eq(w->v_bias, w->k_bias + 64);
    unload(&l);
}

/* Positions that were never learned are refused when the session is made, not when they are met. */
static void gpt2_context_is_its_positions(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model tiny = KG_TINY_GPT2;
    struct loaded l = load(rec, &tiny, NULL, 0);
    struct kg_session *session = NULL;
    struct kg_error err;
    struct kg_session_options options = { .n_ctx = 65 };
    ck_assert_int_eq(kg_session_create(l.model, &options, &session, &err), KG_ERR_RANGE);
    ck_assert_msg(strstr(err.message, "65") && strstr(err.message, "64 learned positions"), "'%s'", err.message);
    options.n_ctx = 64;
    ck_assert_int_eq(kg_session_create(l.model, &options, &session, &err), KG_OK);
    kg_session_free(session);
    unload(&l);
}

/* An original context too short for a rotation: high is below low, and nothing is scaled (transformers 5.23 says so,
 * too).
 */
static void yarn_of_short_context(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const struct kg_model_config c = { .n_rot = 64,
                                       .rope_freq_base = 10000,
                                       .rope_original_ctx = 4,
                                       .yarn = { .factor = 4, .beta_fast = 32, .beta_slow = 1 } };
    float factors[32];
    kg_yarn_factors(&c, factors);
    for (int i = 0; i < 32; i++) ck_assert_msg(factors[i] == 1, "pair %d: %g", i, (double)factors[i]);
}

/* gpt-oss-20b: the ramp goes from pair 8.09 to 17.40, or rounded from 8 to 18; pairs before it keep their frequency. */
static void yarn_of_gpt_oss_20b(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_model_config c = { .n_rot = 64,
                                 .rope_freq_base = 150000,
                                 .rope_original_ctx = 4096,
                                 .yarn = { .factor = 32, .beta_fast = 32, .beta_slow = 1 } };
    const double low = 8.0928, high = 17.3980; /* 32 ln(4096 / (2 pi beta)) / ln 150000 */
    for (int rounded = 0; rounded < 2; rounded++) {
        float factors[32];
        c.yarn.rounded = rounded;
        kg_yarn_factors(&c, factors);
        for (int i = 0; i < 32; i++) {
            const double from = rounded ? 8 : low, to = rounded ? 18 : high;
            const double part = i <= from ? 0 : i >= to ? 1 : (i - from) / (to - from);
            const double want = 1 / (1 - part + part / 32);
            ck_assert_msg(fabs((double)factors[i] / want - 1) < 2e-3, "pair %d: %g, not %g", i, (double)factors[i],
                          want);
        }
        ck_assert_float_eq(factors[8], 1);
        ck_assert_float_eq(factors[18], 32);
        ck_assert(rounded ? factors[17] < 10 : factors[17] > 13);
    }
}

/* Long original contexts: the ramp ends beyond the last of the pairs, and at n_rot - 1 at the latest, as transformers
 * (5.23) has it. */
static void yarn_of_long_context(struct kg_record *rec, const void *arg) {
    static const struct {
        float freq_base, beta_fast;
        uint32_t original_ctx;
        double low, high; /* 32 ln(original / (2 pi beta)) / ln base */
    } ROWS[] = { { 10000, 32, 131072, 22.5134, 34.5546 }, { 100, 10000, 200000, 8.0456, 63 } };
    (void)rec;
    (void)arg;
    for (size_t k = 0; k < KG_COUNT_OF(ROWS); k++) {
        const struct kg_model_config c = { .n_rot = 64,
                                           .rope_freq_base = ROWS[k].freq_base,
                                           .rope_original_ctx = ROWS[k].original_ctx,
                                           .yarn = { .factor = 4, .beta_fast = ROWS[k].beta_fast, .beta_slow = 1 } };
        float factors[32];
        kg_yarn_factors(&c, factors);
        for (int i = 0; i < 32; i++) {
            const double part = i <= ROWS[k].low ? 0 : (i - ROWS[k].low) / (ROWS[k].high - ROWS[k].low);
            const double want = 1 / (1 - part + part / 4);
            ck_assert_msg(fabs((double)factors[i] / want - 1) < 1e-4, "row %zu, pair %d: %g, not %g", k, i,
                          (double)factors[i], want);
        }
    }
}

/* Feeding. */

enum { N_IDS = 60 };

static struct kg_session *open_session(struct kg_model *model) {
    const struct kg_session_options options = { .n_ctx = 0 };
    struct kg_session *session = NULL;
    struct kg_error err;
    if (kg_session_create(model, &options, &session, &err)) ck_abort_msg("%s", err.message);
    return session;
}

static const float *eval(struct kg_session *s, const int32_t *ids, size_t n, enum kg_logits_wanted wanted) {
    const float *logits;
    struct kg_error err;
    if (kg_session_eval(s, ids, n, wanted, &logits, &err)) ck_abort_msg("%s", err.message);
    return logits;
}

static void fill_ids(int32_t *ids) {
    for (int i = 0; i < N_IDS; i++) ids[i] = (7 * i * i + 3 * i + 5) % 256;
}

struct feed {
    const char *name;
    struct kg_tiny_model tiny;
};
static const struct feed FEEDS[] = {
    { "phi3", KG_TINY_PHI3 },   { "gpt_oss", KG_TINY_GPT_OSS }, { "gpt2", KG_TINY_GPT2 },
    { "qwen3", KG_TINY_QWEN3 }, { "gemma3", KG_TINY_GEMMA3 },
};

/* All at once, one by one and in uneven pieces: the same bits, in float32 weights and in blocks. */
static void pieces_do_not_matter(struct kg_record *rec, const void *arg) {
    const struct feed *f = arg;
    static const enum kg_dtype DTYPES[] = { KG_DTYPE_F32, KG_DTYPE_MXFP4 };
    int32_t ids[N_IDS];
    fill_ids(ids);
    for (size_t d = 0; d < KG_COUNT_OF(DTYPES); d++) {
        struct kg_tiny_model tiny = f->tiny;
        tiny.matrices = DTYPES[d];
        struct loaded l = load(rec, &tiny, NULL, 0);
        const size_t row_bytes = kg_model_config(l.model)->n_vocab * sizeof(float);
        struct kg_session *whole = open_session(l.model), *steps = open_session(l.model),
                          *pieces = open_session(l.model);
        const float *all = eval(whole, ids, N_IDS, KG_LOGITS_ALL);
        for (size_t i = 0; i < N_IDS; i++)
            ck_assert_msg(
                memcmp(eval(steps, ids + i, 1, KG_LOGITS_LAST), all + i * (row_bytes / sizeof *all), row_bytes) == 0,
                "position %zu alone has other logits", i);
        for (size_t at = 0, n = 1; at < N_IDS; at += n, n = n % 7 + 2) {
            if (n > N_IDS - at) n = N_IDS - at;
            const float *last = eval(pieces, ids + at, n, KG_LOGITS_LAST);
            ck_assert_mem_eq(last, all + (at + n - 1) * (row_bytes / sizeof *all), row_bytes);
        }
        kg_session_free(pieces);
        kg_session_free(steps);
        kg_session_free(whole);
        unload(&l);
    }
}

/* Keys cached by the short factors are made again when the sequence passes the original context, and back when it is
 * truncated: what counts is how long it is, not how it came there. */
static void rope_lists_follow_the_length(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_tiny_model tiny = KG_TINY_PHI3;
    int32_t ids[N_IDS];
    struct kg_error err;
    tiny.long_short = true;
    tiny.window = 0;
    fill_ids(ids);
    struct loaded l = load(rec, &tiny, NULL, 0);
    const size_t n_vocab = kg_model_config(l.model)->n_vocab, row_bytes = n_vocab * sizeof(float);
    const uint32_t original = kg_model_config(l.model)->rope_original_ctx;
    ck_assert_uint_eq(original, 32);
    ck_assert_float_eq_tol(kg_model_config(l.model)->rope_magnitude, 1.190238f, 1e-6f);
    struct kg_session *whole = open_session(l.model), *within = open_session(l.model), *steps = open_session(l.model);
    const float *long_rows = eval(whole, ids, N_IDS, KG_LOGITS_ALL),
                *short_rows = eval(within, ids, original, KG_LOGITS_ALL);
    ck_assert_mem_ne(long_rows + 5 * n_vocab, short_rows + 5 * n_vocab, row_bytes);
    for (size_t i = 0; i < N_IDS; i++) {
        const float *want = (i < original ? short_rows : long_rows) + i * n_vocab;
        ck_assert_msg(memcmp(eval(steps, ids + i, 1, KG_LOGITS_LAST), want, row_bytes) == 0, "position %zu", i);
    }
    ck_assert_int_eq(kg_session_truncate(steps, 10, &err), KG_OK);
    ck_assert_mem_eq(eval(steps, ids + 10, 1, KG_LOGITS_LAST), short_rows + 10 * n_vocab, row_bytes);
    ck_assert_mem_eq(eval(steps, ids + 11, 40, KG_LOGITS_LAST), long_rows + 50 * n_vocab, row_bytes);
    kg_session_free(steps);
    kg_session_free(within);
    kg_session_free(whole);
    unload(&l);
}

/* One layer that sees 9 keys: position 12 does not know position 3, position 11 does. */
static void a_window_ends_where_it_says(struct kg_record *rec, const void *arg) {
    const char *const architecture = arg;
    struct kg_tiny_model tiny = kg_tiny_of(architecture);
    tiny.n_layers = 1;
    struct loaded l = load(rec, &tiny, NULL, 0);
    const size_t n_vocab = kg_model_config(l.model)->n_vocab;
    int32_t ids[N_IDS];
    fill_ids(ids);
    struct kg_session *one = open_session(l.model), *other = open_session(l.model);
    const float *before = eval(one, ids, 20, KG_LOGITS_ALL);
    ids[3] = (ids[3] + 100) % 256;
    const float *after = eval(other, ids, 20, KG_LOGITS_ALL);
    for (size_t i = 0; i < 20; i++) {
        const bool sees = i >= 3 && i - 3 < tiny.window;
        const bool same = memcmp(before + i * n_vocab, after + i * n_vocab, n_vocab * sizeof *before) == 0;
        ck_assert_msg(same != sees, "position %zu %s", i, same ? "does not see 3" : "sees 3");
    }
    kg_session_free(other);
    kg_session_free(one);
    unload(&l);
}

/* Every tap once, of the width that the model's numbers say. */
struct seen_taps {
    struct kg_buffer names;
    size_t n_rows;
};

static void on_tap(void *user, const struct kg_tap *tap) {
    struct seen_taps *seen = user;
    kg_buffer_printf(&seen->names, "%s:%zu ", tap->name, tap->n_cols);
    if (strcmp(tap->name, "logits") != 0) ck_assert_uint_eq(tap->n_rows, seen->n_rows);
    for (size_t i = 0; i < tap->n_rows * tap->n_cols; i++) ck_assert(isfinite(tap->data[i]));
    if (strstr(tap->name, "expert_ids"))
        for (size_t i = 0; i < tap->n_rows * tap->n_cols; i++)
            ck_assert(tap->data[i] >= 0 && tap->data[i] < 5 && tap->data[i] == floorf(tap->data[i]));
}

static void taps_of_an_expert_layer(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_tiny_model tiny = KG_TINY_GPT_OSS;
    tiny.n_layers = 1;
    struct loaded l = load(rec, &tiny, NULL, 0);
    struct seen_taps seen = { .names = KG_BUFFER_INIT, .n_rows = 3 };
    const int32_t ids[] = { 1, 2, 3 };
    struct kg_session *session = open_session(l.model);
    kg_session_set_tap(session, on_tap, &seen);
    (void)eval(session, ids, 3, KG_LOGITS_ALL);
    ck_assert_str_eq(kg_buffer_text(&seen.names),
                     "embd:64 blk.0.attn_norm:64 blk.0.q:96 blk.0.k:48 blk.0.v:48 blk.0.q_rope:96 blk.0.k_rope:48 "
                     "blk.0.attn:96 blk.0.attn_out:64 blk.0.attn_residual:64 blk.0.ffn_norm:64 blk.0.router:5 "
                     "blk.0.expert_ids:2 blk.0.expert_weights:2 blk.0.ffn_gate:64 blk.0.ffn_up:64 blk.0.ffn_act:64 "
                     "blk.0.expert_out:128 blk.0.ffn_out:64 blk.0.out:64 output_norm:64 logits:261 ");
    kg_buffer_free(&seen.names);
    kg_session_free(session);
    unload(&l);
}

static const struct kg_case CASES[] = {
    { .op = "model_config", .name = "phi3", .run = phi3_is_understood },
    { .op = "model_config", .name = "gpt_oss", .run = gpt_oss_is_understood },
    { .op = "model_config", .name = "gpt2", .run = gpt2_is_understood },
    { .op = "model_config", .name = "gpt_oss_by_keys", .run = gpt_oss_by_keys },
    { .op = "model_config", .name = "yarn_of_short_context", .run = yarn_of_short_context },
    { .op = "model_config", .name = "yarn_of_gpt_oss_20b", .run = yarn_of_gpt_oss_20b },
    { .op = "model_config", .name = "yarn_of_long_context", .run = yarn_of_long_context },
    { .op = "session", .name = "gpt2_context_is_its_positions", .run = gpt2_context_is_its_positions },
    { .op = "session", .name = "phi3_rope_lists_follow_the_length", .run = rope_lists_follow_the_length },
    { .op = "session", .name = "phi3_window", .run = a_window_ends_where_it_says, .arg = "phi3" },
    { .op = "session", .name = "gpt_oss_window", .run = a_window_ends_where_it_says, .arg = "gpt-oss" },
    { .op = "session", .name = "taps_of_an_expert_layer", .run = taps_of_an_expert_layer },
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(REFUSALS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "model_refused",
                                                  .name = REFUSALS[i].name,
                                                  .definition = REFUSALS[i].says,
                                                  .run = kg_refusal_run,
                                                  .arg = &REFUSALS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(FEEDS); i++) {
        char *name = kg_xasprintf("%s_pieces_do_not_matter", FEEDS[i].name);
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "session",
                                                  .name = name,
                                                  .backend = "cpu",
                                                  .run = pieces_do_not_matter,
                                                  .arg = &FEEDS[i] });
        free(name);
    }
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        struct kg_case c = CASES[i];
        c.layer = "unit";
        c.backend = "cpu";
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
