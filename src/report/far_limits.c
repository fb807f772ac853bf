#include "report/far_limits.h"
#include "base/buffer.h"
#include "base/size.h"
#include "report/sections.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add(json_t *groups, const struct kg_case_records *c, const json_t *error, const char *rule, double value,
                double limit) {
    const char *why = kg_report_text(error, "why");
    char *name = kg_xasprintf("%s/%s[%s,%s] %s", kg_report_text(c->plan, "layer"), kg_report_text(c->plan, "op"),
                              kg_report_text(c->plan, "backend"), kg_report_text(c->plan, "dtype"), rule);
    char *key = kg_xasprintf("%s: %s", name, why);
    json_t *group = json_object_get(groups, key), *far = json_object_get(error, "far");
    if (!group) {
        group = json_pack("{s:s, s:s, s:i, s:f, s:f, s:n}", "comparisons", name, "why", why, "n", 0, "error", 0.0,
                          "limit", limit, "far");
        json_object_set_new(groups, key, group);
    }
    json_object_set_new(group, "n", json_integer(kg_json_int(group, "n", 0) + 1));
    if (far) json_object_set(group, "far", far);
    if (value / limit > kg_json_number(group, "error", 0) / kg_json_number(group, "limit", 1)) {
        json_object_set_new(group, "error", json_real(value));
        json_object_set_new(group, "limit", json_real(limit));
    }
    free(key);
    free(name);
}

/* By each rule apart; a mixed limit differs by element, and only the margin says how near it was. */
static void add_error(json_t *groups, const struct kg_case_records *c, const json_t *error) {
    static const char *const RULES[] = { "max_abs", "nmse", "one_minus_cos" };
    const json_t *tolerance = json_object_get(error, "tolerance");
    bool any = false;
    for (size_t i = 0; i < KG_COUNT_OF(RULES); i++) {
        const double limit = kg_json_number(tolerance, RULES[i], 0);
        if (limit > 0) add(groups, c, error, RULES[i], kg_json_number(error, RULES[i], INFINITY), limit);
        any = any || limit > 0;
    }
    if (!any) add(groups, c, error, "mixed", kg_json_number(error, "margin", INFINITY), 1);
}

json_t *kg_far_limits(const struct kg_records *records) {
    json_t *groups = json_object(), *result = json_array(), *error, *group;
    const char *key;
    size_t i;
    for (size_t k = 0; k < records->n_cases; k++) {
        const struct kg_case_records *c = &records->cases[k];
        if (strcmp(kg_report_text(c->plan, "layer"), "mutation") == 0) continue;
        json_array_foreach(json_object_get(c->result, "errors"), i, error) {
            if (json_is_true(json_object_get(error, "judged"))) add_error(groups, c, error);
        }
    }
    json_object_foreach(groups, key, group) {
        if (kg_json_number(group, "error", 0) * KG_FAR_TIMES < kg_json_number(group, "limit", 0))
            json_array_append(result, group);
    }
    json_decref(groups);
    return result;
}
