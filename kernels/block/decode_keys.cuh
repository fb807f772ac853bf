/* The key loop of attention of one row (attention/decode.cu, decode/attention.cu):
 *
 *     s_j = q . k_j * scale,   then the online softmax of softmax_state.cuh
 *
 * q_shared (HEADS, LANES * 8) float32 in shared memory, zeros past head_dim; k, v (.., head_dim) of TC, where the
 * lane's dims begin. Map: a key is held by LANES neighbouring lanes, 8 dims each (16 bytes of float16); a warp takes 32
 * / LANES keys at once, and has UNROLL of them in flight. A key and its value are read once for HEADS query heads. Keys
 * past the end are read as the last one and scored -inf: positions that were never written are not read. */
#ifndef KIGO_KERNELS_BLOCK_DECODE_KEYS_CUH
#define KIGO_KERNELS_BLOCK_DECODE_KEYS_CUH

#include "kernels/block/reduce.cuh"
#include "kernels/block/softmax_state.cuh"

/* Adds keys [begin, end), shared among a block's N_WARPS warps, to the lane's states. */
template <typename TC, int LANES, int HEADS, int UNROLL, int N_WARPS>
static __device__ __forceinline__ void add_key_range(softmax_state (&state)[HEADS],
                                                     const float (*q_shared)[LANES * KG_VECTOR], const TC *k,
                                                     const TC *v, uint32_t head_dim, float scale, uint32_t begin,
                                                     uint32_t end) {
    constexpr int KEYS_AT_ONCE = KG_WARP / LANES;
    constexpr uint32_t STRIDE = N_WARPS * KEYS_AT_ONCE;
    const int lane = threadIdx.x % KG_WARP, warp = threadIdx.x / KG_WARP;
    for (uint32_t key = begin + warp * KEYS_AT_ONCE + lane / LANES, at = begin; at < end; at += STRIDE * UNROLL,
                  key += STRIDE * UNROLL) { /* `at` is uniform in the block: all lanes take part in the shuffles */
        kg_raw_vector<TC> k_raw[UNROLL], v_raw[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) k_raw[u].load(k + (size_t)min(key + u * STRIDE, end - 1) * head_dim);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) v_raw[u].load(v + (size_t)min(key + u * STRIDE, end - 1) * head_dim);
        float k_dims[UNROLL][KG_VECTOR], v_dims[UNROLL][KG_VECTOR];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            k_raw[u].to_floats(k_dims[u]);
            v_raw[u].to_floats(v_dims[u]);
        }
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float q[KG_VECTOR], score[UNROLL];
            kg_load_vector(&q_shared[h][lane % LANES * KG_VECTOR], q);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                float dot = 0;
#pragma unroll
                for (int d = 0; d < KG_VECTOR; d++) dot = fmaf(q[d], k_dims[u][d], dot);
                dot = kg_warp_reduce<kg_sum, LANES>(dot);
                score[u] = key + u * STRIDE < end ? dot * scale : -CUDART_INF_F;
            }
            add_keys<UNROLL>(state[h], score, v_dims);
        }
    }
}

#endif
