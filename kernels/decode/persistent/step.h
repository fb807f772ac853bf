/* A decode step as one launch: see step.cu. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_STEP_H
#define KIGO_KERNELS_DECODE_PERSISTENT_STEP_H

#include "kernels/cuda_backend.h"
#include "kernels/decode/fusions.h"
#include "kernels/decode/persistent/program.h"

/* The program of a plan (malloc'ed), complete but for its memory; false, with the reason, if the plan is none for the
 * kernel. True with *program unchanged if there is no host memory. */
bool kg_cuda_persistent_fits(struct kg_cuda_backend *cuda, const struct kg_plan *plan,
                             struct kg_persistent_program **program, struct kg_why *why);

/* Device memory that the program needs; place clears it and puts packets and layers there (enqueued). */
uint64_t kg_cuda_persistent_bytes(const struct kg_persistent_program *program);
enum kg_status kg_cuda_persistent_place(struct kg_cuda_backend *cuda, const struct kg_plan *plan, void *memory,
                                        struct kg_persistent_program *program, struct kg_error *err);

/* The instruction that begins at a node of such a plan, and of how many nodes it is. */
const char *kg_cuda_persistent_instruction(const struct kg_plan *plan, uint32_t first, uint32_t *n);
const char *kg_cuda_persistent_name(uint32_t i); /* of all instructions there are; NULL past the last */

/* Sets program->shared of a program that is complete otherwise, and gives the bytes of a block's shared memory. */
uint32_t kg_cuda_persistent_map(struct kg_persistent_program *program);

/* Enqueues the step of a token; id and rope_factors as in struct kg_step_args. */
enum kg_status kg_cuda_persistent_step(struct kg_cuda_backend *cuda, struct kg_persistent_program *program, int32_t id,
                                       uint32_t position, const float *rope_factors, struct kg_error *err);

#endif
