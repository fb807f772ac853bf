/* Wrong operations against the operation goldens: the tolerance of every operation must reject one that is wrong. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/mutant_ops.h"
#include "suites/support/op_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct op_mutant {
    const char *name, *golden; /* below fixtures/ops */
    void (*run)(struct kg_op_case *c);
    void (*change)(struct kg_backend_ops *mutant);
};

static const struct op_mutant MUTANTS[] = {
    { "embedding_next_row", "embedding.one_token", kg_op_case_embedding, kg_mutant_next_id },
    { "epsilon_times_ten", "rmsnorm.eps_1e6_decides", kg_op_case_rmsnorm, kg_mutant_epsilon_times_ten },
    { "epsilon_times_ten_of_unit_rows", "rmsnorm.width_896", kg_op_case_rmsnorm, kg_mutant_epsilon_times_ten },
    { "norm_epsilon_times_ten", "layernorm.eps_1e5_decides", kg_op_case_layernorm, kg_mutant_norm_epsilon_times_ten },
    { "norm_bias_dropped", "layernorm.width_768", kg_op_case_layernorm, kg_mutant_norm_bias_dropped },
    { "norm_about_zero", "layernorm.no_bias", kg_op_case_layernorm, kg_mutant_norm_about_zero },
    { "unwired_bias", "linear.m3_n5_k7_bias", kg_op_case_linear, kg_mutant_unwired_bias },
    { "half_pairs_turned_as_neighbours", "rope.half_from_1", kg_op_case_rope, kg_mutant_other_rope_pairing },
    { "neighbours_turned_as_half_pairs", "rope.interleaved_from_1", kg_op_case_rope, kg_mutant_other_rope_pairing },
    { "position_off_by_one", "rope.half_from_997", kg_op_case_rope, kg_mutant_position_off_by_one },
    { "rope_base_ignored", "rope.half_base_1e6", kg_op_case_rope, kg_mutant_rope_base_ignored },
    { "dropped_mask", "attention.prefill_63", kg_op_case_attention, kg_mutant_dropped_mask },
    { "scale_of_head_dim", "attention.head_96", kg_op_case_attention, kg_mutant_scale_of_head_dim },
    { "own_key_unseen", "attention.decode_at_513", kg_op_case_attention, kg_mutant_own_key_unseen },
    { "kv_heads_taken_in_turn", "attention.decode_at_64", kg_op_case_attention, kg_mutant_kv_heads_interleaved },
    { "keys_beyond_forty_forgotten", "attention.decode_at_63", kg_op_case_attention, kg_mutant_window_of_forty },
    { "gate_and_up_exchanged", "swiglu.width_63", kg_op_case_swiglu, kg_mutant_gate_and_up_exchanged },
    { "rope_magnitude_ignored", "rope.half_magnitude_factors", kg_op_case_rope, kg_mutant_rope_magnitude_ignored },
    { "window_one_longer", "attention.sinks_window_decode", kg_op_case_attention, kg_mutant_window_one_longer },
    { "window_one_shorter", "attention.sinks_window_prefill", kg_op_case_attention, kg_mutant_window_one_shorter },
    { "windows_ignored", "attention.window_shorter_than_prefill", kg_op_case_attention, kg_mutant_windows_ignored },
    { "sinks_ignored", "attention.sinks_decode_at_65", kg_op_case_attention, kg_mutant_sinks_ignored },
    { "clamp_ignored", "swiglu.clamped_width_63", kg_op_case_swiglu, kg_mutant_clamp_ignored },
    { "up_without_one", "swiglu.clamped_width_63", kg_op_case_swiglu, kg_mutant_up_without_one },
    { "alpha_of_one", "swiglu.clamped_width_63", kg_op_case_swiglu, kg_mutant_alpha_of_one },
    { "clamped_gate_and_up_exchanged", "swiglu.clamped_width_63", kg_op_case_swiglu, kg_mutant_gate_and_up_exchanged },
    { "positions_from_zero", "embedding.positions_from_5", kg_op_case_embedding, kg_mutant_positions_from_zero },
    { "positions_ignored", "embedding.positions_from_0", kg_op_case_embedding, kg_mutant_positions_ignored },
    { "expert_bias_ignored", "experts_linear.shared_rows_mxfp4", kg_op_case_experts_linear,
      kg_mutant_expert_bias_ignored },
    { "experts_residual_dropped", "experts_combine.of_4_width_96_residual", kg_op_case_experts_combine,
      kg_mutant_experts_residual_dropped },
    { "softmax_before_top_k", "router.of_32", kg_op_case_router, kg_mutant_softmax_before_top_k },
    { "last_of_equal_experts", "router.equal_logits", kg_op_case_router, kg_mutant_last_of_equal_experts },
    { "next_rows_experts", "router.of_32", kg_op_case_router, kg_mutant_next_rows_experts },
    { "gelu_erf_for_tanh", "gelu.tanh_width_63", kg_op_case_gelu, kg_mutant_other_gelu_form },
    { "gelu_tanh_for_erf", "gelu.erf_width_63", kg_op_case_gelu, kg_mutant_other_gelu_form },
    { "softmax_unscaled", "softmax.scaled", kg_op_case_softmax, kg_mutant_softmax_unscaled },
    { "residual_dropped", "add.residual", kg_op_case_add, kg_mutant_residual_dropped },
};

static const struct op_mutant_mode {
    const char *backend, *dtype;
    enum kg_precision precision; /* of activations and cache */
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};

/* Moves results by 4.5e-6 of themselves: float16 cannot tell, and need not. */
static const char BELOW_F16[] = "epsilon_times_ten_of_unit_rows";

struct op_mutant_case {
    const struct op_mutant *mutant;
    const struct op_mutant_mode *mode;
};
static struct op_mutant_case op_mutant_cases[KG_COUNT_OF(MUTANTS) * KG_COUNT_OF(MODES)];

/* The margin of the mutant (or of the operation itself if change is NULL); negative after a skip. */
static double margin_of(struct kg_record *rec, const struct op_mutant_case *mc,
                        void (*change)(struct kg_backend_ops *mutant)) {
    struct kg_error err;
    const struct kg_backend_ops *original;
    struct kg_backend_ops ops;
    double margin = 0;
    struct kg_op_case c = {
        .rec = rec,
        .activations = mc->mode->precision,
        .kv = mc->mode->precision,
        .margin = &margin,
        .is_control = !change,
    };
    kg_op_expect_ok(kg_backend_find_ops(mc->mode->backend, &original, &err), &err);
    kg_mutant_ops_make(&ops, original, change);
    if (!kg_op_device_open(rec, mc->mode->backend, &ops, &c.device)) return -1;
    char *relative = kg_xasprintf("ops/%s.safetensors", mc->mutant->golden);
    c.golden = kg_golden_open(kg_fixture_path(relative));
    mc->mutant->run(&c);
    kg_golden_close(c.golden);
    kg_op_device_close(&c.device);
    free(relative);
    return margin;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct op_mutant_case *mc = arg;
    const double control = margin_of(rec, mc, NULL);
    if (control < 0) return;
    if (!(control <= 1)) ck_abort_msg("the operation itself is outside its tolerance by a factor of %.4g", control);
    const double margin = margin_of(rec, mc, mc->mutant->change);
    if (!(margin > 1)) ck_abort_msg("the mutant lives: at %.4g of its tolerance", margin);
    ck_assert(isfinite(margin));
    kg_record_metric(rec, "kill_factor", "ratio", margin);
    kg_record_metric(rec, "control_margin", "ratio", control);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0, n = 0; i < KG_COUNT_OF(MUTANTS); i++)
        for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
            const bool is_float32 = MUTANTS[i].run == kg_op_case_router || strcmp(MUTANTS[i].name, BELOW_F16) == 0;
            if (MODES[m].precision == KG_PRECISION_F16 && is_float32) continue;
            struct op_mutant_case *c = &op_mutant_cases[n++];
            *c = (struct op_mutant_case){ &MUTANTS[i], &MODES[m] };
            kg_case_list_add(cases, &(struct kg_case){
                                        .layer = "mutation",
                                        .op = "op",
                                        .name = MUTANTS[i].name,
                                        .backend = MODES[m].backend,
                                        .dtype = MODES[m].dtype,
                                        .definition = MUTANTS[i].golden,
                                        .run = mutant_is_rejected,
                                        .arg = c,
                                    });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
