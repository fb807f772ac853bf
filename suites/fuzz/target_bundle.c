#include "suites/fuzz/targets.h"
#include "bundle/manifest.h"
#include "bundle/records.h"
#include "report/report.h"
#include <jansson.h>
#include <string.h>

/* Whatever a record says, the page that shows it has no element but its own, and no control character. */
static void check_page(json_t *plan, json_t *result) {
    static const char *const NEVER[] = { "<script", "<img", "<iframe", "<a href=\"h", "<base", "<link" };
    struct kg_case_records c = { .key = kg_json_text(result, "key"), .plan = plan, .result = result };
    const struct kg_records records = { .cases = &c, .n_cases = 1 };
    const struct kg_export from = { .records = &records, .env = result, .build = result };
    struct kg_buffer page = KG_BUFFER_INIT;
    kg_report_documents[0].make(&from, &page);
    for (size_t i = 0; i < page.len; i++)
        if ((unsigned char)page.data[i] < 0x20 && page.data[i] != '\n')
            kg_fuzz_give_up("the page holds the control character %#x", (unsigned char)page.data[i]);
    for (size_t i = 0; i < sizeof NEVER / sizeof *NEVER; i++)
        if (strstr(page.data, NEVER[i])) kg_fuzz_give_up("the page holds %s", NEVER[i]);
    kg_buffer_free(&page);
}

static void check_line(void *arg, size_t number, const char *text, size_t size_bytes) {
    char why[KG_RECORD_WHY_SIZE];
    struct kg_bundle_findings *findings = arg;
    json_t *line = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, NULL);
    const bool is_plan = kg_record_plan_ok(line, why), is_result = kg_record_result_ok(line, why);
    if (is_result) check_page(is_plan ? line : NULL, line);
    if (!is_plan && !is_result) kg_finding_add(findings, "format", "data/results.ndjson", "line %zu: %s", number, why);
    if (line) kg_record_same_definition(line, line, why);
    json_decref(line);
}

bool kg_fuzz_bundle(const uint8_t *data, size_t size) {
    kg_fuzz_begin("bundle", data, size);
    if (size == 0) return false;
    const char *text = (const char *)data + 1;
    const size_t len = size - 1;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_manifest manifest;
    size_t torn = 0;
    switch (data[0] % 3) {
    case 0:
        kg_manifest_parse("manifest-sha256.txt", text, len, &manifest, &findings);
        for (size_t i = 0; i < manifest.n_lines; i++)
            if (!kg_manifest_find(&manifest, manifest.lines[i].path))
                kg_fuzz_give_up("the manifest's \"%s\" is not found in it", manifest.lines[i].path);
        kg_manifest_free(&manifest);
        break;
    case 1: json_decref(kg_bag_info_parse(text, len, &findings)); break;
    default:
        kg_ndjson_each(text, len, check_line, &findings, &torn);
        if (torn > len) kg_fuzz_give_up("%zu bytes are torn off", torn);
        if (torn > 0) kg_finding_add(&findings, "format", "data/results.ndjson", "torn");
    }
    for (size_t i = 0; i < findings.n_items; i++) { /* every finding can be written as JSON */
        json_t *detail = json_string(findings.items[i].detail), *path = json_string(findings.items[i].path);
        if (!detail || !path) kg_fuzz_give_up("finding %zu is not UTF-8", i);
        json_decref(path);
        json_decref(detail);
    }
    const bool accepted = findings.n_items == 0;
    kg_bundle_findings_free(&findings);
    return accepted;
}
