/* PTX of barriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier, bar"; sm_90 for all but
 * bar), one instruction a wrapper. An mbarrier is 8 bytes of shared memory, given by its address. */
#ifndef KIGO_KERNELS_PTX_MBARRIER_CUH
#define KIGO_KERNELS_PTX_MBARRIER_CUH

#include "kernels/ptx/memory.cuh"

static __device__ __forceinline__ void kg_mbarrier_init(unsigned mbarrier, uint32_t n_arrivals) {
    if constexpr (KG_SM_90)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(n_arrivals) : "memory");
}

/* Makes initialised mbarriers visible to asynchronous copies and to the cluster. */
static __device__ __forceinline__ void kg_mbarrier_init_fence() {
    if constexpr (KG_SM_90) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* init(i) for all i < n, shared by n_warps warps, of which this is number `warp`, and the fence: an mbarrier takes a
 * warp some 60 cycles. A barrier has to follow. */
template <typename Init>
static __device__ __forceinline__ void kg_mbarrier_init_all(uint32_t n, uint32_t warp, uint32_t n_warps,
                                                            const Init &init) {
    if (threadIdx.x % 32 != 0) return;
    for (uint32_t i = warp; i < n; i += n_warps) init(i);
    kg_mbarrier_init_fence();
}

static __device__ __forceinline__ void kg_mbarrier_arrive(unsigned mbarrier) {
    if constexpr (KG_SM_90) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}

/* The same by a predicate and no branch; at an mbarrier of another block of the cluster (kg_peer_address). */
#define KG_ARRIVE_IF(where)                                                                                            \
    "{\n.reg .pred yes;\nsetp.ne.u32 yes, %1, 0;\n@yes mbarrier.arrive.shared::" where ".b64 _, [%0];\n}"
static __device__ __forceinline__ void kg_mbarrier_arrive_if(bool arrives, unsigned mbarrier) {
    if constexpr (KG_SM_90) asm volatile(KG_ARRIVE_IF("cta")::"r"(mbarrier), "r"((unsigned)arrives) : "memory");
}
static __device__ __forceinline__ void kg_mbarrier_arrive_peer_if(bool arrives, unsigned mbarrier) {
    if constexpr (KG_SM_90) asm volatile(KG_ARRIVE_IF("cluster")::"r"(mbarrier), "r"((unsigned)arrives) : "memory");
}
#undef KG_ARRIVE_IF

/* Arrives; the phase completes when n_bytes more have come, too. */
static __device__ __forceinline__ void kg_mbarrier_expect(unsigned mbarrier, uint32_t n_bytes) {
    if constexpr (KG_SM_90)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(n_bytes) : "memory");
}

/* Until the phase of this parity is complete; the same for what other blocks of the cluster wrote before they arrived
 * (kg_send_peer); and a wait that is over if kg_mbarrier_test was. */
#define KG_WAIT(first, order)                                                                                          \
    "{\n.reg .pred done;\n" first "again:\nmbarrier.try_wait.parity" order ".shared::cta.b64 done, [%0], %1;\n"        \
    "@done bra over;\nbra again;\nover:\n}"
static __device__ __forceinline__ void kg_mbarrier_wait(unsigned mbarrier, uint32_t parity) {
    if constexpr (KG_SM_90) asm volatile(KG_WAIT("", "")::"r"(mbarrier), "r"(parity) : "memory");
}
static __device__ __forceinline__ void kg_mbarrier_wait_cluster(unsigned mbarrier, uint32_t parity) {
    if constexpr (KG_SM_90) asm volatile(KG_WAIT("", ".acquire.cluster")::"r"(mbarrier), "r"(parity) : "memory");
}
static __device__ __forceinline__ void kg_mbarrier_wait_unless(bool done, unsigned mbarrier, uint32_t parity) {
    if constexpr (KG_SM_90)
        asm volatile(KG_WAIT("setp.ne.u32 done, %2, 0;\n@done bra over;\n", "")::"r"(mbarrier), "r"(parity),
                     "r"((unsigned)done)
                     : "memory");
}
#undef KG_WAIT

/* Whether the phase is complete, asked once; and a wait as a loop that the compiler sees, and so may schedule other
 * instructions into. */
#define KG_ASK(how, done, mbarrier, parity)                                                                            \
    asm volatile("{\n.reg .pred p;\nmbarrier." how ".parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"    \
                 : "=r"(done)                                                                                          \
                 : "r"(mbarrier), "r"(parity)                                                                          \
                 : "memory")
static __device__ __forceinline__ bool kg_mbarrier_test(unsigned mbarrier, uint32_t parity) {
    unsigned done = 1;
    if constexpr (KG_SM_90) KG_ASK("test_wait", done, mbarrier, parity);
    return done != 0;
}
static __device__ __forceinline__ void kg_mbarrier_poll(unsigned mbarrier, uint32_t parity) {
    if constexpr (KG_SM_90)
        for (uint32_t done = 0; !done;) KG_ASK("try_wait", done, mbarrier, parity);
}
#undef KG_ASK

/* The block's barrier `id` (0 is __syncthreads) among n_threads of its threads, a multiple of 32. */
static __device__ __forceinline__ void kg_barrier_sync(int id, int n_threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* The same for a thread that need not wait: others may read what it wrote before. */
static __device__ __forceinline__ void kg_barrier_arrive(int id, int n_threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

#endif
