/* kigo selfcheck: how often regress would flag a run in which nothing has changed. */
#include "base/clock.h"
#include "base/progress.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/places.h"
#include "cli/commands.h"
#include "cli/fresh_runs.h"
#include "cli/regress_call.h"
#include "cli/suite_run.h"
#include "history/annotation.h"
#include "history/selfcheck.h"
#include "history/shelf.h"
#include <stdlib.h>
#include <string.h>

struct selfcheck_options {
    struct kg_asked asked;
    const char *build, *keep;
    struct kg_option_list filters, models;
    bool quick, json;
    int64_t n_runs;
    double least_change_percent;
};

struct checking {
    const struct selfcheck_options *o;
    char **ids;
    size_t n_ids;
    struct kg_selfcheck result;
};

static enum kg_status run_again_and_again(struct checking *c, const struct kg_fresh_runs *runs, struct kg_error *err) {
    const struct selfcheck_options *o = c->o;
    char *program = NULL, *own = kg_own_path();
    const char **args = kg_xcalloc(2 * (o->filters.n_items + o->models.n_items) + 3, sizeof *args);
    size_t n = 0;
    args[n++] = "bench";
    if (o->quick) args[n++] = "--quick";
    for (size_t i = 0; i < o->filters.n_items; i++) {
        args[n++] = "--filter";
        args[n++] = o->filters.items[i];
    }
    for (size_t i = 0; i < o->models.n_items; i++) {
        args[n++] = "--model";
        args[n++] = o->models.items[i];
    }
    struct kg_progress progress;
    kg_progress_start(&progress, "runs");
    c->ids = kg_xcalloc((size_t)o->n_runs, sizeof *c->ids);
    enum kg_status status = kg_fresh_program(o->build ? o->build : own, &program, err);
    for (int64_t i = 0; i < o->n_runs && status == KG_OK; i++) {
        status = kg_fresh_run(runs, program, args, &c->ids[c->n_ids], err);
        c->n_ids += status == KG_OK;
        kg_progress_update(&progress, (uint64_t)i + 1, (uint64_t)o->n_runs);
    }
    kg_progress_finish(&progress);
    free(args);
    free(program);
    free(own);
    return status;
}

static json_t *result_json(const struct kg_selfcheck *s) {
    json_t *unsteady = json_array();
    for (size_t i = 0; i < s->n_unsteady; i++) json_array_append_new(unsteady, json_string(s->unsteady[i]));
    return json_pack("{s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:o, s:s}", "runs", (json_int_t)s->n_runs, "comparisons",
                     (json_int_t)s->n_comparisons, "false_alarms", (json_int_t)s->n_false_alarms, "rate", s->rate,
                     "rate_most", s->rate_most, "exact_comparisons", (json_int_t)s->n_exact, "exact_events",
                     (json_int_t)s->n_exact_events, "unsteady", unsteady, "comparison_key", s->comparison_key);
}

static enum kg_status keep_words(const struct checking *c, struct kg_error *err) {
    json_t *json = result_json(&c->result);
    struct kg_annotation a = { .kind = kg_xstrdup("selfcheck"),
                               .utc_us = kg_clock_utc_us(),
                               .author = kg_xstrdup("kigo selfcheck"),
                               .text = json_dumps(json, JSON_COMPACT) };
    const enum kg_status status = kg_cli_asked_annotate("selfcheck", &c->o->asked, &a, err);
    free(a.kind);
    free(a.author);
    free(a.text);
    json_decref(json);
    return status;
}

static enum kg_status print(const struct checking *c, struct kg_error *err) {
    const struct kg_selfcheck *s = &c->result;
    if (c->o->json) return kg_cli_print_json(result_json(s), err);
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_text_printf(&out, "%zu runs, each against the others: %zu false alarms in %zu comparisons of times and rates\n",
                   s->n_runs, s->n_false_alarms, s->n_comparisons);
    kg_text_printf(&out, "that is %.2f in 1000, and with 95%% confidence at most %.2f\n", 1000 * s->rate,
                   1000 * s->rate_most);
    kg_text_printf(&out, "%zu exact figures compared, %zu events\n", s->n_exact, s->n_exact_events);
    for (size_t i = 0; i < s->n_unsteady; i++) kg_text_printf(&out, "not exact: %s\n", s->unsteady[i]);
    return kg_cli_print(&out, err);
}

/* Runs of the folder of bundles, or of the fleet; *history has them. */
static enum kg_status take_named(struct checking *c, const char *const *names, size_t n_names,
                                 struct kg_history **history, struct kg_error *err) {
    const bool in_fleet = kg_cli_asked_is_fleet(&c->o->asked);
    const char *root = kg_cli_bundles_root(c->o->asked.bundles), *place;
    enum kg_status status = KG_OK;
    c->ids = kg_xcalloc(n_names, sizeof *c->ids);
    if (in_fleet) status = kg_cli_asked_open("selfcheck", &c->o->asked, history, &place, err);
    for (; c->n_ids < n_names && status == KG_OK; c->n_ids += status == KG_OK)
        status = in_fleet ? kg_cli_asked_run(*history, names[c->n_ids], KG_RUN_BY_ANY_NAME, &c->ids[c->n_ids], err)
                          : kg_cli_run_id(root, names[c->n_ids], &c->ids[c->n_ids], err);
    if (status == KG_OK && !in_fleet) status = kg_cli_history_open("selfcheck", root, history, err);
    return status;
}

/* The runs named; without any, fresh ones. */
static enum kg_status check(struct checking *c, const char *const *names, size_t n_names, struct kg_error *err) {
    struct kg_fresh_runs runs = { 0 };
    struct kg_history *history = NULL;
    const char *root;
    enum kg_status status = KG_OK;
    if (n_names > 0) {
        status = take_named(c, names, n_names, &history, err);
    } else {
        status = kg_fresh_open(c->o->keep, &runs, err);
        if (status == KG_OK) status = run_again_and_again(c, &runs, err);
        if (status == KG_OK) status = kg_cli_history_open("selfcheck", runs.root, &history, err);
    }
    if (status == KG_OK) status = kg_shelf_root(history, &root, err);
    if (status == KG_OK)
        status = kg_selfcheck(history, root, c->ids, c->n_ids, c->o->least_change_percent / 100, &c->result, err);
    kg_history_close(history);
    if (runs.root) kg_fresh_close(&runs);
    if (status == KG_OK) status = print(c, err);
    return status == KG_OK ? keep_words(c, err) : status;
}

int kg_cmd_selfcheck(int argc, char **argv) {
    struct selfcheck_options o = { .n_runs = 12, .least_change_percent = 3 };
    struct checking c = { .o = &o };
    const struct kg_option options[] = {
        { .name = "runs",
          .letter = 'n',
          .kind = KG_OPTION_INT,
          .value = &o.n_runs,
          .metavar = "N",
          .help = "how many fresh runs (12)",
          .min = 6,
          .max = 21 },
        { .name = "quick", .kind = KG_OPTION_FLAG, .value = &o.quick, .help = "small shapes only" },
        { .name = "filter",
          .letter = 'f',
          .kind = KG_OPTION_TEXTS,
          .value = &o.filters,
          .metavar = "GLOB",
          .help = "run cases whose key matches; * also crosses /" },
        { .name = "model",
          .letter = 'm',
          .kind = KG_OPTION_TEXTS,
          .value = &o.models,
          .metavar = "FILE",
          .help = "measure this GGUF file as a whole; without --filter nothing else" },
        { .name = "build",
          .kind = KG_OPTION_TEXT,
          .value = &o.build,
          .metavar = "DIR",
          .help = "the build that is run (this program's)" },
        { .name = "keep",
          .kind = KG_OPTION_TEXT,
          .value = &o.keep,
          .metavar = "DIR",
          .help = "keep the runs' bundles in this folder" },
        KG_LEAST_CHANGE_OPTION(&o.least_change_percent),
        KG_ASKED_OPTIONS(&o.asked),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const struct kg_command command = {
        .name = "kigo selfcheck",
        .usage = "[RUN...] [options]",
        .summary =
            "Runs 'kigo bench' of one build again and again (or takes the runs named, of one commit), judges each\n"
            "against the others, and counts what is flagged although nothing changed. The measured rate of false\n"
            "alarms is kept as an annotation, and regress reports it. Exit code 1 if it is above 1 in 1000.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .max_args = KG_BASELINE_RUNS + 1,
    };
    const char *args[KG_BASELINE_RUNS + 1];
    size_t n_args = 0;
    struct kg_error err;
    int exit_code;
    const bool begins = kg_cli_parse(&command, argc, argv, args, KG_COUNT_OF(args), &exit_code);
    while (begins && n_args < KG_COUNT_OF(args) && args[n_args]) n_args++;
    const enum kg_status status = begins ? check(&c, args, n_args, &err) : KG_OK;
    const bool too_many = c.result.n_false_alarms > 1 && c.result.rate > 0.001;
    for (size_t i = 0; i < c.n_ids; i++) free(c.ids[i]);
    free(c.ids);
    kg_selfcheck_free(&c.result);
    free(o.filters.items);
    free(o.models.items);
    if (status != KG_OK) return kg_cli_error("selfcheck", &err);
    return too_many ? KG_EXIT_FAILED : exit_code;
}
