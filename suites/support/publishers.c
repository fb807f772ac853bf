#include "suites/support/publishers.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include "suites/support/bundle_maker.h"
#include <kigo/history.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VERB_TIMEOUT_S = 600 };

/* What a child leaves behind, in memory that it shares with the case. */
struct account {
    struct kg_published done;
    char complaint[512]; /* "" of a child to which all went well */
};

/* Runs a verb, which has nothing to say but what it was asked. */
static bool run_verb(const char *root, const char *verb, struct account *account) {
    const char *const argv[] = { kg_program_path(), verb, "--bundles", root, "--json", NULL };
    const struct kg_process process = { .argv = argv, .timeout_s = VERB_TIMEOUT_S };
    struct kg_process_result result;
    struct kg_error err;
    if (kg_process_run(&process, &result, &err) != KG_OK) {
        snprintf(account->complaint, sizeof account->complaint, "kigo %s: %.400s", verb, err.message);
        return false;
    }
    const bool good = result.exit_code == KG_EXIT_OK && result.err_len == 0;
    if (!good)
        snprintf(account->complaint, sizeof account->complaint, "kigo %s ended with %d%s: %.300s", verb,
                 result.exit_code, result.timed_out ? " (too late)" : "", result.err);
    kg_process_result_free(&result);
    return good;
}

static bool publish(const char *root, struct account *account) {
    static const char *const STATUSES[] = { "pass", "fail" };
    struct kg_bundle_summary summary = { .note = "" };
    struct kg_error err;
    const bool sealed = kg_maker_write(root, STATUSES, 2, &summary, &err) == KG_OK;
    if (!sealed || summary.note[0])
        snprintf(account->complaint, sizeof account->complaint, "publishing: %.400s",
                 sealed ? summary.note : err.message);
    return sealed && !summary.note[0];
}

/* A child's life; no ck_assert, which would go on with the parent's code. Publishing comes last, so that no rebuild or
 * question makes good what the last run of all left out of the index. */
static void live(const char *root, int number, uint64_t until_ns, struct account *account) {
    enum { PERIOD = 8 }; /* each child rebuilds the index once and queries it once in so many runs */
    bool good = true;
    for (int k = number; good && (account->done.n_runs == 0 || kg_clock_monotonic_ns() < until_ns); k++) {
        if (k % PERIOD == 0) {
            good = run_verb(root, "reindex", account);
            account->done.n_reindexed++;
        } else if (k % PERIOD == PERIOD / 2) {
            good = run_verb(root, "list", account);
            account->done.n_asked++;
        }
        good = good && publish(root, account);
        account->done.n_runs += good;
    }
}

/* Waits for all of them first: a failed case leaves none behind. */
static void expect_good_ends(const pid_t *children, const struct account *accounts) {
    int states[KG_PUBLISHERS];
    for (int i = 0; i < KG_PUBLISHERS; i++)
        while (waitpid(children[i], &states[i], 0) < 0) ck_assert_int_eq(errno, EINTR);
    for (int i = 0; i < KG_PUBLISHERS; i++) {
        ck_assert_msg(!accounts[i].complaint[0], "process %d: %s", i, accounts[i].complaint);
        ck_assert_msg(WIFEXITED(states[i]) && WEXITSTATUS(states[i]) == 0, "process %d ended with %d", i, states[i]);
    }
}

static bool take_count(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    (void)n_columns;
    (void)names;
    if (cells) *(size_t *)arg = (size_t)cells[0].integer;
    return true;
}

static size_t count_indexed(const char *root) {
    struct kg_history *history = NULL;
    struct kg_error err;
    size_t n = 0;
    EXPECT_OK(kg_history_open(root, &history, NULL, &err), err);
    EXPECT_OK(kg_history_query(history, "SELECT count(*) FROM bundle", NULL, 0, take_count, &n, &err), err);
    kg_history_close(history);
    return n;
}

static void expect_verb(const char *root, const char *const *args) {
    const char *argv[8] = { kg_program_path(), args[0], "--bundles", root };
    for (size_t i = 1; args[i]; i++) argv[3 + i] = args[i];
    const struct kg_process process = { .argv = argv, .timeout_s = VERB_TIMEOUT_S };
    struct kg_process_result result;
    struct kg_error err;
    EXPECT_OK(kg_process_run(&process, &result, &err), err);
    ck_assert_msg(result.exit_code == KG_EXIT_OK, "kigo %s: %s%s", args[0], result.out, result.err);
    kg_process_result_free(&result);
}

/* As it grew, rebuilt in place, and made from nothing: one dump. */
static void expect_one_index(const char *root) {
    char *grown = kg_maker_dump(root);
    expect_verb(root, (const char *const[]){ "reindex", NULL });
    char *rebuilt = kg_maker_dump(root);
    kg_maker_expect_same(rebuilt, grown);
    kg_maker_remove_index(root);
    ck_assert_uint_eq(count_indexed(root), kg_maker_count(root, "2"));
    char *fresh = kg_maker_dump(root);
    kg_maker_expect_same(fresh, grown);
    free(fresh);
    free(rebuilt);
    free(grown);
}

void kg_publish_at_once(const char *root, double seconds, struct kg_published *published) {
    struct account *accounts =
        mmap(NULL, KG_PUBLISHERS * sizeof *accounts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const uint64_t until_ns = kg_clock_monotonic_ns() + (uint64_t)(seconds * 1e9);
    pid_t children[KG_PUBLISHERS];
    ck_assert_ptr_ne(accounts, MAP_FAILED);
    for (int i = 0; i < KG_PUBLISHERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] > 0) continue;
        live(root, i, until_ns, &accounts[i]);
        _exit(0);
    }
    expect_good_ends(children, accounts);
    *published = (struct kg_published){ 0 };
    for (int i = 0; i < KG_PUBLISHERS; i++) {
        published->n_runs += accounts[i].done.n_runs;
        published->n_reindexed += accounts[i].done.n_reindexed;
        published->n_asked += accounts[i].done.n_asked;
    }
    munmap(accounts, KG_PUBLISHERS * sizeof *accounts);
    ck_assert_uint_eq(kg_maker_count(root, ".tmp-"), 0);
    ck_assert_uint_eq(kg_maker_count(root, "2"), published->n_runs);
    expect_one_index(root);
    expect_verb(root, (const char *const[]){ "verify", "--all", "--chain", NULL });
}
