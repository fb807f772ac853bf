/* embedding: y[r] = scale * W[ids[r]] + P[position + r], decoded rows of weights in any block formats (contract in
 * ops/embedding.h).
 *
 * ids (n_rows), W (n_vocab, n_embd), y (n_rows, n_embd) of T. Grid (pieces of a row, rows); a thread decodes 8
 * neighbouring elements with the float32 arithmetic of the format's CPU reference: f32 outputs are its bits. An id
 * outside the vocabulary, which the caller is to refuse, reads nothing and gives a row of NaN, which no later check
 * overlooks. Positions are decoded by a separate function, whose format is known at run time only: they are few. */
#include "kernels/block/dequant.cuh"
#include "kernels/mxfp4/mxfp4.h"
#include "kernels/block/precision.cuh"
#include "kernels/preload.h"
#include <math_constants.h>

KG_PRELOADED(ops_embedding, KG_FIRST_TOKEN)

constexpr int THREADS = 128;
static_assert((int)kg_dequant::CHUNK == KG_VECTOR, "what is decoded at once is stored at once");

struct embedding_params {
    const uint8_t *weight;
    const int32_t *ids;
    void *y;
    size_t row_bytes;
    uint32_t n_vocab, n_embd;
    float scale;              /* 1 for none: changes no bit */
    const uint8_t *positions; /* NULL for none */
    size_t position_bytes;    /* of a row */
    enum kg_dtype position_dtype;
    bool positions_are_whole;
    uint32_t position; /* of row 0 */
    const struct kg_cuda_step *step;
};

/* w[0..8) += elements [i, i + 8) of the position's row. */
static __device__ __noinline__ void add_position(const embedding_params &p, uint32_t row, uint32_t i,
                                                 float (&w)[KG_VECTOR]) {
    const uint32_t position = (p.step ? p.step->position : p.position) + row;
    const uint8_t *from = p.positions + (size_t)position * p.position_bytes;
    float v[KG_VECTOR] = {};
    switch (p.position_dtype) {
#define POSITION_CASE(name, gguf_id, text, block_elems, block_bytes)                                                   \
    case KG_DTYPE_##name:                                                                                              \
        if constexpr (kg_dequant::is_plain<KG_DTYPE_##name>::value) {                                                  \
            if (!p.positions_are_whole) {                                                                              \
                kg_dequant::decode_chunk<KG_DTYPE_##name, false>(from, i, p.n_embd, v);                                \
                break;                                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        kg_dequant::decode_8<KG_DTYPE_##name>(from, i, v);                                                             \
        break;
        KG_DTYPE_LIST(POSITION_CASE)
#undef POSITION_CASE
    default: break;
    }
#pragma unroll
    for (int j = 0; j < KG_VECTOR; j++) w[j] += v[j];
}

/* WHOLE: rows are whole vectors, and aligned. */
template <enum kg_dtype D, typename T, bool WHOLE>
static __global__ void __launch_bounds__(THREADS) embedding_kernel(const embedding_params p) {
    const uint32_t i = (blockIdx.y * THREADS + threadIdx.x) * KG_VECTOR;
    if (i >= p.n_embd) return;
    const int32_t id = p.ids[blockIdx.x];
    float w[KG_VECTOR];
    if (id >= 0 && (uint32_t)id < p.n_vocab) {
        kg_dequant::decode_chunk<D, WHOLE>(kg_dequant::row_of<D>(p.weight, (size_t)id, p.row_bytes), i, p.n_embd, w);
    } else {
#pragma unroll
        for (int j = 0; j < KG_VECTOR; j++) w[j] = CUDART_NAN_F;
    }
#pragma unroll
    for (int j = 0; j < KG_VECTOR; j++) w[j] *= p.scale;
    if (p.positions) add_position(p, blockIdx.x, i, w);
    T *y = (T *)p.y + (size_t)blockIdx.x * p.n_embd + i;
    if constexpr (WHOLE) {
        kg_store_vector(y, w);
    } else {
#pragma unroll
        for (int j = 0; j < KG_VECTOR; j++)
            if (i + j < p.n_embd) kg_store(y + j, w[j]);
    }
}

extern "C" enum kg_status kg_cuda_embedding(struct kg_backend *backend, const struct kg_embedding_args *args,
                                            struct kg_error *err) {
    enum kg_status status = kg_embedding_check(args, err);
    if (!status) status = kg_cuda_require_float("embedding", "activations", args->activations, err);
    if (status || args->n_rows == 0) return status;
    const struct kg_weight *w = &args->weight, *positions = &args->positions;
    embedding_params p = {};
    p.weight = (const uint8_t *)w->data;
    p.ids = args->ids;
    p.y = args->y;
    p.row_bytes = kg_weight_row_bytes(w);
    p.n_vocab = w->n_rows;
    p.n_embd = w->n_cols;
    p.scale = args->scale > 0 ? args->scale : 1;
    if (positions->data) {
        p.positions = (const uint8_t *)positions->data;
        p.position_bytes = kg_weight_row_bytes(positions);
        p.position_dtype = positions->dtype;
        p.positions_are_whole = kg_dequant::rows_are_whole(positions);
        p.position = args->position;
        p.step = kg_cuda_of(backend)->step;
    }
    const bool is_repacked = kg_mxfp4_repacked_range(kg_cuda_of(backend), w) != NULL;
    const dim3 grid(args->n_rows, kg_blocks_for(p.n_embd, THREADS * KG_VECTOR));
    return kg_dequant::visit_format(
        w, is_repacked, kg_vector_aligned(args->y), "embedding", err, [&](auto format, auto whole) -> enum kg_status {
            const auto kernel = args->activations == KG_PRECISION_F16 ? embedding_kernel<format, __half, whole>
                                                                      : embedding_kernel<format, float, whole>;
            kernel<<<grid, THREADS, 0, kg_cuda_of(backend)->stream>>>(p);
            return kg_cuda_launched(err, "embedding");
        });
}
