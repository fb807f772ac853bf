/* The limits of the history at 1000 runs of 1000 cases (full/test_full_size.c), held in every check at 25 runs of as
 * many cases, by what does not depend on what else the machine does: processor time in the place of wall time, and
 * bytes. That the rest grows in proportion is in unit/test_history_scale.c. */
#include "base/size.h"
#include "suites/integration/history_store.h"
#include <check.h>
#include <math.h>

/* 20 runs of a baseline, the one that is judged, and some that are too old for either. */
enum { N_RUNS = 25, N_CASES = 1000, FULL_RUNS = 1000 };

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__ || !defined __OPTIMIZE__
static const double SLOWER = 10; /* instrumented code is, with its check for leaks at the end */
#else
static const double SLOWER = 1;
#endif

/* Two processors' time for 30 runs indexed; all of the time there is for the others. With 6 loops running beside it on
 * two processors, indexing took 0.44 of its limit, regress 0.13 and history 0.18: load moves wall time, not these. */
static const double REINDEX_PER_RUN_S = 2 / 30.0, REGRESS_S = 1, HISTORY_S = 0.1, FULL_INDEX_BYTES = 1e9;

static void processor_time_and_bytes(struct kg_record *rec, const void *arg) {
    struct kg_store_costs costs;
    (void)arg;
    kg_store_measure(rec, N_RUNS, N_CASES, HUGE_VAL, &costs);
    ck_assert_double_le(costs.reindex.processor_s / N_RUNS, SLOWER * REINDEX_PER_RUN_S);
    ck_assert_double_le(costs.regress.processor_s, SLOWER * REGRESS_S);
    ck_assert_double_le(costs.history.processor_s, SLOWER * HISTORY_S);
    ck_assert_double_le(costs.index_bytes / N_RUNS * FULL_RUNS, FULL_INDEX_BYTES);
}

static const struct kg_case CASES[] = {
    { .layer = "integration",
      .op = "history",
      .name = "processor_time_and_bytes",
      .shape = "25x1000",
      .timeout_s = 120,
      .run = processor_time_and_bytes },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
