#include "cli/show_figures.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/records.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* The unit of a list's members by their names' patterns; the first that fits. "": bare numbers. */
static const struct {
    const char *list, *member, *unit;
} UNITS[] = {
    { "timings", "n", "" },         { "timings", "bytes", "bytes" }, { "timings", "flops", "FLOP" },
    { "timings", "*offset", NULL }, { "timings", "*", "ns" },        { "memory", "*_bytes", "bytes" },
};

/* NULL: the member says nothing to people. */
static const char *unit_of(const char *list, const char *member) {
    for (size_t i = 0; i < KG_COUNT_OF(UNITS); i++)
        if (strcmp(UNITS[i].list, list) == 0 && fnmatch(UNITS[i].member, member, 0) == 0) return UNITS[i].unit;
    return "";
}

static void put_value(const json_t *value, const char *unit, struct kg_buffer *out) {
    if (json_is_string(value)) {
        kg_text_printf(out, "%s", json_string_value(value));
    } else if (json_is_number(value)) {
        const double number = json_number_value(value);
        const bool error = !*unit && json_is_real(value);
        kg_buffer_puts(out, error ? kg_quantity_general(number).text : kg_quantity_of_unit(number, unit).text);
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(4) | JSON_COMPACT);
        kg_text_printf(out, "%s", text ? text : "");
        free(text);
    }
}

/* "name: median 1.2 ms, ..." */
static void put_members(const char *list, const json_t *item, struct kg_buffer *out) {
    static const char *const HEAD[] = { "name", "tag", "kind", "state" };
    const char *member;
    const json_t *value;
    bool first = true;
    kg_text_printf(out, "  %-8s ", list);
    for (size_t i = 0; i < KG_COUNT_OF(HEAD); i++) {
        const char *text = kg_json_text(item, HEAD[i]);
        if (text) kg_text_printf(out, "%s%s", i > 1 ? " " : "", text);
    }
    json_object_foreach((json_t *)item, member, value) {
        const char *unit = unit_of(list, member);
        bool printed = unit == NULL;
        for (size_t i = 0; i < KG_COUNT_OF(HEAD); i++) printed = printed || strcmp(member, HEAD[i]) == 0;
        if (printed) continue;
        const char *suffix = strstr(member, "_bytes"); /* the value has its unit */
        kg_text_printf(out, "%s%.*s ", first ? ": " : ", ", suffix ? (int)(suffix - member) : (int)strlen(member),
                       member);
        put_value(value, unit, out);
        first = false;
    }
    kg_buffer_puts(out, "\n");
}

static void put_metric(const json_t *item, struct kg_buffer *out) {
    const char *name = kg_json_text(item, "name"), *unit = kg_json_text(item, "unit");
    kg_text_printf(out, "  %-8s %s: %s\n", "metrics", name ? name : "",
                   kg_quantity_of_unit(kg_json_number(item, "value", 0), unit ? unit : "").text);
}

void kg_show_figures(const json_t *result, struct kg_buffer *out) {
    static const char *const LISTS[] = { "errors", "timings", "metrics", "memory" };
    for (size_t k = 0; k < KG_COUNT_OF(LISTS); k++) {
        size_t i;
        const json_t *item;
        json_array_foreach(json_object_get(result, LISTS[k]), i, item) {
            if (strcmp(LISTS[k], "metrics") == 0) put_metric(item, out);
            else put_members(LISTS[k], item, out);
        }
    }
}
