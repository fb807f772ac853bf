/* One of the operations that are several nodes of a plan in one, called by its parts: as the operation, and as the
 * operations that it stands for, one after the other. */
#ifndef KIGO_SUITES_FUSED_OP_H
#define KIGO_SUITES_FUSED_OP_H

#include "suites/support/op_device.h"

enum kg_fused_op { KG_FUSED_NORM_QKV, KG_FUSED_NORM_SWIGLU, KG_FUSED_LINEAR_ADD, KG_N_FUSED_OPS };
enum { KG_FUSED_MATRICES = 3 };

/* What it computes and reads. Device memory. */
struct kg_fused_call {
    enum kg_fused_op op;
    enum kg_precision activations;
    uint32_t n_rows, n_cols;
    float eps;
    bool wide; /* x of a norm, or the residual stream that is added to, is float32 */
    float limit, alpha, up_offset, cubic;
    const void *x;
    const float *norm_weight;                   /* NULL: nothing is normalised */
    struct kg_weight weight[KG_FUSED_MATRICES]; /* kg_fused_n_matrices of them */
    const float *bias[KG_FUSED_MATRICES];
    void *workspace;
};

const char *kg_fused_op_name(enum kg_fused_op op); /* "norm_qkv" */
uint32_t kg_fused_n_matrices(enum kg_fused_op op);
/* Results: (n_rows, rows of weight[i]) for i < n, of the precision. */
uint32_t kg_fused_n_results(enum kg_fused_op op);
enum kg_precision kg_fused_result_precision(const struct kg_fused_call *call);

/* What the operation had as args->scratch, each byte KG_FUSED_UNWRITTEN before. */
enum { KG_FUSED_UNWRITTEN = 0xFF };
struct kg_fused_scratch {
    void *data;
    uint64_t size_bytes;
};

/* By the back end's entry for the operation; y[0] of LINEAR_ADD holds the residual stream before. */
KG_WARN_UNUSED enum kg_status kg_fused_run(struct kg_op_device *d, const struct kg_fused_call *call,
                                           void *const y[KG_FUSED_MATRICES], struct kg_fused_scratch *scratch,
                                           struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_fused_run_apart(struct kg_op_device *d, const struct kg_fused_call *call,
                                                 void *const y[KG_FUSED_MATRICES], struct kg_error *err);

#endif
