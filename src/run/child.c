#include "run/child.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "run/guard.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct child_pipes {
    int alive[2];  /* its write end is the runner's alone: it closes when the runner dies */
    int events[2]; /* read end, write end */
    int log[2];
    int trouble[2]; /* a line of why the program was not started */
    int cases;      /* a memory file with the keys, -1 when listing */
};

struct program {
    char **argv, **environment;
};

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void close_pipes(struct child_pipes *p) {
    int *fds[] = { &p->alive[0], &p->alive[1], &p->events[0],  &p->events[1], &p->log[0],
                   &p->log[1],   &p->cases,    &p->trouble[0], &p->trouble[1] };
    for (size_t i = 0; i < KG_COUNT_OF(fds); i++) close_fd(fds[i]);
}

static enum kg_status open_pipes(const struct kg_child_spec *spec, struct child_pipes *p, struct kg_error *err) {
    *p = (struct child_pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 }, -1 };
    enum kg_status status = KG_OK;
    if (pipe2(p->alive, O_CLOEXEC) != 0 || pipe2(p->events, O_CLOEXEC) != 0 || pipe2(p->log, O_CLOEXEC) != 0 ||
        pipe2(p->trouble, O_CLOEXEC) != 0)
        status = kg_fail(err, KG_ERR_IO, "no pipe for %s: %s", spec->path, strerror(errno));
    if (status == KG_OK && spec->cases) {
        p->cases = memfd_create("kigo-cases", MFD_CLOEXEC);
        if (p->cases < 0) status = kg_fail(err, KG_ERR_IO, "no memory file for %s: %s", spec->path, strerror(errno));
        else status = kg_fd_write(p->cases, spec->cases, strlen(spec->cases), err);
        if (status == KG_OK && lseek(p->cases, 0, SEEK_SET) != 0)
            status = kg_fail(err, KG_ERR_IO, "the cases for %s: %s", spec->path, strerror(errno));
    }
    if (status != KG_OK) close_pipes(p);
    return status;
}

/* Check's own switches would change which tests run and write files; a nested runner must not see its parent's
 * arguments, nor what this run was not asked for.
 */
static bool is_inherited(const char *entry) {
    static const char *const OURS[] = {
        "CK_FORK",        "CK_RUN_CASE",      "CK_RUN_SUITE",         "CK_INCLUDE_TAGS",      "CK_EXCLUDE_TAGS",
        "CK_VERBOSITY",   "CK_LOG_FILE_NAME", "CK_XML_LOG_FILE_NAME", "CK_TAP_LOG_FILE_NAME", "CK_DEFAULT_TIMEOUT",
        "KIGO_EVENTS_FD", "KIGO_CASES_FD",    "KIGO_SUITES",          "KIGO_BUNDLES",         "KIGO_BENCH_COUNTED",
        "KIGO_HISTORY",   "KIGO_BUILT_FROM",  "KIGO_MODELS",          "KIGO_BENCH",           "KIGO_BENCH_NCU"
    };
    const size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < KG_COUNT_OF(OURS); i++)
        if (strlen(OURS[i]) == len && memcmp(OURS[i], entry, len) == 0) return false;
    return true;
}

/* Replaces the variable, or adds it to the list, which has room; NULL leaves it as it is. */
static void put_variable(char **list, const char *variable, const char *value) {
    const size_t len = strlen(variable);
    size_t i = 0;
    if (!value) return;
    while (list[i] && (strncmp(list[i], variable, len) != 0 || list[i][len] != '=')) i++;
    free(list[i]);
    list[i] = kg_xasprintf("%s=%s", variable, value);
}

/* The program's, made before the fork: a child of a process with threads may not allocate. malloc'ed. */
static char **make_environment(const struct kg_child_spec *spec, const struct child_pipes *p) {
    const struct kg_child_surroundings *around = spec->surroundings;
    char events[16], cases[16];
    snprintf(events, sizeof events, "%d", p->events[1]);
    snprintf(cases, sizeof cases, "%d", p->cases);
    const struct {
        const char *name, *value;
    } put[] = {
        { "KIGO_BUILT_FROM", kg_built_from() },
        { "KIGO_MODELS", around->models },
        { "KIGO_BENCH", around->bench },
        { "KIGO_BENCH_NCU", around->counted },
        { "KIGO_PROGRAM", around->kigo_path },
        { "TMPDIR", around->scratch },
        { "KIGO_EVENTS_FD", spec->cases ? events : NULL },
        { "KIGO_CASES_FD", spec->cases ? cases : NULL },
    };
    size_t n = 0, n_before = 0;
    while (environ[n_before]) n_before++;
    char **list = kg_xcalloc(n_before + KG_COUNT_OF(put) + 1, sizeof *list);
    for (size_t i = 0; i < n_before; i++)
        if (is_inherited(environ[i])) list[n++] = kg_xstrdup(environ[i]);
    for (size_t i = 0; i < KG_COUNT_OF(put); i++) put_variable(list, put[i].name, put[i].value);
    return list;
}

static void free_environment(char **list) {
    for (size_t i = 0; list[i]; i++) free(list[i]);
    free(list);
}

/* Async-signal-safe; what cannot be written is lost. */
static void write_parts(int fd, const char *const *parts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (write(fd, parts[i], strlen(parts[i])) < 0) return;
}

/* For the runner: why the program was not started. */
_Noreturn static void give_up(const struct child_pipes *p, const char *doing) {
    const char *const parts[] = { doing, ": ", strerrordesc_np(errno) };
    write_parts(p->trouble[1], parts, KG_COUNT_OF(parts));
    _exit(KG_EXIT_INTERNAL);
}

/* What the program's process does between fork and exec; all of it is async-signal-safe. Never returns. */
static void become(const struct program *program, struct child_pipes *p, pid_t guard) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) _exit(KG_EXIT_INTERNAL); /* the guard died before the line above */
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    const int null = open("/dev/null", O_RDONLY);
    const bool listing = p->cases < 0;
    if (null < 0) give_up(p, "cannot open /dev/null");
    if (dup2(null, STDIN_FILENO) < 0 || dup2(p->log[1], STDERR_FILENO) < 0 ||
        dup2(listing ? p->events[1] : p->log[1], STDOUT_FILENO) < 0)
        give_up(p, "no standard streams");
    if (!listing && (fcntl(p->events[1], F_SETFD, 0) != 0 || fcntl(p->cases, F_SETFD, 0) != 0))
        give_up(p, "no descriptors");
    execve(program->argv[0], program->argv, program->environment);
    const char *const said[] = { program->argv[0], " could not be started: ", strerrordesc_np(errno), "\n" };
    write_parts(p->log[1], said, KG_COUNT_OF(said));
    _exit(127);
}

/* In the guard's process: never returns. */
static void guard(const struct program *start, struct child_pipes *p) {
    const pid_t own = getpid();
    kg_guard_begin();
    const pid_t program = fork();
    if (program == 0) become(start, p, own);
    if (program < 0) give_up(p, "no process");
    kg_guard_watch(program, p->alive[0], p->trouble[1]);
}

enum kg_status kg_child_start(const struct kg_child_spec *spec, struct kg_child *child, struct kg_error *err) {
    struct child_pipes p;
    const enum kg_status status = open_pipes(spec, &p, err);
    if (status != KG_OK) return status;
    char seed[32];
    snprintf(seed, sizeof seed, "%" PRIu64, spec->surroundings->seed);
    char *argv[] = { (char *)(uintptr_t)spec->path, (char *)(uintptr_t) "--seed", seed,
                     spec->cases ? NULL : (char *)(uintptr_t) "--list", NULL };
    const struct program start = { argv, make_environment(spec, &p) };
    const pid_t pid = fork();
    if (pid == 0) guard(&start, &p);
    free_environment(start.environment);
    if (pid < 0) {
        close_pipes(&p);
        return kg_fail(err, KG_ERR_NO_MEMORY, "no process for %s: %s", spec->path, strerror(errno));
    }
    *child = (struct kg_child){ pid, p.alive[1], p.events[0], p.log[0], p.trouble[0] };
    p.alive[1] = p.events[0] = p.log[0] = p.trouble[0] = -1;
    close_pipes(&p);
    fcntl(child->events_fd, F_SETFL, O_NONBLOCK);
    fcntl(child->log_fd, F_SETFL, O_NONBLOCK);
    fcntl(child->trouble_fd, F_SETFL, O_NONBLOCK);
    return KG_OK;
}

enum kg_status kg_child_trouble(const struct kg_child *child, const char *path, struct kg_error *err) {
    char why[256];
    ssize_t n;
    do n = read(child->trouble_fd, why, sizeof why - 1);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN)
        return kg_fail(err, KG_ERR_IO, "whether %s was started is not known: %s", path, strerror(errno));
    if (n <= 0) return KG_OK;
    why[n] = '\0';
    return kg_fail(err, KG_ERR_IO, "%s was not started: %s", path, why);
}

void kg_child_kill(struct kg_child *child) {
    close_fd(&child->alive_fd);
    if (child->pid > 0) kill(child->pid, SIGCONT); /* a case may have stopped its guard */
}

bool kg_child_ended(struct kg_child *child, int *wait_status) {
    if (child->pid <= 0) return false;
    pid_t pid;
    while ((pid = waitpid(child->pid, wait_status, WNOHANG)) < 0 && errno == EINTR) {}
    if (pid == 0) return false;
    child->pid = 0;
    return true;
}

void kg_child_close(struct kg_child *child) {
    close_fd(&child->alive_fd);
    close_fd(&child->events_fd);
    close_fd(&child->log_fd);
    close_fd(&child->trouble_fd);
}

void kg_child_describe_end(int wait_status, char *text, size_t size_bytes) {
    if (WIFSIGNALED(wait_status))
        snprintf(text, size_bytes, "ended by signal %d (%s)", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else snprintf(text, size_bytes, "ended with exit code %d", WEXITSTATUS(wait_status));
}
