/* Tables of fusions: sequences of a plan's nodes that one or a few launches take together, for one row or for many. */
#ifndef KIGO_KERNELS_DECODE_FUSIONS_H
#define KIGO_KERNELS_DECODE_FUSIONS_H

#include "kernels/decode/launches.h"
#include "kernels/decode/lower.h"
#include <initializer_list>

/* Why a fusion is not taken, for people. */
struct kg_why {
    char text[128];
};

/* Writes the reason; false, so that a condition can be `holds || kg_no(why, ...)`. */
bool kg_no(struct kg_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An edge between nodes of a sequence: what `reader` reads as its input `in` (kg_node_places), `writer` writes. */
struct kg_wire {
    uint32_t reader, in, writer;
};

/* Whether the edges are there; the reason names one that is not. */
bool kg_is_wired(const struct kg_node *n, const std::initializer_list<kg_wire> &wires, struct kg_why *why);

/* Where a row of the table is tried or launched. */
struct kg_site {
    struct kg_cuda_backend *cuda;
    struct kg_cuda_lowered *lowered;
    const struct kg_node *n;        /* its first node */
    const struct kg_run *run;       /* NULL while it is tried */
    struct kg_step_pending pending; /* that its kernels add to the residual stream */
};

struct kg_fusion {
    const char *name;
    std::initializer_list<enum kg_op> ops; /* of its nodes */
    std::initializer_list<kg_wire> wires;
    uint32_t written; /* bit i: what node i writes is in memory afterwards */
    /* Whether nodes that are wired so are of shapes and types that the kernels take. */
    bool (*fits)(const struct kg_site *at, struct kg_why *why);
    enum kg_status (*launch)(const struct kg_site *at, struct kg_error *err);
    bool (*takes)(const struct kg_site *at); /* whether for the run's rows; NULL: for any */
};

/* For one row, and for the rows of a run (prefill/fusions.cu). */
extern const struct kg_fusion kg_fusions[], kg_row_fusions[];
extern const uint32_t kg_n_fusions, kg_n_row_fusions;

/* Enqueues a few nodes for the run's rows by the rows of the tables that take them, as a lowered plan would, and by
 * their own operations where none does. For nodes that need nothing of a session: rmsnorm, linear, swiglu, add. */
enum kg_status kg_cuda_run_fused(struct kg_cuda_backend *cuda, const struct kg_plan *plan, const struct kg_run *run,
                                 struct kg_error *err);

#endif
