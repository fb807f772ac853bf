#include "run/child.h"
#include "base/file.h"
#include "base/say.h"
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

static bool set_or_unset(const char *variable, const char *value) {
    return value ? setenv(variable, value, 1) == 0 : unsetenv(variable) == 0;
}

/* Check's own switches would change which tests run and write files; a nested runner must not see its parent's
 * arguments.
 */
static void clean_environment(void) {
    static const char *const VARIABLES[] = {
        "CK_FORK",        "CK_RUN_CASE",      "CK_RUN_SUITE",         "CK_INCLUDE_TAGS",      "CK_EXCLUDE_TAGS",
        "CK_VERBOSITY",   "CK_LOG_FILE_NAME", "CK_XML_LOG_FILE_NAME", "CK_TAP_LOG_FILE_NAME", "CK_DEFAULT_TIMEOUT",
        "KIGO_EVENTS_FD", "KIGO_CASES_FD",    "KIGO_SUITES",          "KIGO_BUNDLES",         "KIGO_BENCH_COUNTED",
        "KIGO_HISTORY"
    };
    for (size_t i = 0; i < KG_COUNT_OF(VARIABLES); i++) unsetenv(VARIABLES[i]);
}

static bool pass_fd(const char *variable, int fd) {
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    return setenv(variable, number, 1) == 0 && fcntl(fd, F_SETFD, 0) == 0;
}

/* What a program reads there is part of what it does: one without it would be another run. */
static bool set_environment(const struct kg_child_spec *spec, const struct child_pipes *p) {
    const struct kg_child_surroundings *around = spec->surroundings;
    clean_environment();
    bool good = setenv("KIGO_BUILT_FROM", kg_built_from(), 1) == 0 && set_or_unset("KIGO_MODELS", around->models) &&
                set_or_unset("KIGO_BENCH", around->bench) && set_or_unset("KIGO_BENCH_NCU", around->counted);
    if (good && around->kigo_path) good = setenv("KIGO_PROGRAM", around->kigo_path, 1) == 0;
    if (good && around->scratch) good = setenv("TMPDIR", around->scratch, 1) == 0;
    if (good && spec->cases) good = pass_fd("KIGO_EVENTS_FD", p->events[1]) && pass_fd("KIGO_CASES_FD", p->cases);
    return good;
}

/* For the runner: why the program was not started. */
_Noreturn static void give_up(const struct child_pipes *p, const char *doing) {
    dprintf(p->trouble[1], "%s: %s", doing, strerror(errno));
    _exit(KG_EXIT_INTERNAL);
}

/* In the program's process, between fork and exec: never returns. */
static void become(const struct kg_child_spec *spec, struct child_pipes *p, pid_t guard) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) _exit(KG_EXIT_INTERNAL); /* the guard died before the line above */
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    const int null = open("/dev/null", O_RDONLY);
    const bool listing = !spec->cases;
    if (null < 0) give_up(p, "cannot open /dev/null");
    if (dup2(null, STDIN_FILENO) < 0 || dup2(p->log[1], STDERR_FILENO) < 0 ||
        dup2(listing ? p->events[1] : p->log[1], STDOUT_FILENO) < 0)
        give_up(p, "no standard streams");
    if (!set_environment(spec, p)) give_up(p, "no environment");
    char seed[32];
    snprintf(seed, sizeof seed, "%" PRIu64, spec->surroundings->seed);
    char *argv[] = { (char *)spec->path, (char *)"--seed", seed, listing ? (char *)"--list" : NULL, NULL };
    execv(spec->path, argv);
    kg_say(stderr, "%s could not be started: %s\n", spec->path, strerror(errno));
    _exit(127);
}

/* In the guard's process: never returns. */
static void guard(const struct kg_child_spec *spec, struct child_pipes *p) {
    const pid_t own = getpid();
    kg_guard_begin();
    const pid_t program = fork();
    if (program == 0) become(spec, p, own);
    if (program < 0) give_up(p, "no process");
    kg_guard_watch(program, p->alive[0], p->trouble[1]);
}

enum kg_status kg_child_start(const struct kg_child_spec *spec, struct kg_child *child, struct kg_error *err) {
    struct child_pipes p;
    const enum kg_status status = open_pipes(spec, &p, err);
    if (status != KG_OK) return status;
    const pid_t pid = fork();
    if (pid == 0) guard(spec, &p);
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
