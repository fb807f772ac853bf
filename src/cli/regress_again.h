/* regress --confirm: suspects measured again by fresh runs of both builds, within a budget. */
#ifndef KIGO_CLI_REGRESS_AGAIN_H
#define KIGO_CLI_REGRESS_AGAIN_H

#include "cli/two_builds.h"

struct kg_cli_again {
    struct kg_two_builds_options builds;
    const char *budget;                 /* "5m", "90s", "1h"; NULL: none */
    const struct kg_regress_call *call; /* of the judgement */
    struct kg_two_builds two;
    char *run_key; /* the judged run's comparison key */
    double budget_s;
    uint64_t started_ns, round_ns, round_started_ns; /* of the last run of both builds */
    size_t n_round, n_runs;                          /* figures in it; runs so far */
};

/* Reads the budget, and refuses builds that are none. */
KG_WARN_UNUSED enum kg_status kg_cli_again_check(struct kg_cli_again *again, struct kg_error *err);
/* Fills what kg_regress calls. */
void kg_cli_again_fill(struct kg_cli_again *again, struct kg_regress_again *out);
void kg_cli_again_close(struct kg_cli_again *again);

#endif
