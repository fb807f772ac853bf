/* kigo synth as a program: files that load and generate, and what it refuses. */
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *scratch(const struct kg_record *rec, const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", kg_scratch_dir(rec), name);
    return path;
}

static struct kg_process_result run(const char *const *argv) {
    const struct kg_process process = { .argv = argv };
    struct kg_process_result result;
    struct kg_error err;
    kg_must(kg_process_run(&process, &result, &err), &err);
    return result;
}

static void expect_exit(const struct kg_process_result *r, int exit_code) {
    ck_assert_msg(r->exit_code == exit_code, "exit code %d, %d is meant: %s", r->exit_code, exit_code, r->err);
}

static void expect_refusal(const struct kg_process_result *r, int exit_code, const char *says) {
    expect_exit(r, exit_code);
    ck_assert_msg(strstr(r->err, says) != NULL, "'%s' does not say '%s'", r->err, says);
}

struct loads_row {
    const char *name, *like, *architecture, *type;
};

static const struct loads_row LOADS[] = {
    { "qwen2_f16_generates", "tiny-qwen2.5", "qwen2", "f16" },
    { "qwen2_f32_generates", "tiny-qwen2.5", "qwen2", "f32" },
    { "qwen2_mxfp4_generates", "tiny-qwen2.5", "qwen2", "mxfp4" },
    { "qwen2_q4_k_m_generates", "tiny-qwen2.5", "qwen2", "q4_k_m" },
    { "qwen3_q5_k_m_generates", "tiny-qwen3", "qwen3", "q5_k_m" },
    { "llama_q4_k_m_generates", "tiny-llama-3.1", "llama", "q4_k_m" },
    { "llama_q6_k_generates", "tiny-llama-3.1", "llama", "q6_k" },
    { "phi_3_as_llama_generates", "tiny-phi-3", "llama", "f16" },
    { "phi_3_f16_generates", "tiny-phi-3", "phi3", "f16" },
    { "phi_3_mxfp4_generates", "tiny-phi-3", "phi3", "mxfp4" },
    { "gpt_oss_f16_generates", "tiny-gpt-oss", "gpt-oss", "f16" },
    { "gpt_oss_mxfp4_generates", "tiny-gpt-oss", "gpt-oss", "mxfp4" },
    { "gpt_oss_mxfp4_moe_generates", "tiny-gpt-oss", "gpt-oss", "mxfp4_moe" },
    { "gpt_oss_q4_k_m_generates", "tiny-gpt-oss", "gpt-oss", "q4_k_m" },
    { "gpt2_bf16_generates", "tiny-gpt2", "gpt2", "bf16" },
    { "gpt2_f32_generates", "tiny-gpt2", "gpt2", "f32" },
    { "gpt2_mxfp4_generates", "tiny-gpt2", "gpt2", "mxfp4" },
};

/* Twelve ids, the same for a seed, the prompt's four letters a token each. */
static void generates(struct kg_record *rec, const void *arg) {
    const struct loads_row *row = arg;
    const char *path = scratch(rec, "m.gguf");
    const char *const make[] = { kg_program_path(), "synth",   "--like", row->like, "--arch", row->architecture,
                                 "--type",          row->type, "--json", "-o",      path,     NULL };
    const char *const use[] = {
        kg_program_path(), "generate", "-m",           path,     "--backend", "cpu", "-p", "abcd", "-n", "12",
        "--temp",          "0",        "--ignore-eos", "--json", NULL
    };
    struct kg_process_result made = run(make), first = run(use), again = run(use);
    expect_exit(&made, 0);
    ck_assert_msg(strstr(made.out, "\"n_params\":") != NULL, "%s", made.out);
    expect_exit(&first, 0);
    const char *ids = strstr(first.out, "\"ids\":"), *ids_again = strstr(again.out, "\"ids\":");
    ck_assert_msg(ids && ids_again, "%s", first.out);
    const size_t len = strcspn(ids, "]");
    ck_assert_int_eq(strncmp(ids, ids_again, len), 0);
    size_t n_ids = 1;
    for (size_t i = 0; i < len; i++) n_ids += ids[i] == ',';
    ck_assert_uint_eq(n_ids, 12);
    kg_process_result_free(&made);
    kg_process_result_free(&first);
    kg_process_result_free(&again);
}

/* A layer of true shapes in a mixture: logits of the whole vocabulary, each a number (JSON has no other). */
static void true_shapes_run(struct kg_record *rec, const void *arg) {
    enum { N_VOCAB = 151936 };
    const char *path = scratch(rec, "m.gguf");
    const char *const make[] = { kg_program_path(), "synth",  "--like", "qwen2.5-1.5b", "--layers", "1",
                                 "--type",          "q4_k_m", "-o",     path,           NULL };
    const char *const use[] = { kg_program_path(), "logits", "-m",        path,  "--ids", "5,70000,6",
                                "--positions",     "last",   "--backend", "cpu", NULL };
    (void)arg;
    struct kg_process_result made = run(make), used = run(use);
    expect_exit(&made, 0);
    expect_exit(&used, 0);
    const char *logits = strstr(used.out, "\"logits\":[");
    ck_assert_msg(logits != NULL, "%.200s", used.out);
    size_t n = 1;
    for (; *logits; logits++) n += *logits == ',';
    ck_assert_uint_eq(n, N_VOCAB);
    ck_assert(!strstr(used.out, "NaN") && !strstr(used.out, "Infinity") && !strstr(used.out, "null"));
    kg_process_result_free(&made);
    kg_process_result_free(&used);
}

static void does_not_overwrite(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_error err;
    char *text;
    size_t len;
    const char *path = scratch(rec, "precious");
    const char *argv[] = { kg_program_path(), "synth", "--like", "tiny-qwen2.5", "-o", path, NULL, NULL };
    kg_must(kg_file_write(path, "mine", 4, &err), &err);
    struct kg_process_result r = run(argv);
    expect_refusal(&r, 2, "--force");
    kg_must(kg_file_read(path, &text, &len, &err), &err);
    ck_assert_str_eq(text, "mine");
    free(text);
    kg_process_result_free(&r);
    argv[6] = "--force";
    r = run(argv);
    expect_exit(&r, 0);
    kg_must(kg_file_read(path, &text, &len, &err), &err);
    ck_assert_int_eq(memcmp(text, "GGUF", 4), 0);
    free(text);
    kg_process_result_free(&r);
}

/* A limit on the file's size stands for a disk that fills: 64 blocks of 1024 bytes are less than the model. */
static void full_disk_leaves_nothing(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_error err;
    struct kg_dir_list left;
    const char *const argv[] = { "/bin/sh",
                                 "-c",
                                 "ulimit -f 64; exec \"$0\" synth --like tiny-qwen2.5 -o \"$1\"",
                                 kg_program_path(),
                                 scratch(rec, "m.gguf"),
                                 NULL };
    struct kg_process_result r = run(argv);
    expect_refusal(&r, 5, "m.gguf");
    kg_must(kg_dir_list(kg_scratch_dir(rec), &left, &err), &err);
    ck_assert_uint_eq(left.n_names, 0);
    kg_dir_list_free(&left);
    kg_process_result_free(&r);
}

struct refused_row {
    const char *name;
    const char *args[8];
    const char *says;
};

static const struct refused_row REFUSED[] = {
    { "no_model", { "synth", "-o", "/nowhere/x" }, "--like" },
    { "no_output", { "synth", "--like", "tiny-qwen2.5" }, "-o FILE" },
    { "unknown_model", { "synth", "--like", "gpt-5", "-o", "/nowhere/x" }, "'gpt-5'" },
    { "unknown_type", { "synth", "--like", "tiny-qwen2.5", "--type", "f12", "-o", "/nowhere/x" }, "f12" },
    { "no_such_folder", { "synth", "--like", "tiny-qwen2.5", "-o", "/nowhere/x" }, "/nowhere/x" },
    { "a_folder", { "synth", "--like", "tiny-qwen2.5", "--force", "-o", "/tmp" }, "/tmp is a folder" },
    { "no_layers", { "synth", "--like", "tiny-qwen2.5", "--layers", "0", "-o", "/nowhere/x" }, "--layers" },
};

static void is_refused(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct refused_row *row = arg;
    const char *argv[KG_COUNT_OF(row->args) + 2] = { kg_program_path() };
    memcpy(argv + 1, row->args, sizeof row->args);
    struct kg_process_result r = run(argv);
    expect_refusal(&r, 2, row->says);
    ck_assert_str_eq(r.out, "");
    kg_process_result_free(&r);
}

static void build(struct kg_case_list *cases) {
    struct kg_case c = { .layer = "integration", .op = "synth_command" };
    for (size_t i = 0; i < KG_COUNT_OF(LOADS); i++) {
        c.name = LOADS[i].name;
        c.run = generates;
        c.arg = &LOADS[i];
        kg_case_list_add(cases, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++) {
        c.name = REFUSED[i].name;
        c.run = is_refused;
        c.arg = &REFUSED[i];
        kg_case_list_add(cases, &c);
    }
    c.arg = NULL;
    c.name = "does_not_overwrite";
    c.run = does_not_overwrite;
    kg_case_list_add(cases, &c);
    c.name = "true_shapes_run";
    c.run = true_shapes_run;
    kg_case_list_add(cases, &c);
    c.name = "full_disk_leaves_nothing";
    c.run = full_disk_leaves_nothing;
    kg_case_list_add(cases, &c);
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
