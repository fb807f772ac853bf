/* kigo query: SQL over the history. */
#include "base/size.h"
#include "base/utf8.h"
#include "bundle/export.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The shortest decimal that reads back as the same number. */
static void format_real(double value, char text[40]) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 40, "%.*g", digits, value);
        if (strtod(text, NULL) == value) return;
    }
}

/* A cell as text; a blob as x'..', NULL as what the format says. Appended. */
static void cell_text(const struct kg_cell *cell, const char *null_text, struct kg_buffer *out) {
    char real[40];
    switch (cell->kind) {
    case KG_CELL_NULL: kg_buffer_puts(out, null_text); break;
    case KG_CELL_INT: kg_buffer_printf(out, "%lld", (long long)cell->integer); break;
    case KG_CELL_REAL:
        format_real(cell->real, real);
        kg_buffer_puts(out, real);
        break;
    case KG_CELL_TEXT: kg_buffer_append(out, cell->text, cell->size_bytes); break;
    case KG_CELL_BLOB:
        kg_buffer_puts(out, "x'");
        for (size_t i = 0; i < cell->size_bytes; i++) kg_buffer_printf(out, "%02x", (unsigned char)cell->text[i]);
        kg_buffer_puts(out, "'");
        break;
    }
}

static json_t *cell_json(const struct kg_cell *cell) {
    if (cell->kind == KG_CELL_INT) return json_integer(cell->integer);
    if (cell->kind == KG_CELL_REAL) return isfinite(cell->real) ? json_real(cell->real) : json_null();
    if (cell->kind == KG_CELL_NULL) return json_null();
    struct kg_buffer text = KG_BUFFER_INIT;
    cell_text(cell, "", &text);
    struct kg_buffer clean = KG_BUFFER_INIT;
    kg_utf8_append(&clean, kg_buffer_text(&text), text.len);
    json_t *value = json_stringn(kg_buffer_text(&clean), clean.len);
    kg_buffer_free(&clean);
    kg_buffer_free(&text);
    return value;
}

static bool add_json(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    json_t *rows = arg;
    if (!cells) return true;
    json_t *row = json_object();
    for (size_t i = 0; i < n_columns; i++) {
        /* A name that comes twice would lose a column: later ones get their number. */
        char *name = json_object_get(row, names[i]) ? kg_xasprintf("%s_%zu", names[i], i + 1) : kg_xstrdup(names[i]);
        json_object_set_new(row, name, cell_json(&cells[i]));
        free(name);
    }
    json_array_append_new(rows, row);
    return true;
}

static bool add_csv(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_buffer *out = arg;
    for (size_t i = 0; i < n_columns; i++) {
        struct kg_buffer text = KG_BUFFER_INIT;
        if (cells) cell_text(&cells[i], "", &text);
        else kg_buffer_puts(&text, names[i]);
        kg_csv_put(out, kg_buffer_text(&text), text.len, i + 1 == n_columns ? "\r\n" : ",");
        kg_buffer_free(&text);
    }
    return true;
}

static bool add_row(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_table *table = arg;
    table->n_columns = n_columns;
    for (size_t i = 0; i < n_columns; i++) {
        struct kg_buffer text = KG_BUFFER_INIT;
        if (cells) cell_text(&cells[i], "NULL", &text);
        else kg_buffer_puts(&text, names[i]);
        kg_table_add(table, kg_buffer_text(&text));
        kg_buffer_free(&text);
    }
    return true;
}

static enum kg_status query_text(struct kg_history *history, const char *sql, bool csv, struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    struct kg_table table = { 0 };
    const enum kg_status status =
        kg_history_query(history, sql, NULL, 0, csv ? add_csv : add_row, csv ? (void *)&out : (void *)&table, err);
    if (status == KG_OK && !csv) kg_table_print(&table, &out);
    kg_table_free(&table);
    if (status == KG_OK) return kg_cli_print(&out, err);
    kg_buffer_free(&out);
    return status;
}

static enum kg_status query(const char *root, const char *sql, bool json, bool csv, struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = kg_cli_history_open("query", root, &history, err);
    if (status != KG_OK) return status;
    if (json) {
        json_t *rows = json_array();
        status = kg_history_query(history, sql, NULL, 0, add_json, rows, err);
        if (status == KG_OK) status = kg_cli_print_json(rows, err);
        else json_decref(rows);
    } else {
        status = query_text(history, sql, csv, err);
    }
    kg_history_close(history);
    return status;
}

int kg_cmd_query(int argc, char **argv) {
    const char *bundles = NULL;
    bool json = false, csv = false, helped;
    const struct kg_option options[] = {
        KG_BUNDLES_OPTION(&bundles),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &json, .help = "print a JSON array, an object a row" },
        { .name = "csv", .kind = KG_OPTION_FLAG, .value = &csv, .help = "print CSV with a head line" },
    };
    const struct kg_command command = {
        .name = "kigo query",
        .usage = "SQL [--bundles DIR] [--json|--csv]",
        .summary =
            "Asks the history by one SQL statement that only reads. Tables:\n"
            "  bundle(bundle_id, path, state, verdict, exit_code, started_us, sealed_us, git_commit, git_branch,\n"
            "         git_dirty, content_sha256, env_id, build_id, seed, n_planned, n_pass, n_fail, n_skip,\n"
            "         n_crash, n_timeout, n_norun, overhead_share, manifest_sha256, sig_state)\n"
            "  tcase(case_id, case_key, suite, layer, op, name, backend, dtype, shape, spec, def_sha)\n"
            "  result(result_id, bundle_id, case_id, status, reason, seed, started_us, duration_ns)\n"
            "  metric(result_id, seq, name, unit, value, tol, n, median, mad, ci_lo, ci_hi, valid)\n"
            "  env(env_id, ...)  build(build_id, ...)  annotation(bundle_id, case_key, ...)",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char **args;
    size_t n_args;
    struct kg_error err;
    if (kg_options_parse(&command, argc, argv, &args, &n_args, &helped, &err) != KG_OK)
        return kg_cli_error("query", &err);
    const char *sql = n_args > 0 ? args[0] : "";
    free(args);
    if (helped) return KG_EXIT_OK;
    if (json && csv) {
        kg_fail(&err, KG_ERR_USAGE, "--json and --csv exclude each other");
        return kg_cli_error("query", &err);
    }
    return query(kg_cli_bundles_root(bundles), sql, json, csv, &err) == KG_OK ? KG_EXIT_OK
                                                                              : kg_cli_error("query", &err);
}
