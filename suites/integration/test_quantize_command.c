/* kigo quantize as a program: what it prints, that kigo runs what it writes, what it refuses, and that nothing half is
 * left. */
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static void expect(const struct kg_process_result *r, int exit_code, const char *says) {
    ck_assert_msg(r->exit_code == exit_code, "exit code %d, %d is meant: %s", r->exit_code, exit_code, r->err);
    const char *text = exit_code ? r->err : r->out;
    ck_assert_msg(strstr(text, says) != NULL, "'%s' does not say '%s'", text, says);
}

static void make_model(const char *like, const char *path) {
    const char *const argv[] = { kg_program_path(), "synth", "--like", like, "--type", "f16", "-o", path, NULL };
    struct kg_process_result r = run(argv);
    expect(&r, 0, path);
    kg_process_result_free(&r);
}

static void prints_types_and_errors(struct kg_record *rec, const void *arg) {
    static const char *const SAYS[] = { "tensor ",
                                        "relative RMS error",
                                        "instead of",
                                        "\nblk.1.ffn_up.weight       F16  Q5_0 ",
                                        "  Q4_K\n",
                                        "\ntoken_embd.weight         F16  Q8_0 ",
                                        "Q4_K_M (qwen2), 2 layers, 26 tensors" };
    char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    const char *const argv[] = { kg_program_path(), "quantize", in, "-o", out, "--type", "q4_k_m", NULL };
    (void)arg;
    make_model("tiny-qwen2.5", in);
    struct kg_process_result r = run(argv);
    for (size_t i = 0; i < KG_COUNT_OF(SAYS); i++) expect(&r, 0, SAYS[i]);
    ck_assert_ptr_null(strstr(r.out, "attn_norm"));
    kg_process_result_free(&r);
    free(out);
    free(in);
}

static void prints_json(struct kg_record *rec, const void *arg) {
    char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    const char *const argv[] = { kg_program_path(), "quantize", in, "-o", out, "--type", "Q5_K_M", "--json", NULL };
    const json_t *tensor;
    size_t i, n_rounded = 0;
    (void)arg;
    make_model("tiny-llama-3.1", in);
    struct kg_process_result r = run(argv);
    expect(&r, 0, "{");
    json_t *json = json_loads(r.out, 0, NULL);
    ck_assert_msg(json != NULL, "%s", r.out);
    ck_assert_str_eq(json_string_value(json_object_get(json, "type")), "Q5_K_M");
    json_array_foreach(json_object_get(json, "tensors"), i, tensor) {
        const double error = json_number_value(json_object_get(tensor, "relative_rms_error"));
        const char *is = json_string_value(json_object_get(tensor, "is"));
        if (json_is_null(json_object_get(tensor, "relative_rms_error"))) {
            ck_assert_str_eq(is, "F32");
            continue;
        }
        ck_assert_msg(strcmp(is, "Q6_K") == 0 ? error < 0.0179 : error < 0.0362, "%s: %g", is, error);
        ck_assert_str_eq(is, json_string_value(json_object_get(tensor, "by_rules")));
        n_rounded++;
    }
    ck_assert_uint_eq(n_rounded, 2 + 2 * 7);
    json_decref(json);
    kg_process_result_free(&r);
    free(out);
    free(in);
}

static double *last_logits(const char *model, size_t *n) {
    const char *const argv[] = { kg_program_path(), "logits", "-m",        model, "--ids", "5,257,72,9",
                                 "--positions",     "last",   "--backend", "cpu", NULL };
    struct kg_process_result r = run(argv);
    expect(&r, 0, "\"logits\":");
    json_t *json = json_loads(r.out, 0, NULL);
    const json_t *list = json_object_get(json, "logits");
    *n = json_array_size(list);
    double *x = calloc(*n + 1, sizeof *x);
    for (size_t i = 0; i < *n; i++) {
        ck_assert(json_is_number(json_array_get(list, i)));
        x[i] = json_number_value(json_array_get(list, i));
    }
    json_decref(json);
    kg_process_result_free(&r);
    return x;
}

struct runs_row {
    const char *name, *like, *type;
    double most; /* NMSE of the logits against the F16 file's: about twice what it is */
};
static const struct runs_row RUNS[] = {
    { "llama_q8_0_runs", "tiny-llama-3.1", "q8_0", 0.001 },
    { "llama_q6_k_runs", "tiny-llama-3.1", "q6_k", 0.006 },
    { "llama_q5_k_m_runs", "tiny-llama-3.1", "q5_k_m", 0.03 },
    { "llama_q4_k_m_runs", "tiny-llama-3.1", "q4_k_m", 0.09 },
    { "llama_q4_0_runs", "tiny-llama-3.1", "q4_0", 0.2 },
    { "qwen3_q4_k_m_runs", "tiny-qwen3", "q4_k_m", 0.09 },
    { "phi3_q5_0_runs", "tiny-phi-3", "q5_0", 0.07 },
    { "gpt2_bf16_runs", "tiny-gpt2", "bf16", 0.0001 },
};

/* The file is loaded, and its logits are near those of the weights that were rounded. */
static void runs(struct kg_record *rec, const void *arg) {
    const struct runs_row *row = arg;
    char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    const char *const argv[] = { kg_program_path(), "quantize", in, "-o", out, "--type", row->type, NULL };
    size_t n, n_rounded;
    double errors = 0, squares = 0;
    make_model(row->like, in);
    struct kg_process_result r = run(argv);
    expect(&r, 0, out);
    kg_process_result_free(&r);
    double *x = last_logits(in, &n), *y = last_logits(out, &n_rounded);
    ck_assert_uint_eq(n, n_rounded);
    for (size_t i = 0; i < n; i++) {
        errors += pow(x[i] - y[i], 2);
        squares += pow(x[i], 2);
    }
    kg_record_metric(rec, "logits", "NMSE", errors / squares);
    ck_assert_msg(errors > 0 && errors / squares < row->most, "NMSE %g", errors / squares);
    free(y);
    free(x);
    free(out);
    free(in);
}

static void existing_file_needs_force(struct kg_record *rec, const void *arg) {
    char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf"), *text;
    const char *argv[] = { kg_program_path(), "quantize", in, "-o", out, "--type", "q4_0", NULL, NULL };
    size_t len;
    struct kg_error err;
    (void)arg;
    make_model("tiny-qwen2.5", in);
    kg_must(kg_file_write(out, "mine", 4, &err), &err);
    struct kg_process_result r = run(argv);
    expect(&r, 2, "is there already; --force replaces it");
    kg_must(kg_file_read(out, &text, &len, &err), &err);
    ck_assert_str_eq(text, "mine");
    free(text);
    kg_process_result_free(&r);
    argv[7] = "--force";
    r = run(argv);
    expect(&r, 0, "Q4_0 (qwen2)");
    kg_process_result_free(&r);
    free(out);
    free(in);
}

/* Blocks are rounded again if one asks for it. */
static void requantizing_is_asked_for(struct kg_record *rec, const void *arg) {
    char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf"), *again = scratch(rec, "again.gguf");
    const char *const first[] = { kg_program_path(), "quantize", in, "-o", out, "--type", "q8_0", NULL };
    const char *argv[] = { kg_program_path(), "quantize", out, "-o", again, "--type", "q4_0", NULL, NULL };
    (void)arg;
    make_model("tiny-qwen2.5", in);
    struct kg_process_result r = run(first);
    expect(&r, 0, out);
    kg_process_result_free(&r);
    r = run(argv);
    expect(&r, 2, "--allow-requantize");
    ck_assert(!kg_path_exists(again));
    kg_process_result_free(&r);
    argv[7] = "--allow-requantize";
    r = run(argv);
    expect(&r, 0, "\nblk.0.attn_q.weight       Q8_0  Q4_0 ");
    kg_process_result_free(&r);
    free(again);
    free(out);
    free(in);
}

/* A limit on the file's size stands for a disk that fills. */
static void full_disk_leaves_nothing(struct kg_record *rec, const void *arg) {
    char *in = scratch(rec, "in.gguf"), *out = scratch(rec, "out.gguf");
    struct kg_dir_list left;
    struct kg_error err;
    const char *const argv[] = {
        "/bin/sh", "-c", "ulimit -f 64; exec \"$0\" quantize \"$1\" -o \"$2\" --type q8_0", kg_program_path(), in,
        out,       NULL
    };
    (void)arg;
    make_model("tiny-qwen2.5", in);
    struct kg_process_result r = run(argv);
    expect(&r, 5, "out.gguf");
    kg_process_result_free(&r);
    kg_must(kg_dir_list(kg_scratch_dir(rec), &left, &err), &err);
    ck_assert_uint_eq(left.n_names, 1);
    kg_dir_list_free(&left);
    free(out);
    free(in);
}

struct refused_row {
    const char *name;
    const char *args[8];
    const char *says;
};
static const struct refused_row REFUSED[] = {
    { "no_output", { "quantize", "/nowhere/in", "--type", "q4_0" }, "-o FILE" },
    { "no_type", { "quantize", "/nowhere/in", "-o", "/nowhere/x" }, "--type is missing" },
    { "no_input", { "quantize", "-o", "/nowhere/x", "--type", "q4_0" }, "usage" },
    { "unknown_type", { "quantize", "/nowhere/in", "-o", "/nowhere/x", "--type", "iq2_xs" }, "'iq2_xs'" },
    { "a_folder", { "quantize", "/nowhere/in", "-o", "/tmp", "--type", "q4_0", "--force" }, "/tmp is a folder" },
    { "file_is_not_there", { "quantize", "/nowhere/in", "-o", "/nowhere/x", "--type", "q4_0" }, "/nowhere/in" },
};

static void is_refused(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct refused_row *row = arg;
    const char *argv[KG_COUNT_OF(row->args) + 2] = { kg_program_path() };
    memcpy(argv + 1, row->args, sizeof row->args);
    struct kg_process_result r = run(argv);
    expect(&r, 2, row->says);
    ck_assert_str_eq(r.out, "");
    kg_process_result_free(&r);
}

static void build(struct kg_case_list *cases) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } CASES[] = {
        { "prints_types_and_errors", prints_types_and_errors },
        { "prints_json", prints_json },
        { "existing_file_needs_force", existing_file_needs_force },
        { "requantizing_is_asked_for", requantizing_is_asked_for },
        { "full_disk_leaves_nothing", full_disk_leaves_nothing },
    };
    struct kg_case c = { .layer = "integration", .op = "quantize_command" };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        c.name = CASES[i].name, c.run = CASES[i].run;
        kg_case_list_add(cases, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(RUNS); i++) {
        c.name = RUNS[i].name, c.run = runs, c.arg = &RUNS[i];
        kg_case_list_add(cases, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++) {
        c.name = REFUSED[i].name, c.run = is_refused, c.arg = &REFUSED[i];
        kg_case_list_add(cases, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
