/* Files whose q, k and v of a layer are one tensor where the architecture's converters write three, or three where they
 * write one: llama.cpp's loader takes either of qwen2, llama, phi3 and gpt-oss, and so does kigo's. The same weights
 * give the same logits. */
#include "base/buffer.h"
#include "base/size.h"
#include "format/gguf.h"
#include "suites/harness/must.h"
#include "suites/support/rig.h"
#include "suites/support/golden.h"
#include "suites/support/layer_compare.h"
#include "suites/support/op_device.h"
#include "suites/tolerance/step_models.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct qkv_model {
    const char *name, *path, *golden;
    bool is_fused; /* as the file is */
} MODELS[] = {
    { "qwen2_fused", "haiku-qwen2/haiku-qwen2-f16.gguf", "haiku-qwen2/golden/short.safetensors", false },
    { "llama_fused", "tiny-llama/llama-f32.gguf", "tiny-llama/golden/llama-f32.safetensors", false },
    { "phi3_apart", "haiku-phi3/haiku-phi3-q8_0.gguf", "haiku-phi3/golden/short.safetensors", true },
    { "gpt_oss_fused", "haiku-gpt-oss/haiku-gpt-oss-mxfp4.gguf", "haiku-gpt-oss/golden/short.safetensors", false },
};

static const struct target {
    const char *backend, *dtype;
    enum kg_precision precision;
} TARGETS[] = {
    { "cpu", "f32", KG_PRECISION_F32 },
    { "cuda", "f32", KG_PRECISION_F32 },
    { "cuda", "f16", KG_PRECISION_F16 },
};

struct qkv_case {
    const struct qkv_model *model;
    const struct target *target;
    bool exchanges; /* a mutant: k and v take each other's place */
};

static const char *const PARTS[] = { "q", "k", "v" };
enum { N_PARTS = KG_COUNT_OF(PARTS) };

static const struct kg_gguf_tensor *part_of(const struct kg_gguf *g, uint32_t layer, const char *part,
                                            const char *kind) {
    char *name = kg_xasprintf("blk.%u.attn_%s.%s", layer, part, kind);
    const struct kg_gguf_tensor *t = kg_gguf_find_tensor(g, name);
    free(name);
    return t;
}

static void put(struct kg_gguf_writer *w, uint32_t layer, const char *part, const char *kind,
                const struct kg_gguf_tensor *like, uint64_t rows, const void *data) {
    struct kg_error err;
    uint64_t dims[KG_GGUF_MAX_DIMS] = { like->dims[0], rows };
    char *name = kg_xasprintf("blk.%u.attn_%s.%s", layer, part, kind);
    if (like->n_dims == 1) dims[0] = rows;
    kg_must(kg_gguf_writer_tensor(w, name, like->dtype, like->n_dims, dims, data, &err), &err);
    free(name);
}

static uint64_t rows_of(const struct kg_gguf_tensor *t) {
    return t->dims[t->n_dims - 1];
}

/* malloc'ed: the three as one. */
static void *join(struct kg_gguf_writer *w, const struct kg_gguf *g, uint32_t layer, const char *kind, bool exchanges) {
    const struct kg_gguf_tensor *parts[N_PARTS];
    uint64_t rows = 0, size_bytes = 0, at = 0;
    for (size_t i = 0; i < N_PARTS; i++) {
        parts[i] = part_of(g, layer, PARTS[exchanges && i > 0 ? 3 - i : i], kind);
        if (!parts[i]) return NULL;
        rows += rows_of(parts[i]);
        size_bytes += parts[i]->size_bytes;
    }
    char *data = kg_xmalloc(size_bytes);
    for (size_t i = 0; i < N_PARTS; at += parts[i++]->size_bytes)
        memcpy(data + at, parts[i]->data, parts[i]->size_bytes);
    put(w, layer, "qkv", kind, parts[0], rows, data);
    return data;
}

static void split(struct kg_gguf_writer *w, const struct kg_gguf *g, uint32_t layer, const char *kind, bool exchanges,
                  const uint64_t *rows) {
    const struct kg_gguf_tensor *whole = part_of(g, layer, "qkv", kind);
    if (!whole) return;
    const uint64_t row_bytes = whole->size_bytes / rows_of(whole);
    uint64_t at = 0;
    for (size_t i = 0; i < N_PARTS; at += rows[i++])
        put(w, layer, PARTS[exchanges && i > 0 ? 3 - i : i], kind, whole, rows[i],
            (const char *)whole->data + at * row_bytes);
}

static void write_other_form(const struct qkv_case *c, const struct kg_model_config *config, const char *to) {
    static const char *const KINDS[] = { "weight", "bias" };
    struct kg_gguf *g;
    struct kg_error err;
    const uint64_t q = (uint64_t)config->n_heads * config->head_dim,
                   kv = (uint64_t)config->n_kv_heads * config->head_dim;
    const uint64_t rows[N_PARTS] = { q, kv, kv };
    void **joined = kg_xcalloc(2 * (size_t)config->n_layers, sizeof *joined);
    kg_must(kg_gguf_open(kg_fixture_path(c->model->path), &g, &err), &err);
    struct kg_gguf_writer *w = kg_gguf_writer_new((uint32_t)kg_gguf_alignment(g));
    for (size_t i = 0; i < kg_gguf_n_keys(g); i++)
        if (!kg_str_eq(kg_gguf_key_at(g, i)->name, "general.alignment"))
            kg_gguf_writer_copy_key(w, kg_gguf_key_at(g, i));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        for (size_t k = 0; k < KG_COUNT_OF(KINDS); k++) {
            if (c->model->is_fused) split(w, g, layer, KINDS[k], c->exchanges, rows);
            else joined[2 * layer + k] = join(w, g, layer, KINDS[k], c->exchanges);
        }
    for (size_t i = 0; i < kg_gguf_n_tensors(g); i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(g, i);
        char *name = kg_xstrndup(t->name.data, t->name.len);
        unsigned layer;
        char part[8];
        const bool is_part = sscanf(name, "blk.%u.attn_%7[qkv].", &layer, part) == 2;
        if (!is_part) kg_must(kg_gguf_writer_tensor(w, name, t->dtype, t->n_dims, t->dims, t->data, &err), &err);
        free(name);
    }
    kg_must(kg_gguf_writer_finish(w, to, &err), &err);
    kg_gguf_writer_free(w);
    kg_gguf_close(g);
    for (size_t i = 0; i < 2 * (size_t)config->n_layers; i++) free(joined[i]);
    free(joined);
}

/* A prompt at once, and again step by step: (2 n, n_vocab). malloc'ed. */
static float *logits_of(const struct kg_step_engine *engine, const int32_t *ids, size_t n,
                        enum kg_precision precision) {
    struct kg_step_engine e = *engine;
    float *rows = kg_xcalloc(2 * n * e.n_vocab, sizeof *rows);
    for (int stepping = 0; stepping < 2; stepping++) {
        struct kg_session *session = kg_step_session(&e, n, precision);
        (stepping ? kg_step_decode : kg_step_prefill)(session, ids, n, e.n_vocab,
                                                      rows + (stepping ? n * e.n_vocab : 0));
        kg_session_free(session);
    }
    return rows;
}

static void other_form_is_the_same(struct kg_record *rec, const void *arg) {
    const struct qkv_case *c = arg;
    const bool half = c->target->precision == KG_PRECISION_F16;
    const struct kg_tolerance tol = { .nmse = half ? KG_LAYER_NMSE_F16 : 4e-11,
                                      .why = half ? KG_LAYER_WHY_F16
                                                  : "the same products, of which the GPU may make one or three",
                                      .far = "that they are made in the same order, and equal, is allowed, not asked" };
    struct kg_step_engine as_is, other;
    struct kg_compare worst;
    size_t n;
    if (!kg_backend_or_skip(rec, c->target->backend)) return;
    struct kg_golden *golden = kg_golden_open(kg_fixture_path(c->model->golden));
    const int32_t *ids = kg_golden_i32(golden, "ids", &n);
    char *path = kg_xasprintf("%s/other.gguf", kg_scratch_dir(rec));
    kg_step_engine_open(&as_is, kg_fixture_path(c->model->path), c->target->backend, NULL);
    write_other_form(c, kg_model_config(as_is.model), path);
    kg_step_engine_open(&other, path, c->target->backend, NULL);
    float *want = logits_of(&as_is, ids, n, c->target->precision);
    float *got = logits_of(&other, ids, n, c->target->precision);
    const double margin = kg_step_margin(got, want, 2 * n, as_is.n_vocab, &tol, &worst, NULL);
    (c->exchanges ? kg_record_compare : kg_record_judged)(rec, "logits", &worst, &tol);
    if (c->exchanges) {
        kg_record_metric(rec, "kill_factor", "ratio", margin);
        ck_assert_msg(margin > 1, "k and v exchanged: %.4g of the tolerance", margin);
    } else {
        ck_assert_msg(margin <= 1, "outside the tolerance by a factor of %.4g", margin);
        if (strcmp(c->target->backend, "cpu") == 0)
            kg_expect_same_bits(c->model->name, got, want, 2 * n * as_is.n_vocab);
    }
    free(got);
    free(want);
    kg_step_engine_close(&other);
    kg_step_engine_close(&as_is);
    free(path);
    kg_golden_close(golden);
}

static void build(struct kg_case_list *cases) {
    static struct qkv_case all[2 * KG_COUNT_OF(MODELS) * KG_COUNT_OF(TARGETS)];
    size_t n = 0;
    for (size_t m = 0; m < KG_COUNT_OF(MODELS); m++)
        for (size_t t = 0; t < KG_COUNT_OF(TARGETS); t++)
            for (int exchanges = 0; exchanges < 2; exchanges++) {
                all[n] = (struct qkv_case){ &MODELS[m], &TARGETS[t], exchanges };
                kg_case_list_add(cases, &(struct kg_case){ .layer = exchanges ? "mutation" : "tolerance",
                                                           .op = "qkv_forms",
                                                           .name = MODELS[m].name,
                                                           .backend = TARGETS[t].backend,
                                                           .dtype = TARGETS[t].dtype,
                                                           .definition = MODELS[m].path,
                                                           .run = other_form_is_the_same,
                                                           .arg = &all[n++] });
            }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
