/* PTX of clusters and of the shared memory of their blocks (PTX ISA, "barrier.cluster", "mapa", "st.async", "ld, st:
 * .shared::cluster"; sm_90, empty before), one instruction a wrapper. */
#ifndef KIGO_KERNELS_PTX_CLUSTER_CUH
#define KIGO_KERNELS_PTX_CLUSTER_CUH

#include "kernels/ptx/memory.cuh"

static __device__ __forceinline__ unsigned kg_cluster_rank() {
    unsigned rank = 0;
    if constexpr (KG_SM_90) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Every thread of the cluster arrives, warps whole; what it wrote before is visible to all after they have waited. */
static __device__ __forceinline__ void kg_cluster_arrive() {
    if constexpr (KG_SM_90) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/* The same for a thread that wrote nothing but mbarriers, and has fenced them (kg_mbarrier_init_fence): waits for no
 * store. */
static __device__ __forceinline__ void kg_cluster_arrive_relaxed() {
    if constexpr (KG_SM_90) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

static __device__ __forceinline__ void kg_cluster_wait() {
    if constexpr (KG_SM_90) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The address that this place of the block's shared memory has in another block of the cluster. */
static __device__ __forceinline__ unsigned kg_peer_address(unsigned shared, unsigned rank) {
    unsigned address = shared;
    if constexpr (KG_SM_90)
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
    return address;
}
static __device__ __forceinline__ unsigned kg_peer_address(const void *p, unsigned rank) {
    return kg_peer_address(kg_shared_address(p), rank);
}

/* Loads and stores by such an address; a barrier of the cluster orders them. T: float, float2 or float4. */
template <typename T> static __device__ __forceinline__ T kg_load_peer(unsigned address) = delete;
KG_LOAD(kg_load_peer, KG_SM_90, "ld.shared::cluster.f32", float, 1, "f", unsigned, "r")
KG_LOAD(kg_load_peer, KG_SM_90, "ld.shared::cluster.v2.f32", float2, 2, "f", unsigned, "r")
KG_LOAD(kg_load_peer, KG_SM_90, "ld.shared::cluster.v4.f32", float4, 4, "f", unsigned, "r")
KG_STORE(kg_store_peer, KG_SM_90, "st.shared::cluster.f32", float, 1, "f", unsigned, "r")

/* Asynchronous stores, whose bytes count at an mbarrier of the receiving block (kg_mbarrier_expect): no fence, no
 * arrival. */
#define KG_SEND "st.async.shared::cluster.mbarrier::complete_tx::bytes."
static __device__ __forceinline__ void kg_send_peer(unsigned address, float2 v, unsigned mbarrier) {
    if constexpr (KG_SM_90)
        asm volatile(KG_SEND "v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address), "f"(v.x), "f"(v.y), "r"(mbarrier)
                     : "memory");
}
static __device__ __forceinline__ void kg_send_peer(unsigned address, float4 v, unsigned mbarrier) {
    if constexpr (KG_SM_90)
        asm volatile(KG_SEND "v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z),
                     "f"(v.w), "r"(mbarrier)
                     : "memory");
}
#undef KG_SEND

#endif
