/* simulate [N_TRIALS]: the table of false alarms and powers by kind of noise, in Markdown. */
#include "suites/unit/simulation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const size_t n_trials = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    const size_t only = argc > 2 ? strtoul(argv[2], NULL, 10) : KG_NOISE_KINDS;
    printf("| noise | false per 1,000 | red runs | in doubt | +5 %% in one of 20 found |\n| --- | ---: | ---: | ---: | "
           "---: |\n");
    for (size_t k = 0; k < KG_NOISE_KINDS; k++) {
        struct kg_simulated quiet, slow;
        if (only < KG_NOISE_KINDS && k != only) continue;
        const struct kg_simulation s = {
            .kind = &KG_NOISE[k], .n_trials = n_trials, .n_cases = 1000, .n_baseline = 20
        };
        struct kg_simulation one = s;
        one.n_slow = 50;
        one.change = log(1.05);
        one.n_trials = n_trials / 4 + 1;
        kg_simulate(&s, 1, &quiet);
        kg_simulate(&one, 2, &slow);
        struct kg_simulated all;
        one.n_slow = 1000;
        kg_simulate(&one, 3, &all);
        printf("common %zu, all slow: %zu of %zu, found %.2f\n", quiet.n_common, all.n_common, all.n_trials,
               (double)all.n_found / (double)all.n_slow);
        printf("| %s | %.2f | %.1f %% | %.1f %% | %.0f %% |\n", KG_NOISE[k].name,
               1000.0 * (double)quiet.n_false / (double)quiet.n_comparisons,
               100.0 * (double)quiet.n_red / (double)quiet.n_trials,
               100.0 * (double)quiet.n_doubtful / (double)quiet.n_trials,
               100.0 * (double)slow.n_found / (double)slow.n_slow);
        fflush(stdout);
    }
    return 0;
}
