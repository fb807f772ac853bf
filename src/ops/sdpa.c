#include "ops/sdpa.h"
#include "base/size.h"
#include "format/dtype.h"
#include "ops/check.h"
#include "ops/online_softmax.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)KG_SDPA_MAX_HEAD_DIM <= (int)KG_ONLINE_SOFTMAX_MAX_HEAD_DIM, "a sum has room for every head size");

/* The least multiplications in a thread's range of rows. */
enum { MIN_PRODUCTS_PER_RANGE = 32768 };

static const char *const VARIANT_NAMES[KG_SDPA_VARIANT_COUNT] = {
#define VARIANT_NAME(name, text, what) [KG_SDPA_##name] = (text),
    KG_SDPA_VARIANT_LIST(VARIANT_NAME)
#undef VARIANT_NAME
};

const char *kg_sdpa_variant_name(enum kg_sdpa_variant variant) {
    return VARIANT_NAMES[variant];
}

enum kg_status kg_sdpa_variant_from_name(const char *name, enum kg_sdpa_variant *variant, struct kg_error *err) {
    for (size_t i = 0; i < KG_SDPA_VARIANT_COUNT; i++) {
        if (strcmp(VARIANT_NAMES[i], name) != 0) continue;
        *variant = (enum kg_sdpa_variant)i;
        return KG_OK;
    }
    return kg_fail(err, KG_ERR_USAGE, "sdpa: no variant '%s'", name);
}

struct kg_sdpa_strides kg_sdpa_dense(uint32_t n_heads, uint32_t n_rows, uint32_t head_dim) {
    const uint64_t head = (uint64_t)n_rows * head_dim;
    return (struct kg_sdpa_strides){ .batch = n_heads * head, .head = head, .row = head_dim };
}

/* Few queries: variant split may split the keys over blocks. The partial result of a block is 8 or 16 rows, one per
 * (query, head of the KV head's group): up to 128 values and, for every 4 of them, an exponent and a sum of weights. */
uint64_t kg_sdpa_workspace_bytes(const struct kg_sdpa_args *args) {
    enum { DIMS = 128, NUMBERS_PER_4 = 4 + 2 };
    if (args->n_queries == 0 || args->n_queries > KG_SDPA_SPLIT_MAX_QUERIES || args->n_kv_heads == 0) return 0;
    const uint64_t n_rows = (uint64_t)(args->n_heads / args->n_kv_heads) * args->n_queries;
    const uint64_t item_bytes = (n_rows <= 8 ? 8 : 16) * (DIMS / 4) * NUMBERS_PER_4 * sizeof(float);
    return KG_SDPA_SPLIT_MAX_BLOCKS * item_bytes;
}

/* Checks. */

struct extent {
    uint64_t stride, n;
};

/* Whether the byte offset of the last element fits 64 bits. */
static bool is_addressable(const struct kg_sdpa_strides *s, uint32_t n_batch, uint32_t n_heads, uint32_t n_rows) {
    const struct extent extents[] = { { s->batch, n_batch }, { s->head, n_heads }, { s->row, n_rows } };
    uint64_t last = KG_SDPA_MAX_HEAD_DIM;
    for (size_t i = 0; i < KG_COUNT_OF(extents); i++) {
        uint64_t part;
        if (extents[i].n == 0) return true;
        if (!kg_mul_u64(extents[i].stride, extents[i].n - 1, &part) || !kg_add_u64(last, part, &last)) return false;
    }
    return last <= INT64_MAX / sizeof(float);
}

static int by_stride(const void *a, const void *b) {
    const uint64_t x = ((const struct extent *)a)->stride, y = ((const struct extent *)b)->stride;
    return (x > y) - (x < y);
}

/* Whether no two rows overlap: each stride must exceed the extent that the smaller strides span. Offsets are known to
 * fit. */
static bool rows_are_apart(const struct kg_sdpa_strides *s, uint32_t n_batch, uint32_t n_heads, uint32_t n_rows,
                           uint32_t head_dim) {
    struct extent extents[] = { { s->batch, n_batch }, { s->head, n_heads }, { s->row, n_rows } };
    uint64_t reach = head_dim;
    if (n_batch == 0 || n_heads == 0 || n_rows == 0) return true;
    qsort(extents, KG_COUNT_OF(extents), sizeof *extents, by_stride);
    for (size_t i = 0; i < KG_COUNT_OF(extents); i++) {
        if (extents[i].n <= 1) continue;
        if (extents[i].stride < reach) return false;
        reach += extents[i].stride * (extents[i].n - 1);
    }
    return true;
}

#define REQUIRE_ADDRESSABLE(op, tensor, strides, n_batch, n_heads, n_rows)                                             \
    KG_OP_REQUIRE(is_addressable(&(strides), n_batch, n_heads, n_rows),                                                \
                  op ": the strides %" PRIu64 ", %" PRIu64 ", %" PRIu64 " of " tensor " are out of range",             \
                  (strides).batch, (strides).head, (strides).row)

#define REQUIRE_APART(op, strides, n_batch, n_heads, n_rows, head_dim)                                                 \
    KG_OP_REQUIRE(rows_are_apart(&(strides), n_batch, n_heads, n_rows, head_dim),                                      \
                  op ": rows of y overlap: strides %" PRIu64 ", %" PRIu64 ", %" PRIu64 " of %u x %u x %u rows of %u",  \
                  (strides).batch, (strides).head, (strides).row, n_batch, n_heads, n_rows, head_dim)

static enum kg_status check_layout(const struct kg_sdpa_args *args, struct kg_error *err) {
    const uint32_t n_batch = args->n_batch, n_queries = args->n_queries;
    REQUIRE_ADDRESSABLE("sdpa", "q", args->q_strides, n_batch, args->n_heads, n_queries);
    REQUIRE_ADDRESSABLE("sdpa", "k", args->k_strides, n_batch, args->n_kv_heads, args->n_keys);
    REQUIRE_ADDRESSABLE("sdpa", "v", args->v_strides, n_batch, args->n_kv_heads, args->n_keys);
    REQUIRE_ADDRESSABLE("sdpa", "y", args->y_strides, n_batch, args->n_heads, n_queries);
    REQUIRE_APART("sdpa", args->y_strides, n_batch, args->n_heads, n_queries, args->head_dim);
    return KG_OK;
}

static enum kg_status check_pointers(const struct kg_sdpa_args *args, struct kg_error *err) {
    const bool scaled = kg_precision_is_quantized(args->inputs);
    if (args->n_batch == 0 || args->n_queries == 0) return KG_OK; /* no output */
    KG_OP_REQUIRE(args->q && args->y, "sdpa: q or y is missing");
    KG_OP_REQUIRE(args->n_keys == 0 || (args->k && args->v), "sdpa: k or v is missing");
    KG_OP_REQUIRE(args->y != args->q && args->y != args->k && args->y != args->v, "sdpa: y is an input");
    KG_OP_REQUIRE(scaled == !!args->q_scale && scaled == !!args->k_scale && scaled == !!args->v_scale,
                  scaled ? "sdpa: %s inputs without a scale of q, k or v"
                         : "sdpa: %s inputs with scales of q, k or v, which f8 and i8 have",
                  kg_precision_name(args->inputs));
    return KG_OK;
}

enum kg_status kg_sdpa_check(const struct kg_sdpa_args *args, struct kg_error *err) {
    KG_OP_REQUIRE((unsigned)args->variant < KG_SDPA_VARIANT_COUNT, "sdpa: no variant %u", (unsigned)args->variant);
    KG_OP_REQUIRE(args->head_dim && args->head_dim <= KG_SDPA_MAX_HEAD_DIM, "sdpa: the head size %u is outside [1, %d]",
                  args->head_dim, KG_SDPA_MAX_HEAD_DIM);
    KG_OP_REQUIRE(args->n_heads && args->n_kv_heads && args->n_heads % args->n_kv_heads == 0,
                  "sdpa: %u heads cannot share %u KV heads", args->n_heads, args->n_kv_heads);
    KG_OP_REQUIRE(args->n_queries <= KG_SDPA_MAX_LENGTH && args->n_keys <= KG_SDPA_MAX_LENGTH,
                  "sdpa: %u queries, %u keys; at most %d of either", args->n_queries, args->n_keys, KG_SDPA_MAX_LENGTH);
    KG_OP_REQUIRE(args->causal || args->window == 0, "sdpa: a window of %u without causal", args->window);
    KG_OP_REQUIRE(isfinite(args->scale), "sdpa: the scale is %g", (double)args->scale);
    const enum kg_status status = check_pointers(args, err);
    return status ? status : check_layout(args, err);
}

/* The reference. */

/* The inputs in float32. Bytes are decoded without their scales, so that nothing is rounded. */
struct floats {
    const struct kg_sdpa_args *args;
    const float *q, *k, *v;
    struct kg_sdpa_strides q_strides, k_strides, v_strides;
};

static size_t offset(const struct kg_sdpa_strides *s, size_t batch, size_t head, size_t row) {
    return batch * s->batch + head * s->head + row * s->row;
}

/* Keys [*first, *last) that a query sees. */
static void seen_keys(const struct kg_sdpa_args *args, size_t query, size_t *first, size_t *last) {
    const size_t up_to = (size_t)args->n_keys + query + 1; /* position + 1, plus n_queries */
    *first = 0;
    *last = args->n_keys;
    if (!args->causal) return;
    *last = up_to > args->n_queries ? up_to - args->n_queries : 0;
    if (args->window && *last > args->window) *first = *last - args->window;
}

static double scale_of(const float *scales, size_t index) {
    return scales ? (double)scales[index] : 1;
}

static void attend(const struct floats *in, size_t batch, size_t head, size_t query, struct kg_online_softmax *sum) {
    const struct kg_sdpa_args *args = in->args;
    const size_t dim = args->head_dim, kv_head = head / (args->n_heads / args->n_kv_heads);
    const size_t kv_index = batch * args->n_kv_heads + kv_head;
    const double q_scale = scale_of(args->q_scale, batch * args->n_heads + head);
    const double scale = (double)args->scale * q_scale * scale_of(args->k_scale, kv_index);
    float *y = (float *)args->y + offset(&args->y_strides, batch, head, query);
    size_t first, last;
    seen_keys(args, query, &first, &last);
    if (first == last) {
        memset(y, 0, dim * sizeof *y);
        return;
    }
    kg_online_softmax_init(sum, dim);
    kg_online_softmax_add(sum, in->q + offset(&in->q_strides, batch, head, query),
                          in->k + offset(&in->k_strides, batch, kv_head, first),
                          in->v + offset(&in->v_strides, batch, kv_head, first), in->k_strides.row, in->v_strides.row,
                          last - first, dim, scale);
    /* Rescale to the sink if it exceeds the largest score. */
    const double sink = args->sinks ? (double)args->sinks[head] : -INFINITY, largest = fmax(sum->largest, sink);
    const double shrink = exp(sum->largest - largest);
    const double share = shrink / (sum->weight * shrink + exp(sink - largest)) * scale_of(args->v_scale, kv_index);
    for (size_t d = 0; d < dim; d++) y[d] = (float)(sum->value[d] * share);
}

/* Items are (batch entry, head, query). */
static void queries(void *arg, size_t begin, size_t end) {
    const struct floats *in = arg;
    const size_t n_queries = in->args->n_queries, n_heads = in->args->n_heads;
    struct kg_online_softmax sum;
    for (size_t i = begin; i < end; i++)
        attend(in, i / n_queries / n_heads, i / n_queries % n_heads, i % n_queries, &sum);
}

/* *values = a dense float32 tensor of E4M3 or int8, malloc'ed. */
static enum kg_status decode(enum kg_precision of, const char *name, const uint8_t *x,
                             const struct kg_sdpa_strides *from, const struct kg_sdpa_strides *to,
                             const uint32_t extent[3], size_t dim, float **values, struct kg_error *err) {
    const uint64_t n_elems = extent[0] * to->batch;
    *values = n_elems < SIZE_MAX / sizeof **values ? malloc((n_elems + 1) * sizeof **values) : NULL;
    if (!*values)
        return kg_fail(err, KG_ERR_NO_MEMORY, "sdpa: no room for %" PRIu64 " decoded elements of %s", n_elems, name);
    float table[256];
    for (int i = 0; i < 256; i++) table[i] = of == KG_PRECISION_F8 ? kg_e4m3_to_f32((uint8_t)i) : (float)(int8_t)i;
    for (size_t b = 0; b < extent[0]; b++)
        for (size_t h = 0; h < extent[1]; h++)
            for (size_t r = 0; r < extent[2]; r++) {
                const uint8_t *row = x + offset(from, b, h, r);
                float *decoded = *values + offset(to, b, h, r);
                for (size_t d = 0; d < dim; d++) decoded[d] = table[row[d]];
            }
    return KG_OK;
}

static enum kg_status attend_bytes(struct kg_thread_pool *pool, struct floats *in, size_t n, size_t min_per_range,
                                   struct kg_error *err) {
    const struct kg_sdpa_args *a = in->args;
    const uint32_t q_extent[3] = { a->n_batch, a->n_heads, a->n_queries };
    const uint32_t kv_extent[3] = { a->n_batch, a->n_kv_heads, a->n_keys };
    float *q = NULL, *k = NULL, *v = NULL;
    in->q_strides = kg_sdpa_dense(a->n_heads, a->n_queries, a->head_dim);
    in->k_strides = in->v_strides = kg_sdpa_dense(a->n_kv_heads, a->n_keys, a->head_dim);
    enum kg_status status = decode(a->inputs, "q", a->q, &a->q_strides, &in->q_strides, q_extent, a->head_dim, &q, err);
    if (!status) status = decode(a->inputs, "k", a->k, &a->k_strides, &in->k_strides, kv_extent, a->head_dim, &k, err);
    if (!status) status = decode(a->inputs, "v", a->v, &a->v_strides, &in->v_strides, kv_extent, a->head_dim, &v, err);
    in->q = q;
    in->k = k;
    in->v = v;
    if (!status) kg_parallel_for(pool, n, min_per_range, queries, in);
    free(v);
    free(k);
    free(q);
    return status;
}

static enum kg_status require_cpu(const struct kg_sdpa_args *args, struct kg_error *err) {
    if (args->variant != KG_SDPA_AUTO)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "sdpa: the cpu back end has no variant '%s', only 'auto'",
                       kg_sdpa_variant_name(args->variant));
    if (!kg_precision_is_quantized(args->inputs)) {
        const enum kg_status status = kg_cpu_require_f32("sdpa", "inputs", args->inputs, err);
        if (status) return status;
    }
    return kg_cpu_require_f32("sdpa", "output", args->output, err);
}

enum kg_status kg_cpu_sdpa(struct kg_thread_pool *pool, const struct kg_sdpa_args *args, struct kg_error *err) {
    enum kg_status status = kg_sdpa_check(args, err);
    if (!status) status = require_cpu(args, err);
    if (status || args->n_batch == 0 || args->n_queries == 0) return status;
    const size_t n = (size_t)args->n_batch * args->n_heads * args->n_queries;
    const size_t min_per_range = MIN_PRODUCTS_PER_RANGE / (2 * ((size_t)args->n_keys + 1) * args->head_dim) + 1;
    struct floats in = { args, args->q, args->k, args->v, args->q_strides, args->k_strides, args->v_strides };
    if (kg_precision_is_quantized(args->inputs)) return attend_bytes(pool, &in, n, min_per_range, err);
    kg_parallel_for(pool, n, min_per_range, queries, &in);
    return KG_OK;
}

/* sdpa_quantize. */

enum kg_status kg_sdpa_quantize_check(const struct kg_sdpa_quantize_args *args, struct kg_error *err) {
    KG_OP_REQUIRE(args->head_dim && args->head_dim <= KG_SDPA_MAX_HEAD_DIM,
                  "sdpa_quantize: the head size %u is outside [1, %d]", args->head_dim, KG_SDPA_MAX_HEAD_DIM);
    KG_OP_REQUIRE(kg_precision_is_quantized(args->output), "sdpa_quantize: the output is %s, not f8 or i8",
                  kg_precision_name(args->output));
    if (args->n_batch == 0 || args->n_heads == 0) return KG_OK;
    KG_OP_REQUIRE(args->scale, "sdpa_quantize: scale is missing");
    KG_OP_REQUIRE(args->n_rows == 0 || (args->x && args->y), "sdpa_quantize: x or y is missing");
    KG_OP_REQUIRE(args->n_rows == 0 || args->x != args->y, "sdpa_quantize: y is x");
    REQUIRE_ADDRESSABLE("sdpa_quantize", "x", args->x_strides, args->n_batch, args->n_heads, args->n_rows);
    REQUIRE_ADDRESSABLE("sdpa_quantize", "y", args->y_strides, args->n_batch, args->n_heads, args->n_rows);
    REQUIRE_APART("sdpa_quantize", args->y_strides, args->n_batch, args->n_heads, args->n_rows, args->head_dim);
    return KG_OK;
}

static int8_t to_i8(float x) {
    return isnan(x) ? 0 : (int8_t)fminf(fmaxf(rintf(x), -KG_SDPA_I8_LARGEST), KG_SDPA_I8_LARGEST);
}

/* Items are (batch entry, head). */
static void quantize_heads(void *arg, size_t begin, size_t end) {
    const struct kg_sdpa_quantize_args *args = arg;
    for (size_t i = begin; i < end; i++) {
        const size_t batch = i / args->n_heads, head = i % args->n_heads;
        const bool is_f8 = args->output == KG_PRECISION_F8;
        bool any_nan = false;
        float largest = 0;
        for (size_t r = 0; r < args->n_rows; r++) {
            const float *x = (const float *)args->x + offset(&args->x_strides, batch, head, r);
            for (size_t d = 0; d < args->head_dim; d++) {
                any_nan = any_nan || isnan(x[d]);
                largest = fmaxf(largest, fabsf(x[d])); /* which ignores NaN */
            }
        }
        const float quotient = largest / (is_f8 ? KG_SDPA_E4M3_LARGEST : KG_SDPA_I8_LARGEST);
        const float scale = any_nan && !is_f8 ? NAN : quotient == 0 ? 1 : quotient;
        args->scale[i] = scale;
        for (size_t r = 0; r < args->n_rows; r++) {
            const float *x = (const float *)args->x + offset(&args->x_strides, batch, head, r);
            uint8_t *y = (uint8_t *)args->y + offset(&args->y_strides, batch, head, r);
            for (size_t d = 0; d < args->head_dim; d++)
                y[d] = is_f8 ? kg_f32_to_e4m3(x[d] / scale) : (uint8_t)to_i8(x[d] / scale);
        }
    }
}

enum kg_status kg_cpu_sdpa_quantize(struct kg_thread_pool *pool, const struct kg_sdpa_quantize_args *args,
                                    struct kg_error *err) {
    enum kg_status status = kg_sdpa_quantize_check(args, err);
    if (!status) status = kg_cpu_require_f32("sdpa_quantize", "input", args->input, err);
    if (!status) kg_parallel_for(pool, (size_t)args->n_batch * args->n_heads, 1, quantize_heads, (void *)args);
    return status;
}
