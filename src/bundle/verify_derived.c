/* What is derived: made again by the writers that seal, and compared. */
#include "base/beneath.h"
#include "base/size.h"
#include "bundle/derived.h"
#include "bundle/limits.h"
#include "bundle/manifest.h"
#include "bundle/stored.h"
#include "bundle/verify.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char STATEMENT[] = "statement.intoto.json";

static size_t line_length(const char *text, size_t size_bytes) {
    enum { SHOWN = 100 };
    const char *end = memchr(text, '\n', size_bytes);
    const size_t len = end ? (size_t)(end - text) : size_bytes;
    return len < SHOWN ? len : SHOWN;
}

/* The first line in which two texts differ. */
static void compare(const char *file, const char *got, size_t got_bytes, const struct kg_buffer *want,
                    struct kg_bundle_findings *findings) {
    const char *derived = kg_buffer_text(want);
    const size_t shorter = got_bytes < want->len ? got_bytes : want->len;
    size_t at = 0, line = 1, begin = 0;
    if (got_bytes == want->len && memcmp(got, derived, got_bytes) == 0) return;
    for (; at < shorter && got[at] == derived[at]; at++)
        if (got[at] == '\n') line++, begin = at + 1;
    kg_finding_add(findings, "derived", file, "line %zu is '%.*s', the records give '%.*s'", line,
                   (int)line_length(got + begin, got_bytes - begin), got + begin,
                   (int)line_length(derived + begin, want->len - begin), derived + begin);
}

/* Writers of format 1 left the apostrophe as it is in XML. */
static size_t read_apostrophes(char *text, size_t size_bytes) {
    static const char WRITTEN[] = "&#39;";
    const size_t n = strlen(WRITTEN);
    size_t to = 0;
    for (size_t from = 0; from < size_bytes; to++) {
        const bool one = size_bytes - from >= n && memcmp(text + from, WRITTEN, n) == 0;
        text[to] = one ? '\'' : text[from];
        from += one ? n : 1;
    }
    return to;
}

static void check_document(const char *dir, const struct kg_tree *tree, const struct kg_bundle_document *document,
                           const struct kg_export *from, int format, struct kg_bundle_findings *findings) {
    struct kg_buffer want = KG_BUFFER_INIT;
    struct kg_error why;
    char *got = NULL;
    size_t size_bytes = 0;
    if (!kg_stored_find(tree, document->file) || !kg_derived_is_of(document, format)) return;
    if (kg_stored_read(dir, document->file, KG_MAX_EXPANDED_BYTES, &got, &size_bytes, &why) != KG_OK) {
        kg_finding_add(findings, "unreadable", document->file, "%s", why.message);
        return;
    }
    /* Another program may leave it empty. */
    if (size_bytes > 0 || format > 1) {
        document->make(from, &want);
        if (format == 1 && want.len > 0) {
            want.len = read_apostrophes(want.data, want.len);
            size_bytes = read_apostrophes(got, size_bytes);
        }
        compare(document->file, got, size_bytes, &want, findings);
    }
    kg_buffer_free(&want);
    free(got);
}

/* A statement of format 1 may say less than that of this one, but nothing else. */
static void check_first_statement(const json_t *got, const json_t *want, struct kg_bundle_findings *findings) {
    static const char *const MEMBERS[] = { "result", "passedTests", "warnedTests", "failedTests" };
    const json_t *claims = json_object_get(got, "predicate"), *records = json_object_get(want, "predicate");
    for (size_t i = 0; i < KG_COUNT_OF(MEMBERS); i++) {
        const json_t *said = json_object_get(claims, MEMBERS[i]), *derived = json_object_get(records, MEMBERS[i]);
        if (!said || (derived && json_equal(said, derived))) continue;
        char *text = json_dumps(said, JSON_COMPACT | JSON_ENCODE_ANY);
        char *other = json_dumps(derived, JSON_COMPACT | JSON_ENCODE_ANY);
        kg_finding_add(findings, "derived", STATEMENT, "%s is %.150s, the records give %.150s", MEMBERS[i],
                       text ? text : "", other ? other : "none");
        free(other);
        free(text);
    }
}

static void check_statement(const char *dir, const struct kg_export *from, int format,
                            struct kg_bundle_findings *findings) {
    char *manifest = NULL, *text = NULL;
    size_t manifest_bytes = 0, text_bytes = 0;
    struct kg_buffer want = KG_BUFFER_INIT;
    struct kg_error why;
    enum kg_status status =
        kg_beneath_read(dir, "manifest-sha256.txt", KG_MAX_TAG_BYTES, &manifest, &manifest_bytes, &why);
    if (status == KG_OK) status = kg_beneath_read(dir, STATEMENT, KG_MAX_TAG_BYTES, &text, &text_bytes, &why);
    if (status == KG_OK && format > 1) {
        status = kg_derived_statement(from, manifest, manifest_bytes, &want, &why);
        if (status == KG_OK) compare(STATEMENT, text, text_bytes, &want, findings);
    } else if (status == KG_OK) {
        json_t *got = json_loadb(text, text_bytes, 0, NULL);
        json_t *derived = kg_export_statement(from, manifest, manifest_bytes);
        check_first_statement(got, derived, findings);
        json_decref(derived);
        json_decref(got);
    }
    if (status != KG_OK) kg_finding_add(findings, "unreadable", STATEMENT, "%s", why.message);
    kg_buffer_free(&want);
    free(text);
    free(manifest);
}

/* A manifest of another algorithm, which kigo does not write: as md5sum and its like print it. */
static void check_other_manifest(const char *dir, const struct kg_tree *tree, const char *name,
                                 struct kg_bundle_findings *findings) {
    const char *begin = name + strlen("manifest-");
    char *algorithm = kg_xstrndup(begin, strlen(begin) - strlen(".txt")), *text = NULL;
    char hex[KG_DIGEST_HEX_SIZE];
    size_t size_bytes = 0;
    struct kg_buffer want = KG_BUFFER_INIT;
    struct kg_error why;
    enum kg_status status = kg_beneath_read(dir, name, KG_MAX_TAG_BYTES, &text, &size_bytes, &why);
    for (size_t i = 0; i < tree->n_entries && status == KG_OK; i++) {
        if (tree->entries[i].kind != KG_TREE_FILE || !kg_manifest_is_payload(tree->entries[i].path)) continue;
        int fd = -1;
        status = kg_beneath_open(dir, tree->entries[i].path, &fd, NULL, &why);
        if (status == KG_OK) status = kg_digest_fd(fd, tree->entries[i].path, algorithm, hex, &why);
        if (status == KG_OK) kg_buffer_printf(&want, "%s  %s\n", hex, tree->entries[i].path);
        if (fd >= 0) close(fd);
    }
    if (status == KG_OK) compare(name, text, size_bytes, &want, findings);
    else kg_finding_add(findings, status == KG_ERR_UNSUPPORTED ? "format" : "unreadable", name, "%s", why.message);
    kg_buffer_free(&want);
    free(text);
    free(algorithm);
}

/* Each reads the whole payload: names of digests, in large and small letters, are many. */
static void check_other_manifests(const char *dir, const struct kg_tree *tree, struct kg_bundle_findings *findings) {
    int n = 0;
    for (size_t i = 0; i < tree->n_entries; i++) {
        const char *name = tree->entries[i].path, *dot = strrchr(name, '.');
        if (strncmp(name, "manifest-", strlen("manifest-")) != 0 || strchr(name, '/') || !dot ||
            strcmp(dot, ".txt") != 0 || strcmp(name, "manifest-sha256.txt") == 0)
            continue;
        if (n++ == KG_MAX_OTHER_MANIFESTS) {
            kg_finding_add(findings, "limit", name, "is one of more than %d manifests beside manifest-sha256.txt",
                           KG_MAX_OTHER_MANIFESTS);
            return;
        }
        check_other_manifest(dir, tree, name, findings);
    }
}

/* What the label, the folder's name and source.json say of the commit. */
static void check_source(const json_t *info, const struct kg_export *from, struct kg_bundle_findings *findings) {
    const json_t *git = json_object_get(from->source, "git");
    const char *commit = kg_json_text(git, "commit"), *id = kg_json_text(info, "External-Identifier");
    const char *label = kg_json_text(info, "Kigo-Source-Commit");
    if (label && strcmp(label, commit ? commit : "nogit") != 0)
        kg_finding_add(findings, "derived", "bag-info.txt", "Kigo-Source-Commit is %.60s, data/source.json has %.60s",
                       label, commit ? commit : "none");
    struct kg_buffer part = KG_BUFFER_INIT;
    kg_buffer_printf(&part, "-%.12s%s-", commit ? commit : "nogit",
                     json_is_true(json_object_get(git, "dirty")) ? "-dirty" : "");
    if (id && !strstr(id, kg_buffer_text(&part)))
        kg_finding_add(findings, "derived", "data/source.json", "the id of %.60s%s is not %.100s",
                       commit ? commit : "no commit", json_is_true(json_object_get(git, "dirty")) ? ", changed" : "",
                       id);
    kg_buffer_free(&part);
}

void kg_verify_derived(const char *dir, const struct kg_tree *tree, const json_t *info, bool partial,
                       const struct kg_records *records, struct kg_bundle_findings *findings) {
    const struct kg_bundle_document *const lists[] = { KG_DERIVED, kg_derived_others() };
    const int format = kg_format_of(info);
    struct kg_export from;
    struct kg_error why;
    if (format == 0 || format > KG_FORMAT) {
        kg_finding_add(findings, "format", "bag-info.txt",
                       KG_FORMAT_LABEL " is '%.40s', this kigo knows 1 to %d: verify it with a newer kigo",
                       kg_json_text(info, KG_FORMAT_LABEL), KG_FORMAT);
        return;
    }
    if (kg_derived_open(dir, partial, records, &from, &why) != KG_OK) {
        kg_finding_add(findings, "unreadable", "data", "%s", why.message);
        return;
    }
    for (size_t i = 0; i < KG_COUNT_OF(lists); i++)
        for (const struct kg_bundle_document *d = lists[i]; d && d->file; d++)
            check_document(dir, tree, d, &from, format, findings);
    check_statement(dir, &from, format, findings);
    check_other_manifests(dir, tree, findings);
    if (!partial) check_source(info, &from, findings);
    kg_derived_close(&from);
}
