/* The meaning of a bundle: planned is recorded, the journal agrees, and the summary follows from the records. */
#include "bundle/verify.h"
#include "base/clock.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "bundle/standing.h"
#include "bundle/stored.h"
#include <stdlib.h>
#include <string.h>

/* Power that is lost takes what was not synced: a start or an end in the journal of a partial run whose result is here,
 * or the result of a case that the journal has the end of. Recover writes that it crashed, or never ran. */
static void check_cases(const struct kg_records *records, bool partial, struct kg_bundle_findings *findings) {
    size_t n_planned = 0;
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        n_planned += c->plan != NULL;
        if (!c->result) {
            kg_finding_add(findings, "unrecorded", "data/results.ndjson", "'%s' is planned and has no result", c->key);
            continue;
        }
        const char *status = kg_json_text(c->result, "status");
        const bool ran = strcmp(status, "skip") != 0 && strcmp(status, "norun") != 0;
        if (ran && !c->started && !partial)
            kg_finding_add(findings, "journal", "data/journal.ndjson", "'%s' has status %s but never started", c->key,
                           status);
        const bool needs_end = strcmp(status, "norun") != 0 && !partial;
        if (needs_end && !c->ended)
            kg_finding_add(findings, "journal", "data/journal.ndjson", "'%s' has status %s but never ended", c->key,
                           status);
        const bool lost = partial && (strcmp(status, "crash") == 0 || strcmp(status, "norun") == 0);
        if (c->ended && !lost && strcmp(c->ended, status) != 0)
            kg_finding_add(findings, "journal", "data/journal.ndjson", "'%s' ended with %s, its result says %s", c->key,
                           c->ended, status);
    }
    if (records->n_planned_event >= 0 ? (size_t)records->n_planned_event != n_planned : !partial)
        kg_finding_add(findings, "journal", "data/journal.ndjson", "says %lld planned cases, the plan has %zu",
                       (long long)records->n_planned_event, n_planned);
}

static void expect_text(const char *where, const char *name, const char *got, const char *want,
                        struct kg_bundle_findings *findings) {
    if (!got || strcmp(got, want) != 0)
        kg_finding_add(findings, "summary", where, "%s is %s, the records say %s", name, got ? got : "missing", want);
}

/* Seed and start, where the journal has them. */
static void check_opening(const struct kg_records *records, const json_t *summary, const char *file,
                          struct kg_bundle_findings *findings) {
    const json_t *opened = kg_records_opening(records);
    const char *seed = kg_json_text(opened, "seed");
    const int64_t started_us = kg_json_int(opened, "utc_us", 0), said_us = kg_json_int(summary, "started_us", 0);
    if (seed) expect_text(file, "seed", kg_json_text(summary, "seed"), seed, findings);
    if (opened && started_us != said_us)
        kg_finding_add(findings, "summary", file, "started_us is %lld, the journal says %lld", (long long)said_us,
                       (long long)started_us);
}

static void check_summary(const char *dir, const struct kg_records *records, const json_t *info, bool partial,
                          struct kg_bundle_findings *findings) {
    static const char FILE_NAME[] = "data/summary.json";
    struct kg_bundle_summary want;
    struct kg_error why;
    json_t *summary = NULL;
    if (kg_bundle_read_json(dir, FILE_NAME, &summary, &why) != KG_OK) {
        kg_finding_add(findings, "summary", FILE_NAME, "%s", why.message);
        return;
    }
    kg_records_summary(records, partial, &want);
    const struct {
        const char *name;
        int64_t want;
    } figures[] = {
        { "n_planned", (int64_t)want.n_planned }, { "n_pass", (int64_t)want.n_pass },
        { "n_fail", (int64_t)want.n_fail },       { "n_skip", (int64_t)want.n_skip },
        { "n_crash", (int64_t)want.n_crash },     { "n_timeout", (int64_t)want.n_timeout },
        { "n_norun", (int64_t)want.n_norun },     { "exit_code", want.exit_code },
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const int64_t got = kg_json_int(summary, figures[i].name, -1);
        if (got != figures[i].want)
            kg_finding_add(findings, "summary", FILE_NAME, "%s is %lld, the records say %lld", figures[i].name,
                           (long long)got, (long long)figures[i].want);
    }
    const char *id = kg_json_text(info, "External-Identifier");
    expect_text(FILE_NAME, "verdict", kg_json_text(summary, "verdict"), want.verdict, findings);
    expect_text(FILE_NAME, "state", kg_json_text(summary, "state"), partial ? "partial" : "complete", findings);
    expect_text(FILE_NAME, "bundle_id", kg_json_text(summary, "bundle_id"), id ? id : "missing", findings);
    expect_text("bag-info.txt", "Kigo-Verdict", kg_json_text(info, "Kigo-Verdict"), want.verdict, findings);
    check_opening(records, summary, FILE_NAME, findings);
    char wrong[256];
    if (kg_times_wrong(id ? id : "", kg_json_int(summary, "started_us", 0), kg_json_int(summary, "sealed_us", 0),
                       kg_clock_utc_us(), wrong))
        kg_finding_add(findings, "time", FILE_NAME, "%s", wrong);
    json_decref(summary);
}

/* The folder's name is the bundle's id; a copy under another name (a download) has no id to compare. */
static void check_id(const char *dir, const json_t *info, struct kg_bundle_findings *findings) {
    char *real = realpath(dir, NULL);
    const char *name = real ? strrchr(real, '/') + 1 : "";
    if (strncmp(name, ".tmp-", 5) == 0) name += 5;
    const char *id = kg_json_text(info, "External-Identifier");
    int64_t started_us;
    if (!id) kg_finding_add(findings, "format", "bag-info.txt", "External-Identifier is missing");
    if (id && kg_bundle_id_parse(name, &started_us) && strcmp(name, id) != 0)
        kg_finding_add(findings, "renamed", "", "the folder is '%s', the bundle is '%s'", name, id);
    free(real);
}

enum kg_status kg_verify_records(const char *dir, const struct kg_tree *tree, const json_t *info,
                                 struct kg_bundle_findings *findings, struct kg_error *err) {
    static const char *const NEEDED[] = { "data/env.json",    "data/build.json",  "data/source.json",
                                          "data/dirty.diff",  "data/samples.bin", "data/junit.xml",
                                          "data/results.tap", "data/results.csv", "data/report.md" };
    struct kg_records records;
    if (kg_records_load(dir, &records, findings, err) != KG_OK) {
        kg_finding_add(findings, "unreadable", "data", "%s", err->message);
        return KG_OK;
    }
    const char *state = kg_json_text(info, "Kigo-State");
    const bool partial = state && strcmp(state, "partial") == 0;
    if (!state || (!partial && strcmp(state, "complete") != 0))
        kg_finding_add(findings, "summary", "bag-info.txt", "Kigo-State is %s, not complete or partial",
                       state ? state : "missing");
    for (size_t i = 0; i < sizeof NEEDED / sizeof *NEEDED; i++)
        if (!partial && !kg_stored_find(tree, NEEDED[i]))
            kg_finding_add(findings, "missing", NEEDED[i], "every complete bundle has it");
    check_cases(&records, partial, findings);
    kg_verify_members(dir, &records, partial, findings);
    if (!partial) kg_verify_samples(dir, &records, findings); /* results and samples come to the disk one by one */
    check_summary(dir, &records, info, partial, findings);
    check_id(dir, info, findings);
    if (findings->n_items == 0) kg_verify_derived(dir, tree, info, partial, &records, findings);
    kg_records_free(&records);
    return KG_OK;
}
