/* Simulated searches for steps: how many are found where nothing changed, and how many of those that there are. */
#ifndef KIGO_SUITES_STEP_SIMULATION_H
#define KIGO_SUITES_STEP_SIMULATION_H

#include "suites/unit/noise_kinds.h"
#include <stdbool.h>

struct kg_step_simulation {
    const struct kg_noise_kind *kind;
    size_t n_trials, n_cases, n_runs;
    size_t n_slow; /* so many cases step by `change` (a logarithm): the first, in each trial one case further */
    double change;
    bool together;  /* in the middle run; otherwise in different runs, none in the first or last fifth */
    double creep;   /* all slow cases, a run */
    double machine; /* all cases and the canaries step by it, in the middle run */
};

struct kg_step_simulated {
    size_t n_stable, n_false;        /* series without a step; those in which one is claimed */
    size_t n_slow, n_found, n_exact; /* a step within 3 runs of its place; at its place */
    size_t n_any;                    /* slow series with a step anywhere */
    /* Of those found: the greatest likelihood, of normal noise about two known levels, is at its place. No rule that
     * knows less places more of normal, independent values exactly, whatever the place. */
    size_t n_likeliest;
};

void kg_simulate_steps(const struct kg_step_simulation *simulation, uint64_t seed, struct kg_step_simulated *out);

/* Every kind of noise that steps are tried with: those of noise_kinds.h, and figures of exactly two values. */
enum { KG_STEP_NOISE_KINDS = KG_NOISE_KINDS + 2 };
struct kg_noise_kind kg_step_noise(size_t kind);

#endif
