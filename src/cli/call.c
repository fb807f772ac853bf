#include "base/options.h"
#include "cli/commands.h"
#include <stdlib.h>

bool kg_cli_parse(const struct kg_command *command, int argc, char **argv, const char **words, size_t n_words,
                  int *exit_code) {
    const char **args = NULL;
    size_t n_args = 0;
    bool helped;
    struct kg_error err;
    if (kg_options_parse(command, argc, argv, &args, &n_args, &helped, &err) != KG_OK) {
        *exit_code = kg_cli_error(argv[0], &err);
        return false;
    }
    for (size_t i = 0; i < n_words; i++) words[i] = i < n_args ? args[i] : NULL;
    free(args);
    *exit_code = KG_EXIT_OK;
    return !helped;
}
