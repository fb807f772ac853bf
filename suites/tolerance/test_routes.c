/* Routes taken down in float32 and forced upon plain FP16 (routes.h), in the GPT-OSS fixture: what a mixture's logits
 * differ by when both precisions ask the same experts, and how many they would have chosen otherwise. Then what must
 * show: experts forced that nobody chose, and a mistake in the experts' own arithmetic. */
#include "base/buffer.h"
#include "base/size.h"
#include "engine/session.h"
#include "suites/harness/must.h"
#include "suites/support/golden.h"
#include "suites/support/layer_models.h"
#include "suites/support/mutant_ops.h"
#include "suites/support/op_device.h"
#include "suites/support/plain_f16.h"
#include "suites/support/routes.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct kg_tolerance LIMIT = {
    .nmse = 1e-5,
    .why = "plain FP16 implementations: up to 5e-7 in this model, up to 4e-6 in 2 to 12 layers of true shapes"
};

struct scene {
    struct kg_golden *golden;
    const int32_t *ids;
    size_t n_ids, n_values;
    struct kg_routes routes;
    float *want;
};

struct run {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
};

static void run_open(struct run *r, const struct kg_backend_ops *ops, enum kg_precision precision, size_t n_ids) {
    const struct kg_session_options options = { (uint32_t)n_ids, precision, precision };
    struct kg_error err;
    kg_must(kg_backend_open_ops(ops, 0, &r->backend, &err), &err);
    kg_must(kg_model_load(kg_fixture_path(kg_layer_model_find("gpt_oss_short_text")->model), r->backend, NULL,
                          &r->model, &err),
            &err);
    kg_must(kg_session_create(r->model, &options, &r->session, &err), &err);
}

static void run_close(struct run *r) {
    kg_session_free(r->session);
    kg_model_free(r->model);
    kg_backend_close(r->backend);
}

static float *logits(struct run *r, const struct scene *s) {
    const size_t n_bytes = s->n_ids * r->session->config->n_vocab * sizeof(float);
    const float *all;
    struct kg_error err;
    kg_must(kg_session_eval(r->session, s->ids, s->n_ids, KG_LOGITS_ALL, &all, &err), &err);
    return memcpy(kg_xmalloc(n_bytes), all, n_bytes);
}

/* float32's logits, and its routes. */
static void scene_open(struct scene *s) {
    struct run full;
    *s = (struct scene){ .golden = kg_golden_open(kg_fixture_path(kg_layer_model_find("gpt_oss_short_text")->golden)) };
    s->ids = kg_golden_i32(s->golden, "ids", &s->n_ids);
    run_open(&full, &kg_cpu_ops, KG_PRECISION_F32, s->n_ids);
    s->n_values = s->n_ids * full.session->config->n_vocab;
    kg_routes_take_down(full.backend, &s->routes);
    s->want = logits(&full, s);
    kg_routes_end(full.backend);
    ck_assert_uint_eq(s->routes.n_calls, full.session->config->n_layers);
    run_close(&full);
}

static void scene_close(struct scene *s) {
    kg_routes_clear(&s->routes);
    free(s->want);
    kg_golden_close(s->golden);
}

/* What is forced upon a table's arithmetic, against float32. */
static void compare_forced(struct scene *s, const struct kg_backend_ops *ops, enum kg_precision precision,
                           struct kg_compare *out) {
    struct run half;
    run_open(&half, ops, precision, s->n_ids);
    kg_routes_force(half.backend, &s->routes);
    float *got = logits(&half, s);
    kg_routes_end(half.backend);
    ck_assert_uint_eq(s->routes.next, s->routes.n_calls);
    ck_assert_uint_eq(s->routes.n_decisions, s->routes.n_calls * s->n_ids);
    kg_compare_f32(got, s->want, s->n_values, out);
    free(got);
    run_close(&half);
}

static void of_plain_f16(struct kg_record *rec, const void *arg) {
    const size_t style = *(const size_t *)arg;
    struct kg_compare difference;
    struct scene s;
    double margin;
    scene_open(&s);
    compare_forced(&s, kg_plain_f16(style), KG_PRECISION_F16, &difference);
    kg_record_judged(rec, "logits_of_same_routes", &difference, &LIMIT);
    kg_record_metric(rec, "routes", "count", (double)s.routes.n_decisions);
    kg_record_metric(rec, "route_flips", "ratio", (double)s.routes.n_flips / (double)s.routes.n_decisions);
    kg_record_metric(rec, "route_flip_gap", "abs", s.routes.widest_flip);
    ck_assert_msg(kg_within(&difference, &LIMIT, &margin), "outside the tolerance by a factor of %.4g", margin);
    scene_close(&s);
}

/* The own routes forced change no bit, and flip nothing. */
static void of_itself(struct kg_record *rec, const void *arg) {
    struct kg_compare difference;
    struct scene s;
    (void)arg;
    scene_open(&s);
    compare_forced(&s, &kg_cpu_ops, KG_PRECISION_F32, &difference);
    ck_assert_uint_eq(s.routes.n_flips, 0);
    ck_assert_msg(difference.nmse < 1e-12, "the own routes give other logits, NMSE %.3g", difference.nmse);
    kg_record_metric(rec, "routes", "count", (double)s.routes.n_decisions);
    scene_close(&s);
}

/* Every row gets the expert after each that was chosen. */
static void other_experts(struct kg_record *rec, const void *arg) {
    struct kg_compare difference;
    struct scene s;
    double margin;
    (void)arg;
    scene_open(&s);
    for (size_t i = 0; i < s.routes.n_calls; i++) {
        const struct kg_route_call *c = &s.routes.calls[i];
        for (size_t k = 0; k < (size_t)c->n_rows * c->n_used; k++)
            c->ids[k] = (int32_t)(((uint32_t)c->ids[k] + 1) % c->n_experts);
    }
    compare_forced(&s, &kg_cpu_ops, KG_PRECISION_F32, &difference);
    ck_assert_uint_gt(s.routes.n_flips, s.routes.n_decisions / 2);
    ck_assert_msg(!kg_within(&difference, &LIMIT, &margin), "lives at %.4g of the tolerance", margin);
    kg_record_compare(rec, "logits_of_same_routes", &difference, &LIMIT);
    scene_close(&s);
}

static void wrong_experts_arithmetic(struct kg_record *rec, const void *arg) {
    static struct kg_backend_ops wrong;
    struct kg_compare difference;
    struct scene s;
    double margin;
    (void)arg;
    scene_open(&s);
    kg_mutant_ops_make(&wrong, &kg_cpu_ops, kg_mutant_gate_and_up_exchanged);
    compare_forced(&s, &wrong, KG_PRECISION_F32, &difference);
    ck_assert_msg(!kg_within(&difference, &LIMIT, &margin), "lives at %.4g of the tolerance", margin);
    kg_record_compare(rec, "logits_of_same_routes", &difference, &LIMIT);
    scene_close(&s);
}

static const size_t STYLES[] = { KG_PLAIN_F16_ELEMENTARY, KG_PLAIN_F16_BY_OPERATION };

int main(int argc, char **argv) {
#define CASE(layer_, function, argument, dtype_)                                                                       \
    {                                                                                                                  \
        .layer = layer_, .op = "routes", .name = #function, .backend = "cpu", .dtype = dtype_, .run = function,        \
        .arg = argument                                                                                                \
    }
    static const struct kg_case CASES[] = {
        { .layer = "tolerance",
          .op = "routes",
          .name = "of_plain_f16_elementary",
          .backend = "cpu",
          .dtype = "f16",
          .run = of_plain_f16,
          .arg = &STYLES[0] },
        { .layer = "tolerance",
          .op = "routes",
          .name = "of_plain_f16_by_operation",
          .backend = "cpu",
          .dtype = "f16",
          .run = of_plain_f16,
          .arg = &STYLES[1] },
        CASE("tolerance", of_itself, NULL, "f32"),
        CASE("mutation", other_experts, NULL, "f32"),
        CASE("mutation", wrong_experts_arithmetic, NULL, "f32"),
    };
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
