/* The table of fusions: sequences of a plan's nodes that one or a few launches take together, for one row. */
#ifndef KIGO_KERNELS_DECODE_FUSIONS_H
#define KIGO_KERNELS_DECODE_FUSIONS_H

#include "kernels/decode/lower.h"

enum { KG_FUSION_NODES = 12 };

/* Why a fusion is not taken, for people. */
struct kg_why {
    char text[128];
};

struct kg_fusion {
    const char *name;
    uint32_t n; /* nodes */
    enum kg_op ops[KG_FUSION_NODES];
    uint32_t written; /* bit i: what node i writes is in memory afterwards */
    /* Whether the nodes at n are wired as the kernel has them, and of shapes and types that it takes. */
    bool (*fits)(struct kg_cuda_backend *cuda, struct kg_cuda_lowered *lowered, const struct kg_node *n,
                 struct kg_why *why);
    enum kg_status (*launch)(struct kg_cuda_backend *cuda, const struct kg_cuda_lowered *lowered,
                             const struct kg_node *n, const struct kg_run *run, struct kg_error *err);
};

extern const struct kg_fusion kg_fusions[];
extern const uint32_t kg_n_fusions;

/* y = x + product: linear, add. */
bool kg_residual_is_wired(const struct kg_node *n);
/* q, k, v of a norm, rotated and cached: rmsnorm, linear, linear, linear, rope, rope, kv_write. */
bool kg_qkv_is_wired(const struct kg_node *n);
/* swiglu of a norm: rmsnorm, linear, linear, swiglu. */
bool kg_gated_is_wired(const struct kg_node *n);

#endif
