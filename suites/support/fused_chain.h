/* A chain of a decoder layer's nodes that back ends fuse, by itself and at any shape: run as the back end lowers it, or
 * node by node. Several layers in a row, each with its own memory, are one plan. */
#ifndef KIGO_SUITES_FUSED_CHAIN_H
#define KIGO_SUITES_FUSED_CHAIN_H

#include "backend/backend.h"
#include "suites/harness/case.h"

enum kg_chain_kind {
    KG_CHAIN_NORM_QKV,    /* rmsnorm, q, k, v, rope, kv_write */
    KG_CHAIN_NORM_SWIGLU, /* rmsnorm, gate, up, swiglu */
    KG_CHAIN_RESIDUAL,    /* linear, add */
    KG_CHAIN_LAYER,       /* NORM_QKV, attention, RESIDUAL, NORM_SWIGLU, RESIDUAL: a dense decoder layer */
    KG_CHAIN_EXPERTS,     /* experts' gate, up, swiglu, down, combine, add, of experts that are chosen already */
    KG_N_CHAINS
};
enum { KG_CHAIN_MATRICES = 7 }; /* of LAYER q, k, v, attention's output, gate, up, down; of EXPERTS the last three */

struct kg_chain_shape {
    enum kg_chain_kind kind;
    enum kg_dtype weight;                   /* of all matrices; MXFP4 as the back end has repacked it */
    uint32_t n_rows, n_in;                  /* n_in: columns of x */
    uint32_t n_heads, n_kv_heads, head_dim; /* of NORM_QKV and LAYER */
    uint32_t n_out;                         /* gates; of RESIDUAL columns of the residual stream */
    uint32_t n_experts, n_used;             /* of EXPERTS: matrices of each kind, and those that a row takes */
    uint32_t n_ctx, position;               /* of the cache, and of row 0 */
    float eps;
};

const char *kg_chain_name(enum kg_chain_kind kind); /* "norm_qkv" */
uint32_t kg_chain_n_matrices(enum kg_chain_kind kind);
uint32_t kg_chain_outputs(const struct kg_chain_shape *shape, uint32_t matrix); /* rows of the matrix, an expert's */
uint32_t kg_chain_inputs(const struct kg_chain_shape *shape, uint32_t matrix);  /* and its columns */

/* What a layer reads and writes, in back-end memory; activations of the precision, matrices of the shape's format, the
 * rest float32. */
struct kg_chain_memory {
    const void *x;                        /* (n_rows, n_in); of LAYER the residual stream */
    const float *norm, *ffn_norm;         /* (n_in); ffn_norm: of LAYER */
    const void *w[KG_CHAIN_MATRICES];     /* (outputs, inputs); of EXPERTS one below the other */
    const float *bias[KG_CHAIN_MATRICES]; /* (outputs), of EXPERTS (n_experts, outputs), or NULL */
    const int32_t *ids;                   /* (n_rows, n_used), of EXPERTS: those that a row takes, */
    const float *shares;                  /* (n_rows, n_used), and their weights */
    void *combined;                       /* (n_rows, n_in), of EXPERTS */
    void *normed;                         /* (n_rows, n_in) */
    void *y[KG_CHAIN_MATRICES]; /* (n_rows, outputs), of EXPERTS n_used of each; of NORM_QKV y[0] and of NORM_SWIGLU
                                   y[0] is a result */
    void *k_cache, *v_cache;    /* (n_kv_heads, n_ctx, head_dim), results */
    void *attention;            /* (n_rows, n_heads * head_dim), of LAYER */
    void *residual;             /* (n_rows, n_out; of LAYER and EXPERTS n_in), a result */
    void *workspace;            /* of linear and attention; may be that of another layer */
};

struct kg_fused_chain {
    struct kg_backend *backend;
    struct kg_node *nodes;
    struct kg_plan plan;
    struct kg_run run;
    struct kg_lowered *lowered; /* NULL if the back end lowers nothing */
    uint32_t n_taken;           /* of rows: nodes that fusions took in the last run */
};

/* `change`, unless NULL, makes a mistake in the nodes before the back end lowers them. Fails the case if it cannot. */
void kg_fused_chain_open(struct kg_backend *backend, const struct kg_chain_shape *shape, enum kg_precision precision,
                         const struct kg_chain_memory *layers, uint32_t n_layers, void (*change)(struct kg_node *nodes),
                         struct kg_fused_chain *c);
/* One row as a decode step, at first as launches and from the second time on as a captured graph; more rows as those of
 * a prefill. */
KG_WARN_UNUSED enum kg_status kg_fused_chain_run(struct kg_fused_chain *c, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_fused_chain_run_apart(struct kg_fused_chain *c, struct kg_error *err);
void kg_fused_chain_close(struct kg_fused_chain *c);

/* Records the kernels that a layer is lowered to, each once with how often: "rmsnorm + q, k, v + rope + kv_write". */
void kg_fused_chain_record(struct kg_record *rec, const struct kg_fused_chain *c);

#endif
