/* Bundles of real processes that are killed, run side by side, or meet a full disk: nothing is lost, nothing is half
 * published. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "bundle/beside.h"
#include "bundle/chain.h"
#include "bundle/internal.h"
#include "report/report.h"
#include "run/publish.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <kigo/history.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs body in a child, which ends with body's value. No ck_assert there: a failure must not run the parent's code. */
static pid_t start_child(int (*body)(const char *root, uint64_t seed), const char *root, uint64_t seed) {
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) _exit(body(root, seed));
    return child;
}

/* Exit code, or minus the signal. */
static int wait_child(pid_t child) {
    int state = 0;
    while (waitpid(child, &state, 0) < 0) ck_assert_int_eq(errno, EINTR);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

static int complain(const struct kg_error *err) {
    fprintf(stderr, "child: %s\n", err->message);
    return 1;
}

static size_t recover(const char *root) {
    struct kg_error err;
    size_t n = 0;
    EXPECT_OK(kg_bundle_recover(root, kg_report_documents, &n, &err), err);
    return n;
}

/* Each bundle by itself, and no death or race has left one unnamed by or unknown to the chain. */
static void expect_all_sound(const char *root) {
    struct kg_dir_list list;
    struct kg_error err;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_chain_report chain;
    EXPECT_OK(kg_root_list(root, &list, &err), err);
    for (size_t i = 0; i < list.n_names; i++) {
        char *dir = kg_path_join(root, list.names[i]);
        kg_maker_expect_sound(dir);
        free(dir);
    }
    EXPECT_OK(kg_chain_verify(root, NULL, false, &chain, &findings, &err), err);
    ck_assert_msg(findings.n_items == 0, "%s", kg_maker_list(&findings));
    ck_assert_uint_ge(chain.n_links + 1, list.n_names); /* all but the first name one, and .chain the last */
    kg_bundle_findings_free(&findings);
    kg_dir_list_free(&list);
}

static void expect_statuses(const char *dir, const char *const *want, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *status = kg_maker_status_of(dir, i);
        ck_assert_msg(strcmp(status, want[i]) == 0, "case %zu is %s, not %s", i, status, want[i]);
        free(status);
    }
}

static char *read_text(const char *dir, const char *relative) {
    char *path = kg_path_join(dir, relative), *text = NULL;
    size_t size_bytes;
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, &text, &size_bytes, &err), err);
    free(path);
    return text;
}

static void expect_in(const char *dir, const char *relative, const char *what) {
    char *text = read_text(dir, relative);
    ck_assert_msg(strstr(text, what) != NULL, "%s/%s does not hold %s", dir, relative, what);
    free(text);
}

/* The only unfinished folder of a root, malloc'ed. */
static char *only_unfinished(const char *root) {
    struct kg_dir_list list;
    struct kg_error err;
    char *only = NULL;
    EXPECT_OK(kg_dir_list(root, &list, &err), err);
    for (size_t i = 0; i < list.n_names; i++) {
        if (strncmp(list.names[i], ".tmp-", 5) != 0) continue;
        ck_assert_ptr_null(only);
        only = kg_path_join(root, list.names[i]);
    }
    kg_dir_list_free(&list);
    ck_assert_ptr_nonnull(only);
    return only;
}

static int die_in_third_case(const char *root, uint64_t seed) {
    static const char *const STATUSES[] = { "pass", "fail", "started" };
    struct kg_bundle *bundle;
    struct kg_error err;
    (void)seed;
    if (kg_maker_open(root, 5, &bundle, &err) != KG_OK) return complain(&err);
    for (size_t i = 0; i < KG_COUNT_OF(STATUSES); i++)
        if (kg_maker_run(bundle, i, STATUSES[i], &err) != KG_OK) return complain(&err);
    raise(SIGKILL);
    return 0;
}

static void killed_in_a_case(struct kg_record *rec, const void *arg) {
    static const char *const WANT[] = { "pass", "fail", "crash", "norun", "norun" };
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    ck_assert_int_eq(wait_child(start_child(die_in_third_case, root, 0)), -SIGKILL);
    ck_assert_uint_eq(kg_maker_count(root, "2"), 0); /* nothing half published */
    ck_assert_uint_eq(kg_bundle_count_dead(root), 1);
    ck_assert_uint_eq(recover(root), 1);
    ck_assert_uint_eq(kg_maker_count(root, ".tmp-"), 0);
    char *dir = kg_maker_only(root);
    kg_maker_expect_sound(dir);
    expect_statuses(dir, WANT, KG_COUNT_OF(WANT));
    expect_in(dir, "bag-info.txt", "Kigo-State: partial\n");
    expect_in(dir, "data/summary.json", "\"verdict\": \"incomplete\"");
    expect_in(dir, "data/summary.json", "\"exit_code\": 5");
    expect_in(dir, "data/results.ndjson", "the run died while this case was in flight");
    ck_assert_uint_eq(recover(root), 0); /* again: nothing to do */
    free(dir);
}

static int die_while_planning(const char *root, uint64_t seed) {
    const struct kg_bundle_options options = { .root = root };
    struct kg_bundle *bundle;
    struct kg_error err;
    if (kg_bundle_create(&options, &bundle, &err) != KG_OK) return complain(&err);
    for (size_t i = 0; i < seed; i++) {
        json_t *line = kg_maker_plan_line(i);
        if (kg_bundle_plan(bundle, line, &err) != KG_OK) return complain(&err);
        json_decref(line);
    }
    raise(SIGKILL);
    return 0;
}

static void killed_while_planning(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (size_t n_planned = 0; n_planned < 3; n_planned += 2) {
        char *root = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), n_planned);
        ck_assert_int_eq(wait_child(start_child(die_while_planning, root, n_planned)), -SIGKILL);
        ck_assert_uint_eq(recover(root), 1);
        char *dir = kg_maker_only(root);
        kg_maker_expect_sound(dir);
        expect_in(dir, "data/summary.json", n_planned ? "\"n_norun\": 2" : "\"n_planned\": 0");
        free(dir);
        free(root);
    }
}

/* A folder the run had made and written nothing into holds nothing to publish. */
static void empty_folder_is_removed(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dir = kg_path_join(root, ".tmp-20261120T093822Z-nogit-01234567/data");
    struct kg_error err;
    (void)arg;
    EXPECT_OK(kg_dir_make(dir, &err), err);
    ck_assert_uint_eq(kg_bundle_count_dead(root), 0);
    ck_assert_uint_eq(recover(root), 0);
    ck_assert_uint_eq(kg_maker_count(root, ".tmp-"), 0);
    ck_assert_uint_eq(kg_maker_count(root, "2"), 0);
    free(dir);
}

/* A seal that only lacked the rename is published as it was sealed; one that lacked more becomes partial, with every
 * result. */
static void killed_while_sealing(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *lost; /* file the seal had not come to */
        const char *state;
    } MOMENTS[] = {
        { NULL, "Kigo-State: complete\n" },
        { "tagmanifest-sha256.txt", "Kigo-State: partial\n" },
        { "manifest-sha256.txt", "Kigo-State: partial\n" },
        { "data/summary.json", "Kigo-State: partial\n" },
        { "data/junit.xml", "Kigo-State: partial\n" },
    };
    static const char *const WANT[] = { "pass", "pass" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(MOMENTS); i++) {
        char *root = kg_xasprintf("%s/%zu", kg_scratch_dir(rec), i), *sealed = kg_maker_sealed(root, 2);
        char *unfinished = kg_xasprintf("%s/.tmp-%s", root, strrchr(sealed, '/') + 1);
        ck_assert_int_eq(rename(sealed, unfinished), 0);
        if (MOMENTS[i].lost) {
            char *lost = kg_path_join(unfinished, MOMENTS[i].lost);
            ck_assert_int_eq(unlink(lost), 0);
            free(lost);
        }
        ck_assert_uint_eq(recover(root), 1);
        char *dir = kg_maker_only(root);
        ck_assert_str_eq(dir, sealed);
        kg_maker_expect_sound(dir);
        expect_statuses(dir, WANT, KG_COUNT_OF(WANT));
        expect_in(dir, "bag-info.txt", MOMENTS[i].state);
        free(dir);
        free(unfinished);
        free(sealed);
        free(root);
    }
}

/* Lines cut short by the kill are kept aside, and said; beside one that a recover kept before it died itself. */
static void torn_lines(struct kg_record *rec, const void *arg) {
    static const char *const WANT[] = { "pass", "fail", "crash", "norun", "norun" };
    static const char *const FILES[][2] = { { "data/results.ndjson", "data/recovery/results.ndjson.torn" },
                                            { "data/journal.ndjson", "data/recovery/journal.ndjson.torn" },
                                            { "data/plan.ndjson", "data/recovery/plan.ndjson.torn-2" } };
    static const char TORN[] = "{\"key\":\"unit/sample/case_2\",\"sta";
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    ck_assert_int_eq(wait_child(start_child(die_in_third_case, root, 0)), -SIGKILL);
    char *unfinished = only_unfinished(root), *recovery = kg_path_join(unfinished, "data/recovery");
    ck_assert_int_eq(kg_dir_make(recovery, NULL), KG_OK);
    kg_maker_append(recovery, "plan.ndjson.torn", "{\"earlier");
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) kg_maker_append(unfinished, FILES[i][0], TORN);
    ck_assert_uint_eq(recover(root), 1);
    char *dir = kg_maker_only(root);
    kg_maker_expect_sound(dir);
    expect_statuses(dir, WANT, KG_COUNT_OF(WANT));
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *kept = read_text(dir, FILES[i][1]);
        ck_assert_str_eq(kept, TORN);
        free(kept);
    }
    expect_in(dir, "data/recovery/plan.ndjson.torn", "{\"earlier");
    expect_in(dir, "data/journal.ndjson", "\"event\":\"recover\"");
    expect_in(dir, "data/journal.ndjson", "\"torn_bytes_results\":32");
    free(dir);
    free(recovery);
    free(unfinished);
}

static int hold_open(const char *root, uint64_t seed) {
    struct kg_bundle *bundle;
    struct kg_bundle_summary summary;
    struct kg_error err;
    (void)seed;
    if (kg_maker_open(root, 1, &bundle, &err) != KG_OK) return complain(&err);
    raise(SIGSTOP);
    if (kg_maker_run(bundle, 0, "pass", &err) != KG_OK) return complain(&err);
    if (kg_run_seal(bundle, &summary, &err) != KG_OK) return complain(&err);
    kg_bundle_close(bundle);
    return summary.exit_code;
}

static void live_run_is_left_alone(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    int state = 0;
    (void)arg;
    const pid_t child = start_child(hold_open, root, 0);
    ck_assert_int_eq(waitpid(child, &state, WUNTRACED), child);
    ck_assert(WIFSTOPPED(state));
    ck_assert_uint_eq(kg_bundle_count_dead(root), 0);
    ck_assert_uint_eq(recover(root), 0);
    ck_assert_uint_eq(kg_maker_count(root, ".tmp-"), 1);
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    ck_assert_int_eq(wait_child(child), 0);
    char *dir = kg_maker_only(root);
    expect_in(dir, "bag-info.txt", "Kigo-State: complete\n");
    kg_maker_expect_sound(dir);
    free(dir);
}

/* A suite program that outlives its dead run. */
static int leave_an_orphan(const char *root, uint64_t seed) {
    struct kg_bundle *bundle;
    struct kg_error err;
    (void)seed;
    if (kg_maker_open(root, 1, &bundle, &err) != KG_OK) return complain(&err);
    int ends[2], byte = pipe2(ends, O_CLOEXEC);
    const pid_t orphan = byte == 0 ? fork() : -1;
    if (orphan == 0) _exit(execl("/bin/sleep", "sleep", "30", (char *)NULL));
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 0) return 1; /* ends with the orphan's exec, which closes the lock, too */
    char *path = kg_path_join(root, "orphan.pid");
    char *text = kg_xasprintf("%d", (int)orphan);
    if (kg_file_write(path, text, strlen(text), &err) != KG_OK) return complain(&err);
    raise(SIGKILL);
    return 0;
}

static void lock_is_not_inherited(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    (void)arg;
    ck_assert_int_eq(wait_child(start_child(leave_an_orphan, root, 0)), -SIGKILL);
    char *text = read_text(root, "orphan.pid");
    const pid_t orphan = (pid_t)strtol(text, NULL, 10);
    ck_assert_int_eq(kill(orphan, 0), 0);
    const size_t n = recover(root);
    kill(orphan, SIGKILL);
    ck_assert_uint_eq(n, 1);
    free(text);
}

/* Writes bundles one after another until it is killed. */
static int write_for_ever(const char *root, uint64_t seed) {
    static const char *const STATUSES[] = { "pass", "fail", "skip" };
    struct kg_bundle_summary summary;
    struct kg_error err;
    (void)seed;
    for (;;)
        if (kg_maker_write(root, STATUSES, KG_COUNT_OF(STATUSES), &summary, &err) != KG_OK) return complain(&err);
}

/* Kills the child after a random time below max_us; with `under_way`, of when it has begun a bundle. */
static void kill_at_random(pid_t child, struct kg_rng *rng, const char *root, bool under_way, uint64_t max_us) {
    enum { MOST_WAITS = 50000, WAIT_US = 100 };
    for (int i = 0; under_way && i < MOST_WAITS && !kg_maker_has_plan(root); i++) usleep(WAIT_US);
    usleep((useconds_t)kg_rng_below(rng, max_us));
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(wait_child(child), -SIGKILL);
}

/* Every planned case has a result, in whatever bundle; complete ones have those they were given. */
static void killed_at_any_moment(struct kg_record *rec, const void *arg) {
    enum { ROUNDS = 50, ANY_MOMENT_US = 120000, UNDER_WAY_US = 8000 };
    const char *root = kg_scratch_dir(rec);
    struct kg_rng rng;
    size_t n_recovered = 0, n_indexed;
    struct kg_error err;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int round = 0; round < ROUNDS; round++) {
        const bool half = round % 2 == 0;
        kill_at_random(start_child(write_for_ever, root, 0), &rng, root, half, half ? UNDER_WAY_US : ANY_MOMENT_US);
        if (!kg_path_is_dir(root)) continue;
        n_recovered += recover(root);
        ck_assert_uint_eq(kg_maker_count(root, ".tmp-"), 0);
    }
    ck_assert_uint_ge(n_recovered, ROUNDS / 4); /* most kills hit a bundle under way */
    expect_all_sound(root);
    struct kg_history *history;
    EXPECT_OK(kg_history_open(root, &history, NULL, &err), err);
    kg_history_close(history);
    char *grown = kg_maker_dump(root);
    EXPECT_OK(kg_history_reindex(root, &n_indexed, NULL, &err), err);
    char *rebuilt = kg_maker_dump(root);
    ck_assert_uint_eq(n_indexed, kg_maker_count(root, "2"));
    kg_maker_expect_same(rebuilt, grown);
    kg_record_metric(rec, "recovered", "count", (double)n_recovered);
    kg_record_metric(rec, "bundles", "count", (double)n_indexed);
    free(rebuilt);
    free(grown);
}

static int recover_in_child(const char *root, uint64_t seed) {
    struct kg_error err;
    size_t n;
    (void)seed;
    return kg_bundle_recover(root, kg_report_documents, &n, &err) == KG_OK ? 0 : complain(&err);
}

/* Recover itself killed, again and again. */
static void recover_killed(struct kg_record *rec, const void *arg) {
    static const char *const WANT[] = { "pass", "fail", "crash", "norun", "norun" };
    enum { ROUNDS = 25, MAX_US = 30000 };
    const char *root = kg_scratch_dir(rec);
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    ck_assert_int_eq(wait_child(start_child(die_in_third_case, root, 0)), -SIGKILL);
    char *unfinished = only_unfinished(root);
    kg_maker_append(unfinished, "data/results.ndjson", "{\"torn");
    for (int round = 0; round < ROUNDS && kg_path_exists(unfinished); round++) {
        const pid_t child = start_child(recover_in_child, root, 0);
        usleep((useconds_t)kg_rng_below(&rng, MAX_US));
        kill(child, SIGKILL);
        wait_child(child);
    }
    recover(root);
    char *dir = kg_maker_only(root), *torn = read_text(dir, "data/recovery/results.ndjson.torn");
    kg_maker_expect_sound(dir);
    expect_statuses(dir, WANT, KG_COUNT_OF(WANT));
    ck_assert_str_eq(torn, "{\"torn");
    free(torn);
    free(dir);
    free(unfinished);
}

static int write_three(const char *root, uint64_t seed) {
    static const char *const STATUSES[] = { "pass", "pass" };
    struct kg_bundle_summary summary;
    struct kg_error err;
    (void)seed;
    for (int i = 0; i < 3; i++) {
        if (kg_maker_write(root, STATUSES, KG_COUNT_OF(STATUSES), &summary, &err) != KG_OK) return complain(&err);
        if (summary.exit_code != 0) return 2;
        if (*summary.note) return 3;
    }
    return 0;
}

/* Runs side by side in one root, with a recover going on all the while. */
static void runs_at_once(struct kg_record *rec, const void *arg) {
    enum { N_CHILDREN = 4 };
    const char *root = kg_scratch_dir(rec);
    pid_t children[N_CHILDREN];
    size_t n_recovered = 0, n_indexed;
    struct kg_error err;
    (void)arg;
    for (int i = 0; i < N_CHILDREN; i++) children[i] = start_child(write_three, root, 0);
    for (int i = 0; i < N_CHILDREN; i++) {
        int state = 0;
        pid_t ended;
        while ((ended = waitpid(children[i], &state, WNOHANG)) == 0) n_recovered += recover(root);
        ck_assert_int_eq(ended, children[i]);
        ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "child %d ended with %d", i, state);
    }
    ck_assert_uint_eq(n_recovered, 0);
    ck_assert_uint_eq(kg_maker_count(root, "2"), 3 * N_CHILDREN);
    expect_all_sound(root);
    char *grown = kg_maker_dump(root);
    EXPECT_OK(kg_history_reindex(root, &n_indexed, NULL, &err), err);
    char *rebuilt = kg_maker_dump(root);
    ck_assert_uint_eq(n_indexed, 3 * N_CHILDREN);
    kg_maker_expect_same(rebuilt, grown);
    free(rebuilt);
    free(grown);
}

enum { CHILD_WROTE_ALL = 10, CHILD_MET_FULL_DISK, CHILD_CANNOT_MOUNT };

/* Writes a bundle of many cases; on the first error every later call must give it too. */
static int write_until_full(const char *root, uint64_t seed) {
    enum { N_CASES = 20 };
    struct kg_bundle *bundle = NULL;
    struct kg_bundle_summary summary;
    struct kg_error err = { 0 };
    (void)seed;
    enum kg_status status = kg_maker_open(root, N_CASES, &bundle, &err);
    for (size_t i = 0; i < N_CASES && status == KG_OK; i++) status = kg_maker_run(bundle, i, "pass", &err);
    if (status == KG_OK) status = kg_run_seal(bundle, &summary, &err);
    if (status == KG_OK) return CHILD_WROTE_ALL;
    if (status != KG_ERR_IO || kg_status_exit_code(status) != KG_EXIT_INCOMPLETE || !*err.message)
        return complain(&err);
    if (bundle && kg_bundle_start(bundle, "unit/sample/case_19", &err) != KG_ERR_IO) return complain(&err);
    if (bundle && kg_run_seal(bundle, &summary, &err) != KG_ERR_IO) return complain(&err);
    kg_bundle_close(bundle);
    return CHILD_MET_FULL_DISK;
}

static int limit_files(uint64_t bytes) {
    const struct rlimit limit = { bytes, bytes };
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &limit);
}

static int write_with_limit(const char *root, uint64_t bytes) {
    if (limit_files(bytes) != 0) return 1;
    return write_until_full(root, 0);
}

static int recover_with_limit(const char *root, uint64_t bytes) {
    struct kg_error err;
    size_t n;
    if (limit_files(bytes) != 0) return 1;
    const enum kg_status status = kg_bundle_recover(root, kg_report_documents, &n, &err);
    return status == KG_OK ? CHILD_WROTE_ALL : status == KG_ERR_IO ? CHILD_MET_FULL_DISK : complain(&err);
}

/* No file may grow past the limit, as on a disk that fills at that moment: at each of many sizes the run ends with an
 * error, publishes nothing, a recover that meets the limit too loses nothing, and a recover with room publishes what
 * there is. */
static void no_room(struct kg_record *rec, const void *arg) {
    enum { FIRST = 256, LAST = 1 << 19 }; /* build.json, with its kernels, has 110 KB */
    size_t n_full = 0, n_limits = 0;
    (void)arg;
    for (uint64_t bytes = FIRST; bytes <= LAST; bytes += bytes / 2, n_limits++) {
        char *root = kg_xasprintf("%s/%llu", kg_scratch_dir(rec), (unsigned long long)bytes);
        const int ended = wait_child(start_child(write_with_limit, root, bytes));
        ck_assert_msg(ended == CHILD_MET_FULL_DISK || ended == CHILD_WROTE_ALL, "limit %llu: child ended with %d",
                      (unsigned long long)bytes, ended);
        n_full += ended == CHILD_MET_FULL_DISK;
        if (ended == CHILD_MET_FULL_DISK) {
            ck_assert_uint_eq(kg_maker_count(root, "2"), 0);
            ck_assert_uint_eq(kg_maker_count(root, ".tmp-"), 1);
            const int again = wait_child(start_child(recover_with_limit, root, bytes));
            ck_assert_msg(again == CHILD_MET_FULL_DISK || again == CHILD_WROTE_ALL, "recover ended with %d", again);
            recover(root);
        }
        ck_assert_uint_eq(kg_maker_count(root, ".tmp-"), 0);
        char *dir = kg_maker_only(root);
        kg_maker_expect_sound(dir);
        free(dir);
        free(root);
    }
    ck_assert_uint_ge(n_full, 5);
    ck_assert_uint_lt(n_full, n_limits); /* the largest limit is room enough */
}

static bool put_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!file) return false;
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/* A private mount namespace for this process; an ordinary user becomes root of a user namespace for it, where that is
 * allowed.
 */
static bool leave_mounts(void) {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (uid == 0) return unshare(CLONE_NEWNS) == 0;
    if (unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0) return false;
    char *uids = kg_xasprintf("0 %u 1", (unsigned)uid), *gids = kg_xasprintf("0 %u 1", (unsigned)gid);
    const bool mapped = put_text("/proc/self/setgroups", "deny") && put_text("/proc/self/uid_map", uids) &&
                        put_text("/proc/self/gid_map", gids);
    free(gids);
    free(uids);
    return mapped;
}

/* In a small file system that only the child sees. */
static int write_on_small_disk(const char *root, uint64_t kib) {
    struct kg_error err;
    size_t n;
    if (!leave_mounts()) return CHILD_CANNOT_MOUNT;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return CHILD_CANNOT_MOUNT;
    char *size = kg_xasprintf("size=%lluk", (unsigned long long)kib);
    if (mount("none", root, "tmpfs", 0, size) != 0) return CHILD_CANNOT_MOUNT;
    free(size);
    char *runs = kg_path_join(root, "runs");
    const int ended = write_until_full(runs, 0);
    if (ended != CHILD_MET_FULL_DISK) return ended;
    if (kg_bundle_recover(runs, kg_report_documents, &n, &err) == KG_OK) return complain(&err); /* still full */
    size = kg_xasprintf("size=%lluk", (unsigned long long)kib + 4096);
    if (mount("none", root, "tmpfs", MS_REMOUNT, size) != 0) return 1;
    if (kg_bundle_recover(runs, kg_report_documents, &n, &err) != KG_OK || n != 1) return complain(&err);
    struct kg_dir_list list;
    struct kg_bundle_findings findings;
    if (kg_root_list(runs, &list, &err) != KG_OK || list.n_names != 1) return 2;
    char *dir = kg_path_join(runs, list.names[0]);
    return kg_bundle_verify(dir, &findings, &err) == KG_OK ? CHILD_MET_FULL_DISK : complain(&err);
}

static void full_disk(struct kg_record *rec, const void *arg) {
    const uint64_t kib = *(const uint64_t *)arg;
    const int ended = wait_child(start_child(write_on_small_disk, kg_scratch_dir(rec), kib));
    if (ended == CHILD_CANNOT_MOUNT) {
        kg_record_skip(rec, "this user cannot mount a small file system; no_room holds the same edge by a file limit");
        return;
    }
    ck_assert_int_eq(ended, CHILD_MET_FULL_DISK);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "survival", .name = #function, .timeout_s = 120, .run = function }

#define FULL_DISK(kib)                                                                                                 \
    {                                                                                                                  \
        .layer = "integration", .op = "survival", .name = "full_disk", .shape = #kib "KiB", .run = full_disk,          \
        .arg = &(const uint64_t) {                                                                                     \
            kib                                                                                                        \
        }                                                                                                              \
    }

static const struct kg_case CASES[] = {
    CASE(killed_in_a_case),
    CASE(killed_while_planning),
    CASE(killed_while_sealing),
    CASE(empty_folder_is_removed),
    CASE(torn_lines),
    CASE(live_run_is_left_alone),
    CASE(lock_is_not_inherited),
    CASE(killed_at_any_moment),
    CASE(recover_killed),
    CASE(runs_at_once),
    CASE(no_room),
    FULL_DISK(24),
    FULL_DISK(48),
    FULL_DISK(64),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
