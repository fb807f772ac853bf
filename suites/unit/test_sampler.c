/* The sampler against distributions that can be written down. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "ops/sample.h"
#include "suites/harness/case.h"
#include "suites/support/chi_square.h"
#include <check.h>
#include <kigo/engine.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_DRAWS = 20000 };

static struct kg_sampler *make(const struct kg_sampler_options *options, uint32_t n_vocab) {
    struct kg_sampler *sampler;
    struct kg_error err;
    if (kg_sampler_create(options, n_vocab, &sampler, &err)) ck_abort_msg("%s", err.message);
    return sampler;
}

static int32_t draw(struct kg_sampler *sampler, const float *logits, const int32_t *history, size_t n_history) {
    struct kg_error err;
    int32_t id = -1;
    if (kg_sampler_draw(sampler, logits, history, n_history, &id, &err)) ck_abort_msg("%s", err.message);
    return id;
}

/* Options over logits log(p) of eight ids, and the probabilities they must give. */
enum { N_IDS = 8 };
struct distribution {
    const char *name;
    struct kg_sampler_options options;
    double p[N_IDS];    /* of the logits; 0 is a logit of -infinity */
    int32_t history[6]; /* -1 ends it */
    double want[N_IDS];
};

#define OPTIONS(t, k, p_sum, p_least, penalty, last_n, s)                                                              \
    {                                                                                                                  \
        .temperature = t, .top_k = k, .top_p = p_sum, .min_p = p_least, .repeat_penalty = penalty,                     \
        .repeat_last_n = last_n, .seed = s                                                                             \
    }
#define TEMPERATURE(t) OPTIONS(t, 0, 1, 0, 1, 64, 7)
#define SEED(s) OPTIONS(1, 0, 1, 0, 1, 64, s)
#define PLAIN TEMPERATURE(1)
#define NO_HISTORY                                                                                                     \
    { -1 }
#define MIXED                                                                                                          \
    { .05, .3, .02, .2, .15, .03, .22, .03 }
#define HALVES                                                                                                         \
    { .5, .25, .125, .125 }

static const struct distribution DISTRIBUTIONS[] = {
    { "softmax", PLAIN, MIXED, NO_HISTORY, MIXED },
    { "another_seed", SEED(UINT64_MAX), MIXED, NO_HISTORY, MIXED },
    { "minus_infinity_is_never_drawn", PLAIN, HALVES, NO_HISTORY, HALVES },
    /* p^(1/2) and p^2, normalised */
    { "temperature_two",
      TEMPERATURE(2),
      { .64, .16, .16, .04 },
      NO_HISTORY,
      { .8 / 1.8, .4 / 1.8, .4 / 1.8, .2 / 1.8 } },
    { "temperature_half", TEMPERATURE(.5), { .5, .3, .2 }, NO_HISTORY, { .25 / .38, .09 / .38, .04 / .38 } },
    { "temperature_tiny_takes_the_best", TEMPERATURE(1e-310), MIXED, NO_HISTORY, { 0, 1 } },
    { "top_k_1", OPTIONS(1, 1, 1, 0, 1, 64, 7), MIXED, NO_HISTORY, { 0, 1 } },
    { "top_k_3", OPTIONS(1, 3, 1, 0, 1, 64, 7), MIXED, NO_HISTORY, { 0, .3 / .72, 0, .2 / .72, 0, 0, .22 / .72, 0 } },
    { "top_k_beyond_vocabulary", OPTIONS(1, 100, 1, 0, 1, 64, 7), MIXED, NO_HISTORY, MIXED },
    { "top_k_tie_keeps_the_lower_id",
      OPTIONS(1, 3, 1, 0, 1, 64, 7),
      HALVES,
      NO_HISTORY,
      { .5 / .875, .25 / .875, .125 / .875 } },
    { "top_p_tiny_keeps_the_best", OPTIONS(1, 0, 1e-9, 0, 1, 64, 7), MIXED, NO_HISTORY, { 0, 1 } },
    { "top_p_reached_below_the_edge", OPTIONS(1, 0, .749, 0, 1, 64, 7), HALVES, NO_HISTORY, { .5 / .75, .25 / .75 } },
    { "top_p_passed_above_the_edge",
      OPTIONS(1, 0, .751, 0, 1, 64, 7),
      HALVES,
      NO_HISTORY,
      { .5 / .875, .25 / .875, .125 / .875 } },
    { "top_p_reached_to_the_digit", OPTIONS(1, 0, .5, 0, 1, 64, 7), { .25, .25, .25, .25 }, NO_HISTORY, { .5, .5 } },
    { "top_p_almost_one_keeps_all", OPTIONS(1, 0, .999999, 0, 1, 64, 7), MIXED, NO_HISTORY, MIXED },
    { "min_p_below_the_edge", OPTIONS(1, 0, 1, .49, 1, 64, 7), HALVES, NO_HISTORY, { .5 / .75, .25 / .75 } },
    { "min_p_above_the_edge", OPTIONS(1, 0, 1, .51, 1, 64, 7), HALVES, NO_HISTORY, { 1 } },
    { "min_p_almost_one_keeps_ties", OPTIONS(1, 0, 1, .999, 1, 64, 7), { .4, .2, .4 }, NO_HISTORY, { .5, 0, .5 } },
    { "min_p_of_one_keeps_ties", OPTIONS(1, 0, 1, 1, 1, 64, 7), { .4, .2, .4 }, NO_HISTORY, { .5, 0, .5 } },
    /* Over the whole softmax .4 + .3 reach .7; over the two that top-k leaves (4/7, 3/7) the first alone reaches .5. */
    { "top_k_before_top_p", OPTIONS(1, 2, .5, 0, 1, 64, 7), { .4, .3, .2, .1 }, NO_HISTORY, { 1 } },
    { "top_p_alone_keeps_two", OPTIONS(1, 0, .5, 0, 1, 64, 7), { .4, .3, .2, .1 }, NO_HISTORY, { .4 / .7, .3 / .7 } },
    { "top_p_with_min_p",
      OPTIONS(1, 0, .95, .45, 1, 64, 7),
      { .4, .3, .2, .1 },
      NO_HISTORY,
      { .4 / .9, .3 / .9, .2 / .9 } },
    /* After the temperature the best has two thirds of the sum, enough for .6 alone; before it, two would be kept. */
    { "temperature_before_top_p", OPTIONS(.5, 0, .6, 0, 1, 64, 7), { .5, .25, .25 }, NO_HISTORY, { 1 } },
    /* log p < 0 for all: the penalty 2 squares p. */
    { "penalty_of_negative_logits", OPTIONS(1, 0, 1, 0, 2, 64, 7), { .5, .5 }, { 1, -1 }, { .5 / .75, .25 / .75 } },
    { "penalty_counts_an_id_once",
      OPTIONS(1, 0, 1, 0, 2, 64, 7),
      { .5, .5 },
      { 1, 1, 1, -1 },
      { .5 / .75, .25 / .75 } },
    { "penalty_window_ends", OPTIONS(1, 0, 1, 0, 2, 2, 7), { .5, .5 }, { 1, 5, 6, -1 }, { .5, .5 } },
    { "penalty_window_reaches_its_first",
      OPTIONS(1, 0, 1, 0, 2, 3, 7),
      { .5, .5 },
      { 5, 1, 6, 7, -1 },
      { .5 / .75, .25 / .75 } },
    { "penalty_window_reaches", OPTIONS(1, 0, 1, 0, 2, 3, 7), { .5, .5 }, { 1, 5, 6, -1 }, { .5 / .75, .25 / .75 } },
    { "penalty_window_of_none", OPTIONS(1, 0, 1, 0, 2, 0, 7), { .5, .5 }, { 1, -1 }, { .5, .5 } },
    { "penalty_before_top_k", OPTIONS(1, 1, 1, 0, 2, 64, 7), { .5, .4 }, { 0, -1 }, { 0, 1 } },
};

static size_t history_length(const struct distribution *d) {
    size_t n = 0;
    while (n < KG_COUNT_OF(d->history) && d->history[n] >= 0) n++;
    return n;
}

static void count_draws(const struct distribution *d, size_t counts[N_IDS]) {
    float logits[N_IDS];
    for (size_t i = 0; i < N_IDS; i++) logits[i] = d->p[i] > 0 ? (float)log(d->p[i]) : -INFINITY;
    struct kg_sampler *sampler = make(&d->options, N_IDS);
    memset(counts, 0, N_IDS * sizeof *counts);
    for (size_t i = 0; i < N_DRAWS; i++) {
        const int32_t id = draw(sampler, logits, d->history, history_length(d));
        ck_assert_int_ge(id, 0);
        ck_assert_int_lt(id, N_IDS);
        counts[id]++;
    }
    kg_sampler_free(sampler);
}

static void follows(struct kg_record *rec, const void *arg) {
    const struct distribution *d = arg;
    size_t counts[N_IDS], freedom;
    count_draws(d, counts);
    const double statistic = kg_chi_square(counts, d->want, N_IDS, N_DRAWS, &freedom);
    kg_record_metric(rec, "chi_square", "ratio", statistic);
    ck_assert_msg(statistic <= kg_chi_square_limit(freedom), "chi-square %.2f with %zu degrees of freedom", statistic,
                  freedom);
}

/* The test above must be able to fail: a distribution two points off is rejected. */
static void test_tells_distributions_apart(struct kg_record *rec, const void *arg) {
    (void)arg;
    const double wrong[N_IDS] = { .05, .28, .02, .2, .15, .03, .24, .03 };
    size_t counts[N_IDS], freedom;
    count_draws(&DISTRIBUTIONS[0], counts);
    const double statistic = kg_chi_square(counts, wrong, N_IDS, N_DRAWS, &freedom);
    kg_record_metric(rec, "chi_square", "ratio", statistic);
    ck_assert_double_gt(statistic, kg_chi_square_limit(freedom));
}

/* Numbers made by hand: (10 - 15)^2 / 15 + (20 - 15)^2 / 15 + (30 - 30)^2 / 30, of three ids that can be drawn. */
static void chi_square_of_known_counts(struct kg_record *rec, const void *arg) {
    const size_t counts[] = { 10, 20, 30, 0 };
    const double probabilities[] = { 0.25, 0.25, 0.5, 0 };
    size_t freedom;
    (void)rec;
    (void)arg;
    ck_assert_double_eq_tol(kg_chi_square(counts, probabilities, KG_COUNT_OF(counts), 60, &freedom), 50.0 / 15, 1e-12);
    ck_assert_uint_eq(freedom, 2);
}

static void greedy_takes_the_lowest_of_equals(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float logits[] = { 1, 3, 3, -2, 3 };
    const struct kg_sampler_options options = TEMPERATURE(0);
    struct kg_sampler *sampler = make(&options, 5);
    for (int i = 0; i < 10; i++) ck_assert_int_eq(draw(sampler, logits, NULL, 0), 1);
    kg_sampler_free(sampler);
}

/* 3 / 2 falls behind 2; -1 * 2 falls behind -1.5: the sign decides how a penalty lowers. */
static void greedy_penalty_lowers_either_sign(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float positive[] = { 3, 2, 1 }, negative[] = { -1, -1.5f, -9 };
    const int32_t history[] = { 0 };
    const struct kg_sampler_options options = OPTIONS(0, 0, 1, 0, 2, 64, 7);
    struct kg_sampler *sampler = make(&options, 3);
    ck_assert_int_eq(draw(sampler, positive, NULL, 0), 0);
    ck_assert_int_eq(draw(sampler, positive, history, 1), 1);
    ck_assert_int_eq(draw(sampler, negative, NULL, 0), 0);
    ck_assert_int_eq(draw(sampler, negative, history, 1), 1);
    kg_sampler_free(sampler);
}

/* An id past the vocabulary the sampler draws from (a padded row) may stand in the history. */
static void history_beyond_vocabulary(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float logits[] = { 3, 2 };
    const int32_t history[] = { 7, -1, 2147483647, 0 };
    const struct kg_sampler_options options = OPTIONS(0, 0, 1, 0, 2, 64, 7);
    struct kg_sampler *sampler = make(&options, 2);
    ck_assert_int_eq(draw(sampler, logits, history, 4), 1);
    kg_sampler_free(sampler);
}

/* Top-p counts all of a large vocabulary: nine tenths of 5000 equal ids are the first 4500. */
static void top_p_sums_the_whole_vocabulary(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    enum { N = 5000 };
    float *logits = kg_xcalloc(N, sizeof *logits);
    const struct kg_sampler_options options = OPTIONS(1, 0, 0.9, 0, 1, 64, 7);
    struct kg_sampler *sampler = make(&options, N);
    int32_t largest = 0;
    size_t n_beyond_1000 = 0;
    for (int i = 0; i < 1000; i++) {
        const int32_t id = draw(sampler, logits, NULL, 0);
        if (id > largest) largest = id;
        n_beyond_1000 += id >= 1000;
    }
    ck_assert_int_lt(largest, 4501);
    ck_assert_int_gt(largest, 4400);       /* missed with probability (44/45)^1000 */
    ck_assert_uint_gt(n_beyond_1000, 700); /* expected 778, deviation 13 */
    ck_assert_uint_lt(n_beyond_1000, 850);
    kg_sampler_free(sampler);
    free(logits);
}

static void same_seed_same_ids(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    enum { N = 64 };
    const float logits[16] = { 0, .1f, .2f, .3f };
    int32_t ids[3][N];
    const uint64_t seeds[3] = { 42, 42, 43 };
    for (int run = 0; run < 3; run++) {
        const struct kg_sampler_options options = SEED(seeds[run]);
        struct kg_sampler *sampler = make(&options, 16);
        for (int i = 0; i < N; i++) ids[run][i] = draw(sampler, logits, NULL, 0);
        kg_sampler_free(sampler);
    }
    ck_assert_mem_eq(ids[0], ids[1], sizeof ids[0]);
    ck_assert_mem_ne(ids[0], ids[2], sizeof ids[0]);
}

/* Filters that leave everything change no draw. */
static void filters_that_keep_all_change_nothing(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const float logits[8] = { 2, 1, 0, 1.5f, -1, .5f, 1, 0 };
    const struct kg_sampler_options all[] = { PLAIN, OPTIONS(1, 8, 1, 0, 1, 64, 7), OPTIONS(1, 0, 1, 1e-9, 1, 64, 7),
                                              OPTIONS(1, 0, .9999999, 0, 1, 64, 7) };
    int32_t ids[KG_COUNT_OF(all)][200];
    for (size_t run = 0; run < KG_COUNT_OF(all); run++) {
        struct kg_sampler *sampler = make(&all[run], 8);
        for (int i = 0; i < 200; i++) ids[run][i] = draw(sampler, logits, NULL, 0);
        kg_sampler_free(sampler);
        ck_assert_mem_eq(ids[run], ids[0], sizeof ids[0]);
    }
}

/* Weights of exp(x) as a whole number, against long double: half a unit of rounding, and 4 units in the last place of a
 * double for what it is made of (the additions of the series and of the product's rounding). */
static void weights_are_exponentials(struct kg_record *rec, const void *arg) {
    static const int BITS[] = { 62, 44, 31, 0 };
    enum { N = 20000 };
    struct kg_rng rng;
    double worst = 0;
    (void)arg;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (size_t b = 0; b < KG_COUNT_OF(BITS); b++)
        for (int i = 0; i < N; i++) {
            const double x = -50 * (i < N / 2 ? 2.0 * i / N : kg_rng_uniform(&rng));
            const long double exact = ldexpl(expl((long double)x), BITS[b]);
            const long double limit = 0.5L + exact * 0x1p-50L;
            const long double error = fabsl((long double)kg_sample_weight(x, BITS[b]) - exact);
            ck_assert_msg(error <= limit, "the weight of %.17g in 2^%d is off by %Lg", x, BITS[b], error);
            if ((double)(error / limit) > worst) worst = (double)(error / limit);
        }
    for (int bits = 0; bits <= 62; bits++) ck_assert_uint_eq(kg_sample_weight(0, bits), UINT64_C(1) << bits);
    const double nothing[] = { -47, -1e300, -INFINITY, NAN };
    for (size_t i = 0; i < KG_COUNT_OF(nothing); i++) ck_assert_uint_eq(kg_sample_weight(nothing[i], 62), 0);
    kg_record_metric(rec, "margin", "ratio", worst);
}

/* The largest weights there can be just fit their sum. */
static void weights_leave_room_for_their_sum(struct kg_record *rec, const void *arg) {
    static const uint32_t SIZES[] = { 1, 2, 3, 4, 5, 151936, 262144, 262145, INT32_MAX };
    (void)rec;
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(SIZES); i++) {
        const uint64_t largest = UINT64_C(1) << kg_sample_weight_bits(SIZES[i]), limit = UINT64_C(1) << 62;
        ck_assert_uint_le(largest, limit / SIZES[i]);
        ck_assert_uint_gt(2 * largest, limit / SIZES[i]);
    }
}

struct bad_logits {
    const char *name;
    float logits[3];
    const char *says;
};
static const struct bad_logits BAD_LOGITS[] = {
    { "nan_first", { NAN, 1, 2 }, "logit 0" },
    { "nan_last", { 1, 2, NAN }, "logit 2" },
    { "plus_infinity", { 1, INFINITY, 2 }, "logit 1" },
    { "none_finite", { -INFINITY, -INFINITY, -INFINITY }, "none of 3" },
};

static void refuses_logits(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct bad_logits *bad = arg;
    for (int greedy = 0; greedy < 2; greedy++) {
        const struct kg_sampler_options options = TEMPERATURE(greedy ? 0 : 1);
        struct kg_sampler *sampler = make(&options, 3);
        struct kg_error err;
        int32_t id = -7;
        ck_assert_int_eq(kg_sampler_draw(sampler, bad->logits, NULL, 0, &id, &err), KG_ERR_NUMERIC);
        ck_assert_msg(strstr(err.message, bad->says) != NULL, "'%s' does not say '%s'", err.message, bad->says);
        ck_assert_int_eq(id, -7);
        kg_sampler_free(sampler);
    }
}

struct bad_option {
    const char *name;
    struct kg_sampler_options options;
    const char *says;
};
static const struct bad_option BAD_OPTIONS[] = {
    { "temperature_negative", TEMPERATURE(-0.1), "temperature -0.1" },
    { "temperature_nan", TEMPERATURE(NAN), "temperature nan" },
    { "temperature_infinite", TEMPERATURE(INFINITY), "temperature inf" },
    { "penalty_zero", OPTIONS(1, 0, 1, 0, 0, 64, 7), "repeat_penalty 0" },
    { "penalty_negative", OPTIONS(1, 0, 1, 0, -1, 64, 7), "repeat_penalty -1" },
    { "penalty_nan", OPTIONS(1, 0, 1, 0, NAN, 64, 7), "repeat_penalty nan" },
    { "top_p_zero", OPTIONS(1, 0, 0, 0, 1, 64, 7), "top_p 0" },
    { "top_p_above_one", OPTIONS(1, 0, 1.01, 0, 1, 64, 7), "top_p 1.01" },
    { "top_p_nan", OPTIONS(1, 0, NAN, 0, 1, 64, 7), "top_p nan" },
    { "min_p_above_one", OPTIONS(1, 0, 1, 1.5, 1, 64, 7), "min_p 1.5" },
    { "min_p_negative", OPTIONS(1, 0, 1, -0.5, 1, 64, 7), "min_p -0.5" },
    { "min_p_nan", OPTIONS(1, 0, 1, NAN, 1, 64, 7), "min_p nan" },
};

static void refuses_option(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct bad_option *bad = arg;
    struct kg_sampler *sampler = NULL;
    struct kg_error err;
    ck_assert_int_eq(kg_sampler_create(&bad->options, 8, &sampler, &err), KG_ERR_USAGE);
    ck_assert_msg(strstr(err.message, bad->says) != NULL, "'%s' does not say '%s'", err.message, bad->says);
    ck_assert_ptr_null(sampler);
}

static const struct kg_case OTHERS[] = {
    { .layer = "unit",
      .op = "sampler",
      .name = "test_tells_distributions_apart",
      .run = test_tells_distributions_apart },
    { .layer = "unit", .op = "sampler", .name = "chi_square_of_known_counts", .run = chi_square_of_known_counts },
    { .layer = "unit",
      .op = "sampler",
      .name = "greedy_takes_the_lowest_of_equals",
      .run = greedy_takes_the_lowest_of_equals },
    { .layer = "unit",
      .op = "sampler",
      .name = "greedy_penalty_lowers_either_sign",
      .run = greedy_penalty_lowers_either_sign },
    { .layer = "unit", .op = "sampler", .name = "history_beyond_vocabulary", .run = history_beyond_vocabulary },
    { .layer = "unit",
      .op = "sampler",
      .name = "top_p_sums_the_whole_vocabulary",
      .run = top_p_sums_the_whole_vocabulary },
    { .layer = "unit", .op = "sampler", .name = "same_seed_same_ids", .run = same_seed_same_ids },
    { .layer = "unit", .op = "sampler", .name = "weights_are_exponentials", .run = weights_are_exponentials },
    { .layer = "unit",
      .op = "sampler",
      .name = "weights_leave_room_for_their_sum",
      .run = weights_leave_room_for_their_sum },
    { .layer = "unit",
      .op = "sampler",
      .name = "filters_that_keep_all_change_nothing",
      .run = filters_that_keep_all_change_nothing },
};

static void add(struct kg_case_list *list, const char *op, const char *name, const char *definition,
                void (*run)(struct kg_record *, const void *), const void *arg) {
    kg_case_list_add(
        list,
        &(struct kg_case){ .layer = "unit", .op = op, .name = name, .definition = definition, .run = run, .arg = arg });
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(DISTRIBUTIONS); i++)
        add(list, "sampler", DISTRIBUTIONS[i].name, "20000 draws, chi-square at 1e-4", follows, &DISTRIBUTIONS[i]);
    for (size_t i = 0; i < KG_COUNT_OF(BAD_LOGITS); i++)
        add(list, "sampler_refuses", BAD_LOGITS[i].name, BAD_LOGITS[i].says, refuses_logits, &BAD_LOGITS[i]);
    for (size_t i = 0; i < KG_COUNT_OF(BAD_OPTIONS); i++)
        add(list, "sampler_refuses", BAD_OPTIONS[i].name, BAD_OPTIONS[i].says, refuses_option, &BAD_OPTIONS[i]);
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_case_list_add(list, &OTHERS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
