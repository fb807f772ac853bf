/* simulate [N_TRIALS [KIND]]: false alarms and powers of regress by kind of noise, as the tables of docs/history.md: a
 * row for one run, then one for suspects measured again beside other rules. Exit code 1 if a kind has more than 1 false
 * alarm in 1000 comparisons, or more red runs than 1 in 20 explains. */
#include "suites/unit/other_rules.h"
#include "suites/unit/simulation.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_CASES = 1000, N_SLOW = 50 };

static double percent(size_t part, size_t whole) {
    return 100.0 * (double)part / (double)(whole ? whole : 1);
}

struct powers {
    struct kg_simulated unchanged, some, all;
};

static void simulate(const struct kg_noise_kind *kind, size_t n_trials, bool again, struct powers *out) {
    const struct kg_simulation quiet = {
        .kind = kind, .n_trials = n_trials, .n_cases = N_CASES, .n_baseline = 20, .again = again
    };
    struct kg_simulation some = quiet, all;
    some.n_trials = n_trials / 4 + 1;
    some.n_slow = N_SLOW;
    some.change = log(1.05);
    all = some;
    all.n_slow = all.n_cases;
    kg_simulate(&quiet, 1, &out->unchanged);
    kg_simulate(&some, 2, &out->some);
    kg_simulate(&all, 3, &out->all);
}

static void print_powers(const struct kg_noise_kind *kind, const struct powers *p) {
    const struct kg_simulated *u = &p->unchanged;
    printf("| %s | %.2f | %.0f %% | %.0f %% | %.0f %% | %.0f %% |", kind->name,
           percent(u->n_false, u->n_comparisons) * 10, percent(u->n_red, u->n_trials),
           percent(u->n_doubtful, u->n_trials), percent(p->some.n_found, p->some.n_slow),
           percent(p->all.n_red, p->all.n_trials));
}

/* Three standard deviations above a twentieth. */
static bool holds(const struct kg_simulated *u) {
    const double n = (double)u->n_trials, most = n / 20 + 3 * sqrt(n * 0.05 * 0.95);
    return u->n_false * 1000 <= u->n_comparisons && (double)u->n_red <= most;
}

/* Prints the rows of a kind; whether its limits hold. */
static bool print_rows(const struct kg_noise_kind *kind, size_t n_trials) {
    struct powers one, again;
    struct kg_other_rates nvbench, otava;
    simulate(kind, n_trials, false, &one);
    simulate(kind, n_trials, true, &again);
    kg_other_rules_simulate(kind, 10000, log(1.05), 4, &nvbench, &otava);
    print_powers(kind, &one);
    printf("\n");
    print_powers(kind, &again);
    printf(" %.1f | %.0f, %.0f %% | %.1f, %.0f %% |\n",
           (double)again.unchanged.n_measured / (double)(N_CASES * again.unchanged.n_trials),
           percent(nvbench.n_false, nvbench.n) * 10, percent(nvbench.n_found, nvbench.n),
           percent(otava.n_false, otava.n) * 10, percent(otava.n_found, otava.n));
    fflush(stdout);
    return holds(&one.unchanged) && holds(&again.unchanged);
}

int main(int argc, char **argv) {
    const size_t n_trials = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    const size_t only = argc > 2 ? strtoul(argv[2], NULL, 10) : KG_NOISE_KINDS;
    bool good = n_trials > 0;
    for (size_t k = 0; k < KG_NOISE_KINDS; k++)
        if (only == KG_NOISE_KINDS || k == only) good = print_rows(&KG_NOISE[k], n_trials) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
