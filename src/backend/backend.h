/* Back ends: a table of memory functions and operations that the engine calls, never knowing which it has.
 *
 * A back end is a struct whose first member is struct kg_backend. Its operations may be called from several
 * threads; a back end serialises what it must. */
#ifndef KIGO_BACKEND_BACKEND_H
#define KIGO_BACKEND_BACKEND_H

#include "backend/memory.h"
#include "backend/plan.h"
#include "ops/ops.h"
#include "ops/sample.h"
#include <kigo/backend.h>
#include <stdbool.h>
#include <stddef.h>

struct kg_backend_ops;
struct kg_file_map;     /* base/file.h */
struct kg_model_config; /* kigo/model.h */
struct kg_measure_ops;  /* backend/measure.h */

struct kg_backend {
    const struct kg_backend_ops *ops;
    struct kg_memory memory;
    uint64_t n_waits; /* times the host waited until the back end had done its work; changed atomically */
};

/* What a session will ask for at most. */
struct kg_session_plan {
    const struct kg_model_config *config;
    enum kg_precision activations, kv;
    uint32_t n_ctx;
    uint32_t max_rows; /* rows of one forward pass */
};

/* In place of an id: the one that is in back-end memory already, where an earlier draw has put it. */
enum { KG_ID_IN_PLACE = -1 };

/* A decode step: one row through the whole plan. */
struct kg_step_args {
    struct kg_run run; /* n_rows 1 */
    int32_t id;        /* KG_ID_IN_PLACE: plan->ids[0] holds it */
};

/* Draws that stay in back-end memory, so that the next step can be enqueued before the host knows the id. */
struct kg_draw_ops {
    /* Zeroed memory that host and back end both see, for results: the host reads what the back end has written without
     * a copy. Host memory, not counted in backend->memory. */
    enum kg_status (*open_mailbox)(struct kg_backend *backend, uint64_t size_bytes, void **mailbox,
                                   struct kg_error *err);
    void (*close_mailbox)(struct kg_backend *backend, void *mailbox); /* after all work; NULL is good */

    enum kg_status (*sample)(struct kg_backend *backend, const struct kg_sample_args *args, struct kg_error *err);

    /* Returns when *result (of a mailbox) has the sequence, with a copy. KG_ERR_INTERNAL if the back end failed before.
     */
    enum kg_status (*wait)(struct kg_backend *backend, const struct kg_sample_result *result, uint32_t sequence,
                           struct kg_sample_result *copy, struct kg_error *err);
};

struct kg_backend_ops {
    const char *name; /* "cpu" */

    /* Makes a back end whose ops are `ops` (this table or a changed copy). n_threads: 0 for all processors. */
    enum kg_status (*open)(const struct kg_backend_ops *ops, int n_threads, struct kg_backend **backend,
                           struct kg_error *err);
    void (*close)(struct kg_backend *backend);

    /* Memory, 256-byte aligned and not initialised. KG_ERR_NO_MEMORY names bytes needed, bytes free and `what` for. A
     * size of 0 gives an empty block. Every one that allocates counts in backend->memory. */
    enum kg_status (*alloc)(struct kg_backend *backend, enum kg_memory_tag tag, uint64_t size_bytes, const char *what,
                            struct kg_block *block, struct kg_error *err);
    /* Optional, NULL if there is none: blocks with the tag weights lie in one allocation of so many bytes, in the order
     * in which they are asked for, 256-byte aligned, until it is called again; what does not fit lies elsewhere. 0: no
     * more do. `file`, which may be NULL, stays until then: what is imported from it may be read there, and a file that
     * has become shorter is KG_ERR_IO. */
    enum kg_status (*reserve_weights)(struct kg_backend *backend, uint64_t size_bytes, const struct kg_file_map *file,
                                      struct kg_error *err);
    /* A block (tag weights) with the bytes of host memory, which stays valid and unchanged as long as the block if
     * weights_in_place, and otherwise until synchronize has returned or the block is freed: the back end may copy many
     * at once, and has whatever reads them wait. */
    enum kg_status (*import_weights)(struct kg_backend *backend, const void *host, uint64_t size_bytes,
                                     const char *what, struct kg_block *block, struct kg_error *err);
    /* Optional, NULL if there is none: lets the back end keep a weight of n_matrices, one below the other, repacked
     * into another layout, or as another format of the same size, in the same memory. Its bytes are the back end's from
     * then on: the operations that read weights know, weight->dtype is what it is then, and it may be called again. Not
     * for weights_in_place. */
    enum kg_status (*repack_weight)(struct kg_backend *backend, struct kg_weight *weight, uint32_t n_matrices,
                                    struct kg_error *err);
    void (*free)(struct kg_backend *backend, struct kg_block *block); /* and empties *block */
    bool weights_in_place;

    /* Copies between host and back-end memory. After download the host has the data; upload may be done later, but
     * takes the host's bytes before it returns. */
    enum kg_status (*upload)(struct kg_backend *backend, void *to, const void *host, uint64_t size_bytes,
                             struct kg_error *err);
    enum kg_status (*download)(struct kg_backend *backend, void *host, const void *from, uint64_t size_bytes,
                               struct kg_error *err);
    enum kg_status (*synchronize)(struct kg_backend *backend, struct kg_error *err);

    /* Whether such a session can be served (KG_ERR_UNSUPPORTED naming what cannot), and the workspace it needs. */
    enum kg_status (*session_plan)(struct kg_backend *backend, const struct kg_session_plan *plan,
                                   uint64_t *workspace_bytes, struct kg_error *err);

    /* Operations, contracts in ops/<op>.h. */
#define KG_BACKEND_OP(op)                                                                                              \
    enum kg_status (*op)(struct kg_backend * backend, const struct kg_##op##_args *args, struct kg_error *err);
    KG_OP_LIST(KG_BACKEND_OP)
#undef KG_BACKEND_OP

    /* Optional, NULL if there is none: lowers a plan to kernels that take several nodes at once, for decode steps. The
     * plan, its session's memory and weights outlive *lowered, which is freed by free_lowered. decode_step enqueues a
     * token's ids, keys, values and logits (row 0 of the last node's y); not used while taps are on. */
    enum kg_status (*lower)(struct kg_backend *backend, const struct kg_plan *plan, struct kg_lowered **lowered,
                            struct kg_error *err);
    enum kg_status (*decode_step)(struct kg_backend *backend, struct kg_lowered *lowered,
                                  const struct kg_step_args *args, struct kg_error *err);
    /* Enqueues, for a run's rows, the nodes from `first` on that the lowered plan fuses: *n_nodes, 0 for none. NULL
     * with lower only; not used while taps are on. */
    enum kg_status (*run_rows)(struct kg_backend *backend, struct kg_lowered *lowered, uint32_t first,
                               const struct kg_run *run, uint32_t *n_nodes, struct kg_error *err);
    void (*free_lowered)(struct kg_backend *backend, struct kg_lowered *lowered); /* NULL is good */
    /* What fused steps there are, by number: a name, NULL past the last; *path as in struct kg_lowered, or "attention"
     * for the kernels of a step's attention. */
    const char *(*step_kind)(uint32_t i, const char **path);

    /* Optional, NULL if there is none: draws on the device. Not used while taps are on. */
    const struct kg_draw_ops *draws;

    /* Optional, NULL if there is none: timing and canaries. */
    const struct kg_measure_ops *measure;
};

/* The tables there are. kg_cuda_ops of a build without CUDA refuses to open. */
extern const struct kg_backend_ops kg_cpu_ops;
extern const struct kg_backend_ops kg_cuda_ops;

/* The table of a back end by name ("cpu", "cuda"), for copies with an entry replaced; KG_ERR_USAGE for another name. */
KG_WARN_UNUSED enum kg_status kg_backend_find_ops(const char *name, const struct kg_backend_ops **ops,
                                                  struct kg_error *err);

/* Opens a back end over a table, which must outlive it. A replacement entry may call the original:
 *     static struct kg_backend_ops mutant; mutant = kg_cpu_ops; mutant.rope = other_pairing;
 *     kg_backend_open_ops(&mutant, 0, &backend, &err); */
KG_WARN_UNUSED enum kg_status kg_backend_open_ops(const struct kg_backend_ops *ops, int n_threads,
                                                  struct kg_backend **backend, struct kg_error *err);

#endif
