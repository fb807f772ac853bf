/* The sections of a run's report, in the order they are shown, and what they share. */
#ifndef KIGO_REPORT_SECTIONS_H
#define KIGO_REPORT_SECTIONS_H

#include "base/quantity.h"
#include "report/report.h"

void kg_section_summary(const struct kg_report *report, struct kg_page *page); /* with the page's title */
void kg_section_changes(const struct kg_report *report, struct kg_page *page);
void kg_section_cases(const struct kg_report *report, struct kg_page *page);
void kg_section_margins(const struct kg_report *report, struct kg_page *page);
void kg_section_timings(const struct kg_report *report, struct kg_page *page);
void kg_section_memory(const struct kg_report *report, struct kg_page *page);
void kg_section_roofline(const struct kg_report *report, struct kg_page *page);
void kg_section_environment(const struct kg_report *report, struct kg_page *page);

/* Rows shown before what is more is folded away, or left out where the report is not whole. */
enum { KG_REPORT_ROWS = 25 };

/* Members as text, "" where there are none. */
const char *kg_report_text(const json_t *object, const char *name);

/* The half decade that error / limit falls into: 15 ends with the limit itself, 16 is the first above it, 0 begins with
 * 10^-8; others are outside of the picture. */
double kg_report_half_decade(double margin);

/* A row of kg_page_facts, unless the value is empty. */
void kg_report_fact(struct kg_page *page, const char *name, const char *value);

#endif
