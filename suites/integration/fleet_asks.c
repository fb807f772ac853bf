#include "suites/integration/fleet_asks.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/hostile_store.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_RUNS = 5, N_CASES = 12, MOST_ARGS = 12 };

/* Cases that differ in all that is asked for, with numbers that need all of their digits. */
static void fill(void *arg, size_t i, struct kg_made_case *c) {
    static const char *const STATUSES[] = { "pass", "pass", "fail", "pass", "skip", "crash", "pass", "timeout" };
    const double run = *(const double *)arg;
    c->status = i == N_CASES - 1 ? "skip" : STATUSES[(i + (size_t)run) % KG_COUNT_OF(STATUSES)];
    c->absent = i == 3 && run == 2;
    c->op = i % 3 == 0 ? "lin_ear" : i % 3 == 1 ? "linXear" : "Linear";
    c->backend = i % 4 == 0 ? "cpu" : "cuda";
    c->definition = i == 5 && run > 2 ? "another" : "";
    c->time_ns = i % 5 == 4 ? 0 : 1e6 * (1 + run / 3) / (1 + (double)i);
    c->throttled = i == 7;
    c->max_abs = 1.0 / (3 + run + (double)i);
    c->peak_bytes = i % 2 ? 1 << 20 : 0;
}

/* Runs of a folder, and the same in a fleet, by two runners. */
struct both {
    struct kg_fleet_lab fleet;
    struct kg_history_lab folder;
};

static void push(const struct both *both, const char *user, char *id) {
    char *dir = kg_path_join(both->folder.root, id);
    kg_fleet_lab_kigo(&both->fleet, user, ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    free(dir);
    free(id);
}

/* An escape, quotes, a right-to-left mark and the like in every string. */
static void push_hostile(const struct both *both) {
    char *dir = kg_maker_sealed(both->folder.root, 2);
    kg_hostile_records(dir);
    push(both, "runner_b", kg_xstrdup(strrchr(dir, '/') + 1));
    free(dir);
}

/* False: the case was marked as skipped. */
static bool open_both(struct both *both, struct kg_record *rec) {
    static const char *const GPUS[N_RUNS] = { NULL, "Made GPU", "\xc3\x89tat GPU", "Made GPU", "made gpu" };
    if (!kg_fleet_lab_open(&both->fleet, rec, true)) return false;
    char *dir = kg_path_join(kg_scratch_dir(rec), "repository");
    kg_history_lab_open_in(&both->folder, dir, N_RUNS + 1);
    free(dir);
    for (size_t i = 0; i < N_RUNS; i++) {
        double number = (double)i;
        const struct kg_made_run run = { .commit = i == 3 ? NULL : both->folder.commits[i],
                                         .dirty = i == 1,
                                         .n_cases = N_CASES,
                                         .gpu = GPUS[i],
                                         .fill = fill,
                                         .arg = &number };
        push(both, i % 2 ? "runner_a" : "runner_b", kg_history_lab_run(&both->folder, run));
    }
    push_hostile(both);
    return true;
}

static void close_both(struct both *both) {
    kg_history_lab_close(&both->folder);
    kg_fleet_lab_close(&both->fleet);
}

/* The same words, in the same form, to both. */
static void expect_same(const struct both *both, const char *const *args, const char *form) {
    const char *all[MOST_ARGS + 3] = { NULL };
    struct kg_process_result local;
    char *fleet = NULL;
    size_t n = 0;
    for (; args[n]; n++) all[n] = args[n];
    if (form) all[n++] = form;
    if (strcmp(args[0], "query") == 0) all[n++] = "--max-seconds=60";
    kg_verb_run(both->folder.root, all, false, &local);
    kg_fleet_lab_kigo(&both->fleet, "reader", all, local.exit_code, NULL, &fleet);
    size_t same = 0;
    while (local.out[same] && local.out[same] == fleet[same]) same++;
    const size_t shown = same > 200 ? same - 200 : 0;
    if (strcmp(fleet, local.out) != 0)
        ck_abort_msg("kigo %s %s %s: from byte %zu the folder says\n%.1000s\nand the fleet\n%.1000s", args[0],
                     args[1] ? args[1] : "", form ? form : "", shown, local.out + shown, fleet + shown);
    free(fleet);
    kg_process_result_free(&local);
}

void kg_fleet_asks_as_a_folder(struct kg_record *rec, const void *arg) {
    static const char EXACT[] = "bench/linear/case_1[cuda,f16,M=1 N=128]",
                      RUNS[] = "SELECT run, verdict, exit_code, started_utc, run_seconds, run_seed, n_pass, git_commit,"
                               " git_dirty, gpu_name, host_memory_bytes, has_signature, comparison_key FROM run"
                               " ORDER BY started_utc, n_pass",
                      FIGURES[] = "SELECT run, case_key, status, figure, unit, value, value_limit, n_values, mad,"
                                  " ci_low, ci_high, valid FROM figure WHERE value > 0 AND value < 0.25 OR"
                                  " unit = 'ns' ORDER BY result_no, length(figure), value",
                      FAILURES[] =
                          "SELECT case_key, backend, spec, status, reason, case_seed, case_seconds FROM failure"
                          " ORDER BY result_no",
                      COUNTS[] = "SELECT count(*) AS n, sum(n_pass) AS sum, avg(n_pass) AS mean, avg(2) AS two,"
                                 " max(overhead_share) AS most, 1 < 2 AS less, NULL AS absent FROM run";
    static const struct {
        const char *args[MOST_ARGS];
        bool all_forms; /* beside JSON: what is derived from the same cells */
    } CALLS[] = {
        { { "list" }, true },
        { { "list", "--limit", "2" }, false },
        { { "list", "--machine", "made" }, false },
        { { "list", "--machine", "\xc3\xa9TAT" }, false },
        { { "list", "--op", "Lin*", "--backend", "c?u" }, false },
        { { "list", "--op", "lin_ear", "--layer", "ben*", "--shape", "M=1 N=25[6" }, false },
        { { "list", "--op", "lin%" }, false },
        { { "list", "--commits", "HEAD~4..HEAD~1", "--repo", "@" }, false },
        { { "history", EXACT }, true },
        { { "history", "bench/linear/case_5*" }, false },
        { { "history", "*" }, false },
        { { "history", "*_1?[*", "--limit", "7" }, false },
        { { "history", "*", "--op", "lin_ear" }, false },
        { { "history", EXACT, "--figure", "*" }, true },
        { { "history", "*case_?[*", "--figure", "time.*", "--machine", "Made", "--limit", "9" }, false },
        { { "history", "*", "--figure", "?.max_abs", "--commits", "HEAD~3..HEAD", "--repo", "@" }, false },
        { { "history", "case_1" }, false },
        { { "history", "*", "--never-ran" }, true },
        { { "history", "*_1?[*", "--never-ran", "--machine", "made" }, false },
        { { "history", "*", "--never-ran", "--commits", "HEAD~2..HEAD~1", "--repo", "@" }, false },
        { { "history", "*case_1[*", "--never-ran" }, false },
        { { "history", "case_1", "--never-ran" }, false }, /* there is none */
        { { "query", RUNS }, true },
        { { "query", FIGURES }, false },
        { { "query", FAILURES }, false },
        { { "query", COUNTS }, false },
        { { "query", "SELECT run FROM run WHERE 1 = 0" }, true },
        { { "query", "SELECT value FROM figure ORDER BY value, unit", "--limit", "3" }, false },
        { { "query", "SELECT value FROM figure", "--max-rows", "3" }, false },
        { { "query", "SELECT no_such_column FROM run" }, false },
        { { "query", "SELECT 1 FROM no_such_table" }, false },
        { { "query", "SELEC 1" }, false },
        { { "query", "SELECT 1; SELECT 2" }, false },
        { { "query", "" }, false },
    };
    struct both both;
    (void)arg;
    if (!open_both(&both, rec)) return;
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        const char *args[MOST_ARGS] = { NULL };
        for (size_t k = 0; CALLS[i].args[k]; k++)
            args[k] = strcmp(CALLS[i].args[k], "@") == 0 ? both.folder.repository : CALLS[i].args[k];
        expect_same(&both, args, "--json");
        if (CALLS[i].all_forms) expect_same(&both, args, NULL);
        if (CALLS[i].all_forms) expect_same(&both, args, "--csv");
    }
    close_both(&both);
}

/* A statement that somebody wrote changes nothing, takes no longer than it may, and always ends. */
void kg_fleet_queries_only_read(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *sql;
        int exit_code;
        const char *says;
    } ROWS[] = {
        { "DELETE FROM bundle", KG_EXIT_USAGE, "may only read" },
        { "UPDATE bundle SET verdict = 'pass' RETURNING 1", KG_EXIT_USAGE, "may only read" },
        { "WITH gone AS (DELETE FROM bundle RETURNING 1) SELECT * FROM gone", KG_EXIT_USAGE, "may only read" },
        { "CREATE TEMP TABLE t(a int)", KG_EXIT_USAGE, "may only read" },
        { "SET default_transaction_read_only = off", KG_EXIT_USAGE, "may only read" },
        { "COMMIT", KG_EXIT_USAGE, "may only read" },
        { "COPY bundle TO STDOUT", KG_EXIT_USAGE, "may only read" },
        { "COPY bundle FROM STDIN", KG_EXIT_USAGE, "may only read" },
        { "SELECT set_config('transaction_read_only', 'off', true), make_month('2031-01-01')", KG_EXIT_USAGE, "" },
        { "SELECT 1 / 0", KG_EXIT_USAGE, "division by zero" },
    };
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dir = kg_maker_sealed(lab.bundles, 1);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_fleet_lab_kigo(&lab, "postgres", ARGS("query", ROWS[i].sql, "--max-seconds", "60"), ROWS[i].exit_code,
                          ROWS[i].says, NULL);
    /* The server ends it: one that only the client gave up would sleep on. */
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("query", "SELECT pg_sleep(600)", "--max-seconds", "0.3"),
                      KG_EXIT_INCOMPLETE, NULL, NULL);
    kg_fleet_lab_wait(&lab, "SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%'"
                            " AND state = 'active' AND pid <> pg_backend_pid()");
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.bundle WHERE verdict = 'pass'"), 1);
    kg_fleet_lab_kigo(&lab, "nobody", ARGS("query", "SELECT 1 FROM run"), KG_EXIT_INCOMPLETE, "permission denied",
                      NULL);
    free(dir);
    kg_fleet_lab_close(&lab);
}

/* Which of two that are named is asked. */
void kg_fleet_or_folder(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    char *said = NULL;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *there = kg_maker_sealed(lab.bundles, 1), *here_root = kg_path_join(kg_scratch_dir(rec), "here"),
         *here = kg_verb_seal(here_root), *url = kg_fleet_lab_url(&lab, "reader");
    const char *const id = strrchr(there, '/') + 1;
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", there), KG_EXIT_OK, ": pushed", NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("list"), KG_EXIT_OK, id, NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("list", "--bundles", here_root), KG_EXIT_OK, strrchr(here, '/') + 1, &said);
    ck_assert_msg(!strstr(said, id), "%s", said);
    kg_fleet_lab_kigo(&lab, "nobody", ARGS("list", "--history", url), KG_EXIT_OK, id, NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("list", "--history", url, "--bundles", here_root), KG_EXIT_USAGE,
                      "one of them", NULL);
    static const char *const VERBS[] = { "confirm", "selfcheck", "web" };
    for (size_t i = 0; i < KG_COUNT_OF(VERBS); i++)
        kg_fleet_lab_kigo(&lab, "reader", ARGS(VERBS[i], "--history", url, "--bundles", here_root), KG_EXIT_USAGE,
                          "one of them", NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("show", "latest", "--bundles", here_root), KG_EXIT_OK, NULL, NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("prune", "--keep", "1"), KG_EXIT_USAGE, "say which", NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("prune", "--bundles", here_root), KG_EXIT_OK, strrchr(here, '/') + 1, NULL);
    free(said);
    free(url);
    free(here);
    free(here_root);
    free(there);
    kg_fleet_lab_close(&lab);
}

/* A predecessor that says it was sealed later, by less than machines' clocks may differ, as in a folder. */
void kg_fleet_latest_has_slack(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *before = kg_maker_sealed(lab.bundles, 1), *last = kg_maker_sealed(lab.bundles, 1);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", before), KG_EXIT_OK, ": pushed", NULL);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", last), KG_EXIT_OK, ": pushed", NULL);
    char *sql = kg_xasprintf("UPDATE kigo.bundle SET sealed_us = (SELECT max(sealed_us) FROM kigo.bundle) + 30000000"
                             " WHERE bundle_id = '%s'",
                             strrchr(before, '/') + 1);
    free(kg_fleet_lab_sql(&lab, "postgres", sql));
    kg_fleet_lab_kigo(&lab, "reader", ARGS("show", "latest"), KG_EXIT_OK, strrchr(last, '/') + 1, NULL);
    free(sql);
    free(last);
    free(before);
    kg_fleet_lab_close(&lab);
}
