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
#include "suites/integration/op_command_rows.h"
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

static void write_input(const char *path, const struct kg_op_row_tensor *rows, size_t n_max) {
    static const uint64_t BYTES[] = { [KG_SAFETENSORS_F64] = 8, [KG_SAFETENSORS_F32] = 4, [KG_SAFETENSORS_F16] = 2,
                                      [KG_SAFETENSORS_I32] = 4, [KG_SAFETENSORS_U8] = 1,  [KG_SAFETENSORS_I8] = 1 };
    struct kg_safetensors_output outputs[KG_OP_ROW_TENSORS];
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

static void runs_as_said(struct kg_record *rec, const void *arg) {
    const struct kg_op_row *row = arg;
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
    c.run = runs_as_said;
    for (size_t i = 0; i < KG_N_OP_ROWS + KG_N_FUSED_OP_ROWS; i++) {
        const struct kg_op_row *row = i < KG_N_OP_ROWS ? &KG_OP_ROWS[i] : &KG_FUSED_OP_ROWS[i - KG_N_OP_ROWS];
        c.name = row->name;
        c.arg = row;
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
