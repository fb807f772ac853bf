#include "run/selection.h"
#include "run/case_key.h"
#include "run/layers.h"
#include <fnmatch.h>
#include <string.h>

static bool in_list(const char *const *list, size_t n, const char *text) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], text) == 0) return true;
    return false;
}

static bool matches_one(const char *const *globs, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (fnmatch(globs[i], key, 0) == 0) return true;
    return false;
}

static bool holds_one(const char *const *words, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (strcasestr(key, words[i])) return true;
    return false;
}

bool kg_selection_takes(const struct kg_selection *s, const char *key, const char *layer, const char *spec) {
    if (s->n_layers > 0 && !in_list(s->layers, s->n_layers, layer)) return false;
    if (s->n_words > 0 && !holds_one(s->words, s->n_words, key)) return false;
    if (s->n_specs > 0 && !(spec && in_list(s->specs, s->n_specs, spec))) return false;
    if (s->n_within > 0 && !matches_one(s->within, s->n_within, key)) return false;
    if (in_list(s->keys, s->n_keys, key)) return true;
    if (s->without && fnmatch(s->without, key, 0) == 0) return false;
    if (s->one_in > 1 && kg_case_seed(KG_DEFAULT_RUN_SEED, key) % s->one_in != 0) return false;
    return (s->n_filters == 0 && s->n_keys == 0) || matches_one(s->filters, s->n_filters, key);
}

bool kg_selection_takes_whole(const struct kg_selection *s, const char *harness_key) {
    const bool asked = in_list(s->keys, s->n_keys, harness_key) || in_list(s->layers, s->n_layers, KG_HARNESS_LAYER);
    return asked && kg_selection_takes(s, harness_key, KG_HARNESS_LAYER, NULL);
}

/* Whether a key of the layer could match the glob, by what stands before the glob's first special character. */
static bool may_match(const char *glob, const char *layer) {
    const size_t len = strlen(layer), literal = strcspn(glob, "*?[\\");
    if (literal <= len) return glob[literal] && memcmp(glob, layer, literal) == 0;
    return memcmp(glob, layer, len) == 0 && glob[len] == '/';
}

static bool any_may_match(const char *const *globs, size_t n, const char *layer) {
    for (size_t i = 0; i < n; i++)
        if (may_match(globs[i], layer)) return true;
    return false;
}

static bool asks_for(const struct kg_selection *s, const char *layer) {
    bool wanted = s->n_layers == 0;
    for (size_t i = 0; i < s->n_layers; i++) wanted = wanted || strcmp(s->layers[i], layer) == 0;
    if (!wanted || (s->n_within > 0 && !any_may_match(s->within, s->n_within, layer))) return false;
    return (s->n_filters == 0 && s->n_keys == 0) || any_may_match(s->filters, s->n_filters, layer) ||
           any_may_match(s->keys, s->n_keys, layer);
}

bool kg_selection_reaches(const struct kg_selection *s, const char *program) {
    if (kg_layer_fits("", program)) return true;                          /* its folder is bound to no layers */
    if (any_may_match(s->keys, s->n_keys, KG_HARNESS_LAYER)) return true; /* harness/<program>/...: all have some */
    if (in_list(s->layers, s->n_layers, KG_HARNESS_LAYER)) return true;
    for (size_t i = 0; i < KG_N_LAYERS; i++)
        if (kg_layer_fits(KG_LAYERS[i], program) && asks_for(s, KG_LAYERS[i])) return true;
    return false;
}
