#include "suites/integration/fault_server.h"
#include "base/buffer.h"
#include "suites/support/fault_report.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000 };

struct kg_fault_server {
    pid_t pid;
    int ask, answers; /* ends of pipes */
    int out, err;     /* its calls' standard output and error */
};

/* Between fork and exec of a process without threads. */
static void become(const char *const *argv, const char *const *env, int in, int ask, int answers, int out, int err) {
    signal(SIGPIPE, SIG_DFL);
    for (; *env; env++)
        if (putenv((char *)*env) != 0) _exit(126);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 ||
        dup2(ask, KG_FAULT_ASK_FD) < 0 || dup2(answers, KG_FAULT_ANSWER_FD) < 0 || putenv("KIGO_FAULT_SERVE=1") != 0)
        _exit(126);
    execv(argv[0], (char *const *)argv);
    _exit(127);
}

/* A file without a name that is written at its end. */
static int stream(void) {
    const int fd = memfd_create("stream", MFD_CLOEXEC);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_APPEND), 0);
    return fd;
}

struct kg_fault_server *kg_fault_server_start(const char *const *argv, const char *const *env) {
    struct kg_fault_server *s = kg_xcalloc(1, sizeof *s);
    int ask[2], answers[2];
    ck_assert_int_eq(pipe2(ask, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(answers, O_CLOEXEC), 0);
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    s->out = stream();
    s->err = stream();
    s->pid = fork();
    ck_assert_int_ge(s->pid, 0);
    if (s->pid == 0) become(argv, env, in, ask[0], answers[1], s->out, s->err);
    close(in);
    close(ask[0]);
    close(answers[1]);
    s->ask = ask[1];
    s->answers = answers[0];
    return s;
}

static char *take_all(int fd, size_t *len) {
    struct kg_buffer all = KG_BUFFER_INIT;
    char part[8192];
    for (ssize_t n; (n = pread(fd, part, sizeof part, (off_t)all.len)) > 0;) kg_buffer_append(&all, part, (size_t)n);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    *len = all.len;
    return all.data ? all.data : kg_xstrdup("");
}

static void take(int fd, void *to, size_t n_bytes) {
    ssize_t n;
    do n = read(fd, to, n_bytes);
    while (n < 0 && errno == EINTR);
    ck_assert_msg(n == (ssize_t)n_bytes, "the program that is forked for each call has ended");
}

void kg_fault_server_call(struct kg_fault_server *s, int64_t at, struct kg_process_result *result) {
    struct pollfd ready = { .fd = s->answers, .events = POLLIN };
    int32_t pid, state;
    *result = (struct kg_process_result){ .exit_code = -1 };
    ck_assert_int_eq(write(s->ask, &at, sizeof at), sizeof at);
    take(s->answers, &pid, sizeof pid);
    ck_assert_msg(pid > 0, "no process for a call");
    if (poll(&ready, 1, TIMEOUT_MS) == 0) {
        result->timed_out = true;
        kill(pid, SIGKILL);
    }
    take(s->answers, &state, sizeof state);
    if (WIFEXITED(state)) result->exit_code = WEXITSTATUS(state);
    if (WIFSIGNALED(state)) result->signal = WTERMSIG(state);
    result->out = take_all(s->out, &result->out_len);
    result->err = take_all(s->err, &result->err_len);
}

void kg_fault_server_stop(struct kg_fault_server *s) {
    if (!s) return;
    int state;
    close(s->ask);
    close(s->answers);
    close(s->out);
    close(s->err);
    ck_assert_int_eq(waitpid(s->pid, &state, 0), s->pid);
    free(s);
}
