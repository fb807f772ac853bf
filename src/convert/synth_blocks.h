/* Random blocks of the quantised formats, made in the format itself: a byte an element chooses one of 256 quantiles of
 * the normal distribution, rounded to the format's levels; scales vary from block to block and from group to group, as
 * those of trained weights do. All elements together have mean 0 and the deviation asked for. */
#ifndef KIGO_CONVERT_SYNTH_BLOCKS_H
#define KIGO_CONVERT_SYNTH_BLOCKS_H

#include "format/dtype.h"

enum { KG_SYNTH_QUANTILES = 256, KG_SYNTH_SCALES = 16 };

/* Which numbers of the generator a block takes: those of (seed, stream) that belong to its index in the tensor. */
struct kg_synth_source {
    uint64_t seed, stream, index;
};

/* Tables of one dtype and deviation. */
struct kg_synth_blocks {
    uint8_t code[KG_SYNTH_QUANTILES];                            /* a level as the format stores it */
    uint16_t scale[KG_SYNTH_SCALES], min_scale[KG_SYNTH_SCALES]; /* f16; the second of Q4_K and Q5_K alone */
    uint8_t exponent;                                            /* MXFP4: the larger of a block's two */
    void (*make)(const struct kg_synth_blocks *tables, struct kg_synth_source from, uint8_t *block);
};

/* normal: the quantiles, ascending, mean 0 and deviation 1. The dtype is one of blocks, not of floats. */
void kg_synth_blocks_make(struct kg_synth_blocks *tables, enum kg_dtype dtype, double deviation,
                          const double normal[KG_SYNTH_QUANTILES]);

#endif
