/* q, k and v of many rows between their products and attention, in one launch: bias, rotation, cache.
 *
 *     q'[r][h] = rope(q[r][h] + bias_q[h]) to y        k_cache[h][position + r] = rope(k[r][h] + bias_k[h])
 *                                                      v_cache[h][position + r] = v[r][h] + bias_v[h]
 *
 * Device memory. Rotation: ops/rope.h. Numerics: what linear, rope and kv_write give, bit by bit: q, k, v with their
 * bias are rounded to the activations' precision, and again once they are rotated. */
#ifndef KIGO_KERNELS_PREFILL_HEADS_H
#define KIGO_KERNELS_PREFILL_HEADS_H

#include "kernels/block/rotation.cuh"
#include "kernels/cuda_backend.h"

struct kg_row_heads {
    struct {
        const void *x;     /* (n_rows, n_heads or n_kv_heads, head_dim) */
        const float *bias; /* (as many elements as a row of x); NULL for none */
    } q, k, v;
    bool wide; /* x is float32; else of the activations' precision */
    enum kg_precision activations, kv;
    void *y;                 /* as q, of the activations' precision; may be q where that is not wide */
    void *k_cache, *v_cache; /* (n_kv_heads, n_ctx, head_dim) */
    uint32_t n_rows, n_heads, n_kv_heads, head_dim, n_ctx, position;
    bool half; /* pairs (i, i + n_rot/2), else (2i, 2i + 1) */
    struct kg_rope_angles angles;
};

enum kg_status kg_cuda_row_heads(const struct kg_cuda_backend *cuda, const struct kg_row_heads *p,
                                 struct kg_error *err);

#endif
