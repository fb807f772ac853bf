/* What needs no statistics: one run's value against what the baseline had. */
#include "history/regress_parts.h"
#include "base/buffer.h"
#include "base/size.h"
#include "bundle/records.h"
#include "history/exact.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was skipped says why: the run, or else what it is held against. */
static void note_skip(struct kg_judgement *j, const struct kg_run_result *r, const struct kg_run_result *before) {
    const char *reason = r->skip_reason ? r->skip_reason : before ? before->skip_reason : NULL;
    if (reason) j->skip_reason = kg_xstrdup(reason);
}

static void judge_status(struct kg_comparison *comparison, const struct kg_run_result *r,
                         const struct kg_run_result *before) {
    struct kg_judgement *j = NULL;
    if (r->outcome == KG_OUTCOME_NORUN && before->outcome != KG_OUTCOME_NORUN)
        j = kg_regress_add(comparison, KG_JUDGED_MISSING, "case", r->c->key, NULL, "it was planned and did not run");
    else if (r->outcome > before->outcome)
        j = kg_regress_add(comparison, KG_JUDGED_WORSE, "status", r->c->key, NULL, "it was %s", before->status);
    else if (r->outcome < before->outcome)
        j = kg_regress_add(comparison, KG_JUDGED_BETTER, "status", r->c->key, NULL, "it was %s", before->status);
    if (!j) return;
    snprintf(j->before_text, sizeof j->before_text, "%s", before->status);
    snprintf(j->after_text, sizeof j->after_text, "%s", r->status);
    note_skip(j, r, before);
}

/* A case that no run of the baseline has in this definition. */
static void judge_new(struct kg_comparison *comparison, const struct kg_run_result *r) {
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        if (!kg_run_find_key(&comparison->baseline[i], r->c->key_no)) continue;
        kg_regress_add(comparison, KG_JUDGED_INCOMPARABLE, "case", r->c->key, NULL,
                       "its definition has changed: another workload is no faster or slower");
        return;
    }
    const enum kg_judged judged = r->outcome == KG_OUTCOME_RED     ? KG_JUDGED_WORSE
                                  : r->outcome == KG_OUTCOME_NORUN ? KG_JUDGED_MISSING
                                                                   : KG_JUDGED_NEW;
    struct kg_judgement *j =
        kg_regress_add(comparison, judged, "status", r->c->key, NULL, "the baseline does not have the case");
    snprintf(j->after_text, sizeof j->after_text, "%s", r->status);
    note_skip(j, r, NULL);
}

/* The values an exact figure had, newest first, with its sign chosen so that more is worse. */
struct past {
    double values[KG_BASELINE_RUNS];
    int commits[KG_BASELINE_RUNS];
    size_t n;
    uint32_t runs; /* of which baseline run value i is: the i-th bit set */
    size_t n_other_seed;
    double worst_other_seed;
};

/* The same under every seed. */
static bool is_memory(const struct kg_figure_info *info) {
    return strcmp(info->kind.subject, "memory") == 0;
}

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text), n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

static bool is_margin(const struct kg_figure_info *info) {
    return ends_with(info->name, ".margin") && strcmp(info->unit, "ratio") == 0;
}

static void look_back(const struct kg_comparison *comparison, const struct kg_run_result *r,
                      const struct kg_run_figure *own, struct past *past) {
    const struct kg_matched *matched = kg_regress_matched(comparison, r);
    const struct kg_figure_info *info = own->info;
    const bool by_seed = !is_memory(info), by_limits = is_margin(info);
    *past = (struct past){ .worst_other_seed = -INFINITY };
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        const struct kg_run *run = &comparison->baseline[i];
        const struct kg_run_result *b = matched->results[i];
        const struct kg_run_figure *f = b ? kg_run_figure(run, b, own) : NULL;
        if (!b) continue;
        /* A tag that a run does not list held nothing. */
        const bool is_zero = !f && b->outcome == KG_OUTCOME_PASS && is_memory(info);
        if (!is_zero && (!f || !f->valid || isnan(f->value))) continue;
        const double value = is_zero ? 0 : info->kind.worse * f->value;
        if (by_limits && !kg_regress_same_limits(&comparison->run, r, run, b)) continue;
        if (by_seed && !(matched->same_seed >> i & 1)) {
            past->n_other_seed++;
            past->worst_other_seed = fmax(past->worst_other_seed, value);
            continue;
        }
        past->commits[past->n] = comparison->commits[i];
        past->runs |= UINT32_C(1) << i;
        past->values[past->n++] = value;
    }
}

/* Bits of values moved to the baseline runs that they are of. */
static uint32_t spread(uint32_t visits, uint32_t runs) {
    uint32_t out = 0;
    for (size_t run = 0, i = 0; run < KG_BASELINE_RUNS; run++)
        if (runs >> run & 1) out |= (visits >> i++ & 1) << run;
    return out;
}

/* In which baseline runs figures of each name (its place in the catalogue) had a value that came and went. */
static uint32_t *find_visits(const struct kg_comparison *comparison) {
    const struct kg_run *run = &comparison->run;
    uint32_t *visits = kg_xcalloc(comparison->catalogue->n_figures, sizeof *visits);
    for (size_t i = 0; i < run->n_results; i++) {
        const struct kg_run_result *r = &run->results[i];
        for (size_t k = 0; k < r->n_figures; k++) {
            const struct kg_run_figure *f = &run->figures[r->first_figure + k];
            struct past past;
            if (kg_figure_class_in(r->c, f->info) != KG_FIGURE_EXACT) continue;
            look_back(comparison, r, f, &past);
            visits[f->info - comparison->catalogue->figures] |=
                spread(kg_exact_visits(&(struct kg_exact_past){ past.values, past.commits, past.n }), past.runs);
        }
    }
    return visits;
}

/* Other seeds make other errors, of one size: several times the worst of them is no chance. Elements near zero make
 * max_rel an exception. */
static void judge_by_other_seeds(struct kg_comparison *comparison, const struct kg_run_result *r,
                                 const struct kg_run_figure *f, const struct past *past) {
    static const double SEVERAL = 5;
    const struct kg_figure_info *info = f->info;
    const double value = info->kind.worse * f->value, before = past->worst_other_seed;
    if (strcmp(info->kind.subject, "error") != 0 || before <= 0 || ends_with(info->name, ".max_rel") ||
        value <= SEVERAL * before)
        return;
    struct kg_judgement *j = kg_regress_add(comparison, KG_JUDGED_WORSE, info->kind.subject, r->c->key, info,
                                            "several times what other seeds gave");
    j->before = info->kind.worse * before;
    j->after = f->value;
    j->change = value / before - 1;
    j->n_baseline = past->n_other_seed;
}

static void judge_figure(struct kg_comparison *comparison, const struct kg_run_result *r, const struct kg_run_figure *f,
                         const uint32_t *visits) {
    static const struct {
        enum kg_judged judged;
        const char *why;
    } ANSWERS[] = {
        [KG_EXACT_WORSE] = { KG_JUDGED_WORSE,
                             "an exact figure: any change for the worse counts, until it is accepted" },
        [KG_EXACT_BETTER] = { KG_JUDGED_BETTER, "an exact figure" },
        [KG_EXACT_SUSPECT] = { KG_JUDGED_INCONCLUSIVE,
                               "suspect: figures of this name took several values in runs that changed nothing" },
    };
    const struct kg_figure_info *info = f->info;
    struct past past;
    double limit = NAN;
    look_back(comparison, r, f, &past);
    comparison->out->n_other_seed += past.n == 0 && past.n_other_seed > 0;
    if (past.n == 0 && past.n_other_seed > 0) judge_by_other_seeds(comparison, r, f, &past);
    if (past.n == 0) return;
    comparison->out->n_exact++;
    const bool none = !f->valid || isnan(f->value);
    const enum kg_exact_verdict verdict = kg_exact_judge(
        &(struct kg_exact_past){ past.values, past.commits, past.n }, none ? INFINITY : info->kind.worse * f->value,
        none ? 0 : visits[info - comparison->catalogue->figures], &limit);
    if (verdict == KG_EXACT_SAME && !none) return;
    struct kg_judgement *j = none ? kg_regress_add(comparison, KG_JUDGED_WORSE, info->kind.subject, r->c->key, info,
                                                   "it is not a finite number")
                                  : kg_regress_add(comparison, ANSWERS[verdict].judged, info->kind.subject, r->c->key,
                                                   info, "%s", ANSWERS[verdict].why);
    j->before = info->kind.worse * limit;
    j->after = none ? NAN : f->value;
    j->change = j->before != 0 ? j->after / j->before - 1 : NAN;
    j->n_baseline = past.n;
}

/* Whether a newer baseline run than `at` that counts has the figure of the case: that it is gone was found there. */
static bool figure_seen_before(const struct kg_comparison *comparison, const struct kg_matched *matched, size_t at,
                               const struct kg_run_figure *figure) {
    for (size_t i = 0; i < at; i++)
        if (matched->results[i] && kg_run_figure(&comparison->baseline[i], matched->results[i], figure)) return true;
    return false;
}

/* Likewise a case, in whatever definition. */
static bool case_seen_before(const struct kg_comparison *comparison, size_t at, const struct kg_case_info *c) {
    for (size_t i = 0; i < at; i++) {
        const struct kg_run_result *r = kg_run_find_key(&comparison->baseline[i], c->key_no);
        if (r && r->outcome != KG_OUTCOME_NORUN && kg_regress_counts(comparison, i, c->key)) return true;
    }
    return false;
}

/* A figure that is judged, that a baseline run has, and that the case no longer gives, would never be red again. */
static void find_missing_figures(struct kg_comparison *comparison, const struct kg_run_result *r, size_t at) {
    const struct kg_matched *matched = kg_regress_matched(comparison, r);
    const struct kg_run *run = &comparison->baseline[at];
    const struct kg_run_result *b = matched->results[at];
    if (!b || b->outcome != KG_OUTCOME_PASS) return;
    for (size_t i = 0; i < b->n_figures; i++) {
        const struct kg_run_figure *f = &run->figures[b->first_figure + i];
        const enum kg_figure_class class = kg_figure_class_in(r->c, f->info);
        if (class != KG_FIGURE_EXACT && class != KG_FIGURE_NOISY && class != KG_FIGURE_LIMIT) continue;
        if (kg_run_figure(&comparison->run, r, f) || figure_seen_before(comparison, matched, at, f)) continue;
        kg_regress_add(comparison, KG_JUDGED_MISSING, f->info->kind.subject, r->c->key, f->info,
                       "the case no longer gives this figure");
    }
}

static void find_missing_cases(struct kg_comparison *comparison, size_t at) {
    const struct kg_run *run = &comparison->baseline[at];
    for (size_t i = 0; i < run->n_results; i++) {
        const struct kg_run_result *b = &run->results[i];
        if (b->outcome == KG_OUTCOME_NORUN || kg_run_find_key(&comparison->run, b->c->key_no)) continue;
        if (!kg_regress_counts(comparison, at, b->c->key) || case_seen_before(comparison, at, b->c)) continue;
        struct kg_judgement *j =
            kg_regress_add(comparison, KG_JUDGED_MISSING, "case", b->c->key, NULL, "the run did not plan it");
        snprintf(j->before_text, sizeof j->before_text, "%s", b->status);
    }
}

/* The best that the case was in any baseline run, the newest of these: a skip that nobody accepted stays one. NULL if
 * none has it. */
static const struct kg_run_result *best_before(const struct kg_matched *matched) {
    const struct kg_run_result *best = NULL;
    for (size_t i = 0; i < KG_BASELINE_RUNS; i++) {
        const struct kg_run_result *r = matched->results[i];
        if (r && (!best || r->outcome < best->outcome)) best = r;
    }
    return best;
}

void kg_regress_exact(struct kg_comparison *comparison) {
    uint32_t *visits = find_visits(comparison);
    for (size_t i = 0; i < comparison->run.n_results; i++) {
        const struct kg_run_result *r = &comparison->run.results[i];
        const struct kg_run_result *before = best_before(kg_regress_matched(comparison, r));
        if (!before) {
            judge_new(comparison, r);
            continue;
        }
        comparison->out->n_cases++;
        judge_status(comparison, r, before);
        if (r->outcome != KG_OUTCOME_PASS) continue;
        kg_regress_limits(comparison, r);
        for (size_t k = 0; k < r->n_figures; k++) {
            const struct kg_run_figure *f = &comparison->run.figures[r->first_figure + k];
            if (kg_figure_class_in(r->c, f->info) == KG_FIGURE_EXACT) judge_figure(comparison, r, f, visits);
        }
        for (size_t k = 0; k < comparison->n_baseline; k++) find_missing_figures(comparison, r, k);
    }
    for (size_t k = 0; k < comparison->n_baseline; k++) find_missing_cases(comparison, k);
    free(visits);
}
