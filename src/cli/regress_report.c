/* What regress found, for people and programs. */
#include "base/markdown.h"
#include "base/say.h"
#include "cli/regress_call.h"
#include "cli/skip_groups.h"
#include "base/size.h"
#include "base/tty.h"
#include "base/json_put.h"
#include "bundle/records.h"
#include "history/confirm.h"
#include <math.h>
#include <stdlib.h>

static const char *verdict_of(const struct kg_regression *r) {
    return r->exit_code == KG_EXIT_OK ? "no regression" : r->exit_code == KG_EXIT_FAILED ? "regressed" : "inconclusive";
}

static bool is_shown(const struct kg_judgement *j, bool all) {
    return all || j->judged < KG_JUDGED_BETTER;
}

static struct kg_cell value_cell(double value, const char *text) {
    return *text ? kg_cell_of_text(text) : kg_cell_of_real(value);
}

static const char *const COLUMNS[] = { "judged", "subject", "case", "figure", "unit", "baseline",
                                       "run",    "change",  "z",    "runs",   "why" };

static const char *word_of(const struct kg_judgement *j) {
    return j->waived ? "waived" : KG_JUDGED_NAMES[j->judged];
}

static void add_judgement(const struct kg_judgement *j, struct kg_rows *rows) {
    char change[32] = "";
    if (!isnan(j->change)) snprintf(change, sizeof change, "%+.2f%%", 100 * j->change);
    const struct kg_cell cells[] = { kg_cell_of_text(word_of(j)),
                                     kg_cell_of_text(j->subject),
                                     kg_cell_of_text(j->key),
                                     kg_cell_of_text(j->figure),
                                     kg_cell_of_text(j->unit),
                                     value_cell(j->before, j->before_text),
                                     value_cell(j->after, j->after_text),
                                     kg_cell_of_text(change),
                                     kg_cell_of_real(j->z),
                                     kg_cell_of_int((int64_t)j->n_baseline),
                                     kg_cell_of_text(j->why) };
    kg_rows_add(rows, KG_COUNT_OF(COLUMNS), COLUMNS, cells);
}

/* For people, skips come apart (put_skips). */
enum which { ALL_FIGURES, NO_ROOFLINES, ROOFLINES };

static bool is_in(const struct kg_judgement *j, enum which which) {
    if (which == ALL_FIGURES) return true;
    return !j->skip_reason && kg_figure_is_roofline(j->figure) == (which == ROOFLINES);
}

static void put_judgements(const struct kg_regression *r, bool all, enum which which,
                           const struct kg_rows_options *format, struct kg_buffer *out) {
    struct kg_rows rows = KG_ROWS_INIT(format);
    rows.digits = 4;
    rows.for_people = true;
    kg_rows_add(&rows, KG_COUNT_OF(COLUMNS), COLUMNS, NULL);
    for (size_t i = 0; i < r->n_judgements; i++) {
        const struct kg_judgement *j = &r->judgements[i];
        if (is_in(j, which) && is_shown(j, all)) add_judgement(j, &rows);
    }
    if (which == ROOFLINES && rows.n_rows > 0) kg_section_put(KG_ROOFLINE_SECTION, format, out);
    kg_rows_put(&rows, out);
}

static void put_skips(const struct kg_regression *r, bool all, const struct kg_rows_options *format,
                      struct kg_buffer *out) {
    struct kg_skip_groups skips = { NULL };
    for (size_t i = 0; i < r->n_judgements; i++) {
        const struct kg_judgement *j = &r->judgements[i];
        if (!j->skip_reason || !is_shown(j, all)) continue;
        char *what = *j->before_text ? kg_xasprintf("%s: it was %s, now %s", word_of(j), j->before_text, j->after_text)
                                     : kg_xasprintf("%s: %s", word_of(j), j->after_text);
        kg_skip_groups_add(&skips, what, j->skip_reason, j->key);
        free(what);
    }
    if (kg_skip_groups_count(&skips) > 0 && out->len > 0) kg_buffer_puts(out, "\n");
    kg_skip_groups_put(&skips, format->markdown ? "- " : "", format->markdown ? KG_MEDIUM_MARKDOWN : KG_MEDIUM_TEXT,
                       out);
    kg_skip_groups_free(&skips);
}

void kg_regression_put(const struct kg_regression *r, bool all, const struct kg_rows_options *format,
                       struct kg_buffer *out) {
    put_judgements(r, all, format->csv ? ALL_FIGURES : NO_ROOFLINES, format, out);
    if (format->csv) return;
    put_judgements(r, all, ROOFLINES, format, out);
    put_skips(r, all, format, out);
}

static json_t *value_json(double value, const char *text) {
    return *text ? json_string(text) : kg_cli_number_json(value);
}

static json_t *judgement_json(const struct kg_judgement *j) {
    return json_pack("{s:s, s:b, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:b, s:s, s:o}", "judged",
                     KG_JUDGED_NAMES[j->judged], "waived", j->waived, "subject", j->subject, "case", j->key, "figure",
                     j->figure, "unit", j->unit, "baseline", value_json(j->before, j->before_text), "run",
                     value_json(j->after, j->after_text), "change", kg_cli_number_json(j->change), "z",
                     kg_cli_number_json(j->z), "z_limit", kg_cli_number_json(j->z_limit), "n_baseline",
                     (json_int_t)j->n_baseline, "noisy", j->noisy, "why", j->why, "skip_reason",
                     j->skip_reason ? kg_json_utf8(j->skip_reason) : json_null());
}

json_t *kg_cli_confirmation_json(const struct kg_confirmation *k) {
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:I, s:I}", "verdict",
                     KG_CONFIRMED_NAMES[k->verdict], "case", k->key, "figure", k->figure, "unit", k->unit, "baseline",
                     kg_cli_number_json(k->before), "run", kg_cli_number_json(k->after), "change",
                     kg_cli_number_json(k->change), "change_lo", kg_cli_number_json(k->change_lo), "change_hi",
                     kg_cli_number_json(k->change_hi), "p", k->p, "adjusted_p", k->adjusted, "n_baseline",
                     (json_int_t)k->n_before, "n_run", (json_int_t)k->n_after);
}

static json_t *again_json(const struct kg_regression *r) {
    json_t *items = json_array();
    for (size_t i = 0; i < r->n_again; i++) json_array_append_new(items, kg_cli_confirmation_json(&r->again[i]));
    return json_pack("{s:s, s:I, s:I, s:o}", "baseline", r->baseline.items[r->build_against].bundle_id, "suspects",
                     (json_int_t)r->n_again_all, "left_out", (json_int_t)r->n_again_left_out, "items", items);
}

static json_t *unseen_json(const struct kg_regression *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->n_unseen; i++) {
        const struct kg_unseen *u = &r->unseen[i];
        json_array_append_new(list, json_pack("{s:o, s:I, s:s, s:I, s:s}", "below", kg_cli_number_json(u->below), "n",
                                              (json_int_t)u->n_figures, "needs",
                                              isinf(u->below) ? "baseline runs" : "runs of each build", "runs",
                                              (json_int_t)u->n_runs, "worst", r->unseen_worst[i]));
    }
    return list;
}

/* What cannot be found is said. */
static void foot_unseen(const struct kg_regression *r, const char *item, enum kg_medium medium, struct kg_buffer *out) {
    for (size_t i = 0; i < r->n_unseen; i++) {
        const struct kg_unseen *u = &r->unseen[i];
        kg_buffer_puts(out, item);
        if (isinf(u->below))
            kg_escape_printf(out, medium,
                             "%zu times and rates (%s, ...) cannot be judged: %zu more baseline runs would do\n",
                             u->n_figures, r->unseen_worst[i], u->n_runs);
        else
            kg_escape_printf(out, medium,
                             "changes below %.1f%% of %zu times and rates (worst: %s) cannot be seen in one run; %zu "
                             "runs of each build would show the least change (regress --confirm)\n",
                             100 * u->below, u->n_figures, r->unseen_worst[i], u->n_runs);
    }
}

static json_t *selfcheck_json(const struct kg_regression *r) {
    json_t *found = r->selfcheck ? json_loads(r->selfcheck, 0, NULL) : NULL;
    return found ? found : json_null();
}

json_t *kg_regression_json(const struct kg_regression *r, bool all) {
    json_t *baseline = json_array(), *counts = json_object(), *drifts = json_array(), *reasons = json_array(),
           *judgements = json_array();
    for (size_t i = 0; i < r->baseline.n_items; i++)
        json_array_append_new(baseline, json_string(r->baseline.items[i].bundle_id));
    for (int k = 0; k < KG_JUDGED_COUNT; k++)
        json_object_set_new(counts, KG_JUDGED_NAMES[k], json_integer((json_int_t)r->counts[k]));
    json_object_set_new(counts, "waived", json_integer((json_int_t)r->n_waived));
    for (size_t i = 0; i < r->n_drifts; i++) {
        const struct kg_drift *d = &r->drifts[i];
        json_array_append_new(drifts, json_pack("{s:s, s:o, s:o, s:o, s:I, s:I}", "backend", d->group, "removed",
                                                kg_cli_number_json(expm1(d->by_run[0])), "common",
                                                kg_cli_number_json(expm1(d->common)), "canary",
                                                kg_cli_number_json(expm1(d->canary)), "n_figures",
                                                (json_int_t)d->n_figures, "n_canaries", (json_int_t)d->n_canaries));
    }
    for (size_t i = 0; i < r->n_reasons; i++) json_array_append_new(reasons, json_string(r->reasons[i]));
    for (size_t i = 0; i < r->n_judgements; i++)
        if (is_shown(&r->judgements[i], all)) json_array_append_new(judgements, judgement_json(&r->judgements[i]));
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s?, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "run", r->run.bundle_id, "verdict", verdict_of(r), "exit_code", r->exit_code, "baseline", baseline,
                     "counts", counts, "n_cases", (json_int_t)r->n_cases, "n_exact", (json_int_t)r->n_exact, "n_noisy",
                     (json_int_t)r->n_noisy, "n_other_seed", (json_int_t)r->n_other_seed, "n_not_counted",
                     (json_int_t)r->n_not_counted, "n_red_waived", (json_int_t)r->n_red_waived, "waived_by",
                     r->waived_by, "n_annotations_dropped", (json_int_t)r->n_annotations_dropped, "drift", drifts,
                     "reasons", reasons, "selfcheck", selfcheck_json(r), "unseen", unseen_json(r), "measured_again",
                     r->n_again_all > 0 ? again_json(r) : json_null(), "judgements", judgements);
}

static void put_run(const char *id, bool markdown, struct kg_buffer *out) {
    if (markdown) kg_markdown_span(out, id);
    else kg_text_printf(out, "%s", id);
}

void kg_regression_head(const struct kg_regression *r, bool markdown, struct kg_buffer *out) {
    const struct kg_run_heads *b = &r->baseline;
    const enum kg_medium medium = markdown ? KG_MEDIUM_MARKDOWN : KG_MEDIUM_TEXT;
    kg_buffer_puts(out, markdown ? "### kigo regress: " : "verdict   ");
    if (markdown) kg_buffer_puts(out, verdict_of(r));
    else kg_colour_word(out, verdict_of(r));
    if (r->n_red_waived > 0)
        kg_escape_printf(out, medium, "; %zu red finding%s waived by %s", r->n_red_waived,
                         r->n_red_waived == 1 ? "" : "s", r->waived_by);
    kg_buffer_puts(out, markdown ? "\n\nRun " : "\nrun       ");
    put_run(r->run.bundle_id, markdown, out);
    kg_buffer_puts(out, markdown ? " against " : "\nbaseline  ");
    if (b->n_items == 0) kg_buffer_puts(out, markdown ? "no baseline" : "none");
    if (b->n_items > 1) {
        kg_text_printf(out, "%zu runs, ", b->n_items);
        put_run(b->items[b->n_items - 1].bundle_id, markdown, out);
        kg_buffer_puts(out, " to ");
    }
    if (b->n_items > 0) put_run(b->items[0].bundle_id, markdown, out);
    kg_buffer_puts(out, markdown ? ".\n\n" : "\n");
}

static void foot_again(const struct kg_regression *r, const char *item, enum kg_medium medium, struct kg_buffer *out) {
    size_t counts[KG_CONFIRMED_COUNT] = { 0 };
    if (r->n_again_all == 0) return;
    for (size_t i = 0; i < r->n_again; i++) counts[r->again[i].verdict]++;
    const size_t n_others = r->n_again - counts[KG_REFUTED];
    kg_escape_printf(out, medium,
                     "%s%zu suspects measured again, against the build of %s: %zu confirmed, %zu refuted, %zu "
                     "small, %zu undecided",
                     item, r->n_again_all, r->baseline.items[r->build_against].bundle_id, counts[KG_CONFIRMED],
                     r->n_again_all - n_others, counts[KG_CONFIRMED_SMALL],
                     counts[KG_UNDECIDED] + counts[KG_UNCONFIRMED]);
    if (r->n_again_left_out > 0)
        kg_escape_printf(out, medium, "; %zu weaker ones were left out: the budget", r->n_again_left_out);
    kg_buffer_puts(out, "\n");
}

void kg_regression_foot(const struct kg_regression *r, bool markdown, struct kg_buffer *out) {
    const char *item = markdown ? "- " : "", *blank = r->n_judgements > 0 ? "\n" : "";
    const enum kg_medium medium = markdown ? KG_MEDIUM_MARKDOWN : KG_MEDIUM_TEXT;
    kg_buffer_puts(out, blank);
    kg_escape_printf(out, medium, "%scompared: %zu cases, %zu exact figures, %zu times and rates", item, r->n_cases,
                     r->n_exact, r->n_noisy);
    if (r->n_other_seed > 0) kg_escape_printf(out, medium, "; %zu figures have another seed", r->n_other_seed);
    kg_buffer_puts(out, "\n");
    if (r->n_not_counted > 0)
        kg_escape_printf(out, medium, "%s%zu run%s of the baseline's kind do%s not count: %s\n", item, r->n_not_counted,
                         r->n_not_counted == 1 ? "" : "s", r->n_not_counted == 1 ? "es" : "", r->why_not_counted);
    for (size_t i = 0; i < r->n_drifts; i++) {
        const struct kg_drift *d = &r->drifts[i];
        if (d->by_run[0] == 0) continue;
        kg_escape_printf(out, medium, "%sdrift of '%s' removed: %+.2f%%", item, *d->group ? d->group : "-",
                         100 * expm1(d->by_run[0]));
        if (!isnan(d->canary)) kg_escape_printf(out, medium, " (canaries %+.2f%%)", 100 * expm1(d->canary));
        kg_buffer_puts(out, "\n");
    }
    foot_unseen(r, item, medium, out);
    foot_again(r, item, medium, out);
    json_t *selfcheck = selfcheck_json(r);
    if (json_is_object(selfcheck))
        kg_escape_printf(out, medium, "%sselfcheck on this machine: %lld false alarms in %lld comparisons\n", item,
                         (long long)kg_json_int(selfcheck, "false_alarms", -1),
                         (long long)kg_json_int(selfcheck, "comparisons", -1));
    json_decref(selfcheck);
    kg_buffer_puts(out, item);
    for (int k = 0; k < KG_JUDGED_COUNT; k++)
        kg_escape_printf(out, medium, "%zu %s, ", r->counts[k], KG_JUDGED_NAMES[k]);
    kg_escape_printf(out, medium, "%zu waived\n", r->n_waived);
    if (r->n_annotations_dropped > 0)
        kg_escape_printf(out, medium,
                         "%s%zu annotation%s not followed: the store's policy asks for a signature that counts\n", item,
                         r->n_annotations_dropped, r->n_annotations_dropped == 1 ? " is" : "s are");
    for (size_t i = 0; i < r->n_reasons; i++)
        kg_escape_printf(out, medium, "%sinconclusive: %s\n", item, r->reasons[i]);
}
