/* The pages, and what they share. */
#ifndef KIGO_WEB_PAGES_H
#define KIGO_WEB_PAGES_H

#include "history/browse.h"
#include "report/page.h"
#include "web/web.h"

/* What a page is made from. */
struct kg_web_view {
    const struct kg_web_options *options;
    struct kg_history *history;
    const struct kg_web_request *request;
    char name[KG_WEB_MAX_VALUE]; /* what stands for * in the route */
    struct kg_page *page;
};

/* KG_ERR_NOT_FOUND and KG_ERR_USAGE are the reader's, with a message for them; others are the server's. */
typedef enum kg_status kg_web_page_fn(struct kg_web_view *view, struct kg_error *err);
kg_web_page_fn kg_web_page_runs, kg_web_page_run, kg_web_page_cases, kg_web_page_changes, kg_web_page_case,
    kg_web_page_compare, kg_web_page_standing, kg_web_page_signoffs, kg_web_page_signoff, kg_web_page_search;

/* A parameter's value; "" if it is not given. */
const char *kg_web_param(const struct kg_web_view *view, const char *name);
/* The run that the route names. */
KG_WARN_UNUSED enum kg_status kg_web_run(const struct kg_web_view *view, json_t **run, struct kg_error *err);

/* The rows of a table that one page shows. */
enum { KG_WEB_ROWS = 100 };
/* By the parameter `page`, 1 if it is not given; one row more than is shown, so that the pager knows of more. */
KG_WARN_UNUSED enum kg_status kg_web_range(const struct kg_web_view *view, struct kg_browse_range *range,
                                           struct kg_error *err);
size_t kg_web_shown(const json_t *rows);
/* Links to the page before and the one after, with the request's other parameters. */
void kg_web_pager(const struct kg_web_view *view, const json_t *rows);

/* An address: path, and parameters by kg_web_url_add; percent-encoded. */
void kg_web_url_part(struct kg_buffer *url, const char *text);
void kg_web_url_add(struct kg_buffer *url, const char *name, const char *value);

/* A paragraph of one link. */
void kg_web_link(struct kg_page *page, const char *url, const char *text);
/* Cells. A text of the history is cut where it is long: 160 bytes, at the end of a letter. */
void kg_web_cell_run(struct kg_page *page, const char *bundle_id);
void kg_web_cell_case(struct kg_page *page, int64_t case_id, const char *key);
void kg_web_cell_text(struct kg_page *page, const json_t *row, const char *name);
void kg_web_cell_commit(struct kg_page *page, const json_t *row);
void kg_web_cell_time(struct kg_page *page, const json_t *row, const char *name); /* a UTC time, to the second */
void kg_web_cell_seconds(struct kg_page *page, const json_t *row);                /* of duration_ns */
void kg_web_cell_margin(struct kg_page *page, const json_t *row);
/* The shown ones of kg_browse_cases's rows, as a table. */
void kg_web_put_cases(const struct kg_web_view *view, const json_t *cases);
const char *kg_web_cut(const char *text, char cut[192]);

/* A form that asks for the same or another path by GET. */
void kg_web_form(struct kg_page *page, const char *path);
void kg_web_field(struct kg_page *page, const char *label, const char *name, const char *value);
/* choices: "" for any comes first by itself; NULL ends them. */
void kg_web_choice(struct kg_page *page, const char *label, const char *name, const char *const *choices,
                   const char *value);
void kg_web_form_end(struct kg_page *page, const char *button);

#endif
