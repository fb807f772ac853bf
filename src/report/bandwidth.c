#include "report/bandwidth.h"
#include "base/escape.h"
#include "base/json_put.h"
#include "base/size.h"
#include "bundle/export.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *text_or_empty(const json_t *object, const char *name) {
    const char *text = kg_json_text(object, name);
    return text ? text : "";
}

static double metric(const json_t *result, const char *name) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(result, "metrics"), i, item) {
        if (strcmp(text_or_empty(item, "name"), name) == 0) return kg_json_number(item, "value", 0);
    }
    return 0;
}

static void derive(struct kg_bandwidth_row *row) {
    row->gb_s = kg_gb_per_s(row->bytes, row->median_ns);
    row->gb_s_lo = kg_gb_per_s(row->bytes, row->ci_hi_ns);
    row->gb_s_hi = kg_gb_per_s(row->bytes, row->ci_lo_ns);
    row->tflop_s = kg_tflop_per_s(row->flops, row->median_ns);
    row->share = kg_roofline_share(&row->roofline, row->bytes, row->flops, row->median_ns);
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0) names++;
    return *names != NULL;
}

static void add_rows(struct kg_bandwidth *b, const struct kg_case_records *c, const char *const *timings) {
    const json_t *plan = c->plan, *result = c->result;
    if (!plan || !result || strcmp(text_or_empty(plan, "layer"), "bench") != 0 ||
        strcmp(text_or_empty(result, "status"), "pass") != 0)
        return;
    size_t i;
    json_t *timing;
    json_array_foreach(json_object_get(result, "timings"), i, timing) {
        const char *name = text_or_empty(timing, "name");
        if (!is_one_of(name, timings) || json_is_false(json_object_get(timing, "valid"))) continue;
        b->rows = kg_xrealloc(b->rows, (b->n_rows + 1) * sizeof *b->rows);
        struct kg_bandwidth_row *row = &b->rows[b->n_rows++];
        *row = (struct kg_bandwidth_row){
            .key = c->key,
            .op = text_or_empty(plan, "op"),
            .name = text_or_empty(plan, "name"),
            .backend = text_or_empty(plan, "backend"),
            .dtype = text_or_empty(plan, "dtype"),
            .shape = text_or_empty(plan, "shape"),
            .timing = name,
            .kind = text_or_empty(timing, "kind"),
            .state = text_or_empty(timing, "state"),
            .n = kg_json_int(timing, "n", 0),
            .median_ns = kg_json_number(timing, "median", 0),
            .mad_ns = kg_json_number(timing, "mad", 0),
            .ci_lo_ns = kg_json_number(timing, "ci_lo", 0),
            .ci_hi_ns = kg_json_number(timing, "ci_hi", 0),
            .bytes = kg_json_number(timing, "bytes", 0),
            .flops = kg_json_number(timing, "flops", 0),
            .roofline = { metric(result, "roofline.copy"), metric(result, "roofline.read"),
                          metric(result, "roofline.gemm") },
        };
        derive(row);
    }
}

/* Whether both time the same work in the same way: all but the precision is alike. */
static bool is_same_work(const struct kg_bandwidth_row *a, const struct kg_bandwidth_row *b) {
    return strcmp(a->op, b->op) == 0 && strcmp(a->name, b->name) == 0 && strcmp(a->shape, b->shape) == 0 &&
           strcmp(a->backend, b->backend) == 0 && strcmp(a->kind, b->kind) == 0 && strcmp(a->state, b->state) == 0;
}

static void compare_with_f32(struct kg_bandwidth *b, struct kg_bandwidth_row *row) {
    if (strcmp(row->dtype, "f32") == 0) return;
    for (size_t i = 0; i < b->n_rows; i++) {
        const struct kg_bandwidth_row *base = &b->rows[i];
        if (strcmp(base->dtype, "f32") != 0 || !is_same_work(base, row)) continue;
        row->speedup = kg_speedup(base->median_ns, row->median_ns);
        row->speedup_lo = kg_speedup(base->ci_lo_ns, row->ci_hi_ns);
        row->speedup_hi = kg_speedup(base->ci_hi_ns, row->ci_lo_ns);
        return;
    }
}

void kg_bandwidth_collect_timings(const struct kg_records *records, const char *const *timings,
                                  struct kg_bandwidth *b) {
    *b = (struct kg_bandwidth){ 0 };
    for (size_t i = 0; i < records->n_cases; i++) add_rows(b, &records->cases[i], timings);
    for (size_t i = 0; i < b->n_rows; i++) compare_with_f32(b, &b->rows[i]);
}

void kg_bandwidth_collect(const struct kg_records *records, struct kg_bandwidth *b) {
    static const char *const TIMINGS[] = { "time", "token", NULL };
    kg_bandwidth_collect_timings(records, TIMINGS, b);
}

void kg_bandwidth_free(struct kg_bandwidth *b) {
    free(b->rows);
    *b = (struct kg_bandwidth){ 0 };
}

/* The columns, in the CSV's order, as the JSON names them too. */
static const struct text_column {
    const char *name;
    size_t offset; /* of a const char * */
} TEXTS[] = {
#define TEXT(field)                                                                                                    \
    { #field, offsetof(struct kg_bandwidth_row, field) }
    TEXT(key), TEXT(op), TEXT(name), TEXT(backend), TEXT(dtype), TEXT(shape), TEXT(kind), TEXT(state),
#undef TEXT
};
static const struct number_column {
    const char *name;
    size_t offset; /* of a double; 0 has no meaning */
} NUMBERS[] = {
#define NUMBER(name, field)                                                                                            \
    { name, offsetof(struct kg_bandwidth_row, field) }
    NUMBER("median_ns", median_ns),
    NUMBER("mad_ns", mad_ns),
    NUMBER("ci_lo_ns", ci_lo_ns),
    NUMBER("ci_hi_ns", ci_hi_ns),
    NUMBER("bytes", bytes),
    NUMBER("flops", flops),
    NUMBER("gb_s", gb_s),
    NUMBER("gb_s_lo", gb_s_lo),
    NUMBER("gb_s_hi", gb_s_hi),
    NUMBER("tflop_s", tflop_s),
    NUMBER("roofline_share", share),
    NUMBER("speedup_over_f32", speedup),
    NUMBER("speedup_lo", speedup_lo),
    NUMBER("speedup_hi", speedup_hi),
#undef NUMBER
};

static const char *text_at(const struct kg_bandwidth_row *row, size_t offset) {
    const char *text;
    memcpy(&text, (const char *)row + offset, sizeof text);
    return text;
}

static double number_at(const struct kg_bandwidth_row *row, size_t offset) {
    double value;
    memcpy(&value, (const char *)row + offset, sizeof value);
    return value;
}

void kg_bandwidth_csv(const struct kg_bandwidth *b, struct kg_buffer *out) {
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++) kg_buffer_printf(out, "%s,", TEXTS[i].name);
    kg_buffer_puts(out, "n");
    for (size_t i = 0; i < KG_COUNT_OF(NUMBERS); i++) kg_buffer_printf(out, ",%s", NUMBERS[i].name);
    kg_buffer_puts(out, "\r\n");
    for (size_t r = 0; r < b->n_rows; r++) {
        const struct kg_bandwidth_row *row = &b->rows[r];
        for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++) {
            const char *text = text_at(row, TEXTS[i].offset);
            kg_csv_put(out, text, strlen(text), ",");
        }
        kg_buffer_printf(out, "%lld", (long long)row->n);
        for (size_t i = 0; i < KG_COUNT_OF(NUMBERS); i++) {
            const double value = number_at(row, NUMBERS[i].offset);
            kg_buffer_puts(out, ",");
            if (value != 0 || i < 2) kg_buffer_printf(out, "%.6g", value);
        }
        kg_buffer_puts(out, "\r\n");
    }
}

static json_t *row_json(const struct kg_bandwidth_row *row) {
    json_t *object = json_object();
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++)
        json_object_set_new(object, TEXTS[i].name, kg_json_utf8(text_at(row, TEXTS[i].offset)));
    json_object_set_new(object, "n", json_integer(row->n));
    for (size_t i = 0; i < KG_COUNT_OF(NUMBERS); i++) {
        const double value = number_at(row, NUMBERS[i].offset);
        json_object_set_new(object, NUMBERS[i].name, value != 0 || i < 2 ? json_real(value) : json_null());
    }
    json_object_set_new(object, "roofline",
                        json_pack("{s:f, s:f, s:f}", "copy_gb_s", row->roofline.copy_gb_s, "read_gb_s",
                                  row->roofline.read_gb_s, "gemm_tflop_s", row->roofline.tflop_s));
    return object;
}

/* Speed-ups of a group are multiplied as logarithms. */
static void group_add(json_t *groups, const struct kg_bandwidth_row *row, const char *group) {
    size_t i;
    json_t *g = NULL, *item;
    json_array_foreach(groups, i, item) {
        if (strcmp(text_or_empty(item, "group"), group) == 0 && strcmp(text_or_empty(item, "kind"), row->kind) == 0 &&
            strcmp(text_or_empty(item, "state"), row->state) == 0)
            g = item;
    }
    if (!g) {
        g = json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:f}", "group", group, "kind", row->kind, "state", row->state,
                      "n", 0, "least", row->speedup, "geometric_mean", 0.0, "most", row->speedup);
        json_array_append_new(groups, g);
    }
    json_object_set_new(g, "n", json_integer(kg_json_int(g, "n", 0) + 1));
    json_object_set_new(g, "least", json_real(fmin(kg_json_number(g, "least", 0), row->speedup)));
    json_object_set_new(g, "most", json_real(fmax(kg_json_number(g, "most", 0), row->speedup)));
    json_object_set_new(g, "geometric_mean", json_real(kg_json_number(g, "geometric_mean", 0) + log(row->speedup)));
}

static json_t *groups_json(const struct kg_bandwidth *b) {
    json_t *groups = json_array(), *g;
    size_t i;
    for (size_t r = 0; r < b->n_rows; r++) {
        const struct kg_bandwidth_row *row = &b->rows[r];
        if (row->speedup <= 0) continue;
        char *group = kg_xasprintf("%s/%.*s", row->op, (int)strcspn(row->name, "_"), row->name);
        group_add(groups, row, group);
        if (strcmp(row->op, "linear") == 0 && strstr(row->name, "_ffn_")) group_add(groups, row, "linear/ffn");
        free(group);
    }
    json_array_foreach(groups, i, g) {
        const double sum = kg_json_number(g, "geometric_mean", 0);
        json_object_set_new(g, "geometric_mean", json_real(exp(sum / (double)kg_json_int(g, "n", 1))));
    }
    return groups;
}

json_t *kg_bandwidth_json(const struct kg_bandwidth *b) {
    json_t *cases = json_array();
    for (size_t i = 0; i < b->n_rows; i++) json_array_append_new(cases, row_json(&b->rows[i]));
    return json_pack("{s:o, s:o}", "cases", cases, "speedups", groups_json(b));
}

bool kg_bandwidth_same_series(const struct kg_bandwidth_row *a, const struct kg_bandwidth_row *b) {
    return strcmp(a->backend, b->backend) == 0 && strcmp(a->dtype, b->dtype) == 0;
}

bool kg_bandwidth_plotted(const struct kg_bandwidth_row *row) {
    return row->gb_s > 0 && strcmp(row->state, "cold") == 0 && strcmp(row->kind, "kernel") != 0;
}
