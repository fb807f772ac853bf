#include "bundle/archive.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/draft.h"
#include "bundle/tree.h"
#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

const char *kg_archive_missing(void) {
    return NULL;
}

static enum kg_status fail(struct archive *a, const char *doing, struct kg_error *err) {
    const char *why = archive_error_string(a);
    return kg_fail(err, KG_ERR_IO, "%s: %s", doing, why ? why : "libarchive does not say why");
}

static bool ends_in(const char *text, const char *end) {
    const size_t n = strlen(text), n_end = strlen(end);
    return n > n_end && strcmp(text + n - n_end, end) == 0;
}

/* GNU's tar, not pax: names are bytes there, whatever the locale is. */
static enum kg_status set_up(struct archive *a, const char *path, int fd, struct kg_error *err) {
    bool good = archive_write_set_format_gnutar(a) == ARCHIVE_OK;
    if (ends_in(path, ".zst"))
        good = good && archive_write_add_filter_zstd(a) == ARCHIVE_OK &&
               archive_write_set_filter_option(a, "zstd", "compression-level", "19") == ARCHIVE_OK;
    good = good && archive_write_open_fd(a, fd) == ARCHIVE_OK;
    return good ? KG_OK : fail(a, path, err);
}

static enum kg_status add_file(struct archive *a, const char *dir, const char *id, const char *relative, int64_t utc_s,
                               struct kg_error *err) {
    char *name = kg_path_join(id, relative);
    struct kg_file_map map = { NULL, 0 };
    struct archive_entry *entry = archive_entry_new();
    if (!entry) kg_memory_exhausted(0); /* all that libarchive's constructors fail of */
    enum kg_status status = kg_beneath_map(dir, relative, &map, err);
    if (status == KG_OK) {
        archive_entry_set_pathname(entry, name);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, (int64_t)map.size_bytes);
        archive_entry_set_mtime(entry, utc_s, 0);
        if (archive_write_header(a, entry) != ARCHIVE_OK) status = fail(a, name, err);
    }
    if (status == KG_OK && map.size_bytes > 0 &&
        archive_write_data(a, map.data, map.size_bytes) != (la_ssize_t)map.size_bytes)
        status = fail(a, name, err);
    kg_file_map_close(&map);
    archive_entry_free(entry);
    free(name);
    return status;
}

static enum kg_status add_files(struct archive *a, const char *dir, const char *id, int64_t utc_s,
                                struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < tree.n_entries && status == KG_OK; i++) {
        const struct kg_tree_entry *entry = &tree.entries[i];
        if (entry->kind == KG_TREE_FILE) status = add_file(a, dir, id, entry->path, utc_s, err);
        else if (entry->kind != KG_TREE_DIR)
            status = kg_fail(err, KG_ERR_FORMAT, "%s/%s is not a regular file", dir, entry->path);
    }
    kg_tree_free(&tree);
    return status;
}

enum kg_status kg_archive_write(const char *dir, const char *id, int64_t utc_s, const char *path,
                                struct kg_error *err) {
    struct kg_draft draft;
    if (!ends_in(path, ".tar") && !ends_in(path, ".tar.zst"))
        return kg_fail(err, KG_ERR_USAGE, "'%s': an archive's name ends in .tar or .tar.zst", path);
    enum kg_status status = kg_draft_open(path, &draft, err);
    if (status != KG_OK) return status;
    struct archive *a = archive_write_new();
    if (!a) kg_memory_exhausted(0);
    status = set_up(a, path, draft.fd, err);
    if (status == KG_OK) status = add_files(a, dir, id, utc_s, err);
    if (status == KG_OK && archive_write_close(a) != ARCHIVE_OK) status = fail(a, path, err);
    archive_write_free(a);
    if (status == KG_OK) return kg_draft_publish(&draft, err);
    kg_draft_discard(&draft);
    return status;
}
