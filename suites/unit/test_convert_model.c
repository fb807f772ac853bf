/* kigo convert against llama.cpp's converter: the same keys, and the same bytes in every tensor, from the same folders;
 * the block formats against the values they round; and folders that are as they should be but for one thing. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "model/config.h"
#include "convert/model.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/support/hf_maker.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const FOLDERS[] = { "qwen2_tied", "llama3_rope",   "llama_bias",    "phi3_window",
                                       "phi3_long",  "gpt_oss_plain", "gpt_oss_mxfp4", "gpt2",
                                       "qwen3",      "qwen3_bias",    "gemma3",        "gemma3_parameters" };

static const struct kg_file_type *file_type(const char *name) {
    const struct kg_file_type *type;
    struct kg_error err;
    kg_must(kg_file_type_find(name, &type, &err), &err);
    return type;
}

static enum kg_status convert(const struct kg_record *rec, const json_t *expected, const struct kg_hf_changes *changes,
                              enum kg_dtype dtype, int n_threads, struct kg_convert_summary *summary, char **out_path,
                              struct kg_error *err) {
    const struct kg_convert_options options = { .type = file_type(kg_dtype_info(dtype)->name), .n_threads = n_threads };
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf");
    if (!kg_path_exists(dir)) kg_hf_make(dir, expected, changes);
    *out_path = kg_xasprintf("%s/%s-%d.gguf", kg_scratch_dir(rec), kg_dtype_info(dtype)->name, n_threads);
    const enum kg_status status = kg_convert_model(dir, *out_path, &options, summary, err);
    free(dir);
    return status;
}

static struct kg_gguf *convert_good(const struct kg_record *rec, const json_t *expected,
                                    const struct kg_hf_changes *changes, enum kg_dtype dtype,
                                    struct kg_convert_summary *summary) {
    struct kg_error err;
    struct kg_gguf *g;
    char *path;
    kg_must(convert(rec, expected, changes, dtype, 2, summary, &path, &err), &err);
    kg_must(kg_gguf_open(path, &g, &err), &err);
    free(path);
    return g;
}

static void expect_dims(const struct kg_gguf_tensor *t, const json_t *dims, const char *name) {
    ck_assert_msg(t->n_dims == json_array_size(dims), "%s has %u dimensions", name, t->n_dims);
    for (uint32_t d = 0; d < t->n_dims; d++)
        ck_assert_msg((json_int_t)t->dims[d] == json_integer_value(json_array_get(dims, d)), "%s: dims[%u] is %llu",
                      name, d, (unsigned long long)t->dims[d]);
}

/* Frequency divisors: llama.cpp's converter computes them in float32, where a power of the base is off by some 1e-7. */
static void expect_values(const struct kg_gguf_tensor *t, const json_t *values, const char *name) {
    const float *x = t->data;
    ck_assert_int_eq(t->dtype, KG_DTYPE_F32);
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const double want = json_number_value(json_array_get(values, i));
        ck_assert_msg(fabs(x[i] - want) <= 1e-6 * want, "%s[%llu] is %.9g, not %.9g", name, (unsigned long long)i,
                      (double)x[i], want);
    }
}

static void expect_tensors(const struct kg_gguf *g, const json_t *expected, const char *kind, bool blocks) {
    json_t *tensors = json_object_get(expected, "gguf"), *want;
    const char *name;
    json_object_foreach(tensors, name, want) {
        const struct kg_gguf_tensor *t = kg_gguf_find_tensor(g, name);
        ck_assert_msg(t != NULL, "%s is not written", name);
        expect_dims(t, json_object_get(want, "dims"), name);
        const json_t *pair = json_object_get(want, kind);
        if (!pair) {
            expect_values(t, json_object_get(want, "values"), name);
            continue;
        }
        char hex[KG_SHA256_HEX_SIZE];
        const char *type = json_string_value(json_array_get(pair, 0)),
                   *hash = json_string_value(json_array_get(pair, 1));
        ck_assert_str_eq(kg_dtype_info(t->dtype)->name, type);
        if (blocks && t->dtype == KG_DTYPE_Q8_0) continue; /* rounded by the stored scale here: block_formats */
        kg_sha256_hex(t->data, t->size_bytes, hex);
        ck_assert_msg(strncmp(hex, hash, strlen(hash)) == 0, "%s: %s differs", name, type);
    }
    ck_assert_uint_eq(kg_gguf_n_tensors(g), json_object_size(tensors));
}

static void expect_key(const struct kg_gguf *g, const char *name, const json_t *want) {
    static const struct {
        const char *text;
        enum kg_gguf_type type;
    } TYPES[] = { { "UINT32", KG_GGUF_U32 }, { "FLOAT32", KG_GGUF_F32 }, { "STRING", KG_GGUF_STRING } };
    const struct kg_gguf_key *key = kg_gguf_find_key(g, name);
    const char *type = json_string_value(json_array_get(want, 0));
    const json_t *value = json_array_get(want, 1);
    ck_assert_msg(key != NULL, "%s is not written", name);
    for (size_t i = 0; i < KG_COUNT_OF(TYPES); i++)
        if (strcmp(TYPES[i].text, type) == 0) ck_assert_msg(key->type == TYPES[i].type, "%s is no %s", name, type);
    if (key->type == KG_GGUF_U32) {
        ck_assert_msg((json_int_t)key->value.u == json_integer_value(value), "%s is %llu", name,
                      (unsigned long long)key->value.u);
    } else if (key->type == KG_GGUF_F32) {
        ck_assert_msg((float)key->value.f == (float)json_number_value(value), "%s is %.9g", name, key->value.f);
    } else {
        ck_assert_int_eq(key->type, KG_GGUF_STRING);
        ck_assert_msg(kg_str_eq(key->value.s, json_string_value(value)), "%s is '%.*s'", name, (int)key->value.s.len,
                      key->value.s.data);
    }
}

static void expect_keys(const struct kg_gguf *g, const json_t *expected) {
    json_t *keys = json_object_get(expected, "keys"), *want;
    const char *name;
    size_t n = 0;
    json_object_foreach(keys, name, want) expect_key(g, name, want);
    for (size_t i = 0; i < kg_gguf_n_keys(g); i++) {
        const struct kg_str key = kg_gguf_key_at(g, i)->name;
        n += !kg_str_eq(key, "general.name") && strncmp(key.data, "tokenizer.", 10) != 0;
    }
    ck_assert_uint_eq(n, json_object_size(keys));
}

struct folder_case {
    const char *folder, *kind;
    enum kg_dtype dtype;
};
static struct folder_case folder_cases[KG_COUNT_OF(FOLDERS) * 7];

static void as_llama_cpp(struct kg_record *rec, const void *arg) {
    const struct folder_case *c = arg;
    const json_t *expected = kg_hf_expected(c->folder);
    struct kg_convert_summary summary;
    struct kg_gguf *g = convert_good(rec, expected, NULL, c->dtype, &summary);
    expect_tensors(g, expected, c->kind, c->dtype == KG_DTYPE_Q8_0);
    if (c->dtype == KG_DTYPE_F32) expect_keys(g, expected);
    ck_assert_uint_eq(summary.n_tensors, kg_gguf_n_tensors(g));
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
}

/* The error that is said, of all elements in one loop. */
static void expect_error(const struct kg_gguf_tensor *from, const struct kg_gguf_tensor *to,
                         const struct kg_rounding *said) {
    float *x = kg_xcalloc(2 * to->n_elems, sizeof *x), *y = x + to->n_elems;
    double squares = 0, errors = 0, worst = 0;
    kg_dtype_info(from->dtype)->decode(from->data, x, from->n_elems);
    kg_dtype_info(to->dtype)->decode(to->data, y, to->n_elems);
    for (uint64_t i = 0; i < to->n_elems; i++) {
        const double e = fabs((double)x[i] - (double)y[i]);
        squares += (double)x[i] * (double)x[i];
        errors += e * e;
        worst = fmax(worst, e);
    }
    free(x);
    ck_assert_double_gt(errors, 0);
    ck_assert_double_eq(said->worst, worst);
    ck_assert_double_eq_tol(said->squares / squares, 1, 1e-12); /* the order of the sum */
    ck_assert_double_eq_tol(kg_rounding_relative_rms(said) / sqrt(errors / squares), 1, 1e-12);
}

/* Blocks hold what the encoder makes of the float32 file's values, and what is said of the error is that; what is no
 * whole blocks has another dtype and says so. The output of q4_0 and q5_0 is another by llama.cpp's rules. */
static void block_formats(struct kg_record *rec, const void *arg) {
    const struct folder_case *c = arg;
    const json_t *expected = kg_hf_expected(c->folder);
    struct kg_convert_summary summary, plain_summary;
    struct kg_gguf *plain = convert_good(rec, expected, NULL, KG_DTYPE_F32, &plain_summary);
    struct kg_gguf *g = convert_good(rec, expected, NULL, c->dtype, &summary);
    size_t n_fell_back = 0, n_blocks = 0;
    ck_assert_uint_eq(kg_gguf_n_tensors(g), summary.n_tensors);
    for (size_t i = 0; i < kg_gguf_n_tensors(g); i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(g, i), *from = kg_gguf_tensor_at(plain, i);
        const struct kg_written_tensor *said = &summary.tensors[i];
        const struct kg_dtype_info *info = kg_dtype_info(t->dtype);
        uint8_t *want = kg_xcalloc(1, t->size_bytes);
        if (from->dtype == KG_DTYPE_F32) info->encode(from->data, want, t->n_elems);
        else memcpy(want, from->data, t->size_bytes); /* MXFP4 of the source */
        ck_assert_msg(memcmp(want, t->data, t->size_bytes) == 0, "%.*s differs", (int)t->name.len, t->name.data);
        free(want);
        ck_assert(kg_str_eq(t->name, said->name));
        ck_assert_int_eq(t->dtype, said->dtype);
        if (kg_written_is_rounded(said)) expect_error(from, t, &said->rounding);
        else ck_assert(said->rounding.squares == 0 && said->rounding.worst == 0);
        n_blocks += t->dtype == c->dtype;
        if (said->dtype == said->by_rules) continue;
        n_fell_back++;
        ck_assert_uint_ne(t->dims[0] % kg_dtype_info(said->by_rules)->block_elems, 0);
        if (t->dtype == KG_DTYPE_F16) ck_assert_uint_ne(t->dims[0] % 32, 0);
    }
    ck_assert_uint_gt(n_blocks, 0);
    if (strcmp(c->folder, "llama_bias") == 0) ck_assert_uint_gt(n_fell_back, 0);
    kg_record_metric(rec, "fell_back", "count", (double)n_fell_back);
    kg_convert_summary_free(&summary);
    kg_convert_summary_free(&plain_summary);
    kg_gguf_close(plain);
    kg_gguf_close(g);
}

/* OpenAI's layout by its own words, element 2i low and 2i + 1 high of byte i, gate rows even and up rows odd. */
static void packed_experts_keep_every_value(struct kg_record *rec, const void *arg) {
    static const float E2M1[] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    const json_t *expected = kg_hf_expected("gpt_oss_mxfp4");
    struct kg_convert_summary summary;
    struct kg_gguf *g = convert_good(rec, expected, NULL, KG_DTYPE_F16, &summary);
    struct kg_safetensors *st;
    struct kg_error err;
    (void)arg;
    char *path = kg_xasprintf("%s/hf/model-00001-of-00002.safetensors", kg_scratch_dir(rec));
    kg_must(kg_safetensors_open(path, &st, &err), &err);
    const uint8_t *blocks = kg_safetensors_find(st, "model.layers.0.mlp.experts.gate_up_proj_blocks")->data;
    const uint8_t *scales = kg_safetensors_find(st, "model.layers.0.mlp.experts.gate_up_proj_scales")->data;
    static const char *const NAMES[] = { "blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight" };
    for (uint64_t odd = 0; odd < 2; odd++) {
        const struct kg_gguf_tensor *t = kg_gguf_find_tensor(g, NAMES[odd]);
        const uint64_t cols = t->dims[0], rows = t->dims[1];
        float *x = kg_xcalloc(t->n_elems, sizeof *x);
        ck_assert_int_eq(t->dtype, KG_DTYPE_MXFP4);
        kg_dtype_info(t->dtype)->decode(t->data, x, t->n_elems);
        for (uint64_t i = 0; i < t->n_elems; i++) {
            const uint64_t expert = i / cols / rows, row = 2 * (i / cols % rows) + odd, col = i % cols;
            const uint64_t block = (expert * 2 * rows + row) * (cols / 32) + col / 32;
            const unsigned code = blocks[block * 16 + col % 32 / 2] >> (col % 2 * 4) & 15;
            const float want = ldexpf(E2M1[code & 7], scales[block] - 127) * (code & 8 ? -1.0f : 1.0f);
            if (x[i] != want) ck_abort_msg("%s[%llu] is %g, not %g", NAMES[odd], (unsigned long long)i, x[i], want);
        }
        free(x);
    }
    ck_assert_uint_eq(summary.n_packed, 6);
    kg_safetensors_close(st);
    free(path);
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
}

static void any_number_of_threads(struct kg_record *rec, const void *arg) {
    const json_t *expected = kg_hf_expected("gpt_oss_plain");
    char hex[2][KG_SHA256_HEX_SIZE];
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct kg_convert_summary summary;
        struct kg_error err;
        char *path;
        kg_must(convert(rec, expected, NULL, KG_DTYPE_MXFP4, i ? 7 : 1, &summary, &path, &err), &err);
        kg_must(kg_sha256_file(path, hex[i], &err), &err);
        kg_convert_summary_free(&summary);
        free(path);
    }
    ck_assert_str_eq(hex[0], hex[1]);
}

/* Tensors beside the weights that change nothing, and the prefix that transformers gives. */
struct same_row {
    const char *name, *folder;
    struct kg_hf_changes changes;
};
static const struct same_row SAME[] = {
    { "gpt2_with_prefix_and_mask",
      "gpt2",
      { .prefix = "transformer.", .edits = { { KG_HF_ADD, .tensor = "transformer.h.1.attn.bias" } } } },
    { "gpt2_masked_bias", "gpt2", { .edits = { { KG_HF_ADD, .tensor = "h.0.attn.masked_bias" } } } },
    { "tied_output_written_out", "qwen2_tied", { .edits = { { KG_HF_ADD, .tensor = "lm_head.weight" } } } },
    { "old_frequencies",
      "llama_bias",
      { .edits = { { KG_HF_ADD, .tensor = "model.layers.0.self_attn.rotary_emb.inv_freq" } } } },
    { "model_type_alone", "phi3_window", { .config = "{\"architectures\":null}" } },
};

static void is_the_same(struct kg_record *rec, const void *arg) {
    const struct same_row *row = arg;
    const json_t *expected = kg_hf_expected(row->folder);
    struct kg_convert_summary summary;
    struct kg_gguf *g = convert_good(rec, expected, &row->changes, KG_DTYPE_F32, &summary);
    ck_assert_uint_eq(kg_gguf_n_tensors(g), json_object_size(json_object_get(expected, "gguf")));
    if (!row->changes.prefix) expect_tensors(g, expected, "f32", false); /* the prefix changes the values made */
    expect_keys(g, expected);
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
}

/* How cos and sin grow and where YaRN's ramp lies: what transformers 5.23 computes from the same config.json must be
 * what kigo computes from the file. */
struct rope_row {
    const char *name, *folder, *scaling;
    float magnitude;
    bool rounded;
};
#define YARN(members) "\"rope_type\":\"yarn\",\"factor\":4,\"original_max_position_embeddings\":32" members
#define ONES "[1,1,1,1,1,1,1,1]"
#define LONGROPE(members) "\"type\":\"longrope\",\"long_factor\":" ONES ",\"short_factor\":" ONES members
static const struct rope_row ROPES[] = {
    { "yarn_plain", "gpt_oss_plain", YARN(",\"truncate\":false"), 1.1386294f, false },
    { "yarn_truncates_unless_told", "gpt_oss_plain", YARN(""), 1.1386294f, true },
    { "yarn_does_not_truncate", "llama_bias", YARN(",\"truncate\":false"), 1.1386294f, false },
    { "yarn_of_llama", "llama_bias", YARN(""), 1.1386294f, true },
    { "attention_factor_is_all_of_it", "gpt_oss_plain", YARN(",\"attention_factor\":1.3"), 1.3f, true },
    { "two_mscales", "qwen2_tied", YARN(",\"mscale\":0.7,\"mscale_all_dim\":1.1"), 0.9518853f, true },
    { "one_mscale", "qwen2_tied", YARN(",\"mscale\":0.7"), 1.1386294f, true },
    { "longrope_by_contexts", "phi3_long", LONGROPE(""), 1.1832160f, false },
    { "longrope_by_factor", "phi3_long", LONGROPE(",\"factor\":2"), 1.0954452f, false },
    { "longrope_by_attention_factor", "phi3_long", LONGROPE(",\"factor\":2,\"attention_factor\":1.5"), 1.5f, false },
};

static void rope_is_transformers(struct kg_record *rec, const void *arg) {
    const struct rope_row *row = arg;
    struct kg_convert_summary summary;
    struct kg_model_config c;
    struct kg_error err;
    char *config = kg_xasprintf("{\"rope_parameters\":null,\"rope_scaling\":{%s}}", row->scaling);
    const struct kg_hf_changes changes = { .config = config };
    struct kg_gguf *g = convert_good(rec, kg_hf_expected(row->folder), &changes, KG_DTYPE_F32, &summary);
    kg_must(kg_config_read(g, &c, &err), &err);
    ck_assert_float_eq_tol(c.rope_magnitude, row->magnitude, 1e-6f);
    ck_assert_int_eq(c.yarn.rounded, row->rounded);
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
    free(config);
}

/* gemma3's layers: what config.json says and llama.cpp's converter has no key for. */
struct gemma_row {
    const char *name, *config;
    uint32_t first_full; /* layer; 7: none is */
    float attn_scale;
    uint32_t window;
    float base; /* of layers with a window; 0: 10000 */
};
#define SLIDES "\"sliding_attention\""
#define FULL "\"full_attention\""
static const struct gemma_row GEMMAS[] = {
    { "gemma3_as_it_is", "{}", 5, 0.17677669f, 16, 0 },
    { "gemma3_scale_of_queries", "{\"query_pre_attn_scalar\":168}", 5, 0.07715167f, 16, 0 },
    { "gemma3_period_of_three", "{\"sliding_window_pattern\":3}", 2, 0.17677669f, 16, 0 },
    { "gemma3_period_by_layers",
      "{\"layer_types\":[" SLIDES "," FULL "," SLIDES "," FULL "," SLIDES "," FULL "," SLIDES "]}", 1, 0.17677669f, 16,
      0 },
    { "gemma3_all_layers_slide",
      "{\"layer_types\":[" SLIDES "," SLIDES "," SLIDES "," SLIDES "," SLIDES "," SLIDES "," SLIDES "]}", 7,
      0.17677669f, 16, 0 },
    { "gemma3_no_layer_slides", "{\"sliding_window_pattern\":1}", 0, 0.17677669f, 0, 0 },
    { "gemma3_window_of_one", "{\"sliding_window\":1,\"sliding_window_pattern\":3}", 2, 0.17677669f, 1, 0 },
    { "gemma3_small_base", "{\"rope_local_base_freq\":0.5}", 5, 0.17677669f, 16, 0.5f },
};

static void gemma_layers(struct kg_record *rec, const void *arg) {
    const struct gemma_row *row = arg;
    const struct kg_hf_changes changes = { .config = row->config };
    struct kg_convert_summary summary;
    struct kg_model_config c;
    struct kg_error err;
    struct kg_gguf *g = convert_good(rec, kg_hf_expected("gemma3"), &changes, KG_DTYPE_F16, &summary);
    kg_must(kg_config_read(g, &c, &err), &err);
    uint32_t full = 0;
    while (full < c.n_layers && kg_model_layer_window(&c, full) > 0) full++;
    ck_assert_uint_eq(full, row->first_full);
    ck_assert_uint_eq(c.window, row->window);
    ck_assert_float_eq_tol(c.attn_scale, row->attn_scale, 1e-7);
    ck_assert_float_eq(c.window_freq_base, row->base > 0 ? row->base : 10000);
    ck_assert_float_eq(c.window_freq_scale, 1);
    ck_assert_float_eq(c.rope_freq_base, 1000000);
    ck_assert_float_eq(c.rope_freq_scale, 0.125f);
    ck_assert_float_eq_tol(c.embedding_scale, 6.9282032f, 1e-6);
    ck_assert(c.has_qk_norm && c.has_post_norms && c.wide_residual && c.tied_output);
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
}

/* phi3's heads of another size than a row's width over their number, which readers cannot guess. */
static void heads_of_their_own_size(struct kg_record *rec, const void *arg) {
    static const struct kg_hf_changes CHANGES = { .config = "{\"head_dim\":24}" };
    json_t *expected = json_deep_copy(kg_hf_expected("phi3_window")), *tensor;
    struct kg_convert_summary summary;
    struct kg_model_config c;
    struct kg_error err;
    size_t i;
    (void)arg;
    json_array_foreach(json_object_get(expected, "tensors"), i, tensor) {
        const char *name = json_string_value(json_array_get(tensor, 0));
        if (strstr(name, "qkv_proj")) json_array_set_new(tensor, 2, json_pack("[i, i]", 3 * 4 * 24, 64));
        if (strstr(name, "o_proj")) json_array_set_new(tensor, 2, json_pack("[i, i]", 64, 4 * 24));
    }
    struct kg_gguf *g = convert_good(rec, expected, &CHANGES, KG_DTYPE_F16, &summary);
    kg_must(kg_config_read(g, &c, &err), &err);
    ck_assert_uint_eq(c.head_dim, 24);
    ck_assert_uint_eq(c.n_rot, 24);
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
    json_decref(expected);
}

static void expect_id(const struct kg_gguf *g, const char *key, uint32_t want) {
    uint32_t id;
    struct kg_error err;
    kg_must(kg_gguf_get_u32(g, key, &id, &err), &err);
    ck_assert_uint_eq(id, want);
}

static void every_end_of_a_text(struct kg_record *rec, const void *arg) {
    static const struct kg_hf_changes THREE = { .generation = "{\"eos_token_id\":[7,258,9]}" };
    struct kg_convert_summary summary;
    struct kg_gguf *g = convert_good(rec, kg_hf_expected("qwen2_tied"), &THREE, KG_DTYPE_F16, &summary);
    (void)arg;
    expect_id(g, "tokenizer.ggml.eos_token_id", 258);
    expect_id(g, "tokenizer.ggml.eot_token_id", 7);
    expect_id(g, "tokenizer.ggml.eom_token_id", 9);
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
}

static void end_by_generation_config_alone(struct kg_record *rec, const void *arg) {
    static const struct kg_hf_changes ONE = { .generation = "{\"eos_token_id\":5}",
                                              .config = "{\"eos_token_id\":null}" };
    struct kg_convert_summary summary;
    struct kg_gguf *g = convert_good(rec, kg_hf_expected("gpt2"), &ONE, KG_DTYPE_F16, &summary);
    (void)arg;
    expect_id(g, "tokenizer.ggml.eos_token_id", 5);
    ck_assert_ptr_null(kg_gguf_find_key(g, "tokenizer.ggml.eot_token_id"));
    kg_convert_summary_free(&summary);
    kg_gguf_close(g);
}

/* The folder's name is the model's; a byte of it that is no UTF-8 would be an error to other readers. */
static void name_is_utf8(struct kg_record *rec, const void *arg) {
    const struct kg_convert_options options = { .type = file_type("f16") };
    struct kg_convert_summary summary;
    struct kg_gguf *g;
    struct kg_str name;
    struct kg_error err;
    (void)arg;
    char *dir = kg_path_join(kg_scratch_dir(rec), "a\xff\xc3\xa9"), *out = kg_path_join(kg_scratch_dir(rec), "m.gguf");
    kg_hf_make(dir, kg_hf_expected("gpt2"), NULL);
    kg_must(kg_convert_model(dir, out, &options, &summary, &err), &err);
    kg_must(kg_gguf_open(out, &g, &err), &err);
    kg_must(kg_gguf_get_str(g, "general.name", &name, &err), &err);
    ck_assert(kg_str_eq(name, "a\xef\xbf\xbd\xc3\xa9"));
    kg_gguf_close(g);
    kg_convert_summary_free(&summary);
    free(out);
    free(dir);
}

static void no_file_of_the_model_is_replaced(struct kg_record *rec, const void *arg) {
    const struct kg_convert_options options = { .type = file_type("f16") };
    struct kg_convert_summary summary;
    struct kg_error err;
    static const char *const NAMES[] = { "model.safetensors", "config.json", "tokenizer.json" };
    char before[KG_SHA256_HEX_SIZE], after[KG_SHA256_HEX_SIZE];
    struct kg_vocab_summary vocab;
    (void)arg;
    char *dir = kg_path_join(kg_scratch_dir(rec), "hf");
    kg_hf_make(dir, kg_hf_expected("gpt2"), NULL);
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        char *path = kg_path_join(dir, NAMES[i]);
        kg_must(kg_sha256_file(path, before, &err), &err);
        kg_must_fail(kg_convert_model(dir, path, &options, &summary, &err), KG_ERR_USAGE, &err, path,
                     "model to convert", NULL);
        if (i > 0)
            kg_must_fail(kg_convert_vocab(dir, path, &vocab, &err), KG_ERR_USAGE, &err, path, "model to convert", NULL);
        kg_must(kg_sha256_file(path, after, &err), &err);
        ck_assert_str_eq(before, after);
        free(path);
    }
    kg_must_fail(kg_convert_model(dir, dir, &options, &summary, &err), KG_ERR_USAGE, &err, dir, "folder", NULL);
    free(dir);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        enum kg_dtype dtype;
    } KINDS[] = { { "f32", KG_DTYPE_F32 },    { "f16", KG_DTYPE_F16 },   { "bf16", KG_DTYPE_BF16 },
                  { "q8_0", KG_DTYPE_Q8_0 },  { "q4_0", KG_DTYPE_Q4_0 }, { "q5_0", KG_DTYPE_Q5_0 },
                  { "mxfp4", KG_DTYPE_MXFP4 } };
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = {
        { "packed_experts_keep_every_value", packed_experts_keep_every_value },
        { "any_number_of_threads", any_number_of_threads },
        { "heads_of_their_own_size", heads_of_their_own_size },
        { "every_end_of_a_text", every_end_of_a_text },
        { "end_by_generation_config_alone", end_by_generation_config_alone },
        { "name_is_utf8", name_is_utf8 },
        { "no_file_of_the_model_is_replaced", no_file_of_the_model_is_replaced },
    };
    struct kg_case c = { .layer = "unit", .op = "convert_model" };
    size_t n = 0;
    for (size_t f = 0; f < KG_COUNT_OF(FOLDERS); f++)
        for (size_t k = 0; k < KG_COUNT_OF(KINDS); k++) {
            const bool blocks = kg_dtype_info(KINDS[k].dtype)->block_elems > 1;
            struct folder_case *row = &folder_cases[n++];
            *row = (struct folder_case){ FOLDERS[f], KINDS[k].name, KINDS[k].dtype };
            char name[64];
            c.dtype = kg_dtype_info(KINDS[k].dtype)->name;
            c.arg = row;
            snprintf(name, sizeof name, "%s_as_llama_cpp", FOLDERS[f]);
            c.name = name;
            c.run = as_llama_cpp;
            if (!blocks || KINDS[k].dtype == KG_DTYPE_Q8_0) kg_case_list_add(list, &c);
            snprintf(name, sizeof name, "%s_blocks", FOLDERS[f]);
            c.run = block_formats;
            if (blocks) kg_case_list_add(list, &c);
        }
    c.dtype = NULL;
    for (size_t i = 0; i < KG_COUNT_OF(SAME); i++) {
        c.name = SAME[i].name, c.run = is_the_same, c.arg = &SAME[i];
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(ROPES); i++) {
        c.name = ROPES[i].name, c.run = rope_is_transformers, c.arg = &ROPES[i];
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(GEMMAS); i++) {
        c.name = GEMMAS[i].name, c.run = gemma_layers, c.arg = &GEMMAS[i];
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) {
        c.name = OTHERS[i].name, c.run = OTHERS[i].run, c.arg = NULL;
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
