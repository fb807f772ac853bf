#include "suites/unit/simulation.h"
#include "base/buffer.h"
#include "history/noisy.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static void change(const struct kg_simulation *s, struct kg_made_times *times, struct kg_rng *rng) {
    for (size_t i = 0; i < times->n_figures; i++)
        times->figures[i].by_run[0] += s->machine + (i < s->n_slow ? s->change : 0);
    for (size_t i = 0; i < KG_MADE_CANARIES; i++) {
        times->canaries[i].by_run[0] += s->machine;
        for (size_t run = 0; run < times->n_runs; run++)
            times->canaries[i].by_run[run] += s->canary_sigma * kg_rng_normal(rng);
    }
}

static void count(const struct kg_simulation *s, const struct kg_noisy *noisy, struct kg_simulated *out) {
    bool red = false, doubtful = false;
    for (size_t i = 0; i < s->n_cases; i++) {
        const bool worse = noisy->figures[i].verdict == KG_SCREEN_WORSE;
        *(i < s->n_slow ? &out->n_slow : &out->n_comparisons) += 1;
        *(i < s->n_slow ? &out->n_found : &out->n_false) += worse;
        red = red || worse;
        doubtful = doubtful || noisy->figures[i].verdict == KG_SCREEN_TOO_FEW ||
                   noisy->figures[i].verdict == KG_SCREEN_SUSPECT;
    }
    for (size_t i = 0; i < noisy->n_drifts; i++) {
        doubtful = doubtful || noisy->drifts[i].unexplained;
        out->n_common += noisy->drifts[i].worse;
        red = red || noisy->drifts[i].worse;
    }
    out->n_trials++;
    out->n_red += red;
    out->n_doubtful += !red && doubtful;
}

void kg_simulate(const struct kg_simulation *s, uint64_t seed, struct kg_simulated *out) {
    struct kg_made_times times;
    double *floors = kg_xcalloc(s->n_cases, sizeof *floors);
    *out = (struct kg_simulated){ 0 };
    for (size_t i = 0; i < s->n_cases; i++) floors[i] = log1p(0.03);
    kg_made_times_open(&times, s->n_cases, 1 + s->n_baseline);
    for (size_t trial = 0; trial < s->n_trials; trial++) {
        struct kg_rng rng;
        struct kg_noisy noisy;
        kg_rng_init(&rng, seed, trial);
        kg_made_times_fill(&times, s->kind, &rng);
        change(s, &times, &rng);
        const struct kg_noisy_runs runs = { .figures = times.figures,
                                            .floors = floors,
                                            .n_figures = times.n_figures,
                                            .canaries = times.canaries,
                                            .n_canaries = KG_MADE_CANARIES,
                                            .n_runs = times.n_runs,
                                            .least_change = log1p(0.03) };
        kg_noisy_judge(&runs, &noisy);
        count(s, &noisy, out);
        kg_noisy_free(&noisy);
    }
    kg_made_times_close(&times);
    free(floors);
}
