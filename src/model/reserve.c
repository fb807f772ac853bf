#include "model/reserve.h"

/* What a back end begins a block on. */
enum { LINE_BYTES = 256 };

static uint64_t lines(uint64_t bytes) {
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

enum kg_status kg_weights_reserve(const struct kg_gguf *gguf, uint64_t more_bytes, struct kg_backend *backend,
                                  struct kg_error *err) {
    uint64_t size_bytes = lines(more_bytes);
    if (!backend->ops->reserve_weights) return KG_OK;
    for (size_t i = 0; i < kg_gguf_n_tensors(gguf); i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(gguf, i);
        size_bytes += lines(t->n_elems == t->dims[0] ? t->n_elems * sizeof(float) : t->size_bytes);
    }
    return backend->ops->reserve_weights(backend, size_bytes, kg_gguf_map(gguf), err);
}

enum kg_status kg_weights_end_reservation(struct kg_backend *backend, enum kg_status status, struct kg_error *err) {
    struct kg_error later;
    if (!backend->ops->reserve_weights) return status;
    const enum kg_status ended = backend->ops->reserve_weights(backend, 0, NULL, status ? &later : err);
    return status ? status : ended;
}
