/* PTX of the tensor memory accelerator (TMA): bulk and tensor copies (PTX ISA, "Data Movement and Conversion
 * Instructions: cp.async.bulk, cp.async.bulk.tensor, prefetch, createpolicy"; sm_90, empty before), one instruction a
 * wrapper. One thread starts a copy; its bytes count at an mbarrier, those beyond a tensor, which come as zeros, too.
 */
#ifndef KIGO_KERNELS_PTX_TMA_CUH
#define KIGO_KERNELS_PTX_TMA_CUH

#include "kernels/ptx/memory.cuh"
#include <cuda.h>

/* For what is read once: it leaves L2 first. */
static __device__ __forceinline__ uint64_t kg_policy_evict_first() {
    uint64_t policy = 0;
    if constexpr (KG_SM_90) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/* n_bytes (a multiple of 16; both addresses too) from global to shared memory, by an L2 policy. */
static __device__ __forceinline__ void kg_bulk_copy(unsigned to, const void *from, uint32_t n_bytes, unsigned mbarrier,
                                                    uint64_t policy) {
    if constexpr (KG_SM_90)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
            "%4;" ::"r"(to),
            "l"(from), "r"(n_bytes), "r"(mbarrier), "l"(policy)
            : "memory");
}

/* n_bytes (a multiple of 16; the address too) from global memory to L2. */
static __device__ __forceinline__ void kg_bulk_prefetch(const void *from, uint32_t n_bytes) {
    if constexpr (KG_SM_90)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(n_bytes) : "memory");
}

static __device__ __forceinline__ void kg_tensor_map_prefetch(const CUtensorMap *map) {
    if constexpr (KG_SM_90) asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* The map's box at (d, row, head, batch) to shared memory. */
static __device__ __forceinline__ void kg_tensor_copy(unsigned to, const CUtensorMap *map, unsigned mbarrier, int d,
                                                      int row, int head, int batch) {
    if constexpr (KG_SM_90)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                     "l"(map), "r"(mbarrier), "r"(d), "r"(row), "r"(head), "r"(batch)
                     : "memory");
}

/* The box at (d, row, 0, 0) to the same place, and its bytes to the same mbarrier, of all blocks of the cluster whose
 * rank's bit is in `mask`. */
static __device__ __forceinline__ void kg_tensor_copy_multicast(unsigned to, const CUtensorMap *map, unsigned mbarrier,
                                                                int d, int row, uint32_t mask) {
    if constexpr (KG_SM_90)
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%3, %4, %5, %5}], [%2], %6;" ::"r"(to),
            "l"(map), "r"(mbarrier), "r"(d), "r"(row), "r"(0), "h"((uint16_t)mask)
            : "memory");
}

/* From shared memory to the map's box at (d, row, 0, 0), in a bulk group that is not committed yet. */
static __device__ __forceinline__ void kg_tensor_store(const CUtensorMap *map, unsigned from, int d, int row) {
    if constexpr (KG_SM_90)
        asm volatile(
            "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %4}], [%1];" ::"l"(map),
            "r"(from), "r"(d), "r"(row), "r"(0)
            : "memory");
}
/* The same, added to the box's elements: sums are rounded to the map's type, to nearest. */
static __device__ __forceinline__ void kg_tensor_add(const CUtensorMap *map, unsigned from, int d, int row) {
    if constexpr (KG_SM_90)
        asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %4}], "
                     "[%1];" ::"l"(map),
                     "r"(from), "r"(d), "r"(row), "r"(0)
                     : "memory");
}
static __device__ __forceinline__ void kg_bulk_commit() {
    if constexpr (KG_SM_90) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until the committed groups of this thread have read their sources, which may be written then, or are complete. */
static __device__ __forceinline__ void kg_bulk_wait_read() {
    if constexpr (KG_SM_90) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
static __device__ __forceinline__ void kg_bulk_wait() {
    if constexpr (KG_SM_90) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/* Makes this thread's stores to shared memory before it visible to the async proxy: to copies, and to products of
 * warpgroups, that come after it, or after a barrier after it. */
static __device__ __forceinline__ void kg_async_proxy_fence() {
    if constexpr (KG_SM_90) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The same for global memory: stores before it to copies after it, also where another block's flag lies between. */
static __device__ __forceinline__ void kg_async_proxy_fence_global() {
    if constexpr (KG_SM_90) asm volatile("fence.proxy.async.global;" ::: "memory");
}

#endif
