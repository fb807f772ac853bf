/* Float32 activations beside a float16 KV cache through the engine, at the widths of models: a prefill and steps behind
 * it, against the cpu reference whose float32 cache is given keys and values rounded to float16. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "backend/gpu.h"
#include "engine/session.h"
#include "format/dtype.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include "suites/support/tiny_model.h"
#include "suites/tolerance/step_models.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_IDS = 70, N_STEPS = 6, N_VOCAB = 512 };

/* A layer of each; n_ff is less than the models have. attention: on GPUs of compute capability 9.0. */
static const struct mixed_model {
    const char *name;
    struct kg_tiny_model model;
    const char *attention;
} MODELS[] = {
#define WIDTHS(arch, embd, heads, kv_heads, dim, ff, ...)                                                              \
    {                                                                                                                  \
        .architecture = arch, .n_vocab = N_VOCAB, .n_ctx = 2048, .n_embd = embd, .n_layers = 1, .n_heads = heads,      \
        .n_kv_heads = kv_heads, .head_dim = dim, .n_ff = ff, .matrices = KG_DTYPE_F16, __VA_ARGS__                     \
    }
    { "qwen2_0_5b", WIDTHS("qwen2", 896, 14, 2, 64, 512, .qkv_bias = true, .seed = 21), "few_keys" },
    { "phi3_mini", WIDTHS("phi3", 3072, 32, 32, 96, 128, .untied = true, .seed = 22), "few_keys" },
    { "qwen3_4b", WIDTHS("qwen3", 2560, 32, 8, 128, 256, .seed = 23), "few_keys" },
    { "gemma3_1b", WIDTHS("gemma3", 1152, 4, 1, 256, 512, .window = 32, .seed = 24), "cuda_cores" },
    { "gpt_oss_20b",
      WIDTHS("gpt-oss", 2880, 64, 8, 64, 64, .untied = true, .window = 32, .n_experts = 4, .n_experts_used = 4,
             .seed = 25),
      "few_keys" },
};

/* A key or value that lies between two float16 numbers may become the other one: 2^-11 of one element in some
 * thousands, beside float32 sums in another order. A float32 cache is 1e-7 to 1e-8 away. */
static const struct kg_tolerance TOLERANCE = {
    .nmse = 3e-9,
    .why = "float32 sums in another order; few elements of the cache round to float16's other neighbour",
    .far = "there may be none"
};

/* malloc'ed. */
static float *rounded(const void *x, size_t n) {
    float *y = kg_xcalloc(n, sizeof *y);
    for (size_t i = 0; i < n; i++) y[i] = kg_f16_to_f32(kg_f32_to_f16(((const float *)x)[i]));
    return y;
}

static enum kg_status kv_write_rounded(struct kg_backend *backend, const struct kg_kv_write_args *args,
                                       struct kg_error *err) {
    const size_t n = (size_t)args->n_rows * args->n_kv_heads * args->head_dim;
    float *k = rounded(args->k, n), *v = rounded(args->v, n);
    struct kg_kv_write_args of = *args;
    of.k = k, of.v = v;
    const enum kg_status status = kg_cpu_ops.kv_write(backend, &of, err);
    free(k);
    free(v);
    return status;
}

/* Logits of the rows by prefill and steps, (N_IDS, N_VOCAB); ops: in place of the back end's table, or NULL; attention:
 * the kernel of the steps' positions. */
static void evaluate(const char *path, const char *backend, const struct kg_backend_ops *ops, enum kg_precision kv,
                     float *logits, const char **attention) {
    const struct kg_session_options options = { 1024, KG_PRECISION_F32, kv };
    struct kg_step_engine engine;
    struct kg_session *session;
    struct kg_error err;
    int32_t ids[N_IDS];
    for (size_t i = 0; i < N_IDS; i++) ids[i] = (int32_t)((31 * i * i + 17 * i + 5) % N_VOCAB);
    kg_step_engine_open(&engine, path, backend, ops);
    kg_must(kg_session_create(engine.model, &options, &session, &err), &err);
    *attention = NULL;
    for (uint32_t i = 0; session->lowered && i < session->lowered->n_steps; i++) {
        const struct kg_lowered_step *step = &session->lowered->steps[i];
        if (step->attention) *attention = N_IDS <= step->few_keys ? step->attention_of_few : step->attention;
    }
    kg_step_prefill(session, ids, N_IDS - N_STEPS, N_VOCAB, logits);
    kg_step_decode(session, ids + N_IDS - N_STEPS, N_STEPS, N_VOCAB, logits + (N_IDS - N_STEPS) * N_VOCAB);
    kg_session_free(session);
    kg_step_engine_close(&engine);
}

static bool is_known_gpu(void) {
    struct kg_gpu_info gpu;
    struct kg_error err;
    size_t n = 0;
    kg_must(kg_gpu_list(&gpu, 1, &n, &err), &err);
    return n == 1 && gpu.compute_capability == 90;
}

static void is_as_the_reference(struct kg_record *rec, const void *arg) {
    const struct mixed_model *m = arg;
    struct kg_backend_ops ops = kg_cpu_ops;
    const char *attention, *none;
    struct kg_compare c;
    size_t row;
    if (!kg_backend_or_skip(rec, "cuda")) return;
    ops.kv_write = kv_write_rounded;
    char *path = kg_path_join(kg_scratch_dir(rec), "mixed.gguf");
    const size_t n = (size_t)N_IDS * N_VOCAB, steps = (size_t)(N_IDS - N_STEPS) * N_VOCAB;
    float *got = kg_xcalloc(n, sizeof *got), *want = kg_xcalloc(n, sizeof *want), *wide = kg_xcalloc(n, sizeof *wide);
    kg_tiny_model_write(path, &m->model, NULL, 0);
    evaluate(path, "cpu", &ops, KG_PRECISION_F32, want, &none);
    evaluate(path, "cpu", NULL, KG_PRECISION_F32, wide, &none);
    evaluate(path, "cuda", NULL, KG_PRECISION_F16, got, &attention);
    kg_expect_close_f32(rec, "prefill", got, want, steps, &TOLERANCE);
    kg_expect_close_f32(rec, "steps", got + steps, want + steps, n - steps, &TOLERANCE);
    const double other = kg_step_margin(wide + steps, want + steps, N_STEPS, N_VOCAB, &TOLERANCE, &c, &row);
    kg_record_metric(rec, "float32_cache_margin", "ratio", other);
    ck_assert_msg(other > 1, "the tolerance does not tell a float32 cache, at %.4g of it", other);
    ck_assert_msg(!is_known_gpu() || (attention && strcmp(attention, m->attention) == 0), "attention takes %s, not %s",
                  attention ? attention : "no separate kernel", m->attention);
    free(wide);
    free(want);
    free(got);
    free(path);
}

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(MODELS); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                   .op = "mixed_cache",
                                                   .name = MODELS[i].name,
                                                   .backend = "cuda",
                                                   .dtype = "f32_kv_f16",
                                                   .shape = "prefill=64 steps=6",
                                                   .spec = "FT-053",
                                                   .timeout_s = 120,
                                                   .run = is_as_the_reference,
                                                   .arg = &MODELS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
