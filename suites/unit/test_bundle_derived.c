/* What is derived from the records is made again by verify: a bundle whose manifests hold and whose derived files say
 * something else is found. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/derived.h"
#include "bundle/records.h"
#include "report/report.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum sealed_by { RESEAL, RETAG };

struct contradiction {
    const char *name, *file, *from, *to;
    enum sealed_by sealed_by;
    const char *path;        /* where the finding is; NULL: there is none */
    const char *what, *says; /* the finding, and a part of its detail */
};

static const char FORMAT_LINE[] = "Kigo-Format: 3\n";

/* The template has a case that passed, one that failed and one that was skipped. */
static const struct contradiction CONTRADICTIONS[] = {
    { "junit_failure_gone", "data/junit.xml", "failures=\"1\"", "failures=\"0\"", RESEAL, "data/junit.xml", "derived",
      "line 2" },
    { "tap_says_ok", "data/results.tap", "not ok 2", "ok 2", RESEAL, "data/results.tap", "derived", "line 4" },
    { "csv_says_pass", "data/results.csv", ",fail,", ",pass,", RESEAL, "data/results.csv", "derived", "line 3" },
    { "report_says_passed", "data/report.md", "failed: 1", "passed: 3", RESEAL, "data/report.md", "derived",
      "failed: 1" },
    { "page_says_passed", "data/report.html", "failed: 1", "passed: 3", RESEAL, "data/report.html", "derived",
      "failed: 1" },
    { "statement_passed", "statement.intoto.json", "FAILED", "PASSED", RETAG, "statement.intoto.json", "derived",
      "FAILED" },
    { "statement_hides_a_failure", "statement.intoto.json", "unit/sample/case_1", "unit/sample/case_0", RETAG,
      "statement.intoto.json", "derived", "case_1" },
    { "statement_counts", "statement.intoto.json", "\"n_fail\": 1", "\"n_fail\": 0", RETAG, "statement.intoto.json",
      "derived", "n_fail" },
    { "statement_other_figures", "statement.intoto.json", "\"data/samples.bin\"", "\"data/samples.bim\"", RETAG,
      "statement.intoto.json", "derived", "samples.bin" },
    { "md5_manifest", "manifest-md5.txt", NULL, "d41d8cd98f00b204e9800998ecf8427e  data/none\n", RETAG,
      "manifest-md5.txt", "derived", "data/build.json" },
    { "manifest_of_no_digest", "manifest-rot13.txt", NULL, "x\n", RETAG, "manifest-rot13.txt", "format", "rot13" },
    { "other_seed", "data/summary.json", "\"seed\": \"", "\"seed\": \"9", RESEAL, "data/summary.json", "summary",
      "seed" },
    { "other_start", "data/summary.json", "\"started_us\": 1", "\"started_us\": 10", RESEAL, "data/summary.json",
      "summary", "started_us" },
    { "other_commit_label", "bag-info.txt", "Kigo-Source-Commit: nogit",
      "Kigo-Source-Commit: 0123456789012345678901234567890123456789", RETAG, "bag-info.txt", "derived",
      "data/source.json has none" },
    { "id_of_another_commit", "data/source.json", "\"git\": null",
      "\"git\": {\"commit\": \"0123456789012345678901234567890123456789\", \"dirty\": false}", RESEAL,
      "data/source.json", "derived", "the id of 0123" },
    { "newer_format", "bag-info.txt", "Kigo-Format: 3", "Kigo-Format: 4", RETAG, "bag-info.txt", "format",
      "a newer kigo" },
    { "no_format", "bag-info.txt", "Kigo-Format: 3", "Kigo-Format: two", RETAG, "bag-info.txt", "format", "'two'" },
    { "first_format", "bag-info.txt", FORMAT_LINE, "", RETAG, NULL, NULL, NULL },
};

static char *fresh(struct kg_record *rec) {
    char *to = kg_path_join(kg_scratch_dir(rec), "spoilt"), *copy = kg_maker_copy(kg_maker_template(), to);
    free(to);
    return copy;
}

static void expect(const char *dir, const char *what, const char *path, const char *says) {
    struct kg_bundle_findings findings;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_bundle_verify(dir, &findings, &err);
    ck_assert_msg((status == KG_OK) == (what == NULL), "%s: %s", err.message, kg_maker_list(&findings));
    if (what) {
        ck_assert_msg(findings.n_items >= 1 && kg_maker_found(&findings, what, path), "%s", kg_maker_list(&findings));
        ck_assert_msg(strstr(kg_maker_list(&findings), says) != NULL, "%s", kg_maker_list(&findings));
        ck_assert_msg(!kg_maker_found(&findings, "changed", NULL), "%s", kg_maker_list(&findings));
    }
    kg_bundle_findings_free(&findings);
}

/* A bundle of the first format, of the same records: no label, and seeds in its CSV, unless that is empty. */
static void to_first_format(const char *dir) {
    struct kg_records records;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_export from;
    struct kg_buffer csv = KG_BUFFER_INIT;
    struct kg_error err;
    struct stat st;
    char *path = kg_path_join(dir, "data/results.csv");
    kg_maker_replace(dir, "bag-info.txt", FORMAT_LINE, "");
    EXPECT_OK(kg_records_load(dir, &records, &findings, &err), err);
    EXPECT_OK(kg_derived_open(dir, false, &records, &from, &err), err);
    kg_export_csv_of_format_2(&from, &csv);
    if (stat(path, &st) == 0 && st.st_size > 0) EXPECT_OK(kg_file_write(path, csv.data, csv.len, &err), err);
    kg_maker_reseal(dir);
    kg_buffer_free(&csv);
    kg_derived_close(&from);
    kg_records_free(&records);
    kg_bundle_findings_free(&findings);
    free(path);
}

static void spoil(const char *dir, const struct contradiction *c) {
    if (c->from == FORMAT_LINE) {
        to_first_format(dir);
        return;
    }
    if (c->from) kg_maker_replace(dir, c->file, c->from, c->to);
    else kg_maker_append(dir, c->file, c->to);
    if (c->sealed_by == RESEAL) kg_maker_reseal(dir);
    else kg_maker_retag(dir);
}

static void contradiction(struct kg_record *rec, const void *arg) {
    const struct contradiction *c = arg;
    char *dir = fresh(rec);
    expect(dir, NULL, NULL, NULL);
    spoil(dir, c);
    expect(dir, c->what, c->path, c->says);
    free(dir);
}

/* A bundle of the first format may say less, and its reports are of another writer; what it says must follow. */
static void first_format_is_held_to_what_it_says(struct kg_record *rec, const void *arg) {
    static const struct contradiction CHANGES[] = {
        { NULL, "data/junit.xml", "failures=\"1\"", "failures=\"0\"", RESEAL, "data/junit.xml", "derived", "line 2" },
        { NULL, "statement.intoto.json", "FAILED", "PASSED", RETAG, "statement.intoto.json", "derived", "result" },
        { NULL, "statement.intoto.json", "\"failedTests\": [\n", "\"failedTests\": [ \"unit/sample/case_0\",\n", RETAG,
          "statement.intoto.json", "derived", "failedTests" },
        { NULL, "statement.intoto.json", "\"kigo_counts\"", "\"other\"", RETAG, NULL, NULL, NULL },
        { NULL, "data/report.md", "failed: 1", "another layout: 1", RESEAL, NULL, NULL, NULL },
    };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(CHANGES); i++) {
        struct kg_buffer left = KG_BUFFER_INIT;
        char *dir = fresh(rec);
        kg_derived_not_compared(dir, &left);
        ck_assert_str_eq(kg_buffer_text(&left), "");
        to_first_format(dir);
        spoil(dir, &CHANGES[i]);
        expect(dir, CHANGES[i].what, CHANGES[i].path, CHANGES[i].says);
        kg_derived_not_compared(dir, &left);
        ck_assert_str_eq(kg_buffer_text(&left), "data/report.md, data/report.html");
        kg_buffer_free(&left);
        free(dir);
    }
}

/* Another program may leave them empty; kigo may not. */
static void empty_only_in_the_first_format(struct kg_record *rec, const void *arg) {
    (void)arg;
    for (const struct kg_bundle_document *d = KG_DERIVED; d->file; d++) {
        char *dir = fresh(rec), *path = kg_path_join(dir, d->file);
        ck_assert_int_eq(truncate(path, 0), 0);
        kg_maker_reseal(dir);
        expect(dir, "derived", d->file, "line 1");
        to_first_format(dir);
        expect(dir, NULL, NULL, NULL);
        free(path);
        free(dir);
    }
}

/* A right one is no finding: it is what md5sum prints. */
static void right_md5_manifest(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    char *command = kg_xasprintf("cd '%s' && find data -type f | LC_ALL=C sort | xargs md5sum > manifest-md5.txt", dir);
    (void)arg;
    ck_assert_int_eq(system(command), 0);
    kg_maker_retag(dir);
    expect(dir, NULL, NULL, NULL);
    free(command);
    free(dir);
}

/* Each costs the payload read once more, and a digest's name can be written in many ways. */
static void many_manifests(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    (void)arg;
    for (int more = 0; more < 2; more++) {
        char *command = kg_xasprintf("cd '%s' && for name in md5 mD5 Md5 MD5%s; do find data -type f | LC_ALL=C sort | "
                                     "xargs $(echo $name | tr A-Z a-z)sum > manifest-$name.txt; done",
                                     dir, more ? " sha1" : "");
        ck_assert_int_eq(system(command), 0);
        kg_maker_retag(dir);
        if (more) expect(dir, "limit", "manifest-sha1.txt", "more than 4 manifests");
        else expect(dir, NULL, NULL, NULL);
        free(command);
    }
    free(dir);
}

/* Compressed files are compared as what they hold. */
static void compressed(struct kg_record *rec, const void *arg) {
    char *dir = fresh(rec);
    char *command = kg_xasprintf("cd '%s/data' && zstd -q --rm junit.xml results.csv results.ndjson", dir);
    (void)arg;
    if (system("zstd --version > /dev/null 2>&1") != 0) {
        kg_record_skip(rec, "no zstd program");
        free(command);
        free(dir);
        return;
    }
    ck_assert_int_eq(system(command), 0);
    kg_maker_reseal(dir);
    expect(dir, NULL, NULL, NULL);
    free(command);
    command = kg_xasprintf("cd '%s/data' && zstd -q -d --rm junit.xml.zst && sed -i 's/failures=\"1\"/failures=\"0\"/' "
                           "junit.xml && zstd -q --rm junit.xml",
                           dir);
    ck_assert_int_eq(system(command), 0);
    kg_maker_reseal(dir);
    expect(dir, "derived", "data/junit.xml", "line 2");
    free(command);
    free(dir);
}

/* The statement names the run's files by digest, each once. */
static void statement_names_files_by_digest(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *list, *file;
    } FILES[] = { { "kigo_figures", "data/results.ndjson" },  { "kigo_figures", "data/samples.bin" },
                  { "configuration", "data/env.json" },       { "configuration", "data/build.json" },
                  { "kigo_artifacts", "data/logs/unit.txt" }, { "kigo_artifacts", "data/junit.xml" } };
    json_t *statement = NULL;
    struct kg_error err;
    const char *dir = kg_maker_template();
    (void)rec;
    (void)arg;
    EXPECT_OK(kg_bundle_read_json(dir, "statement.intoto.json", &statement, &err), err);
    const json_t *predicate = json_object_get(statement, "predicate");
    ck_assert_uint_eq(json_array_size(json_object_get(statement, "subject")), 1 + 8);
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        const json_t *list = json_object_get(predicate, FILES[i].list);
        char *path = kg_path_join(dir, FILES[i].file), hex[KG_SHA256_HEX_SIZE];
        size_t n = 0;
        EXPECT_OK(kg_sha256_file(path, hex, &err), err);
        for (size_t k = 0; k < json_array_size(list); k++) {
            const json_t *item = json_array_get(list, k);
            if (strcmp(kg_json_text(item, "name"), FILES[i].file) != 0) continue;
            ck_assert_str_eq(kg_json_text(json_object_get(item, "digest"), "sha256"), hex);
            n++;
        }
        ck_assert_msg(n == 1, "%s is %zu times in %s", FILES[i].file, n, FILES[i].list);
        free(path);
    }
    const json_t *counts = json_object_get(predicate, "kigo_counts");
    ck_assert_int_eq(kg_json_int(counts, "n_planned", 0), 3);
    ck_assert_int_eq(kg_json_int(counts, "n_fail", 0), 1);
    ck_assert_str_eq(kg_json_text(predicate, "kigo_verdict"), "fail");
    json_decref(statement);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "bundle_derived", .name = #function, .run = function }

static const struct kg_case CASES[] = {
    CASE(first_format_is_held_to_what_it_says),
    CASE(empty_only_in_the_first_format),
    CASE(right_md5_manifest),
    CASE(many_manifests),
    CASE(compressed),
    CASE(statement_names_files_by_digest),
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) kg_case_list_add(list, &CASES[i]);
    for (size_t i = 0; i < KG_COUNT_OF(CONTRADICTIONS); i++) {
        const struct kg_case c = { .layer = "unit",
                                   .op = "bundle_derived",
                                   .name = CONTRADICTIONS[i].name,
                                   .definition = CONTRADICTIONS[i].to,
                                   .run = contradiction,
                                   .arg = &CONTRADICTIONS[i] };
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    kg_bundle_derive_also(kg_report_documents);
    return kg_suite_main_built(argc, argv, build);
}
