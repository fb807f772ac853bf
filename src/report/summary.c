/* What the run was and how it ended. */
#include "bundle/export.h"
#include "base/clock.h"
#include "base/size.h"
#include "report/sections.h"
#include "report/verdict.h"
#include <stdio.h>
#include <string.h>

static void put_findings(const struct kg_bundle_findings *findings, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "finding", KG_COLUMN_TEXT },
                                                { "file", KG_COLUMN_NAME },
                                                { "detail", KG_COLUMN_TEXT } };
    if (!findings || findings->n_items == 0) return;
    kg_page_alert(page, "This bundle is not what was sealed, or not sound:");
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < findings->n_items && i < KG_REPORT_ROWS; i++) {
        kg_page_cell(page, findings->items[i].what);
        kg_page_cell(page, findings->items[i].path);
        kg_page_cell(page, findings->items[i].detail);
    }
    kg_page_table_end(page);
    if (findings->n_items > KG_REPORT_ROWS)
        kg_page_text(page, "And %zu more findings.", kg_bundle_findings_count(findings) - KG_REPORT_ROWS);
}

static void put_facts(const struct kg_report *report, const struct kg_verdict *verdict, struct kg_page *page) {
    const json_t *s = report->run->summary;
    const int64_t started_us = kg_json_int(s, "started_us", 0);
    char started[KG_UTC_TEXT_SIZE], after[48];
    kg_clock_utc_text(started_us, started);
    snprintf(after, sizeof after, "%.1f s", ((double)kg_json_int(s, "sealed_us", 0) - (double)started_us) / 1e6);
    kg_page_facts(page);
    for (int i = 0; i < KG_VERDICT_COUNT; i++)
        kg_report_fact(page, KG_VERDICT_NAMES[i], kg_buffer_text(&verdict->lines[i]));
    kg_report_fact(page, "run", kg_report_text(s, "bundle_id"));
    kg_report_fact(page, "manifest SHA-256", report->manifest_sha256);
    if (report->findings && report->findings->n_items == 0)
        kg_report_fact(page, "verified", "every byte is as it was sealed, and the counts follow from the records");
    kg_report_fact(page, "signature", report->signature);
    char sample[KG_SAMPLE_TEXT_SIZE];
    if (kg_sample_text(json_object_get(report->run->env, "run"), sample)) kg_report_fact(page, "sample", sample);
    kg_report_fact(page, "started", started);
    kg_report_fact(page, "sealed after", after);
    kg_report_fact(page, "seed", kg_report_text(s, "seed"));
    kg_page_table_end(page);
}

void kg_section_summary(const struct kg_report *report, struct kg_page *page) {
    const json_t *s = report->run->summary;
    struct kg_buffer title = KG_BUFFER_INIT;
    struct kg_verdict verdict;
    kg_verdict_make(report, &verdict);
    kg_buffer_printf(&title, "kigo run %s", kg_report_text(s, "bundle_id"));
    kg_page_title(page, kg_buffer_text(&title), verdict.word);
    kg_buffer_free(&title);
    put_findings(report->findings, page);
    put_facts(report, &verdict, page);
    kg_verdict_free(&verdict);
}
