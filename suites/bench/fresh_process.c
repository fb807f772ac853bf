#include "suites/bench/fresh_process.h"
#include "base/clock.h"
#include <check.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads what the child writes to its end. */
static void read_all(int fd, const char *until, uint64_t spawned_ns, struct kg_fresh_times *times) {
    char part[4096];
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0) kg_buffer_append(&times->out, part, (size_t)n);
        if (n > 0 && times->said_ns == 0 && (!until || strstr(kg_buffer_text(&times->out), until)))
            times->said_ns = kg_clock_monotonic_ns() - spawned_ns;
    }
}

/* The variable comes first: of two of a name the first one counts. The array is malloc'ed. */
static char **environment_with(const char *variable) {
    size_t n = 0, used = 0;
    while (environ[n]) n++;
    char **copy = kg_xcalloc(n + 2, sizeof *copy);
    if (variable) copy[used++] = (char *)(uintptr_t)variable;
    memcpy(copy + used, environ, n * sizeof *copy);
    return copy;
}

bool kg_fresh_process_run(const struct kg_fresh_process *process, struct kg_fresh_times *times) {
    *times = (struct kg_fresh_times){ .out = KG_BUFFER_INIT, .exit_code = -1 };
    FILE *const errors = tmpfile();
    char **environment = environment_with(process->variable);
    posix_spawn_file_actions_t actions;
    int ends[2], state;
    pid_t child;
    ck_assert_ptr_nonnull(errors);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, fileno(errors), STDERR_FILENO), 0);
    ck_assert_int_eq(posix_spawn_file_actions_addclose(&actions, ends[0]), 0);
    ck_assert_int_eq(posix_spawn_file_actions_addclose(&actions, ends[1]), 0);
    const uint64_t spawned_ns = kg_clock_monotonic_ns();
    const int code =
        posix_spawnp(&child, process->argv[0], &actions, NULL, (char *const *)(uintptr_t)process->argv, environment);
    ck_assert_msg(code == 0 || code == ENOENT, "%s: %s", process->argv[0], strerror(code));
    close(ends[1]);
    if (code == 0) {
        read_all(ends[0], process->until, spawned_ns, times);
        while (waitpid(child, &state, 0) < 0) ck_assert_int_eq(errno, EINTR);
        times->end_ns = kg_clock_monotonic_ns() - spawned_ns;
        times->exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    }
    close(ends[0]);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    rewind(errors);
    times->complaint[fread(times->complaint, 1, sizeof times->complaint - 1, errors)] = '\0';
    fclose(errors);
    return code == 0;
}

void kg_fresh_times_free(struct kg_fresh_times *times) {
    kg_buffer_free(&times->out);
}
