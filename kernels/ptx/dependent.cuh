/* Launches that begin while the one before them on the stream still runs (programmatic dependent launch, CUDA
 * Programming Guide; sm_90): a kernel that knows of it may read what no launch before it writes, such as weights, and
 * then waits. */
#ifndef KIGO_KERNELS_PTX_DEPENDENT_CUH
#define KIGO_KERNELS_PTX_DEPENDENT_CUH

#include "kernels/cuda_backend.h"
#include "kernels/ptx/compiler.cuh"

/* Until the launches before this one are complete and what they wrote is visible. Nothing that they read may be
 * written, and nothing that they write be read, before. */
static __device__ __forceinline__ void kg_dependency_wait() {
    if constexpr (KG_SM_90) asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* Once all blocks have called it, the next launch may begin, if it is one that waits. */
static __device__ __forceinline__ void kg_dependents_start() {
    if constexpr (KG_SM_90) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

constexpr unsigned KG_PORTABLE_CLUSTER = 8;

/* Launches a kernel that calls kg_dependency_wait in every thread before it depends on anything; with dynamic shared
 * memory, in clusters of so many blocks (more than 1: sm_90). Launches run beside one another only where they divide a
 * multiprocessor's memory alike: by `carveout`, the percentage that is shared memory and no L1. */
template <typename Params>
static inline enum kg_status kg_launch_dependent(const struct kg_cuda_backend *cuda, void (*kernel)(Params), dim3 grid,
                                                 unsigned n_threads, const Params &params, const char *what,
                                                 struct kg_error *err, size_t shared_bytes = 0, unsigned cluster = 1,
                                                 int carveout = cudaSharedmemCarveoutMaxShared) {
    constexpr size_t UNASKED_SHARED_BYTES = 8 * 1024; /* beside 40 KiB of static memory, a kernel need not ask */
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim = { cluster, 1, 1 };
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(n_threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = cuda->stream;
    config.attrs = attributes;
    config.numAttrs = cuda->compute_capability < 90 ? 0 : cluster > 1 ? 2 : 1;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carveout);
    if (code == cudaSuccess && shared_bytes > UNASKED_SHARED_BYTES)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (code == cudaSuccess && cluster > KG_PORTABLE_CLUSTER)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (code == cudaSuccess) code = cudaLaunchKernelEx(&config, kernel, params);
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, what, code);
}

/* Whether there is code for clusters on this device: code for 9.0 is for 9.0 alone. */
static inline bool kg_has_clusters(const struct kg_cuda_backend *cuda) {
    constexpr int ARCHITECTURES[] = { __CUDA_ARCH_LIST__ };
    if (cuda->compute_capability != 90) return false;
    for (const int architecture : ARCHITECTURES)
        if (architecture == 900) return true;
    return false;
}

/* Clusters of `cluster` blocks of such a kernel that the device runs at the same time. Asks the driver. */
template <typename Params>
static inline uint32_t kg_clusters_at_once(void (*kernel)(Params), unsigned n_threads, size_t shared_bytes,
                                           unsigned cluster) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = { cluster, 1, 1 };
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(cluster);
    config.blockDim = dim3(n_threads);
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int n = 0;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (code == cudaSuccess && cluster > KG_PORTABLE_CLUSTER)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (code == cudaSuccess) code = cudaOccupancyMaxActiveClusters(&n, kernel, &config);
    if (code != cudaSuccess) (void)cudaGetLastError();
    return code == cudaSuccess && n > 0 ? (uint32_t)n : 1;
}

#endif
