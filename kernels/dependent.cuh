/* Launches that begin while the one before them on the stream still runs (programmatic dependent launch, CUDA Programming
 * Guide; sm_90): a kernel that knows of it may read what no launch before it writes, such as weights, and then waits. */
#ifndef KIGO_KERNELS_DEPENDENT_CUH
#define KIGO_KERNELS_DEPENDENT_CUH

#include "kernels/cuda_backend.h"

/* Until the launches before this one are complete and what they wrote is there. Nothing that they read may be written, and
 * nothing that they write be read, before. */
static __device__ __forceinline__ void kg_dependency_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Once all blocks have said so, the next launch may begin, if it is one that waits. */
static __device__ __forceinline__ void kg_dependents_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Launches a kernel that calls kg_dependency_wait in every thread before it depends on anything. */
template <typename Params>
static inline enum kg_status kg_launch_dependent(const struct kg_cuda_backend *cuda, void (*kernel)(Params), dim3 grid,
                                                 unsigned n_threads, const Params &params, const char *what,
                                                 struct kg_error *err) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(n_threads);
    config.stream = cuda->stream;
    config.attrs = &attribute;
    config.numAttrs = cuda->compute_capability >= 90 ? 1 : 0;
    const cudaError_t code = cudaLaunchKernelEx(&config, kernel, params);
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, what, code);
}

#endif
