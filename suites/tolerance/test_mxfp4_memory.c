/* MXFP4 weights stay MXFP4 in a back end's memory: the peak of every tag, after prefills of many and of some rows and
 * single steps, against what the file's bytes and the model's shapes allow, and the bytes that each tensor takes, as
 * the back end counts them. An engine that decodes a weight as a whole and multiplies by the copy, if only for the time
 * of one product, is outside of it. */
#include "base/buffer.h"
#include "base/size.h"
#include "format/gguf.h"
#include "convert/synth.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include "suites/tolerance/step_models.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows at once (fewer where the model knows fewer positions), some more at once, and one by one. */
enum { MANY = 512, SOME = 16, STEPS = 4 };
/* A block is rounded up so far; YaRN's factors and such are no tensors; the session's buffers share a block. */
enum { ROOM_BYTES = 256, OWN_BLOCKS = 4, BUFFERS = 16 };

struct memory_case {
    const char *backend, *dtype;
    enum kg_precision precision;
    const char *fixture; /* below fixtures/, or */
    const char *like;    /* a shape to synthesise, of which no copy could hide in the scratch */
    bool decodes;        /* every MXFP4 weight is decoded as a whole before it is used */
    bool is_control;     /* of a case about the other one */
};

/* ---- What the file holds, and what of it the back end took. ---- */

enum { MAX_TENSORS = 256 };
static struct taken {
    char name[64];
    uint64_t size_bytes;
} taken[MAX_TENSORS];
static size_t n_taken;
static const struct kg_backend_ops *original;

static enum kg_status counted_import(struct kg_backend *backend, const void *host, uint64_t size_bytes,
                                     const char *what, struct kg_block *block, struct kg_error *err) {
    struct kg_memory_use before, after;
    kg_backend_memory(backend, &before);
    const enum kg_status status = original->import_weights(backend, host, size_bytes, what, block, err);
    kg_backend_memory(backend, &after);
    ck_assert_uint_lt(n_taken, MAX_TENSORS);
    struct taken *t = &taken[n_taken++];
    snprintf(t->name, sizeof t->name, "%s", what);
    t->size_bytes = after.total_current_bytes - before.total_current_bytes;
    return status;
}

static uint64_t bytes_taken(const char *name, size_t len) {
    for (size_t i = 0; i < n_taken; i++)
        if (strlen(taken[i].name) == len && memcmp(taken[i].name, name, len) == 0) return taken[i].size_bytes;
    ck_abort_msg("%.*s: the back end was not given it", (int)len, name);
    return 0;
}

struct file_bytes {
    uint64_t all, mxfp4, mxfp4_elems;
    size_t n_tensors;
    uint64_t copies_past; /* MXFP4 bytes of tensors whose float16 copy is larger than `scratch` */
    double least_reduction;
};

static void record(struct kg_record *rec, const struct memory_case *c, const char *name, const char *unit,
                   double value) {
    if (!c->is_control) kg_record_metric(rec, name, unit, value);
}

/* Records every MXFP4 tensor's bytes in float16 over those it was counted with. */
static struct file_bytes count_file(struct kg_record *rec, const struct memory_case *c, const char *path,
                                    uint64_t scratch_bytes) {
    struct file_bytes f = { .least_reduction = INFINITY };
    struct kg_gguf *gguf;
    struct kg_error err;
    kg_must(kg_gguf_open(path, &gguf, &err), &err);
    f.n_tensors = kg_gguf_n_tensors(gguf);
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct kg_gguf_tensor *t = kg_gguf_tensor_at(gguf, i);
        char name[96];
        f.all += t->size_bytes;
        if (t->dtype != KG_DTYPE_MXFP4) continue;
        const double reduction = 2.0 * (double)t->n_elems / (double)bytes_taken(t->name.data, t->name.len);
        f.least_reduction = fmin(f.least_reduction, reduction);
        snprintf(name, sizeof name, "fp16_over_mxfp4.%.*s", (int)t->name.len, t->name.data);
        record(rec, c, name, "ratio", reduction);
        f.mxfp4 += t->size_bytes;
        f.mxfp4_elems += t->n_elems;
        if (2 * t->n_elems > scratch_bytes) f.copies_past += t->size_bytes;
    }
    kg_gguf_close(gguf);
    return f;
}

/* ---- What the shapes allow. ---- */

static uint64_t rows_at_once(const struct kg_model_config *c) {
    return c->n_ctx_train < MANY + SOME + STEPS ? c->n_ctx_train - SOME - STEPS : MANY;
}

static uint64_t context_of(const struct kg_model_config *c) {
    return rows_at_once(c) + SOME + STEPS;
}

/* That buffers are made for. */
static uint64_t rows_of_a_pass(const struct kg_model_config *c) {
    return context_of(c) < MANY ? context_of(c) : MANY;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* What a forward pass of so many rows keeps between its operations. */
static uint64_t activation_bytes(const struct kg_model_config *c, uint64_t elem_bytes) {
    enum { LOGIT_ROWS = 32 };
    const uint64_t rows = rows_of_a_pass(c);
    const uint64_t heads = (uint64_t)c->n_heads * c->head_dim, kv_heads = (uint64_t)c->n_kv_heads * c->head_dim;
    const uint64_t used = c->n_experts_used, parts = larger(used, 1), wide_bytes = c->wide_residual ? 4 : elem_bytes;
    const uint64_t narrow = c->n_embd + 2 * heads + 2 * kv_heads + 2 * parts * c->n_ff; /* norm q attn k v gate up */
    const uint64_t residual = (2 + used) * c->n_embd;                                   /* x, its addend, experts' */
    const uint64_t routes = 1 + c->n_experts + 2 * used;                                /* ids, and experts' */
    return rows * (narrow * elem_bytes + residual * wide_bytes + routes * 4) + LOGIT_ROWS * 4 * (uint64_t)c->n_vocab +
           (context_of(c) + 1) * 4 + BUFFERS * ROOM_BYTES;
}

/* Of the cuda back end: cuBLASLt's own and a decoded tile of a matrix, whatever the model is, x in another type and the
 * products of a tile; small things (lists of rows by expert, parts of a step's attention). The cpu back end has none.
 */
static uint64_t workspace_bytes(const struct kg_model_config *c, const char *backend) {
    enum { MIB = 1 << 20, LIBRARY = 32, TILE = 32, SMALL = 1, TILE_OUTPUTS = 4096 };
    const uint64_t widest = larger(larger(c->n_embd, c->n_ff), (uint64_t)c->n_heads * c->head_dim);
    if (strcmp(backend, "cpu") == 0) return OWN_BLOCKS * ROOM_BYTES;
    const uint64_t rows = rows_of_a_pass(c);
    return (uint64_t)(LIBRARY + TILE + SMALL) * MIB + rows * 4 * (widest + 2 * TILE_OUTPUTS);
}

/* The largest of the tags' peaks over what they may be; all are recorded. */
static double margin_of_peaks(struct kg_record *rec, const struct memory_case *c, const struct kg_model_config *config,
                              const struct file_bytes *file, const struct kg_memory_use *used, const char **worst) {
    const uint64_t elem_bytes = c->precision == KG_PRECISION_F16 ? 2 : 4;
    const uint64_t kv_elems = 2ull * config->n_layers * config->n_kv_heads * config->head_dim * context_of(config);
    const uint64_t limits[KG_MEMORY_TAG_COUNT] = {
        [KG_MEMORY_WEIGHTS] = file->all + (file->n_tensors + OWN_BLOCKS) * ROOM_BYTES,
        [KG_MEMORY_KV] = kv_elems * elem_bytes + OWN_BLOCKS * ROOM_BYTES,
        [KG_MEMORY_ACTIVATIONS] = activation_bytes(config, elem_bytes),
        [KG_MEMORY_WORKSPACE] = workspace_bytes(config, c->backend),
    };
    double largest = 0;
    uint64_t sum = 0;
    for (int tag = 0; tag <= KG_MEMORY_TAG_COUNT; tag++) {
        const bool all = tag == KG_MEMORY_TAG_COUNT;
        const uint64_t peak = all ? used->total_peak_bytes : used->peak_bytes[tag], limit = all ? sum : limits[tag];
        const char *name = all ? "all" : kg_memory_tag_name((enum kg_memory_tag)tag);
        char metric[64];
        snprintf(metric, sizeof metric, "%s.peak", name);
        record(rec, c, metric, "bytes", (double)peak);
        snprintf(metric, sizeof metric, "%s.allowed", name);
        record(rec, c, metric, "bytes", (double)limit);
        if (!all) sum += limit;
        if ((double)peak / (double)limit <= largest) continue;
        largest = (double)peak / (double)limit;
        *worst = name;
    }
    return largest;
}

/* ---- "Dequantise, then multiply": the wrong engine. ---- */

static enum kg_status decode_whole(struct kg_backend *backend, struct kg_weight *w, enum kg_precision precision,
                                   struct kg_block *copy, struct kg_error *err) {
    const struct kg_backend_ops *ops = original;
    const uint64_t elem_bytes = precision == KG_PRECISION_F16 ? 2 : 4;
    struct kg_block rows = { 0 };
    int32_t *ids = kg_xcalloc(w->n_rows, sizeof *ids);
    for (uint32_t i = 0; i < w->n_rows; i++) ids[i] = (int32_t)i;
    enum kg_status status =
        ops->alloc(backend, KG_MEMORY_WORKSPACE, w->n_rows * sizeof *ids, "rows to decode", &rows, err);
    if (!status) status = ops->upload(backend, rows.data, ids, w->n_rows * sizeof *ids, err);
    if (!status)
        status =
            ops->alloc(backend, KG_MEMORY_WORKSPACE, elem_bytes * w->n_rows * w->n_cols, "a decoded weight", copy, err);
    const struct kg_embedding_args args = {
        .activations = precision, .weight = *w, .ids = rows.data, .n_rows = w->n_rows, .y = copy->data
    };
    if (!status) status = ops->embedding(backend, &args, err);
    if (!status) status = ops->synchronize(backend, err);
    ops->free(backend, &rows);
    free(ids);
    w->data = copy->data;
    w->dtype = precision == KG_PRECISION_F16 ? KG_DTYPE_F16 : KG_DTYPE_F32;
    return status;
}

#define DEFINE_DECODING(op)                                                                                            \
    static enum kg_status decoding_##op(struct kg_backend *backend, const struct kg_##op##_args *args,                 \
                                        struct kg_error *err) {                                                        \
        struct kg_##op##_args a = *args;                                                                               \
        struct kg_block copy = { 0 };                                                                                  \
        if (a.weight.dtype != KG_DTYPE_MXFP4) return original->op(backend, args, err);                                 \
        enum kg_status status = decode_whole(backend, &a.weight, a.activations, &copy, err);                           \
        if (!status) status = original->op(backend, &a, err);                                                          \
        if (!status) status = original->synchronize(backend, err);                                                     \
        original->free(backend, &copy);                                                                                \
        return status;                                                                                                 \
    }
DEFINE_DECODING(linear)
DEFINE_DECODING(experts_linear)

/* ---- A model, used. ---- */

static char *model_path(struct kg_record *rec, const struct memory_case *c) {
    if (c->fixture) return kg_xstrdup(kg_fixture_path(c->fixture));
    const struct kg_synth_options options = { .like = c->like };
    struct kg_synth_plan plan;
    struct kg_error err;
    char *path = kg_xasprintf("%s/wide.gguf", kg_scratch_dir(rec));
    kg_must(kg_synth_plan_make(&options, &plan, &err), &err);
    kg_must(kg_synth_write(&options, &plan, path, &err), &err);
    kg_synth_plan_free(&plan);
    return path;
}

static void use_model(struct kg_step_engine *engine, enum kg_precision precision) {
    const struct kg_model_config *config = kg_model_config(engine->model);
    const size_t at_once[] = { rows_at_once(config), SOME }, n_ctx = context_of(config);
    int32_t ids[MANY + SOME + STEPS];
    size_t at = 0;
    for (size_t i = 0; i < n_ctx; i++) ids[i] = (int32_t)(5 + 17 * i % 250);
    float *rows = kg_xcalloc(MANY * engine->n_vocab, sizeof *rows);
    struct kg_session *session = kg_step_session(engine, n_ctx, precision);
    for (size_t i = 0; i < KG_COUNT_OF(at_once); at += at_once[i++])
        kg_step_prefill(session, ids + at, at_once[i], engine->n_vocab, rows);
    kg_step_decode(session, ids + at, STEPS, engine->n_vocab, rows);
    for (size_t i = 0; i < STEPS * engine->n_vocab; i++) ck_assert(isfinite(rows[i]));
    kg_session_free(session);
    free(rows);
}

/* The margin of a model's memory; negative after a skip. */
static double run_model(struct kg_record *rec, const struct memory_case *c, const char **worst) {
    struct kg_step_engine engine;
    struct kg_memory_use loaded, used;
    struct kg_error err;
    if (!kg_backend_or_skip(rec, c->backend)) return -1;
    kg_op_expect_ok(kg_backend_find_ops(c->backend, &original, &err), &err);
    struct kg_backend_ops ops = *original;
    ops.import_weights = counted_import;
    if (c->decodes) {
        ops.linear = decoding_linear;
        ops.experts_linear = decoding_experts_linear;
        ops.lower = NULL; /* they allocate and free, which no captured graph may */
    }
    n_taken = 0;
    char *path = model_path(rec, c);
    kg_step_engine_open(&engine, path, c->backend, &ops);
    kg_backend_memory(engine.backend, &loaded);
    use_model(&engine, c->precision);
    kg_backend_memory(engine.backend, &used);
    if (!c->is_control) kg_record_memory(rec, &used);
    const uint64_t scratch = used.peak_bytes[KG_MEMORY_ACTIVATIONS] + used.peak_bytes[KG_MEMORY_WORKSPACE];
    const struct file_bytes file = count_file(rec, c, path, scratch);
    const double margin = margin_of_peaks(rec, c, kg_model_config(engine.model), &file, &used, worst);
    ck_assert_uint_ge(loaded.current_bytes[KG_MEMORY_WEIGHTS], file.all);
    const double mxfp4_peak = (double)(used.peak_bytes[KG_MEMORY_WEIGHTS] - (file.all - file.mxfp4));
    record(rec, c, "file.tensors", "bytes", (double)file.all);
    record(rec, c, "file.mxfp4", "bytes", (double)file.mxfp4);
    record(rec, c, "fp16_over_mxfp4", "ratio", 2.0 * (double)file.mxfp4_elems / mxfp4_peak);
    record(rec, c, "fp16_over_mxfp4.least", "ratio", file.least_reduction);
    ck_assert_msg(file.least_reduction >= 3.7, "an MXFP4 tensor takes 1/%.4g of float16's bytes", file.least_reduction);
    ck_assert_msg(2.0 * (double)file.mxfp4_elems >= 3.7 * mxfp4_peak, "MXFP4 tensors take %.0f bytes", mxfp4_peak);
    if (c->like && !c->decodes) {
        const double share = (double)file.copies_past / (double)file.mxfp4;
        record(rec, c, "mxfp4_bytes_whose_copy_cannot_hide", "ratio", share);
        ck_assert_msg(share > 0.5, "a copy of %.3g of the weights would be less than %llu bytes of scratch", 1 - share,
                      (unsigned long long)scratch);
    }
    kg_step_engine_close(&engine);
    free(path);
    return margin;
}

static void weights_stay_mxfp4(struct kg_record *rec, const void *arg) {
    const struct memory_case *c = arg;
    const char *worst = "";
    const double margin = run_model(rec, c, &worst);
    if (margin < 0) return;
    kg_record_metric(rec, "margin", "ratio", margin);
    ck_assert_msg(margin <= 1, "%s: the peak is %.4g of what file and shapes allow", worst, margin);
}

static void decoding_is_seen(struct kg_record *rec, const void *arg) {
    const struct memory_case *c = arg;
    struct memory_case control = *c;
    const char *worst = "";
    control.decodes = false;
    control.is_control = true;
    const double right = run_model(rec, &control, &worst);
    if (right < 0) return;
    ck_assert_msg(right <= 1, "%s: the control's peak is %.4g of what is allowed", worst, right);
    const double margin = run_model(rec, c, &worst);
    ck_assert_msg(margin > 1, "the mutant lives: %s at %.4g of what is allowed", worst, margin);
    ck_assert_str_eq(worst, "workspace");
    kg_record_metric(rec, "kill_factor", "ratio", margin);
    kg_record_metric(rec, "control_margin", "ratio", right);
}

static const struct memory_case TARGETS[] = {
    { .backend = "cpu", .dtype = "f32", .precision = KG_PRECISION_F32 },
    { .backend = "cuda", .dtype = "f32", .precision = KG_PRECISION_F32 },
    { .backend = "cuda", .dtype = "f16", .precision = KG_PRECISION_F16 },
};

/* The cpu back end reads weights where the file is mapped, and would take minutes for the wide ones. */
static const struct {
    const char *name, *fixture, *like;
} MODELS[] = {
    { "weights_stay_mxfp4_gpt_oss", "haiku-gpt-oss/haiku-gpt-oss-mxfp4.gguf", NULL },
    { "weights_stay_mxfp4_gpt2", "haiku-gpt2/haiku-gpt2-mxfp4.gguf", NULL },
    { "weights_stay_mxfp4_wide_phi3", NULL, "wide-phi-3" },
    { "weights_stay_mxfp4_wide_gpt_oss", NULL, "wide-gpt-oss" },
};

static void build(struct kg_case_list *cases) {
    static struct memory_case all[2 * KG_COUNT_OF(MODELS) * KG_COUNT_OF(TARGETS)];
    size_t n = 0;
    for (size_t i = 0; i < KG_COUNT_OF(MODELS); i++)
        for (size_t t = 0; t < KG_COUNT_OF(TARGETS); t++)
            for (int decodes = 0; decodes < 2; decodes++) {
                const bool on_cpu = strcmp(TARGETS[t].backend, "cpu") == 0;
                if (on_cpu && MODELS[i].like) continue;
                /* The cuda back end's scratch has room for a fixture's matrices: that is what the wide ones are for. */
                if (decodes && !on_cpu && MODELS[i].fixture) continue;
                struct memory_case *c = &all[n++];
                *c = TARGETS[t];
                c->fixture = MODELS[i].fixture;
                c->like = MODELS[i].like;
                c->decodes = decodes;
                kg_case_list_add(cases, &(struct kg_case){ .layer = decodes ? "mutation" : "tolerance",
                                                           .op = "mxfp4_model",
                                                           .name = MODELS[i].name,
                                                           .backend = c->backend,
                                                           .dtype = c->dtype,
                                                           .definition = c->fixture ? c->fixture : c->like,
                                                           .run = decodes ? decoding_is_seen : weights_stay_mxfp4,
                                                           .arg = c });
            }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
