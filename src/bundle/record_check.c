/* What a plan line and a result record must look like. */
#include "bundle/records.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kg_json_text(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

int64_t kg_json_int(const json_t *object, const char *name, int64_t fallback) {
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

double kg_json_number(const json_t *object, const char *name, double fallback) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

enum field_type {
    FIELD_TEXT = 1,     /* not empty */
    FIELD_NULL = 2,     /* null or missing */
    FIELD_INT = 4,      /* 0 or more */
    FIELD_NUMBER = 8,   /* 0 or more */
    FIELD_LIST = 16,    /* of objects */
    FIELD_SHA256 = 32,  /* 64 lower-case hexadecimal digits */
    FIELD_DECIMAL = 64, /* text of an unsigned decimal number */
    FIELD_STATUS = 128, /* of the six */
};

struct field {
    const char *name;
    unsigned types;
};

static const struct field PLAN_FIELDS[] = {
    { "key", FIELD_TEXT },
    { "suite", FIELD_TEXT },
    { "layer", FIELD_TEXT },
    { "op", FIELD_TEXT },
    { "name", FIELD_TEXT },
    { "backend", FIELD_TEXT | FIELD_NULL },
    { "dtype", FIELD_TEXT | FIELD_NULL },
    { "shape", FIELD_TEXT | FIELD_NULL },
    { "spec", FIELD_TEXT | FIELD_NULL },
    { "seed", FIELD_DECIMAL },
    { "def_sha", FIELD_SHA256 },
    { "timeout_s", FIELD_NUMBER },
};

static const struct field RESULT_FIELDS[] = {
    { "key", FIELD_TEXT },
    { "suite", FIELD_TEXT },
    { "def_sha", FIELD_SHA256 },
    { "status", FIELD_STATUS },
    { "reason", FIELD_TEXT | FIELD_NULL },
    { "seed", FIELD_DECIMAL },
    { "started_us", FIELD_INT | FIELD_NULL },
    { "duration_ns", FIELD_INT | FIELD_NULL },
    { "errors", FIELD_LIST },
    { "timings", FIELD_LIST },
    { "metrics", FIELD_LIST },
    { "memory", FIELD_LIST },
};

static bool is_sha256(const char *text) {
    return text && strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static bool is_decimal(const char *text) {
    const size_t len = text ? strlen(text) : 0;
    return len >= 1 && len <= 20 && strspn(text, "0123456789") == len;
}

static bool is_status(const char *text) {
    static const char *const STATUSES[] = { "pass", "fail", "skip", "crash", "timeout", "norun" };
    for (size_t i = 0; text && i < sizeof STATUSES / sizeof *STATUSES; i++)
        if (strcmp(text, STATUSES[i]) == 0) return true;
    return false;
}

static bool is_list_of_objects(const json_t *value) {
    if (!json_is_array(value)) return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_object(json_array_get(value, i))) return false;
    return true;
}

static bool field_ok(const json_t *value, unsigned types) {
    const char *text = json_string_value(value);
    return ((types & FIELD_NULL) && (!value || json_is_null(value))) || ((types & FIELD_TEXT) && text && *text) ||
           ((types & FIELD_INT) && json_is_integer(value) && json_integer_value(value) >= 0) ||
           ((types & FIELD_NUMBER) && json_is_number(value) && json_number_value(value) >= 0) ||
           ((types & FIELD_LIST) && is_list_of_objects(value)) || ((types & FIELD_SHA256) && is_sha256(text)) ||
           ((types & FIELD_DECIMAL) && is_decimal(text)) || ((types & FIELD_STATUS) && is_status(text));
}

static bool fields_ok(const json_t *object, const struct field *fields, size_t n_fields, char *why) {
    if (!json_is_object(object)) {
        snprintf(why, KG_RECORD_WHY_SIZE, "is not a JSON object");
        return false;
    }
    for (size_t i = 0; i < n_fields; i++) {
        const json_t *value = json_object_get(object, fields[i].name);
        if (field_ok(value, fields[i].types)) continue;
        char *got = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
        snprintf(why, KG_RECORD_WHY_SIZE, "\"%s\" is %s%.100s", fields[i].name, value ? "" : "missing", got ? got : "");
        free(got);
        return false;
    }
    return true;
}

bool kg_record_plan_ok(const json_t *line, char why[KG_RECORD_WHY_SIZE]) {
    return fields_ok(line, PLAN_FIELDS, sizeof PLAN_FIELDS / sizeof *PLAN_FIELDS, why);
}

bool kg_record_result_ok(const json_t *record, char why[KG_RECORD_WHY_SIZE]) {
    if (!fields_ok(record, RESULT_FIELDS, sizeof RESULT_FIELDS / sizeof *RESULT_FIELDS, why)) return false;
    const char *status = kg_json_text(record, "status"), *reason = kg_json_text(record, "reason");
    if ((strcmp(status, "pass") == 0) == !reason) return true;
    snprintf(why, KG_RECORD_WHY_SIZE, "status %s %s", status, reason ? "with a reason" : "without a reason");
    return false;
}

bool kg_record_same_definition(const json_t *plan_line, const json_t *result, char why[KG_RECORD_WHY_SIZE]) {
    static const char *const SAME[] = { "def_sha", "suite", "seed" };
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        const char *planned = kg_json_text(plan_line, SAME[i]), *recorded = kg_json_text(result, SAME[i]);
        if (planned && recorded && strcmp(planned, recorded) == 0) continue;
        snprintf(why, KG_RECORD_WHY_SIZE, "%s is %.80s, planned %.80s", SAME[i], recorded ? recorded : "missing",
                 planned ? planned : "missing");
        return false;
    }
    return true;
}
