#include "cli/written.h"
#include "base/buffer.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/bundles.h"
#include "cli/rows.h"
#include <jansson.h>

static const char *dtype_name(enum kg_dtype dtype) {
    return kg_dtype_info(dtype)->name;
}

static bool is_fallback(const struct kg_written_tensor *t) {
    return t->dtype != t->by_rules;
}

/* The last column is there if a tensor has something in it. */
static void print_table(const struct kg_written_tensor *tensors, size_t n) {
    static const char *const HEAD[] = { "tensor", "was", "is", "relative RMS error", "largest error", "instead of" };
    struct kg_table table = { .n_columns = KG_COUNT_OF(HEAD) - 1 };
    struct kg_buffer out = KG_BUFFER_INIT;
    for (size_t i = 0; i < n; i++)
        if (kg_written_is_rounded(&tensors[i]) && is_fallback(&tensors[i])) table.n_columns = KG_COUNT_OF(HEAD);
    for (size_t i = 0; i < table.n_columns; i++) kg_table_add(&table, HEAD[i]);
    for (size_t i = 0; i < n; i++) {
        const struct kg_written_tensor *t = &tensors[i];
        if (!kg_written_is_rounded(t)) continue;
        kg_table_add(&table, t->name);
        kg_table_add(&table, dtype_name(t->from));
        kg_table_add(&table, dtype_name(t->dtype));
        kg_table_addf(&table, "%.3g", kg_rounding_relative_rms(&t->rounding));
        kg_table_addf(&table, "%.3g", t->rounding.worst);
        if (table.n_columns == KG_COUNT_OF(HEAD)) kg_table_add(&table, is_fallback(t) ? dtype_name(t->by_rules) : "");
    }
    if (table.n_cells > table.n_columns) kg_table_print(&table, &out);
    kg_out_put(stdout, kg_buffer_text(&out), out.len);
    kg_buffer_free(&out);
    kg_table_free(&table);
}

void kg_cli_print_written(const struct kg_written_tensor *tensors, size_t n) {
    print_table(tensors, n);
    for (size_t i = 0; i < n; i++)
        if (is_fallback(&tensors[i]) && !kg_written_is_rounded(&tensors[i]))
            kg_say(stdout, "%s is %s: its rows are no whole blocks of %s\n", tensors[i].name,
                   dtype_name(tensors[i].dtype), dtype_name(tensors[i].by_rules));
}

json_t *kg_cli_written_json(const struct kg_written_tensor *tensors, size_t n) {
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct kg_written_tensor *t = &tensors[i];
        const bool rounded = kg_written_is_rounded(t);
        json_t *relative = rounded ? kg_cli_number_json(kg_rounding_relative_rms(&t->rounding)) : json_null();
        json_t *worst = rounded ? kg_cli_number_json(t->rounding.worst) : json_null();
        json_array_append_new(array, json_pack("{s:o, s:s, s:s, s:s, s:o, s:o}", "name", kg_json_utf8(t->name), "was",
                                               dtype_name(t->from), "is", dtype_name(t->dtype), "by_rules",
                                               dtype_name(t->by_rules), "relative_rms_error", relative, "largest_error",
                                               worst));
    }
    return array;
}
