/* kigo check: runs the suites and seals a proof bundle. */
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "base/threads.h"
#include "bundle/built_from.h"
#include "bundle/places.h"
#include "bundle/source_tree.h"
#include "cli/bundles.h"
#include "cli/check_choice.h"
#include "cli/check_report.h"
#include "cli/commands.h"
#include "cli/suite_run.h"
#include "cli/trust.h"
#include "run/case_key.h"
#include "run/failure_name.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__
static const double DEFAULT_TIMEOUT_SCALE = 5; /* instrumented code is that much slower */
#else
static const double DEFAULT_TIMEOUT_SCALE = 1;
#endif

struct check_options {
    struct kg_option_list layer_lists, filters, keys, words, specs, models;
    struct kg_chosen layers, failed_keys; /* of --layer, of --failed */
    uint64_t seed, one_in;
    bool require_gpu, compress, json, tap, quiet, verbose, list, failed, stop;
    const char *bundles, *suites, *sign;
    int64_t n_jobs;
    double timeout_scale;
};

/* Some programs wait for servers, pages and processes, so one more than there are processors; each takes memory of a
 * GPU, so no more than 12. */
static int64_t default_jobs(void) {
    const int n = kg_processors_allowed() + 1;
    return n < 12 ? n : 12;
}

/* False: *exit_code ends the verb. */
static bool parse(int argc, char **argv, struct check_options *o, int *exit_code) {
    const struct kg_option rows[] = {
        { .name = "layer",
          .letter = 'l',
          .kind = KG_OPTION_TEXTS,
          .value = &o->layer_lists,
          .metavar = "L,L",
          .help = "run only these layers: unit, integration, haiku, tolerance, mutation, fuzz; harness: every program "
                  "whole" },
        KG_FILTERS_OPTION(&o->filters),
        { .name = "keyword",
          .letter = 'k',
          .kind = KG_OPTION_TEXTS,
          .value = &o->words,
          .metavar = "WORD",
          .help = "run cases whose key holds this text, large or small letters" },
        { .name = "spec",
          .kind = KG_OPTION_TEXTS,
          .value = &o->specs,
          .metavar = "ID",
          .help = "run cases that carry this requirement (FT-051)" },
        KG_CASES_OPTION(&o->keys),
        { .name = "failed",
          .kind = KG_OPTION_FLAG,
          .value = &o->failed,
          .help =
              "run what failed in the last run of kigo check here, with its seed; exit code 77: nothing did, or there "
              "is no run" },
        { .name = "stop",
          .letter = 'x',
          .kind = KG_OPTION_FLAG,
          .value = &o->stop,
          .help = "stop at the first failure; cases left are recorded as not run, and the exit code is 1" },
        KG_SEED_OPTION(&o->seed),
        { .name = "model",
          .letter = 'm',
          .kind = KG_OPTION_TEXTS,
          .value = &o->models,
          .metavar = "FILE",
          .help = "also run the model suites on this GGUF file" },
        { .name = "require-gpu",
          .kind = KG_OPTION_FLAG,
          .value = &o->require_gpu,
          .help = "no GPU is an error, a skipped GPU case a failure" },
        KG_BUNDLES_OPTION(&o->bundles),
        KG_COLOR_OPTION,
        KG_SIGN_OPTION(&o->sign),
        KG_SUITES_OPTION(&o->suites),
        { .name = "jobs",
          .letter = 'j',
          .kind = KG_OPTION_INT,
          .value = &o->n_jobs,
          .metavar = "N",
          .help = "programs at a time (one more than processors, 12 at most)",
          .min = 1,
          .max = 64 },
        { .name = "sample",
          .kind = KG_OPTION_UINT64,
          .value = &o->one_in,
          .metavar = "N",
          .help = "run one case in N, chosen by its key, and those of --case" },
        { .name = "timeout-scale",
          .kind = KG_OPTION_DOUBLE,
          .value = &o->timeout_scale,
          .metavar = "X",
          .help = "multiply every case's time limit",
          .min = 0.001,
          .max = 1000 },
        KG_COMPRESS_OPTION(&o->compress),
        KG_LIST_OPTION(&o->list),
        KG_JSON_OPTION(&o->json),
        { .name = "tap", .kind = KG_OPTION_FLAG, .value = &o->tap, .help = "print TAP, a line a case" },
        KG_QUIET_OPTION(&o->quiet),
        { .name = "verbose",
          .letter = 'v',
          .kind = KG_OPTION_FLAG,
          .value = &o->verbose,
          .help = "print a line for each case as it ends: status, key, time, why it was skipped" },
    };
    const struct kg_command command = {
        .name = "kigo check",
        .usage = "[-k WORD] [--layer LIST] [--filter GLOB] [options]",
        .summary = "Runs the suites, each program as a child, and seals what they say in a proof bundle.\n"
                   "Options of different names narrow the choice together; one that is repeated widens it. --filter\n"
                   "and --case are one choice: cases of either.\n"
                   "Exit code: 0 all passed, 1 a case failed, 5 nothing ran or not all that was planned.",
        .options = rows,
        .n_options = KG_COUNT_OF(rows),
    };
    struct kg_error err;
    enum kg_status status = KG_OK;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, exit_code)) return false;
    if (o->json + o->tap + o->quiet + o->verbose > 1)
        status = kg_fail(&err, KG_ERR_USAGE, "--json, --tap, --quiet and --verbose exclude each other");
    if (status == KG_OK && o->failed && o->filters.n_items + o->keys.n_items > 0)
        status = kg_fail(&err, KG_ERR_USAGE, "--failed is a choice of cases: no --filter or --case beside it");
    if (status == KG_OK) status = kg_check_layers(&o->layer_lists, &o->layers, &err);
    if (status != KG_OK) *exit_code = kg_cli_error("check", &err);
    return status == KG_OK;
}

static void append_option(struct kg_buffer *b, const char *option, const char *value) {
    kg_buffer_printf(b, " --%s ", option);
    kg_shell_quote(b, value);
}

/* A path as it is seen from every folder. */
static void append_path(struct kg_buffer *b, const char *option, const char *path) {
    char *absolute = realpath(path, NULL);
    append_option(b, option, absolute ? absolute : path);
    free(absolute);
}

/* This call again, from wherever, up to which cases run; `suites` NULL: those beside the program. malloc'ed. */
static char *rerun_prefix(const struct check_options *o, const char *program, const char *suites) {
    struct kg_buffer b = KG_BUFFER_INIT;
    kg_shell_quote(&b, program);
    kg_buffer_puts(&b, " check");
    if (suites) append_path(&b, "suites", suites);
    if (o->bundles) append_path(&b, "bundles", o->bundles);
    for (size_t i = 0; i < o->models.n_items; i++) append_path(&b, "model", o->models.items[i]);
    if (o->require_gpu) kg_buffer_puts(&b, " --require-gpu");
    if (o->timeout_scale != DEFAULT_TIMEOUT_SCALE) kg_buffer_printf(&b, " --timeout-scale %g", o->timeout_scale);
    return b.data;
}

static void append_texts(json_t *array, const char *before, const struct kg_chosen *texts) {
    for (size_t i = 0; i < texts->n_items; i++) {
        if (before) json_array_append_new(array, json_string(before));
        json_array_append_new(array, kg_json_utf8(texts->items[i]));
    }
}

/* The call, with the cases that --failed stood for in its place: the same words run the same cases tomorrow. */
static json_t *describe_call(int argc, char **argv, const struct check_options *o) {
    json_t *words = json_array();
    for (int i = 0; i < argc; i++)
        if (!o->failed || strcmp(argv[i], "--failed") != 0) json_array_append_new(words, kg_json_utf8(argv[i]));
    append_texts(words, "--case", &o->failed_keys);
    return words;
}

static json_t *describe_run(int argc, char **argv, const struct check_options *o) {
    json_t *layers = json_array(), *keys = kg_cli_texts_json(&o->keys);
    append_texts(layers, NULL, &o->layers);
    append_texts(keys, NULL, &o->failed_keys);
    json_t *about =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:I, s:f}", "argv", describe_call(argc, argv, o), "layers",
                  layers, "filter", kg_cli_texts_json(&o->filters), "cases", keys, "seed",
                  json_sprintf("%" PRIu64, o->seed), "require_gpu", o->require_gpu, "models",
                  kg_cli_texts_json(&o->models), "jobs", (json_int_t)o->n_jobs, "timeout_scale", o->timeout_scale);
    if (o->words.n_items > 0) json_object_set_new(about, "words", kg_cli_texts_json(&o->words));
    if (o->specs.n_items > 0) json_object_set_new(about, "specs", kg_cli_texts_json(&o->specs));
    if (o->one_in > 1) json_object_set_new(about, "sample", json_integer((json_int_t)o->one_in));
    return about;
}

static enum kg_status check_gpu(struct kg_error *err) {
    struct kg_gpu_info gpu;
    size_t n_gpus;
    struct kg_error why;
    if (kg_gpu_list(&gpu, 1, &n_gpus, &why) == KG_OK && n_gpus > 0) return KG_OK;
    return kg_fail(err, KG_ERR_INCOMPLETE, "--require-gpu: %s", why.message);
}

static int run(const struct check_options *o, const struct kg_run_options *options) {
    struct kg_error err;
    if (o->list) {
        const enum kg_status status = kg_cli_print_plan("check", options, o->json, &err);
        return status == KG_OK ? KG_EXIT_OK : kg_cli_error("check", &err);
    }
    struct kg_check_report report;
    kg_check_report_init(&report, options->bundle.run,
                         o->json      ? KG_CHECK_JSON
                         : o->tap     ? KG_CHECK_TAP
                         : o->quiet   ? KG_CHECK_QUIET
                         : o->verbose ? KG_CHECK_VERBOSE
                                      : KG_CHECK_TEXT);
    const struct kg_run_observer observer = kg_check_report_observer(&report);
    struct kg_run_outcome outcome = { 0 };
    enum kg_status status = o->require_gpu ? check_gpu(&err) : KG_OK;
    if (status == KG_OK) status = kg_run(options, &observer, &outcome, &err);
    int exit_code = outcome.exit_code;
    if (status == KG_OK) {
        kg_check_report_finish(&report, &outcome);
        if (ferror(stdout) && exit_code == KG_EXIT_OK) {
            kg_fail(&err, KG_ERR_IO, "standard output took not all of the report; the bundle is %s",
                    outcome.bundle_dir);
            exit_code = kg_cli_error("check", &err);
        }
    } else {
        kg_check_report_error(&report, &err);
        exit_code = kg_cli_error("check", &err);
    }
    kg_run_outcome_free(&outcome);
    kg_check_report_free(&report);
    return exit_code;
}

/* What --failed stands for. False: *exit_code ends the verb. */
static bool find_failed(struct check_options *o, int *exit_code) {
    struct kg_error err;
    char *run_id = NULL;
    uint64_t seed = KG_DEFAULT_RUN_SEED;
    const enum kg_status status =
        kg_check_failed(kg_cli_bundles_root(o->bundles), &o->failed_keys, &run_id, &seed, &err);
    if (status != KG_OK) *exit_code = kg_cli_error("check", &err);
    const bool none = status == KG_OK && o->failed_keys.n_items == 0;
    if (none) {
        if (run_id) kg_say(stderr, "kigo check: nothing failed in the last run, %s\n", run_id);
        else kg_say(stderr, "kigo check: there is no run of 'kigo check' in %s yet\n", kg_cli_bundles_root(o->bundles));
        *exit_code = KG_EXIT_NOTHING_TO_DO;
    }
    if (o->seed == KG_DEFAULT_RUN_SEED) o->seed = seed;
    free(run_id);
    return status == KG_OK && !none;
}

static void free_options(struct check_options *o) {
    struct kg_option_list *const lists[] = { &o->layer_lists, &o->filters, &o->keys, &o->words, &o->specs, &o->models };
    for (size_t i = 0; i < KG_COUNT_OF(lists); i++) free(lists[i]->items);
    kg_chosen_free(&o->layers);
    kg_chosen_free(&o->failed_keys);
}

int kg_cmd_check(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away (| head) does not end the run */
    struct check_options o = { .seed = KG_DEFAULT_RUN_SEED,
                               .n_jobs = default_jobs(),
                               .timeout_scale = DEFAULT_TIMEOUT_SCALE };
    struct kg_error err;
    char *models = NULL, *sign_key = NULL;
    int exit_code;
    bool begins = parse(argc, argv, &o, &exit_code);
    if (begins && o.failed) begins = find_failed(&o, &exit_code);
    enum kg_status status = begins ? kg_cli_sign_key(o.sign, &sign_key, &err) : KG_OK;
    if (status == KG_OK && begins) status = kg_cli_model_paths(&o.models, &models, &err);
    if (status != KG_OK) {
        exit_code = kg_cli_error("check", &err);
    } else if (begins) {
        char *program = kg_own_path();
        char *suites = kg_cli_suites_dir(o.suites);
        char *prefix = rerun_prefix(&o, program, strcmp(suites, kg_places()->suites) != 0 ? suites : NULL);
        json_t *about = describe_run(argc, argv, &o);
        const struct kg_run_options options = {
            .suites_dir = suites,
            .selection = { .layers = (const char *const *)o.layers.items,
                           .n_layers = o.layers.n_items,
                           .filters = o.filters.items,
                           .n_filters = o.filters.n_items,
                           .keys = o.failed ? (const char *const *)o.failed_keys.items : o.keys.items,
                           .n_keys = o.failed ? o.failed_keys.n_items : o.keys.n_items,
                           .words = o.words.items,
                           .n_words = o.words.n_items,
                           .specs = o.specs.items,
                           .n_specs = o.specs.n_items,
                           .one_in = o.one_in },
            .surroundings = { .seed = o.seed, .kigo_path = program, .models = models },
            .bundle = { .root = kg_cli_bundles_root(o.bundles),
                        .source_dir = kg_source_tree(),
                        .source_record = kg_source_record(),
                        .built_from = kg_built_from(),
                        .other_tree = kg_cli_inside_run(),
                        .run = about,
                        .seed = o.seed,
                        .compress = o.compress,
                        .sign_key = sign_key },
            .rerun_prefix = prefix,
            .require_gpu = o.require_gpu,
            .stop_at_failure = o.stop,
            .n_jobs = (int)o.n_jobs,
            .timeout_scale = o.timeout_scale,
        };
        exit_code = run(&o, &options);
        json_decref(about);
        free(prefix);
        free(suites);
        free(program);
    }
    free(sign_key);
    free(models);
    free_options(&o);
    return exit_code;
}
