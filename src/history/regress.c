#include "history/regress_parts.h"
#include "history/shelf.h"
#include "base/buffer.h"
#include "base/size.h"
#include "bundle/policy.h"
#include "bundle/records.h"
#include "history/comparison_key.h"
#include "history/confirm.h"
#include "history/trust.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const KG_JUDGED_NAMES[KG_JUDGED_COUNT] = {
    [KG_JUDGED_WORSE] = "regression",
    [KG_JUDGED_MISSING] = "missing",
    [KG_JUDGED_LOOSER] = "looser",
    [KG_JUDGED_INCOMPARABLE] = "incomparable",
    [KG_JUDGED_INCONCLUSIVE] = "inconclusive",
    [KG_JUDGED_BETTER] = "better",
    [KG_JUDGED_NEW] = "new",
};

struct kg_judgement *kg_regress_add(struct kg_comparison *comparison, enum kg_judged judged, const char *subject,
                                    const char *key, const struct kg_figure_info *info, const char *why_fmt, ...) {
    struct kg_regression *out = comparison->out;
    va_list args;
    va_start(args, why_fmt);
    char *const why = kg_xvasprintf(why_fmt, args);
    va_end(args);
    if ((out->n_judgements & (out->n_judgements + 1)) == 0) /* full at 2^n - 1 */
        out->judgements = kg_xrealloc(out->judgements, (out->n_judgements + 1) * 2 * sizeof *out->judgements);
    struct kg_judgement *j = &out->judgements[out->n_judgements++];
    *j = (struct kg_judgement){ .judged = judged,
                                .subject = subject,
                                .key = kg_xstrdup(key),
                                .figure = kg_xstrdup(info ? info->name : ""),
                                .unit = kg_xstrdup(info ? info->unit : ""),
                                .before = NAN,
                                .after = NAN,
                                .change = NAN,
                                .z = NAN,
                                .z_limit = NAN,
                                .why = why };
    return j;
}

void kg_regress_reason(struct kg_regression *out, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *const text = kg_xvasprintf(fmt, args);
    va_end(args);
    out->reasons = kg_xrealloc(out->reasons, (out->n_reasons + 1) * sizeof *out->reasons);
    out->reasons[out->n_reasons++] = text;
}

bool kg_regress_counts(const struct kg_comparison *comparison, size_t baseline, const char *key) {
    const struct kg_run_head *head = &comparison->out->baseline.items[baseline];
    for (size_t i = 0; i < comparison->annotations.n_items; i++) {
        const struct kg_annotation *a = &comparison->annotations.items[i];
        if (!a->case_key || !a->bundle_id || strcmp(a->kind, "exclude") != 0) continue;
        if (strcmp(a->bundle_id, head->bundle_id) == 0 && kg_case_matches(a->case_key, key)) return false;
    }
    for (size_t i = 0; i < comparison->annotations.n_items; i++) {
        const struct kg_annotation *a = &comparison->annotations.items[i];
        const bool accepts = strcmp(a->kind, "accept") == 0;
        if (!a->case_key || !a->bundle_id || (strcmp(a->kind, "break") != 0 && !accepts)) continue;
        /* What was accepted in the judged run itself is judged, and waived. */
        if (accepts && strcmp(comparison->out->run.bundle_id, a->bundle_id) == 0) continue;
        /* Ids begin with the time, so that a run which was pruned still tells when it was. */
        if (strcmp(head->bundle_id, a->bundle_id) < 0 && strcmp(comparison->out->run.bundle_id, a->bundle_id) >= 0 &&
            kg_case_matches(a->case_key, key))
            return false;
    }
    return true;
}

static bool is_red(enum kg_judged judged) {
    return judged == KG_JUDGED_WORSE || judged == KG_JUDGED_MISSING || judged == KG_JUDGED_LOOSER;
}

/* Who waives is named once. */
static void note_waiver(struct kg_regression *out, const struct kg_annotation *a) {
    const char *before = out->waived_by ? out->waived_by : "";
    char *who = a->signer ? kg_xasprintf("%s (signed by %s)", a->author, a->signer)
                          : kg_xasprintf("%s (not signed)", a->author);
    out->n_red_waived++;
    if (!strstr(before, who)) {
        char *all = kg_xasprintf("%s%s%s", before, *before ? ", " : "", who);
        free(out->waived_by);
        out->waived_by = all;
    }
    free(who);
}

static void apply_waivers(struct kg_comparison *comparison) {
    for (size_t i = 0; i < comparison->out->n_judgements; i++) {
        struct kg_judgement *j = &comparison->out->judgements[i];
        for (size_t k = 0; k < comparison->annotations.n_items && j->judged < KG_JUDGED_BETTER; k++) {
            const struct kg_annotation *a = &comparison->annotations.items[k];
            const bool waives = strcmp(a->kind, "waive") == 0 && !(a->until_us < comparison->options->now_us);
            const bool accepts = strcmp(a->kind, "accept") == 0 && a->bundle_id &&
                                 strcmp(a->bundle_id, comparison->out->run.bundle_id) == 0;
            if ((!waives && !accepts) || j->waived || !kg_case_matches(a->case_key, j->key)) continue;
            j->waived = true;
            if (is_red(j->judged)) note_waiver(comparison->out, a);
        }
    }
}

static double distance(const struct kg_judgement *j) {
    if (isnan(j->before) || isnan(j->after)) return INFINITY; /* a status, or a figure that was none: first */
    return j->before == 0 ? INFINITY : fabs(j->after / j->before - 1);
}

static int by_weight(const void *a, const void *b) {
    const struct kg_judgement *const x = a, *const y = b;
    if (x->waived != y->waived) return x->waived - y->waived;
    if (x->judged != y->judged) return (int)x->judged - (int)y->judged;
    const double dx = distance(x), dy = distance(y);
    if (dx != dy) return dx < dy ? 1 : -1;
    const int by_key = strcmp(x->key, y->key);
    return by_key ? by_key : strcmp(x->figure, y->figure);
}

static void conclude(struct kg_comparison *comparison) {
    struct kg_regression *out = comparison->out;
    apply_waivers(comparison);
    if (out->n_judgements > 1) qsort(out->judgements, out->n_judgements, sizeof *out->judgements, by_weight);
    for (size_t i = 0; i < out->n_judgements; i++) {
        out->counts[out->judgements[i].judged] += !out->judgements[i].waived;
        out->n_waived += out->judgements[i].waived;
    }
    const bool doubt = out->n_reasons > 0 || out->counts[KG_JUDGED_INCOMPARABLE] + out->counts[KG_JUDGED_INCONCLUSIVE];
    const size_t n_red = out->counts[KG_JUDGED_WORSE] + out->counts[KG_JUDGED_MISSING] + out->counts[KG_JUDGED_LOOSER];
    out->exit_code = n_red > 0 ? KG_EXIT_FAILED : doubt ? KG_EXIT_INCONCLUSIVE : KG_EXIT_OK;
}

/* Annotations come oldest first. */
static void find_selfcheck(struct kg_comparison *comparison) {
    for (size_t i = 0; i < comparison->annotations.n_items; i++) {
        const struct kg_annotation *a = &comparison->annotations.items[i];
        json_t *found = strcmp(a->kind, "selfcheck") == 0 ? json_loads(a->text, 0, NULL) : NULL;
        const char *key = kg_json_text(found, "comparison_key");
        if (key && kg_comparison_same_machine(key, comparison->out->run.comparison_key)) {
            free(comparison->out->selfcheck);
            comparison->out->selfcheck = kg_xstrdup(a->text);
        }
        json_decref(found);
    }
}

/* The judged run, and its baseline. */
static enum kg_status load_runs(struct kg_history *index, struct kg_comparison *comparison, struct kg_error *err) {
    const struct kg_regression *out = comparison->out;
    struct kg_run runs[1 + KG_BASELINE_RUNS];
    int64_t numbers[1 + KG_BASELINE_RUNS] = { out->run.bundle_no };
    for (size_t i = 0; i < out->baseline.n_items; i++) numbers[1 + i] = out->baseline.items[i].bundle_no;
    const enum kg_status status =
        kg_runs_load(index, numbers, 1 + out->baseline.n_items, &out->catalogue, 0, runs, err);
    if (status != KG_OK) return status;
    comparison->run = runs[0];
    comparison->n_baseline = out->baseline.n_items;
    memcpy(comparison->baseline, runs + 1, comparison->n_baseline * sizeof *runs);
    return KG_OK;
}

static enum kg_status load(struct kg_history *history, struct kg_comparison *comparison, struct kg_error *err) {
    struct kg_regression *out = comparison->out;
    struct kg_policy policy;
    const char *root = comparison->options->root;
    enum kg_status status =
        kg_policy_load(comparison->options->policy_root ? comparison->options->policy_root : root, NULL, &policy, err);
    if (status == KG_OK) status = kg_annotations_read(history, root, &comparison->annotations, err);
    if (status == KG_OK)
        status = kg_annotations_keep_counted(root, &policy, &comparison->annotations, &out->n_annotations_dropped, err);
    kg_policy_free(&policy);
    if (status == KG_OK) status = kg_trust_heads(history, NULL, err);
    if (status == KG_OK) status = kg_trust_runs(history, &comparison->options->run, 1, err);
    if (status == KG_OK) status = kg_regress_choose(history, comparison, err);
    if (status == KG_OK) status = kg_trust_loaded(history, &out->baseline, err);
    struct kg_history *const figures = kg_shelf_index(history);
    if (status == KG_OK) status = kg_catalogue_load(figures, &out->catalogue, err);
    comparison->catalogue = &out->catalogue;
    return status == KG_OK ? load_runs(figures, comparison, err) : status;
}

enum kg_status kg_regress(struct kg_history *history, const struct kg_regress_options *options,
                          struct kg_regression *regression, struct kg_error *err) {
    struct kg_comparison comparison = { .options = options, .out = regression };
    *regression = (struct kg_regression){ 0 };
    const enum kg_status status = load(history, &comparison, err);
    if (status == KG_OK && comparison.n_baseline > 0) {
        kg_regress_match(&comparison);
        kg_regress_exact(&comparison);
        kg_regress_kernels(&comparison);
        kg_regress_noisy(&comparison);
    }
    if (status == KG_OK) {
        find_selfcheck(&comparison);
        conclude(&comparison);
    }
    free(comparison.matched);
    kg_run_free(&comparison.run);
    for (size_t i = 0; i < comparison.n_baseline; i++) kg_run_free(&comparison.baseline[i]);
    kg_annotations_free(&comparison.annotations);
    if (status != KG_OK) kg_regression_free(regression);
    return status;
}

void kg_regression_free(struct kg_regression *r) {
    for (size_t i = 0; i < r->n_judgements; i++) {
        free(r->judgements[i].key);
        free(r->judgements[i].figure);
        free(r->judgements[i].unit);
        free(r->judgements[i].why);
        free(r->judgements[i].skip_reason);
    }
    for (size_t i = 0; i < r->n_reasons; i++) free(r->reasons[i]);
    free(r->reasons);
    free(r->again);
    free(r->judgements);
    kg_drifts_free(r->drifts, r->n_drifts);
    free(r->other_key);
    free(r->selfcheck);
    free(r->waived_by);
    kg_run_head_free(&r->run);
    kg_run_heads_free(&r->baseline);
    kg_catalogue_free(&r->catalogue);
    *r = (struct kg_regression){ 0 };
}
