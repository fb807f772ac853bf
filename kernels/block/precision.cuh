/* Loads and stores of activations and caches as float32: one element, or 8 at once by 16-byte accesses.
 *
 * A kernel is instantiated for the element types (float, __half) or, where it stages tiles in shared memory, chooses at
 * run time by enum kg_precision (the branch is the same for a whole grid). Rounding to __half is to nearest even; what
 * is too large becomes infinite, which the engine reports as KG_ERR_NUMERIC. */
#ifndef KIGO_KERNELS_BLOCK_PRECISION_CUH
#define KIGO_KERNELS_BLOCK_PRECISION_CUH

#include "kernels/cuda_backend.h"
#include <algorithm>
#include <initializer_list>
#include <type_traits>

/* Elements that a thread takes at once where rows and pointers are aligned. */
constexpr int KG_VECTOR = 8;
constexpr size_t KG_VECTOR_ALIGN_BYTES = 16;
static_assert(KG_VECTOR * sizeof(__half) == KG_VECTOR_ALIGN_BYTES, "8 halves are one 16-byte access");

template <typename T> static __device__ __forceinline__ float kg_load(const T *p) {
    return static_cast<float>(*p);
}

template <typename T> static __device__ __forceinline__ void kg_store(T *p, float x) {
    *p = static_cast<T>(x);
}

/* KG_VECTOR elements as they lie in memory, so that several loads are in flight before the first is converted. */
template <typename T> struct kg_raw_vector;

template <> struct kg_raw_vector<float> {
    float4 low, high;
    __device__ __forceinline__ void load(const float *p) {
        low = reinterpret_cast<const float4 *>(p)[0];
        high = reinterpret_cast<const float4 *>(p)[1];
    }
    __device__ __forceinline__ void to_floats(float (&x)[KG_VECTOR]) const {
        x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
        x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    }
};

template <> struct kg_raw_vector<__half> {
    uint4 bits;
    __device__ __forceinline__ void load(const __half *p) {
        bits = *reinterpret_cast<const uint4 *>(p);
    }
    __device__ __forceinline__ void to_floats(float (&x)[KG_VECTOR]) const {
        const unsigned words[4] = { bits.x, bits.y, bits.z, bits.w };
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 f = __half22float2(*reinterpret_cast<const __half2 *>(&words[i]));
            x[2 * i] = f.x, x[2 * i + 1] = f.y;
        }
    }
};

template <typename T> static __device__ __forceinline__ void kg_load_vector(const T *p, float (&x)[KG_VECTOR]) {
    kg_raw_vector<T> raw;
    raw.load(p);
    raw.to_floats(x);
}

static __device__ __forceinline__ void kg_store_vector(float *p, const float (&x)[KG_VECTOR]) {
    reinterpret_cast<float4 *>(p)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4 *>(p)[1] = make_float4(x[4], x[5], x[6], x[7]);
}

static __device__ __forceinline__ unsigned kg_pack_halves(float low, float high) {
    const __half2_raw pair = __floats2half2_rn(low, high);
    return (unsigned)pair.x | (unsigned)pair.y << 16;
}

static __device__ __forceinline__ void kg_store_vector(__half *p, const float (&x)[KG_VECTOR]) {
    *reinterpret_cast<uint4 *>(p) = make_uint4(kg_pack_halves(x[0], x[1]), kg_pack_halves(x[2], x[3]),
                                               kg_pack_halves(x[4], x[5]), kg_pack_halves(x[6], x[7]));
}

/* N elements, N of 1 or KG_VECTOR. */
template <int N, typename T> static __device__ __forceinline__ void kg_load_some(const T *p, float (&x)[N]) {
    if constexpr (N == KG_VECTOR) kg_load_vector(p, x);
    else x[0] = kg_load(p);
}

template <int N, typename T> static __device__ __forceinline__ void kg_store_some(T *p, const float (&x)[N]) {
    if constexpr (N == KG_VECTOR) kg_store_vector(p, x);
    else kg_store(p, x[0]);
}

/* A block has a row of n_cols, thread t vectors t, t + threads, ... of N elements: f(v, at) for each, at its first
 * element. A kernel of several passes reads the row again for each, so what a thread writes last may be the row itself.
 */
template <int N, typename T, typename F>
static __device__ __forceinline__ void kg_each_vector(const T *row, uint32_t n_cols, const F &f) {
    float v[N];
    for (uint32_t i = threadIdx.x; i < n_cols / N; i += blockDim.x) {
        kg_load_some<N>(row + (size_t)i * N, v);
        f(v, (size_t)i * N);
    }
}

/* Element or vector `at` of an array of a precision known at run time only. */
static __device__ __forceinline__ float kg_load_any(const void *p, enum kg_precision precision, size_t at) {
    return precision == KG_PRECISION_F16 ? kg_load((const __half *)p + at) : kg_load((const float *)p + at);
}

static __device__ __forceinline__ void kg_store_any(void *p, enum kg_precision precision, size_t at, float x) {
    if (precision == KG_PRECISION_F16) kg_store((__half *)p + at, x);
    else kg_store((float *)p + at, x);
}

static __device__ __forceinline__ void kg_load_vector_any(const void *p, enum kg_precision precision, size_t at,
                                                          float (&x)[KG_VECTOR]) {
    if (precision == KG_PRECISION_F16) kg_load_vector((const __half *)p + at, x);
    else kg_load_vector((const float *)p + at, x);
}

static inline bool kg_vector_aligned(const void *p) {
    return reinterpret_cast<uintptr_t>(p) % KG_VECTOR_ALIGN_BYTES == 0;
}

/* Whether rows of n_elems at p can be taken by vectors. */
static inline bool kg_rows_vector_aligned(const void *p, size_t n_elems) {
    return kg_vector_aligned(p) && n_elems % KG_VECTOR == 0;
}

/* KG_ERR_UNSUPPORTED naming operation, what and precision unless it is f32 or f16. */
static inline enum kg_status kg_cuda_require_float(const char *op, const char *what, enum kg_precision precision,
                                                   struct kg_error *err) {
    if (precision == KG_PRECISION_F32 || precision == KG_PRECISION_F16) return KG_OK;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: the cuda back end has no %s %s, only f32 and f16", op,
                   kg_precision_name(precision), what);
}

/* launch(T()) for the element type T of a precision, or the error above. */
template <typename F>
static enum kg_status kg_for_precision(const char *op, const char *what, enum kg_precision precision,
                                       struct kg_error *err, const F &launch) {
    const enum kg_status status = kg_cuda_require_float(op, what, precision, err);
    if (status) return status;
    return precision == KG_PRECISION_F16 ? launch(__half()) : launch(float());
}

/* launch(T(), N) for activations as rows of n_cols, N a constant: KG_VECTOR where rows are whole vectors and all
 * `arrays` are aligned, else 1. No launch for no rows. */
template <typename F>
static enum kg_status kg_for_rows(const char *op, enum kg_precision precision, uint32_t n_rows, uint32_t n_cols,
                                  std::initializer_list<const void *> arrays, struct kg_error *err, const F &launch) {
    const bool whole = n_cols % KG_VECTOR == 0 && std::all_of(arrays.begin(), arrays.end(), kg_vector_aligned);
    return kg_for_precision(op, "activations", precision, err, [&](auto t) {
        if (n_rows == 0) return KG_OK;
        return whole ? launch(t, std::integral_constant<int, KG_VECTOR>())
                     : launch(t, std::integral_constant<int, 1>());
    });
}

/* Blocks of `per_block` items that cover n. */
static inline unsigned kg_blocks_for(size_t n, size_t per_block) {
    return (unsigned)((n + per_block - 1) / per_block);
}

#endif
