/* What rounding to MXFP4 does to weights, from the format alone (OCP Microscaling Formats v1.0: a block of 32 has the
 * scale 2^(floor(log2 largest) - 2), its elements are 0, .5, 1, 1.5, 2, 3, 4, 6 times it): nothing here asks kigo's
 * encoder. */
#ifndef KIGO_SUITES_MXFP4_NOISE_H
#define KIGO_SUITES_MXFP4_NOISE_H

#include "suites/support/gguf_edit.h"
#include <stdbool.h>

/* A quantiser; the zero one is the right one. */
struct kg_mxfp4_quantiser {
    int scale_steps;   /* the scale is so many powers of two larger */
    bool scale_up;     /* ceil(log2 largest) - 2 */
    bool toward_zero;  /* in place of to nearest, ties to even */
    int read_steps;    /* the scale is read as so many powers of two larger than it was written */
    bool swap_nibbles; /* elements i and i + 16 of a block, for i < 16, are exchanged when it is read */
};

/* values[n] become what it makes of them; n in whole blocks. */
void kg_mxfp4_quantise(const struct kg_mxfp4_quantiser *q, float *values, uint64_t n);

/* `change` functions of struct kg_gguf_edit, of tensors of two dimensions; of the others nothing changes. Both store
 * F32. */

/* user: const struct kg_mxfp4_quantiser *; the values that it makes of the tensor's. */
void kg_mxfp4_quantised(struct kg_edited_tensor *t, const void *user);

/* user: const uint64_t *, a seed. Adds to each weight a number as large as its rounding to nearest may be, drawn evenly
 * from its step; beyond the largest element, what is cut off, with a random sign. Independent of one another. */
void kg_mxfp4_noise(struct kg_edited_tensor *t, const void *user);

#endif
