/* statement.intoto.json: an in-toto Statement v1 (https://in-toto.io/Statement/v1) with a test-result predicate
 * (https://in-toto.io/attestation/test-result/v0.1). Its subject is manifest-sha256.txt, which covers the payload; so
 * it is a tag file beside the manifest, not a part of what it speaks of, and the tag manifest covers it. */
#include "bundle/export.h"
#include <string.h>

/* The predicate may leave passedTests out. More would say at length what the plan, which the manifest covers, has. */
enum { MOST_PASSED = 1000 };

static void add_descriptor(json_t *list, const char *name, const char *algorithm, const char *digest) {
    if (digest) json_array_append_new(list, json_pack("{s:s, s:{s:s}}", "name", name, "digest", algorithm, digest));
}

json_t *kg_export_statement(const struct kg_export *from, const char *manifest_sha256) {
    json_t *passed = json_array(), *warned = json_array(), *failed = json_array(), *configuration = json_array();
    for (size_t i = 0; i < from->records->n_cases; i++) {
        const struct kg_case_records *c = &from->records->cases[i];
        const char *status = kg_case_status(c);
        json_t *list = strcmp(status, "pass") == 0 ? passed : strcmp(status, "skip") == 0 ? warned : failed;
        json_array_append_new(list, json_string(c->key));
    }
    add_descriptor(configuration, "source", "gitCommit", kg_json_text(json_object_get(from->source, "git"), "commit"));
    add_descriptor(configuration, "source content", "sha256", kg_json_text(from->source, "content_sha256"));
    add_descriptor(configuration, "kigo", "sha256", kg_json_text(from->build, "program_sha256"));
    const char *verdict = kg_json_text(from->summary, "verdict");
    if (json_array_size(passed) > MOST_PASSED) {
        json_decref(passed);
        passed = NULL;
    }
    return json_pack("{s:s, s:[{s:s, s:{s:s}}], s:s, s:{s:s, s:o, s:o*, s:o, s:o}}", "_type",
                     "https://in-toto.io/Statement/v1", "subject", "name", "manifest-sha256.txt", "digest", "sha256",
                     manifest_sha256, "predicateType", "https://in-toto.io/attestation/test-result/v0.1", "predicate",
                     "result", verdict && strcmp(verdict, "pass") == 0 ? "PASSED" : "FAILED", "configuration",
                     configuration, "passedTests", passed, "warnedTests", warned, "failedTests", failed);
}
