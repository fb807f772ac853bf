/* What the run was and how it ended. */
#include "bundle/export.h"
#include "base/clock.h"
#include "base/size.h"
#include "report/sections.h"
#include <stdio.h>
#include <string.h>

static void put_counts(const json_t *summary, struct kg_page *page) {
    static const char *const STATUSES[] = { "pass", "fail", "crash", "timeout", "norun", "skip" };
    struct kg_buffer text = KG_BUFFER_INIT;
    kg_buffer_printf(&text, "%lld cases planned", (long long)kg_json_int(summary, "n_planned", 0));
    for (size_t i = 0; i < KG_COUNT_OF(STATUSES); i++) {
        char name[16];
        snprintf(name, sizeof name, "n_%s", STATUSES[i]);
        const long long n = kg_json_int(summary, name, 0);
        if (n > 0) kg_buffer_printf(&text, ", %lld %s", n, STATUSES[i]);
    }
    const char *state = kg_report_text(summary, "state");
    if (strcmp(state, "complete") != 0) kg_buffer_printf(&text, " (%s: the run died)", state);
    kg_page_text(page, "%s.", kg_buffer_text(&text));
    kg_buffer_free(&text);
}

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
        kg_page_text(page, "And %zu more findings.", findings->n_items - KG_REPORT_ROWS);
}

static void put_facts(const struct kg_report *report, struct kg_page *page) {
    const json_t *s = report->run->summary, *git = json_object_get(report->run->source, "git");
    const json_t *gpu = json_array_get(json_object_get(report->run->env, "gpus"), 0);
    const int64_t started_us = kg_json_int(s, "started_us", 0);
    char started[KG_UTC_TEXT_SIZE], after[48];
    kg_clock_utc_text(started_us, started);
    snprintf(after, sizeof after, "%.1f s", (double)(kg_json_int(s, "sealed_us", 0) - started_us) / 1e6);
    kg_page_facts(page);
    kg_report_fact(page, "run", kg_report_text(s, "bundle_id"));
    kg_report_fact(page, "manifest SHA-256", report->manifest_sha256);
    if (report->findings && report->findings->n_items == 0)
        kg_report_fact(page, "verified", "every byte is as it was sealed, and the counts follow from the records");
    kg_report_fact(page, "signature", report->signature);
    kg_report_fact(page, "commit", kg_report_text(git, "commit"));
    if (json_is_true(json_object_get(git, "dirty")))
        kg_report_fact(page, "work tree", "changed: data/dirty.diff holds how");
    char sample[KG_SAMPLE_TEXT_SIZE];
    if (kg_sample_text(json_object_get(report->run->env, "run"), sample)) kg_report_fact(page, "sample", sample);
    kg_report_fact(page, "started", started);
    kg_report_fact(page, "sealed after", after);
    kg_report_fact(page, "seed", kg_report_text(s, "seed"));
    kg_report_fact(page, "GPU", kg_report_text(gpu, "name"));
    if (!gpu) kg_report_fact(page, "GPU", "none");
    kg_report_fact(page, "CPU", kg_report_text(json_object_get(report->run->env, "cpu"), "model"));
    kg_page_table_end(page);
}

void kg_section_summary(const struct kg_report *report, struct kg_page *page) {
    const json_t *s = report->run->summary;
    struct kg_buffer title = KG_BUFFER_INIT;
    kg_buffer_printf(&title, "kigo run %s", kg_report_text(s, "bundle_id"));
    kg_page_title(page, kg_buffer_text(&title), kg_report_text(s, "verdict"));
    kg_buffer_free(&title);
    put_counts(s, page);
    put_findings(report->findings, page);
    put_facts(report, page);
}
