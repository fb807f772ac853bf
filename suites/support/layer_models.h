/* The models that have goldens, and the back ends and precisions that they are compared on. Among them are plain FP16
 * implementations that set no limits (plain_f16.h): what the f16 limits must accept, on machines without a GPU too. */
#ifndef KIGO_SUITES_LAYER_MODELS_H
#define KIGO_SUITES_LAYER_MODELS_H

#include "backend/backend.h"
#include <kigo/engine.h>
#include <stddef.h>

struct kg_layer_model {
    const char *name;
    const char *model, *golden; /* below fixtures/ */
    double float32_nmse;        /* of the logits of transformers' float32 against its float64, from origin.json */
};
extern const struct kg_layer_model kg_layer_models[];
extern const size_t kg_n_layer_models;
const struct kg_layer_model *kg_layer_model_find(const char *name); /* never NULL: an unknown name ends the program */

/* Limit of the logits' NMSE between two orders of the same float32 sums (another chunk, another kernel), in units of
 * float32_nmse: two that err as much as transformers' float32 are at most twice that error apart, 4 times its square.
 */
#define KG_LAYER_TIMES_FLOAT32 4
#define KG_LAYER_WHY_FLOAT32                                                                                           \
    "two orders of float32 sums, each no farther from double sums than transformers' float32 is in this model"

/* Limit of the logits' NMSE between two ways that round to float16 in other places (another chunk, another kernel): the
 * 1e-2 asked of FP16 logits, squared. The plain FP16 implementations (plain_f16.h) are up to 7.5e-5 from float64 in one
 * row of these models; a slot, a mask or a head that is wrong is 1e-2 and more. */
#define KG_LAYER_NMSE_F16 1e-4
#define KG_LAYER_WHY_F16 "1e-2 of the logits' root mean square, which plain FP16 implementations keep against float64"

struct kg_layer_backend {
    const char *name, *dtype;
    enum kg_precision activations, kv;
    const struct kg_backend_ops *(*ops)(void); /* NULL: the back end's own table */
};
extern const struct kg_layer_backend kg_layer_backends[];
extern const size_t kg_n_layer_backends;

#endif
