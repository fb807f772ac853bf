/* The kernels of a file, loaded ahead: CUDA loads a kernel when it is first launched, which takes a first token's 15 to
 * 20 kernels about a millisecond each. A thread does so beside the loading of a model.
 *
 * A file whose kernels a first token may need says KG_PRELOADED(name, stage) once; name is not otherwise used in it. */
#ifndef KIGO_KERNELS_PRELOAD_H
#define KIGO_KERNELS_PRELOAD_H

#include "kernels/cuda_backend.h"

/* What is loaded first: a small file's load ends before the thread does. */
enum kg_preload_stage {
    KG_FIRST_TOKEN, /* a short prompt of most models */
    KG_NEXT_TOKENS, /* their decode, or such a prompt where weights are blocks */
    KG_SOME_PROMPTS /* long ones, or of some architectures */
};

/* A kernel of the file, which leads to its module. Made by static constructors, never freed. */
struct kg_preloaded_file {
    const void *kernel;
    enum kg_preload_stage stage;
    const struct kg_preloaded_file *next;
    kg_preloaded_file(const void *of_file, enum kg_preload_stage at_stage);
};

#define KG_PRELOADED(name, stage)                                                                                      \
    static __global__ void name##_preloaded_kernel() {                                                                 \
    }                                                                                                                  \
    static const kg_preloaded_file name##_preloaded(reinterpret_cast<const void *>(name##_preloaded_kernel), stage);

/* Begins on a thread, unless it has begun for this device in this process. A kernel that cannot be loaded is left for
 * its launch. */
void kg_preload_begin(struct kg_cuda_backend *cuda);

/* Waits for the thread. */
void kg_preload_end(struct kg_cuda_backend *cuda);

/* Waits for the thread, and counts the kernels of all such files. It loads none; the files' modules, which it asks,
 * are then there. KG_ERR_UNSUPPORTED if the driver is older than CUDA 12.4. */
enum kg_status kg_preload_count(struct kg_cuda_backend *cuda, struct kg_kernels_ahead *kernels, struct kg_error *err);

#endif
