/* router and experts_combine (contracts in ops/): refused, by the same checks as on the cpu back end. */
#include "kernels/cuda_backend.h"

static enum kg_status refuse(const char *op, struct kg_error *err) {
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: the cuda back end does not have it", op);
}

extern "C" enum kg_status kg_cuda_router(struct kg_backend *, const struct kg_router_args *args, struct kg_error *err) {
    const enum kg_status status = kg_router_check(args, err);
    return status ? status : refuse("router", err);
}

extern "C" enum kg_status kg_cuda_experts_combine(struct kg_backend *, const struct kg_experts_combine_args *args,
                                                  struct kg_error *err) {
    const enum kg_status status = kg_experts_combine_check(args, err);
    return status ? status : refuse("experts_combine", err);
}
