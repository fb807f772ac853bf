/* Draws of a back end: the best of ties, what is not finite, distributions that can be written down, and the
 * reference's id for whatever logits and options. The cpu's are the reference, held to the first three. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/chi_square.h"
#include "suites/support/sample_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const char *const BACKENDS[] = { "cpu", "cuda" };
enum { LARGEST = 262144 };

#define GREEDY                                                                                                         \
    { .repeat_penalty = 1, .top_p = 1 }

/* The lowest of equals, wherever the two are: next to each other, in other warps, blocks, at the ends. */
static void best_of_ties(struct kg_record *rec, const void *arg) {
    static const uint32_t SIZES[] = { 1, 2, 31, 33, 255, 257, 1023, 1024, 1025, 4097, 151936, LARGEST };
    struct kg_sample_device d;
    if (!kg_sample_device_open(rec, arg, NULL, LARGEST, &d)) return;
    float *logits = kg_xcalloc(LARGEST, sizeof *logits);
    for (size_t s = 0; s < KG_COUNT_OF(SIZES); s++) {
        const uint32_t n = SIZES[s];
        const struct kg_sample_problem p = { .logits = logits, .n_vocab = n, .n_drawable = n, .options = GREEDY };
        const uint32_t places[][2] = { { 0, n - 1 },         { n - 1, n - 1 },       { n / 2, n - 1 },
                                       { n / 2, n / 2 + 1 }, { n / 3, 2 * (n / 3) }, { n > 1024 ? 1023 : 0, n - 1 } };
        for (size_t i = 0; i < KG_COUNT_OF(places); i++) {
            const uint32_t low = places[i][0], high = places[i][1] < n ? places[i][1] : n - 1;
            for (uint32_t id = 0; id < n; id++) logits[id] = -1 - (float)(id % 7);
            logits[low] = -0.f; /* as good as 0 */
            logits[high] = low == high ? -0.f : 0.f;
            kg_sample_put(&d, &p);
            ck_assert_int_eq(kg_sample_run(&d, &p).id, (int32_t)(low < high ? low : high));
        }
    }
    free(logits);
    kg_sample_device_close(&d);
}

/* The first of those that are not finite is named, be it a row that pads the matrix; nothing is drawn. Without it, the
 * same row draws. */
static void names_the_first_bad_logit(struct kg_record *rec, const void *arg) {
    enum { N = 5000, N_DRAWABLE = 4900 };
    static const uint32_t AT[][2] = { { 0, 0 }, { 4999, 4999 }, { 4900, 4950 }, { 1023, 1024 }, { 700, 4999 } };
    static const float VALUES[] = { NAN, INFINITY, -INFINITY };
    static const double TEMPERATURES[] = { 0, 0.7 };
    struct kg_sample_device d;
    if (!kg_sample_device_open(rec, arg, NULL, N, &d)) return;
    float *logits = kg_xcalloc(N, sizeof *logits);
    for (size_t t = 0; t < KG_COUNT_OF(TEMPERATURES); t++) {
        struct kg_sample_problem p = { .logits = logits, .n_vocab = N, .n_drawable = N_DRAWABLE, .options = GREEDY };
        p.options.temperature = TEMPERATURES[t];
        p.options.top_k = 40;
        p.options.top_p = 0.9;
        for (size_t i = 0; i < KG_COUNT_OF(AT); i++)
            for (size_t v = 0; v < KG_COUNT_OF(VALUES); v++) {
                logits[AT[i][0]] = VALUES[v];
                logits[AT[i][1]] = AT[i][0] == AT[i][1] ? VALUES[v] : NAN;
                kg_sample_put(&d, &p);
                const struct kg_sample_result bad = kg_sample_run(&d, &p);
                ck_assert_int_eq(bad.id, -1);
                ck_assert_uint_eq(bad.first_bad, AT[i][0]);
                ck_assert(kg_same_bits(bad.bad, VALUES[v]));
                logits[AT[i][0]] = logits[AT[i][1]] = 0;
                kg_sample_put(&d, &p);
                const struct kg_sample_result good = kg_sample_run(&d, &p);
                ck_assert_uint_eq(good.first_bad, N);
                ck_assert_int_ge(good.id, 0);
            }
    }
    free(logits);
    kg_sample_device_close(&d);
}

/* Rows from n_drawable on are never drawn, the largest or not. */
static void padding_is_never_drawn(struct kg_record *rec, const void *arg) {
    enum { N = 2100, N_DRAWABLE = 2049 };
    static const double TEMPERATURES[] = { 0, 1, 1e6 };
    struct kg_sample_device d;
    if (!kg_sample_device_open(rec, arg, NULL, N, &d)) return;
    float *logits = kg_xcalloc(N, sizeof *logits);
    for (uint32_t i = N_DRAWABLE; i < N; i++) logits[i] = 50;
    logits[N_DRAWABLE - 1] = 1;
    for (size_t t = 0; t < KG_COUNT_OF(TEMPERATURES); t++) {
        struct kg_sample_problem p = { .logits = logits, .n_vocab = N, .n_drawable = N_DRAWABLE, .options = GREEDY };
        p.options.temperature = TEMPERATURES[t];
        kg_sample_put(&d, &p);
        for (int i = 0; i < 20; i++) {
            p.uniform = i / 20.0;
            const int32_t id = kg_sample_run(&d, &p).id;
            ck_assert_int_ge(id, 0);
            ck_assert_int_lt(id, N_DRAWABLE);
            if (t == 0) ck_assert_int_eq(id, N_DRAWABLE - 1);
        }
    }
    free(logits);
    kg_sample_device_close(&d);
}

/* Probabilities of eight ids in a vocabulary of several blocks of threads, whose other ids weigh nothing. */
enum { N_IDS = 8, N_DRAWS = 4000, N_VOCAB = 3000 };
static const int32_t PLACES[N_IDS] = { 0, 1, 1023, 1024, 1500, 2047, 2048, 2999 };
struct distribution {
    const char *name;
    struct kg_sampler_options options;
    double p[N_IDS], want[N_IDS];
};
#define OPTIONS(t, k, p_sum, p_least, penalty)                                                                         \
    { .temperature = t, .top_k = k, .top_p = p_sum, .min_p = p_least, .repeat_penalty = penalty, .repeat_last_n = 64 }
#define MIXED                                                                                                          \
    { .05, .3, .02, .2, .15, .03, .22, .03 }
static const struct distribution DISTRIBUTIONS[] = {
    { "softmax", OPTIONS(1, 0, 1, 0, 1), MIXED, MIXED },
    { "temperature_half", OPTIONS(.5, 0, 1, 0, 1), { .5, .3, .2 }, { .25 / .38, .09 / .38, .04 / .38 } },
    { "top_k", OPTIONS(1, 3, 1, 0, 1), MIXED, { 0, .3 / .72, 0, .2 / .72, 0, 0, .22 / .72, 0 } },
    { "top_k_tie_keeps_the_lower_id",
      OPTIONS(1, 3, 1, 0, 1),
      { .5, .25, .125, .125 },
      { .5 / .875, .25 / .875, .125 / .875 } },
    { "top_p", OPTIONS(1, 0, .751, 0, 1), { .5, .25, .125, .125 }, { .5 / .875, .25 / .875, .125 / .875 } },
    { "top_k_before_top_p", OPTIONS(1, 2, .5, 0, 1), { .4, .3, .2, .1 }, { 1 } },
    { "min_p", OPTIONS(1, 0, 1, .49, 1), { .5, .25, .125, .125 }, { .5 / .75, .25 / .75 } },
    /* The second of the ids was drawn before; log p < 0, so that the penalty 2 squares p. */
    { "penalty", OPTIONS(1, 0, 1, 0, 2), { .5, .5 }, { .5 / .75, .25 / .75 } },
};

static void count_draws(struct kg_sample_device *d, const struct distribution *of, uint64_t seed,
                        size_t counts[N_IDS]) {
    struct kg_rng rng;
    float *logits = kg_xcalloc(N_VOCAB, sizeof *logits);
    struct kg_sample_problem p = { .logits = logits,
                                   .n_vocab = N_VOCAB,
                                   .n_drawable = N_VOCAB,
                                   .options = of->options,
                                   .history = &PLACES[1],
                                   .n_history = 1 };
    for (uint32_t i = 0; i < N_VOCAB; i++) logits[i] = -1e30f;
    for (size_t i = 0; i < N_IDS; i++)
        if (of->p[i] > 0) logits[PLACES[i]] = (float)log(of->p[i]);
    memset(counts, 0, N_IDS * sizeof *counts);
    kg_rng_init(&rng, seed, 0);
    kg_sample_put(d, &p);
    for (int draw = 0; draw < N_DRAWS; draw++) {
        p.uniform = kg_rng_uniform(&rng);
        const int32_t id = kg_sample_run(d, &p).id;
        size_t i = 0;
        while (i < N_IDS && PLACES[i] != id) i++;
        ck_assert_msg(i < N_IDS, "id %d was drawn, which weighs nothing", id);
        counts[i]++;
    }
    free(logits);
}

static struct distribution_case {
    const struct distribution *of;
    const char *backend;
} distribution_cases[KG_COUNT_OF(DISTRIBUTIONS) * KG_COUNT_OF(BACKENDS)];

static void follows(struct kg_record *rec, const void *arg) {
    const struct distribution_case *c = arg;
    size_t counts[N_IDS], freedom;
    struct kg_sample_device d;
    if (!kg_sample_device_open(rec, c->backend, NULL, N_VOCAB, &d)) return;
    count_draws(&d, c->of, kg_record_seed(rec), counts);
    const double statistic = kg_chi_square(counts, c->of->want, N_IDS, N_DRAWS, &freedom);
    kg_record_metric(rec, "chi_square", "ratio", statistic);
    ck_assert_msg(statistic <= kg_chi_square_limit(freedom), "chi-square %.2f with %zu degrees of freedom", statistic,
                  freedom);
    kg_sample_device_close(&d);
}

/* The same id as the reference, whatever is asked for: weights are whole numbers, so there is nothing to tolerate. */
static const struct equality {
    const char *name, *shape;
    size_t n;
    uint32_t n_max;
} EQUALITIES[] = {
    { "ids_of_the_reference", "problems=300 ids<=5000", 300, 5000 },
    { "ids_of_the_reference_few_ids", "problems=300 ids<=40", 300, 40 },
    { "ids_of_the_reference_large", "problems=12 ids<=262144", 12, LARGEST },
};

static void equals_the_reference(struct kg_record *rec, const void *arg) {
    const struct equality *e = arg;
    struct kg_sample_device d;
    char first[256] = "";
    if (!kg_sample_device_open(rec, "cuda", NULL, e->n_max, &d)) return;
    const size_t n_wrong = kg_sample_count_wrong(&d, kg_record_seed(rec), e->n, e->n_max, first);
    kg_record_metric(rec, "problems", "count", (double)e->n);
    ck_assert_msg(n_wrong == 0, "%zu of %zu ids are not the reference's; %s", n_wrong, e->n, first);
    kg_sample_device_close(&d);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *rec, const void *arg);
    } SINGLE[] = { { "best_of_ties", best_of_ties },
                   { "names_the_first_bad_logit", names_the_first_bad_logit },
                   { "padding_is_never_drawn", padding_is_never_drawn } };
    struct distribution_case *of = distribution_cases;
    for (size_t b = 0; b < KG_COUNT_OF(BACKENDS); b++) {
        struct kg_case c = { .layer = "tolerance", .op = "sample", .backend = BACKENDS[b], .dtype = "f32" };
        for (size_t i = 0; i < KG_COUNT_OF(SINGLE); i++) {
            c.name = SINGLE[i].name;
            c.run = SINGLE[i].run;
            c.arg = BACKENDS[b];
            kg_case_list_add(list, &c);
        }
        c.definition = "4000 draws, chi-square at 1e-4";
        for (size_t i = 0; i < KG_COUNT_OF(DISTRIBUTIONS); i++, of++) {
            *of = (struct distribution_case){ &DISTRIBUTIONS[i], BACKENDS[b] };
            c.name = DISTRIBUTIONS[i].name;
            c.run = follows;
            c.arg = of;
            kg_case_list_add(list, &c);
        }
    }
    for (size_t i = 0; i < KG_COUNT_OF(EQUALITIES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "tolerance",
                                                  .op = "sample",
                                                  .name = EQUALITIES[i].name,
                                                  .backend = "cuda",
                                                  .dtype = "f32",
                                                  .shape = EQUALITIES[i].shape,
                                                  .run = equals_the_reference,
                                                  .arg = &EQUALITIES[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
