#include "cli/filter.h"
#include "base/clock.h"
#include "base/io_errors.h"
#include "base/file.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/source_tree.h"
#include "bundle/standing.h"
#include "history/ancestry.h"
#include "history/annotation.h"
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

/* Of runs that the index names, newest first, the first that counts. */
struct choice {
    struct kg_standing *standing; /* NULL: any does */
    size_t n_before;              /* of those that count, so many come first */
    char *id;
};

static bool take_id(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct choice *choice = arg;
    char why[256];
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    choice->id = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    if (!choice->standing || kg_standing_counts(choice->standing, KG_ROLE_LATEST, choice->id, why))
        if (choice->n_before-- == 0) return false;
    free(choice->id);
    choice->id = NULL;
    return true;
}

/* The run n_before places before the newest, of those wanted that count as the latest; or, with an id, that one if it
 * is wanted. */
static enum kg_status find_wanted(const char *verb, const struct kg_filter *filter, const char *root, const char *id,
                                  size_t n_before, char **found, struct kg_error *err) {
    struct kg_history *history = NULL;
    struct kg_filter_args args;
    struct choice choice = { .n_before = n_before };
    enum kg_status status = kg_filter_bind(filter, root, &args, err);
    if (status != KG_OK) return status;
    args.values[KG_FILTER_ARGS] = id;
    status = kg_cli_history_open(verb, root, &history, err);
    if (status == KG_OK && !id) status = kg_standing_open(root, kg_clock_utc_us(), &choice.standing, err);
    if (status == KG_OK)
        status =
            kg_history_query(history,
                             "SELECT b.bundle_id FROM bundle b LEFT JOIN env e USING(env_id) WHERE " KG_FILTER_RUN_SQL
                             " AND (?8 IS NULL OR b.bundle_id = ?8) AND ?1 IS ?1 AND ?2 IS ?2 AND ?3 IS ?3 AND"
                             " ?4 IS ?4 AND ?5 IS ?5 ORDER BY b.started_us DESC, b.bundle_id DESC",
                             args.values, KG_FILTER_ARGS + 1, take_id, &choice, err);
    *found = choice.id;
    kg_standing_close(choice.standing);
    kg_history_close(history);
    kg_filter_args_free(&args);
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
        status = find_wanted(verb, filter, root, latest ? NULL : strrchr(*dir, '/') + 1, n_before, &id, err);
    const char *unread = latest ? kg_io_error_noted() : NULL;
    if (status == KG_OK && unread)
        status = kg_fail(err, KG_ERR_IO, "which run is the latest is unknown: %s; name the run", unread);
    if (status == KG_OK && !id)
        status = kg_fail(err, KG_ERR_NOT_FOUND, "no run '%s' of those commits and machine", run);
    if (status == KG_OK && latest) *dir = kg_path_join(root, id);
    free(id);
    return status;
}
