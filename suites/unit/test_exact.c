/* Exact figures against pasts of known shape, and how often figures that take two values by chance are called red. */
#include "base/rng.h"
#include "base/size.h"
#include "history/exact.h"
#include "suites/harness/case.h"
#include <check.h>
#include <stdlib.h>

enum { MOST = 20 };

/* The past, newest first, each value of a commit that is distinct unless two letters say so. */
struct row {
    double values[8];
    int commits[8];
    size_t n;
    double value, limit;
    enum kg_exact_verdict verdict;
    uint32_t others;
};

#define EACH                                                                                                           \
    { 0, 1, 2, 3, 4, 5, 6, 7 }
static const struct row ROWS[] = {
    { { 1, 1, 1, 1 }, EACH, 4, 1, 1, KG_EXACT_SAME, 0 },
    { { 1, 1, 1, 1 }, EACH, 4, 2, 1, KG_EXACT_WORSE, 0 },
    { { 1, 1, 1, 1 }, EACH, 4, 0.5, 1, KG_EXACT_BETTER, 0 },
    { { 2, 2, 1, 1, 1 }, EACH, 5, 2, 1, KG_EXACT_WORSE, 0 },         /* it stays red */
    { { 2, 2, 2, 2, 1 }, EACH, 5, 2, 1, KG_EXACT_WORSE, 0 },         /* however long */
    { { 1, 1, 2, 2, 2 }, EACH, 5, 2, 1, KG_EXACT_WORSE, 0 },         /* fixed, and back */
    { { 2, 1, 1 }, { 0, 0, 1 }, 3, 2, 1, KG_EXACT_WORSE, 0 },        /* the older commit's level is lower */
    { { 2, 1 }, { 0, 0 }, 2, 2, 2, KG_EXACT_SAME, 0 },               /* one commit: its worst is its level */
    { { 2, 3, 1 }, EACH, 3, 2.5, 1, KG_EXACT_WORSE, 0 },             /* three values do not say that it is unsteady */
    { { 2, 3, 1, 4 }, EACH, 4, 3.5, 4, KG_EXACT_SAME, 0 },           /* four do */
    { { 1, 1, 2, 1, 1, 1 }, EACH, 6, 2, 1, KG_EXACT_SUSPECT, 0 },    /* it came and went before */
    { { 1, 1, 2, 1, 1, 1 }, EACH, 6, 3, 1, KG_EXACT_WORSE, 0 },      /* further than it ever was */
    { { 1, 1, 1, 1, 1, 1 }, EACH, 6, 2, 1, KG_EXACT_SUSPECT, 0x2a }, /* its like came and went in three places */
    { { 1, 1, 1, 1, 1, 1 }, EACH, 6, 2, 1, KG_EXACT_WORSE, 0x0a },   /* two changes and their returns */
};

static void known_pasts(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const struct row *r = &ROWS[i];
        double values[MOST], limit;
        int commits[MOST];
        for (size_t k = 0; k < MOST; k++) { /* what follows the past is never read */
            values[k] = k < r->n ? r->values[k] : 1e9;
            commits[k] = k < r->n ? r->commits[k] : r->commits[0];
        }
        const enum kg_exact_verdict verdict =
            kg_exact_judge(&(struct kg_exact_past){ values, commits, r->n }, r->value, r->others, &limit);
        ck_assert_msg(verdict == r->verdict, "row %zu: %d", i, (int)verdict);
        if (verdict != KG_EXACT_BETTER) ck_assert_msg(limit == r->limit, "row %zu: limit %g", i, limit);
    }
}

/* Figures that are worse by chance in a share of the runs: red in at most 1 of 1000 comparisons and 1 of 20 runs. */
static void two_values_by_chance(struct kg_record *rec, const void *arg) {
    enum { N_TRIALS = 100, N_FIGURES = 1000 };
    const double share = *(const double *)arg;
    static double values[N_FIGURES][1 + MOST];
    int commits[MOST];
    size_t n_false = 0, n_red = 0;
    for (int i = 0; i < MOST; i++) commits[i] = i;
    for (uint64_t trial = 0; trial < N_TRIALS; trial++) {
        struct kg_rng rng;
        uint32_t visits = 0;
        size_t n = 0;
        kg_rng_init(&rng, 3, trial);
        for (size_t i = 0; i < N_FIGURES; i++)
            for (size_t k = 0; k <= MOST; k++) values[i][k] = 1 + (kg_rng_uniform(&rng) < share);
        for (size_t i = 0; i < N_FIGURES; i++)
            visits |= kg_exact_visits(&(struct kg_exact_past){ values[i] + 1, commits, MOST });
        for (size_t i = 0; i < N_FIGURES; i++) {
            double limit;
            n += kg_exact_judge(&(struct kg_exact_past){ values[i] + 1, commits, MOST }, values[i][0], visits,
                                &limit) == KG_EXACT_WORSE;
        }
        n_false += n;
        n_red += n > 0;
    }
    kg_record_metric(rec, "false_alarms_per_1000", "ratio", (double)n_false / N_TRIALS);
    kg_record_metric(rec, "red_runs", "count", (double)n_red);
    ck_assert_uint_le(n_false, N_TRIALS);
    ck_assert_uint_le(n_red, N_TRIALS / 20);
}

static const double OFTEN = 0.3, SELDOM = 0.05;
#define CASE(name_, function, arg_)                                                                                    \
    { .layer = "unit", .op = "exact", .name = name_, .run = function, .arg = arg_ }

static const struct kg_case CASES[] = {
    CASE("known_pasts", known_pasts, NULL),
    CASE("two_values_5_percent", two_values_by_chance, &SELDOM),
    CASE("two_values_30_percent", two_values_by_chance, &OFTEN),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
