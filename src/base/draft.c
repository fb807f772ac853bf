#include "base/draft.h"
#include "base/buffer.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum kg_status fail_errno(struct kg_error *err, const char *action, const char *path) {
    return kg_fail(err, errno == ENOENT || errno == ENOTDIR ? KG_ERR_NOT_FOUND : KG_ERR_IO, "cannot %s %s: %s", action,
                   path, strerror(errno));
}

static char *parent_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return !slash ? kg_xstrdup(".") : slash == path ? kg_xstrdup("/") : kg_xstrndup(path, (size_t)(slash - path));
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Opens an unnamed file (O_TMPFILE), which disappears with the process however it ends; -1 if the system has none. */
static int open_nameless(int folder_fd) {
    if (access("/proc/self/fd", X_OK) != 0) return -1; /* linkat needs it to name the file */
    return openat(folder_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* A name in the folder that no other draft has. malloc'ed. */
static char *temporary_name(const char *path, unsigned attempt) {
    return kg_xasprintf("%s.tmp-%ld-%u", name_of(path), (long)getpid(), attempt);
}

static int open_named(int folder_fd, const char *path, char **temporary) {
    int fd = -1;
    for (unsigned attempt = 0; fd < 0; attempt++) {
        free(*temporary);
        *temporary = temporary_name(path, attempt);
        fd = openat(folder_fd, *temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST) break;
    }
    return fd;
}

/* Only a regular file may be replaced: a rename would also replace a device, a pipe or a link, even /dev/null and
 * /dev/stdout. */
static enum kg_status check_place(int folder_fd, const char *path, struct kg_error *err) {
    struct stat there;
    if (fstatat(folder_fd, name_of(path), &there, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(there.st_mode)) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "%s is a %s, not a file that can be replaced", path,
                   S_ISDIR(there.st_mode)                             ? "folder"
                   : S_ISLNK(there.st_mode)                           ? "link"
                   : S_ISCHR(there.st_mode) || S_ISBLK(there.st_mode) ? "device"
                                                                      : "pipe or socket");
}

enum kg_status kg_draft_open_at(int folder_fd, const char *path, struct kg_draft *draft, struct kg_error *err) {
    char *temporary = NULL;
    *draft = (struct kg_draft){ -1, -1, NULL, NULL };
    enum kg_status status = check_place(folder_fd, path, err);
    int fd = status == KG_OK ? open_nameless(folder_fd) : -1;
    if (status == KG_OK && fd < 0) fd = open_named(folder_fd, path, &temporary);
    if (status == KG_OK && fd < 0) status = fail_errno(err, "create", path);
    if (status == KG_OK) {
        *draft = (struct kg_draft){ fd, folder_fd, temporary, kg_xstrdup(path) };
    } else {
        free(temporary);
        close(folder_fd);
    }
    return status;
}

enum kg_status kg_draft_open(const char *path, struct kg_draft *draft, struct kg_error *err) {
    if (!*path) return kg_fail(err, KG_ERR_USAGE, "the name of the file to write is empty");
    char *parent = parent_of(path);
    const int folder_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(parent);
    if (folder_fd < 0) return fail_errno(err, "create", path);
    if (!*name_of(path)) {
        close(folder_fd);
        return kg_fail(err, KG_ERR_USAGE, "%s is a folder, not a file that can be replaced", path);
    }
    return kg_draft_open_at(folder_fd, path, draft, err);
}

/* Links the unnamed file to path if path is free: no temporary name ever exists. linkat cannot replace a file, but
 * rename can: if path exists, the file first gets a temporary name. */
static enum kg_status give_name(struct kg_draft *draft, bool *placed, struct kg_error *err) {
    char *self = kg_xasprintf("/proc/self/fd/%d", draft->fd);
    const int to = draft->folder_fd;
    enum kg_status status = KG_OK;
    *placed = !draft->temporary && linkat(AT_FDCWD, self, to, name_of(draft->path), AT_SYMLINK_FOLLOW) == 0;
    for (unsigned attempt = 0; !*placed && !draft->temporary; attempt++) {
        char *name = temporary_name(draft->path, attempt);
        if (linkat(AT_FDCWD, self, to, name, AT_SYMLINK_FOLLOW) == 0) {
            draft->temporary = name;
            break;
        }
        const bool taken = errno == EEXIST;
        if (!taken) status = fail_errno(err, "name", draft->path);
        free(name);
        if (!taken) break;
    }
    free(self);
    return status;
}

enum kg_status kg_draft_publish(struct kg_draft *draft, struct kg_error *err) {
    enum kg_status status = KG_OK;
    bool placed = false;
    if (fchmod(draft->fd, 0644) != 0 || fsync(draft->fd) != 0) status = fail_errno(err, "sync", draft->path);
    if (status == KG_OK) status = give_name(draft, &placed, err);
    if (close(draft->fd) != 0 && status == KG_OK) status = fail_errno(err, "close", draft->path);
    draft->fd = -1;
    if (status == KG_OK && !placed &&
        renameat(draft->folder_fd, draft->temporary, draft->folder_fd, name_of(draft->path)) != 0)
        status = fail_errno(err, "rename to", draft->path);
    if (status == KG_OK) {
        free(draft->temporary);
        draft->temporary = NULL;
        if (fsync(draft->folder_fd) != 0) status = fail_errno(err, "sync the folder of", draft->path);
    }
    kg_draft_discard(draft);
    return status;
}

void kg_draft_discard(struct kg_draft *draft) {
    if (draft->fd >= 0) close(draft->fd);
    if (draft->temporary) unlinkat(draft->folder_fd, draft->temporary, 0);
    if (draft->folder_fd >= 0) close(draft->folder_fd);
    free(draft->temporary);
    free(draft->path);
    *draft = (struct kg_draft){ -1, -1, NULL, NULL };
}
