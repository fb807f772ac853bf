#include "bundle/derived.h"
#include "base/beneath.h"
#include "base/size.h"
#include "bundle/limits.h"
#include "bundle/manifest.h"
#include <stdlib.h>
#include <string.h>

const struct kg_bundle_document KG_DERIVED[] = {
    { "data/junit.xml", kg_export_junit, 1, 0 },  { "data/results.tap", kg_export_tap, 1, 0 },
    { "data/results.csv", kg_export_csv, 3, 0 },  { "data/results.csv", kg_export_csv_of_format_2, 1, 2 },
    { "data/report.md", kg_export_report, 2, 0 }, { 0 }
};
static const char STATEMENT[] = "statement.intoto.json";

static const struct kg_bundle_document *others;

void kg_bundle_derive_also(const struct kg_bundle_document *documents) {
    others = documents;
}

const struct kg_bundle_document *kg_derived_others(void) {
    return others;
}

int kg_format_of(const json_t *info) {
    const char *said = kg_json_text(info, KG_FORMAT_LABEL);
    char *end = NULL;
    if (!said) return 1;
    const long number = strtol(said, &end, 10);
    return *said && !*end && number >= 1 && number < 1000000 ? (int)number : 0;
}

enum kg_status kg_derived_statement(const struct kg_export *from, const char *manifest, size_t size_bytes,
                                    struct kg_buffer *out, struct kg_error *err) {
    json_t *statement = kg_export_statement(from, manifest, size_bytes);
    char *text = json_dumps(statement, JSON_INDENT(2));
    json_decref(statement);
    if (!text) return kg_fail(err, KG_ERR_INTERNAL, "%s cannot be written as JSON", STATEMENT);
    kg_buffer_printf(out, "%s\n", text);
    free(text);
    return KG_OK;
}

enum kg_status kg_derived_open(const char *dir, bool partial, const struct kg_records *records, struct kg_export *from,
                               struct kg_error *err) {
    json_t *env = NULL, *build = NULL, *source = NULL, *summary = NULL;
    const struct {
        const char *file;
        json_t **object;
    } FILES[] = { { "data/env.json", &env },
                  { "data/build.json", &build },
                  { "data/source.json", &source },
                  { "data/summary.json", &summary } };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < KG_COUNT_OF(FILES) && status == KG_OK; i++) {
        status = kg_bundle_read_json(dir, FILES[i].file, FILES[i].object, err);
        if (status == KG_ERR_NOT_FOUND || (partial && status == KG_ERR_FORMAT)) status = KG_OK;
    }
    *from = (struct kg_export){ records, summary, env, build, source };
    if (status != KG_OK) kg_derived_close(from);
    return status;
}

void kg_derived_close(struct kg_export *from) {
    json_decref((json_t *)(uintptr_t)from->summary);
    json_decref((json_t *)(uintptr_t)from->env);
    json_decref((json_t *)(uintptr_t)from->build);
    json_decref((json_t *)(uintptr_t)from->source);
    *from = (struct kg_export){ 0 };
}

static json_t *read_info(const char *dir) {
    char *text = NULL;
    size_t size_bytes = 0;
    struct kg_bundle_findings unheard = { NULL, 0 };
    json_t *info = NULL;
    if (kg_beneath_read(dir, "bag-info.txt", KG_MAX_TAG_BYTES, &text, &size_bytes, NULL) == KG_OK)
        info = kg_bag_info_parse(text, size_bytes, &unheard);
    kg_bundle_findings_free(&unheard);
    free(text);
    return info;
}

static bool is_there(const char *dir, const char *file) {
    char *compressed = kg_xasprintf("%s.zst", file);
    const bool there = kg_beneath_check(dir, file, NULL) == KG_OK || kg_beneath_check(dir, compressed, NULL) == KG_OK;
    free(compressed);
    return there;
}

bool kg_derived_is_of(const struct kg_bundle_document *document, int format) {
    return format >= document->since && (!document->until || format <= document->until);
}

/* Whether a row of the list makes the file as it is in the format. */
static bool is_made(const struct kg_bundle_document *list, const char *file, int format) {
    for (; list && list->file; list++)
        if (strcmp(list->file, file) == 0 && kg_derived_is_of(list, format)) return true;
    return false;
}

void kg_derived_not_compared(const char *dir, struct kg_buffer *out) {
    const struct kg_bundle_document *const lists[] = { KG_DERIVED, others };
    json_t *info = read_info(dir);
    const int format = kg_format_of(info);
    size_t n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(lists); i++)
        for (const struct kg_bundle_document *d = lists[i]; d && d->file; d++)
            if (!d->until && !is_made(lists[i], d->file, format) && is_there(dir, d->file))
                kg_buffer_printf(out, "%s%s", n++ ? ", " : "", d->file);
    json_decref(info);
}
