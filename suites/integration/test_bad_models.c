/* Model files that lie: each is refused with an error that names file and offender, or computes; none crashes. */
#include "suites/support/edit_model.h"
#include "suites/support/rig.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/size.h"
#include "format/gguf.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE "tiny-qwen2/qwen2-head80.gguf"

/* Bytes to a file, without the durability of kg_file_write: there are many. */
static void write_plain(const char *path, const void *data, size_t size) {
    FILE *const file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static const char *scratch_file(const struct kg_record *rec) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/model.gguf", kg_scratch_dir(rec));
    return path;
}

/* Loads, and if that is good evaluates three ids; gives the first status that is not. */
static enum kg_status load_and_evaluate(const char *path, struct kg_error *err) {
    static const int32_t IDS[] = { 0, 5, 0 };
    struct kg_backend *backend;
    struct kg_model *model = NULL;
    struct kg_session *session = NULL;
    const float *logits;
    kg_must(kg_backend_open("cpu", 1, &backend, err), err);
    enum kg_status status = kg_model_load(path, backend, NULL, &model, err);
    if (status != KG_OK) {
        ck_assert_ptr_null(model);
        ck_assert_msg(strstr(err->message, path), "'%s' does not name the file", err->message);
    }
    const struct kg_session_options options = { .n_ctx = KG_COUNT_OF(IDS) };
    if (status == KG_OK) status = kg_session_create(model, &options, &session, err);
    if (status == KG_OK) status = kg_session_eval(session, IDS, KG_COUNT_OF(IDS), KG_LOGITS_ALL, &logits, err);
    if (status == KG_ERR_NUMERIC) ck_assert_uint_eq(kg_session_n_past(session), 0);
    struct kg_memory_use use;
    kg_session_free(session);
    kg_model_free(model);
    kg_backend_memory(backend, &use);
    ck_assert_uint_eq(use.total_current_bytes, 0);
    kg_backend_close(backend);
    return status;
}

struct bad_row {
    const char *name;
    struct kg_model_edit edit;
    enum kg_status status;
    const char *named, *also;
};

#define KEY(suffix) "qwen2." suffix
#define DROP(suffix)                                                                                                   \
    { .drop_key = KEY(suffix) }
#define U32(suffix, value)                                                                                             \
    { .u32_key = KEY(suffix), .u32 = (value) }
#define F32(suffix, value)                                                                                             \
    { .f32_key = KEY(suffix), .f32 = (value) }
#define TENSOR(name, edit_)                                                                                            \
    { .tensor = (name), .how = KG_TENSOR_##edit_ }

static const struct bad_row ROWS[] = {
    { "unchanged_copy_loads", { .how = KG_TENSOR_KEEP }, KG_OK, NULL, NULL },

    { "architecture_missing",
      { .drop_key = "general.architecture" },
      KG_ERR_FORMAT,
      "general.architecture",
      "missing" },
    { "architecture_unknown",
      { .str_key = "general.architecture", .str = "mamba" },
      KG_ERR_UNSUPPORTED,
      "mamba",
      NULL },
    { "architecture_of_bytes_no_terminal_takes",
      { .str_key = "general.architecture", .str = "no\xcb\x1b[31m\nqwen2" },
      KG_ERR_UNSUPPORTED,
      "no\\xCB\\x1B[31m\\x0Aqwen2",
      NULL },
    { "scaling_of_bytes_no_terminal_takes",
      { .str_key = "qwen2.rope.scaling.type", .str = "ya\xff\x1b" },
      KG_ERR_UNSUPPORTED,
      "ya\\xFF\\x1B",
      NULL },
    { "tensor_of_bytes_no_terminal_takes", { .add_tensor = "x\xff\x1b[31m" }, KG_ERR_FORMAT, "x\\xFF\\x1B[31m", NULL },
    { "architecture_empty",
      { .str_key = "general.architecture", .str = "" },
      KG_ERR_UNSUPPORTED,
      "architecture",
      NULL },
    { "architecture_a_number",
      { .u32_key = "general.architecture", .u32 = 2 },
      KG_ERR_FORMAT,
      "general.architecture",
      NULL },
    { "architecture_of_another_kind",
      { .str_key = "general.architecture", .str = "llama" },
      KG_ERR_FORMAT,
      "llama.",
      NULL },

    { "layers_missing", DROP("block_count"), KG_ERR_FORMAT, "qwen2.block_count", "missing" },
    { "context_missing", DROP("context_length"), KG_ERR_FORMAT, "qwen2.context_length", "missing" },
    { "embedding_missing", DROP("embedding_length"), KG_ERR_FORMAT, "qwen2.embedding_length", "missing" },
    { "ffn_missing", DROP("feed_forward_length"), KG_ERR_FORMAT, "qwen2.feed_forward_length", "missing" },
    { "heads_missing", DROP("attention.head_count"), KG_ERR_FORMAT, "qwen2.attention.head_count", "missing" },
    { "epsilon_missing", DROP("attention.layer_norm_rms_epsilon"), KG_ERR_FORMAT,
      "qwen2.attention.layer_norm_rms_epsilon", "missing" },

    { "no_layers", U32("block_count", 0), KG_ERR_FORMAT, "qwen2.block_count", "0" },
    { "no_context", U32("context_length", 0), KG_ERR_FORMAT, "qwen2.context_length", "0" },
    { "no_embedding", U32("embedding_length", 0), KG_ERR_FORMAT, "qwen2.embedding_length", "0" },
    { "no_ffn", U32("feed_forward_length", 0), KG_ERR_FORMAT, "qwen2.feed_forward_length", "0" },
    { "no_heads", U32("attention.head_count", 0), KG_ERR_FORMAT, "qwen2.attention.head_count", "0" },
    { "no_kv_heads", U32("attention.head_count_kv", 0), KG_ERR_FORMAT, "qwen2.attention.head_count_kv", "0" },
    { "no_head_size", U32("attention.key_length", 0), KG_ERR_FORMAT, "qwen2.attention.key_length", "0" },
    { "nothing_turns", U32("rope.dimension_count", 0), KG_ERR_FORMAT, "qwen2.rope.dimension_count", "0" },

    { "huge_layers", U32("block_count", UINT32_MAX), KG_ERR_FORMAT, "qwen2.block_count", "4294967295" },
    { "huge_heads", U32("attention.head_count", UINT32_MAX), KG_ERR_UNSUPPORTED, "4294967295", NULL },
    { "huge_embedding", U32("embedding_length", UINT32_MAX), KG_ERR_FORMAT, "token_embd.weight", "4294967295" },
    { "huge_ffn", U32("feed_forward_length", UINT32_MAX), KG_ERR_FORMAT, "blk.0.ffn_", "4294967295" },
    { "huge_head_size", U32("attention.key_length", UINT32_MAX), KG_ERR_UNSUPPORTED, "4294967295", NULL },
    { "huge_context_is_no_matter", U32("context_length", UINT32_MAX), KG_OK, NULL, NULL },

    { "kv_heads_do_not_divide", U32("attention.head_count_kv", 2), KG_ERR_FORMAT, "head_count_kv 2", "3" },
    { "more_kv_heads_than_heads", U32("attention.head_count_kv", 6), KG_ERR_FORMAT, "head_count_kv 6", "3" },
    { "odd_head_size", U32("attention.key_length", 81), KG_ERR_UNSUPPORTED, "qwen2.attention.value_length", "81" },
    { "odd_turning_dims", U32("rope.dimension_count", 7), KG_ERR_FORMAT, "qwen2.rope.dimension_count", "7" },
    { "more_turning_dims_than_head", U32("rope.dimension_count", 82), KG_ERR_FORMAT, "qwen2.rope.dimension_count",
      "82" },
    { "vocabulary_of_another_size", U32("vocab_size", 287), KG_ERR_FORMAT, "qwen2.vocab_size", "288" },
    { "layer_more_than_there_is", U32("block_count", 3), KG_ERR_FORMAT, "blk.2.", "missing" },
    { "layer_less_than_there_is", U32("block_count", 1), KG_ERR_FORMAT, "blk.1.", NULL },
    { "experts", U32("expert_count", 8), KG_ERR_UNSUPPORTED, "qwen2.expert_count", "8" },
    { "window", U32("attention.sliding_window", 16), KG_ERR_UNSUPPORTED, "qwen2.attention.sliding_window", "16" },

    { "negative_epsilon", F32("attention.layer_norm_rms_epsilon", -1e-6f), KG_ERR_FORMAT, "rms_epsilon", "-1e-06" },
    { "epsilon_not_a_number", F32("attention.layer_norm_rms_epsilon", NAN), KG_ERR_FORMAT, "rms_epsilon", "nan" },
    { "epsilon_a_text",
      { .str_key = KEY("attention.layer_norm_rms_epsilon"), .str = "small" },
      KG_ERR_FORMAT,
      "rms_epsilon",
      NULL },
    { "rope_base_of_zero", F32("rope.freq_base", 0), KG_ERR_FORMAT, "qwen2.rope.freq_base", "0" },
    { "infinite_rope_base", F32("rope.freq_base", INFINITY), KG_ERR_FORMAT, "qwen2.rope.freq_base", "inf" },
    { "unknown_rope_scaling",
      { .str_key = KEY("rope.scaling.type"), .str = "spiral" },
      KG_ERR_UNSUPPORTED,
      "spiral",
      "rope.scaling.type" },
    { "heads_a_float", F32("attention.head_count", 3.0f), KG_ERR_FORMAT, "qwen2.attention.head_count", NULL },

    { "embedding_table_missing", TENSOR("token_embd.weight", DROP), KG_ERR_FORMAT, "token_embd.weight", "missing" },
    { "output_norm_missing", TENSOR("output_norm.weight", DROP), KG_ERR_FORMAT, "output_norm.weight", "missing" },
    { "projection_missing", TENSOR("blk.1.attn_k.weight", DROP), KG_ERR_FORMAT, "blk.1.attn_k.weight", "missing" },
    { "bias_missing", TENSOR("blk.1.attn_v.bias", DROP), KG_ERR_FORMAT, "blk.1.attn_v.bias", "missing" },
    { "norm_missing", TENSOR("blk.0.ffn_norm.weight", DROP), KG_ERR_FORMAT, "blk.0.ffn_norm.weight", "missing" },
    { "tensor_nobody_uses", { .add_tensor = "blk.0.attn_q.scale" }, KG_ERR_FORMAT, "blk.0.attn_q.scale", NULL },
    { "layer_nobody_uses", { .add_tensor = "blk.7.attn_norm.weight" }, KG_ERR_FORMAT, "blk.7.attn_norm.weight", NULL },
    { "output_of_a_wrong_shape", { .add_tensor = "output.weight" }, KG_ERR_FORMAT, "output.weight", "288" },
    { "projection_transposed", TENSOR("blk.0.attn_k.weight", TRANSPOSE), KG_ERR_FORMAT, "blk.0.attn_k.weight", "96" },
    { "down_projection_transposed", TENSOR("blk.1.ffn_down.weight", TRANSPOSE), KG_ERR_FORMAT, "blk.1.ffn_down.weight",
      "128" },
    { "row_missing", TENSOR("blk.0.ffn_gate.weight", ROW_LESS), KG_ERR_FORMAT, "blk.0.ffn_gate.weight", "127" },
    { "bias_element_missing", TENSOR("blk.0.attn_q.bias", ROW_LESS), KG_ERR_FORMAT, "blk.0.attn_q.bias", "239" },
    { "matrix_flattened", TENSOR("blk.0.ffn_up.weight", FLAT), KG_ERR_FORMAT, "blk.0.ffn_up.weight", "12288" },
    { "norm_in_blocks", TENSOR("blk.0.attn_norm.weight", ZERO_Q8_0), KG_ERR_FORMAT, "blk.0.attn_norm.weight", "Q8_0" },

    { "token_more_than_rows",
      { .n_tokens = 289, .n_token_types = 289 },
      KG_ERR_FORMAT,
      "tokenizer.ggml.tokens",
      "289" },
    { "types_of_other_tokens", { .n_token_types = 287 }, KG_ERR_FORMAT, "tokenizer.ggml.token_type", "287" },
    { "end_token_outside",
      { .u32_key = "tokenizer.ggml.eos_token_id", .u32 = 288 },
      KG_ERR_FORMAT,
      "eos_token_id",
      "288" },
    { "begin_token_outside",
      { .u32_key = "tokenizer.ggml.bos_token_id", .u32 = UINT32_MAX },
      KG_ERR_FORMAT,
      "bos_token_id",
      "4294967295" },
    { "no_merges", { .drop_key = "tokenizer.ggml.merges" }, KG_ERR_FORMAT, "tokenizer.ggml.merges", NULL },

    { "embedding_not_a_number", TENSOR("token_embd.weight", NAN), KG_ERR_NUMERIC, "logit 0", "position" },
    { "projection_not_a_number", TENSOR("blk.1.attn_v.weight", NAN), KG_ERR_NUMERIC, "logit", "position" },
    { "bias_not_a_number", TENSOR("blk.0.attn_k.bias", NAN), KG_ERR_NUMERIC, "logit", "position" },
    { "infinite_norm", TENSOR("output_norm.weight", INFINITE), KG_ERR_NUMERIC, "logit", "position" },
};

static void loads_as_said(struct kg_record *rec, const void *arg) {
    const struct bad_row *const row = arg;
    const char *const path = scratch_file(rec);
    struct kg_error err = { 0 };
    kg_must(kg_model_edit(kg_fixture_path(BASE), path, &row->edit, &err), &err);
    const enum kg_status status = load_and_evaluate(path, &err);
    if (row->status == KG_OK) kg_must(status, &err);
    else kg_must_fail(status, row->status, &err, row->named, row->also ? row->also : row->named, NULL);
}

/* A model without a tokenizer computes, and says why it cannot be spoken to. */
static void no_tokenizer_is_no_reason_not_to_compute(struct kg_record *rec, const void *arg) {
    static const struct kg_model_edit EDITS[] = {
        { .drop_key = "tokenizer.ggml.tokens" },
        { .str_key = "tokenizer.ggml.model", .str = "morse" },
        { .str_key = "tokenizer.ggml.pre", .str = "dots-and-dashes" },
    };
    static const char *const NAMED[] = { "tokenizer", "morse", "dots-and-dashes" };
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(EDITS); i++) {
        const char *const path = scratch_file(rec);
        struct kg_error err = { 0 };
        struct kg_rig rig = { 0 };
        kg_must(kg_model_edit(kg_fixture_path(BASE), path, &EDITS[i], &err), &err);
        kg_must(kg_backend_open("cpu", 1, &rig.backend, &err), &err);
        kg_must(kg_model_load(path, rig.backend, NULL, &rig.model, &err), &err);
        rig.config = kg_model_config(rig.model);
        ck_assert_ptr_null(kg_model_tokenizer(rig.model));
        struct kg_session *const session = kg_rig_session(&rig, 4);
        const struct kg_generate_options options = { .sampler = KG_SAMPLER_DEFAULTS, .max_tokens = 1 };
        struct kg_generate_result r = { 0 };
        free(kg_rig_logits(&rig, session, (const int32_t[]){ 1, 2 }, 2, 2));
        kg_must_fail(kg_generate(session, (const int32_t[]){ 1 }, 1, &options, &r, &err), KG_ERR_UNSUPPORTED, &err,
                     NAMED[i], NULL);
        kg_session_free(session);
        kg_rig_close(&rig);
    }
}

/* The base file's bytes, and where its tensors' data begins. */
static char *read_base(size_t *size, size_t *data_at) {
    char *bytes;
    struct kg_gguf *gguf;
    struct kg_error err = { 0 };
    kg_must(kg_file_read(kg_fixture_path(BASE), &bytes, size, &err), &err);
    kg_must(kg_gguf_parse(bytes, *size, BASE, &gguf, &err), &err);
    *data_at = *size;
    for (size_t i = 0; i < kg_gguf_n_tensors(gguf); i++) {
        const size_t at = (size_t)((const char *)kg_gguf_tensor_at(gguf, i)->data - bytes);
        if (at < *data_at) *data_at = at;
    }
    kg_gguf_close(gguf);
    return bytes;
}

/* Cut anywhere, the file is refused. */
static void truncated_anywhere(struct kg_record *rec, const void *arg) {
    enum { IN_HEADER = 150, IN_DATA = 60 };
    (void)arg;
    size_t size, data_at;
    char *const bytes = read_base(&size, &data_at);
    const char *const path = scratch_file(rec);
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < IN_HEADER + IN_DATA; i++) {
        static const size_t EDGES[] = { 0, 1, 3, 4, 7, 8, 15, 16, 23, 24, 31, 32 };
        struct kg_error err = { 0 };
        size_t kept = (size_t)kg_rng_below(&rng, data_at);
        if ((size_t)i < KG_COUNT_OF(EDGES)) kept = EDGES[i];
        if (i >= IN_HEADER) kept = data_at + (size_t)kg_rng_below(&rng, size - data_at);
        if (i == IN_HEADER + IN_DATA - 1) kept = size - 1;
        write_plain(path, bytes, kept);
        const enum kg_status status = load_and_evaluate(path, &err);
        ck_assert_msg(status == KG_ERR_FORMAT, "%zu of %zu bytes: %s: %s", kept, size, kg_status_name(status),
                      err.message);
    }
    kg_record_metric(rec, "files", "count", IN_HEADER + IN_DATA);
    free(bytes);
}

struct flip_row {
    const char *name;
    bool in_header;
    int n_files, most_bits;
};
static const struct flip_row FLIPS[] = {
    { "one_bit_of_the_header_flipped", true, 400, 1 },
    { "bits_of_the_header_flipped", true, 200, 8 },
    { "bits_of_the_weights_flipped", false, 100, 64 },
};

/* Refused by name, or it loads and computes numbers or says that it cannot; what passes is counted. */
static void bits_flipped(struct kg_record *rec, const void *arg) {
    const struct flip_row *const row = arg;
    size_t size, data_at, n_loaded = 0;
    char *const bytes = read_base(&size, &data_at);
    const char *const path = scratch_file(rec);
    struct kg_rng rng;
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int i = 0; i < row->n_files; i++) {
        char *const flipped = kg_xmalloc(size);
        struct kg_error err = { 0 };
        memcpy(flipped, bytes, size);
        const uint64_t n_bits = 1 + kg_rng_below(&rng, (uint64_t)row->most_bits);
        for (uint64_t bit = 0; bit < n_bits; bit++) {
            const size_t at =
                (size_t)(row->in_header ? kg_rng_below(&rng, data_at) : data_at + kg_rng_below(&rng, size - data_at));
            flipped[at] = (char)(flipped[at] ^ 1 << kg_rng_below(&rng, 8));
        }
        write_plain(path, flipped, size);
        const enum kg_status status = load_and_evaluate(path, &err);
        ck_assert_msg(status != KG_ERR_INTERNAL && status != KG_ERR_IO, "file %d: %s: %s", i, kg_status_name(status),
                      err.message);
        ck_assert_int_eq(status != KG_OK, err.message[0] != '\0');
        n_loaded += status == KG_OK;
        free(flipped);
    }
    kg_record_metric(rec, "files", "count", row->n_files);
    kg_record_metric(rec, "files_that_compute", "count", (double)n_loaded);
    free(bytes);
}

static void not_a_model_at_all(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *text;
        enum kg_status status;
    } FILES[] = { { "", KG_ERR_FORMAT },
                  { "GGUF", KG_ERR_FORMAT },
                  { "#!/bin/sh\necho not a model, though long enough to be one\n", KG_ERR_FORMAT } };
    (void)arg;
    const char *const path = scratch_file(rec);
    struct kg_error err = { 0 };
    for (size_t i = 0; i < KG_COUNT_OF(FILES); i++) {
        write_plain(path, FILES[i].text, strlen(FILES[i].text));
        kg_must_fail(load_and_evaluate(path, &err), FILES[i].status, &err, path, NULL);
    }
    kg_must_fail(load_and_evaluate("/nowhere/model.gguf", &err), KG_ERR_NOT_FOUND, &err, "/nowhere/model.gguf", NULL);
    const enum kg_status folder = load_and_evaluate(kg_scratch_dir(rec), &err);
    ck_assert_msg(folder != KG_OK && folder != KG_ERR_INTERNAL, "%s", err.message);
}

static void build(struct kg_case_list *list) {
    static const struct kg_case OTHERS[] = {
        { .layer = "integration",
          .op = "bad_model",
          .name = "no_tokenizer_is_no_reason_not_to_compute",
          .backend = "cpu",
          .run = no_tokenizer_is_no_reason_not_to_compute },
        { .layer = "integration",
          .op = "bad_model",
          .name = "truncated_anywhere",
          .backend = "cpu",
          .run = truncated_anywhere },
        { .layer = "integration",
          .op = "bad_model",
          .name = "not_a_model_at_all",
          .backend = "cpu",
          .run = not_a_model_at_all },
    };
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "bad_model",
                                                  .name = ROWS[i].name,
                                                  .backend = "cpu",
                                                  .run = loads_as_said,
                                                  .arg = &ROWS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(FLIPS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "bad_model",
                                                  .name = FLIPS[i].name,
                                                  .backend = "cpu",
                                                  .timeout_s = 240,
                                                  .run = bits_flipped,
                                                  .arg = &FLIPS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) kg_case_list_add(list, &OTHERS[i]);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
