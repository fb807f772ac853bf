/* What operations of the cuda back end refuse before anything is launched, and what the runtime tells of each GPU. */
#include "backend/gpu.h"
#include "base/size.h"
#include "ops/ops.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include <check.h>
#include <limits.h>
#include <string.h>

static void expect_refused(struct kg_op_device *device, enum kg_precision p) {
    const float zeros[64] = { 0 };
    float *x = kg_op_device_put(device, zeros, sizeof zeros), *y = kg_op_device_put(device, zeros, sizeof zeros);
    const int32_t *ids = kg_op_device_put(device, zeros, sizeof zeros);
    const struct kg_weight w = { x, KG_DTYPE_F32, 4, 8 };
    struct kg_backend *backend = device->backend;
    const struct kg_backend_ops *ops = backend->ops;
    const struct kg_attention_args attention = { .q = x,
                                                 .k_cache = x,
                                                 .v_cache = x,
                                                 .y = y,
                                                 .n_rows = 2,
                                                 .n_keys = 2,
                                                 .n_heads = 1,
                                                 .n_kv_heads = 1,
                                                 .head_dim = 8,
                                                 .n_ctx = 4,
                                                 .scale = 1,
                                                 .causal = true };
    struct kg_attention_args of_q = attention, of_cache = attention;
    of_q.activations = of_cache.kv = p;
    const struct kg_experts_linear_args experts = {
        .activations = p, .x = x, .weight = w, .n_experts = 2, .ids = ids, .y = y, .n_rows = 1, .n_sharing = 1
    };
    const struct kg_embedding_args embedding = { .activations = p, .weight = w, .ids = ids, .n_rows = 1, .y = y };
    const struct kg_linear_args linear = { .activations = p, .output = p, .x = x, .weight = w, .y = y, .n_rows = 1 };
    const struct kg_linear_args other_output = { .output = KG_PRECISION_F16, .x = x, .weight = w, .y = y, .n_rows = 1 };
    struct kg_error err[6] = { 0 };
    const enum kg_status status[] = {
        ops->attention(backend, &of_q, &err[0]),         ops->attention(backend, &of_cache, &err[1]),
        ops->experts_linear(backend, &experts, &err[2]), ops->embedding(backend, &embedding, &err[3]),
        ops->linear(backend, &linear, &err[4]),          ops->linear(backend, &other_output, &err[5]),
    };
    for (size_t i = 0; i < KG_COUNT_OF(status); i++)
        ck_assert_msg(status[i] == KG_ERR_UNSUPPORTED &&
                          strstr(err[i].message, i < 5 ? kg_precision_name(p) : "f16") != NULL,
                      "%s, call %zu: status %d, '%s'", kg_precision_name(p), i, (int)status[i], err[i].message);
}

/* FP8 and int8 activations and caches belong to sdpa alone. */
static void other_precisions(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_op_device d;
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    expect_refused(&d, KG_PRECISION_F8);
    expect_refused(&d, KG_PRECISION_I8);
    kg_op_device_close(&d);
}

/* Each of attention's four arrays alone, 4 bytes beside what 16-byte loads need. */
static void misaligned_attention(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_op_device d;
    struct kg_error err = { 0 };
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const float zeros[64] = { 0 };
    float *arrays[4];
    for (size_t i = 0; i < KG_COUNT_OF(arrays); i++) arrays[i] = kg_op_device_put(&d, zeros, sizeof zeros);
    for (size_t shifted = 0; shifted <= KG_COUNT_OF(arrays); shifted++) {
        const struct kg_attention_args args = { .q = arrays[0] + (shifted == 0),
                                                .k_cache = arrays[1] + (shifted == 1),
                                                .v_cache = arrays[2] + (shifted == 2),
                                                .y = arrays[3] + (shifted == 3),
                                                .n_rows = 2,
                                                .n_keys = 2,
                                                .n_heads = 1,
                                                .n_kv_heads = 1,
                                                .head_dim = 8,
                                                .n_ctx = 4,
                                                .scale = 1,
                                                .causal = true };
        const enum kg_status status = d.backend->ops->attention(d.backend, &args, &err);
        if (shifted == KG_COUNT_OF(arrays)) kg_must(status, &err);
        else kg_must_fail(status, KG_ERR_USAGE, &err, "not aligned", NULL);
    }
    kg_op_device_close(&d);
}

enum { CHUNK = 8 }; /* columns that are decoded at once (kernels/block/dequant.cuh): the last index is below 2^31 */

/* The largest matrices that indices of 31 bits reach are taken, one row or column more is refused, and so are 2^30
 * rows of x; no rows: no work. */
static void largest_matrix(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_op_device d;
    struct kg_error err = { 0 };
    if (!kg_op_device_open(rec, "cuda", NULL, &d)) return;
    const float zeros[16] = { 0 };
    float *x = kg_op_device_put(&d, zeros, sizeof zeros), *y = kg_op_device_put(&d, zeros, sizeof zeros);
    for (uint32_t more = 0; more < 2; more++) {
        const struct kg_weight tall = { x, KG_DTYPE_F32, (uint32_t)INT_MAX + more, 1 },
                               wide = { x, KG_DTYPE_F32, 1, INT_MAX - CHUNK + more };
        for (int i = 0; i < 2; i++) {
            const struct kg_linear_args args = { .x = x, .weight = i ? wide : tall, .y = y };
            const enum kg_status status = d.backend->ops->linear(d.backend, &args, &err);
            if (more) kg_must_fail(status, KG_ERR_UNSUPPORTED, &err, "too large", NULL);
            else kg_must(status, &err);
        }
    }
    const struct kg_linear_args most = { .x = x, .weight = { x, KG_DTYPE_F32, 1, 1 }, .y = y, .n_rows = 1u << 30 };
    kg_must_fail(d.backend->ops->linear(d.backend, &most, &err), KG_ERR_UNSUPPORTED, &err, "too large", NULL);
    kg_op_device_close(&d);
}

/* Every field that bundles record of a GPU is the runtime's, not what the struct held before. */
static void every_field_of_a_gpu(struct kg_record *rec, const void *arg) {
    (void)arg;
    static struct kg_gpu_info gpus[KG_MAX_GPUS];
    static const unsigned char none[sizeof gpus->uuid];
    struct kg_error err = { 0 };
    size_t n = 0;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    memset(gpus, 0, sizeof gpus);
    kg_must(kg_gpu_list(gpus, KG_MAX_GPUS, &n, &err), &err);
    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        const struct kg_gpu_info *gpu = &gpus[i];
        ck_assert_uint_gt(strlen(gpu->name), 0);
        ck_assert(memcmp(gpu->uuid, none, sizeof none) != 0);
        ck_assert_int_ge(gpu->compute_capability, 50);
        ck_assert_int_gt(gpu->n_sms, 0);
        ck_assert_int_ge(gpu->l2_bytes, 1 << 18);
        ck_assert_uint_gt(gpu->memory_bytes, (uint64_t)gpu->l2_bytes);
        ck_assert_int_ge(gpu->driver_version, gpu->runtime_version / 1000 * 1000);
        ck_assert_int_gt(gpu->runtime_version, 0);
        ck_assert(gpu->ecc_enabled == 0 || gpu->ecc_enabled == 1);
    }
}

/* A step's launches begin beside the one before (programmatic dependent launch): each waits for what it reads. A
 * product of one row, then an operation on its outputs, which held other numbers before; the same as when nothing is in
 * flight.
 */
enum { N_IN = 8192, N_LOGITS = KG_ROUTER_MAX_EXPERTS, N_USED = 4, N_ROUNDS = 8 };
struct chain {
    struct kg_op_device d;
    struct kg_linear_args product;
    float *logits, *ones, *y;
    int32_t *ids;
};

static enum kg_status route(struct chain *c, struct kg_error *err) {
    const struct kg_router_args args = {
        .logits = c->logits, .ids = c->ids, .weights = c->y, .n_rows = 1, .n_experts = N_LOGITS, .n_used = N_USED
    };
    return c->d.backend->ops->router(c->d.backend, &args, err);
}

static enum kg_status norm(struct chain *c, struct kg_error *err) {
    const struct kg_rmsnorm_args args = {
        .x = c->logits, .weight = c->ones, .y = c->y, .n_rows = 1, .n_cols = N_LOGITS, .eps = 1e-5f
    };
    return c->d.backend->ops->rmsnorm(c->d.backend, &args, err);
}

static enum kg_status combine(struct chain *c, struct kg_error *err) {
    const struct kg_experts_combine_args args = {
        .x = c->logits, .weights = c->ones, .y = c->y, .n_rows = 1, .n_used = N_USED, .n_cols = N_LOGITS / N_USED
    };
    return c->d.backend->ops->experts_combine(c->d.backend, &args, err);
}

static const struct reader {
    enum kg_status (*run)(struct chain *c, struct kg_error *err);
    size_t n; /* results */
} READERS[] = { { route, N_USED }, { norm, N_LOGITS }, { combine, N_LOGITS / N_USED } };

static void launch_waits(struct kg_record *rec, const void *arg) {
    const struct reader *reader = arg;
    struct chain c = { 0 };
    struct kg_error err = { 0 };
    if (!kg_op_device_open(rec, "cuda", NULL, &c.d)) return;
    static float x[N_IN], w[N_LOGITS * N_IN], before[N_LOGITS], ones[N_LOGITS], y[N_LOGITS], alone[N_LOGITS];
    kg_fill_normal(x, N_IN, kg_record_seed(rec), 0, 1);
    kg_fill_normal(w, N_IN, kg_record_seed(rec) + 1, 0, 1);
    for (size_t i = N_IN; i < KG_COUNT_OF(w); i++) w[i] = w[i - N_IN + 1];
    for (size_t i = 0; i < N_LOGITS; i++) ones[i] = 1;
    const struct kg_backend_ops *ops = c.d.backend->ops;
    c.logits = kg_op_device_put(&c.d, before, sizeof before);
    c.ones = kg_op_device_put(&c.d, ones, sizeof ones);
    c.y = kg_op_device_put(&c.d, before, sizeof before);
    c.ids = kg_op_device_put(&c.d, before, sizeof before);
    c.product =
        (struct kg_linear_args){ .x = kg_op_device_put(&c.d, x, sizeof x),
                                 .weight = { kg_op_device_put(&c.d, w, sizeof w), KG_DTYPE_F32, N_LOGITS, N_IN },
                                 .y = c.logits,
                                 .n_rows = 1 };
    for (size_t round = 0; round < N_ROUNDS; round++) {
        kg_fill_normal(before, N_LOGITS, kg_record_seed(rec) + 2 + round, 0, 300);
        kg_must(ops->upload(c.d.backend, c.logits, before, sizeof before, &err), &err);
        kg_must(ops->linear(c.d.backend, &c.product, &err), &err);
        kg_must(reader->run(&c, &err), &err);
        kg_must(ops->download(c.d.backend, y, c.y, sizeof y, &err), &err);
        kg_must(reader->run(&c, &err), &err);
        kg_must(ops->download(c.d.backend, alone, c.y, sizeof alone, &err), &err);
        ck_assert_msg(memcmp(y, alone, reader->n * sizeof *y) == 0, "round %zu: %g, alone %g", round, (double)y[0],
                      (double)alone[0]);
    }
    kg_op_device_close(&c.d);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "cuda_contracts", .name = #function, .backend = "cuda", .run = function }
static const struct kg_case CASES[] = {
    CASE(other_precisions), CASE(misaligned_attention), CASE(largest_matrix),        CASE(every_field_of_a_gpu),
#define WAITS(i, operation)                                                                                            \
    {                                                                                                                  \
        .layer = "unit", .op = "cuda_contracts", .name = "launch_waits", .backend = "cuda", .dtype = "f32",            \
        .shape = operation, .run = launch_waits, .arg = &READERS[i]                                                    \
    }
    WAITS(0, "router"),     WAITS(1, "rmsnorm"),        WAITS(2, "experts_combine"),
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
