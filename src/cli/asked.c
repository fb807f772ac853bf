#include "cli/asked.h"
#include "base/size.h"
#include <stdlib.h>
#include <string.h>

static bool fleet_is_named(void) {
    const char *from_environment = getenv("KIGO_HISTORY");
    return from_environment && *from_environment;
}

bool kg_cli_asked_is_fleet(const struct kg_asked *asked) {
    return asked->history || (!asked->bundles && fleet_is_named());
}

enum kg_status kg_cli_fleet_history(const struct kg_asked *asked, struct kg_fleet **fleet, struct kg_history **history,
                                    struct kg_error *err) {
    if (asked->history && asked->bundles)
        return kg_fail(err, KG_ERR_USAGE, "--history names a fleet, --bundles a folder: one of them");
    enum kg_status status = kg_cli_fleet_open(asked->history, KG_FLEET_WAIT_S, fleet, err);
    if (status != KG_OK) return status;
    status = kg_fleet_history(*fleet, history, err);
    if (status != KG_OK) kg_fleet_close(*fleet);
    return status;
}

enum kg_status kg_cli_asked_open(const char *verb, const struct kg_asked *asked, struct kg_history **history,
                                 const char **place, struct kg_error *err) {
    struct kg_fleet *fleet = NULL;
    if (kg_cli_asked_is_fleet(asked)) {
        const enum kg_status status = kg_cli_fleet_history(asked, &fleet, history, err);
        if (status == KG_OK) *place = kg_fleet_where(fleet);
        return status;
    }
    *place = kg_cli_bundles_root(asked->bundles);
    return kg_cli_history_open(verb, *place, history, err);
}

static bool is_given(const struct kg_command *command, const char *name) {
    for (size_t i = 0; i < command->n_options; i++)
        if (strcmp(command->options[i].name, name) == 0) return *(const char **)command->options[i].value != NULL;
    return false;
}

static bool asks_folders_only(const char *verb) {
    static const char *const VERBS[] = { "accept", "annotate",  "confirm", "pin",   "regress",
                                         "report", "selfcheck", "steps",   "waive", "web" };
    bool asks = false;
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) asks = asks || strcmp(VERBS[i], verb) == 0;
    return asks;
}

static bool is_on_line(int argc, char **argv) {
    bool is = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        is = is || strcmp(argv[i], "--history") == 0 || strncmp(argv[i], "--history=", 10) == 0;
    return is;
}

/* What deletes goes by what the command line says alone. */
static bool must_say_which(const char *verb, const struct kg_command *command) {
    return strcmp(verb, "prune") == 0 && fleet_is_named() && !is_given(command, "bundles") &&
           !is_given(command, "history");
}

enum kg_status kg_cli_asked_check(const struct kg_command *command, int argc, char **argv, enum kg_status parsed,
                                  struct kg_error *err) {
    const bool named = parsed == KG_OK ? fleet_is_named() && !is_given(command, "bundles") : is_on_line(argc, argv);
    if (parsed == KG_OK && must_say_which(argv[0], command))
        return kg_fail(
            err, KG_ERR_USAGE,
            "$KIGO_HISTORY names a fleet: say which, that fleet (--history URL) or a folder (--bundles DIR)");
    if (!named || !asks_folders_only(argv[0])) return parsed;
    return kg_fail(err, KG_ERR_USAGE,
                   "asks no fleet (%s) yet: 'kigo pull' the runs, then say their folder: --bundles proof-bundles",
                   parsed == KG_OK ? "$KIGO_HISTORY" : "--history");
}
