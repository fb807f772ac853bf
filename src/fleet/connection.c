/* A connection to the server, its errors, and statements. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include "base/clock.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_US = 200000 };

/* SQLSTATE classes (PostgreSQL's manual, appendix A) and the status that fits; the first row that fits. */
static const struct {
    const char *begins;
    enum kg_status status;
} STATES[] = {
    { "08", KG_ERR_INCOMPLETE },    /* connection */
    { "57014", KG_ERR_CANCELLED },  /* a time limit */
    { "57P", KG_ERR_INCOMPLETE },   /* shut down */
    { "42501", KG_ERR_UNWRITABLE }, /* privileges, row-level security */
    { "25006", KG_ERR_UNWRITABLE }, /* a standby */
    { "53", KG_ERR_UNWRITABLE },    /* disk, memory, connections */
    { "3F000", KG_ERR_SCHEMA },     /* no such schema */
    { "42P01", KG_ERR_SCHEMA },     /* no such table */
    { "42703", KG_ERR_SCHEMA },     /* no such column */
    { "40", KG_ERR_BUSY },          /* deadlock, serialisation */
    { "55P03", KG_ERR_BUSY },       /* lock not available */
    { "23", KG_ERR_INTEGRITY },     /* a constraint */
    { "", KG_ERR_INCOMPLETE },
};

static enum kg_status status_of(const char *state) {
    size_t i = 0;
    while (strncmp(state, STATES[i].begins, strlen(STATES[i].begins)) != 0) i++;
    return STATES[i].status;
}

/* A message in one line, without the password. malloc'ed. */
static char *one_line(const char *message, const char *secret) {
    struct kg_buffer line = KG_BUFFER_INIT;
    const size_t secret_len = secret ? strlen(secret) : 0;
    for (const char *at = message; *at;) {
        if (secret_len > 0 && strncmp(at, secret, secret_len) == 0) {
            kg_buffer_puts(&line, "***");
            at += secret_len;
        } else if (*at == '\n') {
            at += strspn(at, "\n\t ");
            if (*at) kg_buffer_puts(&line, "; ");
        } else kg_buffer_append(&line, at++, 1);
    }
    return line.data ? line.data : kg_xstrdup("no reason was given");
}

bool kg_fleet_is_lost(const struct kg_fleet *fleet) {
    return fleet->is_gone || fleet->pq->status(fleet->conn) != CONNECTION_OK;
}

enum kg_status kg_fleet_fail(struct kg_fleet *fleet, const char *doing, PGresult *result, struct kg_error *err) {
    const struct kg_libpq *pq = fleet->pq;
    const char *state = result ? pq->resultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *said = result ? pq->resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char *why = one_line(said ? said : pq->errorMessage(fleet->conn), fleet->secret);
    enum kg_status status = status_of(state ? state : "");
    /* libpq's own errors have no SQLSTATE, and do not always change the connection's status: it could not write. */
    fleet->is_gone = fleet->is_gone || !state || strncmp(state, "57P", 3) == 0;
    if (kg_fleet_is_lost(fleet)) status = kg_fail(err, KG_ERR_INCOMPLETE, "%s went away: %s", fleet->where, why);
    else /* of a write that was cut short the server's message does not say why */
        status = kg_fail(err, status, "%s: %s: %s%s", fleet->where, doing,
                         state && strcmp(state, "53100") == 0 ? "the server's disk is full: " : "", why);
    free(why);
    if (result) pq->clear(result);
    return status;
}

static void drop_notice(void *unused, const char *message) {
    (void)unused, (void)message;
}

/* Settings of every connection: kigo's tables are found first, and what kigo asks itself has no time limit. */
static const char SETTINGS[] = "SET search_path = kigo, pg_temp; SET statement_timeout = 0; SET DateStyle = 'ISO';"
                               "SET TimeZone = 'UTC'; SET extra_float_digits = 1; SET standard_conforming_strings = on";

static enum kg_status connect_once(struct kg_fleet *fleet, struct kg_error *err) {
    /* What stands before the URL may be said otherwise by it, what stands behind may not. A machine that fell silent is
     * given up after a minute. */
    const bool writes = fleet->use == KG_FLEET_WRITES;
    const char *const names[] = { "connect_timeout",
                                  "application_name",
                                  "keepalives_idle",
                                  "keepalives_interval",
                                  "keepalives_count",
                                  "tcp_user_timeout",
                                  "dbname",
                                  "client_encoding",
                                  writes ? "target_session_attrs" : NULL,
                                  NULL };
    const char *const values[] = { "10", "kigo", "30", "10", "3", "60000", fleet->url, "UTF8", "read-write", NULL };
    if (fleet->conn) fleet->pq->finish(fleet->conn);
    fleet->is_gone = false;
    fleet->conn = fleet->pq->connectdbParams(names, values, 1);
    if (!fleet->conn) kg_memory_exhausted(0);
    if (kg_fleet_is_lost(fleet)) {
        char *why = one_line(fleet->pq->errorMessage(fleet->conn), fleet->secret);
        const enum kg_status status = kg_fail(err, KG_ERR_INCOMPLETE, "%s cannot be reached: %s", fleet->where, why);
        free(why);
        return status;
    }
    fleet->pq->setNoticeProcessor(fleet->conn, drop_notice, NULL);
    const enum kg_status status = kg_fleet_exec(fleet, "setting up", SETTINGS, err);
    return status == KG_OK && fleet->more_settings ? kg_fleet_exec(fleet, "setting up", fleet->more_settings, err)
                                                   : status;
}

enum kg_status kg_fleet_reconnect(struct kg_fleet *fleet, struct kg_error *err) {
    const uint64_t last_ns = kg_clock_monotonic_ns() + (uint64_t)(1e9 * fleet->wait_s);
    enum kg_status status = connect_once(fleet, err);
    while (status == KG_ERR_INCOMPLETE && kg_clock_monotonic_ns() < last_ns) {
        usleep(PAUSE_US);
        status = connect_once(fleet, err);
    }
    return status;
}

static const char *option_of(const PQconninfoOption *options, const char *keyword) {
    for (; options && options->keyword; options++)
        if (strcmp(options->keyword, keyword) == 0) return options->val;
    return NULL;
}

/* Where the URL leads, without its password. libpq's message of a URL that it cannot read quotes it: it is not shown.
 */
static enum kg_status read_url(struct kg_fleet *fleet, struct kg_error *err) {
    char *message = NULL;
    PQconninfoOption *options = fleet->pq->conninfoParse(fleet->url, &message);
    const char *host = option_of(options, "host"), *port = option_of(options, "port"),
               *user = option_of(options, "user"), *dbname = option_of(options, "dbname"),
               *secret = option_of(options, "password");
    enum kg_status status = KG_OK;
    if (!options || (host && strchr(host, '@')))
        status = kg_fail(err, KG_ERR_USAGE,
                         "libpq cannot read the URL of the fleet: postgresql://USER@HOST:PORT/DATABASE, in which other "
                         "characters than letters, digits and -._~ are %%-encoded");
    if (status == KG_OK) {
        fleet->secret = secret && *secret ? kg_xstrdup(secret) : NULL;
        fleet->where =
            kg_xasprintf("fleet %s at %s%s%s%s%s", dbname ? dbname : "of the user's name", host ? host : "this machine",
                         port ? ":" : "", port ? port : "", user ? ", as " : "", user ? user : "");
    }
    fleet->pq->conninfoFree(options);
    fleet->pq->freemem(message);
    return status;
}

enum kg_status kg_fleet_open(const char *url, enum kg_fleet_use use, double wait_s, struct kg_fleet **out,
                             struct kg_error *err) {
    if (kg_fleet_missing()) return kg_fail(err, KG_ERR_UNSUPPORTED, "%s", kg_fleet_missing());
    struct kg_fleet *fleet = kg_xcalloc(1, sizeof *fleet);
    fleet->pq = kg_libpq();
    fleet->url = kg_xstrdup(url);
    fleet->wait_s = wait_s;
    fleet->use = use;
    enum kg_status status = read_url(fleet, err);
    if (status == KG_OK) status = kg_fleet_reconnect(fleet, err);
    if (status == KG_OK) *out = fleet;
    else kg_fleet_close(fleet);
    return status;
}

void kg_fleet_close(struct kg_fleet *fleet) {
    if (!fleet) return;
    if (fleet->conn) fleet->pq->finish(fleet->conn);
    free(fleet->secret);
    free(fleet->where);
    free(fleet->url);
    free(fleet);
}

const char *kg_fleet_where(const struct kg_fleet *fleet) {
    return fleet->where;
}

static bool is_good(const struct kg_fleet *fleet, const PGresult *result) {
    const ExecStatusType status = fleet->pq->resultStatus(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

enum kg_status kg_fleet_exec(struct kg_fleet *fleet, const char *doing, const char *sql, struct kg_error *err) {
    PGresult *result = fleet->pq->exec(fleet->conn, sql);
    if (!is_good(fleet, result)) return kg_fleet_fail(fleet, doing, result, err);
    fleet->pq->clear(result);
    return KG_OK;
}

enum kg_status kg_fleet_ask(struct kg_fleet *fleet, const char *doing, const char *sql, const char *const *args,
                            int n_args, struct kg_fleet_rows *rows, struct kg_error *err) {
    PGresult *result = fleet->pq->execParams(fleet->conn, sql, n_args, NULL, args, NULL, NULL, 0);
    *rows = (struct kg_fleet_rows){ .fleet = fleet };
    if (!is_good(fleet, result)) return kg_fleet_fail(fleet, doing, result, err);
    rows->result = result;
    rows->n = fleet->pq->ntuples(result);
    return KG_OK;
}

enum kg_status kg_fleet_tell(struct kg_fleet *fleet, const char *doing, const char *sql, const char *const *args,
                             int n_args, struct kg_error *err) {
    struct kg_fleet_rows rows;
    const enum kg_status status = kg_fleet_ask(fleet, doing, sql, args, n_args, &rows, err);
    kg_fleet_rows_free(&rows);
    return status;
}

void kg_fleet_rows_free(struct kg_fleet_rows *rows) {
    if (rows->result) rows->fleet->pq->clear(rows->result);
    rows->result = NULL;
}

const char *kg_fleet_cell(const struct kg_fleet_rows *rows, int row, int column) {
    return rows->fleet->pq->getvalue(rows->result, row, column);
}

int64_t kg_fleet_integer(const struct kg_fleet_rows *rows, int row, int column) {
    return strtoll(kg_fleet_cell(rows, row, column), NULL, 10);
}

void kg_fleet_roll_back(struct kg_fleet *fleet) {
    if (!kg_fleet_is_lost(fleet)) (void)!kg_fleet_exec(fleet, "rolling back", "ROLLBACK", NULL);
}
