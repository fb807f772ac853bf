#include "cli/differences.h"
#include "base/json_put.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/records.h"
#include <stdlib.h>
#include <string.h>

/* "": a bare number. */
static const char *unit_of(const json_t *difference, const char *name) {
    static const struct {
        const char *end, *unit;
    } ENDS[] = { { "_bytes", "bytes" }, { "_ns", "ns" }, { "_us", "us" }, { "_ms", "ms" } };
    const char *unit = kg_json_text(difference, "unit");
    const size_t len = strlen(name);
    if (unit && *unit) return unit;
    for (size_t i = 0; i < KG_COUNT_OF(ENDS); i++) {
        const size_t n = strlen(ENDS[i].end);
        if (len > n && strcmp(name + len - n, ENDS[i].end) == 0) return ENDS[i].unit;
    }
    return "";
}

static struct kg_quantity quantity(const json_t *number, const char *unit) {
    const double value = json_number_value(number);
    return *unit || json_is_integer(number) ? kg_quantity_of_unit(value, unit) : kg_quantity_general(value);
}

/* As it was recorded, on one line, cut where it is long. */
static char *recorded(const json_t *value) {
    enum { MOST_CHARS = 60 };
    char *text = kg_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const bool is_long = text && strlen(text) > MOST_CHARS;
    char *shown = kg_xasprintf("%.*s%s", MOST_CHARS, text ? text : "?", is_long ? "..." : "");
    free(text);
    return shown;
}

/* malloc'ed. A metric or a memory tag that one side alone has is a whole record. */
static char *value_text(const json_t *value, const char *unit) {
    const json_t *metric = json_object_get(value, "value"), *peak = json_object_get(value, "peak_bytes");
    if (json_is_null(value)) return kg_xstrdup("none");
    if (json_is_number(value)) return kg_xstrdup(quantity(value, unit).text);
    if (json_is_number(metric)) return kg_xstrdup(quantity(metric, unit_of(value, "")).text);
    if (json_is_number(peak))
        return kg_xasprintf("peak %s, left %s", quantity(peak, "bytes").text,
                            quantity(json_object_get(value, "left_bytes"), "bytes").text);
    return recorded(value);
}

void kg_differences_put(const json_t *list, const char *name, struct kg_buffer *out) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) {
        const char *what = kg_json_text(item, name), *unit = unit_of(item, what);
        const json_t *values[] = { json_object_get(item, "then"), json_object_get(item, "now") };
        char *texts[] = { value_text(values[0], unit), value_text(values[1], unit) };
        const bool alike = strcmp(texts[0], texts[1]) == 0;
        for (size_t k = 0; k < KG_COUNT_OF(texts) && alike; k++) {
            free(texts[k]);
            texts[k] = recorded(values[k]);
        }
        kg_text_printf(out, "    %s: %s -> %s\n", what, texts[0], texts[1]);
        for (size_t k = 0; k < KG_COUNT_OF(texts); k++) free(texts[k]);
    }
}
