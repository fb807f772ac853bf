/* PTX of barriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier, bar"; sm_90 for all but
 * bar), one instruction a wrapper. An mbarrier is 8 bytes of shared memory, given by its address. */
#ifndef KIGO_KERNELS_PTX_MBARRIER_CUH
#define KIGO_KERNELS_PTX_MBARRIER_CUH

#include "kernels/ptx/memory.cuh"

static __device__ __forceinline__ void kg_mbarrier_init(unsigned mbarrier, uint32_t n_arrivals) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(n_arrivals) : "memory");
#endif
}

/* Makes initialised mbarriers visible to asynchronous copies and to the cluster. */
static __device__ __forceinline__ void kg_mbarrier_init_fence() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

static __device__ __forceinline__ void kg_mbarrier_arrive(unsigned mbarrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
#endif
}

/* The same by a predicate and no branch. */
static __device__ __forceinline__ void kg_mbarrier_arrive_if(bool arrives, unsigned mbarrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred yes;\n"
                 "setp.ne.u32 yes, %1, 0;\n"
                 "@yes mbarrier.arrive.shared::cta.b64 _, [%0];\n"
                 "}" ::"r"(mbarrier),
                 "r"((unsigned)arrives)
                 : "memory");
#endif
}

/* The same at an mbarrier of another block of the cluster (kg_peer_address). */
static __device__ __forceinline__ void kg_mbarrier_arrive_peer_if(bool arrives, unsigned mbarrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred yes;\n"
                 "setp.ne.u32 yes, %1, 0;\n"
                 "@yes mbarrier.arrive.shared::cluster.b64 _, [%0];\n"
                 "}" ::"r"(mbarrier),
                 "r"((unsigned)arrives)
                 : "memory");
#endif
}

/* Arrives; the phase completes when n_bytes more have come, too. */
static __device__ __forceinline__ void kg_mbarrier_expect(unsigned mbarrier, uint32_t n_bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(n_bytes) : "memory");
#endif
}

/* Until the phase of this parity is complete. */
static __device__ __forceinline__ void kg_mbarrier_wait(unsigned mbarrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(mbarrier),
                 "r"(parity)
                 : "memory");
#endif
}

/* The same as a loop that the compiler sees, and so may schedule other instructions into. */
static __device__ __forceinline__ void kg_mbarrier_poll(unsigned mbarrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    uint32_t done = 0;
    while (!done)
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(mbarrier), "r"(parity)
                     : "memory");
#endif
}

/* The same for what other blocks of the cluster wrote before they arrived (kg_send_peer). */
static __device__ __forceinline__ void kg_mbarrier_wait_cluster(unsigned mbarrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(mbarrier),
                 "r"(parity)
                 : "memory");
#endif
}

/* Whether the phase is complete; and a wait that is over if it was. */
static __device__ __forceinline__ bool kg_mbarrier_test(unsigned mbarrier, uint32_t parity) {
    unsigned done = 1;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n"
                 "}"
                 : "=r"(done)
                 : "r"(mbarrier), "r"(parity)
                 : "memory");
#endif
    return done != 0;
}
static __device__ __forceinline__ void kg_mbarrier_wait_unless(bool done, unsigned mbarrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "setp.ne.u32 done, %2, 0;\n"
                 "@done bra over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(mbarrier),
                 "r"(parity), "r"((unsigned)done)
                 : "memory");
#endif
}

/* The block's barrier `id` (0 is __syncthreads) among n_threads of its threads, a multiple of 32. */
static __device__ __forceinline__ void kg_barrier_sync(int id, int n_threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* The same for a thread that need not wait: others may read what it wrote before. */
static __device__ __forceinline__ void kg_barrier_arrive(int id, int n_threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

#endif
