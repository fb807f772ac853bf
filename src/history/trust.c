#include "history/trust.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/timestamp.h"
#include "bundle/tree.h"
#include "bundle/verified.h"
#include "bundle/verify.h"
#include "history/folder.h"
#include "history/internal.h"
#include "history/run.h"
#include "history/shelf.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How a part of a run is proved. */
struct part {
    const char *name, *compared; /* of the notes: the digest of its rows; the index whose rows had it */
    bool head_only;
};
static const struct part HEAD = { "head", "head in index", true }, WHOLE = { "whole", "whole in index", false };

static struct kg_verified *notes_of(struct kg_history *history) {
    if (!history->verified) history->verified = kg_verified_open(history->root);
    return history->verified;
}

/* Of what a head's rows are made: its files, and whether it is signed. */
static void stamp_head(const char *dir, struct kg_stamps *stamps) {
    const char *names[16];
    size_t n = 0;
    for (; KG_HEAD_FILES[n]; n++) {
        assert(n < KG_COUNT_OF(names) - 3);
        names[n] = KG_HEAD_FILES[n];
    }
    names[n++] = "tagmanifest-sha256.txt.sig";
    names[n++] = KG_TIMESTAMP_FILE;
    names[n] = NULL;
    kg_stamps_of_files(dir, names, stamps);
}

static enum kg_status stamp(const struct kg_history *history, const struct part *part, const char *id,
                            struct kg_stamps *stamps, struct kg_error *err) {
    char *dir = kg_path_join(history->root, id);
    enum kg_status status = KG_OK;
    if (part->head_only) stamp_head(dir, stamps);
    else status = kg_stamps_of_tree(dir, stamps, err);
    free(dir);
    return status;
}

/* The index file with its log; an empty log is none. In memory there is only what this process read. */
static bool stamp_index(const struct kg_history *history, struct kg_stamps *stamps) {
    static const char *const FILES[] = { "index.sqlite", "index.sqlite-wal", NULL };
    struct kg_tree_entry log;
    if (strcmp(history->path, ":memory:") == 0) return false;
    char *path = kg_path_join(history->root, FILES[1]);
    const bool has_log = kg_tree_stat(path, &log) && log.size_bytes > 0;
    free(path);
    kg_stamps_of_files(history->root, has_log ? FILES : (const char *const[]){ FILES[0], NULL }, stamps);
    return true;
}

/* The digest that the rows of a folder have, by inserting it into a separate index. */
static enum kg_status digest_of_folder(struct kg_history *history, const struct part *part, const char *id,
                                       char sha256[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    struct kg_history_folder folder = { 0 };
    struct kg_error unheard;
    enum kg_status status = KG_OK;
    if (!history->scratch) status = kg_history_open_scratch(history->root, &history->scratch, err);
    if (status == KG_OK)
        status = part->head_only ? kg_history_folder_read_head(history->root, id, &folder, err)
                                 : kg_history_folder_read(history->root, id, &folder, err);
    if (status == KG_OK) status = kg_history_exec(history->scratch, "BEGIN", err);
    if (status == KG_OK) {
        status = kg_history_insert(history->scratch, id, &folder, err);
        if (status == KG_OK) status = kg_history_digest(history->scratch, id, part->head_only, sha256, err);
        if (kg_history_exec(history->scratch, "ROLLBACK", &unheard) != KG_OK && status == KG_OK)
            status = kg_fail(err, unheard.status, "%s", unheard.message);
        kg_history_clear_ids(history->scratch);
    }
    kg_history_folder_free(&folder);
    return status;
}

static enum kg_status verify(struct kg_history *history, const struct part *part, const char *id,
                             struct kg_error *err) {
    char *dir = kg_path_join(history->root, id);
    enum kg_status status =
        part->head_only ? kg_bundle_verify_head(dir, err) : kg_verified_check(notes_of(history), id, err);
    if (status == KG_ERR_INTEGRITY || status == KG_ERR_FORMAT) {
        struct kg_error why = *err;
        status = kg_fail(err, KG_ERR_INTEGRITY,
                         "%.700s; a bundle that does not verify is no evidence: 'kigo verify %s' lists what differs; "
                         "put back a copy that verifies, or move the folder away",
                         why.message, id);
    }
    free(dir);
    return status;
}

/* The digest that a verified bundle's rows have, and the stamps that it holds for. */
static enum kg_status expected(struct kg_history *history, const struct part *part, const char *id,
                               struct kg_stamps *stamps, char sha256[KG_SHA256_HEX_SIZE], struct kg_error *err) {
    struct kg_stamps after;
    enum kg_status status = stamp(history, part, id, stamps, err);
    if (status != KG_OK) return status;
    const char *kept = kg_verified_get(notes_of(history), id, part->name, stamps);
    if (kept && strlen(kept) == KG_SHA256_HEX_SIZE - 1) {
        memcpy(sha256, kept, KG_SHA256_HEX_SIZE);
        return KG_OK;
    }
    status = verify(history, part, id, err);
    if (status == KG_OK) status = digest_of_folder(history, part, id, sha256, err);
    if (status == KG_OK) status = stamp(history, part, id, &after, err);
    if (status == KG_OK && !kg_stamps_equal(stamps, &after))
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s/%s was changed while it was verified", history->root, id);
    if (status == KG_OK) kg_verified_put(notes_of(history), id, part->name, stamps, sha256);
    return status;
}

/* Compares rows, and makes them again where they differ. */
static enum kg_status compare(struct kg_history *history, const struct part *part, const char *id,
                              struct kg_stamps *index, const char *wanted, struct kg_error *err) {
    char found[KG_SHA256_HEX_SIZE];
    const char *compared = kg_verified_get(notes_of(history), id, part->compared, index);
    if (compared && strcmp(compared, wanted) == 0) return KG_OK;
    enum kg_status status = kg_history_digest(history, id, part->head_only, found, err);
    if (status == KG_OK && strcmp(found, wanted) != 0) {
        status = kg_history_replace(history, id, err);
        if (status == KG_OK) status = kg_history_digest(history, id, part->head_only, found, err);
        if (status == KG_OK && strcmp(found, wanted) != 0)
            return kg_fail(err, KG_ERR_FORMAT, "%s: its rows of %s are not what the bundle holds; run 'kigo reindex'",
                           history->path, id);
        kg_finding_add(&history->repaired, "rows", id, "the index had other rows of it than the bundle");
        stamp_index(history, index);
    }
    if (status == KG_OK) kg_verified_put(notes_of(history), id, part->compared, index, wanted);
    return status;
}

static enum kg_status prove(struct kg_history *history, const struct part *part, const char *id, struct kg_error *err) {
    struct kg_stamps stamps, index;
    char wanted[KG_SHA256_HEX_SIZE];
    const bool on_disk = stamp_index(history, &index);
    const enum kg_status status = expected(history, part, id, &stamps, wanted, err);
    return status == KG_OK && on_disk ? compare(history, part, id, &index, wanted, err) : status;
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

/* An existing run that could not be indexed might be the baseline. */
static enum kg_status nothing_left_out(const struct kg_history *history, struct kg_error *err) {
    const struct kg_bundle_findings *left_out = &history->left_out;
    if (left_out->n_items == 0) return KG_OK;
    return kg_fail(err, KG_ERR_INTEGRITY,
                   "%s is not indexed: %s; put back a copy that can be read, or move the folder away",
                   left_out->items[0].path, left_out->items[0].detail);
}

/* The same of a store: an archive whose rows are gone. */
static enum kg_status nothing_without_rows(struct kg_history *history, struct kg_error *err) {
    static const char SQL[] = "SELECT a.bundle_id FROM archive a WHERE NOT EXISTS (SELECT FROM bundle b WHERE"
                              " b.bundle_id = a.bundle_id AND b.runner_no = a.runner_no) ORDER BY 1 LIMIT 1";
    struct kg_dir_list ids = { 0 };
    enum kg_status status = kg_history_query(history, SQL, NULL, 0, add_id, &ids, err);
    if (status == KG_OK && ids.n_names > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s has an archive of %s and no rows: 'kigo fleet reindex' makes them",
                         history->path, ids.names[0]);
    kg_dir_list_free(&ids);
    return status;
}

static enum kg_status trust_rows(struct kg_history *history, struct kg_error *err) {
    const enum kg_status status = nothing_without_rows(history, err);
    return status == KG_OK ? kg_shelf_check_rows(history, err) : status;
}

enum kg_status kg_trust_heads(struct kg_history *history, struct kg_bundle_findings *unsound, struct kg_error *err) {
    struct kg_dir_list ids = { 0 };
    if (history->store) return unsound ? KG_OK : trust_rows(history, err);
    enum kg_status status = unsound ? KG_OK : nothing_left_out(history, err);
    if (status == KG_OK) status = kg_history_check_tables(history, err);
    if (status == KG_OK)
        status =
            kg_history_query(history, "SELECT bundle_id FROM bundle ORDER BY bundle_id", NULL, 0, add_id, &ids, err);
    for (size_t i = 0; i < ids.n_names && status == KG_OK; i++) {
        struct kg_error why;
        status = prove(history, &HEAD, ids.names[i], &why);
        if (status == KG_ERR_INTEGRITY && unsound) {
            kg_finding_add(unsound, "unsound", ids.names[i], "%s", why.message);
            status = KG_OK;
        }
        if (status != KG_OK) status = kg_fail(err, status, "%s", why.message);
    }
    kg_dir_list_free(&ids);
    return status;
}

enum kg_status kg_trust_runs(struct kg_history *history, const char *const *ids, size_t n_ids, struct kg_error *err) {
    enum kg_status status = KG_OK;
    if (history->store) return kg_shelf_trust(history, ids, n_ids, err);
    for (size_t i = 0; i < n_ids && status == KG_OK; i++) {
        char *dir = kg_path_join(history->root, ids[i]);
        if (kg_beneath_is_folder(history->root, ids[i])) status = prove(history, &WHOLE, ids[i], err);
        else if (kg_path_exists(dir))
            status = kg_fail(err, KG_ERR_INTEGRITY, "%s is no folder: a bundle is one, and no link to one", dir);
        else status = kg_fail(err, KG_ERR_NOT_FOUND, "no run '%s' in %s", ids[i], history->root);
        free(dir);
    }
    return status;
}

enum kg_status kg_trust_loaded(struct kg_history *history, const struct kg_run_heads *heads, struct kg_error *err) {
    const char **ids = kg_xcalloc(heads->n_items + 1, sizeof *ids);
    for (size_t i = 0; i < heads->n_items; i++) ids[i] = heads->items[i].bundle_id;
    const enum kg_status status = kg_trust_runs(history, ids, heads->n_items, err);
    free(ids);
    return status;
}

const struct kg_bundle_findings *kg_trust_repaired(const struct kg_history *history) {
    return &history->repaired;
}

size_t kg_trust_n_unread(const struct kg_history *history) {
    return history->n_unread;
}
