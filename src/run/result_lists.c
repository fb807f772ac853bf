#include "run/result_lists.h"
#include "base/size.h"
#include <math.h>

enum field_kind { TEXT, TEXT_IF_ANY, COUNT, NUMBER, NUMBER_OR_NULL, BOOLEAN, LIMITS, SAMPLES };

struct field {
    const char *name;
    enum field_kind kind;
};

static const struct field ERROR_FIELDS[] = {
    { "name", TEXT },
    { "n", COUNT },
    { "n_nonfinite", COUNT },
    { "max_abs", NUMBER_OR_NULL },
    { "max_rel", NUMBER_OR_NULL },
    { "rms_rel", NUMBER_OR_NULL },
    { "nmse", NUMBER_OR_NULL },
    { "one_minus_cos", NUMBER_OR_NULL },
    { "worst_index", COUNT },
    { "worst_got", NUMBER_OR_NULL },
    { "worst_want", NUMBER_OR_NULL },
    { "tolerance", LIMITS },
    { "why", TEXT },
    { "margin", NUMBER_OR_NULL },
    { "judged", BOOLEAN },
    { "far", TEXT_IF_ANY },
};
static const struct field TIMING_FIELDS[] = {
    { "name", TEXT },     { "kind", TEXT },       { "state", TEXT },           { "n", COUNT },
    { "median", NUMBER }, { "mad", NUMBER },      { "ci_lo", NUMBER },         { "ci_hi", NUMBER },
    { "min", NUMBER },    { "max", NUMBER },      { "bytes", NUMBER_OR_NULL }, { "flops", NUMBER_OR_NULL },
    { "valid", BOOLEAN }, { "samples", SAMPLES },
};
static const struct field METRIC_FIELDS[] = { { "name", TEXT }, { "unit", TEXT }, { "value", NUMBER_OR_NULL } };
static const struct field MEMORY_FIELDS[] = { { "tag", TEXT }, { "peak_bytes", COUNT }, { "left_bytes", COUNT } };

static const struct list {
    const char *name;
    const struct field *fields;
    size_t n_fields;
} LISTS[] = {
    { "errors", ERROR_FIELDS, KG_COUNT_OF(ERROR_FIELDS) },
    { "timings", TIMING_FIELDS, KG_COUNT_OF(TIMING_FIELDS) },
    { "metrics", METRIC_FIELDS, KG_COUNT_OF(METRIC_FIELDS) },
    { "memory", MEMORY_FIELDS, KG_COUNT_OF(MEMORY_FIELDS) },
};

static bool is_limits(const json_t *value) {
    const char *key;
    json_t *limit;
    if (!json_is_object(value)) return false;
    json_object_foreach((json_t *)value, key, limit) if (!json_is_number(limit)) return false;
    return true;
}

static bool is_samples(const json_t *value) {
    size_t i;
    json_t *sample;
    if (!json_is_array(value)) return false;
    json_array_foreach(value, i, sample) if (!json_is_number(sample) || json_number_value(sample) < 0) return false;
    return true;
}

static bool is_of_kind(const json_t *value, enum field_kind kind) {
    switch (kind) {
    case TEXT: return json_is_string(value);
    case TEXT_IF_ANY: return !value || json_is_string(value);
    case COUNT: return json_is_integer(value) && json_integer_value(value) >= 0;
    case NUMBER: return json_is_number(value);
    case NUMBER_OR_NULL: return json_is_number(value) || json_is_null(value);
    case BOOLEAN: return json_is_boolean(value);
    case LIMITS: return is_limits(value);
    case SAMPLES: return is_samples(value);
    }
    return false;
}

static enum kg_status read_row(const struct list *list, size_t index, const json_t *row, json_t *out,
                               struct kg_error *err) {
    json_t *copy = json_object();
    json_array_append_new(out, copy);
    for (size_t f = 0; f < list->n_fields; f++) {
        const struct field *field = &list->fields[f];
        json_t *value = json_object_get(row, field->name);
        if (!is_of_kind(value, field->kind))
            return kg_fail(err, KG_ERR_FORMAT, "%s[%zu]: '%s' is missing or of another type", list->name, index,
                           field->name);
        if (value) json_object_set(copy, field->name, value);
    }
    const json_t *samples = json_object_get(copy, "samples");
    if (samples && json_integer_value(json_object_get(copy, "n")) != (json_int_t)json_array_size(samples))
        return kg_fail(err, KG_ERR_FORMAT, "%s[%zu]: n = %lld but %zu samples", list->name, index,
                       (long long)json_integer_value(json_object_get(copy, "n")), json_array_size(samples));
    return KG_OK;
}

json_t *kg_result_lists_empty(void) {
    return json_pack("{s:[], s:[], s:[], s:[]}", "errors", "timings", "metrics", "memory");
}

enum kg_status kg_result_lists_read(const json_t *end, json_t **lists, struct kg_error *err) {
    json_t *out = kg_result_lists_empty();
    enum kg_status status = KG_OK;
    for (size_t l = 0; l < KG_COUNT_OF(LISTS) && status == KG_OK; l++) {
        const json_t *rows = json_object_get(end, LISTS[l].name);
        if (!json_is_array(rows)) status = kg_fail(err, KG_ERR_FORMAT, "'%s' is not a list", LISTS[l].name);
        for (size_t i = 0; status == KG_OK && i < json_array_size(rows); i++)
            status = read_row(&LISTS[l], i, json_array_get(rows, i), json_object_get(out, LISTS[l].name), err);
    }
    if (status != KG_OK) {
        json_decref(out);
        return status;
    }
    *lists = out;
    return KG_OK;
}

const char *kg_result_lists_outside(const json_t *lists) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(lists, "errors"), i, row) {
        if (!json_is_true(json_object_get(row, "judged"))) continue;
        const json_t *margin = json_object_get(row, "margin");
        if (!json_is_number(margin) || !(json_number_value(margin) <= 1))
            return json_string_value(json_object_get(row, "name"));
    }
    return NULL;
}
