#include "history/reproduce.h"
#include "base/buffer.h"
#include "base/json_put.h"
#include "base/size.h"
#include "bundle/export.h"
#include "history/figure_kind.h"
#include <stdlib.h>
#include <string.h>

const char *const KG_REPRODUCED_NAMES[KG_REPRODUCED_COUNT] = {
    "same", "other figures", "other status", "other definition", "not run", "not there",
};

static json_t *or_null(const json_t *value) {
    return value ? json_incref((json_t *)(uintptr_t)value) : json_null();
}

static void add_difference(json_t *list, const char *key, char *name, const json_t *then, const json_t *now) {
    json_array_append_new(list, json_pack("{s:s, s:o, s:o}", key, name, "then", or_null(then), "now", or_null(now)));
    free(name);
}

static void add_figure(json_t *list, char *name, const char *unit, const json_t *then, const json_t *now) {
    add_difference(list, "figure", name, then, now);
    json_object_set_new(json_array_get(list, json_array_size(list) - 1), "unit", kg_json_utf8(unit));
}

static const char *text_of(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? text : "";
}

/* The members of items that run in pairs; a list that has more than the other differs in what is left over. */
static void compare_lists(const json_t *then, const json_t *now, const char *list, const char *name_member,
                          const char *const *members, bool exact_only, json_t *differences) {
    const json_t *a = json_object_get(then, list), *b = json_object_get(now, list);
    const size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        const char *name = text_of(x ? x : y, name_member), *unit = text_of(x ? x : y, "unit");
        if (exact_only && kg_figure_kind_of(name, unit).class != KG_FIGURE_EXACT) continue;
        if (!x || !y || strcmp(text_of(x, name_member), text_of(y, name_member)) != 0) {
            add_figure(differences, kg_xasprintf("%s %s", list, name), "", x, y);
            continue;
        }
        for (size_t m = 0; members[m]; m++) {
            const json_t *p = json_object_get(x, members[m]), *q = json_object_get(y, members[m]);
            if (p != q && !json_equal(p, q))
                add_figure(differences, kg_xasprintf("%s.%s", name, members[m]),
                           strstr(members[m], "_bytes") ? "bytes" : unit, p, q);
        }
    }
}

static json_t *compare_figures(const json_t *then, const json_t *now) {
    static const char *const ERROR[] = { "n",    "n_nonfinite",   "max_abs",     "max_rel",   "rms_rel",
                                         "nmse", "one_minus_cos", "worst_index", "worst_got", "worst_want",
                                         NULL };
    static const char *const MEMORY[] = { "peak_bytes", "left_bytes", NULL }, *const METRIC[] = { "value", NULL };
    json_t *differences = json_array();
    compare_lists(then, now, "errors", "name", ERROR, false, differences);
    compare_lists(then, now, "memory", "tag", MEMORY, false, differences);
    compare_lists(then, now, "metrics", "name", METRIC, true, differences);
    return differences;
}

static bool did_not_run(const char *status) {
    return strcmp(status, "skip") == 0 || strcmp(status, "norun") == 0;
}

json_t *kg_reproduce_case(const struct kg_case_records *then, const struct kg_case_records *now,
                          enum kg_reproduced *outcome) {
    char why[KG_RECORD_WHY_SIZE];
    const char *was = kg_case_status(then), *is = now && now->plan ? kg_case_status(now) : NULL;
    json_t *figures = NULL;
    if (!is) *outcome = KG_NOT_THERE;
    else if (!kg_record_same_definition(then->plan, now->plan, why)) *outcome = KG_OTHER_CASE;
    else if (strcmp(was, is) == 0) {
        figures = compare_figures(then->result, now->result);
        *outcome = json_array_size(figures) > 0 ? KG_OTHER_FIGURE : KG_SAME;
    } else *outcome = did_not_run(is) && !did_not_run(was) ? KG_NOT_RUN : KG_OTHER_STATUS;
    return json_pack("{s:s, s:s, s:s, s:s?, s:o}", "case", then->key, "outcome", KG_REPRODUCED_NAMES[*outcome], "then",
                     was, "now", is, "figures", figures ? figures : json_array());
}

/* Members of objects one by one, whatever else is compared as a whole. */
static void compare_objects(const char *path, const json_t *then, const json_t *now, json_t *differences) {
    if (!json_is_object(then) || !json_is_object(now)) {
        if (then != now && !json_equal(then, now)) add_difference(differences, "what", kg_xstrdup(path), then, now);
        return;
    }
    json_t *names = json_object();
    const char *name;
    json_t *value;
    json_object_update(names, (json_t *)(uintptr_t)then);
    json_object_update(names, (json_t *)(uintptr_t)now);
    json_object_foreach(names, name, value) {
        char *member = kg_xasprintf("%s.%s", path, name);
        compare_objects(member, json_object_get(then, name), json_object_get(now, name), differences);
        free(member);
    }
    json_decref(names);
}

/* NULL: there is none. */
static json_t *read_or_null(const char *dir, const char *file) {
    json_t *value = NULL;
    return kg_bundle_read_json(dir, file, &value, NULL) == KG_OK ? value : NULL;
}

json_t *kg_reproduce_surroundings(const char *dir_then, const char *dir_now) {
    static const char *const FILES[] = { "env", "build", "source" };
    json_t *differences = json_array();
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        char *file = kg_xasprintf("data/%s.json", FILES[i]);
        json_t *then = read_or_null(dir_then, file), *now = read_or_null(dir_now, file);
        json_object_del(then, "run");
        json_object_del(now, "run");
        compare_objects(FILES[i], then, now, differences);
        json_decref(now);
        json_decref(then);
        free(file);
    }
    return differences;
}
