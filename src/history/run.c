#include "history/run.h"
#include "base/buffer.h"
#include "base/size.h"
#include "history/internal.h"
#include "history/store.h"
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kg_run_head_free(struct kg_run_head *head) {
    free(head->bundle_id);
    free(head->state);
    free(head->verdict);
    free(head->commit);
    free(head->comparison_key);
    free(head->build_json);
    *head = (struct kg_run_head){ 0 };
}

void kg_run_heads_free(struct kg_run_heads *heads) {
    for (size_t i = 0; i < heads->n_items; i++) kg_run_head_free(&heads->items[i]);
    free(heads->items);
    *heads = (struct kg_run_heads){ NULL, 0 };
}

static char *text_of(const struct kg_cell *cell) {
    return cell->kind == KG_CELL_TEXT ? kg_xstrndup(cell->text, cell->size_bytes) : NULL;
}

static char *text_or_empty(const struct kg_cell *cell) {
    char *text = text_of(cell);
    return text ? text : kg_xstrdup("");
}

/* An array that grows by doubling; n counts what is in it. */
static void *room_for_one(void *items, size_t n, size_t size) {
    return (n & (n + 1)) == 0 ? kg_xrealloc(items, (n + 1) * 2 * size) : items; /* full at 2^n - 1 */
}

static bool add_head(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_run_heads *heads = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    heads->items = room_for_one(heads->items, heads->n_items, sizeof *heads->items);
    heads->items[heads->n_items++] = (struct kg_run_head){ .bundle_id = text_or_empty(&cells[0]),
                                                           .state = text_or_empty(&cells[1]),
                                                           .verdict = text_or_empty(&cells[2]),
                                                           .commit = text_of(&cells[3]),
                                                           .comparison_key = text_or_empty(&cells[4]),
                                                           .bundle_no = cells[5].integer,
                                                           .started_us = cells[6].integer,
                                                           .dirty = cells[7].integer != 0,
                                                           .build_json = text_or_empty(&cells[8]),
                                                           .duration_us = cells[9].integer };
    return true;
}

enum kg_status kg_run_heads_load(struct kg_history *history, const char *where_and_order, const char *const *args,
                                 size_t n_args, struct kg_run_heads *heads, struct kg_error *err) {
    char *sql =
        kg_xasprintf("SELECT bundle_id, state, verdict, git_commit, comparison_key, bundle_no, started_us,"
                     " git_dirty, build.json, sealed_us - started_us FROM bundle LEFT JOIN build USING(build_id) %s",
                     where_and_order);
    *heads = (struct kg_run_heads){ NULL, 0 };
    const enum kg_status status = kg_history_query(history, sql, args, n_args, add_head, heads, err);
    if (status != KG_OK) kg_run_heads_free(heads);
    free(sql);
    return status;
}

enum kg_status kg_run_heads_ask(struct kg_history *history, const struct kg_sql *where_and_order,
                                const char *const *args, size_t n_args, struct kg_run_heads *heads,
                                struct kg_error *err) {
    const char *where = kg_history_is_store(history) ? where_and_order->postgres : where_and_order->sqlite;
    return kg_run_heads_load(history, where, args, n_args, heads, err);
}

static bool add_case(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_catalogue *catalogue = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    catalogue->cases = room_for_one(catalogue->cases, catalogue->n_cases, sizeof *catalogue->cases);
    struct kg_case_info *c = &catalogue->cases[catalogue->n_cases];
    *c = (struct kg_case_info){ .case_id = cells[0].integer };
    char **const texts[] = { &c->key, &c->op, &c->backend, &c->layer, &c->dtype, &c->shape, &c->def_sha };
    for (size_t i = 0; i < KG_COUNT_OF(texts); i++) *texts[i] = text_or_empty(&cells[i + 1]);
    c->is_peer = fnmatch("*_peer", c->op, 0) == 0;
    if (catalogue->n_cases > 0) { /* rows come by key, then definition */
        const struct kg_case_info *before = c - 1;
        const bool same_key = strcmp(before->key, c->key) == 0;
        c->key_no = before->key_no + !same_key;
        c->same = before->same + !(same_key && strcmp(before->def_sha, c->def_sha) == 0);
    }
    catalogue->n_cases++;
    return true;
}

static bool add_figure(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_catalogue *catalogue = arg;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    catalogue->figures = room_for_one(catalogue->figures, catalogue->n_figures, sizeof *catalogue->figures);
    struct kg_figure_info *f = &catalogue->figures[catalogue->n_figures++];
    *f = (struct kg_figure_info){ cells[0].integer, text_or_empty(&cells[1]), text_or_empty(&cells[2]), { 0 } };
    f->kind = kg_figure_kind_of(f->name, f->unit);
    return true;
}

static int by_case_id(const void *a, const void *b) {
    const int64_t x = ((const struct kg_case_info *)a)->case_id, y = ((const struct kg_case_info *)b)->case_id;
    return (x > y) - (x < y);
}

enum kg_figure_class kg_figure_class_in(const struct kg_case_info *c, const struct kg_figure_info *figure) {
    return c->is_peer ? KG_FIGURE_REPORTED : figure->kind.class;
}

enum kg_status kg_catalogue_load(struct kg_history *history, struct kg_catalogue *catalogue, struct kg_error *err) {
    *catalogue = (struct kg_catalogue){ 0 };
#define BY_KEY(order, of_run, of_case, of_result, digest)                                                              \
    "SELECT case_id, case_key, op, backend, layer, dtype, shape, def_sha FROM tcase"                                   \
    " ORDER BY case_key" order ", def_sha" order
    static const struct kg_sql SQL = KG_SQL_BOTH(BY_KEY);
    enum kg_status status = kg_history_ask(history, &SQL, NULL, 0, add_case, catalogue, err);
    if (status == KG_OK)
        status = kg_history_query(history, "SELECT figure_id, name, unit FROM figure_name ORDER BY figure_id", NULL, 0,
                                  add_figure, catalogue, err);
    if (status != KG_OK) kg_catalogue_free(catalogue);
    else if (catalogue->n_cases > 1) qsort(catalogue->cases, catalogue->n_cases, sizeof *catalogue->cases, by_case_id);
    return status;
}

void kg_catalogue_free(struct kg_catalogue *catalogue) {
    for (size_t i = 0; i < catalogue->n_cases; i++) {
        struct kg_case_info *c = &catalogue->cases[i];
        char *const texts[] = { c->key, c->op, c->backend, c->layer, c->dtype, c->shape, c->def_sha };
        for (size_t k = 0; k < KG_COUNT_OF(texts); k++) free(texts[k]);
    }
    for (size_t i = 0; i < catalogue->n_figures; i++) {
        free(catalogue->figures[i].name);
        free(catalogue->figures[i].unit);
    }
    free(catalogue->cases);
    free(catalogue->figures);
    *catalogue = (struct kg_catalogue){ 0 };
}

/* The result that a figure's name came in last, and how often it did. */
struct seen {
    int64_t result_id;
    uint32_t n;
};

struct loading {
    const struct kg_catalogue *catalogue;
    struct kg_run *run;
    int64_t *result_ids; /* ascending, beside run->results while loading */
    size_t at;           /* result that the next metric belongs to, or one before it */
    struct seen *seen;   /* beside catalogue->figures */
    bool unknown;        /* a case or figure is not in the catalogue */
};

static enum kg_outcome outcome_of(const char *status) {
    if (strcmp(status, "pass") == 0) return KG_OUTCOME_PASS;
    if (strcmp(status, "skip") == 0) return KG_OUTCOME_SKIP;
    return strcmp(status, "norun") == 0 ? KG_OUTCOME_NORUN : KG_OUTCOME_RED;
}

static void copy_text(char *to, size_t size, const struct kg_cell *cell) {
    snprintf(to, size, "%.*s", cell->kind == KG_CELL_TEXT ? (int)cell->size_bytes : 0, cell->text);
}

static bool add_result(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct loading *l = arg;
    struct kg_run *run = l->run;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    const struct kg_case_info wanted = { .case_id = cells[1].integer };
    const struct kg_case_info *c =
        bsearch(&wanted, l->catalogue->cases, l->catalogue->n_cases, sizeof wanted, by_case_id);
    if (!c) return l->unknown = true;
    run->results = room_for_one(run->results, run->n_results, sizeof *run->results);
    l->result_ids = room_for_one(l->result_ids, run->n_results, sizeof *l->result_ids);
    l->result_ids[run->n_results] = cells[0].integer;
    struct kg_run_result *r = &run->results[run->n_results++];
    *r = (struct kg_run_result){ .c = c };
    copy_text(r->status, sizeof r->status, &cells[2]);
    copy_text(r->seed, sizeof r->seed, &cells[3]);
    r->outcome = outcome_of(r->status);
    if (r->outcome == KG_OUTCOME_SKIP)
        r->skip_reason = kg_xstrndup(cells[4].text, cells[4].kind == KG_CELL_TEXT ? cells[4].size_bytes : 0);
    return true;
}

static int by_figure_id(const void *a, const void *b) {
    const int64_t x = ((const struct kg_figure_info *)a)->figure_id, y = ((const struct kg_figure_info *)b)->figure_id;
    return (x > y) - (x < y);
}

static double real_of(const struct kg_cell *cell) {
    return cell->kind == KG_CELL_REAL ? cell->real : cell->kind == KG_CELL_INT ? (double)cell->integer : NAN;
}

static bool add_metric(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct loading *l = arg;
    struct kg_run *run = l->run;
    (void)n_columns;
    (void)names;
    if (!cells) return true;
    while (l->at < run->n_results && l->result_ids[l->at] < cells[0].integer) l->at++;
    const struct kg_figure_info wanted = { .figure_id = cells[1].integer };
    const struct kg_figure_info *info =
        bsearch(&wanted, l->catalogue->figures, l->catalogue->n_figures, sizeof wanted, by_figure_id);
    if (!info) return l->unknown = true;
    if (l->at == run->n_results || l->result_ids[l->at] != cells[0].integer) return true;
    struct kg_run_result *r = &run->results[l->at];
    struct seen *seen = &l->seen[info - l->catalogue->figures];
    if (seen->result_id != cells[0].integer) *seen = (struct seen){ cells[0].integer, 0 };
    if (r->n_figures == 0) r->first_figure = run->n_figures;
    run->figures = room_for_one(run->figures, run->n_figures, sizeof *run->figures);
    run->figures[run->n_figures++] = (struct kg_run_figure){ .info = info,
                                                             .value = real_of(&cells[2]),
                                                             .valid = cells[3].integer != 0,
                                                             .limit = real_of(&cells[4]),
                                                             .n = cells[5].integer,
                                                             .occurrence = seen->n++,
                                                             .place = (uint32_t)r->n_figures++ };
    return true;
}

static int by_same(const void *a, const void *b) {
    const size_t x = ((const struct kg_run_result *)a)->c->same, y = ((const struct kg_run_result *)b)->c->same;
    return (x > y) - (x < y);
}

enum kg_status kg_run_load(struct kg_history *history, int64_t bundle_no, const struct kg_catalogue *catalogue,
                           struct kg_run *run, struct kg_error *err) {
    static const struct kg_sql
        RESULTS = { "SELECT result_id, case_id, status, seed, CASE status WHEN 'skip' THEN reason END FROM result_row"
                    " WHERE bundle_no = CAST(?1 AS BIGINT) ORDER BY 1",
                    "SELECT r.result_id, r.case_id, r.status, r.seed, CASE r.status WHEN 'skip' THEN r.reason END"
                    " FROM bundle b JOIN " KG_POSTGRES_RESULTS " WHERE b.bundle_no = CAST(?1 AS BIGINT) ORDER BY 1" },
        METRICS = { "SELECT result_id, figure_id, value, valid, tol, n FROM metric_row WHERE result_id BETWEEN"
                    " CAST(?1 AS BIGINT) << 20 AND (CAST(?1 AS BIGINT) << 20) + 1048575 ORDER BY result_id, seq",
                    "SELECT m.result_id, m.figure_id, m.value, m.valid, m.tol, m.n FROM bundle b JOIN LATERAL"
                    " (SELECT * FROM metric_row s WHERE s.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20)"
                    " + 1048575 AND s.runner_no = b.runner_no AND s.month = b.month OFFSET 0) m ON TRUE"
                    " WHERE b.bundle_no = CAST(?1 AS BIGINT) ORDER BY m.result_id, m.seq" };
    char number[32];
    struct loading l = { .catalogue = catalogue, .run = run, .seen = kg_xcalloc(catalogue->n_figures, sizeof *l.seen) };
    *run = (struct kg_run){ 0 };
    snprintf(number, sizeof number, "%lld", (long long)bundle_no);
    const char *const args[] = { number };
    enum kg_status status = kg_history_ask(history, &RESULTS, args, 1, add_result, &l, err);
    if (status == KG_OK) status = kg_history_ask(history, &METRICS, args, 1, add_metric, &l, err);
    if (status == KG_OK && l.unknown)
        status = kg_fail(err, KG_ERR_BUSY, "%s: the run was indexed again while it was read; ask again", history->path);
    free(l.result_ids);
    free(l.seen);
    if (status != KG_OK) kg_run_free(run);
    else if (run->n_results > 1) qsort(run->results, run->n_results, sizeof *run->results, by_same);
    return status;
}

void kg_run_free(struct kg_run *run) {
    for (size_t i = 0; i < run->n_results; i++) free(run->results[i].skip_reason);
    free(run->results);
    free(run->figures);
    *run = (struct kg_run){ 0 };
}

const struct kg_run_result *kg_run_find(const struct kg_run *run, size_t same) {
    const struct kg_case_info c = { .same = same };
    const struct kg_run_result wanted = { .c = &c };
    return run->n_results ? bsearch(&wanted, run->results, run->n_results, sizeof wanted, by_same) : NULL;
}

const struct kg_run_result *kg_run_find_key(const struct kg_run *run, size_t key_no) {
    /* Results are sorted by `same`, in which the definitions of a key lie side by side. */
    size_t low = 0, high = run->n_results;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (run->results[middle].c->key_no < key_no) low = middle + 1;
        else high = middle;
    }
    return low < run->n_results && run->results[low].c->key_no == key_no ? &run->results[low] : NULL;
}

double kg_run_figure_log(const struct kg_run_figure *f) {
    return f && f->valid && f->value > 0 ? f->info->kind.worse * log(f->value) : NAN;
}

static bool is_like(const struct kg_run_figure *a, const struct kg_run_figure *b) {
    return a->info == b->info && a->occurrence == b->occurrence;
}

/* Mostly in the same place. */
const struct kg_run_figure *kg_run_figure(const struct kg_run *run, const struct kg_run_result *result,
                                          const struct kg_run_figure *like) {
    const struct kg_run_figure *figures = run->figures + result->first_figure;
    if (like->place < result->n_figures && is_like(&figures[like->place], like)) return &figures[like->place];
    for (size_t i = 0; i < result->n_figures; i++)
        if (is_like(&figures[i], like)) return &figures[i];
    return NULL;
}
