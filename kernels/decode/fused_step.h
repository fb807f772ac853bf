/* A token's walk in few launches: see step_walk.cu. */
#ifndef KIGO_KERNELS_DECODE_FUSED_STEP_H
#define KIGO_KERNELS_DECODE_FUSED_STEP_H

#include "kernels/cuda_backend.h"

/* Whether the walk below is one for this table, model and precision. */
bool kg_cuda_step_can_walk(const struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args);

/* What args->walk does, from buffers->ids[0] and cuda->step to the logits. */
enum kg_status kg_cuda_step_walk(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                                 struct kg_error *err);

#endif
