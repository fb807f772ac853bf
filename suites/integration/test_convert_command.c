/* kigo convert as a program: what it prints, what it refuses, and that whatever ends it leaves nothing half-written. */
#include "base/buffer.h"
#include "base/draft.h"
#include "base/file.h"
#include "base/size.h"
#include "format/gguf.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/harness/process.h"
#include "suites/support/hf_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *scratch(const struct kg_record *rec, const char *name) {
    return kg_path_join(kg_scratch_dir(rec), name);
}

static struct kg_process_result run(const char *const *argv, double timeout_s) {
    const struct kg_process process = { .argv = argv, .timeout_s = timeout_s };
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

static void expect_names(const struct kg_record *rec, const char *const *names, size_t n) {
    struct kg_dir_list list;
    struct kg_error err;
    kg_must(kg_dir_list(kg_scratch_dir(rec), &list, &err), &err);
    for (size_t i = 0; i < n && i < list.n_names; i++) ck_assert_str_eq(list.names[i], names[i]);
    ck_assert_uint_eq(list.n_names, n);
    kg_dir_list_free(&list);
}

static void summary_as_json(struct kg_record *rec, const void *arg) {
    char *dir = scratch(rec, "hf"), *out = scratch(rec, "m.gguf");
    const char *const argv[] = { kg_program_path(), "convert", dir, "-o", out, "--type", "MXFP4", "--json", NULL };
    static const struct {
        const char *name;
        json_int_t value;
    } COUNTS[] = { { "n_layers", 2 }, { "n_tensors", 34 }, { "n_tokens", 264 },
                   { "n_unused", 5 }, { "n_merges", 2 },   { "mxfp4_kept", 0 } };
    (void)arg;
    kg_hf_make(dir, kg_hf_expected("llama_bias"), NULL);
    struct kg_process_result r = run(argv, 0);
    expect(&r, 0, "{");
    json_t *json = json_loads(r.out, 0, NULL);
    ck_assert_msg(json != NULL, "%s", r.out);
    ck_assert_str_eq(json_string_value(json_object_get(json, "architecture")), "llama");
    ck_assert_str_eq(json_string_value(json_object_get(json, "type")), "MXFP4");
    ck_assert_str_eq(json_string_value(json_object_get(json, "file")), out);
    for (size_t i = 0; i < KG_COUNT_OF(COUNTS); i++)
        ck_assert_int_eq(json_integer_value(json_object_get(json, COUNTS[i].name)), COUNTS[i].value);
    /* Rows of 80 are no blocks of 32: all matrices but ffn_down, whose rows are 96. */
    const json_t *instead = json_object_get(json, "f16_instead");
    ck_assert_uint_eq(json_array_size(instead), 1 + 2 * 6);
    ck_assert_str_eq(json_string_value(json_array_get(instead, 0)), "token_embd.weight");
    json_decref(json);
    kg_process_result_free(&r);
    free(out);
    free(dir);
}

static void says_what_is_f16_and_what_stays(struct kg_record *rec, const void *arg) {
    char *dir = scratch(rec, "hf"), *packed = scratch(rec, "packed"), *out = scratch(rec, "m.gguf");
    const char *const odd[] = { kg_program_path(), "convert", dir, "-o", out, "--type", "q8_0", NULL };
    const char *const kept[] = { kg_program_path(), "convert", packed, "-o", out, "--force", NULL };
    (void)arg;
    kg_hf_make(dir, kg_hf_expected("llama_bias"), NULL);
    kg_hf_make(packed, kg_hf_expected("gpt_oss_mxfp4"), NULL);
    struct kg_process_result r = run(odd, 0);
    expect(&r, 0, "blk.1.ffn_up.weight is F16: its rows are no whole blocks of Q8_0");
    kg_process_result_free(&r);
    r = run(kept, 0);
    expect(&r, 0, "6 tensors were MXFP4 and stay as they were");
    expect(&r, 0, "gpt-oss, 2 layers, 41 tensors");
    kg_process_result_free(&r);
    free(out);
    free(packed);
    free(dir);
}

static void existing_file_needs_force(struct kg_record *rec, const void *arg) {
    char *dir = scratch(rec, "hf"), *out = scratch(rec, "m.gguf"), *text;
    const char *const argv[] = { kg_program_path(), "convert", dir, "-o", out, NULL };
    const char *const forced[] = { kg_program_path(), "convert", dir, "-o", out, "--force", NULL };
    size_t len;
    struct kg_error err;
    (void)arg;
    kg_hf_make(dir, kg_hf_expected("llama_bias"), NULL);
    ck_assert_msg(kg_file_write(out, "keep me", 7, &err) == KG_OK, "%s", err.message);
    struct kg_process_result r = run(argv, 0);
    ck_assert_int_eq(r.exit_code, 2);
    ck_assert_msg(strstr(r.err, "is there already; --force replaces it") != NULL, "%s", r.err);
    ck_assert_msg(kg_file_read(out, &text, &len, &err) == KG_OK, "%s", err.message);
    ck_assert_str_eq(text, "keep me");
    free(text);
    kg_process_result_free(&r);
    r = run(forced, 0);
    expect(&r, 0, "llama, 2 layers");
    kg_process_result_free(&r);
    free(out);
    free(dir);
}

/* What convert writes, kigo runs, whatever the type. */
static const char *const FOLDERS[] = { "qwen2_tied", "llama3_rope",   "llama_bias",    "phi3_window",
                                       "phi3_long",  "gpt_oss_plain", "gpt_oss_mxfp4", "gpt2" };

static void runs(struct kg_record *rec, const void *arg) {
    static const char *const TYPES[] = { "f32", "f16", "bf16", "q8_0", "q4_0", "q5_k", "q4_k_m", "mxfp4" };
    char *dir = scratch(rec, "hf"), *out = scratch(rec, "m.gguf");
    kg_hf_make(dir, kg_hf_expected(*(const char *const *)arg), NULL);
    for (size_t i = 0; i < KG_COUNT_OF(TYPES); i++) {
        const char *const make[] = {
            kg_program_path(), "convert", dir, "-o", out, "--force", "--type", TYPES[i], NULL
        };
        const char *const use[] = { kg_program_path(), "logits", "-m",        out,   "--ids", "1,257,72,9",
                                    "--positions",     "last",   "--backend", "cpu", NULL };
        struct kg_process_result made = run(make, 0), used = run(use, 0);
        expect(&made, 0, out);
        expect(&used, 0, "\"logits\":");
        ck_assert_msg(!strstr(used.out, "null") && !strstr(used.out, "nan"), "%s: %s", TYPES[i], used.out);
        kg_process_result_free(&made);
        kg_process_result_free(&used);
    }
    free(out);
    free(dir);
}

struct refused_row {
    const char *name;
    const char *args[8];
    const char *says;
};
static const struct refused_row REFUSED[] = {
    { "no_output", { "convert", "/nowhere" }, "-o FILE" },
    { "no_folder", { "convert", "-o", "/nowhere/x" }, "usage" },
    { "folder_is_not_there", { "convert", "/nowhere/hf", "-o", "/nowhere/x" }, "there is no folder '/nowhere/hf'" },
    { "unknown_type", { "convert", "/nowhere", "-o", "/nowhere/x", "--type", "q3_k" }, "'q3_k'" },
    { "type_of_a_vocabulary",
      { "convert", "/nowhere", "-o", "/nowhere/x", "--vocab-only", "--type", "f32" },
      "--type f32" },
    { "no_threads", { "convert", "/nowhere", "-o", "/nowhere/x", "--threads", "0" }, "--threads" },
};

static void is_refused(struct kg_record *rec, const void *arg) {
    (void)rec;
    const struct refused_row *row = arg;
    const char *argv[KG_COUNT_OF(row->args) + 2] = { kg_program_path() };
    memcpy(argv + 1, row->args, sizeof row->args);
    struct kg_process_result r = run(argv, 0);
    expect(&r, 2, row->says);
    ck_assert_str_eq(r.out, "");
    kg_process_result_free(&r);
}

/* A limit on the file's size stands for a disk that fills; what was there stays. */
static void full_disk_leaves_nothing(struct kg_record *rec, const void *arg) {
    static const char *const LEFT[] = { "hf", "m.gguf" };
    char *dir = scratch(rec, "hf"), *out = scratch(rec, "m.gguf"), *text;
    struct kg_error err;
    size_t len;
    (void)arg;
    kg_hf_make(dir, kg_hf_expected("gpt2"), NULL);
    kg_must(kg_file_write(out, "mine", 4, &err), &err);
    const char *const argv[] = {
        "/bin/sh", "-c", "ulimit -f 64; exec \"$0\" convert \"$1\" -o \"$2\" --force", kg_program_path(), dir, out, NULL
    };
    struct kg_process_result r = run(argv, 0);
    expect(&r, 5, out);
    expect(&r, 5, "File too large");
    expect_names(rec, LEFT, KG_COUNT_OF(LEFT));
    kg_must(kg_file_read(out, &text, &len, &err), &err);
    ck_assert_str_eq(text, "mine");
    kg_process_result_free(&r);
    free(text);
    free(out);
    free(dir);
}

/* A folder whose conversion takes seconds: a layer of wide matrices, zeros that take no place on the disk. */
static void make_slow(const char *dir) {
    enum { EMBD = 64, FF = 1 << 20 };
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } TENSORS[] = {
        { "model.embed_tokens.weight", 264, EMBD },
        { "model.norm.weight", EMBD, 0 },
        { "model.layers.0.input_layernorm.weight", EMBD, 0 },
        { "model.layers.0.post_attention_layernorm.weight", EMBD, 0 },
        { "model.layers.0.self_attn.qkv_proj.weight", 128, EMBD },
        { "model.layers.0.self_attn.o_proj.weight", EMBD, EMBD },
        { "model.layers.0.mlp.gate_up_proj.weight", 2 * (uint64_t)FF, EMBD },
        { "model.layers.0.mlp.down_proj.weight", EMBD, FF },
    };
    static const struct kg_hf_changes WIDE = {
        .config = "{\"num_hidden_layers\":1,\"num_key_value_heads\":2,\"intermediate_size\":1048576,"
                  "\"tie_word_embeddings\":true}"
    };
    struct kg_buffer head = KG_BUFFER_INIT;
    struct kg_error err;
    uint64_t at = 0;
    kg_hf_make(dir, kg_hf_expected("phi3_window"), &WIDE);
    for (size_t i = 0; i < KG_COUNT_OF(TENSORS); i++) {
        const unsigned long long rows = TENSORS[i].rows, cols = TENSORS[i].cols, begin = at;
        at += 2 * rows * (cols ? cols : 1);
        kg_buffer_printf(&head, "%c\"%s\":{\"dtype\":\"BF16\",\"shape\":[%llu", i ? ',' : '{', TENSORS[i].name, rows);
        if (cols) kg_buffer_printf(&head, ",%llu", cols);
        kg_buffer_printf(&head, "],\"data_offsets\":[%llu,%llu]}", begin, (unsigned long long)at);
    }
    kg_buffer_puts(&head, "}");
    struct kg_buffer file = KG_BUFFER_INIT;
    const uint64_t len = head.len;
    kg_buffer_append(&file, &len, sizeof len);
    kg_buffer_append(&file, head.data, head.len);
    char *path = kg_path_join(dir, "model.safetensors");
    kg_must(kg_file_write(path, file.data, file.len, &err), &err);
    ck_assert_int_eq(truncate(path, (off_t)(file.len + at)), 0);
    kg_buffer_free(&file);
    kg_buffer_free(&head);
    free(path);
}

static bool has_named_drafts(const struct kg_record *rec) {
    struct kg_draft draft;
    struct kg_error err;
    char *path = scratch(rec, "draft");
    kg_must(kg_draft_open(path, &draft, &err), &err);
    const bool named = draft.temporary != NULL;
    kg_draft_discard(&draft);
    free(path);
    return named;
}

/* 0.3 s are past the vocabulary and within the weights, which take one thread seconds. */
static void killed_leaves_nothing(struct kg_record *rec, const void *arg) {
    static const char *const LEFT[] = { "hf" };
    (void)arg;
    if (has_named_drafts(rec)) {
        kg_record_skip(rec, "the scratch folder's file system has no files without a name");
        return;
    }
    char *dir = scratch(rec, "hf"), *out = scratch(rec, "m.gguf");
    const char *const argv[] = { kg_program_path(), "convert", dir, "-o", out, "--type", "q8_0", "-t", "1", NULL };
    make_slow(dir);
    struct kg_process_result r = run(argv, 0.3);
    ck_assert_msg(r.timed_out, "it ended by itself: %s%s", r.out, r.err);
    expect_names(rec, LEFT, KG_COUNT_OF(LEFT));
    kg_process_result_free(&r);
    free(out);
    free(dir);
}

static void asked_to_end_leaves_nothing(struct kg_record *rec, const void *arg) {
    static const char *const LEFT[] = { "hf" };
    char *dir = scratch(rec, "hf"), *out = scratch(rec, "m.gguf");
    const char *const argv[] = { "/bin/sh",
                                 "-c",
                                 "\"$0\" convert \"$1\" -o \"$2\" --type q8_0 -t 1 & sleep 0.3; kill -TERM $!; wait $!",
                                 kg_program_path(),
                                 dir,
                                 out,
                                 NULL };
    (void)arg;
    make_slow(dir);
    struct kg_process_result r = run(argv, 0);
    expect(&r, 5, "cancelled");
    expect_names(rec, LEFT, KG_COUNT_OF(LEFT));
    kg_process_result_free(&r);
    free(out);
    free(dir);
}

static void build(struct kg_case_list *list) {
    static const struct {
        const char *name;
        void (*run)(struct kg_record *, const void *);
    } CASES[] = {
        { "summary_as_json", summary_as_json },
        { "says_what_is_f16_and_what_stays", says_what_is_f16_and_what_stays },
        { "existing_file_needs_force", existing_file_needs_force },
        { "full_disk_leaves_nothing", full_disk_leaves_nothing },
        { "killed_leaves_nothing", killed_leaves_nothing },
        { "asked_to_end_leaves_nothing", asked_to_end_leaves_nothing },
    };
    struct kg_case c = { .layer = "integration", .op = "convert_command" };
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        c.name = CASES[i].name;
        c.run = CASES[i].run;
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(FOLDERS); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_runs", FOLDERS[i]);
        c.name = name, c.run = runs, c.arg = &FOLDERS[i];
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++) {
        c.name = REFUSED[i].name, c.run = is_refused, c.arg = &REFUSED[i];
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
