/* What the compiler may assume of a value: opaque values, compiler barriers on registers. No instruction comes of them.
 */
#ifndef KIGO_KERNELS_PTX_COMPILER_CUH
#define KIGO_KERNELS_PTX_COMPILER_CUH

#include <cstdint>
#include <cuda_runtime.h>
#include <type_traits>

/* Makes values opaque: the compiler knows nothing of how they came about, and so neither computes them again nor keeps
 * in registers what it would derive from them elsewhere. */
template <typename T> static __device__ __forceinline__ void kg_make_opaque(T &v) {
    static_assert(sizeof v == 4 || sizeof v == 8, "one register or a pair");
    if constexpr (std::is_floating_point_v<T>) asm volatile("" : "+f"(v));
    else if constexpr (sizeof v == 8) asm volatile("" : "+l"(v));
    else asm volatile("" : "+r"(v));
}
/* In one statement: by several, the compiler would order them. */
static __device__ __forceinline__ void kg_make_opaque(uint32_t &a, uint32_t &b, uint32_t &c) {
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c));
}
template <typename T, typename... More> static __device__ __forceinline__ void kg_make_opaque(T &v, More &...more) {
    kg_make_opaque(v);
    kg_make_opaque(more...);
}

template <typename T> static __device__ __forceinline__ T kg_opaque(T v) {
    kg_make_opaque(v);
    return v;
}

/* The same as a compiler barrier: the writing of the values stays before it, and so do accesses of memory. */
static __device__ __forceinline__ void kg_pin(float &v) {
    asm volatile("" : "+f"(v)::"memory");
}
static __device__ __forceinline__ void kg_pin(uint32_t &v) {
    asm volatile("" : "+r"(v)::"memory");
}
static __device__ __forceinline__ void kg_pin(uint4 &v, uint32_t &w) {
    asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w), "+r"(w)::"memory");
}
template <typename T, int N> static __device__ __forceinline__ void kg_pin(T (&v)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) kg_pin(v[i]);
}

/* Any value: a register that is not written. */
static __device__ __forceinline__ void kg_leave_undefined(uint32_t &v) {
    asm volatile("" : "=r"(v));
}

/* The compute capability that code is made for, 900 for 9.0; 0 on the host. */
#ifdef __CUDA_ARCH__
constexpr int KG_ARCH = __CUDA_ARCH__;
#else
constexpr int KG_ARCH = 0;
#endif
constexpr bool KG_SM_90 = KG_ARCH >= 900;

/* Code for sm_90a alone (wgmma, setmaxnreg; wgmma.cuh). */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define KG_SM_90A 1
#else
#define KG_SM_90A 0
#endif

/* First in a kernel that only sm_90a has code for: callers refuse to launch it elsewhere, and a launch that should have
 * been refused fails. */
static __device__ __forceinline__ void kg_require_sm_90a() {
#if !KG_SM_90A
    asm volatile("trap;");
#endif
}

#endif
