/* make_history ROOT N_RUNS N_CASES [COMMITS]: a history to measure queries on. Runs an hour apart, timings with 1% of
 * noise from run to run, commits that are numbers; or, a line each, those of the file COMMITS (git rev-list --reverse).
 */
#include "base/rng.h"
#include "suites/support/history_maker.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->time_ns *= exp(0.01 * kg_rng_normal(arg));
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 5) {
        fputs("usage: make_history ROOT N_RUNS N_CASES [COMMITS]\n", stderr);
        return KG_EXIT_USAGE;
    }
    const long n_runs = strtol(argv[2], NULL, 10), n_cases = strtol(argv[3], NULL, 10);
    FILE *commits = argc == 5 ? fopen(argv[4], "r") : NULL;
    struct kg_rng rng;
    kg_rng_init(&rng, 1, 0);
    for (long i = 0; i < n_runs; i++) {
        char commit[48];
        struct kg_error err;
        if (!commits || fscanf(commits, "%40s", commit) != 1) snprintf(commit, sizeof commit, "%040lx", i + 1);
        const struct kg_made_run run = { .started_us = INT64_C(1760000000000000) + i * INT64_C(3600000000),
                                         .commit = commit,
                                         .n_cases = (size_t)n_cases,
                                         .canary = exp(0.01 * kg_rng_normal(&rng)),
                                         .fill = fill,
                                         .arg = &rng };
        if (kg_made_run_write(argv[1], &run, NULL, &err) != KG_OK) {
            fprintf(stderr, "make_history: %s\n", err.message);
            return kg_status_exit_code(err.status);
        }
    }
    if (commits) fclose(commits);
    return KG_EXIT_OK;
}
