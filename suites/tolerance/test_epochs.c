/* The persistent step's epochs start over before they end: packets that a step of the same epoch left long ago, of
 * splits that no step since has written, must not be taken for those of now. And the mutant that leaves them: its
 * epochs start over by hand, so that the packets are not cleared. */
#include "base/buffer.h"
#include "base/size.h"
#include "engine/session.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include "suites/support/rig.h"
#include "suites/tolerance/step_models.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps at the end of a long context, first and last, and before the end of the epochs: fewer than the context has. */
enum { LAST = 3, BEFORE_THE_END = 300 };

/* Of one layer: layers of a step write the same packets, so that those that are left are of a last layer, and the first
 * one to wait for splits after a start over is a first layer. With more layers than one these never have one epoch. */
static const char MODEL[] = "long_head_64_group_7";

/* Steps with rows of logits, each compared with the reference at its position. */
static void expect_rows(struct kg_record *rec, const char *what, const float *got, const struct kg_step_work *w,
                        size_t first, size_t n) {
    struct kg_compare worst;
    char name[64];
    size_t row = 0;
    const double margin = kg_step_margin(got, w->want + first * w->n_vocab, n, w->n_vocab, &w->tol, &worst, &row);
    snprintf(name, sizeof name, "%s@%zu", what, first + row);
    kg_record_judged(rec, name, &worst, &w->tol);
    ck_assert_msg(margin <= 1, "%s, position %zu: outside its tolerance by a factor of %.4g", what, first + row,
                  margin);
}

/* From an empty cache: all but the last n positions at once, those by steps. */
static void last_steps(struct kg_session *session, const struct kg_step_work *w, const int32_t *ids, size_t n,
                       float *logits) {
    const size_t first = w->n_ids - n;
    struct kg_error err;
    kg_must(kg_session_truncate(session, 0, &err), &err);
    kg_step_prefill(session, ids, first, w->n_vocab, logits);
    kg_step_decode(session, ids + first, n, w->n_vocab, logits);
}

/* A step of the first epochs over a long context (one: a second would write over its packets), then steps over a short
 * one until epochs start over, or, with `leaves`, until just before, then the first epochs over a long context again.
 * `out`: the last steps. */
static void start_over(struct kg_record *rec, const struct kg_step_work *w, struct kg_session *session, bool leaves,
                       float *out) {
    uint32_t *epoch = session->lowered->epoch;
    struct kg_error err;
    size_t n = 0;
    int32_t *others = kg_xcalloc(w->n_ids, sizeof *others);
    for (size_t i = 0; i < w->n_ids; i++) others[i] = (int32_t)(((size_t)w->ids[i] * 3 + i + 1) % w->n_vocab);
    last_steps(session, w, others, 1, out);
    kg_must(kg_session_truncate(session, 0, &err), &err);
    *epoch = UINT32_MAX - BEFORE_THE_END;
    for (; n < (leaves ? LAST : w->n_ids - LAST) && *epoch > BEFORE_THE_END; n++)
        kg_step_decode(session, w->ids + n, 1, w->n_vocab, out + n * w->n_vocab);
    if (leaves) {
        ck_assert_msg(*epoch > BEFORE_THE_END, "epochs started over after %zu steps", n);
        *epoch = 1;
    }
    ck_assert_msg(*epoch == 1, "epoch %u after %zu steps near the end: they did not start over", *epoch, n);
    expect_rows(rec, "before_the_end", out, w, 0, n);
    kg_record_metric(rec, "steps_before_the_end", "count", (double)n);
    last_steps(session, w, w->ids, LAST, out);
    free(others);
}

/* The last steps after a start over, and of a fresh session. Skips where steps have no epochs. */
struct both {
    struct kg_step_work w;
    float *again, *fresh; /* LAST rows of logits; NULL after a skip */
};

static void both_open(struct kg_record *rec, const struct kg_layer_backend *target, bool leaves, struct both *b) {
    struct kg_step_work *const w = &b->w;
    struct kg_step_engine engine;
    kg_step_work_open(rec, kg_step_model_find(MODEL), target->activations, w);
    kg_step_engine_open(&engine, w->path, "cuda", NULL);
    struct kg_session *session = kg_step_session(&engine, w->n_ids, target->activations);
    struct kg_session *fresh = kg_step_session(&engine, w->n_ids, target->activations);
    b->again = b->fresh = NULL;
    if (session->lowered->epoch) {
        b->again = kg_xcalloc(w->n_ids * w->n_vocab, sizeof *b->again);
        b->fresh = kg_xcalloc(w->n_ids * w->n_vocab, sizeof *b->fresh);
        start_over(rec, w, session, leaves, b->again);
        last_steps(fresh, w, w->ids, LAST, b->fresh);
    } else {
        kg_record_skip(rec, "a step of this GPU is a %s, without epochs", session->lowered->path);
    }
    kg_session_free(fresh);
    kg_session_free(session);
    kg_step_engine_close(&engine);
}

static void both_close(struct both *b) {
    free(b->fresh);
    free(b->again);
    kg_step_work_close(&b->w);
}

static void epochs_start_over(struct kg_record *rec, const void *arg) {
    struct both b;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    both_open(rec, arg, false, &b);
    if (b.again) {
        expect_rows(rec, "first_epochs_again", b.again, &b.w, b.w.n_ids - LAST, LAST);
        kg_expect_same_bits("steps of the first epochs again", b.again, b.fresh, LAST * b.w.n_vocab);
    }
    both_close(&b);
}

/* The right steps of the first epochs are within the limit; with what was left of others in their place they are not.
 */
static void packets_left_at_the_start(struct kg_record *rec, const void *arg) {
    struct both b;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    both_open(rec, arg, true, &b);
    if (b.again) {
        const size_t first = b.w.n_ids - LAST;
        struct kg_compare worst;
        size_t row;
        expect_rows(rec, "without_a_start", b.fresh, &b.w, first, LAST);
        const double margin =
            kg_step_margin(b.again, b.w.want + first * b.w.n_vocab, LAST, b.w.n_vocab, &b.w.tol, &worst, &row);
        kg_record_compare(rec, "first_epochs_again", &worst, &b.w.tol);
        ck_assert_msg(margin > 1, "the mutant lives: at %.4g of its tolerance", margin);
        kg_record_metric(rec, "kill_factor", "ratio", margin);
    }
    both_close(&b);
}

static void add(struct kg_case_list *cases, const char *layer, const char *name, const struct kg_layer_backend *target,
                void (*run)(struct kg_record *, const void *)) {
    kg_case_list_add(cases, &(struct kg_case){ .layer = layer,
                                               .op = "steps",
                                               .name = name,
                                               .backend = target->name,
                                               .dtype = target->dtype,
                                               .run = run,
                                               .arg = target });
}

static void build(struct kg_case_list *cases) {
    for (size_t b = 0; b < kg_n_layer_backends; b++) {
        const struct kg_layer_backend *target = &kg_layer_backends[b];
        if (strcmp(target->name, "cuda") != 0) continue;
        add(cases, "tolerance", "epochs_start_over", target, epochs_start_over);
        add(cases, "mutation", "packets_left_at_the_start", target, packets_left_at_the_start);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
