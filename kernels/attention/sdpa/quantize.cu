/* sdpa_quantize: halves to E4M3 or int8 with a scale a head (contract in ops/sdpa.h).
 *
 *     scale[b][h] = max |x[b][h]| / 448, of int8 127 (1 if that is 0),    y = e4m3 or int8 (x / scale)
 *
 * x (n_batch, n_heads, n_rows, head_dim) halves, y the same of bytes, any strides. Two kernels over the same grid, a
 * block CHUNK vectors of a head (8 elements; 1 where rows or strides are not aligned): the first leaves the largest
 * quotient of the head in scale[b][h], the second divides by it. Dividing keeps order, so that the largest of
 * the blocks' quotients is the quotient of the head's largest, and a maximum is the same in any order: the same bits
 * each time, and the reference's. Quotients are not negative, so that their bits compare as integers. A head of zeros
 * keeps a quotient of 0, which the second kernel takes, and writes, as 1: whether a block reads it before or after does
 * not matter. The bits of NaN, a head's scale of int8 that has a NaN, are above those of all numbers. */
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/attention/sdpa/sdpa.h"
#include <cuda_fp8.h>
#include <limits.h>
#include <math_constants.h>
#include <type_traits>

constexpr uint32_t THREADS = 256, VECTORS_PER_THREAD = 8, CHUNK = THREADS * VECTORS_PER_THREAD;

struct quantize_call {
    struct kg_sdpa_quantize_args args;
    uint64_t n_vectors;   /* of a head */
    uint32_t n_chunks;    /* blocks of a head */
    uint32_t row_vectors; /* of a row */
};

/* Where vector `at` of the block's head lies. */
static __device__ __forceinline__ uint64_t offset_of(const struct quantize_call &c, const struct kg_sdpa_strides &s,
                                                     uint64_t at, uint32_t n) {
    const uint32_t plane = blockIdx.x / c.n_chunks, batch = plane / c.args.n_heads, head = plane % c.args.n_heads;
    return batch * s.batch + head * s.head + at / c.row_vectors * s.row + at % c.row_vectors * n;
}

static __device__ __forceinline__ uint64_t first_vector(const struct quantize_call &c) {
    return (uint64_t)(blockIdx.x % c.n_chunks) * CHUNK + threadIdx.x;
}

template <typename Out>
constexpr float LARGEST = std::is_same_v<Out, int8_t> ? KG_SDPA_I8_LARGEST : KG_SDPA_E4M3_LARGEST;

static __device__ __forceinline__ uint8_t to_byte(float x, uint8_t) {
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}
static __device__ __forceinline__ uint8_t to_byte(float x, int8_t) {
    return (uint8_t)max(min(__float2int_rn(x), 127), -127); /* NaN becomes 0 */
}

template <typename Out, int N>
static __global__ void __launch_bounds__(THREADS) sdpa_largest_kernel(const struct quantize_call c) {
    __shared__ float shared[KG_MAX_WARPS];
    const uint64_t first = first_vector(c);
    float x[N], largest = 0;
    bool any_nan = false;
#pragma unroll 2
    for (uint32_t i = 0; i < VECTORS_PER_THREAD; i++) {
        const uint64_t at = first + i * THREADS;
        if (at >= c.n_vectors) break;
        kg_load_some<N>((const __half *)c.args.x + offset_of(c, c.args.x_strides, at, N), x);
#pragma unroll
        for (int e = 0; e < N; e++) {
            any_nan |= isnan(x[e]);
            largest = fmaxf(largest, fabsf(x[e])); /* NaN is passed over */
        }
    }
    largest = kg_block_reduce<kg_max>(largest, shared);
    if (std::is_same_v<Out, int8_t> && __syncthreads_or(any_nan)) largest = CUDART_NAN_F;
    if (threadIdx.x == 0)
        atomicMax((int *)c.args.scale + blockIdx.x / c.n_chunks, __float_as_int(__fdiv_rn(largest, LARGEST<Out>)));
}

template <typename Out, int N>
static __global__ void __launch_bounds__(THREADS) sdpa_quantize_kernel(const struct quantize_call c) {
    const uint64_t first = first_vector(c);
    volatile float *stored = c.args.scale + blockIdx.x / c.n_chunks;
    const float quotient = *stored, scale = quotient == 0.0f ? 1.0f : quotient;
    if (quotient == 0.0f && threadIdx.x == 0) *stored = 1.0f;
    float x[N];
#pragma unroll 2
    for (uint32_t i = 0; i < VECTORS_PER_THREAD; i++) {
        const uint64_t at = first + i * THREADS;
        if (at >= c.n_vectors) break;
        kg_load_some<N>((const __half *)c.args.x + offset_of(c, c.args.x_strides, at, N), x);
        union {
            uint8_t bytes[N];
            uint2 pair;
        } y;
#pragma unroll
        for (int e = 0; e < N; e++) y.bytes[e] = to_byte(__fdiv_rn(x[e], scale), Out());
        uint8_t *to = (uint8_t *)c.args.y + offset_of(c, c.args.y_strides, at, N);
        if constexpr (N == KG_VECTOR) *(uint2 *)to = y.pair;
        else *to = y.bytes[0];
    }
}

/* Whether every row begins at a multiple of a vector of elem_bytes each. */
static bool is_aligned(const void *p, const struct kg_sdpa_strides *s, uint32_t head_dim, size_t elem_bytes) {
    return (uintptr_t)p % (KG_VECTOR * elem_bytes) == 0 && (s->batch | s->head | s->row | head_dim) % KG_VECTOR == 0;
}

template <typename Out, int N>
static void launch(cudaStream_t stream, unsigned n_blocks, const struct quantize_call &call) {
    sdpa_largest_kernel<Out, N><<<n_blocks, THREADS, 0, stream>>>(call);
    sdpa_quantize_kernel<Out, N><<<n_blocks, THREADS, 0, stream>>>(call);
}

extern "C" enum kg_status kg_cuda_sdpa_quantize(struct kg_backend *backend, const struct kg_sdpa_quantize_args *args,
                                                struct kg_error *err) {
    const enum kg_status status = kg_sdpa_quantize_check(args, err);
    if (status) return status;
    if (args->input != KG_PRECISION_F16)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "sdpa_quantize: the cuda back end has no %s input, only f16",
                       kg_precision_name(args->input));
    const uint64_t n_planes = (uint64_t)args->n_batch * args->n_heads;
    if (n_planes == 0) return KG_OK;
    const bool vectors = is_aligned(args->x, &args->x_strides, args->head_dim, sizeof(__half)) &&
                         is_aligned(args->y, &args->y_strides, args->head_dim, sizeof(uint8_t));
    const uint32_t row_vectors = vectors ? args->head_dim / KG_VECTOR : args->head_dim;
    const uint64_t n_vectors = (uint64_t)args->n_rows * row_vectors;
    const uint64_t n_chunks = n_vectors ? (n_vectors + CHUNK - 1) / CHUNK : 1; /* one, so that a scale is written */
    if (n_chunks > INT_MAX / n_planes)
        return kg_fail(err, KG_ERR_UNSUPPORTED,
                       "sdpa_quantize: %u x %u heads of %u rows are more than 2^31 - 1 blocks of %u vectors",
                       args->n_batch, args->n_heads, args->n_rows, CHUNK);
    const struct quantize_call call = { *args, n_vectors, (uint32_t)n_chunks, row_vectors };
    const cudaStream_t stream = kg_cuda_of(backend)->stream;
    const cudaError_t cleared = cudaMemsetAsync(args->scale, 0, n_planes * sizeof *args->scale, stream);
    if (cleared != cudaSuccess) return kg_cuda_fail(err, "sdpa_quantize", cleared);
    const unsigned n_blocks = (unsigned)(n_planes * n_chunks);
    const bool is_f8 = args->output == KG_PRECISION_F8;
    if (vectors) (is_f8 ? launch<uint8_t, KG_VECTOR> : launch<int8_t, KG_VECTOR>)(stream, n_blocks, call);
    else (is_f8 ? launch<uint8_t, 1> : launch<int8_t, 1>)(stream, n_blocks, call);
    return kg_cuda_launched(err, "sdpa_quantize");
}
