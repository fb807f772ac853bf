/* The figures that FP16 is to reach, beside what a run measured: a line each, rendered from its records only.
 *
 * Speed and memory are those of the model whose number of parameters is Qwen2.5-0.5B's, f16 on the file of the least
 * bytes against f32 on that of the most; matrix products those of its shapes, as the geometric mean of the pairs'
 * speed-ups, cold, the record being that of the least; numerics the largest of the shapes' errors; mismatch and haiku
 * the fixture's. What a run has no record of is not measured, never reached.
 *
 * CSV: what,sense,goal,unit,value,lo,hi,reached,record,f32_record; sense is "at least", "at most" or "exactly". */
#ifndef KIGO_REPORT_FP16_GOALS_H
#define KIGO_REPORT_FP16_GOALS_H

#include "base/buffer.h"
#include "bundle/records.h"

struct kg_fp16_goal_counts {
    size_t n_met, n_missed, n_unmeasured;
};

/* Whether a run (its env.json) was made to measure them: `kigo bench --report fp16`. Others measure models too, and not
 * what the goals are of. */
bool kg_fp16_goals_apply(const json_t *env);
void kg_fp16_goals_count(const struct kg_records *records, struct kg_fp16_goal_counts *counts);

void kg_fp16_goals(const struct kg_records *records, struct kg_buffer *markdown, struct kg_buffer *csv);

#endif
