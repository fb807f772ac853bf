/* kigo chat and kigo generate --interactive as people and programs run them: on a terminal, from a pipe, as JSON. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/size.h"
#include "suites/support/rig.h"
#include "suites/support/run_kigo.h"
#include "suites/support/terminal.h"
#include "suites/support/tiny_model.h"
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define POND "Write a haiku about an old pond"
#define CHAT "chat", "-m", MODEL, "--temp", "0"

static struct kg_process_result run_kigo(const struct kg_record *rec, const char *const *args, const char *input) {
    return kg_run_kigo(rec, args, (struct kg_process){ .input = input });
}

static struct kg_process_result run_well(const struct kg_record *rec, const char *const *args, const char *input) {
    struct kg_process_result r = run_kigo(rec, args, input);
    ck_assert_msg(r.exit_code == 0, "exit code %d: %s", r.exit_code, r.err);
    return r;
}

/* Each line is one object. */
static json_t *objects_of(const char *text) {
    json_t *all = json_array();
    while (*text) {
        const size_t len = strcspn(text, "\n");
        json_error_t why;
        json_t *object = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
        ck_assert_msg(json_is_object(object), "%s: %.*s", why.text, (int)(len < 500 ? len : 500), text);
        ck_assert_int_eq(text[len], '\n');
        json_array_append_new(all, object);
        text += len + 1;
    }
    return all;
}

static const char *text_of(const json_t *objects, size_t i, const char *name) {
    const char *text = json_string_value(json_object_get(json_array_get(objects, i), name));
    ck_assert_msg(text != NULL, "object %zu has no text %s", i, name);
    return text;
}

static json_int_t number_of(const json_t *objects, size_t i, const char *name) {
    const json_t *number = json_object_get(json_array_get(objects, i), name);
    ck_assert_msg(json_is_integer(number), "object %zu has no number %s", i, name);
    return json_integer_value(number);
}

static void pipe_gives_answers_alone(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const char LINES[] = POND "\n\n  \r\n//another\r\nthe last has no line end";
    struct kg_process_result json = run_well(rec, ARGS(CHAT, "--json"), LINES), text = run_well(rec, ARGS(CHAT), LINES);
    json_t *answers = objects_of(json.out);
    struct kg_buffer want = KG_BUFFER_INIT;
    ck_assert_uint_eq(json_array_size(answers), 3);
    for (size_t i = 0; i < 3; i++) kg_buffer_printf(&want, "%s\n", text_of(answers, i, "answer"));
    ck_assert_str_eq(text.out, kg_buffer_text(&want));
    ck_assert_str_eq(text.err, "");
    ck_assert_str_eq(json.err, "");
    ck_assert_str_eq(text_of(answers, 1, "question"), "/another");
    kg_buffer_free(&want);
    json_decref(answers);
    kg_process_result_free(&text);
    kg_process_result_free(&json);
}

static void json_counts_what_was_evaluated(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = run_well(rec, ARGS(CHAT, "--json", "-c", "200"), POND "\nanother\n");
    json_t *answers = objects_of(r.out);
    const json_int_t before = number_of(answers, 0, "positions"), prompt = number_of(answers, 1, "prompt_tokens");
    ck_assert_int_eq(number_of(answers, 0, "held_tokens"), 0);
    ck_assert_int_eq(number_of(answers, 1, "held_tokens"), before);
    ck_assert_int_eq(number_of(answers, 1, "prefill_tokens"), prompt - before);
    ck_assert_int_eq(number_of(answers, 1, "ctx"), 200);
    ck_assert_int_eq(number_of(answers, 1, "seed"), number_of(answers, 0, "seed") + 1);
    json_decref(answers);
    kg_process_result_free(&r);
}

static void json_repeats_the_question(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = run_well(rec, ARGS(CHAT, "--json"), POND "\n/regen\n");
    json_t *answers = objects_of(r.out);
    for (size_t i = 0; i < 2; i++) ck_assert_str_eq(text_of(answers, i, "question"), POND);
    json_decref(answers);
    kg_process_result_free(&r);
}

/* The conversation that a file holds goes on as if it had never ended. */
static void saved_conversation_goes_on(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *path = kg_path_join(kg_scratch_dir(rec), "pond.json");
    char *lines = kg_xasprintf("/system Be brief.\n" POND "\n/save %s\nanother\n", path);
    struct kg_process_result whole = run_well(rec, ARGS(CHAT, "--json"), lines),
                             rest = run_well(rec, ARGS(CHAT, "--json", "--load", path), "another\n");
    json_t *a = objects_of(whole.out), *b = objects_of(rest.out);
    ck_assert(json_equal(json_object_get(json_array_get(a, 1), "ids"), json_object_get(json_array_get(b, 0), "ids")));
    ck_assert_int_eq(number_of(a, 1, "prompt_tokens"), number_of(b, 0, "prompt_tokens"));
    json_error_t why;
    json_t *saved = json_load_file(path, 0, &why);
    json_t *messages = json_object_get(saved, "messages");
    ck_assert_uint_eq(json_array_size(messages), 3);
    ck_assert_str_eq(text_of(messages, 0, "role"), "system");
    ck_assert_str_eq(text_of(messages, 0, "content"), "Be brief.");
    ck_assert_str_eq(text_of(messages, 1, "content"), POND);
    ck_assert_str_eq(text_of(messages, 2, "content"), text_of(a, 0, "answer"));
    json_decref(saved);
    json_decref(b);
    json_decref(a);
    kg_process_result_free(&rest);
    kg_process_result_free(&whole);
    free(lines);
    free(path);
}

/* A file of somebody else stays; the conversation's may be written again. */
static void save_replaces_nothing_foreign(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *mine = kg_path_join(kg_scratch_dir(rec), "mine"), *other = kg_path_join(kg_scratch_dir(rec), "other");
    char *lines = kg_xasprintf(POND "\n/save %s\nanother\n/save %s\n/save %s\n", mine, mine, other);
    struct kg_error err;
    char *text;
    size_t len;
    kg_must(kg_file_write(other, "keep me", 7, &err), &err);
    struct kg_process_result r = run_kigo(rec, ARGS(CHAT), lines);
    ck_assert_int_eq(r.exit_code, 2);
    ck_assert_msg(strstr(r.err, "4 messages in") != NULL, "%s", r.err);
    ck_assert_msg(strstr(r.err, "other exists") != NULL, "%s", r.err);
    kg_must(kg_file_read(other, &text, &len, &err), &err);
    ck_assert_str_eq(text, "keep me");
    free(text);
    kg_process_result_free(&r);
    free(lines);
    free(other);
    free(mine);
}

static void loaded_conversation_is_saved_again(struct kg_record *rec, const void *arg) {
    (void)arg;
    char *path = kg_path_join(kg_scratch_dir(rec), "pond.json"), *save = kg_xasprintf(POND "\n/save %s\n", path);
    struct kg_process_result first = run_well(rec, ARGS(CHAT), save),
                             again = run_well(rec, ARGS(CHAT, "--load", path), save);
    json_error_t why;
    json_t *saved = json_load_file(path, 0, &why);
    ck_assert_uint_eq(json_array_size(json_object_get(saved, "messages")), 4);
    json_decref(saved);
    kg_process_result_free(&again);
    kg_process_result_free(&first);
    free(save);
    free(path);
}

/* After each list of commands the same question has the tokens of another conversation's. */
static const struct same_row {
    const char *name, *lines, *same_as;
} SAME[] = {
    { "reset", POND "\n/reset\nanother\n", "another\n" },
    { "reset_keeps_the_system_message", "/system s\n" POND "\n/reset\nanother\n", "/system s\nanother\n" },
    { "undo", POND "\nmore\n/undo\nanother\n", POND "\nanother\n" },
    { "regen_of_a_greedy_answer", POND "\n/regen\nanother\n", POND "\nanother\n" },
    { "system_message_changed_later", POND "\n/system s\n/undo\nanother\n", "/system s\nanother\n" },
};

static void same_last_answer(struct kg_record *rec, const void *arg) {
    const struct same_row *row = arg;
    /* Some of these prompts are none that the model was trained on: its answer would fill the context. */
    struct kg_process_result got = run_well(rec, ARGS(CHAT, "--json", "-n", "24"), row->lines),
                             want = run_well(rec, ARGS(CHAT, "--json", "-n", "24"), row->same_as);
    json_t *a = objects_of(got.out), *b = objects_of(want.out);
    const size_t last_a = json_array_size(a) - 1, last_b = json_array_size(b) - 1;
    ck_assert_str_eq(text_of(a, last_a, "answer"), text_of(b, last_b, "answer"));
    ck_assert_int_eq(number_of(a, last_a, "positions"), number_of(b, last_b, "positions"));
    json_decref(b);
    json_decref(a);
    kg_process_result_free(&want);
    kg_process_result_free(&got);
}

/* What a program's conversation ends with. */
static const struct refused_row {
    const char *name;
    const char *args[12];
    const char *lines, *err;
    int exit_code;
} REFUSED[] = {
    { "unknown_command", { CHAT }, "/rest\nnever asked\n", "unknown command '/rest', did you mean '/reset'?", 2 },
    { "command_without_its_file", { CHAT }, "/save\n", "/save needs a FILE", 2 },
    { "command_with_too_much", { CHAT }, "/reset all\n", "/reset takes no argument, not 'all'", 2 },
    { "nothing_to_regenerate", { CHAT }, "/regen\n", "there is no answer yet", 2 },
    { "nothing_to_undo", { CHAT }, "/undo\n", "there is no question yet", 2 },
    { "nul_in_a_line", { CHAT }, NULL, "NUL", 4 },
    { "no_utf8", { CHAT }, "a\xff\n", "byte 1", 4 },
    { "no_such_conversation", { CHAT, "--load", MISSING }, "", MISSING, 2 },
    { "conversation_that_is_none", { CHAT, "--load", TEXT_FILE }, "", "text: line 1", 4 },
    { "question_past_the_context",
      { CHAT, "-c", "40", "--ignore-eos" },
      POND "\nthen one more\n",
      "/reset begins anew",
      2 },
    { "context_past_the_models", { CHAT, "-c", "1025" }, "", "1024", 2 },
    { "date_of_a_format_without", { CHAT, "--date", "2026-01-01" }, "", "has no date", 2 },
    { "no_tokens", { CHAT, "-n", "0" }, "", "--max-tokens", 2 },
};

static void refused(struct kg_record *rec, const void *arg) {
    const struct refused_row *row = arg;
    const struct kg_process input = { .input = row->lines ? row->lines : "a\0b\n",
                                      .input_len = row->lines ? strlen(row->lines) : 4 };
    struct kg_process_result r = kg_run_kigo(rec, row->args, input);
    ck_assert_msg(r.exit_code == row->exit_code, "exit code %d: %s", r.exit_code, r.err);
    ck_assert_msg(strstr(r.err, row->err) != NULL, "%s", r.err);
    kg_process_result_free(&r);
}

/* An answer that fills the context is given, with what to do; as JSON it says so too. */
static void full_context_says_what_to_do(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = run_well(rec, ARGS(CHAT, "-c", "32", "--ignore-eos", "--json"), POND "\n");
    json_t *answers = objects_of(r.out);
    ck_assert_str_eq(text_of(answers, 0, "finish"), "context");
    ck_assert_int_eq(number_of(answers, 0, "positions"), 32);
    static const char *const SAID[] = {
        "context of 32 positions is full", "/undo", "/reset", "/save", "--ctx N", "up to 1024"
    };
    for (size_t i = 0; i < KG_COUNT_OF(SAID); i++) ck_assert_msg(strstr(r.err, SAID[i]) != NULL, "%s", r.err);
    json_decref(answers);
    kg_process_result_free(&r);
}

/* Each continuation is what one prompt of all the text before it gives. */
static void interactive_text_is_one_prompts(struct kg_record *rec, const void *arg) {
    (void)arg;
    struct kg_process_result r = run_well(
        rec, ARGS("generate", "-m", MODEL, "-i", "--json", "--temp", "0", "-n", "7", "--ignore-eos", "-p", "the old"),
        " frog\n\n");
    json_t *parts = objects_of(r.out);
    ck_assert_uint_eq(json_array_size(parts), 3);
    json_t *ids = json_array();
    for (size_t i = 0; i < 3; i++) {
        const json_t *part = json_array_get(parts, i), *prompt = json_object_get(part, "prompt_ids");
        for (size_t k = 0; k < json_array_size(ids); k++)
            ck_assert(json_equal(json_array_get(ids, k), json_array_get(prompt, k)));
        json_array_clear(ids);
        json_array_extend(ids, (json_t *)prompt);
        json_array_extend(ids, json_object_get(part, "ids"));
    }
    /* The last: no text was put behind, so the two are one continuation of 14 tokens. */
    char *text = kg_xasprintf("the old%s frog", text_of(parts, 0, "text"));
    ck_assert_str_eq(text_of(parts, 1, "prompt"), text);
    const struct kg_rig *rig = kg_rig_shared();
    struct kg_session *session = kg_rig_session(rig, 64);
    struct kg_generate_options options = { .sampler = KG_SAMPLER_DEFAULTS, .max_tokens = 14, .ignore_end = true };
    options.sampler.temperature = 0;
    const json_t *prompt = json_object_get(json_array_get(parts, 1), "prompt_ids");
    int32_t *prompt_ids = kg_xcalloc(json_array_size(prompt), sizeof *prompt_ids);
    for (size_t i = 0; i < json_array_size(prompt); i++)
        prompt_ids[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    struct kg_generate_result whole;
    struct kg_error err;
    kg_must(kg_generate(session, prompt_ids, json_array_size(prompt), &options, &whole, &err), &err);
    for (size_t i = 0; i < 14; i++)
        ck_assert_int_eq(json_integer_value(json_array_get(ids, json_array_size(prompt) + i)), whole.ids[i]);
    kg_generate_result_free(&whole);
    free(prompt_ids);
    kg_session_free(session);
    free(text);
    json_decref(ids);
    json_decref(parts);
    kg_process_result_free(&r);
}

/* kigo on a terminal, on the reference back end. */
static bool open_terminal(struct kg_terminal *terminal, struct kg_record *rec, const char *const *args) {
    const char *argv[24] = { kg_program_path() };
    size_t n = 1;
    for (; args[n - 1]; n++) argv[n] = strcmp(args[n - 1], MODEL) == 0 ? kg_fixture_path(KG_HAIKU_MODEL) : args[n - 1];
    ck_assert_uint_lt(n, KG_COUNT_OF(argv));
    return kg_terminal_open(terminal, rec, argv);
}

static void ctrl_c_stops_the_answer_only(struct kg_record *rec, const void *arg) {
    struct kg_terminal t;
    (void)arg;
    if (!open_terminal(&t, rec, ARGS(CHAT, "--ignore-eos", "--repeat-penalty", "1.1", "--backend", "cpu"))) return;
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, POND "\r");
    kg_terminal_expect(&t, "pond\r\n"); /* what was typed */
    kg_terminal_expect(&t, "\r\n");     /* the answer's first line: it is under way */
    kg_terminal_type(&t, "\x03");
    kg_terminal_expect(&t, "(stopped; what was written is part of the conversation)");
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "half a line\x03");
    kg_terminal_expect(&t, "Ctrl-D or /quit leaves");
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "/stats\r");
    kg_terminal_expect(&t, "of 1024 positions");
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "/nothing\r");
    kg_terminal_expect(&t, "unknown command '/nothing'");
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "\x04");
    ck_assert_int_eq(kg_terminal_close(&t), 0);
}

static void arrow_up_brings_the_line_back(struct kg_record *rec, const void *arg) {
    struct kg_terminal t;
    (void)arg;
#ifndef HAVE_LIBEDIT
    kg_record_skip(rec, "this kigo was built without libedit: no history of lines");
    return;
#endif
    if (!open_terminal(&t, rec, ARGS(CHAT, "-n", "3", "--backend", "cpu"))) return;
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "/system first\\\rsecond\r"); /* one message of two lines */
    kg_terminal_expect(&t, ". ");
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "/system\r");
    kg_terminal_expect(&t, "system: first second"); /* a line break is a blank where it is shown */
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "\x1b[A\r");
    kg_terminal_expect(&t, "system: first second");
    kg_terminal_expect(&t, "> ");
    kg_terminal_type(&t, "/quit\r");
    ck_assert_int_eq(kg_terminal_close(&t), 0);
}

/* A model whose tokens are all as likely: it writes every byte there is. */
static char *byte_model(struct kg_record *rec) {
    struct kg_tiny_model tiny = KG_TINY_QWEN2;
    const struct kg_tiny_edit flat = { .name = "output_norm.weight", .change = KG_TINY_TENSOR_FILL, .number = 0 };
    char *path = kg_path_join(kg_scratch_dir(rec), "bytes.gguf");
    tiny.n_ctx = 1024;
    kg_tiny_model_write(path, &tiny, &flat, 1);
    return path;
}

static void hostile_answer_is_shown(struct kg_record *rec, const void *arg) {
    struct kg_terminal t;
    (void)arg;
    char *model = byte_model(rec);
#define BYTES "chat", "-m", model, "--temp", "1", "--seed", "5", "--ignore-eos", "-n", "900", "--backend", "cpu"
    struct kg_process_result json = run_well(rec, ARGS(BYTES, "--json"), "x\n");
    json_t *answers = objects_of(json.out);
    const json_t *text = json_object_get(json_array_get(answers, 0), "text");
    ck_assert_msg(memchr(json_string_value(text), '\x1b', json_string_length(text)) != NULL,
                  "the model writes no ESC with this seed");
    ck_assert_ptr_null(strchr(json.out, '\x1b'));
    if (open_terminal(&t, rec, ARGS(BYTES))) {
        kg_terminal_expect(&t, "> ");
        kg_terminal_type(&t, "x\r");
        kg_terminal_expect(&t, "x\r\n");
        const size_t from = t.seen;
        kg_terminal_expect(&t, "(ended after 900 tokens");
        ck_assert_ptr_nonnull(memmem(t.screen.data + from, t.seen - from, "\\x1B", 4));
        ck_assert_ptr_null(memchr(t.screen.data + from, '\x1b', t.seen - from));
        kg_terminal_expect(&t, "> ");
        kg_terminal_type(&t, "\x04");
        ck_assert_int_eq(kg_terminal_close(&t), 0);
    }
    json_decref(answers);
    kg_process_result_free(&json);
    free(model);
}

/* A verb that waits for a person's text says what it waits for, and reads it to the end. */
static const struct waiting_row {
    const char *name;
    const char *args[10];
    const char *said, *typed, *answered;
} WAITING[] = {
    { "generate_waits_for_the_prompt",
      { "generate", "-m", MODEL, "-n", "1", "--backend", "cpu" },
      "the prompt, to its end",
      "the old\rpond\r\x04",
      "1 tokens" },
    { "tokenize_waits_for_text",
      { "tokenize", "-m", MODEL },
      "text, to the end",
      "the old pond\x04\x04",
      "417 958 1296" },
    { "decode_waits_for_ids", { "tokenize", "-m", MODEL, "--decode" }, "token ids", "417 958\r\x04", "the old" },
};

static void waits(struct kg_record *rec, const void *arg) {
    const struct waiting_row *row = arg;
    struct kg_terminal t;
    if (!open_terminal(&t, rec, row->args)) return;
    kg_terminal_expect(&t, row->said);
    kg_terminal_type(&t, row->typed);
    kg_terminal_expect(&t, row->answered);
    ck_assert_int_eq(kg_terminal_close(&t), 0);
}

static void build(struct kg_case_list *list) {
    static const struct kg_case CASES[] = {
        { .name = "pipe_gives_answers_alone", .run = pipe_gives_answers_alone },
        { .name = "json_counts_what_was_evaluated", .run = json_counts_what_was_evaluated },
        { .name = "json_repeats_the_question", .run = json_repeats_the_question },
        { .name = "saved_conversation_goes_on", .run = saved_conversation_goes_on },
        { .name = "save_replaces_nothing_foreign", .run = save_replaces_nothing_foreign },
        { .name = "loaded_conversation_is_saved_again", .run = loaded_conversation_is_saved_again },
        { .name = "full_context_says_what_to_do", .run = full_context_says_what_to_do },
        { .name = "interactive_text_is_one_prompts", .run = interactive_text_is_one_prompts },
        { .name = "ctrl_c_stops_the_answer_only", .run = ctrl_c_stops_the_answer_only },
        { .name = "arrow_up_brings_the_line_back", .run = arrow_up_brings_the_line_back },
        { .name = "hostile_answer_is_shown", .run = hostile_answer_is_shown },
    };
    struct kg_case c;
    for (size_t i = 0; i < KG_COUNT_OF(CASES); i++) {
        c = CASES[i];
        c.layer = "integration";
        c.op = "chat";
        kg_case_list_add(list, &c);
    }
    c = (struct kg_case){ .layer = "integration", .op = "chat" };
    for (size_t i = 0; i < KG_COUNT_OF(SAME); i++) {
        c.name = SAME[i].name, c.run = same_last_answer, c.arg = &SAME[i];
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(REFUSED); i++) {
        c.name = REFUSED[i].name, c.run = refused, c.arg = &REFUSED[i];
        kg_case_list_add(list, &c);
    }
    for (size_t i = 0; i < KG_COUNT_OF(WAITING); i++) {
        c.name = WAITING[i].name, c.run = waits, c.arg = &WAITING[i];
        kg_case_list_add(list, &c);
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
