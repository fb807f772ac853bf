/* Keeping the index equal to the folders. */
#include "base/beneath.h"
#include "base/buffer.h"
#include "bundle/beside.h"
#include "history/folder.h"
#include "history/internal.h"
#include <stdlib.h>
#include <string.h>

/* Ids in the index, sorted bytewise as the folders are; with `manifests` those that the index says they have. */
static enum kg_status list_indexed(struct kg_history *history, struct kg_dir_list *list, struct kg_dir_list *manifests,
                                   struct kg_error *err) {
    static const char SQL[] = "SELECT bundle_id, manifest_sha256 FROM bundle ORDER BY bundle_id";
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(history->db, SQL, -1, &stmt, NULL) != SQLITE_OK)
        return kg_history_fail(history, "listing bundles", err);
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct kg_dir_list *const lists[] = { list, manifests };
        for (int i = 0; i < 2 && lists[i]; i++) {
            lists[i]->names = kg_xrealloc(lists[i]->names, (lists[i]->n_names + 1) * sizeof *lists[i]->names);
            lists[i]->names[lists[i]->n_names++] = kg_xstrdup((const char *)sqlite3_column_text(stmt, i));
        }
    }
    sqlite3_finalize(stmt);
    return code == SQLITE_DONE ? KG_OK : kg_history_fail(history, "listing bundles", err);
}

/* Runs SQL whose ?1 is a bundle's id. */
static enum kg_status bundle_exec(struct kg_history *history, const char *sql, const char *bundle_id,
                                  struct kg_error *err) {
    sqlite3_stmt *stmt = NULL;
    const bool good = sqlite3_prepare_v2(history->db, sql, -1, &stmt, NULL) == SQLITE_OK &&
                      sqlite3_bind_text(stmt, 1, bundle_id, -1, SQLITE_TRANSIENT) == SQLITE_OK &&
                      sqlite3_step(stmt) == SQLITE_DONE;
    sqlite3_finalize(stmt);
    return good ? KG_OK : kg_history_fail(history, "changing a bundle's rows", err);
}

static enum kg_status drop(struct kg_history *history, const char *bundle_id, struct kg_error *err) {
    static const char *const DELETES[] = {
        "DELETE FROM metric_row WHERE result_id IN (SELECT result_id FROM result WHERE bundle_id = ?1)",
        "DELETE FROM result_row WHERE bundle_no = (SELECT bundle_no FROM bundle WHERE bundle_id = ?1)",
        "DELETE FROM bundle WHERE bundle_id = ?1",
    };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof DELETES / sizeof *DELETES && status == KG_OK; i++)
        status = bundle_exec(history, DELETES[i], bundle_id, err);
    return status;
}

/* Inserts a folder; what of it was inserted before an error is taken back. */
static enum kg_status insert_whole(struct kg_history *history, const char *bundle_id,
                                   const struct kg_history_folder *folder, struct kg_error *err) {
    struct kg_error undone;
    enum kg_status status = kg_history_exec(history, "SAVEPOINT one", err);
    if (status != KG_OK) return status;
    status = kg_history_insert(history, bundle_id, folder, err);
    if (status == KG_OK) return kg_history_exec(history, "RELEASE one", err);
    kg_history_clear_ids(history);
    if (status == KG_ERR_UNWRITABLE) return status; /* SQLite may have rolled all of it back */
    if (kg_history_exec(history, "ROLLBACK TO one; RELEASE one", &undone) == KG_OK) return status;
    return kg_fail(err, undone.status, "%s", undone.message);
}

/* Adds folders in the order given. One that cannot be read as a bundle is reported in problems and left out. */
static enum kg_status add_folders(struct kg_history *history, char *const *ids, size_t n_ids,
                                  struct kg_bundle_findings *problems, struct kg_error *err) {
    struct kg_history_reader *reader = kg_history_reader_new(history->root, ids, n_ids);
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n_ids && status == KG_OK; i++) {
        const struct kg_history_folder *folder;
        struct kg_error why;
        status = kg_history_reader_next(reader, &folder, &why);
        if (status == KG_OK) status = insert_whole(history, ids[i], folder, &why);
        if (status == KG_OK) continue;
        const bool unreadable = status == KG_ERR_INTEGRITY || status == KG_ERR_FORMAT;
        if (!unreadable) return kg_history_reader_free(reader), kg_fail(err, status, "%s", why.message);
        kg_finding_add(problems, "unreadable", ids[i], "%s", why.message);
        kg_finding_add(&history->left_out, "unreadable", ids[i], "%s", why.message);
        status = KG_OK;
    }
    kg_history_reader_free(reader);
    return status;
}

/* What is in one of two sorted lists only, or in both and no longer the same; the names belong to the lists. */
struct differences {
    char **to_add, **to_drop; /* folders the index lacks, bundles whose folder is gone; another's folder is in both */
    size_t n_to_add, n_to_drop;
};

/* Whether a folder's manifest is the one that was indexed. */
static bool is_indexed_one(const char *root, const char *id, const char *manifest_sha256) {
    char *path = kg_path_join(id, "manifest-sha256.txt"), sha256[KG_SHA256_HEX_SIZE];
    const bool same = kg_beneath_hash(root, path, sha256, NULL) == KG_OK && strcmp(sha256, manifest_sha256) == 0;
    free(path);
    return same;
}

static void compare(const char *root, const struct kg_dir_list *folders, const struct kg_dir_list *indexed,
                    const struct kg_dir_list *manifests, struct differences *d) {
    size_t f = 0, x = 0;
    d->to_add = kg_xcalloc(folders->n_names, sizeof *d->to_add);
    d->to_drop = kg_xcalloc(indexed->n_names, sizeof *d->to_drop);
    while (f < folders->n_names || x < indexed->n_names) {
        const int order = f == folders->n_names   ? 1
                          : x == indexed->n_names ? -1
                                                  : strcmp(folders->names[f], indexed->names[x]);
        const bool other = order == 0 && !is_indexed_one(root, indexed->names[x], manifests->names[x]);
        if (order < 0 || other) d->to_add[d->n_to_add++] = folders->names[f];
        if (order > 0 || other) d->to_drop[d->n_to_drop++] = indexed->names[x];
        f += order <= 0;
        x += order >= 0;
    }
}

static enum kg_status apply(struct kg_history *history, const struct differences *d,
                            struct kg_bundle_findings *problems, struct kg_error *err) {
    static const char ORPHANS[] = "DELETE FROM tcase WHERE case_id NOT IN (SELECT case_id FROM result_row);"
                                  "DELETE FROM figure_name WHERE figure_id NOT IN (SELECT figure_id FROM metric_row);"
                                  "DELETE FROM env WHERE env_id NOT IN (SELECT env_id FROM bundle);"
                                  "DELETE FROM build WHERE build_id NOT IN (SELECT build_id FROM bundle);";
    enum kg_status status = KG_OK;
    if (d->n_to_drop > 0) kg_history_clear_ids(history);
    for (size_t i = 0; i < d->n_to_drop && status == KG_OK; i++) status = drop(history, d->to_drop[i], err);
    if (status == KG_OK && d->n_to_drop > 0) status = kg_history_exec(history, ORPHANS, err);
    if (status == KG_OK && d->n_to_add > 0) status = add_folders(history, d->to_add, d->n_to_add, problems, err);
    return status;
}

/* Makes the index equal to the folders (or, with problems NULL, only says whether it is not). */
static enum kg_status compare_folders(struct kg_history *history, bool *differs, struct kg_bundle_findings *problems,
                                      struct kg_error *err) {
    struct kg_dir_list folders = { 0 }, indexed = { 0 }, manifests = { 0 };
    struct differences d = { 0 };
    enum kg_status status = kg_root_list(history->root, &folders, err);
    if (status == KG_OK) status = list_indexed(history, &indexed, &manifests, err);
    if (status == KG_OK) compare(history->root, &folders, &indexed, &manifests, &d);
    bool notes_differ = false;
    if (status == KG_OK) status = kg_history_sync_annotations(history, &notes_differ, problems, err);
    *differs = d.n_to_add + d.n_to_drop > 0 || notes_differ;
    if (status == KG_OK && problems) status = apply(history, &d, problems, err);
    free(d.to_drop);
    free(d.to_add);
    kg_dir_list_free(&manifests);
    kg_dir_list_free(&indexed);
    kg_dir_list_free(&folders);
    return status;
}

/* Runs body inside one write transaction. */
static enum kg_status in_transaction(struct kg_history *history,
                                     enum kg_status (*body)(struct kg_history *history, void *arg,
                                                            struct kg_error *err),
                                     void *arg, struct kg_error *err) {
    enum kg_status status = kg_history_exec(history, "BEGIN IMMEDIATE", err);
    if (status != KG_OK) return status;
    status = body(history, arg, err);
    if (status == KG_OK) status = kg_history_exec(history, "COMMIT", err);
    if (status != KG_OK) {
        sqlite3_exec(history->db, "ROLLBACK", NULL, NULL, NULL);
        kg_history_clear_ids(history);
    }
    return status;
}

static enum kg_status sync_body(struct kg_history *history, void *arg, struct kg_error *err) {
    bool differs;
    return compare_folders(history, &differs, arg, err);
}

static enum kg_status open_equal(const char *root, bool on_disk, struct kg_history **out,
                                 struct kg_bundle_findings *problems, struct kg_error *err) {
    struct kg_history *history = NULL;
    bool differs = false;
    enum kg_status status = kg_history_open_file(root, on_disk, &history, err);
    if (status != KG_OK) return status;
    status = compare_folders(history, &differs, NULL, err);
    if (status == KG_OK && differs) status = in_transaction(history, sync_body, problems, err);
    history->n_unread = problems->n_items;
    if (status == KG_OK) *out = history;
    else kg_history_close(history);
    return status;
}

enum kg_status kg_history_open(const char *root, struct kg_history **out, struct kg_bundle_findings *problems,
                               struct kg_error *err) {
    struct kg_bundle_findings found = { NULL, 0 };
    struct kg_error unwritten;
    char *why = NULL;
    enum kg_status status = KG_ERR_UNWRITABLE;
    if (kg_history_is_writable(root, &why)) {
        status = open_equal(root, true, out, &found, &unwritten);
        if (status == KG_ERR_UNWRITABLE) why = kg_xstrdup(unwritten.message);
        else if (status != KG_OK && err) *err = unwritten;
    }
    if (status == KG_ERR_UNWRITABLE) {
        kg_bundle_findings_free(&found); /* they are met again */
        status = open_equal(root, false, out, &found, err);
        if (status == KG_OK) (*out)->why_in_memory = why, why = NULL;
    }
    free(why);
    if (!problems) kg_bundle_findings_free(&found);
    else *problems = found;
    return status;
}

struct adding {
    char *bundle_id;
    struct kg_bundle_findings problems;
};

static enum kg_status add_body(struct kg_history *history, void *arg, struct kg_error *err) {
    struct adding *adding = arg;
    struct kg_dir_list indexed = { 0 };
    bool there = false;
    enum kg_status status = list_indexed(history, &indexed, NULL, err);
    for (size_t i = 0; i < indexed.n_names; i++) there = there || strcmp(indexed.names[i], adding->bundle_id) == 0;
    kg_dir_list_free(&indexed);
    if (status == KG_OK && !there) status = add_folders(history, &adding->bundle_id, 1, &adding->problems, err);
    return status;
}

enum kg_status kg_history_add(const char *root, const char *bundle_id, struct kg_error *err) {
    struct kg_history *history = NULL;
    struct adding adding = { .bundle_id = kg_xstrdup(bundle_id) };
    enum kg_status status = kg_history_open_file(root, true, &history, err);
    if (status == KG_OK) status = in_transaction(history, add_body, &adding, err);
    if (status == KG_OK && adding.problems.n_items > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s", adding.problems.items[0].detail);
    kg_bundle_findings_free(&adding.problems);
    free(adding.bundle_id);
    kg_history_close(history);
    return status;
}

static enum kg_status note_body(struct kg_history *history, void *arg, struct kg_error *err) {
    return bundle_exec(history, "UPDATE bundle SET sig_state = 'unchecked' WHERE bundle_id = ?1", arg, err);
}

enum kg_status kg_history_note_signature(const char *root, const char *bundle_id, struct kg_error *err) {
    struct kg_history *history = NULL;
    char *id = kg_xstrdup(bundle_id);
    enum kg_status status = kg_history_open_file(root, true, &history, err);
    if (status == KG_OK) status = in_transaction(history, note_body, id, err);
    free(id);
    kg_history_close(history);
    return status;
}

struct replacing {
    char *bundle_id;
    struct kg_bundle_findings problems;
};

static enum kg_status replace_body(struct kg_history *history, void *arg, struct kg_error *err) {
    struct replacing *r = arg;
    const struct differences d = { &r->bundle_id, &r->bundle_id, 1, 1 };
    return apply(history, &d, &r->problems, err);
}

enum kg_status kg_history_replace(struct kg_history *history, const char *bundle_id, struct kg_error *err) {
    struct replacing r = { .bundle_id = kg_xstrdup(bundle_id) };
    enum kg_status status = in_transaction(history, replace_body, &r, err);
    if (status == KG_OK && r.problems.n_items > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s", r.problems.items[0].detail);
    kg_bundle_findings_free(&r.problems);
    free(r.bundle_id);
    return status;
}

/* Whatever version the index is of. All in one transaction: others go on reading the old index until the new one is
 * whole. A new file in its place would pull the write-ahead log away from under those who have the old one open. */
static enum kg_status reindex_body(struct kg_history *history, void *arg, struct kg_error *err) {
    kg_history_clear_ids(history);
    enum kg_status status = kg_history_start_over(history, err);
    if (status == KG_OK) status = kg_history_unindex_results(history, err);
    if (status == KG_OK) status = sync_body(history, arg, err);
    return status == KG_OK ? kg_history_index_results(history, err) : status;
}

/* Removes an index that is no database, with its journals. */
static enum kg_status remove_index(const char *root, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; KG_INDEX_FILES[i] && status == KG_OK; i++) {
        char *path = kg_path_join(root, KG_INDEX_FILES[i]);
        status = kg_path_remove(path, err);
        free(path);
    }
    return status;
}

enum kg_status kg_history_reindex(const char *root, size_t *n_indexed, struct kg_bundle_findings *problems,
                                  struct kg_error *err) {
    struct kg_history *history = NULL;
    struct kg_bundle_findings own = { NULL, 0 };
    struct kg_dir_list indexed = { 0 };
    enum kg_status status = kg_history_open_any(root, true, &history, err);
    if (status == KG_OK) status = in_transaction(history, reindex_body, problems ? problems : &own, err);
    if (status == KG_OK) status = kg_history_check_schema(history, err);
    if (status == KG_ERR_FORMAT) {
        kg_history_close(history);
        history = NULL;
        status = remove_index(root, err);
        if (status == KG_OK) status = kg_history_open_file(root, true, &history, err);
        if (status == KG_OK) status = in_transaction(history, reindex_body, problems ? problems : &own, err);
    }
    if (status == KG_OK) status = list_indexed(history, &indexed, NULL, err);
    if (status == KG_OK) *n_indexed = indexed.n_names;
    kg_dir_list_free(&indexed);
    kg_bundle_findings_free(&own);
    kg_history_close(history);
    return status;
}
