/* What test_fleet does a few times or not at all, at 50 moments: `make check-fleet`. */
#include "base/size.h"
#include "suites/integration/fleet_figures.h"
#include "suites/integration/fleet_holds.h"
#include "suites/integration/fleet_links.h"
#include "suites/integration/fleet_standby.h"
#include <kigo/status.h>
#include <stdlib.h>

enum { TIMEOUT_S = 1800 };

#define HOLD(name_, n)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "fleet_at_length", .name = #name_, .timeout_s = TIMEOUT_S,                       \
        .run = kg_fleet_##name_, .arg = &(const int) {                                                                 \
            n                                                                                                          \
        }                                                                                                              \
    }

/* One call of all is some minutes; 10^8 figures, 25 GB of $TMPDIR and half an hour, are asked for by
 * KIGO_FLEET_FIGURES=1e8. */
static struct kg_fleet_figures full = { .n_cases = 7303,
                                        .n_line = 21,
                                        .n_rows = { 1000000, 10000000 },
                                        .n_runs = 1000,
                                        .n_calls = 5,
                                        .n_runners = 100,
                                        .seconds = 300 };

#define FIGURES(name_)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "fleet_at_length", .name = #name_, .timeout_s = 2 * TIMEOUT_S, .timed = true,    \
        .run = kg_fleet_##name_, .arg = &full                                                                          \
    }

static const struct kg_case CASES[] = {
    FIGURES(asked_as_it_grows),
    FIGURES(asked_over_runs),
    FIGURES(pushed_by_many),
    HOLD(server_killed_at_random, 50),
    HOLD(client_killed_at_random, 50),
    HOLD(unreachable_in_mid_push, 50),
    HOLD(standby_promoted_at_random, 20),
    HOLD(client_killed_at_tables, KG_FLEET_N_TABLES),
};

int main(int argc, char **argv) {
    const char *more = getenv("KIGO_FLEET_FIGURES");
    if (more) full.n_rows[2] = (int64_t)strtod(more, NULL);
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
