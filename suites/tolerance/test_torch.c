/* Every operation against PyTorch in float64, by peers/torch_ops.py through `kigo op`: an oracle that shares no code
 * with the CPU reference. Skipped where Python or PyTorch is missing; KIGO_PYTHON names another interpreter than
 * python3. */
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/compare.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/op_device.h"
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_S = 300, COMMAND_NOT_FOUND = 127, LEAST_RECORDS = 39 };

static double number_of(const json_t *line, const char *field) {
    const json_t *value = json_object_get(line, field);
    return json_is_number(value) ? json_number_value(value) : INFINITY;
}

/* A line of the script as a record: errors are in units of the element's bound, so the limit is 1. */
static void record_line(struct kg_record *rec, const json_t *line) {
    char name[256];
    const char *why = json_string_value(json_object_get(line, "why"));
    const struct kg_compare compare = {
        .n = (size_t)json_integer_value(json_object_get(line, "n")),
        .n_nonfinite = (size_t)json_integer_value(json_object_get(line, "n_nonfinite")),
        .max_abs = number_of(line, "margin"),
        .nmse = number_of(line, "nmse"),
        .worst_index = (size_t)json_integer_value(json_object_get(line, "worst_index")),
        .worst_got = number_of(line, "worst_got"),
        .worst_want = number_of(line, "worst_want"),
    };
    const struct kg_tolerance tol = { .max_abs = 1,
                                      .why = why,
                                      .far = "the unit is a bound from theory; copies and roundings are exact" };
    snprintf(name, sizeof name, "%s %s %s", json_string_value(json_object_get(line, "op")),
             json_string_value(json_object_get(line, "case")), json_string_value(json_object_get(line, "tensor")));
    kg_record_judged(rec, name, &compare, &tol);
    if (!kg_within(&compare, &tol, NULL))
        ck_abort_msg("%s: the error is %.3g of its bound (at [%zu]: %.9g, PyTorch has %.9g)", name, compare.max_abs,
                     compare.worst_index, compare.worst_got, compare.worst_want);
}

static size_t record_lines(struct kg_record *rec, char *text) {
    size_t n = 0;
    for (char *line = text, *end; *line; line = end + 1, n++) {
        json_error_t error;
        end = strchr(line, '\n');
        ck_assert_msg(end != NULL, "a line without an end: %s", line);
        *end = '\0';
        json_t *parsed = json_loads(line, 0, &error);
        ck_assert_msg(json_is_object(parsed), "no JSON: %s", line);
        record_line(rec, parsed);
        json_decref(parsed);
    }
    return n;
}

struct torch_row {
    const char *name, *backend, *dtype;
};

static void agrees_with_torch(struct kg_record *rec, const void *arg) {
    const struct torch_row *c = arg;
    char seed[32];
    const char *python = getenv("KIGO_PYTHON");
    if (!kg_backend_or_skip(rec, c->backend)) return;
    snprintf(seed, sizeof seed, "%u", (unsigned)(kg_record_seed(rec) >> 33));
    const char *const argv[] = { "/usr/bin/env",
                                 python && *python ? python : "python3",
                                 kg_fixture_path("../suites/tolerance/peers/torch_ops.py"),
                                 "--kigo",
                                 kg_program_path(),
                                 "--backend",
                                 c->backend,
                                 "--dtype",
                                 c->dtype,
                                 "--seed",
                                 seed,
                                 NULL };
    char tmpdir[1024];
    snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", kg_scratch_dir(rec));
    const char *const env[] = { tmpdir, NULL };
    const struct kg_process process = { .argv = argv, .env = env, .timeout_s = TIMEOUT_S };
    struct kg_process_result r;
    struct kg_error err;
    kg_must(kg_process_run(&process, &r, &err), &err);
    r.err[strcspn(r.err, "\n")] = '\0';
    if (r.exit_code == KG_EXIT_NOTHING_TO_DO || r.exit_code == COMMAND_NOT_FOUND) {
        kg_record_skip(rec, "%s", r.err);
    } else {
        const size_t n = record_lines(rec, r.out);
        ck_assert_msg(r.exit_code == 0 && !r.timed_out, "exit code %d: %s", r.exit_code, r.err);
        ck_assert_uint_ge(n, LEAST_RECORDS);
    }
    kg_process_result_free(&r);
}

/* The back end is in the name: were it the case's own, --require-gpu would ask for PyTorch too. */
static const struct torch_row ROWS[] = {
    { "cpu_in_float64", "cpu", "f32" },
    { "cuda_in_float64", "cuda", "f32" },
    { "cuda_in_float64", "cuda", "f16" },
};

static void build(struct kg_case_list *cases) {
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(cases, &(struct kg_case){ .layer = "tolerance",
                                                   .op = "torch",
                                                   .name = ROWS[i].name,
                                                   .dtype = ROWS[i].dtype,
                                                   .definition = "peers/torch_ops.py",
                                                   .timeout_s = TIMEOUT_S + 10,
                                                   .run = agrees_with_torch,
                                                   .arg = &ROWS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
