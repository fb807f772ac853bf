/* Figures of a result as rows of `metric`. */
#include "base/buffer.h"
#include "bundle/records.h"
#include "history/row.h"
#include <stdlib.h>
#include <string.h>

enum { FIGURE_BITS = 40 }; /* of a few hundred names, two collide in one history of ten million */

/* The id of a figure's name and unit; its row is made if it is not there. */
static enum kg_status figure_id(struct kg_history *history, const char *name, const char *unit, int64_t *id,
                                struct kg_error *err) {
    const size_t name_size = strlen(name) + 1, unit_size = strlen(unit) + 1, n_bytes = name_size + unit_size - 1;
    char text[256], *identity = n_bytes < sizeof text ? text : kg_xmalloc(n_bytes + 1);
    memcpy(identity, name, name_size); /* and its NUL between them */
    memcpy(identity + name_size, unit, unit_size);
    enum kg_status status = KG_OK;
    if (!kg_id_cache_find(&history->figures, identity, n_bytes, id)) {
        struct kg_row row;
        *id = kg_hash_id(identity, n_bytes, FIGURE_BITS);
        status = kg_row_begin(history, KG_STMT_FIGURE, &row, err);
        if (status == KG_OK) {
            kg_row_int(&row, *id);
            kg_row_text(&row, name);
            kg_row_text(&row, unit);
            status = kg_row_end(&row, err);
        }
        if (status == KG_OK) kg_id_cache_add(&history->figures, identity, n_bytes, *id);
    }
    if (identity != text) free(identity);
    return status;
}

static enum kg_status insert_metric(struct kg_history *history, int64_t result_id, int64_t *seq, const char *name,
                                    const char *unit, const struct kg_node *value, const struct kg_node *tol,
                                    const struct kg_node *stats, bool valid, struct kg_error *err) {
    static const char *const STATS[] = { "mad", "ci_lo", "ci_hi" };
    struct kg_row row;
    int64_t figure = 0;
    enum kg_status status = figure_id(history, name, unit, &figure, err);
    if (status == KG_OK) status = kg_row_begin(history, KG_STMT_METRIC, &row, err);
    if (status != KG_OK) return status;
    kg_row_int(&row, result_id);
    kg_row_int(&row, (*seq)++);
    kg_row_int(&row, figure);
    kg_row_number(&row, value);
    kg_row_number(&row, tol);
    kg_row_node_int(&row, stats, "n");
    for (size_t i = 0; i < sizeof STATS / sizeof *STATS; i++) kg_row_node_real(&row, stats, STATS[i]);
    kg_row_int(&row, valid && kg_node_is_number(value));
    return kg_row_end(&row, err);
}

struct metric_sink {
    struct kg_history *history;
    int64_t result_id, seq;
};

static bool is_kind(const struct kg_node *node, enum kg_node_kind kind) {
    return node && node->kind == kind;
}

/* A figure with its own limit brings it as tol. A mixed limit (abs + rel * |want|) belongs to each element and not to
 * max_abs: there the margin, whose limit is 1, tells how near it was, and the limit is a figure. nmse is rms_rel's
 * square. */
static enum kg_status insert_error(struct metric_sink *sink, const struct kg_node *error, struct kg_error *err) {
    static const char *const FIGURES[] = { "max_abs", "nmse", "one_minus_cos", "max_rel" };
    static const char *const MIXED[] = { "mixed_abs", "mixed_rel" };
    const struct kg_node *tolerance = kg_node_member(error, "tolerance");
    const char *comparison = kg_node_text(error, "name");
    const bool finite = kg_node_int(error, "n_nonfinite", 0) == 0;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES && status == KG_OK; i++) {
        const struct kg_node *limit = kg_node_member(tolerance, FIGURES[i]), *value = kg_node_member(error, FIGURES[i]);
        const bool is_none = !kg_node_is_number(value) && !kg_node_is_number(limit);
        if (i > 0 && is_none) continue; /* max_abs is always of interest */
        char *name = kg_xasprintf("%s.%s", comparison ? comparison : "", FIGURES[i]);
        status =
            insert_metric(sink->history, sink->result_id, &sink->seq, name, "abs", value, limit, error, finite, err);
        free(name);
    }
    for (size_t i = 0; i < sizeof MIXED / sizeof *MIXED && status == KG_OK; i++) {
        const struct kg_node *limit = kg_node_member(tolerance, MIXED[i]);
        if (!kg_node_is_number(limit)) continue;
        char *name = kg_xasprintf("%s.%s", comparison ? comparison : "", MIXED[i]);
        status =
            insert_metric(sink->history, sink->result_id, &sink->seq, name, "limit", limit, limit, error, true, err);
        free(name);
    }
    if (status == KG_OK && is_kind(kg_node_member(error, "judged"), KG_NODE_TRUE)) {
        char *name = kg_xasprintf("%s.margin", comparison ? comparison : "");
        static const struct kg_node ONE = { .kind = KG_NODE_INT, .text = "1" };
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "ratio",
                               kg_node_member(error, "margin"), &ONE, error, finite, err);
        free(name);
    }
    return status;
}

static enum kg_status insert_timing(struct metric_sink *sink, const struct kg_node *timing, struct kg_error *err) {
    const char *name = kg_node_text(timing, "name"), *kind = kg_node_text(timing, "kind");
    const char *state = kg_node_text(timing, "state");
    char *full = kg_xasprintf("%s.%s.%s", name ? name : "", kind ? kind : "", state ? state : "");
    const bool valid = !is_kind(kg_node_member(timing, "valid"), KG_NODE_FALSE);
    const enum kg_status status = insert_metric(sink->history, sink->result_id, &sink->seq, full, "ns",
                                                kg_node_member(timing, "median"), NULL, timing, valid, err);
    free(full);
    return status;
}

static enum kg_status insert_plain(struct metric_sink *sink, const struct kg_node *metric, struct kg_error *err) {
    const char *name = kg_node_text(metric, "name"), *unit = kg_node_text(metric, "unit");
    return insert_metric(sink->history, sink->result_id, &sink->seq, name ? name : "", unit ? unit : "",
                         kg_node_member(metric, "value"), NULL, NULL, true, err);
}

static enum kg_status insert_memory(struct metric_sink *sink, const struct kg_node *memory, struct kg_error *err) {
    static const struct {
        const char *suffix, *figure;
    } FIGURES[] = { { "peak", "peak_bytes" }, { "left", "left_bytes" } };
    const char *tag = kg_node_text(memory, "tag");
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES && status == KG_OK; i++) {
        char *name = kg_xasprintf("%s.%s", tag ? tag : "", FIGURES[i].suffix);
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "bytes",
                               kg_node_member(memory, FIGURES[i].figure), NULL, NULL, true, err);
        free(name);
    }
    return status;
}

enum kg_status kg_history_insert_metrics(struct kg_history *history, int64_t result_id, const struct kg_node *result,
                                         struct kg_error *err) {
    static const struct {
        const char *list;
        enum kg_status (*insert)(struct metric_sink *sink, const struct kg_node *item, struct kg_error *err);
    } LISTS[] = {
        { "errors", insert_error },
        { "timings", insert_timing },
        { "metrics", insert_plain },
        { "memory", insert_memory },
    };
    struct metric_sink sink = { history, result_id, 0 };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        const struct kg_node *list = kg_node_member(result, LISTS[i].list);
        for (const struct kg_node *item = kg_node_first(list); item && status == KG_OK; item = kg_node_next(list, item))
            status = LISTS[i].insert(&sink, item, err);
    }
    return status;
}
