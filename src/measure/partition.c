#include "measure/partition.h"
#include "base/buffer.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdlib.h>

static const double PENALTY = 4, LEAST_SCALE = 1e-5;

/* A heap of the values on one side of a running median; the top is the largest of (sign * value). */
struct heap {
    double *items;
    size_t n;
    double sum; /* of the values */
    double sign;
};

static void swap(double *a, double *b) {
    const double x = *a;
    *a = *b;
    *b = x;
}

static void push(struct heap *h, double value) {
    size_t i = h->n++;
    h->items[i] = h->sign * value;
    h->sum += value;
    for (; i > 0 && h->items[(i - 1) / 2] < h->items[i]; i = (i - 1) / 2) swap(&h->items[(i - 1) / 2], &h->items[i]);
}

static double pop(struct heap *h) {
    const double value = h->sign * h->items[0];
    h->items[0] = h->items[--h->n];
    h->sum -= value;
    for (size_t i = 0;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n) break;
        if (child + 1 < h->n && h->items[child + 1] > h->items[child]) child++;
        if (h->items[i] >= h->items[child]) break;
        swap(&h->items[i], &h->items[child]);
        i = child;
    }
    return value;
}

/* Adds a value to a running median; returns the sum of distances from it. */
static double add_distance(struct heap *low, struct heap *high, double value) {
    if (low->n == 0 || value <= low->items[0]) push(low, value);
    else push(high, value);
    if (low->n > high->n + 1) push(high, pop(low));
    if (high->n > low->n) push(low, pop(high));
    const double middle = low->n > high->n ? low->items[0] : 0;
    return high->sum - (low->sum - middle);
}

/* Of Laplace noise, whose deviation is sqrt(2) b; the difference of two neighbours has sqrt(2) times the deviation, and
 * the median distance is 0.6745 of a deviation. */
static double noise_scale(const double *values, size_t n) {
    double *differences = kg_xcalloc(n, sizeof *differences);
    for (size_t i = 1; i < n; i++) differences[i - 1] = fabs(values[i] - values[i - 1]);
    const double median = kg_median(differences, n - 1);
    free(differences);
    return fmax(median / 0.6745 / 2, LEAST_SCALE);
}

void kg_partition(const double *values, size_t n, size_t shortest, size_t *from) {
    const double scale = noise_scale(values, n), penalty = PENALTY * log((double)n);
    double *best = kg_xcalloc(n + 1, sizeof *best), *room = kg_xcalloc(2 * n + 2, sizeof *room);
    for (size_t e = 1; e <= n; e++) best[e] = INFINITY;
    best[0] = -penalty;
    for (size_t s = 0; s < n; s++) {
        struct heap low = { room, 0, 0, 1 }, high = { room + n + 1, 0, 0, -1 };
        if (isinf(best[s])) continue;
        for (size_t e = s + 1; e <= n; e++) {
            const double cost = best[s] + penalty + add_distance(&low, &high, values[e - 1]) / scale;
            if (e - s < shortest || cost >= best[e]) continue;
            best[e] = cost;
            from[e] = s;
        }
    }
    free(room);
    free(best);
}
