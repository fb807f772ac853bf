#include "measure/robust.h"
#include "base/buffer.h"
#include "base/size.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MAD_TO_SIGMA = 1.482602218505602; /* 1 / the normal distribution's 75% point */

double kg_hodges_lehmann(const double *values, size_t n) {
    double *means = kg_xcalloc(n * (n + 1) / 2, sizeof *means);
    size_t n_means = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i; k < n; k++) means[n_means++] = values[i] + (values[k] - values[i]) / 2;
    const double centre = kg_median(means, n_means);
    free(means);
    return centre;
}

/* b_n of Croux and Rousseeuw. */
static double few_values(size_t n) {
    static const double B[] = { 1, 1, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107 };
    return n < KG_COUNT_OF(B) ? B[n] : (double)n / ((double)n - 0.8);
}

double kg_robust_sigma(const double *values, size_t n) {
    if (n < 2) return 0;
    double *work = kg_xcalloc(n, sizeof *work);
    memcpy(work, values, n * sizeof *work);
    const double median = kg_median(work, n);
    for (size_t i = 0; i < n; i++) work[i] = fabs(work[i] - median);
    const double mad = kg_median(work, n);
    free(work);
    return few_values(n) * MAD_TO_SIGMA * mad;
}

double kg_robust_sigma_log_variance(size_t n) {
    return 1 / (2 * 0.3675 * (double)n);
}

double kg_student_limit(double z, double df) {
    const double z2 = z * z, z3 = z2 * z, z5 = z3 * z2, z7 = z5 * z2;
    const double g1 = (z3 + z) / 4, g2 = (5 * z5 + 16 * z3 + 3 * z) / 96,
                 g3 = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384;
    return z + g1 / df + g2 / (df * df) + g3 / (df * df * df);
}
