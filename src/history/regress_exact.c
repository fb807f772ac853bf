/* What needs no statistics: one run's value against what the baseline had. */
#include "history/regress_parts.h"
#include "base/size.h"
#include "bundle/records.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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
}

/* The values an exact figure had, turned so that more is worse. */
struct past {
    double values[KG_BASELINE_RUNS]; /* newest first */
    size_t n;
    double worst, best; /* of the newest run's commit; of all runs where the figure is not steady */
    size_t n_other_seed;
};

static bool needs_seed(const struct kg_figure_info *info) {
    return strcmp(info->kind.subject, "memory") != 0;
}

/* "Exact" is a claim about the program, which runs of one commit test: their worst value is the limit. Where most runs
 * had a value of their own, the figure follows something that runs do not share (the minute, say), and the limit is the
 * worst of all. */
static void bound(const struct kg_comparison *comparison, const size_t *from, struct past *past) {
    size_t n_changes = 0;
    for (size_t i = 1; i < past->n; i++) n_changes += past->values[i] != past->values[i - 1];
    const bool unsteady = past->n >= 4 && 2 * n_changes > past->n;
    const char *commit = past->n > 0 ? comparison->out->baseline.items[from[0]].commit : NULL;
    for (size_t i = 0; i < past->n; i++) {
        const char *other = comparison->out->baseline.items[from[i]].commit;
        if (i > 0 && !unsteady && !(commit && other && strcmp(commit, other) == 0)) continue;
        past->worst = i == 0 ? past->values[i] : fmax(past->worst, past->values[i]);
        past->best = i == 0 ? past->values[i] : fmin(past->best, past->values[i]);
    }
}

static void look_back(const struct kg_comparison *comparison, const struct kg_run_result *r,
                      const struct kg_figure_info *info, size_t occurrence, struct past *past) {
    size_t from[KG_BASELINE_RUNS];
    *past = (struct past){ .n = 0 };
    for (size_t i = 0; i < comparison->n_baseline; i++) {
        const struct kg_run *run = &comparison->baseline[i];
        const struct kg_run_result *b = kg_run_find(run, r->c->same);
        const struct kg_run_figure *f = b ? kg_run_figure(run, b, info, occurrence) : NULL;
        if (!f || !f->valid || isnan(f->value) || !kg_regress_counts(comparison, i, r->c->key)) continue;
        if (needs_seed(info) && strcmp(b->seed, r->seed) != 0) {
            past->n_other_seed++;
            continue;
        }
        from[past->n] = i;
        past->values[past->n++] = info->kind.worse * f->value;
    }
    bound(comparison, from, past);
}

static void judge_figure(struct kg_comparison *comparison, const struct kg_run_result *r, size_t place) {
    const struct kg_run_figure *f = &comparison->run.figures[r->first_figure + place];
    const struct kg_figure_info *info = f->info;
    struct past past;
    look_back(comparison, r, info, kg_run_occurrence(&comparison->run, r, place), &past);
    comparison->out->n_other_seed += past.n == 0 && past.n_other_seed > 0;
    if (past.n == 0) return;
    comparison->out->n_exact++;
    const double value = info->kind.worse * f->value;
    const bool none = !f->valid || isnan(value);
    if (!none && value >= past.best && value <= past.worst) return;
    const bool worse = none || value > past.worst;
    struct kg_judgement *j =
        kg_regress_add(comparison, worse ? KG_JUDGED_WORSE : KG_JUDGED_BETTER, info->kind.subject, r->c->key, info,
                       none ? "it is not a finite number" : "an exact figure: any change for the worse counts");
    j->before = info->kind.worse * (worse ? past.worst : past.best);
    j->after = none ? NAN : f->value;
    j->change = j->before != 0 ? j->after / j->before - 1 : NAN;
    j->n_baseline = past.n;
}

/* A figure that is judged and that the case no longer gives would never be red again. */
static void find_missing_figures(struct kg_comparison *comparison, const struct kg_run_result *r,
                                 const struct kg_run *run, const struct kg_run_result *before) {
    for (size_t i = 0; i < before->n_figures; i++) {
        const struct kg_figure_info *info = run->figures[before->first_figure + i].info;
        const enum kg_figure_class class = kg_figure_class_in(r->c, info);
        if (class != KG_FIGURE_EXACT && class != KG_FIGURE_NOISY) continue;
        if (kg_run_figure(&comparison->run, r, info, kg_run_occurrence(run, before, i))) continue;
        kg_regress_add(comparison, KG_JUDGED_MISSING, info->kind.subject, r->c->key, info,
                       "the case no longer gives this figure");
    }
}

static void find_missing_cases(struct kg_comparison *comparison) {
    const struct kg_run *newest = &comparison->baseline[0];
    for (size_t i = 0; i < newest->n_results; i++) {
        const struct kg_run_result *b = &newest->results[i];
        if (b->outcome == KG_OUTCOME_NORUN || kg_run_find_key(&comparison->run, b->c->key_no)) continue;
        if (!kg_regress_counts(comparison, 0, b->c->key)) continue;
        struct kg_judgement *j =
            kg_regress_add(comparison, KG_JUDGED_MISSING, "case", b->c->key, NULL, "the run did not plan it");
        snprintf(j->before_text, sizeof j->before_text, "%s", b->status);
    }
}

void kg_regress_exact(struct kg_comparison *comparison) {
    for (size_t i = 0; i < comparison->run.n_results; i++) {
        const struct kg_run_result *r = &comparison->run.results[i];
        size_t at = 0;
        const struct kg_run_result *before = kg_regress_newest(comparison, r->c, &at);
        if (!before) {
            judge_new(comparison, r);
            continue;
        }
        comparison->out->n_cases++;
        judge_status(comparison, r, before);
        if (r->outcome != KG_OUTCOME_PASS) continue;
        for (size_t k = 0; k < r->n_figures; k++)
            if (kg_figure_class_in(r->c, comparison->run.figures[r->first_figure + k].info) == KG_FIGURE_EXACT)
                judge_figure(comparison, r, k);
        if (before->outcome == KG_OUTCOME_PASS) find_missing_figures(comparison, r, &comparison->baseline[at], before);
    }
    find_missing_cases(comparison);
}

static void judge_kernel(struct kg_comparison *comparison, const char *kernel, const json_t *before,
                         const json_t *after) {
    static const char *const FIGURES[] = { "registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes" };
    for (size_t i = 0; i < KG_COUNT_OF(FIGURES); i++) {
        const int64_t was = kg_json_int(before, FIGURES[i], -1), is = kg_json_int(after, FIGURES[i], -1);
        if (was < 0 || is < 0) continue;
        comparison->out->n_exact++;
        if (was == is) continue;
        struct kg_figure_info info = { .name = (char *)(uintptr_t)FIGURES[i],
                                       .unit = (char *)(uintptr_t)(strstr(FIGURES[i], "bytes") ? "bytes" : "count") };
        struct kg_judgement *j = kg_regress_add(comparison, is > was ? KG_JUDGED_WORSE : KG_JUDGED_BETTER, "kernel",
                                                kernel, &info, "an exact figure: any change for the worse counts");
        j->before = (double)was;
        j->after = (double)is;
        j->change = was > 0 ? (double)is / (double)was - 1 : NAN;
        j->n_baseline = 1;
    }
}

/* build.json's "kernels": an array of {"name", "arch", ...}. */
void kg_regress_kernels(struct kg_comparison *comparison) {
    const struct kg_regression *out = comparison->out;
    json_t *before = json_loads(out->baseline.items[0].build_json, 0, NULL);
    json_t *after = json_loads(out->run.build_json, 0, NULL);
    const json_t *olds = json_object_get(before, "kernels"), *news = json_object_get(after, "kernels");
    for (size_t i = 0; i < json_array_size(news); i++) {
        const json_t *kernel = json_array_get(news, i);
        const char *name = kg_json_text(kernel, "name"), *arch = kg_json_text(kernel, "arch");
        for (size_t k = 0; k < json_array_size(olds) && name; k++) {
            const json_t *old = json_array_get(olds, k);
            const char *old_name = kg_json_text(old, "name"), *old_arch = kg_json_text(old, "arch");
            if (!old_name || strcmp(old_name, name) != 0 || strcmp(old_arch ? old_arch : "", arch ? arch : "") != 0)
                continue;
            judge_kernel(comparison, name, old, kernel);
            break;
        }
    }
    json_decref(after);
    json_decref(before);
}
