/* `kigo chat`: what it was asked for and how far it is; shared by the verb, its answers and its commands. */
#ifndef KIGO_CLI_CHAT_H
#define KIGO_CLI_CHAT_H

#include "cli/ask_line.h"
#include "cli/engine.h"
#include "cli/sampling.h"
#include "engine/conversation.h"

/* Figures of the last answer. */
struct kg_cli_chat_stats {
    size_t n_prompt, n_held, n_ids;
    double prefill_ms, decode_ms, tokens_per_s;
};

struct kg_cli_chat {
    struct kg_cli_engine_options engine_options;
    struct kg_cli_sampling sampling;
    struct kg_chat_options chat_options;
    const char *system, *load;
    bool json;

    struct kg_cli_engine engine;
    struct kg_conversation conversation;
    struct kg_ask_line ask;
    struct kg_cli_chat_stats stats;
    uint64_t n_answers; /* each draws with a seed of its number */
    char *file;         /* saved or loaded last: it may be written again */
    bool leaves;
};

/* Asks, or with NULL asks the last question again, and prints the answer: as text while it is made, or as one line of
 * JSON. Ctrl-C ends the answer, not the conversation. */
KG_WARN_UNUSED enum kg_status kg_cli_chat_answer(struct kg_cli_chat *chat, const char *question, struct kg_error *err);

/* Runs a line that begins with '/'. KG_ERR_USAGE for an unknown command, with the one that may be meant. */
KG_WARN_UNUSED enum kg_status kg_cli_chat_command(struct kg_cli_chat *chat, const char *line, struct kg_error *err);

/* The messages in a file: {"messages": [{"role": ..., "content": ...}, ...]}, as programs that speak OpenAI's format
 * read and write them. A file that stands there is replaced only if it was saved or loaded by this conversation. */
KG_WARN_UNUSED enum kg_status kg_cli_chat_save(struct kg_cli_chat *chat, const char *path, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_cli_chat_load(struct kg_cli_chat *chat, const char *path, struct kg_error *err);

#endif
