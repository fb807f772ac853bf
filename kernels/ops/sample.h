/* Draws on the GPU: see sample.cu and mailbox.cu. */
#ifndef KIGO_KERNELS_OPS_SAMPLE_H
#define KIGO_KERNELS_OPS_SAMPLE_H

#include "kernels/cuda_backend.h"

/* kg_backend_ops.draws of the table. */
extern "C" const struct kg_draw_ops kg_cuda_draw_ops;

/* Enqueues the draw; with the lock held. */
enum kg_status kg_cuda_sample(struct kg_backend *backend, const struct kg_sample_args *args, struct kg_error *err);

/* As the plans of operations. */
enum kg_status kg_cuda_sample_plan(const struct kg_session_plan *plan, uint64_t *workspace_bytes, struct kg_error *err);

#endif
