/* Standard output is read from a pipe until it closes. Standard error goes to a memory file, which never blocks the
 * program. */
#include "base/program.h"
#include <errno.h>
#include <fcntl.h>
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

static enum kg_status spawn(const struct kg_program *program, int out_fd, int error_fd, pid_t *pid,
                            struct kg_error *err) {
    const char *input = program->input_path ? program->input_path : "/dev/null";
    if (access(input, R_OK) != 0) return kg_fail(err, KG_ERR_NOT_FOUND, "cannot read %s: %s", input, strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input, O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, error_fd, STDERR_FILENO);
    char **environment = make_environment(program);
    const int code =
        posix_spawnp(pid, program->argv[0], &actions, NULL, (char *const *)(uintptr_t)program->argv, environment);
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    return code == 0 ? KG_OK : kg_fail(err, KG_ERR_NOT_FOUND, "cannot run %s: %s", program->argv[0], strerror(code));
}

/* Reads to the end even past max_bytes: a closed pipe would kill the program. */
static void drain(int fd, size_t max_bytes, struct kg_buffer *out, bool *cut) {
    char block[1 << 14];
    size_t taken = 0;
    for (;;) {
        const ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        const size_t room = max_bytes - taken;
        const size_t take = (size_t)n < room ? (size_t)n : room;
        kg_buffer_append(out, block, take);
        taken += take;
        if (take < (size_t)n) *cut = true;
    }
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
        drain(ends[0], program->max_out_bytes, &result->out, &result->cut);
        while (waitpid(pid, &code, 0) < 0 && status == KG_OK)
            if (errno != EINTR)
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
