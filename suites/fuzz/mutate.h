/* Making a file image wrong in the ways files go wrong, from a random generator, so that a seed says which way. */
#ifndef KIGO_SUITES_FUZZ_MUTATE_H
#define KIGO_SUITES_FUZZ_MUTATE_H

#include "base/buffer.h"
#include "base/rng.h"

/* Changes the image 1 to 4 times: bits, bytes and whole numbers overwritten, ranges removed, repeated, moved or cut. */
void kg_mutate(struct kg_buffer *image, struct kg_rng *rng);

#endif
