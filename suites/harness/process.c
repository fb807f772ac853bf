/* The child's streams are unnamed temporary files rather than pipes: no deadlock whatever it reads or writes, and in
 * what order. */
#include "suites/harness/process.h"
#include "suites/harness/must.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool same_name(const char *a, const char *b) {
    const size_t len = strcspn(a, "=");
    return len == strcspn(b, "=") && memcmp(a, b, len) == 0;
}

/* The overrides, and what this process's environment has besides. */
static char **merged_environment(const char *const *overrides) {
    size_t n_overrides = 0, n_inherited = 0, n = 0;
    while (overrides && overrides[n_overrides]) n_overrides++;
    while (environ[n_inherited]) n_inherited++;
    char **const merged = kg_xcalloc(n_overrides + n_inherited + 1, sizeof *merged);
    for (; n < n_overrides; n++) merged[n] = (char *)overrides[n];
    for (size_t i = 0; i < n_inherited; i++) {
        bool overridden = false;
        for (size_t k = 0; k < n_overrides; k++) overridden = overridden || same_name(environ[i], overrides[k]);
        if (!overridden) merged[n++] = environ[i];
    }
    return merged;
}

/* Between fork and exec: only calls that are safe after a fork of a process with threads. */
static void become(const struct kg_process *process, char **environment, int in, int out, int err) {
    signal(SIGPIPE, SIG_DFL);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) _exit(126);
    if (process->closed_stdout ? close(STDOUT_FILENO) < 0 : dup2(out, STDOUT_FILENO) < 0) _exit(126);
    execve(process->argv[0], (char *const *)process->argv, environment);
    _exit(127);
}

/* A descriptor that fails every write with EPIPE; -1 on failure. */
static int broken_pipe(void) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    close(ends[0]);
    return ends[1];
}

static void wait_for(pid_t child, double timeout_s, struct kg_process_result *result) {
    const uint64_t deadline = kg_clock_monotonic_ns() + (uint64_t)((timeout_s > 0 ? timeout_s : 60.0) * 1e9);
    const struct timespec pause = { .tv_nsec = 500000 };
    int state = 0;
    for (;;) {
        const pid_t ended = waitpid(child, &state, result->timed_out ? 0 : WNOHANG);
        if (ended == child) break;
        if (ended < 0 && errno != EINTR) return;
        if (kg_clock_monotonic_ns() > deadline) {
            result->timed_out = true;
            kill(child, SIGKILL);
        } else nanosleep(&pause, NULL);
    }
    if (WIFEXITED(state)) result->exit_code = WEXITSTATUS(state);
    if (WIFSIGNALED(state)) result->signal = WTERMSIG(state);
}

static char *take_all(FILE *file, size_t *len) {
    struct kg_buffer all = KG_BUFFER_INIT;
    char part[8192];
    rewind(file);
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) kg_buffer_append(&all, part, n);
    *len = all.len;
    return all.data ? all.data : kg_xstrdup("");
}

enum kg_status kg_process_run(const struct kg_process *process, struct kg_process_result *result,
                              struct kg_error *err) {
    enum kg_status status = KG_OK;
    FILE *const in = tmpfile(), *const out = tmpfile(), *const errors = tmpfile();
    char **const environment = merged_environment(process->env);
    const int broken = process->broken_stdout ? broken_pipe() : -1;
    *result = (struct kg_process_result){ .exit_code = -1 };
    if (!in || !out || !errors || (process->broken_stdout && broken < 0)) {
        status = kg_fail(err, KG_ERR_IO, "no streams for %s: %s", process->argv[0], strerror(errno));
        goto cleanup;
    }
    if (process->input_len > 0) {
        status = kg_fd_write(fileno(in), process->input, process->input_len, err);
        if (status != KG_OK) goto cleanup;
    }
    if (lseek(fileno(in), 0, SEEK_SET) != 0) {
        status = kg_fail(err, KG_ERR_IO, "input of %s: %s", process->argv[0], strerror(errno));
        goto cleanup;
    }
    const pid_t child = fork();
    if (child < 0) {
        status = kg_fail(err, KG_ERR_IO, "fork for %s: %s", process->argv[0], strerror(errno));
        goto cleanup;
    }
    if (child == 0) become(process, environment, fileno(in), broken >= 0 ? broken : fileno(out), fileno(errors));
    if (process->child) __atomic_store_n(process->child, child, __ATOMIC_RELEASE);
    wait_for(child, process->timeout_s, result);
    result->out = take_all(out, &result->out_len);
    result->err = take_all(errors, &result->err_len);
cleanup:
    if (broken >= 0) close(broken);
    free(environment);
    if (errors) fclose(errors);
    if (out) fclose(out);
    if (in) fclose(in);
    return status;
}

void kg_process_result_free(struct kg_process_result *result) {
    free(result->out);
    free(result->err);
    memset(result, 0, sizeof *result);
}

bool kg_process_has_program(const char *name) {
    const struct kg_process process = { .argv = ARGS("/bin/sh", "-c", "command -v \"$0\"", name) };
    struct kg_process_result r;
    struct kg_error err;
    kg_must(kg_process_run(&process, &r, &err), &err);
    const bool has = r.exit_code == 0;
    kg_process_result_free(&r);
    return has;
}
