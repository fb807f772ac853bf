#include "base/markdown.h"
#include "base/escape.h"
#include "base/visible.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kg_markdown_put(struct kg_buffer *out, const char *text) {
    kg_escape(out, KG_MEDIUM_MARKDOWN, text, strlen(text));
}

/* Nothing in a code span is markup but a run of as many backticks as began it, and the '|' of a table around it. */
void kg_markdown_span(struct kg_buffer *out, const char *text) {
    struct kg_buffer visible = KG_BUFFER_INIT;
    kg_visible_put(&visible, text, strlen(text), KG_BREAKS_BLANK);
    const char *shown = kg_buffer_text(&visible);
    size_t fence = 1;
    for (const char *s = strchr(shown, '`'); s; s = strchr(s, '`')) {
        const size_t run = strspn(s, "`");
        if (run >= fence) fence = run + 1;
        s += run;
    }
    const char *blank = fence > 1 ? " " : "";
    for (size_t i = 0; i < fence; i++) kg_buffer_puts(out, "`");
    kg_buffer_puts(out, blank);
    for (; *shown; shown++) {
        if (*shown == '|') kg_buffer_puts(out, "\\");
        kg_buffer_append(out, shown, 1);
    }
    kg_buffer_puts(out, blank);
    for (size_t i = 0; i < fence; i++) kg_buffer_puts(out, "`");
    kg_buffer_free(&visible);
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
    va_list args;
    va_start(args, fmt);
    char *text = kg_xvasprintf(fmt, args);
    va_end(args);
    kg_markdown_cell(out, text);
    free(text);
}

void kg_markdown_code(struct kg_buffer *out, const char *text) {
    kg_buffer_puts(out, "| ");
    if (*text) kg_markdown_span(out, text);
    kg_buffer_puts(out, " ");
}

void kg_markdown_row_end(struct kg_buffer *out) {
    kg_buffer_puts(out, "|\n");
}

void kg_markdown_row(struct kg_buffer *out, const char *const *cells, size_t n_cells) {
    for (size_t i = 0; i < n_cells; i++) kg_markdown_cell(out, cells[i]);
    kg_markdown_row_end(out);
}
