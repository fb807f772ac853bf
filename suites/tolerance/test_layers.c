/* Every activation of every model with a golden, layer by layer against transformers: prefilled at once, in chunks and
 * step by step; and the same without taps, which is the path generation takes. */
#include "base/size.h"
#include "suites/support/layer_compare.h"
#include "suites/support/op_device.h"
#include "suites/support/layer_models.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t chunk;
    bool untapped;
} MODES[] = {
    { "prefill", 0, false },         { "chunks_of_seven", 7, false }, { "step", 1, false },
    { "prefill_untapped", 0, true }, { "step_untapped", 1, true },
};

struct layer_case {
    const struct kg_layer_model *model;
    const struct kg_layer_backend *backend;
    size_t mode;
};
static struct layer_case layer_cases[1024];
static size_t n_layer_cases;

static void compare_layers(struct kg_record *rec, const void *arg) {
    const struct layer_case *w = arg;
    if (!kg_backend_or_skip(rec, w->backend->name)) return;
    struct kg_golden *golden = kg_golden_open(kg_fixture_path(w->model->golden));
    const struct kg_layer_setup setup = {
        .model_path = kg_fixture_path(w->model->model),
        .backend = w->backend->name,
        .ops = w->backend->ops ? w->backend->ops() : NULL,
        .activations = w->backend->activations,
        .kv = w->backend->kv,
        .chunk = MODES[w->mode].chunk,
        .untapped = MODES[w->mode].untapped,
    };
    kg_layer_expect_control(rec, &setup, golden);
    kg_golden_close(golden);
}

static int32_t largest_index(const float *logits, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* Decoding greedily from the golden's prompt gives transformers' ids, every one. */
static void greedy_ids(struct kg_record *rec, const void *arg) {
    const struct layer_case *w = arg;
    struct kg_error err;
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    const float *logits;
    size_t n_ids, n_greedy;
    if (!kg_backend_or_skip(rec, w->backend->name)) return;
    struct kg_golden *golden = kg_golden_open(kg_fixture_path(w->model->golden));
    const int32_t *ids = kg_golden_i32(golden, "ids", &n_ids), *want = kg_golden_i32(golden, "greedy_ids", &n_greedy);
    const struct kg_session_options options = { (uint32_t)(n_ids + n_greedy), w->backend->activations, w->backend->kv };
    kg_op_expect_ok(kg_backend_open(w->backend->name, 0, &backend, &err), &err);
    kg_op_expect_ok(kg_model_load(kg_fixture_path(w->model->model), backend, NULL, &model, &err), &err);
    kg_op_expect_ok(kg_session_create(model, &options, &session, &err), &err);
    kg_op_expect_ok(kg_session_eval(session, ids, n_ids, KG_LOGITS_LAST, &logits, &err), &err);
    for (size_t i = 0; i < n_greedy; i++) {
        const int32_t got = largest_index(logits, kg_model_config(model)->n_vocab);
        if (got != want[i]) ck_abort_msg("id %zu of %zu is %d, transformers has %d", i, n_greedy, got, want[i]);
        kg_op_expect_ok(kg_session_eval(session, &want[i], 1, KG_LOGITS_LAST, &logits, &err), &err);
    }
    kg_record_metric(rec, "ids_compared", "count", (double)n_greedy);
    kg_session_free(session);
    kg_model_free(model);
    kg_backend_close(backend);
    kg_golden_close(golden);
}

static void add(struct kg_case_list *cases, const char *op, size_t model, size_t backend, size_t mode,
                void (*run)(struct kg_record *, const void *)) {
    if (n_layer_cases == KG_COUNT_OF(layer_cases)) abort(); /* a case left out unseen would be a hole */
    struct layer_case *w = &layer_cases[n_layer_cases++];
    *w = (struct layer_case){ &kg_layer_models[model], &kg_layer_backends[backend], mode };
    kg_case_list_add(cases, &(struct kg_case){
                                .layer = "tolerance",
                                .op = op,
                                .name = w->model->name,
                                .backend = w->backend->name,
                                .dtype = w->backend->dtype,
                                .shape = run == compare_layers ? MODES[mode].name : NULL,
                                .spec = w->backend->activations == KG_PRECISION_F16 ? "FT-056" : NULL,
                                .definition = w->model->golden,
                                .run = run,
                                .arg = w,
                            });
}

static void build(struct kg_case_list *cases) {
    for (size_t m = 0; m < kg_n_layer_models; m++)
        for (size_t b = 0; b < kg_n_layer_backends; b++) {
            const size_t n_modes =
                kg_layer_backends[b].ops ? 1 : KG_COUNT_OF(MODES); /* its rows do not know their batch */
            for (size_t mode = 0; mode < n_modes; mode++) add(cases, "layers", m, b, mode, compare_layers);
            const bool greedy = strncmp(kg_layer_models[m].name, "haiku", 5) == 0 && !kg_layer_backends[b].ops;
            if (greedy) add(cases, "greedy_ids", m, b, 0, greedy_ids);
        }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
