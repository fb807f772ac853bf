#include "cli/check_choice.h"
#include "base/buffer.h"
#include "bundle/records.h"
#include "cli/bundles.h"
#include "run/layers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct kg_chosen *chosen, const char *text) {
    chosen->items = kg_xrealloc(chosen->items, (chosen->n_items + 1) * sizeof *chosen->items);
    chosen->items[chosen->n_items++] = kg_xstrdup(text);
}

void kg_chosen_free(struct kg_chosen *chosen) {
    for (size_t i = 0; i < chosen->n_items; i++) free(chosen->items[i]);
    free(chosen->items);
    *chosen = (struct kg_chosen){ 0 };
}

static enum kg_status add_layer(struct kg_chosen *layers, const char *layer, struct kg_error *err) {
    if (strcmp(layer, "bench") == 0)
        return kg_fail(err, KG_ERR_USAGE, "--layer: cases of the layer bench are run by 'kigo bench'");
    if (!kg_layer_known(layer)) return kg_fail(err, KG_ERR_USAGE, "--layer: '%s' is none of %s", layer, KG_LAYER_NAMES);
    add(layers, layer);
    return KG_OK;
}

enum kg_status kg_check_layers(const struct kg_option_list *given, struct kg_chosen *layers, struct kg_error *err) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < given->n_items && status == KG_OK; i++) {
        const char *rest = given->items[i];
        while (status == KG_OK) {
            const size_t len = strcspn(rest, ",");
            char *layer = kg_xstrndup(rest, len);
            status = add_layer(layers, layer, err);
            free(layer);
            if (!rest[len]) break;
            rest += len + 1;
        }
    }
    if (status != KG_OK) kg_chosen_free(layers);
    return status;
}

/* The folder of the newest run that `kigo check` made, and what it says of itself; NULL if there is none. */
static enum kg_status find_last_check(const char *root, char **dir, json_t **env, struct kg_error *err) {
    for (size_t n_before = 0;; n_before++) {
        char *name = kg_xasprintf("latest~%zu", n_before);
        enum kg_status status = kg_cli_bundle_find(root, name, dir, err);
        free(name);
        if (status == KG_ERR_NOT_FOUND) return KG_OK;
        if (status == KG_OK) status = kg_bundle_read_json(*dir, "data/env.json", env, err);
        if (status != KG_OK) return status;
        const json_t *argv = json_object_get(json_object_get(*env, "run"), "argv");
        const char *verb = json_string_value(json_array_get(argv, 0));
        if (verb && strcmp(verb, "check") == 0) return KG_OK;
        json_decref(*env);
        *env = NULL;
        free(*dir);
        *dir = NULL;
    }
}

static bool is_red(const char *status) {
    return status && (strcmp(status, "fail") == 0 || strcmp(status, "crash") == 0 || strcmp(status, "timeout") == 0);
}

enum kg_status kg_check_failed(const char *root, struct kg_chosen *keys, char **run_id, uint64_t *seed,
                               struct kg_error *err) {
    char *dir = NULL;
    json_t *env = NULL;
    struct kg_records records = { 0 };
    struct kg_bundle_findings findings = { NULL, 0 };
    enum kg_status status = find_last_check(root, &dir, &env, err);
    *run_id = NULL;
    if (status != KG_OK) return kg_error_context(err, status, "--failed");
    if (!dir) return KG_OK;
    status = kg_records_load_results(dir, &records, &findings, err);
    if (status == KG_OK && findings.n_items > 0)
        status = kg_fail(err, KG_ERR_INTEGRITY, "--failed: %s: %s %s", dir, findings.items[0].what,
                         findings.items[0].detail);
    for (size_t i = 0; i < records.n_cases && status == KG_OK; i++)
        if (is_red(kg_json_text(records.cases[i].result, "status"))) add(keys, records.cases[i].key);
    const char *text = kg_json_text(json_object_get(env, "run"), "seed");
    if (status == KG_OK && text) status = kg_parse_u64(text, seed, err);
    if (status == KG_OK) *run_id = kg_xstrdup(strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir);
    kg_bundle_findings_free(&findings);
    kg_records_free(&records);
    json_decref(env);
    free(dir);
    return status;
}
