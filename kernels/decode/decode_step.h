/* One token in one launch of a kernel or of a graph: see decode_step.cu. */
#ifndef KIGO_KERNELS_DECODE_DECODE_STEP_H
#define KIGO_KERNELS_DECODE_DECODE_STEP_H

#include "kernels/cuda_backend.h"

/* Enqueues the step; with the lock held. */
enum kg_status kg_cuda_decode_step(struct kg_backend *backend, const struct kg_decode_step_args *args,
                                   struct kg_error *err);

/* Forgets the graphs that use a block of memory about to be freed; all of them for NULL. */
void kg_cuda_graphs_drop(struct kg_cuda_backend *cuda, const void *block);

#endif
