/* Command-line options from a table: parsing, validation and --help use the same rows.
 *
 * Options are `--name VALUE` or `--name=VALUE`, with an optional one-letter alias; `--` ends them. An option that may
 * be repeated collects into a list. Everything else is a positional argument. An unknown option, a missing value, and a
 * value that does not parse or lies outside [min, max] are KG_ERR_USAGE with a message that names option and value. */
#ifndef KIGO_BASE_OPTIONS_H
#define KIGO_BASE_OPTIONS_H

#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum kg_option_kind {
    KG_OPTION_FLAG,   /* bool */
    KG_OPTION_TEXT,   /* const char * */
    KG_OPTION_TEXTS,  /* struct kg_option_list, may be repeated */
    KG_OPTION_INT,    /* int64_t */
    KG_OPTION_UINT64, /* uint64_t, decimal or 0x */
    KG_OPTION_DOUBLE, /* double, finite */
};

struct kg_option_list {
    const char **items; /* malloc'ed array of pointers into argv */
    size_t n_items;
};

struct kg_option {
    const char *name; /* long name without dashes */
    char letter;      /* one-letter alias or 0 */
    enum kg_option_kind kind;
    void *value;         /* points at a variable of the kind's type; unchanged if the option is absent */
    const char *metavar; /* for --help; NULL for a flag */
    const char *help;
    double min, max; /* for INT and DOUBLE; both 0: no limits */
};

struct kg_command {
    const char *name;    /* "kigo inspect" */
    const char *usage;   /* what follows the name on the usage line */
    const char *summary; /* for --help: a sentence, and more lines if needed */
    const struct kg_option *options;
    size_t n_options;
    size_t min_args, max_args; /* positional arguments allowed */
};

/* Parses argv[1..]. *args holds the *n_args positional arguments: the caller frees the array, the strings belong to
 * argv. `--help` prints help to standard output and sets *helped; the caller then exits with code 0. */
KG_WARN_UNUSED enum kg_status kg_options_parse(const struct kg_command *command, int argc, char **argv,
                                               const char ***args, size_t *n_args, bool *helped, struct kg_error *err);

void kg_options_help(const struct kg_command *command, FILE *out);

/* Parses the whole text as a number. KG_ERR_USAGE naming the text if it is not one, or does not fit the type. */
KG_WARN_UNUSED enum kg_status kg_parse_i64(const char *text, int64_t *out, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_parse_u64(const char *text, uint64_t *out, struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_parse_double(const char *text, double *out, struct kg_error *err);

#endif
