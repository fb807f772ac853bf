/* Decoding step by step from an empty cache, at the shapes of models and lengths of context that a step as one launch
 * (kernels/persistent) treats each in its own way, and just outside them: every step's logits against the cpu reference
 * and against a prefill of the same ids on the same back end; and bit for bit the same when done again, after going
 * back, and while other sessions take steps. Wrong operations must be outside the same limits. */
#include "base/buffer.h"
#include "base/size.h"
#include "backend/gpu.h"
#include "engine/session.h"
#include "suites/support/rig.h"
#include "suites/support/mutant_ops.h"
#include "suites/support/op_device.h"
#include "suites/tolerance/step_models.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys that a step sees at the edges of its splits (64 keys in float32; 256 in float16, 224 of three and more), of what
 * readers merge (2 splits), and of 7, 8 and 16 warps of 32 keys. */
static const uint32_t LENGTHS[] = { 16, 17, 64, 65, 128, 129, 192, 193, 224, 225, 256, 257, 448, 512, 513, 520 };

/* Models whose contexts are too long to be looked at but at their own lengths, ascending. A split is 64 keys in
 * float32, 224 in float16; a warp merges 32 splits with a packet a lane, 64 or 96 at a time, and there are as many as
 * blocks for each KV head: on 132 multiprocessors, 32 and 33 splits in either precision and all 132, and more than all
 * four of 32 KV heads. */
static const struct edges {
    const char *model;
    uint32_t lengths[8];
} EDGES[] = {
    { "long_past_32_splits", { 2048, 2049, 2112, 2113, 7168, 7169, 8448, 8456 } },
    { "long_all_splits_32_kv_heads", { 1024, 1025, 1028, 1280, 1296 } },
};

static const struct mutant {
    const char *name, *model;
    void (*change)(struct kg_backend_ops *mutant);
    bool of_position; /* changes a position or number of keys: a captured step has the device's instead */
} MUTANTS[] = {
    { "half_pairs_turned_as_neighbours", "head_64_group_7", kg_mutant_other_rope_pairing, false },
    { "neighbours_turned_as_half_pairs", "head_32_group_2", kg_mutant_other_rope_pairing, false },
    { "rope_factors_ignored", "rope_factors_head_128", kg_mutant_rope_factors_ignored, false },
    { "rope_scale_ignored", "half_of_the_head_linear_scaling", kg_mutant_rope_scale_ignored, false },
    { "whole_head_turned", "half_of_the_head_linear_scaling", kg_mutant_whole_head_rotated, false },
    { "unwired_bias", "other_biases_alone", kg_mutant_unwired_bias, false },
    { "unwired_qkv_bias", "head_80_group_2", kg_mutant_unwired_bias, false },
    { "own_key_unseen", "long_head_32", kg_mutant_own_key_unseen, true },
    { "keys_beyond_forty_forgotten", "long_head_64_group_7", kg_mutant_window_of_forty, false },
    { "kv_heads_taken_in_turn", "head_80_group_2", kg_mutant_kv_heads_interleaved, false },
    { "first_kv_head_twice", "head_96_32_kv_heads", kg_mutant_first_kv_head_twice, false },
    { "shifted_kv_slot", "head_24", kg_mutant_shifted_kv_slot, true },
    { "gate_and_up_exchanged", "ff_16_times_embd", kg_mutant_gate_and_up_exchanged, false },
    { "residual_dropped", "embd_2048", kg_mutant_residual_dropped, false },
    { "window_one_longer", "phi3_head_96_window_7", kg_mutant_window_one_longer, false },
    { "windows_ignored", "gpt_oss_group_4", kg_mutant_windows_ignored, false },
    { "sinks_ignored", "gpt_oss_group_4", kg_mutant_sinks_ignored, false },
    { "rope_magnitude_ignored", "phi3_outgrows_12", kg_mutant_rope_magnitude_ignored, false },
    { "alpha_of_one", "gpt_oss_mxfp4_experts", kg_mutant_alpha_of_one, false },
    { "up_without_one", "gpt_oss_group_4", kg_mutant_up_without_one, false },
    { "expert_bias_ignored", "gpt_oss_mxfp4_experts", kg_mutant_expert_bias_ignored, false },
    { "positions_ignored", "gpt2_head_40", kg_mutant_positions_ignored, false },
    { "positions_from_zero", "gpt2_head_40", kg_mutant_positions_from_zero, true },
    { "norm_bias_dropped", "gpt2_head_40", kg_mutant_norm_bias_dropped, false },
};

/* Models whose sessions are interleaved: the widths differ, so that a block's memory is laid out otherwise. */
static const char *const PAIRS[][2] = {
    { "head_64_group_7", "long_head_32" }, /* both in the kernel of heads up to 64 */
    { "embd_912", "head_32_group_2" },
    { "head_80_group_2", "head_128_group_8_all_biases" },
};

struct step_case {
    const struct kg_layer_backend *target;
    const struct kg_step_model *model, *other; /* other: of a pair */
    const struct mutant *mutant;
};
static struct step_case step_cases[1024];
static size_t n_step_cases;

static const struct kg_backend_ops *table_of(const struct kg_layer_backend *t) {
    return t->ops ? t->ops() : NULL;
}

static const struct edges *edges_of(const struct kg_step_model *model) {
    for (size_t i = 0; i < KG_COUNT_OF(EDGES); i++)
        if (strcmp(EDGES[i].model, model->name) == 0) return &EDGES[i];
    return NULL;
}

/* False after a skip. */
static bool begin(struct kg_record *rec, const struct step_case *c, struct kg_step_work *w,
                  struct kg_step_engine *engine) {
    if (!kg_backend_or_skip(rec, c->target->name)) return false;
    kg_step_work_open(rec, c->model, c->target->activations, w);
    kg_step_engine_open(engine, w->path, c->target->name, table_of(c->target));
    return true;
}

static void end(struct kg_step_work *w, struct kg_step_engine *engine) {
    kg_step_engine_close(engine);
    kg_step_work_close(w);
}

static struct kg_session *session_of(const struct step_case *c, const struct kg_step_work *w,
                                     struct kg_step_engine *engine) {
    return kg_step_session(engine, w->n_ids, c->target->activations);
}

static float *new_logits(const struct kg_step_work *w) {
    return kg_xcalloc(w->n_ids * w->n_vocab, sizeof(float));
}

/* What a step of the model is on a GPU of compute capability 9.0, as kernels/decode/persistent says what it takes. */
static const char *path_of(const struct kg_step_model *model, enum kg_precision activations) {
    const bool mixed = model->model.matrices == KG_DTYPE_F16 && activations == KG_PRECISION_F32;
    const bool outside = strncmp(model->name, "outside_", strlen("outside_")) == 0;
    const bool other_layers = model->model.n_experts > 0 || strcmp(model->model.architecture, "gpt2") == 0;
    const bool blocks = kg_dtype_info(model->model.matrices)->block_elems > 1;
    return mixed || outside || other_layers || blocks ? "captured graph" : "persistent kernel";
}

/* The kernel of the first attention; NULL where it is an instruction's. */
static const char *attention_of(const struct kg_lowered *l) {
    uint32_t i = 0;
    while (i < l->n_steps && !l->steps[i].attention) i++;
    return i < l->n_steps ? l->steps[i].attention : NULL;
}

/* Records how many steps or instructions the model's plan was lowered to, by path, and how many of them are fused; on
 * GPUs where the path is known it is the one that the model is here for. */
static void expect_path(struct kg_record *rec, const struct step_case *c, const struct kg_session *session) {
    const struct kg_lowered *l = session->lowered;
    if (strcmp(c->target->name, "cuda") != 0) return;
    struct kg_gpu_info gpu;
    struct kg_error err;
    size_t n_gpus = 0, n_fused = 0;
    ck_assert_msg(l, "the plan was not lowered");
    for (uint32_t i = 0; i < l->n_steps; i++) n_fused += l->steps[i].is_fused;
    if (attention_of(l)) kg_record_metric(rec, attention_of(l), "count", 1);
    kg_record_metric(rec, l->is_one_launch ? "instructions" : "launches", "count", l->n_steps);
    kg_record_metric(rec, "fused", "count", (double)n_fused);
    kg_op_expect_ok(kg_gpu_list(&gpu, 1, &n_gpus, &err), &err);
    if (n_gpus != 1 || gpu.compute_capability != 90) return;
    const char *want = path_of(c->model, c->target->activations);
    ck_assert_msg(strcmp(l->path, want) == 0, "the step is a %s, not a %s: %s", l->path, want,
                  l->n_refusals > 0 ? l->refusals[0].why : "nothing was refused");
}

/* Records the worst row's figures, fails if it is outside. `first` is the position of row 0. */
static void expect_rows(struct kg_record *rec, const char *what, const float *got, const float *want, size_t first,
                        size_t n_rows, size_t n_vocab, const struct kg_tolerance *tol) {
    struct kg_compare worst;
    size_t row = 0;
    char name[96];
    const double margin = kg_step_margin(got, want, n_rows, n_vocab, tol, &worst, &row);
    snprintf(name, sizeof name, "%s@%zu", what, first + row);
    kg_record_judged(rec, name, &worst, tol);
    if (!(margin <= 1))
        ck_abort_msg("%s, position %zu: outside its tolerance by a factor of %.4g (%s); nmse %.3g, logit %zu is %.9g, "
                     "not %.9g; %zu not finite",
                     what, first + row, margin, tol->why, worst.nmse, worst.worst_index, worst.worst_got,
                     worst.worst_want, worst.n_nonfinite);
}

/* On cpu a row's result does not depend on its batch, so not a bit may differ. */
static void expect_like_prefill(struct kg_record *rec, const struct step_case *c, const struct kg_step_work *w,
                                const float *stepped, const float *prefilled) {
    const bool half = c->target->activations == KG_PRECISION_F16;
    /* Two results that are each within the limit of the reference are at most twice that error apart. */
    const struct kg_tolerance tol = { .nmse = half ? KG_LAYER_NMSE_F16 : 4 * w->tol.nmse,
                                      .why = half ? KG_LAYER_WHY_F16 : w->tol.why,
                                      .far = kg_far_on_cpu(rec) };
    /* Rows before a model outgrows its rope factors are rotated by other factors than those of the same ids in one
     * call. */
    const size_t first = c->model->model.long_short ? c->model->model.n_ctx / 2 : 0, at = first * w->n_vocab;
    expect_rows(rec, "steps_against_prefill", stepped + at, prefilled + at, first, w->n_ids - first, w->n_vocab, &tol);
    if (strcmp(c->target->name, "cpu") == 0)
        kg_expect_same_bits("steps, not prefill", stepped + at, prefilled + at, (w->n_ids - first) * w->n_vocab);
}

static void steps_from_empty(struct kg_record *rec, const void *arg) {
    const struct step_case *c = arg;
    struct kg_step_work w;
    struct kg_step_engine engine;
    if (!begin(rec, c, &w, &engine)) return;
    float *stepped = new_logits(&w), *prefilled = new_logits(&w);
    struct kg_session *stepping = session_of(c, &w, &engine);
    struct kg_session *prefilling = session_of(c, &w, &engine);
    expect_path(rec, c, stepping);
    kg_step_decode(stepping, w.ids, w.n_ids, w.n_vocab, stepped);
    kg_step_prefill(prefilling, w.ids, w.n_ids, w.n_vocab, prefilled);
    expect_rows(rec, "steps_against_reference", stepped, w.want, 0, w.n_ids, w.n_vocab, &w.tol);
    expect_like_prefill(rec, c, &w, stepped, prefilled);
    kg_record_metric(rec, "steps_compared", "count", (double)w.n_ids);
    kg_session_free(prefilling);
    kg_session_free(stepping);
    free(prefilled);
    free(stepped);
    end(&w, &engine);
}

/* Prefills what is missing of the first n positions. */
static void go_to(struct kg_session *session, const struct kg_step_work *w, size_t n, float *logits) {
    struct kg_error err;
    const uint32_t n_past = kg_session_n_past(session);
    if (n_past >= n) kg_op_expect_ok(kg_session_truncate(session, (uint32_t)n, &err), &err);
    else kg_step_prefill(session, w->ids + n_past, n - n_past, w->n_vocab, logits);
}

/* The context is prefilled but for the last key or two, then steps go over the edge. */
static void steps_over_edges(struct kg_record *rec, const void *arg) {
    enum { STEPS = 3 };
    const struct step_case *c = arg;
    struct kg_step_work w;
    struct kg_step_engine engine;
    struct kg_error err;
    if (!begin(rec, c, &w, &engine)) return;
    float *logits = new_logits(&w);
    struct kg_session *session = session_of(c, &w, &engine);
    expect_path(rec, c, session);
    const struct edges *own = edges_of(c->model);
    const uint32_t *lengths = own ? own->lengths : LENGTHS;
    const size_t n_lengths = own ? KG_COUNT_OF(own->lengths) : KG_COUNT_OF(LENGTHS);
    for (size_t i = 0; i < n_lengths && lengths[i] > 0 && lengths[i] < w.n_ids; i++) {
        const size_t from = lengths[i] - 2; /* the first step sees a key less than the length, the last one more */
        char what[32];
        snprintf(what, sizeof what, "keys_%u", lengths[i]);
        /* In a long context only what is new is prefilled: the rest has been compared with the edges before. */
        if (!own) kg_op_expect_ok(kg_session_truncate(session, 0, &err), &err);
        go_to(session, &w, from, logits);
        kg_step_decode(session, w.ids + from, STEPS, w.n_vocab, logits);
        expect_rows(rec, what, logits, w.want + from * w.n_vocab, from, STEPS, w.n_vocab, &w.tol);
    }
    kg_session_free(session);
    free(logits);
    end(&w, &engine);
}

/* Steps from an empty cache in a separate session, as the reference of others. */
static float *alone(struct kg_step_engine *engine, const struct step_case *c, const struct kg_step_work *w,
                    const int32_t *ids) {
    float *logits = new_logits(w);
    struct kg_session *session = session_of(c, w, engine);
    kg_step_decode(session, ids, w->n_ids, w->n_vocab, logits);
    kg_session_free(session);
    return logits;
}

static int32_t *other_ids(const struct kg_step_work *w) {
    int32_t *ids = kg_xcalloc(w->n_ids, sizeof *ids);
    for (size_t i = 0; i < w->n_ids; i++) ids[i] = (int32_t)(((size_t)w->ids[i] * 3 + i + 1) % w->n_vocab);
    return ids;
}

/* Again from the start; and from a third on after other ids were there. */
static void steps_again(struct kg_record *rec, const void *arg) {
    const struct step_case *c = arg;
    struct kg_step_work w;
    struct kg_step_engine engine;
    struct kg_error err;
    if (!begin(rec, c, &w, &engine)) return;
    const size_t third = w.n_ids / 3;
    int32_t *others = other_ids(&w);
    float *once = alone(&engine, c, &w, w.ids), *again = new_logits(&w);
    struct kg_session *session = session_of(c, &w, &engine);
    kg_step_decode(session, others, w.n_ids, w.n_vocab, again);
    expect_rows(rec, "steps_against_reference", once, w.want, 0, w.n_ids, w.n_vocab, &w.tol);
    kg_op_expect_ok(kg_session_truncate(session, 0, &err), &err);
    kg_step_decode(session, w.ids, w.n_ids, w.n_vocab, again);
    kg_expect_same_bits("the same steps again", again, once, w.n_ids * w.n_vocab);
    kg_op_expect_ok(kg_session_truncate(session, (uint32_t)third, &err), &err);
    kg_step_decode(session, others + third, w.n_ids - third, w.n_vocab, again);
    kg_op_expect_ok(kg_session_truncate(session, (uint32_t)third, &err), &err);
    kg_step_decode(session, w.ids + third, w.n_ids - third, w.n_vocab, again);
    kg_expect_same_bits("steps after going back", again, once + third * w.n_vocab, (w.n_ids - third) * w.n_vocab);
    kg_session_free(session);
    free(again);
    free(once);
    free(others);
    end(&w, &engine);
}

/* One takes two steps while the other takes one, so that their positions and counts of steps part. */
static void interleave(struct kg_session *fast, const struct kg_step_work *wf, const int32_t *ids_fast, float *out_fast,
                       struct kg_session *slow, const struct kg_step_work *ws, const int32_t *ids_slow,
                       float *out_slow) {
    for (size_t f = 0, s = 0; f < wf->n_ids || s < ws->n_ids;) {
        for (size_t i = 0; i < 2 && f < wf->n_ids; i++, f++)
            kg_step_decode(fast, ids_fast + f, 1, wf->n_vocab, out_fast + f * wf->n_vocab);
        if (s < ws->n_ids) {
            kg_step_decode(slow, ids_slow + s, 1, ws->n_vocab, out_slow + s * ws->n_vocab);
            s++;
        }
    }
}

static void two_sessions(struct kg_record *rec, const void *arg) {
    const struct step_case *c = arg;
    struct kg_step_work w;
    struct kg_step_engine engine;
    if (!begin(rec, c, &w, &engine)) return;
    int32_t *others = other_ids(&w);
    float *a_alone = alone(&engine, c, &w, w.ids), *b_alone = alone(&engine, c, &w, others);
    float *a = new_logits(&w), *b = new_logits(&w);
    struct kg_session *first = session_of(c, &w, &engine);
    struct kg_session *second = session_of(c, &w, &engine);
    interleave(first, &w, w.ids, a, second, &w, others, b);
    expect_rows(rec, "steps_against_reference", a, w.want, 0, w.n_ids, w.n_vocab, &w.tol);
    kg_expect_same_bits("the session of two steps at a time", a, a_alone, w.n_ids * w.n_vocab);
    kg_expect_same_bits("the session of one step at a time", b, b_alone, w.n_ids * w.n_vocab);
    kg_session_free(second);
    kg_session_free(first);
    free(b);
    free(a);
    free(b_alone);
    free(a_alone);
    free(others);
    end(&w, &engine);
}

static void two_models(struct kg_record *rec, const void *arg) {
    const struct step_case *c = arg;
    struct kg_step_work wa, wb;
    struct kg_step_engine a, b;
    struct kg_error err;
    if (!begin(rec, c, &wa, &a)) return;
    kg_step_work_open(rec, c->other, c->target->activations, &wb);
    b = (struct kg_step_engine){ .backend = a.backend, .n_vocab = wb.n_vocab };
    kg_op_expect_ok(kg_model_load(wb.path, b.backend, NULL, &b.model, &err), &err);
    float *of_a = new_logits(&wa), *of_b = new_logits(&wb);
    for (int a_is_fast = 0; a_is_fast < 2; a_is_fast++) {
        struct kg_session *in_a = session_of(c, &wa, &a);
        struct kg_session *in_b = session_of(c, &wb, &b);
        if (a_is_fast) interleave(in_a, &wa, wa.ids, of_a, in_b, &wb, wb.ids, of_b);
        else interleave(in_b, &wb, wb.ids, of_b, in_a, &wa, wa.ids, of_a);
        expect_rows(rec, c->model->name, of_a, wa.want, 0, wa.n_ids, wa.n_vocab, &wa.tol);
        expect_rows(rec, c->other->name, of_b, wb.want, 0, wb.n_ids, wb.n_vocab, &wb.tol);
        kg_session_free(in_b);
        kg_session_free(in_a);
    }
    free(of_b);
    free(of_a);
    kg_model_free(b.model);
    kg_step_work_close(&wb);
    end(&wa, &a);
}

static double margin_of(const struct step_case *c, const struct kg_step_work *w, const struct kg_backend_ops *ops) {
    struct kg_step_engine engine;
    struct kg_compare worst;
    float *logits = new_logits(w);
    kg_step_engine_open(&engine, w->path, c->target->name, ops);
    struct kg_session *session = session_of(c, w, &engine);
    kg_step_decode(session, w->ids, w->n_ids, w->n_vocab, logits);
    const double margin = kg_step_margin(logits, w->want, w->n_ids, w->n_vocab, &w->tol, &worst, NULL);
    kg_session_free(session);
    kg_step_engine_close(&engine);
    free(logits);
    return margin;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct step_case *c = arg;
    struct kg_step_work w;
    struct kg_error err;
    const struct kg_backend_ops *original = table_of(c->target);
    struct kg_backend_ops ops;
    if (!kg_backend_or_skip(rec, c->target->name)) return;
    if (!original) kg_op_expect_ok(kg_backend_find_ops(c->target->name, &original, &err), &err);
    kg_step_work_open(rec, c->model, c->target->activations, &w);
    const double control = margin_of(c, &w, original);
    kg_mutant_ops_make(&ops, original, c->mutant->change);
    const double margin = margin_of(c, &w, &ops);
    kg_step_work_close(&w);
    if (!(control <= 1)) ck_abort_msg("the steps themselves are outside their tolerance by a factor of %.4g", control);
    if (!(margin > 1)) ck_abort_msg("the mutant lives: at %.4g of its tolerance", margin);
    ck_assert(isfinite(margin));
    kg_record_metric(rec, "kill_factor", "ratio", margin);
    kg_record_metric(rec, "control_margin", "ratio", control);
}

/* A router's logits of every layer and position, by taps. */
struct routes {
    uint32_t n_experts;
    size_t n_positions;
    float *logits; /* (n_layers, n_positions, n_experts) */
};

static void keep_routes(void *user, const struct kg_tap *tap) {
    struct routes *r = user;
    unsigned layer;
    int end = 0;
    if (sscanf(tap->name, "blk.%u.router%n", &layer, &end) != 1 || end == 0 || tap->name[end] != '\0') return;
    ck_assert_uint_eq(tap->n_cols, r->n_experts);
    memcpy(r->logits + (layer * r->n_positions + tap->first_position) * r->n_experts, tap->data,
           tap->n_rows * tap->n_cols * sizeof *r->logits);
}

static void route_all(const struct kg_step_work *w, const char *backend, const struct kg_backend_ops *ops,
                      enum kg_precision precision, struct routes *r) {
    struct kg_step_engine engine;
    kg_step_engine_open(&engine, w->path, backend, ops);
    struct kg_session *session = kg_step_session(&engine, w->n_ids, precision);
    const struct kg_model_config *config = kg_model_config(engine.model);
    float *logits = new_logits(w);
    const size_t n = (size_t)config->n_layers * w->n_ids * config->n_experts;
    *r = (struct routes){ config->n_experts, w->n_ids, kg_xcalloc(n, sizeof *r->logits) };
    for (size_t i = 0; i < n; i++) r->logits[i] = NAN;
    kg_session_set_tap(session, keep_routes, r);
    kg_step_decode(session, w->ids, w->n_ids, w->n_vocab, logits);
    for (size_t i = 0; i < n; i++) ck_assert_msg(isfinite(r->logits[i]), "the router's logit %zu is missing", i);
    free(logits);
    kg_session_free(session);
    kg_step_engine_close(&engine);
}

static int from_largest(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* By how much the last expert chosen is before the first that is not. */
static double gap_of(const float *logits, uint32_t n_experts, uint32_t n_used) {
    float *sorted = kg_xcalloc(n_experts, sizeof *sorted);
    memcpy(sorted, logits, n_experts * sizeof *sorted);
    qsort(sorted, n_experts, sizeof *sorted, from_largest);
    const double gap = n_used < n_experts ? (double)sorted[n_used - 1] - (double)sorted[n_used] : INFINITY;
    free(sorted);
    return gap;
}

/* What the limits of the other cases rest on: at every layer and position the last expert chosen is further ahead of
 * the next than rounding moves any two of them apart, so that no expert is exchanged for another. Of plain
 * implementations twice as far: so much more may the others err. */
static void steps_choose_clearly(struct kg_record *rec, const void *arg) {
    const struct step_case *c = arg;
    struct kg_step_work w;
    struct routes want, got;
    if (!kg_backend_or_skip(rec, c->target->name)) return;
    kg_step_work_open(rec, c->model, c->target->activations, &w);
    route_all(&w, "cpu", NULL, KG_PRECISION_F32, &want);
    route_all(&w, c->target->name, table_of(c->target), c->target->activations, &got);
    const uint32_t n_experts = want.n_experts;
    double least_gap = INFINITY, most_error = 0, least_ratio = INFINITY;
    for (size_t row = 0; row < c->model->model.n_layers * w.n_ids; row++) {
        const float *a = want.logits + row * n_experts, *b = got.logits + row * n_experts;
        const double gap = gap_of(a, n_experts, c->model->model.n_experts_used);
        double error = 0;
        for (uint32_t e = 0; e < n_experts; e++) error = fmax(error, fabs((double)a[e] - (double)b[e]));
        least_gap = fmin(least_gap, gap);
        most_error = fmax(most_error, error);
        if (error > 0) least_ratio = fmin(least_ratio, gap / (2 * error));
    }
    kg_record_metric(rec, "least_gap", "logit", least_gap);
    kg_record_metric(rec, "most_error", "logit", most_error);
    if (isfinite(least_ratio)) kg_record_metric(rec, "least_gap_over_twice_error", "ratio", least_ratio);
    free(got.logits);
    free(want.logits);
    kg_step_work_close(&w);
    ck_assert_msg(least_ratio > (c->target->ops ? 2 : 1),
                  "a gap is %.4g of twice the row's error (least gap %.4g, largest error %.4g)", least_ratio, least_gap,
                  most_error);
}

/* Kinds of case; a name of NULL: the model's. */
static void add(struct kg_case_list *cases, const char *layer, const char *op, const char *name,
                const struct step_case *c, void (*run)(struct kg_record *, const void *)) {
    if (n_step_cases == KG_COUNT_OF(step_cases)) abort(); /* a case left out unseen would be a hole */
    step_cases[n_step_cases] = *c;
    char *shape = kg_xasprintf("steps=%u", c->model->n_ids);
    /* Which experts there are to choose from is a distinct workload. */
    char *definition = c->model->model.n_experts > 0
                           ? kg_xasprintf("%s seed=%u", c->model->name, (unsigned)c->model->model.seed)
                           : kg_xstrdup(c->other ? c->other->name : c->model->name);
    kg_case_list_add(cases, &(struct kg_case){
                                .layer = layer,
                                .op = op,
                                .name = name ? name : c->model->name,
                                .backend = c->target->name,
                                .dtype = c->target->dtype,
                                .shape = shape,
                                .spec = c->target->activations == KG_PRECISION_F16 ? "FT-056" : "FT-052",
                                .definition = definition,
                                .run = run,
                                .arg = &step_cases[n_step_cases],
                                .timeout_s = edges_of(c->model) ? 300 : 0, /* plain float16 at 8,460 positions */
                            });
    n_step_cases++;
    free(definition);
    free(shape);
}

static void build(struct kg_case_list *cases) {
    for (size_t b = 0; b < kg_n_layer_backends; b++) {
        const struct kg_layer_backend *target = &kg_layer_backends[b];
        for (size_t m = 0; m < kg_n_step_models; m++) {
            const struct step_case c = { target, &kg_step_models[m], NULL, NULL };
            if (target->ops && c.model->is_long) continue; /* a plain step widens the whole cache */
            if (!edges_of(c.model)) add(cases, "tolerance", "steps", NULL, &c, steps_from_empty);
            if (c.model->model.n_experts > 0)
                add(cases, "tolerance", "steps_choose_clearly", NULL, &c, steps_choose_clearly);
            if (target->ops) continue; /* its rows do not know their batch */
            if (c.model->is_long) add(cases, "tolerance", "steps_over_edges", NULL, &c, steps_over_edges);
            if (!c.model->is_repeated) continue;
            add(cases, "tolerance", "steps_again", NULL, &c, steps_again);
            add(cases, "tolerance", "steps_of_two_sessions", NULL, &c, two_sessions);
        }
        for (size_t p = 0; p < KG_COUNT_OF(PAIRS) && !target->ops; p++) {
            const struct step_case c = { target, kg_step_model_find(PAIRS[p][0]), kg_step_model_find(PAIRS[p][1]),
                                         NULL };
            add(cases, "tolerance", "steps_of_two_models", NULL, &c, two_models);
        }
        for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++) {
            if (MUTANTS[m].of_position && strcmp(target->name, "cuda") == 0) continue;
            const struct step_case c = { target, kg_step_model_find(MUTANTS[m].model), NULL, &MUTANTS[m] };
            add(cases, "mutation", "steps", MUTANTS[m].name, &c, mutant_is_rejected);
        }
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
