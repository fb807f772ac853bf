#include "suites/unit/noise_kinds.h"
#include "base/buffer.h"
#include <math.h>
#include <stdlib.h>

static double student_t(struct kg_rng *rng, int df) {
    double chi2 = 0;
    const double z = kg_rng_normal(rng);
    for (int i = 0; i < df; i++) {
        const double x = kg_rng_normal(rng);
        chi2 += x * x;
    }
    return z / sqrt(chi2 / df);
}

static void every_value(struct kg_made_times *times, double (*draw)(const struct kg_noise_kind *, struct kg_rng *),
                        const struct kg_noise_kind *kind, struct kg_rng *rng) {
    for (size_t i = 0; i < times->n_figures; i++)
        for (size_t run = 0; run < times->n_runs; run++) times->figures[i].by_run[run] += draw(kind, rng);
}

static double draw_normal(const struct kg_noise_kind *kind, struct kg_rng *rng) {
    return kind->sigma * kg_rng_normal(rng);
}
static double draw_t(const struct kg_noise_kind *kind, struct kg_rng *rng) {
    return kind->sigma * student_t(rng, (int)kind->a);
}
static double draw_exponential(const struct kg_noise_kind *kind, struct kg_rng *rng) {
    return -kind->sigma * log(1 - kg_rng_uniform(rng));
}
/* With probability b the value lies further up by a. */
static double draw_mode(const struct kg_noise_kind *kind, struct kg_rng *rng) {
    return kind->sigma * kg_rng_normal(rng) + (kg_rng_uniform(rng) < kind->b ? kind->a : 0);
}

static void normal(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    every_value(times, draw_normal, kind, rng);
}
static void heavy(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    every_value(times, draw_t, kind, rng);
}
static void one_sided(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    every_value(times, draw_exponential, kind, rng);
}
static void modes(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    every_value(times, draw_mode, kind, rng);
}

/* x_t = a x_(t-1) + noise, of deviation sigma in all. */
static void correlated(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    for (size_t i = 0; i < times->n_figures; i++) {
        double x = kind->sigma * kg_rng_normal(rng);
        for (size_t run = times->n_runs; run-- > 0;) {
            times->figures[i].by_run[run] += x;
            x = kind->a * x + sqrt(1 - kind->a * kind->a) * kind->sigma * kg_rng_normal(rng);
        }
    }
}

/* The machine moves all cases and the canaries by the same. */
static void common(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    normal(kind, times, rng);
    for (size_t run = 0; run < times->n_runs; run++) {
        const double shift = kind->a * kg_rng_normal(rng);
        for (size_t i = 0; i < times->n_figures; i++) times->figures[i].by_run[run] += shift;
        for (size_t i = 0; i < KG_MADE_CANARIES; i++) times->canaries[i].by_run[run] += shift;
    }
}

/* Every (1 / b)-th case has a noise of a. */
static void uneven(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    for (size_t i = 0; i < times->n_figures; i++) {
        const double sigma = i % (size_t)(1 / kind->b) == 0 ? kind->a : kind->sigma;
        for (size_t run = 0; run < times->n_runs; run++) times->figures[i].by_run[run] += sigma * kg_rng_normal(rng);
    }
}

/* A share b of the runs has a times the noise. */
static void loud_runs(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    for (size_t run = 0; run < times->n_runs; run++) {
        const double sigma = kind->sigma * (kg_rng_uniform(rng) < kind->b ? kind->a : 1);
        for (size_t i = 0; i < times->n_figures; i++) times->figures[i].by_run[run] += sigma * kg_rng_normal(rng);
    }
}

/* The multiprocessors' clock, +-a, moves the cases that compute (half of them) and the canary that does (a GEMM); the
 * other canary (a copy) does not feel it. */
static void clock_moves(const struct kg_noise_kind *kind, struct kg_made_times *times, struct kg_rng *rng) {
    normal(kind, times, rng);
    for (size_t run = 0; run < times->n_runs; run++) {
        const double shift = kind->a * (2 * kg_rng_uniform(rng) - 1);
        for (size_t i = 0; i < times->n_figures; i += 2) times->figures[i].by_run[run] += shift;
        times->canaries[0].by_run[run] += shift;
    }
}

const struct kg_noise_kind KG_NOISE[KG_NOISE_KINDS] = {
    [KG_NOISE_NORMAL] = { "normal, 1 %", normal, 0.01, 0, 0 },
    [KG_NOISE_NORMAL_2] = { "normal, 2 %", normal, 0.02, 0, 0 },
    [KG_NOISE_AR_5] = { "AR(1), 0.5", correlated, 0.01, 0.5, 0 },
    [KG_NOISE_AR_95] = { "AR(1), 0.95", correlated, 0.01, 0.95, 0 },
    [KG_NOISE_DRIFT] = { "common drift of 4 %", common, 0.01, 0.04, 0 },
    [KG_NOISE_T5] = { "Student t, 5 degrees", heavy, 0.01, 5, 0 },
    [KG_NOISE_T3] = { "Student t, 3 degrees", heavy, 0.01, 3, 0 },
    [KG_NOISE_T2] = { "Student t, 2 degrees", heavy, 0.01, 2, 0 },
    [KG_NOISE_EXPONENTIAL] = { "one-sided exponential tail", one_sided, 0.015, 0, 0 },
    [KG_NOISE_OUTLIERS] = { "outliers of +20 %, 1 %", modes, 0.01, 0.18, 0.01 },
    [KG_NOISE_RARE_OUTLIERS] = { "outliers of +20 %, 0.1 %", modes, 0.01, 0.18, 0.001 },
    [KG_NOISE_MODE_15] = { "second mode, +6 %, in 15 % of runs", modes, 0.01, 0.058, 0.15 },
    [KG_NOISE_MODE_50] = { "second mode, +6 %, in 50 % of runs", modes, 0.01, 0.058, 0.5 },
    [KG_NOISE_UNEVEN] = { "5 % of cases noisy (5 %), the rest 0.5 %", uneven, 0.005, 0.05, 0.05 },
    [KG_NOISE_LOUD_RUNS] = { "a tenth of the runs with 3x noise", loud_runs, 0.01, 3, 0.1 },
    [KG_NOISE_CLOCK] = { "SM clock +-3 % on half the cases and the GEMM", clock_moves, 0.01, 0.03, 0 },
};

void kg_made_times_open(struct kg_made_times *times, size_t n_figures, size_t n_runs) {
    *times = (struct kg_made_times){ .n_figures = n_figures, .n_runs = n_runs };
    times->figures = kg_xcalloc(n_figures, sizeof *times->figures);
    times->values = kg_xcalloc((n_figures + KG_MADE_CANARIES) * n_runs, sizeof *times->values);
    times->usual = kg_xcalloc(n_figures, sizeof *times->usual);
    for (size_t i = 0; i < n_figures + KG_MADE_CANARIES; i++)
        *(i < n_figures ? &times->figures[i] : &times->canaries[i - n_figures]) =
            (struct kg_series){ "cuda", times->values + i * n_runs };
}

void kg_made_times_close(struct kg_made_times *times) {
    free(times->figures);
    free(times->values);
    free(times->usual);
}

void kg_made_times_fill(struct kg_made_times *times, const struct kg_noise_kind *kind, struct kg_rng *rng) {
    for (size_t i = 0; i < times->n_figures; i++) {
        const double usual = times->usual[i] = 10 + 5 * kg_rng_uniform(rng);
        for (size_t run = 0; run < times->n_runs; run++) times->figures[i].by_run[run] = usual;
    }
    for (size_t i = 0; i < KG_MADE_CANARIES; i++)
        for (size_t run = 0; run < times->n_runs; run++)
            times->canaries[i].by_run[run] = -5 + 0.01 * kg_rng_normal(rng);
    kind->fill(kind, times, rng);
}
