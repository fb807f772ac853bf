/* The plan: a decoder as data. The engine makes one per model and session: a flat list of nodes in the order of
 * computation, each an operation of ops/ops.h with its weights and buffers.
 *
 * What changes from run to run (rows, position, rope factors) is in struct kg_run and never in a node. Any back end can
 * run a plan node by node (kg_plan_run_node); one may also lower it to fused kernels (kg_backend_ops.lower). */
#ifndef KIGO_BACKEND_PLAN_H
#define KIGO_BACKEND_PLAN_H

#include "ops/ops.h"
#include <kigo/ops.h>

struct kg_backend;
struct kg_backend_ops;

#define KG_OP_NAMED(op) KG_OP_##op,
enum kg_op { KG_OP_LIST(KG_OP_NAMED) KG_N_OPS };
#undef KG_OP_NAMED

const char *kg_op_name(enum kg_op op); /* "rmsnorm" */

/* The values of a run: rows [position, position + n_rows) of a sequence. */
struct kg_run {
    uint32_t n_rows;
    uint32_t position;         /* of row 0 */
    const float *rope_factors; /* back-end memory, as in ops/rope.h */
};

/* What a tap shows after a node: run.n_rows rows of n_cols elements. */
enum kg_tapped { KG_TAPPED_ACTIVATIONS, KG_TAPPED_RESIDUAL, KG_TAPPED_F32, KG_TAPPED_I32 };
struct kg_tap_point {
    const char *name; /* "q"; NULL: none. In a layer the tap is "blk.<layer>.q". */
    enum kg_tapped type;
    const void *data;
    uint32_t n_cols;
};

enum { KG_NODE_TAPS = 2, KG_NODE_INPUTS = 4, KG_NODE_OUTPUTS = 2, KG_NO_LAYER = -1 };

struct kg_node {
    enum kg_op op;
    int layer;            /* KG_NO_LAYER for embedding and output */
    uint32_t rows_per_id; /* rows of the operation for a row of the run: 1; experts used; heads of a norm over heads */
    /* Complete but for the values of a run: n_rows, position, n_keys, freq_factors are 0 or NULL. */
    union kg_op_args {
#define KG_OP_ARGS(op) struct kg_##op##_args op;
        KG_OP_LIST(KG_OP_ARGS)
#undef KG_OP_ARGS
    } args;
    struct kg_tap_point taps[KG_NODE_TAPS];
};

/* A name for memory that nodes read and write, for people. */
struct kg_plan_buffer {
    const char *name;
    const void *data;
};
enum { KG_PLAN_BUFFERS = 16 };

struct kg_plan {
    struct kg_node *nodes;
    uint32_t n_nodes;
    uint32_t n_cached; /* nodes up to the last that writes the cache: later runs read what they compute of every row */
    uint32_t n_body;   /* nodes of the layers; those from n_cached on are run for the rows that something asks for, and
                          those after the layers (norm, logits) for the rows whose logits are wanted */
    enum kg_precision activations, residual, kv; /* residual: of x and of what is added to it */
    int32_t *ids;                                /* (max_rows), back-end memory; node 0 reads it */
    uint32_t max_rows, n_ctx;
    void *workspace; /* the session's; what session_plan asked for */
    struct kg_plan_buffer buffers[KG_PLAN_BUFFERS];
};

/* Enqueues one node by the back end's table. */
KG_WARN_UNUSED enum kg_status kg_plan_run_node(struct kg_backend *backend, const struct kg_node *node,
                                               const struct kg_run *run, struct kg_error *err);

/* What a node reads (activations, not weights; unused places are NULL) and the one buffer it writes; kv_write writes
 * the cache and gives k_cache. */
struct kg_node_places {
    const void *in[KG_NODE_INPUTS];
    const void *out[KG_NODE_OUTPUTS];
};
struct kg_node_places kg_node_places(const struct kg_node *node);

/* Puts `to` in the place of `from` wherever the node reads or writes it. */
void kg_node_move(struct kg_node *node, const void *from, const void *to);

/* The node's matrix, NULL if it has none. */
const struct kg_weight *kg_node_weight(const struct kg_node *node);

/* Whether the entry of an operation is the same in both tables. */
bool kg_backend_same_op(const struct kg_backend_ops *a, const struct kg_backend_ops *b, enum kg_op op);

struct kg_buffer;

/* A plan that a back end has lowered: the first member of the back end's own struct. Every node is in one step. */
struct kg_lowered_step {
    const char *kernel; /* "rmsnorm + q, k, v + rope + kv_write"; the operation's name where nothing is fused */
    uint32_t first, n;  /* nodes */
    bool is_fused;
    const char *attention;        /* the kernel that its attention takes; NULL: none, or part of `kernel` */
    const char *attention_of_few; /* ... up to few_keys keys; NULL: the same kernel, at every position */
    uint32_t few_keys;
};
struct kg_lowered_refusal { /* a fusion whose operations are there, and why it was not taken */
    const char *fusion;
    uint32_t first;
    char why[128];
};
struct kg_lowered {
    const char *path;   /* "persistent kernel", "captured graph" */
    bool is_one_launch; /* of which the steps are instructions */
    uint32_t *epoch;    /* of its next step: a count that starts over before its end; NULL: none */
    /* The kernel that attention takes where a pass has more rows than one; NULL: the plan has no attention. */
    const char *prefill_attention;
    struct kg_lowered_step *steps;
    uint32_t n_steps;
    struct kg_lowered_step *row_steps; /* what runs of many rows fuse where it takes their number; other nodes: none */
    uint32_t n_row_steps;
    struct kg_lowered_refusal *refusals;
    uint32_t n_refusals;
};

/* A line for each fusion and reason, in the order of the first nodes that have it, and how many more have. */
void kg_lowered_put_refusals(const struct kg_lowered *lowered, struct kg_buffer *out);

#endif
