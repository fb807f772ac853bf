/* Figures of a result as rows of `metric`. */
#include "base/size.h"
#include "bundle/records.h"
#include "history/row.h"
#include <stdlib.h>
#include <string.h>

enum { FIGURE_BITS = 40 }; /* of a few hundred names, two collide in one history of ten million */

static const char *or_empty(const char *text) {
    return text ? text : "";
}

static void put_figure(struct kg_row *row, const void *figure) {
    const char *const *texts = figure;
    kg_row_text(row, texts[0]);
    kg_row_text(row, texts[1]);
}

/* The id of a figure's name and unit; its row is made if it is not there. Spoils the name. */
static enum kg_status figure_id(struct kg_history *history, struct kg_buffer *name, const char *unit, int64_t *id,
                                struct kg_error *err) {
    const size_t name_size = name->len + 1;
    kg_buffer_append(name, "", 1); /* a NUL between them */
    kg_buffer_puts(name, unit);
    enum kg_status status = KG_OK;
    if (!kg_id_cache_find(&history->figures, name->data, name->len, id)) {
        const char *const figure[] = { name->data, name->data + name_size };
        int64_t ids[2];
        kg_hash_ids(name->data, name->len, FIGURE_BITS, ids);
        status = kg_row_name(history, KG_STMT_FIND_FIGURE, KG_STMT_FIGURE, put_figure, figure, ids, id, err);
        if (status == KG_OK) kg_id_cache_add(&history->figures, name->data, name->len, *id);
    }
    return status;
}

static enum kg_status insert_waiting(struct kg_metrics *m, enum kg_history_stmt which, size_t first, size_t n,
                                     struct kg_error *err) {
    static const char *const STATS[] = { "mad", "ci_lo", "ci_hi" };
    struct kg_row row;
    const enum kg_status status = kg_row_begin(m->history, which, &row, err);
    if (status != KG_OK) return status;
    for (const struct kg_metric *f = &m->waiting[first]; f < &m->waiting[first + n]; f++) {
        kg_row_int(&row, f->result_id);
        kg_row_int(&row, f->seq);
        kg_row_int(&row, f->figure_id);
        kg_row_number(&row, f->value);
        kg_row_number(&row, f->tol);
        kg_row_node_int(&row, f->stats, "n");
        for (size_t i = 0; i < KG_COUNT_OF(STATS); i++) kg_row_node_real(&row, f->stats, STATS[i]);
        kg_row_int(&row, f->valid && kg_node_is_number(f->value));
    }
    return kg_row_end(&row, err);
}

struct sink {
    struct kg_metrics *metrics;
    int64_t result_id, seq;
};

/* A figure called "a.b", or "a" where b is NULL. */
static enum kg_status add(struct sink *sink, const char *a, const char *b, const char *unit,
                          const struct kg_metric *figure, struct kg_error *err) {
    struct kg_metrics *m = sink->metrics;
    struct kg_metric *to = &m->waiting[m->n_waiting];
    kg_buffer_clear(&m->name);
    kg_buffer_puts(&m->name, or_empty(a));
    if (b) kg_buffer_append(&m->name, ".", 1);
    if (b) kg_buffer_puts(&m->name, b);
    *to = *figure;
    to->result_id = sink->result_id;
    to->seq = sink->seq++;
    const enum kg_status status = figure_id(m->history, &m->name, unit, &to->figure_id, err);
    if (status != KG_OK || ++m->n_waiting < KG_METRICS_AT_ONCE) return status;
    m->n_waiting = 0;
    return insert_waiting(m, KG_STMT_METRICS, 0, KG_METRICS_AT_ONCE, err);
}

enum kg_status kg_metrics_end(struct kg_metrics *metrics, enum kg_status before, struct kg_error *err) {
    enum kg_status status = before;
    for (size_t i = 0; i < metrics->n_waiting && status == KG_OK; i++)
        status = insert_waiting(metrics, KG_STMT_METRIC, i, 1, err);
    kg_buffer_free(&metrics->name);
    return status;
}

static bool is_kind(const struct kg_node *node, enum kg_node_kind kind) {
    return node && node->kind == kind;
}

/* A figure with its own limit brings it as tol. A mixed limit (abs + rel * |want|) belongs to each element and not to
 * max_abs: there the margin, whose limit is 1, tells how near it was, and the limit is a figure. nmse is rms_rel's
 * square. */
static enum kg_status insert_error(struct sink *sink, const struct kg_node *error, struct kg_error *err) {
    static const char *const FIGURES[] = { "max_abs", "nmse", "one_minus_cos", "max_rel" };
    static const char *const MIXED[] = { "mixed_abs", "mixed_rel" };
    static const struct kg_node ONE = { .kind = KG_NODE_INT, .text = "1" };
    const struct kg_node *tolerance = kg_node_member(error, "tolerance");
    const char *comparison = kg_node_text(error, "name");
    const bool finite = kg_node_int(error, "n_nonfinite", 0) == 0;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < KG_COUNT_OF(FIGURES) && status == KG_OK; i++) {
        const struct kg_node *limit = kg_node_member(tolerance, FIGURES[i]), *value = kg_node_member(error, FIGURES[i]);
        const bool is_none = !kg_node_is_number(value) && !kg_node_is_number(limit);
        if (i > 0 && is_none) continue; /* max_abs is always of interest */
        const struct kg_metric figure = { .value = value, .tol = limit, .stats = error, .valid = finite };
        status = add(sink, comparison, FIGURES[i], "abs", &figure, err);
    }
    for (size_t i = 0; i < KG_COUNT_OF(MIXED) && status == KG_OK; i++) {
        const struct kg_node *limit = kg_node_member(tolerance, MIXED[i]);
        const struct kg_metric figure = { .value = limit, .tol = limit, .stats = error, .valid = true };
        if (kg_node_is_number(limit)) status = add(sink, comparison, MIXED[i], "limit", &figure, err);
    }
    if (status == KG_OK && is_kind(kg_node_member(error, "judged"), KG_NODE_TRUE)) {
        const struct kg_metric figure = {
            .value = kg_node_member(error, "margin"), .tol = &ONE, .stats = error, .valid = finite
        };
        status = add(sink, comparison, "margin", "ratio", &figure, err);
    }
    return status;
}

static enum kg_status insert_timing(struct sink *sink, const struct kg_node *timing, struct kg_error *err) {
    const char *kind = or_empty(kg_node_text(timing, "kind")), *state = or_empty(kg_node_text(timing, "state"));
    const struct kg_metric figure = { .value = kg_node_member(timing, "median"),
                                      .stats = timing,
                                      .valid = !is_kind(kg_node_member(timing, "valid"), KG_NODE_FALSE) };
    char *how = kg_xasprintf("%s.%s", kind, state);
    const enum kg_status status = add(sink, kg_node_text(timing, "name"), how, "ns", &figure, err);
    free(how);
    return status;
}

static enum kg_status insert_plain(struct sink *sink, const struct kg_node *metric, struct kg_error *err) {
    const struct kg_metric figure = { .value = kg_node_member(metric, "value"), .valid = true };
    return add(sink, kg_node_text(metric, "name"), NULL, or_empty(kg_node_text(metric, "unit")), &figure, err);
}

static enum kg_status insert_memory(struct sink *sink, const struct kg_node *memory, struct kg_error *err) {
    static const struct {
        const char *suffix, *figure;
    } FIGURES[] = { { "peak", "peak_bytes" }, { "left", "left_bytes" } };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < KG_COUNT_OF(FIGURES) && status == KG_OK; i++) {
        const struct kg_metric figure = { .value = kg_node_member(memory, FIGURES[i].figure), .valid = true };
        status = add(sink, kg_node_text(memory, "tag"), FIGURES[i].suffix, "bytes", &figure, err);
    }
    return status;
}

enum kg_status kg_metrics_add(struct kg_metrics *metrics, int64_t result_id, const struct kg_node *result,
                              struct kg_error *err) {
    static const struct {
        const char *list;
        enum kg_status (*insert)(struct sink *sink, const struct kg_node *item, struct kg_error *err);
    } LISTS[] = {
        { "errors", insert_error },
        { "timings", insert_timing },
        { "metrics", insert_plain },
        { "memory", insert_memory },
    };
    struct sink sink = { metrics, result_id, 0 };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < KG_COUNT_OF(LISTS); i++) {
        const struct kg_node *list = kg_node_member(result, LISTS[i].list);
        for (const struct kg_node *item = kg_node_first(list); item && status == KG_OK; item = kg_node_next(list, item))
            status = LISTS[i].insert(&sink, item, err);
    }
    return status;
}
