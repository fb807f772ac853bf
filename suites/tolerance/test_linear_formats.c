/* linear with weights of every format, at the numbers of rows where a back end changes its way (one row, the last and
 * the first past a matrix-vector kernel, tiles of rows), every element against the cpu reference over the decoded
 * weights. */
#include "base/buffer.h"
#include "base/rng.h"
#include "base/size.h"
#include "suites/support/op_cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mode {
    const char *backend, *dtype;
    enum kg_precision activations, output;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32, KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16, KG_PRECISION_F16 },
    { "cuda", "f16_output_f32", KG_PRECISION_F16, KG_PRECISION_F32 },
};

/* How a matrix-vector kernel ends and begins, a tile of rows, and several. */
static const uint32_t ROWS[] = { 1, 8, 9, 64, 200 };

/* Where a block's float16 scales are; what is between may be any bytes. */
static const struct {
    enum kg_dtype dtype;
    uint32_t n_scales, scale_at[2];
} BLOCKS[] = {
    { KG_DTYPE_Q4_0, 1, { 0 } },    { KG_DTYPE_Q5_0, 1, { 0 } },    { KG_DTYPE_Q8_0, 1, { 0 } },
    { KG_DTYPE_Q4_K, 2, { 0, 2 } }, { KG_DTYPE_Q5_K, 2, { 0, 2 } }, { KG_DTYPE_Q6_K, 1, { 208 } },
};

struct product {
    const struct mode *mode;
    enum kg_dtype dtype;
    uint32_t m, n, k;
    bool bias;
    /* Rows of W in powers of two from 2^-range to 2^range; 0: of one size; negative: all of them of 2^range. */
    int range;
    bool repacked; /* W is repacked, if the back end has repack_weight */
};

/* Any bytes, and scales of either sign and the size of `magnitude`. */
static void fill_block(struct kg_rng *rng, const struct kg_dtype_info *info, size_t row_of_blocks, uint8_t *block) {
    for (uint32_t i = 0; i < info->block_bytes; i++) block[i] = (uint8_t)kg_rng_u32(rng);
    for (uint32_t i = 0; i < BLOCKS[row_of_blocks].n_scales; i++) {
        const uint16_t scale = kg_f32_to_f16((float)(0.01 * kg_rng_normal(rng)));
        memcpy(block + BLOCKS[row_of_blocks].scale_at[i], &scale, sizeof scale);
    }
}

/* A row of values that the format encodes, or of blocks made of bytes. */
static void fill_row(struct kg_rng *rng, const struct product *p, uint32_t row, uint8_t *bytes) {
    const struct kg_dtype_info *info = kg_dtype_info(p->dtype);
    for (size_t b = 0; b < KG_COUNT_OF(BLOCKS); b++) {
        if (BLOCKS[b].dtype != p->dtype) continue;
        for (uint32_t i = 0; i < p->k / info->block_elems; i++)
            fill_block(rng, info, b, bytes + (size_t)i * info->block_bytes);
        return;
    }
    float *values = kg_xcalloc(p->k, sizeof *values);
    const int exponent = p->range > 0 ? (int)(row % (2 * (uint32_t)p->range + 1)) - p->range : p->range;
    for (uint32_t i = 0; i < p->k; i++) values[i] = ldexpf((float)kg_rng_normal(rng), exponent);
    info->encode(values, bytes, p->k);
    free(values);
}

/* W in the device's memory; *values is malloc'ed: what it decodes to. */
static struct kg_weight make_weight(struct kg_op_device *d, const struct product *p, uint64_t seed, float **values) {
    struct kg_weight w = { .dtype = p->dtype, .n_rows = p->n, .n_cols = p->k };
    const size_t row_bytes = kg_weight_row_bytes(&w);
    struct kg_rng rng;
    uint8_t *bytes = kg_xmalloc(p->n * row_bytes);
    *values = kg_xcalloc((size_t)p->n * p->k, sizeof **values);
    kg_rng_init(&rng, seed, 1);
    for (uint32_t o = 0; o < p->n; o++) {
        fill_row(&rng, p, o, bytes + o * row_bytes);
        kg_dtype_info(p->dtype)->decode(bytes + o * row_bytes, *values + (size_t)o * p->k, p->k);
    }
    w.data = kg_op_device_put(d, bytes, p->n * row_bytes);
    free(bytes);
    struct kg_error err;
    const struct kg_backend_ops *ops = d->backend->ops;
    if (p->repacked && ops->repack_weight) kg_op_expect_ok(ops->repack_weight(d->backend, &w, 1, &err), &err);
    return w;
}

/* Up to so many rows no back end has a reason to round a weight: each is decoded where it is multiplied. */
enum { FEW_ROWS = 8 };

static bool is_rounded_to_f16(const struct product *p) {
    bool rounded = false;
    for (size_t b = 0; b < KG_COUNT_OF(BLOCKS); b++) rounded = rounded || BLOCKS[b].dtype == p->dtype;
    return rounded && p->m > FEW_ROWS && p->mode->activations == KG_PRECISION_F16;
}

/* F16, BF16 and MXFP4 weights may cost nothing: no back end has to round them, nor float16 x. x has mean zero, so that
 * partial sums, and their roundings, grow no faster than sum|x w|: the worst of all formats and sizes is 6 roundings of
 * it (K = 64), of K = 512 and more 2. */
static void judge(struct kg_record *rec, const struct product *p, const float *x, const float *w, const float *bias,
                  const struct kg_op_output *y) {
    struct kg_error err;
    const size_t n = (size_t)p->m * p->n;
    float *reference = kg_xcalloc(n, sizeof *reference);
    const struct kg_linear_args exact = {
        .x = x, .weight = { w, KG_DTYPE_F32, p->n, p->k }, .bias = bias, .y = reference, .n_rows = p->m
    };
    kg_op_expect_ok(kg_cpu_linear(NULL, &exact, &err), &err);
    double *unit = kg_absolute_products(x, w, bias, p->m, p->n, p->k), *want = kg_xcalloc(n, sizeof *want);
    float *got = kg_xcalloc(n, sizeof *got);
    const double sums = fmin(8 + sqrt((double)p->k), 16) * KG_ROUNDOFF + (is_rounded_to_f16(p) ? KG_ROUNDOFF_F16 : 0);
    for (size_t i = 0; i < n; i++) {
        unit[i] *= sums;
        if (p->mode->output == KG_PRECISION_F16)
            unit[i] += KG_ROUNDOFF_F16 * fabs((double)reference[i]) + KG_ROUNDOFF_F16_ABS;
        want[i] = (double)reference[i] / unit[i];
        got[i] = (float)((double)y->host.data[i] / unit[i]);
    }
    const struct kg_tolerance tol = {
        .max_abs = 1,
        .why = "in units of at most 16, or 8 + sqrt K, 2^-24 sum|x w| for float32 sums of exact products, 2^-11 sum|x "
               "w| for quantised "
               "weights rounded to float16 beside float16 x of more than 8 rows, and one rounding of a float16 result",
        .far = kg_far_on_cpu(rec),
    };
    kg_expect_close_f64(rec, "linear", got, want, n, &tol);
    free(got);
    free(want);
    free(unit);
    free(reference);
}

/* What a load of large weights begins beside it: kernels are loaded, and the library is opened and warmed up, on
 * threads that a product may meet. */
static bool announce(struct kg_record *rec, struct kg_op_device *d, uint64_t n_bytes) {
    struct kg_error err;
    const struct kg_backend_ops *ops = d->backend->ops;
    const enum kg_status status = ops->reserve_weights(d->backend, n_bytes, NULL, &err);
    if (status == KG_ERR_NO_MEMORY) {
        kg_record_skip(rec, "%s", err.message);
        kg_op_device_close(d);
        return false;
    }
    kg_op_expect_ok(status, &err);
    kg_op_expect_ok(ops->reserve_weights(d->backend, 0, NULL, &err), &err);
    return true;
}

static void multiply(struct kg_record *rec, const struct product *p, uint64_t announced_bytes) {
    struct kg_op_device device;
    struct kg_error err;
    if (!kg_op_device_open(rec, p->mode->backend, NULL, &device)) return;
    if (announced_bytes > 0 && !announce(rec, &device, announced_bytes)) return;
    const uint64_t seed = kg_record_seed(rec);
    const size_t n_x = (size_t)p->m * p->k;
    float *values, *normal = kg_op_device_own(&device, kg_xcalloc(n_x, sizeof *normal));
    float *bias = kg_op_device_own(&device, kg_xcalloc(p->n, sizeof *bias));
    kg_fill_normal(normal, n_x, seed, 0, 1);
    kg_fill_normal(bias, p->n, seed + 1, 0, 1);
    const float *x = kg_op_device_rounded(&device, normal, n_x, p->mode->activations);
    const struct kg_weight weight = make_weight(&device, p, seed + 2, &values);
    kg_op_device_workspace(&device, p->m, p->k > p->n ? p->k : p->n, 1, 1, 64, 64);
    struct kg_op_output y;
    kg_op_output_init(&device, &y, (size_t)p->m * p->n, p->mode->output);
    const struct kg_linear_args args = {
        .activations = p->mode->activations,
        .output = p->mode->output,
        .x = kg_op_device_put_as(&device, x, n_x, p->mode->activations),
        .weight = weight,
        .bias = p->bias ? kg_op_device_put(&device, bias, p->n * sizeof *bias) : NULL,
        .y = y.y,
        .n_rows = p->m,
        .workspace = device.workspace,
    };
    kg_op_expect_ok(device.backend->ops->linear(device.backend, &args, &err), &err);
    kg_op_output_read_all(&device, &y, "linear");
    judge(rec, p, x, values, p->bias ? bias : NULL, &y);
    kg_op_output_free(&y);
    free(values);
    kg_op_device_close(&device);
}

static void run_product(struct kg_record *rec, const void *arg) {
    multiply(rec, arg, 0);
}

static void run_beside_a_load(struct kg_record *rec, const void *arg) {
    multiply(rec, arg, UINT64_C(4) << 30);
}

static struct product products[2048];
static size_t n_products;

static void add_run(struct kg_case_list *cases, const char *edge, const struct product *p,
                    void (*run)(struct kg_record *, const void *)) {
    char name[64], shape[64];
    const char *format = kg_dtype_info(p->dtype)->name;
    if (n_products == KG_COUNT_OF(products)) abort(); /* a case left out unseen would be a hole */
    products[n_products] = *p;
    snprintf(name, sizeof name, "%s_of_%s%s", edge, format, p->bias ? "_bias" : "");
    for (char *c = name; *c; c++) *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c);
    snprintf(shape, sizeof shape, "M=%u N=%u K=%u", p->m, p->n, p->k);
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = "linear",
                                               .name = name,
                                               .backend = p->mode->backend,
                                               .dtype = p->mode->dtype,
                                               .shape = shape,
                                               .spec = "FT-051",
                                               .run = run,
                                               .arg = &products[n_products++] });
}

static void add(struct kg_case_list *cases, const char *edge, const struct product *p) {
    add_run(cases, edge, p, run_product);
}

/* More weights than a tile holds, and more outputs: what is decoded, and what is finished apart, goes in pieces. */
static const struct {
    enum kg_dtype dtype;
    uint32_t n, k;
    bool bias;
} PIECES[] = {
    { KG_DTYPE_Q8_0, 4101, 4128, false }, { KG_DTYPE_BF16, 8211, 64, true }, { KG_DTYPE_MXFP4, 8211, 64, false },
    { KG_DTYPE_F16, 8211, 64, true },     { KG_DTYPE_F32, 8211, 64, true },  { KG_DTYPE_Q8_0, 4101, 4128, true },
};

/* MXFP4 as a back end keeps it: on either side of 8 and 16 rows of matrix-vector products and of 64 and 128 of tiles,
 * outputs that are no whole tiles, one group of them, one tile of columns; and shapes that stay as they are. */
static const uint32_t REPACKED_ROWS[] = { 1, 2, 8, 9, 16, 17, 63, 64, 65, 129, 200 };
static const struct { uint32_t n, k; } REPACKED[] = { { 16, 64 }, { 112, 576 }, { 304, 2880 }, { 40, 64 }, { 64, 96 } };

/* Tensor cores over block formats: tiles of 64, 128 and 256 rows and of 128 outputs, chunks of 256 columns, columns
 * split among blocks. K in units of 64 columns, of formats with blocks of 256 in those: on either side of each tile, a
 * part of a chunk, rows of W that begin at any even byte (an odd number of units), rows of y that begin anywhere, one
 * chunk, more tiles than multiprocessors; and what others multiply: 7 outputs, 1,025 rows. */
static const struct {
    uint32_t m, n, units;
} TILES[] = {
    { 9, 8, 1 },     { 64, 128, 8 },  { 65, 131, 5 }, { 128, 256, 4 }, { 129, 130, 9 },
    { 256, 264, 3 }, { 257, 136, 3 }, { 40, 72, 33 }, { 33, 257, 10 }, { 9, 17000, 2 },
    { 1024, 20, 5 }, { 1025, 20, 5 }, { 16, 7, 5 },
};

/* Float32 W of few outputs by float16 x: tiles of 16 rows and 32 outputs, columns in vectors of 4, which four or eight
 * blocks share; and what others multiply: 257 outputs, columns that are no multiple of 8, or too many. */
static const struct {
    uint32_t m, n, k;
} FEW_OUTPUTS[] = { { 33, 2, 8 },     { 48, 31, 504 },   { 49, 32, 512 }, { 64, 33, 520 },  { 200, 32, 2880 },
                    { 40, 128, 136 }, { 35, 256, 1024 }, { 33, 9, 5536 }, { 34, 40, 8200 }, { 35, 257, 1024 },
                    { 34, 32, 60 },   { 33, 5, 11600 },  { 513, 8, 128 } };

/* Few rows of float32: tiles of 64 outputs and 64 columns, columns that eight, three and one block of a cluster have,
 * the last row and the first past it. Block formats where K is whole blocks. */
static const struct {
    uint32_t m, n, k;
} FEW_ROWS_F32[] = { { 9, 63, 64 },      { 10, 64, 72 },    { 31, 65, 999 },   { 32, 130, 4104 }, { 33, 130, 4104 },
                     { 20, 3000, 1000 }, { 12, 9000, 256 }, { 17, 40000, 64 }, { 32, 2, 512 },    { 29, 259, 8960 } };
static const enum kg_dtype FEW_ROWS_FORMATS[] = { KG_DTYPE_F32,  KG_DTYPE_F16,  KG_DTYPE_BF16,
                                                  KG_DTYPE_Q8_0, KG_DTYPE_Q4_K, KG_DTYPE_MXFP4 };

/* Rows 2^-30 to 2^30 in size: BF16 and MXFP4 hold what float16 does not. */
static const enum kg_dtype WIDE[] = { KG_DTYPE_F32, KG_DTYPE_BF16, KG_DTYPE_MXFP4 };

static void add_repacked(struct kg_case_list *cases, const struct mode *mode) {
    for (size_t s = 0; s < KG_COUNT_OF(REPACKED); s++)
        for (size_t r = 0; r < KG_COUNT_OF(REPACKED_ROWS); r++)
            add(cases, "arranged",
                &(struct product){ mode, KG_DTYPE_MXFP4, REPACKED_ROWS[r], REPACKED[s].n, REPACKED[s].k, r % 2 == 0, 0,
                                   true });
    static const uint32_t WIDE_ROWS[] = { 1, 16, 33, 200 };
    for (size_t r = 0; r < KG_COUNT_OF(WIDE_ROWS) && mode->output == KG_PRECISION_F32; r++)
        add(cases, "arranged_wide_range",
            &(struct product){ mode, KG_DTYPE_MXFP4, WIDE_ROWS[r], 144, 192, false, 30, true });
}

/* BF16 that the GPU has as float16, and what it leaves: rows beyond float16's range, and matrices of values so small
 * that float16 would take bits of all of them. */
static void add_as_float16(struct kg_case_list *cases, const struct mode *mode) {
    static const uint32_t AS_FLOAT16_ROWS[] = { 1, 9, 33, 200 };
    for (size_t r = 0; r < KG_COUNT_OF(AS_FLOAT16_ROWS); r++) {
        const uint32_t m = AS_FLOAT16_ROWS[r];
        add(cases, "as_float16", &(struct product){ mode, KG_DTYPE_BF16, m, 144, 192, r % 2 == 0, 0, true });
        if (mode->output != KG_PRECISION_F32) continue;
        add(cases, "beyond_float16", &(struct product){ mode, KG_DTYPE_BF16, m, 144, 192, false, 30, true });
        add(cases, "below_float16", &(struct product){ mode, KG_DTYPE_BF16, m, 144, 192, false, -20, true });
    }
}

static void add_tiles(struct kg_case_list *cases, const struct mode *mode) {
    if (mode->activations != KG_PRECISION_F16) return;
    for (size_t b = 0; b < KG_COUNT_OF(BLOCKS); b++)
        for (size_t t = 0; t < KG_COUNT_OF(TILES); t++) {
            const uint32_t unit = kg_dtype_info(BLOCKS[b].dtype)->block_elems == 256 ? 256 : 64;
            add(cases, "tiles",
                &(struct product){ mode, BLOCKS[b].dtype, TILES[t].m, TILES[t].n, TILES[t].units * unit, t % 2 == 0, 0,
                                   false });
        }
    /* Tiles of 256 rows; the sums of such split. */
    add(cases, "tiles", &(struct product){ mode, KG_DTYPE_Q8_0, 129, 8964, 64, true, 0, false });
    if (mode->output == KG_PRECISION_F16)
        add(cases, "tiles", &(struct product){ mode, KG_DTYPE_Q4_K, 257, 4000, 2048, false, 0, false });
}

static void add_few_outputs(struct kg_case_list *cases, const struct mode *mode) {
    if (mode->output == mode->activations) return;
    for (size_t i = 0; i < KG_COUNT_OF(FEW_OUTPUTS); i++)
        add(cases, "few_outputs",
            &(struct product){ mode, KG_DTYPE_F32, FEW_OUTPUTS[i].m, FEW_OUTPUTS[i].n, FEW_OUTPUTS[i].k, i % 2 == 0, 0,
                               false });
}

static void add_few_rows_f32(struct kg_case_list *cases, const struct mode *mode) {
    if (mode->activations != KG_PRECISION_F32) return;
    for (size_t f = 0; f < KG_COUNT_OF(FEW_ROWS_FORMATS); f++)
        for (size_t i = 0; i < KG_COUNT_OF(FEW_ROWS_F32); i++)
            if (FEW_ROWS_F32[i].k % kg_dtype_info(FEW_ROWS_FORMATS[f])->block_elems == 0)
                add(cases, "few_rows",
                    &(struct product){ mode, FEW_ROWS_FORMATS[f], FEW_ROWS_F32[i].m, FEW_ROWS_F32[i].n,
                                       FEW_ROWS_F32[i].k, i % 2 == 0, 0, false });
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(MODES); i++) {
        const struct mode *mode = &MODES[i];
        for (int dtype = 0; dtype < KG_DTYPE_COUNT; dtype++)
            for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++)
                add(cases, "rows",
                    &(struct product){ mode, (enum kg_dtype)dtype, ROWS[r], 67, 512, r % 2 == 0, 0, false });
        for (size_t w = 0; w < KG_COUNT_OF(WIDE) && mode->output == KG_PRECISION_F32; w++) {
            add(cases, "wide_range", &(struct product){ mode, WIDE[w], 1, 61, 96, false, 30, false });
            add(cases, "wide_range", &(struct product){ mode, WIDE[w], 33, 61, 96, false, 30, false });
        }
        if (strcmp(mode->backend, "cuda") != 0) continue; /* the cpu back end has no pieces */
        const uint32_t past_few = mode->activations == KG_PRECISION_F32 ? 33 : 9;
        for (size_t s = 0; s < KG_COUNT_OF(PIECES); s++)
            add(cases, "pieces",
                &(struct product){ mode, PIECES[s].dtype, past_few, PIECES[s].n, PIECES[s].k, PIECES[s].bias, 0,
                                   false });
        add_repacked(cases, mode);
        add_as_float16(cases, mode);
        add_tiles(cases, mode);
        add_few_outputs(cases, mode);
        add_few_rows_f32(cases, mode);
        const enum kg_dtype of_library = mode->activations == KG_PRECISION_F32 ? KG_DTYPE_F32 : KG_DTYPE_F16;
        add_run(cases, "beside_a_load", &(struct product){ mode, of_library, 64, 67, 512, false, 0, false },
                run_beside_a_load);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
