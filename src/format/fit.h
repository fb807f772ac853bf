/* The scale, or the scale and the minimum, with which a few numbers are rounded to small integers at the least square
 * error. There is no closed form: candidates from the numbers' range are each followed by least squares for the
 * integers that they give, and by the integers that this gives (Lloyd 1982, "Least squares quantization in PCM", in one
 * dimension with evenly spaced levels). Numbers are at most 1 in magnitude, so that no square overflows. */
#ifndef KIGO_FORMAT_FIT_H
#define KIGO_FORMAT_FIT_H

/* Nearest integer in [least, most], ties to even, of |v| < 2^22; of what is larger one of the two ends. */
static inline float kg_round_within(float v, float least, float most) {
    const float shift = 12582912; /* 1.5 * 2^23: a float32 that large has no fraction */
    const float rounded = (v + shift) - shift;
    return rounded < least ? least : rounded > most ? most : rounded;
}

/* d such that sum (x - d q)^2 is small for q = x / d rounded within [least, most], least < 0 < most. d may be negative:
 * the largest magnitude then has the longer side. 0 for zeros alone. */
float kg_fit_scale(const float *x, int n, int least, int most);

/* x = scale * q - min, q in [0, most], scale >= 0, min >= 0. */
struct kg_affine {
    float scale, min;
};
struct kg_affine kg_fit_affine(const float *x, int n, int most);

/* sum (x - d q)^2 and sum (x - (scale q - min))^2 for the best q. */
float kg_scale_error(const float *x, int n, float d, int least, int most);
float kg_affine_error(const float *x, int n, struct kg_affine a, int most);

#endif
