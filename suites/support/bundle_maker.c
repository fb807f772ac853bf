#include "suites/support/bundle_maker.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/tree.h"
#include "run/publish.h"
#include <check.h>
#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char DEF_SHA[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

char *kg_maker_key(size_t i) {
    return kg_xasprintf("unit/sample/case_%zu", i);
}

json_t *kg_maker_plan_line(size_t i) {
    char *key = kg_maker_key(i);
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:n, s:n, s:n, s:s, s:s, s:f}", "key", key, "suite",
                  "unit.test_sample", "layer", "unit", "op", "sample", "name", key + strlen("unit/sample/"), "backend",
                  "cpu", "dtype", "shape", "spec", "seed", "7", "def_sha", DEF_SHA, "timeout_s", 60.0);
    free(key);
    return line;
}

json_t *kg_maker_result(size_t i, const char *status) {
    char *key = kg_maker_key(i);
    const double d = (double)i;
    const bool passed = strcmp(status, "pass") == 0;
    json_t *result = json_pack(
        "{s:s, s:s, s:s?, s:I, s:I, s:[{s:s, s:i, s:i, s:f, s:f, s:{s:f}, s:s, s:f, s:b}],"
        " s:[{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:b}], s:[{s:s, s:s, s:f}],"
        " s:[{s:s, s:I, s:I}]}",
        "key", key, "status", status, "reason", passed ? NULL : "as the maker was asked", "started_us",
        (json_int_t)1700000000000000, "duration_ns", 1000000 * (json_int_t)(i + 1), "errors", "name", "logits", "n", 64,
        "n_nonfinite", 0, "max_abs", 0.001 * (d + 1), "nmse", 1e-6, "tolerance", "max_abs", 0.01, "why", "a sample",
        "margin", 0.1 * (d + 1), "judged", 1, "timings", "name", "decode", "kind", "host", "state", "warm", "n", 10,
        "median", 5.0 + d, "mad", 0.5, "ci_lo", 4.5 + d, "ci_hi", 6.0125 + d, "min", 3.0 + d, "max", 9.0 + d, "bytes",
        0, "flops", 0, "valid", 1, "metrics", "name", "speed", "unit", "tokens/s", "value", 100.0 + d, "memory", "tag",
        "weights", "peak_bytes", (json_int_t)4096, "left_bytes", (json_int_t)0);
    free(key);
    return result;
}

enum kg_status kg_maker_open(const char *root, size_t n_cases, struct kg_bundle **out, struct kg_error *err) {
    json_t *run = json_pack("{s:[s]}", "argv", "kigo");
    const struct kg_bundle_options options = { .root = root, .run = run, .gpus_why = "none was looked for", .seed = 7 };
    struct kg_bundle *bundle = NULL;
    enum kg_status status = kg_bundle_create(&options, &bundle, err);
    json_decref(run);
    for (size_t i = 0; i < n_cases && status == KG_OK; i++) {
        json_t *line = kg_maker_plan_line(i);
        status = kg_bundle_plan(bundle, line, err);
        json_decref(line);
    }
    if (status == KG_OK) status = kg_bundle_plan_done(bundle, err);
    if (status == KG_OK) *out = bundle;
    else kg_bundle_close(bundle);
    return status;
}

enum kg_status kg_maker_samples(struct kg_bundle *bundle, size_t i, json_t *result, struct kg_error *err) {
    float samples[10] = { 3, 4, 5, 5, 5, 5, 5, 6, 7, 9 };
    for (size_t k = 0; k < 10; k++) samples[k] += (float)i;
    uint64_t offset = 0;
    const enum kg_status status = kg_bundle_samples(bundle, samples, 10, &offset, err);
    json_object_set_new(json_array_get(json_object_get(result, "timings"), 0), "samples_offset",
                        json_integer((json_int_t)offset));
    return status;
}

enum kg_status kg_maker_run(struct kg_bundle *bundle, size_t i, const char *outcome, struct kg_error *err) {
    char *key = kg_maker_key(i);
    enum kg_status status = kg_bundle_start(bundle, key, err);
    free(key);
    if (status != KG_OK || strcmp(outcome, "started") == 0) return status;
    json_t *result = kg_maker_result(i, outcome);
    status = kg_maker_samples(bundle, i, result, err);
    if (status == KG_OK) status = kg_bundle_end(bundle, result, err);
    json_decref(result);
    return status;
}

/* dir: NULL, or its folder, malloc'ed. It is what was sealed and not what the folder lists last: the ids of two runs of
 * one second differ by a random number. */
static enum kg_status write_run(const char *root, const char *const *statuses, size_t n_cases,
                                struct kg_bundle_summary *summary, char **dir, struct kg_error *err) {
    struct kg_bundle *bundle = NULL;
    enum kg_status status = kg_maker_open(root, n_cases, &bundle, err);
    for (size_t i = 0; i < n_cases && status == KG_OK; i++)
        if (strcmp(statuses[i], "norun") != 0) status = kg_maker_run(bundle, i, statuses[i], err);
    if (status == KG_OK) status = kg_bundle_sync(bundle, err);
    json_t *line = json_pack("{s:s}", "text", "an old silent pond");
    if (status == KG_OK) status = kg_bundle_transcript(bundle, "haiku", line, err);
    json_decref(line);
    if (status == KG_OK) status = kg_bundle_file(bundle, "logs/unit.txt", "line\n", 5, err);
    if (status == KG_OK) status = kg_run_seal(bundle, summary, err);
    if (status == KG_OK && dir) *dir = kg_xstrdup(kg_bundle_dir(bundle));
    kg_bundle_close(bundle);
    return status;
}

enum kg_status kg_maker_write(const char *root, const char *const *statuses, size_t n_cases,
                              struct kg_bundle_summary *summary, struct kg_error *err) {
    return write_run(root, statuses, n_cases, summary, NULL, err);
}

char *kg_maker_sealed(const char *root, size_t n_cases) {
    const char **statuses = kg_xcalloc(n_cases, sizeof *statuses);
    for (size_t i = 0; i < n_cases; i++) statuses[i] = "pass";
    struct kg_bundle_summary summary;
    struct kg_error err = { 0 };
    char *dir = NULL;
    EXPECT_OK(write_run(root, statuses, n_cases, &summary, &dir, &err), err);
    ck_assert_str_eq(summary.note, "");
    free(statuses);
    return dir;
}

static void read_file(const char *dir, const char *relative, char **text, size_t *size_bytes) {
    char *path = kg_path_join(dir, relative);
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, text, size_bytes, &err), err);
    free(path);
}

static void write_file(const char *dir, const char *relative, const void *data, size_t size_bytes) {
    char *path = kg_path_join(dir, relative);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size_bytes, file), size_bytes);
    ck_assert_int_eq(fclose(file), 0);
    free(path);
}

static char *template_root;

static void remove_template(void) {
    if (kg_path_remove(template_root, NULL) != KG_OK) fprintf(stderr, "cannot remove %s\n", template_root);
    free(template_root);
}

const char *kg_maker_template(void) {
    static const char *const STATUSES[] = { "pass", "fail", "skip" };
    static char *dir;
    if (dir) return dir;
    const char *parent = getenv("TMPDIR");
    struct kg_bundle_summary summary;
    struct kg_error err;
    template_root = kg_path_join(parent && *parent ? parent : "/tmp", "kigo-bundle-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(template_root));
    atexit(remove_template);
    EXPECT_OK(kg_maker_write(template_root, STATUSES, 3, &summary, &err), err);
    dir = kg_maker_only(template_root);
    return dir;
}

char *kg_maker_copy(const char *dir, const char *to) {
    struct kg_tree tree;
    struct kg_error err;
    EXPECT_OK(kg_path_remove(to, &err), err);
    EXPECT_OK(kg_dir_make(to, &err), err);
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    for (size_t i = 0; i < tree.n_entries; i++) {
        char *from = kg_path_join(dir, tree.entries[i].path), *path = kg_path_join(to, tree.entries[i].path);
        char *data = NULL;
        size_t size_bytes = 0;
        if (tree.entries[i].kind == KG_TREE_DIR) {
            EXPECT_OK(kg_dir_make(path, &err), err);
        } else {
            EXPECT_OK(kg_file_read(from, &data, &size_bytes, &err), err);
            write_file(to, tree.entries[i].path, data, size_bytes);
        }
        free(data);
        free(path);
        free(from);
    }
    kg_tree_free(&tree);
    return kg_xstrdup(to);
}

void kg_maker_replace(const char *dir, const char *relative, const char *from, const char *to) {
    char *text = NULL;
    size_t size_bytes = 0;
    read_file(dir, relative, &text, &size_bytes);
    char *at = memmem(text, size_bytes, from, strlen(from));
    ck_assert_msg(at != NULL, "%s/%s does not hold %s", dir, relative, from);
    struct kg_buffer changed = KG_BUFFER_INIT;
    kg_buffer_append(&changed, text, (size_t)(at - text));
    kg_buffer_puts(&changed, to);
    kg_buffer_append(&changed, at + strlen(from), size_bytes - (size_t)(at - text) - strlen(from));
    write_file(dir, relative, kg_buffer_text(&changed), changed.len);
    kg_buffer_free(&changed);
    free(text);
}

void kg_maker_append(const char *dir, const char *relative, const char *text) {
    char *path = kg_path_join(dir, relative);
    FILE *file = fopen(path, "ab");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    free(path);
}

bool kg_maker_found(const struct kg_bundle_findings *findings, const char *what, const char *path) {
    for (size_t i = 0; i < findings->n_items; i++)
        if (strcmp(findings->items[i].what, what) == 0 && (!path || strcmp(findings->items[i].path, path) == 0))
            return true;
    return false;
}

const char *kg_maker_list(const struct kg_bundle_findings *findings) {
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < findings->n_items && used < sizeof text; i++) {
        const struct kg_bundle_finding *f = &findings->items[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "[%s %s: %s] ", f->what, f->path, f->detail);
    }
    return text;
}

bool kg_maker_has_plan(const char *root) {
    char *pattern = kg_path_join(root, ".tmp-*/data/plan.ndjson");
    glob_t found;
    struct stat st;
    bool has = false;
    if (glob(pattern, GLOB_PERIOD, NULL, &found) == 0) {
        has = stat(found.gl_pathv[0], &st) == 0 && st.st_size > 0;
        globfree(&found);
    }
    free(pattern);
    return has;
}

void kg_maker_expect_sound(const char *dir) {
    struct kg_bundle_findings findings;
    struct kg_error err;
    const enum kg_status status = kg_bundle_verify(dir, &findings, &err);
    ck_assert_msg(status == KG_OK, "%s: %s", err.message, kg_maker_list(&findings));
    kg_bundle_findings_free(&findings);
}

size_t kg_maker_count(const char *root, const char *prefix) {
    struct kg_dir_list list;
    struct kg_error err;
    size_t n = 0;
    EXPECT_OK(kg_dir_list(root, &list, &err), err);
    for (size_t i = 0; i < list.n_names; i++) n += strncmp(list.names[i], prefix, strlen(prefix)) == 0;
    kg_dir_list_free(&list);
    return n;
}

char *kg_maker_only(const char *root) {
    struct kg_dir_list list;
    struct kg_error err;
    char *only = NULL;
    EXPECT_OK(kg_dir_list(root, &list, &err), err);
    for (size_t i = 0; i < list.n_names; i++) {
        if (list.names[i][0] != '2') continue;
        ck_assert_msg(only == NULL, "%s holds more than one bundle", root);
        only = kg_path_join(root, list.names[i]);
    }
    kg_dir_list_free(&list);
    ck_assert_msg(only != NULL, "%s holds no bundle", root);
    return only;
}

char *kg_maker_status_of(const char *dir, size_t i) {
    struct kg_records records;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_error err;
    char *key = kg_maker_key(i), *status = NULL;
    EXPECT_OK(kg_records_load(dir, &records, &findings, &err), err);
    for (size_t k = 0; k < records.n_cases; k++)
        if (strcmp(records.cases[k].key, key) == 0 && records.cases[k].result)
            status = kg_xstrdup(kg_json_text(records.cases[k].result, "status"));
    kg_records_free(&records);
    kg_bundle_findings_free(&findings);
    ck_assert_msg(status != NULL, "%s has no result of %s", dir, key);
    free(key);
    return status;
}

static void dump_rows(sqlite3 *db, const char *table, struct kg_buffer *out) {
    char *sql = kg_xasprintf("SELECT * FROM %s", table);
    sqlite3_stmt *stmt = NULL;
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        kg_buffer_printf(out, "%s:", table);
        for (int c = 0; c < sqlite3_column_count(stmt); c++) {
            const unsigned char *text = sqlite3_column_text(stmt, c);
            kg_buffer_printf(out, " %d|%s", sqlite3_column_type(stmt, c), text ? (const char *)text : "NULL");
        }
        kg_buffer_puts(out, "\n");
    }
    sqlite3_finalize(stmt);
    free(sql);
}

char *kg_maker_dump(const char *root) {
    struct kg_buffer out = KG_BUFFER_INIT;
    char *path = kg_path_join(root, "index.sqlite");
    sqlite3 *db = NULL;
    sqlite3_stmt *tables = NULL;
    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    static const char SCHEMA[] = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name";
    ck_assert_int_eq(sqlite3_prepare_v2(db, SCHEMA, -1, &tables, NULL), SQLITE_OK);
    while (sqlite3_step(tables) == SQLITE_ROW) {
        const char *type = (const char *)sqlite3_column_text(tables, 0);
        const char *name = (const char *)sqlite3_column_text(tables, 1);
        const char *sql = (const char *)sqlite3_column_text(tables, 2);
        kg_buffer_printf(&out, "%s %s %s\n", type, name, sql ? sql : "");
        if (strcmp(type, "table") == 0) dump_rows(db, name, &out);
    }
    sqlite3_finalize(tables);
    sqlite3_close(db);
    free(path);
    return out.data;
}

void kg_maker_remove_index(const char *root) {
    static const char *const FILES[] = { "index.sqlite", "index.sqlite-wal", "index.sqlite-shm" };
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *path = kg_path_join(root, FILES[i]);
        struct kg_error err;
        EXPECT_OK(kg_path_remove(path, &err), err);
        free(path);
    }
}

void kg_maker_expect_same(const char *got, const char *want) {
    size_t line = 1;
    for (;; line++) {
        const size_t got_len = strcspn(got, "\n"), want_len = strcspn(want, "\n");
        ck_assert_msg(got_len == want_len && memcmp(got, want, got_len) == 0, "line %zu: '%.*s', not '%.*s'", line,
                      (int)(got_len < 300 ? got_len : 300), got, (int)(want_len < 300 ? want_len : 300), want);
        ck_assert_int_eq(got[got_len], want[want_len]);
        if (!got[got_len]) return;
        got += got_len + 1;
        want += want_len + 1;
    }
}
