#include "cli/two_builds.h"
#include "base/file.h"
#include "base/say.h"
#include "bundle/records.h"
#include "bundle/places.h"
#include "history/ancestry.h"
#include <stdlib.h>
#include <string.h>

static void add_arg(struct kg_two_builds *two, const char *arg) {
    two->args = kg_xrealloc(two->args, (two->n_args + 2) * sizeof *two->args);
    two->args[two->n_args++] = arg;
    two->args[two->n_args] = NULL;
}

/* The judged run's verb, seed, scale and models. */
static enum kg_status make_args(const char *root, const char *bundle_id, struct kg_two_builds *two,
                                struct kg_error *err) {
    char *dir = kg_path_join(root, bundle_id);
    const enum kg_status status = kg_bundle_read_json(dir, "data/env.json", &two->env, err);
    free(dir);
    if (status != KG_OK) return status;
    const json_t *run = json_object_get(two->env, "run");
    const char *verb = json_string_value(json_array_get(json_object_get(run, "argv"), 0));
    if (!verb || (strcmp(verb, "bench") != 0 && strcmp(verb, "check") != 0))
        return kg_fail(err, KG_ERR_UNSUPPORTED, "the run was made by '%s', not by kigo check or bench",
                       verb ? verb : "nobody knows what");
    add_arg(two, verb);
    if (json_is_true(json_object_get(run, "quick"))) add_arg(two, "--quick");
    const char *seed = kg_json_text(run, "seed");
    if (seed) {
        add_arg(two, "--seed");
        add_arg(two, seed);
    }
    const json_t *models = json_object_get(run, "models");
    for (size_t i = 0; i < json_array_size(models); i++) {
        add_arg(two, "--model");
        add_arg(two, json_string_value(json_array_get(models, i)));
    }
    return KG_OK;
}

/* The baseline's commit, built aside. */
static enum kg_status build_baseline(const char *verb, const struct kg_regress_call *call,
                                     const struct kg_run_head *head, struct kg_two_builds *two, struct kg_error *err) {
    const char *places[4], *repository = NULL;
    struct kg_error why = { KG_OK, "the baseline was run from changed sources" };
    json_t *build = json_loads(head->build_json, 0, NULL);
    kg_cli_repositories(call, places);
    enum kg_status status = head->commit && !head->dirty ? KG_OK : KG_ERR_NOT_FOUND;
    if (status == KG_OK) status = kg_find_repository(places, head->commit, &repository, &why);
    if (status == KG_OK) {
        kg_say(stderr, "kigo %s: building %.12s aside\n", verb, head->commit);
        status = kg_rebuild(repository, head->commit, build, &two->rebuild, &why);
    }
    if (status == KG_OK) two->programs[0] = kg_xstrdup(two->rebuild.program);
    else
        status =
            kg_fail(err, status, "there is no build of the baseline (--baseline-build names one): %s", why.message);
    json_decref(build);
    return status;
}

enum kg_status kg_two_builds_open(const char *verb, const struct kg_two_builds_options *o,
                                  const struct kg_regress_call *call, const char *root, const struct kg_run_head *run,
                                  const struct kg_run_head *baseline, struct kg_two_builds *two, struct kg_error *err) {
    char *own = kg_own_path();
    *two = (struct kg_two_builds){ 0 };
    enum kg_status status = kg_fresh_program(o->build ? o->build : own, &two->programs[1], err);
    if (status == KG_OK) status = make_args(root, run->bundle_id, two, err);
    if (status == KG_OK)
        status = o->baseline_build ? kg_fresh_program(o->baseline_build, &two->programs[0], err)
                                   : build_baseline(verb, call, baseline, two, err);
    if (status == KG_OK) status = kg_fresh_open(o->keep, &two->runs, err);
    free(own);
    return status;
}

void kg_two_builds_close(struct kg_two_builds *two) {
    if (two->runs.root) kg_fresh_close(&two->runs);
    kg_rebuild_free(&two->rebuild);
    free(two->programs[0]);
    free(two->programs[1]);
    free(two->args);
    json_decref(two->env);
    *two = (struct kg_two_builds){ 0 };
}

enum kg_status kg_two_builds_run(const struct kg_two_builds *two, int build, const char *const *keys, size_t n_keys,
                                 char **id, struct kg_error *err) {
    const char **args = kg_xcalloc(two->n_args + 2 * n_keys + 1, sizeof *args);
    size_t n = two->n_args;
    memcpy(args, two->args, n * sizeof *args);
    for (size_t i = 0; i < n_keys; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++) seen = strcmp(keys[k], keys[i]) == 0;
        if (seen) continue;
        args[n++] = "--case";
        args[n++] = keys[i];
    }
    const enum kg_status status = kg_fresh_run(&two->runs, two->programs[build], args, id, err);
    free(args);
    return status;
}
