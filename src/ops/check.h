/* What the checks of operations share. */
#ifndef KIGO_OPS_CHECK_H
#define KIGO_OPS_CHECK_H

#include <kigo/engine.h>
#include <kigo/status.h>

/* Leaves the calling function with KG_ERR_USAGE unless the condition holds; the message names operation and value. */
#define KG_OP_REQUIRE(condition, ...)                                                                                  \
    do {                                                                                                               \
        if (!(condition)) return kg_fail(err, KG_ERR_USAGE, __VA_ARGS__);                                              \
    } while (0)

/* The cpu back end computes in f32 only: KG_ERR_UNSUPPORTED naming operation, what and the precision asked for. */
KG_WARN_UNUSED enum kg_status kg_cpu_require_f32(const char *op, const char *what, enum kg_precision precision,
                                                 struct kg_error *err);

#endif
