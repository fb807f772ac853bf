/* What test_fleet does a few times or not at all, at 50 moments: `make check-fleet`. */
#include "base/size.h"
#include "suites/integration/fleet_holds.h"
#include "suites/integration/fleet_standby.h"
#include <kigo/status.h>

enum { TIMEOUT_S = 1800 };

#define HOLD(name_, n)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "fleet_at_length", .name = #name_, .timeout_s = TIMEOUT_S,                       \
        .run = kg_fleet_##name_, .arg = &(const int) {                                                                 \
            n                                                                                                          \
        }                                                                                                              \
    }

static const struct kg_case CASES[] = {
    HOLD(server_killed_at_random, 50),
    HOLD(client_killed_at_random, 50),
    HOLD(standby_promoted_at_random, 20),
    HOLD(client_killed_at_tables, KG_FLEET_N_TABLES),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
