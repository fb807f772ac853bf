#include "signoff/report.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/markdown.h"
#include "base/size.h"
#include "bundle/records.h"
#include "bundle/signed_off.h"
#include "report/page.h"
#include <stdlib.h>
#include <string.h>

json_t *kg_signoff_document(json_t *judgement, const struct kg_evidence *evidence, const char *utc) {
    json_t *runs = json_array();
    for (size_t i = 0; i < evidence->n_runs; i++) {
        const struct kg_evidence_run *run = &evidence->runs[i];
        const json_t *gpu = json_array_get(json_object_get(run->env, "gpus"), 0);
        const json_t *cpu = json_object_get(run->env, "cpu");
        json_array_append_new(
            runs, json_pack("{s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?}", "run", run->id, "commit",
                            run->commit, "content_sha256", run->content_sha256, "gpu", kg_json_text(gpu, "name"), "cpu",
                            kg_json_text(cpu, "model"), "verdict", kg_json_text(run->summary, "verdict"), "signature",
                            kg_signature_state_name(run->signature.state), "signer", run->signature.signer,
                            "manifest_sha256", run->manifest_sha256, "tagmanifest_sha256", run->tagmanifest_sha256));
    }
    json_t *document = json_copy(judgement);
    json_object_set_new(document, "runs", runs);
    json_object_set_new(document, "signed_off_utc", json_string(utc));
    return document;
}

static const char *text(const json_t *object, const char *name) {
    const char *value = kg_json_text(object, name);
    return value ? value : "";
}

/* How many of a criterion's records are shown: those that speak against it first. */
enum { N_SHOWN = 4 };

static bool speaks_against(const json_t *record) {
    const char *status = kg_json_text(record, "status");
    return status ? strcmp(status, "pass") != 0 : !json_is_true(json_object_get(record, "met"));
}

/* The next record to show from *at on; those against in the first round, the others in the second. */
static const json_t *next_record(const json_t *records, size_t *at, int *round) {
    for (; *round < 2; (*round)++, *at = 0)
        for (; *at < json_array_size(records); (*at)++) {
            const json_t *record = json_array_get(records, *at);
            if (speaks_against(record) == (*round == 0)) return (*at)++, record;
        }
    return NULL;
}

/* Of a run's id what tells it from the others of a sign-off, which the page has in full. */
static const char *end_of_id(const char *run) {
    const char *end = strrchr(run, '-');
    return end ? end + 1 : run;
}

/* What a record says, in a line; `whole`: with the whole id of its run. malloc'ed. */
static char *record_text(const json_t *record, bool whole) {
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_buffer_puts(&out, text(record, "record"));
    if (*text(record, "status")) kg_buffer_printf(&out, ": %s", text(record, "status"));
    if (*text(record, "over")) kg_buffer_printf(&out, " over %s", text(record, "over"));
    if (json_object_get(record, "value")) kg_buffer_printf(&out, " = %.4g", kg_json_number(record, "value", 0));
    if (json_object_get(record, "mean_of"))
        kg_buffer_printf(&out, ", the mean of %g of %g cases, this the least,", kg_json_number(record, "mean_of", 0),
                         kg_json_number(record, "cases", 0));
    const char *run = text(record, "run");
    kg_buffer_printf(&out, " in %s", whole ? run : end_of_id(run));
    return out.data;
}

/* The records and notes of a criterion, a line each; `file`: that has those which are not shown, NULL: the
 * statement, whose pages have whole ids of runs. */
static void put_evidence(struct kg_page *page, const json_t *criterion, const char *file) {
    const json_t *records = json_object_get(criterion, "records"), *notes = json_object_get(criterion, "notes"),
                 *record;
    char *lines[2 * N_SHOWN + 1];
    size_t at = 0, n = 0;
    int round = 0;
    while (n < N_SHOWN && (record = next_record(records, &at, &round))) lines[n++] = record_text(record, !file);
    const size_t n_more = json_array_size(records) - n;
    if (n_more > 0) lines[n++] = kg_xasprintf("and %zu more in %s", n_more, file ? file : KG_SIGNOFF_STATEMENT);
    for (size_t i = 0; i < json_array_size(notes) && i < N_SHOWN; i++) {
        const char *note = json_string_value(json_array_get(notes, i)); /* NULL in a statement that somebody wrote */
        lines[n++] = kg_xstrdup(note ? note : "");
    }
    kg_page_cell_lines(page, (const char *const *)lines, n);
    for (size_t i = 0; i < n; i++) free(lines[i]);
}

static void put_members(struct kg_page *page, const json_t *item, const char *const *members, size_t n_members) {
    for (size_t i = 0; i < n_members; i++) kg_page_cell(page, text(item, members[i]));
}

static const struct kg_column COLUMNS[] = { { "story", KG_COLUMN_STATUS }, { "what", KG_COLUMN_TEXT },
                                            { "wanted", KG_COLUMN_TEXT },  { "state", KG_COLUMN_STATUS },
                                            { "found", KG_COLUMN_TEXT },   { "records", KG_COLUMN_NAME } };
static const char *const MEMBERS[] = { "spec", "what", "wanted", "state", "found" };

/* What a reader of a red or open sign-off looks for first: the missed ones, then the unproven. */
static void put_not_met(const json_t *document, struct kg_page *page) {
    static const char *const STATES[] = { "missed", "unproven" };
    const json_t *list = json_object_get(document, "criteria"), *item;
    size_t i;
    if (kg_json_int(document, "n_missed", 0) + kg_json_int(document, "n_unproven", 0) == 0) return;
    kg_page_section(page, "Not met");
    kg_page_table(page, COLUMNS, KG_COUNT_OF(MEMBERS));
    for (size_t k = 0; k < KG_COUNT_OF(STATES); k++)
        json_array_foreach(list, i, item) if (strcmp(text(item, "state"), STATES[k]) == 0)
            put_members(page, item, MEMBERS, KG_COUNT_OF(MEMBERS));
    kg_page_table_end(page);
}

static void put_criteria(const json_t *document, struct kg_page *page) {
    const json_t *list = json_object_get(document, "criteria"), *item;
    const char *file = kg_json_text(document, "records");
    size_t i;
    kg_page_section(page, "Criteria");
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    json_array_foreach(list, i, item) {
        put_members(page, item, MEMBERS, KG_COUNT_OF(MEMBERS));
        put_evidence(page, item, file);
    }
    kg_page_table_end(page);
}

static void put_runs(const json_t *document, struct kg_page *page) {
    static const char *const NAMES[][2] = { { "run", "run" },
                                            { "commit", "commit" },
                                            { "sources SHA-256", "content_sha256" },
                                            { "GPU", "gpu" },
                                            { "verdict", "verdict" },
                                            { "signature", "signature" },
                                            { "signer", "signer" },
                                            { "manifest SHA-256", "manifest_sha256" },
                                            { "tag manifest SHA-256", "tagmanifest_sha256" } };
    const json_t *list = json_object_get(document, "runs"), *item;
    size_t i;
    kg_page_section(page, "Runs");
    json_array_foreach(list, i, item) {
        kg_page_facts(page);
        for (size_t k = 0; k < KG_COUNT_OF(NAMES); k++) {
            if (!*text(item, NAMES[k][1])) continue;
            kg_page_cell(page, NAMES[k][0]);
            kg_page_cell(page, text(item, NAMES[k][1]));
        }
        kg_page_table_end(page);
    }
}

/* ", commit <id>", and that runs of other commits have its sources, where there are such. malloc'ed. */
static char *commit_text(const json_t *document) {
    const char *commit = text(document, "commit");
    const json_t *runs = json_object_get(document, "runs"), *item;
    bool others = false;
    size_t i;
    json_array_foreach(runs, i, item) others = others || strcmp(text(item, "commit"), commit) != 0;
    return !*commit ? kg_xstrdup("")
                    : kg_xasprintf(", commit %s%s", commit,
                                   others ? " (runs of other commits have the sources of this one)" : "");
}

static void render(const json_t *document, enum kg_page_format format, struct kg_buffer *out) {
    struct kg_page page = KG_PAGE_INIT(format, false);
    kg_page_title(&page, text(document, "title"), text(document, "verdict"));
    char *commit = commit_text(document);
    kg_page_text(&page, "%lld criteria met, %lld missed, %lld unproven. Sprint %s (SHA-256 %s)%s, %s.",
                 (long long)kg_json_int(document, "n_met", 0), (long long)kg_json_int(document, "n_missed", 0),
                 (long long)kg_json_int(document, "n_unproven", 0), text(document, "sprint"),
                 text(document, "sprint_sha256"), commit, text(document, "signed_off_utc"));
    free(commit);
    put_not_met(document, &page);
    put_criteria(document, &page);
    put_runs(document, &page);
    kg_page_finish(&page, out);
}

void kg_signoff_table(const json_t *document, struct kg_buffer *out) {
    const json_t *item;
    size_t i;
    kg_markdown_head(out, "story|what|wanted|state|found|record");
    json_array_foreach(json_object_get(document, "criteria"), i, item) {
        for (size_t k = 0; k < KG_COUNT_OF(MEMBERS); k++) kg_markdown_cell(out, text(item, MEMBERS[k]));
        kg_markdown_code(out, text(item, "record"));
        kg_markdown_row_end(out);
    }
}

void kg_signoff_markdown(const json_t *document, struct kg_buffer *out) {
    render(document, KG_PAGE_MARKDOWN, out);
}

void kg_signoff_html(const json_t *document, struct kg_buffer *out) {
    render(document, KG_PAGE_HTML, out);
}

void kg_signoff_records(const json_t *document, struct kg_buffer *out) {
    const json_t *list = json_object_get(document, "criteria"), *item;
    json_t *all = json_array();
    size_t i;
    json_array_foreach(list, i, item) json_array_append(all, json_object_get(item, "records"));
    json_t *object = json_pack("{s:o}", "criteria", all);
    char *json = json_dumps(object, JSON_COMPACT);
    kg_buffer_printf(out, "%s\n", json);
    free(json);
    json_decref(object);
}

/* A copy of the document whose criteria have the array's records, or none where that is NULL. */
static json_t *with_records(const json_t *document, const json_t *records) {
    json_t *copy = json_copy((json_t *)(uintptr_t)document), *list = json_array();
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(document, "criteria"), i, item) {
        json_t *criterion = json_copy((json_t *)(uintptr_t)item);
        if (records) json_object_set(criterion, "records", json_array_get(records, i));
        else json_object_del(criterion, "records");
        json_array_append_new(list, criterion);
    }
    json_object_set_new(copy, "criteria", list);
    return copy;
}

json_t *kg_signoff_whole(const json_t *statement, const json_t *records, struct kg_bundle_findings *findings) {
    json_t *document = json_object_get(json_object_get(statement, "predicate"), "kigo");
    const json_t *of_criteria = json_object_get(records, "criteria");
    const size_t n = json_array_size(json_object_get(document, "criteria"));
    if (!*text(document, "records")) return json_incref(document);
    if (!json_is_array(of_criteria) || json_array_size(of_criteria) != n)
        kg_finding_add(findings, "format", text(document, "records"), "has records of %zu criteria, not of %zu",
                       json_array_size(of_criteria), n);
    return with_records(document, of_criteria);
}

json_t *kg_signoff_statement(const json_t *document, const json_t *documents) {
    json_t *subjects = json_array(), *passed = json_array(), *warned = json_array(), *failed = json_array();
    const json_t *item, *runs = json_object_get(document, "runs"), *criteria = json_object_get(document, "criteria");
    const char *verdict = text(document, "verdict");
    size_t i;
    json_array_foreach(runs, i, item) {
        json_array_append_new(subjects, json_pack("{s:o, s:{s:s}}", "name",
                                                  json_sprintf("%s/manifest-sha256.txt", text(item, "run")), "digest",
                                                  "sha256", text(item, "manifest_sha256")));
    }
    const char *name;
    json_object_foreach((json_t *)(uintptr_t)documents, name, item) {
        json_array_append_new(subjects, json_pack("{s:s, s:{s:O}}", "name", name, "digest", "sha256", item));
    }
    json_array_foreach(criteria, i, item) {
        const char *state = text(item, "state");
        json_t *list = strcmp(state, "met") == 0 ? passed : strcmp(state, "missed") == 0 ? failed : warned;
        json_array_append_new(
            list, json_sprintf("%s: %s (%s)", text(item, "spec"), text(item, "what"), text(item, "wanted")));
    }
    json_t *said =
        *text(document, "records") ? with_records(document, NULL) : json_incref((json_t *)(uintptr_t)document);
    return json_pack(
        "{s:s, s:o, s:s, s:{s:s, s:[{s:s, s:{s:s}}], s:o, s:o, s:o, s:o}}", "_type", "https://in-toto.io/Statement/v1",
        "subject", subjects, "predicateType", "https://in-toto.io/attestation/test-result/v0.1", "predicate", "result",
        strcmp(verdict, "met") == 0      ? "PASSED"
        : strcmp(verdict, "missed") == 0 ? "FAILED"
                                         : "WARNED",
        "configuration", "name", text(document, "sprint"), "digest", "sha256", text(document, "sprint_sha256"),
        "passedTests", passed, "warnedTests", warned, "failedTests", failed, "kigo", said);
}

/* The SHA-256 that a statement has of a subject; NULL if there is none of the name. */
static const char *digest_of(const json_t *statement, const char *name) {
    const json_t *subject;
    size_t i;
    json_array_foreach(json_object_get(statement, "subject"), i, subject) {
        if (strcmp(text(subject, "name"), name) == 0) return kg_json_text(json_object_get(subject, "digest"), "sha256");
    }
    return NULL;
}

void kg_signoff_compare(const json_t *statement, const json_t *document, struct kg_bundle_findings *findings) {
    static const struct {
        const char *name;
        void (*render)(const json_t *document, struct kg_buffer *out);
    } RENDERED[] = { { "signoff.md", kg_signoff_markdown }, { "signoff.html", kg_signoff_html } };
    const char *records = text(document, "records");
    const size_t n_before = kg_bundle_findings_count(findings);
    json_t *hashes = json_pack("{s:s}", KG_SIGNOFF_CRITERIA, text(document, "sprint_sha256"));
    for (size_t i = 0; i < KG_COUNT_OF(RENDERED); i++) {
        struct kg_buffer out = KG_BUFFER_INIT;
        char hex[KG_SHA256_HEX_SIZE];
        RENDERED[i].render(document, &out);
        kg_sha256_hex(out.data, out.len, hex);
        kg_buffer_free(&out);
        json_object_set_new(hashes, RENDERED[i].name, json_string(hex));
        const char *said = digest_of(statement, RENDERED[i].name);
        if (!said || strcmp(said, hex) != 0)
            kg_finding_add(findings, "derived", RENDERED[i].name, "is not the page that the statement's records give");
    }
    /* The frame is what its hash says, and what it holds was compared: another library may pack it otherwise. */
    if (*records) {
        const char *said = digest_of(statement, records);
        json_object_set_new(hashes, records, json_string(said ? said : ""));
    }
    json_t *again = kg_signoff_statement(document, hashes);
    if (kg_bundle_findings_count(findings) == n_before && !json_equal(again, statement))
        kg_finding_add(findings, "derived", KG_SIGNOFF_STATEMENT,
                       "its result, tests or subjects are not those of its verdict and criteria");
    json_decref(again);
    json_decref(hashes);
}
