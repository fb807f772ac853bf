/* Random tensor data from a counter-based generator. */
#ifndef KIGO_CONVERT_SYNTH_VALUES_H
#define KIGO_CONVERT_SYNTH_VALUES_H

#include "base/threads.h"
#include "convert/synth.h"

struct kg_synth_values; /* lookup tables, rebuilt for each tensor */

struct kg_synth_values *kg_synth_values_new(void);
void kg_synth_values_free(struct kg_synth_values *v);

/* Generates the n_bytes at offset_bytes of a tensor on all threads of the pool; offsets are those of
 * kg_gguf_fill_fn. */
void kg_synth_values_fill(struct kg_synth_values *v, const struct kg_synth_tensor *tensor, uint64_t seed,
                          struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes);

#endif
