/* kigo generate --interactive: a text that a person and the model write line by line. */
#include "base/buffer.h"
#include "base/say.h"
#include "cli/ask_line.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include "engine/prompt.h"
#include <stdlib.h>
#include <string.h>

static void append_text(struct kg_cli_generate *g, const char *text, size_t len) {
    char *longer = kg_xrealloc(g->prompt, g->prompt_len + len + 1);
    memcpy(longer + g->prompt_len, text, len);
    g->prompt = longer;
    g->prompt_len += len;
    longer[g->prompt_len] = '\0';
}

/* What was generated becomes the prompt's end; the next draws have another seed. */
static void take_in(struct kg_cli_generate *g) {
    for (size_t i = 0; i < g->result.n_ids; i++) kg_ids_push(&g->prompt_ids, g->result.ids[i]);
    append_text(g, g->result.text, g->result.text_len);
    kg_generate_result_free(&g->result);
    g->sampling.sampler.seed++;
}

/* The first text begins the sequence; the others go on inside it. */
static enum kg_status put_behind(struct kg_cli_generate *g, const char *text, size_t len, struct kg_error *err) {
    const struct kg_tokenizer *t = kg_model_tokenizer(g->engine.model);
    const enum kg_status status = g->prompt_ids.n == 0
                                      ? kg_prompt_encode_text(t, text, len, &g->prompt_ids, err)
                                      : kg_tokenizer_encode_inside(t, text, len, true, &g->prompt_ids, err);
    if (status) return kg_error_context(err, status, "prompt");
    append_text(g, text, len);
    return KG_OK;
}

/* Generates; *ended if the context is full. */
static enum kg_status go_on(struct kg_cli_generate *g, bool *ended, struct kg_error *err) {
    kg_cli_interrupt_take();
    const enum kg_status status = kg_cli_generate_once(g, err);
    if (status) return status;
    *ended = g->result.finish == KG_FINISH_CONTEXT;
    if (*ended)
        kg_say(stderr, "The context of %u positions is full; --ctx N gives more (the model: up to %u).\n",
               kg_session_n_ctx(g->engine.session), kg_model_config(g->engine.model)->n_ctx_train);
    take_in(g);
    return KG_OK;
}

static enum kg_status read_lines(struct kg_cli_generate *g, struct kg_ask_line *ask, struct kg_error *err) {
    bool ended = false;
    enum kg_status status = g->prompt_ids.n > 0 ? go_on(g, &ended, err) : KG_OK;
    while (!status && !ended) {
        enum kg_asked asked;
        status = kg_ask_line_next(ask, &asked, err);
        if (status || asked == KG_ASKED_END) break;
        if (asked == KG_ASKED_INTERRUPTED) {
            kg_cli_interrupt_take();
            kg_say(stderr, "\nCtrl-D leaves.\n");
            continue;
        }
        status = put_behind(g, kg_buffer_text(&ask->line), ask->line.len, err);
        if (!status && g->prompt_ids.n > 0) status = go_on(g, &ended, err);
    }
    if (ask->screen && !status && !ended) kg_say(ask->screen, "\n");
    return status;
}

enum kg_status kg_cli_generate_on(struct kg_cli_generate *g, struct kg_error *err) {
    struct kg_ask_line ask;
    kg_ask_line_open(&ask, g->json);
    if (ask.on_terminal) kg_cli_interrupt_catch();
    if (ask.screen)
        kg_say(ask.screen, "A line goes behind the text, which continues; an empty one continues it as it is, one that "
                           "ends with \\ goes on in the next. Ctrl-C stops, Ctrl-D leaves.\n");
    const enum kg_status status = read_lines(g, &ask, err);
    kg_ask_line_close(&ask);
    return status;
}
