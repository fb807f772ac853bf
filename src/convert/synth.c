/* Writing a synthetic model: its metadata, its vocabulary, and tensors made as they go out. */
#include "convert/synth.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include "model/arch_keys.h"
#include "convert/synth_values.h"
#include "tokenizer/byte_level.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BYTES = 256, WORD_SIZE = 16, TOKEN_NORMAL = 1, TOKEN_CONTROL = 3 /* llama.cpp's token types */ };

static void put_counts(struct kg_arch_keys *n, const struct kg_synth_plan *plan) {
    const struct kg_synth_shape *s = plan->shape;
    const bool llama = strcmp(plan->architecture, "llama") == 0;
    const bool own_size = s->head_dim * s->n_heads != s->n_embd || strcmp(plan->architecture, "qwen3") == 0;
    const struct {
        const char *suffix;
        uint32_t value;
        bool there;
    } rows[] = {
        { "block_count", plan->n_layers, true },
        { "context_length", s->n_ctx, true },
        { "embedding_length", s->n_embd, true },
        { "feed_forward_length", s->n_ff, true },
        { "attention.head_count", s->n_heads, true },
        { "attention.head_count_kv", s->n_kv_heads, s->rope_base > 0 },
        { "attention.key_length", s->head_dim, own_size },
        { "attention.value_length", s->head_dim, own_size },
        { "rope.dimension_count", s->head_dim, strcmp(plan->architecture, "phi3") == 0 || llama },
        { "vocab_size", s->n_vocab, llama },
        { "attention.sliding_window", s->window, s->window > 0 && !llama },
        { "expert_count", s->n_experts, s->n_experts > 0 },
        { "expert_used_count", s->n_experts_used, s->n_experts > 0 },
        { "expert_feed_forward_length", s->n_ff, s->n_experts > 0 },
        { "rope.scaling.original_context_length", s->rope_original_ctx, s->rope_original_ctx > 0 && !llama },
    };
    for (size_t i = 0; i < KG_COUNT_OF(rows); i++)
        if (rows[i].there) kg_gguf_writer_u32(n->w, kg_arch_key(n, rows[i].suffix), rows[i].value);
}

static void put_configuration(struct kg_gguf_writer *w, const struct kg_synth_plan *plan, uint64_t seed) {
    const struct kg_synth_shape *s = plan->shape;
    struct kg_arch_keys n = { .w = w, .architecture = plan->architecture };
    char *name = kg_xasprintf("%s, random weights, seed %llu", s->name, (unsigned long long)seed);
    kg_put_text(w, "general.architecture", plan->architecture);
    kg_put_text(w, "general.type", "model");
    kg_put_text(w, "general.name", name);
    free(name);
    kg_gguf_writer_u32(w, "general.file_type", plan->type->id);
    kg_gguf_writer_u32(w, "general.quantization_version", 2);
    put_counts(&n, plan);
    if (s->rope_base > 0) kg_gguf_writer_f32(w, kg_arch_key(&n, "rope.freq_base"), s->rope_base);
    kg_gguf_writer_f32(
        w, kg_arch_key(&n, s->rope_base > 0 ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
        s->eps);
    if (s->yarn_factor > 0) {
        kg_put_text(w, kg_arch_key(&n, "rope.scaling.type"), "yarn");
        kg_gguf_writer_f32(w, kg_arch_key(&n, "rope.scaling.factor"), s->yarn_factor);
    }
}

/* A made-up word in GPT-2's spelling: a space (U+0120) and letters, at least four, that count up. */
static size_t put_word(uint32_t index, char *to) {
    char letters[WORD_SIZE];
    size_t n = 0;
    size_t len = kg_utf8_put(kg_byte_level_code_point(' '), to);
    do letters[n++] = (char)('a' + index % 26);
    while ((index /= 26) > 0 || n < 4);
    while (n > 0) to[len++] = letters[--n];
    return len;
}

static void put_vocabulary(struct kg_gguf_writer *w, const struct kg_synth_shape *s) {
    static const char *const CONTROLS[] = { "<unk>", "<s>", "</s>", "<|endoftext|>" };
    const uint32_t n_vocab = s->n_vocab, n_controls = s->sentence_marks ? KG_COUNT_OF(CONTROLS) : 1;
    struct kg_str *texts = kg_xcalloc(n_vocab, sizeof *texts);
    int32_t *types = kg_xcalloc(n_vocab, sizeof *types);
    char *arena = kg_xcalloc(n_vocab, WORD_SIZE), *at = arena;
    for (uint32_t i = 0; i < n_vocab; i++, at += WORD_SIZE) {
        const size_t len =
            i < N_BYTES ? kg_utf8_put(kg_byte_level_code_point((unsigned char)i), at) : put_word(i - N_BYTES, at);
        texts[i] = (struct kg_str){ at, len };
        types[i] = TOKEN_NORMAL;
    }
    for (uint32_t i = 1; i <= n_controls; i++) {
        const char *text = CONTROLS[KG_COUNT_OF(CONTROLS) - i];
        texts[n_vocab - i] = (struct kg_str){ text, strlen(text) };
        types[n_vocab - i] = TOKEN_CONTROL;
    }
    kg_put_text(w, "tokenizer.ggml.model", "gpt2");
    kg_put_text(w, "tokenizer.ggml.pre", "gpt-2");
    kg_gguf_writer_strings(w, "tokenizer.ggml.tokens", texts, n_vocab);
    kg_gguf_writer_i32s(w, "tokenizer.ggml.token_type", types, n_vocab);
    kg_gguf_writer_strings(w, "tokenizer.ggml.merges", NULL, 0);
    kg_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", n_vocab - 1);
    kg_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", false);
    free(arena);
    free(types);
    free(texts);
}

struct making {
    const struct kg_synth_options *options;
    struct kg_synth_values *values;
    struct kg_thread_pool *pool;
};

struct tensor_making {
    const struct making *making;
    const struct kg_synth_tensor *tensor;
};

static enum kg_status make_piece(void *arg, uint64_t offset_bytes, void *to, size_t n_bytes, struct kg_error *err) {
    const struct tensor_making *m = arg;
    const struct kg_synth_options *o = m->making->options;
    if (o->cancelled && o->cancelled(o->user)) return kg_fail(err, KG_ERR_CANCELLED, "cancelled");
    kg_synth_values_fill(m->making->values, m->tensor, o->seed, m->making->pool, offset_bytes, to, n_bytes);
    return KG_OK;
}

enum kg_status kg_synth_write(const struct kg_synth_options *options, const struct kg_synth_plan *plan,
                              const char *path, struct kg_error *err) {
    struct making making = { .options = options };
    enum kg_status status = kg_thread_pool_create(options->n_threads, &making.pool, err);
    if (status != KG_OK) return status;
    making.values = kg_synth_values_new();
    struct tensor_making *tensors = kg_xcalloc(plan->n_tensors, sizeof *tensors);
    struct kg_gguf_writer *w = kg_gguf_writer_new(32);
    put_configuration(w, plan, options->seed);
    put_vocabulary(w, plan->shape);
    for (size_t i = 0; i < plan->n_tensors && status == KG_OK; i++) {
        const struct kg_synth_tensor *t = &plan->tensors[i];
        tensors[i] = (struct tensor_making){ &making, t };
        status = kg_gguf_writer_tensor_made(w, t->name, t->dtype, t->n_dims, t->dims, make_piece, &tensors[i], err);
    }
    kg_gguf_writer_on_progress(w, options->on_progress, options->user);
    if (status == KG_OK) status = kg_gguf_writer_finish(w, path, err);
    kg_gguf_writer_free(w);
    free(tensors);
    kg_synth_values_free(making.values);
    kg_thread_pool_destroy(making.pool);
    return status;
}
