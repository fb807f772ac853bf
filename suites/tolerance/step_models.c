#include "suites/tolerance/step_models.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/support/op_cases.h"
#include "suites/support/op_device.h"
#include "suites/support/plain_f16.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT(ctx, arch, embd, layers, heads, kv_heads, dim, ff, vocab, ...)                                         \
    {                                                                                                                  \
        .architecture = arch, .n_embd = embd, .n_layers = layers, .n_heads = heads, .n_kv_heads = kv_heads,            \
        .head_dim = dim, .n_ff = ff, .n_vocab = vocab, .n_ctx = ctx, __VA_ARGS__                                       \
    }
#define SHAPE(...) CONTEXT(1024, __VA_ARGS__)
/* Adjacent pairs are rotated. */
#define LLAMA(embd, layers, heads, kv_heads, dim, ff, vocab, ...)                                                      \
    SHAPE("llama", embd, layers, heads, kv_heads, dim, ff, vocab, .seed = 2, __VA_ARGS__)
/* Half pairs are rotated; q, k and v have biases. */
#define QWEN2(embd, layers, heads, kv_heads, dim, ff, vocab, ...)                                                      \
    SHAPE("qwen2", embd, layers, heads, kv_heads, dim, ff, vocab, .seed = 3, .qkv_bias = true, __VA_ARGS__)

/* Fused tensors; half pairs are rotated; a window. */
#define PHI3(embd, layers, heads, kv_heads, dim, ff, vocab, ...)                                                       \
    SHAPE("phi3", embd, layers, heads, kv_heads, dim, ff, vocab, .seed = 4, .untied = true, __VA_ARGS__)
/* Sinks, a window in every other layer, YaRN, experts. Seeds of which no expert is chosen by a hair
 * (steps_choose_clearly). */
#define GPT_OSS(of_seed, embd, layers, heads, kv_heads, dim, ff, vocab, ...)                                           \
    SHAPE("gpt-oss", embd, layers, heads, kv_heads, dim, ff, vocab, .seed = of_seed, .untied = true, __VA_ARGS__)
#define GPT2(embd, layers, heads, dim, ff, vocab) SHAPE("gpt2", embd, layers, heads, heads, dim, ff, vocab, .seed = 6)

enum { FEW = 20, LONG = 524, PAST_FOUR_SPLITS = 300 /* of 64 keys */ };

/* Widths are odd multiples of 16 where that is not what a row is about; a step as one launch wants multiples of 16 (of
 * 8 in a head), at most 8 query heads a KV head and 128 dims a head: "outside" is past one of these. */
const struct kg_step_model kg_step_models[] = {
    { "head_32_group_2", LLAMA(64, 2, 4, 2, 32, 48, 261, .untied = true), FEW, 0, 0, false, false, true },
    { "head_64_group_7", QWEN2(208, 2, 7, 1, 64, 336, 263, .untied = false), FEW, 0, 0, false, false, true },
    { "head_80_group_2", QWEN2(144, 1, 4, 2, 80, 112, 515, .untied = true), FEW, 0, 0, false, false, false },
    { "head_96_32_kv_heads", LLAMA(64, 1, 32, 32, 96, 80, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "head_128_group_8_all_biases", LLAMA(176, 2, 8, 1, 128, 400, 261, .qkv_bias = true, .other_bias = true), FEW, 0,
      0, false, false, true },
    { "other_biases_alone", LLAMA(80, 2, 2, 2, 32, 48, 265, .other_bias = true), FEW, 0, 0, false, false, false },
    { "head_8", LLAMA(32, 2, 4, 2, 8, 48, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "head_24", QWEN2(48, 2, 4, 2, 24, 80, 269, .untied = true), FEW, 0, 0, false, false, false },
    { "head_40_group_3", LLAMA(64, 2, 6, 2, 40, 48, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "head_104_group_5", QWEN2(112, 1, 10, 2, 104, 48, 261, .untied = false), FEW, 0, 0, false, false, false },
    { "more_kv_heads_than_blocks", LLAMA(32, 2, 160, 160, 8, 48, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "fewer_outputs_than_blocks", LLAMA(16, 3, 1, 1, 16, 16, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "twenty_layers", LLAMA(32, 20, 2, 1, 16, 48, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "vocabulary_of_4001", LLAMA(48, 1, 2, 1, 32, 48, 4001, .untied = true), FEW, 0, 0, false, false, false },
    { "ff_16_times_embd", LLAMA(64, 2, 2, 1, 32, 1040, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "embd_896", QWEN2(896, 1, 2, 2, 64, 272, 261, .untied = false), FEW, 0, 0, false, false, false },
    { "embd_912", LLAMA(912, 1, 2, 1, 64, 48, 261, .untied = false), FEW, 0, 0, false, false, true },
    { "embd_2048", LLAMA(2048, 1, 4, 2, 32, 80, 261, .other_bias = true), FEW, 0, 0, false, false, false },
    { "embd_1088", LLAMA(1088, 1, 2, 1, 64, 80, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "embd_2688_ff_1040", LLAMA(2688, 1, 2, 1, 64, 1040, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "fewer_slots_of_whole_rows", LLAMA(1792, 1, 8, 1, 128, 1056, 261, .untied = true), FEW, 0, 0, false, false,
      false },
    { "ff_3840", LLAMA(64, 1, 2, 1, 32, 3840, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "ff_8208", LLAMA(64, 1, 2, 1, 32, 8208, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "half_of_the_head_linear_scaling", LLAMA(64, 2, 4, 2, 64, 48, 261, .untied = true), FEW, 32, 4, false, false,
      false },
    { "rot_26_of_80_rope_factors", QWEN2(80, 2, 2, 1, 80, 48, 261, .untied = true), FEW, 26, 0, true, false, false },
    { "rope_factors_head_128", LLAMA(64, 2, 2, 2, 128, 48, 261, .untied = true), FEW, 0, 0, true, false, false },
    { "outside_group_9", LLAMA(64, 2, 9, 1, 32, 48, 261, .untied = true), FEW, 0, 0, false, false, true },
    { "outside_embd_72", QWEN2(72, 2, 4, 2, 32, 48, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "outside_embd_68", LLAMA(68, 2, 4, 2, 32, 48, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "outside_ff_56", LLAMA(64, 2, 4, 2, 32, 56, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "outside_three_heads_of_8", LLAMA(32, 2, 3, 1, 8, 48, 261, .untied = true), FEW, 0, 0, false, false, false },
    { "long_head_32", LLAMA(64, 2, 4, 2, 32, 48, 261, .untied = true), LONG, 0, 0, false, true, true },
    { "long_head_64_group_7", QWEN2(48, 1, 7, 1, 64, 48, 261, .untied = false), LONG, 0, 0, false, true, false },
    { "long_head_128_group_8", LLAMA(48, 1, 8, 1, 128, 48, 261, .untied = true), LONG, 0, 0, false, true, false },
    /* Query heads of a KV head in parts: five of one, then of two (two, two and one), of three (three and two), one. */
    { "long_20_kv_heads_group_5", LLAMA(48, 1, 100, 20, 16, 48, 261, .untied = true), LONG, 0, 0, false, true, false },
    { "long_32_kv_heads", LLAMA(32, 1, 32, 32, 16, 48, 261, .untied = true), PAST_FOUR_SPLITS, 0, 0, false, true,
      true },
    { .name = "phi3_head_96_window_7",
      .model = PHI3(112, 2, 4, 2, 96, 80, 261, .window = 7),
      .n_ids = FEW,
      .is_repeated = true },
    { .name = "long_phi3_window_300",
      .model = PHI3(48, 2, 2, 1, 32, 48, 261, .window = 300),
      .n_ids = LONG,
      .is_long = true },
    { .name = "phi3_outgrows_12",
      .model = { .architecture = "phi3",
                 .n_vocab = 261,
                 .n_ctx = 24,
                 .n_embd = 64,
                 .n_layers = 2,
                 .n_heads = 4,
                 .n_kv_heads = 4,
                 .n_ff = 48,
                 .head_dim = 32,
                 .untied = true,
                 .long_short = true,
                 .seed = 4 },
      .n_ids = FEW },
    { .name = "gpt_oss_group_4",
      .model = GPT_OSS(24, 80, 4, 8, 2, 32, 48, 261, .window = 5, .n_experts = 6, .n_experts_used = 3),
      .n_ids = FEW,
      .is_repeated = true },
    { .name = "gpt_oss_mxfp4_experts",
      .model = GPT_OSS(14, 96, 2, 4, 1, 64, 64, 261, .window = 9, .n_experts = 4, .n_experts_used = 2,
                       .mxfp4_experts = true),
      .n_ids = FEW },
    { .name = "long_gpt_oss_window_100",
      .model = GPT_OSS(32, 32, 2, 2, 1, 32, 32, 261, .window = 100, .n_experts = 3, .n_experts_used = 1),
      .n_ids = PAST_FOUR_SPLITS,
      .is_long = true },
    /* As the GPU repacks matrices, by 16 and 64: gate, up and swiglu are one launch. */
    { .name = "gpt_oss_mxfp4_experts_in_tiles",
      .model = GPT_OSS(17, 128, 2, 4, 1, 64, 192, 261, .window = 9, .n_experts = 6, .n_experts_used = 2,
                       .mxfp4_experts = true),
      .n_ids = FEW },
    { .name = "gpt_oss_group_1",
      .model = GPT_OSS(15, 96, 2, 3, 3, 32, 64, 261, .window = 9, .n_experts = 4, .n_experts_used = 2),
      .n_ids = FEW },
    { .name = "gpt_oss_head_96_group_1",
      .model = GPT_OSS(14, 64, 2, 2, 2, 96, 64, 261, .window = 9, .n_experts = 4, .n_experts_used = 2),
      .n_ids = FEW },
    /* Float32 beside matrices of float16 is not for a step as one launch. */
    { .name = "f16_matrices_head_32_group_1",
      .model = LLAMA(64, 2, 2, 2, 32, 48, 261, .untied = true, .matrices = KG_DTYPE_F16),
      .n_ids = FEW,
      .is_repeated = true },
    { .name = "f16_matrices_head_64_group_1",
      .model = QWEN2(128, 2, 2, 2, 64, 80, 261, .untied = true, .matrices = KG_DTYPE_F16),
      .n_ids = FEW },
    { .name = "f16_matrices_head_80_group_3",
      .model = QWEN2(80, 1, 6, 2, 80, 112, 261, .untied = true, .matrices = KG_DTYPE_F16),
      .n_ids = FEW },
    { .name = "f16_matrices_phi3_head_96_window_7",
      .model = PHI3(112, 2, 4, 4, 96, 80, 261, .window = 7, .matrices = KG_DTYPE_F16),
      .n_ids = FEW },
    { .name = "f16_matrices_head_128_group_2",
      .model = LLAMA(64, 1, 4, 2, 128, 48, 261, .other_bias = true, .matrices = KG_DTYPE_F16),
      .n_ids = FEW },
    /* Rows of gate and up that a block's memory holds no more than a part of, in slots that groups of warps share. */
    { .name = "f16_matrices_slots_again",
      .model = LLAMA(1152, 1, 2, 2, 64, 6144, 261, .untied = true, .matrices = KG_DTYPE_F16),
      .n_ids = 8 },
    { .name = "long_f16_matrices_head_96_group_1",
      .model = LLAMA(48, 1, 2, 2, 96, 48, 261, .untied = true, .matrices = KG_DTYPE_F16),
      .n_ids = PAST_FOUR_SPLITS,
      .is_long = true },
    /* The widths of GPT-OSS-20B: on an H200 a block has 20 pairs of q, k, v for a ring of 16, and a warp of the fused
     * products 12 and 16 tiles; the router's cluster has whole rows. */
    { .name = "gpt_oss_width_of_20b",
      .model = GPT_OSS(41, 2880, 1, 64, 8, 64, 64, 261, .window = 5, .n_experts = 32, .n_experts_used = 4,
                       .mxfp4_experts = true, .matrices = KG_DTYPE_F16),
      .n_ids = 6 },
    /* On an H200 a block has 32 pairs of gate and up for a ring of 14, and 13 of down for 11. */
    { .name = "outside_group_9_pairs_past_the_ring",
      .model = LLAMA(3200, 1, 9, 1, 32, 4096, 261, .untied = true, .matrices = KG_DTYPE_F16),
      .n_ids = 6 },
    { .name = "long_past_32_splits",
      .model = CONTEXT(8464, "llama", 32, 1, 2, 1, 16, 48, 261, .untied = true, .seed = 2),
      .n_ids = 8460,
      .is_long = true },
    { .name = "long_all_splits_32_kv_heads",
      .model = CONTEXT(1312, "llama", 32, 1, 32, 32, 16, 48, 261, .untied = true, .seed = 2),
      .n_ids = 1300,
      .is_long = true },
    /* Block formats as files have them, of rows that begin anywhere and of more columns than a segment has. */
    { .name = "q4_k_q6_k",
      .model =
          LLAMA(256, 2, 4, 2, 64, 4352, 262, .untied = true, .matrices = KG_DTYPE_Q4_K, .more_bits = KG_DTYPE_Q6_K),
      .n_ids = FEW,
      .is_repeated = true },
    { .name = "q5_k_q6_k_biases",
      .model = QWEN2(512, 1, 8, 2, 64, 768, 264, .matrices = KG_DTYPE_Q5_K, .more_bits = KG_DTYPE_Q6_K),
      .n_ids = FEW },
    { .name = "q8_0_odd_blocks", .model = QWEN2(224, 2, 7, 1, 64, 480, 262, .matrices = KG_DTYPE_Q8_0), .n_ids = FEW },
    { .name = "q4_0",
      .model = LLAMA(96, 2, 3, 1, 32, 160, 262, .untied = true, .matrices = KG_DTYPE_Q4_0),
      .n_ids = FEW },
    { .name = "q5_0_q8_0",
      .model =
          LLAMA(288, 1, 4, 2, 40, 352, 263, .other_bias = true, .matrices = KG_DTYPE_Q5_0, .more_bits = KG_DTYPE_Q8_0),
      .n_ids = FEW },
    { .name = "gpt2_head_40", .model = GPT2(80, 2, 2, 40, 112, 263), .n_ids = FEW, .is_repeated = true },
};
const size_t kg_n_step_models = KG_COUNT_OF(kg_step_models);

const struct kg_step_model *kg_step_model_find(const char *name) {
    for (size_t i = 0; i < kg_n_step_models; i++)
        if (strcmp(kg_step_models[i].name, name) == 0) return &kg_step_models[i];
    fprintf(stderr, "no model of steps is called %s\n", name);
    abort();
}

/* float32: six times the worst row of any model on the H200, 1.8e-12. float16: as it measures, twice the error of the
 * worst row of a plain implementation, at least one rounding of each logit. */
static const double NMSE_F32 = 1e-11, TIMES_PLAIN = 2;
static const char WHY_F32[] = "float32 sums in another order, by row: six times the worst that was measured";
static const char WHY_F16[] = "twice the error of a plain FP16 implementation in its worst row, or one rounding";

static void write_model(const struct kg_step_model *m, enum kg_precision precision, const char *path) {
    char n_rot[64], scale[64];
    struct kg_tiny_edit edits[3];
    size_t n = 0;
    struct kg_tiny_model model = m->model;
    if (precision == KG_PRECISION_F16 && model.matrices == KG_DTYPE_F32) model.matrices = KG_DTYPE_F16;
    snprintf(n_rot, sizeof n_rot, "%s.rope.dimension_count", model.architecture);
    snprintf(scale, sizeof scale, "%s.rope.scaling.factor", model.architecture);
    if (m->n_rot) edits[n++] = (struct kg_tiny_edit){ .name = n_rot, .change = KG_TINY_KEY_U32, .number = m->n_rot };
    if (m->rope_scale > 0)
        edits[n++] = (struct kg_tiny_edit){ .name = scale, .change = KG_TINY_KEY_F32, .number = (double)m->rope_scale };
    if (m->rope_factors)
        edits[n++] = (struct kg_tiny_edit){ .name = "rope_freqs.weight",
                                            .change = KG_TINY_TENSOR_ADD,
                                            .dims = { (m->n_rot ? m->n_rot : model.head_dim) / 2, 1 } };
    kg_tiny_model_write(path, &model, edits, n);
}

/* The logits of all positions, evaluated at once, or one after another. */
static void evaluate(const struct kg_step_work *w, bool by_steps, const char *backend, const struct kg_backend_ops *ops,
                     enum kg_precision precision, float *out) {
    struct kg_step_engine engine;
    kg_step_engine_open(&engine, w->path, backend, ops);
    struct kg_session *session = kg_step_session(&engine, w->n_ids, precision);
    (by_steps ? kg_step_decode : kg_step_prefill)(session, w->ids, w->n_ids, w->n_vocab, out);
    kg_session_free(session);
    kg_step_engine_close(&engine);
}

static double plain_nmse(const struct kg_step_work *w, bool by_steps) {
    double worst = 0;
    float *got = kg_xcalloc(w->n_ids * w->n_vocab, sizeof *got);
    for (size_t i = 0; i < KG_PLAIN_F16_LIMITS; i++) {
        struct kg_compare c;
        evaluate(w, by_steps, NULL, kg_plain_f16(i), KG_PRECISION_F16, got);
        for (size_t row = 0; row < w->n_ids; row++) {
            kg_compare_f32(got + row * w->n_vocab, w->want + row * w->n_vocab, w->n_vocab, &c);
            if (c.n_nonfinite > 0) ck_abort_msg("%s: the logits at %zu are not finite", kg_plain_f16(i)->name, row);
            worst = fmax(worst, c.nmse);
        }
    }
    free(got);
    return worst;
}

/* What cases of a model share, by precision of its matrices: a function of the table's row alone. */
static struct known {
    char *file; /* as written: making random weights takes longer than most cases */
    size_t file_bytes;
    float *want;
    double plain_nmse;                   /* 0 where not measured */
} known[KG_COUNT_OF(kg_step_models)][2]; /* with matrices of float16 */

/* The files of both precisions, one after the other: their random values are the same and drawn once. */
static void make_files(const struct kg_step_model *model, const char *path) {
    struct known *both = known[model - kg_step_models];
    for (int half = model->model.matrices == KG_DTYPE_F16; half < 2; half++) {
        struct kg_error err;
        write_model(model, half ? KG_PRECISION_F16 : KG_PRECISION_F32, path);
        kg_op_expect_ok(kg_file_read(path, &both[half].file, &both[half].file_bytes, &err), &err);
    }
}

void kg_step_work_open(struct kg_record *rec, const struct kg_step_model *model, enum kg_precision precision,
                       struct kg_step_work *w) {
    const bool half = precision == KG_PRECISION_F16;
    struct known *k = &known[model - kg_step_models][half || model->model.matrices == KG_DTYPE_F16];
    char *name = kg_xasprintf("%s.gguf", model->name);
    *w = (struct kg_step_work){ .path = kg_path_join(kg_scratch_dir(rec), name),
                                .n_ids = model->n_ids,
                                .n_vocab = model->model.n_vocab };
    free(name);
    if (!k->file) make_files(model, w->path);
    struct kg_error err;
    kg_op_expect_ok(kg_file_write(w->path, k->file, k->file_bytes, &err), &err);
    w->ids = kg_xcalloc(w->n_ids, sizeof *w->ids);
    for (size_t i = 0; i < w->n_ids; i++) w->ids[i] = (int32_t)((31 * i * i + 17 * i + 5) % w->n_vocab);
    if (!k->want) {
        k->want = kg_xcalloc(w->n_ids * w->n_vocab, sizeof *k->want);
        evaluate(w, model->model.long_short, "cpu", NULL, KG_PRECISION_F32, k->want);
    }
    w->want = k->want;
    if (half && k->plain_nmse <= 0) k->plain_nmse = plain_nmse(w, model->model.long_short);
    const double nmse_f16 = fmax(TIMES_PLAIN * TIMES_PLAIN * k->plain_nmse, KG_ROUNDOFF_F16 * KG_ROUNDOFF_F16);
    w->tol = (struct kg_tolerance){ .nmse = half ? nmse_f16 : NMSE_F32,
                                    .why = half ? WHY_F16 : WHY_F32,
                                    .far = half ? NULL : kg_far_on_cpu(rec) };
}

void kg_step_work_close(struct kg_step_work *w) {
    free(w->ids);
    free(w->path);
}

double kg_step_margin(const float *got, const float *want, size_t n_rows, size_t n_vocab,
                      const struct kg_tolerance *tol, struct kg_compare *worst, size_t *worst_row) {
    double largest = -1;
    for (size_t row = 0; row < n_rows; row++) {
        struct kg_compare c;
        double margin;
        kg_compare_f32(got + row * n_vocab, want + row * n_vocab, n_vocab, &c);
        (void)kg_within(&c, tol, &margin);
        if (!(margin > largest)) continue;
        largest = margin;
        *worst = c;
        if (worst_row) *worst_row = row;
    }
    return largest;
}

void kg_step_engine_open(struct kg_step_engine *engine, const char *path, const char *backend,
                         const struct kg_backend_ops *ops) {
    struct kg_error err;
    kg_op_expect_ok(ops ? kg_backend_open_ops(ops, 0, &engine->backend, &err)
                        : kg_backend_open(backend, 0, &engine->backend, &err),
                    &err);
    kg_op_expect_ok(kg_model_load(path, engine->backend, NULL, &engine->model, &err), &err);
    engine->n_vocab = kg_model_config(engine->model)->n_vocab;
}

void kg_step_engine_close(struct kg_step_engine *engine) {
    kg_model_free(engine->model);
    kg_backend_close(engine->backend);
}

struct kg_session *kg_step_session(struct kg_step_engine *engine, size_t n_ctx, enum kg_precision precision) {
    struct kg_error err;
    struct kg_session *session;
    const struct kg_session_options options = { (uint32_t)n_ctx, precision, precision };
    kg_op_expect_ok(kg_session_create(engine->model, &options, &session, &err), &err);
    return session;
}

void kg_step_prefill(struct kg_session *session, const int32_t *ids, size_t n, size_t n_vocab, float *out) {
    struct kg_error err;
    const float *logits;
    kg_op_expect_ok(kg_session_eval(session, ids, n, KG_LOGITS_ALL, &logits, &err), &err);
    memcpy(out, logits, n * n_vocab * sizeof *out);
}

void kg_step_decode(struct kg_session *session, const int32_t *ids, size_t n, size_t n_vocab, float *out) {
    struct kg_error err;
    const float *logits;
    for (size_t i = 0; i < n; i++) {
        kg_op_expect_ok(kg_session_eval(session, ids + i, 1, KG_LOGITS_LAST, &logits, &err), &err);
        memcpy(out + i * n_vocab, logits, n_vocab * sizeof *out);
    }
}
