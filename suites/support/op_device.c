#include "suites/support/op_device.h"
#include "base/buffer.h"
#include "engine/op_workspace.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

void kg_op_expect_ok(enum kg_status status, const struct kg_error *err) {
    if (status != KG_OK) ck_abort_msg("%s: %s", kg_status_text(status), err->message);
}

bool kg_backend_or_skip(struct kg_record *rec, const char *name) {
    struct kg_error err;
    struct kg_backend *backend;
    const enum kg_status status = kg_backend_open(name, 0, &backend, &err);
    if (status == KG_ERR_UNSUPPORTED && strcmp(name, "cpu") != 0) {
        kg_record_skip(rec, "%s", err.message);
        return false;
    }
    kg_op_expect_ok(status, &err);
    kg_backend_close(backend);
    return true;
}

bool kg_op_device_open(struct kg_record *rec, const char *backend, const struct kg_backend_ops *ops,
                       struct kg_op_device *d) {
    struct kg_error err;
    *d = (struct kg_op_device){ 0 };
    if (!kg_backend_or_skip(rec, backend)) return false;
    kg_op_expect_ok(
        ops ? kg_backend_open_ops(ops, 0, &d->backend, &err) : kg_backend_open(backend, 0, &d->backend, &err), &err);
    return true;
}

/* Behind the workspace, so that an operation that writes past what it asked for is seen. The workspace itself holds a
 * pattern that is no sum, no key and no bit mask of zeros: memory that nobody has written. */
enum { WORKSPACE_GUARD_BYTES = 4096, WORKSPACE_GUARD_BYTE = 0xA5, WORKSPACE_BYTE = 0xAB };

static void expect_workspace_guard(struct kg_op_device *d) {
    unsigned char guard[WORKSPACE_GUARD_BYTES];
    struct kg_error err;
    if (!d->workspace) return;
    kg_op_expect_ok(d->backend->ops->download(d->backend, guard, d->workspace_end, sizeof guard, &err), &err);
    for (size_t i = 0; i < sizeof guard; i++)
        if (guard[i] != WORKSPACE_GUARD_BYTE) ck_abort_msg("byte %zu behind the workspace was written", i);
}

void kg_op_device_clear(struct kg_op_device *d) {
    expect_workspace_guard(d);
    for (size_t i = d->n_blocks; i-- > 0;) d->backend->ops->free(d->backend, &d->blocks[i]);
    for (size_t i = 0; i < d->n_owned; i++) free(d->owned[i]);
    d->n_blocks = d->n_owned = 0;
    d->workspace = NULL;
}

void kg_op_device_close(struct kg_op_device *d) {
    kg_op_device_clear(d);
    kg_backend_close(d->backend);
    *d = (struct kg_op_device){ 0 };
}

static struct kg_block *new_block(struct kg_op_device *d, enum kg_memory_tag tag, uint64_t size_bytes) {
    struct kg_error err;
    if (d->n_blocks == KG_OP_DEVICE_MAX_BLOCKS) ck_abort_msg("a case asked for more than %zu arrays", d->n_blocks);
    struct kg_block *block = &d->blocks[d->n_blocks];
    *block = (struct kg_block){ 0 };
    kg_op_expect_ok(d->backend->ops->alloc(d->backend, tag, size_bytes, "a suite's array", block, &err), &err);
    d->n_blocks++;
    return block;
}

void kg_op_device_reserve(struct kg_op_device *d, uint64_t size_bytes) {
    struct kg_error err;
    d->workspace = NULL;
    if (size_bytes == 0) return;
    unsigned char *contents = kg_xmalloc(size_bytes + WORKSPACE_GUARD_BYTES);
    memset(contents, WORKSPACE_BYTE, size_bytes);
    memset(contents + size_bytes, WORKSPACE_GUARD_BYTE, WORKSPACE_GUARD_BYTES);
    d->workspace = new_block(d, KG_MEMORY_WORKSPACE, size_bytes + WORKSPACE_GUARD_BYTES)->data;
    d->workspace_end = (char *)d->workspace + size_bytes;
    kg_op_expect_ok(
        d->backend->ops->upload(d->backend, d->workspace, contents, size_bytes + WORKSPACE_GUARD_BYTES, &err), &err);
    free(contents);
}

void kg_op_device_workspace(struct kg_op_device *d, uint32_t n_rows, uint32_t n_cols, uint32_t n_heads,
                            uint32_t n_kv_heads, uint32_t head_dim, uint32_t n_ctx) {
    const struct kg_op_extent extent = { .activations = KG_PRECISION_F32,
                                         .kv = KG_PRECISION_F32,
                                         .n_rows = n_rows,
                                         .n_in = n_cols,
                                         .n_out = n_cols,
                                         .n_heads = n_heads,
                                         .n_kv_heads = n_kv_heads,
                                         .head_dim = head_dim,
                                         .n_ctx = n_ctx };
    uint64_t size_bytes = 0;
    struct kg_error err;
    kg_op_expect_ok(kg_op_workspace_bytes(d->backend, &extent, &size_bytes, &err), &err);
    kg_op_device_reserve(d, size_bytes);
}

void *kg_op_device_put(struct kg_op_device *d, const void *host, size_t size_bytes) {
    struct kg_error err;
    struct kg_block *block = new_block(d, KG_MEMORY_ACTIVATIONS, size_bytes);
    kg_op_expect_ok(d->backend->ops->upload(d->backend, block->data, host, size_bytes, &err), &err);
    return block->data;
}

void *kg_op_device_own(struct kg_op_device *d, void *memory) {
    if (d->n_owned == KG_OP_DEVICE_MAX_BLOCKS) ck_abort_msg("a case asked for more than %zu copies", d->n_owned);
    return d->owned[d->n_owned++] = memory;
}

static uint16_t *new_halves(const float *x, size_t n) {
    uint16_t *halves = kg_xcalloc(n, sizeof *halves);
    for (size_t i = 0; i < n; i++) halves[i] = kg_f32_to_f16(x[i]);
    return halves;
}

void *kg_op_device_put_as(struct kg_op_device *d, const float *x, size_t n, enum kg_precision precision) {
    if (precision == KG_PRECISION_F32) return kg_op_device_put(d, x, n * sizeof *x);
    uint16_t *halves = new_halves(x, n);
    void *put = kg_op_device_put(d, halves, n * sizeof *halves);
    free(halves);
    return put;
}

const float *kg_op_device_rounded(struct kg_op_device *d, const float *x, size_t n, enum kg_precision precision) {
    if (precision == KG_PRECISION_F32) return x;
    float *rounded = kg_op_device_own(d, kg_xcalloc(n, sizeof *rounded));
    for (size_t i = 0; i < n; i++) rounded[i] = kg_f16_to_f32(kg_f32_to_f16(x[i]));
    return rounded;
}

/* An f16 output lies between separate sentinels. Its written elements are widened into the host's float32 array;
 * elements that were not written keep their poison there. */
enum { GUARD_BYTES = 256, GUARD_BYTE = 0x5A };
static const uint16_t POISON_HALF = 0x7EAD; /* a quiet NaN that no arithmetic makes */

static size_t half_block_bytes(size_t n) {
    return 2 * GUARD_BYTES + (n * sizeof(uint16_t) + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
}

static void *put_half_block(struct kg_op_device *d, size_t n) {
    const size_t size_bytes = half_block_bytes(n);
    unsigned char *block = kg_xmalloc(size_bytes);
    memset(block, GUARD_BYTE, size_bytes);
    for (size_t i = 0; i < n; i++) memcpy(block + GUARD_BYTES + 2 * i, &POISON_HALF, sizeof POISON_HALF);
    void *put = kg_op_device_put(d, block, size_bytes);
    free(block);
    return put;
}

static void read_half_block(struct kg_op_device *d, struct kg_op_output *out) {
    struct kg_error err;
    const size_t n = out->host.n, size_bytes = half_block_bytes(n);
    unsigned char *block = kg_xmalloc(size_bytes);
    kg_op_expect_ok(d->backend->ops->download(d->backend, block, out->block, size_bytes, &err), &err);
    for (size_t i = 0; i < size_bytes; i++)
        if ((i < GUARD_BYTES || i >= GUARD_BYTES + 2 * n) && block[i] != GUARD_BYTE)
            ck_abort_msg("output: byte %zu around %zu halves from byte %d on was written", i, n, GUARD_BYTES);
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, block + GUARD_BYTES + 2 * i, sizeof half);
        if (half != POISON_HALF) out->host.data[i] = kg_f16_to_f32(half);
    }
    free(block);
}

void kg_op_output_init(struct kg_op_device *d, struct kg_op_output *out, size_t n, enum kg_precision precision) {
    kg_guarded_init(&out->host, n);
    out->precision = precision;
    if (precision == KG_PRECISION_F16) {
        out->block = put_half_block(d, n);
        out->y = (char *)out->block + GUARD_BYTES;
        return;
    }
    out->block = kg_op_device_put(d, out->host.block, out->host.block_bytes);
    out->y = (char *)out->block + ((char *)out->host.data - (char *)out->host.block);
}

void kg_op_output_init_from(struct kg_op_device *d, struct kg_op_output *out, const float *x, size_t n,
                            enum kg_precision precision) {
    struct kg_error err;
    kg_op_output_init(d, out, n, precision);
    uint16_t *halves = new_halves(x, n);
    const void *from = precision == KG_PRECISION_F16 ? (const void *)halves : x;
    kg_op_expect_ok(d->backend->ops->upload(d->backend, out->y, from, n * kg_precision_bytes(precision), &err), &err);
    free(halves);
}

void kg_op_output_read(struct kg_op_device *d, struct kg_op_output *out) {
    struct kg_error err;
    if (out->precision == KG_PRECISION_F16) {
        read_half_block(d, out);
        return;
    }
    kg_op_expect_ok(d->backend->ops->download(d->backend, out->host.block, out->block, out->host.block_bytes, &err),
                    &err);
    kg_guarded_expect_intact(&out->host, "output");
}

void kg_op_output_read_all(struct kg_op_device *d, struct kg_op_output *out, const char *name) {
    kg_op_output_read(d, out);
    kg_guarded_expect_written(&out->host, name);
}

void kg_op_output_free(struct kg_op_output *out) {
    kg_guarded_free(&out->host);
}
