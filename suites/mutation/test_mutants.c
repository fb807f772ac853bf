/* Wrong models and wrong operations, each of which the layer comparison (suites/support/layer_compare.h) must reject,
 * at the tap where it goes wrong, while the right one passes in the same case. A wrong model is a GGUF file rewritten
 * with data changed, its control the same file rewritten without; a wrong operation replaces an entry of the back end's
 * table. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/mutation/mutant_files.h"
#include "suites/support/mutant_ops.h"
#include "suites/support/layer_compare.h"
#include "suites/support/op_device.h"
#include "suites/support/plain_f16.h"
#include "suites/support/layer_models.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ONE_PERCENT_MORE = 1.01;
static const char *const GATE_AND_UP[] = { "ffn_gate", "ffn_up" };
static const char *const LONG_AND_SHORT[] = { "_long", "_short" };
static const char *const GATE_AND_UP_EXPERTS[] = { "ffn_gate_exps", "ffn_up_exps" };
static const char *const HEAD_NORMS[] = { "attn_q_norm", "attn_k_norm" };
static const char *const NORMS[] = { "attn_norm", "ffn_norm" };
static const uint32_t LLAMA_F32_HEAD_DIM = 16;
static int32_t first_id; /* of the golden that the running case compares with */

struct mutant {
    const char *name, *model; /* of kg_layer_models */
    uint32_t chunk;
    const char *first; /* the first tap that must be out of tolerance */
    /* One of the two. */
    void (*change_ops)(struct kg_backend_ops *mutant);
    struct kg_gguf_edit edit;
    bool float32_only; /* its change is below the rounding of FP16 */
};

#define HAIKU "haiku_short_prompt"
#define LONG "haiku_long_prompt"
#define OSS "gpt_oss_short_text"
#define OSS_LONG "haiku_gpt_oss_long_prompt"
#define PHI3 "phi3_short_text"
#define PHI3_LONG "haiku_phi3_long_prompt"
#define GPT2 "gpt2_short_text"
#define QWEN3 "qwen3_qk_norms"
#define GEMMA3 "gemma3_windows"

static const struct mutant MUTANTS[] = {
    { "zeroed_bias", HAIKU, 0, "blk.0.q", .edit = { .tensors = "blk.*.attn_q.bias", .change = kg_mutant_zero } },
    { "zeroed_bias_of_last_layer_v", HAIKU, 0, "blk.3.v",
      .edit = { .tensors = "blk.3.attn_v.bias", .change = kg_mutant_zero } },
    { "unwired_bias", HAIKU, 0, "blk.0.q", .change_ops = kg_mutant_unwired_bias },
    { "other_rope_pairing_qwen2", HAIKU, 0, "blk.0.q_rope", .change_ops = kg_mutant_other_rope_pairing },
    { "other_rope_pairing_llama", "llama_f32", 0, "blk.0.q_rope", .change_ops = kg_mutant_other_rope_pairing },
    { "llama_rows_not_permuted", "llama_f32", 0, "blk.0.q",
      .edit = { .tensors = "blk.*.attn_q.weight blk.*.attn_k.weight",
                .change = kg_mutant_rows_in_halves,
                .user = &LLAMA_F32_HEAD_DIM } },
    { "position_off_by_one", HAIKU, 0, "blk.0.q_rope", .change_ops = kg_mutant_position_off_by_one },
    { "rope_base_ignored", HAIKU, 0, "blk.0.q_rope",
      .edit = { .keys = { { "qwen2.rope.freq_base", KG_KEY_DROP, 0 } } } },
    { "rope_factors_ignored", "llama3_rope_factors_tied", 0, "blk.0.q_rope",
      .edit = { .tensors = "rope_freqs.weight", .change = kg_mutant_drop } },
    { "linear_rope_scaling_ignored", "llama_k_blocks_linear_rope", 0, "blk.0.q_rope",
      .edit = { .keys = { { "llama.rope.scaling.type", KG_KEY_DROP, 0 },
                          { "llama.rope.scaling.factor", KG_KEY_DROP, 0 } } } },
    { "transposed_projection", HAIKU, 0, "blk.0.attn_out",
      .edit = { .tensors = "blk.0.attn_output.weight", .change = kg_mutant_transpose } },
    { "epsilon_times_ten", HAIKU, 0, "blk.0.attn_norm",
      .edit = { .keys = { { "qwen2.attention.layer_norm_rms_epsilon", KG_KEY_SET_F32, 1e-5 } } },
      .float32_only = true },
    { "weights_one_percent_more", HAIKU, 0, "blk.1.ffn_out",
      .edit = { .tensors = "blk.1.ffn_down.weight", .change = kg_mutant_scale, .user = &ONE_PERCENT_MORE } },
    { "norm_weights_exchanged", HAIKU, 0, "blk.0.attn_norm",
      .edit = { .tensors = "blk.0.*_norm.weight", .change = kg_mutant_swap_names, .user = NORMS } },
    { "gate_and_up_weights_exchanged", HAIKU, 0, "blk.0.ffn_gate",
      .edit = { .tensors = "blk.0.ffn_gate.weight blk.0.ffn_up.weight",
                .change = kg_mutant_swap_names,
                .user = GATE_AND_UP } },
    { "gate_and_up_exchanged_in_swiglu", HAIKU, 0, "blk.0.ffn_act", .change_ops = kg_mutant_gate_and_up_exchanged },
    { "wrong_head_count", HAIKU, 0, "blk.0.q_rope",
      .edit = { .keys = { { "qwen2.attention.head_count", KG_KEY_SET_U32, 4 },
                          { "qwen2.attention.head_count_kv", KG_KEY_SET_U32, 1 } } } },
    { "kv_heads_taken_in_turn", HAIKU, 1, "blk.0.attn", .change_ops = kg_mutant_kv_heads_interleaved },
    { "second_kv_head_never_written", HAIKU, 1, "blk.0.attn", .change_ops = kg_mutant_first_kv_head_twice },
    { "shifted_kv_slot", HAIKU, 0, "blk.0.attn", .change_ops = kg_mutant_shifted_kv_slot },
    { "shifted_kv_slot_in_steps", HAIKU, 1, "blk.0.attn", .change_ops = kg_mutant_shifted_kv_slot },
    { "dropped_mask", HAIKU, 0, "blk.0.attn", .change_ops = kg_mutant_dropped_mask },
    { "own_key_unseen", HAIKU, 1, "blk.0.attn", .change_ops = kg_mutant_own_key_unseen },
    { "attention_scale_of_head_dim", HAIKU, 0, "blk.0.attn", .change_ops = kg_mutant_scale_of_head_dim },
    { "keys_beyond_forty_forgotten", LONG, 0, "blk.0.attn", .change_ops = kg_mutant_window_of_forty },
    { "residual_dropped", HAIKU, 0, "blk.0.attn_residual", .change_ops = kg_mutant_residual_dropped },
    { "embedding_rows_shifted", HAIKU, 0, "embd", .change_ops = kg_mutant_next_id },
    { "one_embedding_row_shifted", HAIKU, 0, "embd",
      .edit = { .tensors = "token_embd.weight", .change = kg_mutant_next_row, .user = &first_id } },
    { "last_layer_adds_nothing", HAIKU, 0, "blk.3.attn_out",
      .edit = { .tensors = "blk.3.attn_output.weight blk.3.ffn_down.weight", .change = kg_mutant_zero } },
    { "sinks_ignored", OSS, 0, "blk.0.attn", .change_ops = kg_mutant_sinks_ignored },
    { "sinks_zeroed", OSS, 0, "blk.0.attn",
      .edit = { .tensors = "blk.*.attn_sinks.weight", .change = kg_mutant_zero } },
    { "window_one_longer", OSS_LONG, 0, "blk.0.attn", .change_ops = kg_mutant_window_one_longer },
    { "window_one_shorter", OSS_LONG, 0, "blk.0.attn", .change_ops = kg_mutant_window_one_shorter },
    { "window_one_longer_in_steps", OSS_LONG, 1, "blk.0.attn", .change_ops = kg_mutant_window_one_longer },
    { "other_layers_slide", OSS_LONG, 0, "blk.0.attn", .change_ops = kg_mutant_other_layers_slide },
    { "no_layer_slides", OSS_LONG, 0, "blk.0.attn", .change_ops = kg_mutant_windows_ignored },
    { "yarn_factors_ignored", OSS_LONG, 0, "blk.0.q_rope", .change_ops = kg_mutant_rope_factors_ignored },
    { "yarn_from_another_context", OSS_LONG, 0, "blk.0.q_rope",
      .edit = { .keys = { { "gpt-oss.rope.scaling.original_context_length", KG_KEY_SET_U32, 768 } } } },
    { "yarn_magnitude_ignored", OSS, 0, "blk.0.q_rope", .change_ops = kg_mutant_rope_magnitude_ignored },
    { "expert_biases_ignored", OSS, 0, "blk.0.ffn_gate", .change_ops = kg_mutant_expert_bias_ignored },
    { "expert_down_biases_zeroed", OSS, 0, "blk.0.expert_out",
      .edit = { .tensors = "blk.*.ffn_down_exps.bias", .change = kg_mutant_zero } },
    { "router_bias_zeroed", OSS, 0, "blk.0.router",
      .edit = { .tensors = "blk.*.ffn_gate_inp.bias", .change = kg_mutant_zero } },
    { "expert_gates_and_ups_exchanged", OSS, 0, "blk.0.ffn_gate",
      .edit = { .tensors = "blk.0.ffn_gate_exps.* blk.0.ffn_up_exps.*",
                .change = kg_mutant_swap_names,
                .user = GATE_AND_UP_EXPERTS } },
    { "up_without_one", OSS, 0, "blk.0.ffn_act", .change_ops = kg_mutant_up_without_one },
    { "alpha_of_one", OSS, 0, "blk.0.ffn_act", .change_ops = kg_mutant_alpha_of_one },
    { "clamp_ignored", OSS, 0, "blk.0.ffn_act", .change_ops = kg_mutant_clamp_ignored },
    { "swapped_nibbles_of_experts", OSS, 0, "blk.0.ffn_gate",
      .edit = { .tensors = "blk.*.ffn_gate_exps.weight", .change = kg_mutant_swap_nibbles } },
    { "rope_magnitude_ignored", PHI3, 0, "blk.0.q_rope", .change_ops = kg_mutant_rope_magnitude_ignored },
    { "other_rope_pairing_phi3", PHI3, 0, "blk.0.q_rope", .change_ops = kg_mutant_other_rope_pairing },
    { "long_and_short_factors_exchanged", PHI3, 0, "blk.0.q_rope",
      .edit = { .tensors = "rope_factors_*.weight", .change = kg_mutant_swap_names, .user = LONG_AND_SHORT } },
    { "long_factors_never_taken", PHI3_LONG, 0, "blk.0.q_rope",
      .edit = { .keys = { { "phi3.rope.scaling.original_context_length", KG_KEY_SET_U32, 4096 } } } },
    { "window_of_phi3_ignored", PHI3_LONG, 0, "blk.0.attn", .change_ops = kg_mutant_windows_ignored },
    { "gate_and_up_of_one_tensor_exchanged", PHI3, 0, "blk.0.ffn_act", .change_ops = kg_mutant_gate_and_up_exchanged },
    { "positions_ignored", GPT2, 0, "embd", .change_ops = kg_mutant_positions_ignored },
    { "positions_from_zero_in_steps", GPT2, 1, "embd", .change_ops = kg_mutant_positions_from_zero },
    { "norm_biases_ignored", GPT2, 0, "blk.0.attn_norm", .change_ops = kg_mutant_norm_bias_dropped },
    { "fused_qkv_bias_zeroed", GPT2, 0, "blk.0.q",
      .edit = { .tensors = "blk.*.attn_qkv.bias", .change = kg_mutant_zero } },
    { "gelu_by_erf", GPT2, 0, "blk.0.ffn_act", .change_ops = kg_mutant_other_gelu_form, .float32_only = true },
    { "head_norms_left_out", QWEN3, 0, "blk.0.q_norm", .change_ops = kg_mutant_head_norms_left_out },
    { "head_norms_exchanged", QWEN3, 0, "blk.0.q_norm",
      .edit = { .tensors = "blk.0.attn_q_norm.weight blk.0.attn_k_norm.weight",
                .change = kg_mutant_swap_names,
                .user = HEAD_NORMS } },
    { "embedding_unscaled", GEMMA3, 0, "embd", .change_ops = kg_mutant_embedding_unscaled },
    { "norms_without_one", GEMMA3, 0, "blk.0.attn_norm",
      .edit = { .tensors = "*norm.weight", .change = kg_mutant_minus_one } },
    { "head_norms_without_one", GEMMA3, 0, "blk.0.k_norm",
      .edit = { .tensors = "blk.*.attn_k_norm.weight", .change = kg_mutant_minus_one } },
    { "head_norms_of_gemma_left_out", GEMMA3, 0, "blk.0.q_norm", .change_ops = kg_mutant_head_norms_left_out },
    { "post_norms_left_out", GEMMA3, 0, "blk.0.attn_post_norm", .change_ops = kg_mutant_post_norms_left_out },
    { "one_rope_base_for_all_layers", GEMMA3, 0, "blk.0.q_rope",
      .edit = { .keys = { { "gemma3.rope.freq_base_swa", KG_KEY_SET_F32, 1e6 } } } },
    { "window_base_for_the_full_layer", GEMMA3, 0, "blk.5.q_rope",
      .edit = { .keys = { { "gemma3.rope.freq_base", KG_KEY_SET_F32, 10000 } } } },
    { "window_layers_scaled", GEMMA3, 0, "blk.0.q_rope", .change_ops = kg_mutant_all_positions_scaled },
    { "full_layer_not_scaled", GEMMA3, 0, "blk.5.q_rope",
      .edit = { .keys = { { "gemma3.rope.scaling.type", KG_KEY_DROP, 0 },
                          { "gemma3.rope.scaling.factor", KG_KEY_DROP, 0 } } } },
    { "other_layers_of_gemma_slide", GEMMA3, 0, "blk.0.attn", .change_ops = kg_mutant_other_layers_slide },
    { "window_of_gemma_one_longer", GEMMA3, 0, "blk.0.attn", .change_ops = kg_mutant_window_one_longer },
    { "scale_of_heads_for_that_of_queries", GEMMA3, 0, "blk.0.attn",
      .edit = { .keys = { { "gemma3.attention.scale", KG_KEY_DROP, 0 } } } },
    { "gate_by_silu", GEMMA3, 0, "blk.0.ffn_act", .change_ops = kg_mutant_gate_by_silu },
    { "cube_ignored", GEMMA3, 0, "blk.0.ffn_act", .change_ops = kg_mutant_cube_ignored },
    { "geglu_by_erf", GEMMA3, 0, "blk.0.ffn_act", .change_ops = kg_mutant_geglu_by_erf, .float32_only = true },
    { "untied_output_taken_for_tied", "llama_f32", 0, "logits",
      .edit = { .tensors = "output.weight", .change = kg_mutant_drop } },
    { "swapped_nibbles_mxfp4", "llama_blocks_of_32", 0, "blk.0.ffn_gate",
      .edit = { .tensors = "blk.*.ffn_gate.weight", .change = kg_mutant_swap_nibbles } },
    { "interleaved_nibbles_mxfp4", "llama_blocks_of_32", 0, "blk.0.ffn_gate",
      .edit = { .tensors = "blk.*.ffn_gate.weight", .change = kg_mutant_interleave_nibbles } },
    { "swapped_nibbles_q4_0", "llama_blocks_of_32", 0, "blk.0.k",
      .edit = { .tensors = "blk.*.attn_k.weight", .change = kg_mutant_swap_nibbles } },
    { "q4_k_without_minimum", "llama_k_blocks_linear_rope", 0, "blk.0.q",
      .edit = { .tensors = "blk.0.attn_q.weight", .change = kg_mutant_no_minimum } },
};

struct mutant_case {
    const struct mutant *mutant;
    const struct kg_layer_backend *backend;
};
static struct mutant_case mutant_cases[512];

/* The back ends of the layer comparison that a mutant runs on: float32 and FP16 on the GPU, and on cpu float32 and a
 * plain FP16 implementation, so that the measured limits of FP16 are held to the mutants without a GPU too. */
static bool is_for_mutants(const struct kg_layer_backend *b) {
    return !b->ops || b->ops() == kg_plain_f16(KG_PLAIN_F16_FUSED);
}

static void expect_rejected(struct kg_record *rec, const struct mutant *m, const struct kg_layer_compare *result) {
    if (result->first == result->n_taps) ck_abort_msg("the mutant lives: every tap of it is within its tolerance");
    const struct kg_layer_tap *first = &result->taps[result->first], *worst = &result->taps[result->worst];
    kg_record_compare(rec, first->name, &first->worst, &first->tol);
    ck_assert_str_eq(first->name, m->first);
    if (!isfinite(worst->margin)) ck_abort_msg("%s is not finite: the mutant did not run to its end", worst->name);
    kg_record_metric(rec, "kill_factor", "ratio", worst->margin);
    kg_record_metric(rec, "kill_factor_first_tap", "ratio", first->margin);
    kg_record_metric(rec, "kill_factor_logits", "ratio", kg_layer_find(result, "returned_logits")->margin);
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct mutant_case *c = arg;
    const struct mutant *m = c->mutant;
    const struct kg_layer_model *model = kg_layer_model_find(m->model);
    struct kg_error err;
    struct kg_layer_compare result;
    const struct kg_backend_ops *original;
    struct kg_backend_ops changed;
    if (!kg_backend_or_skip(rec, c->backend->name)) return;
    kg_op_expect_ok(kg_backend_find_ops(c->backend->name, &original, &err), &err);
    if (c->backend->ops) original = c->backend->ops();
    struct kg_golden *golden = kg_golden_open(kg_fixture_path(model->golden));
    size_t n_ids;
    first_id = kg_golden_i32(golden, "ids", &n_ids)[0];
    struct kg_layer_setup setup = {
        .model_path = kg_fixture_path(model->model),
        .backend = c->backend->name,
        .ops = &changed,
        .activations = c->backend->activations,
        .kv = c->backend->kv,
        .chunk = m->chunk,
    };
    char *control = kg_xasprintf("%s/control.gguf", kg_scratch_dir(rec));
    char *mutant = kg_xasprintf("%s/mutant.gguf", kg_scratch_dir(rec));
    if (!m->change_ops) {
        kg_gguf_rewrite(setup.model_path, control, NULL);
        kg_gguf_rewrite(setup.model_path, mutant, &m->edit);
        setup.model_path = setup.right_path = control;
    }
    kg_mutant_ops_make(&changed, original, NULL);
    kg_layer_expect_control(rec, &setup, golden);

    kg_mutant_ops_make(&changed, original, m->change_ops);
    if (!m->change_ops) setup.model_path = mutant;
    kg_op_expect_ok(kg_layer_compare_run(&setup, golden, &result, &err), &err);
    expect_rejected(rec, m, &result);
    kg_layer_compare_free(&result);
    free(mutant);
    free(control);
    kg_golden_close(golden);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0, n = 0; i < KG_COUNT_OF(MUTANTS); i++)
        for (size_t b = 0; b < kg_n_layer_backends && n < KG_COUNT_OF(mutant_cases); b++) {
            const struct kg_layer_backend *backend = &kg_layer_backends[b];
            if (!is_for_mutants(backend) || (MUTANTS[i].float32_only && backend->activations != KG_PRECISION_F32))
                continue;
            struct mutant_case *c = &mutant_cases[n++];
            *c = (struct mutant_case){ &MUTANTS[i], backend };
            kg_case_list_add(cases, &(struct kg_case){
                                        .layer = "mutation",
                                        .op = "model",
                                        .name = MUTANTS[i].name,
                                        .backend = backend->name,
                                        .dtype = backend->dtype,
                                        .definition = MUTANTS[i].model,
                                        .run = mutant_is_rejected,
                                        .arg = c,
                                    });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
