/* PTX of loads and stores with hints, of a memory order, or by a 32-bit address of shared memory (PTX ISA, "Data
 * Movement and Conversion Instructions: ld, ld.global.nc, st"; "Memory Consistency Model"), one instruction a wrapper.
 * All are volatile: they keep their order among themselves and against other volatile ones. */
#ifndef KIGO_KERNELS_PTX_MEMORY_CUH
#define KIGO_KERNELS_PTX_MEMORY_CUH

#include <cstdint>
#include <cuda_runtime.h>

/* ---- global memory ---- */

/* Stays behind what is before it, kg_dependency_wait above all. */
static __device__ __forceinline__ float kg_load_global(const float *from) {
    float x;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(from));
    return x;
}

/* N registers (1, 2 or 4) that take no place in L1. */
template <int N> static __device__ __forceinline__ void kg_load_no_allocate(uint32_t *to, const void *from) {
    if constexpr (N == 4)
        asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "l"(from));
    else if constexpr (N == 2)
        asm volatile("ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from));
    else asm volatile("ld.global.L1::no_allocate.b32 %0, [%1];" : "=r"(to[0]) : "l"(from));
}

/* Constant data: 16 bytes that take no place in L1, and 4 bytes, if `valid`; else both stay as they are. A predicate
 * and no branch: where a branch's two ways meet, the compiler would move registers, and so wait for them. */
static __device__ __forceinline__ void kg_load_constant_if(bool valid, uint4 &to, const void *from, uint32_t &to_4,
                                                           const void *from_4) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %7, 0;\n"
                 "@p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%5];\n"
                 "@p ld.global.nc.u32 %4, [%6];\n}"
                 : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w), "+r"(to_4)
                 : "l"(from), "l"(from_4), "r"((uint32_t)valid));
}

/* Relaxed at the scope of the device: L2 answers, and each 8 aligned bytes are of one store. */
static __device__ __forceinline__ uint64_t kg_load_relaxed(const uint64_t *from) {
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
    return v;
}
static __device__ __forceinline__ void kg_load_relaxed(uint64_t &a, uint64_t &b, const uint64_t *from) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from) : "memory");
}
static __device__ __forceinline__ uint2 kg_load_relaxed(const uint2 *from) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.b32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from) : "memory");
    return v;
}
static __device__ __forceinline__ uint4 kg_load_relaxed(const uint4 *from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}
static __device__ __forceinline__ void kg_store_relaxed(uint64_t *to, uint64_t v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory");
}
static __device__ __forceinline__ void kg_store_relaxed(uint2 *to, uint2 v) {
    asm volatile("st.relaxed.gpu.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(v.x), "r"(v.y) : "memory");
}
static __device__ __forceinline__ void kg_store_relaxed(uint4 *to, uint4 v) {
    asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

/* ---- shared memory by its address ---- */

static __device__ __forceinline__ unsigned kg_shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* T: uint32_t, uint2, uint4, float2 or float4, aligned as its size. */
template <typename T> static __device__ __forceinline__ T kg_load_shared(unsigned address) = delete;
template <> __device__ __forceinline__ uint32_t kg_load_shared<uint32_t>(unsigned address) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}
template <> __device__ __forceinline__ uint2 kg_load_shared<uint2>(unsigned address) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
}
template <> __device__ __forceinline__ uint4 kg_load_shared<uint4>(unsigned address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}
template <> __device__ __forceinline__ float2 kg_load_shared<float2>(unsigned address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
    return v;
}
template <> __device__ __forceinline__ float4 kg_load_shared<float4>(unsigned address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

static __device__ __forceinline__ void kg_store_shared(unsigned address, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}
static __device__ __forceinline__ void kg_store_shared(unsigned address, uint32_t v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
static __device__ __forceinline__ void kg_store_shared(unsigned address, float2 v) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(v.x), "f"(v.y) : "memory");
}
static __device__ __forceinline__ void kg_store_shared(unsigned address, float4 v) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
static __device__ __forceinline__ void kg_store_shared(unsigned address, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

#endif
