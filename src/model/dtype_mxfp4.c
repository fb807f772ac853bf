/* MXFP4 (OCP Microscaling Formats v1.0), in GGUF's layout: 32 elements in 17 bytes: a byte e for the scale 2^(e-127)
 * (E8M0; 255 is NaN), then 16 bytes whose low nibbles are elements 0-15 and high nibbles elements 16-31. A nibble is
 * E2M1: a sign, then 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
#include "model/dtype.h"
#include "model/dtype_rows.h"
#include <math.h>

enum { BLOCK_ELEMS = 32, BLOCK_BYTES = 17, HALF = 16, E8M0_BIAS = 127, E8M0_NAN = 255, E2M1_MAX_EXPONENT = 2 };

static const float E2M1[16] = { 0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f };

static float e8m0_to_f32(uint8_t e) {
    if (e == 0) return 0x1p-127f;
    return kg_float_from_bits(e == E8M0_NAN ? 0x7FC00000 : (uint32_t)e << 23);
}

/* Values past float32's range (e of 253 and 254 with large elements) become infinite, as rounding has it. */
void kg_mxfp4_decode(const void *src, float *restrict dst, size_t n_elems) {
    const uint8_t *restrict block = src;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        const float scale = e8m0_to_f32(block[0]);
        float values[16];
        for (int code = 0; code < 16; code++) values[code] = E2M1[code] * scale;
        for (int i = 0; i < HALF; i++) dst[at + i] = values[block[1 + i] & 0xF];
        for (int i = 0; i < HALF; i++) dst[at + HALF + i] = values[block[1 + i] >> 4];
    }
}

/* The code nearest to x, ties to the even code (5 becomes 4, 0.25 becomes 0), beyond 6 saturating at 6. */
static uint8_t e2m1_round(double x) {
    static const double MIDDLES[7] = { 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0 }; /* between code k and k+1 */
    const double magnitude = fabs(x);
    uint8_t code = 0;
    for (int k = 0; k < 7; k++) {
        const int middle_rounds_up = k % 2;
        code = (uint8_t)(code + (magnitude > MIDDLES[k] || (middle_rounds_up && magnitude == MIDDLES[k])));
    }
    return (uint8_t)(code | (signbit(x) ? 8 : 0));
}

/* E8M0 of a block whose largest magnitude is most: floor(log2(most)) - 2, so that it lies in [4, 8) of E2M1's steps;
 * 2^-127 for what is smaller, zeros too. */
static uint8_t choose_scale(float most) {
    if (!isfinite(most)) return E8M0_NAN;
    if (most == 0) return 0;
    const int e = ilogbf(most) - E2M1_MAX_EXPONENT + E8M0_BIAS;
    return (uint8_t)(e < 0 ? 0 : e);
}

/* The scale is chosen as the OCP specification's section 6.3 says; elements between 6 and 8 scale steps saturate at 6,
 * all others round to nearest even. Zeros keep their sign. A block that holds NaN or an infinity gets scale NaN: it
 * decodes to NaN throughout. */
void kg_mxfp4_encode(const float *src, void *dst, size_t n_elems) {
    uint8_t *block = dst;
    for (size_t at = 0; at < n_elems; at += BLOCK_ELEMS, block += BLOCK_BYTES) {
        float most = 0;
        for (int i = 0; i < BLOCK_ELEMS && !isnan(most); i++)
            if (!(fabsf(src[at + i]) <= most)) most = fabsf(src[at + i]);
        block[0] = choose_scale(most);
        const double inverse = ldexp(1.0, E8M0_BIAS - block[0]);
        for (int i = 0; i < HALF; i++) {
            const double low = isfinite(most) ? src[at + i] * inverse : 0,
                         high = isfinite(most) ? src[at + HALF + i] * inverse : 0;
            block[1 + i] = (uint8_t)(e2m1_round(low) | e2m1_round(high) << 4);
        }
    }
}
