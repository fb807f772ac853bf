/* kigo bench: runs the bench programs and seals their timings. The same runner as kigo check, over bench_* programs. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/options.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "bundle/source_tree.h"
#include "cli/bench_report.h"
#include "cli/bundles.h"
#include "cli/check_report.h"
#include "cli/commands.h"
#include "cli/suite_run.h"
#include "cli/trust.h"
#include "engine/op_workspace.h"
#include "run/case_key.h"
#include "run/failure_name.h"
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
          .help = "also measure this GGUF file as a whole" },
        { .name = "report",
          .kind = KG_OPTION_TEXT,
          .value = &o->report,
          .metavar = "NAME",
          .help = "measure what a report needs and write it: fp16" },
        { .name = "peer",
          .kind = KG_OPTION_FLAG,
          .value = &o->peer,
          .help = "also time what others take for the same shapes (sdpa: PyTorch), and compare" },
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
        KG_SIGN_OPTION(&o->sign),
        KG_SUITES_OPTION(&o->suites),
        KG_COMPRESS_OPTION(&o->compress),
        KG_LIST_OPTION(&o->list),
        KG_JSON_OPTION(&o->json),
        KG_QUIET_OPTION(&o->silent),
    };
    const struct kg_command command = {
        .name = "kigo bench",
        .usage = "[options]",
        .summary =
            "Times operations and whole models and seals the timings in a proof bundle, with bandwidth.csv,\n"
            "bandwidth.json and plots. Timings never decide: exit code 1 means that work failed, not that it\n"
            "was slow. --report fp16 compares f16 with f32 on whole models: fp16.md and fp16.csv. --peer: peers.csv.",
        .options = rows,
        .n_options = KG_COUNT_OF(rows),
    };
    struct kg_error err;
    enum kg_status status = KG_OK;
    if (!kg_cli_parse(&command, argc, argv, NULL, 0, exit_code)) return false;
    if (o->report && strcmp(o->report, "fp16") != 0)
        status = kg_fail(&err, KG_ERR_USAGE, "--report: '%s' is not fp16", o->report);
    if (status == KG_OK && o->backend && strcmp(o->backend, "cpu") != 0 && strcmp(o->backend, "cuda") != 0)
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

/* Globs over keys, which all begin with the layer: one that leaves it out means it. malloc'ed list of malloc'ed texts.
 */
static struct kg_option_list with_layer(const struct kg_option_list *globs, bool peers) {
    struct kg_option_list all = { kg_xcalloc(2 * globs->n_items + 1, sizeof *all.items), 0 };
    for (size_t i = 0; i < globs->n_items; i++) {
        all.items[all.n_items++] = kg_xstrdup(globs->items[i]);
        all.items[all.n_items++] = kg_xasprintf("bench/%s", globs->items[i]);
    }
    if (peers && globs->n_items > 0) all.items[all.n_items++] = kg_xstrdup(PEERS);
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

/* A report on f16 needs a back end that has it: KG_ERR_UNSUPPORTED says which has not, and why. */
static enum kg_status check_f16(const char *backend_name, struct kg_error *err) {
    const struct kg_op_extent any = {
        .activations = KG_PRECISION_F16, .kv = KG_PRECISION_F16, .n_rows = 1, .n_in = 64, .n_out = 64
    };
    struct kg_backend *backend;
    uint64_t workspace_bytes;
    enum kg_status status = kg_backend_open(backend_name, 0, &backend, err);
    if (status == KG_OK) {
        status = kg_op_workspace_bytes(backend, &any, &workspace_bytes, err);
        kg_backend_close(backend);
    }
    return status == KG_OK ? KG_OK : kg_error_context(err, status, "--report fp16");
}

/* What the FP16 report is made of: whole models, the matrix products of the model its figures are for, and numerics. */
static const char *const FP16_CASES[] = { "bench/model/*", "bench/linear/*_qwen_*", "bench/numerics/*" };
enum { MOST_WITHIN = KG_COUNT_OF(FP16_CASES) };

/* The keys, layer/op/name[backend,...], that the report or the back end leaves, as malloc'ed globs; their number, 0 for
 * all keys. */
static size_t make_within(const struct bench_options *o, char *within[MOST_WITHIN]) {
    static const char *const ALL[] = { "*" };
    const char *const *cases = o->report ? FP16_CASES : ALL;
    const size_t n = o->report ? KG_COUNT_OF(FP16_CASES) : o->backend ? 1 : 0;
    for (size_t i = 0; i < n; i++) within[i] = kg_xasprintf("%s[[]%s,*", cases[i], o->backend);
    return n;
}

struct bench_run {
    struct kg_check_report report; /* first: the observer's argument is one */
    const struct bench_options *options;
    struct kg_buffer peers; /* the comparison, printed at the end */
};

static enum kg_status before_seal(void *arg, struct kg_bundle *bundle, struct kg_error *err) {
    struct bench_run *run = arg;
    enum kg_status status = kg_bench_report_bandwidth(bundle, err);
    if (status == KG_OK && run->options->report) status = kg_bench_report_fp16(bundle, err);
    if (status == KG_OK && run->options->peer) status = kg_bench_report_peers(bundle, &run->peers, err);
    return status;
}

static int run(const struct bench_options *o, const struct kg_run_options *options) {
    struct kg_error err;
    if (o->list) {
        const enum kg_status status = kg_cli_print_plan("bench", options, o->json, &err);
        return status == KG_OK ? KG_EXIT_OK : kg_cli_error("bench", &err);
    }
    struct bench_run run = { .options = o };
    kg_check_report_init(&run.report, options->bundle.run,
                         o->json     ? KG_CHECK_JSON
                         : o->silent ? KG_CHECK_QUIET
                                     : KG_CHECK_TEXT);
    struct kg_run_observer observer = kg_check_report_observer(&run.report);
    observer.arg = &run;
    observer.before_seal = before_seal;
    struct kg_run_outcome outcome = { 0 };
    const enum kg_status status = kg_run(options, &observer, &outcome, &err);
    int exit_code = outcome.exit_code;
    if (status == KG_OK) {
        if (!o->json && !o->silent) fputs(kg_buffer_text(&run.peers), stdout);
        kg_check_report_finish(&run.report, &outcome);
    } else {
        kg_check_report_error(&run.report, &err);
        exit_code = kg_cli_error("bench", &err);
    }
    kg_buffer_free(&run.peers);
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

static json_t *describe_run(int argc, char **argv, const struct bench_options *o) {
    struct kg_option_list arguments = { (const char **)argv, (size_t)argc };
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:i, s:b, s:s?, s:o*, s:o*}", "argv",
                     kg_cli_texts_json(&arguments), "layers", json_array(), "filter", kg_cli_texts_json(&o->filters),
                     "cases", kg_cli_texts_json(&o->keys), "seed", json_sprintf("%" PRIu64, o->seed), "require_gpu", 0,
                     "models", kg_cli_texts_json(&o->models), "jobs", 1, "quick", o->quick, "report", o->report, "peer",
                     o->peer ? json_true() : NULL, "ncu", o->ncu ? json_true() : NULL);
}

static int bench(int argc, char **argv, const struct bench_options *o, const char *models, const char *sign_key) {
    char *program = kg_own_path();
    char *suites = kg_cli_suites_dir(o->suites, program);
    char *prefix = rerun_prefix(o, program);
    json_t *about = describe_run(argc, argv, o);
    char *within[MOST_WITHIN], *counted = counted_globs(o);
    const size_t n_within = make_within(o, within);
    struct kg_option_list filters = with_layer(&o->filters, o->peer);
    const struct kg_run_options options = {
        .suites_dir = suites,
        .selection = { .filters = filters.items,
                       .n_filters = filters.n_items,
                       .keys = o->keys.items,
                       .n_keys = o->keys.n_items,
                       .within = (const char *const *)within,
                       .n_within = n_within,
                       .without = o->peer ? NULL : PEERS,
                       .prefix = "bench_" },
        .surroundings = { .seed = o->seed,
                          .kigo_path = program,
                          .models = models,
                          .bench = o->quick ? "quick" : NULL,
                          .counted = counted },
        .bundle = { .root = kg_cli_bundles_root(o->bundles),
                    .source_dir = kg_source_tree(),
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
    const int exit_code = run(o, &options);
    json_decref(about);
    free(prefix);
    free_globs(&filters);
    free(counted);
    for (size_t i = 0; i < n_within; i++) free(within[i]);
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
    const bool begins = parse(argc, argv, &o, &exit_code);
    if (o.report && !o.backend) o.backend = "cuda";
    enum kg_status status = begins ? kg_cli_model_paths(&o.models, &models, &err) : KG_OK;
    if (status == KG_OK && begins && o.report) status = check_f16(o.backend, &err);
    if (status == KG_OK && begins && o.ncu) status = check_ncu(&err);
    if (status == KG_OK && begins) status = kg_cli_sign_key(o.sign, &sign_key, &err);
    if (status != KG_OK) exit_code = kg_cli_error("bench", &err);
    else if (begins) exit_code = bench(argc, argv, &o, models, sign_key);
    free(sign_key);
    free(models);
    free(o.filters.items);
    free(o.keys.items);
    free(o.models.items);
    free(o.counted.items);
    return exit_code;
}
