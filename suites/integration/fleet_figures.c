#include "suites/integration/fleet_figures.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/integration/fleet_lab.h"
#include "suites/integration/fleet_server.h"
#include "suites/integration/verbs.h"
#include "suites/integration/web_client.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/history_lab.h"
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINE = 21, MOST_ARGS = 12 };

struct figures {
    struct kg_record *rec;
    const struct kg_fleet_figures *size;
    struct kg_fleet_lab fleet;
    struct kg_history_lab folder;
};

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->time_ns *= exp(0.005 * kg_rng_normal(arg));
}

static bool open_figures(struct figures *f, struct kg_record *rec, const void *arg, size_t n_commits) {
    *f = (struct figures){ .rec = rec, .size = arg };
    if (!kg_fleet_lab_open(&f->fleet, rec, true)) return false;
    char *dir = kg_path_join(kg_scratch_dir(rec), "repository"), *cache = kg_path_join(kg_scratch_dir(rec), "cache");
    ck_assert_int_eq(setenv("XDG_CACHE_HOME", cache, 1), 0);
    kg_fleet_server_kill();
    kg_fleet_server_start(KG_FLEET_SERVER_DEFAULTS);
    kg_history_lab_open_in(&f->folder, dir, n_commits);
    free(cache);
    free(dir);
    return true;
}

static void close_figures(struct figures *f) {
    kg_fleet_server_kill();
    kg_fleet_server_start(NULL);
    kg_history_lab_close(&f->folder);
    kg_fleet_lab_close(&f->fleet);
}

static void put(const struct figures *f, const char *name, const char *unit, double value) {
    kg_record_metric(f->rec, name, unit, value);
    printf("# %s %.4g %s\n", name, value, unit);
    fflush(stdout);
}

static double seconds_since(uint64_t begin_ns) {
    return (double)(kg_clock_monotonic_ns() - begin_ns) / 1e9;
}

struct cost {
    double wall_s, processor_s; /* processor: of kigo, not of the server */
};

static double children_s(void) {
    struct rusage all;
    ck_assert_int_eq(getrusage(RUSAGE_CHILDREN, &all), 0);
    return (double)(all.ru_utime.tv_sec + all.ru_stime.tv_sec) +
           (double)(all.ru_utime.tv_usec + all.ru_stime.tv_usec) / 1e6;
}

/* One call of the fleet, or of the folder; what it printed is the caller's. */
static struct cost call(const struct figures *f, const char *const *args, bool of_folder, char **out) {
    char *url = kg_fleet_lab_url(&f->fleet, "reader"), *history = kg_xasprintf("KIGO_HISTORY=%s", url);
    const char *argv[MOST_ARGS + 4] = { kg_program_path() }, *const env[] = { history, NULL };
    struct kg_process_result result;
    struct kg_error err;
    size_t n = 1;
    for (; args[n - 1]; n++) argv[n] = args[n - 1];
    if (of_folder) argv[n++] = "--bundles";
    if (of_folder) argv[n++] = f->folder.root;
    const double before_s = children_s();
    const uint64_t begin_ns = kg_clock_monotonic_ns();
    EXPECT_OK(kg_process_run(&(struct kg_process){ .argv = argv, .env = env, .timeout_s = 1200 }, &result, &err), err);
    const struct cost cost = { seconds_since(begin_ns), children_s() - before_s };
    ck_assert_msg(result.exit_code <= KG_EXIT_INCONCLUSIVE && result.exit_code != KG_EXIT_USAGE, "kigo %s: %.1000s",
                  args[0], result.err);
    *out = kg_xstrdup(result.out);
    kg_process_result_free(&result);
    free(history);
    free(url);
    return cost;
}

/* Of each the least of all calls. */
static struct cost least_of(const struct figures *f, const char *const *args, bool of_folder, char **out) {
    struct cost least = { INFINITY, INFINITY };
    for (int i = 0; i < f->size->n_calls; i++) {
        char *one;
        const struct cost cost = call(f, args, of_folder, &one);
        least = (struct cost){ fmin(least.wall_s, cost.wall_s), fmin(least.processor_s, cost.processor_s) };
        if (i == 0) *out = one;
        else free(one);
    }
    return least;
}

static void put_both(const struct figures *f, const char *name, double fleet, double folder) {
    char *names[] = { kg_xasprintf("%s.fleet", name), kg_xasprintf("%s.folder", name), kg_xasprintf("%s.ratio", name) };
    const double values[] = { fleet, folder, fleet / folder };
    for (size_t i = 0; i < KG_COUNT_OF(names); i++) {
        put(f, names[i], i < 2 ? "s" : "x", values[i]);
        free(names[i]);
    }
}

/* Of both, and their ratio; `is_same`: they must say the same. */
static void measure(const struct figures *f, const char *name, const char *const *args, bool is_same) {
    char *fleet = NULL, *folder = NULL, *processor = kg_xasprintf("%s.processor", name);
    const struct cost there = least_of(f, args, false, &fleet), here = least_of(f, args, true, &folder);
    ck_assert_msg(!is_same || (fleet && folder && strcmp(fleet, folder) == 0),
                  "kigo %s: the fleet says\n%.1000s\nand the folder\n%.1000s", args[0], fleet, folder);
    put_both(f, name, there.wall_s, here.wall_s);
    put_both(f, processor, there.processor_s, here.processor_s);
    free(processor);
    free(folder);
    free(fleet);
}

/* Seconds until the first byte of a page; its size. ages: the server has not opened its history for it yet. */
static double first_byte(const struct kg_web_child *web, const char *target, bool ages, size_t *n_bytes) {
    enum { AGE_US = 2100000 };
    char *request = kg_xasprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target), byte;
    const int fd = kg_web_connect(web);
    if (ages) usleep(AGE_US);
    const uint64_t begin_ns = kg_clock_monotonic_ns();
    ck_assert_int_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    ck_assert_int_eq(read(fd, &byte, 1), 1);
    const double seconds = seconds_since(begin_ns);
    for (ssize_t got = 1; got > 0; *n_bytes += got > 0 ? (size_t)got : 0) {
        char rest[1 << 14];
        got = read(fd, rest, sizeof rest);
    }
    close(fd);
    free(request);
    return seconds;
}

static void measure_page(const struct figures *f, const char *name, const char *id) {
    char *url = kg_fleet_lab_url(&f->fleet, "reader"), *target = kg_xasprintf("/run/%s", id);
    double least[2] = { INFINITY, INFINITY };
    size_t n_bytes = 0;
    for (int of_folder = 0; of_folder < 2; of_folder++) {
        struct kg_web_child web;
        const char *const *args = of_folder ? NULL : ARGS("--history", url);
        if (!kg_web_child_start(f->rec, of_folder ? f->folder.root : NULL, args, &web)) break;
        for (int i = 0; i < f->size->n_calls; i++) {
            n_bytes = 0;
            least[of_folder] = fmin(least[of_folder], first_byte(&web, target, f->size->n_calls > 1, &n_bytes));
        }
        ck_assert_int_eq(kg_web_child_end(&web, SIGTERM), 0);
    }
    char *bytes = kg_xasprintf("%s.bytes", name);
    put_both(f, name, least[0], least[1]);
    put(f, bytes, "bytes", (double)n_bytes);
    free(bytes);
    free(target);
    free(url);
}

/* Runs that nothing is decided on, of other machines in other months, each with rows as the first run has; their
 * archives are empty. Until there are so many figures; how many there are. */
static int64_t grow(const struct figures *f, int64_t n_rows) {
    static const char GROW[] =
        "SET statement_timeout = 0;"
        "CREATE TEMP TABLE more AS SELECT n, 1000000000000 + n AS bundle_no,"
        " timestamptz '2024-01-01' + n * interval '9 hours' AS at FROM generate_series(%lld, %lld) AS n;"
        "ALTER TABLE more ADD COLUMN id text, ADD COLUMN month date;"
        "UPDATE more SET id = to_char(at AT TIME ZONE 'UTC', 'YYYYMMDD\"T\"HH24MISS\"Z\"') || '-nogit-' ||"
        " lpad(to_hex(n), 8, '0'), month = date_trunc('month', at AT TIME ZONE 'UTC')::date;"
        "SELECT count(kigo.make_month(month)) FROM (SELECT DISTINCT month FROM more) AS months;"
        "INSERT INTO kigo.bundle SELECT m.id, b.path, b.state, b.verdict, b.exit_code, extract(epoch FROM m.at)::bigint"
        "  * 1000000, extract(epoch FROM m.at)::bigint * 1000000 + 1000000, b.git_commit, b.git_branch, b.git_dirty,"
        "  b.content_sha256, b.env_id, b.build_id, b.seed, b.n_planned, b.n_pass, b.n_fail, b.n_skip, b.n_crash,"
        "  b.n_timeout, b.n_norun, b.overhead_share, b.manifest_sha256, b.sig_state, m.bundle_no, 'other ' || m.n %% "
        "50,"
        "  b.runner_no, m.month FROM more m, kept_run b;"
        "INSERT INTO kigo.archive(bundle_id, tagmanifest_sha256, runner_no, month, sha256, size_bytes, n_chunks)"
        "  SELECT m.id, repeat('0', 48) || lpad(to_hex(m.bundle_no), 16, '0'), b.runner_no, m.month, '', 0, 0"
        "  FROM more m, kept_run b;"
        "INSERT INTO kigo.result_row SELECT (m.bundle_no << 20) + (r.result_id & 1048575), m.bundle_no, r.case_id,"
        "  r.status, r.reason, r.seed, r.started_us, r.duration_ns, r.runner_no, m.month FROM more m, kept_result r;"
        "INSERT INTO kigo.metric_row SELECT (m.bundle_no << 20) + (r.result_id & 1048575), r.seq, r.figure_id, r.value,"
        "  r.tol, r.n, r.mad, r.ci_lo, r.ci_hi, r.valid, r.runner_no, m.month FROM more m, kept_metric r;"
        "DROP TABLE more; ANALYZE",
                      KEEP[] =
                          "CREATE TABLE IF NOT EXISTS kept_run AS SELECT * FROM kigo.bundle ORDER BY started_us LIMIT "
                          "1;"
                          "CREATE TABLE IF NOT EXISTS kept_result AS SELECT r.* FROM kigo.result_row r JOIN kept_run b"
                          " USING (bundle_no);"
                          "CREATE TABLE IF NOT EXISTS kept_metric AS SELECT m.* FROM kigo.metric_row m JOIN kept_run b"
                          " ON m.result_id >> 20 = b.bundle_no";
    free(kg_fleet_lab_sql(&f->fleet, "postgres", KEEP));
    const int64_t of_run = kg_fleet_lab_number(&f->fleet, "SELECT count(*) FROM kept_metric"),
                  n_there = kg_fleet_lab_number(&f->fleet, "SELECT count(*) FROM kigo.bundle"),
                  n_wanted = (n_rows + of_run - 1) / of_run;
    char *sql = kg_xasprintf(GROW, (long long)n_there + 1, (long long)n_wanted);
    const uint64_t begin_ns = kg_clock_monotonic_ns();
    if (n_wanted > n_there) {
        kg_fleet_server_kill();
        kg_fleet_server_start(ARGS("-c", "max_connections=120", "-c", "max_wal_size=8GB"));
        free(kg_fleet_lab_sql(&f->fleet, "postgres", sql));
        free(kg_fleet_lab_sql(&f->fleet, "postgres", "CHECKPOINT"));
        kg_fleet_server_kill();
        kg_fleet_server_start(KG_FLEET_SERVER_DEFAULTS);
    }
    printf("# %lld runs of %lld figures each after %.0f s\n", (long long)(n_wanted > n_there ? n_wanted : n_there),
           (long long)of_run, seconds_since(begin_ns));
    fflush(stdout);
    free(sql);
    return of_run * (n_wanted > n_there ? n_wanted : n_there);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void push_line(struct figures *f, char *ids[MOST_LINE]) {
    struct kg_rng rng;
    double seconds[MOST_LINE] = { 0 };
    kg_rng_init(&rng, 3, 0);
    for (size_t i = 0; i < f->size->n_line; i++) {
        ids[i] = kg_history_lab_run(
            &f->folder,
            (struct kg_made_run){
                .commit = f->folder.commits[i], .n_cases = f->size->n_cases, .canary = 1, .fill = fill, .arg = &rng });
        char *dir = kg_path_join(f->folder.root, ids[i]);
        const uint64_t begin_ns = kg_clock_monotonic_ns();
        kg_fleet_lab_kigo(&f->fleet, "runner_a", ARGS("push", dir), KG_EXIT_OK, ": pushed", NULL);
        seconds[i] = seconds_since(begin_ns);
        free(dir);
    }
    qsort(seconds, f->size->n_line, sizeof *seconds, by_size);
    put(f, "push.least", "s", seconds[0]);
    put(f, "push.median", "s", seconds[f->size->n_line / 2]);
}

void kg_fleet_asked_as_it_grows(struct kg_record *rec, const void *arg) {
    struct figures f;
    char *ids[MOST_LINE] = { NULL }, *out;
    if (!open_figures(&f, rec, arg, MOST_LINE + 1)) return;
    push_line(&f, ids);
    const char *const repository = f.folder.repository, *const newest = ids[f.size->n_line - 1];
    const char *const regress[] = { "regress", newest, "--repo", repository, "--json", NULL };
    const char *const steps[] = { "steps",  kg_made_case_key(2), "--figure", "time*",
                                  "--repo", repository,          "--json",   NULL };
    char *of_run = kg_xasprintf("SELECT count(*) AS n, max(value) AS most FROM figure WHERE run = '%s'", newest);
    put(&f, "regress.fleet.first", "s", call(&f, regress, false, &out).wall_s);
    free(out);
    for (size_t i = 0; i < KG_FLEET_MOST_SIZES && (i == 0 || f.size->n_rows[i] > 0); i++) {
        char names[6][32];
        const int64_t n = grow(&f, f.size->n_rows[i]);
        static const char *const OF[] = { "regress", "diff", "list", "page", "steps", "query" };
        for (size_t k = 0; k < KG_COUNT_OF(OF); k++) snprintf(names[k], sizeof names[k], "%s.%.0e", OF[k], (double)n);
        measure(&f, names[0], regress, true);
        measure(&f, names[1], ARGS("diff", ids[0], newest, "--json"), true);
        measure(&f, names[2], ARGS("list", "--limit", "50"), false);
        measure_page(&f, names[3], newest);
        measure(&f, names[4], steps, true);
        measure(&f, names[5], ARGS("query", of_run), true);
    }
    free(of_run);
    put(&f, "database", "bytes", (double)kg_fleet_lab_number(&f.fleet, "SELECT pg_database_size(current_database())"));
    free(kg_fleet_lab_sql(&f.fleet, "postgres",
                          "DROP TABLE kept_run, kept_result, kept_metric; TRUNCATE kigo.result_row, kigo.metric_row"));
    for (size_t i = 0; i < f.size->n_line; i++) free(ids[i]);
    close_figures(&f);
}

void kg_fleet_asked_over_runs(struct kg_record *rec, const void *arg) {
    enum { N_CASES = 4 };
    struct figures f;
    struct kg_rng rng;
    char *out;
    if (!open_figures(&f, rec, arg, ((const struct kg_fleet_figures *)arg)->n_runs + 6)) return;
    kg_rng_init(&rng, 4, 0);
    for (size_t i = 0; i < f.size->n_runs; i++)
        free(kg_history_lab_run(
            &f.folder,
            (struct kg_made_run){
                .commit = f.folder.commits[i], .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &rng }));
    struct kg_process_result pushed;
    kg_fleet_job_end(
        kg_fleet_lab_begin_for(&f.fleet, "runner_a", ARGS("push", "--all", "--bundles", f.folder.root), 1200), &pushed);
    ck_assert_msg(pushed.exit_code == KG_EXIT_OK, "%.1000s", pushed.err);
    kg_process_result_free(&pushed);
    free(kg_fleet_lab_sql(&f.fleet, "postgres", "ANALYZE"));
    char *n_runs = kg_xasprintf("%zu", f.size->n_runs);
    const char *const steps[] = { "steps",  kg_made_case_key(2), "--figure", "time*", "--runs", n_runs,
                                  "--repo", f.folder.repository, "--json",   NULL };
    put(&f, "steps.fleet.first", "s", call(&f, steps, false, &out).wall_s);
    free(out);
    measure(&f, "steps", steps, true);
    measure(&f, "list", ARGS("list", "--limit", "50"), true);
    free(n_runs);
    close_figures(&f);
}
