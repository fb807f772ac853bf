#include "measure/steps.h"
#include "base/buffer.h"
#include "measure/rank_test.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 3 };
static const double PENALTY = 4, LARGEST_P = 0.01, LEAST_SCALE = 1e-5;
static const double MEDIAN_ERROR = 1.2533; /* of a normal sample's median, in sigma / sqrt(n) */
static const double ONE_OF_40 = 1.96, FARTHEST = 5, CLIP = 3;

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

/* from[e]: where the last level of the best split of the first e values begins. */
static void partition(const double *values, size_t n, size_t *from) {
    const double scale = noise_scale(values, n), penalty = PENALTY * log((double)n);
    double *best = kg_xcalloc(n + 1, sizeof *best), *room = kg_xcalloc(2 * n + 2, sizeof *room);
    for (size_t e = 1; e <= n; e++) best[e] = INFINITY;
    best[0] = -penalty;
    for (size_t s = 0; s < n; s++) {
        struct heap low = { room, 0, 0, 1 }, high = { room + n + 1, 0, 0, -1 };
        if (isinf(best[s])) continue;
        for (size_t e = s + 1; e <= n; e++) {
            const double cost = best[s] + penalty + add_distance(&low, &high, values[e - 1]) / scale;
            if (e - s < SHORTEST || cost >= best[e]) continue;
            best[e] = cost;
            from[e] = s;
        }
    }
    free(room);
    free(best);
}

static double median_of(const double *values, size_t n) {
    double *copy = kg_xcalloc(n, sizeof *copy);
    memcpy(copy, values, n * sizeof *copy);
    const double median = kg_median(copy, n);
    free(copy);
    return median;
}

/* The exact test takes k n^3 steps for k of n values; the longer side gives way. */
static void neighbours(size_t *left, size_t *right) {
    enum { MOST_STEPS = 2000000 };
    for (;;) {
        const size_t n = *left + *right, k = *left < *right ? *left : *right;
        if (n <= KG_RANK_TEST_MOST && k * n * n * n <= MOST_STEPS) return;
        --*(*left > *right ? left : right);
    }
}

static struct kg_step describe(const double *values, size_t begin, size_t at, size_t end) {
    struct kg_step step = { .at = at, .n_before = at - begin, .n_after = end - at };
    step.before = median_of(values + begin, step.n_before);
    step.after = median_of(values + at, step.n_after);
    size_t left = step.n_before, right = step.n_after;
    neighbours(&left, &right);
    const double *x = values + at - left, *y = values + at;
    const double up = kg_mann_whitney_greater(x, left, y, right), down = kg_mann_whitney_greater(y, right, x, left);
    step.p = fmin(1, 2 * fmin(up, down));
    return step;
}

/* What is left of the values when each loses its level's median: its deviation, and the correlation of neighbours. */
static void residuals_of(const double *values, const size_t *bounds, size_t n_bounds, double *sigma, double *phi) {
    const size_t n = bounds[n_bounds - 1];
    double *rest = kg_xcalloc(n, sizeof *rest), products = 0, squares = 0;
    for (size_t level = 0; level + 1 < n_bounds; level++) {
        const double median = median_of(values + bounds[level], bounds[level + 1] - bounds[level]);
        for (size_t i = bounds[level]; i < bounds[level + 1]; i++) rest[i] = values[i] - median;
    }
    *sigma = fmax(kg_robust_sigma(rest, n), LEAST_SCALE);
    /* Wild values would hide how the others hang together. */
    for (size_t i = 0; i < n; i++) rest[i] = fmax(-3 * *sigma, fmin(3 * *sigma, rest[i]));
    for (size_t i = 0; i < n; i++) squares += rest[i] * rest[i];
    for (size_t i = 1; i < n; i++) products += rest[i] * rest[i - 1];
    const double raw = squares > 0 ? products / squares : 0;
    /* Each level's median takes its share of what hangs together; less than one standard error is none. */
    const double corrected = raw + (1 + 3 * raw) * (double)(n_bounds - 1) / (double)n - 1 / sqrt((double)n);
    *phi = fmax(0, fmin(0.95, corrected));
    free(rest);
}

struct noise {
    double sigma, phi; /* phi: correlation of neighbours */
};

/* Whether a step is large enough to be of interest, surer than chance among n places makes it, and further than
 * neighbours that hang together go by themselves. */
static bool holds(const struct kg_step *step, size_t n, double least, const struct noise *noise) {
    const double error =
        MEDIAN_ERROR * noise->sigma *
        sqrt((1 / (double)step->n_before + 1 / (double)step->n_after) * (1 + noise->phi) / (1 - noise->phi));
    const double size = fabs(step->after - step->before);
    return size > 0 && size + ONE_OF_40 * error >= least && size >= FARTHEST * (1 + noise->phi) * error &&
           step->p <= LARGEST_P / (double)n;
}

/* Takes back the weakest step that does not hold; false if none is. */
static int take_back_one(const double *values, double least, size_t *bounds, size_t *n_bounds) {
    size_t weakest = 0;
    double distance = INFINITY;
    struct noise noise;
    residuals_of(values, bounds, *n_bounds, &noise.sigma, &noise.phi);
    for (size_t i = 1; i + 1 < *n_bounds; i++) {
        const struct kg_step step = describe(values, bounds[i - 1], bounds[i], bounds[i + 1]);
        const double size = fabs(step.after - step.before);
        if (holds(&step, bounds[*n_bounds - 1], least, &noise) || size >= distance) continue;
        distance = size;
        weakest = i;
    }
    if (weakest == 0) return 0;
    memmove(bounds + weakest, bounds + weakest + 1, (*n_bounds - weakest - 1) * sizeof *bounds);
    --*n_bounds;
    return 1;
}

/* Absolute distances find a level safely and place its edge less sharply than squares do: the edge moves to where the
 * squares of the distances, clipped at 3 sigmas, are least. */
static void sharpen(const double *values, size_t *bounds, size_t n_bounds, double sigma) {
    enum { REACH = 4 };
    for (size_t i = 1; i + 1 < n_bounds; i++) {
        const double before = median_of(values + bounds[i - 1], bounds[i] - bounds[i - 1]);
        const double after = median_of(values + bounds[i], bounds[i + 1] - bounds[i]);
        const size_t at = bounds[i],
                     first = at > bounds[i - 1] + SHORTEST + REACH ? at - REACH : bounds[i - 1] + SHORTEST;
        const size_t last = at + REACH + SHORTEST < bounds[i + 1] ? at + REACH : bounds[i + 1] - SHORTEST;
        double cost = 0, least = INFINITY;
        for (size_t e = first; e <= last; e++) {
            if (cost < least) bounds[i] = e;
            least = fmin(least, cost);
            const double x = fmin(CLIP, fabs(values[e] - before) / sigma),
                         y = fmin(CLIP, fabs(values[e] - after) / sigma);
            cost += x * x - y * y;
        }
    }
}

size_t kg_steps_find(const double *values, size_t n, double least, struct kg_step *steps) {
    if (n < 2 * SHORTEST) return 0;
    size_t *from = kg_xcalloc(n + 1, sizeof *from), *bounds = kg_xcalloc(n + 2, sizeof *bounds), n_bounds = 0;
    partition(values, n, from);
    for (size_t e = n; e > 0; e = from[e]) bounds[n_bounds++] = e;
    bounds[n_bounds++] = 0;
    for (size_t i = 0; i < n_bounds / 2; i++) {
        const size_t x = bounds[i];
        bounds[i] = bounds[n_bounds - 1 - i];
        bounds[n_bounds - 1 - i] = x;
    }
    while (take_back_one(values, least, bounds, &n_bounds)) continue;
    struct noise noise;
    residuals_of(values, bounds, n_bounds, &noise.sigma, &noise.phi);
    sharpen(values, bounds, n_bounds, noise.sigma);
    size_t n_steps = 0;
    for (size_t i = 1; i + 1 < n_bounds; i++)
        steps[n_steps++] = describe(values, bounds[i - 1], bounds[i], bounds[i + 1]);
    free(bounds);
    free(from);
    return n_steps;
}
