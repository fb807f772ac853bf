#include "suites/support/plain_f16.h"
#include "base/buffer.h"
#include "base/clones.h"
#include "suites/support/plain_f16_steps.h"
#include "suites/support/plain_f16_style.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct style ELEMENTARY = { .steps = true, .scores = true };
static const struct style BY_OPERATION = { .scores = true }, FUSED = { .float32_sums = true };
static const struct style SCALED_Q = { .steps = true, .scaled_q = true, .float32_sums = true };

static enum kg_status embedding(const struct style *s, const struct kg_embedding_args *args, struct kg_error *err) {
    (void)s;
    if (args->activations == KG_PRECISION_F32) return kg_cpu_embedding(NULL, args, err);
    const size_t n = (size_t)args->n_rows * args->weight.n_cols;
    struct kg_embedding_args wide = *args;
    float *y = kg_xcalloc(n + 1, sizeof *y);
    wide.activations = KG_PRECISION_F32;
    wide.y = y;
    const enum kg_status status = kg_cpu_embedding(NULL, &wide, err);
    give(y, n, args->y);
    return status;
}

static enum kg_status rmsnorm(const struct style *s, const struct kg_rmsnorm_args *args, struct kg_error *err) {
    if (args->activations == KG_PRECISION_F32) return kg_cpu_rmsnorm(NULL, args, err);
    const size_t n = args->n_cols;
    float *x = args->wide_input ? copied(args->x, args->n_rows * n) : widened(args->x, args->n_rows * n);
    for (size_t r = 0; r < args->n_rows; r++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += (double)x[r * n + i] * x[r * n + i];
        const double scale = 1 / sqrt(sum / (double)n + (double)args->eps);
        for (size_t i = 0; i < n; i++)
            x[r * n + i] = step(s, x[r * n + i] * scale) * (s->steps ? rounded(args->weight[i]) : args->weight[i]);
    }
    give(x, args->n_rows * n, args->y);
    return KG_OK;
}

static enum kg_status layernorm(const struct style *s, const struct kg_layernorm_args *args, struct kg_error *err) {
    (void)err;
    const size_t n = args->n_cols;
    float *x = widened(args->x, args->n_rows * n);
    for (size_t r = 0; r < args->n_rows; r++) {
        double mean = 0, squares = 0;
        for (size_t i = 0; i < n; i++) mean += (double)x[r * n + i] / (double)n;
        for (size_t i = 0; i < n; i++) squares += (x[r * n + i] - mean) * (x[r * n + i] - mean);
        const double scale = 1 / sqrt(squares / (double)n + (double)args->eps);
        for (size_t i = 0; i < n; i++) {
            const float unit = step(s, (x[r * n + i] - mean) * scale);
            x[r * n + i] = step(s, unit * step(s, args->weight[i])) + (args->bias ? step(s, args->bias[i]) : 0);
        }
    }
    give(x, args->n_rows * n, args->y);
    return KG_OK;
}

/* sum_i a[i] b[i] in SUMS sums, part j of the products i = j mod SUMS. */
#define DEFINE_DOT(name, real)                                                                                         \
    KG_VECTOR_CLONES static float name(const float *a, const float *b, size_t n) {                                     \
        enum { SUMS = 16 };                                                                                            \
        real part[SUMS] = { 0 };                                                                                       \
        double sum = 0;                                                                                                \
        size_t i = 0;                                                                                                  \
        for (; i + SUMS <= n; i += SUMS)                                                                               \
            for (size_t j = 0; j < SUMS; j++) part[j] += (real)a[i + j] * (real)b[i + j];                              \
        for (size_t j = 0; i < n; i++, j++) part[j] += (real)a[i] * (real)b[i];                                        \
        for (size_t j = 0; j < SUMS; j++) sum += (double)part[j];                                                      \
        return (float)sum;                                                                                             \
    }
DEFINE_DOT(dot_f32, float)
DEFINE_DOT(dot_f64, double)

static enum kg_status linear(const struct style *s, const struct kg_linear_args *args, struct kg_error *err) {
    (void)err;
    const size_t n_in = args->weight.n_cols, n_out = args->weight.n_rows, m = args->n_rows;
    const struct kg_dtype_info *info = kg_dtype_info(args->weight.dtype);
    const uint64_t row_bytes = kg_weight_row_bytes(&args->weight);
    float *x = widened(args->x, m * n_in), *w = kg_xcalloc(n_in, sizeof *w), *y = kg_xcalloc(m * n_out + 1, sizeof *y);
    for (size_t o = 0; o < n_out; o++) {
        info->decode((const uint8_t *)args->weight.data + o * row_bytes, w, n_in);
        for (size_t r = 0; r < m; r++) {
            const float product = s->float32_sums ? dot_f32(x + r * n_in, w, n_in) : dot_f64(x + r * n_in, w, n_in);
            y[r * n_out + o] = args->bias ? step(s, product) + step(s, args->bias[o]) : product;
        }
    }
    if (args->output == KG_PRECISION_F32) {
        memcpy(args->y, y, m * n_out * sizeof *y);
        free(y);
    } else {
        give(y, m * n_out, args->y);
    }
    free(w);
    free(x);
    return KG_OK;
}

static enum kg_status rope(const struct style *s, const struct kg_rope_args *args, struct kg_error *err) {
    (void)err;
    const size_t half = args->n_rot / 2, row = (size_t)args->n_heads * args->head_dim;
    const bool neighbours = args->pairing == KG_ROPE_INTERLEAVED;
    float *x = widened(args->x, args->n_rows * row);
    for (size_t at = 0; at < args->n_rows * row; at += args->head_dim)
        for (size_t i = 0; i < half; i++) {
            const double factor = args->freq_factors ? (double)args->freq_factors[i] : 1;
            const size_t position = args->position + at / row;
            const double angle = (double)position * (double)args->freq_scale *
                                 pow((double)args->freq_base, -(double)i / (double)half) / factor;
            const double magnitude = (double)args->magnitude;
            const float c = step(s, cos(angle) * magnitude), n = step(s, sin(angle) * magnitude);
            float *a = &x[at + (neighbours ? 2 * i : i)], *b = &x[at + (neighbours ? 2 * i + 1 : i + half)];
            const float rotated = step(s, *a * c) - step(s, *b * n);
            *b = step(s, *a * n) + step(s, *b * c);
            *a = rotated;
        }
    give(x, args->n_rows * row, args->y);
    return KG_OK;
}

static enum kg_status kv_write(const struct style *s, const struct kg_kv_write_args *args, struct kg_error *err) {
    (void)s, (void)err;
    const size_t head_bytes = args->head_dim * sizeof(uint16_t);
    for (size_t r = 0; r < args->n_rows; r++)
        for (size_t h = 0; h < args->n_kv_heads; h++) {
            const size_t from = (r * args->n_kv_heads + h) * head_bytes;
            const size_t to = (h * args->n_ctx + args->position + r) * head_bytes;
            memcpy((char *)args->k_cache + to, (const char *)args->k + from, head_bytes);
            memcpy((char *)args->v_cache + to, (const char *)args->v + from, head_bytes);
        }
    return KG_OK;
}

/* One head of one row over keys [first, last]; the weights are kept in w. Without a sink it is -infinity. */
static void attend(const struct style *s, const float *q, const float *k, const float *v, size_t first, size_t last,
                   size_t head_dim, double scale, double sink, float *w, float *y) {
    double largest = sink, sum = 0;
    for (size_t j = first; j <= last; j++) {
        const double score = (double)dot_f64(q, k + j * head_dim, head_dim) * scale;
        w[j] = s->scores ? rounded(score) : (float)score;
        largest = fmax(largest, (double)w[j]);
    }
    double *const e = kg_xcalloc(last + 2 - first, sizeof *e);
    for (size_t j = first; j <= last; j++) sum += e[j - first] = exp((double)w[j] - largest);
    sum += exp(sink - largest);
    for (size_t d = 0; d < head_dim; d++) y[d] = 0;
    for (size_t j = first; j <= last; j++) {
        const double weight = s->scores ? (double)rounded(e[j - first] / sum) : (double)rounded(e[j - first]) / sum;
        for (size_t d = 0; d < head_dim; d++) y[d] += (float)(weight * (double)v[j * head_dim + d]);
    }
    free(e);
}

/* The keys or values there are, (n_kv_heads, n_keys, head_dim). */
static float *filled(const struct kg_attention_args *args, const void *cache) {
    const size_t n = (size_t)args->n_keys * args->head_dim;
    float *all = kg_xcalloc(args->n_kv_heads * n + 1, sizeof *all);
    for (size_t h = 0; h < args->n_kv_heads; h++)
        kg_dtype_info(KG_DTYPE_F16)->decode((const uint16_t *)cache + h * args->n_ctx * args->head_dim, all + h * n, n);
    return all;
}

static enum kg_status attention(const struct style *s, const struct kg_attention_args *args, struct kg_error *err) {
    (void)err;
    const size_t n_heads = args->n_heads, head_dim = args->head_dim, group = n_heads / args->n_kv_heads;
    const size_t n = args->n_rows * n_heads * head_dim;
    float *q = widened(args->q, n), *y = kg_xcalloc(n + 1, sizeof *y), *w = kg_xcalloc(args->n_keys, sizeof *w);
    float *k = filled(args, args->k_cache), *v = filled(args, args->v_cache);
    for (size_t i = 0; i < n && s->scaled_q; i++) q[i] = rounded(q[i] * args->scale);
    const double scale = s->scaled_q ? 1 : (double)args->scale;
    for (size_t r = 0; r < args->n_rows; r++)
        for (size_t h = 0; h < n_heads; h++) {
            const size_t position = args->n_keys - args->n_rows + r, at = (r * n_heads + h) * head_dim;
            const size_t last = args->causal ? position : args->n_keys - 1;
            const size_t first = args->window && position + 1 > args->window ? position + 1 - args->window : 0;
            const size_t head = h / group * args->n_keys * head_dim;
            attend(s, q + at, k + head, v + head, first, last, head_dim, scale,
                   args->sinks ? (double)args->sinks[h] : -INFINITY, w, y + at);
        }
    give(y, n, args->y);
    free(v);
    free(k);
    free(w);
    free(q);
    return KG_OK;
}

/* n rows, `stride` halves apart. */
static float *widened_rows(const uint16_t *halves, size_t n, size_t stride, size_t head_dim) {
    float *x = kg_xcalloc(n * head_dim + 1, sizeof *x);
    for (size_t i = 0; i < n; i++) kg_dtype_info(KG_DTYPE_F16)->decode(halves + i * stride, x + i * head_dim, head_dim);
    return x;
}

static void sdpa_head(const struct style *s, const struct kg_sdpa_args *a, size_t b, size_t h) {
    const size_t head_dim = a->head_dim, g = h / (a->n_heads / a->n_kv_heads), offset = a->n_queries;
    const uint16_t *q_head = (const uint16_t *)a->q + b * a->q_strides.batch + h * a->q_strides.head;
    const uint16_t *k_head = (const uint16_t *)a->k + b * a->k_strides.batch + g * a->k_strides.head;
    const uint16_t *v_head = (const uint16_t *)a->v + b * a->v_strides.batch + g * a->v_strides.head;
    float *q = widened_rows(q_head, a->n_queries, a->q_strides.row, head_dim);
    float *k = widened_rows(k_head, a->n_keys, a->k_strides.row, head_dim);
    float *v = widened_rows(v_head, a->n_keys, a->v_strides.row, head_dim);
    float *w = kg_xcalloc(a->n_keys + 1, sizeof *w);
    for (size_t i = 0; i < a->n_queries * head_dim && s->scaled_q; i++) q[i] = rounded(q[i] * a->scale);
    for (size_t r = 0; r < a->n_queries; r++) {
        float *y = kg_xcalloc(head_dim, sizeof *y);
        const size_t position = a->n_keys + r; /* plus offset: the first queries may lie before the keys */
        const size_t end = !a->causal ? a->n_keys : position + 1 > offset ? position + 1 - offset : 0;
        const size_t first = a->window && end > a->window ? end - a->window : 0;
        if (end > 0)
            attend(s, q + r * head_dim, k, v, first, end - 1, head_dim, s->scaled_q ? 1 : (double)a->scale,
                   a->sinks ? (double)a->sinks[h] : -INFINITY, w, y);
        give(y, head_dim, (uint16_t *)a->y + b * a->y_strides.batch + h * a->y_strides.head + r * a->y_strides.row);
    }
    free(w);
    free(v);
    free(k);
    free(q);
}

static enum kg_status sdpa(const struct style *s, const struct kg_sdpa_args *args, struct kg_error *err) {
    const enum kg_status status = kg_sdpa_check(args, err);
    if (status) return status;
    if (args->inputs != KG_PRECISION_F16 || args->output != KG_PRECISION_F16 || args->variant != KG_SDPA_AUTO)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "sdpa: f16 inputs and output and no variant only");
    for (size_t b = 0; b < args->n_batch; b++)
        for (size_t h = 0; h < args->n_heads; h++) sdpa_head(s, args, b, h);
    return KG_OK;
}

/* It rounds nothing: the bits are the contract. */
static enum kg_status sdpa_quantize(const struct style *s, const struct kg_sdpa_quantize_args *args,
                                    struct kg_error *err) {
    (void)s;
    enum kg_status status = kg_sdpa_quantize_check(args, err);
    struct kg_sdpa_quantize_args head = *args;
    head.input = KG_PRECISION_F32;
    head.n_batch = head.n_heads = 1;
    head.x_strides = kg_sdpa_dense(1, args->n_rows, args->head_dim);
    for (size_t i = 0; i < (size_t)args->n_batch * args->n_heads && !status; i++) {
        const size_t b = i / args->n_heads, h = i % args->n_heads;
        const uint16_t *x = (const uint16_t *)args->x + b * args->x_strides.batch + h * args->x_strides.head;
        float *wide = widened_rows(x, args->n_rows, args->x_strides.row, args->head_dim);
        head.x = wide;
        head.y = (uint8_t *)args->y + b * args->y_strides.batch + h * args->y_strides.head;
        head.scale = args->scale + i;
        status = kg_cpu_sdpa_quantize(NULL, &head, err);
        free(wide);
    }
    return status;
}

/* What it gives is rounded once, in every style. */
static enum kg_status attention_weights(const struct style *s, const struct kg_attention_weights_args *args,
                                        struct kg_error *err) {
    (void)s;
    const size_t n = (size_t)args->n_heads * args->n_queries * args->n_keys;
    float *q = widened(args->q, (size_t)args->n_queries * args->n_heads * args->head_dim);
    float *k = widened(args->k, (size_t)args->n_keys * args->n_kv_heads * args->head_dim);
    float *y = kg_xcalloc(n + 1, sizeof *y);
    struct kg_attention_weights_args wide = *args;
    wide.activations = KG_PRECISION_F32;
    wide.q = q, wide.k = k, wide.y = y;
    const enum kg_status status = kg_cpu_attention_weights(NULL, &wide, err);
    give(y, n, args->y);
    free(k);
    free(q);
    return status;
}

static enum kg_status softmax(const struct style *s, const struct kg_softmax_args *args, struct kg_error *err) {
    (void)err;
    const size_t n = args->n_cols;
    float *x = widened(args->x, args->n_rows * n);
    for (size_t r = 0; r < args->n_rows; r++) {
        double largest = -INFINITY, sum = 0;
        for (size_t i = 0; i < n; i++) {
            x[r * n + i] = step(s, x[r * n + i] * args->scale);
            largest = fmax(largest, (double)x[r * n + i]);
        }
        for (size_t i = 0; i < n; i++) sum += exp((double)x[r * n + i] - largest);
        for (size_t i = 0; i < n; i++)
            x[r * n + i] = largest == -INFINITY ? 0 : (float)(exp((double)x[r * n + i] - largest) / sum);
    }
    give(x, args->n_rows * n, args->y);
    return KG_OK;
}

static enum kg_status add(const struct style *s, const struct kg_add_args *args, struct kg_error *err) {
    (void)s;
    if (args->activations == KG_PRECISION_F32) return kg_cpu_add(NULL, args, err);
    const size_t n = (size_t)args->n_rows * args->n_cols;
    float *a = widened(args->a, n), *b = widened(args->b, n);
    for (size_t i = 0; i < n; i++) a[i] += b[i];
    give(a, n, args->y);
    free(b);
    return KG_OK;
}

static enum kg_status swiglu(const struct style *s, const struct kg_swiglu_args *args, struct kg_error *err) {
    (void)err;
    const size_t n = (size_t)args->n_rows * args->n_cols;
    float *gate = widened(args->gate, n), *up = widened(args->up, n);
    const float limit = args->limit > 0 ? args->limit : INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double g = fmin((double)gate[i], limit);
        const double u = fmax(-limit, fmin((double)up[i], limit)) + args->up_offset;
        const double z = g + (double)args->cubic * g * g * g;
        gate[i] = step(s, g / (1 + exp(-(double)args->alpha * z))) * step(s, u);
    }
    give(gate, n, args->y);
    free(up);
    return KG_OK;
}

static enum kg_status router(const struct style *s, const struct kg_router_args *args, struct kg_error *err) {
    (void)s; /* float32 in every precision */
    return kg_cpu_router(NULL, args, err);
}

static enum kg_status experts_linear(const struct style *s, const struct kg_experts_linear_args *args,
                                     struct kg_error *err) {
    return kg_plain_f16_experts_linear(s, args, linear, err);
}

static enum kg_status experts_combine(const struct style *s, const struct kg_experts_combine_args *args,
                                      struct kg_error *err) {
    if (args->activations == KG_PRECISION_F32) return kg_cpu_experts_combine(NULL, args, err);
    return kg_plain_f16_experts_combine(s, args);
}

static enum kg_status gelu(const struct style *s, const struct kg_gelu_args *args, struct kg_error *err) {
    (void)err;
    const size_t n = (size_t)args->n_rows * args->n_cols;
    float *x = widened(args->x, n);
    for (size_t i = 0; i < n; i++) {
        const double u = sqrt(2 / M_PI) * ((double)x[i] + 0.044715 * pow(x[i], 3));
        const double inner = args->form == KG_GELU_ERF ? erf(x[i] / sqrt(2)) : tanh(u);
        x[i] = x[i] / 2 * step(s, 1 + (double)step(s, inner));
    }
    give(x, n, args->y);
    return KG_OK;
}

#define OF_STEPS(op)                                                                                                   \
    static enum kg_status op(const struct style *s, const struct kg_##op##_args *args, struct kg_error *err) {         \
        return kg_plain_f16_##op(&(struct plain_f16_steps){ s, rmsnorm, linear, swiglu, add }, args, err);             \
    }
OF_STEPS(norm_qkv)
OF_STEPS(norm_swiglu)
OF_STEPS(linear_add)

static enum kg_status session_plan(struct kg_backend *backend, const struct kg_session_plan *plan,
                                   uint64_t *workspace_bytes, struct kg_error *err) {
    if (plan->activations != KG_PRECISION_F16 || plan->kv != KG_PRECISION_F16)
        return kg_fail(err, KG_ERR_UNSUPPORTED, "%s has activations and a cache of f16 only, not %s and %s",
                       backend->ops->name, kg_precision_name(plan->activations), kg_precision_name(plan->kv));
    *workspace_bytes = 0;
    return KG_OK;
}

/* The entries of each style: the same loops by another table of roundings. */
#define STYLED_OP(name, style, op)                                                                                     \
    static enum kg_status name##_##op(struct kg_backend *backend, const struct kg_##op##_args *args,                   \
                                      struct kg_error *err) {                                                          \
        (void)backend;                                                                                                 \
        return op(&style, args, err);                                                                                  \
    }
#define ELEMENTARY_OP(op) STYLED_OP(elementary, ELEMENTARY, op)
#define BY_OPERATION_OP(op) STYLED_OP(by_operation, BY_OPERATION, op)
#define FUSED_OP(op) STYLED_OP(fused, FUSED, op)
#define SCALED_Q_OP(op) STYLED_OP(scaled_q, SCALED_Q, op)
KG_OP_LIST(ELEMENTARY_OP)
KG_OP_LIST(BY_OPERATION_OP)
KG_OP_LIST(FUSED_OP)
KG_OP_LIST(SCALED_Q_OP)

#define ELEMENTARY_ENTRY(op) t[KG_PLAIN_F16_ELEMENTARY].op = elementary_##op;
#define BY_OPERATION_ENTRY(op) t[KG_PLAIN_F16_BY_OPERATION].op = by_operation_##op;
#define FUSED_ENTRY(op) t[KG_PLAIN_F16_FUSED].op = fused_##op;
#define SCALED_Q_ENTRY(op) t[KG_PLAIN_F16_SCALED_Q].op = scaled_q_##op;

const struct kg_backend_ops *kg_plain_f16(size_t style) {
    static struct kg_backend_ops t[KG_PLAIN_F16_ALL];
    static const char *const names[KG_PLAIN_F16_ALL] = { "plain_f16", "plain_f16_by_operation", "plain_f16_fused",
                                                         "plain_f16_scaled_q" };
    if (!t[0].name) {
        for (size_t i = 0; i < KG_PLAIN_F16_ALL; i++) {
            t[i] = kg_cpu_ops;
            t[i].name = names[i];
            t[i].session_plan = session_plan;
        }
        KG_OP_LIST(ELEMENTARY_ENTRY)
        KG_OP_LIST(BY_OPERATION_ENTRY)
        KG_OP_LIST(FUSED_ENTRY)
        KG_OP_LIST(SCALED_Q_ENTRY)
    }
    return style < KG_PLAIN_F16_ALL ? &t[style] : NULL;
}
