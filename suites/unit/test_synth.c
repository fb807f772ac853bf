/* Synthetic models: published sizes, values that depend on nothing but seed, tensor and index, and no half files. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "format/gguf.h"
#include "convert/synth.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct published_row {
    const char *like, *architecture, *name;
    uint64_t n_params;
    uint32_t n_ctx;
};

/* Qwen2.5: 0.49 B, 1.54 B, 7.61 B; Qwen3-8B: 8.2 B; Llama-3.1-8B: 8.03 B (and 64 frequency factors, which its
 * safetensors do not have); Phi-3-mini: 3.8 B (3821079552 in its model card's metadata); gpt-oss-20b: 20.9 B; GPT-2:
 * 124 M. */
static const struct published_row PUBLISHED[] = {
    { "qwen2.5-0.5b", NULL, "qwen2_5_has_494032768_parameters", 494032768, 32768 },
    { "qwen2.5-1.5b", NULL, "qwen2_5_1_5b_has_1543714304_parameters", 1543714304, 131072 },
    { "qwen2.5-7b", NULL, "qwen2_5_7b_has_7615616512_parameters", 7615616512, 131072 },
    { "qwen3-8b", NULL, "qwen3_8b_has_8190735360_parameters", 8190735360, 32768 },
    { "llama-3.1-8b", NULL, "llama_3_1_8b_has_8030261248_parameters", 8030261248 + 64, 131072 },
    { "phi-3-mini", NULL, "phi_3_mini_has_3821079552_parameters", 3821079552, 4096 },
    { "phi-3-mini", "llama", "phi_3_mini_as_llama_has_as_many", 3821079552, 4096 },
    { "gpt-oss-20b", NULL, "gpt_oss_has_20914757184_parameters", 20914757184, 131072 },
    { "gpt2", NULL, "gpt2_has_124439808_parameters", 124439808, 1024 },
};

static void has_published_size(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct published_row *row = arg;
    const struct kg_synth_options options = { .like = row->like, .architecture = row->architecture };
    struct kg_synth_plan plan;
    struct kg_error err;
    kg_must(kg_synth_plan_make(&options, &plan, &err), &err);
    ck_assert_uint_eq(plan.n_params, row->n_params);
    ck_assert_uint_eq(plan.shape->n_ctx, row->n_ctx);
    kg_synth_plan_free(&plan);
}

/* Of published models and of invented ones. */
static void contexts_are_powers_of_two(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_SYNTH_N_SHAPES; i++) {
        const uint32_t n_ctx = KG_SYNTH_SHAPES[i].n_ctx;
        ck_assert_msg(n_ctx > 0 && (n_ctx & (n_ctx - 1)) == 0, "%s: %u", KG_SYNTH_SHAPES[i].name, n_ctx);
    }
}

static const char *scratch(const struct kg_record *rec, const char *name) {
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", kg_scratch_dir(rec), name);
    return path;
}

static void write_model(struct kg_synth_options options, const char *path) {
    struct kg_synth_plan plan;
    struct kg_error err;
    kg_must(kg_synth_plan_make(&options, &plan, &err), &err);
    kg_must(kg_synth_write(&options, &plan, path, &err), &err);
    kg_synth_plan_free(&plan);
}

static bool same_files(const char *a, const char *b) {
    char *bytes_a, *bytes_b;
    size_t n_a, n_b;
    struct kg_error err;
    kg_must(kg_file_read(a, &bytes_a, &n_a, &err), &err);
    kg_must(kg_file_read(b, &bytes_b, &n_b, &err), &err);
    const bool same = n_a == n_b && memcmp(bytes_a, bytes_b, n_a) == 0;
    free(bytes_a);
    free(bytes_b);
    return same;
}

struct form_row {
    const char *name, *like, *architecture, *type;
};

static const struct form_row FORMS[] = {
    { "qwen2_f16", "tiny-qwen2.5", NULL, "f16" },
    { "qwen2_f32", "tiny-qwen2.5", NULL, "f32" },
    { "qwen2_mxfp4", "tiny-qwen2.5", NULL, "mxfp4" },
    { "qwen2_q4_k_m_falls_back", "tiny-qwen2.5", NULL, "q4_k_m" },
    { "phi3_f16", "tiny-phi-3", NULL, "f16" },
    { "phi3_as_llama", "tiny-phi-3", "llama", "f16" },
    { "phi3_q4_0", "tiny-phi-3", NULL, "q4_0" },
    { "qwen3_bf16", "tiny-qwen3", NULL, "bf16" },
    { "qwen3_q4_k_m", "tiny-qwen3", NULL, "q4_k_m" },
    { "qwen3_q5_k_m", "tiny-qwen3", NULL, "q5_k_m" },
    { "llama_q6_k", "tiny-llama-3.1", NULL, "q6_k" },
    { "llama_q4_k", "tiny-llama-3.1", NULL, "q4_k" },
    { "llama_q5_k", "tiny-llama-3.1", NULL, "q5_k" },
    { "llama_q5_0", "tiny-llama-3.1", NULL, "q5_0" },
    { "llama_q8_0", "tiny-llama-3.1", NULL, "q8_0" },
    { "gpt_oss_mxfp4", "tiny-gpt-oss", NULL, "mxfp4" },
    { "gpt_oss_mxfp4_moe", "tiny-gpt-oss", NULL, "mxfp4_moe" },
    { "gpt_oss_f32", "tiny-gpt-oss", NULL, "f32" },
    { "gpt2_mxfp4", "tiny-gpt2", NULL, "mxfp4" },
};

static void threads_do_not_matter(struct kg_record *rec, const void *arg) {
    const struct form_row *f = arg;
    struct kg_synth_options o = { .like = f->like, .architecture = f->architecture, .type = f->type, .seed = 7 };
    const char *one = scratch(rec, "one.gguf"), *five = scratch(rec, "five.gguf"), *other = scratch(rec, "other.gguf");
    o.n_threads = 1;
    write_model(o, one);
    o.n_threads = 5;
    write_model(o, five);
    o.seed = 8;
    write_model(o, other);
    ck_assert(same_files(one, five));
    ck_assert(!same_files(one, other));
}

/* What llama.cpp reads without asking whether it is there, by architecture: without it a file does not load or has no
 * layers (load_arch_hparams of src/models, and src/llama-vocab.cpp). {arch} stands for the architecture. */
static const struct {
    const char *key, *architecture; /* NULL: of all */
} LOADED[] = {
    { "general.architecture", NULL },
    { "{arch}.context_length", NULL },
    { "{arch}.embedding_length", NULL },
    { "{arch}.block_count", NULL },
    { "{arch}.feed_forward_length", NULL },
    { "{arch}.attention.head_count", NULL },
    { "{arch}.attention.layer_norm_rms_epsilon", "qwen2" },
    { "{arch}.attention.layer_norm_rms_epsilon", "qwen3" },
    { "{arch}.attention.layer_norm_rms_epsilon", "llama" },
    { "{arch}.attention.layer_norm_rms_epsilon", "phi3" },
    { "{arch}.attention.layer_norm_rms_epsilon", "gpt-oss" },
    { "{arch}.attention.layer_norm_epsilon", "gpt2" },
    { "{arch}.attention.sliding_window", "gpt-oss" },
    { "{arch}.expert_feed_forward_length", "gpt-oss" },
    { "{arch}.expert_count", "gpt-oss" },
    { "{arch}.expert_used_count", "gpt-oss" },
    { "tokenizer.ggml.model", NULL },
    { "tokenizer.ggml.tokens", NULL },
    { "tokenizer.ggml.merges", NULL },
};

static size_t count_token(const struct kg_gguf_key *tokens, const struct kg_gguf_key *types, const char *text) {
    enum { CONTROL = 3 };
    size_t n = 0;
    for (uint64_t i = 0; i < tokens->value.array.n; i++)
        if (kg_str_eq(tokens->value.array.strings[i], text)) n += kg_gguf_array_int(types, i) == CONTROL;
    return n;
}

/* Of a file whose name says phi-3 llama.cpp looks these tokens up, and ends where one is missing. */
static void expect_tokens_of_phi3(const struct kg_gguf *g) {
    static const char *const LOOKED_UP[] = { "</s>", "<unk>", "<s>", "<|endoftext|>" };
    const struct kg_gguf_key *tokens, *types;
    struct kg_str name;
    struct kg_error err;
    kg_must(kg_gguf_get_str(g, "general.name", &name, &err), &err);
    if (!memmem(name.data, name.len, "phi-3", 5)) return;
    kg_must(kg_gguf_get_array(g, "tokenizer.ggml.tokens", KG_GGUF_STRING, &tokens, &err), &err);
    kg_must(kg_gguf_get_array(g, "tokenizer.ggml.token_type", KG_GGUF_I32, &types, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(LOOKED_UP); i++)
        ck_assert_msg(count_token(tokens, types, LOOKED_UP[i]) == 1, "no control token %s", LOOKED_UP[i]);
}

static void has_what_llama_cpp_reads(struct kg_record *rec, const void *arg) {
    const struct form_row *f = arg;
    const struct kg_synth_options o = { .like = f->like, .architecture = f->architecture, .type = f->type };
    struct kg_gguf *g;
    struct kg_error err;
    struct kg_str architecture;
    write_model(o, scratch(rec, "m.gguf"));
    kg_must(kg_gguf_open(scratch(rec, "m.gguf"), &g, &err), &err);
    kg_must(kg_gguf_get_str(g, "general.architecture", &architecture, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(LOADED); i++) {
        if (LOADED[i].architecture && !kg_str_eq(architecture, LOADED[i].architecture)) continue;
        const char *suffix = strchr(LOADED[i].key, '}');
        char *key = suffix ? kg_xasprintf("%.*s%s", (int)architecture.len, architecture.data, suffix + 1)
                           : kg_xstrdup(LOADED[i].key);
        ck_assert_msg(kg_gguf_find_key(g, key) != NULL, "no %s", key);
        free(key);
    }
    expect_tokens_of_phi3(g);
    kg_gguf_close(g);
}

/* Every tensor's mean and deviation are within five of their standard errors of what was planned (the deviation
 * also within 2% for the rounding to 4 bits), and no two tensors of a size begin alike. */
static void values_are_as_planned(struct kg_record *rec, const void *arg) {
    const struct form_row *f = arg;
    const struct kg_synth_options o = { .like = f->like, .architecture = f->architecture, .type = f->type };
    struct kg_synth_plan plan;
    struct kg_gguf *g;
    struct kg_error err;
    kg_must(kg_synth_plan_make(&o, &plan, &err), &err);
    kg_must(kg_synth_write(&o, &plan, scratch(rec, "m.gguf"), &err), &err);
    kg_must(kg_gguf_open(scratch(rec, "m.gguf"), &g, &err), &err);
    ck_assert_uint_eq(kg_gguf_n_tensors(g), plan.n_tensors);
    for (size_t i = 0; i < plan.n_tensors; i++) {
        const struct kg_synth_tensor *want = &plan.tensors[i];
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(g, i);
        ck_assert(kg_str_eq(t->name, want->name));
        ck_assert_int_eq(t->dtype, want->dtype);
        ck_assert_uint_eq(t->n_elems, want->n_elems);
        float *values = calloc(t->n_elems, sizeof *values);
        kg_dtype_info(t->dtype)->decode(t->data, values, t->n_elems);
        double sum = 0, squares = 0;
        for (size_t e = 0; e < t->n_elems; e++) sum += (double)values[e];
        const double n = (double)t->n_elems, mean = sum / n;
        for (size_t e = 0; e < t->n_elems; e++) squares += pow((double)values[e] - mean, 2);
        const double deviation = sqrt(squares / n), error = want->deviation * 5 / sqrt(n);
        ck_assert_msg(fabs(mean - want->mean) < error, "%s: mean %g, %g is meant", want->name, mean, want->mean);
        ck_assert_msg(fabs(deviation / want->deviation - 1) < 5 / sqrt(n) + 0.02, "%s: deviation %g, %g is meant",
                      want->name, deviation, want->deviation);
        const size_t last = want->n_dims > 1 ? (size_t)(t->n_elems - t->dims[0]) : 0;
        if (last > 0) /* the last row is no repetition of the first */
            ck_assert_msg(memcmp(values, values + last, t->dims[0] * sizeof *values) != 0, "%s repeats", want->name);
        free(values);
    }
    kg_gguf_close(g);
    kg_synth_plan_free(&plan);
}

/* Of gpt-oss, mxfp4 is for the matrices of experts, else for all: embedding and output, too. */
static void mxfp4_is_of_these(struct kg_record *rec, const void *arg) {
    static const struct {
        const char *like;
        bool has_experts;
        size_t n_packed; /* of one layer, embedding and output */
    } MODELS[] = { { "phi-3-mini", false, 4 + 2 }, { "qwen2.5-0.5b", false, 7 + 1 }, { "gpt-oss-20b", true, 3 } };
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(MODELS); i++) {
        const struct kg_synth_options o = { .like = MODELS[i].like, .type = "mxfp4", .n_layers = 1 };
        struct kg_synth_plan plan;
        struct kg_error err;
        size_t n_packed = 0;
        kg_must(kg_synth_plan_make(&o, &plan, &err), &err);
        for (size_t t = 0; t < plan.n_tensors; t++) {
            const struct kg_synth_tensor *tensor = &plan.tensors[t];
            n_packed += tensor->dtype == KG_DTYPE_MXFP4;
            if (MODELS[i].has_experts && !strstr(tensor->name, "_exps.weight"))
                ck_assert_msg(tensor->dtype != KG_DTYPE_MXFP4, "%s: %s", MODELS[i].like, tensor->name);
        }
        ck_assert_msg(n_packed == MODELS[i].n_packed, "%s: %zu tensors", MODELS[i].like, n_packed);
        kg_synth_plan_free(&plan);
    }
}

/* The 256 slices of an MXFP4 tensor's normal distribution mirror each other: x and -x are as frequent, within five
 * standard errors of their difference. */
static void codes_are_symmetric(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_synth_options o = { .like = "tiny-gpt-oss", .type = "mxfp4" };
    struct kg_gguf *g;
    struct kg_error err;
    double n[16] = { 0 };
    write_model(o, scratch(rec, "m.gguf"));
    kg_must(kg_gguf_open(scratch(rec, "m.gguf"), &g, &err), &err);
    for (size_t i = 0; i < kg_gguf_n_tensors(g); i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(g, i);
        const uint8_t *data = t->data;
        for (uint64_t at = 0; t->dtype == KG_DTYPE_MXFP4 && at < t->size_bytes; at++) {
            if (at % 17 == 0) continue; /* a block's scale */
            n[data[at] & 15]++;
            n[data[at] >> 4]++;
        }
    }
    kg_gguf_close(g);
    for (size_t code = 0; code < 8; code++) {
        ck_assert_double_gt(n[code], 1000);
        ck_assert_msg(fabs(n[code] - n[code + 8]) < 5 * sqrt(n[code] + n[code + 8]), "%g of code %zu, %g of %zu",
                      n[code], code, n[code + 8], code + 8);
    }
}

/* Tensors larger than a piece: every piece has its own place in the stream. */
static void pieces_do_not_repeat(struct kg_record *rec, const void *arg) {
    (void)arg;
    const struct kg_synth_options o = { .like = "qwen2.5-0.5b", .n_layers = 1, .seed = 3 };
    struct kg_gguf *g;
    struct kg_error err;
    write_model(o, scratch(rec, "m.gguf"));
    kg_must(kg_gguf_open(scratch(rec, "m.gguf"), &g, &err), &err);
    const struct kg_gguf_tensor *t = kg_gguf_find_tensor(g, "token_embd.weight");
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_gt(t->size_bytes, 3 * (uint64_t)KG_GGUF_PIECE_BYTES);
    const uint8_t *data = t->data;
    for (uint64_t at = KG_GGUF_PIECE_BYTES; at + 4096 <= t->size_bytes; at += KG_GGUF_PIECE_BYTES)
        ck_assert(memcmp(data, data + at, 4096) != 0);
    kg_gguf_close(g);
}

static bool cancel_at_once(void *user) {
    return ++*(int *)user > 3;
}

static void cancelled_leaves_nothing(struct kg_record *rec, const void *arg) {
    (void)arg;
    int n_asked = 0;
    const struct kg_synth_options o = { .like = "tiny-qwen2.5", .cancelled = cancel_at_once, .user = &n_asked };
    struct kg_synth_plan plan;
    struct kg_dir_list left;
    struct kg_error err;
    kg_must(kg_synth_plan_make(&o, &plan, &err), &err);
    kg_must_fail(kg_synth_write(&o, &plan, scratch(rec, "m.gguf"), &err), KG_ERR_CANCELLED, &err, "m.gguf", NULL);
    kg_must(kg_dir_list(kg_scratch_dir(rec), &left, &err), &err);
    ck_assert_uint_eq(left.n_names, 0);
    kg_dir_list_free(&left);
    kg_synth_plan_free(&plan);
}

struct refused_row {
    const char *name;
    struct kg_synth_options options;
    const char *named, *also;
};

static const struct refused_row REFUSED[] = {
    { "unknown_model", { .like = "gpt-5" }, "'gpt-5'", "phi-3-mini, gpt-oss-20b" },
    { "unknown_type", { .like = "tiny-qwen2.5", .type = "f12" }, "f12", "" },
    { "type_that_is_not_made", { .like = "tiny-qwen2.5", .type = "q3_k" }, "q3_k", "q4_k_m" },
    { "architecture_of_another_model", { .like = "qwen2.5-0.5b", .architecture = "llama" }, "llama", "qwen2" },
    { "more_layers_than_the_model_has", { .like = "qwen2.5-0.5b", .n_layers = 25 }, "25", "24" },
    { "layers_of_a_small_one", { .like = "tiny-phi-3", .n_layers = 3 }, "3", "2" },
};

static void is_refused(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct refused_row *row = arg;
    struct kg_synth_plan plan;
    struct kg_error err;
    kg_must_fail(kg_synth_plan_make(&row->options, &plan, &err), KG_ERR_USAGE, &err, row->named, row->also, NULL);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(PUBLISHED); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "synth",
                                                   .name = PUBLISHED[i].name,
                                                   .run = has_published_size,
                                                   .arg = &PUBLISHED[i] });
    for (size_t i = 0; i < KG_COUNT_OF(FORMS); i++) {
        struct kg_case c = { .layer = "unit", .op = "synth_threads", .name = FORMS[i].name };
        c.run = threads_do_not_matter;
        c.arg = &FORMS[i];
        kg_case_list_add(cases, &c);
        c.op = "synth_values";
        c.run = values_are_as_planned;
        kg_case_list_add(cases, &c);
        c.op = "synth_loads";
        c.run = has_what_llama_cpp_reads;
        kg_case_list_add(cases, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                                   .op = "synth_refuses",
                                                   .name = REFUSED[i].name,
                                                   .run = is_refused,
                                                   .arg = &REFUSED[i] });
    kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                               .op = "synth",
                                               .name = "contexts_are_powers_of_two",
                                               .run = contexts_are_powers_of_two });
    kg_case_list_add(cases,
                     &(struct kg_case){
                         .layer = "unit", .op = "synth", .name = "pieces_do_not_repeat", .run = pieces_do_not_repeat });
    kg_case_list_add(
        cases,
        &(struct kg_case){ .layer = "unit", .op = "synth", .name = "codes_are_symmetric", .run = codes_are_symmetric });
    kg_case_list_add(
        cases,
        &(struct kg_case){ .layer = "unit", .op = "synth", .name = "mxfp4_is_of_these", .run = mxfp4_is_of_these });
    kg_case_list_add(cases, &(struct kg_case){ .layer = "unit",
                                               .op = "synth",
                                               .name = "cancelled_leaves_nothing",
                                               .run = cancelled_leaves_nothing });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
