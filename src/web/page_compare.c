/* Two runs, case by case, as `kigo diff` finds them different. It judges nothing. */
#include "base/quantity.h"
#include "base/size.h"
#include "bundle/records.h"
#include "web/pages.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A change of a time or rate that is worth a row; what repeats bit for bit is one whatever it is. */
static const double WORTH_TELLING = 0.03;

struct change {
    const struct kg_case_info *c;
    const char *what;                    /* "status", "missing", "new", "definition", or what kind of figure */
    const struct kg_figure_info *figure; /* NULL: the case's status */
    const char *before_text, *after_text;
    double before, after, size; /* size: how far it went, for the order */
};
struct comparison {
    struct kg_catalogue catalogue;
    struct kg_run a, b;
    struct change *changes;
    size_t n_changes, room, n_cases;
};

static void add(struct comparison *cmp, struct change change) {
    if (cmp->n_changes == cmp->room) {
        cmp->room = cmp->room ? 2 * cmp->room : 256;
        cmp->changes = kg_xrealloc(cmp->changes, cmp->room * sizeof *cmp->changes);
    }
    cmp->changes[cmp->n_changes++] = change;
}

static void add_status(struct comparison *cmp, const char *what, const struct kg_run_result *a,
                       const struct kg_run_result *b) {
    add(cmp, (struct change){ .c = a ? a->c : b->c,
                              .what = what,
                              .before_text = a ? a->status : "",
                              .after_text = b ? b->status : "",
                              .size = INFINITY });
}

/* Left to `kigo diff`: figures that only one side has, and those of the machine, which all cases of a process have. */
static void compare_figures(struct comparison *cmp, const struct kg_run_result *a, const struct kg_run_result *b) {
    for (size_t i = 0; i < a->n_figures; i++) {
        const struct kg_run_figure *x = &cmp->a.figures[a->first_figure + i];
        const struct kg_run_figure *y = kg_run_figure(&cmp->b, b, x);
        const enum kg_figure_class class = x->info->kind.class;
        if (!y || y->value == x->value || !isfinite(x->value) || !isfinite(y->value)) continue;
        const double change = x->value != 0 ? y->value / x->value - 1 : INFINITY;
        if (class == KG_FIGURE_DERIVED || class == KG_FIGURE_CANARY) continue;
        if (class == KG_FIGURE_NOISY && fabs(change) < WORTH_TELLING) continue;
        add(cmp, (struct change){ .c = a->c,
                                  .what = x->info->kind.subject,
                                  .figure = x->info,
                                  .before = x->value,
                                  .after = y->value,
                                  .size = fabs(change) });
    }
}

static void compare(struct comparison *cmp) {
    for (size_t i = 0; i < cmp->a.n_results; i++) {
        const struct kg_run_result *a = &cmp->a.results[i], *b = kg_run_find(&cmp->b, a->c->same);
        cmp->n_cases += b != NULL;
        if (!b) add_status(cmp, kg_run_find_key(&cmp->b, a->c->key_no) ? "definition" : "missing", a, NULL);
        else if (strcmp(a->status, b->status) != 0) add_status(cmp, "status", a, b);
        if (b) compare_figures(cmp, a, b);
    }
    for (size_t i = 0; i < cmp->b.n_results; i++)
        if (!kg_run_find_key(&cmp->a, cmp->b.results[i].c->key_no)) add_status(cmp, "new", NULL, &cmp->b.results[i]);
}

/* Statuses first, then what went furthest; equal ones by key. */
static int by_size(const void *left, const void *right) {
    const struct change *a = left, *b = right;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    const int order = (a->figure != NULL) - (b->figure != NULL);
    return order ? order : strcmp(a->c->key, b->c->key);
}

static void put_value(const struct kg_web_view *view, const struct change *change, double value, double other,
                      const char *text) {
    if (!change->figure) kg_page_cell(view->page, text);
    else kg_page_cell(view->page, kg_quantity_beside(value, other, change->figure->unit).text);
}

static void put_changes(const struct kg_web_view *view, struct comparison *cmp, struct kg_browse_range range) {
    static const struct kg_column COLUMNS[] = { { "what", KG_COLUMN_TEXT },   { "case", KG_COLUMN_NAME },
                                                { "figure", KG_COLUMN_NAME }, { "a", KG_COLUMN_NUMBER },
                                                { "b", KG_COLUMN_NUMBER },    { "change", KG_COLUMN_NUMBER } };
    json_t *shown = json_array(); /* as many rows as a pager needs to know of */
    if (cmp->n_changes > 0) qsort(cmp->changes, cmp->n_changes, sizeof *cmp->changes, by_size);
    kg_page_table(view->page, COLUMNS, KG_COUNT_OF(COLUMNS));
    for (size_t i = range.n_before; i < cmp->n_changes && i < range.n_before + range.n_most; i++) {
        const struct change *change = &cmp->changes[i];
        char cut[192];
        json_array_append_new(shown, json_true());
        if (json_array_size(shown) > KG_WEB_ROWS) break;
        kg_page_cell(view->page, change->what);
        kg_web_cell_case(view->page, change->c->case_id, change->c->key);
        kg_page_cell(view->page, change->figure ? kg_web_cut(change->figure->name, cut) : NULL);
        put_value(view, change, change->before, change->after, change->before_text);
        put_value(view, change, change->after, change->before, change->after_text);
        const double share = change->figure ? change->after / change->before - 1 : NAN; /* infinite: of 0 */
        kg_page_cell(view->page, kg_quantity_percent(share).text);
    }
    kg_page_table_end(view->page);
    kg_web_pager(view, shown);
    json_decref(shown);
}

static void put_form(const struct kg_web_view *view) {
    kg_web_form(view->page, "/compare");
    kg_web_field(view->page, "run a", "a", kg_web_param(view, "a"));
    kg_web_field(view->page, "run b", "b", kg_web_param(view, "b"));
    kg_web_form_end(view->page, "Compare");
}

static void free_comparison(struct comparison *cmp) {
    kg_run_free(&cmp->a);
    kg_run_free(&cmp->b);
    kg_catalogue_free(&cmp->catalogue);
    free(cmp->changes);
}

enum kg_status kg_web_page_compare(struct kg_web_view *view, struct kg_error *err) {
    const char *a = kg_web_param(view, "a"), *b = kg_web_param(view, "b");
    struct comparison cmp = { 0 };
    struct kg_browse_range range;
    enum kg_status status = kg_web_range(view, &range, err);
    const bool asked = *a && *b;
    if (asked && status == KG_OK) status = kg_catalogue_load(view->history, &cmp.catalogue, err);
    if (asked && status == KG_OK) status = kg_browse_load(view->history, a, &cmp.catalogue, &cmp.a, err);
    if (asked && status == KG_OK) status = kg_browse_load(view->history, b, &cmp.catalogue, &cmp.b, err);
    if (status == KG_OK) {
        kg_page_title(view->page, "kigo: two runs", NULL);
        kg_page_section(view->page, "Compare");
        put_form(view);
        if (!asked) kg_page_text(view->page, "Two ids of runs, the older first.");
    }
    if (asked && status == KG_OK) {
        compare(&cmp);
        kg_page_section(view->page, "What differs");
        kg_page_facts(view->page);
        kg_page_cell(view->page, "a");
        kg_web_cell_run(view->page, a);
        kg_page_cell(view->page, "b");
        kg_web_cell_run(view->page, b);
        kg_page_table_end(view->page);
        kg_page_text(view->page, "%zu cases in both, %zu differences; times and rates from 3%% on.", cmp.n_cases,
                     cmp.n_changes);
        put_changes(view, &cmp, range);
    }
    free_comparison(&cmp);
    return status;
}
