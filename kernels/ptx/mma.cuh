/* PTX of a warp's matrix instructions (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions"; sm_80), one
 * instruction a wrapper. All 32 lanes of a warp call them; g = lane / 4, t = lane % 4. */
#ifndef KIGO_KERNELS_PTX_MMA_CUH
#define KIGO_KERNELS_PTX_MMA_CUH

#include "kernels/ptx/memory.cuh"
#include <cuda_fp16.h>
#include <type_traits>

/* c (16 x 8, float32) += a (16 x 16, f16) b (16 x 8, f16). A register is a pair of neighbouring elements, low first:
 * a[0..3] = rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8; b[0..1] = column g at rows 2t, 2t + 8;
 * c[0..1] = row g at columns 2t, 2t + 1, c[2..3] = row g + 8. */
static __device__ __forceinline__ void kg_mma_16x8x16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same of bfloat16. */
static __device__ __forceinline__ void kg_mma_16x8x16_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                           unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same of float16, not volatile: free to be scheduled among other instructions. */
static __device__ __forceinline__ void kg_mma_16x8x16_free(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                                           unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* c (16 x 8, int32) += a (16 x 32, bytes A: int8_t or uint8_t) b (32 x 8, int8). A register is four neighbours, the
 * first in the low byte: a0 to a3 = rows g, g + 8, g, g + 8 at columns 4t, 4t, 4t + 16, 4t + 16; b0, b1 = column g at
 * rows 4t, 4t + 16; c as above. Free to be scheduled among other instructions. */
template <typename A>
static __device__ __forceinline__ void kg_mma_16x8x32_free(int (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                                           unsigned a3, unsigned b0, unsigned b1) {
    if constexpr (std::is_same_v<A, uint8_t>)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices of halves from shared memory: lane l gives the address of row l % 8 of matrix l / 8 (16-byte
 * aligned) and gets from matrix i, in r[i], row g at columns 2t and 2t + 1. */
static __device__ __forceinline__ void kg_load_matrices_at(unsigned (&r)[4], unsigned shared_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address)
                 : "memory");
}

static __device__ __forceinline__ void kg_load_matrices(unsigned (&r)[4], const __half *row) {
    kg_load_matrices_at(r, kg_shared_address(row));
}

/* The same with each matrix transposed: column g at rows 2t and 2t + 1. */
static __device__ __forceinline__ void kg_load_matrices_transposed(unsigned (&r)[4], const __half *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(kg_shared_address(row))
                 : "memory");
}

/* The inverse of that: stores four matrices, transposed, to rows in shared memory (sm_90). */
static __device__ __forceinline__ void kg_store_matrices_transposed(unsigned shared_address, const unsigned (&r)[4]) {
    if constexpr (KG_SM_90)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address),
                     "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                     : "memory");
}

/* An 8 x 8 matrix of halves, row g at columns 2t and 2t + 1, transposed. */
static __device__ __forceinline__ unsigned kg_transpose_matrix(unsigned x) {
    unsigned y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

#endif
