#include "suites/unit/simulation.h"
#include "base/buffer.h"
#include "history/noisy_again.h"
#include "suites/harness/must.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Fresh runs: those of the made times that are newer than the judged one. */
struct fresh {
    const struct kg_simulation *s;
    const struct kg_made_times *times;
    size_t newest, n_taken, n_measured;
};

static bool is_slow(const struct kg_simulation *s, size_t figure) {
    return figure < s->n_slow;
}

static enum kg_status run_once(void *context, int build, const size_t *open, size_t n_open, double *values,
                               double *machine, struct kg_error *err) {
    struct fresh *fresh = context;
    const size_t run = fresh->newest - 1 - fresh->n_taken++;
    double canaries = 0;
    (void)err;
    for (size_t i = 0; i < n_open; i++)
        values[i] = fresh->times->figures[open[i]].by_run[run] +
                    (build == 1 && is_slow(fresh->s, open[i]) ? fresh->s->change : 0);
    for (size_t i = 0; i < KG_MADE_CANARIES; i++) canaries += fresh->times->canaries[i].by_run[run];
    *machine = canaries / KG_MADE_CANARIES;
    fresh->n_measured += n_open;
    return KG_OK;
}

static bool has_time(void *context, size_t n_open) {
    (void)n_open;
    return ((struct fresh *)context)->n_taken + 2 <= 2 * KG_AGAIN_MOST_RUNS;
}

static void measure_again(const struct kg_simulation *s, const struct kg_noisy_runs *runs, struct fresh *fresh,
                          struct kg_noisy *noisy) {
    const struct kg_again_source source = { fresh, run_once, has_time };
    struct kg_noisy_again again;
    struct kg_error err;
    kg_noisy_suspects(runs, noisy, s->n_cases, &again);
    kg_must(kg_noisy_decide(runs, noisy, &again, &source, &err), &err);
    kg_noisy_again_free(&again);
}

static void change(const struct kg_simulation *s, struct kg_made_times *times, size_t judged, struct kg_rng *rng) {
    for (size_t i = 0; i < times->n_figures; i++)
        times->figures[i].by_run[judged] += s->machine + (is_slow(s, i) ? s->change : 0);
    for (size_t i = 0; i < KG_MADE_CANARIES; i++) {
        times->canaries[i].by_run[judged] += s->machine;
        for (size_t run = 0; run < times->n_runs; run++)
            times->canaries[i].by_run[run] += s->canary_sigma * kg_rng_normal(rng);
    }
}

static void count(const struct kg_simulation *s, const struct kg_noisy *noisy, struct kg_simulated *out) {
    bool red = false, doubtful = false;
    for (size_t i = 0; i < s->n_cases; i++) {
        const bool worse = noisy->figures[i].verdict == KG_SCREEN_WORSE;
        *(is_slow(s, i) ? &out->n_slow : &out->n_comparisons) += 1;
        *(is_slow(s, i) ? &out->n_found : &out->n_false) += worse;
        red = red || worse;
        doubtful = doubtful || noisy->figures[i].verdict == KG_SCREEN_TOO_FEW ||
                   noisy->figures[i].verdict == KG_SCREEN_SUSPECT;
    }
    for (size_t i = 0; i < noisy->n_drifts; i++) {
        doubtful = doubtful || noisy->drifts[i].unexplained || noisy->drifts[i].undecided;
        out->n_common += noisy->drifts[i].worse;
        red = red || noisy->drifts[i].worse;
    }
    out->n_trials++;
    out->n_red += red;
    out->n_doubtful += !red && doubtful;
}

void kg_simulate(const struct kg_simulation *s, uint64_t seed, struct kg_simulated *out) {
    const size_t n_fresh = s->again ? 2 * KG_AGAIN_MOST_RUNS : 0;
    struct kg_made_times times;
    struct kg_series *figures = kg_xcalloc(s->n_cases, sizeof *figures), canaries[KG_MADE_CANARIES];
    double *floors = kg_xcalloc(s->n_cases, sizeof *floors);
    *out = (struct kg_simulated){ 0 };
    kg_made_times_open(&times, s->n_cases, n_fresh + 1 + s->n_baseline);
    for (size_t i = 0; i < s->n_cases; i++) {
        floors[i] = log1p(0.03);
        figures[i] = (struct kg_series){ times.figures[i].group, times.figures[i].by_run + n_fresh };
    }
    for (size_t i = 0; i < KG_MADE_CANARIES; i++)
        canaries[i] = (struct kg_series){ times.canaries[i].group, times.canaries[i].by_run + n_fresh };
    for (size_t trial = 0; trial < s->n_trials; trial++) {
        struct kg_rng rng;
        struct kg_noisy noisy;
        struct fresh fresh = { s, &times, n_fresh, 0, 0 };
        kg_rng_init(&rng, seed, trial);
        kg_made_times_fill(&times, s->kind, &rng);
        change(s, &times, n_fresh, &rng);
        const struct kg_noisy_runs runs = { .figures = figures,
                                            .floors = floors,
                                            .n_figures = s->n_cases,
                                            .canaries = canaries,
                                            .n_canaries = KG_MADE_CANARIES,
                                            .n_runs = 1 + s->n_baseline,
                                            .least_change = log1p(0.03) };
        kg_noisy_judge(&runs, &noisy);
        if (s->again) measure_again(s, &runs, &fresh, &noisy);
        out->n_measured += fresh.n_measured;
        count(s, &noisy, out);
        kg_noisy_free(&noisy);
    }
    kg_made_times_close(&times);
    free(figures);
    free(floors);
}
