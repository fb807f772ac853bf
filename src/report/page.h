/* A page of headings, paragraphs, tables and plots, written once and rendered as HTML or Markdown.
 *
 * HTML: one file without scripts or outside requests (a Content-Security-Policy says so to the browser too); light and
 * dark by the reader's preference; on a small screen a table's rows become blocks whose cells name their columns; print
 * leaves the navigation out. Whatever text is given may come from hostile records: markup is escaped, and control
 * characters and those that change the direction of text are shown by their code points. */
#ifndef KIGO_REPORT_PAGE_H
#define KIGO_REPORT_PAGE_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

enum kg_page_format { KG_PAGE_HTML, KG_PAGE_MARKDOWN };

enum kg_column_kind {
    KG_COLUMN_TEXT,
    KG_COLUMN_NAME,   /* a key, a hash: in a face of fixed width, breaks anywhere */
    KG_COLUMN_NUMBER, /* to the right */
    KG_COLUMN_STATUS, /* a word in the colour of what it means */
};
struct kg_column {
    const char *head; /* of letters, digits, blanks, '/', '%' and '.': it stands in a style sheet */
    enum kg_column_kind kind;
};

/* HTML that a server sends, with a policy in its head lines instead of the page's. */
struct kg_page_served {
    const char *nonce;  /* of the page's style, named by the policy: letters and digits */
    const char *style;  /* more rules */
    const char *script; /* path of the script that helps, and is not needed */
};

struct kg_page {
    enum kg_page_format format;
    struct kg_page_served served;    /* without a nonce it is a file */
    bool plots;                      /* false: kg_page_plot does nothing */
    struct kg_buffer body;           /* what has been written */
    struct kg_buffer title;          /* escaped, for HTML's head */
    struct kg_buffer navigation;     /* HTML: links to the sections */
    struct kg_buffer style;          /* HTML: the names of columns on small screens */
    struct kg_buffer no_plots;       /* why plots are missing; empty if none is */
    const struct kg_column *columns; /* of the table under way */
    size_t n_columns, column;        /* column: cells of the row under way */
    bool in_table, facts;            /* facts: the table is one of names and values */
    size_t n_sections, n_tables, n_plots;
};
#define KG_PAGE_INIT(format_, plots_)                                                                                  \
    { .format = (format_), .plots = (plots_) }
void kg_page_free(struct kg_page *page);

/* The heading of it all; status: a word ("pass") beside it, or NULL. */
void kg_page_title(struct kg_page *page, const char *title, const char *status);
void kg_page_section(struct kg_page *page, const char *title); /* a constant of this program */
void kg_page_heading(struct kg_page *page, const char *title); /* below a section */
void kg_page_text(struct kg_page *page, const char *fmt, ...) KG_PRINTF(2, 3);

void kg_page_alert(struct kg_page *page, const char *fmt, ...) KG_PRINTF(2, 3); /* a paragraph nobody may miss */

/* A table: begun, filled cell by cell, row after row, ended. One without a row leaves nothing. */
void kg_page_table(struct kg_page *page, const struct kg_column *columns, size_t n_columns);
/* Of two columns without heads in HTML: what, and its value. */
void kg_page_facts(struct kg_page *page);
void kg_page_cell(struct kg_page *page, const char *text); /* NULL: empty */
void kg_page_cell_lines(struct kg_page *page, const char *const *lines, size_t n_lines);
void kg_page_cellf(struct kg_page *page, const char *fmt, ...) KG_PRINTF(2, 3);
/* HTML: a link. url: already percent-encoded. */
void kg_page_cell_link(struct kg_page *page, const char *url, const char *text);
void kg_page_table_end(struct kg_page *page);

/* What is between opens on demand; in Markdown it follows its summary. */
void kg_page_fold(struct kg_page *page, const char *fmt, ...) KG_PRINTF(2, 3);
void kg_page_unfold(struct kg_page *page);

/* HTML: the picture a gnuplot script draws (report/plot.h), `says` in words what it shows. Without gnuplot the page
 * says so at its end. Markdown: nothing. */
void kg_page_plot(struct kg_page *page, const char *script, const char *says);

/* Appends the whole page and frees it. */
void kg_page_finish(struct kg_page *page, struct kg_buffer *out);

#endif
