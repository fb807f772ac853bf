#include "cli/filter.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/io_errors.h"
#include "base/file.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/source_tree.h"
#include "bundle/standing.h"
#include "cli/asked.h"
#include "history/ancestry.h"
#include "history/annotation.h"
#include "history/shelf.h"
#include <stdlib.h>
#include <string.h>

char *kg_glob_of(const char *pattern) {
    struct kg_buffer out = KG_BUFFER_INIT;
    if (!pattern) return NULL;
    for (const char *s = pattern; *s; s++) {
        if (*s == '[') kg_buffer_puts(&out, "[[]");
        else kg_buffer_append(&out, s, 1);
    }
    return out.data ? out.data : kg_xstrdup("");
}

static enum kg_status commits_text(const struct kg_filter *filter, const char *root, char **text,
                                   struct kg_error *err) {
    const char *const places[] = { filter->repository ? filter->repository : root, filter->repository ? NULL : ".",
                                   kg_source_tree(), NULL };
    struct kg_commits commits;
    struct kg_error why;
    enum kg_status status = KG_ERR_NOT_FOUND;
    for (size_t i = 0; places[i] && status != KG_OK; i++)
        status = kg_path_is_dir(places[i]) ? kg_commits_list(places[i], filter->commits, &commits, &why) : status;
    if (status != KG_OK) return kg_fail(err, KG_ERR_NOT_FOUND, "--commits: git knows no '%s'", filter->commits);
    struct kg_buffer lines = KG_BUFFER_INIT;
    for (size_t i = 0; i < commits.n_items; i++) kg_buffer_printf(&lines, "%s\n", commits.items[i].id);
    *text = lines.data ? lines.data : kg_xstrdup("none");
    kg_commits_free(&commits);
    return KG_OK;
}

enum kg_status kg_filter_bind(const struct kg_filter *filter, const char *root, struct kg_filter_args *args,
                              struct kg_error *err) {
    const char *const patterns[] = { filter->layer, filter->op, filter->dtype, filter->shape, filter->backend };
    *args = (struct kg_filter_args){ 0 };
    for (size_t i = 0; i < KG_COUNT_OF(patterns); i++) args->owned[i] = kg_glob_of(patterns[i]);
    enum kg_status status = filter->commits ? commits_text(filter, root, &args->owned[5], err) : KG_OK;
    if (filter->machine) args->owned[6] = kg_xstrdup(filter->machine);
    for (size_t i = 0; i < KG_FILTER_ARGS; i++) args->values[i] = args->owned[i];
    if (status != KG_OK) kg_filter_args_free(args);
    return status;
}

enum kg_status kg_filter_bind_runs(const struct kg_filter *filter, const char *root, int64_t limit,
                                   struct kg_filter_args *args, struct kg_error *err) {
    const enum kg_status status = kg_filter_bind(filter, root, args, err);
    if (status != KG_OK) return status;
    args->owned[KG_FILTER_ARGS] = kg_xasprintf("%lld", (long long)limit);
    args->values[KG_FILTER_ARGS] = args->owned[KG_FILTER_ARGS];
    args->values[KG_FILTER_ARGS + 1] = kg_filter_has_case(filter) ? "yes" : NULL;
    return KG_OK;
}

void kg_filter_args_free(struct kg_filter_args *args) {
    for (size_t i = 0; i < KG_COUNT_OF(args->owned); i++) free(args->owned[i]);
    *args = (struct kg_filter_args){ 0 };
}

bool kg_filter_has_case(const struct kg_filter *f) {
    return f->layer || f->op || f->dtype || f->shape || f->backend;
}

bool kg_filter_is_set(const struct kg_filter *f) {
    return kg_filter_has_case(f) || f->commits || f->machine;
}

bool kg_filter_takes(const struct kg_filter *f, const json_t *plan) {
    const struct {
        const char *pattern, *name;
    } rows[] = {
        { f->layer, "layer" }, { f->op, "op" }, { f->dtype, "dtype" }, { f->shape, "shape" }, { f->backend, "backend" }
    };
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++) {
        const char *text = kg_json_text(plan, rows[i].name);
        if (rows[i].pattern && (!text || !kg_case_matches(rows[i].pattern, text))) return false;
    }
    return true;
}

static bool matches(const char *pattern, const char *text) {
    return !pattern || kg_case_matches(pattern, text);
}

bool kg_filter_takes_case(const struct kg_filter *f, const char *case_pattern, const struct kg_case_info *c) {
    return matches(f->layer, c->layer) && matches(f->op, c->op) && matches(f->dtype, c->dtype) &&
           matches(f->shape, c->shape) && matches(f->backend, c->backend) && matches(case_pattern, c->key);
}

static bool take_id(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_dir_list *ids = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    if ((ids->n_names & (ids->n_names + 1)) == 0) /* full at 2^n - 1 */
        ids->names = kg_xrealloc(ids->names, (ids->n_names + 1) * 2 * sizeof *ids->names);
    ids->names[ids->n_names++] = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    return true;
}

/* Of runs that come newest first, the one that n_before of those that count as the latest come before; NULL if there
 * are not so many. */
static enum kg_status choose_latest(struct kg_history *history, const char *root, const struct kg_dir_list *ids,
                                    size_t n_before, const char **found, struct kg_error *err) {
    const char *const policy_root = kg_history_is_store(history) ? kg_cli_bundles_root(NULL) : root;
    struct kg_standing *standing = NULL;
    char why[256];
    enum kg_status status = kg_standing_open_by(root, policy_root, kg_clock_utc_us(), &standing, err);
    *found = NULL;
    for (size_t i = 0; i < ids->n_names && !*found && status == KG_OK; i++) {
        const char *const id = ids->names[i];
        status = kg_shelf_bring(history, &id, 1, err);
        if (status == KG_OK && kg_standing_counts(standing, KG_ROLE_LATEST, id, why) && n_before-- == 0) *found = id;
    }
    kg_standing_close(standing);
    return status;
}

#define WANTED_SQL(of_run, ended)                                                                                      \
    "SELECT b.bundle_id FROM bundle b LEFT JOIN env e USING(env_id) WHERE " of_run                                     \
    " AND (?8 IS NULL OR b.bundle_id = ?8) AND coalesce(?1, ?2, ?3, ?4, ?5, '') IS NOT NULL ORDER BY b.started_us "    \
    "DESC,"                                                                                                            \
    " b.bundle_id" ended

/* The run n_before places before the newest, of those wanted that count as the latest; or, with an id, that one if it
 * is wanted. *found is malloc'ed, NULL if none is. */
static enum kg_status find_wanted(struct kg_history *history, const struct kg_filter *filter, const char *root,
                                  const char *id, size_t n_before, char **found, struct kg_error *err) {
    static const struct kg_sql SQL = { WANTED_SQL(KG_FILTER_RUN_SQL, " DESC"),
                                       WANTED_SQL(KG_FILTER_RUN_POSTGRES, " COLLATE \"C\" DESC") };
    struct kg_filter_args args;
    struct kg_dir_list ids = { 0 };
    const char *chosen = NULL;
    *found = NULL;
    enum kg_status status = kg_filter_bind(filter, root, &args, err);
    if (status != KG_OK) return status;
    args.values[KG_FILTER_ARGS] = id;
    status = kg_history_ask(history, &SQL, args.values, KG_FILTER_ARGS + 1, take_id, &ids, err);
    if (status == KG_OK && id) chosen = ids.n_names > 0 ? ids.names[0] : NULL;
    else if (status == KG_OK) status = choose_latest(history, root, &ids, n_before, &chosen, err);
    if (status == KG_OK && chosen) *found = kg_xstrdup(chosen);
    kg_dir_list_free(&ids);
    kg_filter_args_free(&args);
    return status;
}

static enum kg_status say_unwanted(const char *run, struct kg_error *err) {
    return kg_fail(err, KG_ERR_NOT_FOUND, "no run '%s' of those commits and machine", run);
}

enum kg_status kg_filter_find_in(struct kg_history *fleet, const struct kg_filter *filter, const char *run, char **id,
                                 struct kg_error *err) {
    const char *root;
    char *named = NULL;
    size_t n_before = 0;
    if (!filter->commits && !filter->machine) return kg_cli_asked_run(fleet, run, KG_RUN_BY_ANY_NAME, id, err);
    const bool latest = kg_run_name_is_latest(run, &n_before);
    enum kg_status status = latest ? KG_OK : kg_cli_asked_run(fleet, run, KG_RUN_BY_ANY_NAME, &named, err);
    if (status == KG_OK) status = kg_shelf_root(fleet, &root, err);
    if (status == KG_OK) status = find_wanted(fleet, filter, root, named, n_before, id, err);
    if (status == KG_OK && !*id) status = say_unwanted(run, err);
    free(named);
    return status;
}

static enum kg_status find_in_folder(const char *verb, const struct kg_filter *filter, const char *root, const char *id,
                                     size_t n_before, char **found, struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = kg_cli_history_open(verb, root, &history, err);
    if (status == KG_OK) status = find_wanted(history, filter, root, id, n_before, found, err);
    kg_history_close(history);
    return status;
}

enum kg_status kg_filter_find(const char *verb, const struct kg_filter *filter, const char *root, const char *run,
                              char **dir, struct kg_error *err) {
    if (!filter->commits && !filter->machine) return kg_cli_bundle_find(root, run, dir, err);
    size_t n_before = 0;
    const bool latest = kg_run_name_is_latest(run, &n_before);
    char *id = NULL;
    enum kg_status status = latest ? KG_OK : kg_cli_bundle_find(root, run, dir, err);
    if (status == KG_OK)
        status = find_in_folder(verb, filter, root, latest ? NULL : strrchr(*dir, '/') + 1, n_before, &id, err);
    const char *unread = latest ? kg_io_error_noted() : NULL;
    if (status == KG_OK && unread)
        status = kg_fail(err, KG_ERR_IO, "which run is the latest is unknown: %s; name the run", unread);
    if (status == KG_OK && !id) status = say_unwanted(run, err);
    if (status == KG_OK && latest) *dir = kg_path_join(root, id);
    free(id);
    return status;
}
