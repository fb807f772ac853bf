#include "history/selfcheck.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "history/comparison_key.h"
#include "history/screen.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* P(X <= n) of a binomial distribution of m draws. */
static double binomial_at_most(size_t n, size_t m, double rate) {
    double sum = 0;
    for (size_t k = 0; k <= n; k++)
        sum += exp(lgamma((double)m + 1) - lgamma((double)k + 1) - lgamma((double)(m - k) + 1) + (double)k * log(rate) +
                   (double)(m - k) * log1p(-rate));
    return sum;
}

double kg_rate_most(size_t n, size_t m) {
    double low = (double)n / (double)(m ? m : 1), high = 1;
    if (n >= m) return 1;
    for (int i = 0; i < 100; i++) {
        const double middle = low + (high - low) / 2;
        if (binomial_at_most(n, m, middle) > 0.05) low = middle;
        else high = middle;
    }
    return high;
}

static void note_unsteady(struct kg_selfcheck *out, const struct kg_judgement *j) {
    char *name = kg_xasprintf("%s %s", j->key, *j->figure ? j->figure : j->subject);
    for (size_t i = 0; i < out->n_unsteady; i++) {
        if (strcmp(out->unsteady[i], name) != 0) continue;
        free(name);
        return;
    }
    out->unsteady = kg_xrealloc(out->unsteady, (out->n_unsteady + 1) * sizeof *out->unsteady);
    out->unsteady[out->n_unsteady++] = name;
}

static enum kg_status check_alike(const struct kg_regression *r, struct kg_error *err) {
    for (size_t i = 0; i < r->baseline.n_items; i++) {
        const struct kg_run_head *other = &r->baseline.items[i];
        char *difference = kg_comparison_difference(r->run.comparison_key, other->comparison_key);
        const bool alike = !*difference;
        enum kg_status status = KG_OK;
        if (!alike)
            status =
                kg_fail(err, KG_ERR_USAGE, "%s and %s differ in %s", r->run.bundle_id, other->bundle_id, difference);
        else if (strcmp(r->run.commit ? r->run.commit : "", other->commit ? other->commit : "") != 0)
            status =
                kg_fail(err, KG_ERR_USAGE, "%s and %s are of different commits", r->run.bundle_id, other->bundle_id);
        free(difference);
        if (status != KG_OK) return status;
    }
    return KG_OK;
}

static void count(struct kg_selfcheck *out, const struct kg_regression *r) {
    out->n_comparisons += r->n_noisy;
    out->n_exact += r->n_exact;
    for (size_t i = 0; i < r->n_judgements; i++) {
        const struct kg_judgement *j = &r->judgements[i];
        if (j->judged != KG_JUDGED_WORSE) continue;
        if (j->noisy) {
            out->n_false_alarms++;
        } else {
            out->n_exact_events++;
            note_unsteady(out, j);
        }
    }
}

enum kg_status kg_selfcheck(struct kg_history *history, const char *root, char *const *ids, size_t n_ids,
                            double least_change, struct kg_selfcheck *out, struct kg_error *err) {
    const char *others[KG_BASELINE_RUNS];
    enum kg_status status = KG_OK;
    *out = (struct kg_selfcheck){ .n_runs = n_ids };
    if (n_ids < KG_SCREEN_FEWEST + 1 || n_ids > KG_BASELINE_RUNS + 1)
        return kg_fail(err, KG_ERR_USAGE, "%zu runs; a selfcheck takes %d to %d", n_ids, KG_SCREEN_FEWEST + 1,
                       KG_BASELINE_RUNS + 1);
    for (size_t i = 0; i < n_ids && status == KG_OK; i++) {
        struct kg_regression r;
        size_t n_others = 0;
        for (size_t k = 0; k < n_ids; k++)
            if (k != i) others[n_others++] = ids[k];
        const struct kg_regress_options options = { .root = root,
                                                    .run = ids[i],
                                                    .baseline_runs = others,
                                                    .n_baseline_runs = n_others,
                                                    .least_change = least_change,
                                                    .now_us = kg_clock_utc_us() };
        status = kg_regress(history, &options, &r, err);
        if (status != KG_OK) break;
        status = check_alike(&r, err);
        if (status == KG_OK) count(out, &r);
        if (!out->comparison_key) out->comparison_key = kg_xstrdup(r.run.comparison_key);
        kg_regression_free(&r);
    }
    if (status != KG_OK) kg_selfcheck_free(out);
    out->rate = out->n_comparisons > 0 ? (double)out->n_false_alarms / (double)out->n_comparisons : 0;
    out->rate_most = kg_rate_most(out->n_false_alarms, out->n_comparisons);
    return status;
}

void kg_selfcheck_free(struct kg_selfcheck *s) {
    for (size_t i = 0; i < s->n_unsteady; i++) free(s->unsteady[i]);
    free(s->unsteady);
    free(s->comparison_key);
    *s = (struct kg_selfcheck){ 0 };
}
