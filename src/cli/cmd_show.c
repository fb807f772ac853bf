/* kigo show: one run, from its own records. */
#include "base/clock.h"
#include "base/json_put.h"
#include "base/quantity.h"
#include "base/say.h"
#include "base/size.h"
#include "base/tty.h"
#include "bundle/export.h"
#include "bundle/verified.h"
#include "cli/asked_runs.h"
#include "cli/commands.h"
#include "cli/regress_call.h"
#include "cli/rows.h"
#include "cli/show_figures.h"
#include "cli/show_markdown.h"
#include "cli/sprint.h"
#include "cli/trust.h"
#include "report/verdict.h"
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct show_options {
    struct kg_asked asked;
    const char *glob;
    bool failures;
    struct kg_rows_options format;
    struct kg_filter filter;
    int64_t slowest; /* 0: not asked */
};

struct run {
    const struct kg_asked_runs *from;
    const char *dir;
    struct kg_records records;
    struct kg_bundle_findings findings;
    json_t *summary, *source, *env, *build;
    const struct kg_case_records **shown; /* cases that the options choose */
    size_t n_shown;
    struct kg_signature signature;
    bool signature_known; /* false: ssh-keygen or the list of allowed signers could not be asked */
    struct kg_regression regression;
    bool compared;
    struct kg_error not_compared;
    struct kg_verdict verdict;
};

static bool is_green(const struct kg_case_records *c) {
    const char *status = kg_case_status(c);
    return strcmp(status, "pass") == 0 || strcmp(status, "skip") == 0;
}

static int by_time_falling(const void *a, const void *b) {
    const struct kg_case_records *const x = *(const struct kg_case_records *const *)a;
    const struct kg_case_records *const y = *(const struct kg_case_records *const *)b;
    const double dx = kg_case_seconds(x), dy = kg_case_seconds(y);
    return dx < dy ? 1 : dx > dy ? -1 : strcmp(x->key, y->key);
}

static void choose(struct run *run, const struct show_options *o) {
    run->shown = kg_xcalloc(run->records.n_cases, sizeof *run->shown);
    for (size_t i = 0; i < run->records.n_cases; i++) {
        const struct kg_case_records *c = &run->records.cases[i];
        if (o->failures && is_green(c)) continue;
        if (!kg_filter_takes(&o->filter, c->plan)) continue;
        if (o->glob && fnmatch(o->glob, c->key, 0) != 0) continue;
        run->shown[run->n_shown++] = c;
    }
    if (o->slowest == 0) return;
    if (run->n_shown > 1) qsort(run->shown, run->n_shown, sizeof *run->shown, by_time_falling);
    if (run->n_shown > (size_t)o->slowest) run->n_shown = (size_t)o->slowest;
}

/* What is wrong with a bundle is said beside what it holds. */
static void verify(const char *dir, struct kg_bundle_findings *findings) {
    struct kg_error why;
    if (kg_verified_findings(dir, findings, &why) != KG_OK && findings->n_items == 0)
        kg_finding_add(findings, "unreadable", "", "%s", why.message);
}

static enum kg_status load(const char *dir, struct run *run, struct kg_error *err) {
    run->dir = dir;
    enum kg_status status = kg_bundle_read_json(dir, "data/summary.json", &run->summary, err);
    if (status != KG_OK) return status;
    struct kg_bundle_findings unheard = { NULL, 0 };
    verify(dir, &run->findings); /* first: it reads the records, too, and two copies are not held at once */
    status = kg_records_load(dir, &run->records, &unheard, err);
    kg_bundle_findings_free(&unheard);
    if (kg_bundle_read_json(dir, "data/source.json", &run->source, NULL) != KG_OK) run->source = NULL;
    if (kg_bundle_read_json(dir, "data/env.json", &run->env, NULL) != KG_OK) run->env = NULL;
    if (kg_bundle_read_json(dir, "data/build.json", &run->build, NULL) != KG_OK) run->build = NULL;
    return status;
}

static void look_at_signature(const struct show_options *o, struct run *run) {
    struct kg_policy policy;
    struct kg_error unheard;
    run->signature_known = kg_policy_load(kg_cli_bundles_root(o->asked.bundles), NULL, &policy, &unheard) == KG_OK &&
                           kg_signature_check(run->dir, &policy.trust, &run->signature, &unheard) == KG_OK;
    kg_policy_free(&policy);
}

/* Against the runs before it, as `kigo regress` does; without a history there is still a run to show. */
static void judge(const struct show_options *o, struct run *run) {
    struct kg_regress_call call = KG_REGRESS_CALL_INIT;
    call.bundles = o->asked.bundles;
    call.history = o->asked.history;
    call.repository = o->filter.repository;
    const char *const name = kg_asked_runs_dir(run->from, run->dir) ? run->dir : strrchr(run->dir, '/') + 1;
    if (run->findings.n_items > 0) kg_error_set(&run->not_compared, KG_ERR_INTEGRITY, "it does not verify");
    else run->compared = kg_cli_regress("show", &call, name, &run->regression, &run->not_compared) == KG_OK;
    const struct kg_export from = { &run->records, run->summary, run->env, run->build, run->source };
    struct kg_goal_counts goals;
    const struct kg_report report = { .run = &from,
                                      .goals = kg_cli_goals_count(&from, &goals) ? &goals : NULL,
                                      .findings = &run->findings,
                                      .regression = run->compared ? &run->regression : NULL,
                                      .not_compared = run->not_compared.message };
    kg_verdict_make(&report, &run->verdict);
}

static void unload(struct run *run) {
    kg_verdict_free(&run->verdict);
    if (run->compared) kg_regression_free(&run->regression);
    free(run->shown);
    json_decref(run->build);
    json_decref(run->env);
    json_decref(run->source);
    json_decref(run->summary);
    kg_bundle_findings_free(&run->findings);
    kg_records_free(&run->records);
}

static json_t *run_json(const struct run *run) {
    json_t *cases = json_array();
    for (size_t i = 0; i < run->n_shown; i++) {
        const struct kg_case_records *c = run->shown[i];
        json_t *one = c->plan ? json_copy(c->plan) : json_object();
        if (c->result) json_object_update(one, c->result);
        json_array_append_new(cases, one);
    }
    json_t *all = json_copy(run->summary);
    const char *dir = kg_asked_runs_dir(run->from, run->dir);
    json_object_set_new(all, "dir", dir ? kg_json_utf8(dir) : json_null());
    json_object_set(all, "source", run->source ? run->source : json_null());
    json_object_set(all, "env", run->env ? run->env : json_null());
    json_object_set_new(all, "signature", run->signature_known ? kg_cli_signature_json(&run->signature) : json_null());
    json_object_set_new(all, "findings", kg_cli_findings_json(&run->findings));
    json_object_set_new(all, "cases", cases);
    return all;
}

static const char *or_dash(const char *text) {
    return text && *text ? text : "-";
}

static void put_head(const struct run *run, struct kg_buffer *out) {
    const json_t *s = run->summary;
    char started[KG_UTC_TEXT_SIZE];
    kg_clock_utc_text(kg_json_int(s, "started_us", 0), started);
    kg_text_printf(out, "run      %s\nverdict  ", or_dash(kg_json_text(s, "bundle_id")));
    kg_colour_word(out, run->verdict.word);
    kg_text_printf(out, " (%s)\n", or_dash(kg_json_text(s, "state")));
    for (int i = 0; i < KG_VERDICT_COUNT; i++)
        kg_text_printf(out, "%-8s %s\n", KG_VERDICT_NAMES[i], kg_buffer_text(&run->verdict.lines[i]));
    char sample[KG_SAMPLE_TEXT_SIZE];
    if (kg_sample_text(json_object_get(run->env, "run"), sample)) kg_text_printf(out, "sample   %s\n", sample);
    kg_text_printf(out, "started  %s, sealed after %.1f s, seed %s\n", started,
                   ((double)kg_json_int(s, "sealed_us", 0) - (double)kg_json_int(s, "started_us", 0)) / 1e6,
                   or_dash(kg_json_text(s, "seed")));
    if (run->signature_known) {
        kg_buffer_puts(out, "trust    ");
        kg_cli_signature_text(&run->signature, out);
        kg_buffer_puts(out, "\n");
    }
    const char *dir = kg_asked_runs_dir(run->from, run->dir);
    kg_text_printf(out, "folder   %s\n", dir ? dir : run->from->where);
}

static void put_csv(const struct run *run, const struct kg_rows_options *format, struct kg_buffer *out) {
    static const char *const NAMES[] = { "case", "status", "seconds", "worst_margin", "worst_comparison", "reason" };
    struct kg_rows rows = KG_ROWS_INIT(format);
    kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, NULL);
    for (size_t i = 0; i < run->n_shown; i++) {
        const struct kg_case_records *c = run->shown[i];
        const char *name = NULL;
        const double margin = kg_case_worst_margin(c, &name);
        const struct kg_cell cells[] = {
            kg_cell_of_text(c->key), kg_cell_of_text(kg_case_status(c)),           kg_cell_of_real(kg_case_seconds(c)),
            kg_cell_of_real(margin), kg_cell_of_text(isnan(margin) ? NULL : name), kg_cell_of_text(kg_case_reason(c))
        };
        kg_rows_add(&rows, KG_COUNT_OF(NAMES), NAMES, cells);
    }
    kg_rows_put(&rows, out);
}

static void put_cases(const struct run *run, struct kg_buffer *out) {
    static const char *const HEADS[] = { "status", "case", "duration", "worst error/limit", "reason" };
    struct kg_table table = { .n_columns = KG_COUNT_OF(HEADS) };
    if (run->n_shown == 0) return;
    for (size_t i = 0; i < KG_COUNT_OF(HEADS); i++) kg_table_add(&table, HEADS[i]);
    for (size_t i = 0; i < run->n_shown; i++) {
        const struct kg_case_records *c = run->shown[i];
        const char *unused;
        const double margin = kg_case_worst_margin(c, &unused);
        kg_table_add(&table, kg_case_status(c));
        kg_table_add(&table, c->key);
        kg_table_add(&table, kg_quantity_of_unit(kg_case_seconds(c), "s").text);
        if (isnan(margin)) kg_table_add(&table, "");
        else kg_table_addf(&table, "%.3g", margin);
        kg_table_add(&table, kg_case_reason(c));
    }
    kg_buffer_puts(out, "\n");
    kg_table_print(&table, out);
    kg_table_free(&table);
}

/* Everything a case's result holds, a list after another. */
static void put_lists(const struct run *run, struct kg_buffer *out) {
    for (size_t i = 0; i < run->n_shown; i++) {
        const json_t *result = run->shown[i]->result;
        kg_text_printf(out, "\n%s: seed %s, definition %s\n", run->shown[i]->key, or_dash(kg_json_text(result, "seed")),
                       or_dash(kg_json_text(result, "def_sha")));
        kg_show_figures(result, out);
    }
}

static void put_text(const struct run *run, bool with_lists, struct kg_buffer *out) {
    put_head(run, out);
    put_cases(run, out);
    if (with_lists) put_lists(run, out);
}

static void put_markdown(const struct run *run, struct kg_buffer *out) {
    const struct kg_export from = { &run->records, run->summary, run->env, run->build, run->source };
    kg_show_markdown(&from, &run->verdict, run->shown, run->n_shown, out);
}

static enum kg_status show(const struct kg_asked_runs *from, const char *dir, const struct show_options *given,
                           bool *unsound, struct kg_error *err) {
    struct run run = { .from = from };
    struct show_options o = *given;
    enum kg_status status = load(dir, &run, err);
    if (status == KG_OK) {
        look_at_signature(&o, &run);
        /* Asked for nothing in particular: what is not green, in JSON every case. */
        if (!o.glob && !o.slowest && !o.format.json && !o.format.csv && !kg_filter_has_case(&o.filter))
            o.failures = true;
        choose(&run, &o);
        if (!o.format.json && !o.format.csv) judge(&o, &run);
        *unsound = run.findings.n_items > 0;
        for (size_t i = 0; i < run.findings.n_items && !o.format.json; i++)
            kg_say(stderr, "kigo show: %s: %s\n", run.findings.items[i].path, run.findings.items[i].detail);
        if (o.format.json) {
            status = kg_cli_print_json(run_json(&run), err);
        } else {
            struct kg_buffer out = KG_BUFFER_INIT;
            if (o.format.markdown) put_markdown(&run, &out);
            else if (o.format.csv) put_csv(&run, &o.format, &out);
            else put_text(&run, o.glob != NULL, &out);
            status = kg_cli_print(&out, err);
        }
    }
    unload(&run);
    return status;
}

static int find_and_show(const char *name, const struct show_options *o) {
    struct kg_asked_runs runs;
    struct kg_error err;
    char *dir = NULL;
    bool unsound = false;
    enum kg_status status = kg_asked_runs_open("show", &o->asked, &runs, &err);
    if (status == KG_OK) status = kg_asked_runs_find(&runs, &o->filter, name, &dir, &err);
    if (status == KG_OK) status = show(&runs, dir, o, &unsound, &err);
    const int code = status != KG_OK ? kg_cli_error("show", kg_asked_runs_error(&runs, &err))
                     : unsound       ? KG_EXIT_INTEGRITY
                                     : KG_EXIT_OK;
    kg_asked_runs_close(&runs);
    free(dir);
    return code;
}

int kg_cmd_show(int argc, char **argv) {
    struct show_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "failures", .kind = KG_OPTION_FLAG, .value = &o.failures, .help = "only cases that are not green" },
        { .name = "case",
          .letter = 'c',
          .kind = KG_OPTION_TEXT,
          .value = &o.glob,
          .metavar = "GLOB",
          .help = "only cases whose key matches (* also crosses /), with all their figures" },
        { .name = "slowest",
          .kind = KG_OPTION_INT,
          .value = &o.slowest,
          .metavar = "N",
          .help = "the N cases that took longest",
          .min = 1,
          .max = 1e9 },
        KG_ASKED_OPTIONS(&o.asked),
        KG_COLOR_OPTION,
        KG_FILTER_OPTIONS(&o.filter),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.format.json, .help = "print one JSON object" },
        { .name = "csv", .kind = KG_OPTION_FLAG, .value = &o.format.csv, .help = "print CSV, a line a case" },
        { .name = "markdown",
          .kind = KG_OPTION_FLAG,
          .value = &o.format.markdown,
          .help = "print tables for a README or an issue: counts by layer, what bench cases measured" },
    };
    const struct kg_command command = {
        .name = "kigo show",
        .usage = "RUN [--failures] [--case GLOB] [--slowest N] [filters] [--bundles DIR|--history URL] "
                 "[--json|--csv|--markdown]",
        .summary =
            "Shows a run: passed or failed, worse or better than the runs before it, goals, what was skipped and why,\n"
            "commit and machine, and the cases that are not green.\n" KG_RUN_NAMES,
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = 1,
    };
    const char *run;
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, &run, 1, &ended)) return ended;
    const enum kg_status status = kg_rows_check(&o.format, &err);
    return status == KG_OK ? find_and_show(run, &o) : kg_cli_error("show", &err);
}
