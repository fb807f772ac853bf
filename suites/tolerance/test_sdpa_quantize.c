/* Quantisation to E4M3 and int8 with a scale a head: every byte and every scale against a search among the numbers that
 * the format has, which shares nothing with the encoder; in every layout, with zeros, NaN and heads larger than a
 * block. */
#include "base/buffer.h"
#include "base/size.h"
#include "format/dtype.h"
#include "suites/support/float64_loops.h"
#include "suites/support/sdpa_problem.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct mode {
    const char *backend, *dtype;
    enum kg_precision input, output;
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32, KG_PRECISION_F8 },
    { "cuda", "f16", KG_PRECISION_F16, KG_PRECISION_F8 },
    { "cpu", "i8", KG_PRECISION_F32, KG_PRECISION_I8 },
    { "cuda", "i8", KG_PRECISION_F16, KG_PRECISION_I8 },
};

enum { GUARD_BYTES = 256, POISON = 0xA5 };

/* What a magnitude of E4M3 is, by its definition. */
static double e4m3_magnitude(unsigned code) {
    const unsigned exponent = code >> 3, mantissa = code & 7;
    return exponent == 0 ? ldexp(mantissa, -9) : ldexp(8 + mantissa, (int)exponent - 10);
}
static unsigned e4m3_byte(unsigned code, bool negative) {
    return code | (negative ? 0x80U : 0);
}
static double i8_magnitude(unsigned code) {
    return code;
}
static unsigned i8_byte(unsigned code, bool negative) {
    return negative ? (256 - code) % 256 : code;
}

/* Codes of magnitudes are whole numbers from 0 to the largest, an even one's neighbours odd. */
static const struct format {
    unsigned largest_code;
    double (*magnitude)(unsigned code);
    unsigned (*byte)(unsigned code, bool negative);
    bool has_nan;
} E4M3 = { 0x7E, e4m3_magnitude, e4m3_byte, true }, I8 = { 127, i8_magnitude, i8_byte, false };

struct problem {
    const struct format *format;
    uint32_t n_batch, n_heads, n_rows, head_dim;
    enum kg_sdpa_layout layout;
    size_t n, n_planes;
    float *x;     /* dense, of values that the precision holds */
    uint8_t *y;   /* dense, after run */
    float *scale; /* (n_batch, n_heads), after run */
};

static void problem_init(struct problem *p, const struct mode *mode, double deviation, uint64_t seed) {
    p->format = mode->output == KG_PRECISION_F8 ? &E4M3 : &I8;
    p->n_planes = (size_t)p->n_batch * p->n_heads;
    p->n = p->n_planes * p->n_rows * p->head_dim;
    p->x = kg_loops_normal(p->n, seed, 0, deviation, mode->input);
    p->y = kg_xcalloc(p->n + 1, 1);
    p->scale = kg_xcalloc(p->n_planes, sizeof *p->scale);
}

static void problem_free(struct problem *p) {
    free(p->scale);
    free(p->y);
    free(p->x);
}

static size_t offset(const struct problem *p, const struct kg_sdpa_strides *s, size_t i) {
    const size_t row = i / p->head_dim, plane = row / p->n_rows;
    return plane / p->n_heads * s->batch + plane % p->n_heads * s->head + row % p->n_rows * s->row + i % p->head_dim;
}

/* Every element is looked at without ck_assert, which takes a microsecond to pass.
 *
 * In the problem's layout, NaN around and between the rows of x; every byte of y that is no element of it must stay. */
static void run(struct kg_op_device *d, const struct mode *mode, struct problem *p) {
    const struct kg_sdpa_strides s = kg_sdpa_layout_strides(p->layout, p->n_heads, p->n_rows, p->head_dim);
    const size_t elem_bytes = kg_precision_bytes(mode->input), odd = p->layout == KG_SDPA_ODD;
    const size_t span = (p->n_batch - 1) * s.batch + (p->n_heads - 1) * s.head + (p->n_rows - 1) * s.row + p->head_dim;
    const size_t first = GUARD_BYTES + odd, n = span + 2 * GUARD_BYTES + odd;
    uint8_t *x = kg_xmalloc(n * elem_bytes), *y = kg_xmalloc(n);
    float nothing[64];
    struct kg_error err;
    memset(x, 0xFF, n * elem_bytes);
    memset(y, POISON, n);
    for (size_t i = 0; i < p->n; i++) {
        const size_t at = first + offset(p, &s, i);
        const uint16_t half = kg_f32_to_f16(p->x[i]);
        memcpy(x + at * elem_bytes, mode->input == KG_PRECISION_F16 ? (const void *)&half : (const void *)&p->x[i],
               elem_bytes);
    }
    memset(nothing, 0xFF, sizeof nothing);
    ck_assert_uint_le(p->n_planes, KG_COUNT_OF(nothing));
    uint8_t *const y_there = kg_op_device_put(d, y, n);
    float *const scale_there = kg_op_device_put(d, nothing, sizeof nothing);
    const struct kg_sdpa_quantize_args args = {
        .input = mode->input,
        .output = mode->output,
        .x = (char *)kg_op_device_put(d, x, n * elem_bytes) + first * elem_bytes,
        .y = y_there + first,
        .x_strides = s,
        .y_strides = s,
        .scale = scale_there,
        .n_batch = p->n_batch,
        .n_heads = p->n_heads,
        .n_rows = p->n_rows,
        .head_dim = p->head_dim,
    };
    kg_op_expect_ok(d->backend->ops->sdpa_quantize(d->backend, &args, &err), &err);
    kg_op_expect_ok(d->backend->ops->download(d->backend, y, y_there, n, &err), &err);
    kg_op_expect_ok(d->backend->ops->download(d->backend, nothing, scale_there, sizeof nothing, &err), &err);
    memcpy(p->scale, nothing, p->n_planes * sizeof *p->scale);
    for (size_t i = p->n_planes; i < KG_COUNT_OF(nothing); i++)
        ck_assert_msg(isnan(nothing[i]), "scale %zu of %zu was written", i, p->n_planes);
    for (size_t i = 0; i < p->n; i++) {
        const size_t at = first + offset(p, &s, i);
        p->y[i] = y[at];
        y[at] = POISON;
    }
    for (size_t i = 0; i < n; i++)
        if (y[i] != POISON) ck_abort_msg("byte %zu beside the rows was written", i);
    free(y);
    free(x);
    kg_op_device_clear(d);
}

/* The magnitude nearest to x >= 0, the even one of two as near, the largest for what is beyond: by bisection. */
static unsigned nearest(const struct format *f, double x) {
    unsigned below = 0, above = f->largest_code;
    if (x >= f->magnitude(above)) return above;
    while (above - below > 1) {
        const unsigned middle = (below + above) / 2;
        if (f->magnitude(middle) <= x) below = middle;
        else above = middle;
    }
    const double to_below = x - f->magnitude(below), to_above = f->magnitude(above) - x;
    if (to_below != to_above) return to_below < to_above ? below : above;
    return below % 2 == 0 ? below : above;
}

static void expect_right(const struct problem *p) {
    const struct format *f = p->format;
    const size_t per_plane = p->n / p->n_planes;
    for (size_t plane = 0; plane < p->n_planes; plane++) {
        const float *x = p->x + plane * per_plane;
        float largest = 0;
        bool any_nan = false;
        for (size_t i = 0; i < per_plane; i++) {
            any_nan = any_nan || isnan(x[i]);
            if (!isnan(x[i]) && fabsf(x[i]) > largest) largest = fabsf(x[i]);
        }
        const float quotient = largest / (float)f->magnitude(f->largest_code);
        const float want = any_nan && !f->has_nan ? NAN : quotient > 0 ? quotient : 1;
        ck_assert_msg(isnan(want) ? isnan(p->scale[plane]) : kg_same_bits(p->scale[plane], want),
                      "scale %zu is %.9g, %.9g is meant", plane, p->scale[plane], want);
        for (size_t i = 0; i < per_plane; i++) {
            const float share = x[i] / want;
            const unsigned nan_byte = f->has_nan ? 0x7F : 0, got = p->y[plane * per_plane + i];
            const unsigned byte = isnan(share) ? nan_byte : f->byte(nearest(f, fabs((double)share)), signbit(share));
            if (isnan(share) && f->has_nan ? (got & 0x7F) != byte : got != byte)
                ck_abort_msg("element %zu of head %zu, %.9g / %.9g: byte %02x, %02x is meant", i, plane, x[i], want,
                             got, byte);
        }
    }
}

static void every_layout(struct kg_record *rec, const void *arg) {
    static const uint32_t HEAD_DIMS[] = { 64, 80, 97, 128 }, ROWS[] = { 1, 2, 63, 513 };
    static const double DEVIATIONS[] = { 1, 100, 1e-3 };
    const struct mode *mode = arg;
    struct kg_op_device d;
    size_t n_compared = 0;
    if (!kg_op_device_open(rec, mode->backend, NULL, &d)) return;
    for (size_t i = 0; i < KG_COUNT_OF(HEAD_DIMS) * KG_COUNT_OF(ROWS) * 5; i++) {
        struct problem p = { .n_batch = 2,
                             .n_heads = 3,
                             .n_rows = ROWS[i / 5 % KG_COUNT_OF(ROWS)],
                             .head_dim = HEAD_DIMS[i / 20],
                             .layout = (enum kg_sdpa_layout)(i % 5) };
        problem_init(&p, mode, DEVIATIONS[i % KG_COUNT_OF(DEVIATIONS)], kg_record_seed(rec) + i);
        run(&d, mode, &p);
        expect_right(&p);
        n_compared += p.n;
        problem_free(&p);
    }
    kg_op_device_close(&d);
    kg_record_metric(rec, "elements_compared", "count", (double)n_compared);
}

/* Ties at every place: multiples of half a step, all below a largest that makes the scale 1. */
static void ties_go_to_even(struct kg_record *rec, const void *arg) {
    const struct mode *mode = arg;
    struct problem p = { .n_batch = 1, .n_heads = 1, .n_rows = 16, .head_dim = 64 };
    struct kg_op_device d;
    if (!kg_op_device_open(rec, mode->backend, NULL, &d)) return;
    problem_init(&p, mode, 1, kg_record_seed(rec));
    for (size_t i = 0; i < p.n; i++) {
        const unsigned largest = p.format->largest_code, code = i / 4 % largest;
        const double low = p.format->magnitude(code), high = p.format->magnitude(code + 1);
        const double value = i % 4 < 2 ? (low + high) / 2 : low;
        p.x[i] = (float)(i % 2 ? -value : value);
    }
    p.x[0] = (float)p.format->magnitude(p.format->largest_code);
    run(&d, mode, &p);
    ck_assert_float_eq(p.scale[0], 1);
    expect_right(&p);
    problem_free(&p);
    kg_op_device_close(&d);
}

/* A head of zeros has a scale of 1 and stays zeros, whatever stands beside it; signs are kept. */
static void zeros_have_a_scale(struct kg_record *rec, const void *arg) {
    const struct mode *mode = arg;
    struct problem p = { .n_batch = 1, .n_heads = 3, .n_rows = 700, .head_dim = 64 };
    struct kg_op_device d;
    if (!kg_op_device_open(rec, mode->backend, NULL, &d)) return;
    problem_init(&p, mode, 1, kg_record_seed(rec));
    const size_t per_head = p.n / 3;
    for (size_t i = per_head; i < 2 * per_head; i++) p.x[i] = i % 2 ? -0.0F : 0.0F;
    run(&d, mode, &p);
    ck_assert_float_eq(p.scale[1], 1);
    for (size_t i = per_head; i < 2 * per_head; i++) ck_assert_uint_eq(p.y[i], p.format->byte(0, i % 2));
    expect_right(&p);
    problem_free(&p);
    kg_op_device_close(&d);
}

/* A NaN is NaN where it was, and no scale is; of a format without it, its head has a scale of NaN, and zeros. */
static void nan_stays_where_it_is(struct kg_record *rec, const void *arg) {
    const struct mode *mode = arg;
    struct problem p = { .n_batch = 1, .n_heads = 2, .n_rows = 65, .head_dim = 80 };
    struct kg_op_device d;
    if (!kg_op_device_open(rec, mode->backend, NULL, &d)) return;
    problem_init(&p, mode, 1, kg_record_seed(rec));
    p.x[0] = p.x[777] = p.x[p.n / 2 - 1] = NAN;
    run(&d, mode, &p);
    if (p.format->has_nan) ck_assert_msg((p.y[777] & 0x7F) == 0x7F, "NaN became %02x", p.y[777]);
    ck_assert(isnan(p.scale[0]) == !p.format->has_nan && isfinite(p.scale[1]));
    expect_right(&p);
    problem_free(&p);
    kg_op_device_close(&d);
}

/* Heads of many blocks, their largest element in the last row: a hundred runs give the same bytes. */
static void large_heads_are_the_same_each_time(struct kg_record *rec, const void *arg) {
    enum { N_RUNS = 100 };
    const struct mode *mode = arg;
    const bool gpu = strcmp(mode->backend, "cpu") != 0;
    struct problem p = { .n_batch = 1, .n_heads = 4, .n_rows = 1024, .head_dim = 64 };
    struct kg_op_device d;
    if (!kg_op_device_open(rec, mode->backend, NULL, &d)) return;
    problem_init(&p, mode, 1, kg_record_seed(rec));
    p.x[p.n - 1] = -11;
    run(&d, mode, &p);
    expect_right(&p);
    uint8_t *first = kg_xmalloc(p.n);
    float scales[4];
    memcpy(first, p.y, p.n);
    memcpy(scales, p.scale, sizeof scales);
    for (int i = 1; i < (gpu ? N_RUNS : 3); i++) {
        run(&d, mode, &p);
        ck_assert_msg(memcmp(first, p.y, p.n) == 0 && memcmp(scales, p.scale, sizeof scales) == 0, "run %d differs", i);
    }
    free(first);
    problem_free(&p);
    kg_op_device_close(&d);
}

static void build(struct kg_case_list *cases) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } CASES[] = {
        { "every_layout", every_layout },
        { "ties_go_to_even", ties_go_to_even },
        { "zeros_have_a_scale", zeros_have_a_scale },
        { "nan_stays_where_it_is", nan_stays_where_it_is },
        { "large_heads_are_the_same_each_time", large_heads_are_the_same_each_time },
    };
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++)
        for (size_t i = 0; i < KG_COUNT_OF(CASES); i++)
            kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                       .op = "sdpa_quantize",
                                                       .name = CASES[i].name,
                                                       .backend = MODES[m].backend,
                                                       .dtype = MODES[m].dtype,
                                                       .run = CASES[i].run,
                                                       .arg = &MODES[m] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
