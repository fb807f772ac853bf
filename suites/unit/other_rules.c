#include "suites/unit/other_rules.h"
#include "measure/robust.h"
#include <math.h>

enum { N_BEFORE = 20, N_AFTER = 5, N_RUNS = N_BEFORE + N_AFTER };

bool kg_nvbench_is_slower(double before, double after, double noise) {
    return expm1(after - before) > noise;
}

static double mean_distance(const double *x, size_t n_x, const double *y, size_t n_y) {
    double sum = 0;
    for (size_t i = 0; i < n_x; i++)
        for (size_t k = 0; k < n_y; k++) sum += fabs(x[i] - y[k]);
    return sum / ((double)n_x * (double)n_y);
}

/* Mean over distinct pairs. */
static double own_distance(const double *x, size_t n) {
    return n < 2 ? 0 : mean_distance(x, n, x, n) * (double)n / (double)(n - 1);
}

static void moments(const double *x, size_t n, double *mean, double *squares) {
    *mean = *squares = 0;
    for (size_t i = 0; i < n; i++) *mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) *squares += (x[i] - *mean) * (x[i] - *mean);
}

/* Student's t of two samples over what p = 0.001 allows, both sides. */
static double t_over_limit(const double *x, size_t n_x, const double *y, size_t n_y) {
    double mean_x, mean_y, squares_x, squares_y;
    const double df = (double)(n_x + n_y) - 2;
    if (df < 1) return 0;
    moments(x, n_x, &mean_x, &squares_x);
    moments(y, n_y, &mean_y, &squares_y);
    const double error = sqrt((squares_x + squares_y) / df * (1 / (double)n_x + 1 / (double)n_y));
    return (mean_y - mean_x) / error / kg_student_limit(3.2905, df);
}

bool kg_otava_finds_slower(const double *values, size_t n) {
    size_t best = 0;
    double most = -INFINITY;
    for (size_t at = 1; at < n; at++) {
        const double *right = values + at;
        const double q =
            (double)at * (double)(n - at) / (double)n *
            (2 * mean_distance(values, at, right, n - at) - own_distance(values, at) - own_distance(right, n - at));
        if (q > most) {
            most = q;
            best = at;
        }
    }
    if (best == 0) return false;
    const double t = t_over_limit(values, best, values + best, n - best);
    if (fabs(t) < 1) return false;
    return t > 0 || kg_otava_finds_slower(values, best) || kg_otava_finds_slower(values + best, n - best);
}

/* made: the newest run first. */
static void count(const struct kg_made_times *times, double noise, double change, struct kg_other_rates *nvbench,
                  struct kg_other_rates *otava) {
    for (size_t i = 0; i < times->n_figures; i++) {
        const double *made = times->figures[i].by_run;
        double values[N_RUNS], slower[N_RUNS];
        for (size_t j = 0; j < N_RUNS; j++) {
            values[j] = made[N_RUNS - 1 - j];
            slower[j] = values[j] + (j < N_BEFORE ? 0 : change);
        }
        nvbench->n++;
        nvbench->n_false += kg_nvbench_is_slower(values[N_BEFORE - 1], values[N_BEFORE], noise);
        nvbench->n_found += kg_nvbench_is_slower(values[N_BEFORE - 1], slower[N_BEFORE], noise);
        otava->n++;
        otava->n_false += kg_otava_finds_slower(values, N_RUNS);
        otava->n_found += kg_otava_finds_slower(slower, N_RUNS);
    }
}

void kg_other_rules_simulate(const struct kg_noise_kind *kind, size_t n_figures, double change, uint64_t seed,
                             struct kg_other_rates *nvbench, struct kg_other_rates *otava) {
    enum { TOGETHER = 50 }; /* cases of a machine: what moves all of them is drawn anew for the next */
    struct kg_made_times times;
    *nvbench = *otava = (struct kg_other_rates){ 0 };
    kg_made_times_open(&times, TOGETHER, N_RUNS);
    for (size_t part = 0; part < n_figures / TOGETHER; part++) {
        struct kg_rng rng;
        kg_rng_init(&rng, seed, part);
        kg_made_times_fill(&times, kind, &rng);
        count(&times, kind->sigma, change, nvbench, otava);
    }
    kg_made_times_close(&times);
}
