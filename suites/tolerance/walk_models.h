/* The models that have goldens, and the back ends and precisions they are walked on. */
#ifndef KIGO_SUITES_WALK_MODELS_H
#define KIGO_SUITES_WALK_MODELS_H

#include <kigo/engine.h>
#include <stddef.h>

struct kg_walk_model {
    const char *name;
    const char *model, *golden; /* below fixtures/ */
};
extern const struct kg_walk_model kg_walk_models[];
extern const size_t kg_n_walk_models;
const struct kg_walk_model *kg_walk_model_find(const char *name); /* never NULL: an unknown name ends the program */

struct kg_walk_backend {
    const char *name;
    enum kg_precision activations, kv;
};
extern const struct kg_walk_backend kg_walk_backends[];
extern const size_t kg_n_walk_backends;

#endif
