/* Draws that go wrong in one step: the comparison with the reference must tell each of them. */
#include "base/size.h"
#include "suites/support/host_draws.h"
#include "suites/support/sample_cases.h"
#include <check.h>

enum { N_PROBLEMS = 200, MOST_IDS = 40 };

static void temperature_ignored(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    if (o->temperature > 0) o->temperature = 1;
}
static void penalty_ignored(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    o->repeat_penalty = 1;
}
static void penalty_of_all_history(struct kg_sample_args *a, struct kg_sampler_options *o) {
    if (o->repeat_last_n > 0) o->repeat_last_n = a->n_history;
}
static void penalty_window_one_short(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    o->repeat_last_n -= o->repeat_last_n > 0;
}
static void top_k_ignored(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    o->top_k = 0;
}
static void top_k_one_more(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    o->top_k += o->top_k > 0;
}
static void top_p_ignored(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    o->top_p = 1;
}
static void min_p_ignored(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    o->min_p = 0;
}
static void greedy_always(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)a;
    o->temperature = 0;
}
static void uniform_turned_round(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)o;
    a->uniform = 1 - 0x1p-53 - a->uniform;
}
static void padding_drawn(struct kg_sample_args *a, struct kg_sampler_options *o) {
    (void)o;
    a->n_drawable = a->n_vocab;
}

static const struct sample_mutant {
    const char *name;
    void (*change)(struct kg_sample_args *args, struct kg_sampler_options *options);
} MUTANTS[] = {
#define MUTANT(function)                                                                                               \
    { #function, function }
    MUTANT(temperature_ignored),    MUTANT(penalty_ignored),
    MUTANT(penalty_of_all_history), MUTANT(penalty_window_one_short),
    MUTANT(top_k_ignored),          MUTANT(top_k_one_more),
    MUTANT(top_p_ignored),          MUTANT(min_p_ignored),
    MUTANT(greedy_always),          MUTANT(uniform_turned_round),
    MUTANT(padding_drawn),
#undef MUTANT
};
static const char *const BACKENDS[] = { "cpu", "cuda" };
static struct sample_mutant_case {
    const struct sample_mutant *mutant;
    const char *backend;
} cases[KG_COUNT_OF(MUTANTS) * KG_COUNT_OF(BACKENDS)];

static const struct sample_mutant *current; /* NULL: the operation itself */
static const struct kg_draw_ops *original;

static enum kg_status changed_sample(struct kg_backend *backend, const struct kg_sample_args *args,
                                     struct kg_error *err) {
    if (!current) return original->sample(backend, args, err);
    struct kg_sample_args changed = *args;
    struct kg_sampler_options options = *args->options;
    current->change(&changed, &options);
    changed.options = &options;
    return original->sample(backend, &changed, err);
}

static void mutant_is_told(struct kg_record *rec, const void *arg) {
    const struct sample_mutant_case *c = arg;
    const struct kg_backend_ops *ops;
    struct kg_error err;
    struct kg_sample_device d;
    char first[256] = "";
    kg_op_expect_ok(kg_backend_find_ops(c->backend, &ops, &err), &err);
    original = ops->draws ? ops->draws : &kg_host_draw_ops;
    struct kg_draw_ops draws = *original;
    draws.sample = changed_sample;
    current = NULL;
    if (!kg_sample_device_open(rec, c->backend, &draws, MOST_IDS, &d)) return;
    const size_t n_control = kg_sample_count_wrong(&d, kg_record_seed(rec), N_PROBLEMS, MOST_IDS, first);
    ck_assert_msg(n_control == 0, "the operation itself is wrong in %zu of %d: %s", n_control, N_PROBLEMS, first);
    current = c->mutant;
    const size_t n_wrong = kg_sample_count_wrong(&d, kg_record_seed(rec), N_PROBLEMS, MOST_IDS, first);
    kg_record_metric(rec, "ids_that_differ", "count", (double)n_wrong);
    ck_assert_msg(n_wrong > 0, "the mutant lives: all of %d ids are the reference's", N_PROBLEMS);
    kg_sample_device_close(&d);
}

static void build(struct kg_case_list *list) {
    struct sample_mutant_case *c = cases;
    for (size_t i = 0; i < KG_COUNT_OF(MUTANTS); i++)
        for (size_t b = 0; b < KG_COUNT_OF(BACKENDS); b++, c++) {
            *c = (struct sample_mutant_case){ &MUTANTS[i], BACKENDS[b] };
            kg_case_list_add(list, &(struct kg_case){ .layer = "mutation",
                                                      .op = "sample",
                                                      .name = MUTANTS[i].name,
                                                      .backend = BACKENDS[b],
                                                      .dtype = "f32",
                                                      .shape = "problems=200 ids<=40",
                                                      .run = mutant_is_told,
                                                      .arg = c });
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
