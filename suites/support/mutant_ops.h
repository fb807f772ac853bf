/* Wrong operations: replacements of one entry of a back end's table that change the arguments and call the original, or
 * copy through the table and compute on the host. They touch no back-end memory, so that they serve every back end. */
#ifndef KIGO_SUITES_MUTANT_OPS_H
#define KIGO_SUITES_MUTANT_OPS_H

#include "backend/backend.h"

/* *mutant = the table `original` with `change` made to it; one mutant at a time. */
void kg_mutant_ops_make(struct kg_backend_ops *mutant, const struct kg_backend_ops *original,
                        void (*change)(struct kg_backend_ops *mutant));

/* Changes. Those marked (rows) need single-row evals. */
void kg_mutant_other_rope_pairing(struct kg_backend_ops *m);
void kg_mutant_position_off_by_one(struct kg_backend_ops *m);
void kg_mutant_rope_base_ignored(struct kg_backend_ops *m);
void kg_mutant_rope_factors_ignored(struct kg_backend_ops *m);
void kg_mutant_rope_scale_ignored(struct kg_backend_ops *m);
void kg_mutant_rope_magnitude_ignored(struct kg_backend_ops *m);
void kg_mutant_whole_head_rotated(struct kg_backend_ops *m); /* n_rot = head_dim */
void kg_mutant_unwired_bias(struct kg_backend_ops *m);
void kg_mutant_epsilon_times_ten(struct kg_backend_ops *m);
void kg_mutant_norm_epsilon_times_ten(struct kg_backend_ops *m);
void kg_mutant_norm_bias_dropped(struct kg_backend_ops *m);
void kg_mutant_norm_about_zero(struct kg_backend_ops *m); /* layernorm without bias as rmsnorm */
void kg_mutant_other_gelu_form(struct kg_backend_ops *m);
void kg_mutant_softmax_unscaled(struct kg_backend_ops *m);
void kg_mutant_dropped_mask(struct kg_backend_ops *m);
void kg_mutant_scale_of_head_dim(struct kg_backend_ops *m);    /* 1/head_dim for 1/sqrt(head_dim) */
void kg_mutant_own_key_unseen(struct kg_backend_ops *m);       /* (rows) */
void kg_mutant_kv_heads_interleaved(struct kg_backend_ops *m); /* (rows) h % n_kv_heads for h / group */
void kg_mutant_window_of_forty(struct kg_backend_ops *m);
void kg_mutant_window_one_longer(struct kg_backend_ops *m);
void kg_mutant_window_one_shorter(struct kg_backend_ops *m);
void kg_mutant_windows_ignored(struct kg_backend_ops *m);
void kg_mutant_other_layers_slide(struct kg_backend_ops *m); /* those without a window have one of 24 */
void kg_mutant_sinks_ignored(struct kg_backend_ops *m);
void kg_mutant_clamp_ignored(struct kg_backend_ops *m);
void kg_mutant_up_without_one(struct kg_backend_ops *m);
void kg_mutant_alpha_of_one(struct kg_backend_ops *m);
void kg_mutant_gate_by_silu(struct kg_backend_ops *m);
void kg_mutant_cube_ignored(struct kg_backend_ops *m); /* of gelu's tanh form */
void kg_mutant_geglu_by_erf(struct kg_backend_ops *m);
void kg_mutant_all_positions_scaled(struct kg_backend_ops *m); /* of window layers too */
void kg_mutant_embedding_unscaled(struct kg_backend_ops *m);
void kg_mutant_head_norms_left_out(struct kg_backend_ops *m);
void kg_mutant_post_norms_left_out(struct kg_backend_ops *m);
void kg_mutant_positions_from_zero(struct kg_backend_ops *m);
void kg_mutant_positions_ignored(struct kg_backend_ops *m);
void kg_mutant_expert_bias_ignored(struct kg_backend_ops *m);
void kg_mutant_experts_residual_dropped(struct kg_backend_ops *m);
void kg_mutant_next_rows_experts(struct kg_backend_ops *m);
void kg_mutant_softmax_before_top_k(struct kg_backend_ops *m); /* a router's weights are parts of all experts' sum */
void kg_mutant_last_of_equal_experts(struct kg_backend_ops *m);
void kg_mutant_shifted_kv_slot(struct kg_backend_ops *m);     /* slot p holds position p - 1 */
void kg_mutant_first_kv_head_twice(struct kg_backend_ops *m); /* (rows) the second head's slots hold the first's */
void kg_mutant_gate_and_up_exchanged(struct kg_backend_ops *m);
void kg_mutant_residual_dropped(struct kg_backend_ops *m); /* the sum is twice the new part */
void kg_mutant_next_id(struct kg_backend_ops *m);          /* embedding rows of W shifted by one */

#endif
