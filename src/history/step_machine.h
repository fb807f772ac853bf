/* What changed about the machine where a step is. */
#ifndef KIGO_HISTORY_STEP_MACHINE_H
#define KIGO_HISTORY_STEP_MACHINE_H

#include "history/step_search.h"

/* What runs of the line say of their machine, read once each. */
struct kg_step_machines {
    const char *root;
    const struct kg_run_heads *line;
    struct kg_step_machine *items; /* by run; opened by kg_step_machines_open */
};

void kg_step_machines_open(struct kg_step_machines *machines, const char *root, const struct kg_run_heads *line);

/* step->machine: what else changed at the same run, in words; "" if nothing did. From telemetry.csv, of each run: the
 * medians of the GPU's clocks, power limit and temperature, and the share of samples that were throttled. One changed
 * if its values of the three runs after the step lie all on one side of those of the three runs before, by as much as
 * the table in step_machine.c says. From env.json of the two runs at the step: the kernel, the operating system,
 * libraries, memory, processors and which GPU it is. What is part of the comparison key cannot change: such a run is
 * not in the line. The GPU counts for cases of the back end cuda. Files that are missing say nothing. */
KG_WARN_UNUSED enum kg_status kg_step_machine_find(struct kg_step_machines *machines, struct kg_found_step *step,
                                                   struct kg_error *err);
void kg_step_machines_close(struct kg_step_machines *machines);

#endif
