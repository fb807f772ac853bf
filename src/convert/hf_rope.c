/* Rotary positions in config.json: rope_theta and rope_scaling (transformers 4), or both in rope_parameters (5). */
#include "base/buffer.h"
#include "base/size.h"
#include "convert/hf_config_private.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum kg_hf_rope_scaling scaling;
    unsigned architectures;
} TYPES[] = {
    { "default", KG_HF_ROPE_NONE, KG_HF_ALL },
    { "linear", KG_HF_ROPE_LINEAR, KG_HF_QWEN2 | KG_HF_LLAMA | KG_HF_QWEN3 | KG_HF_GEMMA3 },
    { "yarn", KG_HF_ROPE_YARN, KG_HF_QWEN2 | KG_HF_LLAMA | KG_HF_GPT_OSS | KG_HF_QWEN3 },
    { "llama3", KG_HF_ROPE_LLAMA3, KG_HF_LLAMA },
    { "longrope", KG_HF_ROPE_LONGROPE, KG_HF_PHI3 },
    { "su", KG_HF_ROPE_LONGROPE, KG_HF_PHI3 },
};

static enum kg_status read_type(const char *dir, const json_t *scaling, struct kg_hf_config *c, struct kg_error *err) {
    const json_t *type = kg_hf_get(scaling, "rope_type\0type\0", NULL);
    if (!type) return KG_OK;
    const char *text = json_string_value(type);
    for (size_t i = 0; text && i < KG_COUNT_OF(TYPES); i++) {
        if (!(TYPES[i].architectures & c->architecture->bit) || strcmp(text, TYPES[i].name) != 0) continue;
        c->rope.scaling = TYPES[i].scaling;
        return KG_OK;
    }
    struct kg_buffer known = KG_BUFFER_INIT;
    for (size_t i = 0; i < KG_COUNT_OF(TYPES); i++)
        if (TYPES[i].architectures & c->architecture->bit)
            kg_buffer_printf(&known, "%s%s", known.len ? ", " : "", TYPES[i].name);
    const enum kg_status status = kg_hf_unsupported(dir, "the type of rope_scaling", type, kg_buffer_text(&known), err);
    kg_buffer_free(&known);
    return status;
}

#define NUMBER(field) offsetof(struct kg_hf_rope, field)
static const struct {
    const char *names;
    size_t place;
} NUMBERS[] = {
    { "rope_theta\0", NUMBER(base) },
    { "factor\0", NUMBER(factor) },
    { "attention_factor\0attn_factor\0", NUMBER(attention_factor) },
    { "extrapolation_factor\0", NUMBER(extrapolation_factor) },
    { "beta_fast\0", NUMBER(beta_fast) },
    { "beta_slow\0", NUMBER(beta_slow) },
    { "low_freq_factor\0", NUMBER(low_freq_factor) },
    { "high_freq_factor\0", NUMBER(high_freq_factor) },
    { "mscale\0", NUMBER(mscale) },
    { "mscale_all_dim\0", NUMBER(mscale_all_dim) },
};

/* In the scaling's object, else beside it. */
static enum kg_status read_numbers(const char *dir, const json_t *json, const json_t *scaling, struct kg_hf_rope *rope,
                                   struct kg_error *err) {
    for (size_t i = 0; i < KG_COUNT_OF(NUMBERS); i++) {
        const char *name;
        double *out = (double *)(void *)((char *)rope + NUMBERS[i].place);
        const json_t *value = kg_hf_get(scaling, NUMBERS[i].names, &name);
        if (!value && NUMBERS[i].place == NUMBER(base)) value = kg_hf_get(json, NUMBERS[i].names, &name);
        *out = NAN;
        if (!value) continue;
        const enum kg_status status = kg_hf_number(dir, name, value, out, err);
        if (status != KG_OK) return status;
        if (*out == 0) return kg_hf_bad(dir, name, value, "more than 0", err);
    }
    return KG_OK;
}

/* Beside the scaling's object or in it: versions of transformers differ in which they look at first. */
static enum kg_status read_original(const char *dir, const json_t *json, const json_t *scaling, struct kg_hf_rope *rope,
                                    struct kg_error *err) {
    const json_t *const objects[] = { json, scaling };
    for (size_t i = 0; i < KG_COUNT_OF(objects); i++) {
        const char *name;
        const json_t *original = kg_hf_get(objects[i], "original_max_position_embeddings\0", &name);
        const json_int_t n = json_is_integer(original) ? json_integer_value(original) : 0;
        if (!original) continue;
        if (n < 2 || n > INT32_MAX) return kg_hf_bad(dir, name, original, "a whole number of 2 or more", err);
        if (rope->original_ctx && rope->original_ctx != (uint32_t)n)
            return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: %s is %u, but in the scaling of rope %u", dir, name,
                           rope->original_ctx, (uint32_t)n);
        rope->original_ctx = (uint32_t)n;
    }
    return KG_OK;
}

static double yarn_magnitude(double factor, double mscale) {
    return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

/* The parameters that only yarn has, as transformers reads them (_compute_yarn_parameters). */
static enum kg_status read_yarn(const char *dir, const json_t *scaling, struct kg_hf_rope *rope, struct kg_error *err) {
    if (rope->scaling != KG_HF_ROPE_YARN) return KG_OK;
    if (isnan(rope->attention_factor) && !isnan(rope->mscale) && !isnan(rope->mscale_all_dim))
        rope->attention_factor =
            yarn_magnitude(rope->factor, rope->mscale) / yarn_magnitude(rope->factor, rope->mscale_all_dim);
    return kg_hf_flag(dir, scaling, "truncate\0", true, &rope->truncates, err);
}

static enum kg_status read_factors(const char *dir, const json_t *scaling, const char *name, uint32_t n,
                                   float **factors, struct kg_error *err) {
    const json_t *list = json_object_get(scaling, name), *item;
    if (!json_is_array(list) || json_array_size(list) != n)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: %s of rope_scaling has %zu numbers, but must have %u", dir,
                       name, json_array_size(list), n);
    *factors = kg_xcalloc(n, sizeof **factors);
    size_t i;
    json_array_foreach(list, i, item) {
        double x;
        const enum kg_status status = kg_hf_number(dir, name, item, &x, err);
        if (status != KG_OK) return status;
        (*factors)[i] = (float)x;
        if (!((*factors)[i] > 0) || !isfinite((*factors)[i])) return kg_hf_bad(dir, name, item, "more than 0", err);
    }
    return KG_OK;
}

/* Checks the required parameters of each scaling. */
static enum kg_status check_scaling(const char *dir, const struct kg_hf_rope *rope, struct kg_error *err) {
    const struct {
        const char *name;
        bool missing;
    } needs[] = {
        { "factor", isnan(rope->factor) && rope->scaling != KG_HF_ROPE_NONE && rope->scaling != KG_HF_ROPE_LONGROPE },
        { "original_max_position_embeddings",
          rope->original_ctx == 0 && (rope->scaling == KG_HF_ROPE_YARN || rope->scaling == KG_HF_ROPE_LLAMA3) },
        { "low_freq_factor", isnan(rope->low_freq_factor) && rope->scaling == KG_HF_ROPE_LLAMA3 },
        { "high_freq_factor", isnan(rope->high_freq_factor) && rope->scaling == KG_HF_ROPE_LLAMA3 },
    };
    for (size_t i = 0; i < KG_COUNT_OF(needs); i++)
        if (needs[i].missing)
            return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: rope_scaling lacks its %s", dir, needs[i].name);
    if (rope->scaling == KG_HF_ROPE_LLAMA3 && rope->low_freq_factor >= rope->high_freq_factor)
        return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: low_freq_factor %g is not less than high_freq_factor %g",
                       dir, rope->low_freq_factor, rope->high_freq_factor);
    return KG_OK;
}

/* partial_rotary_factor (phi3): the part of each head that rope rotates. */
static enum kg_status read_n_rot(const char *dir, const json_t *json, const json_t *scaling, struct kg_hf_config *c,
                                 struct kg_error *err) {
    const char *name;
    const json_t *value = kg_hf_get(json, "partial_rotary_factor\0", &name);
    if (!value) value = kg_hf_get(scaling, "partial_rotary_factor\0", &name);
    c->n_rot = c->head_dim;
    if (!value) return KG_OK;
    const double part = json_number_value(value);
    if (c->architecture->bit != KG_HF_PHI3 && part != 1) return kg_hf_unsupported(dir, name, value, "1", err);
    if (!(part > 0 && part <= 1)) return kg_hf_bad(dir, name, value, "more than 0 and at most 1", err);
    c->n_rot = (uint32_t)(part * c->head_dim);
    return c->n_rot > 0 && c->n_rot % 2 == 0
               ? KG_OK
               : kg_hf_bad(dir, name, value, "one that rotates an even number of dims", err);
}

/* gemma3's layers with a window: rope_local_base_freq (transformers 4), or a separate object (5); they are never
 * scaled. */
static enum kg_status read_window_layers(const char *dir, const json_t *json, const json_t *parameters,
                                         struct kg_hf_config *c, struct kg_error *err) {
    const json_t *own = json_object_get(parameters, "sliding_attention");
    const json_t *type = kg_hf_get(own, "rope_type\0type\0", NULL);
    const char *name;
    c->rope.window_base = NAN;
    if (c->architecture->bit != KG_HF_GEMMA3) return KG_OK;
    c->rope.window_base = 10000; /* transformers' own */
    const json_t *base = kg_hf_get(own, "rope_theta\0", &name);
    if (!base) base = kg_hf_get(json, "rope_local_base_freq\0", &name);
    if (type && strcmp(json_is_string(type) ? json_string_value(type) : "", "default") != 0)
        return kg_hf_unsupported(dir, "rope_type of sliding_attention", type, "default", err);
    if (!base) return KG_OK;
    const enum kg_status status = kg_hf_number(dir, name, base, &c->rope.window_base, err);
    if (status != KG_OK) return status;
    return c->rope.window_base > 0 ? KG_OK : kg_hf_bad(dir, name, base, "more than 0", err);
}

enum kg_status kg_hf_rope_read(const char *dir, const json_t *json, struct kg_hf_config *c, struct kg_error *err) {
    const char *name;
    const json_t *scaling = kg_hf_get(json, "rope_parameters\0rope_scaling\0", &name);
    const bool gpt_oss = c->architecture->bit == KG_HF_GPT_OSS;
    if (scaling && !json_is_object(scaling)) return kg_hf_bad(dir, name, scaling, "an object", err);
    /* transformers defaults to a built-in YaRN here; a file without scaling says "default". */
    if (!scaling && gpt_oss) return kg_fail(err, KG_ERR_FORMAT, "%s/config.json: %s is missing", dir, name);
    const json_t *full = json_object_get(scaling, "full_attention"); /* per kind of layer */
    const json_t *parameters = scaling;
    if (c->architecture->bit == KG_HF_GEMMA3 && strcmp(name, "rope_parameters") == 0 &&
        kg_hf_get(scaling, "rope_type\0rope_theta\0", NULL))
        return kg_hf_bad(dir, name, scaling, "an object with one each for full_attention and sliding_attention", err);
    if (full) scaling = full;
    enum kg_status status = read_numbers(dir, json, scaling, &c->rope, err);
    if (status == KG_OK) status = read_window_layers(dir, json, parameters, c, err);
    if (status == KG_OK) status = read_original(dir, json, scaling, &c->rope, err);
    if (c->architecture->bit == KG_HF_GPT2) return status;
    if (isnan(c->rope.base)) /* transformers' own */
        c->rope.base = gpt_oss ? 150000 : c->architecture->bit == KG_HF_GEMMA3 ? 1000000 : 10000;
    if (status == KG_OK) status = read_type(dir, scaling, c, err);
    if (status == KG_OK) status = check_scaling(dir, &c->rope, err);
    if (status == KG_OK) status = read_yarn(dir, scaling, &c->rope, err);
    if (status == KG_OK) status = read_n_rot(dir, json, scaling, c, err);
    if (status == KG_OK && c->rope.scaling == KG_HF_ROPE_LONGROPE) {
        status = read_factors(dir, scaling, "long_factor", c->n_rot / 2, &c->rope.long_factors, err);
        if (status == KG_OK)
            status = read_factors(dir, scaling, "short_factor", c->n_rot / 2, &c->rope.short_factors, err);
    }
    return status;
}
