/* kigo op as a program: every operation on every golden of fixtures/ops, and what it refuses. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "format/safetensors.h"
#include "format/safetensors_write.h"
#include "ops/ops.h"
#include "suites/harness/case.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GOLDENS = 512 };

static char *scratch(const struct kg_record *rec, const char *name) {
    return kg_path_join(kg_scratch_dir(rec), name);
}

static struct kg_process_result run(const char *const *argv) {
    const struct kg_process process = { .argv = argv };
    struct kg_process_result result;
    struct kg_error err;
    kg_must(kg_process_run(&process, &result, &err), &err);
    return result;
}

/* What the program calls the golden's `out`. */
static const char *result_name(const char *op) {
    return strcmp(op, "router") == 0 ? "weights" : "out";
}

/* A case a golden: what the program wrote is the golden's `out`. */
static void golden_comes_out(struct kg_record *rec, const void *arg) {
    const char *golden_path = arg, *file = strrchr(golden_path, '/') + 1;
    char *op = kg_xstrndup(file, strcspn(file, ".")), *out = scratch(rec, "out.safetensors");
    const char *const argv[] = {
        kg_program_path(), "op", op, "--in", golden_path, "-o", out, "--backend", "cpu", NULL
    };
    struct kg_process_result r = run(argv);
    struct kg_safetensors *want_file, *got_file;
    struct kg_error err;
    ck_assert_msg(r.exit_code == 0, "exit code %d: %s", r.exit_code, r.err);
    kg_must(kg_safetensors_open(golden_path, &want_file, &err), &err);
    kg_must(kg_safetensors_open(out, &got_file, &err), &err);
    const struct kg_safetensors_tensor *want = kg_safetensors_find(want_file, "out");
    const struct kg_safetensors_tensor *got = kg_safetensors_find(got_file, result_name(op));
    ck_assert_ptr_nonnull(want);
    ck_assert_ptr_nonnull(got);
    ck_assert_uint_eq(got->dtype, KG_SAFETENSORS_F32);
    ck_assert_uint_eq(got->n_dims, want->n_dims);
    for (size_t d = 0; d < want->n_dims; d++) ck_assert_uint_eq(got->dims[d], want->dims[d]);
    float *got_values = kg_xcalloc(got->n_elems, sizeof *got_values);
    double *want_values = kg_xcalloc(got->n_elems, sizeof *want_values), largest = 0;
    kg_must(kg_safetensors_to_f32(got, got_values, &err), &err);
    kg_must(kg_safetensors_to_f64(want, want_values, &err), &err);
    for (size_t i = 0; i < want->n_elems; i++) largest = fmax(largest, fabs(want_values[i]));
    const struct kg_tolerance tol = {
        .mixed_rel = 0x1p-21,
        .mixed_abs = 0x1p-22 * largest,
        .why =
            "the cpu back end sums in double and rounds once; a block format's values are rounded as they are decoded",
    };
    kg_expect_close_f64(rec, op, got_values, want_values, want->n_elems, &tol);
    free(want_values);
    free(got_values);
    kg_safetensors_close(got_file);
    kg_safetensors_close(want_file);
    kg_process_result_free(&r);
    free(out);
    free(op);
}

/* A small input made of rows; n_dims 0 ends. Values are 1, 2, 3, ... */
struct tensor_row {
    const char *name;
    enum kg_safetensors_dtype dtype;
    size_t n_dims;
    uint64_t dims[4];
    bool begins_nan; /* the first value is NaN */
};

static void write_input(const char *path, const struct tensor_row *rows, size_t n_max) {
    static const uint64_t BYTES[] = { [KG_SAFETENSORS_F64] = 8, [KG_SAFETENSORS_F32] = 4, [KG_SAFETENSORS_F16] = 2,
                                      [KG_SAFETENSORS_I32] = 4, [KG_SAFETENSORS_U8] = 1,  [KG_SAFETENSORS_I8] = 1 };
    struct kg_safetensors_output outputs[8];
    struct kg_error err;
    size_t n = 0;
    for (; n < n_max && rows[n].name; n++) {
        uint64_t n_elems = 1;
        outputs[n] = (struct kg_safetensors_output){ .name = rows[n].name, .dtype = rows[n].dtype };
        outputs[n].n_dims = rows[n].n_dims;
        memcpy(outputs[n].dims, rows[n].dims, sizeof rows[n].dims);
        for (size_t d = 0; d < rows[n].n_dims; d++) n_elems *= rows[n].dims[d];
        char *data = kg_xcalloc(n_elems + 1, BYTES[rows[n].dtype]);
        for (size_t i = 0; i < n_elems; i++) {
            const float f = rows[n].begins_nan && i == 0 ? NAN : (float)i + 1;
            const double wide = f;
            const uint16_t half = kg_f32_to_f16(f);
            const int32_t whole = (int32_t)i + 1;
            const void *from = rows[n].dtype == KG_SAFETENSORS_F64   ? (const void *)&wide
                               : rows[n].dtype == KG_SAFETENSORS_F16 ? (const void *)&half
                               : rows[n].dtype == KG_SAFETENSORS_F32 ? (const void *)&f
                                                                     : (const void *)&whole;
            memcpy(data + i * BYTES[rows[n].dtype], from, BYTES[rows[n].dtype]);
        }
        outputs[n].data = data;
    }
    kg_must(kg_safetensors_write(path, outputs, n, &err), &err);
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)outputs[i].data);
}

#define F32(name_, ...) OF(F32, name_, __VA_ARGS__)
#define OF(dtype_, name_, ...)                                                                                         \
    {                                                                                                                  \
        .name = name_, .dtype = KG_SAFETENSORS_##dtype_,                                                               \
        .n_dims = sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), .dims = {                                    \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

struct op_row {
    const char *name;
    struct tensor_row tensors[6];
    const char *args[8]; /* behind "op" and before --in */
    int exit_code;
    const char *says; /* on standard error, or the JSON on standard output if exit_code is 0 */
    const char *also;
    float want[8]; /* first values of the first output, if exit_code is 0; NAN ends */
};

static const struct op_row ROWS[] = {
    { "adds_f16",
      { OF(F16, "a", 2, 2), OF(F16, "b", 2, 2) },
      { "add" },
      0,
      "\"n_nonfinite\":0",
      "[2,2]",
      { 2, 4, 6, 8, NAN } },
    { "adds_f64", { OF(F64, "a", 1, 3), F32("b", 1, 3) }, { "add" }, 0, "\"cpu\"", "[1,3]", { 2, 4, 6, NAN } },
    { "kv_write_leaves_the_rest_zero",
      { F32("k", 1, 1, 2), F32("v", 1, 1, 2) },
      { "kv_write", "--param", "first_position=1", "--param", "n_ctx=3" },
      0,
      "\"k_cache\"",
      "[1,3,2]",
      { 0, 0, 1, 2, 0, 0, NAN } },
    { "kv_write_as_long_as_what_is_written",
      { F32("k", 2, 1, 2), F32("v", 2, 1, 2) },
      { "kv_write", "--param", "first_position=1" },
      0,
      "\"k_cache\"",
      "[1,3,2]",
      { 0, 0, 1, 2, 3, 4, NAN } },
    { "kv_write_keeps_what_was_given",
      { F32("k", 1, 1, 2), F32("v", 1, 1, 2), F32("k_cache", 1, 3, 2), F32("v_cache", 1, 3, 2) },
      { "kv_write", "--param", "first_position=2" },
      0,
      "\"v_cache\"",
      "[1,3,2]",
      { 1, 2, 3, 4, 1, 2, NAN } },
    { "kv_write_second_head",
      { F32("k", 1, 2, 2), F32("v", 1, 2, 2) },
      { "kv_write", "--param", "n_ctx=2" },
      0,
      "\"k_cache\"",
      "[2,2,2]",
      { 1, 2, 0, 0, 3, 4, 0, NAN } },
    { "flat_rows_stay_flat",
      { F32("x", 1, 4) },
      { "rope", "--param", "n_heads=2" },
      0,
      "\"rope\"",
      "[1,4]",
      { 1, 2, 3, 4, NAN } },
    { "kv_write_without_keys",
      { F32("v", 1, 1, 2) },
      { "kv_write", "--param", "n_ctx=2" },
      2,
      "'k'",
      "missing",
      { 0 } },
    { "missing_tensor", { F32("a", 2, 2) }, { "add" }, 2, "'b'", "missing", { 0 } },
    { "wrong_shape", { F32("a", 2, 2), F32("b", 2, 3) }, { "add" }, 2, "'b' is (2, 3)", "n_cols 2", { 0 } },
    { "wrong_rank", { F32("a", 4), F32("b", 4) }, { "add" }, 2, "'a' is (4)", "rows n_cols", { 0 } },
    { "wrong_dtype", { F32("a", 2, 2), OF(I32, "b", 2, 2) }, { "add" }, 2, "'b' is I32", "F16", { 0 } },
    { "weight_of_bytes_without_a_type",
      { F32("x", 1, 32), OF(U8, "weight_bytes", 1, 34) },
      { "linear" },
      2,
      "weight_bytes",
      "weight_dtype",
      { 0 } },
    { "weight_of_half_blocks",
      { F32("x", 1, 32), OF(U8, "weight_bytes", 1, 33) },
      { "linear", "--param", "weight_dtype=q8_0" },
      2,
      "33 bytes",
      "Q8_0",
      { 0 } },
    { "unknown_weight_type",
      { F32("x", 1, 32), OF(U8, "weight_bytes", 1, 34) },
      { "linear", "--param", "weight_dtype=q9" },
      2,
      "weight_dtype",
      "q9",
      { 0 } },
    { "id_past_the_vocabulary",
      { F32("weight", 2, 2), OF(I32, "ids", 2) },
      { "embedding" },
      2,
      "ids[1] is 2",
      "2 rows",
      { 0 } },
    { "unknown_param",
      { F32("x", 1, 2), F32("weight", 2) },
      { "rmsnorm", "--param", "epsilon=1" },
      2,
      "'epsilon'",
      "eps",
      { 0 } },
    { "param_that_is_no_number",
      { F32("x", 1, 2), F32("weight", 2) },
      { "rmsnorm", "--param", "eps=x" },
      2,
      "eps is 'x'",
      "",
      { 0 } },
    { "param_without_value",
      { F32("x", 1, 2), F32("weight", 2) },
      { "rmsnorm", "--param", "eps" },
      2,
      "'eps'",
      "key=value",
      { 0 } },
    { "count_that_is_negative",
      { F32("x", 1, 1, 2) },
      { "rope", "--param", "first_position=-1" },
      2,
      "first_position is '-1'",
      "",
      { 0 } },
    { "n_rot_past_the_head", { F32("x", 1, 1, 2) }, { "rope", "--param", "n_rot=4" }, 2, "rope", "4", { 0 } },
    { "unknown_tensor",
      { F32("a", 1, 2), F32("b", 1, 2), F32("c", 1, 2) },
      { "add" },
      2,
      "'c'",
      "kigo op add --help",
      { 0 } },
    { "parameter_of_two_elements",
      { F32("x", 1, 2), F32("weight", 2), F32("eps", 2) },
      { "rmsnorm" },
      2,
      "'eps'",
      "2 elements",
      { 0 } },
    { "length_that_contradicts",
      { F32("x", 1, 6) },
      { "rope", "--param", "n_heads=4" },
      2,
      "'x' is (1, 6)",
      "n_heads 4",
      { 0 } },
    { "flat_rows_without_a_length", { F32("x", 1, 6) }, { "rope" }, 2, "'x'", "--param n_heads=N", { 0 } },
    { "heads_that_cannot_share",
      { F32("q", 1, 3, 2), F32("k", 1, 2, 2), F32("v", 1, 2, 2) },
      { "attention" },
      2,
      "3 heads",
      "2 KV heads",
      { 0 } },
    { "fewer_keys_than_rows",
      { F32("q", 3, 1, 2), F32("k", 2, 1, 2), F32("v", 2, 1, 2) },
      { "attention" },
      2,
      "3 rows",
      "2 keys",
      { 0 } },
    { "kv_write_past_the_cache",
      { F32("k", 2, 1, 2), F32("v", 2, 1, 2) },
      { "kv_write", "--param", "n_ctx=2", "--param", "first_position=1" },
      2,
      "kv_write",
      "2",
      { 0 } },
    { "f16_on_the_cpu", { F32("a", 1, 2), F32("b", 1, 2) }, { "add", "--dtype", "f16" }, 2, "f16", "add", { 0 } },
    { "f8_of_an_operation_without",
      { F32("a", 1, 2), F32("b", 1, 2) },
      { "add", "--dtype", "f8" },
      2,
      "--dtype",
      "add has no f8",
      { 0 } },
    { "softmax_of_one",
      { F32("x", 3, 1) },
      { "softmax", "--param", "scale=2" },
      0,
      "\"softmax\"",
      "[3,1]",
      { 1, 1, 1, NAN } },
    { "softmax_scaled_by_zero",
      { F32("x", 1, 2) },
      { "softmax", "--param", "scale=0" },
      2,
      "softmax",
      "scale is 0",
      { 0 } },
    { "layernorm_without_bias",
      { F32("x", 2, 1), F32("weight", 1) },
      { "layernorm" },
      0,
      "[2,1]",
      "\"n_nonfinite\":0",
      { 0, 0, NAN } },
    { "layernorm_of_one_is_its_bias",
      { F32("x", 2, 1), F32("weight", 1), F32("bias", 1) },
      { "layernorm" },
      0,
      "[2,1]",
      "\"n_nonfinite\":0",
      { 1, 1, NAN } },
    { "gelu_of_no_form", { F32("x", 1, 2) }, { "gelu", "--param", "erf=2" }, 2, "erf is '2'", "0 or 1", { 0 } },
    { "sdpa_of_one_key_is_its_value",
      { F32("q", 1, 2, 1, 2), F32("k", 1, 1, 1, 2), F32("v", 1, 1, 1, 2) },
      { "sdpa", "--param", "causal=1", "--param", "variant=auto" },
      0,
      "\"sdpa\"",
      "[1,2,1,2]",
      { 1, 2, 1, 2, NAN } },
    { "sdpa_scales_by_the_head", /* scores of 5 and 11 over the root of 2; the values are 1, 2 and 3, 4 */
      { F32("q", 1, 1, 1, 2), F32("k", 1, 1, 2, 2), F32("v", 1, 1, 2, 2) },
      { "sdpa" },
      0,
      "[1,1,1,2]",
      "\"n_nonfinite\":0",
      { 2.971668F, 3.971668F, NAN } },
    { "sdpa_before_all_keys_is_zero",
      { F32("q", 1, 1, 2, 2), F32("k", 1, 1, 1, 2), F32("v", 1, 1, 1, 2) },
      { "sdpa", "--param", "causal=1" },
      0,
      "[1,1,2,2]",
      "\"n_nonfinite\":0",
      { 0, 0, 1, 2, NAN } },
    { "attention_weights_of_two_keys", /* as sdpa_scales_by_the_head */
      { F32("q", 1, 1, 2), F32("k", 2, 1, 2) },
      { "attention_weights" },
      0,
      "\"attention_weights\"",
      "[1,1,2]",
      { 0.0141660366F, 0.985833943F, NAN } },
    { "sdpa_of_e4m3",
      { OF(U8, "q", 1, 1, 1, 2), OF(U8, "k", 1, 1, 1, 2), OF(U8, "v", 1, 1, 1, 2), F32("q_scale", 1, 1),
        F32("k_scale", 1, 1), F32("v_scale", 1, 1) },
      { "sdpa", "--dtype", "f8" },
      0,
      "\"activations\":\"f32\"",
      "\"kv\":\"f8\"",
      { 0x1p-9F, 0x1p-8F, NAN } },
    { "sdpa_of_int8",
      { OF(I8, "q", 1, 1, 1, 2), OF(I8, "k", 1, 1, 1, 2), OF(I8, "v", 1, 1, 1, 2), F32("q_scale", 1, 1),
        F32("k_scale", 1, 1), F32("v_scale", 1, 1) },
      { "sdpa", "--dtype", "i8" },
      0,
      "\"activations\":\"f32\"",
      "\"kv\":\"i8\"",
      { 1, 2, NAN } },
    { "some_of_int8",
      { OF(I8, "q", 1, 1, 1, 2), OF(U8, "k", 1, 1, 1, 2), OF(I8, "v", 1, 1, 1, 2) },
      { "sdpa" },
      2,
      "'k' is U8",
      "I8, as q",
      { 0 } },
    { "sdpa_quantize_to_int8",
      { { .name = "x", .dtype = KG_SAFETENSORS_F32, .n_dims = 4, .dims = { 1, 1, 1, 2 } } },
      { "sdpa_quantize", "--param", "int8=1" },
      0,
      "\"shape\":[1,1,1,2],\"n_nonfinite\":0",
      "{\"name\":\"scale\",\"shape\":[1,1]",
      { NAN } },
    { "sdpa_quantize_gives_bytes_and_scales",
      { F32("x", 1, 2, 3, 4) },
      { "sdpa_quantize" },
      0,
      "\"shape\":[1,2,3,4],\"n_nonfinite\":0",
      "{\"name\":\"scale\",\"shape\":[1,2]",
      { NAN } },
    { "sdpa_quantize_of_a_nan",
      { { .name = "x", .dtype = KG_SAFETENSORS_F32, .n_dims = 4, .dims = { 1, 2, 3, 4 }, .begins_nan = true } },
      { "sdpa_quantize" },
      0,
      "\"shape\":[1,2,3,4],\"n_nonfinite\":1",
      "{\"name\":\"scale\",\"shape\":[1,2]",
      { NAN } },
    { "e4m3_without_its_scales",
      { OF(U8, "q", 1, 1, 1, 2), OF(U8, "k", 1, 1, 1, 2), OF(U8, "v", 1, 1, 1, 2), F32("q_scale", 1, 1) },
      { "sdpa" },
      2,
      "'k_scale' is missing",
      "E4M3",
      { 0 } },
    { "scales_without_e4m3",
      { F32("q", 1, 1, 1, 2), F32("k", 1, 1, 1, 2), F32("v", 1, 1, 1, 2), F32("v_scale", 1, 1) },
      { "sdpa" },
      2,
      "'v_scale'",
      "without E4M3",
      { 0 } },
    { "some_of_e4m3",
      { OF(U8, "q", 1, 1, 1, 2), F32("k", 1, 1, 1, 2), OF(U8, "v", 1, 1, 1, 2) },
      { "sdpa" },
      2,
      "'k' is F32",
      "F8_E4M3, as q",
      { 0 } },
    { "f8_of_numbers",
      { F32("q", 1, 1, 1, 2), F32("k", 1, 1, 1, 2), F32("v", 1, 1, 1, 2) },
      { "sdpa", "--dtype", "f8" },
      2,
      "'q' is F32",
      "--dtype is f8",
      { 0 } },
    { "sdpa_heads_that_cannot_share",
      { F32("q", 1, 3, 1, 2), F32("k", 1, 2, 1, 2), F32("v", 1, 2, 1, 2) },
      { "sdpa" },
      2,
      "3 heads",
      "2 KV heads",
      { 0 } },
    { "unknown_variant",
      { F32("q", 1, 1, 1, 2), F32("k", 1, 1, 1, 2), F32("v", 1, 1, 1, 2) },
      { "sdpa", "--param", "variant=fastest" },
      2,
      "variant",
      "'fastest'",
      { 0 } },
    { "variant_of_another_back_end",
      { F32("q", 1, 1, 1, 2), F32("k", 1, 1, 1, 2), F32("v", 1, 1, 1, 2) },
      { "sdpa", "--param", "variant=scalar" },
      2,
      "'scalar'",
      "cpu",
      { 0 } },
    { "window_of_a_full_sdpa",
      { F32("q", 1, 1, 1, 2), F32("k", 1, 1, 1, 2), F32("v", 1, 1, 1, 2) },
      { "sdpa", "--param", "window=3" },
      2,
      "window of 3",
      "causal",
      { 0 } },
    { "router_chooses_the_largest",
      { F32("logits", 2, 4) },
      { "router", "--param", "n_used=2" },
      0,
      "\"name\":\"ids\"",
      "\"name\":\"weights\"",
      { NAN } },
    { "router_without_a_number", { F32("logits", 2, 4) }, { "router" }, 2, "n_used", "router", { 0 } },
    { "router_of_too_many", { F32("logits", 2, 4) }, { "router", "--param", "n_used=5" }, 2, "5", "4 experts", { 0 } },
    /* 1 2 . (5 6) + 3 and (7 8) + 4 of the second expert: ids are 1, as numbers count from 1 */
    { "experts_linear_of_one_row",
      { F32("x", 1, 2), F32("weight", 2, 2, 2), F32("bias", 2, 2), OF(I32, "ids", 1) },
      { "experts_linear" },
      0,
      "out",
      "",
      { 1 * 5 + 2 * 6 + 3, 1 * 7 + 2 * 8 + 4, NAN } },
    { "experts_id_past_the_last",
      { F32("x", 2, 2), F32("weight", 2, 3, 2), OF(I32, "ids", 2) },
      { "experts_linear" },
      2,
      "ids[1] is 2",
      "2 matrices",
      { 0 } },
    { "experts_ids_no_multiple",
      { F32("x", 2, 2), F32("weight", 4, 3, 2), OF(I32, "ids", 3) },
      { "experts_linear" },
      2,
      "3 ids",
      "2 rows",
      { 0 } },
    { "experts_combine_with_residual",
      { F32("x", 1, 2, 2), F32("weights", 1, 2), F32("residual", 1, 2) },
      { "experts_combine" },
      0,
      "out",
      "",
      { 1 * 1 + 2 * 3 + 1, 1 * 2 + 2 * 4 + 2, NAN } },
    { "swiglu_clamped",
      { F32("gate", 1, 2), F32("up", 1, 2) },
      { "swiglu", "--param", "limit=1e-30", "--param", "up_offset=1" },
      0,
      "out",
      "",
      { 5e-31f, 5e-31f, NAN } },
    { "swiglu_without_alpha",
      { F32("gate", 1, 2), F32("up", 1, 2) },
      { "swiglu", "--param", "alpha=0" },
      2,
      "alpha is 0",
      "swiglu",
      { 0 } },
    { "rope_magnitude", { F32("x", 1, 1, 2) }, { "rope", "--param", "magnitude=4" }, 0, "out", "", { 4, 8, NAN } },
    { "embedding_of_positions_beyond",
      { F32("weight", 3, 2), OF(I32, "ids", 2), F32("positions", 4, 2) },
      { "embedding", "--param", "first_position=3" },
      2,
      "2 rows at 3",
      "4 positions",
      { 0 } },
    { "unknown_op", { F32("a", 1, 2) }, { "multiply" }, 2, "'multiply'", "--list", { 0 } },
    { "unknown_backend", { F32("a", 1, 2), F32("b", 1, 2) }, { "add", "--backend", "tpu" }, 2, "tpu", "", { 0 } },
};

static void runs_as_said(struct kg_record *rec, const void *arg) {
    const struct op_row *row = arg;
    char *in = scratch(rec, "in.safetensors"), *out = scratch(rec, "out.safetensors");
    const char *argv[20] = { kg_program_path(), "op" };
    size_t n = 2;
    struct kg_error err;
    write_input(in, row->tensors, KG_COUNT_OF(row->tensors));
    bool backend_given = false;
    for (size_t i = 0; i < KG_COUNT_OF(row->args) && row->args[i]; i++) {
        backend_given = backend_given || strcmp(row->args[i], "--backend") == 0;
        argv[n++] = row->args[i];
    }
    const char *const rest[] = { "--json", "--in", in, "-o", out, backend_given ? NULL : "--backend", "cpu" };
    for (size_t i = 0; i < KG_COUNT_OF(rest) && rest[i]; i++) argv[n++] = rest[i];
    struct kg_process_result r = run(argv);
    const char *said = row->exit_code == 0 ? r.out : r.err;
    ck_assert_msg(r.exit_code == row->exit_code, "exit code %d: %s", r.exit_code, r.err);
    ck_assert_msg(strstr(said, row->says) && strstr(said, row->also), "'%s' does not say '%s' and '%s'", said,
                  row->says, row->also);
    ck_assert_int_eq(kg_path_exists(out), row->exit_code == 0);
    if (row->exit_code == 0) {
        struct kg_safetensors *st;
        kg_must(kg_safetensors_open(out, &st, &err), &err);
        const struct kg_safetensors_tensor *t = kg_safetensors_tensor_at(st, 0);
        for (size_t i = 0; i < KG_COUNT_OF(row->want) && !isnan(row->want[i]); i++) {
            float got;
            ck_assert_uint_lt(i, t->n_elems);
            memcpy(&got, (const char *)t->data + i * sizeof got, sizeof got);
            ck_assert_msg(got == row->want[i], "%s[%zu] is %g, %g is meant", t->name, i, (double)got,
                          (double)row->want[i]);
        }
        kg_safetensors_close(st);
    }
    kg_process_result_free(&r);
    free(out);
    free(in);
}

static void every_op_is_listed(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
#define NAME(op) #op,
    static const char *const NAMES[] = { KG_OP_LIST(NAME) };
#undef NAME
    const char *const argv[] = { kg_program_path(), "op", "--list", "--json", NULL };
    struct kg_process_result listed = run(argv);
    ck_assert_int_eq(listed.exit_code, 0);
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        char *text = kg_xasprintf("\"op\":\"%s\"", NAMES[i]);
        ck_assert_msg(strstr(listed.out, text) != NULL, "%s is not listed", NAMES[i]);
        const char *const help[] = { kg_program_path(), "op", NAMES[i], "--help", NULL };
        struct kg_process_result helped = run(help);
        ck_assert_int_eq(helped.exit_code, 0);
        ck_assert_msg(strstr(helped.out, "tensors (") && strstr(helped.out, NAMES[i]), "%s", helped.out);
        kg_process_result_free(&helped);
        free(text);
    }
    kg_process_result_free(&listed);
}

static char *goldens[MAX_GOLDENS];
static size_t n_goldens;

static void build(struct kg_case_list *cases) {
    struct kg_dir_list list;
    struct kg_case c = { .layer = "integration", .op = "op_command" };
    c.name = "every_op_is_listed";
    c.run = every_op_is_listed;
    kg_case_list_add(cases, &c);
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++) {
        c.name = ROWS[i].name;
        c.run = runs_as_said;
        c.arg = &ROWS[i];
        kg_case_list_add(cases, &c);
    }
    if (kg_dir_list(kg_unpacked_fixture_path("ops"), &list, NULL) != KG_OK) return; /* tolerance/ops says so */
    for (size_t i = 0; i < list.n_names && n_goldens < MAX_GOLDENS; i++) {
        const char *suffix = strstr(list.names[i], ".safetensors");
        if (!suffix) continue;
        char *relative = kg_xasprintf("ops/%s", list.names[i]);
        char *name = kg_xstrndup(list.names[i], (size_t)(suffix - list.names[i]));
        goldens[n_goldens] = kg_xstrdup(kg_fixture_path(relative));
        c.op = "op_command_golden";
        for (char *s = name; *s; s++)
            if (*s == '.') *s = '_';
        c.name = name;
        c.definition = relative;
        c.run = golden_comes_out;
        c.arg = goldens[n_goldens++];
        kg_case_list_add(cases, &c);
        free(name);
        free(relative);
    }
    kg_dir_list_free(&list);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
