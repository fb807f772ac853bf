#include "run/guard.h"
#include "base/clock.h"
#include <kigo/status.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that hangs in a driver cannot be killed; the guard does not wait for it longer. */
static const uint64_t KILL_LIMIT_NS = 2000000000u;

struct process {
    pid_t pid, parent;
    bool ours;
};

/* proc(5): /proc/PID/stat is "pid (name) state ppid ...", and the name may hold anything. */
static bool read_process(const char *name, struct process *out) {
    char path[32], text[512], state;
    out->pid = (pid_t)strtol(name, NULL, 10);
    if (out->pid <= 0) return false;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)out->pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *behind = strrchr(text, ')');
    return behind && sscanf(behind + 1, " %c %d", &state, &out->parent) == 2;
}

/* malloc'ed. */
static struct process *list_processes(size_t *n) {
    DIR *dir = opendir("/proc");
    struct process *list = NULL, read;
    size_t n_places = 0;
    *n = 0;
    if (!dir) return NULL;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        read = (struct process){ 0 };
        if (!read_process(entry->d_name, &read)) continue;
        if (*n == n_places) {
            struct process *more = realloc(list, (2 * n_places + 64) * sizeof *list);
            if (!more) break; /* those found so far, and the others in the next round */
            list = more;
            n_places = 2 * n_places + 64;
        }
        list[(*n)++] = read;
    }
    closedir(dir);
    return list;
}

static bool is_ours(const struct process *list, size_t n, pid_t pid) {
    if (pid == getpid()) return true;
    for (size_t i = 0; i < n; i++)
        if (list[i].pid == pid) return list[i].ours;
    return false;
}

/* Kills what descends from this process. */
static void kill_descendants(void) {
    size_t n;
    struct process *list = list_processes(&n);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < n; i++)
            if (!list[i].ours && is_ours(list, n, list[i].parent)) more = list[i].ours = true;
    }
    for (size_t i = 0; i < n; i++)
        if (list[i].ours) kill(list[i].pid, SIGKILL);
    free(list);
}

/* Reaps what has ended; false once there is no child left, and so no descendant: those whose parents end become this
 * process's children. */
static bool reap(pid_t program, int *wait_status, bool *ended) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == program) *wait_status = status, *ended = true;
    return pid == 0;
}

void kg_guard_end_all(pid_t program, int *wait_status) {
    bool ended;
    for (const uint64_t limit = kg_clock_monotonic_ns() + KILL_LIMIT_NS; kg_clock_monotonic_ns() < limit;) {
        if (!reap(program, wait_status, &ended)) break;
        kill_descendants();
        usleep(1000);
    }
}

static _Noreturn void end_as(int wait_status) {
    sigset_t none;
    sigemptyset(&none);
    if (WIFSIGNALED(wait_status)) {
        signal(WTERMSIG(wait_status), SIG_DFL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        raise(WTERMSIG(wait_status));
    }
    _exit(WIFSIGNALED(wait_status) ? KG_EXIT_INTERNAL : WEXITSTATUS(wait_status));
}

void kg_guard_begin(void) {
    sigset_t all;
    const struct rlimit no_core = { 0, 0 };
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGCONT); /* a case may have stopped it: it must see that the runner is gone */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

_Noreturn void kg_guard_watch(pid_t program, int alive_fd, int trouble_fd) {
    enum { ALIVE, ENDED };
    int wait_status = KG_EXIT_INTERNAL << 8;
    bool ended = false;
    sigset_t child;
    struct signalfd_siginfo news;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (dup2(alive_fd, ALIVE) < 0 || dup2(signalfd(-1, &child, SFD_NONBLOCK), ENDED) < 0) {
        dprintf(trouble_fd, "nothing to watch it by: %s", strerror(errno));
        ended = true;
    }
    close_range(ENDED + 1, ~0u, 0);
    struct pollfd fds[] = { { .fd = ALIVE, .events = POLLIN }, { .fd = ENDED, .events = POLLIN } };
    while (!ended && reap(program, &wait_status, &ended) && !ended && !(fds[0].revents & (POLLHUP | POLLERR)))
        if (poll(fds, 2, -1) > 0 && fds[1].revents)
            while (read(ENDED, &news, sizeof news) > 0) {}
    kg_guard_end_all(program, &wait_status);
    end_as(wait_status);
}
