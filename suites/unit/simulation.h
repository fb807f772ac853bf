/* Simulated judgements: how often regress cries wolf over made histories, and how much it finds. */
#ifndef KIGO_SUITES_SIMULATION_H
#define KIGO_SUITES_SIMULATION_H

#include "history/confirm.h"
#include "suites/unit/noise_kinds.h"
#include <stdbool.h>

struct kg_simulation {
    const struct kg_noise_kind *kind;
    size_t n_trials, n_cases, n_baseline;
    size_t n_slow;       /* so many cases are slower by `change` in the judged run */
    double change;       /* as a logarithm */
    double canary_sigma; /* more noise on the canaries */
    double machine;      /* of the judged run: cases and canaries slower by it, as a logarithm */
    bool again;          /* suspects are measured again */
};

struct kg_simulated {
    size_t n_comparisons, n_false; /* of cases that did not change; flagged as worse */
    size_t n_trials, n_red,
        n_doubtful;         /* runs with any such flag, or one of all cases; and those without that are no plain pass */
    size_t n_common;        /* runs of which all cases together were flagged as worse */
    size_t n_slow, n_found; /* of cases that did */
    size_t n_measured;      /* cases in fresh runs, of both builds */
};

void kg_simulate(const struct kg_simulation *simulation, uint64_t seed, struct kg_simulated *out);

enum { KG_CONFIRM_ROUNDS = 10, KG_CONFIRM_FLAGGED = 20 };

/* kigo confirm, given the slower cases of a run and those of the others that lie furthest from their baseline. */
struct kg_simulated_confirm {
    size_t n_trials, n_red;                            /* runs; those of which a case is confirmed */
    size_t n_unchanged, unchanged[KG_CONFIRMED_COUNT]; /* cases and what they were answered */
    size_t n_slow, slow[KG_CONFIRMED_COUNT];
};

/* Of s, `again` is ignored; n_slow is at most KG_CONFIRM_FLAGGED. */
void kg_simulate_confirm(const struct kg_simulation *s, uint64_t seed, struct kg_simulated_confirm *out);

#endif
