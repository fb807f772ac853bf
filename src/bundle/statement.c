/* statement.intoto.json: an in-toto Statement v1 (https://in-toto.io/Statement/v1) with a test-result predicate
 * (https://in-toto.io/attestation/test-result/v0.1; members named kigo_* extend it, which the statement's parsing rules
 * allow). Its first subject is manifest-sha256.txt, which covers the payload; so it is a tag file beside the manifest,
 * not a part of what it speaks of, and the tag manifest covers it. */
#include "base/size.h"
#include "bundle/export.h"
#include "bundle/manifest.h"
#include <string.h>

/* The predicate may leave passedTests out. More would say at length what the plan, which the manifest covers, has. */
enum { MOST_PASSED = 1000 };

/* What a file of the payload is to the statement; a file that is in no row is an artifact: logs, transcripts,
 * failures, and what is derived. */
static const struct {
    const char *file, *list; /* a member of the predicate, beside being a subject */
} PRIMARY[] = {
    { "data/plan.ndjson", NULL },
    { "data/journal.ndjson", NULL },
    { "data/results.ndjson", "kigo_figures" },
    { "data/samples.bin", "kigo_figures" },
    { "data/env.json", "configuration" },
    { "data/build.json", "configuration" },
    { "data/source.json", "configuration" },
    { "data/dirty.diff", "configuration" },
};

static void add_descriptor(json_t *list, const char *name, const char *algorithm, const char *digest) {
    if (digest) json_array_append_new(list, json_pack("{s:s, s:{s:s}}", "name", name, "digest", algorithm, digest));
}

/* The row of a file, plain or compressed; KG_COUNT_OF(PRIMARY): none. */
static size_t find_primary(const char *path) {
    size_t i = 0;
    for (; i < KG_COUNT_OF(PRIMARY); i++) {
        const size_t len = strlen(PRIMARY[i].file);
        if (strncmp(path, PRIMARY[i].file, len) == 0 && (!path[len] || strcmp(path + len, ".zst") == 0)) break;
    }
    return i;
}

/* Files of the manifest, in its order, as descriptors. */
static void add_files(const char *text, size_t size_bytes, json_t *statement, json_t *predicate) {
    struct kg_manifest manifest;
    struct kg_bundle_findings unheard = { NULL, 0 }; /* verify looks at manifests by itself */
    kg_manifest_parse("manifest-sha256.txt", text, size_bytes, &manifest, &unheard);
    for (size_t i = 0; i < manifest.n_lines; i++) {
        const struct kg_manifest_line *line = &manifest.lines[i];
        const size_t row = find_primary(line->path);
        const char *list = row == KG_COUNT_OF(PRIMARY) ? "kigo_artifacts" : PRIMARY[row].list;
        if (row < KG_COUNT_OF(PRIMARY))
            add_descriptor(json_object_get(statement, "subject"), line->path, "sha256", line->sha256);
        if (list) add_descriptor(json_object_get(predicate, list), line->path, "sha256", line->sha256);
    }
    kg_manifest_free(&manifest);
    kg_bundle_findings_free(&unheard);
}

static json_t *count_statuses(const json_t *summary) {
    static const char *const COUNTS[] = {
        "n_planned", "n_pass", "n_fail", "n_skip", "n_crash", "n_timeout", "n_norun"
    };
    json_t *counts = json_object();
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++)
        json_object_set_new(counts, COUNTS[i], json_integer((json_int_t)kg_json_int(summary, COUNTS[i], 0)));
    return counts;
}

static void add_tests(const struct kg_records *records, json_t *predicate) {
    json_t *passed = json_array(), *warned = json_array(), *failed = json_array();
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        const char *status = kg_case_status(c);
        json_t *list = strcmp(status, "pass") == 0 ? passed : strcmp(status, "skip") == 0 ? warned : failed;
        json_array_append_new(list, json_string(c->key));
    }
    if (json_array_size(passed) <= MOST_PASSED) json_object_set(predicate, "passedTests", passed);
    json_object_set_new(predicate, "warnedTests", warned);
    json_object_set_new(predicate, "failedTests", failed);
    json_decref(passed);
}

json_t *kg_export_statement(const struct kg_export *from, const char *manifest, size_t size_bytes) {
    const char *verdict = kg_json_text(from->summary, "verdict");
    const json_t *git = json_object_get(from->source, "git");
    char sha256[KG_SHA256_HEX_SIZE];
    kg_sha256_hex(manifest, size_bytes, sha256);
    json_t *predicate =
        json_pack("{s:s, s:[], s:s?, s:o, s:[], s:[]}", "result",
                  verdict && strcmp(verdict, "pass") == 0 ? "PASSED" : "FAILED", "configuration", "kigo_verdict",
                  verdict, "kigo_counts", count_statuses(from->summary), "kigo_figures", "kigo_artifacts");
    json_t *statement = json_pack("{s:s, s:[{s:s, s:{s:s}}], s:s, s:o}", "_type", "https://in-toto.io/Statement/v1",
                                  "subject", "name", "manifest-sha256.txt", "digest", "sha256", sha256, "predicateType",
                                  "https://in-toto.io/attestation/test-result/v0.1", "predicate", predicate);
    json_t *configuration = json_object_get(predicate, "configuration");
    add_descriptor(configuration, "source", "gitCommit", kg_json_text(git, "commit"));
    add_descriptor(configuration, "source content", "sha256", kg_json_text(from->source, "content_sha256"));
    add_descriptor(configuration, "kigo", "sha256", kg_json_text(from->build, "program_sha256"));
    add_files(manifest, size_bytes, statement, predicate);
    add_tests(from->records, predicate);
    return statement;
}
