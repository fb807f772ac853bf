/* The memory canaries: what a copy and a read of this card's memory reach, the roofline every timing is held against.
 *
 *     copy: to[i] = from[i]
 *     read: *check = sum_i from[i] modulo 2^64, words of 64 bits
 *
 * Threads take 16-byte pieces, neighbours next to each other. A block copies COPY_PIECES rounds of one dense range,
 * all loads before the stores; the grid covers the array. Reading keeps a fixed number of blocks on each
 * multiprocessor, every thread with READ_PIECES loads in flight. Integer addition modulo 2^64 does not depend on the
 * order of the atomics. */
#include "kernels/cuda_backend.h"

namespace {

constexpr unsigned THREADS = 256;
constexpr unsigned COPY_PIECES = 4, READ_PIECES = 4, READ_BLOCKS_PER_SM = 8;
static_assert(THREADS % 32 == 0, "the sum of a block is made of whole warps");

__global__ void __launch_bounds__(THREADS)
    copy_kernel(uint4 *__restrict__ to, const uint4 *__restrict__ from, uint64_t n_pieces) {
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * (THREADS * COPY_PIECES) + threadIdx.x;
    uint4 held[COPY_PIECES];
#pragma unroll
    for (unsigned i = 0; i < COPY_PIECES; i++)
        if (first + i * THREADS < n_pieces) held[i] = from[first + i * THREADS];
#pragma unroll
    for (unsigned i = 0; i < COPY_PIECES; i++)
        if (first + i * THREADS < n_pieces) to[first + i * THREADS] = held[i];
}

__device__ unsigned long long words_of(uint4 piece) {
    const unsigned long long low = (static_cast<unsigned long long>(piece.y) << 32) | piece.x;
    const unsigned long long high = (static_cast<unsigned long long>(piece.w) << 32) | piece.z;
    return low + high;
}

__global__ void __launch_bounds__(THREADS)
    read_kernel(const uint4 *__restrict__ from, uint64_t n_pieces, unsigned long long *check) {
    const uint64_t stride = static_cast<uint64_t>(gridDim.x) * THREADS;
    uint64_t at = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
    unsigned long long sum = 0;
    for (; at + (READ_PIECES - 1) * stride < n_pieces; at += READ_PIECES * stride) {
        uint4 held[READ_PIECES];
#pragma unroll
        for (unsigned i = 0; i < READ_PIECES; i++) held[i] = from[at + i * stride];
#pragma unroll
        for (unsigned i = 0; i < READ_PIECES; i++) sum += words_of(held[i]);
    }
    for (; at < n_pieces; at += stride) sum += words_of(from[at]);
    for (unsigned offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(check, sum);
}

} // namespace

enum kg_status kg_cuda_canary_copy(struct kg_backend *backend, void *to, const void *from, uint64_t size_bytes,
                                   struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    const uint64_t n_pieces = size_bytes / sizeof(uint4);
    const uint64_t per_block = THREADS * COPY_PIECES, n_blocks = (n_pieces + per_block - 1) / per_block;
    if (size_bytes % sizeof(uint4) != 0 || n_blocks == 0 || n_blocks > INT32_MAX)
        return kg_fail(err, KG_ERR_USAGE, "cuda: a canary of %llu bytes", static_cast<unsigned long long>(size_bytes));
    copy_kernel<<<static_cast<unsigned>(n_blocks), THREADS, 0, lock.cuda->stream>>>(
        static_cast<uint4 *>(to), static_cast<const uint4 *>(from), n_pieces);
    return kg_cuda_launched(err, "canary copy");
}

enum kg_status kg_cuda_canary_read(struct kg_backend *backend, const void *from, uint64_t size_bytes, void *check,
                                   struct kg_error *err) {
    const struct kg_cuda_held lock(backend);
    if (size_bytes % sizeof(uint4) != 0)
        return kg_fail(err, KG_ERR_USAGE, "cuda: a canary of %llu bytes", static_cast<unsigned long long>(size_bytes));
    const cudaError_t code = cudaMemsetAsync(check, 0, sizeof(unsigned long long), lock.cuda->stream);
    if (code != cudaSuccess) return kg_cuda_fail(err, "canary read", code);
    read_kernel<<<static_cast<unsigned>(lock.cuda->n_sms) * READ_BLOCKS_PER_SM, THREADS, 0, lock.cuda->stream>>>(
        static_cast<const uint4 *>(from), size_bytes / sizeof(uint4), static_cast<unsigned long long *>(check));
    return kg_cuda_launched(err, "canary read");
}
