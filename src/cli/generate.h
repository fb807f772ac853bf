/* What `kigo generate` was asked for and what came of it; shared by the verb and its JSON. */
#ifndef KIGO_CLI_GENERATE_H
#define KIGO_CLI_GENERATE_H

#include "base/options.h"
#include "cli/engine.h"
#include <kigo/engine.h>
#include <kigo/tokenizer.h>

struct kg_cli_generate {
    struct kg_cli_engine_options engine_options;
    const char *prompt_text, *prompt_file, *system;
    struct kg_chat_options chat_options;
    bool chat, ignore_end, json;
    int64_t max_tokens, top_k, repeat_last_n;
    struct kg_sampler_options sampler;
    struct kg_option_list stop_texts;

    struct kg_cli_engine engine;
    char *prompt; /* as the model sees it: rendered, if a chat */
    size_t prompt_len;
    struct kg_ids prompt_ids;
    struct kg_generate_result result;
};

/* One object, as one line (malloc'ed); NULL if it cannot be made. */
char *kg_cli_generate_json(const struct kg_cli_generate *g);

/* Decoded tokens a second: single-token steps over the time they took; 0 if there were none. */
double kg_cli_generate_speed(const struct kg_generate_result *result);

#endif
