/* The kigo program as its users run it: what it prints where, and the exit code of everything that can go wrong. */
#include "suites/support/run_kigo.h"
#include "base/size.h"
#include <check.h>
#include <string.h>

enum { MOST_ARGS = 16 };

struct cli_row {
    const char *name;
    const char *args[MOST_ARGS];
    int exit_code;
    const char *out, *err; /* what each stream must hold; NULL: it must be empty */
    const char *input;
};

#define ANY "" /* held by every text */
#define GENERATE(...)                                                                                                  \
    { "generate", "-m", MODEL, "-p", "the old pond", "-n", "4", __VA_ARGS__ }

static const struct cli_row ROWS[] = {
    { "no_command", { NULL }, 2, NULL, "usage: kigo", NULL },
    { "unknown_command", { "compose" }, 2, NULL, "unknown command 'compose'; 'kigo --help'", NULL },
    { "mistyped_command", { "lsit" }, 2, NULL, "unknown command 'lsit', did you mean 'list'?", NULL },
    { "help_of_a_command", { "help", "generate" }, 0, "--max-tokens", NULL, NULL },
    { "help_of_no_command", { "help", "generat" }, 2, NULL, "did you mean 'generate'?", NULL },
    { "help_of_two_commands", { "help", "list", "show" }, 2, NULL, "one command at a time", NULL },
    { "help_of_help", { "help", "help" }, 0, "Exit codes", NULL, NULL },
    { "help", { "--help" }, 0, "Exit codes", NULL, NULL },
    { "version", { "--version" }, 0, "kigo ", NULL, NULL },
    { "generate_help", { "generate", "--help" }, 0, "--max-tokens", NULL, NULL },
    { "logits_help", { "logits", "--help" }, 0, "--positions", NULL, NULL },
    { "tokenize_help", { "tokenize", "--help" }, 0, "--special", NULL, NULL },
    { "inspect_help", { "inspect", "--help" }, 0, "--json", NULL, NULL },

    { "no_folder_of_bundles", { "show", "latest", "--bundles", MISSING }, 2, NULL, "--bundles DIR", NULL },
    { "nothing_to_verify", { "verify", "--all", "--bundles", MISSING }, 2, NULL, "no such folder of bundles", NULL },
    { "no_such_sprint", { "signoff", "fp61", "x", "--bundles", "/" }, 2, NULL, "there are fp16, fused", NULL },
    { "nothing_to_report", { "report" }, 2, NULL, "'kigo list' shows them", NULL },
    { "ids_missing", { "logits", "-m", MODEL }, 2, NULL, "'kigo tokenize' prints them", NULL },
    { "shape_missing", { "synth", "-o", MISSING }, 2, NULL, "--help lists them", NULL },
    { "convert_no_folder", { "convert", MISSING, "-o", "x" }, 2, NULL, "there is no folder", NULL },
    { "convert_a_file", { "convert", TEXT_FILE, "-o", "x" }, 2, NULL, "is a file; a model's folder", NULL },
    { "bench_a_text", { "bench", "-m", TEXT_FILE }, 4, NULL, "not a GGUF file", NULL },
    { "bench_a_folder", { "bench", "-m", "/" }, 2, NULL, "kigo convert", NULL },
    { "cases_by_argument", { "check", "unit" }, 2, NULL, "[--layer LIST]", NULL },

    { "text_streams_out", GENERATE("--temp", "0"), 0, ANY, "tokens/s", NULL },
    { "equals_sign", { "generate", "--model=" MODEL, "--prompt=hi", "--max-tokens=1" }, 2, NULL, "@model", NULL },
    { "prompt_from_input", { "generate", "-m", MODEL, "-n", "2" }, 0, ANY, "2 tokens", "the old pond" },
    { "prompt_from_a_file", { "generate", "-m", MODEL, "-f", TEXT_FILE, "-n", "2" }, 0, ANY, "2 tokens", NULL },
    { "no_tokens", { "generate", "-m", MODEL, "-p", "hi", "-n", "0" }, 0, "\n", "0 tokens (length)", NULL },
    { "largest_seed", GENERATE("--seed", "18446744073709551615"), 0, ANY, "18446744073709551615", NULL },
    { "context_ends_it",
      { "generate", "-m", MODEL, "-p", "hi", "-c", "3", "-n", "50", "--ignore-eos" },
      0,
      ANY,
      "(context)",
      NULL },

    { "unknown_option", GENERATE("--frobnicate"), 2, NULL, "--frobnicate", NULL },
    { "unknown_letter", GENERATE("-z"), 2, NULL, "-z", NULL },
    { "value_missing", { "generate", "-m", MODEL, "-p" }, 2, NULL, "-p", NULL },
    { "stray_argument", GENERATE("more"), 2, NULL, "more", NULL },
    { "model_missing", { "generate", "-p", "hi" }, 2, NULL, "--model", NULL },
    { "no_such_file", { "generate", "-m", MISSING, "-p", "hi" }, 2, NULL, MISSING, NULL },
    { "model_is_a_folder", { "generate", "-m", "/", "-p", "hi" }, 2, NULL, "kigo convert", NULL },
    { "no_such_prompt_file", { "generate", "-m", MODEL, "-f", "/nowhere/text" }, 2, NULL, "/nowhere/text", NULL },
    { "two_prompts", { "generate", "-m", MODEL, "-p", "hi", "-f", TEXT_FILE }, 2, NULL, "--file", NULL },
    { "empty_prompt", { "generate", "-m", MODEL, "-p", "" }, 2, NULL, "empty", NULL },
    { "empty_input", { "generate", "-m", MODEL }, 2, NULL, "empty", NULL },
    { "prompt_longer_than_context",
      { "generate", "-m", MODEL, "-p", "the old pond and a frog", "-c", "2" },
      2,
      NULL,
      "2",
      NULL },
    { "ill_formed_prompt", { "generate", "-m", MODEL, "-p", "pond \xff" }, 4, NULL, "byte 5", NULL },
    { "ill_formed_input", { "generate", "-m", MODEL, "--chat" }, 4, NULL, "byte 1", "a\xc3" },
    { "ill_formed_stop", GENERATE("--stop", "\xe2\x80"), 4, NULL, "--stop", NULL },
    { "empty_stop", GENERATE("--stop", ""), 2, NULL, "--stop", NULL },
    { "system_without_chat", GENERATE("--system", "be brief"), 2, NULL, "--chat", NULL },
    { "negative_tokens", { "generate", "-m", MODEL, "-p", "hi", "-n", "-1" }, 2, NULL, "-1", NULL },
    { "tokens_no_number", { "generate", "-m", MODEL, "-p", "hi", "-n", "many" }, 2, NULL, "many", NULL },
    { "negative_temperature", GENERATE("--temp", "-0.5"), 2, NULL, "--temp", NULL },
    { "temperature_not_a_number", GENERATE("--temp", "nan"), 2, NULL, "nan", NULL },
    { "infinite_temperature", GENERATE("--temp", "inf"), 2, NULL, "inf", NULL },
    { "top_p_of_zero", GENERATE("--top-p", "0"), 2, NULL, "top_p", NULL },
    { "top_p_above_one", GENERATE("--top-p", "1.5"), 2, NULL, "1.5", NULL },
    { "min_p_above_one", GENERATE("--min-p", "1.01"), 2, NULL, "min-p", NULL },
    { "negative_top_k", GENERATE("--top-k", "-3"), 2, NULL, "-3", NULL },
    { "penalty_of_zero", GENERATE("--repeat-penalty", "0"), 2, NULL, "penalty", NULL },
    { "negative_seed", GENERATE("--seed", "-1"), 2, NULL, "-1", NULL },
    { "seed_too_large", GENERATE("--seed", "18446744073709551616"), 2, NULL, "18446744073709551616", NULL },
    { "context_past_the_models", GENERATE("--ctx", "1025"), 2, NULL, "--ctx: 1025 is outside 1 to 1024", NULL },
    { "tokens_past_the_range", GENERATE("-n", "9999999999"), 2, NULL, "9999999999 is outside 0 to 2147483647", NULL },
    { "tokens_no_number_says_the_range", GENERATE("-n", "x"), 2, NULL, "whole number from 0 to 2147483647", NULL },
    { "top_p_says_its_range", GENERATE("--top-p", "1.5"), 2, NULL, "top_p 1.5 is outside (0, 1]", NULL },
    { "precision_says_which", GENERATE("--dtype", "q8"), 2, NULL, "f32 and, on a GPU, f16 are", NULL },
    { "context_of_zero", GENERATE("--ctx", "0"), 2, NULL, "--ctx", NULL },
    { "no_threads", GENERATE("--threads", "0"), 2, NULL, "--threads", NULL },
    { "unknown_back_end", GENERATE("--backend", "abacus"), 2, NULL, "abacus", NULL },
    { "unknown_precision", GENERATE("--dtype", "f12"), 2, NULL, "f12", NULL },
    { "precision_the_cpu_lacks", GENERATE("--backend", "cpu", "--dtype", "f16"), 2, NULL, "f16", NULL },
    { "precision_no_model_runs_in", GENERATE("--dtype", "f8"), 2, NULL, "models run in f32 and f16", NULL },

    { "cut_file", { "generate", "-m", CUT_MODEL, "-p", "hi" }, 4, NULL, "/cut: ", NULL },
    { "file_that_is_no_model", { "generate", "-m", TEXT_FILE, "-p", "hi" }, 4, NULL, "/text: ", NULL },
    { "tensor_missing", { "generate", "-m", LYING_MODEL, "-p", "hi" }, 4, NULL, "blk.1.attn_k.weight", NULL },
    { "weight_not_a_number", { "generate", "-m", NAN_MODEL, "-p", "hi" }, 1, NULL, "logit", NULL },
    { "vocabulary_only", { "generate", "-m", VOCABULARY, "-p", "hi" }, 2, NULL, "vocabulary", NULL },

    { "logits_without_ids", { "logits", "-m", MODEL }, 2, NULL, "--ids", NULL },
    { "logits_of_an_unknown_ramp",
      { "logits", "-m", MODEL, "--ids", "1", "--yarn", "none" },
      2,
      NULL,
      "exact and rounded",
      NULL },
    { "logits_of_ids_as_tokenize_prints_them",
      { "logits", "-m", MODEL, "--ids", " 5 6 , 7,8 " },
      0,
      "{\"pos\":3,",
      NULL,
      NULL },
    { "logits_of_no_number", { "logits", "-m", MODEL, "--ids", "1,x" }, 2, NULL, "x", NULL },
    { "logits_of_an_empty_list", { "logits", "-m", MODEL, "--ids", "" }, 2, NULL, "--ids", NULL },
    { "logits_of_a_gap", { "logits", "-m", MODEL, "--ids", "1,,2" }, 2, NULL, "--ids", NULL },
    { "logits_of_a_trailing_comma", { "logits", "-m", MODEL, "--ids", "1,2," }, 2, NULL, "--ids", NULL },
    { "logits_of_a_negative_id", { "logits", "-m", MODEL, "--ids", "-1" }, 2, NULL, "-1", NULL },
    { "logits_of_an_unknown_id", { "logits", "-m", MODEL, "--ids", "5,99999" }, 2, NULL, "99999", NULL },
    { "logits_of_the_largest_id", { "logits", "-m", MODEL, "--ids", "2147483647" }, 2, NULL, "id 2147483647", NULL },
    { "logits_of_an_id_past_the_largest",
      { "logits", "-m", MODEL, "--ids", "2147483648" },
      2,
      NULL,
      "[0, 2147483648)",
      NULL },
    { "logits_of_a_huge_id", { "logits", "-m", MODEL, "--ids", "4294967296" }, 2, NULL, "4294967296", NULL },
    { "logits_at_no_position",
      { "logits", "-m", MODEL, "--ids", "1,2", "--positions", "2" },
      2,
      NULL,
      "--positions",
      NULL },
    { "logits_at_a_word", { "logits", "-m", MODEL, "--ids", "1,2", "--positions", "first" }, 2, NULL, "first", NULL },
    { "logits_past_the_context", { "logits", "-m", MODEL, "--ids", "1,2,3", "--ctx", "2" }, 2, NULL, "2", NULL },
    { "logits_not_a_number", { "logits", "-m", NAN_MODEL, "--ids", "1,2" }, 1, NULL, "position", NULL },
    { "logits_of_a_cut_file", { "logits", "-m", CUT_MODEL, "--ids", "1" }, 4, NULL, "/cut: ", NULL },

    { "inspect_a_model", { "inspect", MODEL }, 0, "blk.3.ffn_down.weight", NULL, NULL },
    { "inspect_a_vocabulary", { "inspect", VOCABULARY }, 0, "tokenizer.ggml.merges", NULL, NULL },
    { "inspect_nothing", { "inspect" }, 2, NULL, ANY, NULL },
    { "inspect_a_missing_file", { "inspect", MISSING }, 2, NULL, MISSING, NULL },
    { "inspect_a_cut_file", { "inspect", CUT_MODEL }, 4, NULL, "/cut: ", NULL },
    { "tokenize_text", { "tokenize", "-m", MODEL }, 0, ANY, NULL, "the old pond" },
    { "tokenize_by_a_vocabulary", { "tokenize", "-m", VOCABULARY }, 0, ANY, NULL, "the old pond" },
    { "tokenize_ill_formed_text", { "tokenize", "-m", MODEL }, 4, NULL, "byte", "\xff" },
    { "tokenize_by_a_missing_file", { "tokenize", "-m", MISSING }, 2, NULL, MISSING, "text" },
    { "tokenize_by_a_cut_file", { "tokenize", "-m", CUT_MODEL }, 4, NULL, "/cut: ", "text" },
};

static void expect_stream(const char *which, const char *got, const char *held) {
    if (!held) ck_assert_msg(got[0] == '\0', "%s is not empty: %.400s", which, got);
    else ck_assert_msg(strstr(got, held) != NULL, "%s does not hold '%s': %.400s", which, held, got);
}

static void runs_as_said(struct kg_record *rec, const void *arg) {
    const struct cli_row *const row = arg;
    struct kg_process_result r = kg_run_kigo(rec, row->args, (struct kg_process){ .input = row->input });
    ck_assert_msg(r.exit_code == row->exit_code, "exit code %d, signal %d, expected %d: %.400s", r.exit_code, r.signal,
                  row->exit_code, r.err);
    expect_stream("standard output", r.out, row->out);
    expect_stream("standard error", r.err, row->err);
    if (row->exit_code != 0 && row->args[0]) ck_assert_msg(r.err_len > 0, "no message");
    kg_process_result_free(&r);
}

/* What goes to a pipe nobody reads, or to no standard output at all, is lost with an error, and nothing worse. */
struct lost_row {
    const char *name;
    const char *args[MOST_ARGS];
    bool broken, closed;
};
static const struct lost_row LOST[] = {
    { "generate_into_a_broken_pipe", GENERATE("--json"), true, false },
    { "logits_into_a_broken_pipe", { "logits", "-m", MODEL, "--ids", "1,2,3,4,5,6,7,8,9" }, true, false },
    { "inspect_into_a_broken_pipe", { "inspect", MODEL, "--json" }, true, false },
    { "tokenize_into_a_broken_pipe", { "tokenize", "-m", MODEL }, true, false },
    { "generate_without_output", GENERATE("--json"), false, true },
    { "logits_without_output", { "logits", "-m", MODEL, "--ids", "1,2,3" }, false, true },
    { "inspect_without_output", { "inspect", MODEL }, false, true },
    { "tokenize_without_output", { "tokenize", "-m", MODEL }, false, true },
    { "devices_without_output", { "devices" }, false, true },
};

static void output_is_lost(struct kg_record *rec, const void *arg) {
    enum { BROKEN_PIPE_SIGNAL = 13 };
    const struct lost_row *const row = arg;
    struct kg_process_result r = kg_run_kigo(
        rec, row->args,
        (struct kg_process){ .input = "the old pond", .broken_stdout = row->broken, .closed_stdout = row->closed });
    if (row->broken && r.signal == BROKEN_PIPE_SIGNAL) {
        kg_process_result_free(&r);
        return;
    }
    ck_assert_msg(r.signal == 0 && r.exit_code == KG_EXIT_INCOMPLETE, "exit code %d, signal %d: %.300s", r.exit_code,
                  r.signal, r.err);
    expect_stream("standard error", r.err, row->closed ? "Bad file descriptor" : "Broken pipe");
    kg_process_result_free(&r);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(ROWS); i++)
        kg_case_list_add(
            list,
            &(struct kg_case){
                .layer = "integration", .op = "cli", .name = ROWS[i].name, .run = runs_as_said, .arg = &ROWS[i] });
    for (size_t i = 0; i < KG_COUNT_OF(LOST); i++)
        kg_case_list_add(
            list,
            &(struct kg_case){
                .layer = "integration", .op = "cli", .name = LOST[i].name, .run = output_is_lost, .arg = &LOST[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
