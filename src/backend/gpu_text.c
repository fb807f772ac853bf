#include "backend/gpu.h"
#include "base/say.h"

void kg_gpu_put(const struct kg_gpu_info *gpu, size_t number, struct kg_buffer *out) {
    kg_text_printf(
        out, "cuda  %zu: %s, %.1f GiB, compute capability %d.%d, %d multiprocessors, driver for CUDA %d.%d\n", number,
        gpu->name, (double)gpu->memory_bytes / (1024.0 * 1024 * 1024), gpu->compute_capability / 10,
        gpu->compute_capability % 10, gpu->n_sms, gpu->driver_version / 1000, gpu->driver_version % 1000 / 10);
}
