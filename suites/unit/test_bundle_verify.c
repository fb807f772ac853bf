/* What verify finds: every way a bundle can differ from what was sealed, and hostile ones. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "bundle/limits.h"
#include "bundle/tree.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Verifies; the status must fit the findings. The caller frees them. */
static void verify(const char *dir, struct kg_bundle_findings *findings) {
    struct kg_error err = { 0 };
    const enum kg_status status = kg_bundle_verify(dir, findings, &err);
    ck_assert_msg(status == KG_OK || status == KG_ERR_INTEGRITY, "%s", err.message);
    ck_assert_int_eq(status == KG_OK, findings->n_items == 0);
}

static void expect_finding(const char *dir, const char *what, const char *path) {
    struct kg_bundle_findings findings;
    verify(dir, &findings);
    ck_assert_msg(kg_maker_found(&findings, what, path), "no '%s' of '%s' in: %s", what, path ? path : "anything",
                  kg_maker_list(&findings));
    kg_bundle_findings_free(&findings);
}

/* A copy of the template to spoil, in the place of the one before. */
static char *fresh(struct kg_record *rec) {
    char *to = kg_path_join(kg_scratch_dir(rec), "spoilt");
    char *copy = kg_maker_copy(kg_maker_template(), to);
    free(to);
    return copy;
}

static void flip_byte(const char *dir, const char *relative, long at) {
    char *path = kg_path_join(dir, relative);
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    fseek(file, at, SEEK_SET);
    const int byte = fgetc(file);
    ck_assert_int_ne(byte, EOF);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 0x01, file);
    ck_assert_int_eq(fclose(file), 0);
    free(path);
}

/* The first, middle and last byte of one file after another: a finding names the file, and none is left when it is
 * back. */
static void flipped_byte(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    struct kg_tree tree;
    struct kg_error err;
    size_t n_flipped = 0;
    (void)arg;
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    for (size_t i = 0; i < tree.n_entries; i++) {
        const struct kg_tree_entry *entry = &tree.entries[i];
        if (entry->kind != KG_TREE_FILE || entry->size_bytes == 0) continue;
        const long places[] = { 0, (long)(entry->size_bytes / 2), (long)entry->size_bytes - 1 };
        for (size_t k = 0; k < KG_COUNT_OF(places); k++) {
            struct kg_bundle_findings findings;
            flip_byte(dir, entry->path, places[k]);
            verify(dir, &findings);
            /* A spoilt tag manifest has no hash that protects it: it disagrees with a file, or is malformed. */
            const bool tag = strcmp(entry->path, "tagmanifest-sha256.txt") == 0;
            ck_assert_msg(tag ? findings.n_items > 0 : kg_maker_found(&findings, "changed", entry->path),
                          "%s, byte %ld: %s", entry->path, places[k], kg_maker_list(&findings));
            kg_bundle_findings_free(&findings);
            flip_byte(dir, entry->path, places[k]);
            n_flipped++;
        }
    }
    ck_assert_uint_ge(n_flipped, 3 * 15);
    struct kg_bundle_findings findings;
    verify(dir, &findings);
    ck_assert_uint_eq(findings.n_items, 0);
    kg_tree_free(&tree);
    free(dir);
}

/* Each empty folder of as many as a bundle may hold costs the same to recognise: 0.015 s of processor time for all, and
 * 15 s with a look at every entry for each. */
static void many_empty_folders(struct kg_record *rec, const void *arg) {
    struct kg_tree tree = { kg_xcalloc(KG_MAX_ENTRIES, sizeof *tree.entries), KG_MAX_ENTRIES };
    size_t n_empty = 0;
    (void)arg;
    for (size_t i = 0; i < tree.n_entries; i++) {
        tree.entries[i].kind = KG_TREE_DIR;
        tree.entries[i].path = kg_xasprintf(i == 1 ? "data/%06zu/x" : "data/%06zu", i == 1 ? i - 1 : i);
    }
    const clock_t begun = clock();
    for (size_t i = 0; i < tree.n_entries; i++) n_empty += kg_tree_is_empty(&tree, &tree.entries[i]);
    const double took_s = (double)(clock() - begun) / CLOCKS_PER_SEC;
    ck_assert_uint_eq(n_empty, tree.n_entries - 1);
    kg_record_metric(rec, "processor_time", "s", took_s);
    ck_assert_double_le(took_s, 2);
    kg_tree_free(&tree);
}

static void remove_file(const char *dir, const char *relative) {
    char *path = kg_path_join(dir, relative);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}

static void missing_file(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "bagit.txt",
                                         "bag-info.txt",
                                         "manifest-sha256.txt",
                                         "data/env.json",
                                         "data/samples.bin",
                                         "data/transcripts/haiku.ndjson",
                                         "data/plan.ndjson",
                                         "data/results.ndjson",
                                         "tagmanifest-sha256.txt",
                                         "statement.intoto.json" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *dir = fresh(rec);
        remove_file(dir, FILES[i]);
        expect_finding(dir, "missing", FILES[i]);
        free(dir);
    }
}

static void added_file(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/extra.txt", "data/transcripts/other.ndjson",
                                         "extra.txt",      ".hidden",
                                         "data/.hidden",   "tagmanifest-md5.txt" };
    char *dir = fresh(rec);
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        for (int empty = 0; empty < 2; empty++) {
            kg_maker_append(dir, FILES[i], empty ? "" : "x");
            expect_finding(dir, "added", FILES[i]);
            remove_file(dir, FILES[i]);
        }
    }
    free(dir);
}

/* No manifest lists a folder either: an empty one is found by itself, one with a file by its file. */
static void added_folder(struct kg_record *rec, const void *arg) {
    static const char *const FOLDERS[] = { "data/empty", "data/transcripts/empty", "data/nested/empty" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FOLDERS); i++) {
        char *dir = fresh(rec), *path = kg_path_join(dir, FOLDERS[i]);
        struct kg_error err;
        EXPECT_OK(kg_dir_make(path, &err), err);
        expect_finding(dir, "added", FOLDERS[i]);
        kg_maker_rehash(dir); /* fresh manifests cannot list it */
        expect_finding(dir, "added", FOLDERS[i]);
        free(path);
        free(dir);
    }
}

/* No manifest lists a signature, so what stands in its place is looked at. */
static void added_signature(struct kg_record *rec, const void *arg) {
    static const char SIG[] = "tagmanifest-sha256.txt.sig", BEGIN[] = "-----BEGIN SSH SIGNATURE-----\n";
    static const char *const NONE[] = { "", "x", "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n",
                                        "-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----\n" };
    char *dir = fresh(rec);
    struct kg_bundle_findings findings;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(NONE); i++) {
        kg_maker_append(dir, SIG, NONE[i]);
        expect_finding(dir, "signature", SIG);
        remove_file(dir, SIG);
    }
    kg_maker_append(dir, SIG, BEGIN);
    kg_maker_append(dir, SIG, "U1NIU0lH\n-----END SSH SIGNATURE-----\n");
    verify(dir, &findings);
    ck_assert_msg(findings.n_items == 0, "%s", kg_maker_list(&findings));
    kg_bundle_findings_free(&findings);
    free(dir);
}

static void renamed_file(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    char *from = kg_path_join(dir, "data/logs/unit.txt"), *to = kg_path_join(dir, "data/logs/unjt.txt");
    (void)arg;
    ck_assert_int_eq(rename(from, to), 0);
    expect_finding(dir, "missing", "data/logs/unit.txt");
    expect_finding(dir, "added", "data/logs/unjt.txt");
    free(to);
    free(from);
    free(dir);
}

/* Several changes at once: each is reported, none hides another. */
static void every_finding_is_listed(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    (void)arg;
    flip_byte(dir, "data/report.md", 5);
    remove_file(dir, "data/results.csv");
    kg_maker_append(dir, "data/added.txt", "x");
    expect_finding(dir, "changed", "data/report.md");
    expect_finding(dir, "missing", "data/results.csv");
    expect_finding(dir, "added", "data/added.txt");
    expect_finding(dir, "oxum", "bag-info.txt");
    free(dir);
}

/* A link to the same bytes passes the hash; it is no evidence all the same. */
static void link_in_the_place_of_a_file(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    char *path = kg_path_join(dir, "data/report.md"), *away = kg_path_join(kg_scratch_dir(rec), "report.md");
    (void)arg;
    ck_assert_int_eq(rename(path, away), 0);
    ck_assert_int_eq(symlink(away, path), 0);
    expect_finding(dir, "link", "data/report.md");
    free(away);
    free(path);
    free(dir);
}

/* A pipe would block who opens it. */
static void pipe_in_the_place_of_a_file(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/results.ndjson", "data/summary.json",     "manifest-sha256.txt",
                                         "bag-info.txt",        "statement.intoto.json", "data/samples.bin" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *dir = fresh(rec);
        char *path = kg_path_join(dir, FILES[i]);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(mkfifo(path, 0644), 0);
        expect_finding(dir, "format", FILES[i]);
        free(path);
        free(dir);
    }
}

/* Changes that come with fresh manifests: only the records give them away. */
struct record_change {
    const char *name, *file, *from, *to; /* the first `from` becomes `to`; from NULL: `to` is appended */
    const char *what, *path;             /* the finding */
};

static const struct record_change CHANGES[] = {
    { "status_turned_green", "data/results.ndjson", "\"status\":\"fail\",\"reason\":\"as the maker was asked\"",
      "\"status\":\"pass\",\"reason\":null", "summary", "data/summary.json" },
    { "failing_result_taken_out", "data/results.ndjson", "{\"key\":\"unit/sample/case_1\"",
      "{\"key\":\"unit/sample/case_9\"", "unrecorded", "data/results.ndjson" },
    { "result_of_no_plan", "data/results.ndjson", "{\"key\":\"unit/sample/case_1\"", "{\"key\":\"unit/sample/case_9\"",
      "unplanned", "data/results.ndjson" },
    { "plan_of_another_case", "data/plan.ndjson", "{\"key\":\"unit/sample/case_1\"", "{\"key\":\"unit/sample/case_9\"",
      "unplanned", "data/results.ndjson" },
    { "plan_shortened", "data/journal.ndjson", "\"n\":3", "\"n\":4", "journal", "data/journal.ndjson" },
    { "other_definition", "data/plan.ndjson", "\"def_sha\":\"e3", "\"def_sha\":\"f3", "definition",
      "data/plan.ndjson" },
    { "other_seed", "data/plan.ndjson", "\"seed\":\"7\"", "\"seed\":\"8\"", "definition", "data/plan.ndjson" },
    { "plan_of_another_hash", "data/journal.ndjson", "\"plan_sha256\":\"", "\"plan_sha256\":\"0", "definition",
      "data/plan.ndjson" },
    { "plan_without_a_hash", "data/journal.ndjson", "\"plan_sha256\"", "\"other\"", "format", "data/results.ndjson" },
    { "result_of_another_definition", "data/results.ndjson", "\"status\"",
      "\"def_sha\":\"f3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\",\"status\"", "definition",
      "data/results.ndjson" },
    { "result_of_another_seed", "data/results.ndjson", "\"seed\":\"7\"", "\"seed\":\"8\"", "definition",
      "data/results.ndjson" },
    { "result_without_a_seed", "data/results.ndjson", "\"seed\"", "\"other\"", "format", "data/results.ndjson" },
    { "journal_says_otherwise", "data/journal.ndjson", "\"status\":\"fail\"", "\"status\":\"pass\"", "journal",
      "data/journal.ndjson" },
    { "never_started", "data/journal.ndjson", "{\"event\":\"start\",\"key\":\"unit/sample/case_0\"",
      "{\"event\":\"other\",\"key\":\"unit/sample/case_0\"", "journal", "data/journal.ndjson" },
    { "started_twice", "data/journal.ndjson", NULL,
      "{\"event\":\"start\",\"key\":\"unit/sample/case_0\",\"utc_us\":1}\n", "duplicate", "data/journal.ndjson" },
    { "count_changed", "data/summary.json", "\"n_pass\": 1", "\"n_pass\": 2", "summary", "data/summary.json" },
    { "verdict_changed", "data/summary.json", "\"verdict\": \"fail\"", "\"verdict\": \"pass\"", "summary",
      "data/summary.json" },
    { "verdict_label_changed", "bag-info.txt", "Kigo-Verdict: fail", "Kigo-Verdict: pass", "summary", "bag-info.txt" },
    { "state_changed", "bag-info.txt", "Kigo-State: complete", "Kigo-State: partial", "summary", "data/summary.json" },
    { "state_unknown", "bag-info.txt", "Kigo-State: complete", "Kigo-State: perfect", "summary", "bag-info.txt" },
    { "identity_changed", "data/summary.json", "\"bundle_id\": \"2", "\"bundle_id\": \"3", "summary",
      "data/summary.json" },
    { "samples_out_of_range", "data/results.ndjson", "\"samples_offset\":0", "\"samples_offset\":999", "samples",
      "data/results.ndjson" },
    { "samples_offset_negative", "data/results.ndjson", "\"samples_offset\":0", "\"samples_offset\":-1", "samples",
      "data/results.ndjson" },
    { "median_changed", "data/results.ndjson", "\"median\":5.0", "\"median\":4.0", "samples", "data/results.ndjson" },
    { "interval_changed", "data/results.ndjson", "\"ci_hi\":6.01", "\"ci_hi\":6.05", "samples", "data/results.ndjson" },
    { "least_changed", "data/results.ndjson", "\"min\":3.0", "\"min\":2.0", "samples", "data/results.ndjson" },
    { "line_torn", "data/results.ndjson", NULL, "{\"key\":\"unit/sam", "format", "data/results.ndjson" },
    { "line_not_json", "data/results.ndjson", NULL, "not json\n", "format", "data/results.ndjson" },
    { "key_twice_in_a_line", "data/results.ndjson", "\"status\":\"fail\"", "\"status\":\"pass\",\"status\":\"fail\"",
      "format", "data/results.ndjson" },
    { "label_twice", "bag-info.txt", "Kigo-State: complete", "Kigo-State: complete\nKigo-State: complete", "duplicate",
      "bag-info.txt" },
    { "declaration_changed", "bagit.txt", "1.0", "0.9", "format", "bagit.txt" },
};

static void record_change(struct kg_record *rec, const void *arg) {
    const struct record_change *change = arg;
    char *dir = fresh(rec);
    if (change->from) kg_maker_replace(dir, change->file, change->from, change->to);
    else kg_maker_append(dir, change->file, change->to);
    kg_maker_rehash(dir);
    struct kg_bundle_findings findings;
    verify(dir, &findings);
    ck_assert_msg(kg_maker_found(&findings, change->what, change->path), "%s", kg_maker_list(&findings));
    ck_assert_msg(!kg_maker_found(&findings, "changed", NULL) && !kg_maker_found(&findings, "oxum", NULL),
                  "the bag itself should be sound: %s", kg_maker_list(&findings));
    kg_bundle_findings_free(&findings);
    free(dir);
}

/* A file taken out of the bag and of its manifests: every complete bundle has it. */
static void part_taken_out(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/env.json",    "data/build.json",  "data/source.json",
                                         "data/dirty.diff",  "data/samples.bin", "data/junit.xml",
                                         "data/results.tap", "data/results.csv", "data/report.md" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *dir = fresh(rec);
        remove_file(dir, FILES[i]);
        kg_maker_rehash(dir);
        expect_finding(dir, "missing", FILES[i]);
        free(dir);
    }
}

static void statement_of_another_manifest(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    (void)arg;
    kg_maker_replace(dir, "statement.intoto.json", "\"sha256\": \"", "\"sha256\": \"0");
    expect_finding(dir, "statement", "statement.intoto.json");
    kg_maker_replace(dir, "statement.intoto.json", "\"digest\"", "\"digits\"");
    expect_finding(dir, "statement", "statement.intoto.json");
    free(dir);
}

/* Lines in a manifest that reach outside of the bag, or name a file twice. */
static void manifest_paths(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *line, *what;
    } LINES[] = {
        { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  /etc/passwd\n", "format" },
        { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  data/../../x\n", "format" },
        { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  ~/x\n", "format" },
        { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  data/dirty.diff\n", "duplicate" },
        { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  bagit.txt\n", "format" },
        { "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  data/none\n", "missing" },
        { "E3B0  data/x\n", "format" },
        { "\n", "format" },
        { "torn", "format" },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(LINES); i++) {
        char *dir = fresh(rec);
        kg_maker_append(dir, "manifest-sha256.txt", LINES[i].line);
        expect_finding(dir, LINES[i].what, strcmp(LINES[i].what, "missing") == 0 ? "data/none" : "manifest-sha256.txt");
        free(dir);
    }
}

static void folder_under_another_id(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    char *dir = fresh(rec), *other = kg_path_join(root, "20200101T000000Z-nogit-00000000");
    char *copy = kg_path_join(root, "a-copy");
    struct kg_bundle_findings findings;
    (void)arg;
    ck_assert_int_eq(rename(dir, other), 0);
    expect_finding(other, "renamed", "");
    ck_assert_int_eq(rename(other, copy), 0); /* a download has any name */
    verify(copy, &findings);
    ck_assert_msg(findings.n_items == 0, "%s", kg_maker_list(&findings));
    free(copy);
    free(other);
    free(dir);
}

static void not_a_bundle(struct kg_record *rec, const void *arg) {
    const char *root = kg_scratch_dir(rec);
    struct kg_bundle_findings findings;
    struct kg_error err;
    char *none = kg_path_join(root, "none"), *file = kg_path_join(root, "file");
    (void)arg;
    ck_assert_int_eq(kg_bundle_verify(none, &findings, &err), KG_ERR_NOT_FOUND);
    EXPECT_OK(kg_file_write(file, "x", 1, &err), err);
    ck_assert_int_eq(kg_bundle_verify(file, &findings, &err), KG_ERR_FORMAT);
    EXPECT_OK(kg_dir_make(none, &err), err);
    ck_assert_int_eq(kg_bundle_verify(none, &findings, &err), KG_ERR_INTEGRITY);
    ck_assert(kg_maker_found(&findings, "missing", "bagit.txt"));
    kg_bundle_findings_free(&findings);
    free(file);
    free(none);
}

static void put_repeated(struct kg_buffer *out, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) kg_buffer_puts(out, text);
}

/* Lines no honest run writes; each must be a finding, and end in good time. */
static void hostile_lines(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/plan.ndjson",      "data/results.ndjson",    "data/journal.ndjson",
                                         "manifest-sha256.txt",   "tagmanifest-sha256.txt", "bag-info.txt",
                                         "statement.intoto.json", "data/summary.json" };
    enum { N_KINDS = 4, MIB = 1 << 20, DEEP = 200000 };
    (void)arg;
    for (size_t f = 0; f < KG_COUNT_OF(FILES); f++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            char *dir = fresh(rec);
            struct kg_buffer text = KG_BUFFER_INIT;
            if (kind == 0) put_repeated(&text, "0123456789abcdef", 4 * MIB / 16);
            if (kind == 1) put_repeated(&text, "[", DEEP);
            if (kind == 2) put_repeated(&text, "{\"a\":", DEEP);
            if (kind == 3)
                for (int i = 0; i < 4096; i++) kg_buffer_append(&text, &(char){ (char)(i * 37) }, 1);
            kg_buffer_puts(&text, "\n");
            char *path = kg_path_join(dir, FILES[f]);
            struct kg_error err;
            EXPECT_OK(kg_file_write(path, text.data, text.len, &err), err);
            struct kg_bundle_findings findings;
            verify(dir, &findings);
            ck_assert_uint_gt(findings.n_items, 0);
            for (size_t i = 0; i < findings.n_items; i++) { /* what is found can be written as JSON */
                json_t *detail = json_string(findings.items[i].detail);
                ck_assert_ptr_nonnull(detail);
                json_decref(detail);
            }
            kg_bundle_findings_free(&findings);
            free(path);
            kg_buffer_free(&text);
            free(dir);
        }
}

/* Random bytes put over random places of the records, manifests made again: a finding or none, never a crash. */
static void random_damage(struct kg_record *rec, const void *arg) {
    static const char *const FILES[] = { "data/plan.ndjson", "data/results.ndjson", "data/journal.ndjson",
                                         "data/summary.json" };
    enum { ROUNDS = 60, BYTES = 8 };
    struct kg_rng rng;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int round = 0; round < ROUNDS; round++) {
        char *dir = fresh(rec);
        const char *relative = FILES[kg_rng_below(&rng, KG_COUNT_OF(FILES))];
        char *path = kg_path_join(dir, relative), *data = NULL;
        size_t size_bytes;
        struct kg_error err;
        EXPECT_OK(kg_file_read(path, &data, &size_bytes, &err), err);
        for (int i = 0; i < BYTES; i++) data[kg_rng_below(&rng, size_bytes)] = (char)kg_rng_u32(&rng);
        EXPECT_OK(kg_file_write(path, data, size_bytes, &err), err);
        kg_maker_rehash(dir);
        struct kg_bundle_findings findings;
        verify(dir, &findings);
        kg_bundle_findings_free(&findings);
        free(data);
        free(path);
        free(dir);
    }
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle_verify", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(flipped_byte),
    CASE(many_empty_folders),
    CASE(missing_file),
    CASE(added_file),
    CASE(added_folder),
    CASE(added_signature),
    CASE(part_taken_out),
    CASE(statement_of_another_manifest),
    CASE(renamed_file),
    CASE(every_finding_is_listed),
    CASE(link_in_the_place_of_a_file),
    CASE(manifest_paths),
    CASE(pipe_in_the_place_of_a_file),
    CASE(folder_under_another_id),
    CASE(not_a_bundle),
    CASE(hostile_lines),
    CASE(random_damage),
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(CHANGES); i++) {
        const struct kg_case c = { .layer = "unit",
                                   .op = "bundle_verify",
                                   .name = CHANGES[i].name,
                                   .definition = CHANGES[i].to,
                                   .run = record_change,
                                   .arg = &CHANGES[i] };
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
