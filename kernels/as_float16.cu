/* The largest magnitude of a weight, then the weight itself (contract in as_float16.h). A thread to vectors of 8. */
#include "kernels/as_float16.h"
#include "kernels/block/bfloat16.cuh"
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/preload.h"
#include <algorithm>

KG_PRELOADED(as_float16, KG_NEXT_TOKENS)

namespace {

/* Magnitudes as bfloat16's bits, which are in their order: 2^-7, and 65280, the last before 65536. */
enum { THREADS = 256, BLOCKS_OF_SM = 8, LEAST_LARGEST = 0x3C00, MOST_LARGEST = 0x477F };

using vector = kg_raw_vector<__nv_bfloat16>;

__global__ __launch_bounds__(THREADS) void largest_kernel(const __nv_bfloat16 *w, size_t n_vectors, uint32_t *largest) {
    uint32_t most = 0;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n_vectors; i += (size_t)gridDim.x * THREADS) {
        vector v;
        v.load(w + i * KG_VECTOR);
        const uint32_t words[] = { v.bits.x, v.bits.y, v.bits.z, v.bits.w };
#pragma unroll
        for (const uint32_t word : words) most = max(most, max(word & 0x7FFF, word >> 16 & 0x7FFF));
    }
    most = __reduce_max_sync(0xFFFFFFFFu, most);
    if (threadIdx.x % KG_WARP == 0) atomicMax(largest, most);
}

/* In place: a thread writes the vector that it has read. */
__global__ __launch_bounds__(THREADS) void as_float16_kernel(void *w, size_t n_vectors) {
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n_vectors; i += (size_t)gridDim.x * THREADS) {
        vector v;
        float x[KG_VECTOR];
        v.load(static_cast<const __nv_bfloat16 *>(w) + i * KG_VECTOR);
        v.to_floats(x);
        kg_store_vector(static_cast<__half *>(w) + i * KG_VECTOR, x);
    }
}

uint32_t blocks_for(const struct kg_cuda_backend *cuda, size_t n_vectors) {
    return (uint32_t)std::min<size_t>((n_vectors + THREADS - 1) / THREADS, (size_t)cuda->n_sms * BLOCKS_OF_SM);
}

enum kg_status find_largest(const struct kg_cuda_backend *cuda, const void *w, size_t n_vectors, uint32_t *largest,
                            struct kg_error *err) {
    static const char WHAT[] = "a weight's largest value";
    uint32_t *there = NULL;
    cudaError_t code = cudaMalloc(&there, sizeof *there);
    if (code != cudaSuccess) return kg_cuda_fail(err, WHAT, code);
    code = cudaMemsetAsync(there, 0, sizeof *there, cuda->stream);
    if (code == cudaSuccess) {
        largest_kernel<<<blocks_for(cuda, n_vectors), THREADS, 0, cuda->stream>>>(static_cast<const __nv_bfloat16 *>(w),
                                                                                  n_vectors, there);
        code = cudaGetLastError();
    }
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(largest, there, sizeof *largest, cudaMemcpyDeviceToHost, cuda->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->stream);
    const cudaError_t freed = cudaFree(there);
    if (code == cudaSuccess) code = freed;
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, WHAT, code);
}

} // namespace

enum kg_status kg_cuda_weight_as_float16(struct kg_cuda_backend *cuda, struct kg_weight *weight, struct kg_error *err) {
    const size_t n = (size_t)weight->n_rows * weight->n_cols, n_vectors = n / KG_VECTOR;
    if (weight->dtype != KG_DTYPE_BF16 || n == 0 || n % KG_VECTOR != 0 || !kg_vector_aligned(weight->data))
        return KG_OK;
    uint32_t largest;
    enum kg_status status = find_largest(cuda, weight->data, n_vectors, &largest, err);
    if (status || largest < LEAST_LARGEST || largest > MOST_LARGEST) return status;
    as_float16_kernel<<<blocks_for(cuda, n_vectors), THREADS, 0, cuda->stream>>>(const_cast<void *>(weight->data),
                                                                                 n_vectors);
    status = kg_cuda_launched(err, "weights as float16");
    if (!status) weight->dtype = KG_DTYPE_F16;
    return status;
}
