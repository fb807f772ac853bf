/* What another writer may leave out and no other check would miss: members that the index, regress and list go by. */
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/verify.h"

static bool is_present(const json_t *value) {
    return value != NULL;
}
static bool is_text(const json_t *value) {
    return json_is_string(value);
}
static bool is_number_or_null(const json_t *value) {
    return json_is_number(value) || json_is_null(value);
}
static bool is_time(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0;
}
static bool is_object(const json_t *value) {
    return json_is_object(value);
}

struct member {
    const char *of, *name; /* a list of a result, or a file */
    bool (*is_good)(const json_t *value);
};

/* What every item of a result's lists has: without it the index has a figure without a name, unit or value. */
static void check_items(const struct kg_case_records *c, struct kg_bundle_findings *findings) {
    static const struct member MEMBERS[] = {
        { "errors", "name", is_text },
        { "errors", "n", is_time },
        { "errors", "max_abs", is_number_or_null },
        { "timings", "name", is_text },
        { "timings", "kind", is_text },
        { "timings", "state", is_text },
        { "timings", "n", is_time },
        { "timings", "median", is_number_or_null },
        { "metrics", "name", is_text },
        { "metrics", "unit", is_text },
        { "metrics", "value", is_number_or_null },
        { "memory", "tag", is_text },
        { "memory", "peak_bytes", is_number_or_null },
        { "memory", "left_bytes", is_number_or_null },
    };
    for (size_t m = 0; m < KG_COUNT_OF(MEMBERS); m++) {
        const json_t *list = json_object_get(c->result, MEMBERS[m].of);
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!MEMBERS[m].is_good(json_object_get(json_array_get(list, i), MEMBERS[m].name)))
                kg_finding_add(findings, "format", "data/results.ndjson", "'%s': item %zu of %s has no good \"%s\"",
                               c->key, i + 1, MEMBERS[m].of, MEMBERS[m].name);
    }
}

/* What a complete run says of itself. */
static void check_descriptions(const char *dir, struct kg_bundle_findings *findings) {
    static const struct member MEMBERS[] = {
        { "data/summary.json", "seed", is_text },      { "data/summary.json", "started_us", is_time },
        { "data/summary.json", "sealed_us", is_time }, { "data/env.json", "cpu", is_object },
        { "data/env.json", "gpus", is_present },       { "data/env.json", "run", is_object },
        { "data/build.json", "version", is_text },     { "data/build.json", "compiler", is_text },
        { "data/source.json", "git", is_present },     { "data/source.json", "content_sha256", is_present },
    };
    for (size_t m = 0; m < KG_COUNT_OF(MEMBERS); m++) {
        json_t *object = NULL;
        struct kg_error why;
        if (kg_bundle_read_json(dir, MEMBERS[m].of, &object, &why) == KG_OK) {
            if (!MEMBERS[m].is_good(json_object_get(object, MEMBERS[m].name)))
                kg_finding_add(findings, "format", MEMBERS[m].of, "has no good \"%s\"", MEMBERS[m].name);
        } else if (why.status != KG_ERR_NOT_FOUND) {
            kg_finding_add(findings, "format", MEMBERS[m].of, "%s", why.message);
        }
        json_decref(object);
    }
}

/* A run either names its commit, and whether the tree was that, or says that it knows none. */
static void check_commit(const char *dir, struct kg_bundle_findings *findings) {
    static const char FILE_NAME[] = "data/source.json";
    json_t *source = NULL;
    if (kg_bundle_read_json(dir, FILE_NAME, &source, NULL) != KG_OK) return;
    const json_t *git = json_object_get(source, "git");
    const json_t *commit = json_object_get(git, "commit"); /* null: a repository without one */
    if (json_is_object(git) && !json_is_string(commit) && !json_is_null(commit))
        kg_finding_add(findings, "format", FILE_NAME, "git has no \"commit\"");
    if (json_is_object(git) && !json_is_boolean(json_object_get(git, "dirty")))
        kg_finding_add(findings, "format", FILE_NAME, "git has no \"dirty\"");
    json_decref(source);
}

void kg_verify_members(const char *dir, const struct kg_records *records, bool partial,
                       struct kg_bundle_findings *findings) {
    for (size_t i = 0; i < records->n_cases; i++)
        if (records->cases[i].result) check_items(&records->cases[i], findings);
    if (partial) return;
    check_descriptions(dir, findings);
    check_commit(dir, findings);
}
