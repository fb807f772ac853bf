#include "history/shelf.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/verified.h"
#include "history/internal.h"
#include "history/run.h"
#include "history/trust.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *kept_folder(const char *where) {
    char name[KG_SHA256_HEX_SIZE], *above = kg_own_cache_folder(), *dir = NULL;
    kg_sha256_hex(where, strlen(where), name);
    if (above) dir = kg_xasprintf("%s/fleet-%.32s", above, name);
    free(above);
    return dir;
}

static enum kg_status make(struct kg_history *history, struct kg_error *err) {
    const char *tmp = getenv("TMPDIR");
    enum kg_status status = KG_OK;
    char *dir = kept_folder(history->path);
    if (dir) {
        status = kg_dir_make(dir, err);
    } else {
        dir = kg_xasprintf("%s/kigo-shelf-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(dir)) status = kg_fail(err, KG_ERR_IO, "cannot make %s: %s", dir, strerror(errno));
        else history->shelf_is_temporary = true;
    }
    if (status == KG_OK) history->root = dir;
    else free(dir);
    return status;
}

enum kg_status kg_shelf_root(struct kg_history *history, const char **root, struct kg_error *err) {
    const enum kg_status status = history->root ? KG_OK : make(history, err);
    *root = history->root;
    return status;
}

enum kg_status kg_shelf_bring(struct kg_history *history, const char *const *ids, size_t n_ids, struct kg_error *err) {
    const char *root;
    if (!history->store) return KG_OK;
    enum kg_status status = kg_shelf_root(history, &root, err);
    if (status == KG_OK) status = history->store->bring(history->place, root, ids, n_ids, &history->shelf_is_old, err);
    return status;
}

/* Runs that cannot be read are met when they are asked for. */
static enum kg_status open_index(struct kg_history *history, struct kg_error *err) {
    if (history->shelf && !history->shelf_is_old) return KG_OK;
    kg_history_close(history->shelf);
    history->shelf = NULL;
    history->shelf_is_old = false;
    return kg_history_open(history->root, &history->shelf, NULL, err);
}

static bool same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static const char *difference(const struct kg_run_head *row, const struct kg_run_head *bundle) {
    const struct {
        const char *name;
        bool same;
    } members[] = { { "state", same_text(row->state, bundle->state) },
                    { "verdict", same_text(row->verdict, bundle->verdict) },
                    { "commit", same_text(row->commit, bundle->commit) },
                    { "comparison_key", same_text(row->comparison_key, bundle->comparison_key) },
                    { "build", same_text(row->build_json, bundle->build_json) },
                    { "bundle_no", row->bundle_no == bundle->bundle_no },
                    { "started_us", row->started_us == bundle->started_us },
                    { "sealed_us", row->duration_us == bundle->duration_us },
                    { "git_dirty", row->dirty == bundle->dirty } };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!members[i].same) return members[i].name;
    return NULL;
}

/* Heads of runs, by id. SQLite has no set in one argument that it would look up. */
static enum kg_status read_heads(struct kg_history *history, const char *const *ids, size_t n_ids,
                                 struct kg_run_heads *heads, struct kg_error *err) {
    struct kg_buffer lines = KG_BUFFER_INIT, where = KG_BUFFER_INIT;
    enum kg_status status;
    if (kg_history_is_store(history)) {
        for (size_t i = 0; i < n_ids; i++) kg_buffer_printf(&lines, "%s\n", ids[i]);
        const char *const args[] = { kg_buffer_text(&lines) };
        status = kg_run_heads_load(history,
                                   "WHERE bundle_id = ANY(string_to_array(?1, chr(10)))"
                                   " ORDER BY bundle_id COLLATE \"C\"",
                                   args, 1, heads, err);
    } else {
        for (size_t i = 0; i < n_ids; i++) kg_buffer_printf(&where, "%s?%zu", i ? ", " : "WHERE bundle_id IN (", i + 1);
        kg_buffer_puts(&where, ") ORDER BY bundle_id");
        status = kg_run_heads_load(history, where.data, ids, n_ids, heads, err);
    }
    kg_buffer_free(&where);
    kg_buffer_free(&lines);
    return status;
}

/* What the store's rows say of some of the runs, held against what their bundles say. */
static enum kg_status compare_some(struct kg_history *history, const char *const *ids, size_t n_ids,
                                   struct kg_error *err) {
    struct kg_run_heads rows = { NULL, 0 }, bundles = { NULL, 0 };
    enum kg_status status = read_heads(history, ids, n_ids, &rows, err);
    if (status == KG_OK) status = read_heads(history->shelf, ids, n_ids, &bundles, err);
    for (size_t i = 0; i < bundles.n_items && status == KG_OK; i++) {
        const char *id = bundles.items[i].bundle_id;
        const bool there = i < rows.n_items && strcmp(rows.items[i].bundle_id, id) == 0;
        const char *what = there ? difference(&rows.items[i], &bundles.items[i]) : "bundle_id";
        if (what)
            status = kg_fail(err, KG_ERR_INTEGRITY,
                             "%s: its row of %s has another %s than the bundle; 'kigo fleet reindex' makes rows again",
                             history->path, id, what);
    }
    kg_run_heads_free(&bundles);
    kg_run_heads_free(&rows);
    return status;
}

static enum kg_status compare(struct kg_history *history, const char *const *ids, size_t n_ids, struct kg_error *err) {
    enum { MOST = 1000 }; /* SQLite takes 32,766 arguments */
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n_ids && status == KG_OK; i += MOST)
        status = compare_some(history, ids + i, n_ids - i < MOST ? n_ids - i : MOST, err);
    return status;
}

static enum kg_status bring_and_prove(struct kg_history *history, const char *id, struct kg_error *err) {
    enum kg_status status = kg_shelf_bring(history, &id, 1, err);
    if (status == KG_OK) status = open_index(history, err);
    return status == KG_OK ? kg_trust_runs(history->shelf, &id, 1, err) : status;
}

/* A copy that is spoilt is brought again, once: then it is the archive that does not verify. */
static enum kg_status prove(struct kg_history *history, const char *id, struct kg_error *err) {
    enum kg_status status = kg_trust_runs(history->shelf, &id, 1, err);
    if (status != KG_ERR_INTEGRITY && status != KG_ERR_FORMAT) return status;
    char *dir = kg_path_join(history->root, id);
    status = kg_path_remove(dir, err);
    if (status == KG_OK) status = bring_and_prove(history, id, err);
    if (status == KG_ERR_INTEGRITY) {
        const struct kg_error why = *err;
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: the archive of %s is no evidence: %.600s", history->path, id,
                         why.message);
        if (kg_path_remove(dir, NULL) != KG_OK) status = kg_status_pass(status);
    }
    free(dir);
    return status;
}

enum kg_status kg_shelf_trust(struct kg_history *history, const char *const *ids, size_t n_ids, struct kg_error *err) {
    if (n_ids == 0) return KG_OK;
    enum kg_status status = kg_shelf_bring(history, ids, n_ids, err);
    if (status == KG_OK) status = open_index(history, err);
    for (size_t i = 0; i < n_ids && status == KG_OK; i++) status = prove(history, ids[i], err);
    return status == KG_OK ? compare(history, ids, n_ids, err) : status;
}

static bool add_id(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_dir_list *ids = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    ids->names = kg_xrealloc(ids->names, (ids->n_names + 1) * sizeof *ids->names);
    ids->names[ids->n_names++] = kg_xstrndup(cells[0].text, cells[0].size_bytes);
    return true;
}

static bool is_unsound(const struct kg_bundle_findings *unsound, const char *id) {
    for (size_t i = 0; i < unsound->n_items; i++)
        if (strcmp(unsound->items[i].path, id) == 0) return true;
    return false;
}

/* Of those on the shelf, the store's; what does not verify here is brought again when it is asked for. */
static enum kg_status list_brought(struct kg_history *history, struct kg_dir_list *brought, struct kg_error *err) {
    static const char SQL[] = "SELECT bundle_id FROM archive WHERE bundle_id = ANY(string_to_array(?1, chr(10)))";
    struct kg_bundle_findings unsound = { NULL, 0 };
    struct kg_dir_list here = { 0 };
    struct kg_buffer lines = KG_BUFFER_INIT;
    enum kg_status status = kg_trust_heads(history->shelf, &unsound, err);
    if (status == KG_OK)
        status = kg_history_query(history->shelf, "SELECT bundle_id FROM bundle", NULL, 0, add_id, &here, err);
    for (size_t i = 0; i < here.n_names; i++)
        if (!is_unsound(&unsound, here.names[i])) kg_buffer_printf(&lines, "%s\n", here.names[i]);
    const char *const args[] = { kg_buffer_text(&lines) };
    if (status == KG_OK) status = kg_history_query(history, SQL, args, 1, add_id, brought, err);
    kg_buffer_free(&lines);
    kg_dir_list_free(&here);
    kg_bundle_findings_free(&unsound);
    return status;
}

enum kg_status kg_shelf_check_rows(struct kg_history *history, struct kg_error *err) {
    const char *root;
    struct kg_dir_list brought = { 0 };
    enum kg_status status = kg_shelf_root(history, &root, err);
    if (status == KG_OK) status = open_index(history, err);
    if (status == KG_OK) status = list_brought(history, &brought, err);
    if (status == KG_OK) status = compare(history, (const char *const *)brought.names, brought.n_names, err);
    kg_dir_list_free(&brought);
    return status;
}

struct kg_history *kg_shelf_index(struct kg_history *history) {
    return history->store ? history->shelf : history;
}

void kg_shelf_close(struct kg_history *history) {
    kg_history_close(history->shelf);
    history->shelf = NULL;
    if (history->shelf_is_temporary && kg_path_remove(history->root, NULL) != KG_OK) return; /* below $TMPDIR */
}
