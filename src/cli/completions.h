/* Completion scripts of shells, made from the verbs' own tables of options. */
#ifndef KIGO_CLI_COMPLETIONS_H
#define KIGO_CLI_COMPLETIONS_H

struct kg_cli_verb {
    const char *verb, *summary;
    int (*run)(int argc, char **argv);
};

/* Prints the script for "bash", "zsh" or "fish"; verbs end with a row without a name. Returns the exit code: usage for
 * another shell, which is said. */
int kg_cli_completions(const char *shell, const struct kg_cli_verb *verbs);

#endif
