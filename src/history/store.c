#include "history/store.h"
#include "base/buffer.h"
#include "history/internal.h"

struct kg_history *kg_history_of_store(const struct kg_store *store, void *place, const char *where) {
    struct kg_history *history = kg_xcalloc(1, sizeof *history);
    history->store = store;
    history->place = place;
    history->path = kg_xstrdup(where);
    return history;
}

bool kg_history_is_store(const struct kg_history *history) {
    return history->store != NULL;
}

const char *kg_history_where(const struct kg_history *history) {
    return history->store ? history->path : history->root;
}

enum kg_status kg_history_query_within(struct kg_history *history, const struct kg_query_limits *limits,
                                       const char *sql, const char *const *args, size_t n_args, kg_row_fn *row,
                                       void *arg, struct kg_error *err) {
    if (history->store) return history->store->query(history->place, limits, sql, args, n_args, row, arg, err);
    return kg_history_query_index(history, limits, sql, args, n_args, row, arg, err);
}

enum kg_status kg_history_query(struct kg_history *history, const char *sql, const char *const *args, size_t n_args,
                                kg_row_fn *row, void *arg, struct kg_error *err) {
    return kg_history_query_within(history, NULL, sql, args, n_args, row, arg, err);
}

enum kg_status kg_history_ask_within(struct kg_history *history, const struct kg_query_limits *limits,
                                     const struct kg_sql *sql, const char *const *args, size_t n_args, kg_row_fn *row,
                                     void *arg, struct kg_error *err) {
    return kg_history_query_within(history, limits, history->store ? sql->postgres : sql->sqlite, args, n_args, row,
                                   arg, err);
}

enum kg_status kg_history_ask(struct kg_history *history, const struct kg_sql *sql, const char *const *args,
                              size_t n_args, kg_row_fn *row, void *arg, struct kg_error *err) {
    return kg_history_ask_within(history, NULL, sql, args, n_args, row, arg, err);
}
