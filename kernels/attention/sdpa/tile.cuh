/* Tiles of queries, keys and values in shared memory, as a warpgroup of the Hopper variants uses them: the size of
 * rows, places in a ring, scores and sums of values by products.
 *
 * Rows of halves are in panels of 64 dims, 128 bytes a row, those of inputs of a byte (E4M3 or int8) in one panel.
 * Scores of bytes are made by products of bytes; values of bytes become halves (narrow.cuh) for products with weights
 * in f16. */
#ifndef KIGO_KERNELS_ATTENTION_SDPA_TILE_CUH
#define KIGO_KERNELS_ATTENTION_SDPA_TILE_CUH

#include "kernels/attention/sdpa/narrow.cuh"
#include "kernels/attention/sdpa/fragment.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace kg_sdpa {

/* TILE_BYTES: of keys, or of values as copies leave them; V_BYTES: of values that products read. */
template <typename In_, int DIMS_, int KEYS_> struct tile_shape {
    using In = In_;
    static constexpr bool NARROW = sizeof(In) == 1;
    static constexpr int DIMS = DIMS_, KEYS = KEYS_, PANELS = (DIMS + 63) / 64;
    static constexpr int ROW_BYTES = NARROW ? narrow_row_bytes(DIMS) : 128, INPUT_PANELS = NARROW ? 1 : PANELS;
    static constexpr int TILE_BYTES = INPUT_PANELS * KEYS * ROW_BYTES, V_BYTES = PANELS * KEYS * 128;
    static_assert(TILE_BYTES % 1024 == 0, "tiles begin with a whole atom of the swizzle");
};

/* Dynamic shared memory from its first multiple of 1024, which takes at most 1024 bytes more. */
static __device__ __forceinline__ unsigned tiles_begin() {
    extern __shared__ unsigned char memory[];
    return (kg_shared_address(memory) + 1023) & ~1023u;
}

static __device__ __forceinline__ void prefetch_maps(const hopper_params &p) {
    kg_tensor_map_prefetch(&p.q), kg_tensor_map_prefetch(&p.k), kg_tensor_map_prefetch(&p.v);
}

/* A place in a ring: which stage, and the parity of its phase. full, empty: the first stage's mbarriers. */
template <int STAGES> struct ring_place {
    int stage = 0;
    unsigned parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    __device__ __forceinline__ void wait_full(unsigned full) const {
        kg_mbarrier_wait(full + 8 * stage, parity);
    }
    __device__ __forceinline__ void wait_empty(unsigned empty) const {
        kg_mbarrier_wait(empty + 8 * stage, parity ^ 1);
    }
    /* A warp needs the stage no longer. */
    __device__ __forceinline__ void release(unsigned empty) {
        if (threadIdx.x % 32 == 0) kg_mbarrier_arrive(empty + 8 * stage);
        advance();
    }
};

/* score (add: +=) a step of 32 dims of the product. Of int8 the sums are integers, in the registers of the scores,
 * until finish_scores. */
template <typename Shape>
static __device__ __forceinline__ void add_byte_products(float (&score)[Shape::KEYS / 2], uint64_t q, uint64_t k,
                                                         bool add) {
    if constexpr (std::is_same_v<typename Shape::In, int8_t>) kg_wgmma<Shape::KEYS>::shared_s8(score, q, k, add);
    else kg_wgmma<Shape::KEYS>::shared_e4m3(score, q, k, add);
}

/* After the wait for them: sums of at most 128 products of int8 are below 2^21, floats exactly. */
template <typename Shape> static __device__ __forceinline__ void finish_scores(float (&score)[Shape::KEYS / 2]) {
    if constexpr (std::is_same_v<typename Shape::In, int8_t>) {
        kg_pin(score); /* not before the wait */
#pragma unroll
        for (int i = 0; i < Shape::KEYS / 2; i++) score[i] = __int2float_rn(__float_as_int(score[i]));
    }
}

/* Begins score = q k^T; q (a tile of Q_ROWS rows) and k: matrix descriptors. */
template <typename Shape, int Q_ROWS>
static __device__ __forceinline__ void begin_scores(float (&score)[Shape::KEYS / 2], uint64_t q, uint64_t k) {
    constexpr int DIMS = Shape::DIMS, KEYS = Shape::KEYS;
    kg_wgmma_fence();
    if constexpr (Shape::NARROW) {
#pragma unroll
        for (int i = 0; i < DIMS / 32; i++) add_byte_products<Shape>(score, q + i * 32 / 16, k + i * 32 / 16, i > 0);
    } else {
#pragma unroll
        for (int i = 0; i < DIMS / 16; i++)
            kg_wgmma<KEYS>::template shared<false>(score, q + (i / 4 * Q_ROWS * 128 + i % 4 * 32) / 16,
                                                   k + (i / 4 * KEYS * 128 + i % 4 * 32) / 16, i > 0);
    }
    kg_wgmma_commit();
}

/* Begins value = (add: +=) weight v; v: a matrix descriptor. */
template <typename Shape>
static __device__ __forceinline__ void begin_values(float (&value)[Shape::DIMS / 2],
                                                    unsigned (&weight)[Shape::KEYS / 4], uint64_t v, bool add) {
    kg_pin(weight);
    kg_wgmma_fence();
#pragma unroll
    for (int i = 0; i < Shape::KEYS / 16; i++)
        kg_wgmma<Shape::DIMS>::template registers<true>(value, reinterpret_cast<const unsigned(&)[4]>(weight[4 * i]),
                                                        v + i * 2048 / 16, add || i > 0);
    kg_wgmma_commit();
}

} // namespace kg_sdpa

#endif
