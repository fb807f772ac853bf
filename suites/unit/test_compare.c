/* Known answers for the comparators every numerical case rests on; that an assertion of theirs fails a case is shown by
 * suites/integration/test_check_e2e. */
#include "base/rng.h"
#include "base/size.h"
#include "suites/harness/compare.h"
#include "suites/harness/record.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void known_figures(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float got[] = { 1, 2, 2, -4 };
    const double want[] = { 1, 2, 4, -5 };
    struct kg_compare c;
    kg_compare_f64(got, want, KG_COUNT_OF(got), &c);
    ck_assert_uint_eq(c.n, 4);
    ck_assert_uint_eq(c.n_nonfinite, 0);
    ck_assert_double_eq(c.max_abs, 2);
    ck_assert_double_eq(c.max_rel, 0.5);
    ck_assert_uint_eq(c.worst_index, 2);
    ck_assert_double_eq(c.worst_got, 2);
    ck_assert_double_eq(c.worst_want, 4);
    ck_assert_double_eq_tol(c.nmse, 5.0 / 46, 1e-15);
    ck_assert_double_eq_tol(c.rms_rel, sqrt(5.0 / 46), 1e-15);
    ck_assert_double_eq_tol(c.one_minus_cos, 1 - 33 / sqrt(25.0 * 46), 1e-15);
}

static void equal_arrays_have_no_error(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[257];
    kg_fill_normal(x, KG_COUNT_OF(x), 3, 0, 1);
    struct kg_compare c;
    kg_compare_f32(x, x, KG_COUNT_OF(x), &c);
    ck_assert_double_eq(c.max_abs, 0);
    ck_assert_double_eq(c.nmse, 0);
    ck_assert_double_eq(c.one_minus_cos, 0);
    double margin = -1;
    const struct kg_tolerance tol = { .max_abs = 1e-30, .mixed_rel = 1e-30, .why = "equal" };
    ck_assert(kg_within(&c, &tol, &margin));
    ck_assert_double_eq(margin, 0);
}

/* A tiny angle: 1 - dot/(|a||b|) in double would round to a multiple of 1e-16. */
static void cosine_keeps_its_digits(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float got[] = { 1, 1e-9f };
    const double want[] = { 1, 0 };
    struct kg_compare c;
    kg_compare_f64(got, want, 2, &c);
    ck_assert_double_eq_tol(c.one_minus_cos, 0.5e-18, 1e-22);
}

struct nonfinite {
    float got;
    float want;
};
static const struct nonfinite GOT_NAN = { NAN, 1 }, GOT_INF = { INFINITY, 1 }, WANT_NAN = { 1, NAN },
                              BOTH_NAN = { NAN, NAN }, BOTH_INF = { INFINITY, INFINITY };

/* One such value among a thousand, at the end, where every other element is right. */
static void nonfinite_fails_every_tolerance(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct nonfinite *row = arg;
    const struct kg_tolerance tolerances[] = {
        { .max_abs = 1e300, .why = "huge" },       { .nmse = 1e300, .why = "huge" },
        { .one_minus_cos = 1e300, .why = "huge" }, { .mixed_abs = 1e300, .why = "huge" },
        { .mixed_rel = 1e300, .why = "huge" },
    };
    float got[1000], want[1000];
    kg_fill_normal(got, 1000, 5, 0, 1);
    memcpy(want, got, sizeof want);
    got[999] = row->got;
    want[999] = row->want;
    struct kg_compare c;
    kg_compare_f32(got, want, 1000, &c);
    ck_assert_uint_eq(c.n_nonfinite, 1);
    ck_assert_uint_eq(c.worst_index, 999);
    ck_assert(isinf(c.max_abs) && isinf(c.nmse) && isinf(c.one_minus_cos) && isinf(c.rms_rel) && isinf(c.max_rel));
    for (size_t i = 0; i < KG_COUNT_OF(tolerances); i++) {
        double margin = 0;
        ck_assert_msg(!kg_within(&c, &tolerances[i], &margin), "tolerance %zu", i);
        ck_assert(isinf(margin));
    }
}

static void margin_is_the_largest_ratio(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float got[] = { 1.5f, 2 }, want[] = { 1, 2 };
    struct kg_compare c;
    kg_compare_f32(got, want, 2, &c);
    const struct kg_tolerance exactly = { .max_abs = 0.5, .nmse = 1, .why = "known" };
    double margin;
    ck_assert(kg_within(&c, &exactly, &margin)); /* a limit that is met is kept */
    ck_assert_double_eq(margin, 1);
    const struct kg_tolerance tighter = { .max_abs = 0.25, .nmse = 1, .why = "known" };
    ck_assert(!kg_within(&c, &tighter, &margin));
    ck_assert_double_eq(margin, 2);
    const struct kg_tolerance other = { .max_abs = 5, .nmse = 0.025, .why = "known" };
    ck_assert(!kg_within(&c, &other, &margin)); /* nmse is 0.05: one limit in five is enough to fail */
    ck_assert_double_eq_tol(margin, 2, 1e-12);
}

/* The mixed limit holds for each element: a small element's error is not excused by a large one elsewhere. */
static void mixed_limit_is_judged_by_element(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float got[] = { 1000.5f, 1.1f }, want[] = { 1000, 1 };
    struct kg_compare c;
    kg_compare_f32(got, want, 2, &c);
    double margin;
    const struct kg_tolerance tol = { .mixed_abs = 0.01, .mixed_rel = 0.001, .why = "known" };
    ck_assert(!kg_within(&c, &tol, &margin));
    ck_assert_double_eq_tol(margin, (double)(1.1f - 1) / 0.011, 1e-9);
    const struct kg_tolerance wide = { .mixed_abs = 0.11, .mixed_rel = 0.001, .why = "known" };
    ck_assert(kg_within(&c, &wide, &margin));
    ck_assert_double_eq_tol(margin, (double)(1.1f - 1) / 0.111, 1e-9);
}

static void all_wanted_zero(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float zeros[] = { 0, 0, 0 }, got[] = { 0, 1e-3f, 0 };
    struct kg_compare c;
    kg_compare_f32(got, zeros, 3, &c);
    ck_assert(isinf(c.nmse));
    ck_assert_double_eq(c.one_minus_cos, 1);
    const struct kg_tolerance tol = { .nmse = 1e9, .why = "known" };
    ck_assert(!kg_within(&c, &tol, NULL));
    kg_compare_f32(zeros, zeros, 3, &c);
    ck_assert(kg_within(&c, &tol, NULL));
}

static void unjudgeable_tolerances_are_named(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const struct kg_tolerance bad[] = {
        { .why = "no limit" },
        { .max_abs = 1 },
        { .max_abs = 1, .why = "" },
        { .max_abs = -1, .why = "negative" },
        { .nmse = NAN, .why = "not a number" },
        { .max_abs = INFINITY, .why = "infinite" },
    };
    for (size_t i = 0; i < KG_COUNT_OF(bad); i++)
        ck_assert_msg(kg_tolerance_problem(&bad[i]) != NULL, "tolerance %zu was taken", i);
    const struct kg_tolerance good = { .mixed_rel = 1e-6, .why = "known" };
    ck_assert_ptr_null(kg_tolerance_problem(&good));
}

static double recorded(const struct kg_record *rec, size_t i, const char *member) {
    return json_number_value(json_object_get(json_array_get(rec->errors, i), member));
}

/* Errors have six digits, elements all that float32 has; and what is outside by less than a digit stays outside. */
static void records_have_digits_that_tell(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tolerance tol = { .max_abs = 1, .why = "known" };
    const float element = 16777.217f;
    const struct kg_compare inside = { .n = 1,
                                       .max_abs = 0.1234565001,
                                       .nmse = 1.00000049e-300,
                                       .worst_got = (double)element,
                                       .worst_want = 1.0 / 3 },
                            outside = { .n = 1, .max_abs = 1.0000001 }, barely = { .n = 1, .max_abs = 0.99999999 };
    kg_record_compare(rec, "inside", &inside, &tol);
    kg_record_compare(rec, "outside", &outside, &tol);
    kg_record_compare(rec, "barely", &barely, &tol);
    ck_assert_double_eq(recorded(rec, 0, "max_abs"), 0.123457);
    ck_assert_double_eq(recorded(rec, 0, "nmse"), 1e-300);
    ck_assert_double_eq(recorded(rec, 0, "margin"), 0.123457);
    ck_assert((float)recorded(rec, 0, "worst_got") == element);
    ck_assert_double_eq(recorded(rec, 0, "worst_want"), 0.333333333);
    ck_assert_double_eq(recorded(rec, 1, "margin"), 1.0000001);
    ck_assert_double_eq(recorded(rec, 2, "margin"), 1);
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void fill_is_distinct_and_not_zero(struct kg_record *rec, const void *arg) {
    (void)arg;
    enum { N = 100000 };
    float *x = malloc(2 * N * sizeof *x), *again = x + N;
    kg_fill_normal(x, N, kg_record_seed(rec), 0.5, 2);
    kg_fill_normal(again, N, kg_record_seed(rec), 0.5, 2);
    size_t n_changed = 0;
    for (size_t i = 0; i < N; i++) n_changed += x[i] != again[i];
    ck_assert_uint_eq(n_changed, 0);
    double sum = 0, sum2 = 0;
    for (size_t i = 0; i < N; i++) {
        sum += x[i];
        sum2 += (double)x[i] * x[i];
    }
    const double mean = sum / N;
    ck_assert_double_eq_tol(mean, 0.5, 0.05);
    ck_assert_double_eq_tol(sqrt(sum2 / N - mean * mean), 2, 0.05);
    qsort(again, N, sizeof *again, by_value);
    size_t n_equal = 0, n_zero = 0;
    for (size_t i = 0; i < N; i++) {
        n_equal += i > 0 && again[i] == again[i - 1];
        n_zero += again[i] == 0 || !isfinite(again[i]);
    }
    free(x);
    ck_assert_uint_eq(n_equal, 0);
    ck_assert_uint_eq(n_zero, 0);
}

/* With no deviation all draws are equal, and zero at that: still distinct, still not zero. */
static void fill_of_equal_draws(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[100];
    kg_fill_normal(x, KG_COUNT_OF(x), 1, 0, 0);
    for (size_t i = 0; i < KG_COUNT_OF(x); i++) {
        ck_assert(x[i] != 0);
        for (size_t k = 0; k < i; k++) ck_assert(x[i] != x[k]);
    }
}

/* Draws that are the smallest steps apart keep their order. */
static void fill_of_close_draws(struct kg_record *rec, const void *arg) {
    enum { N = 100 };
    static const double MEAN = 1, DEVIATION = 5e-7;
    (void)rec;
    (void)arg;
    float x[N], drawn[N];
    struct kg_rng rng;
    kg_rng_init(&rng, 2, 0);
    for (size_t i = 0; i < N; i++) drawn[i] = (float)(MEAN + DEVIATION * kg_rng_normal(&rng));
    kg_fill_normal(x, N, 2, MEAN, DEVIATION);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++) ck_assert(!(drawn[i] < drawn[k]) || x[i] < x[k]);
}

static void guarded_buffer_starts_poisoned(struct kg_record *rec, const void *arg) {
    (void)rec;
    const size_t n = *(const size_t *)arg;
    struct kg_guarded g;
    kg_guarded_init(&g, n);
    ck_assert_uint_eq(g.n, n);
    ck_assert_uint_eq((uintptr_t)g.data % 64, 0);
    size_t n_nan = 0;
    for (size_t i = 0; i < n; i++) n_nan += isnan(g.data[i]) != 0;
    ck_assert_uint_eq(n_nan, n);
    for (size_t i = 0; i < n; i++) g.data[i] = (float)i;
    kg_guarded_expect_written(&g, "all of it");
    kg_guarded_free(&g);
}

static const size_t ONE = 1, ODD = 67, ROUND = 128;
#define COMPARE(name_, run_, arg_)                                                                                     \
    { .layer = "unit", .op = "compare", .name = name_, .run = run_, .arg = arg_ }

static const struct kg_case CASES[] = {
    COMPARE("known_figures", known_figures, NULL),
    COMPARE("equal_arrays_have_no_error", equal_arrays_have_no_error, NULL),
    COMPARE("cosine_keeps_its_digits", cosine_keeps_its_digits, NULL),
    COMPARE("nan_got", nonfinite_fails_every_tolerance, &GOT_NAN),
    COMPARE("infinity_got", nonfinite_fails_every_tolerance, &GOT_INF),
    COMPARE("nan_wanted", nonfinite_fails_every_tolerance, &WANT_NAN),
    COMPARE("nan_in_both", nonfinite_fails_every_tolerance, &BOTH_NAN),
    COMPARE("infinity_in_both", nonfinite_fails_every_tolerance, &BOTH_INF),
    COMPARE("margin_is_the_largest_ratio", margin_is_the_largest_ratio, NULL),
    COMPARE("mixed_limit_is_judged_by_element", mixed_limit_is_judged_by_element, NULL),
    COMPARE("all_wanted_zero", all_wanted_zero, NULL),
    COMPARE("unjudgeable_tolerances_are_named", unjudgeable_tolerances_are_named, NULL),
    COMPARE("records_have_digits_that_tell", records_have_digits_that_tell, NULL),
    COMPARE("fill_is_distinct_and_not_zero", fill_is_distinct_and_not_zero, NULL),
    COMPARE("fill_of_equal_draws", fill_of_equal_draws, NULL),
    COMPARE("fill_of_close_draws", fill_of_close_draws, NULL),
    COMPARE("guarded_buffer_of_one", guarded_buffer_starts_poisoned, &ONE),
    COMPARE("guarded_buffer_with_a_tail", guarded_buffer_starts_poisoned, &ODD),
    COMPARE("guarded_buffer_of_whole_blocks", guarded_buffer_starts_poisoned, &ROUND),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
