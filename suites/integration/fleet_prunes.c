#include "suites/integration/fleet_prunes.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
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

/* Runs of a folder, and the same in a fleet, by one runner. */
struct pruned {
    struct kg_fleet_lab fleet;
    struct kg_history_lab folder;
};
enum { N_LINE = 48, N_OTHERS = 12, MOST_ARGS = 12 };

static void make_red(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg, (void)i;
    c->status = "fail";
}

/* More than regress takes for a baseline, of one comparison key, and some that it takes for none. Then those of other
 * keys, whose order by bytes is not that of a dictionary. */
static void push_both(struct pruned *both) {
    static const char *const GPUS[] = { "made gpu", "Other GPU", "\xc3\x89tat GPU", "_gpu" };
    for (size_t i = 0; i < N_LINE + N_OTHERS; i++) {
        const bool in_line = i < N_LINE;
        const struct kg_made_run run = { .commit = i % 5 == 3 ? NULL : both->folder.commits[i % KG_LAB_COMMITS],
                                         .dirty = i % 7 == 2,
                                         .partial = i % 11 == 4,
                                         .n_cases = 1,
                                         .gpu = in_line ? NULL : GPUS[i % KG_COUNT_OF(GPUS)],
                                         .fill = i % 6 == 1 ? make_red : NULL };
        free(kg_history_lab_run(&both->folder, run));
    }
    kg_fleet_lab_kigo(&both->fleet, "runner_a", ARGS("push", "--all", "--bundles", both->folder.root), KG_EXIT_OK,
                      ": pushed", NULL);
}

/* A fleet's sizes are of archives: each must be there, and the sum of those that go. */
static char *without_sizes_in_json(const char *text) {
    json_t *plan = json_loads(text, 0, NULL), *row;
    size_t i;
    int64_t n_bytes = 0;
    json_array_foreach(json_object_get(plan, "bundles"), i, row) {
        const int64_t size_bytes = kg_verb_integer(row, "size_bytes");
        ck_assert_int_gt(size_bytes, 0);
        if (json_is_true(json_object_get(row, "goes"))) n_bytes += size_bytes;
        json_object_del(row, "size_bytes");
    }
    ck_assert_int_eq(kg_verb_integer(plan, "n_bytes"), n_bytes);
    json_object_del(plan, "n_bytes");
    char *rest = json_dumps(plan, JSON_INDENT(1));
    json_decref(plan);
    return rest;
}

/* Words with one space between them, but for sizes, and for where tombstones are. */
static char *without_sizes(char *text) {
    static const char *const PLACES[] = { "the fleet", "tombstones/" };
    struct kg_buffer out = KG_BUFFER_INIT;
    for (char *line; (line = strsep(&text, "\n"));) {
        for (size_t i = 0; i < KG_COUNT_OF(PLACES); i++) {
            char *place = strstr(line, PLACES[i]);
            if (place) *place = '\0';
        }
        for (char *word; (word = strsep(&line, " "));) {
            const size_t n_unit = line ? strcspn(line, " ,") : 0;
            const bool is_size = *word && word[strspn(word, "0123456789.")] == '\0' && n_unit > 0 && n_unit < 4 &&
                                 line[n_unit - 1] == 'B';
            if (is_size) line += n_unit;
            else if (*word) kg_buffer_printf(&out, "%s ", word);
        }
        kg_buffer_puts(&out, "\n");
    }
    return out.data;
}

/* The same words to both: the same answer, messages and exit code. */
static void expect_same(const struct pruned *both, const char *const *args, bool json, int exit_code) {
    const char *all[MOST_ARGS] = { NULL };
    char *url = kg_fleet_lab_url(&both->fleet, "postgres");
    struct kg_process_result local, fleet;
    size_t n = 0;
    for (; args[n]; n++) all[n] = args[n];
    kg_verb_run(both->folder.root, all, json, &local);
    all[n++] = "--history", all[n++] = url;
    if (json) all[n++] = "--json";
    kg_fleet_job_end(kg_fleet_lab_begin(&both->fleet, "postgres", all), &fleet);
    ck_assert_msg(local.exit_code == exit_code && fleet.exit_code == exit_code, "%d and %d, not %d: %.500s%.500s",
                  local.exit_code, fleet.exit_code, exit_code, local.err, fleet.err);
    ck_assert_str_eq(fleet.err, local.err);
    const bool is_json = json && exit_code == KG_EXIT_OK;
    char *want = is_json ? without_sizes_in_json(local.out) : without_sizes(local.out),
         *got = is_json ? without_sizes_in_json(fleet.out) : without_sizes(fleet.out);
    kg_maker_expect_same(got, want);
    free(got);
    free(want);
    free(url);
    kg_process_result_free(&fleet);
    kg_process_result_free(&local);
}

/* Which runs there are. */
static void expect_same_list(const struct pruned *both) {
    char *want, *got;
    kg_verb_expect(both->folder.root, ARGS("list", "--limit", "100", "--json"), KG_EXIT_OK, &want);
    kg_fleet_lab_kigo(&both->fleet, "reader", ARGS("list", "--limit", "100", "--json"), KG_EXIT_OK, NULL, &got);
    kg_maker_expect_same(got, want);
    free(got);
    free(want);
}

void kg_fleet_prunes_as_a_folder(struct kg_record *rec, const void *arg) {
    struct pruned both;
    (void)arg;
    if (!kg_fleet_lab_open(&both.fleet, rec, true)) return;
    char *dir = kg_path_join(kg_scratch_dir(rec), "repository");
    kg_history_lab_open_in(&both.folder, dir, KG_LAB_COMMITS);
    const struct kg_made_run first = { .commit = both.folder.commits[0], .n_cases = 1 };
    char *pinned = kg_history_lab_run(&both.folder, first);
    push_both(&both);
    kg_verb_expect(both.folder.root, ARGS("pin", pinned, "--author", "ann"), KG_EXIT_OK, NULL);
    kg_fleet_lab_kigo(&both.fleet, "postgres", ARGS("pin", pinned, "--author", "ann"), KG_EXIT_OK, NULL, NULL);
    expect_same(&both, ARGS("prune"), false, KG_EXIT_OK);
    expect_same(&both, ARGS("prune", "--keep", "1"), false, KG_EXIT_OK);
    expect_same(&both, ARGS("prune", "--keep", "2"), true, KG_EXIT_OK);
    expect_same(&both, ARGS("prune", "--keep", "22"), true, KG_EXIT_OK);
    expect_same(&both, ARGS("prune", "--keep", "0"), true, KG_EXIT_USAGE);
    expect_same_list(&both);
    expect_same(&both, ARGS("prune", "--keep", "2", "--apply", "--author", "ann"), true, KG_EXIT_OK);
    expect_same_list(&both);
    expect_same(&both, ARGS("prune", "--keep", "2", "--apply", "--author", "ann"), false, KG_EXIT_OK);
    expect_same(&both, ARGS("prune", "--keep", "1", "--apply", "--author", "ann"), false, KG_EXIT_OK);
    expect_same_list(&both);
    ck_assert_int_eq(kg_fleet_lab_number(&both.fleet, "SELECT (SELECT count(*) FROM kigo.archive) +"
                                                      " (SELECT count(*) FROM kigo.tombstone)"),
                     1 + N_LINE + N_OTHERS);
    free(pinned);
    free(dir);
    kg_history_lab_close(&both.folder);
    kg_fleet_lab_close(&both.fleet);
}
