/* Sampling: temperature, repetition penalty, top-k, top-p, min-p, draw; each filter over what the one before it left.
 *
 * Temperature and penalty are factors, so their order changes nothing; dividing by the temperature is done last, on the
 * distance from the best logit, which cannot overflow where the logits divided by a tiny temperature could.
 * Ids rank by logit, then by id (the lower first), so that nothing depends on how ties fall. A filter keeps a prefix of
 * that ranking, so filters only move a cut: the last id kept. The draw walks the ids in their own order up to the cut,
 * which makes a filter that removes nothing change nothing. Top-p sums probabilities of the softmax over all ids that
 * are left. One number of the generator is used per draw: number t of a seed decides draw t. */
#include "engine/sampler.h"
#include "base/buffer.h"
#include "base/clones.h"
#include "base/rng.h"
#include "engine/finite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct kg_sampler {
    struct kg_sampler_options options;
    uint32_t n_vocab;
    uint64_t n_draws;
    double *score;     /* (n_vocab) logits after the penalty */
    double *weight;    /* (n_vocab) exp((score - largest) / temperature) */
    uint32_t *heap;    /* (n_vocab) ids, the best first */
    uint64_t *stamped; /* (n_vocab) the draw that has penalised the id already */
};

static enum kg_status out_of_range(const char *name, double value, const char *range, struct kg_error *err) {
    return kg_fail(err, KG_ERR_USAGE, "%s %g is outside %s", name, value, range);
}

enum kg_status kg_sampler_check(const struct kg_sampler_options *o, struct kg_error *err) {
    if (!(o->temperature >= 0 && isfinite(o->temperature)))
        return out_of_range("temperature", o->temperature, "[0, infinity)", err);
    if (!(o->repeat_penalty > 0 && isfinite(o->repeat_penalty)))
        return out_of_range("repeat_penalty", o->repeat_penalty, "(0, infinity)", err);
    if (!(o->top_p > 0 && o->top_p <= 1)) return out_of_range("top_p", o->top_p, "(0, 1]", err);
    if (!(o->min_p >= 0 && o->min_p <= 1)) return out_of_range("min_p", o->min_p, "[0, 1]", err);
    return KG_OK;
}

enum kg_status kg_sampler_create(const struct kg_sampler_options *options, uint32_t n_vocab,
                                 struct kg_sampler **sampler, struct kg_error *err) {
    const enum kg_status status = kg_sampler_check(options, err);
    if (status) return status;
    if (n_vocab == 0 || n_vocab > INT32_MAX) return kg_fail(err, KG_ERR_USAGE, "a vocabulary of %u ids", n_vocab);
    struct kg_sampler *s = kg_xcalloc(1, sizeof *s);
    s->options = *options;
    s->n_vocab = n_vocab;
    s->score = kg_xcalloc(n_vocab, sizeof *s->score);
    s->weight = kg_xcalloc(n_vocab, sizeof *s->weight);
    s->heap = kg_xcalloc(n_vocab, sizeof *s->heap);
    s->stamped = kg_xcalloc(n_vocab, sizeof *s->stamped);
    *sampler = s;
    return KG_OK;
}

void kg_sampler_free(struct kg_sampler *s) {
    if (!s) return;
    free(s->stamped);
    free(s->heap);
    free(s->weight);
    free(s->score);
    free(s);
}

/* What the logits hold, in one pass without branches. */
struct kinds {
    bool unusable; /* NaN or plus infinity */
    bool finite;
};

KG_VECTOR_CLONES static struct kinds kinds_of(const float *logits, uint32_t n) {
    uint32_t unusable = 0, finite = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = kg_finite_bits(logits[i]), magnitude = bits & KG_FINITE_MAGNITUDE;
        unusable |= (magnitude > KG_FINITE_INFINITY) | (bits == KG_FINITE_INFINITY);
        finite |= magnitude < KG_FINITE_INFINITY;
    }
    return (struct kinds){ unusable != 0, finite != 0 };
}

static enum kg_status check_logits(const float *logits, uint32_t n, struct kg_error *err) {
    const struct kinds kinds = kinds_of(logits, n);
    for (uint32_t i = 0; kinds.unusable && i < n; i++)
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return kg_fail(err, KG_ERR_NUMERIC, "logit %u is %g", i, (double)logits[i]);
    if (!kinds.finite) return kg_fail(err, KG_ERR_NUMERIC, "none of %u logits is finite", n);
    return KG_OK;
}

/* An integer that orders as the float does; -0 is 0. */
static inline int32_t ranking(float x) {
    const int32_t bits = (int32_t)kg_finite_bits(x + 0.0f);
    return bits ^ (bits < 0 ? INT32_MAX : 0);
}

KG_VECTOR_CLONES static int32_t largest_ranking(const float *x, uint32_t n) {
    int32_t largest = INT32_MIN;
    for (uint32_t i = 0; i < n; i++) largest = largest < ranking(x[i]) ? ranking(x[i]) : largest;
    return largest;
}

/* The lowest id of the largest logit, of logits without NaN: piece by piece, then in the first piece that has it. */
static uint32_t best_logit(const float *logits, uint32_t n) {
    enum { PIECE = 2048 };
    int32_t largest = INT32_MIN;
    uint32_t at = 0;
    for (uint32_t first = 0; first < n; first += PIECE) {
        const int32_t here = largest_ranking(logits + first, n - first < PIECE ? n - first : PIECE);
        if (here <= largest) continue;
        largest = here;
        at = first;
    }
    while (ranking(logits[at]) != largest) at++;
    return at;
}

/* Each id of the window once, however often it occurs there. */
static void penalise(struct kg_sampler *s, const int32_t *history, size_t n_history) {
    const size_t last = s->options.repeat_last_n;
    const size_t first = n_history > last ? n_history - last : 0;
    if (s->options.repeat_penalty == 1) return;
    for (size_t i = first; i < n_history; i++) {
        const int32_t id = history[i];
        if (id < 0 || (uint32_t)id >= s->n_vocab || s->stamped[id] == s->n_draws) continue;
        s->stamped[id] = s->n_draws;
        if (s->score[id] > 0) s->score[id] /= s->options.repeat_penalty;
        else s->score[id] *= s->options.repeat_penalty;
    }
}

static bool ranks_before(const struct kg_sampler *s, uint32_t a, uint32_t b) {
    const double x = s->score[a], y = s->score[b];
    return x > y || (x == y && a < b);
}

static uint32_t best_of(const struct kg_sampler *s) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->n_vocab; i++)
        if (ranks_before(s, i, best)) best = i;
    return best;
}

static void sift_down(struct kg_sampler *s, uint32_t n, uint32_t at) {
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ranks_before(s, s->heap[child + 1], s->heap[child])) child++;
        if (!ranks_before(s, s->heap[child], s->heap[at])) return;
        const uint32_t id = s->heap[at];
        s->heap[at] = s->heap[child];
        s->heap[child] = id;
    }
}

static void heap_fill(struct kg_sampler *s) {
    for (uint32_t i = 0; i < s->n_vocab; i++) s->heap[i] = i;
    for (uint32_t i = s->n_vocab / 2; i-- > 0;) sift_down(s, s->n_vocab, i);
}

/* Takes the best id of the heap's first *n; it then lies behind them. */
static uint32_t heap_pop(struct kg_sampler *s, uint32_t *n) {
    const uint32_t best = s->heap[0];
    s->heap[0] = s->heap[--*n];
    s->heap[*n] = best;
    sift_down(s, *n, 0);
    return best;
}

/* The sum of the weights top-k leaves: of all, or of the k best, which are popped and counted. */
static double kept_weight(struct kg_sampler *s, uint32_t k) {
    double sum = 0;
    if (k == s->n_vocab) {
        for (uint32_t i = 0; i < s->n_vocab; i++) sum += s->weight[i];
        return sum;
    }
    uint32_t n = s->n_vocab;
    for (uint32_t i = 0; i < k; i++) sum += s->weight[heap_pop(s, &n)];
    heap_fill(s);
    return sum;
}

/* The last id, in the ranking, that top-k, top-p and min-p keep; the best always is. */
static uint32_t find_cut(struct kg_sampler *s, uint32_t best) {
    const struct kg_sampler_options *o = &s->options;
    const uint32_t k = o->top_k && o->top_k < s->n_vocab ? o->top_k : s->n_vocab;
    heap_fill(s);
    const double enough = o->top_p < 1 ? o->top_p * kept_weight(s, k) : INFINITY;
    const double least = o->min_p * s->weight[best];
    uint32_t cut = best, n = s->n_vocab;
    double sum = 0;
    for (uint32_t i = 0; i < k && sum < enough; i++) {
        const uint32_t id = heap_pop(s, &n);
        if (s->weight[id] < least) break;
        sum += s->weight[id];
        cut = id;
    }
    return cut;
}

static bool filters_anything(const struct kg_sampler *s) {
    const struct kg_sampler_options *o = &s->options;
    return (o->top_k && o->top_k < s->n_vocab) || o->top_p < 1 || o->min_p > 0;
}

/* Uniform in [0, 1) with 53 bits: block n_draws of the seed, so that draws can be told apart and recomputed. */
static double next_uniform(const struct kg_sampler *s) {
    uint32_t block[4];
    kg_philox4x32(s->options.seed, 0, s->n_draws, block);
    return (double)(((uint64_t)block[0] << 32 | block[1]) >> 11) * 0x1p-53;
}

static uint32_t draw_up_to(struct kg_sampler *s, bool has_cut, uint32_t cut) {
    double total = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        if (has_cut && i != cut && ranks_before(s, cut, i)) s->weight[i] = 0;
        total += s->weight[i];
    }
    const double target = next_uniform(s) * total;
    uint32_t last = 0;
    double sum = 0;
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        if (s->weight[i] == 0) continue;
        last = i; /* what is taken if rounding leaves the sum below the target */
        sum += s->weight[i];
        if (sum > target) break;
    }
    return last;
}

enum kg_status kg_sampler_draw(struct kg_sampler *s, const float *logits, const int32_t *history, size_t n_history,
                               int32_t *id, struct kg_error *err) {
    const enum kg_status status = check_logits(logits, s->n_vocab, err);
    if (status) return status;
    s->n_draws++;
    if (s->options.temperature == 0 && s->options.repeat_penalty == 1) {
        *id = (int32_t)best_logit(logits, s->n_vocab);
        return KG_OK;
    }
    for (uint32_t i = 0; i < s->n_vocab; i++) s->score[i] = (double)logits[i];
    penalise(s, history, n_history);
    const uint32_t best = best_of(s);
    if (s->options.temperature == 0) {
        *id = (int32_t)best;
        return KG_OK;
    }
    for (uint32_t i = 0; i < s->n_vocab; i++)
        s->weight[i] = exp((s->score[i] - s->score[best]) / s->options.temperature);
    const bool filters = filters_anything(s);
    *id = (int32_t)draw_up_to(s, filters, filters ? find_cut(s, best) : 0);
    return KG_OK;
}
