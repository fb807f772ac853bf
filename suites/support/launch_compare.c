#include "suites/support/launch_compare.h"
#include "base/buffer.h"
#include "base/size.h"
#include "format/dtype.h"
#include "suites/harness/must.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Finite in every precision, and like no result: float16 1.06, float32 0.0115. */
enum { JUNK = 0x3C };

static bool has(const void *const *places, size_t n, const void *place) {
    for (size_t i = 0; i < n; i++)
        if (places[i] == place) return true;
    return false;
}

static bool reads(const struct kg_node *node, const void *place) {
    const struct kg_node_places p = kg_node_places(node);
    return has(p.in, KG_COUNT_OF(p.in), place);
}

static bool writes(const struct kg_node *node, const void *place) {
    const struct kg_node_places p = kg_node_places(node);
    return has(p.out, KG_COUNT_OF(p.out), place);
}

/* Whether what node i of a step that ends at `end` writes is for others: read behind the step, or the plan's result. */
static bool is_left(const struct kg_plan *plan, uint32_t i, uint32_t end, const void *place) {
    for (uint32_t j = i + 1; j < end; j++)
        if (writes(&plan->nodes[j], place)) return false;
    for (uint32_t j = end; j < plan->n_nodes; j++) {
        if (reads(&plan->nodes[j], place)) return true;
        if (writes(&plan->nodes[j], place)) return false;
    }
    return i + 1 == plan->n_nodes;
}

static struct kg_step_place *add_place(struct kg_launch_compare *w, uint32_t step, const struct kg_node *node,
                                       const char *name, const void *data, size_t n) {
    w->places = kg_xrealloc(w->places, (w->n_places + 1) * sizeof *w->places);
    struct kg_step_place *p = &w->places[w->n_places++];
    *p = (struct kg_step_place){ .step = step, .data = data, .n = n };
    if (node->layer == KG_NO_LAYER) snprintf(p->name, sizeof p->name, "%s", name);
    else snprintf(p->name, sizeof p->name, "blk.%d.%s", node->layer, name);
    return p;
}

static void add_places_of(struct kg_launch_compare *w, uint32_t step, uint32_t i, uint32_t end) {
    const struct kg_plan *plan = w->session->plan;
    const struct kg_node *node = &plan->nodes[i];
    if (node->op == KG_OP_kv_write) {
        const struct kg_kv_write_args *kv = &node->args.kv_write;
        const void *caches[] = { kv->k_cache, kv->v_cache };
        static const char *const NAMES[] = { "k_cache", "v_cache" };
        for (size_t c = 0; c < KG_COUNT_OF(caches); c++) {
            struct kg_step_place *p =
                add_place(w, step, node, NAMES[c], caches[c], (size_t)kv->n_kv_heads * kv->head_dim);
            p->is_cache = true;
            p->precision = plan->kv;
        }
    }
    for (int t = 0; t < KG_NODE_TAPS && node->taps[t].name; t++) {
        const struct kg_tap_point *tap = &node->taps[t];
        if (!is_left(plan, i, end, tap->data)) continue;
        struct kg_step_place *p = add_place(w, step, node, tap->name, tap->data, tap->n_cols);
        p->is_i32 = tap->type == KG_TAPPED_I32;
        p->precision = tap->type == KG_TAPPED_ACTIVATIONS ? plan->activations
                       : tap->type == KG_TAPPED_RESIDUAL  ? plan->residual
                                                          : KG_PRECISION_F32;
    }
}

static float value_of(const struct kg_step_place *p, const uint8_t *bytes, size_t i) {
    uint16_t half;
    int32_t number;
    float x;
    memcpy(&half, bytes + i * sizeof half, sizeof half);
    if (!p->is_i32 && p->precision == KG_PRECISION_F16) return kg_f16_to_f32(half);
    memcpy(&number, bytes + i * sizeof number, sizeof number);
    memcpy(&x, bytes + i * sizeof x, sizeof x);
    return p->is_i32 ? (float)number : x;
}

/* What is in a place's memory, malloc'ed; of a cache the position's slot of every head. */
static float *fetch(const struct kg_launch_compare *w, const struct kg_step_place *p) {
    struct kg_backend *backend = w->session->backend;
    const struct kg_kv_cache *kv = &w->session->kv;
    const size_t elem = kg_precision_bytes(p->precision), n_held = p->is_cache ? p->n * kv->n_ctx : p->n;
    uint8_t *bytes = kg_xmalloc(n_held * elem);
    float *values = kg_xcalloc(p->n, sizeof *values);
    struct kg_error err;
    kg_must(backend->ops->download(backend, bytes, p->data, n_held * elem, &err), &err);
    for (size_t i = 0; i < p->n; i++) {
        const size_t head = i / kv->head_dim;
        const size_t at = (head * kv->n_ctx + w->run.position) * kv->head_dim + i % kv->head_dim;
        values[i] = value_of(p, bytes, p->is_cache ? at : i);
    }
    free(bytes);
    return values;
}

static void put_junk(struct kg_backend *backend, void *data, size_t n_bytes) {
    struct kg_error err;
    uint8_t *junk = kg_xmalloc(n_bytes);
    memset(junk, JUNK, n_bytes);
    kg_must(backend->ops->upload(backend, data, junk, n_bytes, &err), &err);
    free(junk);
}

/* All activations, and the slots of the position. */
static void spoil(const struct kg_launch_compare *w) {
    struct kg_session *s = w->session;
    const size_t row = s->kv.head_dim * kg_precision_bytes(s->kv.precision);
    put_junk(s->backend, s->activations.data, s->activations.size_bytes);
    for (uint32_t layer = 0; layer < s->kv.n_layers; layer++)
        for (size_t h = 0; h < s->kv.n_kv_heads; h++) {
            const size_t at = (h * s->kv.n_ctx + w->run.position) * row;
            put_junk(s->backend, (char *)kg_kv_cache_keys(&s->kv, layer) + at, row);
            put_junk(s->backend, (char *)kg_kv_cache_values(&s->kv, layer) + at, row);
        }
}

static void run_nodes(struct kg_launch_compare *w) {
    struct kg_session *s = w->session;
    struct kg_error err;
    spoil(w);
    kg_must(s->backend->ops->upload(s->backend, s->buffers.ids, &w->id, sizeof w->id, &err), &err);
    size_t next = 0;
    for (uint32_t step = 0; step < w->n_steps; step++) {
        for (uint32_t i = 0; i < w->steps[step].n; i++)
            kg_must(kg_plan_run_node(s->backend, &s->plan->nodes[w->steps[step].first + i], &w->run, &err), &err);
        for (; next < w->n_places && w->places[next].step == step; next++)
            w->places[next].want = fetch(w, &w->places[next]);
    }
}

void kg_launch_compare_open(struct kg_session *session, int32_t id, struct kg_launch_compare *w) {
    const struct kg_lowered *l = session->lowered;
    ck_assert_msg(l, "the plan was not lowered");
    ck_assert_uint_lt(session->n_past + 1, session->options.n_ctx);
    *w = (struct kg_launch_compare){ .session = session,
                                     .id = id,
                                     .run = { 1, session->n_past, kg_session_rope_factors(session) },
                                     .n_steps = l->is_one_launch ? 1 : l->n_steps };
    w->steps = kg_xcalloc(w->n_steps, sizeof *w->steps);
    memcpy(w->steps, l->steps, w->n_steps * sizeof *w->steps);
    if (l->is_one_launch) w->steps[0].n = session->plan->n_nodes;
    for (uint32_t step = 0; step < w->n_steps; step++)
        for (uint32_t i = 0, end = w->steps[step].first + w->steps[step].n; i < w->steps[step].n; i++)
            add_places_of(w, step, w->steps[step].first + i, end);
    run_nodes(w);
}

void kg_launch_compare_close(struct kg_launch_compare *w) {
    for (size_t i = 0; i < w->n_places; i++) free(w->places[i].want);
    free(w->places);
    free(w->steps);
}

static void expect_kernel(const struct kg_lowered *l, const struct kg_lowered_step *kernel) {
    for (uint32_t i = 0; i < l->n_steps; i++) {
        const struct kg_lowered_step *s = &l->steps[i];
        if (s->first != kernel->first) continue;
        ck_assert_msg(strcmp(s->kernel, kernel->kernel) == 0 && s->n == kernel->n && s->is_fused == kernel->is_fused,
                      "node %u is in %s, not in %s: %s", s->first, s->kernel, kernel->kernel,
                      l->n_refusals > 0 ? l->refusals[l->n_refusals - 1].why : "nothing was refused");
        ck_assert_str_eq(s->attention ? s->attention : "", kernel->attention ? kernel->attention : "");
        return;
    }
    ck_abort_msg("no step begins at node %u", kernel->first);
}

void kg_launch_compare_run(const struct kg_launch_compare *w, const struct kg_plan *plan, uint32_t step,
                           const struct kg_lowered_step *kernel, const struct kg_tolerance *tol,
                           struct kg_step_difference *first) {
    struct kg_backend *backend = w->session->backend;
    const struct kg_step_args args = { .run = w->run, .id = w->id };
    struct kg_lowered *lowered;
    struct kg_error err;
    *first = (struct kg_step_difference){ .margin = -1 };
    kg_must(backend->ops->lower(backend, plan, &lowered, &err), &err);
    if (kernel) expect_kernel(lowered, kernel);
    for (int i = 0; i < 2; i++) {
        spoil(w);
        kg_must(backend->ops->decode_step(backend, lowered, &args, &err), &err);
    }
    for (size_t i = 0; i < w->n_places && first->margin <= 1; i++) {
        const struct kg_step_place *p = &w->places[i];
        struct kg_compare c;
        double margin;
        if (p->step != step) continue;
        float *got = fetch(w, p);
        kg_compare_f32(got, p->want, p->n, &c);
        (void)kg_within(&c, tol, &margin);
        c.got = c.want_f32 = NULL; /* they go */
        if (margin > first->margin) *first = (struct kg_step_difference){ p->name, margin, c };
        free(got);
    }
    kg_must(backend->ops->synchronize(backend, &err), &err);
    backend->ops->free_lowered(backend, lowered);
}
