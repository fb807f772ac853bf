/* What the variants on tensor cores share on the way from a call to a launch. */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_CALL_H
#define KIGO_KERNELS_ATTENTION_SDPA_CALL_H

#include "kernels/attention/sdpa/sdpa.h"
#include <cuda.h>
#include <type_traits>

namespace kg_sdpa {

constexpr int ROWS = 64; /* queries of a warpgroup */

/* Bytes of a row of queries, keys or values of a byte in shared memory, of kernels for so many dims. */
constexpr int narrow_row_bytes(int dims) {
    return dims <= 64 ? 64 : 128;
}

/* A kernel's parameter, but for its inputs. */
struct call_params {
    __half *y;
    kg_sdpa_strides y_strides;
    const float *sinks;
    const float *q_scale, *k_scale, *v_scale; /* of inputs of a byte: of each batch entry and head */
    int n_batch, n_heads, group;              /* group: query heads a key head */
    int n_queries, n_keys, head_dim;
    int n_row_tiles; /* of the queries of one head */
    int window;
    float scale; /* of scores, in powers of two */
    bool causal;
    bool folded; /* a block takes the tile of queries as far from the end as its other one is from the beginning */
};

/* Tensor maps have boxes of ROWS queries and of box_keys keys, of 128 bytes (f16) or narrow_row_bytes. */
struct tensor_maps {
    CUtensorMap q, k, v;
};
struct hopper_params : tensor_maps, call_params {};

/* Why no variant on tensor cores takes the call, as text, or NULL. */
const char *refuses_operands(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args);

/* Of a call that has not been refused, in tiles of tile_rows queries. */
struct call_params call_params_make(const struct kg_sdpa_args *args, uint32_t tile_rows);
enum kg_status hopper_params_make(struct hopper_params *p, const struct kg_sdpa_args *args, uint32_t tile_rows,
                                  uint32_t box_keys, struct kg_error *err);

/* launch(a value of the type of the call's inputs): __half, uint8_t (E4M3) or int8_t. */
template <typename Launch> enum kg_status launch_inputs(const struct kg_sdpa_args *args, Launch launch) {
    if (args->inputs == KG_PRECISION_F8) return launch(uint8_t());
    if (args->inputs == KG_PRECISION_I8) return launch(int8_t());
    return launch(__half());
}

/* launch(..., DIMS) with a constant more: the least of 64, 96 and 128 that holds the head size. */
template <typename Launch> enum kg_status launch_for(const struct kg_sdpa_args *args, Launch launch) {
    return launch_inputs(args, [&](auto in) {
        if (args->head_dim <= 64) return launch(in, std::integral_constant<int, 64>());
        if (args->head_dim <= 96) return launch(in, std::integral_constant<int, 96>());
        return launch(in, std::integral_constant<int, 128>());
    });
}

/* The variant wgmma's kernel for small head sizes (wgmma_64.cu), and whether it is the faster one. */
bool wgmma_64_suits(const struct kg_sdpa_args *args);
enum kg_status wgmma_64_launch(const struct kg_cuda_backend *cuda, const struct kg_sdpa_args *args,
                               struct kg_error *err);

} // namespace kg_sdpa

#endif
