/* simulate [N_TRIALS [KIND]]: false alarms and powers by kind of noise, as the tables of docs/history.md: a row each
 * for regress on one run, regress --confirm beside other rules, and confirm, led by the table's name and the kind's
 * number. Exit code 1 if a goal is missed: at most 1 false alarm in 1000 comparisons; red runs no more than 1 in 20
 * explains.
 *
 * simulate series: what the other rules are checked on by their own programs: kind, change, answer of
 * kg_otava_finds_slower, values. */
#include "suites/unit/other_rules.h"
#include "suites/unit/simulation.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CASES = 1000, N_SLOW = 50, N_CASES_OF_ALL = 200, N_SLOW_CONFIRMED = 10 };
static const double CANARY_SIGMA = 0.0173205; /* to the 1% that they have: 2% */

static double percent(size_t part, size_t whole) {
    return 100.0 * (double)part / (double)(whole ? whole : 1);
}

struct powers {
    struct kg_simulated unchanged, five, three, all;
};

static void simulate(const struct kg_noise_kind *kind, size_t n_trials, bool again, struct powers *out) {
    const struct kg_simulation quiet = {
        .kind = kind, .n_trials = n_trials, .n_cases = N_CASES, .n_baseline = 20, .again = again
    };
    struct kg_simulation slower = quiet, all = quiet;
    slower.n_trials = n_trials / 5 + 1;
    slower.n_slow = N_SLOW;
    slower.change = log(1.05);
    all.n_slow = all.n_cases = N_CASES_OF_ALL;
    all.change = log(1.05);
    all.canary_sigma = CANARY_SIGMA;
    kg_simulate(&quiet, 1, &out->unchanged);
    kg_simulate(&slower, 2, &out->five);
    slower.change = log(1.03);
    kg_simulate(&slower, 2, &out->three);
    kg_simulate(&all, 3, &out->all);
}

static void print_powers(const struct kg_noise_kind *kind, const struct powers *p) {
    const struct kg_simulated *u = &p->unchanged;
    printf("| %s | %.2f | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% |", kind->name,
           percent(u->n_false, u->n_comparisons) * 10, percent(u->n_red, u->n_trials),
           percent(u->n_doubtful, u->n_trials), percent(p->five.n_found, p->five.n_slow),
           percent(p->three.n_found, p->three.n_slow), percent(p->all.n_red, p->all.n_trials));
}

/* Three standard deviations above a twentieth. */
static bool few_are_red(size_t n_red, size_t n_trials) {
    const double n = (double)n_trials;
    return (double)n_red <= n / 20 + 3 * sqrt(n * 0.05 * 0.95);
}

static bool holds(const struct kg_simulated *u) {
    return u->n_false * 1000 <= u->n_comparisons && few_are_red(u->n_red, u->n_trials);
}

static void print_answers(const size_t *answers, size_t n) {
    printf(" %.1f / %.1f / %.1f %% |", percent(answers[KG_CONFIRMED] + answers[KG_CONFIRMED_SMALL], n),
           percent(answers[KG_REFUTED], n), percent(answers[KG_UNDECIDED], n));
}

static bool print_confirm(const struct kg_noise_kind *kind, size_t n_trials) {
    const struct kg_simulation quiet = {
        .kind = kind, .n_trials = n_trials, .n_cases = N_CASES_OF_ALL, .n_baseline = 20
    };
    struct kg_simulation slower = quiet;
    struct kg_simulated_confirm unchanged, five, three;
    slower.n_slow = N_SLOW_CONFIRMED;
    slower.change = log(1.05);
    kg_simulate_confirm(&quiet, 5, &unchanged);
    kg_simulate_confirm(&slower, 6, &five);
    slower.change = log(1.03);
    kg_simulate_confirm(&slower, 6, &three);
    printf("| %s | %.1f %% |", kind->name, percent(unchanged.n_red, unchanged.n_trials));
    print_answers(unchanged.unchanged, unchanged.n_unchanged);
    print_answers(five.slow, five.n_slow);
    print_answers(three.slow, three.n_slow);
    printf(" %.1f %% |\n",
           percent(five.unchanged[KG_CONFIRMED], five.unchanged[KG_CONFIRMED] + five.slow[KG_CONFIRMED]));
    return few_are_red(unchanged.n_red, unchanged.n_trials);
}

/* Prints the rows of a kind; whether its goals hold. */
static bool print_rows(size_t number, size_t n_trials) {
    const struct kg_noise_kind *kind = &KG_NOISE[number];
    struct powers one, again;
    struct kg_other_rates nvbench, otava;
    simulate(kind, n_trials, false, &one);
    simulate(kind, n_trials, true, &again);
    kg_other_rules_simulate(kind, 10000, log(1.05), 4, &nvbench, &otava);
    printf("1 regress %02zu ", number);
    print_powers(kind, &one);
    printf("\n2 regress --confirm %02zu ", number);
    print_powers(kind, &again);
    printf(" %.1f | %.0f, %.0f %% | %.1f, %.0f %% |\n3 confirm %02zu ",
           (double)again.unchanged.n_measured / (double)(N_CASES * again.unchanged.n_trials),
           percent(nvbench.n_false, nvbench.n) * 10, percent(nvbench.n_found, nvbench.n),
           percent(otava.n_false, otava.n) * 10, percent(otava.n_found, otava.n), number);
    const bool good = print_confirm(kind, 10 * n_trials);
    fflush(stdout);
    return holds(&one.unchanged) && holds(&again.unchanged) && good;
}

static void print_series(size_t n_figures) {
    struct kg_made_times times;
    kg_made_times_open(&times, n_figures, KG_OTHER_RUNS);
    for (size_t kind = 0; kind < KG_NOISE_KINDS; kind++) {
        struct kg_rng rng;
        kg_rng_init(&rng, 7, kind);
        kg_made_times_fill(&times, &KG_NOISE[kind], &rng);
        for (size_t i = 0; i < 2 * n_figures; i++) {
            double values[KG_OTHER_RUNS];
            kg_other_series(&times, i / 2, i % 2 ? log(1.05) : 0, values);
            printf("%zu %zu %d", kind, i % 2, kg_otava_finds_slower(values, KG_OTHER_RUNS));
            for (size_t j = 0; j < KG_OTHER_RUNS; j++) printf(" %.17g", values[j]);
            printf("\n");
        }
    }
    kg_made_times_close(&times);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "series") == 0) {
        print_series(strtoul(argv[2], NULL, 10));
        return EXIT_SUCCESS;
    }
    const size_t n_trials = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    const size_t only = argc > 2 ? strtoul(argv[2], NULL, 10) : KG_NOISE_KINDS;
    bool good = n_trials > 0;
    for (size_t k = 0; k < KG_NOISE_KINDS; k++)
        if (only == KG_NOISE_KINDS || k == only) good = print_rows(k, n_trials) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
