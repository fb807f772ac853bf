#include "base/options.h"
#include "base/tty.h"
#include "cli/asked.h"
#include "cli/commands.h"
#include <stdlib.h>

/* Asks for the commands instead of running them. */
static void (*asks)(void *user, const struct kg_command *command);
static void *asks_user;

void kg_cli_ask_commands(void (*take)(void *user, const struct kg_command *command), void *user) {
    asks = take;
    asks_user = user;
}

const char *kg_cli_color;

bool kg_cli_parse(const struct kg_command *command, int argc, char **argv, const char **args, size_t n_args,
                  int *exit_code) {
    const char **all = NULL;
    size_t n_all = 0;
    bool helped;
    struct kg_error err;
    *exit_code = KG_EXIT_OK;
    if (asks) {
        asks(asks_user, command);
        return false;
    }
    enum kg_status status = kg_options_parse(command, argc, argv, &all, &n_all, &helped, &err);
    if (status == KG_OK && !helped) status = kg_cli_asked_check(command, argv, &err);
    if (status != KG_OK) {
        free(all);
        *exit_code = kg_cli_error(argv[0], &err);
        return false;
    }
    for (size_t i = 0; i < n_args; i++) args[i] = i < n_all ? all[i] : NULL;
    free(all);
    if (kg_cli_color && !kg_colours_choose(kg_cli_color)) {
        kg_fail(&err, KG_ERR_USAGE, "--color: '%s' is none of auto, always and never", kg_cli_color);
        *exit_code = kg_cli_error(argv[0], &err);
        return false;
    }
    return !helped;
}
