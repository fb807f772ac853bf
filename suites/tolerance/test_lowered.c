/* The launches of a decode step one by one: what each leaves in memory, against the operations on the same back end;
 * and wrong lowered plans, each of which that comparison must reject at the place where it goes wrong. A mistake is in
 * the data that a plan is lowered with (a node's weight, norm, rotation, slot), or in the list of launches: the fused
 * kernels and the persistent kernel run. Every fusion, kernel of attention and instruction has a mutant. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include "suites/support/launch_compare.h"
#include "suites/support/tiny_model.h"
#include "suites/tolerance/lowered_mistakes.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Block formats: float16 activations, one kernel for all of them (blocks.cu). */
enum { F16, F32, F32_KV_F16, BLOCKS, Q8_0 = BLOCKS, Q4_0, Q5_0, Q4_K, Q5_K, Q6_K, Q4_K_Q6_K, Q8_0_Q5_0, N_PRECISIONS };
#define IN_BLOCKS(of_matrices, of_more_bits, of_dtype)                                                                 \
    {                                                                                                                  \
        .activations = KG_PRECISION_F16, .kv = KG_PRECISION_F16, .matrices = of_matrices, .more_bits = of_more_bits,   \
        .dtype = of_dtype, .tol = {                                                                                    \
            .nmse = 2e-5,                                                                                              \
            .why = "as float16's: the weights are the same numbers in both, and activations are rounded as there"      \
        }                                                                                                              \
    }
static const struct {
    enum kg_precision activations, kv;
    enum kg_dtype matrices;
    const char *dtype;
    struct kg_tolerance tol;
    enum kg_dtype more_bits;
} PRECISIONS[N_PRECISIONS] = {
    [Q8_0] = IN_BLOCKS(KG_DTYPE_Q8_0, KG_DTYPE_F32, "q8_0"),
    [Q4_0] = IN_BLOCKS(KG_DTYPE_Q4_0, KG_DTYPE_F32, "q4_0"),
    [Q5_0] = IN_BLOCKS(KG_DTYPE_Q5_0, KG_DTYPE_F32, "q5_0"),
    [Q4_K] = IN_BLOCKS(KG_DTYPE_Q4_K, KG_DTYPE_F32, "q4_k"),
    [Q5_K] = IN_BLOCKS(KG_DTYPE_Q5_K, KG_DTYPE_F32, "q5_k"),
    [Q6_K] = IN_BLOCKS(KG_DTYPE_Q6_K, KG_DTYPE_F32, "q6_k"),
    [Q4_K_Q6_K] = IN_BLOCKS(KG_DTYPE_Q4_K, KG_DTYPE_Q6_K, "q4_k_q6_k"),
    [Q8_0_Q5_0] = IN_BLOCKS(KG_DTYPE_Q8_0, KG_DTYPE_Q5_0, "q8_0_q5_0"),
    [F16] = { KG_PRECISION_F16,
              KG_PRECISION_F16,
              KG_DTYPE_F16,
              "f16",
              { .nmse = 2e-5, .why = "plain FP16 implementations that round in other places are 2.8e-6 apart here" } },
    [F32] = { KG_PRECISION_F32,
              KG_PRECISION_F32,
              KG_DTYPE_F32,
              "f32",
              { .nmse = 3e-12, .why = "float32 sums in another order: 1.4e-13 at most on an H200" } },
    [F32_KV_F16] = { KG_PRECISION_F32,
                     KG_PRECISION_F16,
                     KG_DTYPE_F32,
                     "f32_kv_f16",
                     { .nmse = 3e-9,
                       .why = "an element of a slot that rounds to float16's other neighbour, 2^-11 of it" } },
};

#define PERSISTENT "persistent kernel"
#define GRAPH "captured graph"

#define MODEL(arch, ctx, embd, heads, kv_heads, dim, ff, ...)                                                          \
    {                                                                                                                  \
        .architecture = arch, .n_vocab = 261, .n_ctx = ctx, .n_embd = embd, .n_layers = 2, .n_heads = heads,           \
        .n_kv_heads = kv_heads, .head_dim = dim, .n_ff = ff, __VA_ARGS__                                               \
    }

/* Models whose steps have all the launches there are. The one with experts has a seed of which none is chosen by a hair
 * (steps_choose_clearly), and matrices that the GPU repacks. */
static const struct scene {
    const char *name, *path;
    const char *attention[BLOCKS]; /* the kernel of its first layer; NULL: of an instruction */
    struct kg_tiny_model model;
    uint32_t n_past;
    bool blocks_only;
} SCENES[] = {
    { "experts_heads_of_64",
      GRAPH,
      { "few_keys", "cuda_cores", "few_keys" },
      MODEL("gpt-oss", 64, 128, 4, 1, 64, 192, .seed = 17, .untied = true, .window = 9, .n_experts = 6,
            .n_experts_used = 2, .mxfp4_experts = true),
      19,
      false },
    { "norms_of_heads",
      GRAPH,
      { "split", "cuda_cores", "cuda_cores" },
      MODEL("qwen3", 64, 64, 4, 2, 32, 96, .seed = 5),
      19,
      false },
    { "norms_of_outputs",
      GRAPH,
      { "split", "cuda_cores", "cuda_cores" },
      MODEL("gemma3", 64, 64, 4, 2, 32, 96, .seed = 6, .window = 9),
      19,
      false },
    /* Splits of 64 keys in float32, of 256 in float16: more than one. */
    { "one_launch",
      PERSISTENT,
      { NULL, NULL, "cuda_cores" },
      MODEL("llama", 320, 64, 4, 2, 32, 96, .seed = 3, .qkv_bias = true, .other_bias = true, .untied = true),
      299,
      false },
    /* One chunk of 256 columns and 17, which are two segments; three and five, in groups of 4 and 8 warps; rows of an
     * odd number of blocks, which begin anywhere; fewer tiles than blocks of the grid, and more. */
    { "rows_of_whole_chunks",
      GRAPH,
      { "few_keys" },
      { .architecture = "llama",
        .n_vocab = 262,
        .n_ctx = 64,
        .n_embd = 256,
        .n_layers = 2,
        .n_heads = 4,
        .n_kv_heads = 2,
        .head_dim = 64,
        .n_ff = 4352,
        .seed = 7,
        .qkv_bias = true,
        .other_bias = true,
        .untied = true },
      19,
      true },
    { "rows_of_odd_chunks",
      GRAPH,
      { "split" },
      { .architecture = "qwen2",
        .n_vocab = 2200,
        .n_ctx = 64,
        .n_embd = 1280,
        .n_layers = 2,
        .n_heads = 8,
        .n_kv_heads = 1,
        .head_dim = 32,
        .n_ff = 768,
        .seed = 8,
        .qkv_bias = true },
      19,
      true },
    { "rows_of_odd_blocks",
      GRAPH,
      { "split" },
      { .architecture = "llama",
        .n_vocab = 262,
        .n_ctx = 64,
        .n_embd = 96,
        .n_layers = 2,
        .n_heads = 9,
        .n_kv_heads = 3,
        .head_dim = 32,
        .n_ff = 1184,
        .seed = 9,
        .untied = true },
      19,
      true },
};
#define EXPERTS "experts_heads_of_64"
#define HEAD_NORMS "norms_of_heads"
#define OUTPUT_NORMS "norms_of_outputs"
#define ONE_LAUNCH "one_launch"
#define CHUNKS "rows_of_whole_chunks"

/* Whether rows of all matrices are whole blocks, and the scene is for such. */
static bool suits(const struct scene *scene, int precision) {
    const struct kg_tiny_model *m = &scene->model;
    const uint32_t block = kg_dtype_info(PRECISIONS[precision].matrices)->block_elems;
    const bool whole = m->n_embd % block == 0 && m->n_ff % block == 0 && m->n_heads * m->head_dim % block == 0;
    return precision < BLOCKS ? !scene->blocks_only : whole;
}

/* The persistent kernel has no block formats. */
static const char *attention_of(const struct scene *scene, int precision) {
    const char *attention = scene->attention[precision < BLOCKS ? precision : F16];
    return attention || precision < BLOCKS ? attention : "split";
}

enum how { CHANGED, TWICE, LEFT_OUT }; /* the step's nodes */

/* nth: of the steps of that kernel. first: how the name of the first place outside begins. */
static const struct mutant {
    const char *name, *scene, *kernel;
    uint32_t nth;
    const char *first;
    kg_mistake *change;
    enum how how;
    bool f16_only; /* the step is taken in float16 alone */
} MUTANTS[] = {
#define QKV_HEADS "rmsnorm + q, k, v + rope + kv_write"
    { "norm_left_out", EXPERTS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_norm_left_out, CHANGED, false },
    { "q_weight_of_other_layer", EXPERTS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_first_weight_of_other_layer, CHANGED,
      false },
    { "q_bias_left_out", EXPERTS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_first_bias_left_out, CHANGED, false },
    { "values_by_weight_of_keys", EXPERTS, QKV_HEADS, 0, "blk.0.v_cache", kg_mistake_values_by_weight_of_keys, CHANGED,
      false },
    { "rotation_left_out", EXPERTS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_rotation_left_out, CHANGED, false },
    { "other_pairs", EXPERTS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_other_pairs, CHANGED, false },
    { "slot_off_by_one", EXPERTS, QKV_HEADS, 0, "blk.0.k_cache", kg_mistake_slot_off_by_one, CHANGED, false },
#define PENDING "experts_combine + add + rmsnorm + q, k, v + rope + kv_write; attention; linear + add"
    { "pending_expert_left_out", EXPERTS, PENDING, 0, "blk.1.k_cache", kg_mistake_last_expert_left_out, CHANGED,
      false },
    { "pending_norm_left_out", EXPERTS, PENDING, 0, "blk.1.k_cache", kg_mistake_norm_left_out, CHANGED, false },
    { "pending_values_by_weight_of_keys", EXPERTS, PENDING, 0, "blk.1.v_cache", kg_mistake_values_by_weight_of_keys,
      CHANGED, false },
    { "pending_rotation_left_out", EXPERTS, PENDING, 0, "blk.1.k_cache", kg_mistake_rotation_left_out, CHANGED, false },
    { "pending_slot_off_by_one", EXPERTS, PENDING, 0, "blk.1.k_cache", kg_mistake_slot_off_by_one, CHANGED, false },
    { "pending_window_of_three", EXPERTS, PENDING, 0, "blk.1.attn_residual", kg_mistake_window_of_three, CHANGED,
      false },
    { "pending_scale_of_head_dim", EXPERTS, PENDING, 0, "blk.1.attn_residual", kg_mistake_scale_of_head_dim, CHANGED,
      false },
    { "pending_out_bias_left_out", EXPERTS, PENDING, 0, "blk.1.attn_residual", kg_mistake_out_bias_left_out, CHANGED,
      false },
#define QKV "rmsnorm + q, k, v"
    { "products_norm_left_out", HEAD_NORMS, QKV, 0, "blk.0.q", kg_mistake_norm_left_out, CHANGED, false },
    { "products_q_of_other_layer", HEAD_NORMS, QKV, 0, "blk.0.q", kg_mistake_first_weight_of_other_layer, CHANGED,
      false },
    { "products_values_by_weight_of_keys", HEAD_NORMS, QKV, 0, "blk.0.v", kg_mistake_values_by_weight_of_keys, CHANGED,
      false },
#define HEADS "rmsnorm of heads + rope + kv_write"
    { "head_norms_exchanged", HEAD_NORMS, HEADS, 0, "blk.0.q_rope", kg_mistake_norms_exchanged, CHANGED, false },
    { "head_norm_of_keys_left_out", HEAD_NORMS, HEADS, 0, "blk.0.k_cache", kg_mistake_norm_of_keys_left_out, CHANGED,
      false },
    { "heads_rotation_left_out", HEAD_NORMS, HEADS, 0, "blk.0.q_rope", kg_mistake_rotation_left_out, CHANGED, false },
    { "heads_other_pairs", HEAD_NORMS, HEADS, 0, "blk.0.q_rope", kg_mistake_other_pairs, CHANGED, false },
    { "heads_slot_off_by_one", HEAD_NORMS, HEADS, 0, "blk.0.k_cache", kg_mistake_slot_off_by_one, CHANGED, false },
#define NORM_ADD "rmsnorm + add"
    { "output_norm_left_out", OUTPUT_NORMS, NORM_ADD, 0, "blk.0.attn_residual", kg_mistake_norm_left_out, CHANGED,
      false },
    { "normed_output_not_added", OUTPUT_NORMS, NORM_ADD, 1, "blk.0.out", NULL, LEFT_OUT, false },
#define ATTENTION "attention in one launch"
    { "few_keys_window_of_three", EXPERTS, ATTENTION, 0, "blk.0.attn", kg_mistake_window_of_three, CHANGED, false },
    { "few_keys_sinks_left_out", EXPERTS, ATTENTION, 0, "blk.0.attn", kg_mistake_sinks_left_out, CHANGED, false },
    { "split_window_of_three", HEAD_NORMS, ATTENTION, 0, "blk.0.attn", kg_mistake_window_of_three, CHANGED, false },
    { "split_scale_of_head_dim", HEAD_NORMS, ATTENTION, 0, "blk.0.attn", kg_mistake_scale_of_head_dim, CHANGED, false },
    { "split_keys_for_values", HEAD_NORMS, ATTENTION, 1, "blk.1.attn", kg_mistake_keys_for_values, CHANGED, false },
#define GATED "rmsnorm + gate, up + swiglu"
    { "gated_norm_left_out", HEAD_NORMS, GATED, 0, "blk.0.ffn_act", kg_mistake_norm_left_out, CHANGED, false },
    { "gate_and_up_swapped", HEAD_NORMS, GATED, 0, "blk.0.ffn_act", kg_mistake_gate_and_up_swapped, CHANGED, false },
    { "up_by_weight_of_gate", HEAD_NORMS, GATED, 1, "blk.1.ffn_act", kg_mistake_up_by_weight_of_gate, CHANGED, false },
    { "gelu_gate_half_as_steep", OUTPUT_NORMS, GATED, 0, "blk.0.ffn_act", kg_mistake_gate_half_as_steep, CHANGED,
      false },
#define LINEAR_ADD "linear + add"
    { "out_weight_of_other_layer", HEAD_NORMS, LINEAR_ADD, 0, "blk.0.attn_residual",
      kg_mistake_first_weight_of_other_layer, CHANGED, false },
    { "product_added_twice", HEAD_NORMS, LINEAR_ADD, 1, "blk.0.out", NULL, TWICE, false },
    { "product_not_added", HEAD_NORMS, LINEAR_ADD, 3, "blk.1.out", NULL, LEFT_OUT, false },
    { "out_bias_left_out", EXPERTS, LINEAR_ADD, 0, "blk.0.attn_residual", kg_mistake_first_bias_left_out, CHANGED,
      false },
#define ROUTER "rmsnorm + linear + router"
    { "router_norm_left_out", EXPERTS, ROUTER, 0, "blk.0.ffn_norm", kg_mistake_norm_left_out, CHANGED, false },
    { "router_of_other_layer", EXPERTS, ROUTER, 0, "blk.0.expert_", kg_mistake_first_weight_of_other_layer, CHANGED,
      false },
    { "router_bias_left_out", EXPERTS, ROUTER, 1, "blk.1.expert_", kg_mistake_first_bias_left_out, CHANGED, false },
    { "one_expert_fewer", EXPERTS, ROUTER, 0, "blk.0.expert_", kg_mistake_one_expert_fewer, CHANGED, false },
#define EXPERT_FFN "experts' gate, up + swiglu; down"
    { "experts_gate_and_up_swapped", EXPERTS, EXPERT_FFN, 0, "blk.0.expert_out", kg_mistake_expert_gate_and_up_swapped,
      CHANGED, true },
    { "experts_gate_half_as_steep", EXPERTS, EXPERT_FFN, 0, "blk.0.expert_out", kg_mistake_gate_half_as_steep, CHANGED,
      true },
    { "experts_down_of_other_layer", EXPERTS, EXPERT_FFN, 0, "blk.0.expert_out", kg_mistake_down_of_other_layer,
      CHANGED, true },
    { "experts_down_bias_left_out", EXPERTS, EXPERT_FFN, 1, "blk.1.expert_out", kg_mistake_down_bias_left_out, CHANGED,
      true },
#define BLOCK_LINEAR "linear of block formats"
    { "logits_by_the_embedding", CHUNKS, BLOCK_LINEAR, 0, "logits", kg_mistake_logits_by_the_embedding, CHANGED,
      false },
    { "chunks_q_of_other_layer", CHUNKS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_first_weight_of_other_layer, CHANGED,
      false },
    { "chunks_norm_left_out", CHUNKS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_norm_left_out, CHANGED, false },
    { "chunks_rotation_left_out", CHUNKS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_rotation_left_out, CHANGED, false },
    { "chunks_slot_off_by_one", CHUNKS, QKV_HEADS, 0, "blk.0.k_cache", kg_mistake_slot_off_by_one, CHANGED, false },
    { "chunks_gated_norm_left_out", CHUNKS, GATED, 0, "blk.0.ffn_act", kg_mistake_norm_left_out, CHANGED, false },
    { "chunks_gate_and_up_swapped", CHUNKS, GATED, 0, "blk.0.ffn_act", kg_mistake_gate_and_up_swapped, CHANGED, false },
    { "chunks_product_added_twice", CHUNKS, LINEAR_ADD, 0, "blk.0.attn_residual", NULL, TWICE, false },
    { "chunks_q_bias_left_out", CHUNKS, QKV_HEADS, 0, "blk.0.q_rope", kg_mistake_first_bias_left_out, CHANGED, false },
    { "chunks_keys_by_weight_of_queries", CHUNKS, QKV_HEADS, 0, "blk.0.k_cache", kg_mistake_keys_by_weight_of_queries,
      CHANGED, false },
    { "chunks_down_of_other_layer", CHUNKS, LINEAR_ADD, 1, "blk.0.out", kg_mistake_first_weight_of_other_layer, CHANGED,
      false },
#define COMBINE "experts_combine + add"
    { "last_expert_left_out", EXPERTS, COMBINE, 0, "blk.1.out", kg_mistake_last_expert_left_out, CHANGED, false },
    { "experts_added_twice", EXPERTS, COMBINE, 0, "blk.1.out", NULL, TWICE, false },
    /* Instructions of the persistent kernel. */
    { "embedding_of_next_id", ONE_LAUNCH, "embedding", 0, "blk.0.k_cache", kg_mistake_next_row, CHANGED, false },
    { "norm_left_out", ONE_LAUNCH, QKV, 0, "blk.0.k_cache", kg_mistake_norm_left_out, CHANGED, false },
    { "q_weight_of_other_layer", ONE_LAUNCH, QKV, 0, "blk.1.k_cache", kg_mistake_first_weight_of_other_layer, CHANGED,
      false },
    { "bias_of_keys_left_out", ONE_LAUNCH, QKV, 0, "blk.0.k_cache", kg_mistake_bias_of_keys_left_out, CHANGED, false },
    { "values_by_weight_of_keys", ONE_LAUNCH, QKV, 1, "blk.1.v_cache", kg_mistake_values_by_weight_of_keys, CHANGED,
      false },
#define ATTEND "rope + kv_write + attention"
    { "rotation_left_out", ONE_LAUNCH, ATTEND, 0, "blk.0.k_cache", kg_mistake_rotation_left_out, CHANGED, false },
    { "other_pairs", ONE_LAUNCH, ATTEND, 0, "blk.0.k_cache", kg_mistake_other_pairs, CHANGED, false },
    { "slot_off_by_one", ONE_LAUNCH, ATTEND, 1, "blk.1.k_cache", kg_mistake_slot_off_by_one, CHANGED, false },
    { "window_of_three", ONE_LAUNCH, ATTEND, 0, "blk.1.k_cache", kg_mistake_window_of_three, CHANGED, false },
    { "first_splits_unmerged", ONE_LAUNCH, ATTEND, 0, "blk.1.k_cache", kg_mistake_first_splits_unmerged, CHANGED,
      false },
    { "out_weight_of_other_layer", ONE_LAUNCH, LINEAR_ADD, 0, "blk.1.k_cache", kg_mistake_first_weight_of_other_layer,
      CHANGED, false },
    { "down_weight_of_other_layer", ONE_LAUNCH, LINEAR_ADD, 1, "blk.1.k_cache", kg_mistake_first_weight_of_other_layer,
      CHANGED, false },
    { "down_bias_left_out_in_the_last_layer", ONE_LAUNCH, LINEAR_ADD, 3, "logits", kg_mistake_first_bias_left_out,
      CHANGED, false },
    { "gated_norm_left_out", ONE_LAUNCH, GATED, 0, "blk.1.k_cache", kg_mistake_norm_left_out, CHANGED, false },
    { "gate_and_up_swapped", ONE_LAUNCH, GATED, 1, "logits", kg_mistake_gate_and_up_swapped, CHANGED, false },
#define OUTPUT "rmsnorm + linear"
    { "output_norm_left_out", ONE_LAUNCH, OUTPUT, 0, "logits", kg_mistake_norm_left_out, CHANGED, false },
};

struct lowered_case {
    const struct scene *scene;
    const struct mutant *mutant;
    int precision;
};
static struct lowered_case lowered_cases[N_PRECISIONS * (KG_COUNT_OF(SCENES) + KG_COUNT_OF(MUTANTS))];
static size_t n_lowered_cases;

static const struct scene *scene_of(const char *name) {
    for (size_t i = 0; i < KG_COUNT_OF(SCENES); i++)
        if (strcmp(SCENES[i].name, name) == 0) return &SCENES[i];
    fprintf(stderr, "no scene is called %s\n", name);
    abort();
}

/* A scene's model with positions behind it, and its step. */
struct opened {
    struct kg_backend *backend;
    struct kg_model *model;
    struct kg_session *session;
    struct kg_block ones;
    struct kg_launch_compare launches;
};

static void put_ones(struct opened *o) {
    const size_t n = o->session->config->n_embd;
    struct kg_error err;
    float *ones = kg_xcalloc(n, sizeof *ones);
    for (size_t i = 0; i < n; i++) ones[i] = 1;
    kg_must(o->backend->ops->alloc(o->backend, KG_MEMORY_WORKSPACE, n * sizeof *ones, "ones", &o->ones, &err), &err);
    kg_must(o->backend->ops->upload(o->backend, o->ones.data, ones, n * sizeof *ones, &err), &err);
    free(ones);
}

/* False after a skip. */
static bool scene_open(struct kg_record *rec, const struct lowered_case *c, struct opened *o) {
    const struct scene *scene = c->scene;
    const struct kg_session_options options = { scene->model.n_ctx, PRECISIONS[c->precision].activations,
                                                PRECISIONS[c->precision].kv };
    struct kg_tiny_model model = scene->model;
    struct kg_error err;
    const float *logits;
    *o = (struct opened){ 0 };
    if (!kg_backend_or_skip(rec, "cuda")) return false;
    char *path = kg_path_join(kg_scratch_dir(rec), "scene.gguf");
    model.matrices = PRECISIONS[c->precision].matrices;
    model.more_bits = PRECISIONS[c->precision].more_bits;
    kg_tiny_model_write(path, &model, NULL, 0);
    kg_must(kg_backend_open("cuda", 0, &o->backend, &err), &err);
    kg_must(kg_model_load(path, o->backend, NULL, &o->model, &err), &err);
    kg_must(kg_session_create(o->model, &options, &o->session, &err), &err);
    free(path);
    int32_t *ids = kg_xcalloc(scene->n_past, sizeof *ids);
    for (uint32_t i = 0; i < scene->n_past; i++) ids[i] = (int32_t)((31 * i * i + 17 * i + 5) % model.n_vocab);
    kg_must(kg_session_eval(o->session, ids, scene->n_past, KG_LOGITS_LAST, &logits, &err), &err);
    free(ids);
    put_ones(o);
    kg_launch_compare_open(o->session, 42, &o->launches);
    return true;
}

static void scene_close(struct opened *o) {
    kg_launch_compare_close(&o->launches);
    o->backend->ops->free(o->backend, &o->ones);
    kg_session_free(o->session);
    kg_model_free(o->model);
    kg_backend_close(o->backend);
}

static uint32_t compared_step_of(const struct kg_launch_compare *w, uint32_t node) {
    uint32_t i = 0;
    while (node >= w->steps[i].first + w->steps[i].n) i++;
    return i;
}

/* A copy of the session's plan with room for as many nodes again, cut after the step: all of it where that is
 * one launch. */
static struct kg_plan plan_until(const struct opened *o, uint32_t step) {
    struct kg_plan plan = *o->session->plan;
    plan.nodes = kg_xcalloc(2 * (size_t)plan.n_nodes, sizeof *plan.nodes);
    memcpy(plan.nodes, o->session->plan->nodes, plan.n_nodes * sizeof *plan.nodes);
    plan.n_nodes = o->launches.steps[step].first + o->launches.steps[step].n;
    if (plan.n_body > plan.n_nodes) plan.n_body = plan.n_nodes;
    return plan;
}

static struct kg_step_difference compared(const struct opened *o, const struct kg_plan *plan, uint32_t step,
                                          const struct kg_lowered_step *kernel, int precision) {
    struct kg_step_difference first;
    kg_launch_compare_run(&o->launches, plan, step, kernel, &PRECISIONS[precision].tol, &first);
    return first;
}

static void every_launch_is_as_the_operations(struct kg_record *rec, const void *arg) {
    const struct lowered_case *c = arg;
    struct opened o;
    if (!scene_open(rec, c, &o)) return;
    const struct kg_lowered *l = o.session->lowered;
    const char *attention = attention_of(c->scene, c->precision), *path = attention ? GRAPH : c->scene->path;
    ck_assert_msg(strcmp(l->path, path) == 0, "the step is a %s, refused: %s", l->path,
                  l->n_refusals > 0 ? l->refusals[0].why : "nothing");
    for (uint32_t i = 0, n_seen = 0; i < l->n_steps; i++) {
        if (!l->steps[i].attention || n_seen++ > 0) continue;
        ck_assert_str_eq(l->steps[i].attention, attention);
    }
    for (uint32_t step = 0; step < o.launches.n_steps; step++) {
        struct kg_plan plan = plan_until(&o, step);
        const struct kg_step_difference d =
            compared(&o, &plan, step, l->is_one_launch ? NULL : &l->steps[step], c->precision);
        char name[80];
        free(plan.nodes);
        if (d.margin < 0) continue; /* it leaves nothing that is not looked at elsewhere */
        snprintf(name, sizeof name, "step_%u_%s", step, d.name);
        kg_record_judged(rec, name, &d.compare, &PRECISIONS[c->precision].tol);
        ck_assert_msg(d.margin <= 1, "step %u (%s): %s is outside its tolerance by a factor of %.4g", step,
                      o.launches.steps[step].kernel, d.name, d.margin);
    }
    kg_record_metric(rec, "steps", "count", o.launches.n_steps);
    kg_record_metric(rec, "places", "count", (double)o.launches.n_places);
    scene_close(&o);
}

/* The nth step or instruction of that kernel. */
static const struct kg_lowered_step *step_named(const struct kg_lowered *l, const char *kernel, uint32_t nth) {
    for (uint32_t i = 0; i < l->n_steps; i++)
        if (l->steps[i].is_fused && strcmp(l->steps[i].kernel, kernel) == 0 && nth-- == 0) return &l->steps[i];
    ck_abort_msg("no step is %s, or too few are", kernel);
}

static void make_mistake(const struct opened *o, const struct mutant *m, const struct kg_lowered_step *step,
                         struct kg_plan *plan) {
    const struct kg_lowered_site site = { .n = plan->nodes + step->first,
                                          .nodes = plan->nodes,
                                          .n_step = step->n,
                                          .n_nodes = o->session->plan->n_nodes,
                                          .ones = o->ones.data,
                                          .alike = o->session->lowered->is_one_launch };
    if (m->change) m->change(&site);
    if (m->how == TWICE) memcpy(site.n + step->n, site.n, step->n * sizeof *site.n);
    if (m->how == TWICE) plan->n_nodes = plan->n_body = plan->n_nodes + step->n;
    if (m->how == LEFT_OUT) plan->n_nodes = plan->n_body = step->first;
}

static void mutant_is_rejected(struct kg_record *rec, const void *arg) {
    const struct lowered_case *c = arg;
    const struct mutant *m = c->mutant;
    struct opened o;
    if (!scene_open(rec, c, &o)) return;
    const struct kg_lowered *l = o.session->lowered;
    const struct kg_lowered_step *kernel = step_named(l, m->kernel, m->nth);
    const uint32_t step = compared_step_of(&o.launches, kernel->first);
    struct kg_plan plan = plan_until(&o, step);
    const struct kg_step_difference control = compared(&o, &plan, step, kernel, c->precision);
    ck_assert_msg(control.margin >= 0 && control.margin <= 1, "the step itself is at %.4g of its tolerance (%s)",
                  control.margin, control.name ? control.name : "it leaves nothing");
    make_mistake(&o, m, kernel, &plan);
    const struct kg_step_difference d = compared(&o, &plan, step, m->how == LEFT_OUT ? NULL : kernel, c->precision);
    ck_assert_msg(d.margin > 1, "the mutant lives: %s is at %.4g of its tolerance", d.name, d.margin);
    ck_assert_msg(strncmp(d.name, m->first, strlen(m->first)) == 0, "the first place outside is %s, not %s", d.name,
                  m->first);
    ck_assert_msg(isfinite(d.margin), "%s is not finite: the mutant did not run to its end", d.name);
    kg_record_compare(rec, d.name, &d.compare, &PRECISIONS[c->precision].tol);
    kg_record_metric(rec, "kill_factor", "ratio", d.margin);
    kg_record_metric(rec, "control_margin", "ratio", control.margin);
    free(plan.nodes);
    scene_close(&o);
}

static bool is_of(const struct mutant *m, const char *path, const char *name) {
    const struct scene *scene = scene_of(m->scene);
    if (strcmp(path, "attention") != 0) return strcmp(scene->path, path) == 0 && strcmp(m->kernel, name) == 0;
    if (strcmp(m->kernel, ATTENTION) != 0) return false;
    for (int p = F16; p <= (m->f16_only ? F16 : F32); p++)
        if (scene->attention[p] && strcmp(scene->attention[p], name) == 0) return true;
    return false;
}

/* Of steps of one name there must be mutants of the first, of the second ... */
static void every_step_has_a_mutant(struct kg_record *rec, const void *arg) {
    const char *path, *name, *before;
    size_t n = 0;
    (void)arg;
    if (!kg_cuda_ops.step_kind) {
        kg_record_skip(rec, "this build has no kernels");
        return;
    }
    for (uint32_t i = 0; (name = kg_cuda_ops.step_kind(i, &path)); i++, n++) {
        const char *path_before;
        uint32_t nth = 0;
        bool any = false;
        for (uint32_t j = 0; j < i; j++) {
            before = kg_cuda_ops.step_kind(j, &path_before);
            nth += strcmp(before, name) == 0 && strcmp(path_before, path) == 0;
        }
        for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++)
            any = any || (is_of(&MUTANTS[m], path, name) && (nth == 0 || MUTANTS[m].nth == nth));
        ck_assert_msg(any, "no mutant is of the %s's %s (%u of that name before it)", path, name, nth);
    }
    ck_assert_uint_gt(n, 0);
    kg_record_metric(rec, "kinds", "count", (double)n);
}

static void add(struct kg_case_list *cases, const char *layer, const char *name, const struct lowered_case *c,
                void (*run)(struct kg_record *, const void *)) {
    struct lowered_case *kept = &lowered_cases[n_lowered_cases++];
    *kept = *c;
    char *shape = kg_xasprintf("%s keys=%u", c->scene->name, c->scene->n_past + 1);
    kg_case_list_add(cases, &(struct kg_case){ .layer = layer,
                                               .op = "lowered_step",
                                               .name = name,
                                               .backend = "cuda",
                                               .dtype = PRECISIONS[c->precision].dtype,
                                               .shape = shape,
                                               .run = run,
                                               .arg = kept });
    free(shape);
}

static void build(struct kg_case_list *cases) {
    for (int p = 0; p < N_PRECISIONS; p++) {
        for (size_t i = 0; i < KG_COUNT_OF(SCENES); i++) {
            const struct lowered_case c = { &SCENES[i], NULL, p };
            if (suits(&SCENES[i], p)) add(cases, "tolerance", "every_launch", &c, every_launch_is_as_the_operations);
        }
        if (p != F16 && p != F32 && p != Q8_0 && p != Q4_K_Q6_K) continue;
        for (size_t m = 0; m < KG_COUNT_OF(MUTANTS); m++) {
            const struct lowered_case c = { scene_of(MUTANTS[m].scene), &MUTANTS[m], p };
            if ((p == F32 && MUTANTS[m].f16_only) || !suits(c.scene, p)) continue;
            if (p < BLOCKS || c.scene->blocks_only) add(cases, "mutation", MUTANTS[m].name, &c, mutant_is_rejected);
        }
    }
    kg_case_list_add(cases, &(struct kg_case){ .layer = "mutation",
                                               .op = "lowered_step",
                                               .name = "every_step_has_a_mutant",
                                               .backend = "cuda",
                                               .run = every_step_has_a_mutant });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
