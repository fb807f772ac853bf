/* simulate_steps [N_TRIALS [KIND]]: false steps and powers of `kigo steps` by kind of noise, as the table of
 * docs/history.md, over N_TRIALS histories of 100 runs of 1000 cases. Of normal noise, in brackets: how many of the
 * found steps of a case the likelihood itself places, with levels and noise known. Exit code 1 if a kind has more than
 * 1 false step in 1000 stable series, or shifts of 3 % at 1 % of noise are not found in 95 %. */
#include "suites/unit/step_simulation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_CASES = 1000, N_SLOW = 50, N_RUNS = 100, FEW_RUNS = 40 };

static double share(size_t part, size_t whole, double of) {
    return of * (double)part / (double)(whole ? whole : 1);
}

/* Prints the row of a kind; whether its limits hold. */
static bool print_row(size_t number, size_t n_trials) {
    const struct kg_noise_kind kind = kg_step_noise(number);
    const struct kg_step_simulation stable = {
        .kind = &kind, .n_trials = n_trials, .n_cases = N_CASES, .n_runs = N_RUNS
    };
    struct kg_step_simulation few = stable, alone = stable, together = stable, most = stable;
    struct kg_step_simulated u, f, a, t, m;
    few.n_runs = FEW_RUNS;
    alone.n_cases = 20; /* of which 5% may be noisy */
    alone.n_slow = 1;
    alone.change = log(1.03);
    together.change = log(1.03);
    together.n_cases = together.n_slow = N_SLOW;
    alone.together = together.together = true;
    most.change = log(1.1);
    most.n_slow = N_CASES * 6 / 10;
    most.together = true;
    together.n_trials = 20;
    most.n_trials = n_trials / 4 + 1;
    alone.n_trials = 400;
    kg_simulate_steps(&stable, 11, &u);
    kg_simulate_steps(&few, 12, &f);
    kg_simulate_steps(&alone, 13, &a);
    kg_simulate_steps(&together, 14, &t);
    kg_simulate_steps(&most, 15, &m);
    char at_most[32] = "";
    if (number <= KG_NOISE_NORMAL_2)
        snprintf(at_most, sizeof at_most, " (%.1f %%)", share(a.n_likeliest, a.n_found, 100));
    printf("| %s | %.2f | %.2f | %.0f %% | %.0f %%%s | %.0f %% | %.0f %% | %.0f %% | %.2f |\n", kind.name,
           share(u.n_false, u.n_stable, 1000), share(f.n_false, f.n_stable, 1000), share(a.n_found, a.n_slow, 100),
           share(a.n_exact, a.n_found, 100), at_most, share(t.n_found, t.n_slow, 100), share(t.n_exact, t.n_found, 100),
           share(m.n_found, m.n_slow, 100), share(m.n_false, m.n_stable, 1000));
    fflush(stdout);
    const bool quiet = u.n_false * 1000 <= u.n_stable && f.n_false * 1000 <= f.n_stable;
    return quiet && (number != KG_NOISE_NORMAL || share(a.n_found, a.n_slow, 100) >= 95);
}

int main(int argc, char **argv) {
    const size_t n_trials = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
    const size_t only = argc > 2 ? strtoul(argv[2], NULL, 10) : KG_STEP_NOISE_KINDS;
    bool good = n_trials > 0;
    for (size_t k = 0; k < KG_STEP_NOISE_KINDS; k++)
        if (only == KG_STEP_NOISE_KINDS || k == only) good = print_row(k, n_trials) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
