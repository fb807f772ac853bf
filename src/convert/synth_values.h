/* Random tensor data, fast and by counter. */
#ifndef KIGO_CONVERT_SYNTH_VALUES_H
#define KIGO_CONVERT_SYNTH_VALUES_H

#include "base/threads.h"
#include "convert/synth.h"

struct kg_synth_values; /* tables for one tensor after another */

struct kg_synth_values *kg_synth_values_new(void);
void kg_synth_values_free(struct kg_synth_values *v);

/* The n_bytes at offset_bytes of a tensor (F32, F16 or MXFP4; offset as kg_gguf_fill_fn says), by all threads of the
 * pool. */
void kg_synth_values_fill(struct kg_synth_values *v, const struct kg_synth_tensor *tensor, uint64_t seed,
                          struct kg_thread_pool *pool, uint64_t offset_bytes, void *to, size_t n_bytes);

#endif
