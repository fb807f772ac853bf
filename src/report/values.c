#include "report/sections.h"
#include "base/size.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *kg_report_text(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? text : "";
}

struct scale {
    double from;
    const char *unit;
};

/* The largest unit of which there is at least one; scales fall. */
static struct kg_report_number scaled(double value, const struct scale *scales, size_t n_scales) {
    struct kg_report_number number = { "" };
    size_t i = 0;
    while (i + 1 < n_scales && fabs(value) < scales[i].from) i++;
    if (isfinite(value)) snprintf(number.text, sizeof number.text, "%.4g %s", value / scales[i].from, scales[i].unit);
    return number;
}

struct kg_report_number kg_report_time(double ns) {
    static const struct scale SCALES[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "µs" }, { 1, "ns" } };
    return scaled(ns, SCALES, KG_COUNT_OF(SCALES));
}

struct kg_report_number kg_report_bytes(double n_bytes) {
    static const struct scale SCALES[] = { { 1 << 30, "GiB" }, { 1 << 20, "MiB" }, { 1 << 10, "KiB" }, { 1, "B" } };
    return scaled(n_bytes, SCALES, KG_COUNT_OF(SCALES));
}

struct kg_report_number kg_report_percent(double share) {
    struct kg_report_number number = { "" };
    if (isfinite(share)) snprintf(number.text, sizeof number.text, "%+.2f%%", 100 * share);
    return number;
}

struct kg_report_number kg_report_g(double value) {
    struct kg_report_number number = { "" };
    if (isfinite(value)) snprintf(number.text, sizeof number.text, "%.4g", value);
    return number;
}

struct kg_report_number kg_report_of_unit(double value, const char *unit) {
    if (strcmp(unit, "ns") == 0) return kg_report_time(value);
    if (strcmp(unit, "bytes") == 0 || strcmp(unit, "B") == 0) return kg_report_bytes(value);
    struct kg_report_number number = kg_report_g(value);
    const size_t len = strlen(number.text);
    if (len > 0 && *unit) snprintf(number.text + len, sizeof number.text - len, " %.30s", unit);
    return number;
}

void kg_report_fact(struct kg_page *page, const char *name, const char *value) {
    if (!value || !*value) return;
    kg_page_cell(page, name);
    kg_page_cell(page, value);
}
