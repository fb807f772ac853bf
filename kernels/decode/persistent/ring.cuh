/* A ring of shared memory between one producer warp and the consumer warps of a block: bulk asynchronous copies
 * (cp.async.bulk, completing on an mbarrier) fill slots ahead of their use (PTX ISA, "Data Movement and Conversion
 * Instructions: Bulk copy" and "Parallel Synchronization: mbarrier"; sm_90).
 *
 * A slot has two barriers: `full` completes when the slot's bytes have arrived, `empty` when every warp that reads it
 * has left it. Both sides count slots alike: turn t uses slot t % n_slots for the (t / n_slots)th time.
 *
 * A parity tells a barrier's phase from the next, not from the one after that. So a warp may wait for a use of a slot
 * only where it knows the use before to be complete: the same warps read a slot in all of its uses. A block may end
 * when all of its copies have been waited for. */
#ifndef KIGO_KERNELS_DECODE_PERSISTENT_RING_CUH
#define KIGO_KERNELS_DECODE_PERSISTENT_RING_CUH

#include "kernels/ptx/mma.cuh"
#include "kernels/decode/persistent/program.h"

namespace kg_persistent {

struct ring {
    const kg_persistent_program &p;
    unsigned shared;       /* address of the block's memory */
    uint32_t slot, parity; /* of this turn */

    __device__ __forceinline__ void advance() {
        if (++slot == p.n_slots) slot = 0, parity ^= 1;
    }
    __device__ __forceinline__ unsigned full() const {
        return shared + p.shared.barriers + slot * 8;
    }
    __device__ __forceinline__ unsigned empty() const {
        return full() + p.n_slots * 8;
    }
    __device__ __forceinline__ unsigned data() const {
        return shared + p.shared.slots + slot * p.slot_bytes;
    }
};

__device__ __forceinline__ void barrier_init(unsigned barrier, uint32_t n_arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals) : "memory");
}

/* Makes initialised barriers known to the asynchronous copies. */
__device__ __forceinline__ void barrier_init_fence() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

/* Arrives and says how many bytes are to come before the barrier completes. */
__device__ __forceinline__ void barrier_expect(unsigned barrier, uint32_t n_bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier),
                 "r"(n_bytes)
                 : "memory");
#endif
}

__device__ __forceinline__ void barrier_wait(unsigned barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    uint32_t done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#endif
}

/* Weights are read once a token: they leave the second-level cache first. */
__device__ __forceinline__ uint64_t read_once_policy() {
    uint64_t policy = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
    return policy;
}

/* n_bytes (a multiple of 16; both addresses too) from global to shared memory, counted by the barrier. */
__device__ __forceinline__ void copy_bulk(unsigned to, const void *from, uint32_t n_bytes, unsigned barrier,
                                          uint64_t policy) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
        "%4;" ::"r"(to),
        "l"(from), "r"(n_bytes), "r"(barrier), "l"(policy)
        : "memory");
#endif
}

__device__ __forceinline__ uint2 load_shared_2(unsigned address) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ uint4 load_shared_4(unsigned address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

__device__ __forceinline__ float4 load_shared_floats(unsigned address) {
    const uint4 v = load_shared_4(address);
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

/* Among n_threads threads (a multiple of 32) of the block; barrier 0 is __syncthreads. */
__device__ __forceinline__ void named_barrier(int id, int n_threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* The same for who need not wait: others may read what it wrote before. */
__device__ __forceinline__ void named_barrier_arrive(int id, int n_threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

} // namespace kg_persistent

#endif
