#include "suites/integration/fleet_decides.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/integration/fleet_line.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_RUNS = 21, FEW_RUNS = KG_FLEET_LINE_FEWEST, MOST_ARGS = 16 };

void kg_fleet_decides_as_a_folder(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args[MOST_ARGS];
        bool all_forms; /* beside JSON */
        const char *says;
    } CALLS[] = {
        { { "regress", "latest~1", "--repo", "@" }, true, "it has been so since" },
        { { "regress", "latest~2", "--repo", "@", "--all" }, false, "\"baseline\": \"pass\"" },
        { { "regress", "--repo", "@" }, false, "the most similar one differs in" },
        { { "regress", "latest~1", "--repo", "@", "--baseline", "line~10" }, false, "\"baseline\"" },
        { { "regress", "latest~1", "--repo", "@", "--baseline", "latest~14" }, false, "regression" },
        { { "regress", "nothing", "--repo", "@" }, false, "" },
        { { "steps", "--run", "latest~1", "--repo", "@" }, true, "SM clock 1900 to 1700 MHz" },
        { { "steps", "--run", "latest~2", "--repo", "@", "--runs", "9" }, false, "[" },
        { { "steps", "*case_2*", "--machine", "made gpu", "--repo", "@", "--figure", "time.*" },
          false,
          "kernel 6.1 to 6.2" },
        { { "steps", "--commits", "HEAD~8..HEAD~6", "--repo", "@" }, false, "" },
    };
    struct kg_fleet_line both;
    (void)arg;
    if (!kg_fleet_line_open(&both, rec, N_RUNS)) return;
    for (size_t i = 0; i < KG_COUNT_OF(CALLS); i++) {
        kg_fleet_line_expect(&both, CALLS[i].args, "--json", CALLS[i].says);
        if (CALLS[i].all_forms) kg_fleet_line_expect(&both, CALLS[i].args, NULL, "");
        if (CALLS[i].all_forms) kg_fleet_line_expect(&both, CALLS[i].args, "--csv", "");
    }
    kg_fleet_line_go_on(&both, N_RUNS);
    static const char *const PAGE[] = { "report", "--history", "--repo", "@", NULL };
    kg_fleet_line_expect(&both, PAGE, NULL, "case_2[");
    kg_fleet_line_expect(&both, PAGE, "--markdown", "+7.");
    kg_fleet_line_close(&both);
}

static void spoil_shelf(struct kg_record *rec, const char *id) {
    char *kigo = kg_path_join(kg_scratch_dir(rec), "cache/kigo");
    struct kg_dir_list list = { 0 };
    struct kg_error err;
    size_t n_spoilt = 0;
    ck_assert_msg(kg_dir_list(kigo, &list, &err) == KG_OK, "%s", err.message);
    for (size_t i = 0; i < list.n_names; i++) {
        char *dir = kg_xasprintf("%s/%s/%s", kigo, list.names[i], id);
        if (strncmp(list.names[i], "fleet-", 6) == 0 && kg_path_is_dir(dir)) {
            kg_maker_append(dir, "data/results.jsonl", "{}\n");
            n_spoilt++;
        }
        free(dir);
    }
    ck_assert_uint_eq(n_spoilt, 1);
    kg_dir_list_free(&list);
    free(kigo);
}

/* A run of the baseline; one that failed; the one that is judged. */
#define ONE "SELECT bundle_id FROM kigo.bundle ORDER BY started_us LIMIT 1 OFFSET 7"
#define RED "SELECT bundle_id FROM kigo.bundle ORDER BY started_us DESC LIMIT 1 OFFSET 2"
#define JUDGED "SELECT bundle_id FROM kigo.bundle ORDER BY started_us DESC LIMIT 1 OFFSET 1"
#define SET(table, what, whose) "UPDATE kigo." table " SET " what " WHERE bundle_id = (" whose ")"

static const char KEEP[] =
    "CREATE SCHEMA kept; CREATE TABLE kept.archive AS TABLE kigo.archive; CREATE TABLE kept.chunk AS TABLE"
    " kigo.archive_chunk; CREATE TABLE kept.build AS TABLE kigo.build; CREATE TABLE kept.bundle AS TABLE kigo.bundle;"
    " CREATE TABLE kept.tcase AS TABLE kigo.tcase; CREATE TABLE kept.figure_name AS TABLE kigo.figure_name;"
    " CREATE TABLE kept.result_row AS TABLE kigo.result_row; CREATE TABLE kept.metric_row AS TABLE kigo.metric_row",
                  RESTORE[] =
                      "TRUNCATE kigo.archive, kigo.archive_chunk, kigo.build, kigo.bundle, kigo.tcase,"
                      " kigo.figure_name, kigo.result_row, kigo.metric_row; INSERT INTO kigo.archive TABLE"
                      " kept.archive; INSERT INTO kigo.archive_chunk TABLE kept.chunk; INSERT INTO kigo.build TABLE"
                      " kept.build; INSERT INTO kigo.bundle TABLE kept.bundle; INSERT INTO kigo.tcase TABLE kept.tcase;"
                      " INSERT INTO kigo.figure_name TABLE kept.figure_name; INSERT INTO kigo.result_row TABLE"
                      " kept.result_row; INSERT INTO kigo.metric_row TABLE kept.metric_row";

/* What somebody who owns the server can do behind kigo: it is found, or makes no difference. */
void kg_fleet_tampered_rows_decide_nothing(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *change;
        bool fresh;       /* by somebody who has verified none of them before */
        const char *says; /* NULL: what was said before; else it is refused */
    } ROWS[] = {
        { "UPDATE kigo.metric_row SET value = value * random(), valid = 1; UPDATE kigo.result_row SET status = 'pass';"
          "UPDATE kigo.tcase SET case_key = 'x'; UPDATE kigo.figure_name SET unit = 'ms'",
          true, NULL },
        { "DELETE FROM kigo.metric_row", false, NULL },
        { SET("bundle", "verdict = 'fail'", ONE), false, "another verdict" },
        { SET("bundle", "comparison_key = 'x'", ONE), false, "another comparison_key" },
        { SET("bundle", "git_commit = NULL", ONE), false, "another commit" },
        { SET("bundle", "verdict = 'pass'", RED), true, "another verdict" },
        { SET("bundle", "started_us = started_us + 1", ONE), true, "another started_us" },
        { SET("bundle", "git_commit = repeat('0', 40)", JUDGED), true, "another commit" },
        { "UPDATE kigo.build SET json = '{}'", true, "another build" },
        { "DELETE FROM kigo.bundle WHERE bundle_id = (" ONE ")", true, "no rows" },
        { "UPDATE kigo.archive_chunk SET data = data || '\\x00'::bytea", true, "not the one that was pushed" },
        { "UPDATE kigo.archive_chunk SET data = data || '\\x00'::bytea", false, NULL },
        { SET("archive", "tagmanifest_sha256 = repeat('0', 64)", ONE), true, "chunk 0 of the archive is missing" },
        { SET("archive", "bundle_id = '../../x'", ONE) ";" SET("bundle", "bundle_id = '../../x'", ONE), true,
          "a run of no run's name" },
    };
    struct kg_fleet_line both;
    char *before = NULL;
    (void)arg;
    if (!kg_fleet_line_open(&both, rec, FEW_RUNS)) return;
    free(kg_fleet_lab_sql(&both.fleet, "postgres", KEEP));
    const char *const call[] = { "regress", "latest~1", "--repo", both.folder.repository, "--json", NULL };
    kg_fleet_lab_kigo(&both.fleet, "reader", call, KG_EXIT_FAILED, "regression", &before);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        char *cache = ROWS[i].fresh ? kg_xasprintf("cache-%zu", i) : kg_xstrdup("cache"), *after = NULL;
        kg_fleet_line_fresh_cache(rec, cache);
        free(kg_fleet_lab_sql(&both.fleet, "postgres", ROWS[i].change));
        kg_fleet_lab_kigo(&both.fleet, "reader", call, ROWS[i].says ? KG_EXIT_INTEGRITY : KG_EXIT_FAILED, ROWS[i].says,
                          &after);
        ck_assert_msg(ROWS[i].says || strcmp(before, after) == 0, "row %zu: %s", i, after);
        free(kg_fleet_lab_sql(&both.fleet, "postgres", RESTORE));
        free(after);
        free(cache);
    }
    free(before);
    free(kg_fleet_lab_sql(&both.fleet, "postgres", "DROP SCHEMA kept CASCADE"));
    kg_fleet_line_close(&both);
}

/* What lies on this machine is verified again where it was touched, and brought again where it is spoilt. */
void kg_fleet_spoilt_copies_are_brought_again(struct kg_record *rec, const void *arg) {
    struct kg_fleet_line both;
    char *before = NULL, *after = NULL, *id = NULL;
    (void)arg;
    if (!kg_fleet_line_open(&both, rec, FEW_RUNS)) return;
    const char *const call[] = { "regress", "latest~1", "--repo", both.folder.repository, "--json", NULL };
    kg_fleet_lab_kigo(&both.fleet, "reader", call, KG_EXIT_FAILED, NULL, &before);
    id = kg_fleet_lab_sql(&both.fleet, "postgres", ONE);
    spoil_shelf(rec, id);
    kg_fleet_lab_kigo(&both.fleet, "reader", call, KG_EXIT_FAILED, NULL, &after);
    ck_assert_str_eq(before, after);
    free(id);
    free(after);
    free(before);
    kg_fleet_line_close(&both);
}

/* Both say it; a fleet's by an admin. */
static void say_to_both(const struct kg_fleet_line *both, const char *const *args) {
    kg_verb_expect(both->folder.root, args, KG_EXIT_OK, NULL);
    kg_fleet_lab_kigo(&both->fleet, "postgres", args, KG_EXIT_OK, NULL, NULL);
}

/* Of a kind: those of one second are listed by their kinds, and the two stores are annotated one after the other. */
static json_t *annotation_of(json_t *list, const char *kind) {
    size_t i;
    json_t *each;
    json_array_foreach(list, i, each) {
        if (strcmp(json_string_value(json_object_get(each, "kind")), kind) == 0) return each;
    }
    ck_abort_msg("no %s: %s", kind, json_dumps(list, 0));
}

/* Annotations of both, which bear other names. */
static void expect_same_annotations(const struct kg_fleet_line *both, size_t n_want) {
    json_t *of_folder = kg_verb_json(both->folder.root, ARGS("annotate", "list"), KG_EXIT_OK),
           *of_fleet = kg_fleet_lab_json(&both->fleet, "reader", ARGS("annotate", "list"), KG_EXIT_OK);
    ck_assert_uint_eq(json_array_size(of_folder), n_want);
    ck_assert_uint_eq(json_array_size(of_fleet), n_want);
    for (size_t i = 0; i < n_want; i++) {
        json_t *here = json_array_get(of_folder, i),
               *there = annotation_of(of_fleet, json_string_value(json_object_get(here, "kind")));
        ck_assert_int_eq(json_object_del(here, "annotation_id"), 0);
        ck_assert_int_eq(json_object_del(there, "annotation_id"), 0);
        ck_assert_msg(json_equal(here, there), "%s\n%s", json_dumps(here, 0), json_dumps(there, 0));
    }
    json_decref(of_folder);
    json_decref(of_fleet);
}

/* What people say of runs counts as it does in a folder, and only admins say it. */
void kg_fleet_annotated_as_a_folder(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *args[MOST_ARGS];
        size_t n; /* annotations then */
    } SAID[] = {
        { { "annotate", "note", "latest", "--why", "caf\xc3\xa9 'quoted' \\ \x1b[1m" }, 1 },
        { { "annotate", "exclude", "latest~3", "--why", "noisy", "--case", "*case_1*" }, 2 },
        { { "pin", "latest~1" }, 3 },
        { { "waive", "*case_2*", "--until", "2999-12-31", "--why", "known", "--author", "ann" }, 4 },
        { { "pin", "latest~1", "--remove" }, 3 },
    };
    static const char *const REFUSED[][MOST_ARGS] = {
        { "annotate", "no-such-kind" },
        { "annotate", "remove", "20261124T000000Z-waive-00000000" },
        { "annotate", "break", "latest~99", "--why", "x" },
        { "waive", "x", "--until", "2001-01-01", "--why", "x" },
        { "pin", "latest", "--remove" },
    };
    const char *const call[] = { "regress", "latest~1", "--repo", "@", NULL };
    struct kg_fleet_line both;
    (void)arg;
    if (!kg_fleet_line_open(&both, rec, FEW_RUNS)) return;
    kg_fleet_line_expect(&both, call, "--json", "\"n_red_waived\": 0");
    for (size_t i = 0; i < KG_COUNT_OF(SAID); i++) {
        say_to_both(&both, SAID[i].args);
        expect_same_annotations(&both, SAID[i].n);
    }
    kg_fleet_line_expect(&both, call, "--json", "\"waived_by\": \"ann (not signed)\"");
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++) {
        struct kg_process_result local;
        kg_verb_run(both.folder.root, REFUSED[i], false, &local);
        kg_fleet_lab_kigo(&both.fleet, "postgres", REFUSED[i], local.exit_code, NULL, NULL);
        kg_process_result_free(&local);
    }
    say_to_both(&both, ARGS("accept", "*case_3*", "--run", "latest~1", "--why", "wanted"));
    kg_fleet_line_expect(&both, call, NULL, "waived");
    const char *const users[] = { "reader", "runner_a" };
    for (size_t i = 0; i < KG_COUNT_OF(users); i++)
        kg_fleet_lab_kigo(&both.fleet, users[i], ARGS("annotate", "note", "latest", "--why", "x"), KG_EXIT_INCOMPLETE,
                          "permission denied", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&both.fleet, "SELECT count(*) FROM kigo.annotation"), 4);
    free(kg_fleet_lab_sql(&both.fleet, "postgres", "DELETE FROM kigo.annotation"));
    kg_fleet_line_close(&both);
}
