/* sample: draws the next id from a row of logits, like kg_sampler_draw (engine/sampler.c): temperature, repetition
 * penalty, top-k, top-p, min-p, draw.
 *
 * Ids are ranked by logit after the penalty, largest first, the lower id first on a tie. Temperature 0 takes the first
 * id of the ranking. Otherwise id i has the weight exp((logit[i] - best logit) / temperature), and the filters keep a
 * prefix of the ranking. The draw goes through the kept ids in ascending order and takes the first at which the running
 * sum of weights exceeds `uniform` times the total. Weights are integers (ops/sample_weight.h): sums do not depend on
 * the order of additions, so every back end draws the same id.
 *
 * If any of the n_vocab logits is NaN or infinite, nothing is drawn: the id is -1, and first_bad is the lowest index of
 * a bad logit. */
#ifndef KIGO_OPS_SAMPLE_H
#define KIGO_OPS_SAMPLE_H

#include "ops/sample_weight.h"
#include <kigo/ops.h>
#include <kigo/status.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct kg_sample_result {
    int32_t id;
    uint32_t first_bad; /* n_vocab if all logits are finite */
    float bad;          /* logits[first_bad], if there is one */
    uint32_t sequence;  /* args->sequence, written after the other fields */
};

struct kg_sample_args {
    const float *logits;                      /* (n_vocab) */
    uint32_t n_vocab, n_drawable;             /* ids from n_drawable on are never drawn */
    const struct kg_sampler_options *options; /* host memory, in range (kg_sampler_check); the seed is unused */
    double uniform;                           /* the random number of the draw, in [0, 1) */
    int32_t
        *history; /* (n_history + 1): the ids so far; the drawn id is appended. May be NULL if the penalty is off. */
    uint32_t n_history;
    int32_t *next; /* receives the id too, or the valid id 0 for a bad row. May be NULL. */
    struct kg_sample_result *result;
    uint32_t sequence;
    void *workspace; /* the session's */
};

/* Steps of a draw that all back ends share. */

/* Whether the repetition penalty is on. */
static inline bool kg_sample_penalises(const struct kg_sampler_options *options) {
    return options->repeat_penalty != 1 && options->repeat_last_n > 0;
}

/* Whether top-k removes any id. */
static inline bool kg_sample_keeps_k(const struct kg_sampler_options *options, uint32_t n_drawable) {
    return options->top_k > 0 && options->top_k < n_drawable;
}

/* Distance of a score to the best one, <= 0. Scores may be infinite, from an extreme penalty. */
KG_SAMPLE_FUNCTION double kg_sample_distance(double score, double best) {
    return score == best ? 0 : score - best;
}

/* The least distance that min-p keeps: there the weight is min_p times the best weight. */
static inline double kg_sample_least_distance(const struct kg_sampler_options *options) {
    return options->min_p > 0 ? options->temperature * log(options->min_p) : -INFINITY;
}

/* The sum of weights at which top-p stops; total: the weights that top-k keeps. */
KG_SAMPLE_FUNCTION uint64_t kg_sample_enough(double top_p, uint64_t total) {
    const uint64_t enough = (uint64_t)ceil(top_p * (double)total);
    return enough < 1 ? 1 : enough > total ? total : enough;
}

/* The draw takes the id at which the running sum of weights exceeds this. In [0, total); total > 0. */
KG_SAMPLE_FUNCTION uint64_t kg_sample_target(double uniform, uint64_t total) {
    const uint64_t target = (uint64_t)(uniform * (double)total);
    return target < total ? target : total - 1;
}

/* Checks the shapes, as ops.h describes. */
KG_WARN_UNUSED enum kg_status kg_sample_check(const struct kg_sample_args *args, struct kg_error *err);

/* Scratch memory of kg_sample_pick; arrays of n_drawable elements. */
struct kg_sample_scratch {
    uint32_t n;
    double *score;     /* logits after the penalty */
    uint64_t *weight;  /* of (score - best) / temperature */
    uint32_t *heap;    /* ids, a max-heap by rank */
    uint64_t *stamped; /* per id, the draw in which the penalty was last applied to it */
    uint64_t n_stamps;
};
void kg_sample_scratch_init(struct kg_sample_scratch *scratch, uint32_t n_drawable);
void kg_sample_scratch_free(struct kg_sample_scratch *scratch);

/* Draws an id from scratch->n logits. None may be NaN or +infinity, and at least one must be finite; -infinity is never
 * drawn. */
int32_t kg_sample_pick(struct kg_sample_scratch *scratch, const float *logits, const struct kg_sampler_options *options,
                       const int32_t *history, size_t n_history, double uniform);

/* The reference of the whole operation, in host memory. The workspace is unused. */
KG_WARN_UNUSED enum kg_status kg_cpu_sample(const struct kg_sample_args *args, struct kg_error *err);

#endif
