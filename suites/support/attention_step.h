/* The attention of a decode step by itself: a plan of attention nodes that the back end lowers as it does a session's.
 * Unlike the operation, whose number of keys is an argument, a step reads it on the device, and is captured. */
#ifndef KIGO_SUITES_ATTENTION_STEP_H
#define KIGO_SUITES_ATTENTION_STEP_H

#include "backend/backend.h"
#include "suites/harness/case.h"

struct kg_attention_step {
    struct kg_backend *backend;
    struct kg_node *nodes;
    struct kg_plan plan;
    struct kg_lowered *lowered;
};

/* One row through n nodes; layers[i] has all but n_rows and n_keys. Fails the case if the back end does not lower it.
 */
void kg_attention_step_open(struct kg_backend *backend, const struct kg_attention_args *layers, uint32_t n,
                            struct kg_attention_step *s);
/* Enqueues the step at position n_keys - 1: the first as launches, the second and later as a graph. */
KG_WARN_UNUSED enum kg_status kg_attention_step_run(struct kg_attention_step *s, uint32_t n_keys, struct kg_error *err);
/* Records the kernel that the step's attention takes, or both where few keys have another, "few_keys, split"; fails the
 * case if it is not `kernel`, on GPUs of compute capability 9.0, which are known to have it. */
void kg_attention_step_expect(struct kg_record *rec, const struct kg_attention_step *s, const char *kernel);
void kg_attention_step_close(struct kg_attention_step *s);

/* Records the kernel that attention of more rows than one takes in a session of these types; fails the case if it is
 * another. */
void kg_attention_prefill_expect(struct kg_record *rec, struct kg_backend *backend,
                                 const struct kg_attention_args *args, const char *kernel);

#endif
