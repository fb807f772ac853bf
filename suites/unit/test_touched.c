/* What work writes of a back end's memory: by line, and of a chain with and without one of its results. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/support/fused_chain.h"
#include "suites/support/op_device.h"
#include "suites/support/touched.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = (4 << 20) + 300, N_WRITES = 2 };

static const struct lines_row {
    const char *name;
    uint64_t size_bytes;
    struct {
        uint64_t at, n;
    } writes[N_WRITES];
    unsigned char value;
    uint64_t touched_bytes;
} LINES[] = {
    { "nothing", 1000, { { 0, 0 }, { 0, 0 } }, 1, 0 },
    { "empty_block", 0, { { 0, 0 }, { 0, 0 } }, 1, 0 },
    { "first_byte", 1000, { { 0, 1 }, { 0, 0 } }, 1, 256 },
    { "last_byte_of_a_line", 1000, { { 511, 1 }, { 0, 0 } }, 0, 256 },
    { "both_sides_of_an_edge", 1000, { { 255, 2 }, { 0, 0 } }, 1, 512 },
    { "one_line_twice", 1000, { { 256, 1 }, { 300, 1 } }, 1, 256 },
    { "shorter_last_line", 1000, { { 999, 1 }, { 0, 0 } }, 1, 1000 - 768 },
    { "far_apart", LARGE, { { 0, 1 }, { LARGE - 1, 1 } }, 1, 256 + 300 - 256 },
    { "the_value_of_a_reset", 1000, { { 0, 1000 }, { 0, 0 } }, 0xff, 0 },
    { "all", 1000, { { 0, 1000 }, { 0, 0 } }, 0, 1000 },
};

static void lines(struct kg_record *rec, const void *arg) {
    const struct lines_row *row = arg;
    struct kg_backend *backend;
    struct kg_block block;
    struct kg_error err;
    unsigned char *bytes = kg_xmalloc(row->size_bytes + 1);
    (void)rec;
    memset(bytes, row->value, row->size_bytes);
    kg_must(kg_backend_open("cpu", 1, &backend, &err), &err);
    kg_must(backend->ops->alloc(backend, KG_MEMORY_WORKSPACE, row->size_bytes, "a block", &block, &err), &err);
    kg_touched_reset(backend, &block);
    for (int i = 0; i < N_WRITES; i++)
        if (row->writes[i].n > 0)
            kg_must(
                backend->ops->upload(backend, (char *)block.data + row->writes[i].at, bytes, row->writes[i].n, &err),
                &err);
    ck_assert_uint_eq(kg_touched_bytes(backend, &block), row->touched_bytes);
    backend->ops->free(backend, &block);
    kg_backend_close(backend);
    free(bytes);
}

enum { N_ROWS = 4, N_IN = 32, N_OUT = 64, N_RESULT = N_ROWS * N_OUT };

/* A stand-in for a fusion that has ups in registers: they do not reach `left_out`. */
static const void *left_out;
static float registers[N_RESULT];
static enum kg_status linear_but_one(struct kg_backend *backend, const struct kg_linear_args *args,
                                     struct kg_error *err) {
    struct kg_linear_args changed = *args;
    if (args->y == left_out) changed.y = registers;
    return kg_cpu_ops.linear(backend, &changed, err);
}
static enum kg_status swiglu_of_registers(struct kg_backend *backend, const struct kg_swiglu_args *args,
                                          struct kg_error *err) {
    struct kg_swiglu_args changed = *args;
    if (args->up == left_out) changed.up = registers;
    return kg_cpu_ops.swiglu(backend, &changed, err);
}

/* Gates and ups of a chain lie in one block: without the ups a pass writes half of it. */
static void result_left_out(struct kg_record *rec, const void *arg) {
    const bool fused = arg != NULL;
    const struct kg_chain_shape shape = {
        .kind = KG_CHAIN_NORM_SWIGLU, .n_rows = N_ROWS, .n_in = N_IN, .n_out = N_OUT, .n_ctx = N_ROWS, .eps = 1e-6f
    };
    static float x[N_ROWS * N_IN], norm[N_IN], normed[N_ROWS * N_IN], w[N_OUT * N_IN];
    struct kg_backend_ops ops = kg_cpu_ops;
    struct kg_op_device d;
    struct kg_fused_chain chain;
    struct kg_block block;
    struct kg_error err;
    ops.linear = linear_but_one, ops.swiglu = swiglu_of_registers;
    for (size_t i = 0; i < KG_COUNT_OF(x); i++) x[i] = (float)(i % 7) - 3;
    for (size_t i = 0; i < KG_COUNT_OF(w); i++) w[i] = (float)(i % 5) - 2;
    for (size_t i = 0; i < N_IN; i++) norm[i] = 1;
    if (!kg_op_device_open(rec, "cpu", &ops, &d)) return;
    kg_must(ops.alloc(d.backend, KG_MEMORY_ACTIVATIONS, 2 * N_RESULT * sizeof(float), "results", &block, &err), &err);
    float *y = block.data;
    kg_touched_reset(d.backend, &block);
    left_out = fused ? y + N_RESULT : NULL;
    kg_fused_chain_open(
        d.backend, &shape, KG_PRECISION_F32,
        &(struct kg_chain_memory){ .x = x, .norm = norm, .w = { w, w }, .normed = normed, .y = { y, y + N_RESULT } }, 1,
        NULL, &chain);
    kg_must(kg_fused_chain_run(&chain, &err), &err);
    ck_assert_uint_eq(kg_touched_bytes(d.backend, &block), (fused ? 1 : 2) * N_RESULT * sizeof(float));
    kg_fused_chain_close(&chain);
    ops.free(d.backend, &block);
    kg_op_device_close(&d);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(LINES); i++)
        kg_case_list_add(cases,
                         &(struct kg_case){
                             .layer = "unit", .op = "touched", .name = LINES[i].name, .run = lines, .arg = &LINES[i] });
    kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                               .op = "touched",
                                               .name = "every_result_of_a_chain",
                                               .backend = "cpu",
                                               .dtype = "f32",
                                               .run = result_left_out });
    kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                               .op = "touched",
                                               .name = "result_that_a_fusion_leaves_out",
                                               .backend = "cpu",
                                               .dtype = "f32",
                                               .run = result_left_out,
                                               .arg = "" });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
