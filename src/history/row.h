/* A row under way: begun, its cells bound one after another, ended. */
#ifndef KIGO_HISTORY_ROW_H
#define KIGO_HISTORY_ROW_H

#include "base/buffer.h"
#include "base/json_tape.h"
#include "history/internal.h"
#include <jansson.h>

struct kg_row {
    struct kg_history *history;
    sqlite3_stmt *stmt;
    int n_bound;
    bool failed; /* a cell could not be bound */
};

KG_WARN_UNUSED enum kg_status kg_row_begin(struct kg_history *history, enum kg_history_stmt which, struct kg_row *row,
                                           struct kg_error *err);
void kg_row_text(struct kg_row *row, const char *text); /* NULL: SQL's NULL */
void kg_row_int(struct kg_row *row, int64_t value);
void kg_row_real(struct kg_row *row, double value);
void kg_row_number(struct kg_row *row, const struct kg_node *value); /* as a real; NULL if it is no number */
/* Members of an object; NULL where missing or of another type. */
void kg_row_text_of(struct kg_row *row, const json_t *object, const char *name);
void kg_row_int_of(struct kg_row *row, const json_t *object, const char *name);
void kg_row_real_of(struct kg_row *row, const json_t *object, const char *name);
/* The same of lines read by base/json_tape.h. */
void kg_row_node_text(struct kg_row *row, const struct kg_node *object, const char *name);
void kg_row_node_int(struct kg_row *row, const struct kg_node *object, const char *name);
void kg_row_node_real(struct kg_row *row, const struct kg_node *object, const char *name);
KG_WARN_UNUSED enum kg_status kg_row_end(struct kg_row *row, struct kg_error *err);
/* Of a query for one number instead of kg_row_end. */
KG_WARN_UNUSED enum kg_status kg_row_find(struct kg_row *row, int64_t *id, bool *found, struct kg_error *err);

/* The row of these cells in a table of names, made if it is not there. put binds all cells but the id. Its id is
 * ids[0], of a hash (kg_hash_ids): who sends bundles can make two names whose hashes meet, so a row is found by all of
 * its cells, and has ids[1] where another name came first. */
typedef void kg_row_put_fn(struct kg_row *row, const void *what);
KG_WARN_UNUSED enum kg_status kg_row_name(struct kg_history *history, enum kg_history_stmt find,
                                          enum kg_history_stmt insert, kg_row_put_fn *put, const void *what,
                                          const int64_t ids[2], int64_t *id, struct kg_error *err);

/* Figures of results under way to rows of `metric`: one step of SQLite inserts KG_METRICS_AT_ONCE of them. */
enum { KG_METRICS_AT_ONCE = 32 };
struct kg_metrics {
    struct kg_history *history;
    struct kg_buffer name; /* of the figure under way */
    struct kg_metric {
        int64_t result_id, seq, figure_id;
        const struct kg_node *value, *tol, *stats;
        bool valid;
    } waiting[KG_METRICS_AT_ONCE];
    size_t n_waiting;
};

/* Adds the metrics of a result, in the order errors, timings, metrics, memory; it is read until kg_metrics_end. */
KG_WARN_UNUSED enum kg_status kg_metrics_add(struct kg_metrics *metrics, int64_t result_id,
                                             const struct kg_node *result, struct kg_error *err);
/* Inserts what waits if all before it went well, and frees. */
KG_WARN_UNUSED enum kg_status kg_metrics_end(struct kg_metrics *metrics, enum kg_status before, struct kg_error *err);

#endif
