/* kigo bench: runs the bench programs and seals their timings. The same runner as kigo check, over bench_* programs. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "base/tty.h"
#include "bundle/built_from.h"
#include "bundle/places.h"
#include "bundle/source_tree.h"
#include "cli/bench_models.h"
#include "cli/bench_report.h"
#include "cli/bundles.h"
#include "cli/check_report.h"
#include "cli/commands.h"
#include "cli/sprint.h"
#include "cli/suite_run.h"
#include "cli/trust.h"
#include "run/case_key.h"
#include "run/failure_name.h"
#include <kigo/backend.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Cases of other people's programs, which run with --peer only. */
static const char PEERS[] = "bench/*_peer/*";

struct bench_options {
    struct kg_option_list filters, keys, models, counted;
    uint64_t seed;
    bool quick, compress, json, silent, list, peer, ncu;
    const char *bundles, *suites, *report, *backend, *sign;
};

/* False: *exit_code ends the verb. */
static bool parse(int argc, char **argv, struct bench_options *o, int *exit_code) {
    const struct kg_option rows[] = {
        { .name = "quick", .kind = KG_OPTION_FLAG, .value = &o->quick, .help = "small shapes only" },
        KG_FILTERS_OPTION(&o->filters),
        KG_CASES_OPTION(&o->keys),
        { .name = "backend",
          .kind = KG_OPTION_TEXT,
          .value = &o->backend,
          .metavar = "NAME",
          .help = "run only cases of this back end, cpu or cuda (all)" },
        { .name = "model",
          .letter = 'm',
          .kind = KG_OPTION_TEXTS,
          .value = &o->models,
          .metavar = "FILE",
          .help = "measure this GGUF file as a whole; without --filter, --case or --report nothing else" },
        { .name = "report",
          .kind = KG_OPTION_TEXT,
          .value = &o->report,
          .metavar = "SPRINT",
          .help = "measure what the sprint's figures need, and print them (as kigo signoff --figures)" },
        { .name = "peer",
          .kind = KG_OPTION_FLAG,
          .value = &o->peer,
          .help = "also time what others take for the same work (sdpa: PyTorch; models: llama.cpp), and compare; where "
                  "a --filter has _peer/ in it, no other peers than it names" },
        { .name = "ncu",
          .kind = KG_OPTION_FLAG,
          .value = &o->ncu,
          .help = "also read hardware counters of the cases that run, by Nsight Compute ($KIGO_NCU or ncu)" },
        { .name = "ncu-filter",
          .kind = KG_OPTION_TEXTS,
          .value = &o->counted,
          .metavar = "GLOB",
          .help = "read those of cases whose key matches only; implies --ncu" },
        KG_SEED_OPTION(&o->seed),
        KG_BUNDLES_OPTION(&o->bundles),
        KG_COLOR_OPTION,
        KG_SIGN_OPTION(&o->sign),
        KG_SUITES_OPTION(&o->suites),
        KG_COMPRESS_OPTION(&o->compress),
        KG_LIST_OPTION(&o->list),
        KG_JSON_OPTION(&o->json),
        KG_QUIET_OPTION(&o->silent),
    };
    const struct kg_command command = {
        .name = "kigo bench",
        .usage = "[-m FILE] [--peer] [--filter GLOB] [options]",
        .summary =
            "Times operations and whole models and seals the timings in a proof bundle, with bandwidth.csv,\n"
            "bandwidth.json and plots. Timings never decide: exit code 1 means that work failed, not that it\n"
            "was slow. --report fp16 also judges what FP16 is to reach. --peer: peers.csv.\n" KG_BENCH_MODELS_HELP,
        .options = rows,
        .n_options = KG_COUNT_OF(rows),
    };
    struct kg_error err;
    enum kg_status status = KG_OK;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, exit_code)) return false;
    if (o->backend && strcmp(o->backend, "cpu") != 0 && strcmp(o->backend, "cuda") != 0)
        status = kg_fail(&err, KG_ERR_USAGE, "--backend: '%s' is neither cpu nor cuda", o->backend);
    if (status == KG_OK && o->json && o->silent)
        status = kg_fail(&err, KG_ERR_USAGE, "--json and --quiet exclude each other");
    o->ncu = o->ncu || o->counted.n_items > 0;
    if (status != KG_OK) *exit_code = kg_cli_error("bench", &err);
    return status == KG_OK;
}

/* Whether a command is there: a path, or a name in one of PATH's folders. */
static bool is_command(const char *name) {
    if (strchr(name, '/')) return access(name, X_OK) == 0;
    char *folders = kg_xstrdup(getenv("PATH") ? getenv("PATH") : ""), *rest = NULL;
    bool found = false;
    for (char *folder = strtok_r(folders, ":", &rest); folder && !found; folder = strtok_r(NULL, ":", &rest)) {
        char *path = kg_path_join(folder, name);
        found = access(path, X_OK) == 0;
        free(path);
    }
    free(folders);
    return found;
}

/* Before anything is timed: KG_ERR_UNSUPPORTED if there is nothing to count with. */
static enum kg_status check_ncu(struct kg_error *err) {
    const char *given = getenv("KIGO_NCU"), *ncu = given && *given ? given : "ncu";
    if (is_command(ncu)) return KG_OK;
    return kg_fail(err, KG_ERR_UNSUPPORTED,
                   "--ncu: Nsight Compute is not installed: %s is no program%s (KIGO_NCU names another)", ncu,
                   strchr(ncu, '/') ? "" : " in PATH");
}

/* The globs of a call that chooses nothing but models: their benches, and their peers'. */
static const char MODELS[] = "bench/model/*,model=*", MODEL_PEERS[] = "bench/model_peer/*,model=*";

static bool only_models(const struct bench_options *o) {
    return o->models.n_items > 0 && o->filters.n_items + o->keys.n_items == 0 && !o->report;
}

/* Whether a filter chooses among peers: then --peer adds no others. */
static bool names_peers(const struct kg_option_list *globs) {
    for (size_t i = 0; i < globs->n_items; i++)
        if (strstr(globs->items[i], "_peer/")) return true;
    return false;
}

/* Globs over keys, which all begin with the layer: one that leaves it out means it. malloc'ed list of malloc'ed texts.
 */
static struct kg_option_list chosen_globs(const struct bench_options *o) {
    const struct kg_option_list *globs = &o->filters;
    struct kg_option_list all = { kg_xcalloc(2 * globs->n_items + 2, sizeof *all.items), 0 };
    if (only_models(o)) {
        all.items[all.n_items++] = kg_xstrdup(MODELS);
        if (o->peer) all.items[all.n_items++] = kg_xstrdup(MODEL_PEERS);
        return all;
    }
    for (size_t i = 0; i < globs->n_items; i++) {
        all.items[all.n_items++] = kg_xstrdup(globs->items[i]);
        all.items[all.n_items++] = kg_xasprintf("bench/%s", globs->items[i]);
    }
    if (o->peer && globs->n_items > 0 && !names_peers(globs)) all.items[all.n_items++] = kg_xstrdup(PEERS);
    return all;
}

static void free_globs(struct kg_option_list *globs) {
    for (size_t i = 0; i < globs->n_items; i++) free((char *)globs->items[i]);
    free(globs->items);
}

/* What KIGO_BENCH_NCU says. malloc'ed, NULL without --ncu. */
static char *counted_globs(const struct bench_options *o) {
    struct kg_buffer b = KG_BUFFER_INIT;
    if (!o->ncu) return NULL;
    for (size_t i = 0; i < o->counted.n_items; i++)
        kg_buffer_printf(&b, "%s\nbench/%s\n", o->counted.items[i], o->counted.items[i]);
    if (o->counted.n_items == 0) kg_buffer_puts(&b, "*");
    return b.data;
}

/* A back end that the sprint's figures can be of: KG_ERR_UNSUPPORTED says why it is none. */
static enum kg_status check_backend(const struct kg_sprint *sprint, const char *backend_name, struct kg_error *err) {
    struct kg_backend *backend;
    if (!sprint->needs_gpu) return KG_OK;
    if (strcmp(backend_name, "cuda") != 0)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "--report %s: its figures are of a GPU, and back end %s is not",
                       sprint->name, backend_name);
    const enum kg_status status = kg_backend_open(backend_name, 0, &backend, err);
    if (status != KG_OK) return kg_error_context(err, status, "--report %s", sprint->name);
    kg_backend_close(backend);
    return KG_OK;
}

/* The sprint of --report, its figures alone, and the back end that they are of. */
static enum kg_status load_sprint(struct bench_options *o, struct kg_sprint *sprint, struct kg_error *err) {
    char *path = kg_cli_sprint_path(NULL, o->report);
    enum kg_status status = kg_cli_sprint_load(path, o->report, sprint, err);
    free(path);
    if (status != KG_OK) return status;
    kg_sprint_keep_figures(sprint);
    if (sprint->needs_gpu && !o->backend) o->backend = "cuda";
    return check_backend(sprint, o->backend, err);
}

/* Appends a glob over layer/op/name[backend,...] to the malloc'ed list. */
static void add_within(struct kg_option_list *within, const char *name, size_t len, const char *backend) {
    within->items = kg_xrealloc(within->items, (within->n_items + 1) * sizeof *within->items);
    within->items[within->n_items++] =
        backend ? kg_xasprintf("%.*s[[]%s,*", (int)len, name, backend) : kg_xasprintf("%.*s[[]*", (int)len, name);
}

/* The benches that a side of a figure reads: the pattern's cases in every precision and shape, for speed-ups are read
 * of pairs. */
static void add_read(struct kg_option_list *within, const json_t *side, const char *backend) {
    const json_t *match = json_object_get(side, "match");
    const size_t n = json_is_array(match) ? json_array_size(match) : match ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        const char *pattern = json_string_value(json_is_array(match) ? json_array_get(match, i) : match);
        if (strncmp(pattern, "bench/", 6) == 0) add_within(within, pattern, strcspn(pattern, "["), backend);
    }
}

/* What the report or the back end leaves of all keys, as malloc'ed globs; none: all keys. */
static struct kg_option_list make_within(const struct bench_options *o, const struct kg_sprint *sprint) {
    struct kg_option_list within = { NULL, 0 };
    const json_t *story, *figures, *figure;
    size_t i, k;
    if (!o->report && o->backend) add_within(&within, "*", 1, o->backend);
    json_array_foreach(sprint->stories, i, story) {
        figures = json_object_get(story, "figures");
        json_array_foreach(figures, k, figure) {
            add_read(&within, json_object_get(figure, "of"), o->backend);
            add_read(&within, json_object_get(figure, "over"), o->backend);
        }
    }
    if (o->report && within.n_items == 0) add_within(&within, "", 0, o->backend); /* no bench's key begins so */
    return within;
}

struct bench_run {
    struct kg_check_report report; /* first: the observer's argument is one */
    const struct bench_options *options;
    const struct kg_sprint *sprint;
    struct kg_buffer tables; /* of models and of peers, printed at the end */
};

static enum kg_status before_seal(void *arg, struct kg_bundle *bundle, struct kg_error *err) {
    struct bench_run *run = arg;
    enum kg_status status = kg_bench_report_bandwidth(bundle, err);
    if (status == KG_OK) status = kg_bench_report_models(bundle, &run->tables, err);
    if (status == KG_OK && run->options->peer) status = kg_bench_report_peers(bundle, &run->tables, err);
    return status;
}

/* What was found, for people: how fast models are, the peers beside kigo, the sprint's figures. */
static enum kg_status print_findings(const struct bench_run *run, const char *dir, struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    enum kg_status status = KG_OK;
    kg_buffer_puts(&out, kg_buffer_text(&run->tables));
    if (run->options->report) status = kg_cli_figures_print(run->sprint, dir, &out, err);
    kg_coloured_put(stdout, kg_buffer_text(&out), out.len);
    kg_buffer_free(&out);
    return status;
}

static int run(const struct bench_options *o, const struct kg_sprint *sprint, const struct kg_run_options *options) {
    struct kg_error err;
    if (o->list) {
        const enum kg_status status = kg_cli_print_plan("bench", options, o->json, &err);
        return status == KG_OK ? KG_EXIT_OK : kg_cli_error("bench", &err);
    }
    struct bench_run run = { .options = o, .sprint = sprint };
    kg_check_report_init(&run.report, options->bundle.run,
                         o->json     ? KG_CHECK_JSON
                         : o->silent ? KG_CHECK_QUIET
                                     : KG_CHECK_TEXT);
    struct kg_run_observer observer = kg_check_report_observer(&run.report);
    observer.arg = &run;
    observer.before_seal = before_seal;
    struct kg_run_outcome outcome = { 0 };
    enum kg_status status = kg_run(options, &observer, &outcome, &err);
    if (status == KG_OK && !o->json && !o->silent) status = print_findings(&run, outcome.bundle_dir, &err);
    int exit_code = outcome.exit_code;
    if (status == KG_OK) {
        kg_check_report_finish(&run.report, &outcome);
    } else {
        kg_check_report_error(&run.report, &err);
        exit_code = kg_cli_error("bench", &err);
    }
    kg_buffer_free(&run.tables);
    kg_run_outcome_free(&outcome);
    kg_check_report_free(&run.report);
    return exit_code;
}

/* This call again, up to which cases run. malloc'ed. */
static char *rerun_prefix(const struct bench_options *o, const char *program) {
    struct kg_buffer b = KG_BUFFER_INIT;
    kg_shell_quote(&b, program);
    kg_buffer_puts(&b, o->quick ? " bench --quick" : " bench");
    if (o->ncu) kg_buffer_puts(&b, " --ncu");
    for (size_t i = 0; i < o->models.n_items; i++) {
        kg_buffer_puts(&b, " --model ");
        kg_shell_quote(&b, o->models.items[i]);
    }
    return b.data;
}

/* Runs with other benches do not compare: without a filter, what stands for it is recorded. */
static json_t *filter_json(const struct bench_options *o) {
    const char *model_globs[] = { MODELS, MODEL_PEERS };
    const struct kg_option_list models = { model_globs, o->peer ? 2 : 1 };
    return kg_cli_texts_json(only_models(o) ? &models : &o->filters);
}

static json_t *describe_run(int argc, char **argv, const struct bench_options *o) {
    struct kg_option_list arguments = { (const char **)argv, (size_t)argc };
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:i, s:b, s:s?, s:o*, s:o*}", "argv",
                     kg_cli_texts_json(&arguments), "layers", json_array(), "filter", filter_json(o), "cases",
                     kg_cli_texts_json(&o->keys), "seed", json_sprintf("%" PRIu64, o->seed), "require_gpu", 0, "models",
                     kg_cli_texts_json(&o->models), "jobs", 1, "quick", o->quick, "report", o->report, "peer",
                     o->peer ? json_true() : NULL, "ncu", o->ncu ? json_true() : NULL);
}

static int bench(int argc, char **argv, const struct bench_options *o, const struct kg_sprint *sprint,
                 const char *models, const char *sign_key) {
    char *program = kg_own_path();
    char *suites = kg_cli_suites_dir(o->suites);
    char *prefix = rerun_prefix(o, program);
    json_t *about = describe_run(argc, argv, o);
    char *counted = counted_globs(o);
    struct kg_option_list within = make_within(o, sprint);
    struct kg_option_list filters = chosen_globs(o);
    const struct kg_run_options options = {
        .suites_dir = suites,
        .selection = { .filters = filters.items,
                       .n_filters = filters.n_items,
                       .keys = o->keys.items,
                       .n_keys = o->keys.n_items,
                       .within = within.items,
                       .n_within = within.n_items,
                       .without = o->peer ? NULL : PEERS,
                       .prefix = "bench_" },
        .surroundings = { .seed = o->seed,
                          .kigo_path = program,
                          .models = models,
                          .bench = o->quick ? "quick" : NULL,
                          .counted = counted },
        .bundle = { .root = kg_cli_bundles_root(o->bundles),
                    .source_dir = kg_source_tree(),
                    .source_record = kg_source_record(),
                    .built_from = kg_built_from(),
                    .other_tree = kg_cli_inside_run(),
                    .run = about,
                    .seed = o->seed,
                    .compress = o->compress,
                    .sign_key = sign_key },
        .rerun_prefix = prefix,
        .n_jobs = 1, /* timings of two programs at once would be of neither */
        .timeout_scale = 1,
    };
    const int exit_code = run(o, sprint, &options);
    json_decref(about);
    free(prefix);
    free_globs(&filters);
    free(counted);
    free_globs(&within);
    free(suites);
    free(program);
    return exit_code;
}

int kg_cmd_bench(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    struct bench_options o = { .seed = KG_DEFAULT_RUN_SEED };
    struct kg_error err;
    char *models = NULL, *sign_key = NULL;
    int exit_code;
    struct kg_sprint sprint = { 0 };
    const bool begins = parse(argc, argv, &o, &exit_code);
    enum kg_status status = begins && o.report ? load_sprint(&o, &sprint, &err) : KG_OK;
    if (status == KG_OK && begins) status = kg_cli_model_paths(&o.models, &models, &err);
    if (status == KG_OK && begins && o.ncu) status = check_ncu(&err);
    if (status == KG_OK && begins) status = kg_cli_sign_key(o.sign, &sign_key, &err);
    if (status != KG_OK) exit_code = kg_cli_error("bench", &err);
    else if (begins) exit_code = bench(argc, argv, &o, &sprint, models, sign_key);
    kg_sprint_free(&sprint);
    free(sign_key);
    free(models);
    free(o.filters.items);
    free(o.keys.items);
    free(o.models.items);
    free(o.counted.items);
    return exit_code;
}
