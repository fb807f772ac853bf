#include "suites/support/machine.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "engine/op_workspace.h"
#include "format/dtype.h"
#include "suites/support/counters.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/support/touched.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kg_bench_quick(void) {
    const char *scale = getenv("KIGO_BENCH");
    return scale && strcmp(scale, "quick") == 0;
}

struct kg_bench_machine *kg_bench_machine_open(struct kg_record *rec, const char *backend) {
    static struct kg_bench_machine machines[] = { { .name = "cpu" }, { .name = "cuda" } };
    size_t i = 0;
    while (i + 1 < KG_COUNT_OF(machines) && strcmp(machines[i].name, backend) != 0) i++;
    struct kg_bench_machine *const machine = &machines[i];
    ck_assert_msg(strcmp(machine->name, backend) == 0, "no machine is called %s", backend);
    if (machine->backend) return machine;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_backend_open(backend, 0, &machine->backend, &err);
    if (status == KG_ERR_UNSUPPORTED && strcmp(backend, "cpu") != 0) {
        kg_record_skip(rec, "%s", err.message);
        return NULL;
    }
    kg_must(status, &err);
    ck_assert_msg(machine->backend->ops->measure != NULL, "the %s back end cannot time", backend);
    machine->cache_bytes = machine->backend->ops->measure->cache_bytes(machine->backend);
    ck_assert_msg(machine->cache_bytes > 0, "the %s back end does not know its cache", backend);
    return machine;
}

struct kg_block kg_bench_alloc(struct kg_bench_machine *machine, uint64_t size_bytes) {
    struct kg_block block = { 0 };
    struct kg_error err = { 0 };
    kg_must(machine->backend->ops->alloc(machine->backend, KG_MEMORY_WORKSPACE, size_bytes, "a bench's array", &block,
                                         &err),
            &err);
    return block;
}

void kg_bench_free(struct kg_bench_machine *machine, struct kg_block *blocks, size_t n_blocks) {
    for (size_t i = n_blocks; i-- > 0;) machine->backend->ops->free(machine->backend, &blocks[i]);
}

/* A period of values that shares no factor with powers of two, so that no row or set is like another. */
enum { N_NORMALS = 1048573 };
struct normals {
    float f32[N_NORMALS];
    uint16_t f16[N_NORMALS];
    uint8_t f8[N_NORMALS];
    int8_t i8[N_NORMALS];
};

static const struct normals *normals_get(void) {
    static struct normals *made;
    if (made) return made;
    made = kg_xmalloc(sizeof *made);
    struct kg_rng rng;
    kg_rng_init(&rng, 1, 0);
    for (size_t i = 0; i < N_NORMALS; i++) {
        do made->f32[i] = (float)kg_rng_normal(&rng);
        while (made->f32[i] == 0);
        made->f16[i] = kg_f32_to_f16(made->f32[i]);
        made->f8[i] = kg_f32_to_e4m3(KG_BENCH_F8_PER_UNIT * made->f32[i]);
        made->i8[i] = (int8_t)lrintf(fminf(fmaxf(KG_BENCH_I8_PER_UNIT * made->f32[i], -127), 127));
    }
    return made;
}

void kg_bench_fill(struct kg_bench_machine *machine, void *to, uint64_t n_elems, enum kg_precision precision,
                   uint64_t seed) {
    const struct normals *normals = normals_get();
    const size_t elem = (size_t)kg_precision_bytes(precision);
    const char *const tables[] = { [KG_PRECISION_F32] = (const char *)normals->f32,
                                   [KG_PRECISION_F16] = (const char *)normals->f16,
                                   [KG_PRECISION_F8] = (const char *)normals->f8,
                                   [KG_PRECISION_I8] = (const char *)normals->i8 };
    const char *const from = tables[precision];
    struct kg_error err = { 0 };
    size_t at = (size_t)(seed % N_NORMALS);
    for (uint64_t done = 0; done < n_elems; at = 0) {
        const uint64_t left = n_elems - done, n = left < N_NORMALS - at ? left : N_NORMALS - at;
        kg_must(
            machine->backend->ops->upload(machine->backend, (char *)to + done * elem, from + at * elem, n * elem, &err),
            &err);
        done += n;
    }
}

void kg_bench_fill_blocks(struct kg_bench_machine *machine, enum kg_dtype dtype, void *to, uint64_t size_bytes) {
    enum { BLOCKS = 32749, FEW_BLOCKS = 4093 };
    static struct {
        enum kg_dtype dtype;
        uint8_t *bytes;
        uint64_t n_bytes;
    } made;
    const struct kg_dtype_info *info = kg_dtype_info(dtype);
    struct kg_error err = { 0 };
    if (!made.bytes || made.dtype != dtype) {
        const size_t n_blocks = info->block_elems > 32 ? FEW_BLOCKS : BLOCKS, n = n_blocks * info->block_elems;
        float *normal = kg_xcalloc(n, sizeof *normal);
        kg_fill_normal(normal, n, 7, 0, 1);
        free(made.bytes);
        made.dtype = dtype, made.n_bytes = n_blocks * info->block_bytes, made.bytes = kg_xmalloc(made.n_bytes);
        info->encode(normal, made.bytes, n);
        free(normal);
    }
    for (uint64_t done = 0; done < size_bytes;) {
        const uint64_t left = size_bytes - done, n = left < made.n_bytes ? left : made.n_bytes;
        kg_must(machine->backend->ops->upload(machine->backend, (char *)to + done, made.bytes, n, &err), &err);
        done += n;
    }
}

void kg_bench_poison(struct kg_bench_machine *machine, void *to, uint64_t n_elems, enum kg_precision precision) {
    const struct kg_block block = { .data = to, .size_bytes = n_elems * kg_precision_bytes(precision) };
    kg_touched_reset(machine->backend, &block); /* to a NaN */
}

float *kg_bench_fetch(struct kg_bench_machine *machine, const void *from, uint64_t first, uint64_t n,
                      enum kg_precision precision) {
    const size_t elem = (size_t)kg_precision_bytes(precision);
    float *const values = kg_xcalloc(n + 1, sizeof *values);
    char *const host = kg_xmalloc(n * elem + 1);
    struct kg_error err = { 0 };
    kg_must(machine->backend->ops->download(machine->backend, host, (const char *)from + first * elem, n * elem, &err),
            &err);
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        if (precision == KG_PRECISION_F32) memcpy(&values[i], host + i * elem, sizeof values[i]);
        else if (precision == KG_PRECISION_F8) values[i] = kg_e4m3_to_f32((uint8_t)host[i]);
        else if (precision == KG_PRECISION_I8) values[i] = (float)(int8_t)host[i];
        else {
            memcpy(&half, host + i * elem, sizeof half);
            values[i] = kg_f16_to_f32(half);
        }
    }
    free(host);
    return values;
}

void kg_bench_expect_written(struct kg_bench_machine *machine, const void *from, uint64_t n_elems,
                             enum kg_precision precision) {
    enum { CHUNK_ELEMS = 1 << 20 };
    uint64_t first_bad = n_elems;
    for (uint64_t done = 0; done < n_elems && first_bad == n_elems; done += CHUNK_ELEMS) {
        const uint64_t n = n_elems - done < CHUNK_ELEMS ? n_elems - done : CHUNK_ELEMS;
        float *values = kg_bench_fetch(machine, from, done, n, precision);
        for (uint64_t i = 0; i < n && first_bad == n_elems; i++)
            if (!isfinite(values[i])) first_bad = done + i;
        free(values);
    }
    ck_assert_msg(first_bad == n_elems, "element %llu of %llu was not written or is not finite",
                  (unsigned long long)first_bad, (unsigned long long)n_elems);
}

size_t kg_bench_cold_sets(const struct kg_bench_machine *machine, uint64_t set_bytes) {
    const uint64_t most_bytes = (uint64_t)(kg_bench_quick() ? 512 : 8192) << 20;
    const size_t n = kg_bench_counted() ? 0 : kg_cold_sets(set_bytes, machine->cache_bytes);
    return n * set_bytes <= most_bytes ? n : 0;
}

enum kg_dtype kg_bench_dtype(enum kg_precision precision) {
    return precision == KG_PRECISION_F32 ? KG_DTYPE_F32 : KG_DTYPE_F16;
}

uint64_t kg_bench_workspace(struct kg_bench_machine *machine, enum kg_precision precision, uint32_t n_rows,
                            uint32_t n_in, uint32_t n_out, const struct kg_attention_args *attention) {
    struct kg_op_extent extent = { precision, precision, n_rows, n_in, n_out, 0, 0, 0, 0 };
    if (attention) {
        extent.n_heads = attention->n_heads;
        extent.n_kv_heads = attention->n_kv_heads;
        extent.head_dim = attention->head_dim;
        extent.n_ctx = attention->n_ctx;
    }
    uint64_t size_bytes = 0;
    struct kg_error err = { 0 };
    kg_must(kg_op_workspace_bytes(machine->backend, &extent, &size_bytes, &err), &err);
    return size_bytes;
}
