/* What a lowered plan fuses for many rows, against the same plan node by node on the same back end: logits of every
 * row, and of a token after them, which reads what they left in the KV cache. Then mutants: the fused plan with one
 * thing wrong must be outside the same limits. */
#include "backend/gpu.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/support/layer_models.h"
#include "suites/support/op_device.h"
#include "suites/support/tiny_model.h"
#include "suites/tolerance/lowered_mistakes.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CTX = 256, N_LAYERS = 2, PREFIX = 5, MOST_FEW_ROWS = 128, MAX_ROWS = 150 };
#define HEADS "q, k, v + rope + kv_write of rows"
#define RESIDUAL "linear + add of rows"
#define GATED "gate, up + swiglu of rows"
#define EXPERTS "experts' gate, up + swiglu; down of rows"
#define COMBINE "experts_combine + add of rows"

#define MODEL(arch, embd, dim, ...)                                                                                    \
    {                                                                                                                  \
        .architecture = arch, .n_vocab = KG_TINY_TOKENS, .n_ctx = N_CTX, .n_embd = embd, .n_layers = N_LAYERS,         \
        .n_heads = 4, .n_kv_heads = 2, .head_dim = dim, .seed = 3, __VA_ARGS__                                         \
    }
/* heads: whether q, k, v of a layer are fused. residuals, biased: of a layer's products, those that are added to the
 * residual stream without and with a bias. gated: those of gates and ups. experts: whether they are fused, where they
 * are repacked; combined: whether their sum is added to the residual stream. wide: that is float32 in any precision.
 * n_rot: 0: a whole head. */
static const struct scene {
    const char *name;
    struct kg_tiny_model model;
    uint32_t n_rot;
    uint32_t heads, residuals, biased, gated, experts, combined;
    bool wide;
} SCENES[] = {
    { "halves_with_biases", MODEL("qwen2", 64, 0, .n_ff = 96, .qkv_bias = true), 0, 1, 2, 0, 1, 0, 0, false },
    { "neighbours", MODEL("llama", 256, 0, .n_ff = 512, .untied = true), 0, 1, 2, 0, 1, 0, 0, false },
    { "neighbours_of_part", MODEL("llama", 64, 0, .n_ff = 72, .untied = true, .qkv_bias = true, .other_bias = true), 12,
      1, 0, 2, 1, 0, 0, false },
    { "neighbours_with_biases",
      MODEL("llama", 64, 0, .n_ff = 128, .untied = true, .qkv_bias = true, .other_bias = true), 0, 1, 0, 2, 1, 0, 0,
      false },
    { "one_tensor", MODEL("phi3", 64, 0, .n_ff = 96, .untied = true, .window = 40, .long_short = true), 0, 1, 2, 0, 1,
      0, 0, false },
    { "normalised_heads", MODEL("qwen3", 64, 32, .n_ff = 96), 0, 0, 2, 0, 1, 0, 0, false },
    { "gelu_gates", MODEL("gemma3", 64, 32, .n_ff = 96, .window = 9), 0, 0, 0, 0, 1, 0, 0, false },
    { "biased_outputs",
      MODEL("gpt-oss", 64, 24, .n_ff = 32, .untied = true, .window = 9, .n_experts = 5, .n_experts_used = 2), 0, 1, 0,
      1, 0, 0, 1, true },
    /* No expert is chosen by less than 0.04 of a logit. */
    { "repacked_experts",
      MODEL("gpt-oss", 64, 24, .n_ff = 64, .untied = true, .window = 13, .n_experts = 7, .n_experts_used = 2,
            .mxfp4_experts = true),
      0, 1, 0, 1, 0, 1, 1, true },
};

/* adds_from: of so many rows on products can be added to the residual stream (0: of none), and gates and ups are fused
 * if `gates`. few: there is a kernel of few rows, up to MOST_FEW_ROWS. mutants: they are tried in this form. in_file:
 * no weight is repacked. */
static const struct form {
    const char *dtype;
    enum kg_precision activations, kv;
    enum kg_dtype matrices;
    uint32_t adds_from;
    bool gates, few, mutants, in_file;
    struct kg_tolerance tol;
} FORMS[] = {
/* The same numbers wherever one product's sum is rounded before y is added. */
#define FAR "the library may split a sum that y is added to in another way, and did not where it was measured"
#define HALVES                                                                                                         \
    { .nmse = 2e-5, .why = "two ways that round to float16 in other places: up to 1.2e-6 of these models' logits" }
    { "f16", KG_PRECISION_F16, KG_PRECISION_F16, KG_DTYPE_F16, 9, true, true, true, false, HALVES },
    { "f32",
      KG_PRECISION_F32,
      KG_PRECISION_F32,
      KG_DTYPE_F32,
      9,
      false,
      false,
      true,
      false,
      { .nmse = 3e-12, .why = "a product and a sum rounded to float32 once, not twice: 2^-24 of either", .far = FAR } },
    { "f32_kv_f16",
      KG_PRECISION_F32,
      KG_PRECISION_F16,
      KG_DTYPE_F32,
      9,
      false,
      false,
      false,
      false,
      { .nmse = 3e-9,
        .why = "an element of a slot that rounds to float16's other neighbour, 2^-11 of it",
        .far = FAR } },
    { "bf16", KG_PRECISION_F16, KG_PRECISION_F16, KG_DTYPE_BF16, 9, true, true, false, false, HALVES },
    { "bf16_in_file",
      KG_PRECISION_F16,
      KG_PRECISION_F16,
      KG_DTYPE_BF16,
      0,
      false,
      false,
      false,
      true,
      { .nmse = 2e-5, .why = "as of float16 matrices, whose roundings are the same", .far = FAR } },
    { "q8_0", KG_PRECISION_F16, KG_PRECISION_F16, KG_DTYPE_Q8_0, 9, false, false, false, false, HALVES },
    { "q4_k", KG_PRECISION_F16, KG_PRECISION_F16, KG_DTYPE_Q4_K, 9, false, false, false, false, HALVES },
    { "mxfp4", KG_PRECISION_F16, KG_PRECISION_F16, KG_DTYPE_MXFP4, 17, true, false, true, false, HALVES },
#undef HALVES
};

/* What goes wrong: data of the first fused step of that kernel, or how often it is launched. */
static const struct mutant {
    const char *name, *scene, *kernel;
    kg_mistake *change;
    int n_launches;
} MUTANTS[] = {
    { "bias_of_queries_left_out", "halves_with_biases", HEADS, kg_mistake_first_bias_left_out, 1 },
    { "bias_of_keys_left_out", "halves_with_biases", HEADS, kg_mistake_bias_of_keys_left_out, 1 },
    { "values_by_weight_of_keys", "halves_with_biases", HEADS, kg_mistake_values_by_weight_of_keys, 1 },
    { "keys_by_weight_of_queries", "neighbours", HEADS, kg_mistake_keys_by_weight_of_queries, 1 },
    { "rotation_left_out", "halves_with_biases", HEADS, kg_mistake_rotation_left_out, 1 },
    { "rotated_by_neighbours", "halves_with_biases", HEADS, kg_mistake_other_pairs, 1 },
    { "rotated_by_halves", "neighbours", HEADS, kg_mistake_other_pairs, 1 },
    { "slot_off_by_one", "one_tensor", HEADS, kg_mistake_slot_off_by_one, 1 },
    { "heads_left_out", "neighbours", HEADS, NULL, 0 },
    { "other_layers_weight", "neighbours", RESIDUAL, kg_mistake_first_weight_of_other_layer, 1 },
    { "residual_twice", "neighbours", RESIDUAL, NULL, 2 },
    { "residual_left_out", "normalised_heads", RESIDUAL, NULL, 0 },
    { "residual_bias_left_out", "biased_outputs", RESIDUAL, kg_mistake_first_bias_left_out, 1 },
    { "combined_twice", "biased_outputs", COMBINE, NULL, 2 },
    { "last_expert_left_out", "biased_outputs", COMBINE, kg_mistake_last_expert_left_out, 1 },
    { "gate_and_up_swapped", "neighbours", GATED, kg_mistake_gate_and_up_swapped, 1 },
    { "up_by_weight_of_gate", "one_tensor", GATED, kg_mistake_up_by_weight_of_gate, 1 },
    { "silu_half_as_steep", "halves_with_biases", GATED, kg_mistake_gate_half_as_steep, 1 },
    { "gelu_half_as_steep", "gelu_gates", GATED, kg_mistake_gate_half_as_steep, 1 },
    { "expert_gate_and_up_swapped", "repacked_experts", EXPERTS, kg_mistake_expert_gate_and_up_swapped, 1 },
    { "down_of_other_layer", "repacked_experts", EXPERTS, kg_mistake_down_of_other_layer, 1 },
    { "down_bias_left_out", "repacked_experts", EXPERTS, kg_mistake_down_bias_left_out, 1 },
    { "experts_left_out", "repacked_experts", EXPERTS, NULL, 0 },
};

struct fusion_case {
    const struct scene *scene;
    const struct form *form;
    uint32_t n_rows;
    const struct mutant *mutant;
};
static struct fusion_case kept[512];
static size_t n_kept;

/* The table of a back end that counts what run_rows takes; or takes none; or launches the first of a kernel's steps
 * another number of times. */
static const char *const KERNELS[] = { HEADS, RESIDUAL, GATED, EXPERTS, COMBINE };
enum { N_HEADS, N_RESIDUALS, N_GATED, N_EXPERTS, N_COMBINED, N_KERNELS };
static struct {
    const struct kg_lowered_step *changed;
    int n_launches;
    uint32_t taken[N_KERNELS];
} counted;

static void count_step(const struct kg_lowered *lowered, uint32_t first) {
    uint32_t i = 0;
    while (lowered->row_steps[i].first != first) i++;
    for (int k = 0; k < N_KERNELS; k++) counted.taken[k] += strcmp(lowered->row_steps[i].kernel, KERNELS[k]) == 0;
}

static enum kg_status count_rows(struct kg_backend *backend, struct kg_lowered *lowered, uint32_t first,
                                 const struct kg_run *run, uint32_t *n_nodes, struct kg_error *err) {
    const bool changed = counted.changed && counted.changed->first == first;
    enum kg_status status = KG_OK;
    *n_nodes = changed ? counted.changed->n : 0;
    for (int i = 0; i < (changed ? counted.n_launches : 1) && !status; i++)
        status = kg_cuda_ops.run_rows(backend, lowered, first, run, n_nodes, err);
    if (*n_nodes > 0) count_step(lowered, first);
    return status;
}

static enum kg_status take_none(struct kg_backend *backend, struct kg_lowered *lowered, uint32_t first,
                                const struct kg_run *run, uint32_t *n_nodes, struct kg_error *err) {
    (void)backend, (void)lowered, (void)first, (void)run, (void)err;
    *n_nodes = 0;
    return KG_OK;
}

struct sequence {
    struct kg_backend_ops ops;
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
};

static void sequence_open(struct sequence *s, const struct fusion_case *c, const char *path, bool fused) {
    const struct kg_session_options options = { N_CTX, c->form->activations, c->form->kv };
    struct kg_error err;
    s->ops = kg_cuda_ops;
    s->ops.run_rows = fused ? count_rows : take_none;
    if (c->form->in_file) s->ops.repack_weight = NULL;
    kg_must(kg_backend_open_ops(&s->ops, 0, &s->backend, &err), &err);
    kg_must(kg_model_load(path, s->backend, NULL, &s->model, &err), &err);
    kg_must(kg_session_create(s->model, &options, &s->session, &err), &err);
}

static void sequence_close(struct sequence *s) {
    kg_session_free(s->session);
    kg_model_free(s->model);
    kg_backend_close(s->backend);
}

/* Logits of PREFIX rows, of n_rows more, and of one after them. */
static size_t eval_all(struct sequence *s, uint32_t n_rows, float *out) {
    const size_t counts[] = { PREFIX, n_rows, 1 };
    const uint32_t n_vocab = s->session->config->n_vocab;
    int32_t ids[MAX_ROWS];
    size_t done = 0;
    for (size_t part = 0; part < KG_COUNT_OF(counts); part++) {
        const float *logits;
        struct kg_error err;
        for (size_t i = 0; i < counts[part]; i++) {
            const size_t at = done + i;
            ids[i] = (int32_t)((31 * at * at + 17 * at + 5) % n_vocab);
        }
        kg_must(kg_session_eval(s->session, ids, counts[part], KG_LOGITS_ALL, &logits, &err), &err);
        memcpy(out + done * n_vocab, logits, counts[part] * n_vocab * sizeof *out);
        done += counts[part];
    }
    return done * n_vocab;
}

static char *write_model(struct kg_record *rec, const struct fusion_case *c) {
    struct kg_tiny_model model = c->scene->model;
    char *path = kg_path_join(kg_scratch_dir(rec), "rows.gguf"),
         *key = kg_xasprintf("%s.rope.dimension_count", model.architecture);
    const struct kg_tiny_edit n_rot = { .name = key, .change = KG_TINY_KEY_U32, .number = c->scene->n_rot };
    model.matrices = c->form->matrices;
    model.more_bits = KG_DTYPE_F32;
    kg_tiny_model_write(path, &model, &n_rot, c->scene->n_rot ? 1 : 0);
    free(key);
    return path;
}

/* The kernel of few rows is for compute capability 9.0, and so are those of block formats and of experts. */
static bool has_kernels(void) {
    struct kg_gpu_info gpu;
    struct kg_error err;
    size_t n = 0;
    kg_must(kg_gpu_list(&gpu, 1, &n, &err), &err);
    return n > 0 && gpu.compute_capability == 90;
}

static bool is_of_blocks(const struct form *f) {
    return kg_dtype_info(f->matrices)->block_elems > 1;
}

/* What an eval of so many rows fuses, by layer: up to 8 rows are matrix-vector products. The library adds what has a
 * bias to float32 only. */
static void count_eval(const struct fusion_case *c, uint32_t n_rows, uint32_t *expected) {
    const struct scene *s = c->scene;
    const struct form *f = c->form;
    const bool few = f->few && n_rows > 8 && n_rows <= MOST_FEW_ROWS && has_kernels();
    const bool in_blocks = is_of_blocks(f);
    const bool adds = f->adds_from > 0 && n_rows >= f->adds_from && (!in_blocks || has_kernels());
    const bool is_wide = s->wide || f->activations == KG_PRECISION_F32;
    expected[N_HEADS] += N_LAYERS * s->heads;
    expected[N_COMBINED] += N_LAYERS * s->combined;
    if (adds) expected[N_RESIDUALS] += N_LAYERS * (s->residuals + (few || is_wide || in_blocks ? s->biased : 0));
    if (adds && f->gates) expected[N_GATED] += N_LAYERS * s->gated;
    if (n_rows > 8 && has_kernels()) expected[N_EXPERTS] += N_LAYERS * s->experts;
}

/* A sequence that outgrows its short rope factors is evaluated once more from its start. */
static void expect_counts(const struct fusion_case *c) {
    const bool again = c->scene->model.long_short && PREFIX + c->n_rows > N_CTX / 2;
    uint32_t expected[N_KERNELS] = { 0 };
    for (int i = 0; i < (again ? 2 : 1); i++) count_eval(c, PREFIX, expected);
    count_eval(c, c->n_rows, expected);
    for (int k = 0; k < N_KERNELS; k++)
        ck_assert_msg(counted.taken[k] == expected[k], "%s: taken %u times, not %u", KERNELS[k], counted.taken[k],
                      expected[k]);
}

/* Every kind of step that the plan fuses has a mutant. */
static void expect_mutants(const struct kg_lowered *l) {
    for (uint32_t i = 0; i < l->n_row_steps; i++) {
        bool any = false;
        for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++)
            any = any || strcmp(MUTANTS[m].kernel, l->row_steps[i].kernel) == 0;
        ck_assert_msg(any, "no mutant is of %s", l->row_steps[i].kernel);
    }
}

static void make_mistake(struct sequence *s, const struct mutant *m) {
    const struct kg_lowered *l = s->session->lowered;
    uint32_t i = 0;
    while (i < l->n_row_steps && strcmp(l->row_steps[i].kernel, m->kernel) != 0) i++;
    ck_assert_msg(i < l->n_row_steps, "no step is %s", m->kernel);
    const struct kg_lowered_step *step = &l->row_steps[i];
    const struct kg_lowered_site site = { .n = s->session->plan->nodes + step->first,
                                          .nodes = s->session->plan->nodes,
                                          .n_step = step->n,
                                          .n_nodes = s->session->plan->n_nodes };
    if (m->change) m->change(&site);
    if (m->n_launches == 1) return;
    counted.changed = step;
    counted.n_launches = m->n_launches;
}

/* The logits of both ways. False after a skip. */
static bool compare(struct kg_record *rec, const struct fusion_case *c, struct kg_compare *out) {
    struct sequence fused, plain;
    if (!kg_backend_or_skip(rec, "cuda")) return false;
    if (c->mutant && (c->scene->experts || is_of_blocks(c->form)) && !has_kernels()) {
        kg_record_skip(rec, "no GPU of compute capability 9.0, for which weights are repacked");
        return false;
    }
    char *path = write_model(rec, c);
    memset(&counted, 0, sizeof counted);
    sequence_open(&fused, c, path, true);
    sequence_open(&plain, c, path, false);
    const size_t n_most = (size_t)(PREFIX + MAX_ROWS + 1) * KG_TINY_TOKENS;
    float *got = kg_xcalloc(n_most, sizeof *got), *want = kg_xcalloc(n_most, sizeof *want);
    if (c->mutant) make_mistake(&fused, c->mutant);
    else expect_mutants(fused.session->lowered);
    const size_t n = eval_all(&fused, c->n_rows, got);
    if (!c->mutant) expect_counts(c);
    ck_assert_uint_eq(eval_all(&plain, c->n_rows, want), n);
    kg_compare_f32(got, want, n, out);
    uint32_t n_fused = 0;
    for (int k = 0; k < N_KERNELS; k++) n_fused += counted.taken[k];
    kg_record_metric(rec, "fused", "count", n_fused);
    free(want);
    free(got);
    sequence_close(&plain);
    sequence_close(&fused);
    free(path);
    return true;
}

static void fused_as_node_by_node(struct kg_record *rec, const void *arg) {
    const struct fusion_case *c = arg;
    struct kg_compare difference;
    double margin;
    if (!compare(rec, c, &difference)) return;
    kg_record_judged(rec, "logits", &difference, &c->form->tol);
    ck_assert_msg(kg_within(&difference, &c->form->tol, &margin), "outside the tolerance by a factor of %.4g", margin);
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct fusion_case *c = arg;
    struct kg_compare difference;
    double margin;
    if (!compare(rec, c, &difference)) return;
    ck_assert_msg(!kg_within(&difference, &c->form->tol, &margin), "the mutant lives, at %.4g of the tolerance",
                  margin);
    kg_record_compare(rec, "logits", &difference, &c->form->tol);
    kg_record_metric(rec, "kill_factor", "ratio", margin);
}

static void add(struct kg_case_list *cases, const struct fusion_case *c) {
    struct fusion_case *here = &kept[n_kept++];
    *here = *c;
    char *shape = kg_xasprintf("%s rows=%u", c->scene->name, c->n_rows);
    kg_case_list_add(cases, &(struct kg_case){ .layer = c->mutant ? "mutation" : "tolerance",
                                               .op = "row_fusions",
                                               .name = c->mutant ? c->mutant->name : "fused_as_node_by_node",
                                               .backend = "cuda",
                                               .dtype = c->form->dtype,
                                               .shape = shape,
                                               .run = c->mutant ? mutant_is_rejected : fused_as_node_by_node,
                                               .arg = here });
    free(shape);
}

static bool suits(const struct scene *scene, const struct form *form) {
    const uint32_t block = kg_dtype_info(form->matrices)->block_elems;
    if (scene->experts) return form->matrices == KG_DTYPE_F16;
    /* Block formats in whole tiles of 64 columns, which their kernel takes. */
    return block == 1 || (scene->model.n_embd % block == 0 && scene->model.n_ff % block == 0 &&
                          scene->model.n_embd % 64 == 0 && scene->model.n_ff % 64 == 0);
}

static void build(struct kg_case_list *cases) {
    static const uint32_t ROWS[] = { 2, 9, 32, 33, 70, MOST_FEW_ROWS, MOST_FEW_ROWS + 1, MAX_ROWS };
    for (size_t f = 0; f < KG_COUNT_OF(FORMS); f++)
        for (size_t s = 0; s < KG_COUNT_OF(SCENES); s++)
            for (size_t r = 0; r < KG_COUNT_OF(ROWS); r++)
                if (suits(&SCENES[s], &FORMS[f]))
                    add(cases, &(struct fusion_case){ &SCENES[s], &FORMS[f], ROWS[r], NULL });
    for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++)
        for (size_t f = 0; f < KG_COUNT_OF(FORMS); f++)
            for (uint32_t n_rows = MOST_FEW_ROWS; n_rows <= MOST_FEW_ROWS + 1; n_rows++) {
                const struct scene *scene = SCENES;
                while (strcmp(scene->name, MUTANTS[m].scene) != 0) scene++;
                if (!FORMS[f].mutants) continue;
                if (strcmp(MUTANTS[m].kernel, GATED) == 0 && !FORMS[f].gates) continue;
                if ((is_of_blocks(&FORMS[f]) || scene->experts) && !suits(scene, &FORMS[f])) continue;
                add(cases, &(struct fusion_case){ scene, &FORMS[f], n_rows, &MUTANTS[m] });
            }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
