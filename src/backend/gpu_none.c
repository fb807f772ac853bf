#include "backend/gpu.h"

enum kg_status kg_gpu_list(struct kg_gpu_info *gpus, size_t max, size_t *n, struct kg_error *err) {
    (void)gpus;
    (void)max;
    *n = 0;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "this build has no CUDA (configured without it, or nvcc was not found)");
}
