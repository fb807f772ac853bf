/* Q8_0: 32 elements in 34 bytes: f16 d, then i8 q[32]; element i is d * q[i]. */
#include "format/dtype.h"
#include "format/dtype_rows.h"
#include <math.h>

enum { BLOCK_ELEMS = 32, BLOCK_BYTES = 34, Q_MAX = 127 };

void kg_q8_0_decode(const void *src, float *restrict dst, size_t n_elems) {
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float d = kg_f16_expand(kg_load_u16(block));
        for (int i = 0; i < BLOCK_ELEMS; i++) dst[at + i] = d * (int8_t)block[2 + i];
    }
}

static float max_magnitude(const float *x) {
    float most = 0;
    for (int i = 0; i < BLOCK_ELEMS; i++) {
        const float magnitude = fabsf(x[i]);
        if (!(magnitude <= most)) most = magnitude; /* takes a NaN and keeps it: every comparison with it is false */
        if (isnan(most)) break;
    }
    return most;
}

/* d = max|x| / 127 rounded to f16, at most 65504. q = x / d with the stored d, rounded to nearest even, within +-127.
 * An element's error is at most d / 2, except in blocks whose maximum is above 127 * 65504 (they saturate) or below 127
 * * 2^-14 (d is subnormal). A block that holds NaN or an infinity gets d = NaN and decodes to NaN throughout.
 *
 * ggml's quantize_row_q8_0_ref has the same d, but computes q with d before its rounding to f16. On normal weights one
 * q in 130 then differs by one; ggml's errors reach 0.56 d, and its mean square error is 0.1% larger. */
void kg_q8_0_encode(const float *src, void *dst, size_t n_elems) {
    const uint16_t f16_max = 0x7BFF, f16_nan = 0x7E00;
    uint8_t *block = dst;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float most = max_magnitude(src + at);
        uint16_t scale = isfinite(most) ? kg_f32_to_f16(most / Q_MAX) : f16_nan;
        if (isfinite(most) && scale > f16_max) scale = f16_max;
        const double d = kg_f16_expand(scale);
        memcpy(block, &scale, sizeof scale);
        for (int i = 0; i < BLOCK_ELEMS; i++) {
            const double q = d > 0 ? nearbyint(src[at + i] / d) : 0;
            block[2 + i] = (uint8_t)(int8_t)fmin(fmax(q, -Q_MAX), Q_MAX);
        }
    }
}
