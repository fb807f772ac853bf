/* Making a file image wrong in the ways files go wrong, from a random generator, so that a seed says which way. */
#ifndef KIGO_SUITES_FUZZ_MUTATE_H
#define KIGO_SUITES_FUZZ_MUTATE_H

#include "base/buffer.h"
#include "base/rng.h"

/* What the bytes are made of: three images in four are changed by it, one by bytes alone. */
enum kg_fuzz_form {
    KG_FUZZ_BYTES,
    KG_FUZZ_GGUF,        /* counts, lengths, types, dims, offsets */
    KG_FUZZ_SAFETENSORS, /* a length, and JSON of that length */
    KG_FUZZ_JSON,        /* values, members, nesting */
    KG_FUZZ_LINES,       /* lines of text, or of JSON */
    KG_FUZZ_TAR,         /* fields of 512-byte headers */
};

enum { KG_FUZZ_MAX_BYTES = 1 << 18 }; /* images grow no further */

/* Changes the image 1 to 4 times. other: an image to take parts from. */
void kg_mutate(enum kg_fuzz_form form, struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);

/* One change each, of a form. They leave an image alone that has nothing of the kind. */
void kg_mutate_bytes(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);
void kg_mutate_gguf(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);
void kg_mutate_safetensors(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);
void kg_mutate_json(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);
void kg_mutate_lines(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);
void kg_mutate_tar(struct kg_buffer *image, const struct kg_buffer *other, struct kg_rng *rng);

/* For the above: a number that parsers trip over; bytes put in the place of n others. */
uint64_t kg_mutate_edge(struct kg_rng *rng);
void kg_mutate_replace(struct kg_buffer *image, size_t at, size_t n, const void *with, size_t n_with);

#endif
