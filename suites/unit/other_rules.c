#include "suites/unit/other_rules.h"
#include <math.h>

bool kg_nvbench_is_slower(double before, double after, double noise) {
    return expm1(after - before) > noise;
}

/* above[k] of a column: the sum of distances of values k' < k to the column's. */
static void add_columns(const double *values, size_t n, double (*above)[KG_OTAVA_MOST + 1]) {
    for (size_t column = 0; column < n; column++) {
        above[column][0] = 0;
        for (size_t k = 0; k < n; k++) above[column][k + 1] = above[column][k] + fabs(values[k] - values[column]);
    }
}

static double pairs_mean(double sum, size_t n) {
    return n < 2 ? 0 : sum / ((double)n * (double)(n - 1) / 2);
}

/* Where begin .. end - 1 splits; *most is the statistic. */
static size_t best_split(double (*above)[KG_OTAVA_MOST + 1], size_t begin, size_t end, double *most) {
    double left = 0; /* sums of distances of pairs */
    size_t best = begin + 1;
    *most = -INFINITY;
    for (size_t at = begin + 1; at < end; at++) {
        double right = 0, across = 0;
        const size_t m = at - begin;
        left += above[at - 1][at - 1] - above[at - 1][begin];
        for (size_t k = at; k < end; k++) {
            const size_t n = k + 1 - at;
            across += above[k][at] - above[k][begin];
            right += above[k][k] - above[k][at];
            const double q = (double)m * (double)n / (double)(m + n) *
                             (2 * across / ((double)m * (double)n) - pairs_mean(left, m) - pairs_mean(right, n));
            if (q > *most) {
                *most = q;
                best = at;
            }
        }
    }
    return best;
}

/* Mean, and the squared deviation divided by n. */
static void moments(const double *x, size_t n, double *mean, double *variance) {
    *mean = *variance = 0;
    for (size_t i = 0; i < n; i++) *mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) *variance += (x[i] - *mean) * (x[i] - *mean) / (double)n;
}

/* Both tails of Student's distribution (Abramowitz and Stegun 26.7.3 and 4). */
static double student_p(double t, size_t df) {
    const double angle = atan2(fabs(t), sqrt((double)df)), c = cos(angle);
    double term = df % 2 ? c : 1, sum = 0;
    for (size_t k = df % 2 ? 3 : 2; k <= df; k += 2) {
        sum += term;
        term *= c * c * (double)(k - 1) / (double)k;
    }
    return 1 - (df % 2 ? 2 / acos(-1.0) * (angle + sin(angle) * sum) : sin(angle) * sum);
}

struct split {
    size_t at;
    double p, up; /* of the values from the split before to the one behind; mean behind less mean before */
};

static void test(const double *values, size_t begin, size_t end, struct split *split) {
    double before, behind, variance_before, variance_behind;
    const size_t m = split->at - begin, n = end - split->at;
    moments(values + begin, m, &before, &variance_before);
    moments(values + split->at, n, &behind, &variance_behind);
    split->up = behind - before;
    split->p = 1;
    if (m + n <= 2) return;
    const double df = (double)(m + n - 2);
    const double pooled = ((double)(m - 1) * variance_before + (double)(n - 1) * variance_behind) / df;
    split->p = student_p(split->up / sqrt(pooled * (1 / (double)m + 1 / (double)n)), m + n - 2);
}

struct splits {
    const double *values;
    size_t n_values, n;
    struct split items[KG_OTAVA_MOST];
};

static size_t begin_of(const struct splits *s, size_t part) {
    return part == 0 ? 0 : s->items[part - 1].at;
}
static size_t end_of(const struct splits *s, size_t part) {
    return part == s->n ? s->n_values : s->items[part].at;
}
static void test_again(struct splits *s, size_t i) {
    test(s->values, begin_of(s, i), end_of(s, i + 1), &s->items[i]);
}

/* False if the part that would split next is not different enough. */
static bool split_once(struct splits *s, double (*above)[KG_OTAVA_MOST + 1]) {
    double most = -INFINITY;
    size_t in = 0;
    struct split found = { 0, 1, 0 };
    for (size_t part = 0; part <= s->n; part++) {
        double q;
        if (end_of(s, part) - begin_of(s, part) < 2) continue;
        const size_t at = best_split(above, begin_of(s, part), end_of(s, part), &q);
        if (q <= most) continue;
        most = q;
        in = part;
        found.at = at;
    }
    if (found.at == 0) return false;
    test(s->values, begin_of(s, in), end_of(s, in), &found);
    if (found.p > 0.01) return false;
    for (size_t i = s->n++; i > in; i--) s->items[i] = s->items[i - 1];
    s->items[in] = found;
    return true;
}

static void merge(struct splits *s) {
    for (size_t i = 0; i < s->n; i++) test_again(s, i);
    while (s->n > 0) {
        size_t weakest = 0;
        for (size_t i = 1; i < s->n; i++)
            if (s->items[i].p > s->items[weakest].p) weakest = i;
        if (s->items[weakest].p < 0.001) return;
        s->n--;
        for (size_t i = weakest; i < s->n; i++) s->items[i] = s->items[i + 1];
        for (size_t i = weakest; i < s->n && i <= weakest + 1; i++) test_again(s, i);
    }
}

bool kg_otava_finds_slower(const double *values, size_t n) {
    double above[KG_OTAVA_MOST][KG_OTAVA_MOST + 1];
    struct splits splits = { .values = values, .n_values = n };
    bool up = false;
    add_columns(values, n, above);
    while (splits.n + 1 < n && split_once(&splits, above)) continue;
    merge(&splits);
    for (size_t i = 0; i < splits.n; i++) up = up || splits.items[i].up > 0;
    return up;
}

void kg_other_series(const struct kg_made_times *times, size_t i, double change, double values[KG_OTHER_RUNS]) {
    for (size_t j = 0; j < KG_OTHER_RUNS; j++)
        values[j] = times->figures[i].by_run[KG_OTHER_RUNS - 1 - j] + (j < KG_OTHER_BEFORE ? 0 : change);
}

static void count(const struct kg_made_times *times, double noise, double change, struct kg_other_rates *nvbench,
                  struct kg_other_rates *otava) {
    enum { BEFORE = KG_OTHER_BEFORE };
    for (size_t i = 0; i < times->n_figures; i++) {
        double values[KG_OTHER_RUNS], slower[KG_OTHER_RUNS];
        kg_other_series(times, i, 0, values);
        kg_other_series(times, i, change, slower);
        nvbench->n++;
        nvbench->n_false += kg_nvbench_is_slower(values[BEFORE - 1], values[BEFORE], noise);
        nvbench->n_found += kg_nvbench_is_slower(values[BEFORE - 1], slower[BEFORE], noise);
        otava->n++;
        otava->n_false += kg_otava_finds_slower(values, KG_OTHER_RUNS);
        otava->n_found += kg_otava_finds_slower(slower, KG_OTHER_RUNS);
    }
}

void kg_other_rules_simulate(const struct kg_noise_kind *kind, size_t n_figures, double change, uint64_t seed,
                             struct kg_other_rates *nvbench, struct kg_other_rates *otava) {
    enum { TOGETHER = 50 }; /* cases of a machine: what moves all of them is drawn anew for the next */
    struct kg_made_times times;
    *nvbench = *otava = (struct kg_other_rates){ 0 };
    kg_made_times_open(&times, TOGETHER, KG_OTHER_RUNS);
    for (size_t part = 0; part < n_figures / TOGETHER; part++) {
        struct kg_rng rng;
        kg_rng_init(&rng, seed, part);
        kg_made_times_fill(&times, kind, &rng);
        count(&times, kind->sigma, change, nvbench, otava);
    }
    kg_made_times_close(&times);
}
