/* sample: the next id from a row of logits, as kg_sampler_draw draws it (engine/sampler.c): temperature, repetition
 * penalty, top-k, top-p, min-p, draw.
 *
 * Ids rank by logit (after the penalty), then by id, the lower first. Temperature 0 takes the first of that ranking.
 * Else an id weighs exp((logit - best logit) / temperature), the filters keep a prefix of the ranking, and the draw
 * takes the first id, in the order of ids, at which the running sum of the kept weights exceeds `uniform` times their
 * sum. Weights are whole numbers (ops/sample_weight.h), so that sums do not depend on an order and every back end draws
 * the same id.
 *
 * What must not be drawn from is reported, not drawn from: if any of the n_vocab logits is NaN or infinite, the id is
 * -1 and first_bad the lowest index of one. */
#ifndef KIGO_OPS_SAMPLE_H
#define KIGO_OPS_SAMPLE_H

#include "ops/sample_weight.h"
#include <kigo/engine.h>
#include <kigo/status.h>
#include <math.h>
#include <stdint.h>

struct kg_sample_result {
    int32_t id;
    uint32_t first_bad; /* n_vocab if all logits are finite */
    float bad;          /* logits[first_bad], if there is one */
    uint32_t sequence;  /* the args', written after the others */
};

struct kg_sample_args {
    const float *logits;                      /* (n_vocab) */
    uint32_t n_vocab, n_drawable;             /* ids from n_drawable on are never drawn */
    const struct kg_sampler_options *options; /* host memory, in range (kg_sampler_check); the seed is not looked at */
    double uniform;                           /* of the draw, in [0, 1) */
    int32_t *history;                         /* (n_history + 1): the ids so far; the drawn is put behind them. May be
                                                NULL if no penalty is asked for. */
    uint32_t n_history;
    int32_t *next; /* gets the id too, a bad row's as 0, which may be evaluated. May be NULL. */
    struct kg_sample_result *result;
    uint32_t sequence;
    void *workspace; /* the session's */
};

/* What the steps of a draw share on every back end. */

/* Whether the penalty changes anything for some history. */
static inline bool kg_sample_penalises(const struct kg_sampler_options *options) {
    return options->repeat_penalty != 1 && options->repeat_last_n > 0;
}

/* Whether top-k leaves ids out. */
static inline bool kg_sample_keeps_k(const struct kg_sampler_options *options, uint32_t n_drawable) {
    return options->top_k > 0 && options->top_k < n_drawable;
}

/* Of a logit to the best, <= 0; scores may be infinite, where a penalty is absurd. */
KG_SAMPLE_FUNCTION double kg_sample_distance(double score, double best) {
    return score == best ? 0 : score - best;
}

/* The distance from which on min-p keeps an id: weights of min_p times the best's and more, told by their logits. */
static inline double kg_sample_least_distance(const struct kg_sampler_options *options) {
    return options->min_p > 0 ? options->temperature * log(options->min_p) : -INFINITY;
}

/* The sum of weights with which top-p has enough, of what top-k leaves. */
KG_SAMPLE_FUNCTION uint64_t kg_sample_enough(double top_p, uint64_t total) {
    const uint64_t enough = (uint64_t)ceil(top_p * (double)total);
    return enough < 1 ? 1 : enough > total ? total : enough;
}

/* The id is drawn at which the running sum exceeds this; < total, which is > 0. */
KG_SAMPLE_FUNCTION uint64_t kg_sample_target(double uniform, uint64_t total) {
    const uint64_t target = (uint64_t)(uniform * (double)total);
    return target < total ? target : total - 1;
}

/* Of the shapes, as the checks of ops.h. */
KG_WARN_UNUSED enum kg_status kg_sample_check(const struct kg_sample_args *args, struct kg_error *err);

/* What kg_sample_pick works in; n_drawable long. */
struct kg_sample_scratch {
    uint32_t n;
    double *score;     /* logits after the penalty */
    uint64_t *weight;  /* of the distance to the best over the temperature */
    uint32_t *heap;    /* ids, the best first */
    uint64_t *stamped; /* the penalty that has met the id already */
    uint64_t n_stamps;
};
void kg_sample_scratch_init(struct kg_sample_scratch *scratch, uint32_t n_drawable);
void kg_sample_scratch_free(struct kg_sample_scratch *scratch);

/* The id, from scratch->n logits of which none is NaN or infinity and one is finite at least; -infinity is never drawn.
 */
int32_t kg_sample_pick(struct kg_sample_scratch *scratch, const float *logits, const struct kg_sampler_options *options,
                       const int32_t *history, size_t n_history, double uniform);

/* The reference of the whole operation, in host memory; the workspace is not used. */
KG_WARN_UNUSED enum kg_status kg_cpu_sample(const struct kg_sample_args *args, struct kg_error *err);

#endif
