#include "suites/integration/fleet_lab.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "bundle/archive.h"
#include "fleet/fleet.h"
#include "suites/integration/fleet_server.h"
#ifdef HAVE_LIBPQ
#include "fleet/libpq.h"
#endif
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ARGS = 24, ASK_AGAIN_US = 50000, WAIT_S = 50 };

static const char *socket_dir; /* of the program's server */

/* What a statement gave, or why it failed. */
struct answer {
    char *rows, *why;
};

#ifdef HAVE_LIBPQ
/* Rows in lines, cells between bars. */
static char *rows_of(const struct kg_libpq *pq, const PGresult *result) {
    struct kg_buffer text = KG_BUFFER_INIT;
    for (int row = 0; row < pq->ntuples(result); row++)
        for (int i = 0; i < pq->nfields(result); i++)
            kg_buffer_printf(&text, "%s%s", i ? "|" : row ? "\n" : "", pq->getvalue(result, row, i));
    return text.data ? text.data : kg_xstrdup("");
}

static void drop_notice(void *unused, const char *message) {
    (void)unused, (void)message;
}

static void ask(const char *url, const char *name, const char *sql, struct answer *answer) {
    const struct kg_libpq *pq = kg_libpq();
    const char *const keys[] = { "dbname", "application_name", NULL }, *const values[] = { url, name, NULL };
    PGconn *conn = pq->connectdbParams(keys, values, 1);
    pq->setNoticeProcessor(conn, drop_notice, NULL);
    PGresult *result = pq->status(conn) == CONNECTION_OK ? pq->exec(conn, sql) : NULL;
    const ExecStatusType ended = result ? pq->resultStatus(result) : PGRES_FATAL_ERROR;
    *answer = (struct answer){ NULL, NULL };
    if (ended == PGRES_TUPLES_OK || ended == PGRES_COMMAND_OK) answer->rows = rows_of(pq, result);
    else answer->why = kg_xstrdup(pq->errorMessage(conn));
    if (result) pq->clear(result);
    pq->finish(conn);
}
#else
static void ask(const char *url, const char *name, const char *sql, struct answer *answer) {
    (void)url, (void)name, (void)sql;
    *answer = (struct answer){ .why = kg_xstrdup(kg_fleet_missing()) };
}
#endif

static void ask_as(const struct kg_fleet_lab *lab, const char *user, const char *sql, struct answer *answer) {
    char *url = kg_fleet_lab_url(lab, user);
    ask(url, "suite", sql, answer);
    free(url);
}

static void make_database(const struct kg_fleet_lab *lab) {
    const struct kg_fleet_lab all = { .database = "postgres" };
    /* Ordered as a dictionary is, as a team's database may be: what kigo orders by bytes must say so. */
    const bool has_icu = kg_fleet_lab_number(&all, "SELECT current_setting('server_version_num')") >= 150000;
    char *make = kg_xasprintf("CREATE DATABASE %s TEMPLATE template0%s", lab->database,
                              has_icu ? " LOCALE_PROVIDER icu ICU_LOCALE 'en'" : "");
    free(kg_fleet_lab_sql(&all, "postgres", make));
    free(make);
}

/* The first one makes the roles, of which users are members then. Cases share the database that has a fleet, one
 * after another: making one costs more than most cases do. */
static void make_fleet(struct kg_fleet_lab *lab, bool clear) {
    static const char USERS[] =
        "CREATE ROLE runner_a LOGIN IN ROLE kigo_runner; CREATE ROLE nobody LOGIN;"
        "CREATE ROLE runner_b LOGIN IN ROLE kigo_runner; CREATE ROLE reader LOGIN IN ROLE kigo_reader",
                      CLEAR[] = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                " WHERE datname = current_database() AND pid <> pg_backend_pid();"
                                "TRUNCATE kigo.runner, kigo.archive_chunk, kigo.env, kigo.build, kigo.tcase,"
                                " kigo.figure_name, kigo.result_row, kigo.metric_row, kigo.annotation CASCADE";
    static bool made;
    snprintf(lab->database, sizeof lab->database, "kigo");
    if (made) {
        if (clear) free(kg_fleet_lab_sql(lab, "postgres", CLEAR));
        return;
    }
    make_database(lab);
    kg_fleet_lab_kigo(lab, "postgres", ARGS("fleet", "init"), KG_EXIT_OK, NULL, NULL);
    free(kg_fleet_lab_sql(lab, "postgres", USERS));
    made = true;
}

/* False: the case was marked as skipped. */
static bool find_server(struct kg_fleet_lab *lab, struct kg_record *rec) {
    struct kg_error err;
    const char *why = kg_fleet_missing() ? kg_fleet_missing() : kg_archive_missing();
    if (!why) socket_dir = kg_fleet_server_dir(&why);
    if (why) return kg_record_skip(rec, "%s", why), false;
    *lab = (struct kg_fleet_lab){ .bundles = kg_path_join(kg_scratch_dir(rec), "bundles") };
    ck_assert_msg(kg_dir_make(lab->bundles, &err) == KG_OK, "%s", err.message);
    return true;
}

bool kg_fleet_lab_open_again(struct kg_fleet_lab *lab, struct kg_record *rec) {
    if (!find_server(lab, rec)) return false;
    make_fleet(lab, false);
    return true;
}

bool kg_fleet_lab_open(struct kg_fleet_lab *lab, struct kg_record *rec, bool init) {
    static int n_databases;
    if (!find_server(lab, rec)) return false;
    if (init) make_fleet(lab, true);
    else {
        snprintf(lab->database, sizeof lab->database, "kigo_%d", n_databases++);
        make_database(lab);
    }
    return true;
}

void kg_fleet_lab_close(struct kg_fleet_lab *lab) {
    free(lab->bundles);
}

char *kg_fleet_lab_url(const struct kg_fleet_lab *lab, const char *user) {
    if (!lab->servers) return kg_xasprintf("postgresql://%s@/%s?host=%s", user, lab->database, socket_dir);
    return kg_xasprintf("postgresql://%s@/%s?host=%s%s%s&port=%s", user, lab->database, socket_dir,
                        strchr(lab->servers, ',') ? "," : "", strchr(lab->servers, ',') ? socket_dir : "",
                        lab->servers);
}

char *kg_fleet_lab_sql(const struct kg_fleet_lab *lab, const char *user, const char *sql) {
    struct answer answer;
    ask_as(lab, user, sql, &answer);
    ck_assert_msg(answer.rows != NULL, "%.500s: %.1500s", sql, answer.why);
    return answer.rows;
}

int64_t kg_fleet_lab_number(const struct kg_fleet_lab *lab, const char *sql) {
    char *text = kg_fleet_lab_sql(lab, "postgres", sql);
    const int64_t number = strtoll(text, NULL, 10);
    ck_assert_msg(*text != '\0', "%s gives nothing", sql);
    free(text);
    return number;
}

void kg_fleet_lab_refuses(const struct kg_fleet_lab *lab, const char *user, const char *sql, const char *says) {
    struct answer answer;
    ask_as(lab, user, sql, &answer);
    ck_assert_msg(answer.why != NULL, "the server takes as %s: %s", user, sql);
    ck_assert_msg(strstr(answer.why, says) != NULL, "'%s' is not in: %.1500s", says, answer.why);
    free(answer.why);
}

void kg_fleet_lab_wait(const struct kg_fleet_lab *lab, const char *sql) {
    const uint64_t last_ns = kg_clock_monotonic_ns() + (uint64_t)WAIT_S * 1000000000;
    for (;;) {
        char *text = kg_fleet_lab_sql(lab, "postgres", sql);
        const bool is_true = strcmp(text, "t") == 0;
        free(text);
        if (is_true) return;
        ck_assert_msg(kg_clock_monotonic_ns() < last_ns, "not so after %d s: %s", WAIT_S, sql);
        usleep(ASK_AGAIN_US);
    }
}

/* Arguments and environment of a call, which outlive it. */
struct kg_fleet_job {
    const char *argv[MOST_ARGS], *env[2];
    char *url, *history;
    struct kg_process process;
    struct kg_process_result result;
    struct kg_error err;
    enum kg_status status;
    pthread_t thread;
    pid_t child;
};

static void fill_kigo(const struct kg_fleet_lab *lab, const char *user, const char *const *args, bool json,
                      struct kg_fleet_job *job) {
    size_t n = 0;
    *job = (struct kg_fleet_job){ .url = kg_fleet_lab_url(lab, user) };
    job->history = kg_xasprintf("KIGO_HISTORY=%s", job->url);
    job->env[0] = job->history;
    job->argv[n++] = kg_program_path();
    for (; *args; args++) job->argv[n++] = *args;
    if (json) job->argv[n++] = "--json";
    job->process = (struct kg_process){ .argv = job->argv, .env = job->env };
}

static void free_job(struct kg_fleet_job *job) {
    free(job->url);
    free(job->history);
}

static void *run_job(void *arg) {
    struct kg_fleet_job *job = arg;
    job->status = kg_process_run(&job->process, &job->result, &job->err);
    return NULL;
}

void kg_fleet_lab_kigo(const struct kg_fleet_lab *lab, const char *user, const char *const *args, int exit_code,
                       const char *says, char **out) {
    struct kg_fleet_job job;
    fill_kigo(lab, user, args, false, &job);
    run_job(&job);
    const struct kg_process_result *r = &job.result;
    ck_assert_msg(job.status == KG_OK, "%s", job.err.message);
    ck_assert_msg(r->exit_code == exit_code, "kigo %s %s ended with %d, not %d: %.1500s%.1500s", args[0], args[1],
                  r->exit_code, exit_code, r->out, r->err);
    ck_assert_msg(!says || strstr(r->err, says) || strstr(r->out, says), "'%s' is not in: %.1500s%.1500s", says, r->out,
                  r->err);
    if (out) *out = kg_xstrdup(r->out);
    kg_process_result_free(&job.result);
    free_job(&job);
}

json_t *kg_fleet_lab_json(const struct kg_fleet_lab *lab, const char *user, const char *const *args, int exit_code) {
    struct kg_fleet_job job;
    json_error_t error;
    fill_kigo(lab, user, args, true, &job);
    run_job(&job);
    ck_assert_msg(job.status == KG_OK, "%s", job.err.message);
    ck_assert_msg(job.result.exit_code == exit_code, "kigo %s %s ended with %d, not %d: %.1500s%.1500s", args[0],
                  args[1], job.result.exit_code, exit_code, job.result.out, job.result.err);
    json_t *json = json_loads(job.result.out, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json != NULL, "kigo %s --json: %s in %.1500s", args[0], error.text, job.result.out);
    kg_process_result_free(&job.result);
    free_job(&job);
    return json;
}

static void begin(struct kg_fleet_job *job) {
    ck_assert_int_eq(pthread_create(&job->thread, NULL, run_job, job), 0);
}

struct kg_fleet_job *kg_fleet_lab_begin(const struct kg_fleet_lab *lab, const char *user, const char *const *args) {
    return kg_fleet_lab_begin_for(lab, user, args, 0);
}

struct kg_fleet_job *kg_fleet_lab_begin_for(const struct kg_fleet_lab *lab, const char *user, const char *const *args,
                                            double seconds) {
    struct kg_fleet_job *job = kg_xmalloc(sizeof *job);
    fill_kigo(lab, user, args, false, job);
    job->process.timeout_s = seconds;
    job->process.child = &job->child;
    begin(job);
    return job;
}

void kg_fleet_job_kill(struct kg_fleet_job *job) {
    const pid_t child = __atomic_load_n(&job->child, __ATOMIC_ACQUIRE);
    ck_assert_msg(child > 0, "kigo was not started");
    kill(child, SIGKILL);
}

/* A statement beside the case. */
struct kg_fleet_beside {
    char *url, *sql;
    struct answer answer;
    pthread_t thread;
};

static void *run_beside(void *arg) {
    struct kg_fleet_beside *beside = arg;
    ask(beside->url, "beside", beside->sql, &beside->answer);
    return NULL;
}

struct kg_fleet_beside *kg_fleet_lab_hold(const struct kg_fleet_lab *lab, const char *table) {
    struct kg_fleet_beside *beside = kg_xcalloc(1, sizeof *beside);
    char *is_held = kg_xasprintf("SELECT count(*) = 1 FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock'"
                                 " AND relation = '%s'::regclass",
                                 table);
    beside->url = kg_fleet_lab_url(lab, "postgres");
    beside->sql = kg_xasprintf("LOCK TABLE %s; SELECT pg_sleep(600)", table);
    ck_assert_int_eq(pthread_create(&beside->thread, NULL, run_beside, beside), 0);
    kg_fleet_lab_wait(lab, is_held);
    free(is_held);
    return beside;
}

void kg_fleet_lab_release(struct kg_fleet_beside *beside) {
    struct answer answer;
    ask(beside->url, "suite",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'beside'", &answer);
    ck_assert_int_eq(pthread_join(beside->thread, NULL), 0);
    free(answer.rows);
    free(answer.why);
    free(beside->answer.rows);
    free(beside->answer.why);
    free(beside->sql);
    free(beside->url);
    free(beside);
}

void kg_fleet_job_end(struct kg_fleet_job *job, struct kg_process_result *result) {
    ck_assert_int_eq(pthread_join(job->thread, NULL), 0);
    ck_assert_msg(job->status == KG_OK, "%s", job->err.message);
    *result = job->result;
    free_job(job);
    free(job);
}
