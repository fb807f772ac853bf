#include "cli/rows.h"
#include "base/json_put.h"
#include "base/markdown.h"
#include "base/say.h"
#include "base/utf8.h"
#include "bundle/export.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kg_status kg_rows_check(const struct kg_rows_options *o, struct kg_error *err) {
    return o->json + o->csv + o->markdown <= 1
               ? KG_OK
               : kg_fail(err, KG_ERR_USAGE, "--json, --csv and --markdown exclude each other");
}

/* The shortest decimal that reads back as the same number; with digits, at most so many. */
static void format_real(double value, int digits, char text[40]) {
    for (int n = digits > 0 ? digits : 15; n <= 17; n++) {
        snprintf(text, 40, "%.*g", n, value);
        if (digits > 0 || strtod(text, NULL) == value) return;
    }
}

/* A cell as text, appended; a blob as x'..'. */
static void cell_text(const struct kg_cell *cell, const char *null_text, int digits, struct kg_buffer *out) {
    char real[40];
    switch (cell->kind) {
    case KG_CELL_NULL: kg_buffer_puts(out, null_text); break;
    case KG_CELL_INT: kg_buffer_printf(out, "%lld", (long long)cell->integer); break;
    case KG_CELL_REAL:
        format_real(cell->real, digits, real);
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

json_t *kg_cell_json(const struct kg_cell *cell) {
    if (cell->kind == KG_CELL_INT) return json_integer(cell->integer);
    if (cell->kind == KG_CELL_REAL) return kg_cli_number_json(cell->real);
    if (cell->kind == KG_CELL_NULL) return json_null();
    struct kg_buffer text = KG_BUFFER_INIT, clean = KG_BUFFER_INIT;
    cell_text(cell, "", 0, &text);
    kg_utf8_append(&clean, kg_buffer_text(&text), text.len);
    json_t *value = json_stringn(kg_buffer_text(&clean), clean.len);
    kg_buffer_free(&clean);
    kg_buffer_free(&text);
    return value;
}

json_t *kg_cli_number_json(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void add_json(struct kg_rows *rows, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    if (!rows->json) rows->json = json_array();
    if (!cells) return;
    json_t *row = json_object();
    for (size_t i = 0; i < n_columns; i++) {
        /* A name that comes twice would lose a column: later ones get their number. */
        char *name = json_object_get(row, names[i]) ? kg_xasprintf("%s_%zu", names[i], i + 1) : kg_xstrdup(names[i]);
        json_object_set_new(row, name, kg_cell_json(&cells[i]));
        free(name);
    }
    json_array_append_new(rows->json, row);
}

static void add_text(struct kg_rows *rows, size_t column, size_t n_columns, const struct kg_buffer *text) {
    if (rows->format.csv) {
        kg_csv_put(&rows->text, kg_buffer_text(text), text->len, column + 1 == n_columns ? "\r\n" : ",");
    } else if (rows->format.markdown) {
        kg_markdown_cell(&rows->text, kg_buffer_text(text));
        if (column + 1 == n_columns) kg_markdown_row_end(&rows->text);
    } else {
        kg_table_add(&rows->table, kg_buffer_text(text));
    }
}

bool kg_rows_add(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_rows *rows = arg;
    rows->n_rows += cells != NULL;
    if (rows->format.json) {
        add_json(rows, n_columns, names, cells);
        return true;
    }
    rows->table.n_columns = n_columns;
    rows->table.coloured = true;
    for (size_t i = 0; i < n_columns; i++) {
        struct kg_buffer text = KG_BUFFER_INIT;
        if (!cells) kg_buffer_puts(&text, names[i]);
        else if (rows->format.csv) cell_text(&cells[i], "", 0, &text);
        else cell_text(&cells[i], rows->null_text, rows->digits, &text);
        add_text(rows, i, n_columns, &text);
        kg_buffer_free(&text);
    }
    if (rows->format.markdown && !cells) kg_markdown_rule(&rows->text, n_columns);
    return true;
}

void kg_rows_put(struct kg_rows *rows, struct kg_buffer *out) {
    if (rows->format.json) {
        char *text = kg_json_dump(rows->json ? rows->json : (rows->json = json_array()), JSON_INDENT(2));
        kg_buffer_printf(out, "%s\n", text ? text : "[]");
        free(text);
    } else if (rows->format.csv || rows->n_rows > 0) {
        if (rows->table.n_cells > 0) kg_table_print(&rows->table, out);
        kg_buffer_puts(out, kg_buffer_text(&rows->text));
    }
    kg_rows_free(rows);
}

void kg_rows_free(struct kg_rows *rows) {
    json_decref(rows->json);
    rows->json = NULL;
    kg_buffer_free(&rows->text);
    kg_table_free(&rows->table);
}

enum kg_status kg_rows_print(struct kg_rows *rows, struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_rows_put(rows, &out);
    return kg_cli_print(&out, err);
}

enum kg_status kg_rows_query(struct kg_history *history, const char *sql, const char *const *args, size_t n_args,
                             struct kg_rows *rows, struct kg_error *err) {
    const enum kg_status status = kg_history_query(history, sql, args, n_args, kg_rows_add, rows, err);
    if (status == KG_OK) return kg_rows_print(rows, err);
    kg_rows_free(rows);
    return status;
}
