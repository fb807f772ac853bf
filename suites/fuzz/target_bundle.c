/* One file of a sealed bundle replaced, and the manifests made to hold again, as who forges a run would: what verify
 * says, what report and exports show, what the index takes. */
#include "suites/fuzz/readers.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "bundle/export.h"
#include "bundle/standing.h"
#include "bundle/verify.h"
#include "history/folder.h"
#include "report/report.h"
#include "suites/fuzz/folder.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char MANIFEST[] = "manifest-sha256.txt", TAGS[] = "tagmanifest-sha256.txt", INFO[] = "bag-info.txt",
                  STATEMENT[] = "statement.intoto.json";
enum { HEX = KG_SHA256_HEX_SIZE - 1 };

/* A tag file as it was sealed, to be changed. */
struct tag {
    const char *name;
    char *text;
    size_t size;
};

static struct tag get_tag(const char *name) {
    struct tag tag = { .name = name };
    tag.text = kg_fuzz_get(kg_fuzz_folder_template()->dir, name, &tag.size);
    return tag;
}

static void put_tag(const struct kg_fuzz_folder *own, struct tag *tag) {
    kg_fuzz_put(own->dir, tag->name, tag->text, tag->size);
    free(tag->text);
}

/* The 64 digits of a file's line; NULL if it has none. */
static char *digits_of(const struct tag *manifest, const char *file) {
    char *line = kg_xasprintf("  %s\n", file);
    char *at = memmem(manifest->text, manifest->size, line, strlen(line));
    free(line);
    return at && at - manifest->text >= HEX ? at - HEX : NULL;
}

static void set_hash(struct tag *manifest, const char *file, const void *data, size_t size) {
    char hex[KG_SHA256_HEX_SIZE], *digits = digits_of(manifest, file);
    kg_sha256_hex(data, size, hex);
    if (digits) memcpy(digits, hex, HEX);
}

static void set_subject(struct tag *statement, const struct tag *was, const struct tag *is) {
    char old[KG_SHA256_HEX_SIZE], new[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(was->text, was->size, old);
    kg_sha256_hex(is->text, is->size, new);
    char *at = memmem(statement->text, statement->size, old, HEX);
    if (at) memcpy(at, new, HEX);
}

/* Payload-Oxum counts the payload's bytes. */
static void set_oxum(struct tag *info, size_t was, size_t is) {
    static const char LABEL[] = "Payload-Oxum: ";
    char *at = strstr(info->text, LABEL), *end = at ? strchr(at, '.') : NULL;
    if (!end) kg_fuzz_give_up("bag-info.txt has no Payload-Oxum");
    const uint64_t n = strtoull(at + strlen(LABEL), NULL, 10) - was + is;
    char *text = kg_xasprintf("%.*s%" PRIu64 "%s", (int)(at + strlen(LABEL) - info->text), info->text, n, end);
    free(info->text);
    info->text = text;
    info->size = strlen(text);
}

static void put_file(const struct kg_fuzz_folder *own, const char *file, const void *data, size_t size) {
    struct tag manifest = get_tag(MANIFEST), before = get_tag(MANIFEST), tags = get_tag(TAGS), info = get_tag(INFO),
               statement = get_tag(STATEMENT);
    if (strncmp(file, "data/", 5) == 0) {
        size_t was;
        free(kg_fuzz_get(kg_fuzz_folder_template()->dir, file, &was));
        set_hash(&manifest, file, data, size);
        set_oxum(&info, was, size);
    }
    set_subject(&statement, &before, &manifest);
    set_hash(&tags, MANIFEST, manifest.text, manifest.size);
    set_hash(&tags, INFO, info.text, info.size);
    set_hash(&tags, STATEMENT, statement.text, statement.size);
    set_hash(&tags, file, data, size);
    put_tag(own, &manifest);
    put_tag(own, &tags);
    put_tag(own, &info);
    put_tag(own, &statement);
    kg_fuzz_put(own->dir, file, data, size);
    free(before.text);
}

static json_t *read_json(const char *dir, const char *file) {
    json_t *json = NULL;
    struct kg_error err = { .status = KG_OK };
    if (kg_bundle_read_json(dir, file, &json, &err) == KG_OK) return json;
    kg_fuzz_expect_error(&err);
    return NULL;
}

/* Everything that is derived from the records, whether they verify or not. */
static void show(const char *dir) {
    struct kg_records records;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_error err = { .status = KG_OK };
    struct kg_buffer out = KG_BUFFER_INIT;
    if (kg_records_load(dir, &records, &findings, &err) != KG_OK) {
        kg_fuzz_expect_error(&err);
        kg_bundle_findings_free(&findings);
        return;
    }
    json_t *summary = read_json(dir, "data/summary.json"), *env = read_json(dir, "data/env.json"),
           *build = read_json(dir, "data/build.json"), *source = read_json(dir, "data/source.json"),
           *derived = read_json(kg_fuzz_folder_template()->dir, "data/summary.json");
    struct kg_export from = { .records = &records, .summary = summary, .env = env, .build = build, .source = source };
    kg_report_documents[0].make(&from, &out);
    from.summary = derived; /* seal and recover, which make these, derive it from the records themselves */
    kg_export_junit(&from, &out);
    kg_export_tap(&from, &out);
    kg_export_csv(&from, &out);
    kg_export_csv_of_format_2(&from, &out);
    kg_export_report(&from, &out);
    json_decref(kg_export_statement(&from, "", 0));
    json_decref(derived);
    json_decref(summary);
    json_decref(env);
    json_decref(build);
    json_decref(source);
    kg_buffer_free(&out);
    kg_bundle_findings_free(&findings);
    kg_records_free(&records);
}

/* What it counts for, by its times and its place in the chain. */
static void expect_standing(const struct kg_fuzz_folder *own) {
    struct kg_standing *standing = NULL;
    struct kg_error err = { .status = KG_OK };
    char why[256] = "";
    if (kg_standing_open(own->root, kg_clock_utc_us(), &standing, &err) != KG_OK) {
        kg_fuzz_expect_error(&err);
        return;
    }
    if (!kg_standing_counts(standing, KG_ROLE_BASELINE, own->id, why) && !why[0])
        kg_fuzz_give_up("it does not count, and nothing says why");
    kg_standing_close(standing);
}

KG_FUZZ_READER(bundle) {
    const struct kg_fuzz_folder *own = kg_fuzz_folder();
    const char *template_dir = kg_fuzz_folder_template()->dir;
    struct kg_bundle_findings findings;
    struct kg_history_folder folder = { 0 };
    struct kg_error err = { .status = KG_OK };
    put_file(own, target->file, data, size);
    const enum kg_status status = kg_bundle_verify(own->dir, &findings, &err);
    if (status != KG_OK) kg_fuzz_expect_error(&err);
    kg_fuzz_expect_findings(&findings);
    kg_bundle_findings_free(&findings);
    if (kg_bundle_verify_head(own->dir, &err) != KG_OK) kg_fuzz_expect_error(&err);
    show(own->dir);
    expect_standing(own);
    const enum kg_status indexed = kg_history_folder_read(own->root, own->id, &folder, &err);
    if (indexed != KG_OK) kg_fuzz_expect_error(&err);
    if (indexed != KG_OK && status == KG_OK) kg_fuzz_give_up("it verifies, and is not indexed: %s", err.message);
    kg_history_folder_free(&folder);
    kg_fuzz_restore(own->dir, template_dir, target->file);
    return status;
}
