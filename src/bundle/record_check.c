/* What a plan line and a result record must look like. */
#include "bundle/records.h"
#include "base/json_tape.h"
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

/* suite and def_sha are the plan's where a result leaves them out. */
static const struct field RESULT_FIELDS[] = {
    { "key", FIELD_TEXT },
    { "suite", FIELD_TEXT | FIELD_NULL },
    { "def_sha", FIELD_SHA256 | FIELD_NULL },
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

/* A member's value, of whichever reader. */
struct value {
    bool is_null; /* or missing */
    const char *text;
    bool is_number, is_int, is_negative;
    bool is_list; /* of objects */
};

struct record {
    const json_t *json; /* one of the two */
    const struct kg_node *node;
};

static struct value json_value(const json_t *value) {
    struct value v = { .is_null = !value || json_is_null(value),
                       .text = json_string_value(value),
                       .is_number = json_is_number(value),
                       .is_int = json_is_integer(value),
                       .is_negative = json_is_number(value) && json_number_value(value) < 0,
                       .is_list = json_is_array(value) };
    for (size_t i = 0; v.is_list && i < json_array_size(value); i++)
        v.is_list = json_is_object(json_array_get(value, i));
    return v;
}

static struct value node_value(const struct kg_node *node) {
    if (!node) return (struct value){ .is_null = true };
    struct value v = { .is_null = node->kind == KG_NODE_NULL,
                       .text = node->kind == KG_NODE_TEXT ? node->text : NULL,
                       .is_number = kg_node_is_number(node),
                       .is_int = node->kind == KG_NODE_INT,
                       .is_negative = kg_node_is_number(node) && node->text[0] == '-' && kg_node_number(node) < 0,
                       .is_list = node->kind == KG_NODE_LIST };
    for (const struct kg_node *c = v.is_list ? kg_node_first(node) : NULL; c && v.is_list; c = kg_node_next(node, c))
        v.is_list = c->kind == KG_NODE_OBJECT;
    return v;
}

static struct value value_of(struct record r, const char *name) {
    return r.node ? node_value(kg_node_member(r.node, name)) : json_value(json_object_get(r.json, name));
}

static bool field_ok(const struct value *v, unsigned types) {
    return ((types & FIELD_NULL) && v->is_null) || ((types & FIELD_TEXT) && v->text && *v->text) ||
           ((types & FIELD_INT) && v->is_int && !v->is_negative) ||
           ((types & FIELD_NUMBER) && v->is_number && !v->is_negative) || ((types & FIELD_LIST) && v->is_list) ||
           ((types & FIELD_SHA256) && is_sha256(v->text)) || ((types & FIELD_DECIMAL) && is_decimal(v->text)) ||
           ((types & FIELD_STATUS) && is_status(v->text));
}

static bool fields_ok(struct record r, const struct field *fields, size_t n_fields, char *why) {
    if (r.node ? r.node->kind != KG_NODE_OBJECT : !json_is_object(r.json)) {
        snprintf(why, KG_RECORD_WHY_SIZE, "is not a JSON object");
        return false;
    }
    for (size_t i = 0; i < n_fields; i++) {
        const struct value v = value_of(r, fields[i].name);
        if (field_ok(&v, fields[i].types)) continue;
        const json_t *value = r.node ? NULL : json_object_get(r.json, fields[i].name);
        char *got = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
        snprintf(why, KG_RECORD_WHY_SIZE, "\"%s\" is %s%.100s", fields[i].name, v.is_null ? "missing" : "",
                 got      ? got
                 : v.text ? v.text
                          : "");
        free(got);
        return false;
    }
    return true;
}

static bool result_ok(struct record r, char *why) {
    if (!fields_ok(r, RESULT_FIELDS, sizeof RESULT_FIELDS / sizeof *RESULT_FIELDS, why)) return false;
    const char *status = value_of(r, "status").text, *reason = value_of(r, "reason").text;
    if ((strcmp(status, "pass") == 0) == !reason) return true;
    snprintf(why, KG_RECORD_WHY_SIZE, "status %s %s", status, reason ? "with a reason" : "without a reason");
    return false;
}

const char *const KG_RECORD_PLANNED[KG_N_RECORD_PLANNED] = { "def_sha", "suite" };

static bool same_definition(struct record plan, struct record result, char *why) {
    for (size_t i = 0; i <= KG_N_RECORD_PLANNED; i++) {
        const bool is_seed = i == KG_N_RECORD_PLANNED;
        const char *name = is_seed ? "seed" : KG_RECORD_PLANNED[i];
        const char *planned = value_of(plan, name).text, *recorded = value_of(result, name).text;
        if (recorded ? planned && strcmp(planned, recorded) == 0 : !is_seed) continue;
        snprintf(why, KG_RECORD_WHY_SIZE, "%s is %.80s, planned %.80s", name, recorded ? recorded : "missing",
                 planned ? planned : "missing");
        return false;
    }
    return true;
}

bool kg_record_plan_ok(const json_t *line, char why[KG_RECORD_WHY_SIZE]) {
    return fields_ok((struct record){ line, NULL }, PLAN_FIELDS, sizeof PLAN_FIELDS / sizeof *PLAN_FIELDS, why);
}

bool kg_record_result_ok(const json_t *record, char why[KG_RECORD_WHY_SIZE]) {
    return result_ok((struct record){ record, NULL }, why);
}

bool kg_record_same_definition(const json_t *plan_line, const json_t *result, char why[KG_RECORD_WHY_SIZE]) {
    return same_definition((struct record){ plan_line, NULL }, (struct record){ result, NULL }, why);
}

bool kg_node_plan_ok(const struct kg_node *line, char why[KG_RECORD_WHY_SIZE]) {
    return fields_ok((struct record){ NULL, line }, PLAN_FIELDS, sizeof PLAN_FIELDS / sizeof *PLAN_FIELDS, why);
}

bool kg_node_result_ok(const struct kg_node *record, char why[KG_RECORD_WHY_SIZE]) {
    return result_ok((struct record){ NULL, record }, why);
}

bool kg_node_same_definition(const struct kg_node *plan_line, const struct kg_node *result,
                             char why[KG_RECORD_WHY_SIZE]) {
    return same_definition((struct record){ NULL, plan_line }, (struct record){ NULL, result }, why);
}
