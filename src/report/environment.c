/* Source, build and machine: every member that the run recorded. */
#include "base/size.h"
#include "report/sections.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value as it reads best; NULL where there is nothing to say. malloc'ed. */
static char *value_text(const char *name, const json_t *value) {
    const size_t len = strlen(name);
    if (json_is_string(value)) return *json_string_value(value) ? kg_xstrdup(json_string_value(value)) : NULL;
    if (json_is_boolean(value)) return kg_xstrdup(json_is_true(value) ? "yes" : "no");
    if (json_is_number(value) && len > 6 && strcmp(name + len - 6, "_bytes") == 0)
        return kg_xstrdup(kg_quantity_bytes(json_number_value(value)).text);
    if (json_is_null(value) || !value) return NULL;
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
}

/* The members of an object as rows, those of objects in it under "<name> <member>"; `left` (NULL-ended) is left out. */
static void put_members(struct kg_page *page, const char *prefix, const json_t *object, const char *const *left) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t i = 0;
        while (left[i] && strcmp(left[i], name) != 0) i++;
        if (left[i]) continue;
        struct kg_buffer label = KG_BUFFER_INIT;
        kg_buffer_printf(&label, "%s%s%s", prefix, *prefix ? " " : "", name);
        for (size_t k = 0; k < label.len; k++)
            if (label.data[k] == '_') label.data[k] = ' ';
        if (json_is_object(value)) {
            put_members(page, kg_buffer_text(&label), value, left);
        } else {
            char *text = value_text(name, value);
            kg_report_fact(page, kg_buffer_text(&label), text);
            free(text);
        }
        kg_buffer_free(&label);
    }
}

static bool spills(const json_t *kernel) {
    return kg_json_int(kernel, "spill_store_bytes", 0) > 0 || kg_json_int(kernel, "spill_load_bytes", 0) > 0;
}

/* The line of the table, which is folded. */
static void put_title(struct kg_page *page, enum kg_report_kernels which, const json_t *kernels) {
    size_t i, n_spill = 0;
    const json_t *kernel;
    json_array_foreach(kernels, i, kernel) n_spill += spills(kernel);
    if (which != KG_KERNELS_THAT_SPILL)
        kg_page_fold(page, "%zu kernels: registers, spills, shared memory", json_array_size(kernels));
    else
        kg_page_fold(page, "%zu of %zu kernels spill registers; data/build.json has all", n_spill,
                     json_array_size(kernels));
}

static void put_kernels(struct kg_page *page, enum kg_report_kernels which, const json_t *kernels) {
    static const struct kg_column COLUMNS[] = {
        { "kernel", KG_COLUMN_NAME },         { "arch", KG_COLUMN_TEXT },          { "registers", KG_COLUMN_NUMBER },
        { "spill stores", KG_COLUMN_NUMBER }, { "spill loads", KG_COLUMN_NUMBER }, { "shared", KG_COLUMN_NUMBER }
    };
    static const char *const MEMBERS[] = { "registers", "spill_store_bytes", "spill_load_bytes", "shared_bytes" };
    size_t i;
    json_t *kernel;
    if (json_array_size(kernels) == 0) return;
    put_title(page, which, kernels);
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    json_array_foreach(kernels, i, kernel) {
        if (which == KG_KERNELS_THAT_SPILL && !spills(kernel)) continue;
        kg_page_cell(page, kg_report_text(kernel, "name"));
        kg_page_cell(page, kg_report_text(kernel, "arch"));
        for (size_t k = 0; k < KG_COUNT_OF(MEMBERS); k++) {
            const bool unnamed = which == KG_KERNELS_FORMAT_2 && strncmp(MEMBERS[k], "spill_", 6) == 0;
            char *text = unnamed ? NULL : value_text(MEMBERS[k], json_object_get(kernel, MEMBERS[k]));
            kg_page_cell(page, text);
            free(text);
        }
    }
    kg_page_table_end(page);
    kg_page_unfold(page);
}

void kg_section_environment(const struct kg_report *report, struct kg_page *page) {
    static const char *const LEFT[] = { "gpus", "kernels", NULL };
    const struct kg_export *run = report->run;
    const struct {
        const char *title;
        const json_t *object;
    } parts[] = { { "Source", run->source }, { "Build", run->build }, { "Machine", run->env } };
    size_t i;
    json_t *gpu;
    kg_page_section(page, "Environment");
    for (size_t k = 0; k < KG_COUNT_OF(parts); k++) {
        kg_page_heading(page, parts[k].title);
        kg_page_facts(page);
        put_members(page, "", parts[k].object, LEFT);
        if (parts[k].object == run->env && run->env) {
            json_array_foreach(json_object_get(run->env, "gpus"), i, gpu) {
                char prefix[32];
                snprintf(prefix, sizeof prefix, "GPU %zu", i);
                put_members(page, prefix, gpu, LEFT);
            }
        }
        kg_page_table_end(page);
    }
    put_kernels(page, report->kernels, json_object_get(run->build, "kernels"));
}
