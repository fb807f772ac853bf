/* The GPUs the CUDA runtime sees (contract in src/backend/gpu.h). Host code only. */
#include "backend/gpu.h"
#include <cstdio>
#include <cstring>
#include <cuda_runtime_api.h>

static enum kg_status fail_cuda(struct kg_error *err, const char *what, cudaError_t code) {
    return kg_fail(err, KG_ERR_UNSUPPORTED, "no CUDA device: %s: %s", what, cudaGetErrorString(code));
}

static cudaError_t describe(int device, struct kg_gpu_info *info) {
    cudaDeviceProp properties;
    cudaError_t code = cudaGetDeviceProperties(&properties, device);
    if (code == cudaSuccess) code = cudaDriverGetVersion(&info->driver_version);
    if (code == cudaSuccess) code = cudaRuntimeGetVersion(&info->runtime_version);
    if (code != cudaSuccess) return code;
    snprintf(info->name, sizeof info->name, "%s", properties.name);
    static_assert(sizeof info->uuid == sizeof properties.uuid, "a UUID is 16 bytes");
    memcpy(info->uuid, &properties.uuid, sizeof info->uuid);
    info->compute_capability = 10 * properties.major + properties.minor;
    info->n_sms = properties.multiProcessorCount;
    info->l2_bytes = properties.l2CacheSize;
    info->memory_bytes = properties.totalGlobalMem;
    info->ecc_enabled = properties.ECCEnabled;
    return cudaSuccess;
}

extern "C" enum kg_status kg_gpu_list(struct kg_gpu_info *gpus, size_t max, size_t *n, struct kg_error *err) {
    *n = 0;
    int n_devices = 0;
    cudaError_t code = cudaGetDeviceCount(&n_devices);
    if (code != cudaSuccess) return fail_cuda(err, "cudaGetDeviceCount", code);
    const size_t n_listed = (size_t)n_devices < max ? (size_t)n_devices : max;
    for (size_t i = 0; i < n_listed; i++) {
        code = describe((int)i, &gpus[i]);
        if (code != cudaSuccess) return fail_cuda(err, "cudaGetDeviceProperties", code);
    }
    *n = n_listed;
    return KG_OK;
}
