/* kigo tokenize and kigo convert as programs: bytes in, bytes out, exit codes, errors that name the place. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include <check.h>
#include <kigo/status.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(s) (s), sizeof(s) - 1
#define GPT2 "@gpt2" /* stands for the unpacked vocabulary's path */
#define QWEN2 "@qwen2"

struct command_row {
    const char *name;
    const char *args[8];
    const char *in;
    size_t n_in;
    int exit_code;
    const char *out; /* NULL: nothing */
    const char *err; /* part of standard error; NULL: it is empty */
};

static const struct command_row ROWS[] = {
    { "ids_of_every_byte", { "tokenize", "-m", GPT2 }, TEXT("Hello world\n"), 0, "15496 995 198\n", NULL },
    { "no_newline_is_added", { "tokenize", "-m", GPT2 }, TEXT("Hello"), 0, "15496\n", NULL },
    { "text_as_an_argument", { "tokenize", "-m", GPT2, "Hello world" }, TEXT("unread"), 0, "15496 995\n", NULL },
    { "empty_input", { "tokenize", "-m", GPT2 }, TEXT(""), 0, "\n", NULL },
    { "nul_in_the_input", { "tokenize", "-m", GPT2 }, TEXT("a\0b"), 0, "64 188 65\n", NULL },
    { "json", { "tokenize", "-m", GPT2, "--json" }, TEXT("Hello world"), 0, "{\"ids\":[15496,995]}\n", NULL },
    { "special_asked_for", { "tokenize", "-m", QWEN2, "--special" }, TEXT("<|im_end|>\n"), 0, "151645 198\n", NULL },
    { "special_not_asked_for", { "tokenize", "-m", QWEN2 }, TEXT("<|im_end|>"), 0, "27 91 318 6213 91 29\n", NULL },
    { "jsonl",
      { "tokenize", "-m", GPT2, "--jsonl" },
      TEXT("{\"text\":\"Hello\"}\n{\"text\":\"a\\u0000b\",\"more\":1}\n{\"text\":\"\"}"),
      0,
      "{\"ids\":[15496]}\n{\"ids\":[64,188,65]}\n{\"ids\":[]}\n",
      NULL },
    { "jsonl_answers_what_came_before_an_error",
      { "tokenize", "-m", GPT2, "--jsonl" },
      TEXT("{\"text\":\"Hello\"}\n{\"txt\":\"x\"}\n{\"text\":\"Hello\"}\n"),
      4,
      "{\"ids\":[15496]}\n",
      "line 2: no string \"text\"" },
    { "jsonl_not_json", { "tokenize", "-m", GPT2, "--jsonl" }, TEXT("Hello\n"), 4, NULL, "line 1" },
    { "jsonl_half_a_surrogate",
      { "tokenize", "-m", GPT2, "--jsonl" },
      TEXT("{\"text\":\"\"}\n{\"text\":\"\\ud800\"}\n"),
      4,
      "{\"ids\":[]}\n",
      "line 2" },
    { "jsonl_invalid_utf8", { "tokenize", "-m", GPT2, "--jsonl" }, TEXT("{\"text\":\"\xff\"}\n"), 4, NULL, "line 1" },
    { "decode", { "tokenize", "-m", GPT2, "--decode" }, TEXT("15496, 995\n198\t0"), 0, "Hello world\n!", NULL },
    { "decode_nothing", { "tokenize", "-m", GPT2, "--decode" }, TEXT(" \n"), 0, "", NULL },
    { "decode_in_brackets", { "tokenize", "-m", GPT2, "--decode" }, TEXT("[15496, 995]\n"), 0, "Hello world", NULL },
    { "decode_writes_special_tokens",
      { "tokenize", "-m", GPT2, "--decode" },
      TEXT("15496 50256"),
      0,
      "Hello<|endoftext|>",
      NULL },
    { "decode_jsonl_writes_special_tokens",
      { "tokenize", "-m", QWEN2, "--decode", "--jsonl" },
      TEXT("{\"ids\":[151644,872,198]}\n"),
      0,
      "{\"text\":\"<|im_start|>user\\n\"}\n",
      NULL },
    { "decode_cut_character", { "tokenize", "-m", GPT2, "--decode" }, TEXT("64 47249"), 0, "a\ufffd", NULL },
    { "decode_json", { "tokenize", "-m", GPT2, "--decode", "--json" }, TEXT("1"), 0, "{\"text\":\"\\\"\"}\n", NULL },
    { "decode_jsonl",
      { "tokenize", "-m", GPT2, "--decode", "--jsonl" },
      TEXT("{\"ids\":[15496,995]}\n{\"ids\":[]}\n"),
      0,
      "{\"text\":\"Hello world\"}\n{\"text\":\"\"}\n",
      NULL },
    { "decode_word", { "tokenize", "-m", GPT2, "--decode" }, TEXT("1 x2"), 2, NULL, "byte 2: 'x2' is no token id" },
    { "decode_negative", { "tokenize", "-m", GPT2, "--decode" }, TEXT("-1"), 2, NULL, "'-1' is no token id" },
    { "decode_past_the_vocabulary", { "tokenize", "-m", GPT2, "--decode" }, TEXT("50257"), 2, NULL, "50257" },
    { "decode_number_too_long",
      { "tokenize", "-m", GPT2, "--decode" },
      TEXT("99999999999999999999"),
      2,
      NULL,
      "is no token id" },
    { "decode_jsonl_fraction",
      { "tokenize", "-m", GPT2, "--decode", "--jsonl" },
      TEXT("{\"ids\":[1,2.5]}"),
      4,
      NULL,
      "line 1: \"ids\"[1]" },
    { "invalid_utf8", { "tokenize", "-m", GPT2 }, TEXT("ab\xff"), 4, NULL, "at byte 2 (0xff)" },
    { "no_model", { "tokenize" }, TEXT(""), 2, NULL, "-m FILE" },
    { "no_such_file", { "tokenize", "-m", "/nowhere.gguf" }, TEXT(""), 2, NULL, "/nowhere.gguf" },
    { "unknown_option", { "tokenize", "-m", GPT2, "--fast" }, TEXT(""), 2, NULL, "--fast" },
    { "convert_needs_a_model_or_vocab_only",
      { "convert", "/nowhere", "-o", "/nowhere/x.gguf" },
      TEXT(""),
      2,
      NULL,
      "there is no folder '/nowhere'" },
    { "convert_needs_output", { "convert", "--vocab-only", "." }, TEXT(""), 2, NULL, "-o FILE" },
    { "convert_empty_folder",
      { "convert", "--vocab-only", "/nowhere", "-o", "/nowhere/x.gguf" },
      TEXT(""),
      2,
      NULL,
      "tokenizer.json" },
};

static const char *argument(const char *text) {
    if (text && strcmp(text, GPT2) == 0) return kg_built_fixture_path("tokenizers/gpt2/vocab.gguf");
    if (text && strcmp(text, QWEN2) == 0) return kg_built_fixture_path("tokenizers/qwen2.5/vocab.gguf");
    return text;
}

static void runs_as_said(struct kg_record *rec, const void *arg) {
    const struct command_row *row = arg;
    const char *argv[KG_COUNT_OF(row->args) + 2] = { kg_program_path() };
    for (size_t i = 0; i < KG_COUNT_OF(row->args); i++) argv[i + 1] = argument(row->args[i]);
    const struct kg_process process = { .argv = argv, .input = row->in, .input_len = row->n_in };
    struct kg_process_result result;
    struct kg_error err = { 0 };
    (void)rec;
    ck_assert_msg(kg_process_run(&process, &result, &err) == KG_OK, "%s", err.message);
    ck_assert_msg(result.exit_code == row->exit_code, "exit code %d: %s", result.exit_code, result.err);
    const char *const out = row->out ? row->out : "";
    ck_assert_str_eq(result.out, out);
    if (row->err) ck_assert_msg(strstr(result.err, row->err) != NULL, "'%s' does not say '%s'", result.err, row->err);
    else ck_assert_str_eq(result.err, "");
    kg_process_result_free(&result);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "integration",
                                                  .op = "tokenize_command",
                                                  .name = ROWS[i].name,
                                                  .run = runs_as_said,
                                                  .arg = &ROWS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
