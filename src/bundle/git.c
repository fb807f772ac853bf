#include "bundle/git.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* This process's environment without GIT_* and LC_ALL; array and first strings as posix_spawn wants them. */
static char **make_environment(void) {
    static char LOCKS[] = "GIT_OPTIONAL_LOCKS=0", LOCALE[] = "LC_ALL=C", PROMPT[] = "GIT_TERMINAL_PROMPT=0";
    size_t n = 0;
    while (environ[n]) n++;
    char **copy = kg_xcalloc(n + 4, sizeof *copy);
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "GIT_", 4) != 0 && strncmp(environ[i], "LC_ALL=", 7) != 0) copy[used++] = environ[i];
    copy[used++] = LOCKS;
    copy[used++] = LOCALE;
    copy[used++] = PROMPT;
    return copy;
}

static enum kg_status spawn(char *const *argv, int *out_fd, pid_t *pid, struct kg_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return kg_fail(err, KG_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    char **environment = make_environment();
    const int code = posix_spawnp(pid, argv[0], &actions, NULL, argv, environment);
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (code != 0) {
        close(ends[0]);
        return kg_fail(err, KG_ERR_NOT_FOUND, "cannot run %s: %s", argv[0], strerror(code));
    }
    *out_fd = ends[0];
    return KG_OK;
}

/* Reads to the end even past max_bytes, so that the child never meets a closed pipe. */
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

enum kg_status kg_git(const char *dir, const char *const *words, size_t max_bytes, struct kg_buffer *out, bool *cut,
                      struct kg_error *err) {
    /* safe.directory: the tree often belongs to another user in a CI container; fsmonitor: a program the tree could name. */
    static const char *const FIRST[] = { "git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C" };
    enum { N_FIRST = sizeof FIRST / sizeof *FIRST, MAX_WORDS = 12 };
    const char *argv[N_FIRST + 1 + MAX_WORDS + 1] = { NULL };
    size_t n = 0;
    for (; n < N_FIRST; n++) argv[n] = FIRST[n];
    argv[n++] = dir;
    for (size_t i = 0; i < MAX_WORDS && words[i]; i++) argv[n++] = words[i];

    int fd = -1;
    pid_t pid = -1;
    bool own_cut = false;
    const enum kg_status status = spawn((char *const *)(uintptr_t)argv, &fd, &pid, err);
    if (status != KG_OK) return status;
    drain(fd, max_bytes, out, cut ? cut : &own_cut);
    close(fd);
    int code = 0;
    while (waitpid(pid, &code, 0) < 0)
        if (errno != EINTR) return kg_fail(err, KG_ERR_IO, "git %s: cannot wait: %s", words[0], strerror(errno));
    if (WIFEXITED(code) && WEXITSTATUS(code) == 0) return KG_OK;
    return kg_fail(err, KG_ERR_UNSUPPORTED, "git %s in %s ended with code %d", words[0], dir,
                   WIFEXITED(code) ? WEXITSTATUS(code) : -1);
}
