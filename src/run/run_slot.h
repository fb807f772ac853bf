/* One program of a run, from its first process to the record of its last case. */
#ifndef KIGO_RUN_RUN_SLOT_H
#define KIGO_RUN_RUN_SLOT_H

#include "run/run_state.h"

/* Starts the program in a free slot. A program whose listing failed, or without cases, is recorded and leaves the slot
 * free. */
KG_WARN_UNUSED enum kg_status kg_slot_open(struct kg_run *run, struct kg_slot *slot, struct kg_planned_program *program,
                                           struct kg_error *err);

/* Reads what has arrived, enforces the limit, and when the process has ended records what that means: the case in
 * flight is a crash or a timeout, and the cases left run in a new process. The slot is free again once all cases have
 * ended. */
KG_WARN_UNUSED enum kg_status kg_slot_serve(struct kg_run *run, struct kg_slot *slot, struct kg_error *err);

/* Kills the program and frees the slot without recording anything. */
void kg_slot_abandon(struct kg_run *run, struct kg_slot *slot);

#endif
