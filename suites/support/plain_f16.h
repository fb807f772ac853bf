/* Plain FP16 back ends: what rounding to FP16 costs when nothing clever is done, measured rather than guessed.
 *
 * Activations and cache are halves in host memory, sums are wider, every operation is a loop. They differ in where they
 * round, as implementations do. The first KG_PLAIN_F16_LIMITS set limits (layer_compare.h): transformers' way in
 * float16, where each elementary step is rounded, and one rounding of each operation's result with attention unfused.
 * The others are for testing that such limits accept implementations that set none of them. They serve activations and
 * a cache of f16 only. */
#ifndef KIGO_SUITES_PLAIN_F16_H
#define KIGO_SUITES_PLAIN_F16_H

#include "backend/backend.h"
#include <stddef.h>

enum kg_plain_f16_style {
    KG_PLAIN_F16_ELEMENTARY,
    KG_PLAIN_F16_BY_OPERATION,
    KG_PLAIN_F16_LIMITS,
    KG_PLAIN_F16_FUSED =
        KG_PLAIN_F16_LIMITS, /* float32 sums in 16 parts, scores in float32, weights before their sum */
    KG_PLAIN_F16_SCALED_Q,   /* elementary, but q scale rounded and the scores not */
    KG_PLAIN_F16_ALL,
};

/* The table of a style, its name saying how it rounds; NULL from KG_PLAIN_F16_ALL on. */
const struct kg_backend_ops *kg_plain_f16(size_t style);

#endif
