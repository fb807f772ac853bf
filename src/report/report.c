#include "report/report.h"
#include "base/size.h"
#include "report/sections.h"

void kg_report_page(const struct kg_report *report, struct kg_page *page) {
    static void (*const SECTIONS[])(const struct kg_report *report, struct kg_page *page) = {
        kg_section_summary, kg_section_changes, kg_section_cases,    kg_section_margins,
        kg_section_timings, kg_section_memory,  kg_section_roofline, kg_section_environment,
    };
    for (size_t i = 0; i < KG_COUNT_OF(SECTIONS); i++) SECTIONS[i](report, page);
    if (!report->manifest_sha256)
        kg_page_text(
            page,
            "Written when the run was sealed. Held against its history, with plots and every case: kigo report %s",
            kg_report_text(report->run->summary, "bundle_id"));
}

static void put_html(const struct kg_export *from, enum kg_report_kernels kernels, struct kg_buffer *out) {
    const struct kg_report report = { .run = from, .kernels = kernels };
    struct kg_page page = KG_PAGE_INIT(KG_PAGE_HTML, false);
    kg_report_page(&report, &page);
    kg_page_finish(&page, out);
}

static void make_html(const struct kg_export *from, struct kg_buffer *out) {
    put_html(from, KG_KERNELS_THAT_SPILL, out);
}

static void make_html_of_format_2(const struct kg_export *from, struct kg_buffer *out) {
    put_html(from, KG_KERNELS_FORMAT_2, out);
}

const struct kg_bundle_document kg_report_documents[] = { { "data/report.html", make_html, 3, 0 },
                                                          { "data/report.html", make_html_of_format_2, 2, 2 },
                                                          { 0 } };
