/* Repacks MXFP4 weights in place into the layout of layout.cuh. Values do not change.
 *
 * Map: a block of threads has a group of 16 rows. It copies the group to shared memory and writes it back in the new
 * order. A block of zeros gets the scale 1, whatever its file gives it, so that its scale does not restrict the kernel.
 */
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/mxfp4/layout.cuh"
#include "kernels/preload.h"
#include <cstdlib>

KG_PRELOADED(mxfp4_repack, KG_NEXT_TOKENS)

namespace kg_mxfp4 {

enum {
    REPACK_THREADS = 256,
    RANGES_AT_ONCE = 64,
    FILE_BLOCK_COLS = 32,
    FILE_BLOCK_BYTES = 17,
    NAN_SCALE = 255,
    UNIT_SCALE = 127
};

struct scale_range {
    uint32_t least, most;
};

/* Code of column c of a file block. */
static __device__ __forceinline__ uint32_t code_at(const uint8_t *block, uint32_t c) {
    return block[1 + c % 16] >> (c < 16 ? 0 : 4) & 0xF;
}

/* A lane's word: columns c and c + 1 of the file block, + 0, 8, 16, 24. */
static __device__ uint32_t word_at(const uint8_t *block, uint32_t c) {
    uint32_t pairs[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t pair = code_at(block, c + 8 * i) | code_at(block, c + 1 + 8 * i) << 16;
        pairs[i] = (pair & 0x00080008) << 12 | (pair & 0x00070007) << 9;
    }
    return interleave(pairs);
}

/* A block of zeros has the scale 1. */
static __device__ uint32_t repacked_scale(const uint8_t *block) {
    constexpr uint32_t MAGNITUDES = 0x77;
    uint32_t any = 0;
    for (int i = 1; i < FILE_BLOCK_BYTES; i++) any |= block[i] & MAGNITUDES;
    return any || block[0] == NAN_SCALE ? block[0] : (uint32_t)UNIT_SCALE;
}

/* Smallest and largest scale byte of n_blocks file blocks. Map: a thread a block. */
static __global__ void __launch_bounds__(REPACK_THREADS)
    scan_kernel(const uint8_t *weight, size_t n_blocks, struct scale_range *range) {
    const size_t i = (size_t)blockIdx.x * REPACK_THREADS + threadIdx.x;
    const uint32_t e = i < n_blocks ? repacked_scale(weight + i * FILE_BLOCK_BYTES) : (uint32_t)UNIT_SCALE;
    const uint32_t least = __reduce_min_sync(0xFFFFFFFFu, e), most = __reduce_max_sync(0xFFFFFFFFu, e);
    if (threadIdx.x % 32 != 0) return;
    atomicMin(&range->least, least);
    atomicMax(&range->most, most);
}

/* Grid: groups. */
static __global__ void __launch_bounds__(REPACK_THREADS) repack_kernel(uint8_t *weight, uint32_t n_cols) {
    extern __shared__ uint4 rows[];
    const uint32_t n_tiles = n_cols / TILE_COLS, blocks_of_row = n_cols / FILE_BLOCK_COLS;
    const uint32_t group_bytes = n_tiles * (CODES_BYTES + SCALES_BYTES);
    uint8_t *group = weight + (size_t)blockIdx.x * group_bytes;
    for (uint32_t i = threadIdx.x; i < group_bytes / sizeof(uint4); i += REPACK_THREADS)
        rows[i] = reinterpret_cast<const uint4 *>(group)[i];
    __syncthreads(); /* write-after-read: the group is in shared memory */
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(rows);
    const auto block_of = [&](uint32_t tile, uint32_t g, uint32_t word) {
        const uint32_t row = g + word % 2 * 8, block = tile * 2 + word / 2;
        return bytes + (size_t)(row * blocks_of_row + block) * FILE_BLOCK_BYTES;
    };
    for (uint32_t i = threadIdx.x; i < n_tiles * (CODES_BYTES / 4); i += REPACK_THREADS) {
        const uint32_t word = i % 4, lane = i / 4 % 32, tile = i / (CODES_BYTES / 4);
        reinterpret_cast<uint32_t *>(group)[i] = word_at(block_of(tile, lane / 4, word), lane % 4 * 2);
    }
    uint8_t *scales = group + (size_t)n_tiles * CODES_BYTES;
    for (uint32_t i = threadIdx.x; i < n_tiles * SCALES_BYTES; i += REPACK_THREADS)
        scales[i] = (uint8_t)repacked_scale(block_of(i / SCALES_BYTES, i / 4 % 8, i % 4));
}

} // namespace kg_mxfp4

const struct kg_mxfp4_range *kg_mxfp4_repacked_range(const struct kg_cuda_backend *cuda,
                                                     const struct kg_weight *weight) {
    const char *data = static_cast<const char *>(weight->data);
    size_t low = 0, high = weight->dtype == KG_DTYPE_MXFP4 ? cuda->n_repacked : 0;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct kg_mxfp4_range *r = &cuda->repacked[middle];
        if (data >= r->begin && data < r->end) return r;
        if (data < r->begin) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

void kg_mxfp4_drop_ranges(struct kg_cuda_backend *cuda, const void *data, uint64_t size_bytes) {
    const char *begin = static_cast<const char *>(data), *end = begin + size_bytes;
    size_t kept = 0;
    for (size_t i = 0; i < cuda->n_repacked; i++)
        if (cuda->repacked[i].begin < begin || cuda->repacked[i].begin >= end)
            cuda->repacked[kept++] = cuda->repacked[i];
    cuda->n_repacked = kept;
}

static enum kg_status add_range(struct kg_cuda_backend *cuda, const struct kg_mxfp4_range &range,
                                struct kg_error *err) {
    if (cuda->n_repacked % kg_mxfp4::RANGES_AT_ONCE == 0) {
        void *more = realloc(cuda->repacked, (cuda->n_repacked + kg_mxfp4::RANGES_AT_ONCE) * sizeof range);
        if (!more) return kg_fail(err, KG_ERR_NO_MEMORY, "cuda: no host memory for the list of repacked weights");
        cuda->repacked = static_cast<struct kg_mxfp4_range *>(more);
    }
    size_t at = cuda->n_repacked++;
    for (; at > 0 && cuda->repacked[at - 1].begin > range.begin; at--) cuda->repacked[at] = cuda->repacked[at - 1];
    cuda->repacked[at] = range;
    return KG_OK;
}

/* Synchronises with the stream. */
static enum kg_status scan(const struct kg_cuda_backend *cuda, const uint8_t *weight, size_t n_blocks,
                           kg_mxfp4::scale_range *range, struct kg_error *err) {
    using namespace kg_mxfp4;
    scale_range *there = NULL;
    *range = { UINT32_MAX, 0 };
    cudaError_t code = cudaMalloc(&there, sizeof *there);
    if (code != cudaSuccess) return kg_cuda_fail(err, "mxfp4: a weight's scales", code);
    code = cudaMemcpyAsync(there, range, sizeof *range, cudaMemcpyHostToDevice, cuda->stream);
    if (code == cudaSuccess) {
        scan_kernel<<<(uint32_t)((n_blocks + REPACK_THREADS - 1) / REPACK_THREADS), REPACK_THREADS, 0, cuda->stream>>>(
            weight, n_blocks, there);
        code = cudaGetLastError();
    }
    if (code == cudaSuccess) code = cudaMemcpyAsync(range, there, sizeof *range, cudaMemcpyDeviceToHost, cuda->stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(cuda->stream);
    const cudaError_t freed = cudaFree(there);
    if (code == cudaSuccess) code = freed;
    return code == cudaSuccess ? KG_OK : kg_cuda_fail(err, "mxfp4: a weight's scales", code);
}

enum kg_status kg_cuda_repack_weight(struct kg_backend *backend, const struct kg_weight *weight, uint32_t n_matrices,
                                     struct kg_error *err) {
    using namespace kg_mxfp4;
    struct kg_cuda_backend *cuda = kg_cuda_of(backend);
    if (weight->dtype != KG_DTYPE_MXFP4 || cuda->compute_capability != 90 || kg_mxfp4_repacked_range(cuda, weight))
        return KG_OK;
    const uint64_t row_bytes = kg_weight_row_bytes(weight), group_bytes = GROUP_ROWS * row_bytes;
    if (weight->n_rows / n_matrices % GROUP_ROWS || weight->n_cols % TILE_COLS || group_bytes > cuda->shared_bytes ||
        reinterpret_cast<uintptr_t>(weight->data) % sizeof(uint4) != 0)
        return KG_OK;
    uint8_t *data = static_cast<uint8_t *>(const_cast<void *>(weight->data));
    const char *begin = static_cast<const char *>(weight->data), *end = begin + weight->n_rows * row_bytes;
    scale_range scales;
    enum kg_status status = scan(cuda, data, weight->n_rows * row_bytes / FILE_BLOCK_BYTES, &scales, err);
    if (status) return status;
    if (scales.least == 0 || scales.most == NAN_SCALE) return KG_OK;
    const cudaError_t code =
        cudaFuncSetAttribute(repack_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)group_bytes);
    if (code != cudaSuccess) return kg_cuda_fail(err, "mxfp4: repacking weights", code);
    status = add_range(cuda, { begin, end, scales.least >= LEAST_F16_SCALE && scales.most <= MOST_F16_SCALE }, err);
    if (status) return status;
    repack_kernel<<<weight->n_rows / GROUP_ROWS, REPACK_THREADS, group_bytes, cuda->stream>>>(data, weight->n_cols);
    status = kg_cuda_launched(err, "mxfp4: repacking weights");
    if (status) kg_mxfp4_drop_ranges(cuda, begin, 1);
    return status;
}
