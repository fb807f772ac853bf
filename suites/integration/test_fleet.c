/* A fleet's history on a PostgreSQL server of the suite's: what goes in comes out, once, by whom it may, or not at all.
 */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/program.h"
#include "base/size.h"
#include "fleet/fleet.h"
#include "suites/integration/fleet_asks.h"
#include "suites/integration/fleet_crashes.h"
#include "suites/integration/fleet_decides.h"
#include "suites/integration/fleet_figures.h"
#include "suites/integration/fleet_holds.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/fleet_links.h"
#include "suites/integration/fleet_measures.h"
#include "suites/integration/fleet_prunes.h"
#include "suites/integration/fleet_pulls.h"
#include "suites/integration/fleet_reads.h"
#include "suites/integration/fleet_reruns.h"
#include "suites/integration/fleet_schema.h"
#include "suites/integration/fleet_standby.h"
#include "suites/integration/fleet_urls.h"
#include "suites/integration/fleet_web.h"
#include "suites/integration/hostile_store.h"
#include "suites/integration/verbs.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_maker.h"
#include <check.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static const char EVERYTHING[] =
    "SELECT (SELECT count(*) FROM kigo.archive) + (SELECT count(*) FROM kigo.archive_chunk)"
    " + (SELECT count(*) FROM kigo.bundle) + (SELECT count(*) FROM kigo.result_row)";

static const char *id_of(const char *dir) {
    return strrchr(dir, '/') + 1;
}

static void expect_text(const json_t *object, const char *name, const char *want) {
    ck_assert_str_eq(json_string_value(json_object_get(object, name)), want);
}

/* A copy of a bundle in a folder `name` of the case's, under its id; malloc'ed. */
static char *copy_in(const struct kg_record *rec, const char *dir, const char *name) {
    char *root = kg_path_join(kg_scratch_dir(rec), name), *to = kg_path_join(root, id_of(dir));
    struct kg_error err;
    EXPECT_OK(kg_dir_make(root, &err), err);
    free(root);
    char *copy = kg_maker_copy(dir, to);
    free(to);
    return copy;
}

/* SHA-256 of the archive that `kigo export` makes of a bundle. */
static void export_sha(const char *root, const char *dir, char hex[KG_SHA256_HEX_SIZE]) {
    char *file = kg_path_join(root, "../x.tar.zst");
    struct kg_error err;
    kg_verb_expect(root, ARGS("export", dir, "-o", file), KG_EXIT_OK, NULL);
    EXPECT_OK(kg_sha256_file(file, hex, &err), err);
    free(file);
}

/* Two megabytes that no compression makes smaller, so that the archive has several chunks. */
static void add_noise(const char *dir) {
    enum { BYTES = 2 << 20 };
    char *path = kg_path_join(dir, "data/logs/noise"), *logs = kg_path_join(dir, "data/logs");
    unsigned char *noise = kg_xmalloc(BYTES);
    uint64_t state = 88172645463325252u; /* xorshift64 */
    struct kg_error err;
    for (size_t i = 0; i < BYTES; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        noise[i] = (unsigned char)(state >> 32);
    }
    EXPECT_OK(kg_dir_make(logs, &err), err);
    EXPECT_OK(kg_file_write(path, noise, BYTES, &err), err);
    kg_maker_rehash(dir);
    free(noise);
    free(logs);
    free(path);
}

static void comes_back_as_it_went(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    char before[KG_SHA256_HEX_SIZE], after[KG_SHA256_HEX_SIZE];
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dir = kg_maker_sealed(lab.bundles, 3), *to = kg_path_join(kg_scratch_dir(rec), "to");
    add_noise(dir);
    export_sha(lab.bundles, dir, before);
    json_t *pushed = kg_fleet_lab_json(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK);
    const json_t *run = json_array_get(json_object_get(pushed, "runs"), 0);
    expect_text(run, "state", "pushed");
    expect_text(run, "archive_sha256", before);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.archive_chunk"), 3);
    json_t *pulled = kg_fleet_lab_json(&lab, "reader",
                                       ARGS("pull", id_of(dir) + strlen(id_of(dir)) - 8, "--bundles", to), KG_EXIT_OK);
    run = json_array_get(json_object_get(pulled, "runs"), 0);
    expect_text(run, "bundle_id", id_of(dir));
    expect_text(run, "state", "pulled");
    char *came = kg_path_join(to, id_of(dir));
    export_sha(to, came, after);
    ck_assert_str_eq(before, after);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull", id_of(dir), "--bundles", to), KG_EXIT_OK, "already here", NULL);
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull", "1999", "--bundles", to), KG_EXIT_USAGE, "has no run 1999", NULL);
    /* Chunks that are not what was pushed come to nobody. */
    free(kg_fleet_lab_sql(&lab, "postgres",
                          "UPDATE kigo.archive_chunk SET data = set_byte(data, 1000, get_byte(data, 1000) # 1)"
                          " WHERE chunk_no = 1"));
    kg_fleet_lab_kigo(&lab, "reader", ARGS("pull", id_of(dir), "--bundles", kg_scratch_dir(rec)), KG_EXIT_INTEGRITY,
                      "not the one that was pushed", NULL);
    ck_assert_uint_eq(kg_maker_count(kg_scratch_dir(rec), "2"), 0);
    json_decref(pulled);
    json_decref(pushed);
    free(came);
    free(to);
    free(dir);
    kg_fleet_lab_close(&lab);
}

static void twice_is_once(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dir = kg_maker_sealed(lab.bundles, 2), *copy = copy_in(rec, dir, "copies"),
         *renamed = kg_path_join(kg_scratch_dir(rec), "renamed");
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", "--all", "--bundles", lab.bundles), KG_EXIT_OK, "there already",
                      NULL);
    kg_fleet_lab_kigo(&lab, "runner_b", ARGS("push", copy), KG_EXIT_OK, "there already", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, EVERYTHING), 1 + 1 + 1 + 2);
    free(kg_maker_copy(dir, renamed));
    kg_fleet_lab_kigo(&lab, "runner_b", ARGS("push", renamed), KG_EXIT_INTEGRITY, "is named otherwise", NULL);
    /* Another bundle under its name, sound in itself, and one that is not. */
    kg_maker_append(copy, "data/dirty.diff", "another one\n");
    kg_maker_rehash(copy);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", copy), KG_EXIT_INTEGRITY, "another bundle of this name", NULL);
    kg_maker_append(dir, "data/dirty.diff", "by hand\n");
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_INTEGRITY, "finding", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, EVERYTHING), 1 + 1 + 1 + 2);
    free(copy);
    free(renamed);
    free(dir);
    kg_fleet_lab_close(&lab);
}

static void roles(struct kg_record *rec, const void *arg) {
    static const char *const AS_ANOTHER[] = {
        "INSERT INTO kigo.archive(bundle_id, tagmanifest_sha256, runner_no, month, sha256, size_bytes, n_chunks)"
        " SELECT 'x', 'x', runner_no, '2026-01-01', 'x', 1, 1 FROM kigo.runner WHERE name = 'runner_a'",
        "INSERT INTO kigo.archive_chunk SELECT tagmanifest_sha256, 7, runner_no, month, '' FROM kigo.archive",
        "INSERT INTO kigo.result_row SELECT result_id + 7, bundle_no, case_id, 'pass', NULL, NULL, NULL, NULL, "
        "runner_no,"
        " month FROM kigo.result_row",
        "INSERT INTO kigo.metric_row SELECT result_id, 77, figure_id, 1, NULL, NULL, NULL, NULL, NULL, 1, runner_no,"
        " month FROM kigo.metric_row LIMIT 1",
        "INSERT INTO kigo.runner(name) VALUES ('runner_c')",
        "SET ROLE kigo_runner; INSERT INTO kigo.runner(name) VALUES ('kigo_runner')",
    };
    static const char *const CHANGES[] = { "UPDATE kigo.bundle SET verdict = 'pass'",
                                           "DELETE FROM kigo.metric_row",
                                           "DELETE FROM kigo.archive",
                                           "TRUNCATE kigo.tcase",
                                           "INSERT INTO kigo.archive(pushed_at) VALUES (now())",
                                           "INSERT INTO kigo.result_row_other SELECT * FROM kigo.result_row",
                                           "DROP TABLE kigo.env",
                                           "UPDATE kigo.schema_version SET version = 0" };
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dir = kg_maker_sealed(lab.bundles, 1), *limit;
    kg_fleet_lab_kigo(&lab, "reader", ARGS("push", dir), KG_EXIT_INCOMPLETE, "permission denied", NULL);
    kg_fleet_lab_kigo(&lab, "nobody", ARGS("push", dir), KG_EXIT_INCOMPLETE, "permission denied", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, EVERYTHING), 0);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    for (size_t i = 0; i < KG_COUNT_OF(AS_ANOTHER); i++)
        kg_fleet_lab_refuses(&lab, "runner_b", AS_ANOTHER[i], "row-level security");
    /* Nor by what `=` means to it, in a schema where it may make operators. */
    free(kg_fleet_lab_sql(&lab, "postgres", "CREATE SCHEMA anyone; GRANT ALL ON SCHEMA anyone TO PUBLIC"));
    free(kg_fleet_lab_sql(&lab, "runner_b",
                          "CREATE FUNCTION anyone.is_a(text, name) RETURNS boolean LANGUAGE sql AS"
                          " 'SELECT $1 OPERATOR(pg_catalog.=) ''runner_a''';"
                          "CREATE OPERATOR anyone.= (LEFTARG = text, RIGHTARG = name, FUNCTION = anyone.is_a)"));
    for (size_t i = 0; i < KG_COUNT_OF(AS_ANOTHER); i++) {
        char *sql = kg_xasprintf("SET search_path = anyone, pg_catalog; %s", AS_ANOTHER[i]);
        kg_fleet_lab_refuses(&lab, "runner_b", sql, "row-level security");
        free(sql);
    }
    free(kg_fleet_lab_sql(&lab, "postgres", "DROP SCHEMA anyone CASCADE"));
    for (size_t i = 0; i < KG_COUNT_OF(CHANGES); i++) {
        const bool owner = strstr(CHANGES[i], "DROP") != NULL;
        kg_fleet_lab_refuses(&lab, "runner_a", CHANGES[i], owner ? "must be owner" : "permission denied");
        kg_fleet_lab_refuses(&lab, "reader", CHANGES[i], owner ? "must be owner" : "permission denied");
    }
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("fleet", "reindex"), KG_EXIT_INCOMPLETE, "permission denied", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, EVERYTHING), 1 + 1 + 1 + 1);
    limit = kg_fleet_lab_sql(&lab, "reader", "SHOW statement_timeout");
    ck_assert_str_eq(limit, "30s");
    free(limit);
    char *runner = kg_fleet_lab_sql(&lab, "reader", "SELECT runner FROM kigo.run");
    ck_assert_str_eq(runner, "runner_a");
    free(runner);
    free(dir);
    kg_fleet_lab_close(&lab);
}

/* A row that runs share, put under an id before the run comes that it is of. */
static void shared_rows_are_compared(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *first = kg_maker_sealed(lab.bundles, 1);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", first), KG_EXIT_OK, NULL, NULL);
    free(kg_fleet_lab_sql(&lab, "postgres", "UPDATE kigo.tcase SET spec = 'another'"));
    char *second = kg_verb_seal(lab.bundles);
    kg_fleet_lab_kigo(&lab, "runner_b", ARGS("push", second), KG_EXIT_INTEGRITY, "kigo fleet reindex", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, EVERYTHING), 1 + 1 + 1 + 1);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "reindex"), KG_EXIT_OK, "indexed 1 run", NULL);
    kg_fleet_lab_kigo(&lab, "runner_b", ARGS("push", second), KG_EXIT_OK, ": pushed", NULL);
    free(second);
    free(first);
    kg_fleet_lab_close(&lab);
}

static void only_signed_ones(struct kg_record *rec, const void *arg) {
    static const char POLICY[] = "{\"bundles\": [\"@signed\"], \"allowed_signers\": \"allowed\"}";
    struct kg_fleet_lab lab;
    struct kg_error err;
    (void)arg;
    char *key = kg_verb_key(rec, kg_scratch_dir(rec), "key");
    if (!key) return;
    if (!kg_fleet_lab_open(&lab, rec, true)) return free(key);
    char *dir = kg_maker_sealed(lab.bundles, 1), *policy = kg_path_join(lab.bundles, "kigo.policy.json");
    EXPECT_OK(kg_file_write(policy, POLICY, sizeof POLICY - 1, &err), err);
    free(kg_verb_allowed(lab.bundles, "allowed", "ci@example.org", key));
    const char *const by_dir[] = { "push", dir, "--bundles", lab.bundles, NULL };
    kg_fleet_lab_kigo(&lab, "runner_a", by_dir, KG_EXIT_INTEGRITY, "the policy", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, EVERYTHING), 0);
    kg_verb_expect(lab.bundles, ARGS("sign", dir, "--key", key), KG_EXIT_OK, NULL);
    kg_fleet_lab_kigo(&lab, "runner_a", by_dir, KG_EXIT_OK, ": pushed", NULL);
    free(policy);
    free(dir);
    free(key);
    kg_fleet_lab_close(&lab);
}

/* The bytes that hexadecimal digits say; malloc'ed. */
static char *from_hex(const char *digits) {
    struct kg_buffer text = KG_BUFFER_INIT;
    for (; digits[0] && digits[1]; digits += 2) {
        const char pair[] = { digits[0], digits[1], '\0' };
        const char byte = (char)strtol(pair, NULL, 16);
        kg_buffer_append(&text, &byte, 1);
    }
    return text.data ? text.data : kg_xstrdup("");
}

/* cell: "NULL", or "=" and the digits of its text. */
static void expect_same_cell(sqlite3_stmt *row, int i, const char *cell) {
    const char *name = sqlite3_column_name(row, i);
    ck_assert_msg(cell != NULL, "%s: no such row in the fleet", name);
    if (sqlite3_column_type(row, i) == SQLITE_NULL) {
        ck_assert_msg(strcmp(cell, "NULL") == 0, "%s is no NULL in the fleet", name);
        return;
    }
    ck_assert_msg(*cell == '=', "%s is NULL in the fleet", name);
    char *text = from_hex(cell + 1);
    if (sqlite3_column_type(row, i) == SQLITE_FLOAT)
        ck_assert_msg(strtod(text, NULL) == sqlite3_column_double(row, i), "%s: %s", name, text);
    else ck_assert_msg(strcmp(text, (const char *)sqlite3_column_text(row, i)) == 0, "%s: %.1000s", name, text);
    free(text);
}

/* Every cell of a table of the index, held against what the server has in the same place. */
static void expect_same_table(const struct kg_fleet_lab *lab, sqlite3 *index, const char *table) {
    char *ask_index = kg_xasprintf("SELECT * FROM %s ORDER BY 1, 2", table);
    struct kg_buffer ask_fleet = KG_BUFFER_INIT;
    sqlite3_stmt *row = NULL;
    size_t n_rows = 0;
    ck_assert_int_eq(sqlite3_prepare_v2(index, ask_index, -1, &row, NULL), SQLITE_OK);
    const int n = sqlite3_column_count(row);
    kg_buffer_puts(&ask_fleet, "SELECT ");
    for (int i = 0; i < n; i++)
        kg_buffer_printf(&ask_fleet, "%scoalesce('=' || encode(convert_to(%s::text, 'UTF8'), 'hex'), 'NULL')",
                         i ? " || E'\\n' || " : "", sqlite3_column_name(row, i));
    kg_buffer_printf(&ask_fleet, " FROM (SELECT * FROM kigo.%s ORDER BY 1, 2) t", table);
    char *got = kg_fleet_lab_sql(lab, "postgres", ask_fleet.data), *rest = got;
    for (; sqlite3_step(row) == SQLITE_ROW; n_rows++)
        for (int i = 0; i < n; i++) expect_same_cell(row, i, strsep(&rest, "\n"));
    ck_assert_msg(rest == NULL, "%s has more rows in the fleet", table);
    ck_assert_msg(n_rows > 0, "%s is empty", table);
    sqlite3_finalize(row);
    kg_buffer_free(&ask_fleet);
    free(got);
    free(ask_index);
}

/* The bundles of the lab, pushed, are in the fleet what they are in the index of their folder. */
static void expect_same_rows(const struct kg_fleet_lab *lab) {
    static const char *const TABLES[] = {
        "env", "build", "bundle", "tcase", "figure_name", "result_row", "metric_row"
    };
    char *path = kg_path_join(lab->bundles, "index.sqlite");
    sqlite3 *index = NULL;
    kg_verb_expect(lab->bundles, ARGS("reindex"), KG_EXIT_OK, NULL);
    ck_assert_int_eq(sqlite3_open_v2(path, &index, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    for (size_t i = 0; i < KG_COUNT_OF(TABLES); i++) expect_same_table(lab, index, TABLES[i]);
    sqlite3_close(index);
    free(path);
}

/* Quotes, backslashes, controls, directions and 10,000 characters in every string that a bundle stores. */
static void hostile_names(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    char many[10001];
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    char *name = kg_xasprintf("\"name\":\"\\\\. '; DROP TABLE kigo.archive; -- \\\\N %s", many);
    char *dir = kg_maker_sealed(lab.bundles, 2);
    kg_hostile_records(dir);
    kg_maker_replace(dir, "data/results.ndjson", "\"name\":\"", name);
    kg_maker_rehash(dir);
    kg_maker_expect_sound(dir);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
    expect_same_rows(&lab);
    ck_assert_int_eq(
        kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.tcase WHERE case_key LIKE '%' || chr(27) || '%'"), 2);
    ck_assert_int_gt(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.figure_name WHERE length(name) > 10000"), 0);
    /* A NUL is in no bundle that verifies. */
    char *with_nul = kg_verb_seal(lab.bundles);
    kg_maker_replace(with_nul, "data/results.ndjson", "\"name\":\"", "\"name\":\"\\u0000");
    kg_maker_reseal(with_nul);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", with_nul), KG_EXIT_INTEGRITY, NULL, NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, EVERYTHING), 1 + 1 + 1 + 2);
    free(with_nul);
    free(dir);
    free(name);
    kg_fleet_lab_close(&lab);
}

/* Every row of the fleet. malloc'ed. */
static char *dump(const struct kg_fleet_lab *lab) {
    static const char *const TABLES[] = { "archive",    "bundle",     "env", "build",  "tcase",  "figure_name",
                                          "result_row", "metric_row", "run", "figure", "failure" };
    struct kg_buffer sql = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_COUNT_OF(TABLES); i++)
        kg_buffer_printf(&sql, "%s(SELECT t::text FROM kigo.%s t ORDER BY t)", i ? " UNION ALL " : "", TABLES[i]);
    char *rows = kg_fleet_lab_sql(lab, "reader", sql.data);
    kg_buffer_free(&sql);
    return rows;
}

/* A number that needs all of its digits. */
static void a_third(void *arg, size_t i, struct kg_made_case *c) {
    (void)arg, (void)i;
    c->max_abs = 1.0 / 3;
}

static void rebuilt_rows_are_the_same(struct kg_record *rec, const void *arg) {
    static const char SPOIL[] = "DELETE FROM kigo.metric_row WHERE seq = 1; UPDATE kigo.bundle SET verdict = 'pass';"
                                "UPDATE kigo.tcase SET op = 'other'; DELETE FROM kigo.result_row WHERE status = 'skip';"
                                "INSERT INTO kigo.figure_name VALUES (7, 'nobody''s', 'ns')";
    const struct kg_made_run thirds = { .started_us = 1614600000000000, .n_cases = 2, .fill = a_third };
    struct kg_fleet_lab lab;
    struct kg_error err;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    free(copy_in(rec, kg_maker_template(), "bundles"));
    free(kg_verb_seal(lab.bundles));
    EXPECT_OK(kg_made_run_write(lab.bundles, &thirds, NULL, &err), err);
    kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", "--all", "--bundles", lab.bundles), KG_EXIT_OK, ": pushed", NULL);
    expect_same_rows(&lab);
    char *before = dump(&lab);
    free(kg_fleet_lab_sql(&lab, "postgres", SPOIL));
    char *spoilt = dump(&lab);
    ck_assert_str_ne(before, spoilt);
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "reindex"), KG_EXIT_OK, "indexed 3 runs", NULL);
    char *after = dump(&lab);
    kg_maker_expect_same(after, before);
    /* An archive that is not sound: its run has no rows, the other's are the same. */
    free(kg_fleet_lab_sql(&lab, "postgres",
                          "DELETE FROM kigo.archive_chunk WHERE tagmanifest_sha256 ="
                          " (SELECT min(tagmanifest_sha256) FROM kigo.archive)"));
    kg_fleet_lab_kigo(&lab, "postgres", ARGS("fleet", "reindex"), KG_EXIT_INTEGRITY, "has no rows", NULL);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.bundle"), 2);
    free(after);
    free(spoilt);
    free(before);
    kg_fleet_lab_close(&lab);
}

/* Runs of a month lie together; those of a clock that is wrong lie apart, or do not come in. */
static void months(struct kg_record *rec, const void *arg) {
    static const struct {
        int64_t started_s;
        int exit_code;
    } RUNS[] = { { 1614600000 /* 2021-03 */, KG_EXIT_OK },
                 { 1614700000, KG_EXIT_OK },
                 { 86400 /* 1970 */, KG_EXIT_OK },
                 { 4102444800 /* 2100 */, KG_EXIT_INTEGRITY } };
    struct kg_fleet_lab lab;
    struct kg_error err;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++) {
        char *id = NULL;
        const struct kg_made_run run = { .started_us = RUNS[i].started_s * 1000000, .n_cases = 1 };
        EXPECT_OK(kg_made_run_write(lab.bundles, &run, &id, &err), err);
        char *dir = kg_path_join(lab.bundles, id);
        kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dir), RUNS[i].exit_code, NULL, NULL);
        free(dir);
        free(id);
    }
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.result_row_2021_03"), 2);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.result_row_other"), 1);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(*) FROM kigo.archive_chunk"), 3);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, "SELECT count(DISTINCT run) FROM kigo.figure"), 3);
    kg_fleet_lab_close(&lab);
}

/* A runner's chain: a run that is missing in it shows until it is pushed. */
static void chains(struct kg_record *rec, const void *arg) {
    static const struct {
        size_t run;
        int n_gaps;
    } STEPS[] = { { 0, 0 }, { 2, 1 }, { 1, 0 } };
    struct kg_fleet_lab lab;
    char *dirs[3];
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    for (size_t i = 0; i < KG_COUNT_OF(dirs); i++) dirs[i] = kg_verb_seal(lab.bundles);
    /* Another root's first run follows none as well, and is another chain's. */
    char *other = kg_maker_sealed(kg_scratch_dir(rec), 1);
    kg_fleet_lab_kigo(&lab, "runner_b", ARGS("push", other), KG_EXIT_OK, NULL, NULL);
    for (size_t i = 0; i < KG_COUNT_OF(STEPS); i++) {
        kg_fleet_lab_kigo(&lab, "runner_a", ARGS("push", dirs[STEPS[i].run]), KG_EXIT_OK, NULL, NULL);
        json_t *status = kg_fleet_lab_json(&lab, "reader", ARGS("fleet", "status"), KG_EXIT_OK);
        const json_t *runner = json_array_get(json_object_get(status, "runners"), 0);
        expect_text(runner, "runner", "runner_a");
        ck_assert_int_eq(kg_verb_integer(runner, "n_runs"), (int64_t)i + 1);
        ck_assert_int_eq(kg_verb_integer(runner, "n_gaps"), STEPS[i].n_gaps);
        ck_assert_int_eq(kg_verb_integer(runner, "n_forks"), 0);
        json_decref(status);
    }
    free(other);
    for (size_t i = 0; i < KG_COUNT_OF(dirs); i++) free(dirs[i]);
    kg_fleet_lab_close(&lab);
}

/* What --json prints is what docs/schemas says. */
static void answers_fit_their_schemas(struct kg_record *rec, const void *arg) {
    struct kg_fleet_lab lab;
    struct kg_program_result result;
    struct kg_error err;
    (void)arg;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    char *dir = kg_maker_sealed(lab.bundles, 1), *bad = copy_in(rec, dir, "bad"),
         *to = kg_path_join(kg_scratch_dir(rec), "to"),
         *validate = kg_xstrdup(kg_fixture_path("../docs/schemas/validate"));
    const char *const calls[][6] = { { "push", dir, bad },  { "pull", "2", "--bundles", to }, { "fleet", "init" },
                                     { "fleet", "status" }, { "fleet", "migrate" },           { "fleet", "reindex" } };
    const char *argv[2 + 2 * KG_COUNT_OF(calls) + 1] = { "python3", validate };
    char *paths[KG_COUNT_OF(calls)];
    kg_maker_append(bad, "data/dirty.diff", "by hand\n");
    for (size_t i = 0; i < KG_COUNT_OF(calls); i++) {
        paths[i] = kg_xasprintf("%s/%zu.json", kg_scratch_dir(rec), i);
        json_t *said = kg_fleet_lab_json(&lab, "postgres", calls[i], i ? KG_EXIT_OK : KG_EXIT_INTEGRITY);
        ck_assert_int_eq(json_dump_file(said, paths[i], 0), 0);
        json_decref(said);
        argv[2 + 2 * i] = calls[i][0];
        argv[3 + 2 * i] = paths[i];
    }
    const struct kg_program program = { .argv = argv, .max_out_bytes = 1 << 14 };
    EXPECT_OK(kg_program_run(&program, &result, &err), err);
    if (result.exit_code == KG_EXIT_NOTHING_TO_DO) kg_record_skip(rec, "%s", kg_buffer_text(&result.out));
    else ck_assert_msg(result.exit_code == 0, "%.2000s", kg_buffer_text(&result.out));
    kg_program_result_free(&result);
    for (size_t i = 0; i < KG_COUNT_OF(calls); i++) free(paths[i]);
    free(validate);
    free(bad);
    free(to);
    free(dir);
    kg_fleet_lab_close(&lab);
}

#define CASE(function)                                                                                                 \
    { .layer = "integration", .op = "fleet", .name = #function, .timeout_s = 300, .run = function }
#define OTHER(name_) TIMES(name_, NULL)
#define TIMES(name_, n)                                                                                                \
    { .layer = "integration", .op = "fleet", .name = #name_, .run = kg_fleet_##name_, .arg = n, .timeout_s = 300 }

static const int TWO = 2, FOUR = 4;
static const struct kg_fleet_figures QUICK = {
    .n_cases = 40, .n_line = 7, .n_rows = { 5000 }, .n_runs = 12, .n_calls = 1, .n_runners = 3, .seconds = 0.2
};
static const struct kg_case CASES[] = {
    CASE(comes_back_as_it_went),
    CASE(twice_is_once),
    CASE(roles),
    CASE(shared_rows_are_compared),
    CASE(only_signed_ones),
    CASE(hostile_names),
    CASE(rebuilt_rows_are_the_same),
    CASE(months),
    OTHER(versions),
    OTHER(older_versions_migrate),
    OTHER(questions_read_their_runs),
    OTHER(rows_of_others_are_no_part),
    CASE(chains),
    { .layer = "integration",
      .op = "fleet",
      .name = "answers_fit_their_schemas",
      .source_tree = true,
      .run = answers_fit_their_schemas },
    OTHER(unreachable),
    OTHER(pruned_runs_leave_tombstones),
    OTHER(pruned_is_as_reindexed),
    OTHER(prunes_as_a_folder),
    OTHER(asks_as_a_folder),
    OTHER(decides_as_a_folder),
    OTHER(tampered_rows_decide_nothing),
    OTHER(spoilt_copies_are_brought_again),
    OTHER(annotated_as_a_folder),
    OTHER(confirms_as_a_folder),
    OTHER(selfchecks_as_a_folder),
    OTHER(pages_as_of_a_folder),
    OTHER(hostile_texts_stay_texts),
    OTHER(in_a_browser),
    OTHER(queries_only_read),
    OTHER(or_folder),
    OTHER(latest_has_slack),
    OTHER(reads_as_a_folder),
    OTHER(reads_only_what_verifies),
    OTHER(reads_from_a_cache),
    OTHER(reruns_as_a_folder),
    OTHER(signs_off_as_a_folder),
    OTHER(pulls_what_list_lists),
    OTHER(pulls_past_the_unsound),
    { .layer = "integration",
      .op = "fleet",
      .name = "judge_pushes",
      .source_tree = true,
      .timeout_s = 300,
      .run = kg_fleet_judge_pushes },
    OTHER(two_at_once),
    OTHER(changed_meanwhile),
    OTHER(of_a_newer_kigo),
    OTHER(disk_full),
    OTHER(standby_takes_over),
    TIMES(asked_as_it_grows, &QUICK),
    TIMES(asked_over_runs, &QUICK),
    TIMES(pushed_by_many, &QUICK),
    TIMES(server_killed_at_random, &TWO),
    TIMES(client_killed_at_random, &FOUR),
    TIMES(client_killed_at_tables, &TWO),
    TIMES(unreachable_in_mid_push, &TWO),
    OTHER(over_tls),
    OTHER(killed_before_commit),
    OTHER(killed_at_commit_and_gone),
    OTHER(killed_at_commit_and_back),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
