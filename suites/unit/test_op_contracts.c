/* What every operation of the cpu back end refuses, and that no rows are no work. */
#include "ops/ops.h"
#include "suites/unit/ops_shared.h"
#include <math.h>
#include <string.h>

/* No rows: nothing is written, and nothing is wrong. */
static void zero_rows(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[4] = { 1, 2, 3, 4 }, y[4] = { 5, 6, 7, 8 };
    const int32_t ids[1] = { 0 };
    struct kg_error err;
    const struct kg_weight w = { x, KG_DTYPE_F32, 2, 2 };
    kg_must(kg_cpu_linear(NULL, &(struct kg_linear_args){ .x = x, .weight = w, .y = y }, &err), &err);
    kg_must(kg_cpu_embedding(NULL, &(struct kg_embedding_args){ .weight = w, .ids = ids, .y = y }, &err), &err);
    kg_must(kg_cpu_rmsnorm(NULL, &(struct kg_rmsnorm_args){ .x = x, .weight = x, .y = y, .n_cols = 4 }, &err), &err);
    kg_must(kg_cpu_layernorm(NULL, &(struct kg_layernorm_args){ .x = x, .weight = x, .y = y, .n_cols = 4 }, &err),
            &err);
    kg_must(kg_cpu_gelu(NULL, &(struct kg_gelu_args){ .x = x, .y = y, .n_cols = 4, .form = KG_GELU_TANH }, &err), &err);
    kg_must(kg_cpu_softmax(NULL, &(struct kg_softmax_args){ .x = x, .y = y, .n_cols = 4, .scale = 1 }, &err), &err);
    kg_must(kg_cpu_add(NULL, &(struct kg_add_args){ .a = x, .b = x, .y = y, .n_cols = 4 }, &err), &err);
    kg_must(kg_cpu_swiglu(NULL, &(struct kg_swiglu_args){ .gate = x, .up = x, .y = y, .n_cols = 4, .alpha = 1 }, &err),
            &err);
    kg_must(kg_cpu_rope(NULL,
                        &(struct kg_rope_args){ .x = x,
                                                .y = y,
                                                .n_heads = 1,
                                                .head_dim = 4,
                                                .n_rot = 4,
                                                .pairing = KG_ROPE_HALF,
                                                .freq_base = 1e4f,
                                                .freq_scale = 1,
                                                .magnitude = 1 },
                        &err),
            &err);
    kg_must(kg_cpu_attention(NULL,
                             &(struct kg_attention_args){ .q = x,
                                                          .k_cache = x,
                                                          .v_cache = x,
                                                          .y = y,
                                                          .n_keys = 1,
                                                          .n_heads = 1,
                                                          .n_kv_heads = 1,
                                                          .head_dim = 4,
                                                          .n_ctx = 1,
                                                          .scale = 1,
                                                          .causal = true },
                             &err),
            &err);
    int32_t chosen[2] = { 7, 7 };
    kg_must(kg_cpu_router(
                NULL, &(struct kg_router_args){ .logits = x, .ids = chosen, .weights = y, .n_experts = 4, .n_used = 2 },
                &err),
            &err);
    kg_must(kg_cpu_experts_linear(NULL,
                                  &(struct kg_experts_linear_args){
                                      .x = x, .weight = w, .n_experts = 2, .ids = ids, .y = y, .n_sharing = 1 },
                                  &err),
            &err);
    kg_must(
        kg_cpu_experts_combine(
            NULL, &(struct kg_experts_combine_args){ .x = x, .weights = x, .y = y, .n_used = 2, .n_cols = 2 }, &err),
        &err);
    for (int i = 0; i < 4; i++) ck_assert_float_eq(y[i], (float)(5 + i));
    ck_assert_int_eq(chosen[0], 7);
}

/* What the cpu back end does not compute in is refused by name, by every operation. */
static void other_precisions(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[4] = { 1, 2, 3, 4 }, y[4] = { 0 };
    const int32_t ids[1] = { 0 };
    const struct kg_weight w = { x, KG_DTYPE_F32, 2, 2 };
    const enum kg_precision p = KG_PRECISION_F16;
    struct kg_error err[16] = { 0 };
    const enum kg_status status[] = {
        kg_cpu_linear(NULL, &(struct kg_linear_args){ p, 0, x, w, NULL, y, 1, NULL }, &err[0]),
        kg_cpu_linear(NULL, &(struct kg_linear_args){ 0, p, x, w, NULL, y, 1, NULL }, &err[1]),
        kg_cpu_embedding(NULL,
                         &(struct kg_embedding_args){ .activations = p, .weight = w, .ids = ids, .n_rows = 1, .y = y },
                         &err[2]),
        kg_cpu_rmsnorm(NULL, &(struct kg_rmsnorm_args){ p, x, x, y, 1, 4, 0, false }, &err[3]),
        kg_cpu_add(NULL, &(struct kg_add_args){ p, x, x, y, 1, 4 }, &err[4]),
        kg_cpu_swiglu(NULL, &(struct kg_swiglu_args){ p, x, x, y, 1, 4, 0, 1, 0, 0 }, &err[5]),
        kg_cpu_rope(NULL, &(struct kg_rope_args){ p, x, y, 1, 1, 4, 0, 4, KG_ROPE_HALF, 1e4f, 1, NULL, 1 }, &err[6]),
        kg_cpu_kv_write(NULL, &(struct kg_kv_write_args){ p, 0, x, x, y, y, 1, 1, 4, 1, 0 }, &err[7]),
        kg_cpu_kv_write(NULL, &(struct kg_kv_write_args){ 0, p, x, x, y, y, 1, 1, 4, 1, 0 }, &err[8]),
        kg_cpu_attention(
            NULL, &(struct kg_attention_args){ p, 0, x, x, x, y, 1, 1, 1, 1, 4, 1, 1, true, 0, NULL, NULL }, &err[9]),
        kg_cpu_attention(
            NULL, &(struct kg_attention_args){ 0, p, x, x, x, y, 1, 1, 1, 1, 4, 1, 1, true, 0, NULL, NULL }, &err[10]),
        kg_cpu_layernorm(NULL, &(struct kg_layernorm_args){ p, x, x, x, y, 1, 4, 0 }, &err[11]),
        kg_cpu_gelu(NULL, &(struct kg_gelu_args){ p, x, y, 1, 4, KG_GELU_TANH }, &err[12]),
        kg_cpu_softmax(NULL, &(struct kg_softmax_args){ p, x, y, 1, 4, 1 }, &err[13]),
        kg_cpu_experts_linear(NULL, &(struct kg_experts_linear_args){ p, x, w, 1, NULL, ids, y, 1, 1, NULL, false },
                              &err[14]),
        kg_cpu_experts_combine(NULL, &(struct kg_experts_combine_args){ p, x, x, NULL, y, 1, 1, 4 }, &err[15]),
    };
    for (size_t i = 0; i < KG_COUNT_OF(status); i++) {
        ck_assert_int_eq(status[i], KG_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(err[i].message, "f16") != NULL, "'%s' does not name f16", err[i].message);
    }
    for (int i = 0; i < 4; i++) ck_assert_float_eq(y[i], 0);
}

static void wrong_shapes(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[64] = { 0 }, y[64];
    struct kg_error err;
    const struct kg_attention_args good = { .q = x,
                                            .k_cache = x,
                                            .v_cache = x,
                                            .y = y,
                                            .n_rows = 1,
                                            .n_keys = 2,
                                            .n_heads = 2,
                                            .n_kv_heads = 1,
                                            .head_dim = 4,
                                            .n_ctx = 4,
                                            .scale = 1,
                                            .causal = true };
    struct kg_attention_args attention[6];
    for (int i = 0; i < 6; i++) attention[i] = good;
    attention[0].n_kv_heads = 0;
    attention[1].n_heads = 3, attention[1].n_kv_heads = 2;
    attention[2].n_keys = 5;
    attention[3].n_rows = 3;
    attention[4].head_dim = KG_ATTENTION_MAX_HEAD_DIM + 1;
    attention[5].window = 1, attention[5].causal = false;
    ck_assert_int_eq(kg_attention_check(&good, &err), KG_OK);
    for (int i = 0; i < 6; i++) ck_assert_int_eq(kg_attention_check(&attention[i], &err), KG_ERR_USAGE);

    const struct kg_rope_args rope = { .x = x,
                                       .y = y,
                                       .n_rows = 1,
                                       .n_heads = 1,
                                       .head_dim = 8,
                                       .n_rot = 8,
                                       .pairing = KG_ROPE_HALF,
                                       .freq_base = 1e4f,
                                       .freq_scale = 1,
                                       .magnitude = 1 };
    struct kg_rope_args ropes[] = { rope, rope, rope, rope, rope, rope };
    ropes[0].n_rot = 7;
    ropes[1].n_rot = 10;
    ropes[2].pairing = KG_ROPE_NONE;
    ropes[3].freq_base = 0;
    ropes[4].magnitude = 0;
    ropes[5].magnitude = INFINITY;
    ck_assert_int_eq(kg_rope_check(&rope, &err), KG_OK);
    for (int i = 0; i < 6; i++) ck_assert_int_eq(kg_rope_check(&ropes[i], &err), KG_ERR_USAGE);

    const struct kg_weight blocks = { x, KG_DTYPE_Q8_0, 1, 33 }, empty = { x, KG_DTYPE_F32, 0, 4 };
    ck_assert_int_eq(kg_linear_check(&(struct kg_linear_args){ .x = x, .weight = blocks, .y = y }, &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_linear_check(&(struct kg_linear_args){ .x = x, .weight = empty, .y = y }, &err), KG_ERR_USAGE);
    const struct kg_weight whole = { x, KG_DTYPE_F32, 2, 4 };
    ck_assert_int_eq(kg_linear_check(&(struct kg_linear_args){ .x = x, .weight = whole, .y = x }, &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_linear_check(&(struct kg_linear_args){ .x = x, .weight = whole, .y = y }, &err), KG_OK);
}

static void refused_swiglus_and_writes(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[4] = { 0 }, y[4];
    struct kg_error err;
    const struct kg_swiglu_args swiglu = { .gate = x, .up = x, .y = y, .n_rows = 1, .n_cols = 4, .alpha = 1 };
    struct kg_swiglu_args swiglus[] = { swiglu, swiglu, swiglu, swiglu, swiglu, swiglu, swiglu };
    const char *const swiglu_says[] = { "limit is -1",  "limit is inf", "alpha is 0",    "alpha is inf",
                                        "up_offset is", "cubic is -1",  "beside a limit" };
    swiglus[0].limit = -1, swiglus[1].limit = INFINITY;
    swiglus[2].alpha = 0, swiglus[3].alpha = INFINITY;
    swiglus[4].up_offset = INFINITY;
    swiglus[5].cubic = -1;
    swiglus[6].cubic = swiglus[6].limit = 1;
    ck_assert_int_eq(kg_swiglu_check(&swiglu, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(swiglus); i++) {
        ck_assert_int_eq(kg_swiglu_check(&swiglus[i], &err), KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, swiglu_says[i]), "'%s' does not say '%s'", err.message, swiglu_says[i]);
    }
    const struct kg_kv_write_args put = {
        .k = x, .v = x, .k_cache = y, .v_cache = y, .n_rows = 1, .n_kv_heads = 1, .head_dim = 4, .n_ctx = 1
    };
    struct kg_kv_write_args puts[] = { put, put, put, put };
    const char *const put_says[] = { "is missing", "0 heads of 4", "1 heads of 0", "1" };
    puts[0].v_cache = NULL;
    puts[1].n_kv_heads = 0;
    puts[2].head_dim = 0;
    puts[3].position = 1;
    ck_assert_int_eq(kg_kv_write_check(&put, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(puts); i++) {
        ck_assert_int_ne(kg_kv_write_check(&puts[i], &err), KG_OK);
        ck_assert_msg(strstr(err.message, put_says[i]), "'%s' does not say '%s'", err.message, put_says[i]);
    }
}

/* Of each operation: what it takes, then what it refuses and the message names. */
static void refused_parameters(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    float x[4] = { 0 }, y[4];
    struct kg_error err;
    const struct kg_layernorm_args norm = { .x = x, .weight = x, .y = y, .n_rows = 1, .n_cols = 4 };
    struct kg_layernorm_args norms[] = { norm, norm, norm, norm, norm };
    const char *const norm_says[] = { "weight", "0 columns", "-1", "inf", "nan" };
    norms[0].weight = NULL;
    norms[1].n_cols = 0;
    norms[2].eps = -1, norms[3].eps = INFINITY, norms[4].eps = NAN;
    ck_assert_int_eq(kg_layernorm_check(&norm, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(norms); i++) {
        ck_assert_int_eq(kg_layernorm_check(&norms[i], &err), KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, norm_says[i]), "'%s' does not say '%s'", err.message, norm_says[i]);
    }
    const struct kg_softmax_args softmax = { .x = x, .y = y, .n_rows = 1, .n_cols = 4, .scale = 1 };
    struct kg_softmax_args softmaxes[] = { softmax, softmax, softmax, softmax, softmax };
    const char *const softmax_says[] = { "y is missing", "0 columns", "0", "-2", "inf" };
    softmaxes[0].y = NULL;
    softmaxes[1].n_cols = 0;
    softmaxes[2].scale = 0, softmaxes[3].scale = -2, softmaxes[4].scale = INFINITY;
    ck_assert_int_eq(kg_softmax_check(&softmax, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(softmaxes); i++) {
        ck_assert_int_eq(kg_softmax_check(&softmaxes[i], &err), KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, softmax_says[i]), "'%s' does not say '%s'", err.message, softmax_says[i]);
    }
    const struct kg_gelu_args gelu = { .x = x, .y = y, .n_rows = 1, .n_cols = 4, .form = KG_GELU_ERF };
    struct kg_gelu_args gelus[] = { gelu, gelu, gelu };
    const char *const gelu_says[] = { "x or y", "0 columns", "form 0" };
    gelus[0].x = NULL;
    gelus[1].n_cols = 0;
    gelus[2].form = 0;
    ck_assert_int_eq(kg_gelu_check(&gelu, &err), KG_OK);
    for (size_t i = 0; i < KG_COUNT_OF(gelus); i++) {
        ck_assert_int_eq(kg_gelu_check(&gelus[i], &err), KG_ERR_USAGE);
        ck_assert_msg(strstr(err.message, gelu_says[i]), "'%s' does not say '%s'", err.message, gelu_says[i]);
    }
}

static void build(struct kg_case_list *list) {
    kg_case_list_add(list, &(struct kg_case){
                               .layer = "unit", .op = "ops", .name = "zero_rows", .backend = "cpu", .run = zero_rows });
    kg_case_list_add(
        list,
        &(struct kg_case){
            .layer = "unit", .op = "ops", .name = "other_precisions", .backend = "cpu", .run = other_precisions });
    kg_case_list_add(list,
                     &(struct kg_case){
                         .layer = "unit", .op = "ops", .name = "wrong_shapes", .backend = "cpu", .run = wrong_shapes });
    kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                              .op = "ops",
                                              .name = "refused_swiglus_and_writes",
                                              .backend = "cpu",
                                              .run = refused_swiglus_and_writes });
    kg_case_list_add(
        list,
        &(struct kg_case){
            .layer = "unit", .op = "ops", .name = "refused_parameters", .backend = "cpu", .run = refused_parameters });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
