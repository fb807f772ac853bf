/* The lines of a conversation that are no messages. */
#include "base/quantity.h"
#include "base/nearest.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/chat.h"
#include <inttypes.h>
#include <string.h>

typedef enum kg_status (*command_fn)(struct kg_cli_chat *chat, const char *arg, struct kg_error *err);

struct command {
    const char *name, *arg; /* arg: as help shows it, in brackets if it may be left out; NULL for none */
    const char *help;
    command_fn run;
};

static enum kg_status help(struct kg_cli_chat *chat, const char *arg, struct kg_error *err);

static enum kg_status reset(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    (void)arg, (void)err;
    kg_conversation_reset(&chat->conversation);
    chat->stats = (struct kg_cli_chat_stats){ 0 };
    kg_say(stderr, "a new conversation%s\n",
           kg_conversation_system(&chat->conversation) ? "; the system's message stands" : "");
    return KG_OK;
}

static enum kg_status set_system(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    if (*arg) return kg_conversation_set_system(&chat->conversation, arg, err);
    const char *system = kg_conversation_system(&chat->conversation);
    kg_say(stderr, system ? "system: %s\n" : "no system message%s\n", system ? system : "");
    return KG_OK;
}

static enum kg_status save(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    const enum kg_status status = kg_cli_chat_save(chat, arg, err);
    if (!status) kg_say(stderr, "%zu messages in %s\n", chat->conversation.n_messages, arg);
    return status;
}

static enum kg_status load(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    const enum kg_status status = kg_cli_chat_load(chat, arg, err);
    if (!status) kg_say(stderr, "%zu messages of %s\n", chat->conversation.n_messages, arg);
    return status;
}

static enum kg_status regen(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    (void)arg;
    return kg_cli_chat_answer(chat, NULL, err);
}

static enum kg_status undo(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    (void)arg;
    if (!kg_conversation_take_back(&chat->conversation)) return kg_fail(err, KG_ERR_USAGE, "there is no question yet");
    kg_say(stderr, "the last question and its answer are out of the conversation\n");
    return KG_OK;
}

static enum kg_status stats(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    const struct kg_cli_chat_stats *s = &chat->stats;
    struct kg_memory_use use;
    (void)arg, (void)err;
    kg_backend_memory(chat->engine.backend, &use);
    kg_say(stderr, "context      %u of %u positions\n", kg_session_n_past(chat->engine.session),
           kg_session_n_ctx(chat->engine.session));
    kg_say(stderr, "last prompt  %zu tokens: %zu held from before, %zu evaluated in %s\n", s->n_prompt, s->n_held,
           s->n_prompt - s->n_held, kg_quantity_time(1e6 * s->prefill_ms).text);
    kg_say(stderr, "last answer  %zu tokens in %s, %.1f tokens/s\n", s->n_ids,
           kg_quantity_time(1e6 * s->decode_ms).text, s->tokens_per_s);
    kg_say(stderr, "memory       %s at most (%s), %s of it the KV cache\n",
           kg_quantity_bytes((double)use.total_peak_bytes).text, kg_backend_name(chat->engine.backend),
           kg_quantity_bytes((double)use.peak_bytes[KG_MEMORY_KV]).text);
    return KG_OK;
}

static enum kg_status quit(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    (void)arg, (void)err;
    chat->leaves = true;
    return KG_OK;
}

static const struct command COMMANDS[] = {
    { "help", NULL, "this list", help },
    { "reset", NULL, "begin a new conversation", reset },
    { "system", "[TEXT]", "show or set the system's message", set_system },
    { "save", "FILE", "write the conversation as JSON", save },
    { "load", "FILE", "go on with a conversation that was saved", load },
    { "regen", NULL, "answer the last question again, with other draws", regen },
    { "undo", NULL, "take the last question and its answer back", undo },
    { "stats", NULL, "tokens, times and memory", stats },
    { "quit", NULL, "leave, as Ctrl-D does", quit },
};

static enum kg_status help(struct kg_cli_chat *chat, const char *arg, struct kg_error *err) {
    (void)chat, (void)arg, (void)err;
    for (size_t i = 0; i < KG_COUNT_OF(COMMANDS); i++)
        kg_say(stderr, "/%-7s%-8s%s\n", COMMANDS[i].name, COMMANDS[i].arg ? COMMANDS[i].arg : "", COMMANDS[i].help);
    kg_say(stderr, "//...          a message that begins with one /\n"
                   "...\\           the message goes on in the next line\n"
                   "Ctrl-C         stops an answer\n");
    return KG_OK;
}

static enum kg_status refuse(const char *name, size_t len, struct kg_error *err) {
    struct kg_nearest nearest = { .word = name, .len = len };
    char meant[KG_NEAREST_TEXT_SIZE];
    for (size_t i = 0; i < KG_COUNT_OF(COMMANDS); i++) kg_nearest_try(&nearest, COMMANDS[i].name);
    kg_nearest_text(&nearest, "/", meant);
    return kg_fail(err, KG_ERR_USAGE, "unknown command '/%.*s'%s; /help lists them, // begins a message with /",
                   (int)len, name, meant);
}

enum kg_status kg_cli_chat_command(struct kg_cli_chat *chat, const char *line, struct kg_error *err) {
    const char *name = line + 1;
    const size_t len = strcspn(name, " \t\n");
    const char *arg = name + len + strspn(name + len, " \t\n");
    for (size_t i = 0; i < KG_COUNT_OF(COMMANDS); i++) {
        const struct command *c = &COMMANDS[i];
        if (strlen(c->name) != len || memcmp(c->name, name, len) != 0) continue;
        if (*arg && !c->arg) return kg_fail(err, KG_ERR_USAGE, "/%s takes no argument, not '%s'", c->name, arg);
        if (!*arg && c->arg && *c->arg != '[') return kg_fail(err, KG_ERR_USAGE, "/%s needs a %s", c->name, c->arg);
        return c->run(chat, arg, err);
    }
    return refuse(name, len, err);
}
