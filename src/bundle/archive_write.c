#include "bundle/archive.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/draft.h"
#include "base/zstd.h"
#include "bundle/libarchive.h"
#include "bundle/tree.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 256 << 10 };

/* An archive on its way into a draft. Its tar is libarchive's; compressed it is here, since the filters of
 * libarchive 3.6 write into a structure that they could not allocate. */
struct writing {
    struct archive *a;
    struct kg_zstd_writer *zstd; /* NULL: not compressed */
    struct kg_error why;         /* of zstd, where it failed */
};

static enum kg_status fail(struct writing *w, const char *doing, struct kg_error *err) {
    if (w->why.status != KG_OK) return kg_fail(err, w->why.status, "%s: %s", doing, w->why.message);
    const char *why = kg_libarchive()->error_string(w->a);
    return kg_fail(err, KG_ERR_IO, "%s: %s", doing, why ? why : "libarchive does not say why");
}

static bool ends_in(const char *text, const char *end) {
    const size_t n = strlen(text), n_end = strlen(end);
    return n > n_end && strcmp(text + n - n_end, end) == 0;
}

/* archive_write_callback: how many bytes were taken, or -1. */
static la_ssize_t put(struct archive *a, void *arg, const void *data, size_t size_bytes) {
    struct writing *w = arg;
    (void)a;
    return kg_zstd_writer_put(w->zstd, data, size_bytes, &w->why) == KG_OK ? (la_ssize_t)size_bytes : -1;
}

/* GNU's tar, not pax: names are bytes there, whatever the locale is. */
static enum kg_status set_up(struct writing *w, const char *path, int fd, struct kg_error *err) {
    bool good = kg_libarchive()->write_set_format_gnutar(w->a) == ARCHIVE_OK;
    if (ends_in(path, ".zst")) {
        const enum kg_status status = kg_zstd_writer_open(fd, &w->zstd, err);
        if (status != KG_OK) return status;
        good = good &&
               kg_libarchive()->write_set_bytes_in_last_block(w->a, 1) == ARCHIVE_OK && /* no zeros after the end */
               kg_libarchive()->write_open(w->a, w, NULL, put, NULL) == ARCHIVE_OK;
    } else {
        good = good && kg_libarchive()->write_open_fd(w->a, fd) == ARCHIVE_OK;
    }
    return good ? KG_OK : fail(w, path, err);
}

static enum kg_status finish(struct writing *w, const char *path, struct kg_error *err) {
    if (kg_libarchive()->write_close(w->a) != ARCHIVE_OK) return fail(w, path, err);
    return w->zstd ? kg_zstd_writer_end(w->zstd, err) : KG_OK;
}

/* The bytes of a file that has size_bytes of them: others may cut it meanwhile, or write to it. */
static enum kg_status add_bytes(struct writing *w, int fd, const char *name, uint64_t size_bytes,
                                struct kg_error *err) {
    char *piece = kg_xmalloc(PIECE_BYTES);
    enum kg_status status = KG_OK;
    while (size_bytes > 0 && status == KG_OK) {
        const ssize_t n = read(fd, piece, size_bytes < PIECE_BYTES ? (size_t)size_bytes : PIECE_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = kg_fail(err, KG_ERR_IO, "cannot read %s: %s", name, strerror(errno));
        else if (n == 0) status = kg_fail(err, KG_ERR_INTEGRITY, "%s was cut short while it was read", name);
        else if (kg_libarchive()->write_data(w->a, piece, (size_t)n) != (la_ssize_t)n) status = fail(w, name, err);
        else size_bytes -= (uint64_t)n;
    }
    free(piece);
    return status;
}

static enum kg_status add_file(struct writing *w, const char *dir, const char *id, const char *relative, int64_t utc_s,
                               struct kg_error *err) {
    uint64_t size_bytes = 0;
    int fd = -1;
    enum kg_status status = kg_beneath_open(dir, relative, &fd, &size_bytes, err);
    if (status != KG_OK) return status;
    char *name = kg_path_join(id, relative);
    struct archive_entry *entry = kg_libarchive()->entry_new();
    if (!entry) kg_memory_exhausted(0); /* all that libarchive's constructors fail of */
    kg_libarchive()->entry_set_pathname(entry, name);
    kg_libarchive()->entry_set_filetype(entry, AE_IFREG);
    kg_libarchive()->entry_set_perm(entry, 0644);
    kg_libarchive()->entry_set_size(entry, (int64_t)size_bytes);
    kg_libarchive()->entry_set_mtime(entry, utc_s, 0);
    if (kg_libarchive()->write_header(w->a, entry) != ARCHIVE_OK) status = fail(w, name, err);
    if (status == KG_OK) status = add_bytes(w, fd, name, size_bytes, err);
    close(fd);
    kg_libarchive()->entry_free(entry);
    free(name);
    return status;
}

static enum kg_status add_files(struct writing *w, const char *dir, const char *id, int64_t utc_s,
                                struct kg_error *err) {
    struct kg_tree tree;
    enum kg_status status = kg_tree_list(dir, &tree, err);
    if (status != KG_OK) return status;
    for (size_t i = 0; i < tree.n_entries && status == KG_OK; i++) {
        const struct kg_tree_entry *entry = &tree.entries[i];
        if (entry->kind == KG_TREE_FILE) status = add_file(w, dir, id, entry->path, utc_s, err);
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
    if (kg_archive_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: %s", path, kg_archive_missing());
    enum kg_status status = kg_draft_open(path, &draft, err);
    if (status != KG_OK) return status;
    struct writing w = { .a = kg_libarchive()->write_new(), .why = { .status = KG_OK } };
    if (!w.a) kg_memory_exhausted(0);
    status = set_up(&w, path, draft.fd, err);
    if (status == KG_OK) status = add_files(&w, dir, id, utc_s, err);
    if (status == KG_OK) status = finish(&w, path, err);
    kg_libarchive()->write_free(w.a);
    kg_zstd_writer_free(w.zstd);
    if (status == KG_OK) return kg_draft_publish(&draft, err);
    kg_draft_discard(&draft);
    return status;
}
