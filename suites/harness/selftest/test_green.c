/* A suite whose cases pass; run by test_check_e2e. KIGO_SELFTEST_SLEEP_MS slows every case down,
 * KIGO_SELFTEST_MORE_LINES gives each a longer transcript, KIGO_SELFTEST_TIMED has them judge times,
 * KIGO_SELFTEST_LIMIT_S is the third one's time limit. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include <check.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long number_from(const char *variable) {
    const char *text = getenv(variable);
    return text ? atol(text) : 0;
}

/* A process of another session, whose parent is gone, that hears no SIGTERM and spins. */
static void leave_spinning(FILE *file) {
    const pid_t between = fork();
    if (between != 0) {
        waitpid(between, NULL, 0);
        return;
    }
    setsid();
    signal(SIGTERM, SIG_IGN);
    const pid_t spinning = fork();
    if (spinning == 0) {
        for (volatile long n = 0;; n++) {}
    }
    fprintf(file, "%ld ", (long)spinning);
    fflush(file);
    _exit(0);
}

/* The case that KIGO_SELFTEST_STUCK names says which process it is, which child it has in another process group, and
 * which further off. None ever ends. KIGO_SELFTEST_GUARD: a signal that it sends its guard. */
static void get_stuck(void) {
    const char *path = getenv("KIGO_SELFTEST_PID_FILE"), *guard = getenv("KIGO_SELFTEST_GUARD");
    char *draft = path ? kg_xasprintf("%s.draft", path) : NULL; /* whoever waits for the file finds all of it */
    FILE *file = draft ? fopen(draft, "w") : NULL;
    ck_assert_ptr_nonnull(file);
    leave_spinning(file);
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        for (;;) pause();
    }
    fprintf(file, "%ld %ld\n", (long)getpid(), (long)child);
    fclose(file);
    ck_assert_int_eq(rename(draft, path), 0);
    free(draft);
    if (guard) kill(getppid(), atoi(guard));
    for (;;) pause();
}

static void works(struct kg_record *rec, const void *arg) {
    const char *stuck = getenv("KIGO_SELFTEST_STUCK");
    if (stuck && strcmp(stuck, arg) == 0) get_stuck();
    const long ms = number_from("KIGO_SELFTEST_SLEEP_MS");
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
    const uint64_t samples_ns[] = { 30, 10, 20 };
    kg_record_timing(rec, "work", "host", "warm", samples_ns, KG_COUNT_OF(samples_ns), 8, 2);
    for (long i = number_from("KIGO_SELFTEST_MORE_LINES"); i >= 0; i--)
        kg_record_transcript(rec, json_pack("{s:s}", "text", "an old pond"));
    char path[4096];
    snprintf(path, sizeof path, "%s/left_behind", kg_scratch_dir(rec));
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
}

#define WORKS(name_)                                                                                                   \
    { .layer = "unit", .op = "green", .name = name_, .run = works, .arg = name_ }

static struct kg_case CASES[] = {
    WORKS("one"), WORKS("two"), WORKS("three"), WORKS("four"), WORKS("five"), WORKS("six"),
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) CASES[i].timed = number_from("KIGO_SELFTEST_TIMED") != 0;
    if (number_from("KIGO_SELFTEST_LIMIT_S")) CASES[2].timeout_s = (double)number_from("KIGO_SELFTEST_LIMIT_S");
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
