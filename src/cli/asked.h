/* Which history a verb asks: the index of a folder of bundles, or a fleet. */
#ifndef KIGO_CLI_ASKED_H
#define KIGO_CLI_ASKED_H

#include "cli/bundles.h"
#include "cli/fleet.h"
#include "history/annotation.h"

struct kg_asked {
    const char *bundles, *history; /* of the command line; NULL: not said */
};

/* Rows of a table of options. */
#define KG_ASKED_OPTIONS(asked) KG_BUNDLES_OPTION(&(asked)->bundles), KG_HISTORY_OPTION(&(asked)->history)

/* Whether a fleet is named, and no folder on the command line. */
bool kg_cli_asked_is_fleet(const struct kg_asked *asked);

/* The fleet that is named, and its rows as a history, which closes the fleet, too. */
KG_WARN_UNUSED enum kg_status kg_cli_fleet_history(const struct kg_asked *asked, struct kg_fleet **fleet,
                                                   struct kg_history **history, struct kg_error *err);

/* What the command line says goes before $KIGO_HISTORY, and a fleet before $KIGO_BUNDLES. Opens the index as
 * kg_cli_history_open, or the fleet. *place: of either, for messages; valid until the history is closed. */
KG_WARN_UNUSED enum kg_status kg_cli_asked_open(const char *verb, const struct kg_asked *asked,
                                                struct kg_history **history, const char **place, struct kg_error *err);

/* The id of a run of an open fleet, named as run_name.h has it; malloc'ed. */
KG_WARN_UNUSED enum kg_status kg_cli_asked_run(struct kg_history *fleet, const char *run, enum kg_run_names names,
                                               char **id, struct kg_error *err);

/* Keeps what a verb found: beside the bundles, or in the fleet's table, whose admins alone may write it. */
KG_WARN_UNUSED enum kg_status kg_cli_asked_annotate(const char *verb, const struct kg_asked *asked,
                                                    const struct kg_annotation *annotation, struct kg_error *err);

/* Of a command line that was parsed: KG_ERR_USAGE, saying what to do, if it names a folder and a fleet as well; or if
 * the verb is prune, and a fleet is named by $KIGO_HISTORY and nothing by the command line. */
KG_WARN_UNUSED enum kg_status kg_cli_asked_check(const struct kg_command *command, char **argv, struct kg_error *err);

#endif
