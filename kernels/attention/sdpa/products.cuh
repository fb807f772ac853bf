/* Products of warpgroups, f16 or E4M3 operands and float32 sums (PTX ISA, "wgmma.mma_async"; sm_90a).
 *
 *     acc (64 x N) = or += a (64 x 16) b (16 x N)     E4M3: 64 x 32, 32 x N, b by columns
 *
 * A thread of warp w (of 4), g = lane / 4, t = lane % 4: acc[4 i + 0, 1] is row 16 w + g at columns 8 i + 2 t, + 1;
 * acc[4 i + 2, 3] is row 16 w + g + 8. A left operand in registers is a[0..3] = rows g, g + 8, g, g + 8 at columns 2 t,
 * 2 t, 2 t + 8, 2 t + 8, two halves each. Operands in shared memory are matrix descriptors (hopper.cuh). B_ROWS: b is
 * given by rows of N (values); else by columns of 16 (keys). */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_PRODUCTS_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_PRODUCTS_CUH

#include "kernels/attention/sdpa/hopper.cuh"

namespace kg_hopper {

#if KG_HOPPER
template <int N> struct products;
#endif

/* The accumulators as asm names and operands, eight at a time. */
#define KG_ACC_0                                                                                                       \
    "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), "+f"(acc[7])
#define KG_ACC_8                                                                                                       \
    "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15])
#define KG_ACC_16                                                                                                      \
    "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]),           \
        "+f"(acc[23])
#define KG_ACC_24                                                                                                      \
    "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]),           \
        "+f"(acc[31])
#define KG_ACC_32                                                                                                      \
    "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]), "+f"(acc[38]),           \
        "+f"(acc[39])
#define KG_ACC_40                                                                                                      \
    "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]), "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]),           \
        "+f"(acc[47])
#define KG_ACC_48                                                                                                      \
    "+f"(acc[48]), "+f"(acc[49]), "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]),           \
        "+f"(acc[55])
#define KG_ACC_56                                                                                                      \
    "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]), "+f"(acc[62]),           \
        "+f"(acc[63])
#define KG_NAMES_32                                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "   \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define KG_OPERANDS_32 KG_ACC_0, KG_ACC_8, KG_ACC_16, KG_ACC_24
#define KG_NAMES_48                                                                                                    \
    KG_NAMES_32 ", "                                                                                                   \
                "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define KG_OPERANDS_48 KG_OPERANDS_32, KG_ACC_32, KG_ACC_40
#define KG_NAMES_56                                                                                                    \
    KG_NAMES_48 ", "                                                                                                   \
                "%48, %49, %50, %51, %52, %53, %54, %55"
#define KG_OPERANDS_56 KG_OPERANDS_48, KG_ACC_48
#define KG_NAMES_64                                                                                                    \
    KG_NAMES_56 ", "                                                                                                   \
                "%56, %57, %58, %59, %60, %61, %62, %63"
#define KG_OPERANDS_64 KG_OPERANDS_56, KG_ACC_56

#define KG_ACC_64                                                                                                      \
    "+f"(acc[64]), "+f"(acc[65]), "+f"(acc[66]), "+f"(acc[67]), "+f"(acc[68]), "+f"(acc[69]), "+f"(acc[70]),           \
        "+f"(acc[71])
#define KG_ACC_72                                                                                                      \
    "+f"(acc[72]), "+f"(acc[73]), "+f"(acc[74]), "+f"(acc[75]), "+f"(acc[76]), "+f"(acc[77]), "+f"(acc[78]),           \
        "+f"(acc[79])
#define KG_ACC_80                                                                                                      \
    "+f"(acc[80]), "+f"(acc[81]), "+f"(acc[82]), "+f"(acc[83]), "+f"(acc[84]), "+f"(acc[85]), "+f"(acc[86]),           \
        "+f"(acc[87])
#define KG_ACC_88                                                                                                      \
    "+f"(acc[88]), "+f"(acc[89]), "+f"(acc[90]), "+f"(acc[91]), "+f"(acc[92]), "+f"(acc[93]), "+f"(acc[94]),           \
        "+f"(acc[95])
#define KG_ACC_96                                                                                                      \
    "+f"(acc[96]), "+f"(acc[97]), "+f"(acc[98]), "+f"(acc[99]), "+f"(acc[100]), "+f"(acc[101]), "+f"(acc[102]),        \
        "+f"(acc[103])
#define KG_ACC_104                                                                                                     \
    "+f"(acc[104]), "+f"(acc[105]), "+f"(acc[106]), "+f"(acc[107]), "+f"(acc[108]), "+f"(acc[109]), "+f"(acc[110]),    \
        "+f"(acc[111])
#define KG_ACC_112                                                                                                     \
    "+f"(acc[112]), "+f"(acc[113]), "+f"(acc[114]), "+f"(acc[115]), "+f"(acc[116]), "+f"(acc[117]), "+f"(acc[118]),    \
        "+f"(acc[119])
#define KG_ACC_120                                                                                                     \
    "+f"(acc[120]), "+f"(acc[121]), "+f"(acc[122]), "+f"(acc[123]), "+f"(acc[124]), "+f"(acc[125]), "+f"(acc[126]),    \
        "+f"(acc[127])
#define KG_NAMES_128                                                                                                   \
    KG_NAMES_64 ", "                                                                                                   \
                "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
                "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "   \
                "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "     \
                "%119, %120, %121, %122, %123, %124, %125, %126, %127"
#define KG_OPERANDS_128                                                                                                \
    KG_OPERANDS_64, KG_ACC_64, KG_ACC_72, KG_ACC_80, KG_ACC_88, KG_ACC_96, KG_ACC_104, KG_ACC_112, KG_ACC_120

/* HALF = N / 2 accumulators a thread; i0 ..: the names of the operands that follow them. */
#define KG_PRODUCTS(N, HALF, i0, i1, i2, i3, i4, i5, i6)                                                               \
    template <> struct products<N> {                                                                                   \
        template <bool B_ROWS>                                                                                         \
        static __device__ __forceinline__ void shared(float (&acc)[HALF], uint64_t a, uint64_t b, int add) {           \
            asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " i2 ", 0;\n"                                           \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" KG_NAMES_##HALF                    \
                         "}, " i0 ", " i1 ", add, 1, 1, 0, " i3 ";\n}"                                                 \
                         : KG_OPERANDS_##HALF                                                                          \
                         : "l"(a), "l"(b), "r"(add), "n"(B_ROWS));                                                     \
        }                                                                                                              \
        static __device__ __forceinline__ void shared_e4m3(float (&acc)[HALF], uint64_t a, uint64_t b, int add) {      \
            asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " i2 ", 0;\n"                                           \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" KG_NAMES_##HALF                  \
                         "}, " i0 ", " i1 ", add, 1, 1;\n}"                                                            \
                         : KG_OPERANDS_##HALF                                                                          \
                         : "l"(a), "l"(b), "r"(add));                                                                  \
        }                                                                                                              \
        template <bool B_ROWS>                                                                                         \
        static __device__ __forceinline__ void registers(float (&acc)[HALF], const unsigned (&a)[4], uint64_t b,       \
                                                         int add) {                                                    \
            asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " i5 ", 0;\n"                                           \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" KG_NAMES_##HALF                    \
                         "}, {" i0 ", " i1 ", " i2 ", " i3 "}, " i4 ", add, 1, 1, " i6 ";\n}"                          \
                         : KG_OPERANDS_##HALF                                                                          \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(B_ROWS));                 \
        }                                                                                                              \
    };

#if KG_HOPPER
KG_PRODUCTS(64, 32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
KG_PRODUCTS(96, 48, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
KG_PRODUCTS(112, 56, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
KG_PRODUCTS(128, 64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
KG_PRODUCTS(256, 128, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
#else
template <int N> struct products {
    template <bool B_ROWS> static __device__ void shared(float (&)[N / 2], uint64_t, uint64_t, int) {
    }
    static __device__ void shared_e4m3(float (&)[N / 2], uint64_t, uint64_t, int) {
    }
    template <bool B_ROWS> static __device__ void registers(float (&)[N / 2], const unsigned (&)[4], uint64_t, int) {
    }
};
#endif

} // namespace kg_hopper

#endif
