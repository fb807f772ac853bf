#include "engine/kv_cache.h"
#include "base/size.h"

/* Saturates: a size that does not fit cannot be allocated either, and the allocator says so. */
static uint64_t bytes_of(uint32_t n_layers, uint32_t n_kv_heads, uint32_t head_dim, uint32_t n_ctx,
                         enum kg_precision precision) {
    uint64_t bytes = 2 * kg_precision_bytes(precision);
    if (!kg_mul_u64(bytes, n_layers, &bytes) || !kg_mul_u64(bytes, n_kv_heads, &bytes) ||
        !kg_mul_u64(bytes, head_dim, &bytes) || !kg_mul_u64(bytes, n_ctx, &bytes))
        return UINT64_MAX;
    return bytes;
}

uint64_t kg_kv_cache_bytes(const struct kg_model_config *config, uint32_t n_ctx, enum kg_precision kv) {
    return bytes_of(config->n_layers, config->n_kv_heads, config->head_dim, n_ctx, kv);
}

enum kg_status kg_kv_cache_create(struct kg_backend *backend, const struct kg_model_config *config, uint32_t n_ctx,
                                  enum kg_precision precision, struct kg_kv_cache *cache, struct kg_error *err) {
    struct kg_kv_cache made = { .n_layers = config->n_layers,
                                .n_kv_heads = config->n_kv_heads,
                                .head_dim = config->head_dim,
                                .n_ctx = n_ctx,
                                .precision = precision };
    const enum kg_status status = backend->ops->alloc(
        backend, KG_MEMORY_KV, kg_kv_cache_bytes(config, n_ctx, precision), "the KV cache", &made.block, err);
    if (status) return status;
    *cache = made;
    return KG_OK;
}

void kg_kv_cache_free(struct kg_backend *backend, struct kg_kv_cache *cache) {
    backend->ops->free(backend, &cache->block);
}

static void *plane(const struct kg_kv_cache *cache, uint64_t index) {
    const uint64_t plane_bytes = bytes_of(1, cache->n_kv_heads, cache->head_dim, cache->n_ctx, cache->precision) / 2;
    return (char *)cache->block.data + index * plane_bytes;
}

void *kg_kv_cache_keys(const struct kg_kv_cache *cache, uint32_t layer) {
    return plane(cache, 2 * (uint64_t)layer);
}

void *kg_kv_cache_values(const struct kg_kv_cache *cache, uint32_t layer) {
    return plane(cache, 2 * (uint64_t)layer + 1);
}
