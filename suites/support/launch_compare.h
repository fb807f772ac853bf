/* A decode step seen launch by launch: what each step of a lowered plan leaves in memory, against the plan's nodes one
 * by one on the same back end. A step that is one launch for all shows its layers by the keys and values that it puts
 * into the cache, and the logits. */
#ifndef KIGO_SUITES_LAUNCH_COMPARE_H
#define KIGO_SUITES_LAUNCH_COMPARE_H

#include "engine/session.h"
#include "suites/harness/compare.h"

enum { KG_STEP_PLACE_NAME = 48 };

/* What a step leaves in memory for those after it, in the order of its nodes. */
struct kg_step_place {
    char name[KG_STEP_PLACE_NAME]; /* the tap's: "blk.0.q_rope"; of a cache "blk.0.k_cache": the position's slot */
    uint32_t step;                 /* of the lowered plan */
    const void *data;
    enum kg_precision precision; /* of the memory, unless it holds int32 */
    bool is_i32, is_cache;
    size_t n;
    float *want;
};

struct kg_launch_compare {
    struct kg_session *session; /* positions are filled, and there is room for one more and the one after it */
    int32_t id;
    struct kg_run run;
    struct kg_lowered_step *steps; /* of the session's lowered plan; all nodes in one where that is one launch */
    uint32_t n_steps;
    struct kg_step_place *places;
    size_t n_places;
};

/* Runs the nodes of the session's plan for `id`. Fails the case where something fails, or nothing was lowered. */
void kg_launch_compare_open(struct kg_session *session, int32_t id, struct kg_launch_compare *w);
void kg_launch_compare_close(struct kg_launch_compare *w);

struct kg_step_difference {
    const char *name; /* of the first place that is outside; of the worst if none is */
    double margin;    /* its error over the tolerance */
    struct kg_compare compare;
};

/* Lowers `plan`, runs it twice (as launches, and as the captured graph), and compares what the second run left in the
 * places of a step. All memory holds other values before each run. Where `kernel` is not NULL, a step of the lowered
 * plan begins at its node and is that kernel. */
void kg_launch_compare_run(const struct kg_launch_compare *w, const struct kg_plan *plan, uint32_t step,
                           const struct kg_lowered_step *kernel, const struct kg_tolerance *tol,
                           struct kg_step_difference *first);

#endif
