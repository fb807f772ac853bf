/* What the history promises, at its full size; `make check-scale` runs this folder, which is too deep for `kigo check` to find.
 * It takes minutes, and 2 GB of the folder for temporary files. Times are of a machine with two processors and little else to
 * do. */
#include "base/size.h"
#include "suites/integration/history_store.h"
#include "suites/unit/publishers.h"
#include <check.h>
#include <stdlib.h>

enum { N_RUNS = 1000, N_CASES = 1000, TIMEOUT_S = 1800 };

/* The message tells how busy the machine was, since a wall time is also that of everything else. */
static void expect_within(const char *what, double got_s, double most_s) {
    double load = 0;
    ck_assert_int_eq(getloadavg(&load, 1), 1);
    ck_assert_msg(got_s <= most_s, "%s took %.3f s, more than %.3f s (load average %.1f)", what, got_s, most_s, load);
}

static void limits(struct kg_record *rec, const void *arg) {
    static const double REINDEX_S = N_RUNS / 30.0, REGRESS_S = 1, HISTORY_S = 0.05, INDEX_BYTES = 1e9;
    struct kg_store_costs costs;
    (void)arg;
    kg_store_measure(rec, N_RUNS, N_CASES, REINDEX_S, &costs);
    expect_within("reindex", costs.reindex.wall_s, REINDEX_S);
    expect_within("regress", costs.regress.wall_s, REGRESS_S);
    expect_within("history", costs.history.wall_s, HISTORY_S);
    ck_assert_double_le(costs.index_bytes, INDEX_BYTES);
}

static void publishers_for_a_minute(struct kg_record *rec, const void *arg) {
    struct kg_published published;
    (void)arg;
    kg_publish_at_once(kg_scratch_dir(rec), 60, &published);
    ck_assert_uint_ge(published.n_reindexed, 1);
    ck_assert_uint_ge(published.n_asked, 1);
    kg_record_metric(rec, "published", "count", (double)published.n_runs);
    kg_record_metric(rec, "reindexed", "count", (double)published.n_reindexed);
    kg_record_metric(rec, "asked", "count", (double)published.n_asked);
}

static const struct kg_case CASES[] = {
    { .layer = "integration",
      .op = "history",
      .name = "limits",
      .shape = "1000x1000",
      .timeout_s = TIMEOUT_S,
      .run = limits },
    { .layer = "integration",
      .op = "history",
      .name = "publishers_for_a_minute",
      .timeout_s = TIMEOUT_S,
      .run = publishers_for_a_minute },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
