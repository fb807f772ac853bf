#include "model/config.h"
#include "base/size.h"
#include "base/utf8.h"
#include "ops/attention.h"
#include "ops/rope.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct kg_architecture ARCHITECTURES[] = {
    { "qwen2", KG_ROPE_HALF, .qkv_bias = KG_REQUIRED, .other_bias = KG_ABSENT },
    { "llama", KG_ROPE_INTERLEAVED, .qkv_bias = KG_OPTIONAL, .other_bias = KG_OPTIONAL },
};

const struct kg_architecture *kg_architecture_find(const char *name) {
    for (size_t i = 0; i < KG_COUNT_OF(ARCHITECTURES); i++)
        if (strcmp(name, ARCHITECTURES[i].name) == 0) return &ARCHITECTURES[i];
    return NULL;
}

struct reader {
    const struct kg_gguf *gguf;
    const char *path, *architecture;
    struct kg_error *err;
    char key[96]; /* the last one made */
};

static const char *key_of(struct reader *in, const char *suffix) {
    snprintf(in->key, sizeof in->key, "%s.%s", in->architecture, suffix);
    return in->key;
}

/* Copies text that fits, cut between UTF-8 characters where it does not. */
static void copy_text(char *to, size_t size, struct kg_str from) {
    size_t len = from.len < size - 1 ? from.len : size - 1;
    while (len < from.len && len > 0 && ((unsigned char)from.data[len] & 0xC0) == 0x80) len--;
    if (len > 0) memcpy(to, from.data, len);
    to[len] = '\0';
}

static enum kg_status read_architecture(struct reader *in, struct kg_model_config *config) {
    struct kg_str text;
    enum kg_status status = kg_gguf_get_str(in->gguf, "general.architecture", &text, in->err);
    if (status == KG_ERR_NOT_FOUND)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: general.architecture is missing", in->path);
    if (status) return status;
    copy_text(config->architecture, sizeof config->architecture, text);
    if (!kg_architecture_find(config->architecture) || text.len != strlen(config->architecture))
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: architecture '%s' is not one kigo runs (qwen2, llama)",
                       in->path, kg_quote(text.data, text.len).text);
    in->architecture = config->architecture;
    config->name[0] = '\0';
    const struct kg_gguf_key *name = kg_gguf_find_key(in->gguf, "general.name");
    if (name && name->type == KG_GGUF_STRING) copy_text(config->name, sizeof config->name, name->value.s);
    return KG_OK;
}

/* A count of at least 1. An absent key leaves *out alone if that is a default (not 0), else it is an error. */
static enum kg_status read_count(struct reader *in, const char *suffix, uint32_t *out) {
    const char *key = key_of(in, suffix);
    const struct kg_gguf_key *found = kg_gguf_find_key(in->gguf, key);
    if (!found && *out) return KG_OK;
    if (!found) return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is missing", in->path, key);
    if (found->type == KG_GGUF_ARRAY)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is an array: layers that differ are not supported",
                       in->path, key);
    const enum kg_status status = kg_gguf_get_u32(in->gguf, key, out, in->err);
    if (status) return status;
    if (*out == 0) return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is 0", in->path, key);
    return KG_OK;
}

/* A finite number; an absent key leaves *out alone if that is a default (not NaN), else it is an error. */
static enum kg_status read_number(struct reader *in, const char *suffix, bool positive, float *out) {
    const char *key = key_of(in, suffix);
    if (!kg_gguf_find_key(in->gguf, key)) {
        if (!isnan(*out)) return KG_OK;
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is missing", in->path, key);
    }
    const enum kg_status status = kg_gguf_get_f32(in->gguf, key, out, in->err);
    if (status) return status;
    if (!isfinite(*out) || *out < 0 || (positive && *out == 0))
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %g", in->path, key, (double)*out);
    return KG_OK;
}

static enum kg_status read_counts(struct reader *in, struct kg_model_config *c) {
    const struct {
        const char *suffix;
        uint32_t *out;
    } required[] = {
        { "context_length", &c->n_ctx_train },   { "embedding_length", &c->n_embd },  { "block_count", &c->n_layers },
        { "attention.head_count", &c->n_heads }, { "feed_forward_length", &c->n_ff },
    };
    for (size_t i = 0; i < KG_COUNT_OF(required); i++) {
        const enum kg_status status = read_count(in, required[i].suffix, required[i].out);
        if (status) return status;
    }
    c->n_kv_heads = c->n_heads;
    return read_count(in, "attention.head_count_kv", &c->n_kv_heads);
}

static enum kg_status read_head_size(struct reader *in, struct kg_model_config *c) {
    if (c->n_heads % c->n_kv_heads != 0)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s.attention.head_count_kv %u does not divide head_count %u",
                       in->path, in->architecture, c->n_kv_heads, c->n_heads);
    if (!kg_gguf_find_key(in->gguf, key_of(in, "attention.key_length"))) {
        if (c->n_embd % c->n_heads != 0)
            return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s.embedding_length %u is no multiple of head_count %u",
                           in->path, in->architecture, c->n_embd, c->n_heads);
        c->head_dim = c->n_embd / c->n_heads;
    }
    enum kg_status status = read_count(in, "attention.key_length", &c->head_dim);
    if (status) return status;
    uint32_t value_length = c->head_dim;
    status = read_count(in, "attention.value_length", &value_length);
    if (status) return status;
    if (value_length != c->head_dim)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %u, but keys have %u: different sizes are not supported",
                       in->path, in->key, value_length, c->head_dim);
    if (c->head_dim > KG_ATTENTION_MAX_HEAD_DIM || (uint64_t)c->n_heads * c->head_dim > UINT32_MAX)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %u heads of %u dims: kigo runs heads of at most %d dims",
                       in->path, c->n_heads, c->head_dim, KG_ATTENTION_MAX_HEAD_DIM);
    c->attn_scale = (float)(1.0 / sqrt((double)c->head_dim));
    return read_number(in, "attention.scale", true, &c->attn_scale);
}

/* rope.scaling.type none or linear; rope.scale_linear is the older key of the linear factor. */
static enum kg_status read_rope_scaling(struct reader *in, struct kg_model_config *c) {
    float factor = 1, magnitude = 1;
    enum kg_status status = read_number(in, "rope.scale_linear", true, &factor);
    if (!status) status = read_number(in, "rope.scaling.attn_factor", true, &magnitude);
    if (status) return status;
    if (magnitude != 1)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %g; only 1 is supported", in->path, in->key,
                       (double)magnitude);

    const char *key = key_of(in, "rope.scaling.type");
    struct kg_str type = { "linear", 6 };
    if (kg_gguf_find_key(in->gguf, key)) {
        status = kg_gguf_get_str(in->gguf, key, &type, in->err);
        if (status) return status;
    }
    if (!kg_str_eq(type, "none") && !kg_str_eq(type, "linear"))
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s '%s' is not supported (none and linear are)", in->path, key,
                       kg_quote(type.data, type.len).text);
    status = read_number(in, "rope.scaling.factor", true, &factor);
    if (status) return status;
    c->rope_freq_scale = kg_str_eq(type, "none") ? 1 : 1 / factor;
    if (!isfinite(c->rope_freq_scale) || c->rope_freq_scale <= 0)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %g", in->path, in->key, (double)factor);
    return KG_OK;
}

static enum kg_status read_rope(struct reader *in, struct kg_model_config *c) {
    c->rope_pairing = kg_architecture_find(c->architecture)->rope_pairing;
    c->n_rot = c->head_dim;
    enum kg_status status = read_count(in, "rope.dimension_count", &c->n_rot);
    if (status) return status;
    if (c->n_rot > c->head_dim || c->n_rot % 2 != 0 || c->n_rot > KG_ROPE_MAX_ROT)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s %u must be even and at most the head size %u", in->path, in->key,
                       c->n_rot, c->head_dim);
    c->rope_freq_base = 10000;
    status = read_number(in, "rope.freq_base", true, &c->rope_freq_base);
    return status ? status : read_rope_scaling(in, c);
}

/* Keys that change the computation in ways kigo does not implement for these architectures. */
static enum kg_status refuse_unsupported(struct reader *in, const struct kg_model_config *c) {
    uint32_t value;
    const struct kg_gguf_key *key = kg_gguf_find_key(in->gguf, key_of(in, "expert_count"));
    if (key) {
        const enum kg_status status = kg_gguf_get_u32(in->gguf, in->key, &value, in->err);
        if (status) return status;
        if (value > 0)
            return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is %u; experts are not supported", in->path, in->key,
                           value);
    }
    key = kg_gguf_find_key(in->gguf, key_of(in, "attention.sliding_window"));
    if (key) {
        const enum kg_status status = kg_gguf_get_u32(in->gguf, in->key, &value, in->err);
        if (status) return status;
        if (value > 0 && value < c->n_ctx_train)
            return kg_fail(in->err, KG_ERR_UNSUPPORTED,
                           "%s: %s %u is less than the context of %u; windows are not "
                           "supported for %s",
                           in->path, in->key, value, c->n_ctx_train, in->architecture);
    }
    key = kg_gguf_find_key(in->gguf, key_of(in, "attention.causal"));
    if (key && key->type == KG_GGUF_BOOL && !key->value.b)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: %s is false; only causal models generate", in->path, in->key);
    return KG_OK;
}

static enum kg_status read_vocabulary(struct reader *in, struct kg_model_config *c) {
    const struct kg_gguf_tensor *embedding = kg_gguf_find_tensor(in->gguf, "token_embd.weight");
    if (kg_gguf_n_tensors(in->gguf) == 0)
        return kg_fail(in->err, KG_ERR_UNSUPPORTED, "%s: no weights: the file holds a vocabulary only", in->path);
    if (!embedding) return kg_fail(in->err, KG_ERR_FORMAT, "%s: tensor token_embd.weight is missing", in->path);
    if (embedding->dims[1] == 0 || embedding->dims[1] > INT32_MAX)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: token_embd.weight has %llu rows", in->path,
                       (unsigned long long)embedding->dims[1]);
    c->n_vocab = (uint32_t)embedding->dims[1];
    uint32_t stated = c->n_vocab;
    const enum kg_status status = read_count(in, "vocab_size", &stated);
    if (status) return status;
    if (stated != c->n_vocab)
        return kg_fail(in->err, KG_ERR_FORMAT, "%s: %s is %u, but token_embd.weight has %u rows", in->path, in->key,
                       stated, c->n_vocab);
    c->tied_output = !kg_gguf_find_tensor(in->gguf, "output.weight");
    c->has_qkv_bias = kg_gguf_find_tensor(in->gguf, "blk.0.attn_q.bias") != NULL;
    return KG_OK;
}

enum kg_status kg_config_read(const struct kg_gguf *gguf, struct kg_model_config *config, struct kg_error *err) {
    struct reader in = { .gguf = gguf, .path = kg_gguf_path(gguf), .err = err };
    struct kg_model_config c = { .norm_eps = NAN };
    enum kg_status status = read_architecture(&in, &c);
    if (!status) status = read_vocabulary(&in, &c);
    if (!status) status = read_counts(&in, &c);
    if (!status) status = read_head_size(&in, &c);
    if (!status) status = read_rope(&in, &c);
    if (!status) status = read_number(&in, "attention.layer_norm_rms_epsilon", false, &c.norm_eps);
    if (!status) status = refuse_unsupported(&in, &c);
    if (!status) *config = c;
    return status;
}
