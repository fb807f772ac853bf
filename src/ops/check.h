/* Shared by the argument checks of the operations. */
#ifndef KIGO_OPS_CHECK_H
#define KIGO_OPS_CHECK_H

#include <kigo/ops.h>
#include <kigo/status.h>

/* Returns KG_ERR_USAGE from the calling function unless the condition holds; the message names operation and value. */
#define KG_OP_REQUIRE(condition, ...)                                                                                  \
    do {                                                                                                               \
        if (!(condition)) return kg_fail(err, KG_ERR_USAGE, __VA_ARGS__);                                              \
    } while (0)

/* KG_ERR_UNSUPPORTED unless the precision is f32, the only one of the cpu back end; names op, what and the
 * precision. */
KG_WARN_UNUSED enum kg_status kg_cpu_require_f32(const char *op, const char *what, enum kg_precision precision,
                                                 struct kg_error *err);

#endif
