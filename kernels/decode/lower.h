/* Lowers a plan (backend/plan.h) to the launches of a decode step.
 *
 * 1. The whole plan is one persistent kernel where it is made of the layers that kernel has (persistent/program.h).
 * 2. Otherwise the nodes become a list of launches: at each node the first row of the table of fusions (fusions.h)
 * whose operations are there and which fits; where none does, the node's own operation. The list is captured in a CUDA
 * graph (decode_step.cu).
 *
 * For runs of many rows each node has the first row of the table of their fusions that fits there, if any does.
 *
 * A fusion is refused, with the reason, if the back end's table has another entry for one of its operations, if a
 * buffer that the fused kernel does not write is read later, or by the row's own condition. */
#ifndef KIGO_KERNELS_DECODE_LOWER_H
#define KIGO_KERNELS_DECODE_LOWER_H

#include "kernels/cuda_backend.h"
#include "kernels/decode/persistent/program.h"

struct kg_fusion;

struct kg_cuda_launch {
    const struct kg_fusion *fusion; /* NULL: the node's operation */
    uint32_t first;                 /* node */
};

/* Cosine and sine of the step's position, of ropes with the same frequencies. */
struct kg_rotation_table {
    struct kg_rope_args rope; /* whose frequencies it has */
    float2 *data;             /* device memory, (n_rot / 2) */
};
enum { KG_ROTATION_TABLES = 2 };

struct kg_cuda_lowered {
    struct kg_lowered base; /* first: a struct kg_lowered * is one of these */
    const struct kg_plan *plan;
    struct kg_block memory; /* zeroed for attention, then the tables; or the program's packets and layers */
    uint64_t zeroed_bytes;
    struct kg_rotation_table tables[KG_ROTATION_TABLES];
    uint32_t n_tables;
    struct kg_cuda_launch *launches;
    uint32_t n_launches;
    const struct kg_fusion **row_fusions;  /* (n_nodes): that begins at the node for many rows, NULL for none */
    struct kg_persistent_program *program; /* NULL: the step is a list of launches */
    const float *rope_factors;             /* that exec was captured with */
    uint32_t few_keys;                     /* up to which attention has another kernel; 0: the same at all */
    uint32_t keys;                         /* that exec's kernels are for, at most */
    cudaGraphExec_t exec;                  /* NULL until the second step */
    bool has_run;
};

static inline struct kg_cuda_lowered *kg_cuda_lowered_of(struct kg_lowered *lowered) {
    return (struct kg_cuda_lowered *)lowered;
}

/* Entries of the back end's table, with the lock held. */
enum kg_status kg_cuda_lower(struct kg_backend *backend, const struct kg_plan *plan, struct kg_lowered **lowered,
                             struct kg_error *err);
enum kg_status kg_cuda_decode_step(struct kg_backend *backend, struct kg_lowered *lowered,
                                   const struct kg_step_args *args, struct kg_error *err);
enum kg_status kg_cuda_run_rows(struct kg_backend *backend, struct kg_lowered *lowered, uint32_t first,
                                const struct kg_run *run, uint32_t *n_nodes, struct kg_error *err);
void kg_cuda_free_lowered(struct kg_backend *backend, struct kg_lowered *lowered);
const char *kg_cuda_step_kind(uint32_t i, const char **path);

/* Whether two ropes rotate a pair by the same angle. */
bool kg_same_frequencies(const struct kg_rope_args *a, const struct kg_rope_args *b);

/* The table for a rope's frequencies; made at the first call, NULL if there are no more. */
const struct kg_rotation_table *kg_rotation_table_of(struct kg_cuda_lowered *lowered, const struct kg_rope_args *rope);

#endif
