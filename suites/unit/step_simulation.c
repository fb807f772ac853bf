#include "suites/unit/step_simulation.h"
#include "base/buffer.h"
#include "history/step_series.h"
#include <math.h>
#include <stdlib.h>

struct kg_noise_kind kg_step_noise(size_t kind) {
    static const double SHARES[] = { 0.05, 0.3 };
    static const char *const NAMES[] = { "two values, +6 % in 5 % of runs", "two values, +6 % in 30 % of runs" };
    if (kind < KG_NOISE_KINDS) return KG_NOISE[kind];
    struct kg_noise_kind two = KG_NOISE[KG_NOISE_MODE_15];
    two.name = NAMES[kind - KG_NOISE_KINDS];
    two.sigma = 0;
    two.b = SHARES[kind - KG_NOISE_KINDS];
    return two;
}

/* Slow cases come first. */
static size_t order_of(const struct kg_step_simulation *s, size_t trial, size_t i) {
    return (i + s->n_cases - trial % s->n_cases) % s->n_cases;
}

/* Where a slow case steps; i: its order. */
static size_t place_of(const struct kg_step_simulation *s, size_t i) {
    const size_t edge = s->n_runs / 5;
    return s->together ? s->n_runs / 2 : edge + i * 7 % (s->n_runs - 2 * edge);
}

static void change(const struct kg_step_simulation *s, size_t trial, struct kg_made_times *times) {
    for (size_t run = 0; run < times->n_runs; run++) {
        const double machine = run >= s->n_runs / 2 ? s->machine : 0;
        for (size_t i = 0; i < s->n_cases; i++) {
            const size_t order = order_of(s, trial, i);
            const double own = (run >= place_of(s, order) ? s->change : 0) + s->creep * (double)run;
            times->figures[i].by_run[run] += machine + (order < s->n_slow ? own : 0);
        }
        for (size_t i = 0; i < KG_MADE_CANARIES; i++) times->canaries[i].by_run[run] += machine;
    }
}

/* By case, in room for n_cases: where least squares about the level before and the one after, both known, are least. */
static void likeliest_places(const struct kg_step_simulation *s, const struct kg_made_times *times, size_t *places) {
    for (size_t i = 0; i < s->n_cases; i++) {
        double sum = 0, least = INFINITY;
        for (size_t run = 0; run + 1 < s->n_runs; run++) {
            const double away = times->figures[i].by_run[run] - times->usual[i];
            sum += away * away - (away - s->change) * (away - s->change);
            if (sum < least) places[i] = run + 1;
            least = fmin(least, sum);
        }
    }
}

static void count(const struct kg_step_simulation *s, size_t trial, const struct kg_series_step *steps, size_t n,
                  const size_t *likeliest, struct kg_step_simulated *out) {
    for (size_t i = 0, at = 0; i < s->n_cases; i++) {
        size_t n_own = 0, n_near = 0, n_exact = 0;
        const size_t order = order_of(s, trial, i), place = place_of(s, order);
        for (; at < n && steps[at].series == i; at++) {
            const size_t run = steps[at].first_after, away = run > place ? run - place : place - run;
            n_own++;
            n_near += away <= 3;
            n_exact += away == 0;
        }
        if (order < s->n_slow) {
            out->n_slow++;
            out->n_found += n_near > 0;
            out->n_exact += n_exact > 0;
            out->n_likeliest += n_near > 0 && likeliest[i] == place;
            out->n_any += n_own > 0;
        } else {
            out->n_stable++;
            out->n_false += n_own > 0;
        }
    }
}

void kg_simulate_steps(const struct kg_step_simulation *s, uint64_t seed, struct kg_step_simulated *out) {
    struct kg_made_times times;
    *out = (struct kg_step_simulated){ 0 };
    if (s->n_runs == 0) return;
    size_t *cases = kg_xcalloc(s->n_cases, sizeof *cases), *likeliest = kg_xcalloc(s->n_cases, sizeof *likeliest);
    for (size_t i = 0; i < s->n_cases; i++) cases[i] = i;
    kg_made_times_open(&times, s->n_cases, s->n_runs);
    for (size_t trial = 0; trial < s->n_trials; trial++) {
        struct kg_rng rng;
        struct kg_series_step *steps;
        kg_rng_init(&rng, seed, trial);
        kg_made_times_fill(&times, s->kind, &rng);
        change(s, trial, &times);
        likeliest_places(s, &times, likeliest); /* the search takes off what canaries explain */
        const struct kg_step_figures figures = { .series = times.figures,
                                                 .cases = cases,
                                                 .n = s->n_cases,
                                                 .n_runs = s->n_runs,
                                                 .canaries = times.canaries,
                                                 .n_canaries = KG_MADE_CANARIES,
                                                 .least_change = log1p(0.03) };
        const size_t n = kg_series_steps(&figures, &steps);
        count(s, trial, steps, n, likeliest, out);
        free(steps);
    }
    kg_made_times_close(&times);
    free(likeliest);
    free(cases);
}
