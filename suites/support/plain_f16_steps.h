/* The operations of a plain FP16 back end (plain_f16.h) that are several nodes of a plan in one: those nodes, one after
 * the other. */
#ifndef KIGO_SUITES_PLAIN_F16_STEPS_H
#define KIGO_SUITES_PLAIN_F16_STEPS_H

#include "ops/ops.h"

struct style;
/* What the nodes are run by. */
struct plain_f16_steps {
    const struct style *style;
    enum kg_status (*rmsnorm)(const struct style *s, const struct kg_rmsnorm_args *args, struct kg_error *err);
    enum kg_status (*linear)(const struct style *s, const struct kg_linear_args *args, struct kg_error *err);
    enum kg_status (*swiglu)(const struct style *s, const struct kg_swiglu_args *args, struct kg_error *err);
    enum kg_status (*add)(const struct style *s, const struct kg_add_args *args, struct kg_error *err);
};

KG_WARN_UNUSED enum kg_status kg_plain_f16_norm_qkv(const struct plain_f16_steps *s,
                                                    const struct kg_norm_qkv_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_plain_f16_norm_swiglu(const struct plain_f16_steps *s,
                                                       const struct kg_norm_swiglu_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_plain_f16_linear_add(const struct plain_f16_steps *s,
                                                      const struct kg_linear_add_args *args, struct kg_error *err);

#endif
