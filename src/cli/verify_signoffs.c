/* kigo verify --signoffs: whether sign-offs are what was signed off, and whether the runs still prove it. */
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/signed_off.h"
#include "cli/bundles.h"
#include "cli/trust.h"
#include "cli/verify_report.h"
#include "signoff/judge.h"
#include "signoff/report.h"
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *criterion, const char *name) {
    const char *text = kg_json_text(criterion, name);
    return text ? text : "";
}

/* What the pages say of the runs. Who signed them may have changed since. */
static void compare_runs(const json_t *said, const json_t *again, struct kg_bundle_findings *findings) {
    static const char *const MEMBERS[] = { "run", "commit",  "content_sha256",  "gpu",
                                           "cpu", "verdict", "manifest_sha256", "tagmanifest_sha256" };
    const json_t *runs = json_object_get(said, "runs"), *run;
    size_t i;
    json_array_foreach(json_object_get(again, "runs"), i, run) {
        for (size_t k = 0; k < KG_COUNT_OF(MEMBERS); k++)
            if (!json_equal(json_object_get(json_array_get(runs, i), MEMBERS[k]), json_object_get(run, MEMBERS[k])))
                kg_finding_add(findings, "verdict", KG_SIGNOFF_STATEMENT, "%s: its %s is not the one that is said",
                               text_of(run, "run"), MEMBERS[k]);
    }
    if (json_array_size(runs) != json_array_size(json_object_get(again, "runs")))
        kg_finding_add(findings, "verdict", KG_SIGNOFF_STATEMENT, "says %zu runs, and names %zu", json_array_size(runs),
                       json_array_size(json_object_get(again, "runs")));
}

/* Each criterion is judged again by the runs' records. */
static void compare(const json_t *said, const json_t *judged, struct kg_bundle_findings *findings) {
    static const char *const COUNTS[] = { "n_met", "n_missed", "n_unproven", "sprint", "title", "sprint_sha256" };
    const json_t *then = json_object_get(said, "criteria"), *now = json_object_get(judged, "criteria"), *criterion;
    size_t i;
    for (i = 0; i < KG_COUNT_OF(COUNTS); i++)
        if (!json_equal(json_object_get(said, COUNTS[i]), json_object_get(judged, COUNTS[i])))
            kg_finding_add(findings, "verdict", KG_SIGNOFF_STATEMENT, "its %s is not what the runs' records give",
                           COUNTS[i]);
    if (strcmp(text_of(said, "verdict"), text_of(judged, "verdict")) != 0)
        kg_finding_add(findings, "verdict", KG_SIGNOFF_STATEMENT, "says %s; the runs' records say %s",
                       text_of(said, "verdict"), text_of(judged, "verdict"));
    if (json_array_size(then) != json_array_size(now))
        kg_finding_add(findings, "verdict", KG_SIGNOFF_STATEMENT, "has %zu criteria; " KG_SIGNOFF_CRITERIA " has %zu",
                       json_array_size(then), json_array_size(now));
    json_array_foreach(now, i, criterion) {
        const json_t *before = json_array_get(then, i);
        if (json_equal(before, criterion)) continue;
        if (strcmp(text_of(before, "state"), text_of(criterion, "state")) == 0 &&
            strcmp(text_of(before, "wanted"), text_of(criterion, "wanted")) == 0 &&
            strcmp(text_of(before, "found"), text_of(criterion, "found")) == 0)
            kg_finding_add(findings, "verdict", KG_SIGNOFF_STATEMENT, "%s %s: names other records than the runs have",
                           text_of(criterion, "spec"), text_of(criterion, "what"));
        else
            kg_finding_add(findings, "verdict", KG_SIGNOFF_STATEMENT,
                           "%s %s: says %s (%s: %s); the runs' records say %s (%s: %s)", text_of(criterion, "spec"),
                           text_of(criterion, "what"), text_of(before, "state"), text_of(before, "wanted"),
                           text_of(before, "found"), text_of(criterion, "state"), text_of(criterion, "wanted"),
                           text_of(criterion, "found"));
    }
}

/* What was signed off, with the records that lie beside the statement. */
static json_t *whole_document(const struct kg_signed_off *s, struct kg_bundle_findings *findings) {
    const char *named = kg_json_text(json_object_get(json_object_get(s->statement, "predicate"), "kigo"), "records");
    json_t *records = NULL;
    struct kg_error why;
    if (named && strcmp(named, KG_SIGNOFF_RECORDS ".zst") != 0)
        kg_finding_add(findings, "format", KG_SIGNOFF_STATEMENT, "names %.80s for its records", named);
    else if (named && kg_bundle_read_json(s->dir, KG_SIGNOFF_RECORDS, &records, &why) != KG_OK)
        kg_finding_add(findings, "format", named, "%s", why.message);
    json_t *document = kg_signoff_whole(s->statement, records, findings);
    json_decref(records);
    return document;
}

static enum kg_status judge_again(const char *root, const struct kg_signed_off *s, struct kg_bundle_findings *findings,
                                  struct kg_error *err) {
    const struct kg_evidence_rules rules = { .unsigned_too = true, .any_source = true };
    const size_t n = json_array_size(s->runs);
    char *criteria = kg_path_join(s->dir, KG_SIGNOFF_CRITERIA), **dirs = kg_xcalloc(n + 1, sizeof *dirs);
    struct kg_sprint sprint = { 0 };
    struct kg_evidence evidence = { NULL, 0 };
    struct kg_error why;
    for (size_t i = 0; i < n; i++) dirs[i] = kg_path_join(root, json_string_value(json_array_get(s->runs, i)));
    enum kg_status status = kg_sprint_load(criteria, &sprint, &why);
    if (status == KG_OK) {
        status = kg_evidence_load(&sprint, dirs, n, &rules, &evidence, findings, err);
        if (status == KG_OK && findings->n_items == 0) {
            json_t *said = whole_document(s, findings);
            json_t *judged = kg_signoff_judge(&sprint, &evidence),
                   *again = kg_signoff_document(judged, &evidence, text_of(said, "signed_off_utc"));
            compare(said, again, findings);
            compare_runs(said, again, findings);
            kg_signoff_compare(s->statement, said, findings);
            json_decref(said);
            json_decref(again);
            json_decref(judged);
        }
    } else {
        kg_finding_add(findings, "format", KG_SIGNOFF_CRITERIA, "%s", why.message);
        status = KG_OK;
    }
    kg_evidence_free(&evidence);
    kg_sprint_free(&sprint);
    for (size_t i = 0; i < n; i++) free(dirs[i]);
    free(dirs);
    free(criteria);
    return status;
}

static void report_one(const char *name, const struct kg_signed_off *s, const struct kg_bundle_findings *findings,
                       struct kg_verify_report *report) {
    const char *verdict = kg_json_text(json_object_get(json_object_get(s->statement, "predicate"), "kigo"), "verdict");
    report->n_findings += kg_bundle_findings_count(findings);
    json_array_append_new(report->signoffs,
                          json_pack("{s:o, s:b, s:s?, s:b, s:o, s:o}", "signoff", kg_json_utf8(name), "ok",
                                    findings->n_items == 0, "verdict", verdict, "documents_bound", s->documents_too,
                                    "signature", kg_cli_signature_json(&s->signature), "findings",
                                    kg_cli_findings_json(findings)));
    kg_verify_word(findings, &report->text);
    kg_text_printf(&report->text, "sign-off %s: %s%s, ", name, verdict ? verdict : "no verdict",
                   s->documents_too ? "" : " (an older one: its documents are not bound to it)");
    kg_cli_signature_text(&s->signature, &report->text);
    kg_buffer_puts(&report->text, "\n");
    kg_verify_print(findings, &report->text);
}

static enum kg_status verify_one(const char *root, const char *name, struct kg_verify_report *report,
                                 struct kg_error *err) {
    struct kg_signed_off s;
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = kg_signed_off_check(root, name, &report->policy, &s, &findings, err);
    if (status == KG_OK)
        kg_verify_signature(KG_SIGNOFF_STATEMENT ".sig", report, KG_ROLE_SIGNOFFS, &s.signature, &findings);
    if (status == KG_OK && findings.n_items == 0 && s.documents_too) status = judge_again(root, &s, &findings, err);
    if (status == KG_OK) report_one(name, &s, &findings, report);
    kg_bundle_findings_free(&findings);
    kg_signed_off_free(&s);
    return status;
}

enum kg_status kg_verify_signoffs(const char *root, struct kg_verify_report *report, struct kg_error *err) {
    struct kg_dir_list names;
    enum kg_status status = kg_signed_off_list(root, &names, err);
    report->signoffs = json_array();
    for (size_t i = 0; i < names.n_names && status == KG_OK; i++)
        status = verify_one(root, names.names[i], report, err);
    kg_dir_list_free(&names);
    return status;
}
