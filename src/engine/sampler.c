/* A sampler on the host: the draws of a generation one after another, by ops/sample.h. One number of the generator is
 * used per draw: number t of a seed decides draw t. */
#include "engine/sampler.h"
#include "base/buffer.h"
#include "base/clones.h"
#include "base/rng.h"
#include "base/finite.h"
#include "ops/sample.h"
#include <math.h>
#include <stdlib.h>

struct kg_sampler {
    struct kg_sampler_options options;
    uint64_t n_draws;
    struct kg_sample_scratch scratch;
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
    kg_sample_scratch_init(&s->scratch, n_vocab);
    *sampler = s;
    return KG_OK;
}

void kg_sampler_free(struct kg_sampler *s) {
    if (!s) return;
    kg_sample_scratch_free(&s->scratch);
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

/* Block n_draw of the seed, so that draws are distinct and can be recomputed. */
double kg_sampler_uniform(uint64_t seed, uint64_t n_draw) {
    uint32_t block[4];
    kg_philox4x32(seed, 0, n_draw, block);
    return (double)(((uint64_t)block[0] << 32 | block[1]) >> 11) * 0x1p-53;
}

enum kg_status kg_sampler_draw(struct kg_sampler *s, const float *logits, const int32_t *history, size_t n_history,
                               int32_t *id, struct kg_error *err) {
    const enum kg_status status = check_logits(logits, s->scratch.n, err);
    if (status) return status;
    const double uniform = kg_sampler_uniform(s->options.seed, ++s->n_draws);
    *id = kg_sample_pick(&s->scratch, logits, &s->options, history, n_history, uniform);
    return KG_OK;
}
