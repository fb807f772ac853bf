#include "base/draft.h"
#include "base/buffer.h"
#include "base/file.h"
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

/* Opens an unnamed file (O_TMPFILE), which disappears with the process however it ends; -1 if the system has none. */
static int open_nameless(const char *path) {
    if (access("/proc/self/fd", X_OK) != 0) return -1; /* linkat needs it to name the file */
    char *parent = parent_of(path);
    const int fd = open(parent, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    free(parent);
    return fd;
}

/* Only a regular file may be replaced: a rename would also replace a device or a pipe, even /dev/null. */
static enum kg_status check_place(const char *path, struct kg_error *err) {
    struct stat there;
    if (!*path) return kg_fail(err, KG_ERR_USAGE, "the name of the file to write is empty");
    if (stat(path, &there) != 0 || S_ISREG(there.st_mode)) return KG_OK;
    return kg_fail(err, KG_ERR_USAGE, "%s is a %s, not a file that can be replaced", path,
                   S_ISDIR(there.st_mode)                             ? "folder"
                   : S_ISCHR(there.st_mode) || S_ISBLK(there.st_mode) ? "device"
                                                                      : "pipe or socket");
}

enum kg_status kg_draft_open(const char *path, struct kg_draft *draft, struct kg_error *err) {
    char *temporary = NULL;
    const enum kg_status placed = check_place(path, err);
    if (placed != KG_OK) return placed;
    int fd = open_nameless(path);
    if (fd < 0) {
        temporary = kg_xasprintf("%s.tmp-XXXXXX", path);
        fd = mkostemp(temporary, O_CLOEXEC);
    }
    if (fd < 0) {
        const enum kg_status status = fail_errno(err, "create", path);
        free(temporary);
        return status;
    }
    *draft = (struct kg_draft){ fd, temporary, kg_xstrdup(path) };
    return KG_OK;
}

static enum kg_status sync_parent(const char *path, struct kg_error *err) {
    char *parent = parent_of(path);
    const enum kg_status status = kg_dir_sync(parent, err);
    free(parent);
    return status;
}

/* Links the unnamed file to path if path is free: no temporary name ever exists. linkat cannot replace a file, but
 * rename can: if path exists, the file first gets a temporary name. */
static enum kg_status give_name(struct kg_draft *draft, bool *placed, struct kg_error *err) {
    char *self = kg_xasprintf("/proc/self/fd/%d", draft->fd);
    enum kg_status status = KG_OK;
    *placed = !draft->temporary && linkat(AT_FDCWD, self, AT_FDCWD, draft->path, AT_SYMLINK_FOLLOW) == 0;
    for (unsigned attempt = 0; !*placed && !draft->temporary; attempt++) {
        char *name = kg_xasprintf("%s.tmp-%ld-%u", draft->path, (long)getpid(), attempt);
        if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            draft->temporary = name;
            break;
        }
        const bool taken = errno == EEXIST;
        if (!taken) status = fail_errno(err, "name", name);
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
    if (status == KG_OK && !placed && rename(draft->temporary, draft->path) != 0)
        status = fail_errno(err, "rename to", draft->path);
    if (status == KG_OK) {
        free(draft->temporary);
        draft->temporary = NULL;
        status = sync_parent(draft->path, err);
    }
    kg_draft_discard(draft);
    return status;
}

void kg_draft_discard(struct kg_draft *draft) {
    if (draft->fd >= 0) close(draft->fd);
    if (draft->temporary) unlink(draft->temporary);
    free(draft->temporary);
    free(draft->path);
    *draft = (struct kg_draft){ -1, NULL, NULL };
}
