#include "base/file.h"
#include "base/buffer.h"
#include "base/draft.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static enum kg_status fail_errno(struct kg_error *err, const char *action, const char *path) {
    const int code = errno;
    const enum kg_status status = code == ENOENT || code == ENOTDIR     ? KG_ERR_NOT_FOUND
                                  : code == EEXIST || code == ENOTEMPTY ? KG_ERR_EXISTS
                                                                        : KG_ERR_IO;
    return kg_fail(err, status, "cannot %s %s: %s", action, path, strerror(code));
}

static enum kg_status open_regular(const char *path, int *fd, struct stat *info, struct kg_error *err) {
    enum kg_status status = KG_OK;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not block on a pipe; it is rejected below */
    if (*fd < 0) return fail_errno(err, "open", path);
    if (fstat(*fd, info) != 0) status = fail_errno(err, "stat", path);
    else if (!S_ISREG(info->st_mode)) status = kg_fail(err, KG_ERR_USAGE, "%s is not a regular file", path);
    if (status != KG_OK) close(*fd);
    return status;
}

enum kg_status kg_file_map_open(const char *path, struct kg_file_map *map, struct kg_error *err) {
    *map = KG_NO_FILE_MAP;
    int fd;
    struct stat info;
    enum kg_status status = open_regular(path, &fd, &info, err);
    if (status != KG_OK) return status;
    if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) status = fail_errno(err, "map", path);
        else *map = (struct kg_file_map){ data, (size_t)info.st_size, fd };
    }
    if (map->fd < 0) close(fd);
    return status;
}

void kg_file_map_close(struct kg_file_map *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size_bytes);
    kg_file_map_close_file(map);
    *map = KG_NO_FILE_MAP;
}

void kg_file_map_close_file(struct kg_file_map *map) {
    if (map->fd >= 0) close(map->fd);
    map->fd = -1;
}

static enum kg_status read_all(int fd, const char *path, char **data, size_t *size_bytes, struct kg_error *err) {
    struct kg_buffer all = KG_BUFFER_INIT;
    ssize_t n;
    kg_memory_note_file(path);
    do {
        kg_buffer_reserve(&all, 1 << 16);
        n = read(fd, all.data + all.len, all.capacity - all.len - 1);
        if (n > 0) all.len += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    const enum kg_status status = n < 0 ? fail_errno(err, "read", path) : KG_OK;
    if (status != KG_OK) {
        kg_buffer_free(&all);
        return status;
    }
    all.data[all.len] = '\0';
    *data = all.data;
    *size_bytes = all.len;
    return KG_OK;
}

enum kg_status kg_file_read(const char *path, char **data, size_t *size_bytes, struct kg_error *err) {
    const bool standard_input = strcmp(path, "-") == 0;
    const int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, "open", path);
    const enum kg_status status = read_all(fd, path, data, size_bytes, err);
    if (!standard_input) close(fd);
    return status;
}

enum kg_status kg_file_read_regular(const char *path, char **data, size_t *size_bytes, struct kg_error *err) {
    int fd;
    struct stat info;
    enum kg_status status = open_regular(path, &fd, &info, err);
    if (status != KG_OK) return status;
    status = read_all(fd, path, data, size_bytes, err);
    close(fd);
    return status;
}

enum kg_status kg_fd_write(int fd, const void *data, size_t size_bytes, struct kg_error *err) {
    const char *at = data;
    while (size_bytes > 0) {
        const ssize_t n = write(fd, at, size_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return kg_fail(err, KG_ERR_IO, "cannot write: %s", strerror(errno));
        at += n;
        size_bytes -= (size_t)n;
    }
    return KG_OK;
}

enum kg_status kg_fd_reserve(int fd, uint64_t size_bytes, struct kg_error *err) {
    struct statvfs disk;
    int result;
    if (size_bytes == 0 || size_bytes > INT64_MAX) return KG_OK;
    do result = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size_bytes);
    while (result != 0 && errno == EINTR);
    if (result == 0 || (errno != ENOSPC && errno != EFBIG && errno != EDQUOT)) return KG_OK;
    const int code = errno;
    const unsigned long long free_bytes =
        fstatvfs(fd, &disk) == 0 ? (unsigned long long)disk.f_bavail * disk.f_frsize : 0;
    return kg_fail(err, KG_ERR_IO, "cannot write %llu bytes (%llu are free): %s", (unsigned long long)size_bytes,
                   free_bytes, strerror(code));
}

enum kg_status kg_file_write(const char *path, const void *data, size_t size_bytes, struct kg_error *err) {
    struct kg_draft draft;
    enum kg_status status = kg_draft_open(path, &draft, err);
    if (status != KG_OK) return status;
    status = kg_fd_write(draft.fd, data, size_bytes, err);
    if (status == KG_OK) return kg_draft_publish(&draft, err);
    kg_draft_discard(&draft);
    return kg_error_context(err, status, "%s", path);
}

static enum kg_status sync_parent(const char *path, struct kg_error *err) {
    const char *slash = strrchr(path, '/');
    char *parent = !slash ? kg_xstrdup(".") : kg_xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
    const enum kg_status status = kg_dir_sync(parent, err);
    free(parent);
    return status;
}

static enum kg_status make_dirs(const char *path, bool synced, struct kg_error *err) {
    char *copy = kg_xstrdup(path);
    enum kg_status status = KG_OK;
    for (char *at = copy + 1; status == KG_OK; at++) {
        if (*at != '/' && *at != '\0') continue;
        const char end = *at;
        *at = '\0';
        const bool made = mkdir(copy, 0755) == 0;
        if (!made && !(errno == EEXIST && kg_path_is_dir(copy))) status = fail_errno(err, "make directory", copy);
        if (made && synced) status = sync_parent(copy, err);
        *at = end;
        if (end == '\0') break;
    }
    free(copy);
    return status;
}

enum kg_status kg_dir_make(const char *path, struct kg_error *err) {
    return make_dirs(path, false, err);
}

enum kg_status kg_dir_make_synced(const char *path, struct kg_error *err) {
    return make_dirs(path, true, err);
}

enum kg_status kg_dir_sync(const char *path, struct kg_error *err) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, "open", path);
    const enum kg_status status = fsync(fd) == 0 ? KG_OK : fail_errno(err, "sync", path);
    close(fd);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *position) {
    (void)info;
    (void)kind;
    (void)position;
    return remove(path);
}

enum kg_status kg_path_remove(const char *path, struct kg_error *err) {
    enum { MAX_OPEN_DIRS = 16, ATTEMPTS = 2 };
    /* Once more: what lacked for a moment, memory or a descriptor, must not leave a folder that nobody else removes. */
    for (int attempt = 0; attempt < ATTEMPTS; attempt++)
        if (nftw(path, remove_entry, MAX_OPEN_DIRS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 || errno == ENOENT)
            return KG_OK;
    return fail_errno(err, "remove", path);
}

enum kg_status kg_path_rename_new(const char *from, const char *to, struct kg_error *err) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return KG_OK;
    /* Some file systems (NFS, for example) do not know the flag. Even there, rename never replaces a non-empty
     * folder. */
    if ((errno == EINVAL || errno == ENOSYS) && !kg_path_exists(to) && rename(from, to) == 0) return KG_OK;
    return fail_errno(err, "rename to", to);
}

static int skip_dots(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int bytewise(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum kg_status kg_dir_list(const char *path, struct kg_dir_list *list, struct kg_error *err) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno(err, "list", path);
    const enum kg_status status = kg_fd_list(fd, path, list, err);
    close(fd);
    return status;
}

enum kg_status kg_fd_list(int fd, const char *path, struct kg_dir_list *list, struct kg_error *err) {
    struct dirent **entries = NULL;
    const int n = scandirat(fd, ".", &entries, skip_dots, NULL);
    if (n < 0) return fail_errno(err, "list", path);
    list->names = kg_xcalloc((size_t)n, sizeof *list->names);
    list->n_names = (size_t)n;
    for (int i = 0; i < n; i++) {
        list->names[i] = kg_xstrdup(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (n > 1) qsort(list->names, (size_t)n, sizeof *list->names, bytewise);
    return KG_OK;
}

void kg_dir_list_free(struct kg_dir_list *list) {
    for (size_t i = 0; i < list->n_names; i++) free(list->names[i]);
    free(list->names);
    *list = (struct kg_dir_list){ NULL, 0 };
}

static bool is_absent(int code) {
    return code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG || code == ELOOP;
}

/* Whether nothing is there; another reason for not seeing it is an error. */
static bool nothing_there(const char *path) {
    if (is_absent(errno)) return true;
    (void)fail_errno(NULL, "look at", path);
    return false;
}

bool kg_path_exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 || !nothing_there(path);
}

bool kg_path_is_dir(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? S_ISDIR(info.st_mode) : !nothing_there(path);
}

char *kg_path_join(const char *a, const char *b) {
    return kg_xasprintf("%s/%s", a, b);
}

enum kg_status kg_check_fetched(const void *bytes, size_t size_bytes, struct kg_error *err) {
    static const char POINTER[] = "version https://git-lfs.github.com/";
    if (size_bytes < sizeof POINTER - 1 || memcmp(bytes, POINTER, sizeof POINTER - 1) != 0) return KG_OK;
    return kg_fail(err, KG_ERR_FORMAT, "a pointer of Git LFS, not the file itself, which 'git lfs pull' fetches");
}
