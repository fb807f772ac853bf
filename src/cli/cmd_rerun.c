/* kigo rerun: a run again, as it was asked for, and whether it came out the same. */
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "bundle/places.h"
#include "bundle/source_tree.h"
#include "cli/asked_runs.h"
#include "cli/commands.h"
#include "cli/differences.h"
#include "cli/fresh_runs.h"
#include "cli/rebuild.h"
#include "cli/suite_run.h"
#include "history/annotation.h"
#include "history/reproduce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rerun_options {
    struct kg_asked asked;
    const char *repository, *build, *keep, *suites;
    bool here, json;
};

struct rerun {
    const struct rerun_options *o;
    const char *pattern; /* of cases; NULL: all */
    struct kg_asked_runs from;
    char *dir, *fresh_dir;
    json_t *env, *source, *build;
    struct kg_records then, now;
    const char **args;
    size_t n_args;
    char *program;
    const char *sources; /* "this build", "the build given", "the commit, built again" */
    struct kg_rebuild rebuild;
    json_t *notes;
    size_t n_chosen;
};

static void add_arg(struct rerun *r, const char *arg) {
    r->args = kg_xrealloc(r->args, (r->n_args + 2) * sizeof *r->args);
    r->args[r->n_args++] = arg;
    r->args[r->n_args] = NULL;
}

/* An option of the run's command line: how many arguments it takes here, 0 if it is none of these. */
static size_t skipped_args(const char *arg, bool choose_cases) {
    /* where the bundle went and how it was reported; the seed is given by itself; whose programs run is not the
     * bundle's to say */
    static const char *const FLAGS[] = {
        "--json", "--tap", "--quiet", "-q", "--list", "--compress", "-v", "--verbose"
    };
    static const char *const VALUES[] = { "--bundles", "--sign", "--seed", "-s", "--suites" };
    static const char *const CHOICES[] = { "--filter", "-f",        "--case", "-c",    "--layer",
                                           "-l",       "--keyword", "-k",     "--spec" };
    for (size_t i = 0; i < KG_COUNT_OF(FLAGS); i++)
        if (strcmp(arg, FLAGS[i]) == 0) return 1;
    for (size_t i = 0; i < KG_COUNT_OF(VALUES) + (choose_cases ? KG_COUNT_OF(CHOICES) : 0); i++) {
        const char *name = i < KG_COUNT_OF(VALUES) ? VALUES[i] : CHOICES[i - KG_COUNT_OF(VALUES)];
        const size_t len = strlen(name);
        if (strcmp(arg, name) == 0) return 2;
        if (name[1] == '-' && strncmp(arg, name, len) == 0 && arg[len] == '=') return 1;
    }
    return 0;
}

static void note(struct rerun *r, const char *text) {
    json_array_append_new(r->notes, kg_json_utf8(text));
}

/* A bench of models whose record names no filter, case or report ran every bench; -m alone runs the models'. */
static bool ran_every_bench(const json_t *run, const char *verb) {
    return strcmp(verb, "bench") == 0 && json_array_size(json_object_get(run, "models")) > 0 &&
           json_array_size(json_object_get(run, "filter")) == 0 &&
           json_array_size(json_object_get(run, "cases")) == 0 && !kg_json_text(run, "report");
}

/* The run's own arguments without what does not belong to the work; with a pattern, the cases it matches instead of its
 * choice. */
static enum kg_status make_words(struct rerun *r, struct kg_error *err) {
    const json_t *run = json_object_get(r->env, "run"), *argv = json_object_get(run, "argv");
    const char *verb = json_string_value(json_array_get(argv, 0)), *seed = kg_json_text(run, "seed");
    if (!verb || (strcmp(verb, "check") != 0 && strcmp(verb, "bench") != 0))
        return kg_fail(err, KG_ERR_UNSUPPORTED, "the run was made by '%s', not by kigo check or bench",
                       verb ? verb : "nobody knows what");
    add_arg(r, verb);
    for (size_t i = 1; i < json_array_size(argv);) {
        const char *arg = json_string_value(json_array_get(argv, i));
        const size_t n = arg ? skipped_args(arg, r->pattern != NULL) : 1;
        if (arg && strncmp(arg, "--suites", strlen("--suites")) == 0 && !r->o->suites)
            note(r, "the run used other suites (--suites); the build's were run");
        if (n == 0) add_arg(r, arg);
        i += n ? n : 1;
    }
    if (!r->pattern && ran_every_bench(run, verb)) add_arg(r, "--filter"), add_arg(r, "*");
    if (r->o->suites) add_arg(r, "--suites"), add_arg(r, r->o->suites);
    if (seed) add_arg(r, "--seed"), add_arg(r, seed);
    for (size_t i = 0; i < r->then.n_cases; i++) {
        const struct kg_case_records *c = &r->then.cases[i];
        if (!c->plan || (r->pattern && !kg_case_matches(r->pattern, c->key))) continue;
        r->n_chosen++;
        if (r->pattern) add_arg(r, "--case"), add_arg(r, c->key);
    }
    return r->n_chosen > 0
               ? KG_OK
               : kg_fail(err, KG_ERR_NOT_FOUND, "no case of the run matches '%s'", r->pattern ? r->pattern : "*");
}

static enum kg_status read_run(struct rerun *r, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = kg_bundle_verify(r->dir, &findings, err);
    kg_bundle_findings_free(&findings);
    if (status == KG_OK) status = kg_bundle_read_json(r->dir, "data/env.json", &r->env, err);
    if (status == KG_OK) status = kg_bundle_read_json(r->dir, "data/source.json", &r->source, err);
    if (status == KG_OK) status = kg_bundle_read_json(r->dir, "data/build.json", &r->build, err);
    if (status == KG_OK) status = kg_records_load_results(r->dir, &r->then, &findings, err);
    kg_bundle_findings_free(&findings);
    return status;
}

/* Whether this program was built from the run's sources. */
static bool same_sources(const struct rerun *r) {
    const char *its = kg_json_text(r->source, "content_sha256");
    return its && strcmp(kg_built_from(), its) == 0;
}

/* The program that runs: the one given; this one, where its sources are the run's or nothing else can be had; else the
 * commit's, built aside. */
static enum kg_status choose_program(struct rerun *r, struct kg_error *err) {
    const json_t *git = json_object_get(r->source, "git");
    const char *commit = kg_json_text(git, "commit");
    r->sources = "the build given";
    if (r->o->build) return kg_fresh_program(r->o->build, &r->program, err);
    r->sources = "this build";
    if (!r->o->here && !same_sources(r)) {
        const char *repository = r->o->repository ? r->o->repository : kg_source_tree() ? kg_source_tree() : ".";
        struct kg_error why = { .message = "the run's sources were in no commit" };
        const bool clean = commit && json_is_false(json_object_get(git, "dirty"));
        if (commit && !clean)
            snprintf(why.message, sizeof why.message, "the run's sources were changed since its commit");
        if (clean) kg_say(stderr, "kigo rerun: building commit %s aside\n", commit);
        const enum kg_status status =
            clean ? kg_rebuild(repository, commit, r->build, &r->rebuild, &why) : KG_ERR_NOT_FOUND;
        if (status == KG_OK) {
            r->sources = "the commit, built again";
            if (r->rebuild.left_out.len > 0) {
                char *text = kg_xasprintf("left out of its configure call: %s", r->rebuild.left_out.data);
                note(r, text);
                free(text);
            }
            return kg_fresh_program(r->rebuild.program, &r->program, err);
        }
        if (status != KG_ERR_NOT_FOUND) return kg_fail(err, status, "%s", why.message);
        char *text = kg_xasprintf("run with this build's sources: %s", why.message);
        note(r, text);
        free(text);
    }
    r->program = kg_own_path();
    return KG_OK;
}

static enum kg_status run_again(struct rerun *r, const struct kg_fresh_runs *runs, struct kg_error *err) {
    struct kg_bundle_findings findings = { NULL, 0 };
    char *id = NULL;
    enum kg_status status = kg_fresh_run(runs, r->program, r->args, &id, err);
    if (status == KG_OK) {
        r->fresh_dir = kg_path_join(runs->root, id);
        status = kg_records_load_results(r->fresh_dir, &r->now, &findings, err);
    }
    kg_bundle_findings_free(&findings);
    free(id);
    return status;
}

static const struct kg_case_records *find_case(const struct kg_records *records, const char *key) {
    const json_t *place = json_object_get(records->index, key);
    return place ? &records->cases[json_integer_value(place)] : NULL;
}

static json_t *compare(const struct rerun *r, size_t counts[KG_REPRODUCED_COUNT]) {
    json_t *cases = json_array();
    for (size_t i = 0; i < r->then.n_cases; i++) {
        const struct kg_case_records *c = &r->then.cases[i];
        enum kg_reproduced outcome;
        if (!c->plan || (r->pattern && !kg_case_matches(r->pattern, c->key))) continue;
        json_array_append_new(cases, kg_reproduce_case(c, find_case(&r->now, c->key), &outcome));
        counts[outcome]++;
    }
    return cases;
}

static int exit_code_of(const size_t counts[KG_REPRODUCED_COUNT]) {
    if (counts[KG_OTHER_FIGURE] + counts[KG_OTHER_STATUS] > 0) return KG_EXIT_FAILED;
    return counts[KG_OTHER_CASE] + counts[KG_NOT_RUN] + counts[KG_NOT_THERE] > 0 ? KG_EXIT_INCONCLUSIVE : KG_EXIT_OK;
}

static enum kg_status print(const struct rerun *r, const json_t *answer, struct kg_error *err) {
    const json_t *cases = json_object_get(answer, "cases"), *item;
    struct kg_buffer out = KG_BUFFER_INIT;
    size_t i;
    json_array_foreach(cases, i, item) {
        const char *now = kg_json_text(item, "now");
        if (strcmp(kg_json_text(item, "outcome"), KG_REPRODUCED_NAMES[KG_SAME]) == 0) continue;
        kg_text_printf(&out, "%s: %s: %s, now %s\n", kg_json_text(item, "outcome"), kg_json_text(item, "case"),
                       kg_json_text(item, "then"), now ? now : "not planned");
        kg_differences_put(json_object_get(item, "figures"), "figure", &out);
    }
    if (json_array_size(json_object_get(answer, "surroundings")) > 0) kg_buffer_puts(&out, "different around them:\n");
    kg_differences_put(json_object_get(answer, "surroundings"), "what", &out);
    json_array_foreach(r->notes, i, item) kg_text_printf(&out, "%s\n", json_string_value(item));
    const json_t *counts = json_object_get(answer, "counts");
    const char *dir = kg_asked_runs_dir(&r->from, r->dir);
    kg_text_printf(&out, "%s: with %s: %lld of %zu cases the same", dir ? dir : strrchr(r->dir, '/') + 1, r->sources,
                   (long long)kg_json_int(counts, KG_REPRODUCED_NAMES[KG_SAME], 0), r->n_chosen);
    for (size_t k = 1; k < KG_REPRODUCED_COUNT; k++)
        if (kg_json_int(counts, KG_REPRODUCED_NAMES[k], 0) > 0)
            kg_text_printf(&out, ", %lld %s", (long long)kg_json_int(counts, KG_REPRODUCED_NAMES[k], 0),
                           KG_REPRODUCED_NAMES[k]);
    kg_buffer_puts(&out, "\n");
    if (r->o->keep) kg_text_printf(&out, "the run is in %s\n", r->fresh_dir);
    return kg_cli_print(&out, err);
}

static enum kg_status report(const struct rerun *r, int *exit_code, struct kg_error *err) {
    size_t counts[KG_REPRODUCED_COUNT] = { 0 };
    json_t *cases = compare(r, counts), *counted = json_object();
    for (size_t i = 0; i < KG_REPRODUCED_COUNT; i++)
        json_object_set_new(counted, KG_REPRODUCED_NAMES[i], json_integer((json_int_t)counts[i]));
    *exit_code = exit_code_of(counts);
    const char *dir = kg_asked_runs_dir(&r->from, r->dir);
    json_t *answer =
        json_pack("{s:o, s:s, s:i, s:s?, s:o, s:o, s:o, s:O}", "dir", dir ? kg_json_utf8(dir) : json_null(), "sources",
                  r->sources, "exit_code", *exit_code, "kept", r->o->keep ? r->fresh_dir : NULL, "counts", counted,
                  "cases", cases, "surroundings", kg_reproduce_surroundings(r->dir, r->fresh_dir), "notes", r->notes);
    if (r->o->json) return kg_cli_print_json(answer, err);
    const enum kg_status status = print(r, answer, err);
    json_decref(answer);
    return status;
}

static void free_rerun(struct rerun *r) {
    kg_records_free(&r->then);
    kg_records_free(&r->now);
    kg_rebuild_free(&r->rebuild);
    json_decref(r->env);
    json_decref(r->source);
    json_decref(r->build);
    json_decref(r->notes);
    free(r->args);
    free(r->program);
    free(r->fresh_dir);
    free(r->dir);
    kg_asked_runs_close(&r->from);
}

static int rerun(const struct rerun_options *o, const char *run, const char *pattern) {
    struct rerun r = { .o = o, .pattern = pattern, .notes = json_array() };
    struct kg_fresh_runs runs = { 0 };
    struct kg_error err;
    int exit_code = KG_EXIT_INTERNAL;
    enum kg_status status = kg_asked_runs_open("rerun", &o->asked, &r.from, &err);
    if (status == KG_OK) status = kg_asked_runs_find(&r.from, NULL, run, &r.dir, &err);
    if (status == KG_OK) status = read_run(&r, &err);
    if (status == KG_OK) status = choose_program(&r, &err);
    if (status == KG_OK) status = make_words(&r, &err);
    if (status == KG_OK) status = kg_fresh_open(o->keep, &runs, &err);
    if (status == KG_OK) status = run_again(&r, &runs, &err);
    if (status == KG_OK) status = report(&r, &exit_code, &err);
    if (status != KG_OK) exit_code = kg_cli_error("rerun", kg_asked_runs_error(&r.from, &err));
    if (runs.root) kg_fresh_close(&runs);
    free_rerun(&r);
    return exit_code;
}

int kg_cmd_rerun(int argc, char **argv) {
    struct rerun_options o = { 0 };
    const struct kg_option options[] = {
        { .name = "here",
          .kind = KG_OPTION_FLAG,
          .value = &o.here,
          .help = "with this build, whatever the run's sources were" },
        { .name = "build",
          .kind = KG_OPTION_TEXT,
          .value = &o.build,
          .metavar = "DIR",
          .help = "with this build (a folder with kigo in it)" },
        { .name = "repository",
          .kind = KG_OPTION_TEXT,
          .value = &o.repository,
          .metavar = "DIR",
          .help = "git repository that has the run's commit (the source folder)" },
        { .name = "suites",
          .kind = KG_OPTION_TEXT,
          .value = &o.suites,
          .metavar = "DIR",
          .help = "where suite programs are (those of the build)" },
        { .name = "keep",
          .kind = KG_OPTION_TEXT,
          .value = &o.keep,
          .metavar = "DIR",
          .help = "keep the new run's bundle in this folder" },
        KG_ASKED_OPTIONS(&o.asked),
        { .name = "json", .kind = KG_OPTION_FLAG, .value = &o.json, .help = "print one JSON object" },
    };
    const char *args[2];
    const struct kg_command command = {
        .name = "kigo rerun",
        .usage = "RUN [CASE] [--here|--build DIR] [--repository DIR] [--keep DIR] [--bundles DIR] [--json]",
        .summary =
            "Runs what a run ran, with its options and seed, and says of every case whether status and exact\n"
            "figures came out the same, and what is different in machine, build and sources. CASE is a key or a\n"
            "pattern. Where this build's sources are not the run's, its commit is built aside if it is at hand.\n"
            "Exit code: 0 all the same, 1 something came out otherwise, 3 some cases say nothing.",
        .options = options,
        .n_options = KG_COUNT_OF(options),
        .min_args = 1,
        .max_args = KG_COUNT_OF(args),
    };
    struct kg_error err;
    int ended;
    if (!kg_cli_parse(&command, argc, argv, args, KG_COUNT_OF(args), &ended)) return ended;
    if (o.here && o.build) {
        kg_fail(&err, KG_ERR_USAGE, "--here and --build exclude each other");
        return kg_cli_error("rerun", &err);
    }
    return rerun(&o, args[0], args[1]);
}
