/* The plan and what a back end lowers it to: every node reads what an earlier one wrote, the steps cover every node
 * once, the kernels are those that a model is to have, and a fusion is refused where it would compute something else.
 */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "engine/session.h"
#include "suites/harness/case.h"
#include "suites/support/layer_models.h"
#include "suites/support/op_device.h"
#include "suites/support/tiny_model.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct opened {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
};

static void open_session(const char *path, const struct kg_backend_ops *ops, enum kg_precision precision,
                         struct opened *o) {
    const struct kg_session_options options = { .n_ctx = 64, .activations = precision, .kv = precision };
    struct kg_error err;
    enum kg_status status = kg_backend_open_ops(ops, 0, &o->backend, &err);
    if (!status) status = kg_model_load(path, o->backend, NULL, &o->model, &err);
    if (!status) status = kg_session_create(o->model, &options, &o->session, &err);
    if (status) ck_abort_msg("%s: %s", path, err.message);
}

static void close_session(struct opened *o) {
    kg_session_free(o->session);
    kg_model_free(o->model);
    kg_backend_close(o->backend);
}

/* Wiring */

static bool is_written(const struct kg_plan *plan, uint32_t before, const void *place) {
    if (place == plan->ids) return true;
    for (uint32_t i = 0; i < before; i++) {
        const struct kg_node_places p = kg_node_places(&plan->nodes[i]);
        if (p.out[0] == place || p.out[1] == place) return true;
    }
    return false;
}

static void nodes_read_what_was_written(struct kg_record *rec, const void *arg) {
    const struct kg_layer_model *m = arg;
    struct opened o;
    (void)rec;
    open_session(kg_fixture_path(m->model), &kg_cpu_ops, KG_PRECISION_F32, &o);
    const struct kg_plan *plan = o.session->plan;
    ck_assert_int_eq(plan->nodes[0].op, KG_OP_embedding);
    ck_assert_int_eq(plan->nodes[plan->n_nodes - 1].op, KG_OP_linear);
    ck_assert_ptr_eq(plan->nodes[plan->n_nodes - 1].args.linear.y, o.session->buffers.logits);
    for (uint32_t i = 0; i < plan->n_nodes; i++) {
        const struct kg_node_places p = kg_node_places(&plan->nodes[i]);
        ck_assert_ptr_nonnull(p.out[0]);
        for (int j = 0; j < KG_NODE_INPUTS && p.in[j]; j++)
            ck_assert_msg(is_written(plan, i, p.in[j]), "node %u (%s) reads %s, which nothing wrote", i,
                          kg_op_name(plan->nodes[i].op), kg_plan_buffer_name(plan, p.in[j]));
    }
    close_session(&o);
}

/* Lowering */

enum { MOST_KERNELS = 6 };

/* What a model's decode step is to be on the GPU, so that no fusion is lost without a case that says so. */
struct expected {
    const char *model, *path;
    enum kg_precision precision;
    const char *kernels[MOST_KERNELS]; /* fused steps that are there */
    const char *attention;             /* the kernel of each of its attentions; NULL: instructions of the one launch */
};

#define QKV "rmsnorm + q, k, v + rope + kv_write"
#define GATED "rmsnorm + gate, up + swiglu"
#define ATTENTION "attention in one launch"
#define EXPERTS "experts' gate, up + swiglu; down"
static const struct expected EXPECTED[] = {
    { "haiku_prompt", "persistent kernel", KG_PRECISION_F16, { "rmsnorm + q, k, v", GATED, "linear + add" }, NULL },
    { "gpt_oss_short_text",
      "captured graph",
      KG_PRECISION_F16,
      { QKV, ATTENTION, "rmsnorm + linear + router",
        "experts_combine + add" }, /* its experts are too small to repack */
      "split" },
    { "qwen3_qk_norms",
      "captured graph",
      KG_PRECISION_F16,
      { "rmsnorm + q, k, v", "rmsnorm of heads + rope + kv_write", ATTENTION, GATED, "linear + add" },
      "split" },
    { "gemma3_windows",
      "captured graph",
      KG_PRECISION_F16,
      { "rmsnorm + q, k, v", "rmsnorm of heads + rope + kv_write", "rmsnorm + add", ATTENTION, GATED },
      "split" },
};

static bool has_kernel(const struct kg_lowered *l, const char *kernel) {
    for (uint32_t i = 0; i < l->n_steps; i++)
        if (l->steps[i].is_fused && strcmp(l->steps[i].kernel, kernel) == 0) return true;
    return false;
}

static void expect_tiled(const struct kg_plan *plan, const struct kg_lowered *l) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < l->n_steps; next += l->steps[i++].n) ck_assert_uint_eq(l->steps[i].first, next);
    ck_assert_uint_eq(next, plan->n_nodes);
}

static const char *first_refusal(const struct kg_lowered *l, const char *fusion) {
    for (uint32_t i = 0; i < l->n_refusals; i++)
        if (strcmp(l->refusals[i].fusion, fusion) == 0) return l->refusals[i].why;
    return "";
}

static bool kernel_has_attention(const struct kg_plan *plan, const struct kg_lowered_step *s) {
    for (uint32_t i = 0; i < s->n; i++)
        if (plan->nodes[s->first + i].op == KG_OP_attention) return true;
    return false;
}

static void takes_its_kernels(struct kg_record *rec, const void *arg) {
    const struct expected *e = arg;
    struct opened o;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    open_session(kg_fixture_path(kg_layer_model_find(e->model)->model), &kg_cuda_ops, e->precision, &o);
    const struct kg_lowered *l = o.session->lowered;
    expect_tiled(o.session->plan, l);
    ck_assert_msg(strcmp(l->path, e->path) == 0, "a %s, refused: %s", l->path, first_refusal(l, "persistent kernel"));
    for (int i = 0; i < MOST_KERNELS && e->kernels[i]; i++)
        ck_assert_msg(has_kernel(l, e->kernels[i]), "no step is %s: %s", e->kernels[i],
                      first_refusal(l, e->kernels[i]));
    for (uint32_t i = 0; i < l->n_steps; i++)
        if (e->attention && kernel_has_attention(o.session->plan, &l->steps[i]))
            ck_assert_str_eq(l->steps[i].attention, e->attention);
        else ck_assert_ptr_null(l->steps[i].attention);
    close_session(&o);
}

/* A random model at a fused kernel's limit has it; the next one past the limit has not, and says why. */
static void expect_at_limit(struct kg_record *rec, const struct kg_tiny_model *model, const char *kernel,
                            const char *refusal) {
    char *path = kg_path_join(kg_scratch_dir(rec), "model.gguf");
    struct opened o;
    kg_tiny_model_write(path, model, NULL, 0);
    open_session(path, &kg_cuda_ops, KG_PRECISION_F16, &o);
    const char *why = first_refusal(o.session->lowered, kernel);
    ck_assert_msg(has_kernel(o.session->lowered, kernel) == !refusal, "%s: %s", kernel, why);
    if (refusal) ck_assert_msg(strstr(why, refusal) != NULL, "%s, refused: %s", kernel, why);
    close_session(&o);
    free(path);
}

static void most_experts_of_a_row(struct kg_record *rec, const void *arg) {
    (void)arg;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    struct kg_tiny_model model = KG_TINY_GPT_OSS;
    model.n_embd = 128, model.head_dim = 64, model.n_ff = 192, model.n_experts = 12, model.mxfp4_experts = true;
    model.n_experts_used = 8;
    expect_at_limit(rec, &model, EXPERTS, NULL);
    model.n_experts_used = 9;
    expect_at_limit(rec, &model, EXPERTS, "9 experts a row");
}

static void rows_are_whole_vectors(struct kg_record *rec, const void *arg) {
    (void)arg;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    struct kg_tiny_model model = KG_TINY_GEMMA3;
    model.n_embd = 40;
    expect_at_limit(rec, &model, "rmsnorm + add", NULL);
    model.n_embd = 36;
    expect_at_limit(rec, &model, "rmsnorm + add", "rows of 36 elements");
}

static enum kg_status other_rope(struct kg_backend *backend, const struct kg_rope_args *args, struct kg_error *err) {
    return kg_cuda_ops.rope(backend, args, err);
}

/* A table with another entry: no fused step covers a node of it, and all others stay. */
static void replaced_operation_is_not_fused(struct kg_record *rec, const void *arg) {
    struct opened o;
    (void)arg;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    struct kg_backend_ops ops = kg_cuda_ops;
    ops.rope = other_rope;
    open_session(kg_fixture_path(kg_layer_model_find("haiku_prompt")->model), &ops, KG_PRECISION_F16, &o);
    const struct kg_lowered *l = o.session->lowered;
    expect_tiled(o.session->plan, l);
    for (uint32_t i = 0; i < l->n_steps; i++)
        for (uint32_t j = 0; j < l->steps[i].n; j++)
            ck_assert(!l->steps[i].is_fused || o.session->plan->nodes[l->steps[i].first + j].op != KG_OP_rope);
    ck_assert(has_kernel(l, GATED));
    ck_assert_str_eq(first_refusal(l, "persistent kernel"), "the back end's table has another rope");
    ck_assert_str_eq(first_refusal(l, QKV), "the back end's table has another rope");
    close_session(&o);
}

/* A plan whose attention output is a product of the norm that the fusion of q, k and v keeps to itself. */
static void value_that_is_read_later_is_not_fused_away(struct kg_record *rec, const void *arg) {
    struct opened o;
    struct kg_lowered *lowered;
    struct kg_error err;
    (void)arg;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    open_session(kg_fixture_path(kg_layer_model_find("haiku_prompt")->model), &kg_cuda_ops, KG_PRECISION_F16, &o);
    struct kg_plan *plan = o.session->plan;
    uint32_t i = 0;
    while (plan->nodes[i].op != KG_OP_attention) i++;
    plan->nodes[i + 1].args.linear.x = o.session->buffers.norm;
    kg_op_expect_ok(kg_cuda_ops.lower(o.backend, plan, &lowered, &err), &err);
    ck_assert_str_eq(lowered->path, "captured graph");
    ck_assert_uint_eq(lowered->steps[1].n, 1); /* neither with rope nor without: the norm stays a node */
    ck_assert_str_eq(first_refusal(lowered, QKV), "a later node reads what rmsnorm (0) writes");
    kg_cuda_ops.free_lowered(o.backend, lowered);
    close_session(&o);
}

/* One line for what is refused for the same reason, where it is refused first. */
static void refusals_as_text(struct kg_record *rec, const void *arg) {
    struct kg_lowered_refusal refusals[] = { { "a + b", 1, "too wide" }, { "c", 2, "too wide" },
                                             { "a + b", 4, "odd" },      { "a + b", 5, "too wide" },
                                             { "c", 6, "odd" },          { "a + b", 9, "too wide" } };
    const struct kg_lowered lowered = { .refusals = refusals, .n_refusals = KG_COUNT_OF(refusals) };
    struct kg_buffer out = KG_BUFFER_INIT;
    (void)rec, (void)arg;
    kg_lowered_put_refusals(&lowered, &out);
    ck_assert_str_eq(kg_buffer_text(&out), "not taken: a + b (node 1 and 2 more): too wide\n"
                                           "not taken: c (node 2): too wide\n"
                                           "not taken: a + b (node 4): odd\n"
                                           "not taken: c (node 6): odd\n");
    kg_buffer_free(&out);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < kg_n_layer_models; i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "plan",
                                                  .name = kg_layer_models[i].name,
                                                  .backend = "cpu",
                                                  .dtype = "f32",
                                                  .run = nodes_read_what_was_written,
                                                  .arg = &kg_layer_models[i] });
    for (size_t i = 0; i < KG_COUNT_OF(EXPECTED); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "lowered_plan",
                                                  .name = EXPECTED[i].model,
                                                  .backend = "cuda",
                                                  .dtype = "f16",
                                                  .run = takes_its_kernels,
                                                  .arg = &EXPECTED[i] });
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = { { "most_experts_of_a_row", most_experts_of_a_row },
                   { "rows_are_whole_vectors", rows_are_whole_vectors },
                   { "replaced_operation_is_not_fused", replaced_operation_is_not_fused },
                   { "value_that_is_read_later_is_not_fused_away", value_that_is_read_later_is_not_fused_away } };
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "lowered_plan",
                                                  .name = OTHERS[i].name,
                                                  .backend = "cuda",
                                                  .dtype = "f16",
                                                  .run = OTHERS[i].run });
    kg_case_list_add(list,
                     &(struct kg_case){
                         .layer = "unit", .op = "lowered_plan", .name = "refusals_as_text", .run = refusals_as_text });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
