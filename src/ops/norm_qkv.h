/* norm_qkv: RMSNorm, then the products of one row with three matrices, those of queries, keys and values.
 *
 *     n[r][i] = x[r][i] / sqrt(mean_j x[r][j]^2 + eps) * norm_weight[i]
 *     y[p][r][o] = sum_i n[r][i] * weight[p][o][i] + bias[p][o],    p = 0, 1, 2 for q, k, v
 *
 * It stands for rmsnorm and three linears, of which it stores y alone. n is not rounded on the CPU; on the GPU it is
 * rounded to the activations' precision where there are more rows than one, and where the row's kernel does not take
 * the weights. The weights may have any block format, each its own; y overlaps no input and no other y. */
#ifndef KIGO_OPS_NORM_QKV_H
#define KIGO_OPS_NORM_QKV_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include "ops/weight.h"
#include <stdbool.h>
#include <stdint.h>

enum { KG_NORM_QKV_PRODUCTS = 3 };

struct kg_norm_qkv_args {
    enum kg_precision activations;
    const void *x;                                 /* (n_rows, n_cols) */
    const float *norm_weight;                      /* (n_cols) */
    struct kg_weight weight[KG_NORM_QKV_PRODUCTS]; /* (n_out of each, n_cols) */
    const float *bias[KG_NORM_QKV_PRODUCTS];       /* (n_out of each); NULL: none */
    void *y[KG_NORM_QKV_PRODUCTS];                 /* (n_rows, n_out of each) */
    uint32_t n_rows, n_cols;
    float eps;       /* >= 0 */
    bool wide_input; /* x is float32 even if activations are not */
    void *scratch;   /* kg_norm_qkv_scratch_bytes, on 256 bytes; the cpu back end needs none: NULL */
    void *workspace; /* as linear's, for the widest of the products */
};

/* Room for n. */
uint64_t kg_norm_qkv_scratch_bytes(const struct kg_norm_qkv_args *args);

KG_WARN_UNUSED enum kg_status kg_norm_qkv_check(const struct kg_norm_qkv_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_norm_qkv(struct kg_thread_pool *pool, const struct kg_norm_qkv_args *args,
                                              struct kg_error *err);

#endif
