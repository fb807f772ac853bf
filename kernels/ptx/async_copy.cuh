/* PTX of asynchronous copies by threads (PTX ISA, "Data Movement and Conversion Instructions: cp.async"; sm_80), one
 * instruction a wrapper. */
#ifndef KIGO_KERNELS_PTX_ASYNC_COPY_CUH
#define KIGO_KERNELS_PTX_ASYNC_COPY_CUH

#include "kernels/ptx/memory.cuh"

/* 16 bytes from global to shared memory, zeros in their place unless `valid` (nothing is read then); done after
 * kg_copies_wait by this thread and, for the others, a barrier. */
static __device__ __forceinline__ void kg_copy_16(unsigned to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

static __device__ __forceinline__ void kg_copies_wait() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Groups: what this thread copied since the last commit is one; waits until all but the last N are done. */
static __device__ __forceinline__ void kg_copies_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void kg_copies_wait_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Arrives at the barrier once this thread's copies so far are done; the arrival is one of those that it counts. */
static __device__ __forceinline__ void kg_copies_arrive(unsigned mbarrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(mbarrier) : "memory");
}

#endif
