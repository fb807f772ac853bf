#include "cli/suite_run.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/say.h"
#include "bundle/built_from.h"
#include "bundle/places.h"
#include "format/gguf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kg_cli_inside_run(void) {
    const char *outer = getenv("KIGO_BUILT_FROM");
    return outer && strcmp(outer, kg_built_from()) == 0;
}

char *kg_cli_suites_dir(const char *given) {
    const char *from_environment = getenv("KIGO_SUITES");
    if (given) return kg_xstrdup(given);
    return from_environment && *from_environment ? kg_xstrdup(from_environment) : kg_xstrdup(kg_places()->suites);
}

/* Of its header alone: a file that no case could read is refused before any runs. */
static enum kg_status is_model(const char *path, struct kg_error *err) {
    struct kg_gguf *gguf;
    const enum kg_status status = kg_gguf_open(path, &gguf, err);
    if (status != KG_OK) return kg_error_context(err, status, "--model");
    kg_gguf_close(gguf);
    return KG_OK;
}

enum kg_status kg_cli_model_paths(const struct kg_option_list *models, char **paths, struct kg_error *err) {
    struct kg_buffer text = KG_BUFFER_INIT;
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < models->n_items && status == KG_OK; i++) {
        char *path = realpath(models->items[i], NULL);
        if (!path || strchr(path, '\n'))
            status = kg_fail(err, KG_ERR_NOT_FOUND, "--model: there is no file '%s'", models->items[i]);
        else if ((status = is_model(path, err)) == KG_OK) kg_buffer_printf(&text, "%s%s", text.len ? "\n" : "", path);
        free(path);
    }
    if (status == KG_OK) *paths = text.data;
    else kg_buffer_free(&text);
    return status;
}

/* A case of the plan: its line in the array that --json prints, else its key. */
static void list_case(json_t *lines, json_t *line) {
    if (!line) return;
    if (lines) json_array_append(lines, line);
    else kg_say(stdout, "%s\n", json_string_value(json_object_get(line, "key")));
}

enum kg_status kg_cli_print_plan(const char *verb, const struct kg_run_options *options, bool json,
                                 struct kg_error *err) {
    struct kg_case_plan plan;
    const enum kg_status status =
        kg_case_plan_make(options->suites_dir, &options->selection, &options->surroundings, &plan, err);
    if (status != KG_OK) return status;
    json_t *lines = json ? json_array() : NULL;
    for (size_t p = 0; p < plan.n_programs; p++) {
        const struct kg_planned_program *program = &plan.programs[p];
        if (program->list_error) kg_say(stderr, "kigo %s: %s: %s\n", verb, program->name, program->list_error);
        list_case(lines, program->lists);
        for (size_t i = 0; i < program->n_cases; i++) list_case(lines, program->cases[i].line);
        list_case(lines, program->ends_cleanly);
    }
    if (json) kg_say_json(lines, JSON_COMPACT);
    json_decref(lines);
    kg_case_plan_free(&plan);
    return KG_OK;
}

json_t *kg_cli_texts_json(const struct kg_option_list *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->n_items; i++) json_array_append_new(array, kg_json_utf8(list->items[i]));
    return array;
}
