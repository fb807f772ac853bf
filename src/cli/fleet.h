/* What the verbs over a fleet share: its options, opening it, progress. */
#ifndef KIGO_CLI_FLEET_H
#define KIGO_CLI_FLEET_H

#include "base/options.h"
#include "base/progress.h"
#include "fleet/fleet.h"

#define KG_HISTORY_OPTION(variable)                                                                                    \
    {                                                                                                                  \
        .name = "history", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "URL",                              \
        .help = "the fleet, postgresql://USER@HOST/DATABASE ($KIGO_HISTORY); no password here"                         \
    }
#define KG_WAIT_OPTION(variable)                                                                                       \
    {                                                                                                                  \
        .name = "wait", .kind = KG_OPTION_INT, .value = (variable), .metavar = "SECONDS",                              \
        .help = "how long a server that does not answer is asked again (10)", .min = 0, .max = 86400                   \
    }
enum { KG_FLEET_WAIT_S = 10 };

/* Opens the fleet named by the option or by $KIGO_HISTORY. */
KG_WARN_UNUSED enum kg_status kg_cli_fleet_open(const char *given, enum kg_fleet_use use, int64_t wait_s,
                                                struct kg_fleet **fleet, struct kg_error *err);

/* A bar on a terminal, of bytes or runs: kg_progress_finish when all is done. */
struct kg_fleet_watch kg_cli_fleet_watch(struct kg_progress *progress, const char *label);

#endif
