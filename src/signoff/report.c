#include "signoff/report.h"
#include "base/size.h"
#include "bundle/export.h"
#include <string.h>

json_t *kg_signoff_document(json_t *judgement, const struct kg_evidence *evidence, const char *utc) {
    json_t *runs = json_array();
    for (size_t i = 0; i < evidence->n_runs; i++) {
        const struct kg_evidence_run *run = &evidence->runs[i];
        const json_t *gpu = json_array_get(json_object_get(run->env, "gpus"), 0);
        const json_t *cpu = json_object_get(run->env, "cpu");
        json_array_append_new(
            runs, json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s, s:s, s:s, s:s, s:s}", "run", run->id, "commit",
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

static void put_cell(struct kg_buffer *out, const char *value) {
    for (const char *s = value; *s; s++) {
        if (*s == '|') kg_buffer_puts(out, "\\|");
        else if ((unsigned char)*s < 0x20) kg_buffer_puts(out, " ");
        else kg_buffer_append(out, s, 1);
    }
}

static void put_record_text(struct kg_buffer *out, const json_t *record,
                            void (*put)(struct kg_buffer *out, const char *value)) {
    put(out, text(record, "record"));
    if (*text(record, "status")) {
        kg_buffer_puts(out, ": ");
        put(out, text(record, "status"));
    }
    if (*text(record, "over")) {
        kg_buffer_puts(out, " over ");
        put(out, text(record, "over"));
    }
    if (json_object_get(record, "value")) kg_buffer_printf(out, " = %.4g", kg_json_number(record, "value", 0));
    kg_buffer_puts(out, " in ");
    put(out, text(record, "run"));
}

/* The records and notes of a criterion, a line each between `begin` and `end`. */
static void put_evidence(struct kg_buffer *out, const json_t *criterion, const char *begin, const char *end,
                         void (*put)(struct kg_buffer *out, const char *value)) {
    const json_t *records = json_object_get(criterion, "records"), *notes = json_object_get(criterion, "notes"),
                 *record;
    size_t at = 0, n = 0;
    int round = 0;
    while (n < N_SHOWN && (record = next_record(records, &at, &round))) {
        kg_buffer_puts(out, begin);
        put_record_text(out, record, put);
        kg_buffer_puts(out, end);
        n++;
    }
    if (json_array_size(records) > n)
        kg_buffer_printf(out, "%sand %zu more in statement.intoto.json%s", begin, json_array_size(records) - n, end);
    for (size_t i = 0; i < json_array_size(notes) && i < N_SHOWN; i++) {
        kg_buffer_puts(out, begin);
        put(out, json_string_value(json_array_get(notes, i)));
        kg_buffer_puts(out, end);
    }
}

static const struct column {
    const char *head, *member;
} RUN_COLUMNS[] = { { "run", "run" },
                    { "commit", "commit" },
                    { "sources", "content_sha256" },
                    { "GPU", "gpu" },
                    { "verdict", "verdict" },
                    { "signature", "signature" },
                    { "signer", "signer" },
                    { "tag manifest", "tagmanifest_sha256" } };
static const struct column CRITERION_COLUMNS[] = {
    { "story", "spec" }, { "what", "what" }, { "wanted", "wanted" }, { "state", "state" }, { "found", "found" }
};

static void markdown_heads(struct kg_buffer *out, const struct column *columns, size_t n_columns, const char *last) {
    for (size_t i = 0; i < n_columns; i++) kg_buffer_printf(out, "| %s ", columns[i].head);
    kg_buffer_printf(out, "%s|\n", last);
    for (size_t i = 0; i < n_columns + (*last != '\0'); i++) kg_buffer_puts(out, "| --- ");
    kg_buffer_puts(out, "|\n");
}

void kg_signoff_markdown(const json_t *document, struct kg_buffer *out) {
    const json_t *item, *list = json_object_get(document, "criteria");
    size_t i;
    kg_buffer_puts(out, "# ");
    put_cell(out, text(document, "title"));
    kg_buffer_printf(out, ": %s\n\n%lld criteria met, %lld missed, %lld unproven. Sprint `%s` (SHA-256 `%s`), %s.\n\n",
                     text(document, "verdict"), (long long)kg_json_int(document, "n_met", 0),
                     (long long)kg_json_int(document, "n_missed", 0), (long long)kg_json_int(document, "n_unproven", 0),
                     text(document, "sprint"), text(document, "sprint_sha256"), text(document, "signed_off_utc"));
    markdown_heads(out, CRITERION_COLUMNS, KG_COUNT_OF(CRITERION_COLUMNS), "| records ");
    json_array_foreach(list, i, item) {
        for (size_t k = 0; k < KG_COUNT_OF(CRITERION_COLUMNS); k++) {
            kg_buffer_puts(out, "| ");
            put_cell(out, text(item, CRITERION_COLUMNS[k].member));
            kg_buffer_puts(out, " ");
        }
        kg_buffer_puts(out, "| ");
        put_evidence(out, item, "", "<br>", put_cell);
        kg_buffer_puts(out, " |\n");
    }
    kg_buffer_puts(out, "\n## Runs\n\n");
    markdown_heads(out, RUN_COLUMNS, KG_COUNT_OF(RUN_COLUMNS), "");
    list = json_object_get(document, "runs");
    json_array_foreach(list, i, item) {
        for (size_t k = 0; k < KG_COUNT_OF(RUN_COLUMNS); k++) {
            kg_buffer_puts(out, "| ");
            put_cell(out, text(item, RUN_COLUMNS[k].member));
            kg_buffer_puts(out, " ");
        }
        kg_buffer_puts(out, "|\n");
    }
}

static void html_heads(struct kg_buffer *out, const struct column *columns, size_t n_columns) {
    kg_buffer_puts(out, "<div class=\"wide\"><table><thead><tr>");
    for (size_t i = 0; i < n_columns; i++) kg_buffer_printf(out, "<th scope=\"col\">%s</th>", columns[i].head);
}

static void html_cells(struct kg_buffer *out, const struct column *columns, size_t n_columns, const json_t *item) {
    for (size_t i = 0; i < n_columns; i++) {
        const char *value = text(item, columns[i].member);
        if (strcmp(columns[i].member, "state") == 0)
            kg_buffer_printf(out, "<td data-head=\"%s\" class=\"%s\">", columns[i].head, value);
        else kg_buffer_printf(out, "<td data-head=\"%s\">", columns[i].head);
        kg_xml_put(out, value);
        kg_buffer_puts(out, "</td>");
    }
}

static const char HTML_STYLE[] =
    "<style>:root{color-scheme:light dark;--line:#8886;--met:#1a7f37;--missed:#cf222e;--unproven:#9a6700}"
    "@media(prefers-color-scheme:dark){:root{--met:#57ab5a;--missed:#f47067;--unproven:#c69026}}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;padding:1rem;max-width:80rem}"
    "code{overflow-wrap:anywhere}.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}"
    "th,td{border-bottom:1px solid var(--line);padding:.35rem .5rem;text-align:left;vertical-align:top;"
    "overflow-wrap:break-word}td:first-child{white-space:nowrap}ul{margin:0;padding-left:1rem}li{overflow-wrap:"
    "anywhere}"
    /* on a phone a row is a card, each cell behind its column's name */
    "@media(max-width:48rem){thead{display:none}tr{display:block;border-bottom:1px solid var(--line);padding:.5rem 0}"
    "td,td:first-child{display:block;border:0;padding:.1rem 0;white-space:normal;overflow-wrap:anywhere}"
    "td::before{content:attr(data-head) ': ';font-weight:600}td:empty{display:none}}"
    ".met{color:var(--met)}.missed{color:var(--missed);font-weight:600}.unproven{color:var(--unproven)}"
    "@media print{.wide{overflow:visible}}</style>";

void kg_signoff_html(const json_t *document, struct kg_buffer *out) {
    const json_t *item, *list = json_object_get(document, "criteria");
    size_t i;
    kg_buffer_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>");
    kg_xml_put(out, text(document, "title"));
    kg_buffer_printf(out, "</title>%s</head>\n<body><h1>", HTML_STYLE);
    kg_xml_put(out, text(document, "title"));
    kg_buffer_printf(out,
                     ": <span class=\"%s\">%s</span></h1>\n<p>%lld criteria met, %lld missed, %lld unproven. Sprint %s "
                     "(SHA-256 <code>%s</code>), %s.</p>\n",
                     text(document, "verdict"), text(document, "verdict"), (long long)kg_json_int(document, "n_met", 0),
                     (long long)kg_json_int(document, "n_missed", 0), (long long)kg_json_int(document, "n_unproven", 0),
                     text(document, "sprint"), text(document, "sprint_sha256"), text(document, "signed_off_utc"));
    html_heads(out, CRITERION_COLUMNS, KG_COUNT_OF(CRITERION_COLUMNS));
    kg_buffer_puts(out, "<th scope=\"col\">records</th></tr></thead><tbody>\n");
    json_array_foreach(list, i, item) {
        kg_buffer_puts(out, "<tr>");
        html_cells(out, CRITERION_COLUMNS, KG_COUNT_OF(CRITERION_COLUMNS), item);
        kg_buffer_puts(out, "<td data-head=\"records\"><ul>");
        put_evidence(out, item, "<li>", "</li>", kg_xml_put);
        kg_buffer_puts(out, "</ul></td></tr>\n");
    }
    kg_buffer_puts(out, "</tbody></table></div>\n<h2>Runs</h2>\n");
    html_heads(out, RUN_COLUMNS, KG_COUNT_OF(RUN_COLUMNS));
    kg_buffer_puts(out, "</tr></thead><tbody>\n");
    list = json_object_get(document, "runs");
    json_array_foreach(list, i, item) {
        kg_buffer_puts(out, "<tr>");
        html_cells(out, RUN_COLUMNS, KG_COUNT_OF(RUN_COLUMNS), item);
        kg_buffer_puts(out, "</tr>\n");
    }
    kg_buffer_puts(out, "</tbody></table></div></body></html>\n");
}

json_t *kg_signoff_statement(const json_t *document) {
    json_t *subjects = json_array(), *passed = json_array(), *warned = json_array(), *failed = json_array();
    const json_t *item, *runs = json_object_get(document, "runs"), *criteria = json_object_get(document, "criteria");
    const char *verdict = text(document, "verdict");
    size_t i;
    json_array_foreach(runs, i, item) {
        json_array_append_new(subjects, json_pack("{s:o, s:{s:s}}", "name",
                                                  json_sprintf("%s/manifest-sha256.txt", text(item, "run")), "digest",
                                                  "sha256", text(item, "manifest_sha256")));
    }
    json_array_foreach(criteria, i, item) {
        const char *state = text(item, "state");
        json_t *list = strcmp(state, "met") == 0 ? passed : strcmp(state, "missed") == 0 ? failed : warned;
        json_array_append_new(
            list, json_sprintf("%s: %s (%s)", text(item, "spec"), text(item, "what"), text(item, "wanted")));
    }
    return json_pack(
        "{s:s, s:o, s:s, s:{s:s, s:[{s:s, s:{s:s}}], s:o, s:o, s:o, s:O}}", "_type", "https://in-toto.io/Statement/v1",
        "subject", subjects, "predicateType", "https://in-toto.io/attestation/test-result/v0.1", "predicate", "result",
        strcmp(verdict, "met") == 0      ? "PASSED"
        : strcmp(verdict, "missed") == 0 ? "FAILED"
                                         : "WARNED",
        "configuration", "name", text(document, "sprint"), "digest", "sha256", text(document, "sprint_sha256"),
        "passedTests", passed, "warnedTests", warned, "failedTests", failed, "kigo", document);
}
