/* rope: rotary position embedding. Rotates pairs of the first n_rot dims of every head by an angle proportional to the
 * position.
 *
 *     angle(r, i) = (position + r) * freq_scale * freq_base^(-2 i / n_rot) / freq_factors[i],    i < n_rot / 2
 *     a, b = x[r][h][first(i)], x[r][h][second(i)]
 *     y[..first(i)] = m (a cos - b sin),    y[..second(i)] = m (a sin + b cos),    m = magnitude
 *
 * first(i), second(i) = i, i + n_rot/2 (KG_ROPE_HALF) or 2i, 2i + 1 (KG_ROPE_INTERLEAVED). Dims from n_rot on are
 * copied, without the magnitude. y may be x. Angles, cos and sin are computed in double. (Su et al., RoFormer, 2021.)
 *
 * Long-context scalings are expressed by freq_factors and magnitude, which the caller computes: YaRN's ramp (Peng et
 * al., 2023) and LongRoPE's lists (Ding et al., 2024) give one divisor per frequency. */
#ifndef KIGO_OPS_ROPE_H
#define KIGO_OPS_ROPE_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

enum { KG_ROPE_MAX_ROT = 4096 };

struct kg_rope_args {
    enum kg_precision activations;
    const void *x; /* (n_rows, n_heads, head_dim) */
    void *y;       /* (n_rows, n_heads, head_dim) */
    uint32_t n_rows, n_heads, head_dim;
    uint32_t position;            /* of row 0; row r is at position + r */
    uint32_t n_rot;               /* even, <= head_dim, <= KG_ROPE_MAX_ROT */
    enum kg_rope_pairing pairing; /* HALF or INTERLEAVED */
    float freq_base;              /* > 0 */
    float freq_scale;             /* > 0; 1: none */
    const float *freq_factors;    /* (n_rot / 2); NULL: all 1 */
    float magnitude;              /* > 0, factor of cos and sin; 1: none */
};

KG_WARN_UNUSED enum kg_status kg_rope_check(const struct kg_rope_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_rope(struct kg_thread_pool *pool, const struct kg_rope_args *args,
                                          struct kg_error *err);

#endif
