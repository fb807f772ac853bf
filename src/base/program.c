/* Standard output is read from a pipe until it closes. Standard error goes to a memory file, which never blocks the
 * program. */
#include "base/program.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static bool begins_with_any(const char *text, const char *const *beginnings) {
    for (size_t i = 0; beginnings && beginnings[i]; i++)
        if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

/* Allocates the array only; the strings are borrowed from this process's environment and from the program. */
static char **make_environment(const struct kg_program *program) {
    size_t n = 0, n_more = 0, used = 0;
    while (environ[n]) n++;
    while (program->env && program->env[n_more]) n_more++;
    char **copy = kg_xcalloc(n + n_more + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++)
        if (!begins_with_any(environ[i], program->without)) copy[used++] = environ[i];
    for (size_t i = 0; i < n_more; i++) copy[used++] = (char *)(uintptr_t)program->env[i];
    return copy;
}

/* A program or its input that is not there, or that nobody may run or read, is the user's to see to. */
static enum kg_status status_of(int code) {
    return code == ENOENT || code == ENOTDIR || code == EACCES || code == ENOEXEC ? KG_ERR_NOT_FOUND : KG_ERR_IO;
}

static enum kg_status spawn(const struct kg_program *program, int out_fd, int error_fd, pid_t *pid,
                            struct kg_error *err) {
    const char *input = program->input_path ? program->input_path : "/dev/null";
    if (access(input, R_OK) != 0)
        return kg_fail(err, program->input_path ? status_of(errno) : KG_ERR_IO, "cannot read %s: %s", input,
                       strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    /* One that is not noted for lack of memory would leave the program with this one's streams. */
    int code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input, O_RDONLY, 0);
    if (code == 0) code = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    if (code == 0) code = posix_spawn_file_actions_adddup2(&actions, error_fd, STDERR_FILENO);
    if (code == 0) code = posix_spawnattr_setpgroup(&attributes, 0);
    if (code == 0) code = posix_spawnattr_setflags(&attributes, program->cancelled ? POSIX_SPAWN_SETPGROUP : 0);
    char **environment = make_environment(program);
    if (code == 0)
        code = posix_spawnp(pid, program->argv[0], &actions, &attributes, (char *const *)(uintptr_t)program->argv,
                            environment);
    free(environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code == 0 ? KG_OK : kg_fail(err, status_of(code), "cannot run %s: %s", program->argv[0], strerror(code));
}

/* Waits for output as long as nobody cancels; false if somebody has. */
static bool wait_for_output(int fd, const struct kg_program *program) {
    enum { PAUSE_MS = 100 };
    struct pollfd output = { .fd = fd, .events = POLLIN };
    if (!program->cancelled) return true;
    do {
        if (program->cancelled(NULL)) return false;
    } while (poll(&output, 1, PAUSE_MS) <= 0);
    return true;
}

/* Reads to the end even past what is kept: a closed pipe would kill the program. */
static enum kg_status drain(int fd, const struct kg_program *program, struct kg_buffer *out, bool *cut,
                            struct kg_error *err) {
    char block[1 << 14];
    size_t taken = 0;
    for (;;) {
        if (!wait_for_output(fd, program))
            return kg_fail(err, KG_ERR_CANCELLED, "%s was ended by a signal to this program", program->argv[0]);
        const ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return kg_fail(err, KG_ERR_IO, "cannot read what %s writes: %s", program->argv[0], strerror(errno));
        if (n == 0) return KG_OK;
        const size_t room = program->max_out_bytes - taken;
        const size_t take = (size_t)n < room ? (size_t)n : room;
        kg_buffer_append(out, block, take);
        taken += take;
        if (take < (size_t)n) *cut = true;
    }
}

/* Asks the program, or its group where it has one, to end, and does not ask twice. What is left when its first process
 * has ended is killed before that is reaped, so that the group's number is still its own. */
static void end_program(const struct kg_program *program, pid_t pid) {
    enum { PATIENCE_MS = 10000, PAUSE_MS = 10 };
    const int patience_ms = program->patience_ms > 0 ? program->patience_ms : PATIENCE_MS;
    siginfo_t info = { 0 };
    const pid_t whom = program->cancelled ? -pid : pid;
    kill(whom, SIGTERM);
    for (int waited_ms = 0; waited_ms < patience_ms; waited_ms += PAUSE_MS) {
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0) break;
        poll(NULL, 0, PAUSE_MS);
    }
    kill(whom, SIGKILL);
}

static void take_errors(int fd, struct kg_buffer *errors) {
    enum { MAX_ERROR_BYTES = 4096 };
    char text[MAX_ERROR_BYTES];
    const ssize_t n = pread(fd, text, sizeof text, 0);
    size_t len = n > 0 ? (size_t)n : 0;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) len--;
    kg_buffer_append(errors, text, len);
}

enum kg_status kg_program_run(const struct kg_program *program, struct kg_program_result *result,
                              struct kg_error *err) {
    *result = (struct kg_program_result){ .exit_code = -1 };
    int ends[2] = { -1, -1 };
    const int error_fd = memfd_create("errors", MFD_CLOEXEC);
    pid_t pid = -1;
    enum kg_status status = KG_OK;
    if (error_fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
        status = kg_fail(err, KG_ERR_IO, "no streams for %s: %s", program->argv[0], strerror(errno));
    if (status == KG_OK) status = spawn(program, ends[1], error_fd, &pid, err);
    if (ends[1] >= 0) close(ends[1]);
    if (status == KG_OK) {
        int code = 0;
        status = drain(ends[0], program, &result->out, &result->cut, err);
        if (status != KG_OK) end_program(program, pid);
        pid_t reaped;
        do reaped = waitpid(pid, &code, 0);
        while (reaped < 0 && errno == EINTR);
        if (reaped < 0 && status == KG_OK)
            status = kg_fail(err, KG_ERR_IO, "cannot wait for %s: %s", program->argv[0], strerror(errno));
        if (status == KG_OK && WIFEXITED(code)) result->exit_code = WEXITSTATUS(code);
        take_errors(error_fd, &result->errors);
    }
    if (ends[0] >= 0) close(ends[0]);
    if (error_fd >= 0) close(error_fd);
    return status;
}

void kg_program_result_free(struct kg_program_result *result) {
    kg_buffer_free(&result->out);
    kg_buffer_free(&result->errors);
}

char *kg_program_complaint(const struct kg_program_result *result) {
    enum { MAX_LINES = 2 };
    char *text = kg_xstrdup(kg_buffer_text(&result->errors));
    int n_lines = 1;
    for (char *s = text; *s; s++) {
        if (*s != '\n' && *s != '\r') continue;
        if (*s == '\n' && n_lines++ == MAX_LINES) *s = '\0';
        else *s = ' ';
        if (!*s) break;
    }
    return text;
}
