#include "suites/support/chi_square.h"
#include "base/size.h"
#include <check.h>

double kg_chi_square_limit(size_t freedom) {
    static const double LIMITS[] = { 0, 15.137, 18.421, 21.108, 23.513, 25.745, 27.856, 29.878, 31.828, 33.720 };
    ck_assert_uint_lt(freedom, KG_COUNT_OF(LIMITS));
    return LIMITS[freedom];
}

double kg_chi_square(const size_t *counts, const double *probabilities, size_t n, size_t n_draws, size_t *freedom) {
    double sum = 0;
    size_t n_possible = 0;
    for (size_t i = 0; i < n; i++) {
        const double expected = probabilities[i] * (double)n_draws;
        if (probabilities[i] == 0) {
            ck_assert_msg(counts[i] == 0, "id %zu cannot be drawn, but was, %zu times", i, counts[i]);
            continue;
        }
        n_possible++;
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    }
    *freedom = n_possible - 1;
    return sum;
}
