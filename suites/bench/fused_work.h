/* What the benches of fused kernels work on: a chain of fused_chain.h at a published model's shape, in memory of its
 * own, lowered as the back end fuses it, or from a table whose operations are not the back end's own, so that no fusion
 * takes them. Either way it runs as a lowered plan does. */
#ifndef KIGO_SUITES_FUSED_WORK_H
#define KIGO_SUITES_FUSED_WORK_H

#include "suites/support/fused_chain.h"
#include "suites/support/machine.h"
#include <stdbool.h>

enum { KG_FUSED_MOST_LAYERS = 48, KG_FUSED_SHARED_BLOCKS = 8, KG_FUSED_LAYER_BLOCKS = 3 + KG_CHAIN_MATRICES };

struct kg_fused_work {
    struct kg_bench_machine *machine;
    struct kg_chain_shape shape;
    uint32_t n_biases; /* the first n matrices have one */
    bool fused;
    uint32_t n_layers;
    struct kg_fused_chain chain; /* of all layers, one after another */
    struct kg_chain_memory layers[KG_FUSED_MOST_LAYERS];
    struct kg_block blocks[KG_FUSED_SHARED_BLOCKS + KG_FUSED_MOST_LAYERS * KG_FUSED_LAYER_BLOCKS];
    size_t n_blocks;
    /* Of blocks, shared by all layers as a model's are; NULL: the chain has none. LAYER has a cache for each. */
    const struct kg_block *x, *residual, *normed, *results, *caches, *workspace;
};

/* Makes n_layers of machine, shape, n_biases and fused, which are set, and lowers them; 0: as many as have weights
 * beyond twice the last-level cache, so that they are cold. Weights are normal, of the shape's format, repacked as
 * those of a model that is loaded; products are of size 1. */
void kg_fused_work_open(struct kg_fused_work *w, uint32_t n_layers);
void kg_fused_work_close(struct kg_fused_work *w);

/* Inputs and caches as at first, NaN in what is computed. */
void kg_fused_work_reset(struct kg_fused_work *w);

/* Fails the case unless the first layer, lowered like all of them, gives what its nodes give one by one, and resets. */
void kg_fused_work_expect_same(struct kg_fused_work *w);

/* Fails the case unless all results are finite. */
void kg_fused_work_expect_written(const struct kg_fused_work *w);

uint64_t kg_fused_weight_bytes(const struct kg_chain_shape *shape); /* of a layer's matrices that a pass reads */

/* Fails the case unless each of n results is within 1e-2 of the other, relative to it or, if that is larger, to
 * `size`. */
void kg_fused_expect_same(const float *got, const float *want, uint64_t n, double size);

#endif
