/* How far a model is from itself when it is quantised to MXFP4. */
#include "base/buffer.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/support/poet.h"
#include "suites/support/gguf_edit.h"
#include "suites/support/golden.h"
#include "suites/tolerance/mxfp4_noise.h"
#include "suites/support/op_device.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>

static const char MODEL[] = "haiku-qwen2/haiku-qwen2-f16.gguf";
static const char *const PROMPTS[] = { "short", "haiku", "long" }; /* its goldens */
enum { N_PROMPTS = KG_COUNT_OF(PROMPTS), N_DRAWS = 16, DEVIATIONS = 3 };

static const struct mutant {
    const char *name;
    struct kg_mxfp4_quantiser quantiser;
} MUTANTS[] = {
    { "mxfp4_scale_rounded_up", { .scale_up = true } },
    { "mxfp4_scale_twice_as_large", { .scale_steps = 1 } },
    { "mxfp4_scale_half_as_large", { .scale_steps = -1 } },
    { "mxfp4_rounded_toward_zero", { .toward_zero = true } },
    { "mxfp4_scale_read_off_by_one", { .read_steps = 1 } },
    { "mxfp4_scale_read_off_by_one_below", { .read_steps = -1 } },
    { "mxfp4_swapped_nibbles", { .swap_nibbles = true } },
};

struct model_case {
    const char *backend, *dtype;
    enum kg_precision precision;
    const struct mutant *mutant; /* NULL: kigo's encoder */
    size_t target;
};

/* kigo's encoder, which makes of every weight what the format's description does. */
static void to_mxfp4(struct kg_edited_tensor *t, const void *user) {
    static const struct kg_mxfp4_quantiser right = { 0 };
    (void)user;
    if (t->n_dims < 2) return; /* converters keep vectors in F32 */
    const uint64_t n = kg_edited_n_elems(t);
    float *values = kg_edited_values(t);
    kg_edited_set_values(t, KG_DTYPE_MXFP4, values);
    kg_mxfp4_quantise(&right, values, n);
    float *encoded = kg_edited_values(t);
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(kg_same_bits(encoded[i], values[i]), "%s[%llu] is %.9g, by the format %.9g", t->name,
                      (unsigned long long)i, (double)encoded[i], (double)values[i]);
    free(encoded);
    free(values);
}

/* Logits of all positions of the prompts. */
struct logits {
    float *rows[N_PROMPTS];
    size_t n_rows[N_PROMPTS], n_vocab;
};

static struct logits logits_of(const char *path, const struct model_case *c) {
    struct kg_engine_poet engine;
    struct kg_error err;
    kg_must(kg_engine_poet_open(c->backend, c->precision, path, &engine, &err), &err);
    struct logits l = { .n_vocab = engine.n_vocab };
    const struct kg_poet poet = kg_engine_poet(&engine);
    for (size_t i = 0; i < N_PROMPTS; i++) {
        char *name = kg_xasprintf("haiku-qwen2/golden/%s.safetensors", PROMPTS[i]);
        struct kg_golden *golden = kg_golden_open(kg_fixture_path(name));
        const int32_t *ids = kg_golden_i32(golden, "ids", &l.n_rows[i]);
        l.rows[i] = kg_xcalloc(l.n_rows[i] * l.n_vocab, sizeof *l.rows[i]);
        kg_must(poet.logits(poet.self, ids, l.n_rows[i], l.n_rows[i], true, l.rows[i], &err), &err);
        kg_golden_close(golden);
        free(name);
    }
    kg_engine_poet_close(&engine);
    return l;
}

static void logits_free(struct logits *l) {
    for (size_t i = 0; i < N_PROMPTS; i++) free(l->rows[i]);
}

static double log_sum(const float *row, size_t n, size_t *top) {
    double others = 0; /* relative to the largest, which is 1 */
    *top = 0;
    for (size_t i = 1; i < n; i++)
        if (row[i] > row[*top]) *top = i;
    for (size_t i = 0; i < n; i++) others += i == *top ? 0 : exp((double)row[i] - row[*top]);
    return row[*top] + log1p(others);
}

struct distance {
    double kl;       /* mean over positions of sum p log(p / q), in nats; p of the original */
    double same_top; /* share of positions where both have the same likeliest token */
    size_t n_rows;
};

static struct distance distance_of(const float *p, const float *q, size_t n_rows, size_t n_vocab) {
    struct distance d = { .n_rows = n_rows };
    for (size_t r = 0; r < n_rows; r++, p += n_vocab, q += n_vocab) {
        size_t top_p, top_q;
        const double log_p = log_sum(p, n_vocab, &top_p), log_q = log_sum(q, n_vocab, &top_q);
        for (size_t i = 0; i < n_vocab; i++) d.kl += exp(p[i] - log_p) * ((p[i] - log_p) - (q[i] - log_q));
        d.same_top += top_p == top_q;
    }
    d.kl /= (double)n_rows;
    d.same_top /= (double)n_rows;
    return d;
}

/* How far the model of a changed file is from the original: of each prompt, and over all positions together. */
struct distances {
    struct distance of[N_PROMPTS], all;
};

static struct distances distances_of(struct kg_record *rec, const struct model_case *c, const struct logits *original,
                                     void (*change)(struct kg_edited_tensor *, const void *), const void *user) {
    const struct kg_gguf_edit edit = { .tensors = "*.weight", .change = change, .user = user };
    char *path = kg_xasprintf("%s/changed.gguf", kg_scratch_dir(rec));
    struct distances d = { 0 };
    kg_gguf_rewrite(kg_fixture_path(MODEL), path, &edit);
    struct logits changed = logits_of(path, c);
    for (size_t i = 0; i < N_PROMPTS; i++) {
        d.of[i] = distance_of(original->rows[i], changed.rows[i], original->n_rows[i], original->n_vocab);
        d.all.kl += d.of[i].kl * (double)d.of[i].n_rows;
        d.all.same_top += d.of[i].same_top * (double)d.of[i].n_rows;
        d.all.n_rows += d.of[i].n_rows;
    }
    d.all.kl /= (double)d.all.n_rows;
    d.all.same_top /= (double)d.all.n_rows;
    logits_free(&changed);
    free(path);
    return d;
}

/* The least or most (sign -1, 1) that DEVIATIONS standard deviations from the mean allow. */
static double limit_of(const double *draws, double sign) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < N_DRAWS; i++) mean += draws[i] / N_DRAWS;
    for (size_t i = 0; i < N_DRAWS; i++) squares += (draws[i] - mean) * (draws[i] - mean);
    return mean + sign * DEVIATIONS * sqrt(squares / (N_DRAWS - 1));
}

struct limits {
    double most_kl, least_same_top;
};

/* Rounding to nearest errs within half a step, as if by chance: a model so rounded is one more draw of models whose
 * weights have independent errors of that size (mxfp4_noise.h), and is no further from the original than those are. */
static struct limits limits_of(struct kg_record *rec, const struct model_case *c, const struct logits *original) {
    static struct limits known[3]; /* for the process's later cases of that target */
    double kl[N_DRAWS], same_top[N_DRAWS];
    ck_assert_uint_lt(c->target, KG_COUNT_OF(known));
    if (known[c->target].most_kl > 0) return known[c->target];
    for (uint64_t seed = 0; seed < N_DRAWS; seed++) {
        const struct distance d = distances_of(rec, c, original, kg_mxfp4_noise, &seed).all;
        kl[seed] = d.kl;
        same_top[seed] = d.same_top;
    }
    known[c->target] = (struct limits){ .most_kl = limit_of(kl, 1), .least_same_top = limit_of(same_top, -1) };
    return known[c->target];
}

static void record(struct kg_record *rec, const struct distances *d, const struct limits *limits) {
    for (size_t i = 0; i < N_PROMPTS; i++) {
        char *kl = kg_xasprintf("kl_divergence.%s", PROMPTS[i]), *top = kg_xasprintf("same_top_token.%s", PROMPTS[i]);
        kg_record_metric(rec, kl, "nats", d->of[i].kl);
        kg_record_metric(rec, top, "ratio", d->of[i].same_top);
        free(top);
        free(kl);
    }
    kg_record_metric(rec, "kl_divergence", "nats", d->all.kl);
    kg_record_metric(rec, "same_top_token", "ratio", d->all.same_top);
    kg_record_metric(rec, "most_kl_divergence", "nats", limits->most_kl);
    kg_record_metric(rec, "least_same_top_token", "ratio", limits->least_same_top);
    kg_record_metric(rec, "kl_divergence_over_most", "ratio", d->all.kl / limits->most_kl);
    kg_record_metric(rec, "same_top_token_over_least", "ratio", d->all.same_top / limits->least_same_top);
}

/* What MXFP4 costs a model that was trained in float16 and rounded afterwards: no more than errors of that size do. */
static void quantised_against_f16(struct kg_record *rec, const void *arg) {
    const struct model_case *c = arg;
    if (!kg_backend_or_skip(rec, c->backend)) return;
    struct logits original = logits_of(kg_fixture_path(MODEL), c);
    const struct limits limits = limits_of(rec, c, &original);
    const struct distances d = distances_of(rec, c, &original, to_mxfp4, NULL);
    record(rec, &d, &limits);
    ck_assert_msg(d.all.kl <= limits.most_kl, "%.4g nats, noise of its size has up to %.4g", d.all.kl, limits.most_kl);
    ck_assert_msg(d.all.same_top >= limits.least_same_top, "%.4g of the top tokens, noise of its size leaves %.4g",
                  d.all.same_top, limits.least_same_top);
    logits_free(&original);
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct model_case *c = arg;
    if (!kg_backend_or_skip(rec, c->backend)) return;
    struct logits original = logits_of(kg_fixture_path(MODEL), c);
    const struct limits limits = limits_of(rec, c, &original);
    const struct distances d = distances_of(rec, c, &original, kg_mxfp4_quantised, &c->mutant->quantiser);
    record(rec, &d, &limits);
    kg_record_metric(rec, "kill_factor", "ratio", d.all.kl / limits.most_kl);
    ck_assert_msg(d.all.kl > limits.most_kl, "the mutant lives: %.4g nats of %.4g", d.all.kl, limits.most_kl);
    logits_free(&original);
}

static const struct model_case TARGETS[] = {
    { "cpu", "f32", KG_PRECISION_F32, NULL, 0 },
    { "cuda", "f32", KG_PRECISION_F32, NULL, 1 },
    { "cuda", "f16", KG_PRECISION_F16, NULL, 2 },
};

static void build(struct kg_case_list *cases) {
    static struct model_case model_cases[(KG_COUNT_OF(MUTANTS) + 1) * KG_COUNT_OF(TARGETS)];
    size_t n = 0;
    for (size_t t = 0; t < KG_COUNT_OF(TARGETS); t++)
        for (size_t i = 0; i <= KG_COUNT_OF(MUTANTS); i++) {
            const struct mutant *mutant = i < KG_COUNT_OF(MUTANTS) ? &MUTANTS[i] : NULL;
            model_cases[n] = TARGETS[t];
            model_cases[n].mutant = mutant;
            kg_case_list_add(cases, &(struct kg_case){ .layer = mutant ? "mutation" : "tolerance",
                                                       .op = "mxfp4_model",
                                                       .name = mutant ? mutant->name : "quantised_prompts",
                                                       .backend = TARGETS[t].backend,
                                                       .dtype = TARGETS[t].dtype,
                                                       .definition = MODEL,
                                                       .timeout_s = 300, /* the draws, with sanitizers */
                                                       .run = mutant ? mutant_is_rejected : quantised_against_f16,
                                                       .arg = &model_cases[n++] });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
