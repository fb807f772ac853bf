#include "suites/tolerance/sdpa_cases.h"
#include "base/buffer.h"
#include "base/size.h"
#include "suites/support/plain_f16.h"
#include "suites/support/sdpa_problem.h"
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kg_backend_ops *plain(void) {
    return kg_plain_f16(KG_PLAIN_F16_FUSED);
}

static const struct mode {
    const char *backend, *dtype;
    enum kg_precision inputs;
    const struct kg_backend_ops *(*ops)(void); /* NULL: the back end's own */
    size_t every;                              /* one of so many configurations */
    double most_pairs;                         /* of query and key: larger problems are left out; 0: none is */
} MODES[] = {
    { "cpu", "f32", KG_PRECISION_F32, NULL, 1, 0 },
    { "cpu", "f8", KG_PRECISION_F8, NULL, 1, 2e4 }, /* beyond it the loop is that of f32 */
    { "cpu", "i8", KG_PRECISION_I8, NULL, 1, 2e4 },
    { "cpu", "plain_f16", KG_PRECISION_F16, plain, 7, 2e4 }, /* an implementation that did not set the limits */
    { "cuda", "f16", KG_PRECISION_F16, NULL, 1, 0 },
    { "cuda", "f8", KG_PRECISION_F8, NULL, 1, 0 },
    { "cuda", "i8", KG_PRECISION_I8, NULL, 1, 0 },
};

/* Lengths of queries and keys. Between them each of 1, 2, 63, 64, 65, 127, 512, 513, 1000, 2048 on both sides, more
 * keys than queries and the other way round, where causal leaves the first queries nothing to see. */
struct lengths {
    uint32_t n_queries, n_keys;
};
static const struct lengths EVERYWHERE[] = {
    { 1, 1 }, { 1, 64 }, { 2, 1 }, { 1, 513 }, { 2, 65 }, { 63, 64 }, { 64, 63 }, { 65, 65 }, { 127, 127 }, { 64, 2 },
};
/* A configuration takes one of these sets, so that every four have them all. */
enum { N_SETS = 4, PER_SET = 4, MAX_PROBLEMS = KG_COUNT_OF(EVERYWHERE) + PER_SET };
static const struct lengths SETS[N_SETS][PER_SET] = {
    { { 512, 513 }, { 1, 2048 }, { 63, 1000 }, { 2048, 65 } },
    { { 1000, 127 }, { 2, 2048 }, { 513, 64 }, { 127, 512 } },
    { { 127, 2048 }, { 1, 1000 }, { 512, 512 }, { 2048, 1 } },
    { { 513, 1000 }, { 65, 512 }, { 1000, 2 }, { 2048, 127 } },
};

static const uint32_t HEAD_DIMS[] = { 64, 80, 96, 128 };
static const struct mask {
    const char *name;
    bool causal, windowed;
} MASKS[] = { { "full", false, false }, { "causal", true, false }, { "causal window", true, true } };
static const uint32_t WINDOWS[] = { 48, 1, 130, 64 }; /* cases cycle through them */
static const struct grouping { uint32_t n_heads, n_kv_heads; } GROUPINGS[] = { { 2, 2 }, { 6, 2 } };

enum { N_CONFIGS = KG_COUNT_OF(HEAD_DIMS) * KG_COUNT_OF(MASKS) * KG_COUNT_OF(GROUPINGS) * 2 };

/* Whole shapes, for grids of more tiles than a GPU has processors and for long decodes: GPU only. */
static const struct kg_sdpa_problem_shape SHAPES[] = {
    { 1, 8, 8, 512, 512, 64, false, 0, false },    { 1, 8, 8, 512, 512, 64, true, 0, false },
    { 1, 8, 8, 2048, 2048, 64, false, 0, false },  { 1, 8, 8, 2048, 2048, 64, true, 0, false },
    { 2, 4, 4, 2048, 2048, 128, false, 0, false }, { 3, 16, 4, 1000, 1000, 128, true, 0, false },
    { 1, 64, 8, 1000, 1000, 64, true, 128, true }, { 1, 14, 2, 1, 8192, 64, true, 0, false },
    { 1, 64, 8, 1, 8192, 64, true, 0, false },     { 1, 32, 32, 1, 4096, 96, true, 0, false },
    { 1, 14, 2, 16, 8192, 64, true, 0, true },     { 17, 8, 1, 5, 300, 128, true, 0, true },
    { 1, 14, 2, 1, 129, 64, true, 128, false },  /* a window that leaves out the first key alone */
    { 1, 64, 8, 16, 4112, 128, true, 0, false }, /* long keys, in more groups of rows than there are clusters */
};

struct sdpa_case {
    const struct mode *mode;
    enum kg_sdpa_variant variant;
    size_t config; /* from N_CONFIGS on: of SHAPES */
};
static struct sdpa_case sdpa_cases[KG_COUNT_OF(MODES) * (N_CONFIGS + KG_COUNT_OF(SHAPES)) * KG_SDPA_VARIANT_COUNT];
static size_t n_sdpa_cases;

static const struct mask *mask_of(size_t config) {
    return &MASKS[config / 4 % KG_COUNT_OF(MASKS)];
}

/* Of problem i of a configuration; small ones are a batch. */
static struct kg_sdpa_problem_shape shape_of(size_t config, size_t i) {
    enum { SMALL = 5000 };
    if (config >= N_CONFIGS) return SHAPES[config - N_CONFIGS];
    const struct grouping *grouping = &GROUPINGS[config / 2 % 2];
    /* Not in step with the other choices: every mask, grouping and head size gets every set. */
    const size_t set = (config + config / 4 + config / 12) % N_SETS;
    const struct lengths *l = i < KG_COUNT_OF(EVERYWHERE) ? &EVERYWHERE[i] : &SETS[set][i - KG_COUNT_OF(EVERYWHERE)];
    return (struct kg_sdpa_problem_shape){
        .n_batch = l->n_queries * l->n_keys < SMALL ? 2 : 1,
        .n_heads = grouping->n_heads,
        .n_kv_heads = grouping->n_kv_heads,
        .n_queries = l->n_queries,
        .n_keys = l->n_keys,
        .head_dim = HEAD_DIMS[config / 12],
        .causal = mask_of(config)->causal,
        .window = mask_of(config)->windowed ? WINDOWS[(i + config) % KG_COUNT_OF(WINDOWS)] : 0,
        .sinks = config % 2,
    };
}

static size_t n_problems(size_t config) {
    return config >= N_CONFIGS ? 1 : MAX_PROBLEMS;
}

static enum kg_sdpa_data data_of(size_t config, size_t i) {
    return (config + config / 2 + i) % 2 ? KG_SDPA_OUTLIERS : KG_SDPA_NORMAL;
}

/* Problems of the configuration that was asked for last, whose answers all variants share. Their seed is the
 * configuration's own, so that they do. */
static struct {
    size_t config;
    enum kg_precision inputs;
    bool made[MAX_PROBLEMS];
    struct kg_sdpa_problem problems[MAX_PROBLEMS];
} kept;

static const struct kg_sdpa_problem *problem_of(const struct sdpa_case *c, size_t i) {
    enum { MOST_WITH_ORIGINAL = 20000 };
    if (kept.config != c->config || kept.inputs != c->mode->inputs) {
        for (size_t k = 0; k < MAX_PROBLEMS; k++)
            if (kept.made[k]) kg_sdpa_problem_free(&kept.problems[k]);
        memset(&kept, 0, sizeof kept);
        kept.config = c->config;
        kept.inputs = c->mode->inputs;
    }
    struct kg_sdpa_problem *p = &kept.problems[i];
    if (!kept.made[i]) {
        const struct kg_sdpa_problem_shape shape = shape_of(c->config, i);
        const bool whole = c->config >= N_CONFIGS || shape.n_queries * shape.n_keys <= MOST_WITH_ORIGINAL;
        kg_sdpa_problem_fill(p, &shape, c->mode->inputs, data_of(c->config, i), 1 + c->config * MAX_PROBLEMS + i);
        kg_sdpa_problem_round(p);
        kg_sdpa_problem_solve(p, kg_precision_is_quantized(c->mode->inputs) && whole);
        kept.made[i] = true;
    }
    return p;
}

/* The worst problem of a kind. */
struct worst {
    bool any;
    double margin;
    struct kg_compare compare;
    struct kg_tolerance tol;
};

static void keep_worst(struct worst *w, double margin, const struct kg_compare *compare,
                       const struct kg_tolerance *tol) {
    if (w->any && margin <= w->margin) return;
    *w = (struct worst){ true, margin, *compare, *tol };
}

/* What a case has seen, by kind of data. */
struct seen {
    struct worst judged[2];
    double original[2]; /* max_abs against what was there before it was quantised; 0: not looked at */
    struct kg_sdpa_share share;
    char refusal[256];
};

static void judge(const struct kg_sdpa_problem *p, const struct kg_sdpa_placed *placed, enum kg_sdpa_data data,
                  const float *got, struct seen *seen) {
    char text[KG_SDPA_PROBLEM_TEXT];
    struct kg_compare compare;
    const struct kg_tolerance tol = kg_sdpa_tolerance(p, placed->args.output);
    const double margin = kg_sdpa_margin(p, got, &tol, &compare);
    kg_sdpa_problem_text(&p->shape, text);
    keep_worst(&seen->judged[data], margin, &compare, &tol);
    if (!(margin <= 1))
        ck_abort_msg("%s, strides %llu %llu %llu: outside its tolerance by a factor of %.4g (%s): at [%zu] of %zu got "
                     "%.9g, want %.9g; %zu not finite, max_abs %.3g, nmse %.3g",
                     text, (unsigned long long)placed->args.q_strides.batch,
                     (unsigned long long)placed->args.q_strides.head, (unsigned long long)placed->args.q_strides.row,
                     margin, tol.why, compare.worst_index, compare.n, compare.worst_got, compare.worst_want,
                     compare.n_nonfinite, compare.max_abs, compare.nmse);
    if (!p->want_original) return;
    kg_compare_f64(got, p->want_original, p->n_want, &compare);
    seen->original[data] = fmax(seen->original[data], compare.max_abs);
}

/* AUTO rejects nothing, and the scalar variant takes whatever the others do not. */
static bool may_refuse(enum kg_sdpa_variant variant) {
    return variant != KG_SDPA_AUTO && variant != KG_SDPA_SCALAR;
}

static void try_layout(struct kg_op_device *d, const struct sdpa_case *c, size_t i, enum kg_sdpa_layout layout,
                       struct seen *seen) {
    const struct kg_sdpa_problem *p = problem_of(c, i);
    struct kg_sdpa_placed placed;
    struct kg_error err;
    kg_sdpa_place(d, p, layout, c->mode->inputs, &placed);
    const enum kg_status status = kg_sdpa_run(d, &placed, c->variant, &err);
    const bool taken = status != KG_ERR_UNSUPPORTED || !may_refuse(c->variant);
    char text[KG_SDPA_PROBLEM_TEXT];
    kg_sdpa_problem_text(&p->shape, text);
    if (!kg_sdpa_share_count(&seen->share, c->variant, c->mode->inputs, &p->shape, taken))
        ck_abort_msg("%s %s, as KG_SDPA_UNTAKEN says otherwise: %s", text, taken ? "is taken" : "is refused",
                     taken ? "" : err.message);
    if (!taken) {
        snprintf(seen->refusal, sizeof seen->refusal, "%.*s", (int)sizeof seen->refusal - 1, err.message);
    } else {
        float *got = kg_xcalloc(p->n_want + 1, sizeof *got);
        kg_op_expect_ok(status, &err);
        kg_sdpa_fetch(d, &placed, got);
        judge(p, &placed, data_of(c->config, i), got, seen);
        free(got);
    }
    kg_op_device_clear(d);
}

static void report(struct kg_record *rec, const struct sdpa_case *c, const struct seen *seen) {
    static const char *const JUDGED[2][2] = { { "normal float64", "outliers float64" },
                                              { "normal dequantised", "outliers dequantised" } };
    /* As metrics, not as errors: nothing limits what eight bits cost, the caller's choice. */
    static const char *const ORIGINAL[2] = { "normal.original.max_abs", "outliers.original.max_abs" };
    for (size_t data = 0; data < 2; data++) {
        const struct worst *w = &seen->judged[data];
        if (w->any)
            kg_record_judged(rec, JUDGED[kg_precision_is_quantized(c->mode->inputs)][data], &w->compare, &w->tol);
        if (seen->original[data] > 0) kg_record_metric(rec, ORIGINAL[data], "abs", seen->original[data]);
    }
    const size_t n_refused = seen->share.n_asked - seen->share.n_taken;
    kg_record_metric(rec, "problems_compared", "count", (double)seen->share.n_taken);
    if (n_refused == 0) return;
    kg_record_metric(rec, "problems_refused", "count", (double)n_refused);
    kg_record_transcript(rec, json_pack("{s:s, s:I, s:s}", "case", kg_record_key(rec), "refused", (json_int_t)n_refused,
                                        "why", seen->refusal));
    if (seen->share.n_taken == 0) ck_abort_msg("the variant refuses all of it: %s", seen->refusal);
}

static bool open_mode(struct kg_record *rec, const struct mode *mode, struct kg_op_device *d) {
    return kg_op_device_open(rec, mode->backend, mode->ops ? mode->ops() : NULL, d);
}

/* Cases cycle through the layouts; unaligned ones where a variant has to take them. */
static void against_float64(struct kg_record *rec, const void *arg) {
    const struct sdpa_case *c = arg;
    const size_t n_layouts = may_refuse(c->variant) ? KG_SDPA_ODD : KG_SDPA_ODD + 1;
    struct seen seen = { 0 };
    struct kg_op_device d;
    if (!open_mode(rec, c->mode, &d)) return;
    for (size_t i = 0; i < n_problems(c->config); i++) {
        const struct kg_sdpa_problem_shape s = shape_of(c->config, i);
        if (c->mode->most_pairs > 0 && (double)s.n_queries * s.n_keys > c->mode->most_pairs) continue;
        try_layout(&d, c, i, (enum kg_sdpa_layout)((c->config + i) % n_layouts), &seen);
    }
    kg_op_device_close(&d);
    report(rec, c, &seen);
}

static void expect_refused(struct kg_op_device *d, const struct mode *mode, enum kg_sdpa_variant variant,
                           const struct kg_sdpa_problem_shape *shape) {
    struct kg_sdpa_problem p;
    struct kg_sdpa_placed placed;
    struct kg_error err;
    char text[KG_SDPA_PROBLEM_TEXT];
    kg_sdpa_problem_fill(&p, shape, mode->inputs, KG_SDPA_NORMAL, 1);
    kg_sdpa_problem_round(&p);
    kg_sdpa_place(d, &p, KG_SDPA_DENSE, mode->inputs, &placed);
    const enum kg_status status = kg_sdpa_run(d, &placed, variant, &err);
    kg_sdpa_problem_text(shape, text);
    ck_assert_msg(status == KG_ERR_UNSUPPORTED, "%s takes %s in %s: it has no cases, as KG_SDPA_UNTAKEN says otherwise",
                  kg_sdpa_variant_name(variant), text, mode->dtype);
    ck_assert_msg(strstr(err.message, mode->ops ? "variant" : kg_sdpa_variant_name(variant)) != NULL, "%s",
                  err.message);
    kg_sdpa_problem_free(&p);
    kg_op_device_clear(d);
}

/* What has no cases above is refused, and by name: the cpu back end has no variants of the GPU. */
static void the_rest_is_refused(struct kg_record *rec, const void *arg) {
    const struct mode *mode = arg;
    size_t n_refused = 0;
    struct kg_op_device d;
    if (!open_mode(rec, mode, &d)) return;
    for (size_t v = 1; v < KG_SDPA_VARIANT_COUNT && strcmp(mode->backend, "cpu") == 0; v++, n_refused++) {
        const struct kg_sdpa_problem_shape shape = { 1, 2, 2, 5, 64, 64, true, 0, false };
        expect_refused(&d, mode, (enum kg_sdpa_variant)v, &shape);
    }
    for (size_t i = 0; i < KG_SDPA_N_UNTAKEN && strcmp(mode->backend, "cuda") == 0; i++)
        for (size_t k = 0; k < KG_COUNT_OF(HEAD_DIMS); k++) {
            const struct kg_sdpa_untaken *u = &KG_SDPA_UNTAKEN[i];
            if (u->inputs != mode->inputs || (u->head_dim != 0 && u->head_dim != HEAD_DIMS[k])) continue;
            const struct kg_sdpa_problem_shape shape = {
                .n_batch = 1,
                .n_heads = 2,
                .n_kv_heads = 2,
                .n_queries = u->queries_above ? u->queries_above + 1 : 64,
                .n_keys = u->keys_above ? u->keys_above + 1 : 64,
                .head_dim = HEAD_DIMS[k],
                .causal = true,
            };
            expect_refused(&d, mode, u->variant, &shape);
            n_refused++;
        }
    kg_op_device_close(&d);
    kg_record_metric(rec, "refused", "count", (double)n_refused);
}

struct share_case {
    const struct mode *mode;
    enum kg_sdpa_variant variant;
};
static struct share_case share_cases[KG_COUNT_OF(MODES) * KG_SDPA_VARIANT_COUNT];

/* Of all problems above: the cases there see that each is taken or refused as the table says, this one that the table
 * leaves the variant its share. Needs no GPU. */
static void takes_its_share(struct kg_record *rec, const void *arg) {
    const struct share_case *c = arg;
    const struct kg_sdpa_floor *floor = kg_sdpa_floor(c->variant);
    struct kg_sdpa_share share = { 0 };
    for (size_t config = 0; config < N_CONFIGS + KG_COUNT_OF(SHAPES); config++)
        for (size_t i = 0; i < n_problems(config); i++) {
            const struct kg_sdpa_problem_shape s = shape_of(config, i);
            const bool taken = !kg_sdpa_is_untaken(c->variant, c->mode->inputs, &s);
            ck_assert(kg_sdpa_share_count(&share, c->variant, c->mode->inputs, &s, taken));
        }
    kg_record_metric(rec, "problems_asked", "count", (double)share.n_asked);
    kg_record_metric(rec, "problems_taken", "count", (double)share.n_taken);
    kg_record_metric(rec, "share_taken", "ratio", (double)share.n_taken / (double)share.n_asked);
    kg_record_metric(rec, "least_share", "ratio", floor->share);
    ck_assert_msg((double)share.n_taken >= floor->share * (double)share.n_asked,
                  "%s takes %zu of %zu problems, less than %g of them: %s", kg_sdpa_variant_name(c->variant),
                  share.n_taken, share.n_asked, floor->share, floor->why);
}

static void config_text(size_t config, char text[KG_SDPA_PROBLEM_TEXT]) {
    const struct kg_sdpa_problem_shape s = shape_of(config, 0);
    if (config >= N_CONFIGS) kg_sdpa_problem_text(&s, text);
    else
        snprintf(text, KG_SDPA_PROBLEM_TEXT, "H=%u/%u every S D=%u %s%s", s.n_heads, s.n_kv_heads, s.head_dim,
                 mask_of(config)->name, s.sinks ? " sinks" : "");
}

static void add(struct kg_case_list *cases, const struct mode *mode, size_t config, enum kg_sdpa_variant variant) {
    struct sdpa_case *c = &sdpa_cases[n_sdpa_cases++];
    char shape[KG_SDPA_PROBLEM_TEXT];
    *c = (struct sdpa_case){ mode, variant, config };
    config_text(config, shape);
    kg_case_list_add(cases,
                     &(struct kg_case){
                         .layer = "tolerance",
                         .op = "sdpa",
                         .name = kg_sdpa_variant_name(variant),
                         .backend = mode->backend,
                         .dtype = mode->dtype,
                         .shape = shape,
                         .definition =
                             "lengths 1 to 2048 in pairs; dense, interleaved, padded, of a cache and unaligned; normal "
                             "data and outliers of ten deviations",
                         .timeout_s = 300,
                         .run = against_float64,
                         .arg = c,
                     });
}

/* A configuration's variants one after the other: they share its answers. */
void kg_sdpa_cases(struct kg_case_list *cases, bool of_bytes) {
    for (size_t m = 0; m < KG_COUNT_OF(MODES); m++) {
        const struct mode *mode = &MODES[m];
        if ((kg_precision_bytes(mode->inputs) == 1) != of_bytes) continue;
        const bool gpu = strcmp(mode->backend, "cpu") != 0;
        const size_t n_configs = gpu ? N_CONFIGS + KG_COUNT_OF(SHAPES) : N_CONFIGS;
        for (size_t config = 0; config < n_configs; config += mode->every)
            for (size_t v = 0; v < (gpu ? KG_SDPA_VARIANT_COUNT : 1); v++) {
                const struct kg_sdpa_problem_shape first = shape_of(config, 0); /* the smallest, or the only one */
                if (!kg_sdpa_is_untaken((enum kg_sdpa_variant)v, mode->inputs, &first))
                    add(cases, mode, config, (enum kg_sdpa_variant)v);
            }
        for (size_t v = 0; v < KG_SDPA_VARIANT_COUNT && gpu; v++) {
            struct share_case *c = &share_cases[m * KG_SDPA_VARIANT_COUNT + v];
            char *name = kg_xasprintf("%s_takes_its_share", kg_sdpa_variant_name((enum kg_sdpa_variant)v));
            *c = (struct share_case){ mode, (enum kg_sdpa_variant)v };
            kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                       .op = "sdpa_variant",
                                                       .name = name,
                                                       .backend = "-",
                                                       .dtype = mode->dtype,
                                                       .run = takes_its_share,
                                                       .arg = c });
            free(name);
        }
        kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                   .op = "sdpa_variant",
                                                   .name = "the_rest_is_refused",
                                                   .backend = mode->backend,
                                                   .dtype = mode->dtype,
                                                   .run = the_rest_is_refused,
                                                   .arg = mode });
    }
}
