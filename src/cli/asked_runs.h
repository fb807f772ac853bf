/* Runs that a verb reads whole: from a folder of bundles, or from a fleet, whose bundles come to this machine, verified
 * (fleet_cache.h). Names, order and errors are the same for both. */
#ifndef KIGO_CLI_ASKED_RUNS_H
#define KIGO_CLI_ASKED_RUNS_H

#include "cli/asked.h"
#include "cli/filter.h"
#include "cli/fleet_cache.h"

struct kg_asked_runs {
    const char *verb, *bundles; /* bundles: of the command line */
    const char *root;           /* folder of bundles in which runs are found: a fleet's hold those asked for alone */
    const char *where;          /* that folder, or the fleet: for people */
    struct kg_fleet *fleet;     /* NULL: a folder */
    struct kg_history *history; /* the fleet's rows */
    struct kg_fleet_cache *cache;
};

/* Which of both is asked: as kg_cli_asked_open has it. */
KG_WARN_UNUSED enum kg_status kg_asked_runs_open(const char *verb, const struct kg_asked *asked,
                                                 struct kg_asked_runs *runs, struct kg_error *err);
void kg_asked_runs_close(struct kg_asked_runs *runs);

/* The folder of a run, as kg_filter_find; filter NULL: as kg_cli_bundle_find. In a fleet every run is one that "@here"
 * means: its server said who might push it. A path names a folder of this machine there, too. *dir is malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_asked_runs_find(struct kg_asked_runs *runs, const struct kg_filter *filter,
                                                 const char *name, char **dir, struct kg_error *err);

/* What a folder that was found is for people: itself; in a fleet NULL, as it is there for kigo alone. */
const char *kg_asked_runs_dir(const struct kg_asked_runs *runs, const char *dir);

/* The message without the folder in which a fleet's runs are kept: "<id>/data/..." is left. Returns err. */
const struct kg_error *kg_asked_runs_error(const struct kg_asked_runs *runs, struct kg_error *err);

#endif
