/* Publishing what a dead run left. Nothing is thrown away: a line that was cut short is kept in data/recovery/ before
 * it is taken off its file, and what seal had derived is derived again. A folder that holds no file at all (the run
 * died between making it and writing to it) is removed. */
#include "bundle/internal.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "bundle/chain.h"
#include "bundle/records.h"
#include "bundle/stored.h"
#include "bundle/timestamp.h"
#include "bundle/tree.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const RECORD_FILES[] = { "plan.ndjson", "journal.ndjson", "results.ndjson" };
/* Signature and time stamp are of a tag manifest that will be another one. */
static const char *const TAG_FILES[] = {
    KG_TIMESTAMP_FILE, "tagmanifest-sha256.txt.sig", "tagmanifest-sha256.txt", "bag-info.txt",
    "bagit.txt",       "manifest-sha256.txt",        "statement.intoto.json"
};

/* Keeps what was cut off under a name that is free: a recover that died may have kept something before. */
static enum kg_status keep(const char *dir, const char *name, const char *data, size_t size_bytes,
                           struct kg_error *err) {
    char *relative = NULL;
    enum kg_status status = KG_OK; /* of looking: KG_ERR_NOT_FOUND is a name that is free */
    for (int n = 1; status == KG_OK; n++) {
        free(relative);
        relative =
            n == 1 ? kg_xasprintf("data/recovery/%s.torn", name) : kg_xasprintf("data/recovery/%s.torn-%d", name, n);
        status = kg_beneath_check(dir, relative, err);
    }
    /* Whole or not at all: a recover that is killed here leaves no empty file in the name's place. */
    if (status == KG_ERR_NOT_FOUND) status = kg_beneath_write(dir, relative, data, size_bytes, err);
    free(relative);
    return status;
}

/* Takes what follows the last newline off a record file, and keeps it. */
static enum kg_status cut_torn_line(const char *dir, const char *name, size_t *torn_bytes, struct kg_error *err) {
    char *relative = kg_xasprintf("data/%s", name), *text = NULL;
    size_t size_bytes = 0;
    int fd = -1;
    enum kg_status status = kg_bundle_open_append(dir, relative, &fd, err); /* makes it if the run never came to it */
    if (status == KG_OK) status = kg_beneath_read(dir, relative, UINT64_MAX, &text, &size_bytes, err);
    size_t whole = size_bytes;
    while (status == KG_OK && whole > 0 && text[whole - 1] != '\n') whole--;
    *torn_bytes = size_bytes - whole;
    if (status == KG_OK && *torn_bytes > 0) {
        status = keep(dir, name, text + whole, *torn_bytes, err);
        if (status == KG_OK && ftruncate(fd, (off_t)whole) != 0)
            status = kg_fail(err, KG_ERR_IO, "cannot cut %s/%s: %s", dir, relative, strerror(errno));
    }
    if (fd >= 0) close(fd);
    free(text);
    free(relative);
    return status;
}

static enum kg_status note_recovery(const char *dir, const size_t *torn_bytes, struct kg_error *err) {
    json_t *event = json_pack("{s:s, s:I}", "event", "recover", "utc_us", (json_int_t)kg_clock_utc_us());
    for (size_t i = 0; i < sizeof RECORD_FILES / sizeof *RECORD_FILES; i++) {
        char *name = kg_xasprintf("torn_bytes_%.*s", (int)strcspn(RECORD_FILES[i], "."), RECORD_FILES[i]);
        json_object_set_new(event, name, json_integer((json_int_t)torn_bytes[i]));
        free(name);
    }
    int fd = -1;
    enum kg_status status = kg_bundle_open_append(dir, "data/journal.ndjson", &fd, err);
    if (status == KG_OK) status = kg_ndjson_append(fd, event, true, "journal.ndjson", err);
    if (fd >= 0) close(fd);
    json_decref(event);
    return status;
}

static enum kg_status remove_tags(const char *dir, struct kg_error *err) {
    for (size_t i = 0; i < sizeof TAG_FILES / sizeof *TAG_FILES; i++) {
        char *path = kg_path_join(dir, TAG_FILES[i]);
        const bool removed = unlink(path) == 0 || errno == ENOENT;
        const int code = errno;
        free(path);
        if (!removed) return kg_fail(err, KG_ERR_IO, "cannot remove %s/%s: %s", dir, TAG_FILES[i], strerror(code));
    }
    return KG_OK;
}

/* A bag that its seal had finished becomes a link as it is; or it is made again, with another predecessor. */
static enum kg_status join_chain(const struct kg_bag_job *job, int *chain_fd, struct kg_error *err) {
    struct kg_bag_job again = *job;
    struct kg_bundle_summary counts;
    json_t *summary = NULL;
    bool joined = false;
    enum kg_status status = kg_bag_sync(job->dir, err); /* before .chain names it */
    if (status != KG_OK) return status;
    kg_chain_enter(job->root, chain_fd);
    status = kg_chain_join(job->root, job->id, &joined, err);
    if (status != KG_OK || joined) return status;
    kg_chain_leave(*chain_fd);
    *chain_fd = -1;
    status = kg_bundle_read_json(job->dir, "data/summary.json", &summary, err);
    const char *state = kg_json_text(summary, "state");
    again.partial = !state || strcmp(state, "complete") != 0;
    json_decref(summary);
    if (status == KG_OK) status = remove_tags(job->dir, err);
    if (status == KG_OK) status = kg_stored_expand(job->dir, err);
    return status == KG_OK ? kg_bag_finish(&again, &counts, chain_fd, err) : status;
}

/* What no run makes is somebody else's: a link might lead outside, and nothing is written before it is gone. */
static enum kg_status check_kinds(const char *dir, struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    for (size_t i = 0; i < tree.n_entries && status == KG_OK; i++)
        if (tree.entries[i].kind == KG_TREE_LINK || tree.entries[i].kind == KG_TREE_OTHER)
            status =
                kg_fail(err, KG_ERR_FORMAT, "%s/%s is %s; nothing was changed: move it away", dir, tree.entries[i].path,
                        tree.entries[i].kind == KG_TREE_LINK ? "a link" : "neither a file nor a folder");
    kg_tree_free(&tree);
    return status;
}

/* The folder as a partial bag, unless its seal had come to the end: then it is whole already. */
static enum kg_status make_whole(const struct kg_bag_job *job, int *chain_fd, struct kg_error *err) {
    const char *dir = job->dir;
    struct kg_bundle_findings findings = { NULL, 0 };
    const enum kg_status kinds = check_kinds(dir, err);
    if (kinds != KG_OK) return kinds;
    const enum kg_status verified = kg_bundle_verify(dir, &findings, err);
    kg_bundle_findings_free(&findings);
    if (verified == KG_OK) return join_chain(job, chain_fd, err);
    if (verified != KG_ERR_INTEGRITY) return verified;

    size_t torn_bytes[sizeof RECORD_FILES / sizeof *RECORD_FILES] = { 0 };
    struct kg_bundle_summary summary;
    enum kg_status status = remove_tags(dir, err);
    if (status == KG_OK) status = kg_stored_expand(dir, err);
    for (size_t i = 0; i < sizeof RECORD_FILES / sizeof *RECORD_FILES && status == KG_OK; i++)
        status = cut_torn_line(dir, RECORD_FILES[i], &torn_bytes[i], err);
    if (status == KG_OK) status = note_recovery(dir, torn_bytes, err);
    if (status == KG_OK) status = kg_bag_finish(job, &summary, chain_fd, err);
    return status;
}

static enum kg_status holds_a_file(const char *dir, bool *holds, struct kg_error *err) {
    struct kg_tree tree;
    const enum kg_status status = kg_tree_list(dir, &tree, err);
    *holds = false;
    for (size_t i = 0; i < tree.n_entries; i++) *holds = *holds || tree.entries[i].kind != KG_TREE_DIR;
    kg_tree_free(&tree);
    return status;
}

static enum kg_status recover_one(const char *root, const char *id, const struct kg_bundle_document *documents,
                                  size_t *n_recovered, struct kg_error *err) {
    char *dir = kg_xasprintf("%s/.tmp-%s", root, id);
    int lock_fd = -1;
    enum kg_status status = kg_bundle_lock(dir, &lock_fd, err);
    if (status == KG_OK && lock_fd >= 0) {
        bool holds;
        status = holds_a_file(dir, &holds, err);
        if (status == KG_OK && !holds) status = kg_path_remove(dir, err);
        if (status == KG_OK && holds) {
            const struct kg_bag_job job = { root, dir, id, true, documents, NULL };
            int chain_fd = -1;
            status = make_whole(&job, &chain_fd, err);
            if (status == KG_OK) status = kg_bag_publish(root, id, err);
            kg_chain_leave(chain_fd);
            *n_recovered += status == KG_OK;
        }
        if (status != KG_OK) kg_error_context(err, status, "recovering %s", dir);
        close(lock_fd);
    }
    free(dir);
    return status;
}

/* The id if the name is an unfinished bundle's, else NULL. */
static const char *unfinished_id(const char *name) {
    static const char PREFIX[] = ".tmp-";
    int64_t started_us;
    const char *id = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? name + strlen(PREFIX) : NULL;
    return id && kg_bundle_id_parse(id, &started_us) ? id : NULL;
}

size_t kg_bundle_count_dead(const char *root) {
    struct kg_dir_list list = { 0 };
    size_t n_dead = 0;
    if (kg_dir_list(root, &list, NULL) != KG_OK) return 0;
    for (size_t i = 0; i < list.n_names; i++) {
        if (!unfinished_id(list.names[i])) continue;
        char *dir = kg_path_join(root, list.names[i]);
        bool holds = false;
        int fd = -1;
        if (kg_bundle_lock(dir, &fd, NULL) == KG_OK && fd >= 0) {
            n_dead += holds_a_file(dir, &holds, NULL) == KG_OK && holds;
            close(fd);
        }
        free(dir);
    }
    kg_dir_list_free(&list);
    return n_dead;
}

enum kg_status kg_bundle_recover(const char *root, const struct kg_bundle_document *documents, size_t *n_recovered,
                                 struct kg_error *err) {
    struct kg_dir_list list = { 0 };
    size_t n = 0;
    enum kg_status status = kg_dir_list(root, &list, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < list.n_names; i++) {
        const char *id = unfinished_id(list.names[i]);
        if (!id) continue;
        struct kg_error one;
        const enum kg_status one_status = recover_one(root, id, documents, &n, &one);
        if (one_status == KG_OK || status != KG_OK) continue;
        status = one_status; /* the others are still recovered; the first error is reported */
        if (err) *err = one;
    }
    kg_dir_list_free(&list);
    *n_recovered = n;
    return status;
}
