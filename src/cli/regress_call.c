#include "cli/regress_call.h"
#include "base/clock.h"
#include "bundle/source_tree.h"
#include "history/ancestry.h"
#include "history/shelf.h"
#include <stdlib.h>
#include <string.h>

/* fleet NULL: of the folder. */
static enum kg_status run_id_by(struct kg_history *fleet, const char *root, const char *run, enum kg_run_names names,
                                char **id, struct kg_error *err) {
    char *dir = NULL;
    if (fleet) return kg_cli_asked_run(fleet, run, names, id, err);
    const enum kg_status status = kg_cli_bundle_find_by(root, run, names, &dir, err);
    if (status != KG_OK) return status;
    const size_t len = strlen(dir);
    if (len > 1 && dir[len - 1] == '/') dir[len - 1] = '\0';
    const char *slash = strrchr(dir, '/');
    *id = kg_xstrdup(slash ? slash + 1 : dir);
    free(dir);
    return KG_OK;
}

enum kg_status kg_cli_run_id(const char *root, const char *run, char **id, struct kg_error *err) {
    return run_id_by(NULL, root, run, KG_RUN_BY_ANY_NAME, id, err);
}

/* A run if it names one, else a commit: the runs of its ancestors, not the one that was made of it. */
static enum kg_status resolve_baseline(struct kg_history *fleet, const char *root, const char *baseline,
                                       struct kg_regress_options *o, char **id, struct kg_error *err) {
    const char *dir;
    if (!baseline) return KG_OK;
    struct kg_error no_run, no_commit;
    if (run_id_by(fleet, root, baseline, KG_RUN_BY_ITS_OWN_NAME, id, &no_run) == KG_OK) {
        o->baseline_runs = (const char *const *)id;
        o->n_baseline_runs = 1;
        return KG_OK;
    }
    if (no_run.status == KG_ERR_USAGE) return kg_fail(err, KG_ERR_USAGE, "--baseline: %s", no_run.message);
    o->baseline_revision = baseline;
    if (kg_find_repository(o->repositories, baseline, &dir, &no_commit) == KG_OK) return KG_OK;
    return kg_fail(err, KG_ERR_NOT_FOUND, "--baseline: neither a run nor a commit: %.400s; %.400s", no_run.message,
                   no_commit.message);
}

void kg_cli_repositories(const struct kg_regress_call *call, const char *places[4]) {
    const struct kg_asked asked = { call->bundles, call->history };
    const char *const of_folder[4] = { kg_cli_bundles_root(call->bundles), ".", kg_source_tree(), NULL };
    const char *const of_fleet[4] = { ".", kg_source_tree(), NULL, NULL };
    const char *const given[4] = { call->repository, NULL, NULL, NULL };
    const char *const *all = kg_cli_asked_is_fleet(&asked) ? of_fleet : of_folder;
    memcpy(places, call->repository ? given : all, sizeof given);
}

enum kg_status kg_cli_regress(const char *verb, const struct kg_regress_call *call, const char *run,
                              struct kg_regression *out, struct kg_error *err) {
    struct kg_history *history = NULL;
    const enum kg_status status = kg_cli_regress_open(verb, call, run, &history, out, err);
    kg_cli_history_close(verb, history);
    return status;
}

enum kg_status kg_cli_regress_open(const char *verb, const struct kg_regress_call *call, const char *run,
                                   struct kg_history **opened, struct kg_regression *out, struct kg_error *err) {
    const struct kg_asked asked = { call->bundles, call->history };
    const char *places[4], *root = kg_cli_bundles_root(call->bundles), *place;
    kg_cli_repositories(call, places);
    struct kg_regress_options o = { .policy_root = root,
                                    .repositories = places,
                                    .least_change = call->least_change_percent / 100,
                                    .now_us = kg_clock_utc_us(),
                                    .again = call->again };
    struct kg_history *history = NULL;
    char *id = NULL, *baseline_id = NULL;
    enum kg_status status = KG_OK;
    if (kg_cli_asked_is_fleet(&asked)) {
        status = kg_cli_asked_open(verb, &asked, &history, &place, err);
        if (status == KG_OK) status = kg_shelf_root(history, &root, err);
    }
    if (status == KG_OK) status = run_id_by(history, root, run ? run : "latest", KG_RUN_BY_ANY_NAME, &id, err);
    if (status == KG_OK) status = resolve_baseline(history, root, call->baseline, &o, &baseline_id, err);
    if (status == KG_OK && !history) status = kg_cli_history_open(verb, root, &history, err);
    o.root = root;
    o.run = id;
    if (status == KG_OK) status = kg_regress(history, &o, out, err);
    free(baseline_id);
    free(id);
    if (status == KG_OK) *opened = history;
    else kg_cli_history_close(verb, history);
    return status;
}
