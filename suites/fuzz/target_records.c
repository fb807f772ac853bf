#include "suites/fuzz/readers.h"
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

static enum kg_status end(struct kg_bundle_findings *findings) {
    const enum kg_status status = findings->n_items == 0 ? KG_OK : KG_ERR_INTEGRITY;
    kg_fuzz_expect_findings(findings);
    kg_bundle_findings_free(findings);
    return status;
}

KG_FUZZ_READER(manifest) {
    (void)target;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_manifest manifest;
    kg_manifest_parse("manifest-sha256.txt", (const char *)data, size, &manifest, &findings);
    for (size_t i = 0; i < manifest.n_lines; i++)
        if (!kg_manifest_find(&manifest, manifest.lines[i].path))
            kg_fuzz_give_up("the manifest's \"%s\" is not found in it", manifest.lines[i].path);
    kg_manifest_free(&manifest);
    return end(&findings);
}

KG_FUZZ_READER(bag_info) {
    (void)target;
    struct kg_bundle_findings findings = { NULL, 0 };
    json_decref(kg_bag_info_parse((const char *)data, size, &findings));
    return end(&findings);
}

KG_FUZZ_READER(records) {
    (void)target;
    struct kg_bundle_findings findings = { NULL, 0 };
    size_t torn = 0;
    kg_ndjson_each((const char *)data, size, check_line, &findings, &torn);
    if (torn > size) kg_fuzz_give_up("%zu bytes are torn off", torn);
    if (torn > 0) kg_finding_add(&findings, "format", "data/results.ndjson", "torn");
    return end(&findings);
}
