/* Many runners that push at once. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/integration/fleet_figures.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/fleet_server.h"
#include "suites/integration/verbs.h"
#include "suites/support/history_maker.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

/* A child's: it makes runs and pushes them. What it says of each is a line of a file that all share, written at once.
 */
struct runner {
    int number, said;
    char *root, *history, *cache;
    size_t n_cases;
    uint64_t last_ns;
};

static void say(const struct runner *r, const char *id, const char *state, double seconds) {
    char line[512];
    const int n = snprintf(line, sizeof line, "%s %s %.6f\n", id, state, seconds);
    if (write(r->said, line, (size_t)n) != n) _exit(1);
}

static void vary(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->time_ns *= 1 + 0.01 * kg_rng_uniform(arg);
}

static void push_one(const struct runner *r, int n, struct kg_rng *rng) {
    struct kg_process_result result;
    struct kg_error err;
    char *id = NULL;
    const struct kg_made_run run = { .started_us =
                                         INT64_C(1780000000000000) + ((int64_t)r->number * 1000 + n) * 1000000,
                                     .commit = "0123456789abcdef0123456789abcdef01234567",
                                     .n_cases = r->n_cases,
                                     .fill = vary,
                                     .arg = rng };
    if (kg_made_run_write(r->root, &run, &id, &err) != KG_OK) say(r, "-", "not-made", 0), _exit(1);
    char *dir = kg_path_join(r->root, id);
    const char *const argv[] = { kg_program_path(), "push", dir, "--wait", "60", NULL }, *const env[] = { r->history,
                                                                                                          r->cache,
                                                                                                          NULL };
    const uint64_t begin_ns = kg_clock_monotonic_ns();
    if (kg_process_run(&(struct kg_process){ .argv = argv, .env = env, .timeout_s = 900 }, &result, &err) != KG_OK)
        say(r, id, "not-run", 0), _exit(1);
    const bool pushed = result.exit_code == KG_EXIT_OK && strstr(result.out, ": pushed");
    if (!pushed) fprintf(stderr, "%.1000s", result.err);
    say(r, id, pushed ? "pushed" : "failed", (double)(kg_clock_monotonic_ns() - begin_ns) / 1e9);
    kg_process_result_free(&result);
    if (kg_path_remove(dir, &err) != KG_OK) _exit(1);
    free(dir);
    free(id);
}

static void become_runner(const struct kg_fleet_lab *lab, const struct kg_fleet_figures *size, const char *scratch,
                          int number, int said) {
    struct runner r = { .number = number, .said = said, .n_cases = size->n_cases };
    char user[24];
    struct kg_rng rng;
    struct kg_error err;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    kg_rng_init(&rng, 7, (uint64_t)number);
    snprintf(user, sizeof user, "many_%d", number);
    char *url = kg_fleet_lab_url(lab, user);
    r.history = kg_xasprintf("KIGO_HISTORY=%s", url);
    r.root = kg_xasprintf("%s/%s", scratch, user);
    r.cache = kg_xasprintf("XDG_CACHE_HOME=%s/cache", r.root);
    r.last_ns = kg_clock_monotonic_ns() + (uint64_t)(1e9 * size->seconds);
    if (kg_dir_make(r.root, &err) != KG_OK) _exit(1);
    for (int n = 0; n == 0 || kg_clock_monotonic_ns() < r.last_ns; n++) push_one(&r, n, &rng);
    _exit(0);
}

static void make_users(const struct kg_fleet_lab *lab, int n) {
    static const char SQL[] =
        "DO $$ BEGIN FOR i IN 0..%d LOOP IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'many_' || i) THEN"
        " EXECUTE format('CREATE ROLE %%I LOGIN IN ROLE kigo_runner', 'many_' || i); END IF; END LOOP; END $$";
    char *sql = kg_xasprintf(SQL, n - 1);
    free(kg_fleet_lab_sql(lab, "postgres", sql));
    free(sql);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every line of the children: how many runs were acknowledged, each of which must be there. */
static size_t expect_acknowledged(const struct kg_fleet_lab *lab, FILE *lines, double *median_s) {
    char id[256], state[16];
    double *seconds = NULL, one;
    size_t n = 0;
    while (fscanf(lines, "%255s %15s %lf", id, state, &one) == 3) {
        ck_assert_msg(strcmp(state, "pushed") == 0, "%s: %s", id, state);
        char *sql = kg_xasprintf("SELECT count(*) FROM kigo.archive WHERE bundle_id = '%s'", id);
        ck_assert_msg(kg_fleet_lab_number(lab, sql) == 1, "%s was acknowledged, and is not there", id);
        free(sql);
        seconds = kg_xrealloc(seconds, (n + 1) * sizeof *seconds);
        seconds[n++] = one;
    }
    ck_assert_uint_gt(n, 0);
    qsort(seconds, n, sizeof *seconds, by_size);
    *median_s = seconds[n / 2];
    free(seconds);
    return n;
}

/* No more than what was acknowledged, each run with all of its rows. */
static void expect_all_once(const struct kg_fleet_lab *lab, size_t n) {
    static const char *const AS_MANY[] = {
        "SELECT count(*) FROM kigo.archive",
        "SELECT count(*) FROM kigo.bundle",
        "SELECT count(*) FROM kigo.bundle b JOIN (SELECT bundle_no, count(*) AS n FROM kigo.result_row GROUP BY 1) r"
        " USING (bundle_no) WHERE r.n = b.n_planned",
        "SELECT max(n) FROM (SELECT count(*) AS n FROM (SELECT result_id >> 20 AS run, count(*) AS n"
        " FROM kigo.metric_row GROUP BY 1) AS runs GROUP BY runs.n) AS alike",
    };
    for (size_t i = 0; i < KG_COUNT_OF(AS_MANY); i++)
        ck_assert_msg(kg_fleet_lab_number(lab, AS_MANY[i]) == (int64_t)n, "not %zu: %s", n, AS_MANY[i]);
}

void kg_fleet_pushed_by_many(struct kg_record *rec, const void *arg) {
    static const char DEADLOCKS[] = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    const struct kg_fleet_figures *size = arg;
    struct kg_fleet_lab lab;
    double median_s;
    if (!kg_fleet_lab_open(&lab, rec, true)) return;
    kg_fleet_server_kill();
    kg_fleet_server_start(KG_FLEET_SERVER_DEFAULTS);
    make_users(&lab, size->n_runners);
    const int64_t deadlocks = kg_fleet_lab_number(&lab, DEADLOCKS);
    FILE *lines = tmpfile();
    ck_assert_ptr_nonnull(lines);
    pid_t *children = kg_xcalloc((size_t)size->n_runners, sizeof *children);
    for (int i = 0; i < size->n_runners; i++) {
        children[i] = fork();
        if (children[i] == 0) become_runner(&lab, size, kg_scratch_dir(rec), i, fileno(lines));
        ck_assert_int_gt(children[i], 0);
    }
    for (int i = 0; i < size->n_runners; i++) {
        int state = 0;
        while (waitpid(children[i], &state, 0) < 0) {}
        ck_assert_msg(WIFEXITED(state) && WEXITSTATUS(state) == 0, "runner %d ended with %d", i, state);
    }
    rewind(lines);
    const size_t n = expect_acknowledged(&lab, lines, &median_s);
    expect_all_once(&lab, n);
    ck_assert_int_eq(kg_fleet_lab_number(&lab, DEADLOCKS) - deadlocks, 0);
    kg_record_metric(rec, "pushed", "count", (double)n);
    kg_record_metric(rec, "push.median", "s", median_s);
    printf("# %zu runs of %zu cases pushed by %d runners, %.3g s at the median\n", n, size->n_cases, size->n_runners,
           median_s);
    fclose(lines);
    free(children);
    kg_fleet_server_kill();
    kg_fleet_server_start(NULL);
    kg_fleet_lab_close(&lab);
}
