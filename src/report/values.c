#include "report/sections.h"

const char *kg_report_text(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? text : "";
}

void kg_report_fact(struct kg_page *page, const char *name, const char *value) {
    if (!value || !*value) return;
    kg_page_cell(page, name);
    kg_page_cell(page, value);
}
