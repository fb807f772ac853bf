#include "suites/unit/statement_trace.h"
#include "base/buffer.h"
#include <check.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static struct kg_trace running;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* statements end in several threads */

static struct kg_traced *entry(const char *sql) {
    for (size_t i = 0; i < running.n_items; i++)
        if (strcmp(running.items[i].sql, sql) == 0) return &running.items[i];
    running.items = kg_xrealloc(running.items, (running.n_items + 1) * sizeof *running.items);
    running.items[running.n_items] = (struct kg_traced){ .sql = kg_xstrdup(sql) };
    return &running.items[running.n_items++];
}

/* SQLITE_TRACE_PROFILE: a statement has run to its end. */
static int on_profile(unsigned what, void *unused, void *stmt, void *unused_ns) {
    (void)what;
    (void)unused;
    (void)unused_ns;
    const char *sql = sqlite3_sql(stmt);
    const uint64_t n_steps = (uint64_t)sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_VM_STEP, 1);
    pthread_mutex_lock(&mutex);
    entry(sql ? sql : "")->n_steps += n_steps;
    running.n_steps += n_steps;
    pthread_mutex_unlock(&mutex);
    return 0;
}

static int trace_connection(sqlite3 *db) {
    return sqlite3_trace_v2(db, SQLITE_TRACE_PROFILE, on_profile, NULL);
}

/* sqlite3_auto_extension takes entry points of extensions, which get the connection first. */
static void (*entry_point(void))(void) {
    return (void (*)(void))trace_connection;
}

void kg_trace_begin(void) {
    running = (struct kg_trace){ NULL, 0, 0 };
    ck_assert_int_eq(sqlite3_auto_extension(entry_point()), SQLITE_OK);
}

void kg_trace_end(struct kg_trace *trace) {
    ck_assert_int_eq(sqlite3_cancel_auto_extension(entry_point()), 1);
    *trace = running;
    running = (struct kg_trace){ NULL, 0, 0 };
}

void kg_trace_free(struct kg_trace *trace) {
    for (size_t i = 0; i < trace->n_items; i++) free(trace->items[i].sql);
    free(trace->items);
    *trace = (struct kg_trace){ NULL, 0, 0 };
}
