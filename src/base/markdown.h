/* Markdown tables, cell by cell, of text that stands for itself. */
#ifndef KIGO_BASE_MARKDOWN_H
#define KIGO_BASE_MARKDOWN_H

#include "base/buffer.h"

/* The text as KG_MEDIUM_MARKDOWN has it (base/escape.h). */
void kg_markdown_put(struct kg_buffer *out, const char *text);
/* In a face of fixed width, also inside a table. text is not empty. */
void kg_markdown_span(struct kg_buffer *out, const char *text);

/* The first two lines of a table. columns: the heads, separated by '|', each with ':' behind it where the column is
 * aligned to the right: "case|seconds:|reason". Heads are taken as they are. */
void kg_markdown_head(struct kg_buffer *out, const char *columns);
/* The line below heads that were written as cells: n_columns, all aligned to the left. */
void kg_markdown_rule(struct kg_buffer *out, size_t n_columns);

/* A row: its cells, then the end. */
void kg_markdown_cell(struct kg_buffer *out, const char *text);                      /* escaped; NULL: empty */
void kg_markdown_cellf(struct kg_buffer *out, const char *fmt, ...) KG_PRINTF(2, 3); /* escaped */
void kg_markdown_code(struct kg_buffer *out, const char *text); /* in a face of fixed width; "": empty */
void kg_markdown_row_end(struct kg_buffer *out);

/* A row of texts, escaped. */
void kg_markdown_row(struct kg_buffer *out, const char *const *cells, size_t n_cells);

#endif
