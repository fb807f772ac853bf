#include "run/plan.h"
#include "base/buffer.h"
#include "base/json_put.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "run/discover.h"
#include "run/layers.h"
#include "run/listing.h"
#include <stdlib.h>
#include <string.h>

/* Every key once in the whole run; keys_seen maps a key to its program's name. */
static enum kg_status claim_keys(json_t *keys_seen, const json_t *lines, const char *name, struct kg_error *err) {
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        const char *key = json_string_value(json_object_get(line, "key"));
        const char *other = json_string_value(json_object_get(keys_seen, key));
        if (other) return kg_fail(err, KG_ERR_FORMAT, "its key %s is also one of %s", key, other);
        json_object_set_new(keys_seen, key, kg_json_utf8(name));
    }
    return KG_OK;
}

/* whole: all of them, whatever was selected. */
static void keep_selected(struct kg_planned_program *program, const struct kg_selection *selection, bool whole,
                          json_t *lines) {
    size_t i;
    json_t *line;
    program->cases = kg_xcalloc(json_array_size(lines) + 1, sizeof *program->cases);
    json_array_foreach(lines, i, line) {
        const char *key = json_string_value(json_object_get(line, "key"));
        const char *layer = json_string_value(json_object_get(line, "layer"));
        const char *spec = json_string_value(json_object_get(line, "spec"));
        if (!whole && !kg_selection_takes(selection, key, layer, spec)) continue;
        const bool timed = json_is_true(json_object_get(line, "timed"));
        json_object_del(line, "timed"); /* how the case is run, not what it is: no field of plan.ndjson */
        program->timed = program->timed || timed;
        program->cases[program->n_cases++] =
            (struct kg_planned_case){ .line = json_incref(line),
                                      .key = key,
                                      .timed = timed,
                                      .timeout_s = json_number_value(json_object_get(line, "timeout_s")) };
    }
}

/* The plan line of a case of the harness itself, its key noted. */
static json_t *harness_case(const char *program, const char *name, json_t *keys_seen, uint64_t seed) {
    json_t *line = kg_listing_harness_line(program, name, seed);
    json_object_set_new(keys_seen, json_string_value(json_object_get(line, "key")), kg_json_utf8(program));
    return line;
}

/* Fails where a program lists a layer that its folder does not hold: another run may rely on that. */
static enum kg_status check_layers(const json_t *lines, const char *name, struct kg_error *err) {
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        const char *layer = json_string_value(json_object_get(line, "layer"));
        if (!kg_layer_fits(layer, name))
            return kg_fail(err, KG_ERR_FORMAT, "it lists %s, and a program in its folder may not list the layer %s",
                           json_string_value(json_object_get(line, "key")), layer);
    }
    return KG_OK;
}

/* By either of its harness's cases: one that could not list, and can now, is run whole. */
static bool takes_whole(const struct kg_selection *selection, const char *program, const json_t *ends_cleanly,
                        json_t *keys_seen, uint64_t seed) {
    json_t *lists = kg_listing_harness_line(program, "lists", seed);
    const char *key = json_string_value(json_object_get(lists, "key"));
    const bool by_lists = kg_selection_takes_whole(selection, key);
    if (by_lists) json_object_set_new(keys_seen, key, kg_json_utf8(program));
    json_decref(lists);
    return by_lists || kg_selection_takes_whole(selection, json_string_value(json_object_get(ends_cleanly, "key")));
}

/* Adds the program if any of its cases was selected, or if it could not say which it has. Takes over the lines. */
static void add_program(struct kg_case_plan *plan, const struct kg_suite_program *found, struct kg_listing *listing,
                        json_t *keys_seen, const struct kg_selection *selection, uint64_t seed) {
    struct kg_planned_program program = { .name = kg_xstrdup(found->name), .path = kg_xstrdup(found->path) };
    json_t *lines = listing->lines;
    enum kg_status status = lines ? check_layers(lines, found->name, &listing->err) : listing->err.status;
    if (status == KG_OK) status = claim_keys(keys_seen, lines, found->name, &listing->err);
    if (status == KG_OK) {
        json_t *ends_cleanly = harness_case(found->name, "ends_cleanly", keys_seen, seed);
        keep_selected(&program, selection, takes_whole(selection, found->name, ends_cleanly, keys_seen, seed), lines);
        if (program.n_cases == json_array_size(lines)) program.ends_cleanly = json_incref(ends_cleanly);
        json_decref(ends_cleanly);
    } else {
        program.list_error = kg_xstrdup(listing->err.message);
        program.lists = harness_case(found->name, "lists", keys_seen, seed);
    }
    json_decref(lines);
    plan->programs = kg_xrealloc(plan->programs, (plan->n_programs + 1) * sizeof *plan->programs);
    plan->programs[plan->n_programs++] = program;
    plan->n_cases += program.n_cases + (program.ends_cleanly != NULL) + (program.lists != NULL);
}

/* A program that listed its cases and was linked from other sources than this one judges another engine. */
static enum kg_status check_builds(const struct kg_suite_program *programs, const struct kg_listing *listings, size_t n,
                                   struct kg_error *err) {
    const char *first = NULL;
    size_t n_other = 0;
    for (size_t i = 0; i < n; i++) {
        if (!listings[i].lines || strcmp(listings[i].built_from, kg_built_from()) == 0) continue;
        if (n_other++ == 0) first = programs[i].name;
    }
    return n_other == 0 ? KG_OK
                        : kg_fail(err, KG_ERR_INCOMPLETE,
                                  "%zu of %zu suite programs (%s%s) were not built from the sources that this kigo was "
                                  "built from: run 'make' in the build folder",
                                  n_other, n, first, n_other > 1 ? ", ..." : "");
}

/* Asks the programs that the selection reaches. *n_reached counts them. */
static enum kg_status list_programs(struct kg_suite_programs *found, const struct kg_selection *selection,
                                    const struct kg_child_surroundings *around, struct kg_case_plan *plan,
                                    json_t *keys_seen, size_t *n_reached, struct kg_error *err) {
    struct kg_suite_program *reached = kg_xcalloc(found->n_items + 1, sizeof *reached);
    *n_reached = 0;
    for (size_t i = 0; i < found->n_items; i++)
        if (kg_selection_reaches(selection, found->items[i].name)) reached[(*n_reached)++] = found->items[i];
    struct kg_listing *listings = kg_xcalloc(*n_reached + 1, sizeof *listings);
    kg_listings_get(reached, *n_reached, around, listings);
    const enum kg_status status = check_builds(reached, listings, *n_reached, err);
    for (size_t i = 0; i < *n_reached; i++)
        add_program(plan, &reached[i], &listings[i], keys_seen, selection, around->seed);
    free(listings);
    free(reached);
    return status;
}

enum kg_status kg_case_plan_make(const char *suites_dir, const struct kg_selection *selection,
                                 const struct kg_child_surroundings *around, struct kg_case_plan *plan,
                                 struct kg_error *err) {
    struct kg_suite_programs found;
    struct kg_error why;
    const char *prefix = selection->prefix ? selection->prefix : "test_";
    enum kg_status status = kg_suites_discover(suites_dir, prefix, &found, &why);
    if (status != KG_OK) return kg_fail(err, KG_ERR_INCOMPLETE, "no suites: %s", why.message);
    *plan = (struct kg_case_plan){ 0 };
    json_t *keys_seen = json_object();
    size_t n_reached;
    status = list_programs(&found, selection, around, plan, keys_seen, &n_reached, err);
    if (status == KG_OK && found.n_items == 0)
        status = kg_fail(err, KG_ERR_INCOMPLETE,
                         "no suite program (%s*) in %s or the folders in it; 'make' builds them", prefix, suites_dir);
    for (size_t i = 0; i < selection->n_keys && status == KG_OK; i++)
        if (!json_object_get(keys_seen, selection->keys[i]))
            status = kg_fail(err, KG_ERR_INCOMPLETE, "no suite program has the case '%s'", selection->keys[i]);
    if (status == KG_OK && plan->n_cases == 0)
        status = kg_fail(err, KG_ERR_INCOMPLETE, "nothing to run: of %zu cases in %zu programs none was selected",
                         json_object_size(keys_seen), n_reached);
    json_decref(keys_seen);
    kg_suite_programs_free(&found);
    if (status != KG_OK) kg_case_plan_free(plan);
    return status;
}

void kg_case_plan_free(struct kg_case_plan *plan) {
    for (size_t p = 0; p < plan->n_programs; p++) {
        struct kg_planned_program *program = &plan->programs[p];
        for (size_t i = 0; i < program->n_cases; i++) json_decref(program->cases[i].line);
        free(program->cases);
        json_decref(program->lists);
        json_decref(program->ends_cleanly);
        free(program->list_error);
        free(program->name);
        free(program->path);
    }
    free(plan->programs);
    *plan = (struct kg_case_plan){ 0 };
}

struct kg_planned_case *kg_case_plan_find(struct kg_planned_program *program, const char *key) {
    for (size_t i = 0; i < program->n_cases; i++)
        if (strcmp(program->cases[i].key, key) == 0) return &program->cases[i];
    return NULL;
}
