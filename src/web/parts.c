/* What pages are put together from: addresses, links, cells, forms. */
#include "base/clock.h"
#include "base/escape.h"
#include "base/options.h"
#include "base/quantity.h"
#include "base/size.h"
#include "bundle/internal.h"
#include "bundle/records.h"
#include "web/pages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kg_web_param(const struct kg_web_view *view, const char *name) {
    for (size_t i = 0; i < view->request->n_params; i++)
        if (strcmp(view->request->params[i].name, name) == 0) return view->request->params[i].value;
    return "";
}

enum kg_status kg_web_run(const struct kg_web_view *view, json_t **run, struct kg_error *err) {
    int64_t unused;
    if (!kg_bundle_id_parse(view->name, &unused))
        return kg_fail(err, KG_ERR_NOT_FOUND, "'%.80s' is no id of a run", view->name);
    return kg_browse_run(view->history, view->name, run, err);
}

enum kg_status kg_web_range(const struct kg_web_view *view, struct kg_browse_range *range, struct kg_error *err) {
    enum { MOST_PAGES = 100000 };
    const char *text = kg_web_param(view, "page");
    int64_t n = 1;
    if (*text && (kg_parse_i64(text, &n, err) != KG_OK || n < 1 || n > MOST_PAGES))
        return kg_fail(err, KG_ERR_USAGE, "page: a number from 1 to %d", MOST_PAGES);
    *range = (struct kg_browse_range){ .n_before = (size_t)(n - 1) * KG_WEB_ROWS, .n_most = KG_WEB_ROWS + 1 };
    return KG_OK;
}

size_t kg_web_shown(const json_t *rows) {
    const size_t n = json_array_size(rows);
    return n < KG_WEB_ROWS ? n : KG_WEB_ROWS;
}

/* RFC 3986: unreserved characters stand, all others are percent-encoded. */
void kg_web_url_part(struct kg_buffer *url, const char *text) {
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        const bool plain =
            (*s >= '0' && *s <= '9') || (*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') || strchr("-._~", *s);
        if (plain) kg_buffer_append(url, s, 1);
        else kg_buffer_printf(url, "%%%02X", *s);
    }
}

void kg_web_url_add(struct kg_buffer *url, const char *name, const char *value) {
    kg_buffer_puts(url, strchr(kg_buffer_text(url), '?') ? "&" : "?");
    kg_web_url_part(url, name);
    kg_buffer_puts(url, "=");
    kg_web_url_part(url, value);
}

static void put(struct kg_page *page, const char *text) {
    kg_escape(&page->body, KG_MEDIUM_HTML, text, strlen(text));
}

static void put_link(struct kg_page *page, const char *url, const char *text) {
    kg_buffer_puts(&page->body, "<a href=\"");
    put(page, url);
    kg_buffer_puts(&page->body, "\">");
    put(page, text);
    kg_buffer_puts(&page->body, "</a>");
}

void kg_web_link(struct kg_page *page, const char *url, const char *text) {
    kg_buffer_puts(&page->body, "<p>");
    put_link(page, url, text);
    kg_buffer_puts(&page->body, "</p>\n");
}

static void page_link(const struct kg_web_view *view, size_t number, const char *text) {
    struct kg_buffer url = KG_BUFFER_INIT;
    char digits[24];
    const char *path = view->request->path;
    snprintf(digits, sizeof digits, "%zu", number);
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        char *part = kg_xstrndup(path, (size_t)(slash - path));
        kg_web_url_part(&url, part);
        kg_buffer_puts(&url, "/");
        free(part);
    }
    kg_web_url_part(&url, path);
    for (size_t i = 0; i < view->request->n_params; i++)
        if (strcmp(view->request->params[i].name, "page") != 0)
            kg_web_url_add(&url, view->request->params[i].name, view->request->params[i].value);
    kg_web_url_add(&url, "page", digits);
    put_link(view->page, kg_buffer_text(&url), text);
    kg_buffer_free(&url);
}

void kg_web_pager(const struct kg_web_view *view, const json_t *rows) {
    struct kg_browse_range range;
    if (kg_web_range(view, &range, NULL) != KG_OK) return;
    const size_t number = range.n_before / KG_WEB_ROWS + 1;
    const bool more = json_array_size(rows) > KG_WEB_ROWS;
    if (number == 1 && !more) return;
    kg_buffer_printf(&view->page->body, "<p class=\"pages\">page %zu ", number);
    if (number > 1) page_link(view, number - 1, "before");
    kg_buffer_puts(&view->page->body, " ");
    if (more) page_link(view, number + 1, "after");
    kg_buffer_puts(&view->page->body, "</p>\n");
}

const char *kg_web_cut(const char *text, char cut[192]) {
    enum { MOST = 160 };
    size_t n = strlen(text);
    if (n <= MOST) return text;
    for (n = MOST; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80; n--) {}
    snprintf(cut, 192, "%.*s...", (int)n, text);
    return cut;
}

static const char *text_of(const json_t *row, const char *name) {
    const char *text = kg_json_text(row, name);
    return text ? text : "";
}

void kg_web_cell_run(struct kg_page *page, const char *bundle_id) {
    struct kg_buffer url = KG_BUFFER_INIT;
    kg_buffer_puts(&url, "/run/");
    kg_web_url_part(&url, bundle_id);
    kg_page_cell_link(page, kg_buffer_text(&url), bundle_id);
    kg_buffer_free(&url);
}

void kg_web_cell_case(struct kg_page *page, int64_t case_id, const char *key) {
    char url[40], cut[192];
    snprintf(url, sizeof url, "/case/%lld", (long long)case_id);
    kg_page_cell_link(page, url, kg_web_cut(key, cut));
}

void kg_web_cell_text(struct kg_page *page, const json_t *row, const char *name) {
    char cut[192];
    kg_page_cell(page, kg_web_cut(text_of(row, name), cut));
}

void kg_web_cell_commit(struct kg_page *page, const json_t *row) {
    kg_page_cellf(page, "%.12s%s", text_of(row, "git_commit"), kg_json_int(row, "git_dirty", 0) ? " changed" : "");
}

void kg_web_cell_time(struct kg_page *page, const json_t *row, const char *name) {
    const int64_t us = kg_json_int(row, name, 0);
    char utc[KG_UTC_TEXT_SIZE];
    if (us == 0) {
        kg_page_cell(page, NULL);
        return;
    }
    kg_clock_utc_text(us, utc);
    utc[10] = ' ';
    utc[19] = '\0';
    kg_page_cell(page, utc);
}

void kg_web_cell_seconds(struct kg_page *page, const json_t *row) {
    const json_t *ns = json_object_get(row, "duration_ns");
    if (json_is_number(ns)) kg_page_cellf(page, "%.3f", json_number_value(ns) / 1e9);
    else kg_page_cell(page, NULL);
}

void kg_web_cell_margin(struct kg_page *page, const json_t *row) {
    const json_t *margin = json_object_get(row, "margin");
    kg_page_cell(page, json_is_number(margin) ? kg_quantity_general(json_number_value(margin)).text : NULL);
}

void kg_web_form(struct kg_page *page, const char *path) {
    kg_buffer_puts(&page->body, "<form method=\"get\" action=\"");
    put(page, path);
    kg_buffer_puts(&page->body, "\">\n");
}

static void put_label(struct kg_page *page, const char *label) {
    kg_buffer_puts(&page->body, "<label>");
    put(page, label);
    kg_buffer_puts(&page->body, " ");
}

void kg_web_field(struct kg_page *page, const char *label, const char *name, const char *value) {
    put_label(page, label);
    kg_buffer_printf(&page->body, "<input name=\"%s\" maxlength=\"%d\" value=\"", name, KG_WEB_MAX_VALUE / 4);
    put(page, value);
    kg_buffer_puts(&page->body, "\"></label>\n");
}

void kg_web_choice(struct kg_page *page, const char *label, const char *name, const char *const *choices,
                   const char *value) {
    put_label(page, label);
    kg_buffer_printf(&page->body, "<select name=\"%s\"><option value=\"\">any</option>", name);
    for (; *choices; choices++)
        kg_buffer_printf(&page->body, "<option%s>%s</option>", strcmp(*choices, value) == 0 ? " selected" : "",
                         *choices);
    kg_buffer_puts(&page->body, "</select></label>\n");
}

void kg_web_form_end(struct kg_page *page, const char *button) {
    kg_buffer_printf(&page->body, "<button>%s</button></form>\n", button);
}
