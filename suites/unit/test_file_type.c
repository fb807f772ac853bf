/* Which tensor gets which dtype: llama.cpp's rules (src/llama-quant.cpp) worked out by hand, what its quantiser gives
 * each tensor of models that differ in what the rules ask, and the counts that its loader prints of published files. */
#include "base/size.h"
#include "convert/file_type.h"
#include "convert/synth.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct kg_file_type *find(const char *name) {
    const struct kg_file_type *type;
    struct kg_error err;
    kg_must(kg_file_type_find(name, &type, &err), &err);
    return type;
}

/* Tensors of whole models by dtype. Those of Llama-3.1-8B and gpt-oss-20b are what llama.cpp prints when it loads the
 * published files ("type q4_K: 193 tensors"). Qwen2.5-0.5B's rows of 896 are no blocks of 256: 5 matrices of 24 layers
 * and 12 V are Q5_0, 12 V and the tied embedding Q8_0. */
struct count_row {
    const char *name, *like, *type;
    struct {
        enum kg_dtype dtype;
        size_t n;
    } counts[4];
};
static const struct count_row COUNTS[] = {
    { "llama_3_1_8b_q4_k_m",
      "llama-3.1-8b",
      "q4_k_m",
      { { KG_DTYPE_F32, 66 }, { KG_DTYPE_Q4_K, 193 }, { KG_DTYPE_Q6_K, 33 } } },
    { "llama_3_1_8b_q5_k_m",
      "llama-3.1-8b",
      "q5_k_m",
      { { KG_DTYPE_F32, 66 }, { KG_DTYPE_Q5_K, 193 }, { KG_DTYPE_Q6_K, 33 } } },
    { "llama_3_1_8b_q4_k_s",
      "llama-3.1-8b",
      "q4_k_s",
      { { KG_DTYPE_F32, 66 }, { KG_DTYPE_Q4_K, 217 }, { KG_DTYPE_Q5_K, 8 }, { KG_DTYPE_Q6_K, 1 } } },
    { "llama_3_1_8b_q5_k_s",
      "llama-3.1-8b",
      "q5_k_s",
      { { KG_DTYPE_F32, 66 }, { KG_DTYPE_Q5_K, 225 }, { KG_DTYPE_Q6_K, 1 } } },
    { "llama_3_1_8b_q4_0",
      "llama-3.1-8b",
      "q4_0",
      { { KG_DTYPE_F32, 66 }, { KG_DTYPE_Q4_0, 225 }, { KG_DTYPE_Q6_K, 1 } } },
    { "llama_3_1_8b_q8_0", "llama-3.1-8b", "q8_0", { { KG_DTYPE_F32, 66 }, { KG_DTYPE_Q8_0, 226 } } },
    { "llama_3_1_8b_q4_k", "llama-3.1-8b", "q4_k", { { KG_DTYPE_F32, 66 }, { KG_DTYPE_Q4_K, 226 } } },
    { "llama_3_1_8b_bf16", "llama-3.1-8b", "bf16", { { KG_DTYPE_F32, 66 }, { KG_DTYPE_BF16, 226 } } },
    { "qwen2_5_0_5b_q4_k_m",
      "qwen2.5-0.5b",
      "q4_k_m",
      { { KG_DTYPE_Q5_0, 132 }, { KG_DTYPE_Q8_0, 13 }, { KG_DTYPE_Q4_K, 12 }, { KG_DTYPE_Q6_K, 12 } } },
    { "phi_3_mini_q4_k_m",
      "phi-3-mini",
      "q4_k_m",
      { { KG_DTYPE_F32, 65 }, { KG_DTYPE_Q4_K, 97 }, { KG_DTYPE_Q6_K, 33 } } },
    { "gpt_oss_20b_mxfp4_moe",
      "gpt-oss-20b",
      "mxfp4_moe",
      { { KG_DTYPE_F32, 289 }, { KG_DTYPE_Q8_0, 98 }, { KG_DTYPE_MXFP4, 72 } } },
    { "gpt_oss_20b_mxfp4",
      "gpt-oss-20b",
      "mxfp4",
      { { KG_DTYPE_F32, 289 }, { KG_DTYPE_F16, 98 }, { KG_DTYPE_MXFP4, 72 } } },
};

static void counts_are(struct kg_record *rec, const void *arg) {
    const struct count_row *row = arg;
    const struct kg_synth_options options = { .like = row->like, .type = row->type };
    struct kg_synth_plan plan;
    struct kg_error err;
    size_t n[KG_DTYPE_COUNT] = { 0 };
    (void)rec;
    kg_must(kg_synth_plan_make(&options, &plan, &err), &err);
    for (size_t i = 0; i < plan.n_tensors; i++) n[plan.tensors[i].dtype]++;
    for (size_t i = 0; i < KG_COUNT_OF(row->counts) && row->counts[i].n; i++)
        ck_assert_msg(n[row->counts[i].dtype] == row->counts[i].n, "%zu tensors are %s, not %zu",
                      n[row->counts[i].dtype], kg_dtype_info(row->counts[i].dtype)->name, row->counts[i].n);
    kg_synth_plan_free(&plan);
}

/* One tensor each. Unless said, a llama of 32 layers without experts and a matrix of 4096 x 64. */
struct tensor_row {
    const char *name, *type, *tensor;
    enum kg_dtype dtype;
    struct kg_file_type_model model;
    uint64_t n_cols, n_experts; /* of the tensor */
    enum kg_dtype by_rules;     /* where rows do not fit it; F32: the same */
};
#define LAYERS(n)                                                                                                      \
    { .architecture = "llama", .n_layers = (n), .n_heads = 32, .n_kv_heads = 8 }
#define EXPERTS(n)                                                                                                     \
    { .architecture = "llama", .n_layers = 32, .n_heads = 32, .n_kv_heads = 8, .n_experts = (n) }
#define OF_80(name, kv)                                                                                                \
    { .architecture = (name), .n_layers = 80, .n_heads = 64, .n_kv_heads = (kv) }
#define ROW(name_, type_, tensor_, dtype_) .name = name_, .type = type_, .tensor = tensor_, .dtype = dtype_
static const struct tensor_row TENSORS[] = {
    /* n / 8 = 4: layers 0 to 3, 28 to 31, and 6, 9, ... 27 have more bits */
    { ROW("v_of_layer_3", "q4_k_m", "blk.3.attn_v.weight", KG_DTYPE_Q6_K) },
    { ROW("v_of_layer_4", "q4_k_m", "blk.4.attn_v.weight", KG_DTYPE_Q4_K) },
    { ROW("v_of_layer_5", "q4_k_m", "blk.5.attn_v.weight", KG_DTYPE_Q4_K) },
    { ROW("v_of_layer_6", "q4_k_m", "blk.6.attn_v.weight", KG_DTYPE_Q6_K) },
    { ROW("v_of_layer_26", "q4_k_m", "blk.26.attn_v.weight", KG_DTYPE_Q4_K) },
    { ROW("v_of_layer_28", "q4_k_m", "blk.28.attn_v.weight", KG_DTYPE_Q6_K) },
    { ROW("v_of_layer_31", "q5_k_m", "blk.31.attn_v.weight", KG_DTYPE_Q6_K) },
    { ROW("v_of_layer_29_of_36", "q4_k_m", "blk.29.attn_v.weight", KG_DTYPE_Q4_K),
      .model = LAYERS(36) }, /* 7 * 36 / 8 = 31 */
    { ROW("v_of_layer_31_of_36", "q4_k_m", "blk.31.attn_v.weight", KG_DTYPE_Q6_K), .model = LAYERS(36) },
    { ROW("down_of_layer_9", "q5_k_m", "blk.9.ffn_down.weight", KG_DTYPE_Q6_K) },
    { ROW("down_of_layer_10", "q5_k_m", "blk.10.ffn_down.weight", KG_DTYPE_Q5_K) },
    { ROW("experts_down_of_layer_9", "q4_k_m", "blk.9.ffn_down_exps.weight", KG_DTYPE_Q6_K), .model = EXPERTS(64),
      .n_cols = 4096, .n_experts = 64 },
    { ROW("fused_qkv_is_v", "q4_k_m", "blk.0.attn_qkv.weight", KG_DTYPE_Q6_K) },
    { ROW("q_of_layer_0", "q4_k_m", "blk.0.attn_q.weight", KG_DTYPE_Q4_K) },
    { ROW("k_of_layer_0", "q4_k_m", "blk.0.attn_k.weight", KG_DTYPE_Q4_K) },
    { ROW("attention_output_of_layer_0", "q4_k_m", "blk.0.attn_output.weight", KG_DTYPE_Q4_K) },
    { ROW("gate_of_layer_0", "q5_k_m", "blk.0.ffn_gate.weight", KG_DTYPE_Q5_K) },
    { ROW("up_of_layer_0", "q4_k_m", "blk.0.ffn_up.weight", KG_DTYPE_Q4_K) },
    { ROW("small_v_of_layer_3", "q4_k_s", "blk.3.attn_v.weight", KG_DTYPE_Q5_K) },
    { ROW("small_v_of_layer_4", "q4_k_s", "blk.4.attn_v.weight", KG_DTYPE_Q4_K) },
    { ROW("small_down_of_layer_3", "q4_k_s", "blk.3.ffn_down.weight", KG_DTYPE_Q5_K) },
    { ROW("small_down_of_layer_4", "q4_k_s", "blk.4.ffn_down.weight", KG_DTYPE_Q4_K) },
    { ROW("small_down_of_layer_2_of_16", "q4_k_s", "blk.2.ffn_down.weight", KG_DTYPE_Q4_K), .model = LAYERS(16) },
    { ROW("small_v_of_q5", "q5_k_s", "blk.0.attn_v.weight", KG_DTYPE_Q5_K) },
    /* The output, and an embedding that is it */
    { ROW("output_of_q4_k_m", "q4_k_m", "output.weight", KG_DTYPE_Q6_K) },
    { ROW("output_of_q4_0", "q4_0", "output.weight", KG_DTYPE_Q6_K) },
    { ROW("output_of_q5_0", "q5_0", "output.weight", KG_DTYPE_Q6_K) },
    { ROW("output_of_q8_0", "q8_0", "output.weight", KG_DTYPE_Q8_0) },
    { ROW("output_of_f16", "f16", "output.weight", KG_DTYPE_F16) },
    { ROW("output_of_mxfp4_moe", "mxfp4_moe", "output.weight", KG_DTYPE_Q8_0) },
    { ROW("output_of_all_alike", "q4_k", "output.weight", KG_DTYPE_Q4_K) },
    { ROW("embedding", "q4_k_m", "token_embd.weight", KG_DTYPE_Q4_K) },
    { ROW("tied_embedding", "q4_k_m", "token_embd.weight", KG_DTYPE_Q6_K),
      .model = { .architecture = "llama", .n_layers = 32, .tied = true } },
    { ROW("output_of_odd_rows", "q4_k_m", "output.weight", KG_DTYPE_Q8_0), .model = LAYERS(32), .n_cols = 896 },
    { ROW("output_of_q4_0_of_odd_rows", "q4_0", "output.weight", KG_DTYPE_Q8_0), .model = LAYERS(32), .n_cols = 896,
      .by_rules = KG_DTYPE_Q6_K },
    /* Rows that are no whole blocks */
    { ROW("q4_k_of_odd_rows", "q4_k_m", "blk.4.attn_q.weight", KG_DTYPE_Q5_0), .model = LAYERS(32), .n_cols = 896,
      .by_rules = KG_DTYPE_Q4_K },
    { ROW("q5_k_of_odd_rows", "q5_k_m", "blk.4.attn_q.weight", KG_DTYPE_Q8_0), .model = LAYERS(32), .n_cols = 896,
      .by_rules = KG_DTYPE_Q5_K },
    { ROW("q6_k_of_odd_rows", "q6_k", "blk.4.attn_q.weight", KG_DTYPE_Q8_0), .model = LAYERS(32), .n_cols = 896,
      .by_rules = KG_DTYPE_Q6_K },
    { ROW("q4_k_of_odder_rows", "q4_k_m", "blk.4.attn_q.weight", KG_DTYPE_F16), .model = LAYERS(32), .n_cols = 80,
      .by_rules = KG_DTYPE_Q4_K },
    { ROW("q8_0_of_odd_rows", "q8_0", "blk.4.attn_q.weight", KG_DTYPE_F16), .model = LAYERS(32), .n_cols = 80,
      .by_rules = KG_DTYPE_Q8_0 },
    { ROW("f16_of_odd_rows", "f16", "blk.4.attn_q.weight", KG_DTYPE_F16), .model = LAYERS(32), .n_cols = 81 },
    /* Experts */
    { ROW("experts_of_mxfp4_moe", "mxfp4_moe", "blk.0.ffn_up_exps.weight", KG_DTYPE_MXFP4), .model = EXPERTS(32),
      .n_cols = 2880, .n_experts = 32 },
    { ROW("one_expert_of_mxfp4_moe", "mxfp4_moe", "blk.0.ffn_up_exps.weight", KG_DTYPE_Q8_0), .model = EXPERTS(1),
      .n_cols = 2880, .n_experts = 1 },
    { ROW("attention_of_mxfp4_moe", "mxfp4_moe", "blk.0.attn_q.weight", KG_DTYPE_Q8_0), .model = EXPERTS(32),
      .n_cols = 2880 },
    { ROW("v_of_8_experts", "q4_k_m", "blk.4.attn_v.weight", KG_DTYPE_Q8_0), .model = EXPERTS(8) },
    { ROW("k_of_8_experts", "q6_k", "blk.4.attn_k.weight", KG_DTYPE_Q8_0), .model = EXPERTS(8) },
    { ROW("k_of_9_experts", "q6_k", "blk.4.attn_k.weight", KG_DTYPE_Q6_K), .model = EXPERTS(9) },
    { ROW("attention_output_of_8_experts", "q4_k_m", "blk.4.attn_output.weight", KG_DTYPE_Q5_K), .model = EXPERTS(8) },
    { ROW("attention_output_of_8_experts_small", "q4_k_s", "blk.4.attn_output.weight", KG_DTYPE_Q5_K),
      .model = EXPERTS(8) },
    { ROW("attention_output_of_8_experts_q5", "q5_k_m", "blk.4.attn_output.weight", KG_DTYPE_Q5_K),
      .model = EXPERTS(8) },
    { ROW("attention_output_of_8_experts_q4_0", "q4_0", "blk.4.attn_output.weight", KG_DTYPE_Q4_0),
      .model = EXPERTS(8) },
    /* 80 layers: n / 8 = 10, layer 11 has no more bits */
    { ROW("v_of_70b", "q4_k_m", "blk.11.attn_v.weight", KG_DTYPE_Q5_K), .model = OF_80("llama", 8) },
    { ROW("v_of_70b_small", "q4_k_s", "blk.11.attn_v.weight", KG_DTYPE_Q5_K), .model = OF_80("llama", 8) },
    { ROW("v_of_70b_first", "q4_k_m", "blk.9.attn_v.weight", KG_DTYPE_Q6_K), .model = OF_80("llama", 8) },
    { ROW("v_of_65b", "q4_k_m", "blk.11.attn_v.weight", KG_DTYPE_Q4_K), .model = OF_80("llama", 64) },
    { ROW("v_of_qwen2_72b", "q4_k_m", "blk.11.attn_v.weight", KG_DTYPE_Q5_K), .model = OF_80("qwen2", 64) },
    { ROW("v_of_qwen3_of_80", "q4_k_m", "blk.11.attn_v.weight", KG_DTYPE_Q4_K), .model = OF_80("qwen3", 8) },
    { ROW("down_of_70b", "q4_k_m", "blk.11.ffn_down.weight", KG_DTYPE_Q4_K), .model = OF_80("llama", 8) },
};

static void dtype_is(struct kg_record *rec, const void *arg) {
    static const struct kg_file_type_model USUAL = LAYERS(32);
    const struct tensor_row *row = arg;
    const uint64_t dims[] = { row->n_cols ? row->n_cols : 4096, 64, row->n_experts };
    const struct kg_file_type_tensor tensor = { row->tensor, row->n_experts ? 3 : 2, dims };
    enum kg_dtype by_rules;
    (void)rec;
    ck_assert(kg_file_type_applies(&tensor));
    const enum kg_dtype dtype =
        kg_file_type_dtype(find(row->type), row->model.architecture ? &row->model : &USUAL, &tensor, &by_rules);
    ck_assert_str_eq(kg_dtype_info(dtype)->name, kg_dtype_info(row->dtype)->name);
    const enum kg_dtype want = row->by_rules ? row->by_rules : row->dtype;
    ck_assert_str_eq(kg_dtype_info(by_rules)->name, kg_dtype_info(want)->name);
}

/* ---- What llama.cpp's quantiser itself gives each tensor: fixtures/quantize. ---- */

static const char *const MODELS[] = {
    "llama_8b",           "llama_13_layers",     "llama_65b",  "llama_70b", "llama_4_experts",
    "llama_8_experts",    "llama_of_80_columns", "qwen2_0_5b", "qwen2_72b", "qwen3_8b",
    "qwen3_of_80_layers", "gemma3_1b",           "phi3_mini",  "gpt2",      "gpt_oss_20b"
};

static const json_t *golden_model(const char *name) {
    static json_t *all;
    json_error_t why;
    size_t i;
    const json_t *model;
    if (!all) all = json_load_file(kg_fixture_path("quantize/types.json"), 0, &why);
    ck_assert_msg(all != NULL, "types.json: %s", why.text);
    json_array_foreach(json_object_get(all, "models"), i,
                       model) if (strcmp(json_string_value(json_object_get(model, "name")), name) == 0) return model;
    ck_abort_msg("types.json has no '%s'", name);
    return NULL;
}

static uint32_t count_of(const json_t *model, const char *name) {
    return (uint32_t)json_integer_value(json_object_get(model, name));
}

/* Q5_1, which kigo does not read, is Q8_0 here. */
static void expect_as_golden(const struct kg_file_type *type, const struct kg_file_type_model *model,
                             const char *tensor_name, const json_t *dims_json, const char *want) {
    uint64_t dims[3] = { 0 };
    enum kg_dtype by_rules, dtype = KG_DTYPE_F32; /* as all tensors of the models are */
    const struct kg_file_type_tensor tensor = { tensor_name, (uint32_t)json_array_size(dims_json), dims };
    for (size_t d = 0; d < tensor.n_dims; d++) dims[d] = (uint64_t)json_integer_value(json_array_get(dims_json, d));
    if (kg_file_type_applies(&tensor)) dtype = kg_file_type_dtype(type, model, &tensor, &by_rules);
    if (strcmp(want, "Q5_1") == 0) want = "Q8_0";
    ck_assert_msg(strcmp(kg_dtype_info(dtype)->name, want) == 0, "%s, %s: %s, llama.cpp: %s", type->name, tensor_name,
                  kg_dtype_info(dtype)->name, want);
}

/* A type for all layers, or [[type, how many layers], ...]. */
static const char *type_of_layer(const json_t *runs, uint32_t layer) {
    size_t i;
    const json_t *run;
    if (json_is_string(runs)) return json_string_value(runs);
    json_array_foreach(runs, i, run) {
        const uint32_t n = (uint32_t)json_integer_value(json_array_get(run, 1));
        if (layer < n) return json_string_value(json_array_get(run, 0));
        layer -= n;
    }
    return "none";
}

static void as_llama_cpp(struct kg_record *rec, const void *arg) {
    const json_t *golden = golden_model(*(const char *const *)arg), *dims, *of_type;
    const struct kg_file_type_model model = {
        .architecture = json_string_value(json_object_get(golden, "architecture")),
        .n_layers = count_of(golden, "n_layers"),
        .n_heads = count_of(golden, "n_heads"),
        .n_kv_heads = count_of(golden, "n_kv_heads"),
        .n_experts = count_of(golden, "n_experts"),
        .tied = json_is_true(json_object_get(golden, "tied")),
    };
    const char *type_name, *name;
    size_t n_compared = 0;
    json_object_foreach(json_object_get(golden, "types"), type_name, of_type) {
        const struct kg_file_type *type = find(type_name);
        json_object_foreach(json_object_get(golden, "once"), name, dims)
            expect_as_golden(type, &model, name, dims, json_string_value(json_object_get(of_type, name)));
        json_object_foreach(json_object_get(golden, "layer"), name,
                            dims) for (uint32_t layer = 0; layer < model.n_layers; layer++, n_compared++) {
            char full[64];
            snprintf(full, sizeof full, "blk.%u.%s", layer, name);
            expect_as_golden(type, &model, full, dims, type_of_layer(json_object_get(of_type, name), layer));
        }
    }
    kg_record_metric(rec, "tensors", "count", (double)n_compared);
    ck_assert_uint_ge(n_compared, (size_t)14 * 6 * model.n_layers);
}

/* general.file_type: llama.h's numbers. */
static void ids_are_llama_cpps(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *name;
        uint32_t id;
    } IDS[] = { { "f32", 0 },     { "F16", 1 },     { "q4_0", 2 },    { "q8_0", 7 },       { "q5_0", 8 },
                { "Q4_K_S", 14 }, { "q4_k_m", 15 }, { "q5_k_s", 16 }, { "q5_k_m", 17 },    { "q6_k", 18 },
                { "bf16", 32 },   { "mxfp4", 38 },  { "q4_k", 14 },   { "mxfp4_moe", 38 }, { "q5_k", 16 } };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(IDS); i++) ck_assert_uint_eq(find(IDS[i].name)->id, IDS[i].id);
}

/* Each name that help and errors list is one. */
static void listed_names_are_found(struct kg_record *rec, const void *arg) {
    char names[] = KG_FILE_TYPE_NAMES ", " KG_FILE_TYPE_PLAIN_NAMES, *rest = names;
    size_t n = 0;
    (void)rec, (void)arg;
    for (char *name = strtok_r(names, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest), n++)
        ck_assert_int_eq(strcasecmp(find(name)->name, name), 0);
    ck_assert_uint_eq(n, 15);
}

static void unknown_names_are_refused(struct kg_record *rec, const void *arg) {
    static const char *const NAMES[] = { "q3_k_m", "", "q4", "q4_k_m ", "iq4_xs" };
    const struct kg_file_type *type;
    struct kg_error err;
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++)
        kg_must_fail(kg_file_type_find(NAMES[i], &type, &err), KG_ERR_USAGE, &err, NAMES[i], "q4_k_m", NULL);
}

/* What keeps its dtype. */
static void applies_to_matrices_alone(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *name;
        uint64_t dims[3];
        uint32_t n_dims;
        bool applies;
    } ROWS[] = {
        { "blk.0.attn_q.weight", { 64, 64 }, 2, true },
        { "blk.0.ffn_up_exps.weight", { 64, 64, 8 }, 3, true },
        { "blk.0.attn_q.bias", { 64 }, 1, false },
        { "blk.0.attn_norm.weight", { 64 }, 1, false },
        { "blk.0.attn_q_norm.weight", { 64, 2 }, 2, false },
        { "blk.0.ffn_gate_inp.weight", { 64, 8 }, 2, false },
        { "blk.0.ffn_down_exps.bias", { 64, 8 }, 2, false },
        { "position_embd.weight", { 64, 128 }, 2, false },
        { "token_types.weight", { 64, 2 }, 2, false },
        { "blk.0.attn_sinks.weight", { 8 }, 1, false },
        { "rope_freqs.weight", { 32 }, 1, false },
        { "blk.0.attn_q.weight", { 64, 1, 1 }, 3, false },
        { "blk.0.ffn_up_exps.weight", { 64, 1, 8 }, 3, true },
        { "ght", { 64, 64 }, 2, false },
    };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        const struct kg_file_type_tensor tensor = { ROWS[i].name, ROWS[i].n_dims, ROWS[i].dims };
        ck_assert_msg(kg_file_type_applies(&tensor) == ROWS[i].applies, "%s", ROWS[i].name);
    }
}

static void build(struct kg_case_list *cases) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = {
        { "ids_are_llama_cpps", ids_are_llama_cpps },
        { "listed_names_are_found", listed_names_are_found },
        { "unknown_names_are_refused", unknown_names_are_refused },
        { "applies_to_matrices_alone", applies_to_matrices_alone },
    };
    struct kg_case c = { .layer = "unit", .op = "file_type" };
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++) {
        c.name = COUNTS[i].name, c.run = counts_are, c.arg = &COUNTS[i];
        kg_case_list_add(cases, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(TENSORS); i++) {
        c.name = TENSORS[i].name, c.run = dtype_is, c.arg = &TENSORS[i];
        kg_case_list_add(cases, &c);
    }
    c.op = "file_type_as_llama_cpp";
    for (size_t i = 0; i < KG_COUNT_OF(MODELS); i++) {
        c.name = MODELS[i], c.run = as_llama_cpp, c.arg = &MODELS[i];
        kg_case_list_add(cases, &c);
    }
    c.op = "file_type";
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) {
        c.name = OTHERS[i].name, c.run = OTHERS[i].run, c.arg = NULL;
        kg_case_list_add(cases, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
