/* How the history grows: what must not depend on how many runs there are is held, times are recorded. At full size, by
 * hand: make_history ROOT 1000 1000, then kigo reindex, regress and history on it. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/unit/history_lab.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { N_RUNS = 26, N_CASES = 200 };

static void fill(void *arg, size_t i, struct kg_made_case *c) {
    (void)i;
    c->time_ns *= exp(0.01 * kg_rng_normal(arg));
}

static double seconds_since(uint64_t begun_ns) {
    return (double)(kg_clock_monotonic_ns() - begun_ns) / 1e9;
}

static bool join_text(void *arg, size_t n_columns, const char *const *names, const struct kg_cell *cells) {
    struct kg_buffer *out = arg;
    (void)names;
    if (!cells) return true;
    const struct kg_cell *last = &cells[n_columns - 1];
    kg_buffer_append(out, last->text, last->size_bytes);
    kg_buffer_puts(out, "\n");
    return true;
}

/* The plan of a statement reads no large table from end to end. */
static void expect_no_scan(struct kg_history *history, const char *sql) {
    static const char *const LARGE[] = { "SCAN r\n",        "SCAN m\n", "SCAN result_row",
                                         "SCAN metric_row", "SCAN r ",  "SCAN m USING INDEX" };
    struct kg_buffer plan = KG_BUFFER_INIT;
    struct kg_error err;
    char *explain = kg_xasprintf("EXPLAIN QUERY PLAN %s", sql);
    kg_must(kg_history_query(history, explain, NULL, 0, join_text, &plan, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(LARGE); i++)
        ck_assert_msg(!strstr(kg_buffer_text(&plan), LARGE[i]), "%s: %s", sql, kg_buffer_text(&plan));
    free(explain);
    kg_buffer_free(&plan);
}

static void expect_plans(struct kg_history *history) {
    expect_no_scan(history, "SELECT * FROM tcase c JOIN result_row r USING(case_id) WHERE c.case_key = 'x'");
    expect_no_scan(history, "SELECT m.value FROM tcase c JOIN result r USING(case_id) JOIN metric m USING(result_id)"
                            " WHERE c.case_key = 'x'");
    expect_no_scan(history, "SELECT * FROM result r WHERE r.bundle_id = 'x'");
    expect_no_scan(history, "SELECT result_id, figure_id FROM metric_row WHERE result_id BETWEEN 1 AND 2"
                            " ORDER BY result_id, seq");
}

static void grows_as_it_must(struct kg_record *rec, const void *arg) {
    struct kg_history_lab lab;
    struct kg_regression r;
    struct kg_history *history = NULL;
    struct kg_rng rng;
    struct kg_error err;
    struct stat info;
    size_t n_indexed = 0;
    (void)arg;
    kg_rng_init(&rng, 1, 0);
    kg_history_lab_open(&lab, rec);
    kg_history_lab_runs(&lab, 0, N_RUNS,
                        (struct kg_made_run){ .n_cases = N_CASES, .canary = 1, .fill = fill, .arg = &rng });

    uint64_t begun_ns = kg_clock_monotonic_ns();
    kg_must(kg_history_reindex(lab.root, &n_indexed, NULL, &err), &err);
    ck_assert_uint_eq(n_indexed, N_RUNS);
    kg_record_metric(rec, "reindexed_results_per_s", "1/s", N_RUNS * N_CASES / seconds_since(begun_ns));

    begun_ns = kg_clock_monotonic_ns();
    kg_history_lab_regress(&lab, NULL, NULL, &r);
    kg_record_metric(rec, "regress", "ns", 1e9 * seconds_since(begun_ns));
    ck_assert_uint_eq(r.baseline.n_items, 20);
    ck_assert_uint_eq(r.n_noisy, N_CASES);
    kg_regression_free(&r);

    kg_must(kg_history_open(lab.root, &history, NULL, &err), &err);
    expect_plans(history);
    kg_history_close(history);
    char *path = kg_xasprintf("%s/index.sqlite", lab.root);
    ck_assert_int_eq(stat(path, &info), 0);
    const double bytes = (double)info.st_size / (N_RUNS * N_CASES);
    kg_record_metric(rec, "index_bytes_per_result", "bytes", bytes);
    ck_assert_double_le(bytes, 1000); /* a thousand runs of a thousand cases stay below 1 GB */
    free(path);
    kg_history_lab_close(&lab);
}

static const struct kg_case CASES[] = {
    { .layer = "unit", .op = "history", .name = "grows_as_it_must", .run = grows_as_it_must },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
