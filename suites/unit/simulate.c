/* simulate [N_TRIALS [KIND]]: false alarms and powers of regress by kind of noise, as the table of docs/history.md.
 * Exit code 1 if a kind has more than 1 false alarm in 1000 comparisons, or more red runs than 1 in 20 explains. */
#include "suites/unit/simulation.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static double percent(size_t part, size_t whole) {
    return 100.0 * (double)part / (double)(whole ? whole : 1);
}

/* Prints the row of a kind; whether its limits hold. */
static bool print_row(const struct kg_noise_kind *kind, size_t n_trials) {
    const struct kg_simulation quiet = { .kind = kind, .n_trials = n_trials, .n_cases = 1000, .n_baseline = 20 };
    struct kg_simulation some = quiet, all;
    struct kg_simulated found[3];
    some.n_trials = n_trials / 4 + 1;
    some.n_slow = 50;
    some.change = log(1.05);
    all = some;
    all.n_slow = all.n_cases;
    kg_simulate(&quiet, 1, &found[0]);
    kg_simulate(&some, 2, &found[1]);
    kg_simulate(&all, 3, &found[2]);
    const double rate = 1000.0 * (double)found[0].n_false / (double)found[0].n_comparisons;
    printf("| %s | %.2f | %.0f %% | %.0f %% | %.0f %% | %.0f %% |\n", kind->name, rate,
           percent(found[0].n_red, n_trials), percent(found[0].n_doubtful, n_trials),
           percent(found[1].n_found, found[1].n_slow), percent(found[2].n_red, found[2].n_trials));
    fflush(stdout);
    /* Three standard deviations above a twentieth. */
    const double most = (double)n_trials / 20 + 3 * sqrt((double)n_trials * 0.05 * 0.95);
    return rate <= 1 && (double)found[0].n_red <= most;
}

int main(int argc, char **argv) {
    const size_t n_trials = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    const size_t only = argc > 2 ? strtoul(argv[2], NULL, 10) : KG_NOISE_KINDS;
    bool good = n_trials > 0;
    if (only == KG_NOISE_KINDS)
        printf("| noise | false alarms in 1000 | red runs | in doubt | +5 %% found in a run | all +5 %% found |\n"
               "| --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t k = 0; k < KG_NOISE_KINDS; k++)
        if (only == KG_NOISE_KINDS || k == only) good = print_row(&KG_NOISE[k], n_trials) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
