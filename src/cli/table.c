#include "cli/bundles.h"
#include "base/escape.h"
#include "base/size.h"
#include "base/tty.h"
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

/* A number, and a unit of one word may follow; an empty cell goes with either. */
static bool is_number(const char *text) {
    char *end;
    strtod(text, &end);
    const bool with_unit = *end == ' ' && end[1] && !strpbrk(end + 1, " 0123456789");
    return strspn(text, "0123456789.+-eE") == (size_t)(end - text) && (!*end || *end == '%' || with_unit);
}

enum { GAP = 2 }; /* blanks between columns */

/* A column of numbers, its head apart. */
static bool is_numeric(const struct kg_table *table, size_t column) {
    bool any = false;
    for (size_t i = table->n_columns + column; i < table->n_cells; i += table->n_columns) {
        const char *cell = table->cells[i];
        if (!is_number(cell)) return false;
        any = any || *cell;
    }
    return any;
}

static void pad(struct kg_buffer *out, size_t n) {
    while (n-- > 0) kg_buffer_puts(out, " ");
}

struct column {
    size_t width;
    bool numeric, coloured, shown;
};

static bool has_verdicts(const char *head) {
    static const char *const HEADS[] = { "verdict", "status", "state", "judged" };
    for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++)
        if (strcmp(HEADS[i], head) == 0) return true;
    return false;
}

static struct column look_at(const struct kg_table *table, size_t column) {
    struct column c = { .numeric = is_numeric(table, column),
                        .coloured = table->coloured && has_verdicts(table->cells[column]),
                        .shown = true };
    for (size_t i = column; i < table->n_cells; i += table->n_columns) {
        const size_t width = kg_visible_width(table->cells[i]);
        if (width > c.width) c.width = width;
    }
    return c;
}

/* Whether it says nothing: zeros alone. */
static bool says_nothing(const struct kg_table *table, size_t column) {
    for (size_t i = table->n_columns + column; i < table->n_cells; i += table->n_columns)
        if (strcmp(table->cells[i], "0") != 0) return false;
    return true;
}

/* What of it is shown: columns that say nothing go first, then others in the order of table->drop. */
static void choose_columns(const struct kg_table *table, struct column *columns) {
    size_t total = 0;
    for (size_t c = 0; c < table->n_columns; c++) total += columns[c].width + (c > 0 ? GAP : 0);
    for (int pass = 0; pass < 2 && table->most_width > 0 && table->drop; pass++) {
        for (size_t i = 0; table->drop[i] && total > table->most_width; i++) {
            size_t c = 0;
            while (c < table->n_columns && strcmp(table->cells[c], table->drop[i]) != 0) c++;
            if (c == table->n_columns || !columns[c].shown || (pass == 0 && !says_nothing(table, c))) continue;
            columns[c].shown = false;
            total -= columns[c].width + GAP;
        }
    }
}

/* As much of the text as fits into so many columns, the last of them an ellipsis. */
static void put_cut(const char *text, size_t most_width, struct kg_buffer *out) {
    char *part = kg_xstrdup(text);
    size_t len = strlen(part);
    while (len > 0 && kg_visible_width(part) + 1 > most_width) {
        do len--;
        while (len > 0 && ((unsigned char)part[len] & 0xC0) == 0x80); /* not inside of a character */
        part[len] = '\0';
    }
    kg_buffer_puts(out, part);
    kg_buffer_puts(out, "\u2026");
    free(part);
}

static void print_row(const struct kg_table *table, size_t first, const struct column *columns, struct kg_buffer *out) {
    size_t at = 0, blanks = 0; /* columns of the line so far; blanks before the next cell */
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct column *c = &columns[i];
        const char *cell = table->cells[first + i];
        const size_t width = kg_visible_width(cell), gap = c->width - width;
        if (!c->shown) continue;
        if (c->numeric) blanks += gap;
        if (*cell && table->most_width > 0 && at + blanks + width > table->most_width) {
            if (at + blanks < table->most_width) {
                pad(out, blanks);
                put_cut(cell, table->most_width - at - blanks, out);
            }
            break;
        }
        if (*cell) {
            pad(out, blanks);
            if (c->coloured && first > 0) kg_colour_word(out, cell);
            else kg_buffer_puts(out, cell);
            at += blanks + width;
            blanks = 0;
        }
        blanks += (c->numeric ? 0 : gap) + GAP;
    }
    kg_buffer_puts(out, "\n");
}

void kg_table_print(const struct kg_table *table, struct kg_buffer *out) {
    const size_t n = table->n_columns;
    struct column *columns = kg_xcalloc(n, sizeof *columns);
    for (size_t c = 0; c < n && table->n_cells > 0; c++) columns[c] = look_at(table, c);
    if (table->n_cells > 0) choose_columns(table, columns);
    for (size_t first = 0; first < table->n_cells; first += n) print_row(table, first, columns, out);
    free(columns);
}

void kg_table_free(struct kg_table *table) {
    for (size_t i = 0; i < table->n_cells; i++) free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->n_cells = 0;
}
