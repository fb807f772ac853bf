/* PTX of a warpgroup's products and registers (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
 * Instructions", "setmaxnreg"; sm_90a, empty elsewhere), one instruction a wrapper.
 *
 *     acc (64 x N) = or += a (64 x 16) b (16 x N)     E4M3, int8: 64 x 32, 32 x N, b by columns
 *
 * Operands are f16 or E4M3, sums float32; of int8, sums are int32 in the registers of floats (__float_as_int). A thread
 * of warp w (of 4), g = lane / 4, t = lane % 4: acc[4 i + 0, 1] is row 16 w + g at columns 8 i + 2 t, + 1; acc[4 i + 2,
 * 3] is row 16 w + g + 8. A left operand in registers is a[0..3] = rows g, g + 8, g, g + 8 at columns 2 t, 2 t, 2 t +
 * 8, 2 t + 8, two halves each. Operands in shared memory are matrix descriptors. B_ROWS: b is given by rows of N
 * (values); else by columns of 16 (keys). */
#ifndef KIGO_KERNELS_PTX_WGMMA_CUH
#define KIGO_KERNELS_PTX_WGMMA_CUH

#include "kernels/ptx/compiler.cuh"

/* Before the first product after registers that it uses were written. */
static __device__ __forceinline__ void kg_wgmma_fence() {
    if constexpr (KG_SM_90A) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void kg_wgmma_commit() {
    if constexpr (KG_SM_90A) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Until all but the last N committed groups are complete. */
template <int N> static __device__ __forceinline__ void kg_wgmma_wait() {
    if constexpr (KG_SM_90A) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* Registers a thread of the warpgroup, from here on. */
template <int N> static __device__ __forceinline__ void kg_registers_increase() {
    if constexpr (KG_SM_90A) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> static __device__ __forceinline__ void kg_registers_decrease() {
    if constexpr (KG_SM_90A) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* A matrix in shared memory, its rows of ROW_BYTES (64 or 128) written with a swizzle of as many bytes (8 rows make an
 * atom, aligned as its size). Across: the step between atoms along the rows' own direction (only for a transposed
 * operand wider than an atom). */
template <int ROW_BYTES = 128>
static __device__ __forceinline__ uint64_t kg_matrix_descriptor(unsigned shared, unsigned across_bytes = 16) {
    return (uint64_t)((shared & 0x3FFFF) >> 4) | (uint64_t)(across_bytes >> 4) << 16 |
           (uint64_t)(8 * ROW_BYTES >> 4) << 32 | (uint64_t)(ROW_BYTES == 128 ? 1 : 2) << 62;
}

/* The accumulators as operands of type t ("+f", "+r"), and their names. */
#define KG_ACC_8_FROM(t, i)                                                                                            \
    t(acc[i]), t(acc[i + 1]), t(acc[i + 2]), t(acc[i + 3]), t(acc[i + 4]), t(acc[i + 5]), t(acc[i + 6]), t(acc[i + 7])
#define KG_ACC_8(t) KG_ACC_8_FROM(t, 0)
#define KG_ACC_16(t) KG_ACC_8_FROM(t, 0), KG_ACC_8_FROM(t, 8)
#define KG_ACC_24(t) KG_ACC_16(t), KG_ACC_8_FROM(t, 16)
#define KG_ACC_32_FROM(t, i)                                                                                           \
    KG_ACC_8_FROM(t, i), KG_ACC_8_FROM(t, i + 8), KG_ACC_8_FROM(t, i + 16), KG_ACC_8_FROM(t, i + 24)
#define KG_ACC_32(t) KG_ACC_32_FROM(t, 0)
#define KG_ACC_40(t) KG_ACC_32(t), KG_ACC_8_FROM(t, 32)
#define KG_ACC_48(t) KG_ACC_40(t), KG_ACC_8_FROM(t, 40)
#define KG_ACC_56(t) KG_ACC_48(t), KG_ACC_8_FROM(t, 48)
#define KG_ACC_64(t) KG_ACC_56(t), KG_ACC_8_FROM(t, 56)
#define KG_ACC_80(t) KG_ACC_64(t), KG_ACC_8_FROM(t, 64), KG_ACC_8_FROM(t, 72)
#define KG_ACC_96(t) KG_ACC_80(t), KG_ACC_8_FROM(t, 80), KG_ACC_8_FROM(t, 88)
#define KG_ACC_128(t) KG_ACC_64(t), KG_ACC_32_FROM(t, 64), KG_ACC_32_FROM(t, 96)
#define KG_NAMES_10(tens)                                                                                              \
    "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, %" tens "5, %" tens "6, %" tens "7, %" tens           \
    "8, %" tens "9"
#define KG_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define KG_NAMES_16 KG_NAMES_10("") ", %10, %11, %12, %13, %14, %15"
#define KG_NAMES_20 KG_NAMES_10("") ", " KG_NAMES_10("1")
#define KG_NAMES_24 KG_NAMES_20 ", %20, %21, %22, %23"
#define KG_NAMES_30 KG_NAMES_20 ", " KG_NAMES_10("2")
#define KG_NAMES_32 KG_NAMES_30 ", %30, %31"
#define KG_NAMES_40 KG_NAMES_30 ", " KG_NAMES_10("3")
#define KG_NAMES_48 KG_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define KG_NAMES_50 KG_NAMES_40 ", " KG_NAMES_10("4")
#define KG_NAMES_56 KG_NAMES_50 ", %50, %51, %52, %53, %54, %55"
#define KG_NAMES_60 KG_NAMES_50 ", " KG_NAMES_10("5")
#define KG_NAMES_64 KG_NAMES_60 ", %60, %61, %62, %63"
#define KG_NAMES_80 KG_NAMES_60 ", " KG_NAMES_10("6") ", " KG_NAMES_10("7")
#define KG_NAMES_90 KG_NAMES_60 ", " KG_NAMES_10("6") ", " KG_NAMES_10("7") ", " KG_NAMES_10("8")
#define KG_NAMES_96 KG_NAMES_90 ", %90, %91, %92, %93, %94, %95"
#define KG_NAMES_120 KG_NAMES_90 ", " KG_NAMES_10("9") ", " KG_NAMES_10("10") ", " KG_NAMES_10("11")
#define KG_NAMES_128 KG_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

/* kg_wgmma<N>: HALF = N / 2 accumulators a thread; i0 ..: the names of the operands that follow them. */
template <int N> struct kg_wgmma;
#define KG_WGMMA(N, HALF, i0, i1, i2, i3, i4, i5, i6)                                                                  \
    template <> struct kg_wgmma<N> {                                                                                   \
        template <bool B_ROWS>                                                                                         \
        static __device__ __forceinline__ void shared(float (&acc)[HALF], uint64_t a, uint64_t b, int add) {           \
            if constexpr (KG_SM_90A)                                                                                   \
                asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " i2 ", 0;\n"                                       \
                             "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" KG_NAMES_##HALF                \
                             "}, " i0 ", " i1 ", add, 1, 1, 0, " i3 ";\n}"                                             \
                             : KG_ACC_##HALF("+f")                                                                     \
                             : "l"(a), "l"(b), "r"(add), "n"(B_ROWS));                                                 \
        }                                                                                                              \
        static __device__ __forceinline__ void shared_e4m3(float (&acc)[HALF], uint64_t a, uint64_t b, int add) {      \
            if constexpr (KG_SM_90A)                                                                                   \
                asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " i2 ", 0;\n"                                       \
                             "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" KG_NAMES_##HALF              \
                             "}, " i0 ", " i1 ", add, 1, 1;\n}"                                                        \
                             : KG_ACC_##HALF("+f")                                                                     \
                             : "l"(a), "l"(b), "r"(add));                                                              \
        }                                                                                                              \
        static __device__ __forceinline__ void shared_s8(float (&sums)[HALF], uint64_t a, uint64_t b, int add) {       \
            int(&acc)[HALF] = reinterpret_cast<int(&)[HALF]>(sums);                                                    \
            if constexpr (KG_SM_90A)                                                                                   \
                asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " i2 ", 0;\n"                                       \
                             "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8 {" KG_NAMES_##HALF "}, " i0 ", " i1 \
                                                                                                      ", add;\n}"      \
                             : KG_ACC_##HALF("+r")                                                                     \
                             : "l"(a), "l"(b), "r"(add));                                                              \
        }                                                                                                              \
        template <bool B_ROWS>                                                                                         \
        static __device__ __forceinline__ void registers(float (&acc)[HALF], const unsigned (&a)[4], uint64_t b,       \
                                                         int add) {                                                    \
            if constexpr (KG_SM_90A)                                                                                   \
                asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " i5 ", 0;\n"                                       \
                             "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" KG_NAMES_##HALF                \
                             "}, {" i0 ", " i1 ", " i2 ", " i3 "}, " i4 ", add, 1, 1, " i6 ";\n}"                      \
                             : KG_ACC_##HALF("+f")                                                                     \
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(B_ROWS));             \
        }                                                                                                              \
    };

KG_WGMMA(16, 8, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
KG_WGMMA(32, 16, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
KG_WGMMA(48, 24, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
KG_WGMMA(64, 32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
KG_WGMMA(80, 40, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
KG_WGMMA(96, 48, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
KG_WGMMA(112, 56, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
KG_WGMMA(128, 64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
KG_WGMMA(160, 80, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
KG_WGMMA(192, 96, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
KG_WGMMA(256, 128, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

#endif
