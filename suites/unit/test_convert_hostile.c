/* Folders with one thing wrong: each is refused by name, and leaves neither a file nor the loss of an older one. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "convert/model.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/support/hf_maker.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bad_row {
    const char *name, *folder;
    struct kg_hf_changes changes;
    enum kg_status status;
    const char *says[3];
    const char *type; /* asked for; NULL: F16 */
};

#define EDIT(what, ...)                                                                                                \
    {                                                                                                                  \
        .edits = { { what, __VA_ARGS__ } }                                                                             \
    }
#define DROP(name) EDIT(KG_HF_DROP, .tensor = (name))
#define ADD(name) EDIT(KG_HF_ADD, .tensor = (name))
#define SHAPE(name) EDIT(KG_HF_SHAPE, .tensor = (name))
#define DTYPE(name, type) EDIT(KG_HF_DTYPE, .tensor = (name), .text = (type))
#define POKE(name, index, number) EDIT(KG_HF_POKE, .tensor = (name), .at = (index), .value = (number))
#define CONFIG(text)                                                                                                   \
    { .config = (text) }
#define ROPE(text)                                                                                                     \
    { .config = "{\"rope_parameters\":null,\"rope_scaling\":" text "}" }
#define LLAMA3(members)                                                                                                \
    ROPE("{\"rope_type\":\"llama3\",\"factor\":8,\"original_max_position_embeddings\":64" members "}")
#define LAYER "model.layers.1."
#define LFS_POINTER "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 123\n"

static const struct bad_row BAD[] = {
    /* Tensors. */
    { "missing_tensor", "qwen2_tied", DROP(LAYER "self_attn.k_proj.bias"), KG_ERR_FORMAT,
      .says = { LAYER "self_attn.k_proj.bias", "missing" } },
    { "missing_output", "phi3_window", DROP("lm_head.weight"), KG_ERR_FORMAT, .says = { "lm_head.weight", "missing" } },
    { "missing_scales", "gpt_oss_mxfp4", DROP(LAYER "mlp.experts.down_proj_scales"), KG_ERR_FORMAT,
      .says = { "down_proj_scales", "missing" } },
    { "missing_blocks", "gpt_oss_mxfp4", DROP(LAYER "mlp.experts.down_proj_blocks"), KG_ERR_FORMAT,
      .says = { LAYER "mlp.experts.down_proj'", "missing" } },
    { "missing_sinks", "gpt_oss_mxfp4", DROP(LAYER "self_attn.sinks"), KG_ERR_FORMAT,
      .says = { "self_attn.sinks", "missing" } },
    { "extra_tensor", "qwen2_tied", ADD(LAYER "self_attn.q_norm.weight"), KG_ERR_FORMAT,
      .says = { LAYER "self_attn.q_norm.weight", "Qwen2ForCausalLM" } },
    { "extra_layer", "gpt2", ADD("h.2.ln_1.weight"), KG_ERR_FORMAT, .says = { "h.2.ln_1.weight" } },
    { "bias_the_configuration_denies", "llama3_rope", ADD(LAYER "self_attn.q_proj.bias"), KG_ERR_FORMAT,
      .says = { "q_proj.bias" } },
    { "experts_twice", "gpt_oss_mxfp4", ADD(LAYER "mlp.experts.down_proj"), KG_ERR_FORMAT,
      .says = { "mlp.experts.down_proj" } },
    { "transposed_matrix", "qwen2_tied", SHAPE(LAYER "mlp.up_proj.weight"), KG_ERR_FORMAT,
      .says = { LAYER "mlp.up_proj.weight", "[64, 96]", "[96, 64]" } },
    { "not_transposed_conv1d", "gpt2", SHAPE("h.0.attn.c_attn.weight"), KG_ERR_FORMAT,
      .says = { "h.0.attn.c_attn.weight", "[192, 64]", "[64, 192]" } },
    { "long_norm", "llama_bias", SHAPE("model.norm.weight"), KG_ERR_FORMAT,
      .says = { "model.norm.weight", "[81]", "[80]" } },
    { "misshapen_scales", "gpt_oss_mxfp4", SHAPE(LAYER "mlp.experts.gate_up_proj_scales"), KG_ERR_FORMAT,
      .says = { "gate_up_proj_scales", "[2, 192, 4]", "[4, 192, 2]" } },
    { "float8_weight", "qwen2_tied", DTYPE(LAYER "mlp.up_proj.weight", "F8_E4M3"), KG_ERR_UNSUPPORTED,
      .says = { LAYER "mlp.up_proj.weight", "F8_E4M3" } },
    { "float64_weight", "gpt2", DTYPE("wte.weight", "F64"), KG_ERR_UNSUPPORTED, .says = { "wte.weight", "F64" } },
    { "bytes_as_weight", "gpt2", DTYPE("wpe.weight", "U8"), KG_ERR_UNSUPPORTED, .says = { "wpe.weight", "U8" } },
    { "float_blocks", "gpt_oss_mxfp4", DTYPE(LAYER "mlp.experts.down_proj_blocks", "F16"), KG_ERR_UNSUPPORTED,
      .says = { "down_proj_blocks", "F16" } },
    /* Values. */
    { "nan", "qwen2_tied", POKE(LAYER "mlp.up_proj.weight", 130, NAN), KG_ERR_NUMERIC,
      .says = { LAYER "mlp.up_proj.weight", "element 2 of row 2", "nan" } },
    { "infinite_norm", "gpt2", POKE("ln_f.weight", 63, -INFINITY), KG_ERR_NUMERIC, .says = { "ln_f.weight", "-inf" } },
    { "nan_in_the_last_block", "gpt2", POKE("wte.weight", 264 * 64 - 1, NAN), KG_ERR_NUMERIC,
      .says = { "wte.weight", "element 63 of row 263" }, .type = "mxfp4" },
    { "infinity_in_q8_0", "gpt2", POKE("wte.weight", 0, INFINITY), KG_ERR_NUMERIC,
      .says = { "wte.weight", "inf", "Q8_0" }, .type = "q8_0" },
    { "nan_in_transposed", "gpt2", POKE("h.1.mlp.c_proj.weight", 64 * 5 + 3, NAN), KG_ERR_NUMERIC,
      .says = { "h.1.mlp.c_proj.weight", "element 5 of row 3" } },
    { "too_large_for_f16", "llama3_rope", POKE(LAYER "self_attn.v_proj.weight", 0, 65536), KG_ERR_NUMERIC,
      .says = { "v_proj.weight", "65536", "F16" } },
    { "rounds_to_infinity_in_f16", "gpt2", POKE("h.1.mlp.c_proj.weight", 0, 65520), KG_ERR_NUMERIC,
      .says = { "c_proj.weight", "65520", "F16" }, .type = "f16" },
    { "too_large_for_bf16", "qwen2_tied", POKE("model.embed_tokens.weight", 1, 3.4e38), KG_ERR_NUMERIC,
      .says = { "embed_tokens", "BF16" }, .type = "bf16" },
    { "too_large_for_q8_0", "qwen2_tied", POKE("model.embed_tokens.weight", 1, 9e6), KG_ERR_NUMERIC,
      .says = { "embed_tokens", "9e+06", "Q8_0" }, .type = "q8_0" },
    { "nan_scale", "gpt_oss_mxfp4", POKE(LAYER "mlp.experts.gate_up_proj_scales", 2 * 5 + 1, 255), KG_ERR_NUMERIC,
      .says = { "gate_up_proj", "NaN", "block 1 of row 2 of expert 0" } },
    /* Configuration. */
    { "no_config", "gpt2", { .config_text = "" }, KG_ERR_NOT_FOUND, .says = { "no config.json" } },
    { "tokenizer_not_fetched",
      "gpt2",
      { .tokenizer = LFS_POINTER },
      KG_ERR_FORMAT,
      .says = { "tokenizer.json", "pointer of Git LFS" } },
    { "config_not_json", "gpt2", { .config_text = "{\"a\":" }, KG_ERR_FORMAT, .says = { "config.json", "line 1" } },
    { "config_no_object",
      "gpt2",
      { .config_text = "[]" },
      KG_ERR_FORMAT,
      .says = { "config.json holds no JSON object" } },
    { "unknown_architecture", "gpt2", CONFIG("{\"architectures\":[\"MambaForCausalLM\"]}"), KG_ERR_UNSUPPORTED,
      .says = { "'MambaForCausalLM'", "GptOssForCausalLM", "GPT2LMHeadModel" } },
    { "no_architecture", "gpt2", CONFIG("{\"architectures\":[],\"model_type\":null}"), KG_ERR_FORMAT,
      .says = { "architectures" } },
    { "no_layers", "qwen2_tied", CONFIG("{\"num_hidden_layers\":null}"), KG_ERR_FORMAT,
      .says = { "num_hidden_layers is missing" } },
    { "layers_of_text", "qwen2_tied", CONFIG("{\"num_hidden_layers\":\"2\"}"), KG_ERR_FORMAT,
      .says = { "num_hidden_layers is \"2\"" } },
    { "negative_heads", "qwen2_tied", CONFIG("{\"num_attention_heads\":-4}"), KG_ERR_FORMAT,
      .says = { "num_attention_heads is -4" } },
    { "too_many_layers", "qwen2_tied", CONFIG("{\"num_hidden_layers\":4294967298}"), KG_ERR_FORMAT,
      .says = { "4294967298" } },
    { "layers_that_are_not_there", "qwen2_tied", CONFIG("{\"num_hidden_layers\":2147483647}"), KG_ERR_FORMAT,
      .says = { "model.layers.2.input_layernorm.weight", "missing" } },
    { "heads_do_not_divide", "qwen2_tied", CONFIG("{\"num_key_value_heads\":3}"), KG_ERR_FORMAT,
      .says = { "num_key_value_heads 3" } },
    { "hidden_size_no_multiple", "qwen2_tied", CONFIG("{\"num_attention_heads\":6}"), KG_ERR_FORMAT,
      .says = { "hidden_size 64", "6 heads" } },
    { "enormous_heads", "llama3_rope", CONFIG("{\"head_dim\":2147483646}"), KG_ERR_FORMAT,
      .says = { "self_attn.q_proj.weight", "[8589934584, 64]" } },
    { "other_activation", "llama_bias", CONFIG("{\"hidden_act\":\"gelu\"}"), KG_ERR_UNSUPPORTED,
      .says = { "hidden_act", "gelu", "silu" } },
    { "exact_gelu", "gpt2", CONFIG("{\"activation_function\":\"gelu\"}"), KG_ERR_UNSUPPORTED,
      .says = { "activation_function", "gelu_new" } },
    { "sliding_qwen2", "qwen2_tied", CONFIG("{\"use_sliding_window\":true}"), KG_ERR_UNSUPPORTED,
      .says = { "use_sliding_window is true" } },
    { "other_limit", "gpt_oss_plain", CONFIG("{\"swiglu_limit\":6.0}"), KG_ERR_UNSUPPORTED,
      .says = { "swiglu_limit is 6.0" } },
    { "other_layer_types", "gpt_oss_plain", CONFIG("{\"layer_types\":[\"full_attention\",\"full_attention\"]}"),
      KG_ERR_UNSUPPORTED, .says = { "layer_types[0]" } },
    { "layer_types_of_another_depth", "gpt_oss_plain", CONFIG("{\"layer_types\":[]}"), KG_ERR_FORMAT,
      .says = { "layer_types has 0" } },
    { "more_experts_used", "gpt_oss_plain", CONFIG("{\"num_experts_per_tok\":5}"), KG_ERR_FORMAT,
      .says = { "num_experts_per_tok 5" } },
    { "scaled_by_layer", "gpt2", CONFIG("{\"scale_attn_by_inverse_layer_idx\":true}"), KG_ERR_UNSUPPORTED,
      .says = { "scale_attn_by_inverse_layer_idx" } },
    { "quantized_otherwise", "qwen2_tied", CONFIG("{\"quantization_config\":{\"quant_method\":\"fp8\"}}"),
      KG_ERR_UNSUPPORTED, .says = { "quant_method", "fp8" } },
    { "no_epsilon", "qwen2_tied", CONFIG("{\"rms_norm_eps\":null}"), KG_ERR_FORMAT,
      .says = { "rms_norm_eps is missing" } },
    { "tied_of_text", "qwen2_tied", CONFIG("{\"tie_word_embeddings\":\"yes\"}"), KG_ERR_FORMAT,
      .says = { "tie_word_embeddings" } },
    { "unknown_rope_type", "qwen2_tied", ROPE("{\"rope_type\":\"dynamic\",\"factor\":2}"), KG_ERR_UNSUPPORTED,
      .says = { "dynamic", "yarn" } },
    { "yarn_without_factor", "gpt_oss_plain", ROPE("{\"rope_type\":\"yarn\",\"original_max_position_embeddings\":32}"),
      KG_ERR_FORMAT, .says = { "lacks its factor" } },
    { "other_alpha", "gpt_oss_plain", CONFIG("{\"swiglu_alpha\":1.5}"), KG_ERR_UNSUPPORTED,
      .says = { "swiglu_alpha is 1.5" } },
    { "layer_types_of_text", "gpt_oss_plain", CONFIG("{\"layer_types\":\"sliding_attention\"}"), KG_ERR_FORMAT,
      .says = { "layer_types is \"sliding_attention\"" } },
    { "rope_is_a_number", "qwen2_tied", CONFIG("{\"rope_parameters\":10000}"), KG_ERR_FORMAT,
      .says = { "rope_parameters is 10000" } },
    { "gpt_oss_without_rope", "gpt_oss_plain", CONFIG("{\"rope_parameters\":null,\"rope_scaling\":null}"),
      KG_ERR_FORMAT, .says = { "rope_parameters is missing" } },
    { "sliding_qwen3", "qwen3", CONFIG("{\"use_sliding_window\":true}"), KG_ERR_UNSUPPORTED,
      .says = { "use_sliding_window is true" } },
    { "qwen3_without_kv_heads", "qwen3", CONFIG("{\"num_key_value_heads\":null}"), KG_ERR_FORMAT,
      .says = { "num_key_value_heads is missing" } },
    { "qwen3_of_the_default_head_size", "qwen3", CONFIG("{\"head_dim\":null}"), KG_ERR_FORMAT,
      .says = { "self_attn.q_proj.weight", "[512, 64]" } },
    { "head_norm_missing", "qwen3", EDIT(KG_HF_DROP, .tensor = "model.layers.1.self_attn.k_norm.weight"), KG_ERR_FORMAT,
      .says = { "model.layers.1.self_attn.k_norm.weight", "missing" } },
    { "gemma3_of_exact_gelu", "gemma3", CONFIG("{\"hidden_activation\":\"gelu\"}"), KG_ERR_UNSUPPORTED,
      .says = { "hidden_activation", "gelu_pytorch_tanh" } },
    { "gemma3_capped_logits", "gemma3", CONFIG("{\"final_logit_softcapping\":30.0}"), KG_ERR_UNSUPPORTED,
      .says = { "final_logit_softcapping is 30.0" } },
    { "gemma3_capped_scores", "gemma3", CONFIG("{\"attn_logit_softcapping\":50.0}"), KG_ERR_UNSUPPORTED,
      .says = { "attn_logit_softcapping is 50.0" } },
    { "gemma3_sees_the_future", "gemma3", CONFIG("{\"use_bidirectional_attention\":true}"), KG_ERR_UNSUPPORTED,
      .says = { "use_bidirectional_attention is true" } },
    { "gemma3_layers_without_a_period", "gemma3_parameters",
      CONFIG("{\"layer_types\":[\"full_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\","
             "\"full_attention\",\"full_attention\",\"full_attention\"]}"),
      KG_ERR_UNSUPPORTED, .says = { "layer_types[0]" } },
    { "gemma3_window_layers_scaled", "gemma3_parameters",
      CONFIG("{\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2}}}"),
      KG_ERR_UNSUPPORTED, .says = { "rope_type of sliding_attention", "linear" } },
    { "gemma3_flat_parameters", "gemma3_parameters",
      CONFIG("{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":5.0}}"), KG_ERR_FORMAT,
      .says = { "rope_parameters", "full_attention" } },
    { "gemma3_of_yarn", "gemma3", CONFIG("{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2}}"),
      KG_ERR_UNSUPPORTED, .says = { "yarn", "linear" } },
    { "gemma3_base_of_zero", "gemma3", CONFIG("{\"rope_local_base_freq\":0}"), KG_ERR_FORMAT,
      .says = { "rope_local_base_freq is 0" } },
    { "post_norm_missing", "gemma3", EDIT(KG_HF_DROP, .tensor = "model.layers.6.post_feedforward_layernorm.weight"),
      KG_ERR_FORMAT, .says = { "model.layers.6.post_feedforward_layernorm.weight", "missing" } },
    { "end_is_text",
      "gpt2",
      { .generation = "{\"eos_token_id\":\"<|end|>\"}" },
      KG_ERR_FORMAT,
      .says = { "eos_token_id[0]", "generation_config.json" } },
    { "two_original_contexts", "phi3_window", CONFIG("{\"rope_scaling\":{\"original_max_position_embeddings\":64}}"),
      KG_ERR_FORMAT, .says = { "original_max_position_embeddings is 128", "64" } },
    { "truncate_of_text", "gpt_oss_plain",
      ROPE("{\"rope_type\":\"yarn\",\"factor\":4,"
           "\"original_max_position_embeddings\":32,\"truncate\":\"no\"}"),
      KG_ERR_FORMAT, .says = { "truncate is \"no\"" } },
    { "llama3_without_bands", "llama3_rope", LLAMA3(""), KG_ERR_FORMAT, .says = { "low_freq_factor" } },
    { "llama3_bands_swapped", "llama3_rope", LLAMA3(",\"low_freq_factor\":4,\"high_freq_factor\":1"), KG_ERR_FORMAT,
      .says = { "low_freq_factor 4" } },
    { "rope_base_0", "llama_bias", CONFIG("{\"rope_theta\":0}"), KG_ERR_FORMAT, .says = { "rope_theta is 0" } },
    { "few_factors", "phi3_long", ROPE("{\"type\":\"longrope\",\"long_factor\":[1],\"short_factor\":[1]}"),
      KG_ERR_FORMAT, .says = { "long_factor", "1 numbers", "8" } },
    { "factor_0", "phi3_long", ROPE("{\"type\":\"longrope\",\"long_factor\":[1,1,1,1,1,1,1,0],\"short_factor\":[1]}"),
      KG_ERR_FORMAT, .says = { "long_factor is 0" } },
    { "odd_part_turns", "phi3_window", CONFIG("{\"partial_rotary_factor\":0.2}"), KG_ERR_FORMAT,
      .says = { "partial_rotary_factor" } },
    { "more_than_all_turns", "phi3_window", CONFIG("{\"partial_rotary_factor\":1.5}"), KG_ERR_FORMAT,
      .says = { "partial_rotary_factor" } },
    /* Files. */
    { "no_tokenizer", "gpt2", { .tokenizer = "" }, KG_ERR_NOT_FOUND, .says = { "no tokenizer.json" } },
    { "more_tokens_than_vocab_size",
      "qwen2_tied",
      { .more_tokens = ",{\"id\":264,\"content\":\"<x>\"}" },
      KG_ERR_FORMAT,
      .says = { "265 tokens", "264" } },
    { "embedding_larger_than_vocab_size", "qwen2_tied", CONFIG("{\"vocab_size\":258}"), KG_ERR_FORMAT,
      .says = { "[264, 64]", "[258, 64]" } },
    { "index_names_a_missing_file",
      "gpt2",
      { .index = "{\"weight_map\":{\"wte.weight\":\"model-00001-of-00002.safetensors\"}}" },
      KG_ERR_NOT_FOUND,
      .says = { "model-00001-of-00002.safetensors", "wte.weight" } },
    { "index_leads_out",
      "gpt2",
      { .index = "{\"weight_map\":{\"wte.weight\":\"../model.safetensors\"}}" },
      KG_ERR_FORMAT,
      .says = { "'../model.safetensors'" } },
    { "index_leaves_out",
      "gpt2",
      { .index = "{\"weight_map\":{\"wte.weight\":\"model.safetensors\"}}" },
      KG_ERR_FORMAT,
      .says = { "is not in model.safetensors.index.json" } },
    { "index_invents",
      "gpt2",
      { .index = "{\"weight_map\":{\"wtf.weight\":\"model.safetensors\"}}" },
      KG_ERR_FORMAT,
      .says = { "'wtf.weight' is not in 'model.safetensors'" } },
    { "index_without_map", "gpt2", { .index = "{}" }, KG_ERR_FORMAT, .says = { "no weight_map" } },
    { "index_of_numbers",
      "gpt2",
      { .index = "{\"weight_map\":{\"wte.weight\":1}}" },
      KG_ERR_FORMAT,
      .says = { "'wte.weight' is no string" } },
    { "end_is_no_token",
      "gpt2",
      { .generation = "{\"eos_token_id\":[258,264]}" },
      KG_ERR_FORMAT,
      .says = { "generation_config.json", "eos_token_id[1]" } },
    { "too_many_ends",
      "gpt2",
      { .generation = "{\"eos_token_id\":[258,1,2,3]}" },
      KG_ERR_UNSUPPORTED,
      .says = { "eos_token_id" } },
};

static const struct kg_file_type *file_type(const char *name) {
    const struct kg_file_type *type;
    struct kg_error err;
    kg_must(kg_file_type_find(name, &type, &err), &err);
    return type;
}

static void is_refused(struct kg_record *rec, const void *arg) {
    const struct bad_row *row = arg;
    struct kg_convert_options options = { .type = file_type("f16"), .n_threads = 2 };
    struct kg_convert_summary summary;
    struct kg_error err = { 0 };
    struct kg_dir_list list;
    char *text;
    size_t len;
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf"), *out = kg_path_join(kg_scratch_dir(rec), "out.gguf");
    kg_hf_make(dir, kg_hf_expected(row->folder), &row->changes);
    kg_must(kg_file_write(out, "mine", 4, &err), &err);
    if (row->type) options.type = file_type(row->type);
    const enum kg_status status = kg_convert_model(dir, out, &options, &summary, &err);
    kg_must_fail_naming(status, row->status, &err, (const char *[]){ row->says[0], row->says[1], row->says[2], NULL });
    kg_must(kg_file_read(out, &text, &len, &err), &err);
    ck_assert_str_eq(text, "mine");
    kg_must(kg_dir_list(kg_scratch_dir(rec), &list, &err), &err);
    ck_assert_uint_eq(list.n_names, 2);
    kg_dir_list_free(&list);
    free(text);
    free(out);
    free(dir);
}

/* The weights of a good folder written to `file`, cut at each of `cuts`; SIZE_MAX is all of them, and what is a
 * little less is as many bytes less. */
static void expect_files_refused(const struct kg_record *rec, const struct kg_hf_changes *changes, const char *file,
                                 const size_t *cuts, size_t n_cuts, const char *says) {
    const struct kg_convert_options options = { .type = file_type("f16") };
    struct kg_convert_summary summary;
    struct kg_error err;
    char *text;
    size_t len;
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf"), *from = kg_path_join(dir, "model.safetensors"),
         *to = kg_path_join(dir, file);
    kg_hf_make(dir, kg_hf_expected("gpt2"), changes);
    kg_must(kg_file_read(from, &text, &len, &err), &err);
    for (size_t i = 0; i < n_cuts; i++) {
        kg_must(kg_file_write(to, text, cuts[i] < len ? cuts[i] : len - (SIZE_MAX - cuts[i]), &err), &err);
        kg_must_fail(kg_convert_model(dir, "/nowhere/out.gguf", &options, &summary, &err), KG_ERR_FORMAT, &err, to,
                     says, NULL);
    }
    free(text);
    free(to);
    free(from);
    free(dir);
}

static void tensor_in_two_files(struct kg_record *rec, const void *arg) {
    static const struct kg_hf_changes BOTH = {
        .index = "{\"weight_map\":{\"wte.weight\":\"model.safetensors\",\"wpe.weight\":\"again.safetensors\"}}"
    };
    (void)arg;
    expect_files_refused(rec, &BOTH, "again.safetensors", (const size_t[]){ SIZE_MAX }, 1, "is in both");
}

/* At a few places of header and data, to the last byte. */
static void cut_weights(struct kg_record *rec, const void *arg) {
    static const size_t CUTS[] = { 0, 7, 8, 1000, 100000, SIZE_MAX - 1 };
    (void)arg;
    expect_files_refused(rec, NULL, "model.safetensors", CUTS, KG_COUNT_OF(CUTS), "");
}

static void weights_not_fetched(struct kg_record *rec, const void *arg) {
    const struct kg_convert_options options = { .type = file_type("f16") };
    struct kg_convert_summary summary;
    struct kg_error err;
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf"), *file = kg_path_join(dir, "model.safetensors");
    (void)arg;
    kg_hf_make(dir, kg_hf_expected("gpt2"), NULL);
    kg_must(kg_file_write(file, LFS_POINTER, strlen(LFS_POINTER), &err), &err);
    kg_must_fail(kg_convert_model(dir, "/nowhere/out.gguf", &options, &summary, &err), KG_ERR_FORMAT, &err, file,
                 "pointer of Git LFS", NULL);
    free(file);
    free(dir);
}

static bool is_cancelled(void *user) {
    size_t *left = user;
    return (*left)-- == 0;
}

/* Asked before each piece; whenever it is, nothing is left. */
static void cancelled(struct kg_record *rec, const void *arg) {
    struct kg_convert_summary summary;
    struct kg_error err;
    struct kg_dir_list list;
    (void)arg;
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf"), *out = kg_path_join(kg_scratch_dir(rec), "out.gguf");
    kg_hf_make(dir, kg_hf_expected("gpt2"), NULL);
    for (size_t pieces = 0; pieces < 28; pieces += 9) {
        size_t left = pieces;
        const struct kg_convert_options options = { .type = file_type("f16"),
                                                    .cancelled = is_cancelled,
                                                    .user = &left };
        kg_must_fail(kg_convert_model(dir, out, &options, &summary, &err), KG_ERR_CANCELLED, &err, "cancelled", NULL);
        kg_must(kg_dir_list(kg_scratch_dir(rec), &list, &err), &err);
        ck_assert_uint_eq(list.n_names, 1);
        kg_dir_list_free(&list);
    }
    free(out);
    free(dir);
}

static void build(struct kg_case_list *list) {
    struct kg_case c = { .layer = "unit", .op = "convert_hostile", .run = is_refused };
    for (size_t i = 0; i < KG_COUNT_OF(BAD); i++) {
        c.name = BAD[i].name;
        c.arg = &BAD[i];
        kg_case_list_add(list, &c);
    }
    c.arg = NULL;
    c.name = "tensor_in_two_files", c.run = tensor_in_two_files;
    kg_case_list_add(list, &c);
    c.name = "cut_weights", c.run = cut_weights;
    kg_case_list_add(list, &c);
    c.name = "weights_not_fetched", c.run = weights_not_fetched;
    kg_case_list_add(list, &c);
    c.name = "cancelled", c.run = cancelled;
    kg_case_list_add(list, &c);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
