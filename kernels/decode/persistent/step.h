/* A decode step as one launch: see step.cu. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_STEP_H
#define KIGO_KERNELS_DECODE_PERSISTENT_STEP_H

#include "kernels/cuda_backend.h"
#include "kernels/decode/persistent/program.h"

/* Bytes of a session's workspace from `offset` (a multiple of 256) on for the words of its steps; 0 if its steps cannot
 * run so: the precisions must be all f16 or all f32, the device have compute capability 9.0, layers be of the parts
 * that program.h lists. */
uint64_t kg_cuda_persistent_bytes(const struct kg_cuda_backend *cuda, const struct kg_session_plan *plan);

/* The program of a session (malloc'ed), and its words cleared. *program is NULL if the step is not one for it (matrices
 * of other formats than the activations', shapes past program.h's limits, a table with replaced entries). words: where
 * the bytes above begin. */
enum kg_status kg_cuda_persistent_create(struct kg_cuda_backend *cuda, const struct kg_decode_step_args *args,
                                         void *words, struct kg_persistent_program **program, struct kg_error *err);

/* Sets program->shared of a program that is complete otherwise, and gives the bytes of a block's shared memory. */
uint32_t kg_cuda_persistent_map(struct kg_persistent_program *program);

/* Enqueues the step of a token; id and rope_factors as in struct kg_decode_step_args. */
enum kg_status kg_cuda_persistent_step(struct kg_cuda_backend *cuda, struct kg_persistent_program *program, int32_t id,
                                       uint32_t position, const float *rope_factors, struct kg_error *err);

#endif
