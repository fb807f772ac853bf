/* Wrong lowered plans: mistakes in the data that a plan is lowered with (a node's weight, norm, rotation, slot), which
 * the comparison of launches must reject. */
#ifndef KIGO_SUITES_LOWERED_MISTAKES_H
#define KIGO_SUITES_LOWERED_MISTAKES_H

#include "engine/session.h"

/* Where a mistake is made: the nodes from n on are a step's, or an instruction's, of a plan that may be changed. */
struct kg_lowered_site {
    struct kg_node *n, *nodes;
    uint32_t n_step, n_nodes;
    const float *ones; /* device memory, as many as any norm has weights */
    bool alike;        /* a mistake in what is once for all layers is made in all */
};

typedef void kg_mistake(const struct kg_lowered_site *s);

kg_mistake kg_mistake_norm_left_out, kg_mistake_norm_of_keys_left_out, kg_mistake_norms_exchanged,
    kg_mistake_values_by_weight_of_keys, kg_mistake_keys_by_weight_of_queries, kg_mistake_first_weight_of_other_layer,
    kg_mistake_first_bias_left_out, kg_mistake_bias_of_keys_left_out, kg_mistake_out_bias_left_out,
    kg_mistake_rotation_left_out, kg_mistake_other_pairs, kg_mistake_slot_off_by_one, kg_mistake_window_of_three,
    kg_mistake_first_splits_unmerged, kg_mistake_scale_of_head_dim, kg_mistake_keys_for_values,
    kg_mistake_sinks_left_out, kg_mistake_gate_and_up_swapped, kg_mistake_expert_gate_and_up_swapped,
    kg_mistake_up_by_weight_of_gate, kg_mistake_down_of_other_layer, kg_mistake_down_bias_left_out,
    kg_mistake_gate_half_as_steep, kg_mistake_last_expert_left_out, kg_mistake_one_expert_fewer, kg_mistake_next_row,
    kg_mistake_logits_by_the_embedding;

#endif
