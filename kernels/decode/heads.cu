/* What a decode step does with a row's q, k and v between their products and attention, in one launch:
 *
 *     q[h] <- rope(rmsnorm(q[h]) * q_weight); k_cache[h][position] <- rope(rmsnorm(k[h]) * k_weight); v_cache <- v[h]
 *
 * (contracts in ops/rmsnorm.h, rope.h, kv_write.h). q, k, v are heads of head_dim elements of the activations'
 * precision T; the caches (n_kv_heads, n_ctx, head_dim) of TC. A warp has one head of q, k or v; lane l its elements l,
 * l + 32, ... Squares are summed in float32: a lane's elements in order, then a butterfly. The normalised head is
 * rounded to T, as the unfused operations have it, and lies in shared memory while pairs are rotated in float32. */
#include "kernels/block/precision.cuh"
#include "kernels/block/reduce.cuh"
#include "kernels/block/rmsnorm.cuh"
#include "kernels/decode/launches.h"
#include "kernels/preload.h"
#include "kernels/ptx/dependent.cuh"

KG_PRELOADED(decode_heads, KG_NEXT_TOKENS)

constexpr uint32_t WARPS = 4, THREADS = WARPS * KG_WARP, MAX_DIM = 256, LANE_ELEMS = MAX_DIM / KG_WARP;

/* head[d] = x[d] inverse_rms weight[d], rounded to T. */
template <typename T>
static __device__ __forceinline__ void normalise(const T *x, const float *weight, uint32_t n, float eps, float *head) {
    const uint32_t lane = threadIdx.x % KG_WARP;
    float v[LANE_ELEMS], sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < LANE_ELEMS; i++) {
        const uint32_t d = lane + i * KG_WARP;
        v[i] = d < n ? kg_load(x + d) : 0;
        sum += v[i] * v[i];
    }
    const float inverse_rms = kg_inverse_rms(kg_warp_reduce<kg_sum>(sum), n, eps);
#pragma unroll
    for (uint32_t i = 0; i < LANE_ELEMS; i++) {
        const uint32_t d = lane + i * KG_WARP;
        T rounded;
        kg_store(&rounded, d < n ? v[i] * inverse_rms * weight[d] : 0);
        if (d < n) head[d] = kg_load(&rounded);
    }
    __syncwarp(); /* the head is whole */
}

/* Element d of the rotated head. */
static __device__ __forceinline__ float rotated(const struct kg_step_heads &h, const float *head, uint32_t d) {
    if (d >= h.n_rot) return head[d];
    const uint32_t n_pairs = h.n_rot / 2;
    const uint32_t pair = h.half ? d % n_pairs : d / 2;
    const bool is_second = h.half ? d >= n_pairs : d % 2 == 1;
    const float a = head[h.half ? pair : 2 * pair], b = head[h.half ? pair + n_pairs : 2 * pair + 1];
    const float2 r = h.cos_sin[pair];
    return is_second ? a * r.y + b * r.x : a * r.x - b * r.y;
}

template <typename T, typename TC>
static __global__ void __launch_bounds__(THREADS) step_heads_kernel(const struct kg_step_head_norms p) {
    __shared__ float heads[WARPS][MAX_DIM];
    const struct kg_step_heads &h = p.heads;
    const uint32_t lane = threadIdx.x % KG_WARP, index = blockIdx.x * WARPS + threadIdx.x / KG_WARP;
    float *head = heads[threadIdx.x / KG_WARP];
    kg_dependents_start();
    kg_dependency_wait(); /* q, k, v, the rotation table and the position are in memory, and the cache's readers are
                             done */
    if (index >= h.n_heads + 2 * h.n_kv_heads) return;
    const bool is_q = index < h.n_heads, is_v = index >= h.n_heads + h.n_kv_heads;
    const uint32_t kv_head = is_q ? 0 : (index - h.n_heads) % h.n_kv_heads;
    const T *from = static_cast<const T *>(is_q   ? p.q
                                           : is_v ? p.v
                                                  : p.k) +
                    (size_t)(is_q ? index : kv_head) * h.head_dim;
    const size_t at = ((size_t)kv_head * h.n_ctx + h.step->position) * h.head_dim;
    if (!is_v) normalise<T>(from, is_q ? p.q_weight : p.k_weight, h.head_dim, p.eps, head);
    for (uint32_t d = lane; d < h.head_dim; d += KG_WARP) {
        const float value = is_v ? kg_load(from + d) : rotated(h, head, d);
        if (is_q) {
            kg_store(static_cast<T *>(p.q) + (size_t)index * h.head_dim + d, value);
            continue;
        }
        T rounded; /* as the unfused rope stores it */
        kg_store(&rounded, value);
        kg_store(static_cast<TC *>(is_v ? h.v_cache : h.k_cache) + at + d, kg_load(&rounded));
    }
}

bool kg_step_heads_fit(uint32_t head_dim) {
    return head_dim <= MAX_DIM;
}

template <typename T>
static enum kg_status launch(const struct kg_cuda_backend *cuda, const struct kg_step_head_norms *p,
                             struct kg_error *err) {
    const uint32_t n_heads = p->heads.n_heads + 2 * p->heads.n_kv_heads;
    return kg_launch_dependent(
        cuda, p->heads.kv == KG_PRECISION_F16 ? step_heads_kernel<T, __half> : step_heads_kernel<T, float>,
        dim3(kg_blocks_for(n_heads, WARPS)), THREADS, *p, "decode step: heads", err);
}

enum kg_status kg_step_norm_heads(const struct kg_cuda_backend *cuda, const struct kg_step_head_norms *p,
                                  struct kg_error *err) {
    return p->activations == KG_PRECISION_F16 ? launch<__half>(cuda, p, err) : launch<float>(cuda, p, err);
}
