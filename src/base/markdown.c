#include "base/markdown.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kg_markdown_put(struct kg_buffer *out, const char *text) {
    for (const char *s = text; *s; s++) {
        if (*s == '<') kg_buffer_puts(out, "&lt;");
        else if (*s == '&') kg_buffer_puts(out, "&amp;");
        else if ((unsigned char)*s < 0x20) kg_buffer_puts(out, " ");
        else {
            if (strchr("|\\`*_[]~", *s)) kg_buffer_puts(out, "\\");
            kg_buffer_append(out, s, 1);
        }
    }
}

void kg_markdown_head(struct kg_buffer *out, const char *columns) {
    struct kg_buffer rule = KG_BUFFER_INIT;
    for (const char *at = columns; *at;) {
        const size_t len = strcspn(at, "|");
        const bool right = len > 0 && at[len - 1] == ':';
        kg_buffer_printf(out, "| %.*s ", (int)(len - right), at);
        kg_buffer_puts(&rule, right ? "| ---: " : "| --- ");
        at += len + (at[len] == '|');
    }
    kg_buffer_printf(out, "|\n%s|\n", kg_buffer_text(&rule));
    kg_buffer_free(&rule);
}

void kg_markdown_rule(struct kg_buffer *out, size_t n_columns) {
    for (size_t i = 0; i < n_columns; i++) kg_buffer_puts(out, "| --- ");
    kg_markdown_row_end(out);
}

void kg_markdown_cell(struct kg_buffer *out, const char *text) {
    kg_buffer_puts(out, "| ");
    if (text) kg_markdown_put(out, text);
    kg_buffer_puts(out, " ");
}

void kg_markdown_cellf(struct kg_buffer *out, const char *fmt, ...) {
    char *text;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0) abort();
    va_end(args);
    kg_markdown_cell(out, text);
    free(text);
}

void kg_markdown_code(struct kg_buffer *out, const char *text) {
    const char *face = *text ? "`" : "";
    kg_buffer_printf(out, "| %s%s%s ", face, text, face);
}

void kg_markdown_row_end(struct kg_buffer *out) {
    kg_buffer_puts(out, "|\n");
}

void kg_markdown_row(struct kg_buffer *out, const char *const *cells, size_t n_cells) {
    for (size_t i = 0; i < n_cells; i++) kg_markdown_cell(out, cells[i]);
    kg_markdown_row_end(out);
}
