#include "report/page.h"
#include "base/escape.h"
#include "base/markdown.h"
#include "base/size.h"
#include "report/page_style.h"
#include "report/plot.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_html(const struct kg_page *page) {
    return page->format == KG_PAGE_HTML;
}

static void put_text(struct kg_page *page, const char *text) {
    kg_escape(&page->body, is_html(page) ? KG_MEDIUM_HTML : KG_MEDIUM_MARKDOWN, text, strlen(text));
}

/* What the words of records and judgements mean to a reader. */
static const char *tone_of(const char *word) {
    static const struct {
        const char *word, *tone;
    } TONES[] = { { "pass", "good" },          { "fail", "bad" },        { "crash", "bad" },
                  { "timeout", "bad" },        { "norun", "bad" },       { "skip", "warn" },
                  { "incomplete", "bad" },     { "partial", "warn" },    { "regression", "bad" },
                  { "regressed", "bad" },      { "missing", "bad" },     { "inconclusive", "warn" },
                  { "incomparable", "warn" },  { "waived", "warn" },     { "better", "good" },
                  { "no regression", "good" }, { "met", "good" },        { "missed", "bad" },
                  { "unproven", "warn" },      { "sound", "good" },      { "unsound", "bad" },
                  { "worse", "bad" },          { "goals missed", "bad" } };
    for (size_t i = 0; i < KG_COUNT_OF(TONES); i++)
        if (strcmp(TONES[i].word, word) == 0) return TONES[i].tone;
    return "plain";
}

void kg_page_free(struct kg_page *page) {
    struct kg_buffer *const buffers[] = { &page->body, &page->title, &page->navigation, &page->style, &page->no_plots };
    for (size_t i = 0; i < KG_COUNT_OF(buffers); i++) kg_buffer_free(buffers[i]);
}

void kg_page_title(struct kg_page *page, const char *title, const char *status) {
    if (is_html(page)) {
        kg_escape(&page->title, KG_MEDIUM_HTML, title, strlen(title));
        kg_buffer_printf(&page->body, "<h1>%s", kg_buffer_text(&page->title));
        if (status) kg_buffer_printf(&page->body, " <span class=\"word %s\">", tone_of(status));
        if (status) put_text(page, status);
        kg_buffer_printf(&page->body, "%s</h1>\n", status ? "</span>" : "");
    } else {
        kg_buffer_puts(&page->body, "# ");
        put_text(page, title);
        if (status) kg_buffer_puts(&page->body, ": ");
        if (status) put_text(page, status);
        kg_buffer_puts(&page->body, "\n");
    }
}

void kg_page_section(struct kg_page *page, const char *title) {
    const size_t n = ++page->n_sections;
    if (!is_html(page)) {
        kg_buffer_printf(&page->body, "\n## %s\n", title);
        return;
    }
    kg_buffer_printf(&page->body, "<h2 id=\"s%zu\">%s</h2>\n", n, title);
    kg_buffer_printf(&page->navigation, "<a href=\"#s%zu\">%s</a>", n, title);
}

void kg_page_heading(struct kg_page *page, const char *title) {
    kg_buffer_puts(&page->body, is_html(page) ? "<h3>" : "\n### ");
    put_text(page, title);
    kg_buffer_puts(&page->body, is_html(page) ? "</h3>\n" : "\n");
}

#define FORMATTED(text)                                                                                                \
    va_list args;                                                                                                      \
    va_start(args, fmt);                                                                                               \
    char *text = kg_xvasprintf(fmt, args);                                                                             \
    va_end(args)

void kg_page_text(struct kg_page *page, const char *fmt, ...) {
    FORMATTED(text);
    kg_buffer_puts(&page->body, is_html(page) ? "<p>" : "\n");
    put_text(page, text);
    kg_buffer_puts(&page->body, is_html(page) ? "</p>\n" : "\n");
    free(text);
}

void kg_page_alert(struct kg_page *page, const char *fmt, ...) {
    FORMATTED(text);
    kg_buffer_puts(&page->body, is_html(page) ? "<p class=\"bad\">" : "\n**");
    put_text(page, text);
    kg_buffer_puts(&page->body, is_html(page) ? "</p>\n" : "**\n");
    free(text);
}

void kg_page_table(struct kg_page *page, const struct kg_column *columns, size_t n_columns) {
    page->columns = columns;
    page->n_columns = n_columns;
    page->column = 0;
    page->in_table = page->facts = false;
}

void kg_page_facts(struct kg_page *page) {
    static const struct kg_column COLUMNS[] = { { "what", KG_COLUMN_TEXT }, { "value", KG_COLUMN_NAME } };
    kg_page_table(page, COLUMNS, KG_COUNT_OF(COLUMNS));
    page->facts = true;
}

static const char *const CLASSES[] = {
    [KG_COLUMN_TEXT] = "text", [KG_COLUMN_NAME] = "name", [KG_COLUMN_NUMBER] = "number", [KG_COLUMN_STATUS] = "status"
};

static void html_heads(struct kg_page *page) {
    const size_t table = page->n_tables;
    kg_buffer_printf(&page->body, "<table id=\"t%zu\"><thead><tr>", table);
    for (size_t i = 0; i < page->n_columns; i++) {
        const struct kg_column *column = &page->columns[i];
        kg_buffer_printf(&page->body, "<th scope=\"col\" class=\"%s\">%s</th>", CLASSES[column->kind], column->head);
        if (column->kind == KG_COLUMN_NUMBER || (i > 0 && column->kind != KG_COLUMN_STATUS))
            kg_buffer_printf(&page->style, "#t%zu td:nth-child(%zu)::before{content:\"%s \"}\n", table, i + 1,
                             column->head);
    }
    kg_buffer_puts(&page->body, "</tr></thead><tbody>\n");
}

static void markdown_heads(struct kg_page *page) {
    struct kg_buffer heads = KG_BUFFER_INIT;
    for (size_t i = 0; i < page->n_columns; i++)
        kg_buffer_printf(&heads, "%s%s%s", i ? "|" : "", page->columns[i].head,
                         page->columns[i].kind == KG_COLUMN_NUMBER ? ":" : "");
    kg_buffer_puts(&page->body, "\n");
    kg_markdown_head(&page->body, kg_buffer_text(&heads));
    kg_buffer_free(&heads);
}

static void begin_cell(struct kg_page *page) {
    if (!page->in_table) {
        page->n_tables++;
        if (is_html(page) && page->facts) kg_buffer_puts(&page->body, "<table class=\"facts\"><tbody>\n");
        else if (is_html(page)) html_heads(page);
        else markdown_heads(page);
        page->in_table = true;
    }
    if (page->column == 0 && is_html(page)) kg_buffer_puts(&page->body, "<tr>");
}

void kg_page_cell(struct kg_page *page, const char *text) {
    kg_page_cell_lines(page, &text, text ? 1 : 0);
}

/* What stands before a cell's text. */
static void open_cell(struct kg_page *page, const char *first) {
    begin_cell(page);
    if (!is_html(page)) {
        kg_buffer_puts(&page->body, "| ");
        return;
    }
    const enum kg_column_kind kind = page->columns[page->column].kind;
    const char *tone = kind == KG_COLUMN_STATUS ? tone_of(first) : NULL;
    if (page->facts && page->column == 0) kg_buffer_puts(&page->body, "<th scope=\"row\">");
    else kg_buffer_printf(&page->body, "<td class=\"%s%s%s\">", CLASSES[kind], tone ? " " : "", tone ? tone : "");
}

static void close_cell(struct kg_page *page) {
    if (is_html(page)) kg_buffer_puts(&page->body, page->facts && page->column == 0 ? "</th>" : "</td>");
    else kg_buffer_puts(&page->body, " ");
    if (++page->column < page->n_columns) return;
    page->column = 0;
    kg_buffer_puts(&page->body, is_html(page) ? "</tr>\n" : "|\n");
}

void kg_page_cell_lines(struct kg_page *page, const char *const *lines, size_t n_lines) {
    open_cell(page, n_lines > 0 ? lines[0] : "");
    for (size_t i = 0; i < n_lines; i++) {
        if (i > 0) kg_buffer_puts(&page->body, "<br>");
        put_text(page, lines[i]);
    }
    close_cell(page);
}

void kg_page_cell_link(struct kg_page *page, const char *url, const char *text) {
    open_cell(page, text);
    if (is_html(page)) {
        kg_buffer_puts(&page->body, "<a href=\"");
        put_text(page, url);
        kg_buffer_puts(&page->body, "\">");
    }
    put_text(page, text);
    if (is_html(page)) kg_buffer_puts(&page->body, "</a>");
    close_cell(page);
}

void kg_page_cellf(struct kg_page *page, const char *fmt, ...) {
    FORMATTED(text);
    kg_page_cell(page, text);
    free(text);
}

void kg_page_table_end(struct kg_page *page) {
    if (page->in_table && is_html(page)) kg_buffer_puts(&page->body, "</tbody></table>\n");
    page->in_table = false;
}

void kg_page_fold(struct kg_page *page, const char *fmt, ...) {
    FORMATTED(text);
    kg_buffer_puts(&page->body, is_html(page) ? "<details><summary>" : "\n");
    put_text(page, text);
    kg_buffer_puts(&page->body, is_html(page) ? "</summary>\n" : "\n");
    free(text);
}

void kg_page_unfold(struct kg_page *page) {
    if (is_html(page)) kg_buffer_puts(&page->body, "</details>\n");
}

void kg_page_plot(struct kg_page *page, const char *script, const char *says) {
    char why[KG_PLOT_WHY_SIZE];
    if (!is_html(page) || !page->plots) return;
    struct kg_buffer svg = KG_BUFFER_INIT;
    if (kg_plot_svg(script, ++page->n_plots, says, &svg, why)) {
        kg_buffer_printf(&page->body, "<figure>%s<figcaption>", kg_buffer_text(&svg));
        put_text(page, says);
        kg_buffer_puts(&page->body, "</figcaption></figure>\n");
    } else {
        kg_buffer_clear(&page->no_plots);
        kg_buffer_puts(&page->no_plots, why);
    }
    kg_buffer_free(&svg);
}

static void put_head(const struct kg_page *page, struct kg_buffer *out) {
    const struct kg_page_served *served = page->served.nonce ? &page->served : NULL;
    kg_buffer_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    if (!served)
        kg_buffer_puts(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                            "'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n");
    kg_buffer_printf(out,
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                     "<meta name=\"generator\" content=\"kigo " PACKAGE_VERSION "\">\n<title>%s</title>\n",
                     kg_buffer_text(&page->title));
    if (served) kg_buffer_printf(out, "<script src=\"%s\" defer></script>\n", served->script);
    if (served) kg_buffer_printf(out, "<style nonce=\"%s\">\n%s%s", served->nonce, KG_PAGE_STYLE, served->style);
    else kg_buffer_printf(out, "<style>\n%s", KG_PAGE_STYLE);
    kg_buffer_printf(out, "@media screen and (max-width:46rem){\n%s}\n</style></head>\n<body>\n",
                     kg_buffer_text(&page->style));
}

static void put_html(struct kg_page *page, struct kg_buffer *out) {
    put_head(page, out);
    const char *body = kg_buffer_text(&page->body), *head_end = strstr(body, "<h2");
    const size_t head = head_end ? (size_t)(head_end - body) : page->body.len;
    kg_buffer_append(out, body, head);
    kg_buffer_printf(out, "<nav>%s</nav>\n<main>\n%s</main>\n</body></html>\n", kg_buffer_text(&page->navigation),
                     body + head);
}

void kg_page_finish(struct kg_page *page, struct kg_buffer *out) {
    if (page->no_plots.len > 0) kg_page_text(page, "No plots: %s.", kg_buffer_text(&page->no_plots));
    if (is_html(page)) put_html(page, out);
    else kg_buffer_puts(out, kg_buffer_text(&page->body));
    kg_page_free(page);
}
