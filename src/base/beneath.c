#include "base/beneath.h"
#include "base/buffer.h"
#include "base/draft.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
    return S_ISLNK(mode)    ? "a link, which is not followed"
           : S_ISDIR(mode)  ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISREG(mode)  ? "a file"
                            : "a device";
}

static enum kg_status fail_errno(const char *doing, const char *dir, const char *relative, struct kg_error *err) {
    const int code = errno;
    const enum kg_status status = code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG ? KG_ERR_NOT_FOUND
                                  : code == EEXIST                                          ? KG_ERR_EXISTS
                                                                                            : KG_ERR_IO;
    return kg_fail(err, status, "cannot %s %s/%s: %s", doing, dir, relative, strerror(code));
}

/* Folders on the way: they must be there; they are made; they are made, and their names are on the disk. */
enum making { FIND, MAKE, MAKE_SYNCED };

/* To go through a folder takes no right to list it; to sync its entries does. */
static int folder_flags(enum making making) {
    return (making == FIND ? O_PATH : O_RDONLY) | O_DIRECTORY | O_CLOEXEC;
}

static enum kg_status make_step(const char *dir, const char *relative, const char *name, enum making making, int at,
                                struct kg_error *err) {
    const bool made = mkdirat(at, name, 0755) == 0;
    if (!made && errno != EEXIST) return fail_errno("make", dir, relative, err);
    if (made && making == MAKE_SYNCED && fsync(at) != 0) return fail_errno("sync the folders of", dir, relative, err);
    return KG_OK;
}

/* Goes from the folder *at into its folder `name`; `len` bytes of relative lead there. *at is closed in any case. */
static enum kg_status step(const char *dir, const char *relative, size_t len, const char *name, enum making making,
                           int *at, struct kg_error *err) {
    struct stat info;
    enum kg_status status = making == FIND ? KG_OK : make_step(dir, relative, name, making, *at, err);
    const int next = status == KG_OK ? openat(*at, name, folder_flags(making) | O_NOFOLLOW) : -1;
    if (status == KG_OK && next < 0) {
        const int code = errno;
        if (fstatat(*at, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(info.st_mode)) {
            status = kg_fail(err, KG_ERR_FORMAT, "%s/%.*s is %s, not a folder", dir, (int)len, relative,
                             kind_of(info.st_mode));
        } else {
            errno = code;
            status = fail_errno("open", dir, relative, err);
        }
    }
    close(*at);
    *at = next;
    return status;
}

/* The folder that the last part of relative is in; *last is that part. */
static enum kg_status enter(const char *dir, const char *relative, enum making making, int *at, const char **last,
                            struct kg_error *err) {
    *at = open(dir, folder_flags(making));
    *last = relative;
    if (*at < 0) return fail_errno("open", dir, relative, err);
    for (const char *slash; (slash = strchr(*last, '/')); *last = slash + 1) {
        char *name = kg_xstrndup(*last, (size_t)(slash - *last));
        const enum kg_status status = step(dir, relative, (size_t)(slash - relative), name, making, at, err);
        free(name);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

static enum kg_status not_a_file(const char *dir, const char *relative, mode_t mode, struct kg_error *err) {
    return kg_fail(err, KG_ERR_FORMAT, "%s/%s is %s, not a regular file", dir, relative, kind_of(mode));
}

/* An existing file is looked at before it is opened, as opening a device may do something, and again after it: it
 * may be another by then. */
static enum kg_status open_file(int at, const char *name, const char *dir, const char *relative, int flags, int *fd,
                                struct stat *info, struct kg_error *err) {
    const bool makes = (flags & O_CREAT) != 0, there = fstatat(at, name, info, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && !(makes && errno == ENOENT)) return fail_errno("open", dir, relative, err);
    if (there && !S_ISREG(info->st_mode)) return not_a_file(dir, relative, info->st_mode, err);
    const int opened = openat(at, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (opened < 0) return fail_errno("open", dir, relative, err);
    enum kg_status status = KG_OK;
    if (fstat(opened, info) != 0) status = fail_errno("stat", dir, relative, err);
    else if (!S_ISREG(info->st_mode)) status = not_a_file(dir, relative, info->st_mode, err);
    if (status == KG_OK) *fd = opened;
    else close(opened);
    return status;
}

static enum kg_status open_beneath(const char *dir, const char *relative, int flags, int *fd, struct stat *info,
                                   struct kg_error *err) {
    const char *last;
    int at;
    enum kg_status status = enter(dir, relative, flags & O_CREAT ? MAKE : FIND, &at, &last, err);
    if (status == KG_OK) status = open_file(at, last, dir, relative, flags, fd, info, err);
    if (at >= 0) close(at);
    return status;
}

enum kg_status kg_beneath_open(const char *dir, const char *relative, int *fd, uint64_t *size_bytes,
                               struct kg_error *err) {
    struct stat info;
    const enum kg_status status = open_beneath(dir, relative, O_RDONLY, fd, &info, err);
    if (status == KG_OK && size_bytes) *size_bytes = (uint64_t)info.st_size;
    return status;
}

/* Up to size_bytes; *size_bytes is what there was. */
static enum kg_status read_up_to(int fd, char *data, size_t *size_bytes) {
    size_t done = 0;
    while (done < *size_bytes) {
        const ssize_t n = read(fd, data + done, *size_bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return KG_ERR_IO;
        if (n == 0) break;
        done += (size_t)n;
    }
    *size_bytes = done;
    return KG_OK;
}

enum kg_status kg_beneath_read(const char *dir, const char *relative, uint64_t max_bytes, char **data,
                               size_t *size_bytes, struct kg_error *err) {
    uint64_t size = 0;
    int fd = -1;
    enum kg_status status = kg_beneath_open(dir, relative, &fd, &size, err);
    if (status != KG_OK) return status;
    size_t n = (size_t)size;
    char *text = size <= max_bytes ? malloc(n + 1) : NULL;
    if (size > max_bytes)
        status = kg_fail(err, KG_ERR_FORMAT, "%s/%s is %llu bytes long, at most %llu are read", dir, relative,
                         (unsigned long long)size, (unsigned long long)max_bytes);
    else if (!text) status = kg_fail(err, KG_ERR_NO_MEMORY, "%s/%s: no memory for %zu bytes", dir, relative, n);
    else if (read_up_to(fd, text, &n) != KG_OK) status = fail_errno("read", dir, relative, err);
    close(fd);
    if (status == KG_OK) {
        text[n] = '\0';
        *data = text;
        *size_bytes = n;
    } else {
        free(text);
    }
    return status;
}

enum kg_status kg_beneath_hash(const char *dir, const char *relative, char hex[KG_SHA256_HEX_SIZE],
                               struct kg_error *err) {
    int fd = -1;
    enum kg_status status = kg_beneath_open(dir, relative, &fd, NULL, err);
    if (status != KG_OK) return status;
    status = kg_sha256_fd(fd, relative, hex, err);
    if (status != KG_OK) kg_error_prefix(err, "%s", dir);
    close(fd);
    return status;
}

enum kg_status kg_beneath_check(const char *dir, const char *relative, struct kg_error *err) {
    int fd = -1;
    const enum kg_status status = kg_beneath_open(dir, relative, &fd, NULL, err);
    if (status == KG_OK) close(fd);
    return status;
}

bool kg_beneath_is_folder(const char *dir, const char *relative) {
    struct kg_error unheard;
    struct stat info;
    const char *last;
    int at;
    enum kg_status status = enter(dir, relative, FIND, &at, &last, &unheard);
    if (status == KG_OK && fstatat(at, last, &info, AT_SYMLINK_NOFOLLOW) != 0)
        status = fail_errno("look at", dir, relative, &unheard);
    if (at >= 0) close(at);
    return status == KG_OK ? S_ISDIR(info.st_mode) : status == KG_ERR_IO; /* who opens it gets the reason */
}

enum kg_status kg_beneath_create(const char *dir, const char *relative, int flags, int *fd, struct kg_error *err) {
    struct stat info;
    return open_beneath(dir, relative, flags | O_WRONLY | O_CREAT, fd, &info, err);
}

/* A path that ends in a slash leads into the folder before it. */
static enum kg_status enter_folder(const char *dir, const char *relative, enum making making, int *fd,
                                   struct kg_error *err) {
    char *inside = kg_xasprintf("%s/", relative);
    const char *last;
    const enum kg_status status = enter(dir, inside, making, fd, &last, err);
    free(inside);
    return status;
}

enum kg_status kg_beneath_make_folder(const char *dir, const char *relative, struct kg_error *err) {
    int fd;
    const enum kg_status status = enter_folder(dir, relative, MAKE_SYNCED, &fd, err);
    if (fd >= 0) close(fd);
    return status;
}

enum kg_status kg_beneath_open_folder(const char *dir, const char *relative, int *fd, struct kg_error *err) {
    int at;
    const enum kg_status status = enter_folder(dir, relative, FIND, &at, err);
    if (status != KG_OK) return status;
    *fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const enum kg_status opened = *fd >= 0 ? KG_OK : fail_errno("open", dir, relative, err);
    close(at);
    return opened;
}

enum kg_status kg_beneath_list(const char *dir, const char *relative, struct kg_dir_list *list, struct kg_error *err) {
    int fd;
    enum kg_status status = kg_beneath_open_folder(dir, relative, &fd, err);
    if (status != KG_OK) return status;
    status = kg_fd_list(fd, relative, list, err);
    close(fd);
    return status;
}

enum kg_status kg_beneath_write(const char *dir, const char *relative, const void *data, size_t size_bytes,
                                struct kg_error *err) {
    const char *last;
    struct stat there;
    struct kg_draft draft = { .fd = -1 };
    int at;
    enum kg_status status = enter(dir, relative, MAKE_SYNCED, &at, &last, err);
    if (status == KG_OK && fstatat(at, last, &there, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(there.st_mode))
        status = not_a_file(dir, relative, there.st_mode, err);
    char *path = kg_path_join(dir, relative);
    if (status == KG_OK) {
        status = kg_draft_open_at(at, path, &draft, err); /* takes the descriptor over */
        at = -1;
        if (status == KG_OK) status = kg_fd_write(draft.fd, data, size_bytes, err);
        if (status == KG_OK) status = kg_draft_publish(&draft, err);
        else if (draft.path) {
            kg_draft_discard(&draft);
            kg_error_prefix(err, "%s", path);
        }
    }
    if (at >= 0) close(at);
    free(path);
    return status;
}
