/* Loading models: every wrong file is refused by name, every default is the one the architecture has. */
#include "base/buffer.h"
#include "base/size.h"
#include "backend/backend.h"
#include "model/config.h"
#include "model/weights.h"
#include "suites/unit/refusals.h"
#include <check.h>
#include <kigo/tokenizer.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct kg_refusal REFUSALS[] = {
    { "no_architecture", NULL, { OMIT("general.architecture") }, KG_ERR_FORMAT, "general.architecture" },
    { "unknown_architecture", NULL, { TEXT("general.architecture", "rwkv") }, KG_ERR_UNSUPPORTED, "'rwkv'" },
    { "architecture_is_no_text", NULL, { U32("general.architecture", 3) }, KG_ERR_FORMAT, "general.architecture" },
    { "part_of_a_model",
      NULL,
      { U32("split.no", 2), U32("split.count", 5), OMIT("blk.1.ffn_up.weight") },
      KG_ERR_UNSUPPORTED,
      "part 3 of 5" },
    { "part_without_architecture",
      NULL,
      { U32("split.no", 1), U32("split.count", 2), OMIT("general.architecture") },
      KG_ERR_UNSUPPORTED,
      "part 2 of 2" },
    { "no_context_length", NULL, { OMIT("qwen2.context_length") }, KG_ERR_FORMAT, "qwen2.context_length" },
    { "no_embedding_length", NULL, { OMIT("qwen2.embedding_length") }, KG_ERR_FORMAT, "qwen2.embedding_length" },
    { "no_block_count", NULL, { OMIT("qwen2.block_count") }, KG_ERR_FORMAT, "qwen2.block_count" },
    { "no_head_count", NULL, { OMIT("qwen2.attention.head_count") }, KG_ERR_FORMAT, "qwen2.attention.head_count is" },
    { "no_ffn_length", NULL, { OMIT("qwen2.feed_forward_length") }, KG_ERR_FORMAT, "qwen2.feed_forward_length" },
    { "no_epsilon", NULL, { OMIT("qwen2.attention.layer_norm_rms_epsilon") }, KG_ERR_FORMAT, "rms_epsilon is missing" },
    { "zero_context", NULL, { U32("qwen2.context_length", 0) }, KG_ERR_FORMAT, "context_length is 0" },
    { "zero_embedding", NULL, { U32("qwen2.embedding_length", 0) }, KG_ERR_FORMAT, "embedding_length is 0" },
    { "zero_blocks", NULL, { U32("qwen2.block_count", 0) }, KG_ERR_FORMAT, "block_count is 0" },
    { "zero_heads", NULL, { U32("qwen2.attention.head_count", 0) }, KG_ERR_FORMAT, "head_count is 0" },
    { "zero_kv_heads", NULL, { U32("qwen2.attention.head_count_kv", 0) }, KG_ERR_FORMAT, "head_count_kv is 0" },
    { "kv_heads_do_not_divide", NULL, { U32("qwen2.attention.head_count_kv", 3) }, KG_ERR_FORMAT, "head_count_kv 3" },
    { "more_kv_heads_than_heads", NULL, { U32("qwen2.attention.head_count_kv", 8) }, KG_ERR_FORMAT, "does not divide" },
    { "embedding_no_multiple_of_heads", NULL, { U32("qwen2.embedding_length", 33) }, KG_ERR_FORMAT, "33" },
    { "heads_per_layer", NULL, { PAIR("qwen2.attention.head_count_kv", 2) }, KG_ERR_UNSUPPORTED, "is an array" },
    { "count_is_text", NULL, { TEXT("qwen2.block_count", "two") }, KG_ERR_FORMAT, "qwen2.block_count" },
    { "count_is_negative", NULL, { F32("qwen2.block_count", -2) }, KG_ERR_FORMAT, "qwen2.block_count" },
    { "more_blocks_than_tensors", NULL, { U32("qwen2.block_count", 4000000000u) }, KG_ERR_FORMAT, "4000000000" },
    { "one_block_too_many", NULL, { U32("qwen2.block_count", 3) }, KG_ERR_FORMAT, "blk.2.attn_norm.weight is missing" },
    { "one_block_too_few", NULL, { U32("qwen2.block_count", 1) }, KG_ERR_FORMAT, "blk.1." },
    { "head_size_beyond_limit",
      NULL,
      { U32("qwen2.attention.key_length", 65536), U32("qwen2.attention.value_length", 65536) },
      KG_ERR_UNSUPPORTED,
      "65536" },
    { "value_length_differs",
      NULL,
      { U32("qwen2.attention.value_length", 16) },
      KG_ERR_UNSUPPORTED,
      "value_length is 16" },
    { "odd_rot", NULL, { U32("qwen2.rope.dimension_count", 5) }, KG_ERR_FORMAT, "dimension_count 5" },
    { "rot_beyond_head", NULL, { U32("qwen2.rope.dimension_count", 10) }, KG_ERR_FORMAT, "dimension_count 10" },
    { "freq_base_zero", NULL, { F32("qwen2.rope.freq_base", 0) }, KG_ERR_FORMAT, "freq_base is 0" },
    { "freq_base_negative", NULL, { F32("qwen2.rope.freq_base", -1) }, KG_ERR_FORMAT, "freq_base is -1" },
    { "freq_base_infinite", NULL, { F32("qwen2.rope.freq_base", INFINITY) }, KG_ERR_FORMAT, "freq_base is inf" },
    { "epsilon_negative", NULL, { F32("qwen2.attention.layer_norm_rms_epsilon", -1) }, KG_ERR_FORMAT, "epsilon is -1" },
    { "epsilon_nan", NULL, { F32("qwen2.attention.layer_norm_rms_epsilon", NAN) }, KG_ERR_FORMAT, "epsilon is nan" },
    { "rope_unknown", NULL, { TEXT("qwen2.rope.scaling.type", "dynamic") }, KG_ERR_UNSUPPORTED, "'dynamic'" },
    { "yarn_that_no_type_tells",
      NULL,
      { F32("qwen2.rope.scaling.factor", 4), F32("qwen2.rope.scaling.yarn_beta_slow", 1) },
      KG_ERR_FORMAT,
      "rope.scaling.type is missing" },
    { "rope_factor_zero",
      NULL,
      { TEXT("qwen2.rope.scaling.type", "linear"), F32("qwen2.rope.scaling.factor", 0) },
      KG_ERR_FORMAT,
      "scaling.factor is 0" },
    { "rope_magnitude", NULL, { F32("qwen2.rope.scaling.attn_factor", -2) }, KG_ERR_FORMAT, "attn_factor is -2" },
    { "experts", "llama", { U32("llama.expert_count", 4) }, KG_ERR_UNSUPPORTED, "expert_count is 4" },
    { "experts_used_of_none",
      "llama",
      { U32("llama.expert_used_count", 2) },
      KG_ERR_FORMAT,
      "expert_used_count is 2, of 0" },
    { "window_inside_context", NULL, { U32("qwen2.attention.sliding_window", 16) }, KG_ERR_UNSUPPORTED, "window 16" },
    { "not_causal",
      NULL,
      { { .name = "qwen2.attention.causal", .change = KG_TINY_KEY_BOOL, .number = 0 } },
      KG_ERR_UNSUPPORTED,
      "causal is false" },
    { "vocab_size_contradicts", NULL, { U32("qwen2.vocab_size", 1000) }, KG_ERR_FORMAT, "vocab_size is 1000" },
    { "fewer_rows_than_tokens", NULL, { DIMS("token_embd.weight", 32, 200) }, KG_ERR_FORMAT, "200 rows" },
    { "no_embedding_tensor", NULL, { OMIT("token_embd.weight") }, KG_ERR_FORMAT, "token_embd.weight is missing" },
    { "no_output_norm", NULL, { OMIT("output_norm.weight") }, KG_ERR_FORMAT, "output_norm.weight is missing" },
    { "tensor_missing_in_last_layer",
      NULL,
      { OMIT("blk.1.ffn_up.weight") },
      KG_ERR_FORMAT,
      "blk.1.ffn_up.weight is missing" },
    { "bias_missing", NULL, { OMIT("blk.1.attn_k.bias") }, KG_ERR_FORMAT, "blk.1.attn_k.bias is missing" },
    { "first_bias_missing", NULL, { OMIT("blk.0.attn_q.bias") }, KG_ERR_FORMAT, "blk.0.attn_q.bias is missing" },
    { "bias_in_first_layer_only",
      "llama",
      { ADD("blk.0.attn_q.bias", 32, 1) },
      KG_ERR_FORMAT,
      "blk.1.attn_q.bias is missing" },
    { "bias_in_second_layer_only",
      "llama",
      { ADD("blk.1.attn_q.bias", 32, 1) },
      KG_ERR_FORMAT,
      "blk.1.attn_q.bias is not one" },
    { "unexpected_tensor",
      NULL,
      { ADD("blk.0.attn_rot_embd", 4, 1) },
      KG_ERR_FORMAT,
      "blk.0.attn_rot_embd is not one" },
    { "output_bias_of_qwen2",
      NULL,
      { ADD("blk.0.attn_output.bias", 32, 1) },
      KG_ERR_FORMAT,
      "attn_output.bias is not one" },
    { "transposed_projection",
      NULL,
      { DIMS("blk.0.ffn_down.weight", 32, 48) },
      KG_ERR_FORMAT,
      "blk.0.ffn_down.weight is 32 x 48" },
    { "short_norm", NULL, { DIMS("blk.1.ffn_norm.weight", 31, 1) }, KG_ERR_FORMAT, "blk.1.ffn_norm.weight is 31" },
    { "norm_in_blocks",
      NULL,
      { DTYPE("blk.0.attn_norm.weight", Q8_0) },
      KG_ERR_FORMAT,
      "blk.0.attn_norm.weight is Q8_0" },
    { "bias_in_blocks", NULL, { DTYPE("blk.0.attn_q.bias", Q4_0) }, KG_ERR_FORMAT, "blk.0.attn_q.bias is Q4_0" },
    { "rope_factors_of_wrong_length",
      "llama",
      { ADD("rope_freqs.weight", 8, 1) },
      KG_ERR_FORMAT,
      "rope_freqs.weight is 8" },
    { "broken_tokenizer", NULL, { U32("tokenizer.ggml.eos_token_id", 5000) }, KG_ERR_FORMAT, "eos_token_id is 5000" },
};

static void defaults_of_missing_keys(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model model = { .architecture = "llama",
                                         .n_vocab = 300,
                                         .n_ctx = 64,
                                         .n_embd = 32,
                                         .n_layers = 1,
                                         .n_heads = 4,
                                         .n_kv_heads = 4,
                                         .n_ff = 40,
                                         .seed = 3 };
    const struct kg_tiny_edit edits[] = { OMIT("llama.rope.freq_base"), OMIT("llama.attention.head_count_kv"),
                                          OMIT("general.name") };
    struct kg_backend *backend = kg_cpu_of_one_thread();
    char *path = kg_scratch_model(rec);
    struct kg_model *loaded = kg_tiny_load(path, &model, edits, KG_COUNT_OF(edits), backend);
    const struct kg_model_config *c = kg_model_config(loaded);
    ck_assert_str_eq(c->architecture, "llama");
    ck_assert_str_eq(c->name, "");
    ck_assert_uint_eq(c->n_vocab, 300);
    ck_assert_uint_eq(c->n_kv_heads, 4);
    ck_assert_uint_eq(c->head_dim, 8);
    ck_assert_uint_eq(c->n_rot, 8);
    ck_assert_float_eq(c->rope_freq_base, 10000);
    ck_assert_float_eq(c->rope_freq_scale, 1);
    ck_assert_float_eq_tol(c->attn_scale, 0.35355339f, 1e-7);
    ck_assert_int_eq(c->rope_pairing, KG_ROPE_INTERLEAVED);
    ck_assert(c->tied_output);
    ck_assert(!c->has_qkv_bias);
    kg_model_free(loaded);
    kg_backend_close(backend);
    free(path);
}

static void stated_values_win(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model model = { .architecture = "qwen2",
                                         .n_vocab = 261,
                                         .n_ctx = 64,
                                         .n_embd = 32,
                                         .n_layers = 1,
                                         .n_heads = 3,
                                         .n_kv_heads = 1,
                                         .head_dim = 10,
                                         .n_ff = 40,
                                         .qkv_bias = true,
                                         .untied = true,
                                         .seed = 3 };
    const struct kg_tiny_edit edits[] = {
        F32("qwen2.rope.freq_base", 1e6),          U32("qwen2.rope.dimension_count", 6),
        TEXT("qwen2.rope.scaling.type", "linear"), F32("qwen2.rope.scaling.factor", 4),
        F32("qwen2.attention.scale", 0.5),         U32("qwen2.vocab_size", 261)
    };
    struct kg_backend *backend = kg_cpu_of_one_thread();
    char *path = kg_scratch_model(rec);
    struct kg_model *loaded = kg_tiny_load(path, &model, edits, KG_COUNT_OF(edits), backend);
    const struct kg_model_config *c = kg_model_config(loaded);
    ck_assert_uint_eq(c->head_dim, 10);
    ck_assert_uint_eq(c->n_rot, 6);
    ck_assert_float_eq(c->rope_freq_base, 1e6f);
    ck_assert_float_eq(c->rope_freq_scale, 0.25f);
    ck_assert_float_eq(c->window_freq_scale, 0.25f); /* layers with a window have no separate scale here */
    ck_assert_float_eq(c->attn_scale, 0.5f);
    ck_assert_int_eq(c->rope_pairing, KG_ROPE_HALF);
    ck_assert(!c->tied_output);
    ck_assert(c->has_qkv_bias);
    kg_model_free(loaded);
    kg_backend_close(backend);
    free(path);
}

static void long_name_is_cut_between_characters(struct kg_record *rec, const void *arg) {
    (void)arg;
    char name[200] = { 0 };
    for (size_t i = 0; i + 2 < sizeof name; i++) name[i] = (char)(i % 2 ? 0xA9 : 0xC3);
    const struct kg_tiny_model model = KG_TINY_QWEN2;
    const struct kg_tiny_edit edits[] = { TEXT("general.name", name) };
    struct kg_backend *backend = kg_cpu_of_one_thread();
    char *path = kg_scratch_model(rec);
    struct kg_model *loaded = kg_tiny_load(path, &model, edits, 1, backend);
    ck_assert_uint_eq(strlen(kg_model_config(loaded)->name), 126); /* 127 would cut the 64th character */
    kg_model_free(loaded);
    kg_backend_close(backend);
    free(path);
}

static void vocabulary_only(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model model = KG_TINY_QWEN2;
    struct kg_backend *backend = kg_cpu_of_one_thread();
    struct kg_model *loaded;
    struct kg_error err;
    char *path = kg_scratch_model(rec);
    kg_tiny_vocabulary_write(path, &model);
    ck_assert_int_eq(kg_model_load(path, backend, NULL, &loaded, &err), KG_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "no weights"));
    kg_backend_close(backend);
    free(path);
}

static void tokenizer_of_another_kind(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_tiny_model model = KG_TINY_LLAMA;
    const struct kg_tiny_edit edits[] = { TEXT("tokenizer.ggml.model", "rwkv") };
    struct kg_backend *backend = kg_cpu_of_one_thread();
    const struct kg_tokenizer *tokenizer;
    struct kg_error err;
    char *path = kg_scratch_model(rec);
    struct kg_model *loaded = kg_tiny_load(path, &model, edits, 1, backend);
    ck_assert_ptr_null(kg_model_tokenizer(loaded));
    ck_assert_int_eq(kg_model_require_tokenizer(loaded, &tokenizer, &err), KG_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "rwkv") != NULL, "'%s' does not name the kind", err.message);
    kg_model_free(loaded);
    kg_backend_close(backend);
    free(path);
}

struct seen_progress {
    uint64_t last_done, total;
    size_t n_calls;
};

static void on_progress(void *user, uint64_t done_bytes, uint64_t total_bytes) {
    struct seen_progress *seen = user;
    ck_assert_uint_ge(done_bytes, seen->last_done);
    ck_assert_uint_le(done_bytes, total_bytes);
    if (seen->n_calls++ > 0) ck_assert_uint_eq(total_bytes, seen->total);
    seen->last_done = done_bytes;
    seen->total = total_bytes;
}

/* Every matrix as the file has it, every vector as float32, and nothing left behind. */
static void weights_are_counted(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_tiny_model model = KG_TINY_QWEN2;
    model.matrices = KG_DTYPE_F16;
    const uint64_t embd = 32, ff = 48, kv = 16, vocab = KG_TINY_TOKENS, layers = 2;
    const uint64_t matrix_elems = vocab * embd + layers * (2 * embd * embd + 2 * embd * kv + 3 * embd * ff);
    const uint64_t vector_elems = embd + layers * (2 * embd + embd + 2 * kv);
    struct seen_progress seen = { 0 };
    const struct kg_model_options options = { .on_progress = on_progress, .user = &seen };
    struct kg_backend *backend = kg_cpu_of_one_thread();
    struct kg_model *loaded;
    struct kg_error err;
    char *path = kg_scratch_model(rec);
    kg_tiny_model_write(path, &model, NULL, 0);
    ck_assert_int_eq(kg_model_load(path, backend, &options, &loaded, &err), KG_OK);
    ck_assert_uint_eq(kg_model_n_params(loaded), matrix_elems + vector_elems);
    ck_assert_uint_eq(kg_model_weight_bytes(loaded), 2 * matrix_elems + 4 * vector_elems);
    struct kg_memory_use use;
    kg_backend_memory(backend, &use);
    ck_assert_uint_eq(use.current_bytes[KG_MEMORY_WEIGHTS], kg_model_weight_bytes(loaded));
    ck_assert_uint_eq(use.total_current_bytes, kg_model_weight_bytes(loaded));
    ck_assert_str_eq(kg_model_weights(loaded)->dtype_name, "F16");
    ck_assert_uint_eq(seen.last_done, seen.total);
    ck_assert_uint_eq(seen.total, 2 * matrix_elems + 4 * vector_elems);
    kg_model_free(loaded);
    ck_assert_uint_eq(kg_bytes_in_use(backend), 0);
    kg_backend_close(backend);
    free(path);
}

static const struct kg_case OTHERS[] = {
    { .layer = "unit", .op = "model_config", .name = "defaults_of_missing_keys", .run = defaults_of_missing_keys },
    { .layer = "unit", .op = "model_config", .name = "stated_values_win", .run = stated_values_win },
    { .layer = "unit",
      .op = "model_config",
      .name = "long_name_is_cut_between_characters",
      .run = long_name_is_cut_between_characters },
    { .layer = "unit", .op = "model_load", .name = "vocabulary_only", .run = vocabulary_only },
    { .layer = "unit", .op = "model_load", .name = "tokenizer_of_another_kind", .run = tokenizer_of_another_kind },
    { .layer = "unit",
      .op = "model_load",
      .name = "weights_are_counted",
      .backend = "cpu",
      .run = weights_are_counted },
};

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(REFUSALS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "model_refused",
                                                  .name = REFUSALS[i].name,
                                                  .definition = REFUSALS[i].says,
                                                  .run = kg_refusal_run,
                                                  .arg = &REFUSALS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_case_list_add(list, &OTHERS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
