/* What the history promises, at its full size; `make check-scale` runs this folder, which is too deep for `kigo check`
 * to find. It takes minutes, and 2 GB of the folder for temporary files. Times are of a machine with two processors and
 * little else to do. */
#include "base/size.h"
#include "suites/integration/history_store.h"
#include "suites/support/publishers.h"
#include <check.h>
#include <stdbool.h>

enum { N_RUNS = 1000, N_CASES = 1000, TIMEOUT_S = 1800 };

/* A wall time is also that of everything else the machine does: one within its limit proves the limit; one beyond it
 * fails the case, unless others had so much of the processors that it says nothing. */
static bool is_within(struct kg_record *rec, const char *verb, const struct kg_cost *cost, double most_s) {
    static const double OTHERS_MOST = 0.1;
    const double others = cost->others_share;
    if (cost->wall_s <= most_s) return true;
    ck_assert_msg(others > OTHERS_MOST, "%s took %.3f s, more than %.3f s", verb, cost->wall_s, most_s);
    kg_record_skip(rec,
                   "%s took %.3f s, more than %.3f s, while other programs had %.0f%% of the processors: try again",
                   verb, cost->wall_s, most_s, 100 * others);
    return false;
}

static void limits(struct kg_record *rec, const void *arg) {
    static const double REINDEX_S = N_RUNS / 30.0, REGRESS_S = 1, HISTORY_S = 0.1, INDEX_BYTES = 1e9;
    struct kg_store_costs costs;
    (void)arg;
    kg_store_measure(rec, N_RUNS, N_CASES, REINDEX_S, &costs);
    ck_assert_double_le(costs.index_bytes, INDEX_BYTES);
    if (is_within(rec, "regress", &costs.regress, REGRESS_S) && is_within(rec, "history", &costs.history, HISTORY_S))
        (void)is_within(rec, "reindex", &costs.reindex, REINDEX_S);
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
