#include "suites/integration/fleet_holds.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/fleet_server.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rows without what they belong to, and runs that lack some of theirs: all runs here are of one case. */
static const char TORN[] =
    "SELECT (SELECT count(*) FROM kigo.archive a FULL JOIN kigo.bundle b USING (bundle_id) WHERE a.sha256 IS NULL OR"
    "  b.bundle_no IS NULL)"
    " + (SELECT count(*) FROM kigo.archive a WHERE n_chunks <> (SELECT count(*) FROM kigo.archive_chunk c"
    "  WHERE c.tagmanifest_sha256 = a.tagmanifest_sha256))"
    " + (SELECT count(*) FROM kigo.archive_chunk c WHERE NOT EXISTS (SELECT FROM kigo.archive a"
    "  WHERE a.tagmanifest_sha256 = c.tagmanifest_sha256))"
    " + (SELECT count(*) FROM kigo.bundle b WHERE n_planned <> (SELECT count(*) FROM kigo.result_row r"
    "  WHERE r.bundle_no = b.bundle_no))"
    " + (SELECT count(*) FROM kigo.result_row r WHERE NOT EXISTS (SELECT FROM kigo.bundle b"
    "  WHERE b.bundle_no = r.bundle_no) OR (SELECT count(*) FROM kigo.metric_row m WHERE m.result_id = r.result_id)"
    "  <> (SELECT max(n) FROM (SELECT count(*) AS n FROM kigo.metric_row GROUP BY result_id) s))"
    " + (SELECT count(*) FROM kigo.metric_row m WHERE NOT EXISTS (SELECT FROM kigo.result_row r"
    "  WHERE r.result_id = m.result_id))",
                  ALL_GONE[] = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'kigo'";

/* Of each kind that a run has one of, and its results. */
static const char N_ROWS_OF_RUNS[] =
    "SELECT (SELECT count(*) FROM kigo.archive) + (SELECT count(*) FROM kigo.archive_chunk)"
    " + (SELECT count(*) FROM kigo.bundle) + (SELECT count(*) FROM kigo.result_row)";

static int64_t n_of(const struct kg_fleet_lab *lab, const char *dir) {
    char *sql = kg_xasprintf("SELECT count(*) FROM kigo.archive WHERE bundle_id = '%s'", strrchr(dir, '/') + 1);
    const int64_t n = kg_fleet_lab_number(lab, sql);
    free(sql);
    return n;
}

/* With a run in it, so that runner and month are known; *seconds: what its push took. */
static bool open_lab(struct kg_fleet_lab *lab, struct kg_record *rec, double *seconds) {
    if (!kg_fleet_lab_open(lab, rec, true)) return false;
    char *first = kg_verb_seal(lab->bundles);
    const uint64_t begun_ns = kg_clock_monotonic_ns();
    kg_fleet_lab_kigo(lab, "runner_a", ARGS("push", first), KG_EXIT_OK, ": pushed", NULL);
    if (seconds) *seconds = (double)(kg_clock_monotonic_ns() - begun_ns) / 1e9;
    ck_assert_int_gt(kg_fleet_lab_number(lab, "SELECT count(*) FROM kigo.metric_row"), 0);
    free(first);
    return true;
}

void kg_fleet_expect_whole(const struct kg_fleet_lab *lab, const char *dir) {
    ck_assert_int_eq(kg_fleet_lab_number(lab, TORN), 0);
    kg_fleet_lab_kigo(lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, n_of(lab, dir) ? "there already" : ": pushed",
                      NULL);
    ck_assert_int_eq(n_of(lab, dir), 1);
    ck_assert_int_eq(kg_fleet_lab_number(lab, TORN), 0);
}

/* What the client said of the run: a state of `push --json`; nothing where it did not come so far. */
static const char *said(const struct kg_process_result *result, json_t **json) {
    *json = json_loads(result->out, 0, NULL);
    const char *state = json_string_value(json_object_get(json_array_get(json_object_get(*json, "runs"), 0), "state"));
    return state ? state : "absent";
}

void kg_fleet_expect_said(const struct kg_fleet_lab *lab, const char *dir, const struct kg_process_result *result) {
    json_t *json;
    const char *state = said(result, &json);
    const int64_t n = n_of(lab, dir);
    ck_assert_msg(result->exit_code == (strcmp(state, "pushed") == 0 ? KG_EXIT_OK : KG_EXIT_INCOMPLETE),
                  "%s and exit code %d: %.1000s", state, result->exit_code, result->err);
    ck_assert_msg(strcmp(state, "pushed") != 0 || n == 1, "it said pushed, and the fleet does not have it");
    ck_assert_msg(strcmp(state, "absent") != 0 || n == 0, "it said that nothing is there: %.1000s", result->err);
    ck_assert_msg(strcmp(state, "absent") != 0 || strstr(result->err, "nothing of it") ||
                      strstr(result->err, "cannot be reached") || strstr(result->err, "went away"),
                  "%.1000s", result->err);
    json_decref(json);
}

void kg_fleet_server_killed_at_random(struct kg_record *rec, const void *n) {
    struct kg_fleet_lab lab;
    struct kg_rng rng;
    double seconds;
    int n_whole = 0;
    if (!open_lab(&lab, rec, &seconds)) return;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < *(const int *)n; i++) {
        struct kg_process_result result;
        char *dir = kg_verb_seal(lab.bundles);
        struct kg_fleet_job *push = kg_fleet_lab_begin(&lab, "runner_a", ARGS("push", dir, "--json", "--wait", "0"));
        usleep((useconds_t)(1.2e6 * seconds * kg_rng_uniform(&rng)));
        kg_fleet_server_kill();
        kg_fleet_job_end(push, &result);
        kg_fleet_server_start(NULL);
        kg_fleet_expect_said(&lab, dir, &result);
        n_whole += (int)n_of(&lab, dir);
        kg_fleet_expect_whole(&lab, dir);
        kg_process_result_free(&result);
        free(dir);
    }
    kg_record_metric(rec, "whole", "count", n_whole);
    kg_fleet_lab_close(&lab);
}

void kg_fleet_client_killed_at_random(struct kg_record *rec, const void *n) {
    struct kg_fleet_lab lab;
    struct kg_rng rng;
    double seconds;
    int n_whole = 0;
    if (!open_lab(&lab, rec, &seconds)) return;
    kg_rng_init(&rng, kg_record_seed(rec), 1);
    for (int i = 0; i < *(const int *)n; i++) {
        struct kg_process_result result;
        char *dir = kg_verb_seal(lab.bundles);
        kg_fleet_job_end(
            kg_fleet_lab_begin_for(&lab, "runner_a", ARGS("push", dir), 1e-6 + 1.2 * seconds * kg_rng_uniform(&rng)),
            &result);
        kg_fleet_lab_wait(&lab, ALL_GONE);
        ck_assert_msg(result.exit_code != KG_EXIT_OK || n_of(&lab, dir) == 1, "%s", result.out);
        n_whole += (int)n_of(&lab, dir);
        kg_fleet_expect_whole(&lab, dir);
        kg_process_result_free(&result);
        free(dir);
    }
    kg_record_metric(rec, "whole", "count", n_whole);
    kg_fleet_lab_close(&lab);
}

static const char *const TABLES[KG_FLEET_N_TABLES] = { "metric_row", "archive_chunk", "tcase", "result_row",
                                                       "archive",    "bundle",        "env",   "figure_name" };

/* Begins a push that waits for a table. */
static struct kg_fleet_job *push_that_waits(const struct kg_fleet_lab *lab, const char *dir, const char *table) {
    char *waits =
        kg_xasprintf("SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = 'kigo.%s'::regclass", table);
    struct kg_fleet_job *push = kg_fleet_lab_begin(lab, "runner_a", ARGS("push", dir));
    kg_fleet_lab_wait(lab, waits);
    free(waits);
    return push;
}

static struct kg_fleet_beside *hold(const struct kg_fleet_lab *lab, const char *table) {
    char *name = kg_xasprintf("kigo.%s", table);
    struct kg_fleet_beside *beside = kg_fleet_lab_hold(lab, name);
    free(name);
    return beside;
}

void kg_fleet_client_killed_at_tables(struct kg_record *rec, const void *n) {
    struct kg_fleet_lab lab;
    if (!open_lab(&lab, rec, NULL)) return;
    char *dir = kg_verb_seal(lab.bundles);
    for (int i = 0; i < *(const int *)n; i++) {
        struct kg_process_result result;
        struct kg_fleet_beside *beside = hold(&lab, TABLES[i]);
        struct kg_fleet_job *push = push_that_waits(&lab, dir, TABLES[i]);
        kg_fleet_job_kill(push);
        kg_fleet_job_end(push, &result);
        ck_assert_int_eq(result.signal, SIGKILL);
        kg_fleet_lab_release(beside);
        kg_fleet_lab_wait(&lab, ALL_GONE);
        ck_assert_msg(n_of(&lab, dir) == 0 && kg_fleet_lab_number(&lab, TORN) == 0, "killed at %s", TABLES[i]);
        kg_process_result_free(&result);
    }
    kg_fleet_expect_whole(&lab, dir);
    free(dir);
    kg_fleet_lab_close(&lab);
}

void kg_fleet_two_at_once(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    struct kg_process_result results[2];
    struct kg_fleet_job *jobs[2];
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dir = kg_maker_sealed(lab.bundles, 2), *before = kg_verb_seal(kg_scratch_dir(rec));
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", before), KG_EXIT_OK, NULL, NULL); /* so that the month is made */
    free(before);
    struct kg_fleet_beside *beside = kg_fleet_lab_hold(&lab, "kigo.metric_row");
    for (size_t i = 0; i < 2; i++) jobs[i] = kg_fleet_lab_begin(&lab, i ? "runner_b" : "runner_a", ARGS("push", dir));
    kg_fleet_lab_wait(&lab, "SELECT count(*) = 2 FROM pg_stat_activity WHERE application_name = 'kigo'"
                            " AND wait_event_type = 'Lock' AND datname = current_database()");
    kg_fleet_lab_release(beside);
    size_t n_pushed = 0, n_there = 0;
    for (size_t i = 0; i < 2; i++) {
        kg_fleet_job_end(jobs[i], &results[i]);
        ck_assert_msg(results[i].exit_code == KG_EXIT_OK, "%.1000s", results[i].err);
        n_pushed += strstr(results[i].out, ": pushed") != NULL;
        n_there += strstr(results[i].out, "there already") != NULL;
        kg_process_result_free(&results[i]);
    }
    ck_assert_uint_eq(n_pushed, 1);
    ck_assert_uint_eq(n_there, 1);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_ROWS_OF_RUNS), 2 + 2 + 2 + 3);
    free(dir);
    kg_fleet_lab_close(&lab);
}

void kg_fleet_changed_meanwhile(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    struct kg_process_result result;
    (void)arg;
    if (!open_lab(&lab, rec, NULL)) return;
    char *dir = kg_verb_seal(lab.bundles);
    struct kg_fleet_beside *beside = hold(&lab, "metric_row");
    struct kg_fleet_job *push = push_that_waits(&lab, dir, "metric_row");
    kg_maker_append(dir, "data/dirty.diff", "by hand\n");
    kg_fleet_lab_release(beside);
    kg_fleet_job_end(push, &result);
    ck_assert_msg(result.exit_code == KG_EXIT_INTEGRITY, "%d: %.1000s%.1000s", result.exit_code, result.out,
                  result.err);
    ck_assert_int_eq(n_of(&lab, dir), 0);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, TORN), 0);
    kg_process_result_free(&result);
    free(dir);
    kg_fleet_lab_close(&lab);
}

void kg_fleet_of_a_newer_kigo(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dir = kg_verb_seal(lab.bundles);
    kg_maker_replace(dir, "bag-info.txt", "Kigo-Format: ", "Kigo-Format: 9");
    kg_maker_retag(dir);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_INTEGRITY, "newer", NULL);
    ck_assert_int_eq(n_of(&lab, dir), 0);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.archive_chunk"), 0);
    free(dir);
    kg_fleet_lab_close(&lab);
}

enum { SMALL_MB = 8, BALLAST_MB = 6, NOISE_BYTES = 3 << 20, IN_MAY_2022_S = 1652000000 };

/* A run of May 2022, with bytes that no compression makes smaller. malloc'ed. */
static char *noisy_run(const struct kg_fleet_lab *lab, size_t n_bytes) {
    const struct kg_made_run run = { .started_us = (int64_t)IN_MAY_2022_S * 1000000, .n_cases = 1 };
    unsigned char *noise = kg_xmalloc(n_bytes);
    struct kg_error err;
    struct kg_rng rng;
    char *id = NULL;
    kg_rng_init(&rng, 7, 7);
    for (size_t i = 0; i < n_bytes; i++) noise[i] = (unsigned char)(256 * kg_rng_uniform(&rng));
    EXPECT_OK(kg_made_run_write(lab->bundles, &run, &id, &err), err);
    char *dir = kg_path_join(lab->bundles, id), *logs = kg_path_join(dir, "data/logs"),
         *path = kg_path_join(logs, "noise");
    EXPECT_OK(kg_dir_make(logs, &err), err);
    EXPECT_OK(kg_file_write(path, noise, n_bytes, &err), err);
    kg_maker_rehash(dir);
    free(noise);
    free(path);
    free(logs);
    free(id);
    return dir;
}

/* New months lie on the small disk, beside a file that takes most of its room. */
static void fill_disk(const struct kg_fleet_lab *lab, const char *small) {
    char *make = kg_xasprintf("CREATE TABLESPACE small LOCATION '%s'", small);
    char *ballast = kg_xasprintf("GRANT CREATE ON TABLESPACE small TO PUBLIC;"
                                 "ALTER DATABASE %s SET default_tablespace = small;"
                                 "COPY (SELECT repeat('x', 1 << 20) FROM generate_series(1, %d)) TO '%s/ballast'",
                                 lab->database, BALLAST_MB, small);
    free(kg_fleet_lab_sql(lab, "postgres", make));
    free(kg_fleet_lab_sql(lab, "postgres", ballast));
    free(ballast);
    free(make);
}

/* Nothing of it is left, nor asked for when the log is read again. */
static void leave_disk(const struct kg_fleet_lab *lab) {
    char *reset = kg_xasprintf("DROP TABLE kigo.archive_chunk_2022_05, kigo.result_row_2022_05,"
                               " kigo.metric_row_2022_05; ALTER DATABASE %s RESET default_tablespace",
                               lab->database);
    free(kg_fleet_lab_sql(lab, "postgres", reset));
    free(kg_fleet_lab_sql(lab, "postgres", "DROP TABLESPACE small"));
    free(kg_fleet_lab_sql(lab, "postgres", "CHECKPOINT"));
    kg_fleet_server_kill();
    kg_fleet_server_start(NULL);
    free(reset);
}

void kg_fleet_disk_full(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    const char *unused;
    (void)arg;
    if (!open_lab(&lab, rec, NULL)) return;
    kg_fleet_server_kill();
    const char *why = kg_fleet_server_start_with_small(SMALL_MB);
    if (why) {
        kg_fleet_lab_close(&lab);
        return kg_record_skip(rec, "%s", why);
    }
    char *small = kg_path_join(kg_fleet_server_dir(&unused), "small");
    char *room = kg_xasprintf("COPY (SELECT 1) TO '%s/ballast'", small), *dir = noisy_run(&lab, NOISE_BYTES);
    fill_disk(&lab, small);
    const int64_t n_before = kg_fleet_lab_number(&lab, N_ROWS_OF_RUNS);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_INCOMPLETE, "the server's disk is full", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_ROWS_OF_RUNS), n_before);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, TORN), 0);
    free(kg_fleet_lab_sql(&lab, "postgres", room));
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    ck_assert_int_gt(kg_fleet_lab_number(&lab, "SELECT sum(length(data)) FROM kigo.archive_chunk_2022_05"),
                     NOISE_BYTES);
    leave_disk(&lab);
    free(dir);
    free(room);
    free(small);
    kg_fleet_lab_close(&lab);
}
