#include "measure/rank_test.h"
#include "base/buffer.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct sample {
    double value;
    bool is_y;
};

static int by_value(const void *a, const void *b) {
    const double x = ((const struct sample *)a)->value, y = ((const struct sample *)b)->value;
    return (x > y) - (x < y);
}

/* Twice the mean rank of each of n ascending samples: an integer, with ties too. */
static void double_ranks(const struct sample *samples, size_t n, size_t *ranks) {
    for (size_t begin = 0; begin < n;) {
        size_t end = begin + 1;
        while (end < n && samples[end].value == samples[begin].value) end++;
        for (size_t i = begin; i < end; i++) ranks[i] = begin + 1 + end;
        begin = end;
    }
}

/* Of all ways to choose k of n ranks, the share whose sum is at least (or, with at_most, at most) `sum`. ways[c][s]
 * counts the choices of c among the ranks seen so far with sum s; counts are exact below 2^53 and good to 1e-13 above.
 */
static double share_of_choices(const size_t *ranks, size_t n, size_t k, size_t sum, bool at_most) {
    const size_t n_sums = n * (n + 1) + 1;
    double *ways = kg_xcalloc((k + 1) * n_sums, sizeof *ways);
    size_t reach = 0; /* the largest sum so far */
    ways[0] = 1;
    for (size_t i = 0; i < n; i++) {
        reach += ranks[i];
        for (size_t c = i + 1 < k ? i + 1 : k; c > 0; c--) {
            const double *from = ways + (c - 1) * n_sums;
            double *to = ways + c * n_sums;
            for (size_t s = ranks[i]; s <= reach; s++) to[s] += from[s - ranks[i]];
        }
    }
    double all = 0, tail = 0;
    for (size_t s = 0; s < n_sums; s++) {
        const double count = ways[k * n_sums + s];
        all += count;
        if (at_most ? s <= sum : s >= sum) tail += count;
    }
    free(ways);
    return tail / all;
}

double kg_mann_whitney_greater(const double *x, size_t n_x, const double *y, size_t n_y) {
    const size_t n = n_x + n_y;
    if (n_x == 0 || n_y == 0) return 1;
    if (n > KG_RANK_TEST_MOST) return NAN;
    struct sample samples[KG_RANK_TEST_MOST] = { { 0 } };
    size_t ranks[KG_RANK_TEST_MOST], sum_x = 0, sum_y = 0;
    for (size_t i = 0; i < n; i++) {
        samples[i] = (struct sample){ i < n_x ? x[i] : y[i - n_x], i >= n_x };
        if (isnan(samples[i].value)) return NAN;
    }
    qsort(samples, n, sizeof *samples, by_value);
    double_ranks(samples, n, ranks);
    for (size_t i = 0; i < n; i++) *(samples[i].is_y ? &sum_y : &sum_x) += ranks[i];
    /* Both sides say the same; the smaller one takes fewer steps. */
    return n_y <= n_x ? share_of_choices(ranks, n, n_y, sum_y, false) : share_of_choices(ranks, n, n_x, sum_x, true);
}

struct ranked_p {
    double p;
    size_t place;
};

static int by_p(const void *a, const void *b) {
    const double x = ((const struct ranked_p *)a)->p, y = ((const struct ranked_p *)b)->p;
    return (x > y) - (x < y);
}

void kg_benjamini_hochberg(const double *p, size_t n, double *adjusted) {
    if (n == 0) return;
    struct ranked_p *order = kg_xcalloc(n, sizeof *order);
    for (size_t i = 0; i < n; i++) order[i] = (struct ranked_p){ p[i], i };
    qsort(order, n, sizeof *order, by_p);
    double least = 1;
    for (size_t i = n; i-- > 0;) {
        least = fmin(least, order[i].p * (double)n / (double)(i + 1));
        adjusted[order[i].place] = least;
    }
    free(order);
}
