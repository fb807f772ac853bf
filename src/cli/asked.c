#include "cli/asked.h"
#include "base/buffer.h"
#include "base/size.h"
#include "history/shelf.h"
#include "history/store.h"
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
    enum kg_status status = kg_cli_fleet_open(asked->history, KG_FLEET_READS, KG_FLEET_WAIT_S, fleet, err);
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

static bool add_id(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_dir_list *ids = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    if ((ids->n_names & (ids->n_names + 1)) == 0) /* full at 2^n - 1 */
        ids->names = kg_xrealloc(ids->names, (ids->n_names + 1) * 2 * sizeof *ids->names);
    ids->names[ids->n_names++] = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    return true;
}

enum kg_status kg_cli_asked_run(struct kg_history *fleet, const char *run, enum kg_run_names names, char **id,
                                struct kg_error *err) {
    struct kg_run_place place = { .where = kg_history_where(fleet),
                                  .policy_root = kg_cli_bundles_root(NULL),
                                  .fleet = fleet };
    struct kg_dir_list ids = { 0 };
    const char *chosen = NULL;
    if (!*run) return kg_fail(err, KG_ERR_USAGE, "the name of the run is empty");
    enum kg_status status = kg_shelf_root(fleet, &place.root, err);
    if (status == KG_OK)
        status = kg_history_query(fleet, "SELECT bundle_id FROM bundle ORDER BY bundle_id COLLATE \"C\"", NULL, 0,
                                  add_id, &ids, err);
    if (status == KG_OK) status = kg_run_name_choose(&place, run, names, &ids, &chosen, err);
    if (status == KG_OK) *id = kg_xstrdup(chosen);
    kg_dir_list_free(&ids);
    return status;
}

static bool is_given(const struct kg_command *command, const char *name) {
    for (size_t i = 0; i < command->n_options; i++)
        if (strcmp(command->options[i].name, name) == 0)
            return command->options[i].kind == KG_OPTION_TEXT && *(const char **)command->options[i].value != NULL;
    return false;
}

/* push and pull are from the one to the other. */
static bool names_both(const char *verb, const struct kg_command *command) {
    return strcmp(verb, "push") != 0 && strcmp(verb, "pull") != 0 && is_given(command, "history") &&
           is_given(command, "bundles");
}

/* What deletes goes by what the command line says alone. */
static bool must_say_which(const char *verb, const struct kg_command *command) {
    return strcmp(verb, "prune") == 0 && fleet_is_named() && !is_given(command, "bundles") &&
           !is_given(command, "history");
}

enum kg_status kg_cli_asked_check(const struct kg_command *command, char **argv, struct kg_error *err) {
    if (names_both(argv[0], command))
        return kg_fail(err, KG_ERR_USAGE, "--history names a fleet, --bundles a folder: one of them");
    if (!must_say_which(argv[0], command)) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE,
                   "$KIGO_HISTORY names a fleet: say which, that fleet (--history URL) or a folder (--bundles DIR)");
}

enum kg_status kg_cli_asked_annotate(const char *verb, const struct kg_asked *asked,
                                     const struct kg_annotation *annotation, struct kg_error *err) {
    const char *root = kg_cli_bundles_root(asked->bundles), *place;
    struct kg_history *fleet = NULL;
    if (!kg_cli_asked_is_fleet(asked)) return kg_annotation_add(root, annotation, NULL, NULL, err);
    enum kg_status status = kg_cli_asked_open(verb, asked, &fleet, &place, err);
    if (status == KG_OK) status = kg_annotation_put(fleet, root, annotation, NULL, NULL, err);
    kg_history_close(fleet);
    return status;
}
