#include "suites/support/tiny_model.h"
#include "base/buffer.h"
#include "base/size.h"
#include "format/gguf.h"
#include "suites/harness/compare.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 256, NAME_SIZE = 64 };

struct writing {
    const struct kg_tiny_model *model;
    const struct kg_tiny_edit *edits;
    size_t n_edits;
    struct kg_gguf_writer *writer;
    bool tensor_names[MAX_TENSORS]; /* edits by index that named a tensor or key of the model */
    void *data[MAX_TENSORS];        /* borrowed by the writer until it is done */
    size_t n_tensors;
};

static const struct kg_tiny_edit *edit_of(struct writing *w, const char *name) {
    for (size_t i = 0; i < w->n_edits; i++) {
        if (strcmp(w->edits[i].name, name) != 0) continue;
        w->tensor_names[i] = true;
        return &w->edits[i];
    }
    return NULL;
}

static void write_key_edit(struct writing *w, const struct kg_tiny_edit *e) {
    const int32_t both[] = { (int32_t)e->number, (int32_t)e->number };
    switch (e->change) {
    case KG_TINY_KEY_U32: kg_gguf_writer_u32(w->writer, e->name, (uint32_t)e->number); break;
    case KG_TINY_KEY_F32: kg_gguf_writer_f32(w->writer, e->name, (float)e->number); break;
    case KG_TINY_KEY_BOOL: kg_gguf_writer_bool(w->writer, e->name, e->number != 0); break;
    case KG_TINY_KEY_TEXT: kg_gguf_writer_str(w->writer, e->name, e->text, strlen(e->text)); break;
    case KG_TINY_KEY_I32S: kg_gguf_writer_i32s(w->writer, e->name, both, 2); break;
    default: break; /* omitted */
    }
}

/* Whether an edit has taken the key's place. */
static bool key_edited(struct writing *w, const char *name) {
    const struct kg_tiny_edit *e = edit_of(w, name);
    if (e) write_key_edit(w, e);
    return e != NULL;
}

static void key_text(struct writing *w, const char *name, const char *value) {
    if (!key_edited(w, name)) kg_gguf_writer_str(w->writer, name, value, strlen(value));
}

static void key_u32(struct writing *w, const char *suffix, uint32_t value) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.%s", w->model->architecture, suffix);
    if (!key_edited(w, name)) kg_gguf_writer_u32(w->writer, name, value);
}

static void key_f32(struct writing *w, const char *suffix, float value) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.%s", w->model->architecture, suffix);
    if (!key_edited(w, name)) kg_gguf_writer_f32(w->writer, name, value);
}

static bool is(const struct writing *w, const char *architecture) {
    return strcmp(w->model->architecture, architecture) == 0;
}

static void write_scaling(struct writing *w) {
    const struct kg_tiny_model *m = w->model;
    char name[NAME_SIZE];
    if (is(w, "phi3")) {
        const uint64_t head_dim = m->head_dim ? m->head_dim : m->n_embd / m->n_heads;
        key_u32(w, "rope.dimension_count", (uint32_t)head_dim);
        key_u32(w, "rope.scaling.original_context_length", m->long_short ? m->n_ctx / 2 : m->n_ctx);
        if (m->long_short) key_f32(w, "rope.scaling.attn_factor", 1.190238f);
    }
    if (is(w, "gpt-oss")) {
        snprintf(name, sizeof name, "%s.rope.scaling.type", m->architecture);
        key_text(w, name, "yarn");
        key_f32(w, "rope.scaling.factor", 32);
        key_u32(w, "rope.scaling.original_context_length", 4096);
    }
}

static void write_configuration(struct writing *w) {
    const struct kg_tiny_model *m = w->model;
    key_text(w, "general.architecture", m->architecture);
    key_text(w, "general.name", "tiny");
    key_u32(w, "context_length", m->n_ctx);
    key_u32(w, "embedding_length", m->n_embd);
    key_u32(w, "block_count", m->n_layers);
    key_u32(w, "attention.head_count", m->n_heads);
    key_u32(w, "attention.head_count_kv", m->n_kv_heads);
    if (m->head_dim) key_u32(w, "attention.key_length", m->head_dim);
    if (m->window) key_u32(w, "attention.sliding_window", m->window);
    if (m->n_experts) {
        key_u32(w, "expert_count", m->n_experts);
        key_u32(w, "expert_used_count", m->n_experts_used);
        key_u32(w, "expert_feed_forward_length", m->n_ff);
    }
    key_u32(w, "feed_forward_length", m->n_ff);
    if (is(w, "gpt2")) {
        key_f32(w, "attention.layer_norm_epsilon", 1e-5f);
        return;
    }
    key_f32(w, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_f32(w, "rope.freq_base", is(w, "gpt-oss") ? 150000 : 10000);
    write_scaling(w);
}

/* GPT-2's letters for bytes: itself where it prints, else the next of U+0100 on. */
static void byte_token(int byte, char text[4], int *next) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = prints ? byte : 256 + (*next)++;
    if (code < 0x80) {
        snprintf(text, 4, "%c", code);
        return;
    }
    text[0] = (char)(0xC0 | code >> 6);
    text[1] = (char)(0x80 | (code & 0x3F));
    text[2] = '\0';
}

static void write_tokenizer(struct writing *w) {
    static const char *const OTHERS[] = { "he", "th", "<|endoftext|>", "<|im_start|>", "<|im_end|>" };
    static const char *const MERGES[] = { "h e", "t h" };
    static const char TEMPLATE[] = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
                                   "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
                                   "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    enum { NORMAL = 1, CONTROL = 3 };
    char bytes[256][4];
    struct kg_str tokens[KG_TINY_TOKENS], merges[KG_COUNT_OF(MERGES)];
    int32_t types[KG_TINY_TOKENS];
    int next = 0;
    for (int i = 0; i < KG_TINY_TOKENS; i++) {
        if (i < 256) byte_token(i, bytes[i], &next);
        const char *text = i < 256 ? bytes[i] : OTHERS[i - 256];
        tokens[i] = (struct kg_str){ text, strlen(text) };
        types[i] = i < KG_TINY_END_OF_TEXT ? NORMAL : CONTROL;
    }
    for (size_t i = 0; i < KG_COUNT_OF(MERGES); i++) merges[i] = (struct kg_str){ MERGES[i], strlen(MERGES[i]) };
    key_text(w, "tokenizer.ggml.model", "gpt2");
    key_text(w, "tokenizer.ggml.pre", "qwen2");
    key_text(w, "tokenizer.chat_template", TEMPLATE);
    if (!key_edited(w, "tokenizer.ggml.tokens"))
        kg_gguf_writer_strings(w->writer, "tokenizer.ggml.tokens", tokens, KG_TINY_TOKENS);
    if (!key_edited(w, "tokenizer.ggml.token_type"))
        kg_gguf_writer_i32s(w->writer, "tokenizer.ggml.token_type", types, KG_TINY_TOKENS);
    if (!key_edited(w, "tokenizer.ggml.merges"))
        kg_gguf_writer_strings(w->writer, "tokenizer.ggml.merges", merges, KG_COUNT_OF(merges));
    if (!key_edited(w, "tokenizer.ggml.eos_token_id"))
        kg_gguf_writer_u32(w->writer, "tokenizer.ggml.eos_token_id", KG_TINY_IM_END);
}

/* The random values of the model written last, by tensor: the next one is often the same in another dtype. */
static struct drawn {
    uint64_t seed;
    size_t n;
    double mean, deviation;
    float *values;
} drawn[MAX_TENSORS];

static const float *normal_values(size_t i_tensor, uint64_t seed, size_t n, double mean, double deviation) {
    struct drawn *d = &drawn[i_tensor];
    if (d->values && d->seed == seed && d->n == n && d->mean == mean && d->deviation == deviation) return d->values;
    free(d->values);
    *d = (struct drawn){ seed, n, mean, deviation, kg_xmalloc(n * sizeof *d->values) };
    kg_fill_normal(d->values, n, seed, mean, deviation);
    return d->values;
}

static void add_tensor(struct writing *w, const char *name, enum kg_dtype dtype, const uint64_t wanted[3], double mean,
                       double deviation) {
    const uint64_t dims[3] = { wanted[0], wanted[1] ? wanted[1] : 1, wanted[2] ? wanted[2] : 1 };
    const size_t n = dims[0] * dims[1] * dims[2];
    uint64_t size_bytes;
    struct kg_error err;
    ck_assert_msg(w->n_tensors < MAX_TENSORS, "a tiny model of more than %d tensors", MAX_TENSORS);
    ck_assert_msg(kg_dtype_info(dtype)->encode != NULL || deviation == 0, "%s is not written", name);
    ck_assert_int_eq(kg_dtype_row_bytes(dtype, n, &size_bytes, &err), KG_OK);
    float *equal = deviation > 0 ? NULL : kg_xmalloc(n * sizeof *equal);
    for (size_t i = 0; equal && i < n; i++) equal[i] = (float)mean;
    const uint64_t seed = w->model->seed * 1000 + w->n_tensors;
    const float *values = equal ? equal : normal_values(w->n_tensors, seed, n, mean, deviation);
    void *data = kg_xcalloc(1, size_bytes);
    if (kg_dtype_info(dtype)->encode) kg_dtype_info(dtype)->encode(values, data, n);
    free(equal);
    w->data[w->n_tensors++] = data;
    if (kg_gguf_writer_tensor(w->writer, name, dtype, dims[2] > 1 ? 3 : dims[1] > 1 ? 2 : 1, dims, data, &err))
        ck_abort_msg("%s", err.message);
}

static void shaped_tensor(struct writing *w, const char *name, enum kg_dtype dtype, const uint64_t shape[3],
                          double mean, double deviation) {
    uint64_t dims[3];
    memcpy(dims, shape, sizeof dims);
    const struct kg_tiny_edit *e = edit_of(w, name);
    if (e && e->change == KG_TINY_OMIT) return;
    if (e && e->change == KG_TINY_TENSOR_DTYPE) {
        dtype = e->dtype;
        if (!kg_dtype_info(dtype)->encode) deviation = 0;
    }
    if (e && e->change == KG_TINY_TENSOR_DIMS) memcpy(dims, e->dims, sizeof dims);
    if (e && e->change == KG_TINY_TENSOR_FILL) {
        mean = e->number;
        deviation = 0;
    }
    add_tensor(w, name, dtype, dims, mean, deviation);
}

static enum kg_dtype matrix_dtype(const struct kg_tiny_model *m, const char *name) {
    const bool has_more = strstr(name, "attn_v.") || strstr(name, "ffn_down.");
    return has_more && m->more_bits != KG_DTYPE_F32 ? m->more_bits : m->matrices;
}

/* A matrix of the model's type, or (one row) a vector. */
static void tensor(struct writing *w, const char *name, uint64_t cols, uint64_t rows, double mean) {
    const uint64_t shape[3] = { cols, rows, 1 };
    shaped_tensor(w, name, rows > 1 ? matrix_dtype(w->model, name) : KG_DTYPE_F32, shape, mean,
                  rows > 1 ? 1 / sqrt((double)cols) : 0.2);
}

static void layer_tensor(struct writing *w, uint32_t layer, const char *what, uint64_t cols, uint64_t rows,
                         double mean) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "blk.%u.%s", layer, what);
    tensor(w, name, cols, rows, mean);
}

/* The tensors of phi3, gpt-oss and gpt2: by role, with sides by name (fastest first). */
enum side { ONE, EMBD, Q, KV, QKV, FF, TWO_FF, EXPERTS, HEADS, HALF_HEAD, VOCAB, CTX, N_SIDES };
enum role { MATRIX, NUMBERS /* biases, sinks */, GAINS /* norms */, FACTORS, FLOAT_MATRIX };
enum { PHI3 = 1, OSS = 2, GPT2 = 4, LONG_SHORT = 8 };
struct tiny_tensor {
    const char *name;
    int of;
    enum role role;
    enum side sides[3];
};

static const struct tiny_tensor WHOLE[] = {
    { "token_embd.weight", PHI3 | OSS | GPT2, MATRIX, { EMBD, VOCAB } },
    { "position_embd.weight", GPT2, FLOAT_MATRIX, { EMBD, CTX } },
    { "output_norm.weight", PHI3 | OSS | GPT2, GAINS, { EMBD } },
    { "output_norm.bias", GPT2, NUMBERS, { EMBD } },
    { "output.weight", PHI3 | OSS, MATRIX, { EMBD, VOCAB } },
    { "rope_factors_long.weight", LONG_SHORT, FACTORS, { HALF_HEAD } },
    { "rope_factors_short.weight", LONG_SHORT, FACTORS, { HALF_HEAD } },
};
static const struct tiny_tensor LAYER[] = {
    { "attn_norm.weight", PHI3 | OSS | GPT2, GAINS, { EMBD } },
    { "attn_norm.bias", GPT2, NUMBERS, { EMBD } },
    { "attn_qkv.weight", PHI3 | GPT2, MATRIX, { EMBD, QKV } },
    { "attn_qkv.bias", GPT2, NUMBERS, { QKV } },
    { "attn_q.weight", OSS, MATRIX, { EMBD, Q } },
    { "attn_q.bias", OSS, NUMBERS, { Q } },
    { "attn_k.weight", OSS, MATRIX, { EMBD, KV } },
    { "attn_k.bias", OSS, NUMBERS, { KV } },
    { "attn_v.weight", OSS, MATRIX, { EMBD, KV } },
    { "attn_v.bias", OSS, NUMBERS, { KV } },
    { "attn_output.weight", PHI3 | OSS | GPT2, MATRIX, { Q, EMBD } },
    { "attn_output.bias", OSS | GPT2, NUMBERS, { EMBD } },
    { "attn_sinks.weight", OSS, NUMBERS, { HEADS } },
    { "post_attention_norm.weight", OSS, GAINS, { EMBD } },
    { "ffn_norm.weight", PHI3 | GPT2, GAINS, { EMBD } },
    { "ffn_norm.bias", GPT2, NUMBERS, { EMBD } },
    { "ffn_up.weight", PHI3, MATRIX, { EMBD, TWO_FF } },
    { "ffn_up.weight", GPT2, MATRIX, { EMBD, FF } },
    { "ffn_up.bias", GPT2, NUMBERS, { FF } },
    { "ffn_down.weight", PHI3 | GPT2, MATRIX, { FF, EMBD } },
    { "ffn_down.bias", GPT2, NUMBERS, { EMBD } },
    { "ffn_gate_inp.weight", OSS, FLOAT_MATRIX, { EMBD, EXPERTS } },
    { "ffn_gate_inp.bias", OSS, NUMBERS, { EXPERTS } },
    { "ffn_gate_exps.weight", OSS, MATRIX, { EMBD, FF, EXPERTS } },
    { "ffn_gate_exps.bias", OSS, NUMBERS, { FF, EXPERTS } },
    { "ffn_up_exps.weight", OSS, MATRIX, { EMBD, FF, EXPERTS } },
    { "ffn_up_exps.bias", OSS, NUMBERS, { FF, EXPERTS } },
    { "ffn_down_exps.weight", OSS, MATRIX, { FF, EMBD, EXPERTS } },
    { "ffn_down_exps.bias", OSS, NUMBERS, { EMBD, EXPERTS } },
};

static void table_tensor(struct writing *w, const struct tiny_tensor *t, const char *prefix, int of) {
    const struct kg_tiny_model *m = w->model;
    const uint64_t head_dim = m->head_dim ? m->head_dim : m->n_embd / m->n_heads;
    const uint64_t sides[N_SIDES] = { [ONE] = 1,
                                      [EMBD] = m->n_embd,
                                      [Q] = m->n_heads * head_dim,
                                      [KV] = m->n_kv_heads * head_dim,
                                      [QKV] = (m->n_heads + 2 * m->n_kv_heads) * head_dim,
                                      [FF] = m->n_ff,
                                      [TWO_FF] = 2 * (uint64_t)m->n_ff,
                                      [EXPERTS] = m->n_experts,
                                      [HEADS] = m->n_heads,
                                      [HALF_HEAD] = head_dim / 2,
                                      [VOCAB] = m->n_vocab,
                                      [CTX] = m->n_ctx };
    static const double MEAN[] = { [GAINS] = 1, [FACTORS] = 2 };
    static const double DEVIATION[] = { [NUMBERS] = 0.5, [GAINS] = 0.2, [FACTORS] = 0.25 };
    const uint64_t shape[3] = { sides[t->sides[0]], sides[t->sides[1]], sides[t->sides[2]] };
    const bool is_matrix = t->role == MATRIX || t->role == FLOAT_MATRIX;
    char name[NAME_SIZE];
    if (!(t->of & of)) return;
    snprintf(name, sizeof name, "%s%s", prefix, t->name);
    const enum kg_dtype matrices = m->mxfp4_experts && t->sides[2] == EXPERTS ? KG_DTYPE_MXFP4 : matrix_dtype(m, name);
    shaped_tensor(w, name, t->role == MATRIX ? matrices : KG_DTYPE_F32, shape, is_matrix ? 0 : MEAN[t->role],
                  is_matrix ? 1 / sqrt((double)shape[0]) : DEVIATION[t->role]);
}

static void write_table(struct writing *w, int of) {
    for (size_t i = 0; i < KG_COUNT_OF(WHOLE); i++) table_tensor(w, &WHOLE[i], "", of);
    for (uint32_t layer = 0; layer < w->model->n_layers; layer++) {
        char prefix[NAME_SIZE];
        snprintf(prefix, sizeof prefix, "blk.%u.", layer);
        for (size_t i = 0; i < KG_COUNT_OF(LAYER); i++) table_tensor(w, &LAYER[i], prefix, of);
    }
}

static void write_tensors(struct writing *w) {
    const struct kg_tiny_model *m = w->model;
    if (is(w, "phi3")) return write_table(w, PHI3 | (m->long_short ? LONG_SHORT : 0));
    if (is(w, "gpt-oss")) return write_table(w, OSS);
    if (is(w, "gpt2")) return write_table(w, GPT2);
    const uint64_t head_dim = m->head_dim ? m->head_dim : m->n_embd / m->n_heads;
    const uint64_t q = m->n_heads * head_dim, kv = m->n_kv_heads * head_dim;
    tensor(w, "token_embd.weight", m->n_embd, m->n_vocab, 0);
    tensor(w, "output_norm.weight", m->n_embd, 1, 1);
    if (m->untied) tensor(w, "output.weight", m->n_embd, m->n_vocab, 0);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        layer_tensor(w, i, "attn_norm.weight", m->n_embd, 1, 1);
        layer_tensor(w, i, "attn_q.weight", m->n_embd, q, 0);
        layer_tensor(w, i, "attn_k.weight", m->n_embd, kv, 0);
        layer_tensor(w, i, "attn_v.weight", m->n_embd, kv, 0);
        if (m->qkv_bias) {
            layer_tensor(w, i, "attn_q.bias", q, 1, 0);
            layer_tensor(w, i, "attn_k.bias", kv, 1, 0);
            layer_tensor(w, i, "attn_v.bias", kv, 1, 0);
        }
        if (is(w, "qwen3") || is(w, "gemma3")) {
            layer_tensor(w, i, "attn_q_norm.weight", head_dim, 1, 1);
            layer_tensor(w, i, "attn_k_norm.weight", head_dim, 1, 1);
        }
        if (is(w, "gemma3")) {
            layer_tensor(w, i, "post_attention_norm.weight", m->n_embd, 1, 1);
            layer_tensor(w, i, "post_ffw_norm.weight", m->n_embd, 1, 1);
        }
        layer_tensor(w, i, "attn_output.weight", q, m->n_embd, 0);
        layer_tensor(w, i, "ffn_norm.weight", m->n_embd, 1, 1);
        layer_tensor(w, i, "ffn_gate.weight", m->n_embd, m->n_ff, 0);
        layer_tensor(w, i, "ffn_up.weight", m->n_embd, m->n_ff, 0);
        layer_tensor(w, i, "ffn_down.weight", m->n_ff, m->n_embd, 0);
        if (m->other_bias) {
            layer_tensor(w, i, "attn_output.bias", m->n_embd, 1, 0);
            layer_tensor(w, i, "ffn_gate.bias", m->n_ff, 1, 0);
            layer_tensor(w, i, "ffn_up.bias", m->n_ff, 1, 0);
            layer_tensor(w, i, "ffn_down.bias", m->n_embd, 1, 0);
        }
    }
}

/* Edits that named nothing the model has add a key or a tensor. */
static void write_additions(struct writing *w) {
    for (size_t i = 0; i < w->n_edits; i++) {
        const struct kg_tiny_edit *e = &w->edits[i];
        if (w->tensor_names[i]) continue;
        ck_assert_msg(e->change != KG_TINY_OMIT && e->change != KG_TINY_TENSOR_DTYPE &&
                          e->change != KG_TINY_TENSOR_DIMS && e->change != KG_TINY_TENSOR_FILL,
                      "the tiny model has no %s to change", e->name);
        if (e->change == KG_TINY_TENSOR_ADD) add_tensor(w, e->name, KG_DTYPE_F32, e->dims, 1, 0.2);
        else write_key_edit(w, e);
    }
}

static void write_file(const char *path, const struct kg_tiny_model *model, const struct kg_tiny_edit *edits,
                       size_t n_edits, bool with_tensors) {
    struct kg_error err;
    struct writing w = { .model = model, .edits = edits, .n_edits = n_edits, .writer = kg_gguf_writer_new(32) };
    ck_assert_uint_le(n_edits, MAX_TENSORS);
    ck_assert_uint_ge(model->n_vocab, KG_TINY_TOKENS);
    write_configuration(&w);
    write_tokenizer(&w);
    if (with_tensors) write_tensors(&w);
    write_additions(&w);
    const enum kg_status status = kg_gguf_writer_finish(w.writer, path, &err);
    for (size_t i = 0; i < w.n_tensors; i++) free(w.data[i]);
    kg_gguf_writer_free(w.writer);
    if (status) ck_abort_msg("%s", err.message);
}

void kg_tiny_model_write(const char *path, const struct kg_tiny_model *model, const struct kg_tiny_edit *edits,
                         size_t n_edits) {
    write_file(path, model, edits, n_edits, true);
}

void kg_tiny_vocabulary_write(const char *path, const struct kg_tiny_model *model) {
    write_file(path, model, NULL, 0, false);
}
