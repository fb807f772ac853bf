/* What the kernels of attention_weights share: the keys that a query sees, and the state of a row's softmax. */
#ifndef KIGO_KERNELS_ATTENTION_WEIGHTS_CUH
#define KIGO_KERNELS_ATTENTION_WEIGHTS_CUH

#include "kernels/attention/attention.cuh"
#include "kernels/ptx/cluster.cuh"
#include <float.h>

namespace kg_weights {

constexpr float LOG2_E = 1.44269504088896340736f;

struct weights_params : kg_attention_weights_args {
    uint32_t cluster; /* blocks that share the keys of a tile of queries */
};

/* Keys [begin, end) that a query sees. */
struct seen_keys {
    int begin, end;
    __device__ __forceinline__ seen_keys(const kg_attention_weights_args &a, int query) {
        begin = 0, end = (int)a.n_keys;
        if (!a.causal) return;
        end = max(0, (int)a.n_keys - (int)a.n_queries + query + 1);
        if (a.window > 0) begin = max(0, end - (int)min(a.window, a.n_keys));
    }
};

/* A row's largest score and the sum of exponentials relative to it, in powers of two. */
struct row_state {
    float largest, sum;
    __device__ __forceinline__ void add(const row_state &o) {
        const float both = fmaxf(largest, o.largest);
        sum = sum * exp2f(largest - both) + o.sum * exp2f(o.largest - both);
        largest = both;
    }
};

/* What exponentials are to be multiplied by. A row without anything seen has a sum of 0. */
__device__ __forceinline__ float share_of(float sum) {
    return sum == 0.0f ? 0.0f : __fdiv_rn(1.0f, sum);
}

/* A row's state over the keys of all blocks of the cluster, in their order; the addresses are this block's shared
 * memory, where each block has put its own before a barrier of the cluster. */
__device__ __forceinline__ row_state of_cluster(const float *largest, const float *sum, uint32_t n_blocks) {
    row_state all = { -FLT_MAX, 0 };
    for (uint32_t rank = 0; rank < n_blocks; rank++)
        all.add(
            { kg_load_peer<float>(kg_peer_address(largest, rank)), kg_load_peer<float>(kg_peer_address(sum, rank)) });
    return all;
}

/* Blocks that share the keys of an item, of n_items: as many as have least_keys each and run together, at_once on a
 * multiprocessor. */
uint32_t blocks_of_cluster(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a, uint64_t n_items,
                           uint32_t least_keys, uint32_t at_once);

/* weights_few_queries.cu: of halves, heads of at most 256 dims in whole vectors, tensors on 16 bytes. */
bool few_queries_suit(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a);
enum kg_status launch_few_queries(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a,
                                  struct kg_error *err);

/* weights_held.cu: as above, of at most 128 dims, keys that a cluster's registers hold. */
bool held_suits(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a);
enum kg_status launch_held(const struct kg_cuda_backend *cuda, const kg_attention_weights_args &a,
                           struct kg_error *err);

} // namespace kg_weights

#endif
