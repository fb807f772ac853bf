/* Rounding a GGUF file: every tensor is what its encoder makes of the numbers that were there, what is said of the
 * error is so and no more than ggml's encoders leave, everything else stays, and what is refused leaves nothing. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "convert/quantize.h"
#include "convert/synth.h"
#include "measure/process_memory.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *scratch(const struct kg_record *rec, const char *name) {
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", kg_scratch_dir(rec), name);
    return path;
}

static const struct kg_file_type *file_type(const char *name) {
    const struct kg_file_type *type;
    struct kg_error err;
    kg_must(kg_file_type_find(name, &type, &err), &err);
    return type;
}

static void make_model(const char *like, const char *type, const char *path) {
    const struct kg_synth_options options = { .like = like, .type = type, .seed = 11 };
    struct kg_synth_plan plan;
    struct kg_error err;
    kg_must(kg_synth_plan_make(&options, &plan, &err), &err);
    kg_must(kg_synth_write(&options, &plan, path, &err), &err);
    kg_synth_plan_free(&plan);
}

static struct kg_gguf *open_file(const char *path) {
    struct kg_gguf *g;
    struct kg_error err;
    kg_must(kg_gguf_open(path, &g, &err), &err);
    return g;
}

static struct kg_quantize_summary quantize(const char *in, const char *out, const struct kg_quantize_options *options) {
    struct kg_quantize_summary summary;
    struct kg_error err;
    kg_must(kg_quantize_file(in, out, options, &summary, &err), &err);
    return summary;
}

struct form_row {
    const char *name, *like, *from, *type;
    const char *some[2]; /* a tensor and what it is */
};
static const struct form_row FORMS[] = {
    { "llama_f16_to_q4_k_m", "tiny-llama-3.1", "f16", "q4_k_m", { "blk.1.ffn_down.weight", "Q6_K" } },
    { "llama_f32_to_q5_k_m", "tiny-llama-3.1", "f32", "q5_k_m", { "blk.0.ffn_down.weight", "Q5_K" } },
    { "llama_bf16_to_q4_k_s", "tiny-llama-3.1", "bf16", "q4_k_s", { "blk.1.attn_v.weight", "Q5_K" } },
    { "llama_q8_0_to_q4_k_m", "tiny-llama-3.1", "q8_0", "q4_k_m", { "blk.0.attn_q.weight", "Q4_K" } },
    { "llama_f32_to_f16", "tiny-llama-3.1", "f32", "f16", { "output.weight", "F16" } },
    { "llama_f16_to_mxfp4", "tiny-llama-3.1", "f16", "mxfp4", { "output.weight", "MXFP4" } },
    { "qwen3_f16_to_q6_k", "tiny-qwen3", "f16", "q6_k", { "blk.0.attn_output.weight", "Q6_K" } },
    { "qwen2_f16_to_q4_k_m", "tiny-qwen2.5", "f16", "q4_k_m", { "token_embd.weight", "Q8_0" } },
    { "qwen2_f32_to_q5_k", "tiny-qwen2.5", "f32", "q5_k", { "blk.0.attn_q.weight", "Q8_0" } },
    { "phi3_f16_to_q5_0", "tiny-phi-3", "f16", "q5_0", { "blk.1.attn_qkv.weight", "Q5_0" } },
    { "gpt2_f32_to_q4_0", "tiny-gpt2", "f32", "q4_0", { "position_embd.weight", "F32" } },
    { "gpt_oss_f16_to_mxfp4_moe", "tiny-gpt-oss", "f16", "mxfp4_moe", { "blk.0.ffn_up_exps.weight", "MXFP4" } },
    { "gpt_oss_mxfp4_to_mxfp4_moe", "tiny-gpt-oss", "mxfp4", "mxfp4_moe", { "blk.0.attn_q.weight", "Q8_0" } },
};

/* What was said of a tensor against all its elements in one loop. The limits are what ggml's encoders leave of normal
 * numbers (unit/encode_blocks), and for Q8_0 and MXFP4 what kigo's do. */
static void expect_error(const struct kg_gguf_tensor *from, const struct kg_gguf_tensor *to,
                         const struct kg_written_tensor *said) {
    static const double GGML[KG_DTYPE_COUNT] = {
        [KG_DTYPE_Q4_0] = 0.0867, [KG_DTYPE_Q5_0] = 0.043,  [KG_DTYPE_Q8_0] = 0.0062, [KG_DTYPE_Q4_K] = 0.0722,
        [KG_DTYPE_Q5_K] = 0.0362, [KG_DTYPE_Q6_K] = 0.0179, [KG_DTYPE_MXFP4] = 0.125
    };
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
    const double relative = kg_rounding_relative_rms(&said->rounding);
    ck_assert_double_eq(said->rounding.worst, worst);
    ck_assert_double_eq_tol(relative / sqrt(errors / squares), 1, 1e-12); /* the order of the sum */
    ck_assert_msg(relative > 0 && relative < GGML[to->dtype], "%s: %g", said->name, relative);
}

static void expect_tensor(const struct kg_gguf_tensor *from, const struct kg_gguf_tensor *to,
                          const struct kg_written_tensor *said) {
    ck_assert(kg_str_eq(to->name, said->name));
    ck_assert_uint_eq(from->n_dims, to->n_dims);
    ck_assert_int_eq(memcmp(from->dims, to->dims, sizeof to->dims), 0);
    ck_assert_int_eq(said->from, from->dtype);
    ck_assert_int_eq(said->dtype, to->dtype);
    uint8_t *want = kg_xcalloc(1, to->size_bytes);
    if (from->dtype == to->dtype) {
        memcpy(want, from->data, to->size_bytes);
    } else {
        float *x = kg_xcalloc(from->n_elems, sizeof *x);
        kg_dtype_info(from->dtype)->decode(from->data, x, from->n_elems);
        kg_dtype_info(to->dtype)->encode(x, want, to->n_elems);
        free(x);
    }
    ck_assert_msg(memcmp(want, to->data, to->size_bytes) == 0, "%s differs", said->name);
    free(want);
    if (kg_written_is_rounded(said)) expect_error(from, to, said);
    else ck_assert(said->rounding.squares == 0 && said->rounding.error_squares == 0 && said->rounding.worst == 0);
}

static void rounds_every_matrix(struct kg_record *rec, const void *arg) {
    const struct form_row *f = arg;
    const struct kg_quantize_options options = { .type = file_type(f->type), .requantize = true, .n_threads = 2 };
    const char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    uint64_t n_params = 0, n_bytes[2] = { 0 };
    make_model(f->like, f->from, in);
    struct kg_quantize_summary s = quantize(in, out, &options);
    struct kg_gguf *from = open_file(in), *to = open_file(out);
    ck_assert_uint_eq(s.n_tensors, kg_gguf_n_tensors(from));
    ck_assert_uint_eq(s.n_tensors, kg_gguf_n_tensors(to));
    for (size_t i = 0; i < s.n_tensors; i++) {
        const struct kg_gguf_tensor *a = kg_gguf_tensor_at(from, i), *b = kg_gguf_tensor_at(to, i);
        expect_tensor(a, b, &s.tensors[i]);
        n_params += b->n_elems;
        n_bytes[0] += a->size_bytes;
        n_bytes[1] += b->size_bytes;
    }
    const struct kg_gguf_tensor *some = kg_gguf_find_tensor(to, f->some[0]);
    ck_assert_str_eq(kg_dtype_info(some->dtype)->name, f->some[1]);
    ck_assert_uint_eq(s.n_params, n_params);
    ck_assert_uint_eq(s.n_bytes_before, n_bytes[0]);
    ck_assert_uint_eq(s.n_bytes, n_bytes[1]);
    ck_assert_uint_eq(s.n_layers, 2);
    kg_gguf_close(from);
    kg_gguf_close(to);
    kg_quantize_summary_free(&s);
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

/* Bytes, and the sums of the errors to the last bit. */
static void threads_do_not_matter(struct kg_record *rec, const void *arg) {
    const char *in = scratch(rec, "in.gguf"), *outs[] = { scratch(rec, "1.gguf"), scratch(rec, "5.gguf") };
    struct kg_quantize_summary s[2];
    (void)arg;
    make_model("tiny-llama-3.1", "f16", in);
    for (int i = 0; i < 2; i++)
        s[i] =
            quantize(in, outs[i], &(struct kg_quantize_options){ .type = file_type("q4_k_m"), .n_threads = i ? 5 : 1 });
    ck_assert(same_files(outs[0], outs[1]));
    for (size_t i = 0; i < s[0].n_tensors; i++)
        ck_assert_double_eq(s[0].tensors[i].rounding.error_squares, s[1].tensors[i].rounding.error_squares);
    kg_quantize_summary_free(&s[0]);
    kg_quantize_summary_free(&s[1]);
}

/* A file of one layer with the tensor `name` (64 x 4) of x, its metadata changed by `change`. */
static void write_small(const char *path, const char *name, enum kg_dtype dtype, const float *x,
                        void (*change)(struct kg_gguf_writer *)) {
    static const uint64_t DIMS[] = { 64, 4 };
    uint8_t data[64 * 4 * sizeof(float)];
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    struct kg_error err;
    kg_dtype_info(dtype)->encode(x, data, 64 * 4);
    if (change) {
        change(w);
    } else {
        kg_gguf_writer_str(w, "general.architecture", "llama", 5);
        kg_gguf_writer_u32(w, "llama.block_count", 1);
    }
    kg_must(kg_gguf_writer_tensor(w, name, dtype, 2, DIMS, data, &err), &err);
    kg_must(kg_gguf_writer_finish(w, path, &err), &err);
    kg_gguf_writer_free(w);
}

static void other_architecture(struct kg_gguf_writer *w) {
    kg_gguf_writer_str(w, "general.architecture", "falcon", 6);
    kg_gguf_writer_u32(w, "falcon.block_count", 1);
}

static void no_architecture(struct kg_gguf_writer *w) {
    kg_gguf_writer_u32(w, "llama.block_count", 1);
}

static void no_layers(struct kg_gguf_writer *w) {
    kg_gguf_writer_str(w, "general.architecture", "llama", 5);
}

static void one_of_two_files(struct kg_gguf_writer *w) {
    kg_gguf_writer_str(w, "general.architecture", "llama", 5);
    kg_gguf_writer_u32(w, "llama.block_count", 1);
    kg_gguf_writer_u32(w, "split.count", 2);
}

/* Keys of several types, the replaced ones first and in the middle; a list of counts. */
static void many_keys(struct kg_gguf_writer *w) {
    static const int32_t COUNTS[] = { 8, 8 };
    kg_gguf_writer_u32(w, "general.file_type", 1);
    kg_gguf_writer_str(w, "general.architecture", "llama", 5);
    kg_gguf_writer_u32(w, "llama.block_count", 2);
    kg_gguf_writer_i32s(w, "llama.attention.head_count", COUNTS, 2);
    kg_gguf_writer_u32(w, "general.quantization_version", 1);
    kg_gguf_writer_f32(w, "llama.rope.freq_base", 12345.5F);
    kg_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
    kg_gguf_writer_u32(w, "split.no", 0);
    kg_gguf_writer_u32(w, "split.count", 1);
    kg_gguf_writer_i32s(w, "split.tensors.count", COUNTS, 1);
    kg_gguf_writer_str(w, "general.license", "mit", 3);
}

/* 80 layers, with or without groups of heads; without the key every head has its own. */
static void all_heads(struct kg_gguf_writer *w) {
    kg_gguf_writer_str(w, "general.architecture", "llama", 5);
    kg_gguf_writer_u32(w, "llama.block_count", 80);
    kg_gguf_writer_u32(w, "llama.attention.head_count", 8);
}

static void groups_of_heads(struct kg_gguf_writer *w) {
    all_heads(w);
    kg_gguf_writer_u32(w, "llama.attention.head_count_kv", 2);
}

static void eight_experts(struct kg_gguf_writer *w) {
    all_heads(w);
    kg_gguf_writer_u32(w, "llama.expert_count", 8);
}

static const float *some_numbers(void) {
    static float x[64 * 4];
    for (size_t i = 0; i < KG_COUNT_OF(x); i++) x[i] = (float)sin((double)i + 1);
    return x;
}

static void keys_stay(struct kg_record *rec, const void *arg) {
    static const char *const LEFT[] = { "general.architecture",
                                        "llama.block_count",
                                        "llama.attention.head_count",
                                        "llama.rope.freq_base",
                                        "tokenizer.ggml.add_bos_token",
                                        "general.license",
                                        "general.file_type",
                                        "general.quantization_version" };
    const char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    uint32_t type, version;
    float base;
    struct kg_str license;
    struct kg_error err;
    (void)arg;
    write_small(in, "blk.0.attn_q.weight", KG_DTYPE_F32, some_numbers(), many_keys);
    struct kg_quantize_summary s = quantize(in, out, &(struct kg_quantize_options){ .type = file_type("q5_k_m") });
    struct kg_gguf *g = open_file(out);
    ck_assert_uint_eq(kg_gguf_n_keys(g), KG_COUNT_OF(LEFT));
    for (size_t i = 0; i < KG_COUNT_OF(LEFT); i++) ck_assert(kg_str_eq(kg_gguf_key_at(g, i)->name, LEFT[i]));
    kg_must(kg_gguf_get_u32(g, "general.file_type", &type, &err), &err);
    kg_must(kg_gguf_get_u32(g, "general.quantization_version", &version, &err), &err);
    kg_must(kg_gguf_get_f32(g, "llama.rope.freq_base", &base, &err), &err);
    kg_must(kg_gguf_get_str(g, "general.license", &license, &err), &err);
    ck_assert_uint_eq(type, 17);
    ck_assert_uint_eq(version, 2);
    ck_assert_float_eq(base, 12345.5F);
    ck_assert(kg_str_eq(license, "mit"));
    kg_gguf_close(g);
    kg_quantize_summary_free(&s);
}

/* What rules ask of the model comes from its metadata. */
static void counts_are_read(struct kg_record *rec, const void *arg) {
    static const struct {
        void (*change)(struct kg_gguf_writer *);
        enum kg_dtype by_rules;
    } ROWS[] = { { all_heads, KG_DTYPE_Q4_K }, { groups_of_heads, KG_DTYPE_Q5_K }, { eight_experts, KG_DTYPE_Q8_0 } };
    const char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        write_small(in, "blk.11.attn_v.weight", KG_DTYPE_F32, some_numbers(), ROWS[i].change);
        struct kg_quantize_summary s = quantize(in, out, &(struct kg_quantize_options){ .type = file_type("q4_k_m") });
        ck_assert_int_eq(s.tensors[0].by_rules, ROWS[i].by_rules);
        kg_quantize_summary_free(&s);
    }
}

static void rounded_again_if_asked(struct kg_record *rec, const void *arg) {
    const char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    struct kg_quantize_options options = { .type = file_type("q4_0"), .requantize = true };
    (void)arg;
    write_small(in, "blk.0.attn_q.weight", KG_DTYPE_Q8_0, some_numbers(), NULL);
    struct kg_quantize_summary s = quantize(in, out, &options);
    ck_assert_int_eq(s.tensors[0].from, KG_DTYPE_Q8_0);
    ck_assert_int_eq(s.tensors[0].dtype, KG_DTYPE_Q4_0);
    ck_assert_double_gt(s.tensors[0].rounding.worst, 0);
    kg_quantize_summary_free(&s);
    /* to floats, too: it is decoded */
    options.type = file_type("f16");
    s = quantize(in, out, &options);
    ck_assert_int_eq(s.tensors[0].dtype, KG_DTYPE_F16);
    kg_quantize_summary_free(&s);
}

/* A value that is refused is read from the block that it lies in: here the scale of block 5 is infinite. */
static void value_of_a_later_block(struct kg_record *rec, const void *arg) {
    enum { COLS = 64, ROWS = 4, BAD_BLOCK = 5 };
    static const uint64_t DIMS[] = { COLS, ROWS };
    static const uint8_t INFINITE_HALF[] = { 0x00, 0x7C };
    const struct kg_dtype_info *info = kg_dtype_info(KG_DTYPE_Q8_0);
    const char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    const struct kg_quantize_options options = { .type = file_type("q4_0"), .requantize = true };
    struct kg_quantize_summary summary;
    struct kg_error err;
    uint8_t data[COLS * ROWS * sizeof(float)];
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    (void)arg;
    info->encode(some_numbers(), data, COLS * ROWS);
    uint8_t *block = data + BAD_BLOCK * info->block_bytes;
    memcpy(block, INFINITE_HALF, sizeof INFINITE_HALF);
    memset(block + sizeof INFINITE_HALF, 1, info->block_bytes - sizeof INFINITE_HALF); /* each value is infinite */
    kg_gguf_writer_str(w, "general.architecture", "llama", 5);
    kg_gguf_writer_u32(w, "llama.block_count", 1);
    kg_must(kg_gguf_writer_tensor(w, "blk.0.attn_q.weight", KG_DTYPE_Q8_0, 2, DIMS, data, &err), &err);
    kg_must(kg_gguf_writer_finish(w, in, &err), &err);
    kg_gguf_writer_free(w);
    kg_must_fail_naming(kg_quantize_file(in, out, &options, &summary, &err), KG_ERR_NUMERIC, &err,
                        (const char *[]){ "attn_q.weight", "element 32 of row 2", "inf", NULL });
}

/* Of the same type nothing is rounded, whether asked or not. */
static void the_same_type_is_a_copy(struct kg_record *rec, const void *arg) {
    const char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    (void)arg;
    make_model("tiny-llama-3.1", "q4_k_m", in);
    struct kg_quantize_summary s = quantize(in, out, &(struct kg_quantize_options){ .type = file_type("q4_k_m") });
    struct kg_gguf *a = open_file(in), *b = open_file(out);
    for (size_t i = 0; i < s.n_tensors; i++) {
        const struct kg_gguf_tensor *from = kg_gguf_tensor_at(a, i), *to = kg_gguf_tensor_at(b, i);
        ck_assert_uint_eq(from->size_bytes, to->size_bytes);
        ck_assert_int_eq(memcmp(from->data, to->data, to->size_bytes), 0);
        ck_assert(!kg_written_is_rounded(&s.tensors[i]));
    }
    kg_gguf_close(a);
    kg_gguf_close(b);
    kg_quantize_summary_free(&s);
}

static bool cancel_at_once(void *user) {
    return ++*(int *)user > 3;
}

struct refused_row {
    const char *name, *type;
    void (*change)(struct kg_gguf_writer *);
    enum kg_dtype dtype;
    double value; /* of element 70, unless 0 */
    enum kg_status status;
    const char *says[3];
};
static const struct refused_row REFUSED[] = {
    { "q8_0_again", "q4_k_m", NULL, KG_DTYPE_Q8_0, 0, KG_ERR_USAGE, { "attn_q.weight", "Q8_0", "--allow-requantize" } },
    { "mxfp4_again", "q8_0", NULL, KG_DTYPE_MXFP4, 0, KG_ERR_USAGE, { "attn_q.weight", "MXFP4", "Q8_0" } },
    { "q4_0_to_f16", "f16", NULL, KG_DTYPE_Q4_0, 0, KG_ERR_USAGE, { "attn_q.weight", "Q4_0", "F16" } },
    { "nan", "q4_0", NULL, KG_DTYPE_F32, NAN, KG_ERR_NUMERIC, { "attn_q.weight", "element 6 of row 1", "nan" } },
    { "infinity", "q8_0", NULL, KG_DTYPE_BF16, INFINITY, KG_ERR_NUMERIC, { "attn_q.weight", "inf", "Q8_0" } },
    { "too_large_for_f16", "f16", NULL, KG_DTYPE_F32, 65520, KG_ERR_NUMERIC, { "attn_q.weight", "65520", "F16" } },
    { "unknown_architecture", "q4_0", other_architecture, KG_DTYPE_F32, 0, KG_ERR_UNSUPPORTED, { "'falcon'" } },
    { "no_architecture", "q4_0", no_architecture, KG_DTYPE_F32, 0, KG_ERR_NOT_FOUND, { "general.architecture" } },
    { "no_layers", "q4_0", no_layers, KG_DTYPE_F32, 0, KG_ERR_NOT_FOUND, { "llama.block_count" } },
    { "one_of_two_files", "q4_0", one_of_two_files, KG_DTYPE_F32, 0, KG_ERR_UNSUPPORTED, { "one of 2 files" } },
};

static void expect_only(const struct kg_record *rec, const char *name) {
    struct kg_dir_list left;
    struct kg_error err;
    kg_must(kg_dir_list(kg_scratch_dir(rec), &left, &err), &err);
    ck_assert_uint_eq(left.n_names, 1);
    ck_assert_str_eq(left.names[0], name);
    kg_dir_list_free(&left);
}

static void is_refused(struct kg_record *rec, const void *arg) {
    const struct refused_row *row = arg;
    const struct kg_quantize_options options = { .type = file_type(row->type) };
    struct kg_quantize_summary summary;
    struct kg_error err;
    float x[64 * 4];
    memcpy(x, some_numbers(), sizeof x);
    if (row->value != 0) x[70] = (float)row->value;
    write_small(scratch(rec, "in.gguf"), "blk.0.attn_q.weight", row->dtype, x, row->change);
    const enum kg_status status =
        kg_quantize_file(scratch(rec, "in.gguf"), scratch(rec, "out.gguf"), &options, &summary, &err);
    kg_must_fail_naming(status, row->status, &err, (const char *[]){ row->says[0], row->says[1], row->says[2], NULL });
    expect_only(rec, "in.gguf");
}

static void the_file_itself_stays(struct kg_record *rec, const void *arg) {
    const struct kg_quantize_options options = { .type = file_type("q4_0") };
    const char *in = scratch(rec, "in.gguf");
    struct kg_quantize_summary summary;
    struct kg_error err;
    (void)arg;
    write_small(in, "blk.0.attn_q.weight", KG_DTYPE_F32, some_numbers(), NULL);
    kg_must_fail(kg_quantize_file(in, in, &options, &summary, &err), KG_ERR_USAGE, &err, "in.gguf", NULL);
    char *other = kg_xasprintf("%s/./in.gguf", kg_scratch_dir(rec));
    kg_must_fail(kg_quantize_file(in, other, &options, &summary, &err), KG_ERR_USAGE, &err, "in.gguf", NULL);
    free(other);
    expect_only(rec, "in.gguf");
}

static void cancelled_leaves_nothing(struct kg_record *rec, const void *arg) {
    int n_asked = 0;
    const struct kg_quantize_options options = { .type = file_type("q4_0"),
                                                 .cancelled = cancel_at_once,
                                                 .user = &n_asked };
    struct kg_quantize_summary summary;
    struct kg_error err;
    (void)arg;
    make_model("tiny-llama-3.1", "f16", scratch(rec, "in.gguf"));
    kg_must_fail(kg_quantize_file(scratch(rec, "in.gguf"), scratch(rec, "out.gguf"), &options, &summary, &err),
                 KG_ERR_CANCELLED, &err, "out.gguf", NULL);
    ck_assert_int_eq(n_asked, 4);
    expect_only(rec, "in.gguf");
}

enum { STEP_ELEMS = 1 << 20 };

/* Element i is 1 + i / STEP_ELEMS. */
static enum kg_status fill_steps(void *arg, uint64_t offset_bytes, void *to, size_t n_bytes, struct kg_error *err) {
    (void)arg, (void)err;
    for (size_t i = 0; i < n_bytes / sizeof(float); i++) {
        const uint64_t step = 1 + (offset_bytes / sizeof(float) + i) / STEP_ELEMS;
        ((float *)to)[i] = (float)step;
    }
    return KG_OK;
}

/* The first block of each step; a scale of f16 is off by 2^-11 at most. */
static void expect_steps(const char *path) {
    struct kg_gguf *g = open_file(path);
    const struct kg_gguf_tensor *t = kg_gguf_tensor_at(g, 0);
    const struct kg_dtype_info *info = kg_dtype_info(t->dtype);
    float x[32];
    for (uint64_t at = 0; at < t->n_elems; at += STEP_ELEMS) {
        const uint64_t step = 1 + at / STEP_ELEMS;
        const double want = (double)step;
        info->decode((const uint8_t *)t->data + at / info->block_elems * info->block_bytes, x, info->block_elems);
        ck_assert_msg(fabs((double)x[0] / want - 1) < 0x1p-11, "%g, not %g", (double)x[0], want);
    }
    kg_gguf_close(g);
}

/* A tensor of 256 MiB, written in pieces: they alone are in memory, and pages that were read are given back. */
static void memory_does_not_grow_with_the_file(struct kg_record *rec, const void *arg) {
    enum { MIB = 1 << 20 };
    static const uint64_t DIMS[] = { 4096, 16384 };
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    struct kg_error err;
    (void)arg;
    kg_gguf_writer_str(w, "general.architecture", "llama", 5);
    kg_gguf_writer_u32(w, "llama.block_count", 1);
    kg_must(kg_gguf_writer_tensor_made(w, "blk.0.ffn_up.weight", KG_DTYPE_F32, 2, DIMS, fill_steps, NULL, &err), &err);
    kg_must(kg_gguf_writer_finish(w, scratch(rec, "in.gguf"), &err), &err);
    kg_gguf_writer_free(w);
    const uint64_t before = kg_process_peak_bytes();
    struct kg_quantize_summary s = quantize(scratch(rec, "in.gguf"), scratch(rec, "out.gguf"),
                                            &(struct kg_quantize_options){ .type = file_type("q8_0") });
    const double grown = (double)(kg_process_peak_bytes() - before) / MIB;
    kg_record_metric(rec, "grown", "MiB", grown);
    ck_assert_uint_eq(s.n_bytes_before, (uint64_t)256 * MIB);
    ck_assert_msg(grown < 160, "%g MiB more than before", grown);
    ck_assert_double_lt(kg_rounding_relative_rms(&s.tensors[0].rounding), 0x1p-11);
    expect_steps(scratch(rec, "out.gguf"));
    kg_quantize_summary_free(&s);
}

static void build(struct kg_case_list *cases) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } OTHERS[] = {
        { "counts_are_read", counts_are_read },
        { "threads_do_not_matter", threads_do_not_matter },
        { "keys_stay", keys_stay },
        { "rounded_again_if_asked", rounded_again_if_asked },
        { "value_of_a_later_block", value_of_a_later_block },
        { "the_same_type_is_a_copy", the_same_type_is_a_copy },
        { "the_file_itself_stays", the_file_itself_stays },
        { "cancelled_leaves_nothing", cancelled_leaves_nothing },
        { "memory_does_not_grow_with_the_file", memory_does_not_grow_with_the_file },
    };
    struct kg_case c = { .layer = "unit", .op = "quantize" };
    for (size_t i = 0; i < KG_COUNT_OF(FORMS); i++) {
        c.name = FORMS[i].name, c.run = rounds_every_matrix, c.arg = &FORMS[i];
        kg_case_list_add(cases, &c);
    }
    c.arg = NULL;
    for (size_t i = 0; i < KG_COUNT_OF(OTHERS); i++) {
        c.name = OTHERS[i].name, c.run = OTHERS[i].run;
        kg_case_list_add(cases, &c);
    }
    c.op = "quantize_refuses";
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++) {
        c.name = REFUSED[i].name, c.run = is_refused, c.arg = &REFUSED[i];
        kg_case_list_add(cases, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
