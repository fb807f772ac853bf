/* Timing (kernels/timing.cu) and canaries (kernels/ops/canary.cu) of the CUDA back end; contracts in backend/measure.h.
 */
#ifndef KIGO_KERNELS_MEASURE_H
#define KIGO_KERNELS_MEASURE_H

#include "kernels/cuda_backend.h"

extern "C" {
#include "backend/measure.h"
}

/* kg_backend_ops.measure of the table. */
extern "C" const struct kg_measure_ops kg_cuda_measure_ops;

extern "C" enum kg_status kg_cuda_canary_copy(struct kg_backend *backend, void *to, const void *from,
                                              uint64_t size_bytes, struct kg_error *err);
extern "C" enum kg_status kg_cuda_canary_read(struct kg_backend *backend, const void *from, uint64_t size_bytes,
                                              void *check, struct kg_error *err);

#endif
