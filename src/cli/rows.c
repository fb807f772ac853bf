#include "cli/rows.h"
#include "base/json_put.h"
#include "base/markdown.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
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

/* A number that is not finite is null, and text is made valid UTF-8. */
static json_t *cell_json(const struct kg_cell *cell) {
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
        json_object_set_new(row, name, cell_json(&cells[i]));
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

/* Columns whose unit is in their name: how much of it is the unit. */
static const struct {
    const char *name, *unit, *shown; /* shown: NULL: what comes before `name` */
} SUFFIXES[] = { { "_ns", "ns", NULL }, { "_bytes", "bytes", NULL }, { "seconds", "s", "duration" } };

static bool is_unit(const char *name) {
    return strcmp(name, "unit") == 0;
}

/* NULL: the name says no unit. */
static const char *unit_of_name(const char *name, char shown[64]) {
    const size_t len = strlen(name);
    snprintf(shown, 64, "%s", name);
    for (size_t i = 0; i < KG_COUNT_OF(SUFFIXES); i++) {
        const size_t n = strlen(SUFFIXES[i].name);
        if (len < n || strcmp(name + len - n, SUFFIXES[i].name) != 0) continue;
        if (SUFFIXES[i].shown) snprintf(shown, 64, "%s", SUFFIXES[i].shown);
        else snprintf(shown, 64, "%.*s", (int)(len - n), name);
        return SUFFIXES[i].unit;
    }
    return NULL;
}

/* What the row's column `unit` says of a column of figures; NULL: nothing. */
static const char *unit_of_row(size_t n_columns, const char *const *names, const struct kg_cell *cells, size_t column) {
    static const char *const FIGURES[] = { "a",     "b",   "baseline", "run",   "before", "after",
                                           "value", "tol", "mad",      "ci_lo", "ci_hi" };
    for (size_t i = 0; i < KG_COUNT_OF(FIGURES); i++) {
        if (strcmp(names[column], FIGURES[i]) != 0) continue;
        for (size_t k = 0; k < n_columns; k++)
            if (is_unit(names[k]) && cells[k].kind == KG_CELL_TEXT) return cells[k].text;
    }
    return NULL;
}

static double number_of(const struct kg_cell *cell) {
    return cell->kind == KG_CELL_REAL ? cell->real : cell->kind == KG_CELL_INT ? (double)cell->integer : NAN;
}

/* What a figure stands beside in its row; NaN where it stands alone. */
static double beside(size_t n_columns, const char *const *names, const struct kg_cell *cells, size_t column) {
    static const char *const PAIRS[][2] = { { "a", "b" }, { "baseline", "run" }, { "before", "after" } };
    for (size_t i = 0; i < 2 * KG_COUNT_OF(PAIRS); i++) {
        const char *const *pair = PAIRS[i / 2];
        for (size_t k = 0; k < n_columns && strcmp(names[column], pair[i % 2]) == 0; k++)
            if (strcmp(names[k], pair[1 - i % 2]) == 0) return number_of(&cells[k]);
    }
    return NAN;
}

/* A head, or a cell with its unit. */
static void people_text(const struct kg_rows *rows, size_t n_columns, const char *const *names,
                        const struct kg_cell *cells, size_t i, struct kg_buffer *out) {
    char shown[64];
    const char *unit = unit_of_name(names[i], shown);
    if (!cells) {
        kg_buffer_puts(out, shown);
        return;
    }
    if (!unit) unit = unit_of_row(n_columns, names, cells, i);
    if (unit && (cells[i].kind == KG_CELL_REAL || cells[i].kind == KG_CELL_INT))
        kg_buffer_puts(out, kg_quantity_beside(number_of(&cells[i]), beside(n_columns, names, cells, i), unit).text);
    else cell_text(&cells[i], rows->null_text, rows->digits, out);
}

static bool is_left_out(const struct kg_rows *rows, const char *name) {
    return rows->for_people && !rows->format.csv && is_unit(name);
}

bool kg_rows_add(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_rows *rows = arg;
    rows->n_rows += cells != NULL;
    if (rows->format.json) {
        add_json(rows, n_columns, names, cells);
        return true;
    }
    size_t n_shown = 0;
    for (size_t i = 0; i < n_columns; i++) n_shown += !is_left_out(rows, names[i]);
    rows->table.n_columns = n_shown;
    rows->table.coloured = true;
    for (size_t i = 0; i < n_columns; i++) {
        struct kg_buffer text = KG_BUFFER_INIT;
        if (is_left_out(rows, names[i])) continue;
        if (rows->for_people && !rows->format.csv) people_text(rows, n_columns, names, cells, i, &text);
        else if (!cells) kg_buffer_puts(&text, names[i]);
        else if (rows->format.csv) cell_text(&cells[i], "", 0, &text);
        else cell_text(&cells[i], rows->null_text, rows->digits, &text);
        add_text(rows, i, n_columns, &text);
        kg_buffer_free(&text);
    }
    if (rows->format.markdown && !cells) kg_markdown_rule(&rows->text, n_shown);
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
    return kg_rows_ask(history, &(struct kg_sql){ sql, sql }, args, n_args, rows, err);
}

enum kg_status kg_rows_ask(struct kg_history *history, const struct kg_sql *sql, const char *const *args, size_t n_args,
                           struct kg_rows *rows, struct kg_error *err) {
    const enum kg_status status = kg_history_ask(history, sql, args, n_args, kg_rows_add, rows, err);
    if (status == KG_OK) return kg_rows_print(rows, err);
    kg_rows_free(rows);
    return status;
}

void kg_section_put(const char *title, const struct kg_rows_options *format, struct kg_buffer *out) {
    kg_buffer_printf(out, format->markdown ? "\n#### %s\n\n" : "\n%s\n", title);
}
