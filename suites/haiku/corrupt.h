/* Copies of a model file with some of its weights spoilt: what the haiku suite must refuse. */
#ifndef KIGO_SUITES_CORRUPT_H
#define KIGO_SUITES_CORRUPT_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

/* Changes a tensor's bytes in place. */
typedef void (*kg_spoil_fn)(uint8_t *data, size_t size_bytes);

void kg_spoil_zero(uint8_t *data, size_t size_bytes);
/* A seeded permutation of the 2-byte elements. */
void kg_spoil_shuffle(uint8_t *data, size_t size_bytes);
/* The two halves exchanged: of a matrix, rows under other rows' numbers. */
void kg_spoil_swap_halves(uint8_t *data, size_t size_bytes);
/* Every bit of every 16-bit element's sign flipped. */
void kg_spoil_negate_f16(uint8_t *data, size_t size_bytes);

/* Writes `to` as `from` is, with the tensors whose name matches the glob spoilt; *n_spoilt counts them. */
KG_WARN_UNUSED enum kg_status kg_model_corrupt(const char *from, const char *to, const char *glob, kg_spoil_fn spoil,
                                               size_t *n_spoilt, struct kg_error *err);

#endif
