#include "cli/bundles.h"
#include "base/escape.h"
#include "base/visible.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kg_table_add(struct kg_table *table, const char *text) {
    if ((table->n_cells & (table->n_cells + 1)) == 0) /* full at 2^n - 1 */
        table->cells = kg_xrealloc(table->cells, (table->n_cells + 1) * 2 * sizeof *table->cells);
    struct kg_buffer cell = KG_BUFFER_INIT;
    kg_escape(&cell, KG_MEDIUM_TEXT, text, strlen(text));
    table->cells[table->n_cells++] = cell.data ? cell.data : kg_xstrdup("");
}

void kg_table_addf(struct kg_table *table, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *text = kg_xvasprintf(fmt, args);
    va_end(args);
    kg_table_add(table, text);
    free(text);
}

static bool is_number(const char *text) {
    char *end;
    strtod(text, &end);
    return end == text || !*end; /* an empty cell goes with either */
}

/* A column of numbers, its head apart. */
static bool is_numeric(const struct kg_table *table, size_t column) {
    bool any = false;
    for (size_t i = table->n_columns + column; i < table->n_cells; i += table->n_columns) {
        const char *cell = table->cells[i];
        if (*cell && (!is_number(cell) || strspn(cell, "0123456789.+-eE") != strlen(cell))) return false;
        any = any || *cell;
    }
    return any;
}

static void pad(struct kg_buffer *out, size_t n) {
    while (n-- > 0) kg_buffer_puts(out, " ");
}

void kg_table_print(const struct kg_table *table, struct kg_buffer *out) {
    const size_t n = table->n_columns;
    size_t *widths = kg_xcalloc(n, sizeof *widths);
    bool *numeric = kg_xcalloc(n, sizeof *numeric);
    for (size_t i = 0; i < table->n_cells; i++) {
        const size_t width = kg_visible_width(table->cells[i]);
        if (width > widths[i % n]) widths[i % n] = width;
    }
    for (size_t c = 0; c < n; c++) numeric[c] = is_numeric(table, c);
    for (size_t i = 0; i < table->n_cells; i++) {
        const size_t column = i % n, gap = widths[column] - kg_visible_width(table->cells[i]);
        if (numeric[column]) pad(out, gap);
        kg_buffer_puts(out, table->cells[i]);
        while (column + 1 == n && out->len > 0 && out->data[out->len - 1] == ' ') out->len--;
        if (column + 1 == n) kg_buffer_puts(out, "\n");
        else pad(out, (numeric[column] ? 0 : gap) + 2);
    }
    free(numeric);
    free(widths);
}

void kg_table_free(struct kg_table *table) {
    for (size_t i = 0; i < table->n_cells; i++) free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->n_cells = 0;
}
