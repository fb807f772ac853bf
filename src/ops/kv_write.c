#include "ops/kv_write.h"
#include "ops/check.h"
#include <string.h>

enum kg_status kg_kv_write_check(const struct kg_kv_write_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->k && args->v && args->k_cache && args->v_cache, "kv_write: k, v or a cache is missing");
    KG_OP_REQUIRE(args->n_kv_heads && args->head_dim, "kv_write: %u heads of %u", args->n_kv_heads, args->head_dim);
    if (args->position > args->n_ctx || args->n_rows > args->n_ctx - args->position)
        return kg_fail(err, KG_ERR_RANGE, "kv_write: %u rows from position %u do not fit a cache of %u", args->n_rows,
                       args->position, args->n_ctx);
    return KG_OK;
}

enum kg_status kg_cpu_kv_write(struct kg_thread_pool *pool, const struct kg_kv_write_args *args, struct kg_error *err) {
    (void)pool; /* a copy: bound by memory */
    enum kg_status status = kg_kv_write_check(args, err);
    if (!status) status = kg_cpu_require_f32("kv_write", "activations", args->activations, err);
    if (!status) status = kg_cpu_require_f32("kv_write", "KV cache", args->kv, err);
    if (status) return status;

    const size_t dim = args->head_dim;
    for (size_t r = 0; r < args->n_rows; r++) {
        for (size_t h = 0; h < args->n_kv_heads; h++) {
            const size_t from = (r * args->n_kv_heads + h) * dim;
            const size_t to = (h * args->n_ctx + args->position + r) * dim;
            memcpy((float *)args->k_cache + to, (const float *)args->k + from, dim * sizeof(float));
            memcpy((float *)args->v_cache + to, (const float *)args->v + from, dim * sizeof(float));
        }
    }
    return KG_OK;
}
