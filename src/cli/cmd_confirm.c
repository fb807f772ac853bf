/* kigo confirm: what regress flagged, measured again, both builds alternating. */
#include "base/clock.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/two_builds.h"
#include "history/annotation.h"
#include "history/confirm.h"
#include "history/shelf.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 200 };

struct confirm_options {
    struct kg_regress_call call;
    struct kg_two_builds_options builds;
    const char *run;
    struct kg_rows_options format;
    int64_t n_rounds;
};

struct confirming {
    const struct confirm_options *o;
    struct kg_regression r;
    struct kg_confirmation *items;
    size_t n_items, n_left_out;
    char **ids[2]; /* of each side's runs: baseline, run */
    size_t n_ids[2];
};

static bool is_flagged(const struct kg_judgement *j) {
    return j->noisy && !j->waived && (j->judged == KG_JUDGED_WORSE || j->judged == KG_JUDGED_INCONCLUSIVE) &&
           !isnan(j->change);
}

static bool has_key(const struct confirming *c, const char *key) {
    for (size_t i = 0; i < c->n_items; i++)
        if (strcmp(c->items[i].key, key) == 0) return true;
    return false;
}

/* The flagged figures, those that went furthest first; each case is run once however many of its figures are flagged.
 */
static void choose(struct confirming *c) {
    size_t n_cases = 0;
    c->items = kg_xcalloc(c->r.n_judgements + 1, sizeof *c->items);
    for (size_t i = 0; i < c->r.n_judgements; i++) {
        const struct kg_judgement *j = &c->r.judgements[i];
        if (!is_flagged(j)) continue;
        const bool seen = has_key(c, j->key);
        if (!seen && n_cases == MOST_CASES) {
            c->n_left_out++;
            continue;
        }
        n_cases += !seen;
        const int worse = kg_figure_kind_of(j->figure, j->unit).worse;
        c->items[c->n_items++] = (struct kg_confirmation){
            .key = j->key, .figure = j->figure, .unit = j->unit, .worse = worse, .flagged = j->change
        };
    }
}

/* Baseline, run; run, baseline; ...: what drifts meanwhile meets both alike. */
static enum kg_status measure(struct confirming *c, const struct kg_two_builds *two, struct kg_error *err) {
    enum kg_status status = KG_OK;
    const char **keys = kg_xcalloc(c->n_items + 1, sizeof *keys);
    for (size_t i = 0; i < c->n_items; i++) keys[i] = c->items[i].key;
    struct kg_progress progress;
    kg_progress_start(&progress, "runs");
    for (int side = 0; side < 2; side++) c->ids[side] = kg_xcalloc((size_t)c->o->n_rounds, sizeof *c->ids[side]);
    for (int64_t round = 0; round < 2 * c->o->n_rounds && status == KG_OK; round++) {
        const int side = (int)((round + round / 2) % 2);
        status = kg_two_builds_run(two, side, keys, c->n_items, &c->ids[side][c->n_ids[side]], err);
        c->n_ids[side] += status == KG_OK;
        kg_progress_update(&progress, (uint64_t)round + 1, 2 * (uint64_t)c->o->n_rounds);
    }
    kg_progress_finish(&progress);
    free(keys);
    return status;
}

static json_t *items_json(const struct confirming *c) {
    json_t *items = json_array();
    for (size_t i = 0; i < c->n_items; i++) json_array_append_new(items, kg_cli_confirmation_json(&c->items[i]));
    return items;
}

/* Exact findings need no second look: they count as they are. */
static int exit_code_of(const struct confirming *c) {
    size_t n[KG_CONFIRMED_COUNT] = { 0 }, n_exact = 0, n_doubt = c->n_left_out + c->r.counts[KG_JUDGED_INCOMPARABLE];
    for (size_t i = 0; i < c->n_items; i++) n[c->items[i].verdict]++;
    for (size_t i = 0; i < c->r.n_judgements; i++) {
        const struct kg_judgement *j = &c->r.judgements[i];
        n_exact += !j->waived && !j->noisy && j->judged <= KG_JUDGED_LOOSER;
        n_doubt += !j->waived && j->judged == KG_JUDGED_INCONCLUSIVE && !is_flagged(j);
    }
    if (n[KG_CONFIRMED] + n_exact > 0) return KG_EXIT_FAILED;
    return n[KG_UNCONFIRMED] + n[KG_UNDECIDED] + n_doubt + c->r.n_reasons > 0 ? KG_EXIT_INCONCLUSIVE : KG_EXIT_OK;
}

static json_t *whole_json(const struct confirming *c) {
    return json_pack("{s:s, s:i, s:I, s:I, s:o}", "run", c->r.run.bundle_id, "exit_code", exit_code_of(c), "rounds",
                     (json_int_t)c->o->n_rounds, "left_out", (json_int_t)c->n_left_out, "confirmations", items_json(c));
}

static enum kg_status print(const struct confirming *c, struct kg_error *err) {
    static const char *const NAMES[] = { "verdict", "case",     "figure", "unit",       "baseline", "run",
                                         "change",  "interval", "p",      "adjusted_p", "runs" };
    const struct kg_rows_options *format = &c->o->format;
    if (format->json) return kg_cli_print_json(whole_json(c), err);
    struct kg_rows rows = KG_ROWS_INIT(format);
    struct kg_buffer out = KG_BUFFER_INIT;
    rows.digits = 4;
    rows.for_people = true;
    kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, NULL);
    for (size_t i = 0; i < c->n_items; i++) {
        const struct kg_confirmation *k = &c->items[i];
        char change[32] = "", interval[48] = "";
        if (!isnan(k->change))
            snprintf(interval, sizeof interval, "%+.2f%% .. %+.2f%%", 100 * k->change_lo, 100 * k->change_hi);
        if (!isnan(k->change)) snprintf(change, sizeof change, "%+.2f%%", 100 * k->change);
        const struct kg_cell cells[] = { kg_cell_of_text(KG_CONFIRMED_NAMES[k->verdict]),
                                         kg_cell_of_text(k->key),
                                         kg_cell_of_text(k->figure),
                                         kg_cell_of_text(k->unit),
                                         kg_cell_of_real(k->before),
                                         kg_cell_of_real(k->after),
                                         kg_cell_of_text(change),
                                         kg_cell_of_text(interval),
                                         kg_cell_of_real(k->p),
                                         kg_cell_of_real(k->adjusted),
                                         kg_cell_of_int((int64_t)(k->n_before + k->n_after)) };
        kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, cells);
    }
    kg_rows_put(&rows, &out);
    if (!format->csv && c->n_items == 0) kg_buffer_puts(&out, "nothing to measure again\n");
    return kg_cli_print(&out, err);
}

/* What was found is kept beside the bundles, or in the fleet; where that cannot be written, only that is lost. */
static void keep_words(const struct confirming *c) {
    json_t *json = whole_json(c);
    struct kg_error err;
    struct kg_annotation a = { .kind = kg_xstrdup("confirm"),
                               .bundle_id = c->r.run.bundle_id,
                               .utc_us = kg_clock_utc_us(),
                               .author = kg_xstrdup("kigo confirm"),
                               .text = json_dumps(json, JSON_COMPACT) };
    const struct kg_asked asked = { c->o->call.bundles, c->o->call.history };
    if (kg_cli_asked_annotate("confirm", &asked, &a, &err) != KG_OK)
        kg_say(stderr, "kigo confirm: what was found is not kept: %s\n", err.message);
    free(a.kind);
    free(a.author);
    free(a.text);
    json_decref(json);
}

/* The history is closed: it may take hours. */
static enum kg_status look_again(struct confirming *c, const struct kg_two_builds *two, struct kg_error *err) {
    struct kg_history *history = NULL;
    enum kg_status status = measure(c, two, err);
    if (status == KG_OK) status = kg_history_open(two->runs.root, &history, NULL, err);
    if (status == KG_OK)
        status = kg_confirm(history, c->ids[0], c->n_ids[0], c->ids[1], c->n_ids[1],
                            c->o->call.least_change_percent / 100, c->items, c->n_items, err);
    kg_history_close(history);
    if (status == KG_OK) keep_words(c);
    return status;
}

static enum kg_status open_builds(struct confirming *c, struct kg_history *history, struct kg_two_builds *two,
                                  struct kg_error *err) {
    const struct kg_run_head *baseline = &c->r.baseline.items[c->r.build_against];
    const char *root;
    const enum kg_status status = kg_shelf_root(history, &root, err);
    return status == KG_OK
               ? kg_two_builds_open("confirm", &c->o->builds, &c->o->call, root, &c->r.run, baseline, two, err)
               : status;
}

static enum kg_status confirm(const struct confirm_options *o, int *exit_code, struct kg_error *err) {
    struct confirming c = { .o = o };
    struct kg_two_builds two = { 0 };
    struct kg_history *history = NULL;
    enum kg_status status = kg_cli_regress_open("confirm", &o->call, o->run, &history, &c.r, err);
    if (status != KG_OK) return status;
    choose(&c);
    if (c.n_left_out > 0) /* before hours are spent */
        kg_say(stderr, "kigo confirm: %zu flagged figures of more than %d cases are left out\n", c.n_left_out,
               MOST_CASES);
    if (c.n_items > 0) status = open_builds(&c, history, &two, err);
    kg_cli_history_close("confirm", history);
    if (c.n_items > 0 && status == KG_OK) status = look_again(&c, &two, err);
    kg_two_builds_close(&two);
    if (status == KG_OK) status = print(&c, err);
    *exit_code = exit_code_of(&c);
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < c.n_ids[side]; i++) free(c.ids[side][i]);
        free(c.ids[side]);
    }
    free(c.items);
    kg_regression_free(&c.r);
    return status;
}

int kg_cmd_confirm(int argc, char **argv) {
    struct confirm_options o = { .call = KG_REGRESS_CALL_INIT, .n_rounds = 10 };
    int exit_code = KG_EXIT_OK;
    const struct kg_option options[] = {
        { .name = "rounds",
          .letter = 'n',
          .kind = KG_OPTION_INT,
          .value = &o.n_rounds,
          .metavar = "N",
          .help = "runs of each build (10)",
          .min = KG_CONFIRM_FEWEST,
          .max = 60 },
        KG_TWO_BUILDS_OPTIONS(&o.builds),
        KG_REGRESS_OPTIONS(&o.call),
        KG_HISTORY_OPTION(&o.call.history),
        KG_ROWS_OPTIONS(&o.format),
    };
    const struct kg_command command = {
        .name = "kigo confirm",
        .usage = "[RUN] [--baseline-build DIR] [options]",
        .summary =
            "Measures again what 'kigo regress' flagged, and only that: runs of the two builds alternate, each in a\n"
            "fresh process; an exact one-sided Mann-Whitney test compares them, and Benjamini-Hochberg keeps the\n"
            "false ones among those confirmed to 5%. What was found is kept as an annotation of the run.\n"
            "Exit code: 1 a regression is confirmed (or needs no second look: an exact figure, a missing case),\n"
            "3 too little to judge by, 0 otherwise.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = 1,
    };
    const char *run;
    struct kg_error err;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &exit_code)) return exit_code;
    if (run) o.run = run;
    enum kg_status status = kg_rows_check(&o.format, &err);
    if (status == KG_OK) status = confirm(&o, &exit_code, &err);
    return status == KG_OK ? exit_code : kg_cli_error("confirm", &err);
}
