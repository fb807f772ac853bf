/* PTX of Hopper's tensor cores, tensor copies, barriers and clusters, one instruction a wrapper (PTX ISA, "Asynchronous
 * Warpgroup Level Matrix Multiply-Accumulate Instructions", "Data Movement and Conversion Instructions: Tensor copy",
 * "Parallel Synchronization and Communication Instructions: mbarrier", "barrier.cluster"). They are for sm_90a alone;
 * elsewhere they trap, and callers refuse to launch (hopper_call.h). */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_HOPPER_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_HOPPER_CUH

#include <cuda.h>
#include <cstdint>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define KG_HOPPER 1
#else
#define KG_HOPPER 0
#endif

namespace kg_hopper {

/* Without code for sm_90a there is nothing to run: a launch that should have been refused fails. */
__device__ __forceinline__ void require_hopper() {
#if !KG_HOPPER
    asm volatile("trap;");
#endif
}

/* ---- barriers in shared memory ---- */

__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned n_arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals) : "memory");
}

/* Makes initialised barriers known to copies and to the cluster. */
__device__ __forceinline__ void barrier_init_fence() {
#if KG_HOPPER
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
#if KG_HOPPER
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}

/* The same without a branch, of who says yes. */
__device__ __forceinline__ void barrier_arrive_if(bool yes, unsigned barrier) {
#if KG_HOPPER
    asm volatile("{\n"
                 ".reg .pred yes;\n"
                 "setp.ne.u32 yes, %1, 0;\n"
                 "@yes mbarrier.arrive.shared::cta.b64 _, [%0];\n"
                 "}" ::"r"(barrier),
                 "r"((unsigned)yes)
                 : "memory");
#endif
}

/* Arrives and says how many bytes are to come before the barrier completes. */
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned n_bytes) {
#if KG_HOPPER
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
#endif
}

__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
#if KG_HOPPER
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
#endif
}

/* Whether a wait would end at once, and a wait that is over if that was so. */
__device__ __forceinline__ bool barrier_test(unsigned barrier, unsigned parity) {
    unsigned done = 1;
#if KG_HOPPER
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n"
                 "}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#endif
    return done != 0;
}
__device__ __forceinline__ void barrier_wait_unless(bool done, unsigned barrier, unsigned parity) {
#if KG_HOPPER
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "setp.ne.u32 done, %2, 0;\n"
                 "@done bra over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(barrier),
                 "r"(parity), "r"((unsigned)done)
                 : "memory");
#endif
}

/* Among n_threads threads (a multiple of 32) of the block; barrier 0 is __syncthreads. */
__device__ __forceinline__ void named_barrier_sync(int id, int n_threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int n_threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* ---- clusters ---- */

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank = 0;
#if KG_HOPPER
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

/* Every thread of the cluster arrives; what it wrote before is seen by all after they have waited. */
__device__ __forceinline__ void cluster_arrive() {
#if KG_HOPPER
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
/* The same for who wrote nothing but barriers, and has fenced them (barrier_init_fence): waits for no store. */
__device__ __forceinline__ void cluster_arrive_barriers() {
#if KG_HOPPER
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if KG_HOPPER
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/* The same place of the shared memory of another block of the cluster. */
__device__ __forceinline__ unsigned peer_address(unsigned shared, unsigned rank) {
    unsigned address = shared;
#if KG_HOPPER
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
#endif
    return address;
}

/* Stores to another block's memory whose bytes count at a barrier of that block: no fence, no arrival. */
__device__ __forceinline__ void send_peer(unsigned address, float2 v, unsigned barrier) {
#if KG_HOPPER
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address),
                 "f"(v.x), "f"(v.y), "r"(barrier)
                 : "memory");
#endif
}
__device__ __forceinline__ void send_peer(unsigned address, float4 v, unsigned barrier) {
#if KG_HOPPER
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
        "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier)
        : "memory");
#endif
}

__device__ __forceinline__ void store_shared(unsigned address, float2 v) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(v.x), "f"(v.y) : "memory");
}
__device__ __forceinline__ void store_shared(unsigned address, float4 v) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
__device__ __forceinline__ void store_shared(unsigned address, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
__device__ __forceinline__ uint4 load_shared_16(unsigned address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}
__device__ __forceinline__ float2 load_shared_2(unsigned address) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
    return v;
}
__device__ __forceinline__ float4 load_shared_4(unsigned address) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

/* ---- tensor copies ---- */

__device__ __forceinline__ void prefetch_map(const CUtensorMap *map) {
#if KG_HOPPER
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}

/* The map's box at (d, row, head, batch) to shared memory; its bytes count at the barrier, those beyond the tensor,
 * which come as zeros, too. */
__device__ __forceinline__ void copy_box(unsigned to, const CUtensorMap *map, unsigned barrier, int d, int row,
                                         int head, int batch) {
#if KG_HOPPER
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(d), "r"(row), "r"(head), "r"(batch)
                 : "memory");
#endif
}

/* ---- registers of a warpgroup ---- */

template <int N> __device__ __forceinline__ void registers_more() {
#if KG_HOPPER
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#endif
}
template <int N> __device__ __forceinline__ void registers_less() {
#if KG_HOPPER
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#endif
}

/* ---- warpgroup matrix products ---- */

/* Keeps the writing of registers that a product uses on this side of it. */
template <int N> __device__ __forceinline__ void pin(float (&r)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(r[i])::"memory");
}
template <int N> __device__ __forceinline__ void pin(unsigned (&r)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(r[i])::"memory");
}

/* Before the first product after registers that it uses were written. */
__device__ __forceinline__ void products_fence() {
#if KG_HOPPER
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void products_commit() {
#if KG_HOPPER
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/* Until all but the last N committed groups are done. */
template <int N> __device__ __forceinline__ void products_wait() {
#if KG_HOPPER
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}

/* Ordinary stores to shared memory before it are seen by products of who is told of them after it. */
__device__ __forceinline__ void stores_fence() {
#if KG_HOPPER
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* A matrix in shared memory, its rows of ROW_BYTES (64 or 128) written with a swizzle of as many bytes (8 rows make an
 * atom, aligned as its size). Across: the step between atoms along the rows' own direction (only for a transposed
 * operand wider than an atom). */
template <int ROW_BYTES = 128>
__device__ __forceinline__ uint64_t matrix_descriptor(unsigned shared, unsigned across_bytes = 16) {
    return (uint64_t)((shared & 0x3FFFF) >> 4) | (uint64_t)(across_bytes >> 4) << 16 |
           (uint64_t)(8 * ROW_BYTES >> 4) << 32 | (uint64_t)(ROW_BYTES == 128 ? 1 : 2) << 62;
}

} // namespace kg_hopper

#endif
