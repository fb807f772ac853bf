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
    char text[512];
    const size_t name_len = strlen(name), unit_len = strlen(unit);
    const bool fits = name_len + 1 + unit_len <= sizeof text;
    char *identity = fits ? text : kg_xmalloc(name_len + 1 + unit_len);
    memcpy(identity, name, name_len + 1);
    memcpy(identity + name_len + 1, unit, unit_len);
    const size_t n_bytes = name_len + 1 + unit_len;
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
    if (!fits) free(identity);
    return status;
}

static enum kg_status insert_metric(struct kg_history *history, int64_t result_id, int64_t *seq, const char *name,
                                    const char *unit, const json_t *value, const json_t *tol, const json_t *stats,
                                    bool valid, struct kg_error *err) {
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
    kg_row_int_of(&row, stats, "n");
    for (size_t i = 0; i < sizeof STATS / sizeof *STATS; i++) kg_row_real_of(&row, stats, STATS[i]);
    kg_row_int(&row, valid && json_is_number(value));
    return kg_row_end(&row, err);
}

struct metric_sink {
    struct kg_history *history;
    int64_t result_id, seq;
};

/* A figure with its own limit brings it as tol. A mixed limit (abs + rel * |want|) belongs to each element and not to
 * max_abs: there the margin, whose limit is 1, tells how near it was. */
static enum kg_status insert_error(struct metric_sink *sink, const json_t *error, struct kg_error *err) {
    static const char *const FIGURES[] = { "max_abs", "nmse", "one_minus_cos" };
    const json_t *tolerance = json_object_get(error, "tolerance");
    const char *comparison = kg_json_text(error, "name");
    const bool finite = kg_json_int(error, "n_nonfinite", 0) == 0;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES && status == KG_OK; i++) {
        const json_t *limit = json_object_get(tolerance, FIGURES[i]);
        if (!json_is_number(limit) && i > 0) continue; /* max_abs is always of interest */
        char *name = kg_xasprintf("%s.%s", comparison ? comparison : "", FIGURES[i]);
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "abs",
                               json_object_get(error, FIGURES[i]), limit, error, finite, err);
        free(name);
    }
    if (status == KG_OK && json_is_true(json_object_get(error, "judged"))) {
        char *name = kg_xasprintf("%s.margin", comparison ? comparison : "");
        json_t *one = json_real(1);
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "ratio",
                               json_object_get(error, "margin"), one, error, finite, err);
        json_decref(one);
        free(name);
    }
    return status;
}

static enum kg_status insert_timing(struct metric_sink *sink, const json_t *timing, struct kg_error *err) {
    const char *name = kg_json_text(timing, "name"), *kind = kg_json_text(timing, "kind");
    const char *state = kg_json_text(timing, "state");
    char *full = kg_xasprintf("%s.%s.%s", name ? name : "", kind ? kind : "", state ? state : "");
    const bool valid = !json_is_false(json_object_get(timing, "valid"));
    const enum kg_status status = insert_metric(sink->history, sink->result_id, &sink->seq, full, "ns",
                                                json_object_get(timing, "median"), NULL, timing, valid, err);
    free(full);
    return status;
}

static enum kg_status insert_plain(struct metric_sink *sink, const json_t *metric, struct kg_error *err) {
    const char *name = kg_json_text(metric, "name"), *unit = kg_json_text(metric, "unit");
    return insert_metric(sink->history, sink->result_id, &sink->seq, name ? name : "", unit ? unit : "",
                         json_object_get(metric, "value"), NULL, NULL, true, err);
}

static enum kg_status insert_memory(struct metric_sink *sink, const json_t *memory, struct kg_error *err) {
    static const struct {
        const char *suffix, *figure;
    } FIGURES[] = { { "peak", "peak_bytes" }, { "left", "left_bytes" } };
    const char *tag = kg_json_text(memory, "tag");
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof FIGURES / sizeof *FIGURES && status == KG_OK; i++) {
        char *name = kg_xasprintf("%s.%s", tag ? tag : "", FIGURES[i].suffix);
        status = insert_metric(sink->history, sink->result_id, &sink->seq, name, "bytes",
                               json_object_get(memory, FIGURES[i].figure), NULL, NULL, true, err);
        free(name);
    }
    return status;
}

enum kg_status kg_history_insert_metrics(struct kg_history *history, int64_t result_id, const json_t *result,
                                         struct kg_error *err) {
    static const struct {
        const char *list;
        enum kg_status (*insert)(struct metric_sink *sink, const json_t *item, struct kg_error *err);
    } LISTS[] = {
        { "errors", insert_error },
        { "timings", insert_timing },
        { "metrics", insert_plain },
        { "memory", insert_memory },
    };
    struct metric_sink sink = { history, result_id, 0 };
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        const json_t *list = json_object_get(result, LISTS[i].list);
        for (size_t k = 0; k < json_array_size(list) && status == KG_OK; k++)
            status = LISTS[i].insert(&sink, json_array_get(list, k), err);
    }
    return status;
}
