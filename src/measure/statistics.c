#include "measure/statistics.h"
#include "base/buffer.h"
#include "base/rng.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { N_RESAMPLES = 2000, LARGE_N = 512 };
static const uint64_t BOOTSTRAP_SEED = 0x6b69676f; /* "kigo" */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double kg_percentile_sorted(const double *ascending, size_t n, double p) {
    const double rank = p / 100.0 * (double)(n - 1);
    const size_t below = (size_t)rank;
    if (below + 1 >= n) return ascending[n - 1];
    return ascending[below] + (rank - (double)below) * (ascending[below + 1] - ascending[below]);
}

/* Moves what is less than the pivot (`or_equal`: or equal) to the front of values[begin..end); returns where the rest
 * begins. N. Lomuto's partition, without a branch that depends on a value: half of those would be guessed wrongly. */
static inline size_t move_less(double *values, size_t begin, size_t end, double pivot, bool or_equal) {
    size_t rest = begin;
    for (size_t i = begin; i < end; i++) {
        const double value = values[i];
        values[i] = values[rest];
        values[rest] = value;
        rest += or_equal ? value <= pivot : value < pivot;
    }
    return rest;
}

static double middle_of(double a, double b, double c) {
    const double less = a < b ? a : b, more = a < b ? b : a;
    return c < less ? less : c > more ? more : c;
}

/* One of n values, by a linear congruence (Numerical Recipes): the same in each call, and for no order of values that
 * occurs the worst. */
static double any_of(const double *values, size_t n, uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return values[(uint64_t)*state * n >> 32];
}

/* C. A. R. Hoare, Find, Communications of the ACM 4 (1961) 321. An order made to be the worst costs no more than a
 * sort, as D. R. Musser, Introspective sorting and selection algorithms, Software: Practice and Experience 27 (1997)
 * 983 has it. */
double kg_nth(double *values, size_t n, size_t k) {
    size_t begin = 0, end = n; /* the k-th is there, and none outside is on the wrong side of it */
    size_t steps_left = 8 * n + 64;
    uint32_t state = 1;
    while (end - begin > 1) {
        const size_t left = end - begin;
        if (left > steps_left) {
            qsort(values + begin, left, sizeof *values, compare_doubles);
            break;
        }
        steps_left -= left;
        const double *from = values + begin;
        const double a = any_of(from, left, &state), b = any_of(from, left, &state), c = any_of(from, left, &state);
        const double pivot = middle_of(a, b, c);
        size_t rest = move_less(values, begin, end, pivot, false);
        if (k < rest) {
            end = rest;
            continue;
        }
        /* None is less: those that equal it go at once, or many equal values would go one by one. */
        const bool is_least = rest == begin;
        if (is_least) rest = move_less(values, begin, end, pivot, true);
        if (rest == begin || (is_least && k < rest)) break; /* NaN is neither less nor equal; or the k-th is found */
        begin = rest;
    }
    return values[k];
}

double kg_median(double *values, size_t n) {
    const double upper = kg_nth(values, n, n / 2);
    if (n % 2) return upper;
    double lower = values[0]; /* the largest of the lower half, which lies before the upper */
    for (size_t i = 1; i < n / 2; i++) lower = values[i] > lower ? values[i] : lower;
    return lower + (upper - lower) / 2;
}

/* kg_percentile_sorted of values in any order, which are reordered. */
static double percentile(double *values, size_t n, double p) {
    const size_t below = (size_t)(p / 100.0 * (double)(n - 1));
    kg_nth(values, n, below); /* and none behind it is less */
    if (below + 1 < n) kg_nth(values + below + 1, n - below - 1, 0);
    return kg_percentile_sorted(values, n, p);
}

/* The median of each resample is the mean of two of the ascending samples: these two, by rank. */
struct resampled_ranks {
    size_t n;
    uint16_t low[N_RESAMPLES], high[N_RESAMPLES];
};

/* One resample: n draws with replacement, counted by rank instead of sorted. */
static void draw_ranks(struct kg_rng *rng, size_t n, uint16_t *low_rank, uint16_t *high_rank) {
    uint32_t counts[LARGE_N] = { 0 };
    for (size_t i = 0; i < n; i++) counts[kg_rng_below(rng, n)]++;
    const size_t low = (n - 1) / 2, high = n / 2;
    size_t seen = 0;
    uint16_t i = 0;
    while (seen + counts[i] <= low) seen += counts[i++];
    *low_rank = i;
    while (seen + counts[i] <= high) seen += counts[i++];
    *high_rank = i;
}

/* The draws follow from a constant seed and n alone, and a run's timings mostly have equally many samples. */
static const struct resampled_ranks *ranks_of(size_t n) {
    static _Thread_local struct resampled_ranks drawn;
    if (drawn.n == n) return &drawn;
    struct kg_rng rng;
    kg_rng_init(&rng, BOOTSTRAP_SEED, 0);
    for (int i = 0; i < N_RESAMPLES; i++) draw_ranks(&rng, n, &drawn.low[i], &drawn.high[i]);
    drawn.n = n;
    return &drawn;
}

/* For many samples the binomial ranks of the median (normal approximation) give the same interval without resampling.
 */
static void interval_by_ranks(const double *ascending, size_t n, struct kg_statistics *out) {
    const double half_width = 1.959964 * sqrt((double)n) / 2;
    const double middle = (double)n / 2;
    out->ci_lo = ascending[(size_t)floor(middle - half_width)];
    out->ci_hi = ascending[(size_t)ceil(middle + half_width)];
}

static void interval_by_bootstrap(const double *ascending, size_t n, struct kg_statistics *out) {
    const struct resampled_ranks *ranks = ranks_of(n);
    double *medians = kg_xcalloc(N_RESAMPLES, sizeof *medians);
    for (int i = 0; i < N_RESAMPLES; i++) {
        const double low = ascending[ranks->low[i]];
        medians[i] = low + (ascending[ranks->high[i]] - low) / 2;
    }
    out->ci_lo = percentile(medians, N_RESAMPLES, 2.5);
    out->ci_hi = percentile(medians, N_RESAMPLES, 97.5);
    free(medians);
}

void kg_statistics_compute(const double *samples, size_t n, struct kg_statistics *out) {
    *out = (struct kg_statistics){ .n = n };
    if (n == 0) return;
    double *work = kg_xcalloc(n, sizeof *work);
    memcpy(work, samples, n * sizeof *work);
    qsort(work, n, sizeof *work, compare_doubles);
    out->median = kg_percentile_sorted(work, n, 50);
    out->min = work[0];
    out->max = work[n - 1];
    if (n == 1) out->ci_lo = out->ci_hi = out->median;
    else if (n > LARGE_N) interval_by_ranks(work, n, out);
    else interval_by_bootstrap(work, n, out);
    for (size_t i = 0; i < n; i++) work[i] = fabs(work[i] - out->median);
    out->mad = kg_median(work, n);
    free(work);
}
