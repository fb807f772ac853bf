/* What the verbs that generate share: how tokens are drawn, and where an answer ends. */
#ifndef KIGO_CLI_SAMPLING_H
#define KIGO_CLI_SAMPLING_H

#include "base/options.h"
#include <kigo/engine.h>
#include <kigo/tokenizer.h>

struct kg_cli_sampling {
    struct kg_sampler_options sampler;
    int64_t max_tokens, top_k, repeat_last_n;
    struct kg_option_list stop_texts;
    bool ignore_end;

    struct kg_ids *stop_ids; /* one a stop text */
    struct kg_stop_sequence *stops;
};

/* The defaults, with a new seed. */
struct kg_cli_sampling kg_cli_sampling_defaults(void);

/* Rows for a table of struct kg_option; the first is --max-tokens with its least value and help. --top-p and
 * --repeat-penalty must be above 0, which kg_sampler_check says. */
#define KG_CLI_SAMPLING_ROWS(o, least_tokens, tokens_help)                                                             \
    { "max-tokens", 'n', KG_OPTION_INT, &(o)->max_tokens, "N", tokens_help, least_tokens, KG_CLI_SAMPLING_MOST },      \
        { "seed", 's', KG_OPTION_UINT64, &(o)->sampler.seed, "N", "of the draws (a new one each time)", 0, 0 },        \
        { "temp",                                                                                                      \
          0,                                                                                                           \
          KG_OPTION_DOUBLE,                                                                                            \
          &(o)->sampler.temperature,                                                                                   \
          "X",                                                                                                         \
          "temperature, 0 takes the likeliest (0.7)",                                                                  \
          0,                                                                                                           \
          KG_CLI_SAMPLING_MOST },                                                                                      \
        { "top-k",                                                                                                     \
          0,                                                                                                           \
          KG_OPTION_INT,                                                                                               \
          &(o)->top_k,                                                                                                 \
          "N",                                                                                                         \
          "keep the N likeliest, "                                                                                     \
          "0 is off (0)",                                                                                              \
          0,                                                                                                           \
          KG_CLI_SAMPLING_MOST },                                                                                      \
        { "top-p", 0, KG_OPTION_DOUBLE, &(o)->sampler.top_p, "X", "keep the likeliest that make up X, 1 is off (1)",   \
          0,       0 },                                                                                                \
        { "min-p", 0, KG_OPTION_DOUBLE, &(o)->sampler.min_p, "X", "keep those X as likely as the best, 0 is off (0)",  \
          0,       1 },                                                                                                \
        { "repeat-penalty",                                                                                            \
          0,                                                                                                           \
          KG_OPTION_DOUBLE,                                                                                            \
          &(o)->sampler.repeat_penalty,                                                                                \
          "X",                                                                                                         \
          "against repeating, 1 is off (1)",                                                                           \
          0,                                                                                                           \
          0 },                                                                                                         \
        { "repeat-last-n",     0, KG_OPTION_INT, &(o)->repeat_last_n, "N", "tokens the penalty looks back (64)", 0,    \
          KG_CLI_SAMPLING_MOST },                                                                                      \
        { "stop",                                                                                                      \
          0,                                                                                                           \
          KG_OPTION_TEXTS,                                                                                             \
          &(o)->stop_texts,                                                                                            \
          "TEXT",                                                                                                      \
          "end before this text's tokens; "                                                                            \
          "may be repeated",                                                                                           \
          0,                                                                                                           \
          0 },                                                                                                         \
    {                                                                                                                  \
        "ignore-eos", 0, KG_OPTION_FLAG, &(o)->ignore_end, NULL, "go on past end tokens", 0, 0                         \
    }
#define KG_CLI_SAMPLING_MOST 2147483647

/* Takes over what the options said; KG_ERR_USAGE names the one that is out of range. */
KG_WARN_UNUSED enum kg_status kg_cli_sampling_check(struct kg_cli_sampling *sampling, struct kg_error *err);

/* Stop texts as ids: they are matched token by token. Once, after which kg_cli_sampling_options may be called. */
KG_WARN_UNUSED enum kg_status kg_cli_sampling_encode_stops(struct kg_cli_sampling *sampling,
                                                           const struct kg_tokenizer *tokenizer, struct kg_error *err);

/* Without callbacks. What it points at lives as long as sampling. */
struct kg_generate_options kg_cli_sampling_options(const struct kg_cli_sampling *sampling);

void kg_cli_sampling_free(struct kg_cli_sampling *sampling);

#endif
