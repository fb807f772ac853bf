#include "cli/fleet_cache.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/io_errors.h"
#include "bundle/beside.h"
#include "bundle/internal.h"
#include "bundle/transfer.h"
#include "bundle/tree.h"
#include "bundle/verified.h"
#include "cli/fleet.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What stays from one verb to the next. */
enum { MOST_RUNS = 32 };
static const uint64_t MOST_BYTES = (uint64_t)1 << 30;

struct kg_fleet_cache {
    struct kg_fleet *fleet;
    struct kg_history *history;
    char *root;
    bool is_temporary;
    int lock_fd; /* held shared while bundles are read; -1: there are no others to read them */
};

/* A bundle that is here. */
struct kept {
    char *name;
    int64_t used_ns; /* when it last came or served: the time of its note of import */
    uint64_t size_bytes;
};

static char *note_path(const char *root, const char *id) {
    return kg_xasprintf("%s/" KG_IMPORTS "/%s.json", root, id);
}

static void look_at(const char *root, struct kept *kept) {
    struct kg_tree_entry note;
    struct kg_tree tree;
    char *path = note_path(root, kept->name), *dir = kg_path_join(root, kept->name);
    if (kg_tree_stat(path, &note)) kept->used_ns = note.mtime_ns;
    if (kg_tree_list(dir, &tree, NULL) == KG_OK)
        for (size_t i = 0; i < tree.n_entries; i++) kept->size_bytes += tree.entries[i].size_bytes;
    else kept->used_ns = 0; /* whatever it is, it goes first */
    kg_tree_free(&tree);
    free(dir);
    free(path);
}

static int latest_first(const void *a, const void *b) {
    const struct kept *x = a, *y = b;
    return x->used_ns != y->used_ns ? (x->used_ns < y->used_ns ? 1 : -1) : strcmp(x->name, y->name);
}

static void drop(const char *root, const char *id) {
    char *dir = kg_path_join(root, id), *note = note_path(root, id);
    (void)!kg_path_remove(dir, NULL); /* what stays is tried again next time */
    (void)!kg_path_remove(note, NULL);
    free(note);
    free(dir);
}

/* While nobody reads it. */
static void trim(const char *root) {
    struct kg_dir_list list = { 0 };
    if (kg_dir_list(root, &list, NULL) != KG_OK) return;
    struct kept *kept = kg_xcalloc(list.n_names + 1, sizeof *kept);
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < list.n_names; i++) {
        int64_t unused;
        if (kg_bundle_id_parse(list.names[i], &unused)) kept[n++].name = list.names[i];
    }
    for (size_t i = 0; i < n; i++) look_at(root, &kept[i]);
    qsort(kept, n, sizeof *kept, latest_first);
    for (size_t i = 0; i < n; i++) {
        bytes += kept[i].size_bytes;
        if (i >= MOST_RUNS || bytes > MOST_BYTES) drop(root, kept[i].name);
    }
    free(kept);
    kg_dir_list_free(&list);
}

/* The user's own folder, locked; false: there is none that can be written. */
static bool open_own(struct kg_fleet_cache *cache) {
    char *own = kg_own_cache_folder();
    cache->lock_fd = -1;
    kg_io_errors_harmless_begin(); /* there is another place */
    const bool is_open = own && kg_beneath_create(own, "fleet/.lock", 0, &cache->lock_fd, NULL) == KG_OK;
    kg_io_errors_harmless_end();
    if (is_open) {
        cache->root = kg_path_join(own, "fleet");
        if (flock(cache->lock_fd, LOCK_EX | LOCK_NB) == 0) trim(cache->root);
        (void)flock(cache->lock_fd,
                    LOCK_SH); /* no locks here: another verb may drop what this one reads, which fails */
    }
    free(own);
    return is_open;
}

enum kg_status kg_fleet_cache_open(struct kg_fleet *fleet, struct kg_history *history, struct kg_fleet_cache **out,
                                   struct kg_error *err) {
    struct kg_fleet_cache *cache = kg_xcalloc(1, sizeof *cache);
    *cache = (struct kg_fleet_cache){ .fleet = fleet, .history = history };
    enum kg_status status = KG_OK;
    if (!open_own(cache)) {
        cache->is_temporary = true;
        status = kg_fleet_scratch(&cache->root, err);
    }
    if (status == KG_OK) *out = cache;
    else free(cache);
    return status;
}

void kg_fleet_cache_close(struct kg_fleet_cache *cache) {
    if (!cache) return;
    if (cache->is_temporary) (void)!kg_path_remove(cache->root, NULL); /* below $TMPDIR: in nobody's way */
    if (cache->lock_fd >= 0) close(cache->lock_fd);
    free(cache->root);
    free(cache);
}

const char *kg_fleet_cache_root(const struct kg_fleet_cache *cache) {
    return cache->root;
}

static bool take_text(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns;
    (void)names;
    if (cells) snprintf(arg, KG_SHA256_HEX_SIZE, "%.*s", (int)cells[0].size_bytes, cells[0].text);
    return true;
}

/* SHA-256 of the run's tag manifest, as the fleet has it. */
static enum kg_status read_tags(const struct kg_fleet_cache *cache, const char *id, char sha256[KG_SHA256_HEX_SIZE],
                                struct kg_error *err) {
    sha256[0] = '\0';
    const enum kg_status status = kg_history_query(
        cache->history, "SELECT tagmanifest_sha256 FROM archive WHERE bundle_id = ?1", &id, 1, take_text, sha256, err);
    if (status == KG_OK && !sha256[0])
        return kg_fail(err, KG_ERR_NOT_FOUND, "%s has no run %s; 'kigo list' shows what there is",
                       kg_fleet_where(cache->fleet), id);
    return status;
}

/* One that somebody touched, or that is another bundle, goes: the fleet's comes in its place. */
static enum kg_status find_here(const struct kg_fleet_cache *cache, const char *id, const char *tags, bool *is_here,
                                struct kg_error *err) {
    char *dir = kg_path_join(cache->root, id), *note = note_path(cache->root, id), found[KG_SHA256_HEX_SIZE];
    enum kg_status status = KG_OK;
    *is_here = false;
    if (kg_path_exists(dir)) {
        status = kg_beneath_hash(dir, "tagmanifest-sha256.txt", found, err);
        if (status == KG_OK && strcmp(found, tags) == 0) status = kg_verified_check_folder(dir, err);
        *is_here = status == KG_OK && strcmp(found, tags) == 0;
        if (status == KG_ERR_INTEGRITY || status == KG_ERR_FORMAT || status == KG_ERR_NOT_FOUND) status = KG_OK;
        if (status == KG_OK && !*is_here) status = kg_path_remove(dir, err);
        if (*is_here) (void)utimensat(AT_FDCWD, note, NULL, 0);
    }
    free(note);
    free(dir);
    return status;
}

void kg_fleet_cache_hide(const char *dir, struct kg_error *err) {
    const size_t len = strlen(dir);
    for (char *at = err->message; (at = strstr(at, dir));)
        if (at[len] == '/') memmove(at, at + len + 1, strlen(at + len + 1) + 1);
        else at += len;
}

/* What the archive holds has to be the run. */
static enum kg_status check_imported(const struct kg_fleet_cache *cache, const struct kg_imported *imported,
                                     const char *id, const char *tags, struct kg_error *err) {
    if (strcmp(imported->id, id) == 0 && strcmp(imported->tagmanifest_sha256, tags) == 0) return KG_OK;
    if (!imported->was_here) drop(cache->root, imported->id);
    return kg_fail(err, KG_ERR_INTEGRITY, "the archive of %s holds another bundle: %s with tag manifest %s, not %s", id,
                   imported->id, imported->tagmanifest_sha256, tags);
}

static enum kg_status fetch(const struct kg_fleet_cache *cache, const char *verb, const char *id, const char *tags,
                            struct kg_error *err) {
    struct kg_progress progress;
    struct kg_imported imported;
    const struct kg_fleet_watch watch = kg_cli_fleet_watch(&progress, verb);
    char *scratch = NULL, *path = NULL;
    enum kg_status status = kg_fleet_scratch(&scratch, err);
    if (status == KG_OK) {
        path = kg_xasprintf("%s/%s.tar.zst", scratch, id);
        status = kg_fleet_fetch(cache->fleet, id, path, &watch, err);
    }
    kg_progress_finish(&progress);
    if (status == KG_OK) {
        const struct kg_import import = { .root = cache->root, .path = path, .limits = KG_IMPORT_LIMITS };
        status = kg_bundle_import(&import, &imported, err);
        if (status == KG_OK) status = check_imported(cache, &imported, id, tags, err);
        if (status != KG_OK) kg_error_prefix(err, "%s", kg_fleet_where(cache->fleet));
        if (status != KG_OK) kg_fleet_cache_hide(scratch, err);
    }
    if (scratch) (void)!kg_path_remove(scratch, NULL); /* below $TMPDIR: what stays is in nobody's way */
    free(path);
    free(scratch);
    return status;
}

enum kg_status kg_fleet_cache_bring(struct kg_fleet_cache *cache, const char *verb, const char *id, char **dir,
                                    struct kg_error *err) {
    char tags[KG_SHA256_HEX_SIZE];
    bool is_here = false;
    int64_t unused;
    if (!kg_bundle_id_parse(id, &unused) || strchr(id, '/')) /* a name that leads elsewhere, by somebody's SQL */
        return kg_fail(err, KG_ERR_INTEGRITY, "%s has a run of no run's name: %s", kg_fleet_where(cache->fleet), id);
    enum kg_status status = read_tags(cache, id, tags, err);
    if (status == KG_OK) status = find_here(cache, id, tags, &is_here, err);
    if (status == KG_OK && !is_here) status = fetch(cache, verb, id, tags, err);
    if (status == KG_OK) *dir = kg_path_join(cache->root, id);
    return status;
}
