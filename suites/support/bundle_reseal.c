/* Sealing a bundle again after a change, as somebody would who wants it to hold. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "bundle/derived.h"
#include "bundle/manifest.h"
#include "report/report.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void read_file(const char *dir, const char *relative, char **text, size_t *size_bytes) {
    char *path = kg_path_join(dir, relative);
    struct kg_error err;
    EXPECT_OK(kg_file_read(path, text, size_bytes, &err), err);
    free(path);
}

static void write_file(const char *dir, const char *relative, const char *data, size_t size_bytes) {
    char *path = kg_path_join(dir, relative);
    struct kg_error err;
    EXPECT_OK(kg_file_write(path, data, size_bytes, &err), err);
    free(path);
}

static void write_manifest(const char *dir, const char *file, bool (*wanted)(const char *path)) {
    struct kg_tree tree;
    struct kg_buffer lines = KG_BUFFER_INIT;
    struct kg_error err;
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    EXPECT_OK(kg_manifest_make(dir, &tree, wanted, &lines, &err), err);
    write_file(dir, file, kg_buffer_text(&lines), lines.len);
    kg_buffer_free(&lines);
    kg_tree_free(&tree);
}

static void write_oxum(const char *dir) {
    struct kg_tree tree;
    struct kg_error err;
    unsigned long long n_bytes = 0;
    size_t n_files = 0, size_bytes = 0;
    char *info = NULL;
    EXPECT_OK(kg_tree_list(dir, &tree, &err), err);
    for (size_t i = 0; i < tree.n_entries; i++) {
        if (tree.entries[i].kind != KG_TREE_FILE || strncmp(tree.entries[i].path, "data/", 5) != 0) continue;
        n_bytes += tree.entries[i].size_bytes;
        n_files++;
    }
    kg_tree_free(&tree);
    read_file(dir, "bag-info.txt", &info, &size_bytes);
    char *line = strstr(info, "Payload-Oxum: ");
    ck_assert_ptr_nonnull(line);
    char *was = kg_xstrndup(line, strcspn(line, "\n")), *is = kg_xasprintf("Payload-Oxum: %llu.%zu", n_bytes, n_files);
    kg_maker_replace(dir, "bag-info.txt", was, is);
    free(is);
    free(was);
    free(info);
}

static int format_of(const char *dir) {
    char *text = NULL;
    size_t size_bytes = 0;
    struct kg_bundle_findings unheard = { NULL, 0 };
    read_file(dir, "bag-info.txt", &text, &size_bytes);
    json_t *info = kg_bag_info_parse(text, size_bytes, &unheard);
    const int format = kg_format_of(info);
    json_decref(info);
    kg_bundle_findings_free(&unheard);
    free(text);
    return format;
}

/* Whether a row of the list makes the file as bundles of the format have it; of other files the row of today does. */
static bool is_chosen(const struct kg_bundle_document *list, const struct kg_bundle_document *row, int format) {
    bool known = false;
    for (const struct kg_bundle_document *d = list; d->file; d++)
        known = known || (strcmp(d->file, row->file) == 0 && kg_derived_is_of(d, format));
    return known ? kg_derived_is_of(row, format) : !row->until;
}

/* The derived files that are there in plain form, from the records as they are. */
static void derive_again(const char *dir, const struct kg_export *from) {
    const struct kg_bundle_document *const lists[] = { KG_DERIVED, kg_report_documents };
    const int format = format_of(dir);
    for (size_t i = 0; i < KG_COUNT_OF(lists); i++)
        for (const struct kg_bundle_document *d = lists[i]; d->file; d++) {
            char *path = kg_path_join(dir, d->file);
            struct kg_buffer text = KG_BUFFER_INIT;
            if (is_chosen(lists[i], d, format) && kg_path_exists(path)) {
                d->make(from, &text);
                write_file(dir, d->file, kg_buffer_text(&text), text.len);
            }
            kg_buffer_free(&text);
            free(path);
        }
}

static void write_statement(const char *dir, const struct kg_export *from) {
    char *manifest = NULL;
    size_t size_bytes = 0;
    struct kg_buffer text = KG_BUFFER_INIT;
    struct kg_error err;
    read_file(dir, "manifest-sha256.txt", &manifest, &size_bytes);
    EXPECT_OK(kg_derived_statement(from, manifest, size_bytes, &text, &err), err);
    write_file(dir, "statement.intoto.json", text.data, text.len);
    kg_buffer_free(&text);
    free(manifest);
}

static void reseal(const char *dir, bool derived_again) {
    struct kg_records records;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_export from;
    struct kg_error err;
    EXPECT_OK(kg_records_load(dir, &records, &findings, &err), err);
    EXPECT_OK(kg_derived_open(dir, true, &records, &from, &err), err);
    if (derived_again) derive_again(dir, &from);
    write_oxum(dir);
    write_manifest(dir, "manifest-sha256.txt", kg_manifest_is_payload);
    write_statement(dir, &from);
    kg_maker_retag(dir);
    kg_derived_close(&from);
    kg_records_free(&records);
    kg_bundle_findings_free(&findings);
}

void kg_maker_plan_again(const char *dir) {
    static const char MEMBER[] = "\"plan_sha256\":\"";
    char *journal = NULL, *plan = kg_path_join(dir, "data/plan.ndjson"), is[KG_SHA256_HEX_SIZE];
    size_t size_bytes = 0;
    struct kg_error err;
    read_file(dir, "data/journal.ndjson", &journal, &size_bytes);
    EXPECT_OK(kg_sha256_file(plan, is, &err), err);
    char *at = strstr(journal, MEMBER);
    if (at) memcpy(at + strlen(MEMBER), is, sizeof is - 1);
    write_file(dir, "data/journal.ndjson", journal, size_bytes);
    free(plan);
    free(journal);
}

void kg_maker_rehash(const char *dir) {
    reseal(dir, true);
}

void kg_maker_reseal(const char *dir) {
    reseal(dir, false);
}

void kg_maker_retag(const char *dir) {
    write_manifest(dir, "tagmanifest-sha256.txt", kg_manifest_is_tag);
}
