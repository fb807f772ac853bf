#include "measure/steps.h"
#include "base/buffer.h"
#include "measure/partition.h"
#include "measure/rank_test.h"
#include "measure/robust.h"
#include "measure/statistics.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 3, NEAR = 60, FEWEST_OF_CREEP = 16 }; /* near: so many values of a level tell where it ends */
static const double LARGEST_P = 0.003, LEAST_SCALE = 1e-5;
static const double CENTRE_ERROR = 1.05; /* of a Hodges-Lehmann centre, in sigma / sqrt(n), with a few wild values */
static const double ONE_OF_40 = 1.96, CLIP = 3;
/* A step's least distance in errors, by simulation (suites/unit/test_steps.c): at most one false step in 1000 series of
 * 16 runs and more, also where neighbours correlate by 0.5 to 0.95. */
static const double FARTHEST = 5.5, FARTHEST_OF_FEW = 15, FARTHEST_OF_CORRELATED = 1.5, SURE_OF_CORRELATION = 1.2;

struct level {
    size_t begin, end;
    double centre, first, last; /* of all, of the first and of the last values */
    double p;                   /* of the step that it begins with; NaN: not known yet */
    bool creeps;                /* part of a creep */
};

static struct level level_of(const double *values, size_t begin, size_t end) {
    const size_t n = end - begin;
    struct level level = { .begin = begin, .end = end, .p = NAN };
    if (n <= NEAR) {
        level.centre = level.first = level.last = kg_hodges_lehmann(values + begin, n);
        return level;
    }
    double *copy = kg_xcalloc(n, sizeof *copy);
    memcpy(copy, values + begin, n * sizeof *copy);
    level.centre = kg_median(copy, n);
    free(copy);
    level.first = kg_hodges_lehmann(values + begin, NEAR);
    level.last = kg_hodges_lehmann(values + end - NEAR, NEAR);
    return level;
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

/* Two-sided, of the values next to the step that a level begins with. */
static double p_of(const double *values, const struct level *before, struct level *after) {
    if (!isnan(after->p)) return after->p;
    size_t left = before->end - before->begin, right = after->end - after->begin;
    neighbours(&left, &right);
    const double *x = values + after->begin - left, *y = values + after->begin;
    const double up = kg_mann_whitney_greater(x, left, y, right), down = kg_mann_whitney_greater(y, right, x, left);
    after->p = fmin(1, 2 * fmin(up, down));
    return after->p;
}

/* Huber's proposal 2: the sigma of which the squares, clipped at 2 sigmas, have the mean that normal values have. About
 * 90% of the standard deviation's efficiency, 37% for the median distance that it starts from. */
static double scale_of(const double *rest, size_t n) {
    static const double MEAN_OF_CLIPPED = 0.9205;
    double scale = fmax(kg_robust_sigma(rest, n), LEAST_SCALE);
    for (int round = 0; round < 10; round++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += fmin(rest[i] * rest[i] / (scale * scale), 4);
        scale = fmax(scale * sqrt(sum / (double)n / MEAN_OF_CLIPPED), LEAST_SCALE);
    }
    return scale;
}

struct noise {
    double sigma, phi; /* phi: correlation of neighbours */
};

/* Of what n_centres centres leave of n values, which is clipped. */
static struct noise noise_of_rest(double *rest, size_t n, double n_centres) {
    double products = 0, squares = 0;
    const double centres = n_centres / (double)n;
    struct noise noise = { .sigma = scale_of(rest, n) / sqrt(1 - fmin(0.5, centres)) };
    /* Wild values would hide how the others hang together. */
    const double most = CLIP * noise.sigma;
    for (size_t i = 0; i < n; i++) rest[i] = fmax(-most, fmin(most, rest[i]));
    for (size_t i = 0; i < n; i++) squares += rest[i] * rest[i];
    for (size_t i = 1; i < n; i++) products += rest[i] * rest[i - 1];
    const double raw = squares > 0 ? products / squares : 0;
    /* Each centre takes its share of what hangs together; what chance gives is none. */
    noise.phi = fmax(0, fmin(0.95, raw + (1 + 3 * raw) * centres - SURE_OF_CORRELATION / sqrt((double)n)));
    return noise;
}

static struct noise noise_of(const double *values, const struct level *levels, size_t n_levels) {
    const size_t n = levels[n_levels - 1].end;
    double *rest = kg_xcalloc(n, sizeof *rest);
    for (const struct level *level = levels; level < levels + n_levels; level++)
        for (size_t i = level->begin; i < level->end; i++) rest[i] = values[i] - level->centre;
    const struct noise noise = noise_of_rest(rest, n, (double)n_levels);
    free(rest);
    return noise;
}

/* How many errors a step must be large, whatever the size. */
static double farthest(size_t n, double phi) {
    return (FARTHEST + FARTHEST_OF_FEW / (double)n) * pow(1 + phi, FARTHEST_OF_CORRELATED);
}

/* Whether a step is large enough to be of interest, surer than chance among n places makes it, and further than
 * neighbours that hang together go by themselves. */
static bool holds(const double *values, const struct level *before, struct level *after, size_t n, double least,
                  const struct noise *noise) {
    const double n_before = fmin(NEAR, (double)(before->end - before->begin)),
                 n_after = fmin(NEAR, (double)(after->end - after->begin)), phi = noise->phi;
    const double error = CENTRE_ERROR * noise->sigma * sqrt((1 / n_before + 1 / n_after) * (1 + phi) / (1 - phi));
    const double size = fabs(after->first - before->last);
    return size > 0 && size + ONE_OF_40 * error >= least && size >= farthest(n, phi) * error &&
           p_of(values, before, after) <= LARGEST_P / (double)n;
}

/* Takes back the weakest step that does not hold; false if none is. given: the noise; NULL: what the levels leave. */
static bool take_back_one(const double *values, double least, const struct noise *given, struct level *levels,
                          size_t *n_levels) {
    size_t weakest = 0;
    double distance = INFINITY;
    const size_t n = levels[*n_levels - 1].end - levels[0].begin;
    const struct noise noise = given ? *given : noise_of(values, levels, *n_levels);
    for (size_t i = 1; i < *n_levels; i++) {
        const double size = fabs(levels[i].first - levels[i - 1].last);
        if (size >= distance || holds(values, &levels[i - 1], &levels[i], n, least, &noise)) continue;
        distance = size;
        weakest = i;
    }
    if (weakest == 0) return false;
    levels[weakest - 1] = level_of(values, levels[weakest - 1].begin, levels[weakest].end);
    memmove(levels + weakest, levels + weakest + 1, (*n_levels - weakest - 1) * sizeof *levels);
    --*n_levels;
    if (weakest < *n_levels) levels[weakest].p = NAN;
    return true;
}

/* Whether a level creeps: its last third lies further from its first than what a straight line leaves explains. A level
 * that wanders leaves correlated values. */
static bool creeps(const double *values, const struct level *level, double least, struct noise *noise) {
    const size_t n = level->end - level->begin, part = n / 3 < NEAR ? n / 3 : NEAR;
    const double *x = values + level->begin;
    if (n < FEWEST_OF_CREEP) return false;
    const double first = kg_hodges_lehmann(x, part), last = kg_hodges_lehmann(x + n - part, part);
    const double slope = (last - first) / (double)(n - part), middle = (first + last) / 2;
    double *rest = kg_xcalloc(n, sizeof *rest);
    for (size_t i = 0; i < n; i++) rest[i] = x[i] - middle - slope * ((double)i - (double)(n - 1) / 2);
    *noise = noise_of_rest(rest, n, 2);
    free(rest);
    const double phi = noise->phi;
    const double error = CENTRE_ERROR * noise->sigma * sqrt(2 / (double)part * (1 + phi) / (1 - phi));
    return fabs(last - first) >= fmax(least, farthest(n, phi) * error);
}

/* -2 ln of the likelihood of each place of a step near `at`, squares clipped at 3 sigmas; the place where it is least.
 * Absolute distances find a level safely and place its edge less sharply than squares do. */
static size_t place(const double *values, const struct level *before, const struct level *after, size_t at,
                    double sigma, double *costs) {
    double cost = 0, least = INFINITY;
    size_t best = at;
    for (size_t i = 0; i < KG_STEP_PLACES; i++) {
        const size_t e = at + i - KG_STEP_REACH; /* wraps where there is no such value */
        const bool allowed = at + i >= KG_STEP_REACH && e >= before->begin + SHORTEST && e + SHORTEST <= after->end;
        costs[i] = allowed ? cost : INFINITY;
        if (costs[i] < least) {
            least = costs[i];
            best = e;
        }
        if (!allowed) continue;
        const double x = fmin(CLIP, fabs(values[e] - before->last) / sigma),
                     y = fmin(CLIP, fabs(values[e] - after->first) / sigma);
        cost += x * x - y * y;
    }
    return best;
}

/* The levels of values[begin] to values[end - 1] by partition. */
static size_t levels_of(const double *values, size_t begin, size_t end, struct level *levels) {
    const size_t n = end - begin;
    size_t *from = kg_xcalloc(n + 1, sizeof *from), n_levels = 0;
    kg_partition(values + begin, n, SHORTEST, from);
    for (size_t e = n; e > 0; e = from[e]) n_levels++;
    for (size_t e = n, i = n_levels; e > 0; e = from[e]) levels[--i] = level_of(values, begin + from[e], begin + e);
    free(from);
    return n_levels;
}

/* Levels that creep become the steps of a stair, as their noise about a line lets them be found. */
static size_t split_creeps(const double *values, double least, struct level *levels, size_t n_levels) {
    struct level *out = kg_xcalloc(levels[n_levels - 1].end, sizeof *out);
    size_t n_out = 0;
    for (size_t i = 0; i < n_levels; i++) {
        struct noise noise;
        size_t n = 1;
        out[n_out] = levels[i];
        if (creeps(values, &levels[i], least, &noise)) {
            n = levels_of(values, levels[i].begin, levels[i].end, out + n_out);
            while (take_back_one(values, least, &noise, out + n_out, &n)) continue;
            for (size_t k = n_out; k < n_out + n; k++) out[k].creeps = true;
        }
        n_out += n;
    }
    memcpy(levels, out, n_out * sizeof *levels);
    free(out);
    return n_out;
}

/* Moves each edge to its best place; sigma: of the noise. */
static void place_edges(const double *values, struct level *levels, size_t n_levels, double sigma) {
    for (size_t i = 1; i < n_levels; i++) {
        struct level *before = &levels[i - 1], *after = &levels[i];
        const bool stair = before->creeps, creeping = after->creeps;
        double costs[KG_STEP_PLACES];
        const size_t at = place(values, before, after, after->begin, sigma, costs);
        *before = level_of(values, before->begin, at);
        *after = level_of(values, at, after->end);
        before->creeps = stair;
        after->creeps = creeping;
    }
}

size_t kg_steps_find(const double *values, size_t n, double least, struct kg_step *steps) {
    if (n < 2 * SHORTEST) return 0;
    struct level *levels = kg_xcalloc(n, sizeof *levels);
    size_t n_levels = levels_of(values, 0, n, levels);
    while (take_back_one(values, least, NULL, levels, &n_levels)) continue;
    n_levels = split_creeps(values, least, levels, n_levels);
    const double sigma = noise_of(values, levels, n_levels).sigma;
    place_edges(values, levels, n_levels, sigma);
    for (size_t i = 1; i < n_levels; i++) {
        struct level *before = &levels[i - 1], *after = &levels[i];
        steps[i - 1] = (struct kg_step){ .at = after->begin,
                                         .before = before->last,
                                         .after = after->first,
                                         .n_before = before->end - before->begin,
                                         .n_after = after->end - after->begin,
                                         .p = p_of(values, before, after),
                                         .creeps = before->creeps && after->creeps };
        place(values, before, after, after->begin, sigma, steps[i - 1].costs);
    }
    free(levels);
    return n_levels - 1;
}
