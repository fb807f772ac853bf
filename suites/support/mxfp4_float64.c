#include "suites/support/mxfp4_float64.h"
#include "base/clones.h"
#include <math.h>
#include <stdbool.h>

KG_VECTOR_CLONES void kg_f64_product(const double *x, const double *w, const float *bias, uint32_t n_out, uint32_t n_in,
                                     double *y) {
    for (uint32_t o = 0; o < n_out; o++, w += n_in) {
        double sums[4] = { 0 };
        for (uint32_t i = 0; i < n_in; i += 4)
            for (uint32_t lane = 0; lane < 4; lane++) sums[lane] += x[i + lane] * w[i + lane];
        y[o] = sums[0] + sums[1] + sums[2] + sums[3] + (bias ? bias[o] : 0);
    }
}

KG_VECTOR_CLONES void kg_f64_product_variance(const double *of_x, const double *w, uint32_t n_out, uint32_t n_in,
                                              double *variance) {
    double largest = 0;
    for (uint32_t i = 0; i < n_in; i++) largest = fmax(largest, of_x[i]);
    if (largest == 0) return;
    for (uint32_t o = 0; o < n_out; o++, w += n_in) {
        double sums[4] = { 0 };
        for (uint32_t i = 0; i < n_in; i += 4)
            for (uint32_t lane = 0; lane < 4; lane++) sums[lane] += of_x[i + lane] * w[i + lane] * w[i + lane];
        variance[o] = sums[0] + sums[1] + sums[2] + sums[3];
    }
}

void kg_f64_softmax(const double *x, double *y, size_t n) {
    double largest = x[0], sum = 0;
    for (size_t i = 1; i < n; i++) largest = fmax(largest, x[i]);
    for (size_t i = 0; i < n; i++) sum += y[i] = exp(x[i] - largest);
    for (size_t i = 0; i < n; i++) y[i] /= sum;
}

double kg_f64_choose(const double *logits, uint32_t n_experts, uint32_t n_used, int32_t *ids, double *weights) {
    double last = INFINITY;
    int32_t best = -1;
    for (uint32_t k = 0; k <= n_used; k++) {
        best = -1;
        for (uint32_t e = 0; e < n_experts; e++) {
            bool taken = false;
            for (uint32_t j = 0; j < k; j++) taken = taken || ids[j] == (int32_t)e;
            if (!taken && (best < 0 || logits[e] > logits[best])) best = (int32_t)e;
        }
        if (best < 0) return INFINITY; /* all are used */
        if (k == n_used) return last - logits[best];
        ids[k] = best;
        weights[k] = last = logits[best];
    }
    return 0;
}
