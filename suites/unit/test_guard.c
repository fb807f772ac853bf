/* What a guard does where memory lacks for a moment: this program defines realloc, which takes precedence over the C
 * library's. */
#include "run/guard.h"
#include "suites/harness/case.h"
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned n_to_fail, n_failed;

void *realloc(void *p, size_t size) {
    static void *(*real)(void *, size_t);
    if (n_to_fail > 0) {
        n_to_fail--, n_failed++;
        errno = ENOMEM;
        return NULL;
    }
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "realloc");
    return real(p, size);
}

/* A program, with a child in another session. Both wait for a signal, or for the end of the case, if that fails. */
static pid_t start_program(void) {
    int alive[2];
    char none;
    ck_assert_int_eq(pipe(alive), 0);
    const pid_t program = fork();
    if (program != 0) {
        close(alive[0]);
        return program;
    }
    close(alive[1]);
    if (fork() < 0) _exit(1);
    setsid();
    _exit(read(alive[0], &none, 1) == 0 ? 0 : 1);
}

/* Without the list of processes nothing can be killed; the next round has it. */
static void kills_once_there_is_memory(struct kg_record *rec, const void *arg) {
    int wait_status = 0, status;
    (void)rec;
    (void)arg;
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    const pid_t program = start_program();
    ck_assert_int_gt(program, 0);
    n_to_fail = 3;
    kg_guard_end_all(program, &wait_status);
    ck_assert_uint_eq(n_failed, 3);
    for (pid_t pid; (pid = waitpid(-1, &status, 0)) > 0;) /* killed, and not gone within the guard's 2 s */
        if (pid == program) wait_status = status;
    ck_assert(WIFSIGNALED(wait_status));
    ck_assert_int_eq(WTERMSIG(wait_status), SIGKILL);
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "guard", .name = "kills_once_there_is_memory", .run = kills_once_there_is_memory },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, sizeof CASES / sizeof *CASES);
}
