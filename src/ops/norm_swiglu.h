/* norm_swiglu: RMSNorm, the products of one row with the matrices of gate and up, and SwiGLU of both.
 *
 *     n[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * norm_weight[i]
 *     gate[r][o] = sum_i n[r][i] * weight[0][o][i] + bias[0][o], up[r][o] = the same of weight[1] and bias[1]
 *     y[r][o] = swiglu(gate[r][o], up[r][o])
 *
 * with swiglu's limit, alpha, up_offset and cubic (ops/swiglu.h). It stands for rmsnorm, two linears and swiglu, of
 * which it stores y alone. n, gate and up are not rounded on the CPU; on the GPU they are rounded to the activations'
 * precision where no kernel takes the steps together, and n wherever there are more rows than one. The weights may have
 * any block format; y overlaps no input. */
#ifndef KIGO_OPS_NORM_SWIGLU_H
#define KIGO_OPS_NORM_SWIGLU_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include "ops/weight.h"
#include <stdbool.h>
#include <stdint.h>

enum { KG_NORM_SWIGLU_PRODUCTS = 2 };

struct kg_norm_swiglu_args {
    enum kg_precision activations;
    const void *x;                                    /* (n_rows, n_cols) */
    const float *norm_weight;                         /* (n_cols) */
    struct kg_weight weight[KG_NORM_SWIGLU_PRODUCTS]; /* of gate and up: (n_out, n_cols) */
    const float *bias[KG_NORM_SWIGLU_PRODUCTS];       /* (n_out); NULL: none */
    void *y;                                          /* (n_rows, n_out) */
    uint32_t n_rows, n_cols;
    float eps;                            /* >= 0 */
    float limit, alpha, up_offset, cubic; /* swiglu's */
    bool wide_input;                      /* x is float32 even if activations are not */
    void *scratch;   /* kg_norm_swiglu_scratch_bytes, on 256 bytes; the cpu back end needs none: NULL */
    void *workspace; /* as linear's */
};

/* Room for n, gate and up. */
uint64_t kg_norm_swiglu_scratch_bytes(const struct kg_norm_swiglu_args *args);

KG_WARN_UNUSED enum kg_status kg_norm_swiglu_check(const struct kg_norm_swiglu_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_norm_swiglu(struct kg_thread_pool *pool, const struct kg_norm_swiglu_args *args,
                                                 struct kg_error *err);

#endif
