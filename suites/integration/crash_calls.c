#include "suites/integration/crash_calls.h"
#include "base/buffer.h"
#include "base/size.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/limits.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum shape { OPENS, MAKES_DIR, REMOVES, MOVES, LINKS, WRITES, CUTS_FD, CUTS_PATH, SYNCS };
#define HERE (-1) /* no argument names a folder: the current one */

/* Numbers of the arguments. */
static const struct call_row {
    long number;
    enum shape shape;
    int fd, path, flags, to_fd, to_path;
} ROWS[] = {
#ifdef SYS_open
    { SYS_open, OPENS, HERE, 0, 1, 0, 0 },          { SYS_mkdir, MAKES_DIR, HERE, 0, 0, 0, 0 },
    { SYS_unlink, REMOVES, HERE, 0, 0, 0, 0 },      { SYS_rmdir, REMOVES, HERE, 0, 0, 0, 0 },
    { SYS_rename, MOVES, HERE, 0, 0, HERE, 1 },     { SYS_link, LINKS, HERE, 0, 0, HERE, 1 },
#endif
#ifdef SYS_renameat
    { SYS_renameat, MOVES, 0, 1, 0, 2, 3 },
#endif
    { SYS_openat, OPENS, 0, 1, 2, 0, 0 },           { SYS_mkdirat, MAKES_DIR, 0, 1, 0, 0, 0 },
    { SYS_unlinkat, REMOVES, 0, 1, 0, 0, 0 },       { SYS_renameat2, MOVES, 0, 1, 0, 2, 3 },
    { SYS_linkat, LINKS, 0, 1, 0, 2, 3 },           { SYS_write, WRITES, 0, 0, 0, 0, 0 },
    { SYS_writev, WRITES, 0, 0, 0, 0, 0 },          { SYS_pwrite64, WRITES, 0, 0, 0, 0, 0 },
    { SYS_pwritev, WRITES, 0, 0, 0, 0, 0 },         { SYS_sendfile, WRITES, 0, 0, 0, 0, 0 },
    { SYS_copy_file_range, WRITES, 2, 0, 0, 0, 0 }, { SYS_ftruncate, CUTS_FD, 0, 0, 0, 0, 0 },
    { SYS_truncate, CUTS_PATH, HERE, 0, 0, 0, 0 },  { SYS_fsync, SYNCS, 0, 0, 0, 0, 0 },
    { SYS_fdatasync, SYNCS, 0, 0, 0, 0, 0 },
};

bool kg_crash_filter_calls(void) {
    enum { ROOM = 8 * KG_COUNT_OF(ROWS) };
    const uint32_t MAKING = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
    struct sock_filter code[ROOM];
    unsigned short n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const bool opens = ROWS[i].shape == OPENS;
        const uint32_t flags_at =
            (uint32_t)(offsetof(struct seccomp_data, args) + (size_t)ROWS[i].flags * sizeof(uint64_t));
        code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr));
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ROWS[i].number, 0, opens ? 4 : 1);
        if (opens) { /* to read changes nothing */
            code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags_at);
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAKING, 1, 0);
            code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = { n, code };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* malloc'ed text of the process's memory; NULL if it cannot be read. */
static char *read_text(pid_t pid, uint64_t address) {
    enum { PAGE = 4096 };
    char *text = kg_xcalloc(1, PATH_MAX + 1);
    for (size_t n = 0; n < PATH_MAX;) {
        size_t part = PAGE - (address + n) % PAGE; /* the page that follows may not be there */
        if (part > PATH_MAX - n) part = PATH_MAX - n;
        const struct iovec to = { text + n, part }, from = { (void *)(uintptr_t)(address + n), part };
        if (process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)part) break;
        if (memchr(text + n, '\0', part)) return text;
        n += part;
    }
    free(text);
    return NULL;
}

/* The path as this process can use it. malloc'ed, NULL if it cannot be read. */
static char *path_of(pid_t pid, const uint64_t *args, int fd, int path) {
    static const char SELF[] = "/proc/self/";
    char *text = read_text(pid, args[path]), *all = NULL;
    const int dir = fd == HERE ? AT_FDCWD : (int)args[fd];
    if (!text) return NULL;
    if (strncmp(text, SELF, strlen(SELF)) == 0) all = kg_xasprintf("/proc/%d/%s", (int)pid, text + strlen(SELF));
    else if (text[0] == '/') all = kg_xstrdup(text);
    else if (dir == AT_FDCWD) all = kg_xasprintf("/proc/%d/cwd/%s", (int)pid, text);
    else all = kg_xasprintf("/proc/%d/fd/%d/%s", (int)pid, dir, text);
    free(text);
    return all;
}

static size_t node_at(const struct kg_disk_log *log, const char *path, bool follow, struct stat *info) {
    if (!path || (follow ? stat(path, info) : lstat(path, info)) != 0) return KG_NO_NODE;
    return kg_disk_log_find(log, info->st_dev, info->st_ino);
}

/* The folder that the path's last part is in; KG_NO_NODE: none of the log's. *name malloc'ed. */
static size_t parent_of(const struct kg_disk_log *log, const char *path, char **name) {
    struct stat info;
    char *copy = kg_xstrdup(path);
    size_t len = strlen(copy);
    while (len > 1 && copy[len - 1] == '/') copy[--len] = '\0';
    char *slash = strrchr(copy, '/'); /* path_of makes every path absolute */
    ck_assert_ptr_nonnull(slash);
    *name = kg_xstrdup(slash + 1);
    slash[slash == copy] = '\0';
    const size_t dir = node_at(log, copy, true, &info);
    free(copy);
    return dir;
}

/* malloc'ed path of what a descriptor is open on, as the kernel says; NULL if it is not open. */
static char *opened(pid_t pid, int fd) {
    char link[64], path[PATH_MAX + 1];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    const ssize_t n = readlink(link, path, PATH_MAX);
    return n < 0 ? NULL : kg_xstrndup(path, (size_t)n);
}

static size_t node_of_fd(const struct kg_disk_log *log, pid_t pid, int fd, char **path) {
    struct stat info;
    char link[64];
    const size_t len = strlen(log->top);
    *path = opened(pid, fd);
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    /* Inode numbers come again: only what is below the folder may have one of ours. */
    if (!*path || strncmp(*path, log->top, len) != 0 || ((*path)[len] != '/' && (*path)[len] != '\0'))
        return KG_NO_NODE;
    return node_at(log, link, true, &info);
}

/* A name that is about to be another file's. */
static size_t about_to_go(const struct kg_disk_log *log, const char *path) {
    struct stat info;
    const size_t node = node_at(log, path, false, &info);
    return node != KG_NO_NODE && (S_ISDIR(info.st_mode) || info.st_nlink <= 1) ? node : KG_NO_NODE;
}

static bool read_open(const struct kg_disk_log *log, const char *path, uint64_t flags, struct kg_crash_call *call) {
    struct stat info;
    call->makes = call->by_descriptor = true;
    call->op = (struct kg_disk_op){ .kind = KG_DISK_CREATE, .dir = KG_NO_NODE };
    if ((flags & O_TMPFILE) == O_TMPFILE) return node_at(log, path, true, &info) != KG_NO_NODE;
    call->op.dir = parent_of(log, path, &call->op.name);
    if (call->op.dir == KG_NO_NODE) return false;
    if (lstat(path, &info) != 0) return (flags & O_CREAT) != 0;
    call->makes = false;
    call->op.kind = KG_DISK_CUT;
    call->op.node = node_at(log, path, true, &info);
    return (flags & O_TRUNC) != 0 && call->op.node != KG_NO_NODE && info.st_size > 0;
}

static bool read_move(const struct kg_disk_log *log, const char *path, const char *to, struct kg_crash_call *call) {
    struct stat info;
    call->op.kind = KG_DISK_RENAME;
    call->op.dir = parent_of(log, path, &call->op.name);
    call->op.to_dir = parent_of(log, to, &call->op.to_name);
    call->op.node = node_at(log, path, false, &info);
    const bool from_here = call->op.dir != KG_NO_NODE, to_here = call->op.to_dir != KG_NO_NODE;
    ck_assert_msg(from_here == to_here, "%s is renamed to %s, across the folder's border", path, to);
    if (from_here) call->replaced = about_to_go(log, to);
    return from_here && call->op.node != KG_NO_NODE;
}

static bool read_by_path(const struct kg_disk_log *log, const struct call_row *row, const char *path, const char *to,
                         struct kg_crash_call *call) {
    struct stat info;
    switch (row->shape) {
    case OPENS: return read_open(log, path, call->args[row->flags], call);
    case MOVES: return read_move(log, path, to, call);
    case MAKES_DIR:
        call->op.kind = KG_DISK_MKDIR;
        call->op.dir = parent_of(log, path, &call->op.name);
        call->makes = true;
        call->made_path = kg_xstrdup(path);
        return call->op.dir != KG_NO_NODE && lstat(path, &info) != 0;
    case REMOVES:
        call->op.kind = KG_DISK_UNLINK;
        call->op.dir = parent_of(log, path, &call->op.name);
        call->op.node = node_at(log, path, false, &info);
        call->replaced = about_to_go(log, path);
        return call->op.dir != KG_NO_NODE && call->op.node != KG_NO_NODE;
    case LINKS:
        call->op.kind = KG_DISK_LINK;
        call->op.dir = parent_of(log, to, &call->op.name);
        call->op.node = node_at(log, path, true, &info);
        return call->op.dir != KG_NO_NODE && call->op.node != KG_NO_NODE;
    default:
        call->op = (struct kg_disk_op){ .kind = KG_DISK_CUT, .at = call->args[1] };
        call->op.node = node_at(log, path, true, &info);
        return call->op.node != KG_NO_NODE;
    }
}

static bool read_by_fd(const struct kg_crash_calls *calls, pid_t pid, const struct call_row *row,
                       struct kg_crash_call *call) {
    const size_t node = node_of_fd(calls->log, pid, (int)call->args[row->fd], &call->op.name);
    call->op.node = node;
    call->op.kind = row->shape == WRITES ? KG_DISK_WRITE : row->shape == SYNCS ? KG_DISK_SYNC : KG_DISK_CUT;
    if (row->shape == CUTS_FD) call->op.at = call->args[1];
    if (node == KG_NO_NODE && row->shape == WRITES && call->op.name && strcmp(call->op.name, calls->said_path) == 0)
        call->op.kind = KG_DISK_SAY;
    return node != KG_NO_NODE || call->op.kind == KG_DISK_SAY;
}

bool kg_crash_call_read(const struct kg_crash_calls *calls, pid_t pid, uint64_t number, const uint64_t *args,
                        struct kg_crash_call *call) {
    const struct call_row *row = NULL;
    *call = (struct kg_crash_call){ .number = number, .replaced = KG_NO_NODE };
    memcpy(call->args, args, sizeof call->args);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS) && !row; i++)
        if ((uint64_t)ROWS[i].number == number) row = &ROWS[i];
    if (!row) return false;
    bool ours;
    if (row->shape == WRITES || row->shape == CUTS_FD || row->shape == SYNCS) {
        ours = read_by_fd(calls, pid, row, call);
    } else {
        const bool two = row->shape == MOVES || row->shape == LINKS;
        char *path = path_of(pid, args, row->fd, row->path);
        char *to = two && path ? path_of(pid, args, row->to_fd, row->to_path) : NULL;
        ours = path && (to || !two) && read_by_path(calls->log, row, path, to, call);
        free(to);
        free(path);
    }
    if (!ours) kg_crash_call_drop(call);
    return ours;
}

/* Where a write that names no place went: the descriptor stands behind it. */
static uint64_t written_at(pid_t pid, const struct kg_crash_call *call, int fd, uint64_t n) {
    char path[64], line[64] = "";
    unsigned long long pos = 0;
    if (call->number == SYS_pwrite64 || call->number == SYS_pwritev) return call->args[3];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)pid, fd);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file) || sscanf(line, "pos: %llu", &pos) != 1 || pos < n)
        ck_abort_msg("%s: '%s'", path, line);
    fclose(file);
    return pos - n;
}

/* What was written is read back from the file: one way for every call that writes. */
static void take_bytes(pid_t pid, const struct kg_crash_call *call, int64_t n, struct kg_disk_op *op) {
    const int fd = (int)call->args[call->number == SYS_copy_file_range ? 2 : 0];
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    const int file = open(link, O_RDONLY | O_CLOEXEC);
    op->n_bytes = (size_t)n;
    op->at = written_at(pid, call, fd, op->n_bytes);
    op->bytes = kg_xcalloc(1, op->n_bytes + 1);
    const ssize_t got = file < 0 ? -1 : pread(file, op->bytes, op->n_bytes, (off_t)op->at);
    ck_assert_msg(got == (ssize_t)op->n_bytes, "%s: %s", op->name, strerror(errno));
    close(file);
}

void kg_crash_call_done(const struct kg_crash_calls *calls, pid_t pid, int64_t result, struct kg_crash_call *call) {
    struct kg_disk_log *log = calls->log;
    struct kg_disk_op *op = &call->op;
    struct stat info;
    char link[64];
    const bool nothing = result < 0 || (op->kind == KG_DISK_WRITE && result == 0);
    if (!nothing && call->makes) {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, (int)result);
        const char *made = call->by_descriptor ? link : call->made_path;
        ck_assert_msg(stat(made, &info) == 0, "%s is not there", made);
        op->node = kg_disk_log_node(log, info.st_ino, op->kind == KG_DISK_MKDIR);
    }
    if (!nothing && call->replaced != KG_NO_NODE) log->nodes[call->replaced].gone = true;
    if (!nothing && (op->kind == KG_DISK_WRITE || op->kind == KG_DISK_SAY)) take_bytes(pid, call, result, op);
    if (nothing) {
        kg_crash_call_drop(call);
        return;
    }
    kg_disk_log_add(log, *op);
    *op = (struct kg_disk_op){ 0 };
    kg_crash_call_drop(call);
}

void kg_crash_call_drop(struct kg_crash_call *call) {
    free(call->op.name);
    free(call->op.to_name);
    free(call->op.bytes);
    free(call->made_path);
    *call = (struct kg_crash_call){ 0 };
}

bool kg_crash_tear_last(const struct kg_disk_log *log) {
    const struct kg_disk_op *op = &log->ops[log->n_ops - 1];
    struct stat info;
    if (op->kind != KG_DISK_WRITE || stat(op->name, &info) != 0) return false;
    if ((uint64_t)info.st_size != op->at + op->n_bytes) return false;
    return truncate(op->name, (off_t)(op->at + op->n_bytes / 2)) == 0;
}
