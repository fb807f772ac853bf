/* A library to preload into kigo, which makes one call fail: an allocation, or a call that reads or writes files. What
 * it obeys and reports is in fault_report.h. Calls inside libc itself are not seen, so functions that make them (fopen,
 * scandir, nftw) fail as a whole. */
#define _GNU_SOURCE
#include "suites/support/fault_report.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ftw.h>
#include <malloc.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_FRAMES = 24 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static struct kg_fault_report *report;
static bool counts_memory, counts_io, enabled;
static uint64_t fail_at;
static int n_frames = MAX_FRAMES;
static const char *denied_path, *full_path, *only;
static int full_code = ENOSPC;
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* FNV-1a over words. Places are compared within one run. */
static uint64_t hash_stack(void) {
    void *frames[MAX_FRAMES];
    uint64_t hash = UINT64_C(14695981039346656037);
    const int n = backtrace(frames, n_frames);
    for (int i = 2; i < n; i++) hash = (hash ^ (uintptr_t)frames[i]) * UINT64_C(1099511628211);
    return hash;
}

static void note_fault(const char *call, const char *path, int code) {
    __atomic_add_fetch(&report->n_failed, 1, __ATOMIC_SEQ_CST);
    report->code = code;
    size_t n = 0;
    const char *const parts[] = { call, path ? " " : "", path ? path : "" };
    for (size_t i = 0; i < 3; i++)
        for (const char *s = parts[i]; *s && n + 1 < sizeof report->call; s++) report->call[n++] = *s;
    report->call[n] = '\0';
    errno = code;
}

/* Whether a call of this name, made from this place, counts. */
static bool is_wanted(const char *call, const void *caller) {
    Dl_info info;
    if (!only || strcmp(call, only) == 0) return true;
    if (!caller) return false;
    inside = true;
    const bool found = dladdr(caller, &info) != 0 && info.dli_fname && strstr(info.dli_fname, only);
    inside = false;
    return found;
}

static bool due(bool counted, const char *call, const void *caller, const char *path, int code) {
    if (!enabled || !counted || inside || !is_wanted(call, caller)) return false;
    const uint64_t n = __atomic_add_fetch(&report->n_calls, 1, __ATOMIC_SEQ_CST);
    if (fail_at == 0 && n <= KG_FAULT_MAX_CALLS) {
        const int before = errno;
        inside = true;
        report->place[n - 1] = hash_stack();
        inside = false;
        errno = before;
    }
    if (n != fail_at) return false;
    note_fault(call, path, code);
    return true;
}

static bool memory(const char *call, const void *caller) {
    return due(counts_memory, call, caller, NULL, ENOMEM);
}

static bool io(const char *call, const char *path, int code) {
    return due(counts_io, call, NULL, path, code);
}

static bool ends_with(const char *path, const char *end) {
    const size_t len = strlen(path), n = strlen(end);
    return len >= n && strcmp(path + len - n, end) == 0;
}

static bool denied(const char *call, const char *path, int flags) {
    if (!enabled) return false;
    if (denied_path && ends_with(path, denied_path)) return note_fault(call, path, EACCES), true;
    const bool makes = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    if (full_path && makes && strstr(path, full_path) && access(path, F_OK) != 0)
        return note_fault(call, path, full_code), true;
    return false;
}

/* Whether a write through this descriptor meets a full disk. */
static bool is_full(const char *call, int fd) {
    char link[64], path[1024];
    if (!enabled || !full_path) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return false;
    path[n] = '\0';
    if (!strstr(path, full_path)) return false;
    note_fault(call, path, full_code);
    return true;
}

void *malloc(size_t size) {
    return memory("malloc", __builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    return memory("calloc", __builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
    return memory("realloc", __builtin_return_address(0)) ? NULL : __libc_realloc(p, size);
}

void *memalign(size_t alignment, size_t size) {
    return memory("memalign", __builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memory("aligned_alloc", __builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size) {
    void *got = memory("posix_memalign", __builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
    if (!got) return ENOMEM;
    *p = got;
    return 0;
}

#define REAL(name) ((__typeof__(&(name)))real(#name))

static void *real(const char *name) {
    const bool before = inside;
    inside = true; /* the loader may allocate */
    void *function = dlsym(RTLD_NEXT, name);
    inside = before;
    if (!function) abort();
    return function;
}

/* A function of fixed arguments that fails with `bad` and errno `code`. */
#define WRAP(type, bad, code, path, name, parameters, arguments)                                                       \
    type name parameters {                                                                                             \
        static __typeof__(&(name)) next;                                                                               \
        if (!next) next = REAL(name);                                                                                  \
        if (io(#name, path, code)) return bad;                                                                         \
        return next arguments;                                                                                         \
    }

/* A write, which also fails on a full disk. */
#define WRAP_WRITE(type, name, parameters, arguments)                                                                  \
    type name parameters {                                                                                             \
        static __typeof__(&(name)) next;                                                                               \
        if (!next) next = REAL(name);                                                                                  \
        if (io(#name, NULL, ENOSPC) || is_full(#name, fd)) return -1;                                                  \
        return next arguments;                                                                                         \
    }

#define WRAP_OPEN(name)                                                                                                \
    int name(const char *path, int flags, ...) {                                                                       \
        static __typeof__(&(name)) next;                                                                               \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        const mode_t mode = va_arg(args, mode_t);                                                                      \
        va_end(args);                                                                                                  \
        if (!next) next = REAL(name);                                                                                  \
        if (denied(#name, path, flags) || io(#name, path, flags & O_CREAT ? ENOSPC : EIO)) return -1;                  \
        return next(path, flags, mode);                                                                                \
    }

#define WRAP_OPENAT(name)                                                                                              \
    int name(int dir, const char *path, int flags, ...) {                                                              \
        static __typeof__(&(name)) next;                                                                               \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        const mode_t mode = va_arg(args, mode_t);                                                                      \
        va_end(args);                                                                                                  \
        if (!next) next = REAL(name);                                                                                  \
        if (denied(#name, path, flags) || io(#name, path, flags & O_CREAT ? ENOSPC : EIO)) return -1;                  \
        return next(dir, path, flags, mode);                                                                           \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)
WRAP(FILE *, NULL, EIO, path, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, NULL, EIO, path, fopen64, (const char *path, const char *mode), (path, mode))
WRAP(DIR *, NULL, EIO, path, opendir, (const char *path), (path))
WRAP(DIR *, NULL, EIO, NULL, fdopendir, (int fd), (fd))
WRAP(struct dirent *, NULL, EIO, NULL, readdir, (DIR * dir), (dir))
WRAP(struct dirent64 *, NULL, EIO, NULL, readdir64, (DIR * dir), (dir))
typedef int choose_fn(const struct dirent *);
typedef int order_fn(const struct dirent **, const struct dirent **);
WRAP(int, -1, EIO, path, scandir, (const char *path, struct dirent ***list, choose_fn *choose, order_fn *order),
     (path, list, choose, order))
WRAP(int, -1, EIO, path, scandirat,
     (int dir, const char *path, struct dirent ***list, choose_fn *choose, order_fn *order),
     (dir, path, list, choose, order))

/* It allocates as well. */
int nftw(const char *path, __nftw_func_t visit, int n, int flags) {
    static __typeof__(&nftw) next;
    if (!next) next = REAL(nftw);
    if (io("nftw", path, EIO) || memory("nftw", NULL)) return -1;
    return next(path, visit, n, flags);
}

WRAP(ssize_t, -1, EIO, NULL, read, (int fd, void *to, size_t n), (fd, to, n))
WRAP(ssize_t, -1, EIO, NULL, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
WRAP(ssize_t, -1, EIO, NULL, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
WRAP_WRITE(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
WRAP_WRITE(ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
WRAP_WRITE(ssize_t, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
WRAP_WRITE(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
WRAP(int, -1, EIO, NULL, ftruncate, (int fd, off_t n), (fd, n))
WRAP(int, -1, EIO, NULL, ftruncate64, (int fd, off64_t n), (fd, n))
WRAP(int, -1, EIO, path, truncate, (const char *path, off_t n), (path, n))
WRAP(int, -1, EIO, NULL, fsync, (int fd), (fd))
WRAP(int, -1, EIO, NULL, fdatasync, (int fd), (fd))
WRAP(int, -1, EIO, NULL, fchmod, (int fd, mode_t mode), (fd, mode))
WRAP(off_t, -1, EIO, NULL, lseek, (int fd, off_t at, int from), (fd, at, from))

WRAP(int, -1, EIO, path, stat, (const char *path, struct stat *info), (path, info))
WRAP(int, -1, EIO, path, lstat, (const char *path, struct stat *info), (path, info))
WRAP(int, -1, EIO, NULL, fstat, (int fd, struct stat *info), (fd, info))
WRAP(int, -1, EIO, path, stat64, (const char *path, struct stat64 *info), (path, info))
WRAP(int, -1, EIO, path, lstat64, (const char *path, struct stat64 *info), (path, info))
WRAP(int, -1, EIO, NULL, fstat64, (int fd, struct stat64 *info), (fd, info))
WRAP(int, -1, EIO, path, fstatat, (int dir, const char *path, struct stat *info, int flags), (dir, path, info, flags))
WRAP(int, -1, EIO, path, access, (const char *path, int mode), (path, mode))
WRAP(ssize_t, -1, EIO, path, readlink, (const char *path, char *to, size_t n), (path, to, n))
WRAP(char *, NULL, EIO, path, realpath, (const char *path, char *to), (path, to))

WRAP(int, -1, EIO, to, rename, (const char *from, const char *to), (from, to))
WRAP(int, -1, EIO, to, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
WRAP(int, -1, EIO, to, renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags))
WRAP(int, -1, ENOSPC, to, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
WRAP(int, -1, EIO, path, unlink, (const char *path), (path))
WRAP(int, -1, EIO, path, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
WRAP(int, -1, EIO, path, rmdir, (const char *path), (path))
WRAP(int, -1, EIO, path, remove, (const char *path), (path))
WRAP(int, -1, ENOSPC, path, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, -1, ENOSPC, path, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
WRAP(int, -1, ENOSPC, path, mkostemp, (char *path, int flags), (path, flags))
WRAP(char *, NULL, ENOSPC, path, mkdtemp, (char *path), (path))

WRAP(void *, MAP_FAILED, ENOMEM, NULL, mmap, (void *p, size_t n, int protect, int flags, int fd, off_t at),
     (p, n, protect, flags, fd, at))
WRAP(void *, MAP_FAILED, ENOMEM, NULL, mmap64, (void *p, size_t n, int protect, int flags, int fd, off64_t at),
     (p, n, protect, flags, fd, at))
WRAP(int, -1, ENOLCK, NULL, flock, (int fd, int operation), (fd, operation))
WRAP(int, -1, ENFILE, NULL, pipe2, (int ends[2], int flags), (ends, flags))
WRAP(int, -1, ENFILE, name, memfd_create, (const char *name, unsigned flags), (name, flags))
WRAP(int, -1, EIO, NULL, getentropy, (void *to, size_t n), (to, n))
WRAP(pid_t, -1, EAGAIN, NULL, fork, (void), ())
WRAP(int, EAGAIN, EAGAIN, path, posix_spawnp,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
      char *const argv[], char *const env[]),
     (pid, path, actions, attributes, argv, env))

/* A descriptor that fails to close is closed all the same. */
int close(int fd) {
    static __typeof__(&close) next;
    if (!next) next = REAL(close);
    const bool fails = io("close", NULL, EIO);
    const int result = next(fd);
    if (fails) errno = EIO;
    return fails ? -1 : result;
}

static void read_environment(void) {
    const char *program = getenv("KIGO_FAULT_PROGRAM"), *path = getenv("KIGO_FAULT_REPORT"),
               *kind = getenv("KIGO_FAULT_KIND"), *at = getenv("KIGO_FAULT_AT");
    char self[1024];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || !program || !path) return;
    self[n] = '\0';
    if (strcmp(self, program) != 0) return;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (mapped == MAP_FAILED) abort();
    void *frame;
    (void)!backtrace(&frame, 1); /* loads what it needs, outside of what counts */
    report = mapped;
    fail_at = at ? strtoull(at, NULL, 10) : 0;
    const char *depth = getenv("KIGO_FAULT_FRAMES");
    if (depth && atoi(depth) > 2 && atoi(depth) <= MAX_FRAMES) n_frames = atoi(depth);
    counts_memory = kind && strcmp(kind, "memory") == 0;
    counts_io = kind && strcmp(kind, "io") == 0;
    denied_path = getenv("KIGO_FAULT_PATH");
    full_path = getenv("KIGO_FAULT_FULL");
    only = getenv("KIGO_FAULT_ONLY");
    const char *code = getenv("KIGO_FAULT_FULL_ERRNO");
    if (code) full_code = atoi(code);
}

static void answer(int32_t value) {
    if (write(KG_FAULT_ANSWER_FD, &value, sizeof value) != (ssize_t)sizeof value) _exit(1);
}

/* Comes back in a new process for each number that is asked for. */
static void serve(void) {
    int64_t at;
    unsetenv("KIGO_FAULT_SERVE");
    while (read(KG_FAULT_ASK_FD, &at, sizeof at) == (ssize_t)sizeof at) {
        const pid_t pid = fork();
        if (pid == 0) {
            close(KG_FAULT_ASK_FD);
            close(KG_FAULT_ANSWER_FD);
            fail_at = (uint64_t)at;
            if (at < 0) report = NULL;
            return;
        }
        int state = 0;
        answer(pid);
        while (waitpid(pid, &state, 0) < 0 && errno == EINTR) continue;
        answer(state);
    }
    _exit(0);
}

typedef int main_fn(int, char **, char **);
static main_fn *real_main;

/* What happens before main and after it is the loader's and libc's. */
static int counted_main(int argc, char **argv, char **env) {
    read_environment();
    if (report && getenv("KIGO_FAULT_SERVE")) serve();
    enabled = report != NULL;
    const int code = real_main(argc, argv, env);
    enabled = false;
    return code;
}

/* libc's, which no header has. */
int __libc_start_main(main_fn *start, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end);

int __libc_start_main(main_fn *start, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end) {
    typedef int starter(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    real_main = start;
    return ((starter *)real("__libc_start_main"))(counted_main, argc, argv, init, fini, loader_fini, stack_end);
}
