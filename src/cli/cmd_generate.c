/* kigo generate: a prompt in, text out as it is decided. */
#include "base/quantity.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include "engine/prompt.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double kg_cli_generate_speed(const struct kg_generate_result *result) {
    return result->decode_ns > 0 ? (double)result->n_evals * 1e9 / (double)result->decode_ns : 0;
}

/* The text asked for: -p, or the file of -f, or standard input, of which one newline at the end is no part. */
static enum kg_status read_text(const struct kg_cli_generate *g, char **text, size_t *len, struct kg_error *err) {
    if (g->prompt_text && g->prompt_file) return kg_fail(err, KG_ERR_USAGE, "--prompt and --file exclude each other");
    if (g->prompt_text) {
        *text = kg_xstrdup(g->prompt_text);
        *len = strlen(*text);
        return KG_OK;
    }
    if (!g->prompt_file && isatty(STDIN_FILENO))
        kg_say(stderr, "the prompt, to its end (Ctrl-D at the start of a line); or -p TEXT, -f FILE\n");
    const enum kg_status status = kg_file_read(g->prompt_file ? g->prompt_file : "-", text, len, err);
    if (!status && *len > 0 && (*text)[*len - 1] == '\n') (*text)[--*len] = '\0';
    return status;
}

static enum kg_status make_prompt(struct kg_cli_generate *g, const struct kg_tokenizer *t, struct kg_error *err) {
    char *text = NULL;
    size_t len = 0;
    enum kg_status status = read_text(g, &text, &len, err);
    if (status) return status;
    if (!g->chat) {
        g->prompt = text;
        g->prompt_len = len;
        status = kg_prompt_encode_text(t, text, len, &g->prompt_ids, err);
        return status ? kg_error_context(err, status, "prompt") : KG_OK;
    }
    if (memchr(text, '\0', len)) {
        free(text);
        return kg_fail(err, KG_ERR_FORMAT, "prompt: a chat message cannot hold a NUL byte");
    }
    const struct kg_chat_message messages[] = { { "system", g->system }, { "user", text } };
    const size_t first = g->system ? 0 : 1;
    status =
        kg_prompt_encode_chat_with(t, messages + first, 2 - first, &g->chat_options, &g->prompt, &g->prompt_ids, err);
    if (!status) g->prompt_len = strlen(g->prompt);
    free(text);
    return status ? kg_error_context(err, status, "prompt") : KG_OK;
}

static bool print_text(void *user, const char *text, size_t len) {
    (void)user;
    return kg_out_exact(stdout, text, len) && fflush(stdout) == 0;
}

static bool is_cancelled(void *user) {
    (void)user;
    return kg_cli_interrupted();
}

static enum kg_status generate(struct kg_cli_generate *g, struct kg_error *err) {
    struct kg_generate_options options = kg_cli_sampling_options(&g->sampling);
    if (!g->json) options.on_text = print_text;
    if (g->interactive) options.is_cancelled = is_cancelled;
    const enum kg_status status =
        kg_prompt_cache_generate(&g->cache, g->prompt_ids.ids, g->prompt_ids.n, &options, &g->result, err);
    if (!status && g->result.finish == KG_FINISH_CANCELLED && !kg_cli_interrupt_take())
        return kg_fail(err, KG_ERR_IO, "standard output: %s", strerror(errno));
    return status;
}

/* The JSON, which holds the text; or the end of the streamed text's line, and the figures on standard error. */
static enum kg_status report(const struct kg_cli_generate *g, struct kg_error *err) {
    const struct kg_generate_result *r = &g->result;
    if (!g->json && (r->text_len == 0 || r->text[r->text_len - 1] != '\n')) kg_say(stdout, "\n");
    if (g->json) {
        char *line = kg_cli_generate_json(g);
        if (!line) return kg_fail(err, KG_ERR_INTERNAL, "cannot write the result as JSON");
        kg_out_put(stdout, line, strlen(line));
        kg_say(stdout, "\n");
        free(line);
    }
    if (ferror(stdout) || fflush(stdout) != 0) return kg_fail(err, KG_ERR_IO, "standard output: %s", strerror(errno));
    if (g->json || g->interactive) return KG_OK;
    struct kg_memory_use use;
    kg_backend_memory(g->engine.backend, &use);
    kg_say(stderr, "%zu tokens (%s), seed %" PRIu64 ", first after %s, then %.1f tokens/s, peak memory %s (%s)\n",
           r->n_ids, kg_finish_name(r->finish), g->sampling.sampler.seed,
           kg_quantity_time((double)r->first_token_ns).text, kg_cli_generate_speed(r),
           kg_quantity_bytes((double)use.total_peak_bytes).text, kg_backend_name(g->engine.backend));
    return KG_OK;
}

enum kg_status kg_cli_generate_once(struct kg_cli_generate *g, struct kg_error *err) {
    const enum kg_status status = generate(g, err);
    return status ? status : report(g, err);
}

static enum kg_status check_chat(const struct kg_cli_generate *g, struct kg_error *err) {
    const char *name = g->system                   ? "--system"
                       : g->chat_options.date      ? "--date"
                       : g->chat_options.reasoning ? "--reasoning"
                                                   : NULL;
    if (g->chat && g->interactive)
        return kg_fail(err, KG_ERR_USAGE, "--interactive continues a text; 'kigo chat' is for conversations");
    return g->chat || !name ? KG_OK : kg_fail(err, KG_ERR_USAGE, "%s needs --chat", name);
}

static enum kg_status run(struct kg_cli_generate *g, struct kg_error *err) {
    const struct kg_tokenizer *t;
    const bool has_prompt = !g->interactive || g->prompt_text || g->prompt_file;
    enum kg_status status = kg_cli_sampling_check(&g->sampling, err);
    if (!status) status = check_chat(g, err);
    if (!status) status = kg_cli_engine_open(&g->engine_options, &g->engine, err);
    if (!status) status = kg_model_require_tokenizer(g->engine.model, &t, err);
    if (!status && has_prompt) status = make_prompt(g, t, err);
    if (!status) status = kg_cli_sampling_encode_stops(&g->sampling, t, err);
    const uint64_t n_needed = g->interactive ? KG_CLI_TALK_CTX : g->prompt_ids.n + (uint64_t)g->sampling.max_tokens;
    if (!status) status = kg_cli_engine_begin(&g->engine, &g->engine_options, n_needed, err);
    if (status) return status;
    g->cache.session = g->engine.session;
    return g->interactive ? kg_cli_generate_on(g, err) : kg_cli_generate_once(g, err);
}

int kg_cmd_generate(int argc, char **argv) {
    struct kg_cli_generate g = { .engine_options = KG_CLI_ENGINE_DEFAULTS, .sampling = kg_cli_sampling_defaults() };
    g.sampling.max_tokens = 128;
    const struct kg_option rows[] = {
        KG_CLI_ENGINE_ROWS(&g.engine_options),
        { "prompt", 'p', KG_OPTION_TEXT, &g.prompt_text, "TEXT", "the prompt (standard input)", 0, 0 },
        { "file", 'f', KG_OPTION_TEXT, &g.prompt_file, "FILE", "read the prompt from a file", 0, 0 },
        { "chat", 0, KG_OPTION_FLAG, &g.chat, NULL, "the prompt is a user's message in the model's chat format", 0, 0 },
        { "system", 0, KG_OPTION_TEXT, &g.system, "TEXT", "the system's message before it (none)", 0, 0 },
        { "date", 0, KG_OPTION_TEXT, &g.chat_options.date, "DATE", "harmony's current date, YYYY-MM-DD (today)", 0, 0 },
        { "reasoning", 0, KG_OPTION_TEXT, &g.chat_options.reasoning, "EFFORT",
          "harmony's reasoning effort: low, medium or high (medium)", 0, 0 },
        KG_CLI_SAMPLING_ROWS(&g.sampling, 0, "tokens to generate at most (128)"),
        { "interactive", 'i', KG_OPTION_FLAG, &g.interactive, NULL,
          "then each line goes behind the text, which continues", 0, 0 },
        { "json", 0, KG_OPTION_FLAG, &g.json, NULL, "print one JSON object at the end, the text in it", 0, 0 },
    };
    const struct kg_command command = {
        .name = "kigo generate",
        .usage = "-m FILE [-p TEXT | -f FILE] [-i] [options]",
        .summary = "Continue a prompt, or answer it with --chat. Text streams to standard output; tokens/s and peak\n"
                   "memory go to standard error. Special tokens written in a prompt become their ids; in a chat's\n"
                   "message they stay text. The beginning-of-sequence token is added if the model asks for it.\n"
                   "One newline at the end of a file or of standard input is not part of the prompt. Of an answer in\n"
                   "harmony's channels, the final message alone comes as it is; with others before it each is headed,\n"
                   "[analysis] and [final], and --json gives the final one as \"answer\" too.",
        .options = rows,
        .n_options = KG_COUNT_OF(rows),
    };
    struct kg_error err;
    int exit_code;
    if (kg_cli_parse(&command, argc, argv, NULL, 0, &exit_code) && run(&g, &err))
        exit_code = kg_cli_error("generate", &err);
    kg_generate_result_free(&g.result);
    kg_prompt_cache_free(&g.cache);
    kg_ids_free(&g.prompt_ids);
    free(g.prompt);
    kg_cli_engine_close(&g.engine);
    kg_cli_sampling_free(&g.sampling);
    return exit_code;
}
