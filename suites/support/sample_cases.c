#include "suites/support/sample_cases.h"
#include "base/buffer.h"
#include "base/size.h"
#include "engine/op_workspace.h"
#include "suites/support/host_draws.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Uninitialised memory of the back end, made visible: a pattern that is no sum, no key and no bit mask of zeros. */
static void *put_pattern(struct kg_sample_device *d, uint64_t size_bytes) {
    void *pattern = kg_xmalloc(size_bytes);
    memset(pattern, 0xAB, size_bytes);
    void *put = kg_op_device_put(&d->op, pattern, size_bytes);
    free(pattern);
    return put;
}

bool kg_sample_device_open(struct kg_record *rec, const char *backend, const struct kg_draw_ops *draws, uint32_t n_max,
                           struct kg_sample_device *d) {
    const struct kg_op_extent extent = { .n_rows = 1, .n_in = 64, .n_out = n_max }; /* its matrix makes the logits */
    uint64_t workspace_bytes;
    struct kg_error err;
    *d = (struct kg_sample_device){ 0 };
    if (!kg_op_device_open(rec, backend, NULL, &d->op)) return false;
    struct kg_backend *b = d->op.backend;
    d->draws = draws ? draws : b->ops->draws ? b->ops->draws : &kg_host_draw_ops;
    kg_op_expect_ok(d->draws->open_mailbox(b, sizeof(struct kg_sample_result), &d->mailbox, &err), &err);
    kg_op_expect_ok(kg_op_workspace_bytes(b, &extent, &workspace_bytes, &err), &err);
    kg_op_device_reserve(&d->op, workspace_bytes);
    d->logits = put_pattern(d, n_max * sizeof *d->logits);
    d->history = put_pattern(d, (KG_SAMPLE_MAX_HISTORY + 1) * sizeof *d->history);
    d->next = put_pattern(d, sizeof *d->next);
    return true;
}

void kg_sample_device_close(struct kg_sample_device *d) {
    d->draws->close_mailbox(d->op.backend, d->mailbox);
    kg_op_device_close(&d->op);
}

void kg_sample_put(struct kg_sample_device *d, const struct kg_sample_problem *p) {
    struct kg_error err;
    struct kg_backend *b = d->op.backend;
    kg_op_expect_ok(b->ops->upload(b, d->logits, p->logits, p->n_vocab * sizeof *p->logits, &err), &err);
    kg_op_expect_ok(b->ops->upload(b, d->history, p->history, p->n_history * sizeof *p->history, &err), &err);
}

static struct kg_sample_args args_of(const struct kg_sample_problem *p) {
    return (struct kg_sample_args){ .n_vocab = p->n_vocab,
                                    .n_drawable = p->n_drawable,
                                    .options = &p->options,
                                    .uniform = p->uniform,
                                    .n_history = p->n_history };
}

struct kg_sample_result kg_sample_run(struct kg_sample_device *d, const struct kg_sample_problem *p) {
    struct kg_error err;
    struct kg_backend *b = d->op.backend;
    struct kg_sample_result result;
    struct kg_sample_args args = args_of(p);
    args.logits = d->logits;
    args.history = d->history;
    args.next = d->next;
    args.result = d->mailbox;
    args.sequence = ++d->sequence;
    args.workspace = d->op.workspace;
    kg_op_expect_ok(d->draws->sample(b, &args, &err), &err);
    kg_op_expect_ok(d->draws->wait(b, d->mailbox, d->sequence, &result, &err), &err);
    int32_t put[2];
    kg_op_expect_ok(b->ops->download(b, &put[0], d->next, sizeof *put, &err), &err);
    kg_op_expect_ok(b->ops->download(b, &put[1], d->history + p->n_history, sizeof *put, &err), &err);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(put[i], result.id < 0 ? 0 : result.id);
    return result;
}

struct kg_sample_result kg_sample_reference(const struct kg_sample_problem *p) {
    struct kg_error err;
    struct kg_sample_result result;
    struct kg_sample_args args = args_of(p);
    int32_t history[KG_SAMPLE_MAX_HISTORY + 1], next;
    if (p->n_history) memcpy(history, p->history, p->n_history * sizeof *history);
    args.logits = p->logits;
    args.history = history;
    args.next = &next;
    args.result = &result;
    kg_op_expect_ok(kg_cpu_sample(&args, &err), &err);
    return result;
}

static float random_logit(struct kg_rng *rng, int kind, double scale) {
    switch (kind) {
    case 0: return (float)(kg_rng_normal(rng) * scale);
    case 1: return (float)kg_rng_below(rng, 4) - 2; /* ties, of either sign */
    case 2: return kg_rng_below(rng, 2) ? 0.f : -0.f;
    case 3: return (float)(20 + kg_rng_normal(rng) * 1e-6);
    default: return (float)kg_rng_normal(rng) * 1e37f;
    }
}

#define PICK(rng, table) (table)[kg_rng_below(rng, KG_COUNT_OF(table))]

struct kg_sample_problem kg_sample_random(struct kg_rng *rng, uint32_t n_max, float *logits,
                                          int32_t history[KG_SAMPLE_MAX_HISTORY]) {
    static const double TEMPERATURES[] = { 0, 0.01, 0.7, 1, 2, 1e6, 1e-310 };
    static const double PENALTIES[] = { 1, 1, 1.1, 2, 0.5, 1e300, 1e-320 };
    static const uint32_t WINDOWS[] = { 0, 1, 3, 64, UINT32_MAX };
    static const double SUMS[] = { 1, 1, 0.1, 0.5, 0.9, 0.999999, 1e-9 };
    static const double SHARES[] = { 0, 0, 1e-9, 0.1, 0.5, 1 };
    static const double UNIFORMS[] = { 0, 0x1p-53, 1 - 0x1p-53 };
    struct kg_sample_problem p = { .logits = logits, .history = history };
    p.n_vocab = 1 + (uint32_t)kg_rng_below(rng, n_max);
    p.n_drawable = kg_rng_below(rng, 2) ? p.n_vocab : 1 + (uint32_t)kg_rng_below(rng, p.n_vocab);
    const int kind = (int)kg_rng_below(rng, 5);
    const double scale = pow(10, 3 * kg_rng_uniform(rng) - 2);
    for (uint32_t i = 0; i < p.n_vocab; i++) logits[i] = random_logit(rng, kind, scale);
    p.n_history = (uint32_t)kg_rng_below(rng, KG_SAMPLE_MAX_HISTORY);
    /* ids from before the vocabulary to behind it */
    for (uint32_t i = 0; i < p.n_history; i++) history[i] = (int32_t)kg_rng_below(rng, p.n_vocab + 4) - 2;
    p.options.temperature = PICK(rng, TEMPERATURES);
    p.options.repeat_penalty = PICK(rng, PENALTIES);
    p.options.repeat_last_n = PICK(rng, WINDOWS);
    p.options.top_k = kg_rng_below(rng, 2) ? 0 : (uint32_t)kg_rng_below(rng, 2 * (uint64_t)p.n_drawable);
    p.options.top_p = PICK(rng, SUMS);
    p.options.min_p = PICK(rng, SHARES);
    p.uniform = kg_rng_below(rng, 4) ? kg_rng_uniform(rng) : PICK(rng, UNIFORMS);
    return p;
}

static void describe(const struct kg_sample_problem *p, size_t index, int32_t got, int32_t want, char text[256]) {
    snprintf(text, 256,
             "problem %zu: id %d, not %d; %u of %u ids, temperature %g, penalty %g over %u of %u, top_k %u, top_p %g, "
             "min_p %g, uniform %.17g",
             index, got, want, p->n_drawable, p->n_vocab, p->options.temperature, p->options.repeat_penalty,
             p->options.repeat_last_n, p->n_history, p->options.top_k, p->options.top_p, p->options.min_p, p->uniform);
}

size_t kg_sample_count_wrong(struct kg_sample_device *d, uint64_t seed, size_t n, uint32_t n_max, char first[256]) {
    struct kg_rng rng;
    size_t n_wrong = 0;
    float *logits = kg_xcalloc(n_max, sizeof *logits);
    int32_t history[KG_SAMPLE_MAX_HISTORY];
    kg_rng_init(&rng, seed, 0);
    for (size_t i = 0; i < n; i++) {
        const struct kg_sample_problem p = kg_sample_random(&rng, n_max, logits, history);
        kg_sample_put(d, &p);
        const struct kg_sample_result want = kg_sample_reference(&p), got = kg_sample_run(d, &p);
        ck_assert_uint_eq(got.first_bad, p.n_vocab);
        if (got.id != want.id && n_wrong++ == 0) describe(&p, i, got.id, want.id, first);
    }
    free(logits);
    return n_wrong;
}
