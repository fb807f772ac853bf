/* What the history promises, at its full size; `make check-scale` runs this folder, which is too deep for `kigo check` to find.
 * It takes minutes, and 2 GB of the folder for temporary files. Times are of a machine with two processors and little else to
 * do. */
#include "base/size.h"
#include "suites/integration/history_store.h"
#include "suites/unit/publishers.h"
#include <check.h>

enum { N_RUNS = 1000, N_CASES = 1000, TIMEOUT_S = 1800 };

/* regress under 1 s, history under 50 ms, reindex at least 30 runs a second, the index under 1 GB. */
static void limits(struct kg_record *rec, const void *arg) {
    static const double REINDEX_S = N_RUNS / 30.0;
    struct kg_store_costs costs;
    (void)arg;
    kg_store_measure(rec, N_RUNS, N_CASES, REINDEX_S, &costs);
    ck_assert_double_le(costs.reindex.wall_s, REINDEX_S);
    ck_assert_double_lt(costs.regress.wall_s, 1);
    ck_assert_double_lt(costs.history.wall_s, 0.05);
    ck_assert_double_lt(costs.index_bytes, 1e9);
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
