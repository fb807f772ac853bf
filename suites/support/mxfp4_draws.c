#include "suites/support/mxfp4_draws.h"
#include "base/buffer.h"
#include "suites/support/sample_cases.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

/* Of a logit: thirty times what float16 activations leave in these. And of the shares of ids that are asked for: their
 * ends are sums of probabilities, each off by as much of itself as its logit. */
static const double CLEAR = 0.02, LEAST_SHARE = 0.01;
enum { FROM_RANK = 8 };

static const double *by_logit;

static int better(const void *a, const void *b) {
    const double x = by_logit[*(const int32_t *)a], y = by_logit[*(const int32_t *)b];
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The ids, the best first. malloc'ed. */
static int32_t *ranking(const double *logits, uint32_t n) {
    int32_t *ids = kg_xcalloc(n, sizeof *ids);
    for (uint32_t i = 0; i < n; i++) ids[i] = (int32_t)i;
    by_logit = logits;
    qsort(ids, n, sizeof *ids, better);
    return ids;
}

/* The first rank from FROM_RANK on whose logit is clear of the next. */
static uint32_t clear_cut(const double *logits, const int32_t *ranked, uint32_t n) {
    for (uint32_t k = FROM_RANK; k < n; k++)
        if (logits[ranked[k - 1]] - logits[ranked[k]] > CLEAR) return k;
    ck_abort_msg("no clear cut in %u logits", n);
    return 0;
}

/* The weights at a temperature, of the ids kept; the others 0. They sum to 1. malloc'ed. */
static double *shares_of(const double *logits, const int32_t *ranked, uint32_t n, uint32_t n_kept, double temperature) {
    double *shares = kg_xcalloc(n, sizeof *shares), sum = 0;
    for (uint32_t k = 0; k < n_kept; k++) sum += exp((logits[ranked[k]] - logits[ranked[0]]) / temperature);
    for (uint32_t k = 0; k < n_kept; k++)
        shares[ranked[k]] = exp((logits[ranked[k]] - logits[ranked[0]]) / temperature) / sum;
    return shares;
}

/* Draws every likely id; returns how many. */
static uint32_t draw_likely(struct kg_sample_device *d, struct kg_sample_problem *p, const double *shares, uint32_t n) {
    double before = 0;
    uint32_t n_drawn = 0;
    for (uint32_t id = 0; id < n; before += shares[id++]) {
        if (shares[id] < LEAST_SHARE) continue;
        p->uniform = before + shares[id] / 2;
        const struct kg_sample_result result = kg_sample_run(d, p);
        ck_assert_uint_eq(result.first_bad, n);
        ck_assert_msg(result.id == (int32_t)id, "%.9g drew id %d, not %u, whose share is %.4g", p->uniform, result.id,
                      id, shares[id]);
        n_drawn++;
    }
    return n_drawn;
}

void kg_mxfp4_expect_draws(struct kg_mxfp4_run *r, const struct kg_mxfp4_value *logits, enum kg_mxfp4_draw way) {
    const uint32_t n = logits->cols;
    const double temperature = way == KG_MXFP4_TEMPERATURE ? 0.35 : 0.5; /* some ids of thousands share */
    int32_t *ranked = ranking(logits->exact, n);
    const uint32_t cut = clear_cut(logits->exact, ranked, n);
    const bool cuts = way == KG_MXFP4_TOP_K || way == KG_MXFP4_TOP_P;
    struct kg_sample_problem p = {
        .n_vocab = n,
        .n_drawable = n,
        .options = { .temperature = way == KG_MXFP4_GREEDY ? 0 : temperature, .repeat_penalty = 1, .top_p = 1 }
    };
    if (way == KG_MXFP4_TOP_K) p.options.top_k = cut;
    if (way == KG_MXFP4_TOP_P) {
        double *all = shares_of(logits->exact, ranked, n, n, temperature), sum = 0;
        for (uint32_t k = 0; k + 1 < cut; k++) sum += all[ranked[k]];
        p.options.top_p = sum + all[ranked[cut - 1]] / 2; /* reached by the last of them */
        free(all);
    }
    double *shares = shares_of(logits->exact, ranked, n, cuts ? cut : n, temperature);
    struct kg_sample_device d;
    ck_assert(kg_sample_device_open(r->rec, r->device.backend->ops->name, NULL, n, &d));
    p.logits = logits->y.host.data;
    kg_sample_put(&d, &p);
    if (way == KG_MXFP4_GREEDY) {
        ck_assert(logits->exact[ranked[0]] - logits->exact[ranked[1]] > CLEAR);
        ck_assert_int_eq(kg_sample_run(&d, &p).id, ranked[0]);
    } else {
        const uint32_t n_drawn = draw_likely(&d, &p, shares, n);
        kg_record_metric(r->rec, "ids_drawn", "count", n_drawn);
        ck_assert_uint_ge(n_drawn, 4);
    }
    kg_sample_device_close(&d);
    free(shares);
    free(ranked);
}
