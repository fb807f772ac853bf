#include "run/plan.h"
#include "base/buffer.h"
#include "base/json_put.h"
#include "base/size.h"
#include "run/discover.h"
#include "run/listing.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static const char *const LAYERS[] = { "unit", "integration", "haiku", "tolerance", "mutation", "bench", "fuzz" };
const char KG_LAYER_NAMES[] = "unit, integration, haiku, tolerance, mutation, bench, fuzz";

static bool in_list(const char *const *list, size_t n, const char *text) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0) return true;
    return false;
}

bool kg_layer_known(const char *layer) {
    return in_list(LAYERS, KG_COUNT_OF(LAYERS), layer);
}

static bool matches_one(const char *const *globs, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (fnmatch(globs[i], key, 0) == 0) return true;
    return false;
}

static bool is_selected(const struct kg_selection *s, const json_t *line) {
    const char *key = json_string_value(json_object_get(line, "key"));
    const char *layer = json_string_value(json_object_get(line, "layer"));
    if (s->n_layers > 0 && !in_list(s->layers, s->n_layers, layer)) return false;
    if (s->n_within > 0 && !matches_one(s->within, s->n_within, key)) return false;
    if (in_list(s->keys, s->n_keys, key)) return true;
    if (s->without && fnmatch(s->without, key, 0) == 0) return false;
    return (s->n_filters == 0 && s->n_keys == 0) || matches_one(s->filters, s->n_filters, key);
}

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
        if (!whole && !is_selected(selection, line)) continue;
        program->cases[program->n_cases++] =
            (struct kg_planned_case){ .line = json_incref(line),
                                      .key = json_string_value(json_object_get(line, "key")),
                                      .timeout_s = json_number_value(json_object_get(line, "timeout_s")) };
    }
}

/* The plan line of a case of the harness itself, its key noted. */
static json_t *harness_case(const char *program, const char *name, json_t *keys_seen, uint64_t seed) {
    json_t *line = kg_listing_harness_line(program, name, seed);
    json_object_set_new(keys_seen, json_string_value(json_object_get(line, "key")), kg_json_utf8(program));
    return line;
}

/* Adds the program if any of its cases was selected, or if it could not say which it has. */
static void add_program(struct kg_case_plan *plan, const struct kg_suite_program *found, json_t *keys_seen,
                        const struct kg_selection *selection, const struct kg_child_surroundings *around) {
    struct kg_planned_program program = { .name = kg_xstrdup(found->name), .path = kg_xstrdup(found->path) };
    json_t *lines = NULL;
    struct kg_error err;
    enum kg_status status = kg_listing_get(found->path, found->name, around, &lines, &err);
    if (status == KG_OK) status = claim_keys(keys_seen, lines, found->name, &err);
    if (status == KG_OK) {
        json_t *ends_cleanly = harness_case(found->name, "ends_cleanly", keys_seen, around->seed);
        const char *key = json_string_value(json_object_get(ends_cleanly, "key"));
        keep_selected(&program, selection, in_list(selection->keys, selection->n_keys, key), lines);
        if (program.n_cases == json_array_size(lines)) program.ends_cleanly = json_incref(ends_cleanly);
        json_decref(ends_cleanly);
    } else {
        program.list_error = kg_xstrdup(err.message);
        program.lists = harness_case(found->name, "lists", keys_seen, around->seed);
    }
    json_decref(lines);
    plan->programs = kg_xrealloc(plan->programs, (plan->n_programs + 1) * sizeof *plan->programs);
    plan->programs[plan->n_programs++] = program;
    plan->n_cases += program.n_cases + (program.ends_cleanly != NULL) + (program.lists != NULL);
}

enum kg_status kg_case_plan_make(const char *suites_dir, const struct kg_selection *selection,
                            const struct kg_child_surroundings *around, struct kg_case_plan *plan, struct kg_error *err) {
    struct kg_suite_programs found;
    struct kg_error why;
    const char *prefix = selection->prefix ? selection->prefix : "test_";
    enum kg_status status = kg_suites_discover(suites_dir, prefix, &found, &why);
    if (status != KG_OK) return kg_fail(err, KG_ERR_INCOMPLETE, "no suites: %s", why.message);
    *plan = (struct kg_case_plan){ 0 };
    json_t *keys_seen = json_object();
    for (size_t i = 0; i < found.n_items; i++) add_program(plan, &found.items[i], keys_seen, selection, around);
    if (found.n_items == 0)
        status =
            kg_fail(err, KG_ERR_INCOMPLETE,
                    "no suite program (%s*) in %s or the folders in it; 'make check' builds them", prefix, suites_dir);
    for (size_t i = 0; i < selection->n_keys && status == KG_OK; i++)
        if (!json_object_get(keys_seen, selection->keys[i]))
            status = kg_fail(err, KG_ERR_INCOMPLETE, "no suite program has the case '%s'", selection->keys[i]);
    if (status == KG_OK && plan->n_cases == 0)
        status = kg_fail(err, KG_ERR_INCOMPLETE, "nothing to run: of %zu cases in %zu programs none was selected",
                         json_object_size(keys_seen), found.n_items);
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
