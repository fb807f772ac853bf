/* kigo chat: questions in, answers out, in one conversation. */
#include "base/say.h"
#include "base/size.h"
#include "cli/chat.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum kg_status begin(struct kg_cli_chat *chat, struct kg_error *err) {
    struct kg_conversation *c = &chat->conversation;
    enum kg_status status = kg_cli_sampling_check(&chat->sampling, err);
    if (!status) status = kg_cli_engine_open(&chat->engine_options, &chat->engine, err);
    if (!status) status = kg_model_require_tokenizer(chat->engine.model, &c->tokenizer, err);
    if (!status) status = kg_cli_sampling_encode_stops(&chat->sampling, c->tokenizer, err);
    if (!status) status = kg_cli_engine_begin(&chat->engine, &chat->engine_options, KG_CLI_TALK_CTX, err);
    if (status) return status;
    c->cache.session = chat->engine.session;
    c->options = chat->chat_options;
    if (chat->sampling.max_tokens == 0) chat->sampling.max_tokens = kg_session_n_ctx(chat->engine.session);
    /* Says before the first question what the model's chat format lacks. */
    status = kg_conversation_set_system(c, chat->system, err);
    return status || !chat->load ? status : kg_cli_chat_load(chat, chat->load, err);
}

static void greet(const struct kg_cli_chat *chat) {
    if (!chat->ask.screen) return;
    kg_say(chat->ask.screen,
           "%s, %s format, %u positions, %s. /help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.\n",
           kg_model_config(chat->engine.model)->name, kg_chat_format_name(chat->conversation.tokenizer),
           kg_session_n_ctx(chat->engine.session), kg_backend_name(chat->engine.backend));
}

/* A line is a command, a message, or nothing. */
static enum kg_status take_line(struct kg_cli_chat *chat, const char *line, struct kg_error *err) {
    if (!line[strspn(line, " \t\r\n")]) return KG_OK;
    if (line[0] == '/' && line[1] != '/') return kg_cli_chat_command(chat, line, err);
    return kg_cli_chat_answer(chat, line + (line[0] == '/'), err);
}

/* After an error a person goes on; a program's conversation ends. */
static enum kg_status talk(struct kg_cli_chat *chat, struct kg_error *err) {
    while (!chat->leaves) {
        enum kg_asked asked;
        enum kg_status status = kg_ask_line_next(&chat->ask, &asked, err);
        if (status) return status;
        if (asked == KG_ASKED_END && chat->ask.screen) kg_say(chat->ask.screen, "\n");
        if (asked == KG_ASKED_END) break;
        if (asked == KG_ASKED_INTERRUPTED) {
            kg_cli_interrupt_take();
            kg_say(stderr, "\nCtrl-D or /quit leaves.\n");
            continue;
        }
        status = take_line(chat, kg_buffer_text(&chat->ask.line), err);
        if (status && (!chat->ask.on_terminal || ferror(stdout))) return status;
        if (status) kg_say(stderr, "%s\n", err->message);
    }
    return KG_OK;
}

static enum kg_status run(struct kg_cli_chat *chat, struct kg_error *err) {
    const enum kg_status status = begin(chat, err);
    if (status) return status;
    kg_ask_line_open(&chat->ask, chat->json);
    if (chat->ask.on_terminal) kg_cli_interrupt_catch();
    greet(chat);
    return talk(chat, err);
}

int kg_cmd_chat(int argc, char **argv) {
    struct kg_cli_chat chat = { .engine_options = KG_CLI_ENGINE_DEFAULTS, .sampling = kg_cli_sampling_defaults() };
    const struct kg_option rows[] = {
        KG_CLI_ENGINE_ROWS(&chat.engine_options),
        { "system", 0, KG_OPTION_TEXT, &chat.system, "TEXT", "the system's message (none)", 0, 0 },
        { "load", 0, KG_OPTION_TEXT, &chat.load, "FILE", "go on with a conversation that /save wrote", 0, 0 },
        { "date", 0, KG_OPTION_TEXT, &chat.chat_options.date, "DATE", "harmony's current date, YYYY-MM-DD (today)", 0,
          0 },
        { "reasoning", 0, KG_OPTION_TEXT, &chat.chat_options.reasoning, "EFFORT",
          "harmony's reasoning effort: low, medium or high (medium)", 0, 0 },
        KG_CLI_SAMPLING_ROWS(&chat.sampling, 1, "tokens of an answer at most (what the context holds)"),
        { "json", 0, KG_OPTION_FLAG, &chat.json, NULL, "a JSON object a line for each answer, nothing else", 0, 0 },
    };
    const struct kg_command command = {
        .name = "kigo chat",
        .usage = "-m FILE [options]",
        .summary = "A conversation in the model's chat format. What the KV cache holds of it is not computed again.\n"
                   "A line is a message, or a command: /help lists them. Ctrl-C stops an answer, Ctrl-D leaves.\n"
                   "From a pipe or a file each line is a message, and the answers alone are printed.",
        .options = rows,
        .n_options = KG_COUNT_OF(rows),
    };
    struct kg_error err;
    int exit_code;
    if (kg_cli_parse(&command, argc, argv, NULL, 0, &exit_code) && run(&chat, &err))
        exit_code = kg_cli_error("chat", &err);
    kg_ask_line_close(&chat.ask);
    kg_conversation_free(&chat.conversation);
    kg_cli_sampling_free(&chat.sampling);
    kg_cli_engine_close(&chat.engine);
    free(chat.file);
    return exit_code;
}
