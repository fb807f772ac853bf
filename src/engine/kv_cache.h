/* The KV cache of a session: keys and values of every layer and position, in one block of back-end memory.
 *
 * Layout: layer by layer, keys then values, each (n_kv_heads, n_ctx, head_dim) as ops/kv_write.h writes it. */
#ifndef KIGO_ENGINE_KV_CACHE_H
#define KIGO_ENGINE_KV_CACHE_H

#include "backend/backend.h"
#include <kigo/engine.h>

struct kg_kv_cache {
    struct kg_block block;
    uint32_t n_layers, n_kv_heads, head_dim, n_ctx;
    enum kg_precision precision;
};

/* KG_ERR_NO_MEMORY if there is not enough. */
KG_WARN_UNUSED enum kg_status kg_kv_cache_create(struct kg_backend *backend, const struct kg_model_config *config,
                                                 uint32_t n_ctx, enum kg_precision precision, struct kg_kv_cache *cache,
                                                 struct kg_error *err);
void kg_kv_cache_free(struct kg_backend *backend, struct kg_kv_cache *cache);

/* Where a layer's keys and values begin; layer < n_layers. */
void *kg_kv_cache_keys(const struct kg_kv_cache *cache, uint32_t layer);
void *kg_kv_cache_values(const struct kg_kv_cache *cache, uint32_t layer);

#endif
