/* What the verbs that run suites share (check, bench). */
#ifndef KIGO_CLI_SUITE_RUN_H
#define KIGO_CLI_SUITE_RUN_H

#include "base/options.h"
#include "run/runner.h"
#include <jansson.h>

/* Rows of struct kg_option that both have, so that they read and mean the same. */
#define KG_FILTERS_OPTION(variable)                                                                                    \
    {                                                                                                                  \
        .name = "filter", .letter = 'f', .kind = KG_OPTION_TEXTS, .value = (variable), .metavar = "GLOB",              \
        .help = "run cases whose key matches; * also crosses /"                                                        \
    }
#define KG_CASES_OPTION(variable)                                                                                      \
    {                                                                                                                  \
        .name = "case", .letter = 'c', .kind = KG_OPTION_TEXTS, .value = (variable), .metavar = "KEY",                 \
        .help = "run the case of this very key"                                                                        \
    }
#define KG_SEED_OPTION(variable)                                                                                       \
    {                                                                                                                  \
        .name = "seed", .letter = 's', .kind = KG_OPTION_UINT64, .value = (variable), .metavar = "S",                  \
        .help = "the run's seed (1)"                                                                                   \
    }
#define KG_SUITES_OPTION(variable)                                                                                     \
    {                                                                                                                  \
        .name = "suites", .kind = KG_OPTION_TEXT, .value = (variable), .metavar = "DIR",                               \
        .help = "where the programs are ($KIGO_SUITES or kigo's own)"                                                  \
    }
#define KG_COMPRESS_OPTION(variable)                                                                                   \
    {                                                                                                                  \
        .name = "compress", .kind = KG_OPTION_FLAG, .value = (variable),                                               \
        .help = "seal large files of the bundle as .zst (for bundles that are committed or sent)"                      \
    }
#define KG_LIST_OPTION(variable)                                                                                       \
    {                                                                                                                  \
        .name = "list", .kind = KG_OPTION_FLAG, .value = (variable),                                                   \
        .help = "print the keys that would run, run nothing"                                                           \
    }
#define KG_JSON_OPTION(variable)                                                                                       \
    { .name = "json", .kind = KG_OPTION_FLAG, .value = (variable), .help = "print one JSON object at the end" }
#define KG_QUIET_OPTION(variable)                                                                                      \
    {                                                                                                                  \
        .name = "quiet", .letter = 'q', .kind = KG_OPTION_FLAG, .value = (variable),                                   \
        .help = "print failures and the last line only"                                                                \
    }

/* Prints what would run, a key a line or a JSON object a line; on standard error programs that cannot be listed. */
KG_WARN_UNUSED enum kg_status kg_cli_print_plan(const char *verb, const struct kg_run_options *options, bool json,
                                                struct kg_error *err);

/* Whether a case of a run calls this kigo, of the run's build: what the tree holds by now is not its matter. */
bool kg_cli_inside_run(void);

/* Where suite programs are: the folder given, or $KIGO_SUITES, or this kigo's own (bundle/places.h). malloc'ed. */
char *kg_cli_suites_dir(const char *given);

/* Absolute paths of the models, separated by newlines (malloc'ed), NULL if there are none. KG_ERR_NOT_FOUND naming the
 * file that is not there. */
KG_WARN_UNUSED enum kg_status kg_cli_model_paths(const struct kg_option_list *models, char **paths,
                                                 struct kg_error *err);

json_t *kg_cli_texts_json(const struct kg_option_list *list);

#endif
