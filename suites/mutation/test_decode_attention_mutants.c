/* Wrong attentions of a decode step and of a prefill: each must be outside the limit of tolerance/attention, and the
 * right one inside. The mistakes are in the arguments or in the number of keys: a step's are those that the plan is
 * lowered with, and its kernels read the number on the device. */
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/support/attention_step.h"
#include "suites/support/float64_loops.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KEYS = 240, /* so that few_keys takes the whole context, which has three more */
    SPLIT_KEYS = KEYS / 16,
    WINDOW = 128,
    ROWS = 70
}; /* SPLIT_KEYS: of a block of the largest cluster */

#define DEFINE_MUTANT(name, ...)                                                                                       \
    static void name(struct kg_attention_args *a, uint32_t *n_keys) {                                                  \
        (void)n_keys;                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }
DEFINE_MUTANT(unchanged, (void)a)
DEFINE_MUTANT(last_key_dropped, (void)a; *n_keys -= 1)
DEFINE_MUTANT(first_split_unmerged, a->window = *n_keys - SPLIT_KEYS)
DEFINE_MUTANT(last_split_unmerged, (void)a; *n_keys -= SPLIT_KEYS)
DEFINE_MUTANT(window_one_wider, a->window += 1)
DEFINE_MUTANT(window_one_narrower, a->window -= 1)
DEFINE_MUTANT(window_ignored, a->window = 0)
DEFINE_MUTANT(sinks_dropped, a->sinks = NULL)
DEFINE_MUTANT(scale_of_head_dim, a->scale *= a->scale)
DEFINE_MUTANT(future_seen, a->causal = false)

static const struct mutant {
    const char *name;
    void (*change)(struct kg_attention_args *a, uint32_t *n_keys);
    uint32_t window;
    enum { STEP = 1, PREFILL = 2, BOTH = STEP | PREFILL } of;
} MUTANTS[] = {
    { "last_key_dropped", last_key_dropped, 0, BOTH },
    { "first_split_unmerged", first_split_unmerged, 0, STEP },
    { "last_split_unmerged", last_split_unmerged, 0, STEP },
    { "window_one_wider", window_one_wider, WINDOW, BOTH },
    { "window_one_narrower", window_one_narrower, WINDOW, BOTH },
    { "window_ignored", window_ignored, WINDOW, BOTH },
    { "sinks_dropped", sinks_dropped, 0, BOTH },
    { "scale_of_head_dim", scale_of_head_dim, 0, BOTH },
    { "future_seen", future_seen, 0, PREFILL },
};

#define F32 KG_PRECISION_F32
#define F16 KG_PRECISION_F16
/* One for each kernel that attention may take, of one row in a step, of more in a prefill. */
static const struct variant {
    const char *kernel;
    struct kg_loops_mode mode;
    uint32_t head_dim, n_rows;
} VARIANTS[] = {
    { "few_keys", { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL }, 64, 1 },
    { "few_keys", { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL }, 96, 1 },
    { "few_keys", { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL }, 128, 1 },
    { "split", { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL }, 80, 1 },
    { "cuda_cores", { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL }, 64, 1 },
    { "sdpa", { "cuda", "f16", F16, F16, F16, KG_DTYPE_F16, NULL }, 64, ROWS },
    { "prefill", { "cuda", "f32", F32, F32, F32, KG_DTYPE_F32, NULL }, 64, ROWS },
};

struct mutant_case {
    const struct mutant *mutant;
    const struct variant *variant;
};
static struct mutant_case mutant_cases[KG_COUNT_OF(MUTANTS) * KG_COUNT_OF(VARIANTS)];

static void run_step(struct kg_record *rec, struct kg_op_device *d, const struct variant *v,
                     const struct kg_attention_args *args, uint32_t n_keys) {
    struct kg_attention_step step;
    struct kg_error err;
    kg_attention_step_open(d->backend, args, 1, &step);
    kg_attention_step_expect(rec, &step, v->kernel);
    kg_op_expect_ok(kg_attention_step_run(&step, n_keys, &err), &err);
    kg_op_expect_ok(d->backend->ops->synchronize(d->backend, &err), &err); /* the graph is freed here */
    kg_attention_step_close(&step);
}

static void run_prefill(struct kg_record *rec, struct kg_op_device *d, const struct variant *v,
                        const struct kg_attention_args *of, uint32_t n_keys) {
    struct kg_attention_args args = *of;
    struct kg_error err;
    args.n_keys = n_keys;
    kg_attention_prefill_expect(rec, d->backend, &args, v->kernel);
    kg_op_expect_ok(d->backend->ops->attention(d->backend, &args, &err), &err);
}

/* The margin of an attention whose arguments and number of keys are changed; negative after a skip. */
static double margin_of(struct kg_record *rec, const struct mutant_case *c,
                        void (*change)(struct kg_attention_args *a, uint32_t *n_keys)) {
    const struct kg_loops_mode *mode = &c->variant->mode;
    const struct kg_loops_attention s = { c->variant->n_rows, KEYS, 64, 8, c->variant->head_dim, c->mutant->window };
    struct kg_loops_attended a;
    struct kg_op_device d;
    if (!kg_loops_open(rec, mode, &d)) return -1;
    kg_loops_attention_init(mode, &s, kg_record_seed(rec), &a);
    /* As heavy as all keys together. */
    float *sinks = kg_loops_normal(s.n_heads, kg_record_seed(rec) + 3, log(KEYS), 1, F32);
    a.sinks = sinks;
    struct kg_attention_args args = kg_loops_attention_args(&d, mode, &s, &a);
    uint32_t n_keys = s.n_keys;
    change(&args, &n_keys);
    (c->variant->n_rows == 1 ? run_step : run_prefill)(rec, &d, c->variant, &args, n_keys);
    kg_op_output_read_all(&d, &a.y, "attention");
    const double margin = kg_loops_attention_margin(mode, &s, &a);
    free(sinks);
    kg_loops_attention_free(&a);
    kg_op_device_close(&d);
    return margin;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct mutant_case *c = arg;
    const double control = margin_of(rec, c, unchanged);
    if (control < 0) return;
    ck_assert_msg(control <= 1, "the right one is outside its tolerance by a factor of %.4g", control);
    const double margin = margin_of(rec, c, c->mutant->change);
    ck_assert_msg(margin > 1, "the mutant lives: at %.4g of its tolerance", margin);
    ck_assert(isfinite(margin));
    kg_record_metric(rec, "kill_factor", "ratio", margin);
    kg_record_metric(rec, "control_margin", "ratio", control);
}

static void add(struct kg_case_list *cases, const struct mutant_case *c) {
    const struct variant *v = c->variant;
    char shape[80];
    snprintf(shape, sizeof shape, "%skeys=%d heads=64/8 D=%u window=%u sinks", v->n_rows > 1 ? "rows=70 " : "", KEYS,
             v->head_dim, c->mutant->window);
    kg_case_list_add(cases, &(struct kg_case){ .layer = "mutation",
                                               .op = v->n_rows > 1 ? "attention_prefill" : "attention_step",
                                               .name = c->mutant->name,
                                               .backend = v->mode.backend,
                                               .dtype = v->mode.dtype,
                                               .shape = shape,
                                               .run = mutant_is_rejected,
                                               .arg = c });
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0, n = 0; i < KG_COUNT_OF(MUTANTS); i++)
        for (size_t v = 0; v < KG_COUNT_OF(VARIANTS); v++) {
            if (!(MUTANTS[i].of & (VARIANTS[v].n_rows > 1 ? PREFILL : STEP))) continue;
            mutant_cases[n] = (struct mutant_case){ &MUTANTS[i], &VARIANTS[v] };
            add(cases, &mutant_cases[n++]);
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
