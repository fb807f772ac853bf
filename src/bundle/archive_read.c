/* Unpacking what a stranger may have made: every entry is judged by its header before anything is written, and what is
 * written goes to paths made of checked parts, with O_EXCL and O_NOFOLLOW, below a folder of the caller's own. */
#include "bundle/archive.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/archive_source.h"
#include "bundle/internal.h"
#include "bundle/libarchive.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct unpacking {
    const char *path, *to;
    const struct kg_archive_limits *limits;
    struct archive *archive;
    char id[KG_ARCHIVE_ID_SIZE]; /* of the first entry */
    uint64_t n_bytes;
    size_t n_files, n_entries;
};

static enum kg_status fail(const struct unpacking *u, struct kg_error *err) {
    const char *why = kg_libarchive()->error_string(u->archive);
    const int code = kg_libarchive()->error_number(u->archive);
    const enum kg_status status = code == ENOMEM ? KG_ERR_NO_MEMORY : code == EIO ? KG_ERR_IO : KG_ERR_FORMAT;
    return kg_fail(err, status, "%s: %s", u->path, why ? why : "libarchive does not say why");
}

/* Bytes of a hostile name that a terminal would act on become '?'. malloc'ed. */
static char *shown(const char *name) {
    char *copy = kg_xstrndup(name, strnlen(name, 200));
    for (char *s = copy; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7F) *s = '?';
    return copy;
}

static enum kg_status refuse(const struct unpacking *u, const char *name, const char *why, struct kg_error *err) {
    char *text = shown(name);
    const enum kg_status status = kg_fail(err, KG_ERR_FORMAT, "%s: entry '%s' %s", u->path, text, why);
    free(text);
    return status;
}

/* *inside is the part behind "<id>/", "" for the folder itself. */
static enum kg_status check_name(struct unpacking *u, const char *name, const char **inside, struct kg_error *err) {
    const size_t len = strcspn(name, "/");
    char id[KG_ARCHIVE_ID_SIZE] = "";
    int64_t started_us;
    if (name[0] == '/') return refuse(u, name, "has an absolute path", err);
    if (len < sizeof id) memcpy(id, name, len);
    if (!kg_bundle_id_parse(id, &started_us) || !kg_bundle_path_ok(id))
        return refuse(u, name, "is not below a folder named like a bundle", err);
    if (!u->id[0]) memcpy(u->id, id, sizeof id);
    if (strcmp(u->id, id) != 0) return refuse(u, name, "belongs to another bundle than the first", err);
    *inside = name[len] ? name + len + 1 : "";
    return KG_OK;
}

static enum kg_status check_kind(const struct unpacking *u, struct archive_entry *entry, const char *name,
                                 struct kg_error *err) {
    const mode_t kind = kg_libarchive()->entry_filetype(entry);
    if (kg_libarchive()->entry_hardlink(entry) || kg_libarchive()->entry_hardlink_utf8(entry))
        return refuse(u, name, "is a hard link", err);
    if (kind == AE_IFLNK || kg_libarchive()->entry_symlink(entry)) return refuse(u, name, "is a symbolic link", err);
    if (kind != AE_IFREG && kind != AE_IFDIR) return refuse(u, name, "is neither a file nor a folder", err);
    if (kg_libarchive()->entry_sparse_count(entry) > 0) return refuse(u, name, "is a sparse file", err);
    return KG_OK;
}

static enum kg_status check_size(const struct unpacking *u, struct archive_entry *entry, const char *name,
                                 struct kg_error *err) {
    if (u->n_files >= u->limits->max_files) return refuse(u, name, "is one file too many", err);
    if (!kg_libarchive()->entry_size_is_set(entry) || kg_libarchive()->entry_size(entry) < 0)
        return refuse(u, name, "does not tell its size", err);
    if ((uint64_t)kg_libarchive()->entry_size(entry) > u->limits->max_bytes - u->n_bytes)
        return refuse(u, name, "is too large: the archive's files exceed the limit (--max-bytes)", err);
    return KG_OK;
}

/* All of the data; a hole, or a byte more than the header said, is refused. */
static enum kg_status copy_data(const struct unpacking *u, int fd, const char *name, uint64_t size_bytes,
                                struct kg_error *err) {
    uint64_t written = 0;
    for (;;) {
        const void *block;
        size_t n;
        la_int64_t offset;
        const int code = kg_libarchive()->read_data_block(u->archive, &block, &n, &offset);
        if (code == ARCHIVE_EOF) break;
        if (code != ARCHIVE_OK) return fail(u, err);
        if ((uint64_t)offset != written || n > size_bytes - written)
            return refuse(u, name, "holds other data than its header says", err);
        const enum kg_status status = kg_fd_write(fd, block, n, err);
        if (status != KG_OK) return status;
        written += n;
    }
    return written == size_bytes ? KG_OK : refuse(u, name, "is shorter than its header says", err);
}

static enum kg_status unpack_file(struct unpacking *u, struct archive_entry *entry, const char *name,
                                  const char *inside, struct kg_error *err) {
    enum kg_status status = check_size(u, entry, name, err);
    if (status != KG_OK) return status;
    const uint64_t size_bytes = (uint64_t)kg_libarchive()->entry_size(entry);
    char *path = kg_xasprintf("%s/%s/%s", u->to, u->id, inside), *slash = strrchr(path, '/');
    *slash = '\0';
    status = kg_dir_make(path, err);
    *slash = '/';
    if (status == KG_OK) {
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0 && (errno == EEXIST || errno == EISDIR)) status = refuse(u, name, "is there twice", err);
        else if (fd < 0) status = kg_fail(err, KG_ERR_IO, "cannot make %s: %s", path, strerror(errno));
        if (fd >= 0) status = copy_data(u, fd, name, size_bytes, err);
        if (fd >= 0 && close(fd) != 0 && status == KG_OK)
            status = kg_fail(err, KG_ERR_IO, "cannot close %s: %s", path, strerror(errno));
    } else if (status == KG_ERR_NOT_FOUND || status == KG_ERR_EXISTS) {
        status = refuse(u, name, "lies below a file", err);
    }
    free(path);
    u->n_bytes += size_bytes;
    u->n_files++;
    return status;
}

static enum kg_status unpack_entry(struct unpacking *u, struct archive_entry *entry, struct kg_error *err) {
    const char *name = kg_libarchive()->entry_pathname(entry), *inside = "";
    if (!name) return refuse(u, "?", "has a name that is not text", err);
    if (u->n_entries++ > 2 * u->limits->max_files) return refuse(u, name, "is one entry too many", err);
    enum kg_status status = check_kind(u, entry, name, err);
    if (status == KG_OK) status = check_name(u, name, &inside, err);
    if (status != KG_OK) return status;
    const bool is_folder = kg_libarchive()->entry_filetype(entry) == AE_IFDIR;
    char *path = kg_xstrdup(inside);
    const size_t len = strlen(path);
    if (is_folder && len > 0 && path[len - 1] == '/') path[len - 1] = '\0';
    /* Folders come with their files; one that holds none is no part of a bundle. */
    if (!(is_folder && !*path) && !kg_bundle_path_ok(path)) status = refuse(u, name, "has an unsafe path", err);
    else if (!is_folder) status = unpack_file(u, entry, name, path, err);
    free(path);
    return status;
}

/* archive_read_open, step by step: libarchive 3.6 goes on with callback data that it had no memory to note, and says
 * nothing where it has none for the stream. */
static enum kg_status open_stream(struct unpacking *u, struct kg_archive_source *source, struct kg_error *err) {
    struct archive *a = u->archive;
    if (kg_libarchive()->read_support_format_tar(a) != ARCHIVE_OK) return fail(u, err);
    if (kg_libarchive()->read_set_callback_data(a, source) != ARCHIVE_OK) return fail(u, err);
    if (kg_libarchive()->read_set_read_callback(a, kg_archive_source_read) != ARCHIVE_OK) return fail(u, err);
    if (kg_libarchive()->read_open1(a) == ARCHIVE_OK) return KG_OK;
    if (!kg_libarchive()->error_string(a))
        return kg_fail(err, KG_ERR_NO_MEMORY, "%s: out of memory to read it", u->path);
    return fail(u, err);
}

/* Into an entry made here: libarchive 3.6 does not look whether it got the one it makes itself. */
static enum kg_status unpack(struct unpacking *u, struct archive_entry *entry, struct kg_archive_source *source,
                             struct kg_error *err) {
    enum kg_status status = open_stream(u, source, err);
    while (status == KG_OK) {
        const int code = kg_libarchive()->read_next_header2(u->archive, entry);
        if (code == ARCHIVE_EOF) break;
        status = code == ARCHIVE_OK ? unpack_entry(u, entry, err) : fail(u, err);
    }
    if (status != KG_OK) return status;
    return u->n_files > 0 ? KG_OK : kg_fail(err, KG_ERR_FORMAT, "%s holds no bundle", u->path);
}

enum kg_status kg_archive_unpack(const char *path, const char *to, const struct kg_archive_limits *limits,
                                 char id[KG_ARCHIVE_ID_SIZE], struct kg_error *err) {
    struct unpacking u = { .path = path, .to = to, .limits = limits };
    struct kg_archive_source *source;
    if (kg_archive_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s: %s", path, kg_archive_missing());
    enum kg_status status = kg_archive_source_open(path, &source, err);
    if (status != KG_OK) return status;
    u.archive = kg_libarchive()->read_new();
    if (!u.archive) kg_memory_exhausted(0);
    struct archive_entry *entry = kg_libarchive()->entry_new2(u.archive);
    if (!entry) kg_memory_exhausted(0);
    status = unpack(&u, entry, source, err);
    kg_libarchive()->entry_free(entry);
    kg_libarchive()->read_free(u.archive);
    kg_archive_source_close(source);
    if (status == KG_OK) memcpy(id, u.id, sizeof u.id);
    return status;
}
