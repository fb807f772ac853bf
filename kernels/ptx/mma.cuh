/* PTX of tensor cores and asynchronous copies (sm_80 and later), one instruction a wrapper (PTX ISA, "Warp Level Matrix
 * Instructions" and "cp.async"). All 32 lanes of a warp call the matrix ones; g = lane / 4, t = lane % 4. */
#ifndef KIGO_KERNELS_PTX_MMA_CUH
#define KIGO_KERNELS_PTX_MMA_CUH

#include <cuda_fp16.h>
#include <cstdint>

/* c (16 x 8, float32) += a (16 x 16, f16) b (16 x 8, f16). A register is a pair of neighbouring elements, low first:
 * a[0..3] = rows g, g + 8, g, g + 8 at columns 2t, 2t, 2t + 8, 2t + 8; b[0..1] = column g at rows 2t, 2t + 8;
 * c[0..1] = row g at columns 2t, 2t + 1, c[2..3] = row g + 8. */
static __device__ __forceinline__ void kg_mma_16x8x16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ unsigned kg_shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
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

/* 16 bytes from global to shared memory, zeros in their place unless `valid` (nothing is read then); done after
 * kg_copies_wait by this thread and, for the others, a barrier. */
static __device__ __forceinline__ void kg_copy_16(void *to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(kg_shared_address(to)), "l"(from),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

static __device__ __forceinline__ void kg_copies_wait() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#endif
