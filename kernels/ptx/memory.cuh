/* PTX of loads and stores with hints, of a memory order, or by a 32-bit address of shared memory (PTX ISA, "Data
 * Movement and Conversion Instructions: ld, ld.global.nc, st"; "Memory Consistency Model"), one instruction a wrapper.
 * All are volatile: they keep their order among themselves and against other volatile ones. */
#ifndef KIGO_KERNELS_PTX_MEMORY_CUH
#define KIGO_KERNELS_PTX_MEMORY_CUH

#include "kernels/ptx/compiler.cuh"

/* NAME<T>(at) loads, NAME(at, v) stores a T of n (1, 2 or 4) members by one instruction. `available`: whether the
 * architecture has it; reg and at_reg: the constraints of the members and of the address. */
#define KG_REGISTERS_1 "%0"
#define KG_REGISTERS_2 "{%0, %1}"
#define KG_REGISTERS_4 "{%0, %1, %2, %3}"
#define KG_MEMBERS_1(reg) reg(v)
#define KG_MEMBERS_2(reg) reg(v.x), reg(v.y)
#define KG_MEMBERS_4(reg) KG_MEMBERS_2(reg), reg(v.z), reg(v.w)
#define KG_LOAD(NAME, available, instruction, T, n, reg, AT, at_reg)                                                   \
    template <> __device__ __forceinline__ T NAME<T>(AT at) {                                                          \
        T v = {};                                                                                                      \
        if constexpr (available)                                                                                       \
            asm volatile(instruction " " KG_REGISTERS_##n ", [%" #n "];"                                               \
                         : KG_MEMBERS_##n("=" reg)                                                                     \
                         : at_reg(at)                                                                                  \
                         : "memory");                                                                                  \
        return v;                                                                                                      \
    }
#define KG_STORE(NAME, available, instruction, T, n, reg, AT, at_reg)                                                  \
    static __device__ __forceinline__ void NAME(AT at, T v) {                                                          \
        if constexpr (available)                                                                                       \
            asm volatile(instruction " [%" #n "], " KG_REGISTERS_##n ";" ::KG_MEMBERS_##n(reg), at_reg(at)             \
                         : "memory");                                                                                  \
    }

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

/* Relaxed at the scope of the device: L2 answers, and each 8 aligned bytes are of one store. T: uint64_t, uint2, uint4.
 */
template <typename T> static __device__ __forceinline__ T kg_load_relaxed(const T *from) = delete;
#define KG_RELAXED(T, n, type, reg)                                                                                    \
    KG_LOAD(kg_load_relaxed, true, "ld.relaxed.gpu.global." type, T, n, reg, const T *, "l")                           \
    KG_STORE(kg_store_relaxed, true, "st.relaxed.gpu.global." type, T, n, reg, T *, "l")
KG_RELAXED(uint64_t, 1, "u64", "l")
KG_RELAXED(uint2, 2, "v2.b32", "r")
KG_RELAXED(uint4, 4, "v4.b32", "r")
#undef KG_RELAXED
static __device__ __forceinline__ void kg_load_relaxed(uint64_t &a, uint64_t &b, const uint64_t *from) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from) : "memory");
}

/* What was written before the value's release at the scope of the device is visible after it. */
static __device__ __forceinline__ uint32_t kg_load_acquire(const uint32_t *from) {
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    return v;
}

/* ---- shared memory by its address ---- */

static __device__ __forceinline__ unsigned kg_shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* T: float, float2, float4, uint16_t (loads only), uint32_t, uint2 or uint4, aligned as its size. */
template <typename T> static __device__ __forceinline__ T kg_load_shared(unsigned address) = delete;
KG_LOAD(kg_load_shared, true, "ld.shared.u16", uint16_t, 1, "h", unsigned, "r")
#define KG_SHARED(T, n, type, reg)                                                                                     \
    KG_LOAD(kg_load_shared, true, "ld.shared." type, T, n, reg, unsigned, "r")                                         \
    KG_STORE(kg_store_shared, true, "st.shared." type, T, n, reg, unsigned, "r")
KG_SHARED(float, 1, "f32", "f")
KG_SHARED(float2, 2, "v2.f32", "f")
KG_SHARED(float4, 4, "v4.f32", "f")
KG_SHARED(uint32_t, 1, "u32", "r")
KG_SHARED(uint2, 2, "v2.u32", "r")
KG_SHARED(uint4, 4, "v4.u32", "r")
#undef KG_SHARED

#endif
