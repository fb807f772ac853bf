#include "convert/plan.h"
#include "base/buffer.h"
#include "base/size.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTE(string) kg_quote(string, strlen(string)).text

enum { MXFP4_ELEMS = 32, MXFP4_NIBBLE_BYTES = 16 };

struct planner {
    struct kg_hf_folder *folder;
    const struct kg_hf_config *config;
    const struct kg_convert_rules *rules;
    const struct kg_file_type *type;
    struct kg_convert_plan *plan;
    struct kg_error *err;
};

/* Finds a tensor by the rule's name, with or without the prefix that all names of the folder may have. */
static struct kg_hf_tensor *find(const struct planner *p, const char *name) {
    struct kg_hf_tensor *t = kg_hf_folder_find(p->folder, name);
    if (t || !p->rules->optional_prefix) return t;
    char *longer = kg_xasprintf("%s%s", p->rules->optional_prefix, name);
    t = kg_hf_folder_find(p->folder, longer);
    free(longer);
    return t;
}

static enum kg_status fail_shape(const struct planner *p, const struct kg_hf_tensor *t, const uint64_t *dims,
                                 size_t n_dims) {
    struct kg_buffer have = KG_BUFFER_INIT, need = KG_BUFFER_INIT;
    for (size_t d = 0; d < t->tensor->n_dims; d++)
        kg_buffer_printf(&have, "%s%" PRIu64, d ? ", " : "", t->tensor->dims[d]);
    for (size_t d = 0; d < n_dims; d++) kg_buffer_printf(&need, "%s%" PRIu64, d ? ", " : "", dims[d]);
    const enum kg_status status =
        kg_fail(p->err, KG_ERR_FORMAT, "%s: tensor '%s' has the shape [%s], but config.json makes it [%s]",
                kg_safetensors_path(t->file), QUOTE(t->tensor->name), kg_buffer_text(&have), kg_buffer_text(&need));
    kg_buffer_free(&have);
    kg_buffer_free(&need);
    return status;
}

static enum kg_status check_shape(const struct planner *p, const struct kg_hf_tensor *t, const uint64_t *dims,
                                  size_t n_dims) {
    bool same = t->tensor->n_dims == n_dims;
    for (size_t d = 0; d < n_dims && same; d++) same = t->tensor->dims[d] == dims[d];
    return same ? KG_OK : fail_shape(p, t, dims, n_dims);
}

static enum kg_status check_dtype(const struct planner *p, const struct kg_hf_tensor *t, bool packed) {
    const enum kg_safetensors_dtype d = t->tensor->dtype;
    const bool is_float = d == KG_SAFETENSORS_F32 || d == KG_SAFETENSORS_F16 || d == KG_SAFETENSORS_BF16;
    if (packed ? d == KG_SAFETENSORS_U8 : is_float) return KG_OK;
    return kg_fail(p->err, KG_ERR_UNSUPPORTED, "%s: tensor '%s' is %s; kigo converts %s", kg_safetensors_path(t->file),
                   QUOTE(t->tensor->name), kg_safetensors_dtype_name(d),
                   packed ? "U8 there" : "F32, F16 and BF16 (and gpt-oss's MXFP4 experts)");
}

/* The tensor of this name, checked and marked as used. */
static enum kg_status take(const struct planner *p, const char *name, bool packed, const uint64_t *dims, size_t n_dims,
                           const struct kg_safetensors_tensor **out) {
    struct kg_hf_tensor *t = find(p, name);
    if (!t)
        return kg_fail(p->err, KG_ERR_FORMAT, "%s: tensor '%s' is missing (of %zu)", p->folder->dir, name,
                       p->folder->n_tensors);
    enum kg_status status = check_dtype(p, t, packed);
    if (status == KG_OK) status = check_shape(p, t, dims, n_dims);
    if (status != KG_OK) return status;
    t->used = true;
    *out = t->tensor;
    return KG_OK;
}

static uint64_t source_rows(const struct kg_convert_tensor *t) {
    return t->row_map == KG_ROWS_EVEN || t->row_map == KG_ROWS_ODD ? 2 * t->rows : t->rows;
}

static enum kg_status take_packed(const struct planner *p, struct kg_convert_tensor *t, const char *blocks,
                                  const char *hf) {
    const uint64_t dims[] = { t->experts, source_rows(t), t->cols / MXFP4_ELEMS, MXFP4_NIBBLE_BYTES };
    if (t->cols % MXFP4_ELEMS != 0)
        return kg_fail(p->err, KG_ERR_FORMAT,
                       "%s: tensor '%s' is MXFP4, but its rows of %" PRIu64 " are no blocks of %d", p->folder->dir,
                       blocks, t->cols, MXFP4_ELEMS);
    enum kg_status status = take(p, blocks, true, dims, 4, &t->source);
    if (status != KG_OK) return status;
    char *scales = kg_xasprintf("%s_scales", hf);
    status = take(p, scales, true, dims, 3, &t->scales);
    free(scales);
    return status;
}

static enum kg_status take_plain(const struct planner *p, struct kg_convert_tensor *t, const char *hf) {
    const uint64_t rows = source_rows(t);
    uint64_t dims[3];
    size_t n = 0;
    if (t->n_dims > 2 || (t->cols == 1 && t->n_dims == 2)) dims[n++] = t->experts;
    dims[n++] = t->transposed ? t->cols : rows;
    if (t->cols > 1 || t->n_dims > 2) dims[n++] = t->transposed ? rows : t->cols;
    return take(p, hf, false, dims, n, &t->source);
}

static void choose_dtype(const struct planner *p, const struct kg_convert_rule *rule, struct kg_convert_tensor *t) {
    const struct kg_hf_config *c = p->config;
    const struct kg_file_type_model model = { .architecture = c->architecture->gguf_name,
                                              .n_layers = c->n_layers,
                                              .n_heads = c->n_heads,
                                              .n_kv_heads = c->n_kv_heads,
                                              .n_experts = c->n_experts,
                                              .tied = c->tied_output };
    const struct kg_file_type_tensor tensor = { t->name, t->n_dims, t->dims };
    t->dtype = t->by_rules = t->scales ? KG_DTYPE_MXFP4 : KG_DTYPE_F32;
    if (t->scales || rule->f32 || rule->cols == KG_SIDE_ONE) return;
    t->dtype = kg_file_type_dtype(p->type, &model, &tensor, &t->by_rules);
}

static enum kg_status append(struct planner *p, const struct kg_convert_tensor *t) {
    struct kg_convert_plan *plan = p->plan;
    uint64_t n_elems = t->experts, n_bytes = 0;
    if (!kg_mul_u64(n_elems, t->rows, &n_elems) || !kg_mul_u64(n_elems, t->cols, &n_elems))
        return kg_fail(p->err, KG_ERR_FORMAT, "tensor '%s': its size overflows", t->name);
    const enum kg_status status = kg_dtype_row_bytes(t->dtype, n_elems, &n_bytes, p->err);
    if (status != KG_OK) return kg_error_context(p->err, status, "tensor '%s'", t->name);
    plan->tensors = kg_xrealloc(plan->tensors, (plan->n_tensors + 1) * sizeof *t);
    plan->tensors[plan->n_tensors++] = *t;
    plan->n_packed += t->scales != NULL;
    plan->n_params += n_elems;
    plan->n_bytes += n_bytes;
    if (t->experts > 1 && t->cols > 1) plan->size.expert += n_elems / t->experts;
    else plan->size.shared += n_elems;
    return KG_OK;
}

/* The rule's tensor of a layer, or of the model where both prefixes are "". */
static enum kg_status add(struct planner *p, const struct kg_convert_rule *rule, const char *gguf_prefix,
                          const char *hf_prefix) {
    const struct kg_hf_config *c = p->config;
    struct kg_convert_tensor t = { .row_map = rule->row_map,
                                   .transposed = rule->transposed,
                                   .plus_one = rule->plus_one };
    char *hf = kg_xasprintf("%s%s", hf_prefix, rule->hf), *blocks = kg_xasprintf("%s_blocks", hf);
    snprintf(t.name, sizeof t.name, "%s%s", gguf_prefix, rule->gguf);
    const enum kg_convert_side sides[] = { rule->cols, rule->rows, rule->experts }; /* fastest first */
    t.experts = kg_convert_side_elems(rule->experts, c);
    t.rows = kg_convert_side_elems(rule->rows, c);
    t.cols = kg_convert_side_elems(rule->cols, c);
    for (size_t i = 0; i < KG_COUNT_OF(sides); i++)
        if (sides[i] != KG_SIDE_ONE) t.dims[t.n_dims++] = kg_convert_side_elems(sides[i], c);
    const bool packed = rule->packable && find(p, blocks);
    const enum kg_status status = packed ? take_packed(p, &t, blocks, hf) : take_plain(p, &t, hf);
    free(blocks);
    free(hf);
    if (status != KG_OK) return status;
    choose_dtype(p, rule, &t);
    return append(p, &t);
}

static enum kg_status add_all(struct planner *p, const struct kg_convert_rule *rules, size_t n, const char *gguf_prefix,
                              const char *hf_prefix) {
    enum kg_status status = KG_OK;
    for (size_t i = 0; i < n && status == KG_OK; i++)
        if (kg_convert_rule_applies(&rules[i], p->config)) status = add(p, &rules[i], gguf_prefix, hf_prefix);
    return status;
}

/* llama3's scaling as divisors of the frequencies: 1 for short wavelengths, `factor` for long ones. Between them the
 * frequency is interpolated by the number of rotations within the original context. */
static float *llama3_factors(const struct kg_hf_config *c) {
    const struct kg_hf_rope *r = &c->rope;
    const uint32_t n = c->n_rot / 2;
    float *factors = kg_xcalloc(n, sizeof *factors);
    for (uint32_t i = 0; i < n; i++) {
        const double wavelength = 2 * M_PI * pow(r->base, 2.0 * i / c->n_rot), rotations = r->original_ctx / wavelength;
        const double smooth = (rotations - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
        factors[i] = (float)(smooth > 1 ? 1 : smooth < 0 ? r->factor : 1 / ((1 - smooth) / r->factor + smooth));
    }
    return factors;
}

static enum kg_status add_made(struct planner *p, const char *name, const float *values) {
    if (!values) return KG_OK;
    struct kg_convert_tensor t = { .experts = 1,
                                   .rows = p->config->n_rot / 2,
                                   .cols = 1,
                                   .n_dims = 1,
                                   .dtype = KG_DTYPE_F32,
                                   .by_rules = KG_DTYPE_F32,
                                   .values = values };
    t.dims[0] = t.rows;
    snprintf(t.name, sizeof t.name, "%s", name);
    return append(p, &t);
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* Tensors that are not written: a tied output repeats the embedding; masks and frequencies are recomputed at run time.
 */
static bool is_ignored(const struct planner *p, const char *name) {
    for (const char *const *end = p->rules->ignored; *end; end++)
        if (ends_with(name, *end)) return true;
    return p->config->tied_output && strcmp(name, "lm_head.weight") == 0;
}

static enum kg_status check_left_over(const struct planner *p) {
    size_t n = 0;
    const struct kg_hf_tensor *first = NULL;
    for (size_t i = 0; i < p->folder->n_tensors; i++) {
        const struct kg_hf_tensor *t = &p->folder->tensors[i];
        if (t->used || is_ignored(p, t->tensor->name)) continue;
        if (n++ == 0) first = t;
    }
    if (!first) return KG_OK;
    return kg_fail(p->err, KG_ERR_FORMAT, "%s: tensor '%s' is none that config.json's %s has (%zu such tensors)",
                   kg_safetensors_path(first->file), QUOTE(first->tensor->name), p->config->architecture->class_name,
                   n);
}

enum kg_status kg_convert_plan_make(struct kg_hf_folder *folder, const struct kg_hf_config *config,
                                    const struct kg_file_type *type, struct kg_convert_plan *plan,
                                    struct kg_error *err) {
    struct kg_convert_plan made = { 0 };
    const struct kg_convert_rules *rules = kg_convert_rules_of(config->architecture);
    struct planner p = { folder, config, rules, type, &made, err };
    enum kg_status status = add_made(&p, "rope_factors_long.weight", config->rope.long_factors);
    if (status == KG_OK) status = add_made(&p, "rope_factors_short.weight", config->rope.short_factors);
    if (status == KG_OK) status = add_all(&p, rules->once, rules->n_once, "", "");
    for (uint32_t i = 0; i < config->n_layers && status == KG_OK; i++) {
        char gguf_prefix[32], hf_prefix[64];
        snprintf(gguf_prefix, sizeof gguf_prefix, "blk.%u.", i);
        snprintf(hf_prefix, sizeof hf_prefix, "%s%u.", rules->layer_prefix, i);
        status = add_all(&p, rules->layer, rules->n_layer, gguf_prefix, hf_prefix);
    }
    /* Only after the tensors' shapes confirm the head size: a hostile one must not cost memory and time. */
    if (status == KG_OK && config->rope.scaling == KG_HF_ROPE_LLAMA3) made.rope_freqs = llama3_factors(config);
    if (status == KG_OK) status = add_made(&p, "rope_freqs.weight", made.rope_freqs);
    if (status == KG_OK) status = check_left_over(&p);
    if (status == KG_OK) *plan = made;
    else kg_convert_plan_free(&made);
    return status;
}

void kg_convert_plan_free(struct kg_convert_plan *plan) {
    free(plan->rope_freqs);
    free(plan->tensors);
    *plan = (struct kg_convert_plan){ 0 };
}
