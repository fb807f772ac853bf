#include "suites/integration/crash_trace.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/integration/crash_calls.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_START = 126, MAX_TRACED = 256 };

struct tracer {
    const struct kg_crash_run *run;
    struct kg_crash_calls calls;
    struct kg_crash_end *end;
    pid_t first, traced[MAX_TRACED];
    size_t n_traced;
};

/* LeakSanitizer cannot work in a process that is traced. */
static void leave_leaks_alone(void) {
    const char *options = getenv("ASAN_OPTIONS");
    char all[1024];
    snprintf(all, sizeof all, "%s%sdetect_leaks=0", options ? options : "", options ? ":" : "");
    setenv("ASAN_OPTIONS", all, 1);
}

static _Noreturn void become(const struct kg_crash_run *run, int go) {
    char byte;
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int said = open(run->said_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    leave_leaks_alone();
    if (null < 0 || said < 0 || dup2(null, 0) < 0 || dup2(said, 1) < 0 || dup2(null, 2) < 0) _exit(CANNOT_START);
    if (read(go, &byte, 1) != 1 || !kg_crash_filter_calls()) _exit(CANNOT_START);
    execv(run->argv[0], (char *const *)(uintptr_t)run->argv);
    _exit(CANNOT_START + 1);
}

static enum kg_status start(struct tracer *t, struct kg_error *err) {
    const long OPTIONS = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                         PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    int go[2];
    if (pipe2(go, O_CLOEXEC) != 0) return kg_fail(err, KG_ERR_IO, "no pipe: %s", strerror(errno));
    t->first = fork();
    if (t->first == 0) become(t->run, go[0]);
    close(go[0]);
    enum kg_status status = t->first < 0 ? kg_fail(err, KG_ERR_IO, "fork: %s", strerror(errno)) : KG_OK;
    if (status == KG_OK && ptrace(PTRACE_SEIZE, t->first, NULL, OPTIONS) != 0)
        status = kg_fail(err, KG_ERR_UNSUPPORTED, "ptrace: %s", strerror(errno));
    if (status == KG_OK && write(go[1], "g", 1) != 1) status = kg_fail(err, KG_ERR_IO, "pipe: %s", strerror(errno));
    close(go[1]);
    if (status != KG_OK && t->first > 0) {
        kill(t->first, SIGKILL);
        waitpid(t->first, NULL, 0);
    }
    return status;
}

static void note_traced(struct tracer *t, pid_t pid) {
    for (size_t i = 0; i < t->n_traced; i++)
        if (t->traced[i] == pid) return;
    if (t->n_traced < MAX_TRACED) t->traced[t->n_traced++] = pid;
}

static void drop_traced(struct tracer *t, pid_t pid) {
    for (size_t i = 0; i < t->n_traced; i++)
        if (t->traced[i] == pid) t->traced[i--] = t->traced[--t->n_traced];
}

/* All at once, as when the machine stops. */
static void kill_all(const struct tracer *t) {
    for (size_t i = 0; i < t->n_traced; i++) kill(t->traced[i], SIGKILL);
}

/* Lets the call do its work; others stand still meanwhile or run on, but change nothing that is written down before.
 * False if the process ended in it. */
static bool finish_call(pid_t pid, int64_t *result) {
    struct __ptrace_syscall_info info;
    int state;
    if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) != 0 || waitpid(pid, &state, __WALL) != pid || !WIFSTOPPED(state))
        return false;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) <= 0) return false;
    if (info.op != PTRACE_SYSCALL_INFO_EXIT) return false;
    *result = info.exit.is_error ? -1 : info.exit.rval;
    return true;
}

/* At the entry of a call that the filter stopped. True if all were killed for it. */
static bool at_call(struct tracer *t, pid_t pid) {
    struct __ptrace_syscall_info info;
    struct kg_crash_call call;
    int64_t result;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) <= 0 || info.op != PTRACE_SYSCALL_INFO_SECCOMP)
        return false;
    if (!kg_crash_call_read(&t->calls, pid, info.seccomp.nr, info.seccomp.args, &call)) return false;
    const bool changes = call.op.kind != KG_DISK_SYNC && call.op.kind != KG_DISK_SAY;
    const bool last = changes && ++t->end->n_changes == t->run->kill_at;
    if (last && !(t->run->torn && call.op.kind == KG_DISK_WRITE)) {
        kg_crash_call_drop(&call);
        kill_all(t);
        return true;
    }
    if (finish_call(pid, &result)) kg_crash_call_done(&t->calls, pid, result, &call);
    else kg_crash_call_drop(&call);
    if (last) {
        kill_all(t);
        t->end->tore = kg_crash_tear_last(t->calls.log);
    }
    return last;
}

/* One report of waitpid. */
static void at_stop(struct tracer *t, pid_t pid, int state, bool *killed) {
    const int event = state >> 16, sign = WSTOPSIG(state);
    unsigned long made = 0;
    note_traced(t, pid);
    if (*killed) {
        kill(pid, SIGKILL);
        return;
    }
    if (event == PTRACE_EVENT_SECCOMP) *killed = at_call(t, pid);
    if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
        if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &made) == 0) note_traced(t, (pid_t)made);
    const bool own = event != 0 || sign == (SIGTRAP | 0x80); /* a stop of ptrace's, no signal */
    if (!*killed) ptrace(PTRACE_CONT, pid, NULL, (long)(own ? 0 : sign));
}

enum kg_status kg_crash_trace(const struct kg_crash_run *run, struct kg_disk_log *log, struct kg_crash_end *end,
                              struct kg_error *err) {
    struct tracer t = { .run = run, .end = end, .calls = { .log = log, .said_path = run->said_path } };
    int state;
    bool killed = false;
    *end = (struct kg_crash_end){ .exit_code = -1 };
    const enum kg_status status = start(&t, err);
    if (status != KG_OK) return status;
    note_traced(&t, t.first);
    for (pid_t pid; (pid = waitpid(-1, &state, __WALL)) > 0 || errno == EINTR;) {
        if (pid < 0) continue;
        if (WIFSTOPPED(state)) {
            at_stop(&t, pid, state, &killed);
            continue;
        }
        drop_traced(&t, pid);
        if (pid == t.first && WIFEXITED(state)) end->exit_code = WEXITSTATUS(state);
    }
    if (end->exit_code == CANNOT_START)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "no seccomp filter, or no file %s", run->said_path);
    return KG_OK;
}
