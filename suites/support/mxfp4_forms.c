#include "suites/support/mxfp4_forms.h"
#include "base/size.h"
#include "suites/support/mxfp4_draws.h"
#include <check.h>
#include <stdio.h>

static const float *bias_of(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f, size_t n) {
    return f->bias ? kg_mxfp4_bias(r, n) : NULL;
}

static void gemm(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in);
    const struct kg_mxfp4_matrix w = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in);
    kg_mxfp4_judge(r, "gemm", kg_mxfp4_linear(r, x, &w, bias_of(r, f, f->n_out), r->activations));
}

/* Two products one after the other, by the same workspace: what the first left there must not be the second's. */
static void gemm_buffer(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in);
    const struct kg_mxfp4_matrix first = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in),
                                 second = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in);
    struct kg_mxfp4_value *one = kg_mxfp4_linear(r, x, &first, bias_of(r, f, f->n_out), r->activations);
    struct kg_mxfp4_value *two = kg_mxfp4_linear(r, x, &second, NULL, r->activations);
    struct kg_mxfp4_value *again = kg_mxfp4_linear(r, x, &first, NULL, r->activations);
    kg_mxfp4_judge(r, "first", one);
    kg_mxfp4_judge(r, "second", two);
    kg_mxfp4_judge(r, "first_again", again);
}

enum { MOST_IDS = 512, POSITION = 5 };

static void ids_of(const struct kg_mxfp4_form *f, int32_t *ids) {
    ck_assert_uint_le(f->rows, MOST_IDS);
    for (uint32_t i = 0; i < f->rows; i++) ids[i] = (int32_t)((uint64_t)i * 7919 % f->n_out);
    ids[0] = (int32_t)f->n_out - 1; /* the last row */
}

static void embedding(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    int32_t ids[MOST_IDS];
    const uint32_t n_positions = f->rows + POSITION;
    const struct kg_mxfp4_matrix w = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in);
    const float *positions = bias_of(r, f, (size_t)n_positions * f->n_in);
    ids_of(f, ids);
    kg_mxfp4_judge(
        r, "rows",
        kg_mxfp4_embedding(r, &w, ids, f->rows, positions, positions ? n_positions : 0, positions ? POSITION : 0));
}

/* Rows looked up before, and the same id many times in one batch. */
static void embedding_cached(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    int32_t ids[MOST_IDS], same[MOST_IDS];
    const struct kg_mxfp4_matrix w = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in);
    ids_of(f, ids);
    for (uint32_t i = 0; i < f->rows; i++) same[i] = ids[i % 2];
    kg_mxfp4_judge(r, "first", kg_mxfp4_embedding(r, &w, ids, f->rows, NULL, 0, 0));
    kg_mxfp4_judge(r, "again", kg_mxfp4_embedding(r, &w, ids, f->rows, NULL, 0, 0));
    kg_mxfp4_judge(r, "same", kg_mxfp4_embedding(r, &w, same, f->rows, NULL, 0, 0));
}

static uint32_t kv_width(const struct kg_mxfp4_form *f) {
    return f->n_in / f->n_heads * f->n_kv_heads;
}

static void qkv_separate(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    static const char *const NAMES[] = { "q", "k", "v" };
    const uint32_t widths[] = { f->n_in, kv_width(f), kv_width(f) };
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in);
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        const struct kg_mxfp4_matrix w = kg_mxfp4_matrix(r, 1, widths[i], f->n_in);
        kg_mxfp4_judge(r, NAMES[i], kg_mxfp4_linear(r, x, &w, bias_of(r, f, widths[i]), r->activations));
    }
}

static void qkv_fused(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    const uint32_t width = f->n_in + 2 * kv_width(f);
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in);
    const struct kg_mxfp4_matrix w = kg_mxfp4_matrix(r, 1, width, f->n_in);
    kg_mxfp4_judge(r, "qkv", kg_mxfp4_linear(r, x, &w, bias_of(r, f, width), r->activations));
}

static void qkv_output(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in), *before = kg_mxfp4_input(r, f->rows, f->n_in);
    const struct kg_mxfp4_matrix w = kg_mxfp4_matrix(r, 1, f->n_in, f->n_in);
    struct kg_mxfp4_value *projected = kg_mxfp4_linear(r, x, &w, bias_of(r, f, f->n_in), r->activations);
    kg_mxfp4_judge(r, "projected", projected);
    kg_mxfp4_judge(r, "residual", kg_mxfp4_add(r, before, projected));
}

/* y = act W_down + bias, and the residual. */
static void ffn_down(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f, const struct kg_mxfp4_value *act) {
    const struct kg_mxfp4_matrix down = kg_mxfp4_matrix(r, 1, f->n_in, f->n_out);
    struct kg_mxfp4_value *y = kg_mxfp4_linear(r, act, &down, bias_of(r, f, f->n_in), r->activations);
    kg_mxfp4_judge(r, "down", y);
    if (f->residual) kg_mxfp4_judge(r, "residual", kg_mxfp4_add(r, kg_mxfp4_input(r, f->rows, f->n_in), y));
}

static void ffn_gelu(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in);
    const struct kg_mxfp4_matrix up = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in);
    struct kg_mxfp4_value *act = kg_mxfp4_gelu(r, kg_mxfp4_linear(r, x, &up, bias_of(r, f, f->n_out), r->activations));
    kg_mxfp4_judge(r, "gelu", act);
    ffn_down(r, f, act);
}

static void ffn_swiglu(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in);
    const struct kg_mxfp4_matrix gate = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in),
                                 up = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in);
    struct kg_mxfp4_value *g = kg_mxfp4_linear(r, x, &gate, bias_of(r, f, f->n_out), r->activations);
    struct kg_mxfp4_value *u = kg_mxfp4_linear(r, x, &up, bias_of(r, f, f->n_out), r->activations);
    struct kg_mxfp4_value *act = kg_mxfp4_swiglu(r, g, u, f->limit);
    kg_mxfp4_judge(r, "swiglu", act);
    ffn_down(r, f, act);
}

/* Which experts have rows is recorded: a form may want some to have none. */
static void record_use(struct kg_mxfp4_run *r, const struct kg_mxfp4_routes *routes) {
    uint32_t n_idle = 0, most = 0;
    for (uint32_t e = 0; e < routes->n_experts; e++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < routes->rows * routes->n_used; i++) n += routes->ids[i] == (int32_t)e;
        n_idle += n == 0;
        most = n > most ? n : most;
    }
    kg_record_metric(r->rec, "experts_without_rows", "count", n_idle);
    kg_record_metric(r->rec, "rows_of_the_busiest", "count", most);
}

static void moe(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    struct kg_mxfp4_value *x;
    const struct kg_mxfp4_routes routes =
        kg_mxfp4_route(r, f->rows, f->n_in, f->n_experts, f->n_used, f->one_expert, &x);
    record_use(r, &routes);
    const struct kg_mxfp4_matrix gate = kg_mxfp4_matrix(r, f->n_experts, f->n_out, f->n_in),
                                 up = kg_mxfp4_matrix(r, f->n_experts, f->n_out, f->n_in),
                                 down = kg_mxfp4_matrix(r, f->n_experts, f->n_in, f->n_out);
    const size_t n_wide = (size_t)f->n_experts * f->n_out, n_narrow = (size_t)f->n_experts * f->n_in;
    struct kg_mxfp4_value *g = kg_mxfp4_experts(r, x, &gate, bias_of(r, f, n_wide), &routes);
    struct kg_mxfp4_value *u = kg_mxfp4_experts(r, x, &up, bias_of(r, f, n_wide), &routes);
    struct kg_mxfp4_value *y =
        kg_mxfp4_experts(r, kg_mxfp4_swiglu(r, g, u, f->limit), &down, bias_of(r, f, n_narrow), &routes);
    kg_mxfp4_judge(r, "experts", y);
    kg_mxfp4_judge(r, "combined", kg_mxfp4_combine(r, y, &routes, f->residual ? x : NULL));
}

static struct kg_mxfp4_value *logits_of(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    struct kg_mxfp4_value *x = kg_mxfp4_input(r, f->rows, f->n_in);
    const struct kg_mxfp4_matrix w = kg_mxfp4_matrix(r, 1, f->n_out, f->n_in);
    struct kg_mxfp4_value *logits = kg_mxfp4_linear(r, x, &w, bias_of(r, f, f->n_out), KG_PRECISION_F32);
    kg_mxfp4_judge(r, "logits", logits);
    return logits;
}

static void lm_head(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    (void)logits_of(r, f);
}

static void lm_head_probabilities(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {
    kg_mxfp4_judge(r, "probabilities", kg_mxfp4_softmax(r, logits_of(r, f)));
}

/* DRAWS(name, way): logits, and the ids drawn from them in that way. */
#define DRAWS(name, way)                                                                                               \
    static void lm_head_##name(struct kg_mxfp4_run *r, const struct kg_mxfp4_form *f) {                                \
        kg_mxfp4_expect_draws(r, logits_of(r, f), way);                                                                \
    }
DRAWS(greedy, KG_MXFP4_GREEDY)
DRAWS(temperature, KG_MXFP4_TEMPERATURE)
DRAWS(top_k, KG_MXFP4_TOP_K)
DRAWS(top_p, KG_MXFP4_TOP_P)

/* Rows on either side of 16 (matrix-vector products) and of a tile, and many. */
#define ROWS(op_, name_, run_, ...)                                                                                    \
    { op_, name_, run_, .rows = 1, __VA_ARGS__ }, { op_, name_, run_, .rows = 2, __VA_ARGS__ },                        \
        { op_, name_, run_, .rows = 7, __VA_ARGS__ }, { op_, name_, run_, .rows = 16, __VA_ARGS__ },                   \
        { op_, name_, run_, .rows = 17, __VA_ARGS__ }, { op_, name_, run_, .rows = 64, __VA_ARGS__ },                  \
        { op_, name_, run_, .rows = 65, __VA_ARGS__ }, {                                                               \
        op_, name_, run_, .rows = 512, __VA_ARGS__                                                                     \
    }
#define FEW_ROWS(op_, name_, run_, ...)                                                                                \
    { op_, name_, run_, .rows = 1, __VA_ARGS__ }, { op_, name_, run_, .rows = 17, __VA_ARGS__ }, {                     \
        op_, name_, run_, .rows = 65, __VA_ARGS__                                                                      \
    }
#define DECODE_AND_PREFILL(run_, ...)                                                                                  \
    { "mxfp4_moe", "decode", run_, .rows = 1, __VA_ARGS__ }, { "mxfp4_moe", "decode", run_, .rows = 2, __VA_ARGS__ },  \
        { "mxfp4_moe", "prefill", run_, .rows = 17, __VA_ARGS__ }, {                                                   \
        "mxfp4_moe", "prefill", run_, .rows = 65, __VA_ARGS__                                                          \
    }

/* Widths: whole tiles and groups (272 x 576), an odd number of outputs, columns that are multiples of 32 and no other.
 */
const struct kg_mxfp4_form KG_MXFP4_FORMS[] = {
    ROWS("mxfp4_gemm", "batch", gemm, .n_out = 272, .n_in = 576),
    ROWS("mxfp4_gemm", "batch", gemm, .n_out = 67, .n_in = 96),
    FEW_ROWS("mxfp4_gemm", "batch", gemm, .n_out = 1, .n_in = 32),
    FEW_ROWS("mxfp4_gemm", "batch", gemm, .n_out = 48, .n_in = 2880),
    ROWS("mxfp4_gemm", "bias", gemm, .n_out = 144, .n_in = 320, .bias = true),
    FEW_ROWS("mxfp4_gemm", "bias", gemm, .n_out = 131, .n_in = 160, .bias = true),
    ROWS("mxfp4_gemm", "persistent_buffer", gemm_buffer, .n_out = 144, .n_in = 320, .bias = true, .as_in_file = true),
    FEW_ROWS("mxfp4_gemm", "persistent_buffer", gemm_buffer, .n_out = 67, .n_in = 96, .as_in_file = true),
    { "mxfp4_embedding", "lookup", embedding, .rows = 1, .n_out = 80, .n_in = 192 },
    { "mxfp4_embedding", "lookup", embedding, .rows = 1, .n_out = 1957, .n_in = 96 },
    { "mxfp4_embedding", "batch", embedding, .rows = 17, .n_out = 1957, .n_in = 192 },
    { "mxfp4_embedding", "batch", embedding, .rows = 512, .n_out = 304, .n_in = 320 },
    { "mxfp4_embedding", "cached", embedding_cached, .rows = 7, .n_out = 304, .n_in = 320 },
    { "mxfp4_embedding", "cached", embedding_cached, .rows = 65, .n_out = 1957, .n_in = 32 },
    { "mxfp4_embedding", "positions", embedding, .rows = 1, .n_out = 1957, .n_in = 192, .bias = true },
    { "mxfp4_embedding", "positions", embedding, .rows = 65, .n_out = 304, .n_in = 320, .bias = true },
    FEW_ROWS("mxfp4_qkv", "separate_mha", qkv_separate, .n_in = 192, .n_heads = 3, .n_kv_heads = 3, .bias = true),
    FEW_ROWS("mxfp4_qkv", "separate_gqa", qkv_separate, .n_in = 448, .n_heads = 14, .n_kv_heads = 2, .bias = true),
    FEW_ROWS("mxfp4_qkv", "fused_mha", qkv_fused, .n_in = 192, .n_heads = 2, .n_kv_heads = 2),
    FEW_ROWS("mxfp4_qkv", "fused_gqa", qkv_fused, .n_in = 512, .n_heads = 8, .n_kv_heads = 1, .bias = true),
    FEW_ROWS("mxfp4_qkv", "output_projection", qkv_output, .n_in = 448, .n_heads = 7, .n_kv_heads = 1, .bias = true),
    FEW_ROWS("mxfp4_ffn", "gelu", ffn_gelu, .n_out = 448, .n_in = 192),
    FEW_ROWS("mxfp4_ffn", "gelu_bias", ffn_gelu, .n_out = 480, .n_in = 160, .bias = true),
    FEW_ROWS("mxfp4_ffn", "swiglu", ffn_swiglu, .n_out = 512, .n_in = 256),
    FEW_ROWS("mxfp4_ffn", "swiglu_residual", ffn_swiglu, .n_out = 352, .n_in = 192, .bias = true, .residual = true),
    { "mxfp4_ffn", "gelu_residual", ffn_gelu, .rows = 7, .n_out = 448, .n_in = 192, .bias = true, .residual = true },
    DECODE_AND_PREFILL(moe, .n_out = 96, .n_in = 128, .n_experts = 4, .n_used = 2, .bias = true, .residual = true,
                       .limit = 7),
    DECODE_AND_PREFILL(moe, .n_out = 160, .n_in = 192, .n_experts = 32, .n_used = 4, .bias = true, .limit = 7),
    { "mxfp4_moe", "prefill", moe, .rows = 512, .n_out = 64, .n_in = 128, .n_experts = 8, .n_used = 2 },
    { "mxfp4_moe", "all_rows_to_one_expert", moe, .rows = 65, .n_out = 96, .n_in = 128, .n_experts = 8, .n_used = 1,
      .bias = true, .one_expert = true, .limit = 7 },
    { "mxfp4_moe", "experts_without_rows", moe, .rows = 7, .n_out = 64, .n_in = 192, .n_experts = 32, .n_used = 2,
      .bias = true, .one_expert = true },
    FEW_ROWS("mxfp4_lm_head", "plain", lm_head, .n_out = 1957, .n_in = 192),
    { "mxfp4_lm_head", "plain", lm_head, .rows = 1, .n_out = 2003, .n_in = 96, .bias = true },
    { "mxfp4_lm_head", "temperature", lm_head_temperature, .rows = 1, .n_out = 1957, .n_in = 192 },
    { "mxfp4_lm_head", "top_k", lm_head_top_k, .rows = 1, .n_out = 1957, .n_in = 192 },
    { "mxfp4_lm_head", "top_p", lm_head_top_p, .rows = 1, .n_out = 1957, .n_in = 192 },
    { "mxfp4_lm_head", "greedy", lm_head_greedy, .rows = 1, .n_out = 2016, .n_in = 192 },
    { "mxfp4_lm_head", "probabilities", lm_head_probabilities, .rows = 7, .n_out = 1957, .n_in = 192 },
    /* Large enough for a GPU to take each of its tiles and to divide columns: what is chosen follows from shapes. */
    { "mxfp4_gemm", "large", gemm, .rows = 17, .n_out = 2528, .n_in = 1792 },
    { "mxfp4_gemm", "large", gemm, .rows = 17, .n_out = 1968, .n_in = 960, .bias = true },
    { "mxfp4_gemm", "large", gemm, .rows = 200, .n_out = 2192, .n_in = 896, .bias = true },
    { "mxfp4_gemm", "large", gemm, .rows = 400, .n_out = 2416, .n_in = 1792, .bias = true },
    { "mxfp4_gemm", "large", gemm, .rows = 800, .n_out = 2992, .n_in = 384, .bias = true },
    { "mxfp4_gemm", "large", gemm, .rows = 1000, .n_out = 2032, .n_in = 128 },
    { "mxfp4_gemm", "large", gemm, .rows = 2040, .n_out = 2032, .n_in = 128, .bias = true },
};
const size_t KG_MXFP4_N_FORMS = KG_COUNT_OF(KG_MXFP4_FORMS);

const struct kg_mxfp4_form *kg_mxfp4_form_find(const char *op, const char *name) {
    for (size_t i = 0; i < KG_MXFP4_N_FORMS; i++)
        if (strcmp(KG_MXFP4_FORMS[i].op, op) == 0 && strcmp(KG_MXFP4_FORMS[i].name, name) == 0)
            return &KG_MXFP4_FORMS[i];
    ck_abort_msg("no form %s of %s", name, op);
    return NULL;
}

void kg_mxfp4_form_shape(const struct kg_mxfp4_form *f, char *shape, size_t size) {
    if (f->n_experts)
        snprintf(shape, size, "M=%u N=%u K=%u experts=%u/%u", f->rows, f->n_out, f->n_in, f->n_used, f->n_experts);
    else if (f->n_heads) snprintf(shape, size, "M=%u K=%u heads=%u/%u", f->rows, f->n_in, f->n_heads, f->n_kv_heads);
    else snprintf(shape, size, "M=%u N=%u K=%u", f->rows, f->n_out, f->n_in);
}

bool kg_mxfp4_form_run(struct kg_record *rec, const struct kg_mxfp4_form *f, const struct kg_mxfp4_mode *mode) {
    struct kg_mxfp4_run r = { .rec = rec,
                              .activations = mode->activations,
                              .seed = 1000 * (uint64_t)(f - KG_MXFP4_FORMS),
                              .as_in_file = f->as_in_file,
                              .read = mode->read,
                              .margin = mode->margin,
                              .is_control = mode->is_control };
    if (!kg_op_device_open(rec, mode->backend, mode->ops, &r.device)) return false;
    const uint32_t widest = f->n_out > f->n_in ? f->n_out : f->n_in, n_rows = f->rows * (f->n_used ? f->n_used : 1);
    kg_op_device_workspace(&r.device, n_rows, f->n_heads ? 3 * widest : widest, 1, 1, 64, 64);
    f->run(&r, f);
    kg_mxfp4_run_close(&r);
    return true;
}
