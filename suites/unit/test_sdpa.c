/* E4M3 by its definition, and the reference of scaled-dot-product attention: what it refuses, the workspace it asks
 * for, and that a row's bits depend on no number of threads; its numbers are the tolerance suite's. And that none of
 * the kernels spills registers, as build.json has it. */
#include "ops/sdpa.h"
#include "bundle/internal.h"
#include "format/dtype.h"
#include "suites/unit/ops_shared.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a byte is, by the table of the OCP 8-bit Floating Point Specification. */
static double e4m3_by_definition(unsigned byte) {
    const unsigned exponent = byte >> 3 & 15, mantissa = byte & 7;
    const double sign = byte & 0x80 ? -1 : 1;
    if (exponent == 15 && mantissa == 7) return NAN;
    if (exponent == 0) return sign * mantissa / 8 * pow(2, -6);
    return sign * (1 + mantissa / 8.0) * pow(2, (double)exponent - 7);
}

static void every_byte(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    size_t n_nan = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        const double want = e4m3_by_definition(byte), got = (double)kg_e4m3_to_f32((uint8_t)byte);
        n_nan += isnan(got) != 0;
        ck_assert_msg(isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want), "%02x is %.9g, not %.9g",
                      byte, got, want);
        ck_assert_uint_eq(kg_f32_to_e4m3((float)got), byte); /* NaN keeps its sign, too */
    }
    ck_assert_uint_eq(n_nan, 2);
    ck_assert_double_eq((double)kg_e4m3_to_f32(0x7E), (double)KG_SDPA_E4M3_LARGEST);
    ck_assert_double_eq((double)kg_e4m3_to_f32(0x01), 0x1p-9);
}

/* Of both signs. */
static void expect_byte(float x, unsigned want) {
    const unsigned got = kg_f32_to_e4m3(x), mirrored = kg_f32_to_e4m3(-x);
    if (got != want || mirrored != (want | 0x80))
        ck_abort_msg("%.9g becomes %02x and its negative %02x, not %02x", x, got, mirrored, want);
}

/* Between each number and the next: half the way goes to the even one, the least less or more to the nearer one. */
static void halfway_goes_to_even(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (unsigned byte = 0; byte < 0x7E; byte++) {
        const double low = e4m3_by_definition(byte), high = e4m3_by_definition(byte + 1);
        const float middle = (float)((low + high) / 2);
        ck_assert_double_eq((double)middle, (low + high) / 2);
        expect_byte(middle, byte % 2 ? byte + 1 : byte);
        expect_byte(nextafterf(middle, 0), byte);
        expect_byte(nextafterf(middle, INFINITY), byte + 1);
    }
}

/* Against a search for the nearest of all, over floats of every exponent. */
static void nearest_of_all(struct kg_record *rec, const void *arg) {
    enum { N = 20000 };
    (void)arg;
    float *x = kg_filled(N, kg_record_seed(rec));
    for (size_t i = 0; i < N; i++) {
        const float magnitude = fabsf(ldexpf(x[i], (int)(i % 24) - 14));
        unsigned best = 0;
        for (unsigned byte = 1; byte <= 0x7E; byte++)
            if (fabs(e4m3_by_definition(byte) - (double)magnitude) < fabs(e4m3_by_definition(best) - (double)magnitude))
                best = byte;
        expect_byte(magnitude, best); /* random floats are no ties */
    }
    free(x);
}

static void what_is_too_large_saturates(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    const float large[] = { 448, 449, 463.99F, 464, 480, 1000, 65504, 3e38F, INFINITY };
    for (size_t i = 0; i < KG_COUNT_OF(large); i++) expect_byte(large[i], 0x7E);
    const float small[] = { 0, 1e-45F, 1e-30F, 0x1p-11F, 0x1p-10F };
    for (size_t i = 0; i < KG_COUNT_OF(small); i++) expect_byte(small[i], 0);
    expect_byte(nextafterf(0x1p-10F, 1), 1);
    expect_byte(NAN, 0x7F);
}

static void names_of_variants(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    enum kg_sdpa_variant variant;
    struct kg_error err;
    for (size_t i = 0; i < KG_SDPA_VARIANT_COUNT; i++) {
        const char *name = kg_sdpa_variant_name((enum kg_sdpa_variant)i);
        kg_must(kg_sdpa_variant_from_name(name, &variant, &err), &err);
        ck_assert_uint_eq((size_t)variant, i);
    }
    const char *const wrong[] = { "", "AUTO", "scalar ", "scala", "fastest" };
    for (size_t i = 0; i < KG_COUNT_OF(wrong); i++) {
        ck_assert_int_eq(kg_sdpa_variant_from_name(wrong[i], &variant, &err), KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, wrong[i]) != NULL, "%s", err.message);
    }
}

static void workspace_is_for_few_queries(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_sdpa_args args = { .n_batch = 3, .n_heads = 14, .n_kv_heads = 2, .n_queries = 16, .head_dim = 96 };
    /* For every block 16 rows of 32 times 4 dims with two numbers more. */
    const uint64_t many_rows = 256 * 16 * 32 * (4 + 2) * 4ULL, few_rows = 256 * 8 * 32 * (4 + 2) * 4ULL;
    ck_assert_uint_eq(kg_sdpa_workspace_bytes(&args), many_rows);
    args.n_queries = 1;
    ck_assert_uint_eq(kg_sdpa_workspace_bytes(&args), few_rows);
    args.n_queries = 17;
    ck_assert_uint_eq(kg_sdpa_workspace_bytes(&args), 0);
    args.n_queries = 0;
    ck_assert_uint_eq(kg_sdpa_workspace_bytes(&args), 0);
    args.n_queries = 16, args.n_batch = args.n_heads = UINT32_MAX, args.n_kv_heads = 1;
    ck_assert_uint_eq(kg_sdpa_workspace_bytes(&args), many_rows); /* more blocks do not split */
}

/* A change to arguments that are good, and what the message says of it. */
enum { N_HEADS = 2, N_ROWS = 3, DIM = 4, N_ELEMS = 2 * N_HEADS * N_ROWS * DIM };
static float some[N_ELEMS], out[N_ELEMS];

static struct kg_sdpa_args good_args(void) {
    const struct kg_sdpa_strides dense = kg_sdpa_dense(N_HEADS, N_ROWS, DIM);
    return (struct kg_sdpa_args){
        .q = some,
        .k = some,
        .v = some,
        .y = out,
        .q_strides = dense,
        .k_strides = dense,
        .v_strides = dense,
        .y_strides = dense,
        .n_batch = 2,
        .n_heads = N_HEADS,
        .n_kv_heads = N_HEADS,
        .n_queries = N_ROWS,
        .n_keys = N_ROWS,
        .head_dim = DIM,
        .scale = 1,
        .causal = true,
    };
}

#define REFUSED(name, says, ...)                                                                                       \
    static void name(struct kg_sdpa_args *a) {                                                                         \
        __VA_ARGS__;                                                                                                   \
    }
#define REFUSED_LIST(X)                                                                                                \
    X(no_q, "q or y is missing", a->q = NULL)                                                                          \
    X(no_y, "q or y is missing", a->y = NULL)                                                                          \
    X(no_k, "k or v is missing", a->k = NULL)                                                                          \
    X(no_v, "k or v is missing", a->v = NULL)                                                                          \
    X(y_is_v, "y is an input", a->v = a->y)                                                                            \
    X(head_of_none, "head size 0", a->head_dim = 0)                                                                    \
    X(head_too_large, "head size 2049", a->head_dim = KG_SDPA_MAX_HEAD_DIM + 1)                                        \
    X(no_heads, "0 heads", a->n_heads = 0)                                                                             \
    X(no_kv_heads, "0 KV heads", a->n_kv_heads = 0)                                                                    \
    X(heads_unshared, "3 heads cannot share 2", a->n_heads = 3)                                                        \
    X(too_many_queries, "131073 queries", a->n_queries = KG_SDPA_MAX_LENGTH + 1)                                       \
    X(too_many_keys, "131073 keys", a->n_keys = KG_SDPA_MAX_LENGTH + 1)                                                \
    X(window_of_full, "window of 5", a->causal = false; a->window = 5)                                                 \
    X(scale_nan, "scale is nan", a->scale = NAN)                                                                       \
    X(scale_infinite, "scale is -inf", a->scale = -INFINITY)                                                           \
    X(no_such_variant, "no variant 77", a->variant = (enum kg_sdpa_variant)77)                                         \
    X(scale_of_no_bytes, "f32 inputs with scales", a->q_scale = some)                                                  \
    X(f8_unscaled, "f8 inputs without a scale", a->inputs = KG_PRECISION_F8; a->q_scale = a->k_scale = some)           \
    X(i8_unscaled, "i8 inputs without a scale", a->inputs = KG_PRECISION_I8; a->q_scale = a->v_scale = some)           \
    X(rows_overlap, "rows of y overlap", a->y_strides.row = DIM - 1)                                                   \
    X(heads_overlap, "rows of y overlap", a->y_strides.head = N_ROWS * DIM - 1)                                        \
    X(heads_are_one, "rows of y overlap", a->y_strides.head = 0)                                                       \
    X(batches_overlap, "rows of y overlap", a->y_strides.batch = DIM)                                                  \
    X(stride_past_memory, "strides", a->k_strides.row = UINT64_MAX / 2)                                                \
    X(strides_past_memory, "of q are out of range", a->q_strides.batch = a->q_strides.head = UINT64_MAX / 16)
REFUSED_LIST(REFUSED)
#undef REFUSED

static const struct {
    const char *name, *says;
    void (*change)(struct kg_sdpa_args *);
} REFUSALS[] = {
#define REFUSAL(name, says, ...) { #name, says, name },
    REFUSED_LIST(REFUSAL)
#undef REFUSAL
};

static void refused_arguments(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_error err;
    struct kg_sdpa_args args = good_args();
    kg_must(kg_sdpa_check(&args, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(REFUSALS); i++) {
        args = good_args();
        REFUSALS[i].change(&args);
        ck_assert_msg(kg_cpu_sdpa(NULL, &args, &err) == KG_ERR_USAGE, "%s is taken", REFUSALS[i].name);
        ck_assert_msg(strstr(err.message, REFUSALS[i].says) != NULL, "%s: '%s' does not say '%s'", REFUSALS[i].name,
                      err.message, REFUSALS[i].says);
    }
}

/* Heads interleaved, batch entries that share keys by a stride of 0, or none at all: good. */
static void layouts_that_are_good(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    struct kg_error err;
    struct kg_sdpa_args args = good_args();
    args.y_strides = args.q_strides = (struct kg_sdpa_strides){ N_ROWS * N_HEADS * DIM, DIM, N_HEADS * DIM };
    args.k_strides.batch = args.v_strides.batch = 0;
    kg_must(kg_sdpa_check(&args, &err), &err);
    args.n_keys = 0;
    args.k = args.v = NULL;
    kg_must(kg_sdpa_check(&args, &err), &err);
    args.n_batch = 0;
    args.q = args.y = NULL;
    kg_must(kg_cpu_sdpa(NULL, &args, &err), &err);
}

static void refused_quantisations(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    static uint8_t bytes[N_ELEMS];
    float scales[4];
    const struct kg_sdpa_strides dense = kg_sdpa_dense(N_HEADS, N_ROWS, DIM);
    const struct kg_sdpa_quantize_args good = { .output = KG_PRECISION_F8,
                                                .x = some,
                                                .y = bytes,
                                                .x_strides = dense,
                                                .y_strides = dense,
                                                .scale = scales,
                                                .n_batch = 2,
                                                .n_heads = N_HEADS,
                                                .n_rows = N_ROWS,
                                                .head_dim = DIM };
    struct kg_sdpa_quantize_args wrong[] = { good, good, good, good, good, good, good };
    const char *const says[] = { "x or y",       "x or y", "scale", "head size 0", "overlap", "of x are out of range",
                                 "output is f16" };
    struct kg_error err;
    wrong[0].x = NULL;
    wrong[1].y = NULL;
    wrong[2].scale = NULL;
    wrong[3].head_dim = 0;
    wrong[4].y_strides.row = 1;
    wrong[5].x_strides.head = UINT64_MAX;
    wrong[6].output = KG_PRECISION_F16;
    kg_must(kg_cpu_sdpa_quantize(NULL, &good, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(wrong); i++) {
        ck_assert_int_eq(kg_cpu_sdpa_quantize(NULL, &wrong[i], &err), KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, says[i]) != NULL, "'%s' does not say '%s'", err.message, says[i]);
    }
    struct kg_sdpa_quantize_args halves = good, no_rows = good;
    halves.input = KG_PRECISION_F16;
    ck_assert_int_eq(kg_cpu_sdpa_quantize(NULL, &halves, &err), KG_ERR_UNSUPPORTED);
    no_rows.n_rows = 0;
    no_rows.x = no_rows.y = NULL;
    kg_must(kg_cpu_sdpa_quantize(NULL, &no_rows, &err), &err);
    for (size_t i = 0; i < 4; i++) ck_assert_float_eq(scales[i], 1);
}

static void same_bits_in_any_pool(struct kg_record *rec, const void *arg) {
    enum { ROWS = 70, HEADS = 6, HEAD_DIM = 64, N = 2 * HEADS * ROWS * HEAD_DIM };
    (void)arg;
    struct kg_error err;
    float *x = kg_filled(N, kg_record_seed(rec)), *first = kg_xcalloc(N, sizeof *first), *y = kg_xcalloc(N, sizeof *y);
    struct kg_sdpa_args args = { .q = x,
                                 .k = x,
                                 .v = x,
                                 .n_batch = 2,
                                 .n_heads = HEADS,
                                 .n_kv_heads = 2,
                                 .n_queries = ROWS,
                                 .n_keys = ROWS,
                                 .head_dim = HEAD_DIM,
                                 .scale = 0.125F,
                                 .causal = true };
    args.q_strides = args.y_strides = kg_sdpa_dense(HEADS, ROWS, HEAD_DIM);
    args.k_strides = args.v_strides = kg_sdpa_dense(2, ROWS, HEAD_DIM);
    for (size_t i = 0; i < KG_COUNT_OF(KG_POOL_SIZES); i++) {
        struct kg_thread_pool *pool = kg_pool_of(KG_POOL_SIZES[i]);
        args.y = i ? y : first;
        kg_must(kg_cpu_sdpa(pool, &args, &err), &err);
        if (pool) kg_thread_pool_destroy(pool);
        ck_assert_msg(i == 0 || memcmp(first, y, N * sizeof *y) == 0, "%d threads differ", KG_POOL_SIZES[i]);
    }
    free(y);
    free(first);
    free(x);
}

/* Many entries of few heads in E4M3: all of them have room, and the last is as the first. */
static void batch_of_one_head(struct kg_record *rec, const void *arg) {
    enum { BATCH = 1 << 16, ROWS = 2, HEAD_DIM = 16, ELEMS = ROWS * HEAD_DIM };
    static const uint8_t ONE = 0x38, TWO = 0x40;
    (void)rec, (void)arg;
    struct kg_error err;
    uint8_t *x = kg_xcalloc(BATCH, ELEMS), *v = kg_xcalloc(BATCH, ELEMS);
    float *y = kg_xcalloc(BATCH, ELEMS * sizeof *y), *scales = kg_xcalloc(BATCH, sizeof *scales);
    for (size_t i = 0; i < BATCH; i++) {
        scales[i] = 1;
        memset(v + i * ELEMS, ONE, HEAD_DIM);
        memset(v + i * ELEMS + HEAD_DIM, TWO, HEAD_DIM);
    }
    struct kg_sdpa_args args = { .inputs = KG_PRECISION_F8,
                                 .q = x,
                                 .k = x,
                                 .v = v,
                                 .y = y,
                                 .q_scale = scales,
                                 .k_scale = scales,
                                 .v_scale = scales,
                                 .n_batch = BATCH,
                                 .n_heads = 1,
                                 .n_kv_heads = 1,
                                 .n_queries = ROWS,
                                 .n_keys = ROWS,
                                 .head_dim = HEAD_DIM,
                                 .scale = 1 };
    args.q_strides = args.k_strides = args.v_strides = args.y_strides = kg_sdpa_dense(1, ROWS, HEAD_DIM);
    kg_must(kg_cpu_sdpa(NULL, &args, &err), &err);
    for (size_t i = 0; i < (size_t)BATCH * ELEMS; i++) ck_assert_float_eq(y[i], 1.5F);
    free(scales);
    free(y);
    free(v);
    free(x);
}

static void kernels_spill_nothing(struct kg_record *rec, const void *arg) {
    (void)arg;
    json_t *built = kg_bundle_build(), *kernel;
    size_t i, n = 0;
    json_array_foreach(json_object_get(built, "kernels"), i, kernel) {
        const char *name = json_string_value(json_object_get(kernel, "name"));
        const int64_t stores = json_integer_value(json_object_get(kernel, "spill_store_bytes")),
                      loads = json_integer_value(json_object_get(kernel, "spill_load_bytes"));
        if (!strstr(name, "sdpa")) continue;
        n++;
        ck_assert_msg(!stores && !loads, "%s for %s: a thread spills %" PRId64 " bytes and reads %" PRId64, name,
                      json_string_value(json_object_get(kernel, "arch")), stores, loads);
    }
    json_decref(built);
    if (n == 0) kg_record_skip(rec, "the build has no CUDA kernels");
}

static const struct {
    const char *op, *name;
    void (*run)(struct kg_record *, const void *);
} CASES[] = {
    { "e4m3", "every_byte", every_byte },
    { "e4m3", "halfway_goes_to_even", halfway_goes_to_even },
    { "e4m3", "nearest_of_all", nearest_of_all },
    { "e4m3", "what_is_too_large_saturates", what_is_too_large_saturates },
    { "sdpa", "names_of_variants", names_of_variants },
    { "sdpa", "workspace_is_for_few_queries", workspace_is_for_few_queries },
    { "sdpa", "refused_arguments", refused_arguments },
    { "sdpa", "layouts_that_are_good", layouts_that_are_good },
    { "sdpa", "refused_quantisations", refused_quantisations },
    { "sdpa", "same_bits_in_any_pool", same_bits_in_any_pool },
    { "sdpa", "batch_of_one_head", batch_of_one_head },
    { "sdpa", "kernels_spill_nothing", kernels_spill_nothing },
};

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++)
        kg_case_list_add(
            cases,
            &(struct kg_case){
                .layer = "unit", .op = CASES[i].op, .name = CASES[i].name, .backend = "cpu", .run = CASES[i].run });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
