#include "ops/sample.h"
#include "base/buffer.h"
#include "base/clones.h"
#include "base/finite.h"
#include "ops/check.h"
#include "ops/sample_weight.h"
#include <math.h>
#include <stdlib.h>

enum kg_status kg_sample_check(const struct kg_sample_args *a, struct kg_error *err) {
    KG_OP_REQUIRE(a->n_vocab > 0 && a->n_vocab <= INT32_MAX, "sample: a vocabulary of %u ids", a->n_vocab);
    KG_OP_REQUIRE(a->n_drawable > 0 && a->n_drawable <= a->n_vocab, "sample: %u ids to draw from, of %u", a->n_drawable,
                  a->n_vocab);
    KG_OP_REQUIRE(a->uniform >= 0 && a->uniform < 1, "sample: uniform number %g is outside [0, 1)", a->uniform);
    KG_OP_REQUIRE(a->history || !kg_sample_penalises(a->options), "sample: a penalty without a history");
    return KG_OK;
}

void kg_sample_scratch_init(struct kg_sample_scratch *s, uint32_t n) {
    *s = (struct kg_sample_scratch){ .n = n };
    s->score = kg_xcalloc(n, sizeof *s->score);
    s->weight = kg_xcalloc(n, sizeof *s->weight);
    s->heap = kg_xcalloc(n, sizeof *s->heap);
    s->stamped = kg_xcalloc(n, sizeof *s->stamped);
}

void kg_sample_scratch_free(struct kg_sample_scratch *s) {
    free(s->stamped);
    free(s->heap);
    free(s->weight);
    free(s->score);
}

/* Maps a float to an integer with the same order; -0 maps to 0. */
static inline int32_t ranking(float x) {
    const int32_t bits = (int32_t)kg_finite_bits(x + 0.0f);
    return bits ^ (bits < 0 ? INT32_MAX : 0);
}

KG_VECTOR_CLONES static int32_t largest_ranking(const float *x, uint32_t n) {
    int32_t largest = INT32_MIN;
    for (uint32_t i = 0; i < n; i++) largest = largest < ranking(x[i]) ? ranking(x[i]) : largest;
    return largest;
}

/* The lowest id of the largest logit; no logit is NaN. Finds the maximum of each piece, then searches the first piece
 * that has it. */
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

/* Penalises each id of the window once, however often it occurs there. */
static void penalise(struct kg_sample_scratch *s, const struct kg_sampler_options *o, const int32_t *history,
                     size_t n_history) {
    const size_t last = o->repeat_last_n;
    const size_t first = n_history > last ? n_history - last : 0;
    if (!kg_sample_penalises(o)) return;
    s->n_stamps++;
    for (size_t i = first; i < n_history; i++) {
        const int32_t id = history[i];
        if (id < 0 || (uint32_t)id >= s->n || s->stamped[id] == s->n_stamps) continue;
        s->stamped[id] = s->n_stamps;
        if (s->score[id] > 0) s->score[id] /= o->repeat_penalty;
        else s->score[id] *= o->repeat_penalty;
    }
}

static bool ranks_before(const struct kg_sample_scratch *s, uint32_t a, uint32_t b) {
    const double x = s->score[a], y = s->score[b];
    return x > y || (x == y && a < b);
}

static uint32_t best_score(const struct kg_sample_scratch *s) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < s->n; i++)
        if (ranks_before(s, i, best)) best = i;
    return best;
}

static void sift_down(struct kg_sample_scratch *s, uint32_t n, uint32_t at) {
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && ranks_before(s, s->heap[child + 1], s->heap[child])) child++;
        if (!ranks_before(s, s->heap[child], s->heap[at])) return;
        const uint32_t id = s->heap[at];
        s->heap[at] = s->heap[child];
        s->heap[child] = id;
    }
}

static void heap_fill(struct kg_sample_scratch *s) {
    for (uint32_t i = 0; i < s->n; i++) s->heap[i] = i;
    for (uint32_t i = s->n / 2; i-- > 0;) sift_down(s, s->n, i);
}

/* Pops the best id off the heap of *n ids and stores it behind the heap. */
static uint32_t heap_pop(struct kg_sample_scratch *s, uint32_t *n) {
    const uint32_t best = s->heap[0];
    s->heap[0] = s->heap[--*n];
    s->heap[*n] = best;
    sift_down(s, *n, 0);
    return best;
}

/* The sum of the weights that top-k keeps: all of them, or the k best, which are popped off the heap. */
static uint64_t kept_weight(struct kg_sample_scratch *s, uint32_t k) {
    uint64_t sum = 0;
    if (k == s->n) {
        for (uint32_t i = 0; i < s->n; i++) sum += s->weight[i];
        return sum;
    }
    uint32_t n = s->n;
    for (uint32_t i = 0; i < k; i++) sum += s->weight[heap_pop(s, &n)];
    heap_fill(s);
    return sum;
}

/* The lowest-ranked id that top-k, top-p and min-p keep; they always keep the best one. */
static uint32_t find_cut(struct kg_sample_scratch *s, const struct kg_sampler_options *o, uint32_t best) {
    const uint32_t k = o->top_k && o->top_k < s->n ? o->top_k : s->n;
    heap_fill(s);
    const uint64_t enough = o->top_p < 1 ? kg_sample_enough(o->top_p, kept_weight(s, k)) : UINT64_MAX;
    const double least = kg_sample_least_distance(o);
    uint32_t cut = best, n = s->n;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < k && sum < enough; i++) {
        const uint32_t id = heap_pop(s, &n);
        if (kg_sample_distance(s->score[id], s->score[best]) < least) break;
        sum += s->weight[id];
        cut = id;
    }
    return cut;
}

static uint32_t draw_up_to(struct kg_sample_scratch *s, bool has_cut, uint32_t cut, double uniform) {
    uint64_t total = 0, sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (has_cut && i != cut && ranks_before(s, cut, i)) s->weight[i] = 0;
        total += s->weight[i];
    }
    const uint64_t target = kg_sample_target(uniform, total);
    uint32_t id = 0;
    while ((sum += s->weight[id]) <= target) id++;
    return id;
}

int32_t kg_sample_pick(struct kg_sample_scratch *s, const float *logits, const struct kg_sampler_options *o,
                       const int32_t *history, size_t n_history, double uniform) {
    const bool greedy = o->temperature == 0;
    if (greedy && !kg_sample_penalises(o)) return (int32_t)best_logit(logits, s->n);
    for (uint32_t i = 0; i < s->n; i++) s->score[i] = (double)logits[i];
    penalise(s, o, history, n_history);
    const uint32_t best = best_score(s);
    if (greedy) return (int32_t)best;
    const int bits = kg_sample_weight_bits(s->n);
    for (uint32_t i = 0; i < s->n; i++)
        s->weight[i] = kg_sample_weight(kg_sample_distance(s->score[i], s->score[best]) / o->temperature, bits);
    const bool filters = kg_sample_keeps_k(o, s->n) || o->top_p < 1 || o->min_p > 0;
    return (int32_t)draw_up_to(s, filters, filters ? find_cut(s, o, best) : 0, uniform);
}

enum kg_status kg_cpu_sample(const struct kg_sample_args *a, struct kg_error *err) {
    const enum kg_status status = kg_sample_check(a, err);
    if (status) return status;
    struct kg_sample_result result = { .id = -1, .first_bad = 0, .sequence = a->sequence };
    while (result.first_bad < a->n_vocab && isfinite(a->logits[result.first_bad])) result.first_bad++;
    if (result.first_bad < a->n_vocab) {
        result.bad = a->logits[result.first_bad];
    } else {
        struct kg_sample_scratch scratch;
        kg_sample_scratch_init(&scratch, a->n_drawable);
        result.id = kg_sample_pick(&scratch, a->logits, a->options, a->history, a->n_history, a->uniform);
        kg_sample_scratch_free(&scratch);
    }
    const int32_t evaluated = result.id < 0 ? 0 : result.id;
    if (a->next) *a->next = evaluated;
    if (a->history) a->history[a->n_history] = evaluated;
    *a->result = result;
    return KG_OK;
}
