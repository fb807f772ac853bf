/* What `kigo generate` was asked for and what came of it; shared by the verb and its JSON. */
#ifndef KIGO_CLI_GENERATE_H
#define KIGO_CLI_GENERATE_H

#include "cli/engine.h"
#include "cli/sampling.h"
#include "engine/prompt_cache.h"
#include <kigo/engine.h>
#include <kigo/tokenizer.h>

struct kg_cli_generate {
    struct kg_cli_engine_options engine_options;
    const char *prompt_text, *prompt_file, *system;
    struct kg_chat_options chat_options;
    bool chat, interactive, json;
    struct kg_cli_sampling sampling;

    struct kg_cli_engine engine;
    struct kg_prompt_cache cache;
    char *prompt; /* as the model sees it: rendered, if a chat; malloc'ed */
    size_t prompt_len;
    struct kg_ids prompt_ids;
    struct kg_generate_result result;
};

/* One object, as one line (malloc'ed); NULL if it cannot be made. */
char *kg_cli_generate_json(const struct kg_cli_generate *g);

/* Generates from the prompt and prints what comes of it. Of --interactive: Ctrl-C ends this, not the program. */
KG_WARN_UNUSED enum kg_status kg_cli_generate_once(struct kg_cli_generate *g, struct kg_error *err);

/* Of --interactive: lines of standard input, each put behind the text so far, which then goes on; to the end of input
 * or of the context. A prompt given before goes on first. */
KG_WARN_UNUSED enum kg_status kg_cli_generate_on(struct kg_cli_generate *g, struct kg_error *err);

/* A JSON integer where it fits one of 64 bits with sign, decimal text where not. */
struct json_t *kg_cli_json_u64(uint64_t value);

/* Decoded tokens a second: single-token steps over the time they took; 0 if there were none. */
double kg_cli_generate_speed(const struct kg_generate_result *result);

#endif
