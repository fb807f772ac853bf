#include "ops/check.h"

enum kg_status kg_cpu_require_f32(const char *op, const char *what, enum kg_precision precision, struct kg_error *err) {
    if (precision == KG_PRECISION_F32) return KG_OK;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: the cpu back end has no %s %s, only f32", op,
                   kg_precision_name(precision), what);
}
