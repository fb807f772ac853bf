/* A fleet as a store of the history's rows (history/store.h): each question one statement, in a separate transaction
 * that only reads, its rows taken one by one as they come. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "history/store.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of pg_type, which the protocol fixes for good. */
enum { OID_BOOL = 16, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23, OID_TEXT = 25, OID_FLOAT4 = 700, OID_FLOAT8 = 701 };
enum { OID_NUMERIC = 1700, MOST_ARGS = 16, LOOK_MS = 100 };

/* A question under way. */
struct asking {
    struct kg_fleet *fleet;
    const struct kg_query_limits *limits; /* NULL: kigo's own question */
    const char *sql, *const *args;
    size_t n_args;
    uint64_t begin_ns;
    kg_row_fn *row;
    void *arg;
    size_t n_columns;
    const char **names; /* of columns; NULL before the first answer */
    struct kg_cell *cells;
    bool had_enough, stopped, late;
};

/* ?1 as $1, but for what stands in quotes. malloc'ed. */
static char *with_dollars(const char *sql) {
    char *out = kg_xstrdup(sql), quote = '\0';
    for (char *s = out; *s; s++) {
        if (quote) quote = *s == quote ? '\0' : quote;
        else if (*s == '\'' || *s == '"') quote = *s;
        else if (*s == '?' && s[1] >= '1' && s[1] <= '9') *s = '$';
    }
    return out;
}

/* As SQLite has it: a number without a fraction is an integer if it fits. */
static void take_number(const char *text, struct kg_cell *cell) {
    char *end = NULL;
    errno = 0;
    cell->integer = strtoll(text, &end, 10);
    cell->kind = KG_CELL_INT;
    if (*end == '\0' && errno == 0) return;
    cell->kind = KG_CELL_REAL;
    cell->real = strtod(text, NULL);
}

static struct kg_cell cell_of(const struct kg_libpq *pq, const PGresult *result, int column) {
    struct kg_cell cell = { KG_CELL_NULL, 0, 0, "", 0 };
    if (pq->getisnull(result, 0, column)) return cell;
    const char *text = pq->getvalue(result, 0, column);
    switch (pq->ftype(result, column)) {
    case OID_BOOL:
        cell.kind = KG_CELL_INT;
        cell.integer = *text == 't';
        break;
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
    case OID_NUMERIC: take_number(text, &cell); break;
    case OID_FLOAT4:
    case OID_FLOAT8:
        cell.kind = KG_CELL_REAL;
        cell.real = strtod(text, NULL);
        if (isnan(cell.real)) cell = (struct kg_cell){ KG_CELL_NULL, 0, 0, "", 0 };
        break;
    default:
        cell.kind = KG_CELL_TEXT;
        cell.text = text;
        cell.size_bytes = (size_t)pq->getlength(result, 0, column);
    }
    return cell;
}

/* The columns of the first result, given before any row. */
static void begin_rows(struct asking *asking, const PGresult *result) {
    const struct kg_libpq *pq = asking->fleet->pq;
    asking->n_columns = (size_t)pq->nfields(result);
    asking->names = kg_xcalloc(asking->n_columns + 1, sizeof *asking->names);
    asking->cells = kg_xcalloc(asking->n_columns + 1, sizeof *asking->cells);
    for (size_t i = 0; i < asking->n_columns; i++) asking->names[i] = kg_xstrdup(pq->fname(result, (int)i));
    asking->had_enough = !asking->row(asking->arg, asking->n_columns, asking->names, NULL);
}

static void end_rows(struct asking *asking) {
    for (size_t i = 0; asking->names && i < asking->n_columns; i++) free((char *)asking->names[i]);
    free(asking->names);
    free(asking->cells);
}

static void cancel(const struct kg_fleet *fleet) {
    char why[256];
    PGcancel *cancelling = fleet->pq->getCancel(fleet->conn);
    if (cancelling) (void)fleet->pq->cancel(cancelling, why, sizeof why);
    fleet->pq->freeCancel(cancelling);
}

/* Waits for the next result, a row or the end; *result NULL: there is no more. */
static enum kg_status next_result(struct asking *asking, PGresult **result, struct kg_error *err) {
    const struct kg_libpq *pq = asking->fleet->pq;
    while (pq->isBusy(asking->fleet->conn)) {
        struct pollfd waiting = { .fd = pq->socket(asking->fleet->conn), .events = POLLIN };
        const int ready = poll(&waiting, 1, LOOK_MS);
        const double seconds = (double)(kg_clock_monotonic_ns() - asking->begin_ns) * 1e-9;
        const struct kg_query_limits *limits = asking->limits;
        if (limits && limits->stop && !asking->stopped && limits->stop(limits->user, seconds)) {
            asking->stopped = true;
            cancel(asking->fleet);
        }
        if (ready > 0 && !pq->consumeInput(asking->fleet->conn))
            return kg_fleet_fail(asking->fleet, "waiting for the answer", NULL, err);
    }
    *result = pq->getResult(asking->fleet->conn);
    return KG_OK;
}

/* SQLSTATEs of a statement whose words are at fault (PostgreSQL's manual, appendix A). */
static enum kg_status blame(const struct asking *asking, PGresult *result, struct kg_error *err) {
    static const char *const OF_WORDS[] = { "42", "22", "21", "0A", "54" };
    const struct kg_libpq *pq = asking->fleet->pq;
    const char *state = pq->resultErrorField(result, PG_DIAG_SQLSTATE),
               *said = pq->resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const bool unknown = state && (strcmp(state, "42P01") == 0 || strcmp(state, "42703") == 0);
    bool of_words = false;
    for (size_t i = 0; state && i < sizeof OF_WORDS / sizeof *OF_WORDS; i++)
        of_words = of_words || strncmp(state, OF_WORDS[i], 2) == 0;
    if (!asking->limits || !state || !said || strcmp(state, "42501") == 0)
        return kg_fleet_fail(asking->fleet, "asking", result, err);
    enum kg_status status = KG_OK;
    if (asking->stopped) status = kg_fail(err, KG_ERR_CANCELLED, "the query was ended by a signal");
    else if (strcmp(state, "57014") == 0)
        status = kg_fail(err, KG_ERR_CANCELLED, "the query took longer than %g s: narrow it, or raise --max-seconds",
                         asking->limits->seconds);
    else if (strncmp(state, "25", 2) == 0)
        status = kg_fail(err, KG_ERR_USAGE, "a query may only read (%s): %.400s", said, asking->sql);
    else if (of_words)
        status = kg_fail(err, KG_ERR_USAGE, "%s: %.400s%s", said, asking->sql,
                         unknown ? "; 'kigo query --schema' lists what there is" : "");
    if (status == KG_OK) return kg_fleet_fail(asking->fleet, "asking", result, err);
    pq->clear(result);
    return status;
}

/* One result, which is cleared. */
static enum kg_status take_result(struct asking *asking, PGresult *result, struct kg_error *err) {
    const struct kg_libpq *pq = asking->fleet->pq;
    const ExecStatusType kind = pq->resultStatus(result);
    if (kind == PGRES_FATAL_ERROR || kind == PGRES_BAD_RESPONSE) return blame(asking, result, err);
    enum kg_status status = KG_OK;
    if (kind != PGRES_SINGLE_TUPLE && kind != PGRES_TUPLES_OK)
        status = kg_fail(err, KG_ERR_USAGE, "a query may only read: %.400s", asking->sql);
    if (status == KG_OK && !asking->names) begin_rows(asking, result);
    if (status == KG_OK && kind == PGRES_SINGLE_TUPLE && !asking->had_enough) {
        for (size_t i = 0; i < asking->n_columns; i++) asking->cells[i] = cell_of(pq, result, (int)i);
        asking->had_enough = !asking->row(asking->arg, asking->n_columns, asking->names, asking->cells);
    }
    pq->clear(result);
    return status;
}

static bool is_copy(ExecStatusType kind) {
    return kind == PGRES_COPY_OUT || kind == PGRES_COPY_IN || kind == PGRES_COPY_BOTH;
}

/* Takes all results, so that the connection is free again; the first error counts, but for that of what was given up
 * after enough rows. */
static enum kg_status take_results(struct asking *asking, struct kg_error *err) {
    enum kg_status status = KG_OK;
    bool given_up = false;
    for (;;) {
        PGresult *result = NULL;
        struct kg_error why;
        enum kg_status one = next_result(asking, &result, &why);
        if (one == KG_OK && !result) return status;
        /* A COPY has no rows, and no end before its data was read: nothing more is asked of this connection. */
        const bool lost = one != KG_OK || is_copy(asking->fleet->pq->resultStatus(result));
        if (one == KG_OK) one = take_result(asking, result, &why);
        if (status == KG_OK && one != KG_OK && !given_up) status = kg_fail(err, one, "%s", why.message);
        if (lost) return status;
        if ((asking->had_enough || status != KG_OK) && !given_up) cancel(asking->fleet);
        given_up = given_up || asking->had_enough || status != KG_OK;
    }
}

static enum kg_status ask_once(struct asking *asking, struct kg_error *err) {
    const struct kg_query_limits *limits = asking->limits;
    struct kg_fleet *fleet = asking->fleet;
    Oid types[MOST_ARGS];
    char timeout[64];
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < MOST_ARGS; i++) types[i] = OID_TEXT;
    if (limits) {
        snprintf(timeout, sizeof timeout, "SET statement_timeout = %.0f", ceil(limits->seconds * 1000));
        status = kg_fleet_exec(fleet, "setting the time limit", timeout, err);
    }
    if (status != KG_OK) return status;
    char *words = asking->n_args > 0 ? with_dollars(asking->sql) : kg_xstrdup(asking->sql);
    if (!fleet->pq->sendQueryParams(fleet->conn, words, (int)asking->n_args, types, asking->args, NULL, NULL, 0) ||
        !fleet->pq->setSingleRowMode(fleet->conn))
        status = kg_fleet_fail(fleet, "asking", NULL, err);
    else status = take_results(asking, err);
    free(words);
    return status;
}

/* One whose server went away before it had given anything is asked of another, or of the same once it is back. */
static enum kg_status query(void *place, const struct kg_query_limits *limits, const char *sql, const char *const *args,
                            size_t n_args, kg_row_fn *row, void *arg, struct kg_error *err) {
    struct asking asking = { .fleet = place,
                             .limits = limits,
                             .sql = sql,
                             .args = args,
                             .n_args = n_args,
                             .begin_ns = kg_clock_monotonic_ns(),
                             .row = row,
                             .arg = arg };
    if (n_args > MOST_ARGS) return kg_fail(err, KG_ERR_INTERNAL, "a question of %zu arguments", n_args);
    enum kg_status status = ask_once(&asking, err);
    if (status == KG_ERR_INCOMPLETE && kg_fleet_is_lost(asking.fleet) && !asking.names && !asking.stopped) {
        status = kg_fleet_reconnect(asking.fleet, err);
        if (status == KG_OK) status = ask_once(&asking, err);
    }
    end_rows(&asking);
    return status;
}

/* What a statement changes is committed, or nothing is. */
static enum kg_status change(void *place, const char *sql, const char *const *args, size_t n_args, int64_t *n_rows,
                             struct kg_error *err) {
    struct kg_fleet *fleet = place;
    struct kg_fleet_rows rows = { .fleet = fleet };
    enum kg_status status = KG_OK;
    if (fleet->use == KG_FLEET_READS) { /* a standby may have let it in */
        fleet->use = KG_FLEET_WRITES;
        status = kg_fleet_reconnect(fleet, err);
    }
    if (status == KG_OK) status = kg_fleet_exec(fleet, "beginning", "BEGIN READ WRITE", err);
    if (status != KG_OK) return status;
    status = kg_fleet_ask(fleet, "changing rows", sql, args, (int)n_args, &rows, err);
    if (status == KG_OK) *n_rows = strtoll(fleet->pq->cmdTuples(rows.result), NULL, 10);
    kg_fleet_rows_free(&rows);
    if (status == KG_OK) status = kg_fleet_exec(fleet, "committing", "COMMIT", err);
    if (status != KG_OK) kg_fleet_roll_back(fleet);
    return status;
}

static void close_place(void *place) {
    kg_fleet_close(place);
}

enum kg_status kg_fleet_history(struct kg_fleet *fleet, struct kg_history **history, struct kg_error *err) {
    static const struct kg_store STORE = { query, kg_fleet_bring, change, close_place };
    enum kg_status status = kg_fleet_check(fleet, err);
    fleet->more_settings = "SET default_transaction_read_only = on; SET jit = off";
    if (status == KG_OK) status = kg_fleet_exec(fleet, "setting up", fleet->more_settings, err);
    if (status == KG_OK) *history = kg_history_of_store(&STORE, fleet, fleet->where);
    return status;
}
