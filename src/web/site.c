/* From a request to a page: the table of routes, the history and how old it may be, and pages that say why not. */
#include "base/clock.h"
#include "base/io_errors.h"
#include "base/say.h"
#include "base/size.h"
#include "base/utf8.h"
#include "history/trust.h"
#include "web/pages.h"
#include "web/style.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct kg_web {
    struct kg_web_options options;
    struct kg_history *history; /* NULL: the last try failed */
    uint64_t opened_ns;
    size_t n_unsound; /* runs whose heads do not verify */
};

/* How old what a page shows may be: opening the index brings it up to date, and looks at every run's folder. */
static const uint64_t AGE_NS = 2000000000;

static void close_history(struct kg_web *web) {
    if (web->history) web->options.close(web->options.user, web->history);
    web->history = NULL;
}

static enum kg_status refresh(struct kg_web *web, struct kg_error *err) {
    struct kg_bundle_findings unsound = { NULL, 0 };
    if (web->history && kg_clock_monotonic_ns() - web->opened_ns < AGE_NS) return KG_OK;
    close_history(web);
    enum kg_status status = web->options.open(web->options.user, &web->history, err);
    if (status == KG_OK) status = kg_trust_heads(web->history, &unsound, err);
    web->n_unsound = unsound.n_items;
    kg_bundle_findings_free(&unsound);
    if (status != KG_OK) close_history(web);
    web->opened_ns = kg_clock_monotonic_ns();
    return status;
}

enum kg_status kg_web_open(const struct kg_web_options *options, struct kg_web **web, struct kg_error *err) {
    struct kg_web *opened = kg_xcalloc(1, sizeof *opened);
    opened->options = *options;
    const enum kg_status status = refresh(opened, err);
    if (status == KG_OK) *web = opened;
    else kg_web_close(opened);
    return status;
}

void kg_web_close(struct kg_web *web) {
    if (!web) return;
    close_history(web);
    free(web);
}

/* '*' stands for one name. */
static const struct {
    const char *path;
    kg_web_page_fn *make;
} ROUTES[] = {
    { "/", kg_web_page_runs },
    { "/run/*", kg_web_page_run },
    { "/run/*/cases", kg_web_page_cases },
    { "/run/*/changes", kg_web_page_changes },
    { "/case/*", kg_web_page_case },
    { "/compare", kg_web_page_compare },
    { "/standing", kg_web_page_standing },
    { "/signoffs", kg_web_page_signoffs },
    { "/signoffs/*", kg_web_page_signoff },
    { "/search", kg_web_page_search },
};

/* Whether the path is the route's, and the name in it. */
static bool matches(const char *route, const char *path, char name[KG_WEB_MAX_VALUE]) {
    const char *star = strchr(route, '*');
    *name = '\0';
    if (!star) return strcmp(route, path) == 0;
    const size_t before = (size_t)(star - route);
    if (strncmp(route, path, before) != 0) return false;
    const size_t n = strcspn(path + before, "/");
    if (n == 0 || n >= KG_WEB_MAX_VALUE || strcmp(path + before + n, star + 1) != 0) return false;
    memcpy(name, path + before, n);
    name[n] = '\0';
    return true;
}

static void put_site_links(struct kg_page *page) {
    static const struct {
        const char *url, *text;
    } LINKS[] = { { "/", "All runs" },
                  { "/standing", "What is open" },
                  { "/compare", "Compare" },
                  { "/signoffs", "Sign-offs" },
                  { "/search", "Search" } };
    for (size_t i = 0; i < KG_COUNT_OF(LINKS); i++)
        kg_buffer_printf(&page->navigation, "<a href=\"%s\">%s</a>", LINKS[i].url, LINKS[i].text);
}

/* 128 random bits: the policy lets the style through that has them, and no other. */
static void make_nonce(char nonce[KG_WEB_NONCE_SIZE]) {
    unsigned char bytes[(KG_WEB_NONCE_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) memset(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
}

static void finish(struct kg_page *page, int status, struct kg_web_response *response) {
    response->status = status;
    response->type = "text/html; charset=utf-8";
    make_nonce(response->nonce);
    page->served = (struct kg_page_served){ response->nonce, KG_WEB_STYLE, "/filter.js" };
    kg_page_finish(page, &response->body);
}

void kg_web_refuse(int status, const char *why, struct kg_web_response *response) {
    struct kg_page page = KG_PAGE_INIT(KG_PAGE_HTML, false);
    char title[32];
    *response = (struct kg_web_response){ .body = KG_BUFFER_INIT };
    snprintf(title, sizeof title, "kigo web: %d", status);
    kg_page_title(&page, title, NULL);
    put_site_links(&page);
    kg_page_text(&page, "%s", why);
    finish(&page, status, response);
}

static void refuse_error(enum kg_status status, const struct kg_error *err, struct kg_web_response *response) {
    switch (status) {
    case KG_ERR_NOT_FOUND: kg_web_refuse(404, err->message, response); return;
    case KG_ERR_USAGE: kg_web_refuse(400, err->message, response); return;
    default:
        /* What the message says of this machine is for who started the server. */
        kg_say(stderr, "kigo web: %s\n", err->message);
        kg_web_refuse(status == KG_ERR_BUSY || status == KG_ERR_CANCELLED ? 503 : 500,
                      "The history could not be read. The terminal of kigo web says why.", response);
    }
}

/* Nothing in a history has another encoding, and PostgreSQL takes no other. */
static bool is_utf8(const struct kg_web_request *request) {
    bool is = kg_utf8_valid(request->path, strlen(request->path));
    for (size_t i = 0; i < request->n_params; i++)
        is = is && kg_utf8_valid(request->params[i].value, strlen(request->params[i].value));
    return is;
}

static enum kg_status make(struct kg_web *web, const struct kg_web_request *request, struct kg_page *page,
                           struct kg_error *err) {
    struct kg_web_view view = { .options = &web->options, .request = request, .page = page };
    if (!is_utf8(request)) return kg_fail(err, KG_ERR_USAGE, "An address is text in UTF-8.");
    for (size_t i = 0; i < KG_COUNT_OF(ROUTES); i++) {
        if (!matches(ROUTES[i].path, request->path, view.name)) continue;
        const enum kg_status status = refresh(web, err);
        if (status != KG_OK) return status;
        view.history = web->history;
        put_site_links(page);
        return ROUTES[i].make(&view, err);
    }
    return kg_fail(err, KG_ERR_NOT_FOUND, "There is no such page.");
}

void kg_web_answer(struct kg_web *web, const struct kg_web_request *request, struct kg_web_response *response) {
    struct kg_page page = KG_PAGE_INIT(KG_PAGE_HTML, false);
    struct kg_error err;
    *response = (struct kg_web_response){ .body = KG_BUFFER_INIT };
    if (strcmp(request->path, "/filter.js") == 0) {
        *response = (struct kg_web_response){ .status = 200, .type = "text/javascript; charset=utf-8" };
        kg_buffer_puts(&response->body, KG_WEB_SCRIPT);
        return;
    }
    const unsigned n_errors = kg_io_errors_count();
    enum kg_status status = make(web, request, &page, &err);
    /* What was taken for missing may be what could not be read. */
    if (status == KG_OK && kg_io_errors_count() != n_errors)
        status = kg_fail(&err, KG_ERR_IO, "%s", kg_io_error_noted());
    if (status == KG_OK && web->n_unsound > 0)
        kg_page_alert(&page, "%zu of the runs here do not verify: kigo list names them.", web->n_unsound);
    if (status == KG_OK) finish(&page, 200, response);
    else refuse_error(status, &err, response);
    kg_page_free(&page);
}
