#include "bundle/stored.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/zstd.h"
#include "bundle/internal.h"
#include "bundle/limits.h"
#include "bundle/records.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char SUFFIX[] = ".zst";

/* What grows with the number of cases, or of kernels, and the page, of which most is the same in every run. The rest
 * stays plain for people: the report as text, what describes the run. */
static const char *const COMPRESSED[] = {
    "data/plan.ndjson",   "data/journal.ndjson", "data/results.ndjson", "data/results.csv",
    "data/results.tap",   "data/junit.xml",      "data/telemetry.csv",  "data/dirty.diff",
    "data/transcripts/",  "data/logs/",          "data/bandwidth.csv",  "data/bandwidth.json",
    "data/bandwidth.svg", "data/build.json",     "data/report.html",    "data/samples.bin",
};
enum { MIN_BYTES = 16 << 10 }; /* below, a file that everything can read is worth more than its bytes */

static char *compressed_path(const char *relative) {
    return kg_xasprintf("%s%s", relative, SUFFIX);
}

/* "data/x" of "data/x.zst". */
static char *plain_path(const char *relative) {
    return kg_xstrndup(relative, strlen(relative) - strlen(SUFFIX));
}

bool kg_stored_is_compressed(const char *relative) {
    const size_t len = strlen(relative), suffix = strlen(SUFFIX);
    return len > suffix && strcmp(relative + len - suffix, SUFFIX) == 0;
}

static bool is_compressed_entry(const struct kg_tree_entry *entry) {
    return entry->kind == KG_TREE_FILE && strncmp(entry->path, "data/", 5) == 0 && kg_stored_is_compressed(entry->path);
}

static bool is_chosen(const struct kg_tree_entry *entry) {
    if (entry->kind != KG_TREE_FILE || entry->size_bytes < MIN_BYTES || entry->size_bytes > KG_MAX_EXPANDED_BYTES)
        return false;
    if (kg_stored_is_compressed(entry->path)) return false;
    for (size_t i = 0; i < sizeof COMPRESSED / sizeof *COMPRESSED; i++) {
        const size_t len = strlen(COMPRESSED[i]);
        const bool folder = COMPRESSED[i][len - 1] == '/';
        if (folder ? strncmp(entry->path, COMPRESSED[i], len) == 0 : strcmp(entry->path, COMPRESSED[i]) == 0)
            return true;
    }
    return false;
}

const struct kg_tree_entry *kg_stored_find(const struct kg_tree *tree, const char *relative) {
    const struct kg_tree_entry *plain = kg_tree_find(tree, relative);
    if (plain) return plain;
    char *path = compressed_path(relative);
    const struct kg_tree_entry *entry = kg_tree_find(tree, path);
    free(path);
    return entry;
}

/* What the compressed file holds. */
static enum kg_status read_compressed(const char *dir, const char *relative, uint64_t max_bytes, struct kg_buffer *out,
                                      struct kg_error *err) {
    char *frame = NULL;
    size_t size_bytes = 0;
    enum kg_status status = kg_beneath_read(dir, relative, KG_MAX_EXPANDED_BYTES, &frame, &size_bytes, err);
    if (status == KG_OK) {
        const uint64_t expanded = kg_limit_expanded(size_bytes), limit = max_bytes < expanded ? max_bytes : expanded;
        status = kg_zstd_expand(frame, size_bytes, limit, out, err);
        if (status != KG_OK) kg_error_context(err, status, "%s/%s", dir, relative);
    }
    free(frame);
    return status;
}

enum kg_status kg_stored_read(const char *dir, const char *relative, uint64_t max_bytes, char **text,
                              size_t *size_bytes, struct kg_error *err) {
    char *compressed = compressed_path(relative);
    struct kg_buffer out = KG_BUFFER_INIT;
    *text = NULL;
    *size_bytes = 0;
    enum kg_status status = kg_beneath_read(dir, relative, max_bytes, text, size_bytes, err);
    if (status == KG_ERR_NOT_FOUND && kg_beneath_check(dir, compressed, NULL) != KG_ERR_NOT_FOUND) {
        status = read_compressed(dir, compressed, max_bytes, &out, err);
        kg_buffer_reserve(&out, 0);
        *text = status == KG_OK ? out.data : NULL;
        *size_bytes = status == KG_OK ? out.len : 0;
        if (status != KG_OK) kg_buffer_free(&out);
    }
    free(compressed);
    return status;
}

/* What a compressed file may hold, with the room that its text grows in. */
static uint64_t most_expanded(const char *dir, const char *compressed, uint64_t max_bytes) {
    unsigned char head[KG_ZSTD_HEAD_BYTES];
    uint64_t size_bytes = 0, claimed_bytes;
    int fd = -1;
    if (kg_beneath_open(dir, compressed, &fd, &size_bytes, NULL) != KG_OK) return 0;
    const ssize_t n = read(fd, head, sizeof head);
    close(fd);
    if (size_bytes > KG_MAX_EXPANDED_BYTES) return 0;
    uint64_t most = kg_limit_expanded(size_bytes);
    if (most > max_bytes) most = max_bytes;
    if (n > 0 && kg_zstd_claimed_bytes(head, (size_t)n, &claimed_bytes) && claimed_bytes < most) most = claimed_bytes;
    return size_bytes + 2 * most;
}

uint64_t kg_stored_most_bytes(const char *dir, const char *relative, uint64_t max_bytes) {
    uint64_t size_bytes = 0;
    int fd = -1;
    const enum kg_status status = kg_beneath_open(dir, relative, &fd, &size_bytes, NULL);
    if (status == KG_OK) {
        close(fd);
        return size_bytes <= max_bytes ? size_bytes : 0;
    }
    char *compressed = compressed_path(relative);
    const uint64_t most = status == KG_ERR_NOT_FOUND ? most_expanded(dir, compressed, max_bytes) : 0;
    free(compressed);
    return most;
}

/* <name>.zst on disk beside <name>; *smaller is false, and nothing is left, if that saves no bytes or
 * so many that no reader would take it. */
static enum kg_status put_compressed(const char *dir, const char *relative, bool *smaller, struct kg_error *err) {
    char *target = compressed_path(relative), *text = NULL;
    size_t size_bytes = 0;
    struct kg_buffer frame = KG_BUFFER_INIT;
    enum kg_status status = kg_beneath_read(dir, relative, KG_MAX_EXPANDED_BYTES, &text, &size_bytes, err);
    if (status == KG_OK) status = kg_zstd_compress(text, size_bytes, &frame, err);
    *smaller = status == KG_OK && frame.len < size_bytes && size_bytes <= kg_limit_expanded(frame.len);
    if (*smaller) status = kg_bundle_put(dir, target, frame.data, frame.len, err);
    if (*smaller && status == KG_OK) status = kg_file_sync(dir, target, err);
    kg_buffer_free(&frame);
    free(text);
    free(target);
    return status;
}

static enum kg_status sync_folders(const char *dir, const struct kg_tree *tree, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < tree->n_entries && status == KG_OK; i++) {
        if (tree->entries[i].kind != KG_TREE_DIR) continue;
        char *path = kg_path_join(dir, tree->entries[i].path);
        status = kg_dir_sync(path, err);
        free(path);
    }
    return status;
}

static enum kg_status remove_file(const char *dir, const char *relative, struct kg_error *err) {
    char *path = kg_path_join(dir, relative);
    enum kg_status status = KG_OK;
    if (unlink(path) != 0) status = kg_fail(err, KG_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    free(path);
    return status;
}

enum kg_status kg_stored_compress(const char *dir, struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    bool *done = kg_xcalloc(tree.n_entries, sizeof *done);
    uint64_t left = KG_MAX_EXPANDED_TOTAL_BYTES;
    for (size_t i = 0; i < tree.n_entries && status == KG_OK; i++) {
        if (!is_chosen(&tree.entries[i]) || tree.entries[i].size_bytes > left) continue;
        status = put_compressed(dir, tree.entries[i].path, &done[i], err);
        left -= done[i] ? tree.entries[i].size_bytes : 0;
    }
    if (status == KG_OK) status = sync_folders(dir, &tree, err);
    for (size_t i = 0; i < tree.n_entries && status == KG_OK; i++)
        if (done[i]) status = remove_file(dir, tree.entries[i].path, err);
    free(done);
    kg_tree_free(&tree);
    return status;
}

/* A file that holds nothing readable, kept under data/recovery/ for whoever wants to look at it. */
static enum kg_status set_aside(const char *dir, const char *relative, struct kg_error *err) {
    char *folder = kg_path_join(dir, "data/recovery"), *name = kg_xstrdup(relative + strlen("data/"));
    for (char *s = name; *s; s++)
        if (*s == '/') *s = '.';
    char *from = kg_path_join(dir, relative), *to = kg_xasprintf("%s/%s.torn", folder, name);
    enum kg_status status = kg_dir_make(folder, err);
    if (status == KG_OK) status = kg_path_rename_new(from, to, err);
    free(to);
    free(from);
    free(name);
    free(folder);
    return status;
}

/* <name> on disk again, then <name>.zst goes. */
static enum kg_status put_plain(const char *dir, const char *relative, struct kg_error *err) {
    char *target = plain_path(relative);
    struct kg_buffer text = KG_BUFFER_INIT;
    enum kg_status status = kg_beneath_check(dir, target, err);
    if (status == KG_OK) {
        status = remove_file(dir, relative, err); /* its plain form was not removed yet: the frame may be torn */
    } else if (status == KG_ERR_NOT_FOUND) {
        status = read_compressed(dir, relative, KG_MAX_EXPANDED_BYTES, &text, err);
        if (status == KG_ERR_FORMAT) status = set_aside(dir, relative, err);
        else if (status == KG_OK) {
            /* by rename: an existing plain file is whole */
            status = kg_beneath_write(dir, target, kg_buffer_text(&text), text.len, err);
            if (status == KG_OK) status = remove_file(dir, relative, err);
        }
    }
    kg_buffer_free(&text);
    free(target);
    return status;
}

enum kg_status kg_stored_expand(const char *dir, struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    for (size_t i = 0; i < tree.n_entries && status == KG_OK; i++)
        if (is_compressed_entry(&tree.entries[i])) status = put_plain(dir, tree.entries[i].path, err);
    kg_tree_free(&tree);
    return status;
}

void kg_stored_verify(const char *dir, const struct kg_tree *tree, struct kg_bundle_findings *findings) {
    uint64_t left = KG_MAX_EXPANDED_TOTAL_BYTES;
    for (size_t i = 0; i < tree->n_entries; i++) {
        const struct kg_tree_entry *entry = &tree->entries[i];
        if (!is_compressed_entry(entry)) continue;
        if (left == 0) {
            kg_finding_add(findings, "limit", entry->path, "a bundle's compressed files hold more than %d MiB together",
                           KG_MAX_EXPANDED_TOTAL_BYTES >> 20);
            return;
        }
        const uint64_t expanded = kg_limit_expanded(entry->size_bytes), limit = left < expanded ? left : expanded;
        char *plain = plain_path(entry->path);
        struct kg_buffer text = KG_BUFFER_INIT;
        struct kg_error why;
        if (kg_tree_find(tree, plain))
            kg_finding_add(findings, "duplicate", entry->path, "lies beside its plain form, %s", plain);
        const enum kg_status status = read_compressed(dir, entry->path, limit, &text, &why);
        if (status != KG_OK)
            kg_finding_add(findings, status == KG_ERR_FORMAT ? "format" : "unreadable", entry->path, "%s", why.message);
        left -= status == KG_OK ? text.len : limit; /* a frame that fails may have been expanded up to its limit */
        kg_buffer_free(&text);
        free(plain);
    }
}
