/* The index file on a full disk, in a folder that is read only, of another version, or damaged; and runs that cannot be
 * read into it. The index is a cache: the answer is right, or there is none. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/case_list.h"
#include "suites/harness/must.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/fault_report.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_COMMITS = 6, N_BEFORE = 4, N_CASES = 3, VICTIM = 1, NOBODY = 65534, MAX_ENV = 8 };

static const char *const VERBS[][3] = {
    { "list", NULL },
    { "regress", NULL },
    { "query", "SELECT bundle_id, verdict FROM bundle ORDER BY 1", NULL },
};

/* A history whose last run fails a case: regress ends with 1. */
struct store {
    struct kg_history_lab lab;
    char *last; /* its id */
    char *cache, *report, *index;
    struct kg_process_result right[KG_COUNT_OF(VERBS)];
};

static void break_victim(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg;
    if (i == VICTIM) c->status = "fail";
}

/* Runs a verb over the store, with variables set ("NAME=VALUE", ended by NULL). */
static struct kg_process_result ask(const struct store *s, const char *const *verb, const char *const *variables) {
    const char *argv[8] = { kg_program_path() }, *env[MAX_ENV + 2];
    char *cache = kg_xasprintf("XDG_CACHE_HOME=%s", s->cache);
    struct kg_process_result result;
    struct kg_error err;
    size_t n = 1, n_env = 0;
    for (; verb[n - 1]; n++) argv[n] = verb[n - 1];
    argv[n++] = "--bundles";
    argv[n] = s->lab.root;
    env[n_env++] = cache;
    for (size_t i = 0; variables && variables[i]; i++) env[n_env++] = variables[i];
    env[n_env] = NULL;
    const struct kg_process process = { .argv = argv, .env = env };
    kg_must(kg_process_run(&process, &result, &err), &err);
    free(cache);
    return result;
}

static void begin(struct store *s, const struct kg_record *rec) {
    struct kg_error err;
    kg_history_lab_open_in(&s->lab, kg_scratch_dir(rec), N_COMMITS);
    s->lab.clock_us = INT64_C(1760000000000000);
    s->cache = kg_path_join(kg_scratch_dir(rec), "cache");
    s->report = kg_path_join(kg_scratch_dir(rec), "report");
    s->index = kg_path_join(s->lab.root, "index.sqlite");
    kg_must(kg_dir_make(s->cache, &err), &err);
    kg_must(kg_file_write(s->report, "", 0, &err), &err);
    ck_assert_int_eq(truncate(s->report, sizeof(struct kg_fault_report)), 0);
    kg_history_lab_runs(&s->lab, 0, N_BEFORE, (struct kg_made_run){ .n_cases = N_CASES });
    s->last = kg_history_lab_run(
        &s->lab, (struct kg_made_run){ .commit = s->lab.commits[N_BEFORE], .n_cases = N_CASES, .fill = break_victim });
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) s->right[i] = ask(s, VERBS[i], NULL);
    ck_assert_int_eq(s->right[1].exit_code, KG_EXIT_FAILED);
    ck_assert_str_eq(s->right[1].err, "");
}

static void end(struct store *s) {
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) kg_process_result_free(&s->right[i]);
    free(s->last);
    free(s->cache);
    free(s->report);
    free(s->index);
    kg_history_lab_close(&s->lab);
}

/* The right answer and exit code, and on standard error what it was read from. */
static void expect_from_memory(const struct store *s, size_t verb, const struct kg_process_result *got,
                               const char *why) {
    ck_assert_msg(got->exit_code == s->right[verb].exit_code, "%s ended with %d: %.2000s%.2000s", VERBS[verb][0],
                  got->exit_code, got->out, got->err);
    ck_assert_str_eq(got->out, s->right[verb].out);
    ck_assert_msg(strstr(got->err, "from an index in memory") && strstr(got->err, why), "%s does not say why: %.2000s",
                  VERBS[verb][0], got->err);
    ck_assert_msg(strchr(got->err, '\n') == strrchr(got->err, '\n'), "%s says more than a line: %.2000s",
                  VERBS[verb][0], got->err);
}

/* Why no fault can be injected into this build's kigo; NULL: it can. */
static const char *without_faults(void) {
#if defined __SANITIZE_ADDRESS__
    return "AddressSanitizer's allocator has to be loaded before any other: builds without it inject faults";
#else
    return NULL;
#endif
}

struct injection {
    char *owned[MAX_ENV];
    const char *env[MAX_ENV + 1];
};

static void inject(const struct store *s, struct injection *in, const char *variable, const char *value, int code) {
    *in = (struct injection){ 0 };
    in->owned[0] = kg_xasprintf("LD_PRELOAD=%s", kg_suites_path("support/fault_injector.so"));
    in->owned[1] = realpath(kg_program_path(), NULL);
    in->owned[2] = kg_xasprintf("KIGO_FAULT_PROGRAM=%s", in->owned[1]);
    in->owned[3] = kg_xasprintf("KIGO_FAULT_REPORT=%s", s->report);
    in->owned[4] = kg_xasprintf("%s=%s", variable, value);
    in->owned[5] = kg_xasprintf("KIGO_FAULT_FULL_ERRNO=%d", code);
    for (size_t i = 0, n = 0; i < 6; i++)
        if (i != 1) in->env[n++] = in->owned[i];
}

static void injection_free(struct injection *in) {
    for (size_t i = 0; i < MAX_ENV; i++) free(in->owned[i]);
}

static const struct full_row {
    const char *name, *says;
    int code;
    bool has_index; /* that of all runs but the last: it has to be written to */
} FULL[] = {
    { "no_space_for_a_new_index", "index.sqlite", ENOSPC, false },
    { "no_space_for_one_more_run", "index.sqlite", ENOSPC, true },
    { "read_only_file_system", "index.sqlite", EROFS, true },
    { "quota", "index.sqlite", EDQUOT, true },
};

static void full_disk(struct kg_record *rec, const void *arg) {
    const struct full_row *row = arg;
    struct store s = { 0 };
    struct injection in;
    struct kg_error err;
    if (without_faults()) return kg_record_skip(rec, "%s", without_faults());
    begin(&s, rec);
    kg_maker_remove_index(s.lab.root);
    if (row->has_index) {
        char *run = kg_path_join(s.lab.root, s.last), *aside = kg_path_join(s.lab.repository, "aside");
        ck_assert_int_eq(rename(run, aside), 0);
        kg_verb_expect(s.lab.root, ARGS("list"), KG_EXIT_OK, NULL);
        ck_assert_int_eq(rename(aside, run), 0);
        free(aside);
        free(run);
    }
    inject(&s, &in, "KIGO_FAULT_FULL", "index.sqlite", row->code);
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) {
        struct kg_process_result got = ask(&s, VERBS[i], in.env);
        expect_from_memory(&s, i, &got, row->says);
        kg_process_result_free(&got);
    }
    struct kg_process_result got = ask(&s, ARGS("reindex"), in.env);
    ck_assert_msg(got.exit_code == KG_EXIT_INCOMPLETE && strstr(got.err, "index.sqlite"), "reindex: %d: %.2000s",
                  got.exit_code, got.err);
    kg_process_result_free(&got);
    injection_free(&in);
    kg_must(kg_path_remove(s.report, &err), &err);
    got = ask(&s, VERBS[1], NULL); /* with room again, on the disk */
    ck_assert_str_eq(got.out, s.right[1].out);
    ck_assert_str_eq(got.err, "");
    kg_process_result_free(&got);
    end(&s);
}

/* A small disk in memory in the folder's place, filled to its last byte. */
static void truly_full_disk(struct kg_record *rec, const void *arg) {
    static const char SCRIPT[] = "mkdir -p \"$1/small\" && mount -t tmpfs -o size=4m none \"$1/small\" || exit 90\n"
                                 "cp -a \"$1/.git\" \"$1/bundles\" \"$1/small\" && rm -f \"$1\"/small/bundles/index*\n"
                                 "cat /dev/zero >\"$1/small/fill\" 2>/dev/null; shift; exec \"$@\"\n";
    struct store s = { 0 };
    (void)arg;
    begin(&s, rec);
    char *cache = kg_xasprintf("XDG_CACHE_HOME=%s", s.cache);
    char *bundles = kg_path_join(s.lab.repository, "small/bundles");
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) {
        const char *argv[16] = { "/usr/bin/unshare", "-rm", "/bin/sh", "-c", SCRIPT, "sh", s.lab.repository,
                                 kg_program_path() };
        size_t n = 8;
        for (size_t k = 0; VERBS[i][k]; k++) argv[n++] = VERBS[i][k];
        argv[n++] = "--bundles";
        argv[n++] = bundles;
        const struct kg_process process = { .argv = argv, .env = (const char *const[]){ cache, NULL } };
        struct kg_process_result got;
        struct kg_error err;
        kg_must(kg_process_run(&process, &got, &err), &err);
        const bool no_mount = got.exit_code == 127 || got.exit_code == 90 || strncmp(got.err, "unshare:", 8) == 0;
        if (no_mount) kg_record_skip(rec, "no disk can be mounted here: %.200s", got.err);
        else expect_from_memory(&s, i, &got, "disk is full");
        kg_process_result_free(&got);
        if (no_mount) break;
    }
    free(bundles);
    free(cache);
    end(&s);
}

/* The number that `look` ends with when it is called as another user than root, who may not read what modes forbid; -1:
 * the store is out of that user's reach. */
static int as_nobody(const struct store *s, int (*look)(const struct store *s)) {
    enum { OUT_OF_REACH = 77 };
    int state = 0;
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) _exit(OUT_OF_REACH);
        if (access(s->lab.root, R_OK | X_OK) != 0 || access(kg_program_path(), X_OK) != 0) _exit(OUT_OF_REACH);
        _exit(look(s));
    }
    ck_assert_int_eq(waitpid(child, &state, 0), child);
    ck_assert_msg(WIFEXITED(state), "ended by signal %d", WTERMSIG(state));
    return WEXITSTATUS(state) == OUT_OF_REACH ? -1 : WEXITSTATUS(state);
}

/* Everybody may enter the scratch folder and what is below it. That of kigo check, above it, lets everybody through and
 * nobody look: these cases would be skipped in every run if it did not. */
static void open_to_all(const struct store *s, const struct kg_record *rec) {
    const char *above = getenv("TMPDIR");
    struct stat st;
    if (above && strstr(above, "/kigo-check-")) {
        ck_assert_int_eq(stat(above, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0711);
    }
    ck_assert_int_eq(chmod(kg_scratch_dir(rec), 0755), 0);
    ck_assert_int_eq(chmod(s->lab.root, 0555), 0);
}

static int from_memory_by_nobody(const struct store *s) {
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) {
        struct kg_process_result got = ask(s, VERBS[i], NULL);
        fprintf(stderr, "%s", got.err);
        const bool right = got.exit_code == s->right[i].exit_code && strcmp(got.out, s->right[i].out) == 0 &&
                           strstr(got.err, "from an index in memory") && strstr(got.err, "Permission denied");
        kg_process_result_free(&got);
        if (!right) return 1 + (int)i;
    }
    return 0;
}

static void folder_of_another_user(struct kg_record *rec, const void *arg) {
    struct store s = { 0 };
    (void)arg;
    begin(&s, rec);
    open_to_all(&s, rec);
    const int wrong = as_nobody(&s, from_memory_by_nobody);
    ck_assert_int_eq(chmod(s.lab.root, 0755), 0);
    if (wrong < 0) kg_record_skip(rec, "the scratch folder or kigo is out of other users' reach");
    else ck_assert_msg(wrong == 0, "the verb in place %d, counted from 1, answers otherwise", wrong);
    end(&s);
}

/* What list, query and regress say of a run whose env.json cannot be read: none of it is indexed, and no verdict. */
static int refused(const struct store *s, const char *const *variables, const char *named) {
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++) {
        struct kg_process_result got = ask(s, VERBS[i], variables);
        const bool error = got.exit_code == KG_EXIT_INTEGRITY || got.exit_code == KG_EXIT_INCOMPLETE;
        const bool good = error && strstr(got.err, "env.json") && strstr(got.err, named) && !strstr(got.out, s->last);
        if (!good) fprintf(stderr, "kigo %s ended with %d: %s%s\n", VERBS[i][0], got.exit_code, got.out, got.err);
        kg_process_result_free(&got);
        if (!good) return 1;
    }
    return 0;
}

static int refused_by_nobody(const struct store *s) {
    return refused(s, NULL, s->last);
}

static void expect_right_again(const struct store *s) {
    struct kg_process_result got = ask(s, VERBS[1], NULL);
    ck_assert_str_eq(got.out, s->right[1].out);
    ck_assert_int_eq(got.exit_code, s->right[1].exit_code);
    kg_process_result_free(&got);
}

enum unreadable { DENIED, FOLDER, MODE };
static const struct unreadable_row {
    const char *name;
    enum unreadable how;
} UNREADABLE[] = {
    { "no_permission_by_injection", DENIED },
    { "folder_in_its_place", FOLDER },
    { "mode_000_as_another_user", MODE },
};

static void unreadable_env(struct kg_record *rec, const void *arg) {
    const struct unreadable_row *row = arg;
    struct store s = { 0 };
    struct injection in;
    struct kg_error err;
    int wrong = 0;
    if (row->how == DENIED && without_faults()) return kg_record_skip(rec, "%s", without_faults());
    begin(&s, rec);
    kg_maker_remove_index(s.lab.root);
    char *env = kg_xasprintf("%s/%s/data/env.json", s.lab.root, s.last), *aside = kg_path_join(s.lab.root, "aside");
    if (row->how == DENIED) {
        inject(&s, &in, "KIGO_FAULT_PATH", "env.json", 0);
        wrong = refused(&s, in.env, s.last);
        injection_free(&in);
    } else if (row->how == FOLDER) {
        ck_assert_int_eq(rename(env, aside), 0);
        ck_assert_int_eq(mkdir(env, 0755), 0);
        wrong = refused(&s, NULL, s.last);
        ck_assert_int_eq(rmdir(env), 0);
        ck_assert_int_eq(rename(aside, env), 0);
    } else {
        open_to_all(&s, rec);
        ck_assert_int_eq(chmod(env, 0), 0);
        wrong = as_nobody(&s, refused_by_nobody);
        ck_assert_int_eq(chmod(env, 0644), 0);
        ck_assert_int_eq(chmod(s.lab.root, 0755), 0);
    }
    if (wrong < 0) kg_record_skip(rec, "the scratch folder or kigo is out of other users' reach");
    else ck_assert_int_eq(wrong, 0);
    kg_must(kg_path_remove(s.report, &err), &err);
    expect_right_again(&s);
    free(aside);
    free(env);
    end(&s);
}

static void put_folder(const struct store *s) {
    struct kg_error err;
    char *inside = kg_path_join(s->index, "notes.txt");
    kg_maker_remove_index(s->lab.root);
    kg_must(kg_dir_make(s->index, &err), &err);
    kg_must(kg_file_write(inside, "x\n", 2, &err), &err);
    free(inside);
}

static void put_garbage(const struct store *s) {
    struct kg_error err;
    char bytes[9000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * i + 1);
    kg_maker_remove_index(s->lab.root);
    kg_must(kg_file_write(s->index, bytes, sizeof bytes, &err), &err);
}

static void put_half(const struct store *s) {
    struct stat info;
    ck_assert_int_eq(stat(s->index, &info), 0);
    ck_assert_int_eq(truncate(s->index, info.st_size / 2), 0);
}

static void set_version(const struct store *s, int version) {
    sqlite3 *db;
    char *sql = kg_xasprintf("PRAGMA user_version = %d", version);
    ck_assert_int_eq(sqlite3_open(s->index, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    free(sql);
}

static void put_older(const struct store *s) {
    set_version(s, 1);
}

static void put_newer(const struct store *s) {
    set_version(s, 999);
}

static const struct broken_row {
    const char *name;
    void (*put)(const struct store *s);
} BROKEN[] = {
    { "a_folder", put_folder },       { "garbage", put_garbage },      { "cut_in_half", put_half },
    { "an_older_schema", put_older }, { "a_newer_schema", put_newer },
};

/* No verdict but the right one before reindex, and the same index as ever after it. */
static void reindex_mends(struct kg_record *rec, const void *arg) {
    const struct broken_row *row = arg;
    struct store s = { 0 };
    begin(&s, rec);
    char *good = kg_maker_dump(s.lab.root);
    row->put(&s);
    struct kg_process_result got = ask(&s, VERBS[1], NULL);
    ck_assert_msg(got.exit_code == KG_EXIT_INTEGRITY || got.exit_code == KG_EXIT_INCOMPLETE ||
                      (got.exit_code == KG_EXIT_FAILED && strcmp(got.out, s.right[1].out) == 0),
                  "regress ended with %d: %.2000s%.2000s", got.exit_code, got.out, got.err);
    kg_process_result_free(&got);
    kg_verb_expect(s.lab.root, ARGS("reindex"), KG_EXIT_OK, NULL);
    char *made = kg_maker_dump(s.lab.root);
    kg_maker_expect_same(made, good);
    expect_right_again(&s);
    free(made);
    free(good);
    end(&s);
}

static void flip(const struct store *s, size_t page_bytes, size_t page, struct kg_rng *rng) {
    enum { N_FLIPS = 24 };
    const int fd = open(s->index, O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < N_FLIPS; i++) {
        const unsigned char byte = (unsigned char)kg_rng_below(rng, 256);
        const off_t at = (off_t)(page * page_bytes + kg_rng_below(rng, page_bytes));
        ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
}

/* Bytes of pages in the middle of the index become others: a right answer, or an error that speaks of the index. */
static void damaged_pages(struct kg_record *rec, const void *arg) {
    enum { N_TRIES = 10, PAGE_BYTES = 4096 };
    static const char *const ASKED[][6] = { { "list", NULL }, { "regress", NULL }, { "prune", "--keep", "2", NULL } };
    struct kg_process_result right[KG_COUNT_OF(ASKED)] = { { 0 } };
    struct store s = { 0 };
    struct kg_error err;
    struct kg_rng rng;
    char *good;
    size_t size_bytes, n_errors = 0;
    (void)arg;
    begin(&s, rec);
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) right[i] = ask(&s, ASKED[i], NULL);
    char *log = kg_xasprintf("%s-wal", s.index);
    ck_assert_msg(!kg_path_exists(log), "%s holds pages that the copy would lack", log);
    free(log);
    kg_must(kg_file_read(s.index, &good, &size_bytes, &err), &err);
    for (size_t k = 0; k < N_TRIES; k++) {
        const size_t page = 1 + (size_t)kg_rng_below(&rng, size_bytes / PAGE_BYTES - 1);
        for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) {
            struct kg_rng same = rng;
            kg_maker_remove_index(s.lab.root);
            kg_must(kg_file_write(s.index, good, size_bytes, &err), &err);
            flip(&s, PAGE_BYTES, page, &same);
            struct kg_process_result got = ask(&s, ASKED[i], NULL);
            const bool error = got.exit_code == KG_EXIT_INTEGRITY || got.exit_code == KG_EXIT_INCOMPLETE;
            const bool is_right = got.exit_code == right[i].exit_code && strcmp(got.out, right[i].out) == 0;
            ck_assert_msg(is_right || (error && strstr(got.err, "index.sqlite")),
                          "page %zu, try %zu: kigo %s ended with %d: %.2000s%.2000s", page, k, ASKED[i][0],
                          got.exit_code, got.out, got.err);
            n_errors += error;
            kg_process_result_free(&got);
        }
        (void)kg_rng_u32(&rng);
    }
    kg_record_metric(rec, "errors", "count", (double)n_errors);
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) kg_process_result_free(&right[i]);
    free(good);
    end(&s);
}

/* An index of SQLite's that lacks the newest runs, under the words that kigo made it with: nothing of it is malformed.
 */
static void runs_left_out_of_an_index(struct kg_record *rec, const void *arg) {
    static const char LEAVE_OUT[] =
        "DROP INDEX bundle_by_time;"
        "CREATE INDEX bundle_by_time ON bundle(started_us) WHERE started_us < 1760003600000000;"
        "PRAGMA writable_schema = 1;"
        "UPDATE sqlite_schema SET sql = 'CREATE INDEX bundle_by_time ON bundle(started_us)'"
        " WHERE name = 'bundle_by_time';";
    static const char *const ASKED[][4] = { { "list", NULL }, { "regress", NULL }, { "prune", "--keep", "1", NULL } };
    struct store s = { 0 };
    sqlite3 *db;
    (void)arg;
    begin(&s, rec);
    ck_assert_int_eq(sqlite3_open(s.index, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, LEAVE_OUT, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
    for (size_t i = 0; i < KG_COUNT_OF(ASKED); i++) kg_verb_refuses(s.lab.root, ASKED[i], KG_EXIT_INTEGRITY, "reindex");
    kg_verb_expect(s.lab.root, ARGS("reindex"), KG_EXIT_OK, NULL);
    expect_right_again(&s);
    end(&s);
}

#define ROWS(table, operation, function)                                                                               \
    for (size_t i = 0; i < KG_COUNT_OF(table); i++)                                                                    \
    kg_case_list_add(list, &(struct kg_case){ .layer = "integration",                                                  \
                                              .op = (operation),                                                       \
                                              .name = (table)[i].name,                                                 \
                                              .arg = &(table)[i],                                                      \
                                              .run = (function) })
#define ALONE(function)                                                                                                \
    kg_case_list_add(                                                                                                  \
        list, &(struct kg_case){ .layer = "integration", .op = "index_file", .name = #function, .run = (function) })

static void build(struct kg_case_list *list) {
    ROWS(FULL, "full_disk", full_disk);
    ROWS(UNREADABLE, "unreadable_env", unreadable_env);
    ROWS(BROKEN, "reindex_mends", reindex_mends);
    ALONE(truly_full_disk);
    ALONE(folder_of_another_user);
    ALONE(damaged_pages);
    ALONE(runs_left_out_of_an_index);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
