/* The limits of the history at 1000 runs of 1000 cases (full/test_full_size.c), held in every check at 60 runs of as many
 * cases, by what does not depend on what else the machine does: processor time in the place of wall time, and bytes. That the
 * rest grows in proportion is in unit/test_history_scale.c. */
#include "base/size.h"
#include "suites/integration/history_store.h"
#include <check.h>

enum { N_RUNS = 60, N_CASES = 1000, FULL_RUNS = 1000 };

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__
static const double SLOWER = 10; /* instrumented code is, with its check for leaks at the end */
#else
/* A processor that others use as well is up to twice as slow: shared caches, the sibling thread of a core. */
static const double SLOWER = 2;
#endif

/* A loaded machine holds these with room: `reindex` took 30 ms of processor time a run, `regress` 0.2 s, `history` 0.01 s. */
static const double REINDEX_RUNS_PER_S = 30, REINDEX_PROCESSORS = 2, REGRESS_S = 1, HISTORY_S = 0.05;

static void processor_time_and_bytes(struct kg_record *rec, const void *arg) {
    struct kg_store_costs costs;
    (void)arg;
    kg_store_measure(rec, N_RUNS, N_CASES, N_RUNS / REINDEX_RUNS_PER_S, &costs);
    ck_assert_double_le(costs.reindex.processor_s / N_RUNS, SLOWER * REINDEX_PROCESSORS / REINDEX_RUNS_PER_S);
    ck_assert_double_le(costs.regress.processor_s, SLOWER * REGRESS_S);
    ck_assert_double_le(costs.history.processor_s, SLOWER * HISTORY_S);
    ck_assert_double_le(costs.index_bytes / N_RUNS * FULL_RUNS, 1e9);
}

static const struct kg_case CASES[] = {
    { .layer = "integration",
      .op = "history",
      .name = "processor_time_and_bytes",
      .shape = "60x1000",
      .timeout_s = 120,
      .run = processor_time_and_bytes },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
