/* The KV cache: its size, and that every head's every slot is written once and nothing else is. */
#include "base/size.h"
#include "engine/kv_cache.h"
#include "suites/harness/case.h"
#include "suites/harness/compare.h"
#include <check.h>
#include <math.h>
#include <string.h>

struct known_size {
    const char *name;
    struct kg_model_config config;
    uint32_t n_ctx;
    enum kg_precision kv;
    uint64_t bytes;
};

#define CONFIG(layers, kv_heads, dim)                                                                                  \
    { .n_layers = layers, .n_kv_heads = kv_heads, .head_dim = dim }
static const struct known_size SIZES[] = {
    { "qwen2_5_0_5b_f16_512", CONFIG(24, 2, 64), 512, KG_PRECISION_F16, UINT64_C(6) << 20 },
    { "phi_3_mini_f16_512", CONFIG(32, 32, 96), 512, KG_PRECISION_F16, UINT64_C(192) << 20 },
    { "f32_is_twice_f16", CONFIG(24, 2, 64), 512, KG_PRECISION_F32, UINT64_C(12) << 20 },
    { "f8_is_half_of_f16", CONFIG(24, 2, 64), 512, KG_PRECISION_F8, UINT64_C(3) << 20 },
    { "one_of_everything", CONFIG(1, 1, 1), 1, KG_PRECISION_F32, 8 },
    { "beyond_32_bits", CONFIG(80, 8, 128), 1000000, KG_PRECISION_F32, UINT64_C(655360000000) },
    { "does_not_fit_64_bits", CONFIG(4000000000u, 4000000000u, 2048), 4000000000u, KG_PRECISION_F32, UINT64_MAX },
};

static void size_is(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct known_size *k = arg;
    ck_assert_uint_eq(kg_kv_cache_bytes(&k->config, k->n_ctx, k->kv), k->bytes);
}

static struct kg_backend *open_cpu(void) {
    struct kg_backend *backend;
    struct kg_error err;
    if (kg_backend_open("cpu", 2, &backend, &err)) ck_abort_msg("%s", err.message);
    return backend;
}

static uint64_t kv_bytes(const struct kg_backend *backend) {
    struct kg_memory_use use;
    kg_backend_memory(backend, &use);
    return use.current_bytes[KG_MEMORY_KV];
}

/* The planes of layers, keys and values tile the block exactly. */
static void planes_tile_the_block(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const struct kg_model_config config = CONFIG(3, 2, 5);
    struct kg_backend *backend = open_cpu();
    struct kg_kv_cache cache;
    struct kg_error err;
    enum { N_CTX = 7, PLANE_BYTES = 2 * N_CTX * 5 * 4 };
    ck_assert_int_eq(kg_kv_cache_create(backend, &config, N_CTX, KG_PRECISION_F32, &cache, &err), KG_OK);
    ck_assert_uint_eq(cache.block.size_bytes, 3 * 2 * PLANE_BYTES);
    ck_assert_uint_eq(kv_bytes(backend), kg_kv_cache_bytes(&config, N_CTX, KG_PRECISION_F32));
    for (uint32_t layer = 0; layer < 3; layer++) {
        const char *base = cache.block.data;
        ck_assert_int_eq((const char *)kg_kv_cache_keys(&cache, layer) - base, (2 * layer) * PLANE_BYTES);
        ck_assert_int_eq((const char *)kg_kv_cache_values(&cache, layer) - base, (2 * layer + 1) * PLANE_BYTES);
    }
    kg_kv_cache_free(backend, &cache);
    ck_assert_uint_eq(kv_bytes(backend), 0);
    kg_backend_close(backend);
}

static void refuses_more_than_memory(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const struct kg_model_config config = CONFIG(80, 128, 1024);
    struct kg_backend *backend = open_cpu();
    struct kg_kv_cache cache;
    struct kg_error err;
    for (int saturated = 0; saturated < 2; saturated++) {
        struct kg_model_config c = config;
        if (saturated) c.n_layers = c.n_kv_heads = 4000000000u;
        ck_assert_int_eq(kg_kv_cache_create(backend, &c, 1u << 30, KG_PRECISION_F32, &cache, &err), KG_ERR_NO_MEMORY);
        ck_assert_ptr_nonnull(strstr(err.message, "the KV cache"));
        ck_assert_ptr_nonnull(strstr(err.message, saturated ? "18446744073709551615" : "90071992547409920"));
        ck_assert_ptr_nonnull(strstr(err.message, "bytes free"));
        ck_assert_uint_eq(kv_bytes(backend), 0);
    }
    const struct kg_model_config small = CONFIG(1, 1, 8); /* the back end still serves */
    ck_assert_int_eq(kg_kv_cache_create(backend, &small, 16, KG_PRECISION_F32, &cache, &err), KG_OK);
    kg_kv_cache_free(backend, &cache);
    kg_backend_close(backend);
}

struct write_shape {
    const char *name, *shape;
    uint32_t n_rows, n_kv_heads, head_dim, n_ctx, position;
};
static const struct write_shape WRITES[] = {
    { "second_kv_head", "rows=3 heads=2 dim=64 ctx=8", 3, 2, 64, 8, 0 },
    { "last_slot", "rows=1 heads=2 dim=64 ctx=8", 1, 2, 64, 8, 7 },
    { "whole_cache", "rows=8 heads=3 dim=80 ctx=8", 8, 3, 80, 8, 0 },
    { "middle", "rows=4 heads=5 dim=7 ctx=16", 4, 5, 7, 16, 9 },
    { "one_slot_one_dim", "rows=1 heads=1 dim=1 ctx=1", 1, 1, 1, 1, 0 },
    { "nothing", "rows=0 heads=2 dim=8 ctx=4", 0, 2, 8, 4, 4 },
};

/* Slots that are written hold the row's bits; all others keep the poison, and so do the borders. */
static void expect_plane(const struct kg_guarded *cache, const float *rows, const struct write_shape *s) {
    kg_guarded_expect_intact(cache, "cache");
    for (size_t h = 0; h < s->n_kv_heads; h++)
        for (size_t p = 0; p < s->n_ctx; p++)
            for (size_t d = 0; d < s->head_dim; d++) {
                const float got = cache->data[(h * s->n_ctx + p) * s->head_dim + d];
                const bool written = p >= s->position && p < s->position + s->n_rows;
                const size_t row = p - s->position;
                if (!written && !isnan(got)) ck_abort_msg("head %zu slot %zu dim %zu was touched", h, p, d);
                if (written && got != rows[(row * s->n_kv_heads + h) * s->head_dim + d])
                    ck_abort_msg("head %zu slot %zu dim %zu holds %.9g", h, p, d, (double)got);
            }
}

static void round_trip(struct kg_record *rec, const void *arg) {
    const struct write_shape *s = arg;
    static float k[4096], v[4096];
    const size_t n_row = (size_t)s->n_kv_heads * s->head_dim, n_plane = n_row * s->n_ctx;
    ck_assert_uint_le(s->n_rows * n_row, KG_COUNT_OF(k));
    kg_fill_normal(k, KG_COUNT_OF(k), kg_record_seed(rec), 0, 1);
    kg_fill_normal(v, KG_COUNT_OF(v), kg_record_seed(rec) + 1, 5, 1);
    struct kg_backend *backend = open_cpu();
    struct kg_guarded k_cache, v_cache;
    struct kg_error err;
    kg_guarded_init(&k_cache, n_plane);
    kg_guarded_init(&v_cache, n_plane);
    struct kg_kv_write_args args = { .k = k,
                                     .v = v,
                                     .k_cache = k_cache.data,
                                     .v_cache = v_cache.data,
                                     .n_rows = s->n_rows,
                                     .n_kv_heads = s->n_kv_heads,
                                     .head_dim = s->head_dim,
                                     .n_ctx = s->n_ctx,
                                     .position = s->position };
    if (backend->ops->kv_write(backend, &args, &err)) ck_abort_msg("%s", err.message);
    expect_plane(&k_cache, k, s);
    expect_plane(&v_cache, v, s);

    args.n_rows = s->n_ctx - s->position + 1; /* one past the end: refused before anything is written */
    ck_assert_int_eq(backend->ops->kv_write(backend, &args, &err), KG_ERR_RANGE);
    args.n_rows = 1;
    args.position = s->n_ctx + 1;
    ck_assert_int_eq(backend->ops->kv_write(backend, &args, &err), KG_ERR_RANGE);
    args.position = UINT32_MAX;
    ck_assert_int_eq(backend->ops->kv_write(backend, &args, &err), KG_ERR_RANGE);
    expect_plane(&k_cache, k, s);
    expect_plane(&v_cache, v, s);
    kg_guarded_free(&v_cache);
    kg_guarded_free(&k_cache);
    kg_backend_close(backend);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(SIZES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "kv_cache_bytes",
                                                  .spec = "FT-053",
                                                  .name = SIZES[i].name,
                                                  .run = size_is,
                                                  .arg = &SIZES[i] });
    for (size_t i = 0; i < KG_COUNT_OF(WRITES); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "kv_write",
                                                  .spec = "FT-053",
                                                  .name = WRITES[i].name,
                                                  .backend = "cpu",
                                                  .dtype = "f32",
                                                  .shape = WRITES[i].shape,
                                                  .run = round_trip,
                                                  .arg = &WRITES[i] });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "kv_cache",
                                              .spec = "FT-053",
                                              .name = "planes_tile_the_block",
                                              .backend = "cpu",
                                              .run = planes_tile_the_block });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "kv_cache",
                                              .spec = "FT-053",
                                              .name = "refuses_more_than_memory",
                                              .backend = "cpu",
                                              .run = refuses_more_than_memory });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
