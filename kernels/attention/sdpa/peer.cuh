/* PTX of blocks of a cluster that write into each other's shared memory, one instruction a wrapper (PTX ISA,
 * "barrier.cluster", "mapa", "st.async", "mbarrier"). Bodies are empty below sm_90. */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_PEER_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_PEER_CUH

#include <cstdint>
#include <cuda_runtime.h>

namespace kg_sdpa_peer {

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

/* Every thread of the cluster arrives, warps whole; those that wait go on when all have. */
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* The barrier completes once n_bytes have been sent to it; the cluster knows of it after cluster_wait. */
__device__ __forceinline__ void receive_begin(unsigned barrier, unsigned n_bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(n_bytes)
                 : "memory");
#endif
}

__device__ __forceinline__ void receive_wait(unsigned barrier) {
#if __CUDA_ARCH__ >= 900
    unsigned done = 0;
    while (!done)
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(barrier)
                     : "memory");
#endif
}

/* The same place of the shared memory of another block of the cluster. */
__device__ __forceinline__ unsigned peer_address(unsigned shared, unsigned rank) {
    unsigned address = shared;
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
#endif
    return address;
}

/* To the shared memory of another block of the cluster; its bytes count at that block's barrier when they are there. */
__device__ __forceinline__ void send(unsigned address, unsigned barrier, float4 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
            address),
        "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
        : "memory");
#endif
}

__device__ __forceinline__ void send(unsigned address, unsigned barrier, float2 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
        "f"(v.x), "f"(v.y), "r"(barrier)
        : "memory");
#endif
}

} // namespace kg_sdpa_peer

#endif
