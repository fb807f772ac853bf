/* FT-052: attention at every length around a block for every head size, in float32, float16 and with a cache of the
 * other precision; and what it must keep whatever its numbers are: weights that sum to 1, a mask that hides the future,
 * heads that read the keys of their group. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/attention_step.h"
#include "suites/support/float64_loops.h"
#include "suites/support/plain_f16.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kg_backend_ops *plain(void) {
    return kg_plain_f16(KG_PLAIN_F16_FUSED);
}

#define F32 KG_PRECISION_F32
#define F16 KG_PRECISION_F16
static const struct kg_loops_mode MODES[] = {
    { "cpu", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cpu", "plain_f16", F16, F16, F16, KG_DTYPE_F16, plain },
    { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL },
    { "cuda", "f32_kv_f16", F32, F16, F32, KG_DTYPE_F32, NULL },
    { "cuda", "f16_kv_f32", F16, F32, F16, KG_DTYPE_F16, NULL },
};

/* Around blocks of 64 keys, shared arrays of 512 scores, and more keys than a block has threads. */
static const uint32_t LENGTHS[] = { 1, 2, 63, 64, 65, 511, 512, 513, 1025, 4097 };
static const uint32_t HEAD_DIMS[] = { 64, 80, 96, 128, 256 };
/* Of a prefill longer than WHOLE the last rows are computed, over all keys; the reference is slow. */
enum { WHOLE = 513, MOST_ROWS = 33, WHOLE_CPU = 65, MOST_ROWS_CPU = 3 };

struct edge_case {
    const struct kg_loops_mode *mode;
    uint32_t head_dim;
    bool decode;
};
static struct edge_case edge_cases[KG_COUNT_OF(MODES) * (2 * KG_COUNT_OF(HEAD_DIMS) + 7)];
static size_t n_edge_cases;

static bool is_gpu(const struct kg_loops_mode *mode) {
    return strcmp(mode->backend, "cpu") != 0;
}

static void every_length(struct kg_record *rec, const void *arg) {
    const struct edge_case *c = arg;
    struct kg_op_device d;
    if (!kg_loops_open(rec, c->mode, &d)) return;
    for (size_t i = 0; i < KG_COUNT_OF(LENGTHS); i++) {
        struct kg_loops_attention s = {
            .n_rows = 1, .n_keys = LENGTHS[i], .n_heads = 4, .n_kv_heads = 2, .head_dim = c->head_dim
        };
        const bool gpu = is_gpu(c->mode);
        if (!gpu) s.n_heads = 2, s.n_kv_heads = 1;
        if (!c->decode)
            s.n_rows = LENGTHS[i] <= (gpu ? WHOLE : WHOLE_CPU) ? LENGTHS[i] : gpu ? MOST_ROWS : MOST_ROWS_CPU;
        struct kg_loops_attended a;
        kg_loops_attention_init(c->mode, &s, kg_record_seed(rec) + 3 * i, &a);
        kg_loops_attention_run(&d, c->mode, &s, &a);
        kg_loops_attention_judge(rec, c->mode, &s, &a);
        kg_loops_attention_free(&a);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* Rows of a prefill whose kernel is known: windows, sinks, groups of one head and of many, rows and keys that fill no
 * tile, each size of head that a kernel is instantiated for. */
static const struct prefill_shape {
    struct kg_loops_attention s;
    bool sinks;
} PREFILLS[] = {
    { { 2, 2, 1, 1, 8, 0 }, false },          { { 33, 65, 8, 2, 64, 0 }, true },
    { { 31, 130, 4, 4, 72, 17 }, false },     { { 64, 64, 6, 1, 128, 5 }, true },
    { { 97, 193, 4, 2, 136, 0 }, false },     { { 40, 513, 2, 1, 256, 64 }, true },
    { { 32, 1025, 14, 2, 64, 1000 }, false },
};

static void prefill_takes_its_kernel(struct kg_record *rec, const void *arg) {
    const struct edge_case *c = arg;
    const bool half = c->mode->activations == F16 && c->mode->kv == F16;
    struct kg_op_device d;
    struct kg_error err;
    if (!kg_loops_open(rec, c->mode, &d)) return;
    for (size_t i = 0; i < KG_COUNT_OF(PREFILLS); i++) {
        const struct kg_loops_attention *s = &PREFILLS[i].s;
        struct kg_loops_attended a;
        kg_loops_attention_init(c->mode, s, kg_record_seed(rec) + 5 * i, &a);
        float *sinks = kg_loops_normal(s->n_heads, kg_record_seed(rec) + 5 * i + 3, 1, 1, F32);
        if (PREFILLS[i].sinks) a.sinks = sinks;
        const struct kg_attention_args args = kg_loops_attention_args(&d, c->mode, s, &a);
        kg_attention_prefill_expect(rec, d.backend, &args, half ? "sdpa" : "prefill");
        kg_op_expect_ok(d.backend->ops->attention(d.backend, &args, &err), &err);
        kg_op_output_read_all(&d, &a.y, "prefill's attention");
        kg_loops_attention_judge(rec, c->mode, s, &a);
        free(sinks);
        kg_loops_attention_free(&a);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* A whole prefill of 4097, one head. */
static void prefill_of_4097(struct kg_record *rec, const void *arg) {
    const struct edge_case *c = arg;
    const struct kg_loops_attention s = { 4097, 4097, 1, 1, 64, 0 };
    kg_loops_attention_case(rec, c->mode, &s);
}

static const struct kg_loops_attention SMALL[] = { { 1, 130, 6, 3, 64, 0 },
                                                   { 70, 130, 6, 3, 64, 0 },
                                                   { 130, 130, 6, 2, 96, 0 },
                                                   { 1, 1, 6, 3, 64, 0 },
                                                   { 1, 1025, 14, 2, 64, 0 } };

/* Visits each shape of SMALL: `change` sets the inputs, `judge` looks at the output. */
static void with_small(struct kg_record *rec, const struct edge_case *c,
                       void (*change)(const struct kg_loops_attention *s, struct kg_loops_attended *a),
                       void (*judge)(const struct kg_loops_mode *mode, const struct kg_loops_attention *s,
                                     const struct kg_loops_attended *a)) {
    struct kg_op_device d;
    if (!kg_loops_open(rec, c->mode, &d)) return;
    for (size_t i = 0; i < KG_COUNT_OF(SMALL); i++) {
        struct kg_loops_attended a;
        kg_loops_attention_init(c->mode, &SMALL[i], kg_record_seed(rec) + 3 * i, &a);
        change(&SMALL[i], &a);
        kg_loops_attention_run(&d, c->mode, &SMALL[i], &a);
        judge(c->mode, &SMALL[i], &a);
        kg_loops_attention_free(&a);
        kg_op_device_clear(&d);
    }
    kg_op_device_close(&d);
}

/* Head h of a row, as its values lie: value(h, d). */
static void expect_heads(const struct kg_loops_mode *mode, const struct kg_loops_attention *s,
                         const struct kg_loops_attended *a,
                         double (*value)(const struct kg_loops_attention *s, size_t h), const char *what) {
    /* Weights in float16, each rounded by 2^-11, sum to 1 within that; float32 sums of n weights err less. */
    const double rel = mode->activations == F16 || mode->kv == F16 ? 2 * KG_ROUNDOFF_F16 : 1e-5;
    for (size_t i = 0; i < a->n_q; i++) {
        const size_t h = i / s->head_dim % s->n_heads;
        const double want = value(s, h), got = (double)a->y.host.data[i];
        ck_assert_msg(fabs(got - want) <= rel * fabs(want), "%s: %u keys, row %zu, head %zu, dim %zu: %.9g, not %.9g",
                      what, s->n_keys, i / s->head_dim / s->n_heads, h, i % s->head_dim, got, want);
    }
}

static void set_values_by_group(const struct kg_loops_attention *s, struct kg_loops_attended *a) {
    for (size_t h = 0; h < s->n_kv_heads; h++)
        for (size_t i = 0; i < (size_t)s->n_keys * s->head_dim; i++)
            a->v[h * a->n_ctx * s->head_dim + i] = (float)(h + 1);
}

static double group_number(const struct kg_loops_attention *s, size_t h) {
    const size_t group = h / (s->n_heads / s->n_kv_heads);
    return (double)(group + 1);
}

static void expect_groups(const struct kg_loops_mode *mode, const struct kg_loops_attention *s,
                          const struct kg_loops_attended *a) {
    expect_heads(mode, s, a, group_number, "values of the KV head's number");
}

/* Where all values of a KV head are its number, every query head gives the number of its group: weights sum to 1
 * and no head reads another's values. */
static void each_head_reads_its_group(struct kg_record *rec, const void *arg) {
    with_small(rec, arg, set_values_by_group, expect_groups);
}

/* Only the first key counts: its logit is larger than the others' by more than exp can tell from nothing. */
static void set_one_loud_key(const struct kg_loops_attention *s, struct kg_loops_attended *a) {
    for (size_t i = 0; i < a->n_q; i++) a->q[i] = 8;
    for (size_t h = 0; h < s->n_kv_heads; h++)
        for (size_t j = 0; j < s->n_keys; j++)
            for (size_t d = 0; d < s->head_dim; d++) {
                const size_t at = (h * a->n_ctx + j) * s->head_dim + d;
                a->k[at] = j == 0 ? 8 : -8;
                a->v[at] = j == 0 ? (float)(h + 1) : 1000;
            }
}

/* Logits of +512 sqrt(d) / 8 and their negatives: exp of them would overflow, and of the difference is 0. */
static void one_key_takes_all(struct kg_record *rec, const void *arg) {
    with_small(rec, arg, set_one_loud_key, expect_groups);
}

/* q = 0: every key weighs the same; values count up to the largest position a row sees, so that one more or less shows.
 */
static void set_counting(const struct kg_loops_attention *s, struct kg_loops_attended *a) {
    for (size_t i = 0; i < a->n_q; i++) a->q[i] = 0;
    for (size_t h = 0; h < s->n_kv_heads; h++)
        for (size_t i = 0; i < (size_t)s->n_keys * s->head_dim; i++) {
            const size_t position = i / s->head_dim;
            a->v[h * a->n_ctx * s->head_dim + i] = (float)position;
        }
}

static void expect_means(const struct kg_loops_mode *mode, const struct kg_loops_attention *s,
                         const struct kg_loops_attended *a) {
    const bool half = mode->activations == F16 || mode->kv == F16;
    for (size_t i = 0; i < a->n_q; i++) {
        const size_t row = i / s->head_dim / s->n_heads;
        const double want = (double)(s->n_keys - s->n_rows + row) / 2, got = (double)a->y.host.data[i];
        /* One key more or less moves the mean by a half. */
        ck_assert_msg(fabs(got - want) <= (half ? 2 * KG_ROUNDOFF_F16 : 1e-5) * want,
                      "%u rows, %u keys, row %zu: the mean of the positions it sees is %.9g, not %.9g", s->n_rows,
                      s->n_keys, row, got, want);
    }
}

static void equal_logits_give_the_mean(struct kg_record *rec, const void *arg) {
    with_small(rec, arg, set_counting, expect_means);
}

/* Rows of a prefill keep their bits whatever lies in the future of the first of them: keys and values there are huge.
 */
static void the_future_is_not_seen(struct kg_record *rec, const void *arg) {
    enum { N = 130, SEEN = 67 };
    const struct edge_case *c = arg;
    const struct kg_loops_attention s = { N, N, 4, 2, 64, 0 };
    struct kg_loops_attended one, other;
    struct kg_op_device d;
    if (!kg_loops_open(rec, c->mode, &d)) return;
    kg_loops_attention_init(c->mode, &s, kg_record_seed(rec), &one);
    kg_loops_attention_init(c->mode, &s, kg_record_seed(rec), &other);
    for (size_t h = 0; h < s.n_kv_heads; h++)
        for (size_t i = (h * other.n_ctx + SEEN) * s.head_dim; i < (h * other.n_ctx + N) * s.head_dim; i++) {
            other.k[i] = i % 2 ? 1000 : -1000;
            other.v[i] = 30000;
        }
    kg_loops_attention_run(&d, c->mode, &s, &one);
    kg_loops_attention_run(&d, c->mode, &s, &other);
    const size_t row = (size_t)s.n_heads * s.head_dim;
    size_t n_changed = 0;
    for (size_t i = 0; i < N * row; i++) {
        const bool same = kg_same_bits(one.y.host.data[i], other.y.host.data[i]);
        if (!same && i < SEEN * row) ck_abort_msg("row %zu sees keys from %d on", i / row, SEEN);
        n_changed += !same;
    }
    ck_assert_uint_gt(n_changed, 0); /* rows from SEEN on do see them */
    kg_loops_attention_free(&other);
    kg_loops_attention_free(&one);
    kg_op_device_close(&d);
}

static void add(struct kg_case_list *cases, size_t mode, const char *name, uint32_t head_dim, bool decode,
                void (*run)(struct kg_record *, const void *)) {
    struct edge_case *c = &edge_cases[n_edge_cases++];
    char shape[32];
    *c = (struct edge_case){ &MODES[mode], head_dim, decode };
    snprintf(shape, sizeof shape, "%s D=%u", decode ? "decode" : "prefill", head_dim);
    kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                               .op = "attention",
                                               .name = name,
                                               .backend = MODES[mode].backend,
                                               .dtype = MODES[mode].dtype,
                                               .shape = head_dim ? shape : NULL,
                                               .spec = "FT-052",
                                               .timeout_s = 120,
                                               .run = run,
                                               .arg = c });
}

static void build(struct kg_case_list *cases) {
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        for (size_t i = 0; i < KG_COUNT_OF(HEAD_DIMS); i++) {
            add(cases, m, "every_length", HEAD_DIMS[i], true, every_length);
            add(cases, m, "every_length", HEAD_DIMS[i], false, every_length);
        }
        if (is_gpu(&MODES[m])) add(cases, m, "prefill_takes_its_kernel", 0, false, prefill_takes_its_kernel);
        if (is_gpu(&MODES[m]) && MODES[m].activations == MODES[m].kv)
            add(cases, m, "prefill_of_4097", 0, false, prefill_of_4097);
        add(cases, m, "each_head_reads_its_group", 0, false, each_head_reads_its_group);
        add(cases, m, "one_key_takes_all", 0, false, one_key_takes_all);
        add(cases, m, "equal_logits_give_the_mean", 0, false, equal_logits_give_the_mean);
        add(cases, m, "the_future_is_not_seen", 0, false, the_future_is_not_seen);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
