/* kv_write: appends n_rows keys and values to a layer's KV cache.
 *
 *     k_cache[h][position + r] = k[r][h],    v_cache[h][position + r] = v[r][h]
 *
 * The cache is head-major: the keys of one head are a dense (n_ctx, head_dim) matrix. */
#ifndef KIGO_OPS_KV_WRITE_H
#define KIGO_OPS_KV_WRITE_H

#include "base/threads.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <stdint.h>

struct kg_kv_write_args {
    enum kg_precision activations, kv;
    const void *k, *v;       /* (n_rows, n_kv_heads, head_dim) */
    void *k_cache, *v_cache; /* (n_kv_heads, n_ctx, head_dim) */
    uint32_t n_rows, n_kv_heads, head_dim;
    uint32_t n_ctx;
    uint32_t position; /* position + n_rows <= n_ctx, else KG_ERR_RANGE */
};

KG_WARN_UNUSED enum kg_status kg_kv_write_check(const struct kg_kv_write_args *args, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cpu_kv_write(struct kg_thread_pool *pool, const struct kg_kv_write_args *args,
                                              struct kg_error *err);

#endif
