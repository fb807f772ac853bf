#include "bundle/source_record.h"
#include "base/beneath.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/built_from.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DIFF_BYTES = 64 << 20 }; /* source.c writes 32 MiB and the names of what git does not track */
static const char RECORD[] = "source.json", DIFF[] = "dirty.diff";

/* What verify asks of source.json (docs/bundle-format.md, "By another program"). */
static bool well_formed(const json_t *json) {
    const json_t *git = json_object_get(json, "git");
    const char *commit = json_string_value(json_object_get(git, "commit"));
    if (!json_string_value(json_object_get(json, "version"))) return false;
    if (json_is_null(git)) return json_string_value(json_object_get(json, "git_why")) != NULL;
    return json_is_boolean(json_object_get(git, "dirty")) && commit && strlen(commit) == 40 &&
           strspn(commit, "0123456789abcdef") == 40;
}

enum kg_status kg_source_record_read(const char *folder, const char *built_from, struct kg_bundle_source *source,
                                     struct kg_error *err) {
    struct kg_bundle_source found = { 0 };
    char *path = kg_path_join(folder, RECORD);
    enum kg_status status = kg_json_read_named(path, &found.json, err);
    if (status == KG_OK && !well_formed(found.json))
        status = kg_fail(err, KG_ERR_FORMAT, "%s is no record of what kigo was built from", path);
    if (status == KG_OK && !kg_bundle_source_is(&found, built_from))
        status = kg_fail(err, KG_ERR_FORMAT, "%s is of other sources than those the programs were built from", path);
    if (status == KG_OK) status = kg_beneath_read(folder, DIFF, MAX_DIFF_BYTES, &found.diff, &found.diff_bytes, err);
    if (status == KG_OK) {
        const json_t *git = json_object_get(found.json, "git");
        found.commit = json_is_object(git) ? kg_xstrdup(kg_json_text(git, "commit")) : NULL;
        found.dirty = json_is_true(json_object_get(git, "dirty"));
        kg_bundle_source_free(source);
        *source = found;
    } else {
        kg_bundle_source_free(&found);
    }
    free(path);
    return status;
}

bool kg_source_record_is_none(enum kg_status status) {
    return status == KG_ERR_NOT_FOUND || status == KG_ERR_FORMAT;
}

/* A release has no git: its build-aux says what it was made from, as long as nobody changed it. */
static enum kg_status take_release(const char *tree, struct kg_bundle_source *source, struct kg_error *err) {
    char *folder = kg_path_join(tree, "build-aux");
    const enum kg_status status = kg_source_record_read(folder, kg_built_from(), source, err);
    free(folder);
    return kg_source_record_is_none(status) ? KG_OK : status;
}

enum kg_status kg_source_record_write(const char *tree, const char *folder, struct kg_error *err) {
    struct kg_bundle_source source;
    char *path = kg_path_join(folder, RECORD), *diff_path = kg_path_join(folder, DIFF);
    enum kg_status status = kg_bundle_source(tree, &source, err);
    if (status == KG_OK && !kg_bundle_source_is(&source, kg_built_from()))
        status =
            kg_fail(err, KG_ERR_INCOMPLETE, "kigo was not built from the sources that are in %s now: run 'make'", tree);
    if (status == KG_OK && !source.commit) status = take_release(tree, &source, err);
    char *text = status == KG_OK ? json_dumps(source.json, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    if (status == KG_OK) status = kg_file_write(path, text, strlen(text), err);
    if (status == KG_OK) status = kg_file_write(diff_path, source.diff, source.diff_bytes, err);
    free(text);
    free(diff_path);
    free(path);
    kg_bundle_source_free(&source);
    return status;
}
