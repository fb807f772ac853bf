#include "suites/support/attention_step.h"
#include "backend/gpu.h"
#include "base/buffer.h"
#include "suites/harness/must.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kg_attention_step_open(struct kg_backend *backend, const struct kg_attention_args *layers, uint32_t n,
                            struct kg_attention_step *s) {
    struct kg_error err;
    *s = (struct kg_attention_step){ .backend = backend, .nodes = kg_xcalloc(n, sizeof *s->nodes) };
    for (uint32_t i = 0; i < n; i++)
        s->nodes[i] =
            (struct kg_node){ .op = KG_OP_attention, .layer = (int)i, .rows_per_id = 1, .args.attention = layers[i] };
    s->plan = (struct kg_plan){ .nodes = s->nodes,
                                .n_nodes = n,
                                .n_body = n,
                                .activations = layers[0].activations,
                                .residual = layers[0].activations,
                                .kv = layers[0].kv,
                                .max_rows = 1,
                                .n_ctx = layers[0].n_ctx,
                                .workspace = layers[0].workspace };
    kg_must(backend->ops->lower(backend, &s->plan, &s->lowered, &err), &err);
}

enum kg_status kg_attention_step_run(struct kg_attention_step *s, uint32_t n_keys, struct kg_error *err) {
    const struct kg_step_args args = { .run = { .n_rows = 1, .position = n_keys - 1 }, .id = KG_ID_IN_PLACE };
    return s->backend->ops->decode_step(s->backend, s->lowered, &args, err);
}

void kg_attention_step_expect(struct kg_record *rec, const struct kg_attention_step *s, const char *kernel) {
    const struct kg_lowered_step *step = &s->lowered->steps[0];
    struct kg_gpu_info gpu;
    struct kg_error err;
    size_t n_gpus = 0;
    ck_assert_msg(step->attention, "a step's attention is %s, whose kernel is not known", step->kernel);
    const char *few = step->attention_of_few;
    char taken[64];
    snprintf(taken, sizeof taken, few ? "%s, %s" : "%s%s", few ? few : "", step->attention);
    kg_record_metric(rec, step->attention, "count", s->lowered->n_steps);
    if (few) kg_record_metric(rec, few, "count", s->lowered->n_steps);
    kg_must(kg_gpu_list(&gpu, 1, &n_gpus, &err), &err);
    if (n_gpus != 1 || gpu.compute_capability != 90) return;
    ck_assert_msg(strcmp(taken, kernel) == 0, "attention takes %s, not %s: %s", taken, kernel,
                  s->lowered->n_refusals > 0 ? s->lowered->refusals[0].why : "nothing was refused");
}

void kg_attention_step_close(struct kg_attention_step *s) {
    s->backend->ops->free_lowered(s->backend, s->lowered);
    free(s->nodes);
    *s = (struct kg_attention_step){ 0 };
}

void kg_attention_prefill_expect(struct kg_record *rec, struct kg_backend *backend,
                                 const struct kg_attention_args *args, const char *kernel) {
    struct kg_attention_step s;
    kg_attention_step_open(backend, args, 1, &s);
    const char *taken = s.lowered->prefill_attention;
    ck_assert_msg(taken && strcmp(taken, kernel) == 0, "prefill's attention takes %s, not %s",
                  taken ? taken : "nothing", kernel);
    kg_record_metric(rec, taken, "count", 1);
    kg_attention_step_close(&s);
}
