#include "suites/integration/fleet_prunes.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Two runs of a month, and one of the next: all have one comparison key, and each has cases that later ones lack. */
static const int64_t STARTED_S[] = { 1614600000 /* 2021-03 */, 1614700000, 1617300000 /* 2021-04 */ };
enum { N_RUNS = 3 };

static const char
    N_ALL[] = "SELECT (SELECT count(*) FROM kigo.archive) + (SELECT count(*) FROM kigo.archive_chunk)"
              " + (SELECT count(*) FROM kigo.bundle) + (SELECT count(*) FROM kigo.result_row)",
    ROWS[] = "SELECT md5(string_agg(t, ',' ORDER BY t)) FROM ((SELECT t::text FROM kigo.tcase t) UNION ALL"
             " (SELECT t::text FROM kigo.figure_name t) UNION ALL (SELECT t::text FROM kigo.env t) UNION ALL"
             " (SELECT t::text FROM kigo.build t) UNION ALL (SELECT t::text FROM kigo.bundle t) UNION ALL"
             " (SELECT t::text FROM kigo.result_row t) UNION ALL (SELECT t::text FROM kigo.metric_row t)) r(t)";

/* Runs in the fleet, as runner_a's; ids are malloc'ed. */
static bool push_runs(struct kg_fleet_lab *lab, struct kg_record *rec, char *ids[N_RUNS]) {
    if (!kg_fleet_lab_open(lab, rec, true)) return false;
    for (size_t i = 0; i < N_RUNS; i++) {
        const struct kg_made_run run = { .started_us = STARTED_S[i] * 1000000, .n_cases = N_RUNS - i };
        struct kg_error err;
        ck_assert_msg(kg_made_run_write(lab->bundles, &run, &ids[i], &err) == KG_OK, "%s", err.message);
    }
    kg_fleet_lab_kigo(lab, "runner_a", ARGS("push", "--all", "--bundles", lab->bundles), KG_EXIT_OK, ": pushed", NULL);
    return true;
}

static void prune_as(const struct kg_fleet_lab *lab, const char *user, bool apply, int exit_code, const char *says) {
    char *url = kg_fleet_lab_url(lab, user);
    const char *args[] = { "prune", "--keep", "1", "--author", "Ann O'Neil", "--history", url, "--apply", NULL };
    if (!apply) args[7] = NULL;
    kg_fleet_lab_kigo(lab, user, args, exit_code, says, NULL);
    free(url);
}

static int64_t n_pruned(const struct kg_fleet_lab *lab) {
    json_t *status = kg_fleet_lab_json(lab, "reader", ARGS("fleet", "status"), KG_EXIT_OK);
    const json_t *runner = json_array_get(json_object_get(status, "runners"), 0);
    const int64_t n = kg_verb_integer(runner, "n_pruned");
    ck_assert_int_eq(kg_verb_integer(runner, "n_gaps"), 0);
    json_decref(status);
    return n;
}

static void expect_tombstone(const struct kg_fleet_lab *lab, const char *id, const char *dir) {
    char tags[KG_SHA256_HEX_SIZE], manifest[KG_SHA256_HEX_SIZE];
    char *tags_path = kg_path_join(dir, "tagmanifest-sha256.txt"), *path = kg_path_join(dir, "manifest-sha256.txt");
    struct kg_error err;
    EXPECT_OK(kg_sha256_file(tags_path, tags, &err), err);
    EXPECT_OK(kg_sha256_file(path, manifest, &err), err);
    char *sql = kg_xasprintf("SELECT tagmanifest_sha256, manifest_sha256, author, pruned_by, why FROM kigo.tombstone"
                             " WHERE bundle_id = '%s'",
                             id),
         *want = kg_xasprintf("%s|%s|Ann O'Neil|postgres|past what prune keeps", tags, manifest),
         *got = kg_fleet_lab_sql(lab, "reader", sql);
    ck_assert_str_eq(got, want);
    free(got);
    free(want);
    free(sql);
    free(path);
    free(tags_path);
}

void kg_fleet_pruned_runs_leave_tombstones(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    char *ids[N_RUNS];
    (void)arg;
    if (!push_runs(&lab, rec, ids)) return;
    char *first = kg_path_join(lab.bundles, ids[0]), *to = kg_path_join(kg_scratch_dir(rec), "to");
    const int64_t n_before = kg_fleet_lab_number(&lab, N_ALL), n_first = 1 + 1 + 1 + 3, n_second = 1 + 1 + 1 + 2;
    prune_as(&lab, "reader", false, KG_EXIT_OK, "2 of 3 bundles");
    prune_as(&lab, "reader", true, KG_EXIT_INCOMPLETE, "permission denied");
    prune_as(&lab, "runner_a", true, KG_EXIT_INCOMPLETE, "permission denied");
    kg_fleet_lab_refuses(&lab, "runner_a", "INSERT INTO kigo.tombstone(bundle_id) VALUES ('x')", "permission denied");
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_ALL), n_before);
    ck_assert_int_eq(n_pruned(&lab), 0);
    prune_as(&lab, "postgres", true, KG_EXIT_OK, "2 of 3 bundles");
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_ALL), n_before - n_first - n_second);
    ck_assert_int_eq(n_pruned(&lab), 2);
    expect_tombstone(&lab, ids[0], first);
    /* Not a second time, and not to anybody; but where it is asked for. */
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", "--all", "--bundles", lab.bundles), KG_EXIT_OK,
                      "pruned from the fleet on", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_ALL), n_before - n_first - n_second);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull", ids[0], "--bundles", to), KG_EXIT_USAGE, "was pruned on", NULL);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", "--pruned", first), KG_EXIT_OK, ": pushed", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, N_ALL), n_before - n_second);
    ck_assert_int_eq(n_pruned(&lab), 1);
    /* Who pins it keeps it. */
    char *pin = kg_xasprintf("INSERT INTO kigo.annotation VALUES ('p', 'pin', '%s', NULL, NULL, 1, 'ann', '')", ids[0]);
    free(kg_fleet_lab_sql(&lab, "postgres", pin));
    prune_as(&lab, "postgres", true, KG_EXIT_OK, "0 of 2 bundles");
    free(kg_fleet_lab_sql(&lab, "postgres", "DELETE FROM kigo.annotation"));
    prune_as(&lab, "postgres", true, KG_EXIT_OK, "1 of 2 bundles");
    ck_assert_int_eq(n_pruned(&lab), 2);
    free(pin);
    free(to);
    free(first);
    for (size_t i = 0; i < N_RUNS; i++) free(ids[i]);
    kg_fleet_lab_close(&lab);
}

/* Rows that runs shared go with the last of them, and a month that is empty with its partitions. */
void kg_fleet_pruned_is_as_reindexed(struct kg_record *rec, const void *arg) {
    static const char N_PARTITIONS[] = "SELECT count(*) FROM pg_inherits WHERE inhrelid::regclass::text LIKE '%2021_0";
    struct kg_fleet_lab lab;
    char *ids[N_RUNS];
    (void)arg;
    if (!push_runs(&lab, rec, ids)) return;
    char *march = kg_xasprintf("%s3'", N_PARTITIONS), *april = kg_xasprintf("%s4'", N_PARTITIONS);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, march), 3);
    prune_as(&lab, "postgres", true, KG_EXIT_OK, "2 of 3 bundles");
    ck_assert_int_eq(kg_fleet_lab_number(&lab, march), 0);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, april), 3);
    char *before = kg_fleet_lab_sql(&lab, "reader", ROWS);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "reindex"), KG_EXIT_OK, "indexed 1 run", NULL);
    char *after = kg_fleet_lab_sql(&lab, "reader", ROWS);
    ck_assert_str_eq(before, after);
    /* A month that was dropped is made again for a run of it. */
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", "--all", "--pruned", "--bundles", lab.bundles), KG_EXIT_OK,
                      ": pushed", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, march), 3);
    free(after);
    free(before);
    free(april);
    free(march);
    for (size_t i = 0; i < N_RUNS; i++) free(ids[i]);
    kg_fleet_lab_close(&lab);
}
