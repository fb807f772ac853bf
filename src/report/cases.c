/* Counts by layer, what is not green, what was skipped and why, and what passed. A page that is whole names every case
 * once. */
#include "base/size.h"
#include "report/sections.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const STATUSES[] = { "pass", "fail", "crash", "timeout", "norun", "skip" };

static const char *layer_of(const struct kg_case_records *c) {
    return kg_report_text(c->plan, "layer");
}

/* Layers in the plan's order: {"<layer>": [count of each status]}. */
static json_t *count_layers(const struct kg_records *records) {
    json_t *layers = json_object();
    for (size_t i = 0; i < records->n_cases; i++) {
        json_t *counts = json_object_get(layers, layer_of(&records->cases[i]));
        if (!counts) {
            counts = json_array();
            for (size_t s = 0; s < KG_COUNT_OF(STATUSES); s++) json_array_append_new(counts, json_integer(0));
            json_object_set_new(layers, layer_of(&records->cases[i]), counts);
        }
        for (size_t s = 0; s < KG_COUNT_OF(STATUSES); s++)
            if (strcmp(kg_case_status(&records->cases[i]), STATUSES[s]) == 0)
                json_array_set_new(counts, s, json_integer(json_integer_value(json_array_get(counts, s)) + 1));
    }
    return layers;
}

static void put_layers(const json_t *layers, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "layer", KG_COLUMN_TEXT },   { "planned", KG_COLUMN_NUMBER },
                                                { "pass", KG_COLUMN_NUMBER },  { "fail", KG_COLUMN_NUMBER },
                                                { "crash", KG_COLUMN_NUMBER }, { "timeout", KG_COLUMN_NUMBER },
                                                { "norun", KG_COLUMN_NUMBER }, { "skip", KG_COLUMN_NUMBER } };
    const char *layer;
    json_t *counts, *count;
    size_t s;
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    json_object_foreach((json_t *)(uintptr_t)layers, layer, counts) {
        json_int_t n = 0;
        kg_page_cell(page, layer);
        json_array_foreach(counts, s, count) n += json_integer_value(count);
        kg_page_cellf(page, "%lld", (long long)n);
        json_array_foreach(counts, s, count) kg_page_cellf(page, "%lld", (long long)json_integer_value(count));
    }
    kg_page_table_end(page);
}

static const struct kg_column CASE_COLUMNS[] = { { "status", KG_COLUMN_STATUS },
                                                 { "case", KG_COLUMN_NAME },
                                                 { "seconds", KG_COLUMN_NUMBER },
                                                 { "error/limit", KG_COLUMN_NUMBER },
                                                 { "reason", KG_COLUMN_TEXT } };

static void put_case(const struct kg_case_records *c, struct kg_page *page) {
    const char *unused;
    kg_page_cell(page, kg_case_status(c));
    kg_page_cell(page, c->key);
    kg_page_cellf(page, "%.3f", kg_case_seconds(c));
    kg_page_cell(page, kg_quantity_general(kg_case_worst_margin(c, &unused)).text);
    kg_page_cell(page, kg_case_reason(c));
}

static bool is_green(const struct kg_case_records *c) {
    const char *status = kg_case_status(c);
    return strcmp(status, "pass") == 0 || strcmp(status, "skip") == 0;
}

static void put_red(const struct kg_records *records, struct kg_page *page) {
    size_t n = 0;
    for (size_t i = 0; i < records->n_cases; i++) n += !is_green(&records->cases[i]);
    if (n == 0) {
        kg_page_text(page, "No case failed, crashed, ran out of time or was left out.");
        return;
    }
    kg_page_heading(page, "Not green");
    kg_page_table(page, CASE_COLUMNS, KG_COUNT_OF(CASE_COLUMNS));
    for (size_t i = 0; i < records->n_cases; i++)
        if (!is_green(&records->cases[i])) put_case(&records->cases[i], page);
    kg_page_table_end(page);
}

/* {"<reason>": [keys]} of what was skipped. */
static json_t *skips_by_reason(const struct kg_records *records) {
    json_t *reasons = json_object();
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        if (strcmp(kg_case_status(c), "skip") != 0) continue;
        json_t *keys = json_object_get(reasons, kg_case_reason(c));
        if (!keys) json_object_set_new(reasons, kg_case_reason(c), keys = json_array());
        json_array_append_new(keys, json_string(c->key));
    }
    return reasons;
}

/* A row a reason, with the name of each of its cases. */
static void put_skipped_names(const json_t *reasons, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "because", KG_COLUMN_TEXT }, { "cases", KG_COLUMN_NAME } };
    const char *reason;
    json_t *keys, *key;
    size_t i;
    kg_page_fold(page, "Their names");
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    json_object_foreach((json_t *)(uintptr_t)reasons, reason, keys) {
        const char **names = kg_xcalloc(json_array_size(keys), sizeof *names);
        json_array_foreach(keys, i, key) names[i] = json_string_value(key);
        kg_page_cell(page, reason);
        kg_page_cell_lines(page, names, json_array_size(keys));
        free(names);
    }
    kg_page_table_end(page);
    kg_page_unfold(page);
}

static void put_skips(const struct kg_records *records, bool whole, struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "skipped", KG_COLUMN_NUMBER },
                                                { "because", KG_COLUMN_TEXT },
                                                { "for instance", KG_COLUMN_NAME } };
    json_t *reasons = skips_by_reason(records), *keys;
    const char *reason;
    if (json_object_size(reasons) > 0) kg_page_heading(page, "Skipped");
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    json_object_foreach(reasons, reason, keys) {
        kg_page_cellf(page, "%zu", json_array_size(keys));
        kg_page_cell(page, reason);
        kg_page_cell(page, json_string_value(json_array_get(keys, 0)));
    }
    kg_page_table_end(page);
    if (whole && json_object_size(reasons) > 0) put_skipped_names(reasons, page);
    json_decref(reasons);
}

/* {"<layer>": [place]} of what passed: each case is looked at once, however many layers a plan names. */
static json_t *passed_by_layer(const struct kg_records *records) {
    json_t *layers = json_object();
    for (size_t i = 0; i < records->n_cases; i++) {
        const struct kg_case_records *c = &records->cases[i];
        if (strcmp(kg_case_status(c), "pass") != 0) continue;
        json_t *places = json_object_get(layers, layer_of(c));
        if (!places) json_object_set_new(layers, layer_of(c), places = json_array());
        json_array_append_new(places, json_integer((json_int_t)i));
    }
    return layers;
}

static void put_passed_of(const char *layer, const json_t *places, const struct kg_records *records,
                          struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "case", KG_COLUMN_NAME },
                                                { "seconds", KG_COLUMN_NUMBER },
                                                { "error/limit", KG_COLUMN_NUMBER } };
    const char *unused;
    kg_page_fold(page, "%s: %zu", *layer ? layer : "(no layer)", json_array_size(places));
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = 0; i < json_array_size(places); i++) {
        const struct kg_case_records *c = &records->cases[json_integer_value(json_array_get(places, i))];
        kg_page_cell(page, c->key);
        kg_page_cellf(page, "%.3f", kg_case_seconds(c));
        kg_page_cell(page, kg_quantity_general(kg_case_worst_margin(c, &unused)).text);
    }
    kg_page_table_end(page);
    kg_page_unfold(page);
}

static void put_passed(const struct kg_records *records, const json_t *layers, struct kg_page *page) {
    const char *layer;
    json_t *counts, *passed = passed_by_layer(records);
    kg_page_heading(page, "Passed");
    json_object_foreach((json_t *)(uintptr_t)layers, layer, counts) {
        const json_t *places = json_object_get(passed, layer);
        if (places) put_passed_of(layer, places, records, page);
    }
    json_decref(passed);
}

void kg_section_cases(const struct kg_report *report, struct kg_page *page) {
    const struct kg_records *records = report->run->records;
    json_t *layers = count_layers(records);
    kg_page_section(page, "Layers and cases");
    put_layers(layers, page);
    put_red(records, page);
    put_skips(records, report->whole, page);
    if (report->whole) put_passed(records, layers, page);
    json_decref(layers);
}
