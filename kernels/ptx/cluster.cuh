/* PTX of clusters and of the shared memory of their blocks (PTX ISA, "barrier.cluster", "mapa", "st.async", "ld, st:
 * .shared::cluster"; sm_90, empty before), one instruction a wrapper. */
#ifndef KIGO_KERNELS_PTX_CLUSTER_CUH
#define KIGO_KERNELS_PTX_CLUSTER_CUH

#include "kernels/ptx/memory.cuh"

static __device__ __forceinline__ unsigned kg_cluster_rank() {
    unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

/* Every thread of the cluster arrives, warps whole; what it wrote before is visible to all after they have waited. */
static __device__ __forceinline__ void kg_cluster_arrive() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

/* The same for a thread that wrote nothing but mbarriers, and has fenced them (kg_mbarrier_init_fence): waits for no
 * store. */
static __device__ __forceinline__ void kg_cluster_arrive_relaxed() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void kg_cluster_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* The address that this place of the block's shared memory has in another block of the cluster. */
static __device__ __forceinline__ unsigned kg_peer_address(unsigned shared, unsigned rank) {
    unsigned address = shared;
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
#endif
    return address;
}
static __device__ __forceinline__ unsigned kg_peer_address(const void *p, unsigned rank) {
    return kg_peer_address(kg_shared_address(p), rank);
}

/* Loads and stores by such an address; a barrier of the cluster orders them. T: float or float4. */
template <typename T> static __device__ __forceinline__ T kg_load_peer(unsigned address) = delete;
template <> __device__ __forceinline__ float kg_load_peer<float>(unsigned address) {
    float v = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
#endif
    return v;
}
template <> __device__ __forceinline__ float4 kg_load_peer<float4>(unsigned address) {
    float4 v = {};
#if __CUDA_ARCH__ >= 900
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
#endif
    return v;
}
static __device__ __forceinline__ void kg_store_peer(unsigned address, float v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
#endif
}

/* Asynchronous stores, whose bytes count at an mbarrier of the receiving block (kg_mbarrier_expect): no fence, no
 * arrival. */
static __device__ __forceinline__ void kg_send_peer(unsigned address, float2 v, unsigned mbarrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
                 "f"(v.x), "f"(v.y), "r"(mbarrier)
                 : "memory");
#endif
}
static __device__ __forceinline__ void kg_send_peer(unsigned address, float4 v, unsigned mbarrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
        "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(mbarrier)
        : "memory");
#endif
}

#endif
