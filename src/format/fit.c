#include "format/fit.h"
#include <float.h>
#include <math.h>

static float inverse(float d) {
    return fabsf(d) >= FLT_MIN ? 1 / d : 0;
}

float kg_scale_error(const float *x, int n, float d, int least, int most) {
    const float inv = inverse(d);
    float error = 0;
    for (int i = 0; i < n; i++) {
        const float e = x[i] - d * kg_round_within(x[i] * inv, (float)least, (float)most);
        error += e * e;
    }
    return error;
}

/* The least squares d of the integers that a first d gives. */
static float improved_scale(const float *x, int n, float d, int least, int most) {
    const float inv = inverse(d);
    float xq = 0, qq = 0;
    for (int i = 0; i < n; i++) {
        const float q = kg_round_within(x[i] * inv, (float)least, (float)most);
        xq += x[i] * q;
        qq += q * q;
    }
    return qq > 0 ? xq / qq : d;
}

float kg_fit_scale(const float *x, int n, int least, int most) {
    enum { N_STEPS = 5 };
    float extreme = 0, best = 0, best_error = FLT_MAX;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    if (extreme == 0) return 0;
    for (int side = 0; side < 2; side++)
        for (int step = -N_STEPS; step <= N_STEPS; step++) {
            const float end = (float)(side ? most : least) + (float)step * 0.2f;
            const float d = improved_scale(x, n, extreme / end, least, most);
            const float error = kg_scale_error(x, n, d, least, most);
            if (error < best_error) best = d, best_error = error;
        }
    return best;
}

float kg_affine_error(const float *x, int n, struct kg_affine a, int most) {
    const float inv = inverse(a.scale);
    float error = 0;
    for (int i = 0; i < n; i++) {
        const float e = x[i] + a.min - a.scale * kg_round_within((x[i] + a.min) * inv, 0, (float)most);
        error += e * e;
    }
    return error;
}

/* Least squares of both for the integers that a first pair gives; min stays positive or becomes 0. */
static struct kg_affine improved_affine(const float *x, int n, struct kg_affine a, int most) {
    const float inv = inverse(a.scale);
    float sx = 0, sq = 0, sxq = 0, sqq = 0;
    for (int i = 0; i < n; i++) {
        const float q = kg_round_within((x[i] + a.min) * inv, 0, (float)most);
        sx += x[i];
        sq += q;
        sxq += x[i] * q;
        sqq += q * q;
    }
    const float determinant = (float)n * sqq - sq * sq;
    if (!(determinant > 0)) return a;
    struct kg_affine better = { ((float)n * sxq - sx * sq) / determinant, (sq * sxq - sqq * sx) / determinant };
    if (better.min < 0) better = (struct kg_affine){ sqq > 0 ? sxq / sqq : a.scale, 0 };
    return better.scale > 0 ? better : a;
}

struct kg_affine kg_fit_affine(const float *x, int n, int most) {
    enum { N_STEPS = 10, N_ROUNDS = 2 };
    float low = 0, high = x[0];
    for (int i = 0; i < n; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    struct kg_affine best = { 0, -low };
    if (high <= low) return best;
    float best_error = FLT_MAX;
    for (int step = 0; step <= N_STEPS; step++) {
        struct kg_affine a = { (high - low) / ((float)most - 1 + 0.2f * (float)step), -low };
        for (int round = 0; round < N_ROUNDS; round++) a = improved_affine(x, n, a, most);
        const float error = kg_affine_error(x, n, a, most);
        if (error < best_error) best = a, best_error = error;
    }
    return best;
}
