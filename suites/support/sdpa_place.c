/* An attention problem in a back end's memory: any layout, NaN wherever an input has no element, an output whose every
 * element is accounted for. */
#include "base/buffer.h"
#include "format/dtype.h"
#include "suites/support/sdpa_problem.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD_BYTES = 256,
    NAN_BYTE = 0xFF, /* of any precision but i8: four, two or one of them are a NaN */
    FAR_BYTE = 0x80, /* of i8, which has none: -128, beyond what quantisation gives */
};
/* Quiet NaNs that no arithmetic makes. */
static const uint16_t POISON_F16 = 0x7EAD;
static const uint32_t POISON_F32 = 0x7FADBEEF;

struct kg_sdpa_strides kg_sdpa_layout_strides(enum kg_sdpa_layout layout, uint64_t n_heads, uint64_t n_rows,
                                              uint64_t dim) {
    switch (layout) {
    case KG_SDPA_DENSE: break;
    case KG_SDPA_INTERLEAVED:
        return (struct kg_sdpa_strides){ .batch = n_rows * n_heads * dim, .head = dim, .row = n_heads * dim };
    case KG_SDPA_PADDED:
        return (struct kg_sdpa_strides){ .batch = n_heads * (n_rows + 3) * (dim + 16) + 32,
                                         .head = (n_rows + 3) * (dim + 16),
                                         .row = dim + 16 };
    case KG_SDPA_CACHE:
        return (struct kg_sdpa_strides){ .batch = n_heads * (n_rows + 200) * dim,
                                         .head = (n_rows + 200) * dim,
                                         .row = dim };
    case KG_SDPA_ODD:
        return (struct kg_sdpa_strides){ .batch = n_heads * ((n_rows + 1) * (dim + 3) + 1) + 5,
                                         .head = (n_rows + 1) * (dim + 3) + 1,
                                         .row = dim + 3 };
    }
    return kg_sdpa_dense((uint32_t)n_heads, (uint32_t)n_rows, (uint32_t)dim);
}

static size_t first_elem(enum kg_sdpa_layout layout, size_t elem_bytes) {
    return GUARD_BYTES / elem_bytes + (layout == KG_SDPA_ODD);
}

/* With what lies between the rows, and a guard on either side. */
static size_t block_elems(const struct kg_sdpa_problem *p, const struct kg_sdpa_tensor *t,
                          const struct kg_sdpa_strides *s, size_t elem_bytes) {
    const size_t span = t->n ? (p->shape.n_batch - 1) * s->batch + (t->n_heads - 1) * s->head +
                                   (t->n_rows - 1) * s->row + p->shape.head_dim
                             : 0;
    return span + 2 * GUARD_BYTES / elem_bytes + 1;
}

static void store(void *block, size_t at, enum kg_precision precision, const struct kg_sdpa_tensor *t, size_t i) {
    if (kg_precision_is_quantized(precision)) ((uint8_t *)block)[at] = t->bytes[i];
    else if (precision == KG_PRECISION_F16) ((uint16_t *)block)[at] = kg_f32_to_f16(t->values[i]);
    else ((float *)block)[at] = t->values[i];
}

/* Calls visit(arg, offset in the layout, index in the dense tensor) for every row. */
static void each_row(const struct kg_sdpa_problem *p, const struct kg_sdpa_tensor *t, const struct kg_sdpa_strides *s,
                     void (*visit)(void *arg, size_t offset, size_t index), void *arg) {
    for (size_t b = 0; b < p->shape.n_batch; b++)
        for (size_t h = 0; h < t->n_heads; h++)
            for (size_t r = 0; r < t->n_rows; r++)
                visit(arg, b * s->batch + h * s->head + r * s->row, kg_sdpa_at(p, t, b, h, r));
}

struct input_rows {
    const struct kg_sdpa_tensor *t;
    void *block;
    size_t first, head_dim;
    enum kg_precision precision;
};

static void put_row(void *arg, size_t offset, size_t index) {
    const struct input_rows *rows = arg;
    for (size_t d = 0; d < rows->head_dim; d++)
        store(rows->block, rows->first + offset + d, rows->precision, rows->t, index + d);
}

static const void *put_input(struct kg_op_device *d, const struct kg_sdpa_problem *p, const struct kg_sdpa_tensor *t,
                             enum kg_sdpa_layout layout, enum kg_precision precision, struct kg_sdpa_strides *strides) {
    const size_t elem_bytes = kg_precision_bytes(precision);
    *strides = kg_sdpa_layout_strides(layout, t->n_heads, t->n_rows, p->shape.head_dim);
    const size_t n = block_elems(p, t, strides, elem_bytes), first = first_elem(layout, elem_bytes);
    struct input_rows rows = { t, kg_xmalloc(n * elem_bytes), first, p->shape.head_dim, precision };
    memset(rows.block, precision == KG_PRECISION_I8 ? FAR_BYTE : NAN_BYTE, n * elem_bytes);
    each_row(p, t, strides, put_row, &rows);
    const char *put = kg_op_device_put(d, rows.block, n * elem_bytes);
    free(rows.block);
    return put + first * elem_bytes;
}

static const float *put_floats(struct kg_op_device *d, const float *x, size_t n) {
    return x ? kg_op_device_put(d, x, n * sizeof *x) : NULL;
}

/* malloc'ed. */
static void *new_poison(size_t n, enum kg_precision precision) {
    const size_t elem_bytes = kg_precision_bytes(precision);
    char *block = kg_xmalloc(n * elem_bytes);
    for (size_t i = 0; i < n; i++)
        memcpy(block + i * elem_bytes,
               precision == KG_PRECISION_F16 ? (const void *)&POISON_F16 : (const void *)&POISON_F32, elem_bytes);
    return block;
}

void kg_sdpa_place(struct kg_op_device *d, const struct kg_sdpa_problem *p, enum kg_sdpa_layout layout,
                   enum kg_precision as, struct kg_sdpa_placed *placed) {
    const struct kg_sdpa_problem_shape *s = &p->shape;
    const bool on_cpu = strcmp(kg_backend_name(d->backend), "cpu") == 0;
    const size_t n_q_planes = (size_t)s->n_batch * s->n_heads, n_kv_planes = (size_t)s->n_batch * s->n_kv_heads;
    struct kg_sdpa_args a = {
        .inputs = as,
        .output = on_cpu ? KG_PRECISION_F32 : KG_PRECISION_F16,
        .n_batch = s->n_batch,
        .n_heads = s->n_heads,
        .n_kv_heads = s->n_kv_heads,
        .n_queries = s->n_queries,
        .n_keys = s->n_keys,
        .head_dim = s->head_dim,
        .scale = p->scale,
        .causal = s->causal,
        .window = s->window,
    };
    const size_t out_bytes = kg_precision_bytes(a.output);
    a.q = put_input(d, p, &p->q, layout, as, &a.q_strides);
    a.k = put_input(d, p, &p->k, layout, as, &a.k_strides);
    a.v = put_input(d, p, &p->v, layout, as, &a.v_strides);
    a.q_scale = put_floats(d, p->q.scales, n_q_planes);
    a.k_scale = put_floats(d, p->k.scales, n_kv_planes);
    a.v_scale = put_floats(d, p->v.scales, n_kv_planes);
    a.sinks = put_floats(d, p->sinks, s->n_heads);
    a.y_strides = kg_sdpa_layout_strides(layout, s->n_heads, s->n_queries, s->head_dim);
    *placed = (struct kg_sdpa_placed){ .problem = p,
                                       .y_block_elems = block_elems(p, &p->q, &a.y_strides, out_bytes),
                                       .y_first = first_elem(layout, out_bytes) };
    void *poison = new_poison(placed->y_block_elems, a.output);
    placed->y_block = kg_op_device_put(d, poison, placed->y_block_elems * out_bytes);
    free(poison);
    a.y = (char *)placed->y_block + placed->y_first * out_bytes;
    const uint64_t workspace_bytes = kg_sdpa_workspace_bytes(&a);
    void *zeros = kg_xcalloc(workspace_bytes + 1, 1);
    a.workspace = workspace_bytes ? kg_op_device_put(d, zeros, workspace_bytes) : NULL;
    free(zeros);
    placed->args = a;
}

enum kg_status kg_sdpa_run(struct kg_op_device *d, struct kg_sdpa_placed *placed, enum kg_sdpa_variant variant,
                           struct kg_error *err) {
    const enum kg_precision output = placed->args.output;
    void *poison = new_poison(placed->y_block_elems, output);
    const uint64_t bytes = placed->y_block_elems * kg_precision_bytes(output);
    kg_op_expect_ok(d->backend->ops->upload(d->backend, placed->y_block, poison, bytes, err), err);
    free(poison);
    placed->args.variant = variant;
    return d->backend->ops->sdpa(d->backend, &placed->args, err);
}

struct output_rows {
    const struct kg_sdpa_placed *placed;
    char *block;
    float *got;
};

static bool is_poison(enum kg_precision precision, const char *elem) {
    return precision == KG_PRECISION_F16 ? memcmp(elem, &POISON_F16, sizeof POISON_F16) == 0
                                         : memcmp(elem, &POISON_F32, sizeof POISON_F32) == 0;
}

/* What has been taken is poison again, so that anything left that is not has been written and should not. */
static void take_row(void *arg, size_t offset, size_t index) {
    const struct output_rows *rows = arg;
    const struct kg_sdpa_placed *placed = rows->placed;
    const size_t head_dim = placed->args.head_dim, elem_bytes = kg_precision_bytes(placed->args.output);
    for (size_t d = 0; d < head_dim; d++) {
        char *elem = rows->block + (placed->y_first + offset + d) * elem_bytes;
        if (is_poison(placed->args.output, elem))
            ck_abort_msg("sdpa: element %zu of row %zu was never written", d, index / head_dim);
        if (placed->args.output == KG_PRECISION_F16) {
            uint16_t half;
            memcpy(&half, elem, sizeof half);
            rows->got[index + d] = kg_f16_to_f32(half);
            memcpy(elem, &POISON_F16, elem_bytes);
        } else {
            memcpy(&rows->got[index + d], elem, elem_bytes);
            memcpy(elem, &POISON_F32, elem_bytes);
        }
    }
}

void kg_sdpa_fetch(struct kg_op_device *d, const struct kg_sdpa_placed *placed, float *got) {
    struct kg_error err;
    const enum kg_precision output = placed->args.output;
    const size_t elem_bytes = kg_precision_bytes(output), bytes = placed->y_block_elems * elem_bytes;
    struct output_rows rows = { placed, kg_xmalloc(bytes), got };
    kg_op_expect_ok(d->backend->ops->download(d->backend, rows.block, placed->y_block, bytes, &err), &err);
    each_row(placed->problem, &placed->problem->q, &placed->args.y_strides, take_row, &rows);
    for (size_t i = 0; i < placed->y_block_elems; i++)
        if (!is_poison(output, rows.block + i * elem_bytes))
            ck_abort_msg("sdpa: wrote beside its rows, %td elements from the first of %zu",
                         (ptrdiff_t)i - (ptrdiff_t)placed->y_first, placed->problem->n_want);
    free(rows.block);
}
