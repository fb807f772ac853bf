/* Stands where the CUDA back end would in a build without CUDA: every attempt to open it is refused. */
#include "backend/backend.h"

static enum kg_status refuse(const struct kg_backend_ops *ops, int n_threads, struct kg_backend **backend,
                             struct kg_error *err) {
    (void)ops, (void)n_threads, (void)backend;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "this build has no CUDA back end");
}

const struct kg_backend_ops kg_cuda_ops = { .name = "cuda", .open = refuse };
