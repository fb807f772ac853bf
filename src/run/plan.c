#include "run/plan.h"
#include "base/buffer.h"
#include "base/json_put.h"
#include "base/size.h"
#include "bundle/built_from.h"
#include "run/discover.h"
#include "run/known_lists.h"
#include "run/layers.h"
#include "run/listing.h"
#include <math.h>
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
        const double timeout_s = json_number_value(json_object_get(line, "timeout_s"));
        program->timed = program->timed || timed;
        program->longest_s = fmax(program->longest_s, timeout_s);
        program->cases[program->n_cases++] =
            (struct kg_planned_case){ .line = json_incref(line), .key = key, .timed = timed, .timeout_s = timeout_s };
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

/* Whether a case of the list, or one of the harness's own about its program, was asked for. */
static bool takes_any(const struct kg_selection *selection, const char *program, const json_t *lines, uint64_t seed) {
    static const char *const OWN[] = { "ends_cleanly", "lists" };
    bool taken = false;
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        const char *key = json_string_value(json_object_get(line, "key"));
        const char *layer = json_string_value(json_object_get(line, "layer"));
        if (kg_selection_takes(selection, key, layer, json_string_value(json_object_get(line, "spec")))) return true;
    }
    for (size_t k = 0; k < KG_COUNT_OF(OWN) && !taken; k++) {
        line = kg_listing_harness_line(program, OWN[k], seed);
        taken = kg_selection_takes_whole(selection, json_string_value(json_object_get(line, "key")));
        json_decref(line);
    }
    return taken;
}

/* A program that the selection reaches. */
struct reached {
    struct kg_known_list known;
    bool noted; /* its list is the one that was known: nothing of it was asked for */
};

/* Asks those whose `noted` is as said. False if one has another list than the one that was known. */
static bool ask(const struct kg_suite_program *programs, size_t n, const struct reached *reached, bool noted,
                struct kg_known_lists *notes, const struct kg_child_surroundings *around, struct kg_listing *listings) {
    struct kg_suite_program *asked = kg_xcalloc(n + 1, sizeof *asked);
    struct kg_listing *answers = kg_xcalloc(n + 1, sizeof *answers);
    size_t n_asked = 0, next = 0;
    bool as_known = true;
    for (size_t i = 0; i < n; i++)
        if (reached[i].noted == noted) asked[n_asked++] = programs[i];
    kg_listings_get(asked, n_asked, around, answers);
    for (size_t i = 0; i < n; i++) {
        if (reached[i].noted != noted) continue;
        json_decref(listings[i].lines);
        listings[i] = answers[next++];
        as_known = kg_known_list_keep(notes, &programs[i], &reached[i].known, &listings[i]) && as_known;
    }
    free(answers);
    free(asked);
    return as_known;
}

/* Lists all programs: by asking those that have cases to run, and the others where nobody knows their list. Returns
 * whether any was not asked. */
static bool get_listings(const struct kg_suite_program *programs, size_t n, const struct kg_selection *selection,
                         const struct kg_child_surroundings *around, bool by_notes, struct kg_listing *listings) {
    struct kg_known_lists *notes = kg_known_lists_open(around);
    struct reached *reached = kg_xcalloc(n + 1, sizeof *reached);
    for (size_t i = 0; i < n; i++) {
        json_t *lines;
        kg_known_list_find(notes, &programs[i], &reached[i].known);
        lines = reached[i].known.lines;
        reached[i].noted = by_notes && lines && !takes_any(selection, programs[i].name, lines, around->seed);
        if (!reached[i].noted) continue;
        listings[i].lines = json_incref(lines);
        memcpy(listings[i].built_from, kg_built_from(), sizeof listings[i].built_from);
    }
    const bool notes_hold = ask(programs, n, reached, false, notes, around, listings);
    if (!notes_hold) (void)ask(programs, n, reached, true, notes, around, listings);
    bool any_noted = false;
    for (size_t i = 0; i < n; i++) {
        any_noted = any_noted || reached[i].noted;
        json_decref(reached[i].known.lines);
    }
    free(reached);
    kg_known_lists_close(notes);
    return any_noted && notes_hold;
}

/* Lists the programs that the selection reaches. *n_reached counts them; *noted: some were not asked. */
static enum kg_status list_programs(struct kg_suite_programs *found, const struct kg_selection *selection,
                                    const struct kg_child_surroundings *around, bool by_notes,
                                    struct kg_case_plan *plan, json_t *keys_seen, size_t *n_reached, bool *noted,
                                    struct kg_error *err) {
    struct kg_suite_program *reached = kg_xcalloc(found->n_items + 1, sizeof *reached);
    *n_reached = 0;
    for (size_t i = 0; i < found->n_items; i++)
        if (kg_selection_reaches(selection, found->items[i].name)) reached[(*n_reached)++] = found->items[i];
    struct kg_listing *listings = kg_xcalloc(*n_reached + 1, sizeof *listings);
    *noted = get_listings(reached, *n_reached, selection, around, by_notes, listings);
    const enum kg_status status = check_builds(reached, listings, *n_reached, err);
    for (size_t i = 0; i < *n_reached; i++)
        add_program(plan, &reached[i], &listings[i], keys_seen, selection, around->seed);
    free(listings);
    free(reached);
    return status;
}

static enum kg_status make_plan(struct kg_suite_programs *found, const char *suites_dir,
                                const struct kg_selection *selection, const struct kg_child_surroundings *around,
                                bool by_notes, struct kg_case_plan *plan, bool *noted, struct kg_error *err) {
    *plan = (struct kg_case_plan){ 0 };
    json_t *keys_seen = json_object();
    size_t n_reached;
    enum kg_status status = list_programs(found, selection, around, by_notes, plan, keys_seen, &n_reached, noted, err);
    if (status == KG_OK && found->n_items == 0)
        status =
            kg_fail(err, KG_ERR_INCOMPLETE, "no suite program (%s*) in %s or the folders in it; 'make' builds them",
                    selection->prefix ? selection->prefix : "test_", suites_dir);
    for (size_t i = 0; i < selection->n_keys && status == KG_OK; i++)
        if (!json_object_get(keys_seen, selection->keys[i]))
            status = kg_fail(err, KG_ERR_INCOMPLETE, "no suite program has the case '%s'", selection->keys[i]);
    if (status == KG_OK && plan->n_cases == 0)
        status = kg_fail(err, KG_ERR_INCOMPLETE,
                         "nothing to run: of %zu cases in %zu programs none was selected (--list alone names them)",
                         json_object_size(keys_seen), n_reached);
    json_decref(keys_seen);
    if (status != KG_OK) kg_case_plan_free(plan);
    return status;
}

enum kg_status kg_case_plan_make(const char *suites_dir, const struct kg_selection *selection,
                                 const struct kg_child_surroundings *around, struct kg_case_plan *plan,
                                 struct kg_error *err) {
    struct kg_suite_programs found;
    struct kg_error why;
    bool noted;
    enum kg_status status =
        kg_suites_discover(suites_dir, selection->prefix ? selection->prefix : "test_", &found, &why);
    if (status != KG_OK) return kg_fail(err, KG_ERR_INCOMPLETE, "no suites: %s", why.message);
    status = make_plan(&found, suites_dir, selection, around, true, plan, &noted, err);
    /* That a case is missing is said by the programs alone. */
    if (status != KG_OK && noted) status = make_plan(&found, suites_dir, selection, around, false, plan, &noted, err);
    kg_suite_programs_free(&found);
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
