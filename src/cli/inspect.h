/* What `kigo inspect` shows of a GGUF file, as text and as JSON. */
#ifndef KIGO_CLI_INSPECT_H
#define KIGO_CLI_INSPECT_H

#include "base/buffer.h"
#include "format/gguf.h"
#include <stdbool.h>

struct kg_inspect_parts {
    bool keys, tensors;
    bool full; /* arrays and long texts without abbreviation */
};

/* Tensors of one type. */
struct kg_inspect_total {
    uint64_t n_tensors, n_params, size_bytes;
};

struct kg_inspect_totals {
    struct kg_inspect_total all;
    struct kg_inspect_total by_type[KG_DTYPE_COUNT];
};

void kg_inspect_text(struct kg_buffer *out, const struct kg_gguf *gguf, const struct kg_inspect_totals *totals,
                     const struct kg_inspect_parts *parts);
/* One object and a newline. */
void kg_inspect_json(struct kg_buffer *out, const struct kg_gguf *gguf, const struct kg_inspect_totals *totals,
                     const struct kg_inspect_parts *parts);

/* How kigo computes the file's model (windows, experts, positions), or why it does not: lines after the metadata, or
 * the object "model". */
void kg_inspect_model_text(struct kg_buffer *out, const struct kg_gguf *gguf);
void kg_inspect_model_json(struct kg_buffer *out, const struct kg_gguf *gguf);

#endif
