/* Which cases of the suites a run takes. */
#ifndef KIGO_RUN_SELECTION_H
#define KIGO_RUN_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kg_selection {
    const char *const *layers;
    size_t n_layers;
    const char *const *filters; /* globs over keys, * crosses / */
    size_t n_filters;
    const char *const *keys; /* exact */
    size_t n_keys;
    const char *const *within; /* globs, one of which every key must match as well */
    size_t n_within;           /* 0: any key */
    const char *const *words;  /* texts, one of which every key must hold, large or small letters; 0: any key */
    size_t n_words;
    const char *const *specs; /* requirements, one of which every case must carry; 0: any case */
    size_t n_specs;
    const char *without; /* a glob of keys that are only run when one of keys names them; NULL: none */
    uint64_t one_in;     /* a sample: the cases whose seed of run 1 divides by it, and all of keys; 0: every case */
    const char *prefix;  /* of the programs' names; NULL: "test_" */
};

/* spec: the case's, NULL where it has none. */
bool kg_selection_takes(const struct kg_selection *selection, const char *key, const char *layer, const char *spec);

/* Whether it takes the program whole, by one of the harness's own cases about it: its key was asked for, or their
 * layer. */
bool kg_selection_takes_whole(const struct kg_selection *selection, const char *harness_key);

/* False if the selection takes no case that the program ("unit/test_gguf") may list, by the layers of its folder. */
bool kg_selection_reaches(const struct kg_selection *selection, const char *program);

#endif
