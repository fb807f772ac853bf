#include "cli/completions.h"
#include "base/buffer.h"
#include "base/options.h"
#include "base/say.h"
#include "base/size.h"
#include "cli/commands.h"
#include <stdlib.h>
#include <string.h>

/* What an option's value is, by its metavar. */
enum value_kind { NO_VALUE, FILE_VALUE, FOLDER_VALUE, OTHER_VALUE };

static enum value_kind value_of(const struct kg_option *option) {
    if (option->kind == KG_OPTION_FLAG) return NO_VALUE;
    if (strcmp(option->metavar, "FILE") == 0) return FILE_VALUE;
    return strcmp(option->metavar, "DIR") == 0 ? FOLDER_VALUE : OTHER_VALUE;
}

/* Text between single quotes of the shell, each of `escaped` behind a backslash. */
static void put_quoted(struct kg_buffer *out, const char *text, const char *escaped, const char *quote) {
    for (; *text; text++) {
        if (*text == '\'') kg_buffer_puts(out, quote);
        else kg_buffer_printf(out, "%s%c", strchr(escaped, *text) ? "\\" : "", *text);
    }
}

static void put_names(struct kg_buffer *out, const struct kg_option *option, const char *between) {
    kg_buffer_printf(out, "--%s", option->name);
    if (option->letter) kg_buffer_printf(out, "%s-%c", between, option->letter);
}

static void bash_verbs(struct kg_buffer *out, const struct kg_cli_verb *verbs) {
    kg_buffer_puts(out,
                   "# bash completion of kigo; made by `kigo help --completions bash`\n"
                   "_kigo() {\n"
                   "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options= value=\n"
                   "    local verbs='help");
    for (; verbs->verb; verbs++) kg_buffer_printf(out, " %s", verbs->verb);
    kg_buffer_puts(out, "'\n"
                        "    COMPREPLY=()\n"
                        "    if [ \"$COMP_CWORD\" -eq 1 ] || [ \"${COMP_WORDS[1]}\" = help ]; then\n"
                        "        COMPREPLY=($(compgen -W \"$verbs --help --version\" -- \"$word\"))\n"
                        "        return\n"
                        "    fi\n"
                        "    case ${COMP_WORDS[1]} in\n");
}

static void bash_options(struct kg_buffer *out, const struct kg_cli_verb *verb, const struct kg_command *command) {
    static const char *const VALUES[] = { [FILE_VALUE] = "file", [FOLDER_VALUE] = "folder", [OTHER_VALUE] = "other" };
    kg_buffer_printf(out, "    %s)\n        options='--help", verb->verb);
    for (size_t i = 0; i < command->n_options; i++) {
        kg_buffer_puts(out, " ");
        put_names(out, &command->options[i], " ");
    }
    kg_buffer_puts(out, "'\n        case $before in\n");
    for (size_t i = 0; i < command->n_options; i++) {
        const enum value_kind kind = value_of(&command->options[i]);
        if (kind == NO_VALUE) continue;
        kg_buffer_puts(out, "        ");
        put_names(out, &command->options[i], " | ");
        kg_buffer_printf(out, ") value=%s ;;\n", VALUES[kind]);
    }
    kg_buffer_puts(out, "        esac\n        ;;\n");
}

static void bash_end(struct kg_buffer *out) {
    kg_buffer_puts(out, "    esac\n"
                        "    case $value,$word in\n"
                        "    other,*) ;;\n"
                        "    folder,*) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;\n"
                        "    ,-*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                        "    *) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
                        "    esac\n"
                        "} 2>/dev/null\n"
                        "complete -F _kigo kigo\n");
}

static void zsh_verbs(struct kg_buffer *out, const struct kg_cli_verb *verbs) {
    kg_buffer_puts(out, "#compdef kigo\n"
                        "# zsh completion of kigo; made by `kigo help --completions zsh`\n"
                        "_kigo() {\n"
                        "    local -a verbs=(\n"
                        "        'help:list the commands, or the options of one'\n");
    for (; verbs->verb; verbs++) {
        kg_buffer_printf(out, "        '%s:", verbs->verb);
        put_quoted(out, verbs->summary, "\\:", "'\\''");
        kg_buffer_puts(out, "'\n");
    }
    kg_buffer_puts(out, "    )\n"
                        "    if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then\n"
                        "        _describe command verbs\n"
                        "        return\n"
                        "    fi\n"
                        "    local verb=$words[2]\n"
                        "    shift words\n"
                        "    (( CURRENT-- ))\n"
                        "    case $verb in\n");
}

static void zsh_options(struct kg_buffer *out, const struct kg_cli_verb *verb, const struct kg_command *command) {
    static const char *const VALUES[] = {
        [FILE_VALUE] = ":file:_files", [FOLDER_VALUE] = ":folder:_files -/", [OTHER_VALUE] = ":value: "
    };
    kg_buffer_printf(out, "    %s) _arguments -s '(-h --help)'{-h,--help}'[show this help]'", verb->verb);
    for (size_t i = 0; i < command->n_options; i++) {
        const struct kg_option *option = &command->options[i];
        const enum value_kind kind = value_of(option);
        const bool repeats = option->kind == KG_OPTION_TEXTS;
        kg_buffer_puts(out, " \\\n        '");
        if (repeats) kg_buffer_puts(out, "*");
        else if (option->letter) kg_buffer_printf(out, "(-%c --%s)", option->letter, option->name);
        if (option->letter) kg_buffer_printf(out, "'{-%c,--%s}'[", option->letter, option->name);
        else kg_buffer_printf(out, "--%s[", option->name);
        put_quoted(out, option->help, "\\[]:", "'\\''");
        kg_buffer_printf(out, "]%s'", kind == NO_VALUE ? "" : VALUES[kind]);
    }
    kg_buffer_puts(out, " \\\n        '*:file:_files' ;;\n");
}

static void zsh_end(struct kg_buffer *out) {
    kg_buffer_puts(out, "    esac\n"
                        "}\n"
                        "if [[ $funcstack[1] == _kigo ]]; then _kigo \"$@\"; else compdef _kigo kigo; fi\n");
}

static void fish_verbs(struct kg_buffer *out, const struct kg_cli_verb *verbs) {
    kg_buffer_puts(out, "# fish completion of kigo; made by `kigo help --completions fish`\n"
                        "complete -c kigo -n __fish_use_subcommand -f\n"
                        "complete -c kigo -n __fish_use_subcommand -a help -d 'list the commands, or the options of "
                        "one'\n");
    for (const struct kg_cli_verb *row = verbs; row->verb; row++) {
        kg_buffer_printf(out, "complete -c kigo -n __fish_use_subcommand -a %s -d '", row->verb);
        put_quoted(out, row->summary, "\\", "\\'");
        kg_buffer_puts(out, "'\n");
    }
    kg_buffer_puts(out, "complete -c kigo -n '__fish_seen_subcommand_from help' -f -a '");
    for (; verbs->verb; verbs++) kg_buffer_printf(out, "%s ", verbs->verb);
    kg_buffer_puts(out, "'\n");
}

static void fish_options(struct kg_buffer *out, const struct kg_cli_verb *verb, const struct kg_command *command) {
    static const char *const VALUES[] = { [NO_VALUE] = "",
                                          [FILE_VALUE] = " -r -F",
                                          [FOLDER_VALUE] = " -x -a '(__fish_complete_directories)'",
                                          [OTHER_VALUE] = " -x" };
    for (size_t i = 0; i < command->n_options; i++) {
        const struct kg_option *option = &command->options[i];
        kg_buffer_printf(out, "complete -c kigo -n '__fish_seen_subcommand_from %s' -l %s", verb->verb, option->name);
        if (option->letter) kg_buffer_printf(out, " -s %c", option->letter);
        kg_buffer_printf(out, "%s -d '", VALUES[value_of(option)]);
        put_quoted(out, option->help, "\\", "\\'");
        kg_buffer_puts(out, "'\n");
    }
}

static void fish_end(struct kg_buffer *out) {
    kg_buffer_puts(out, "complete -c kigo -n 'not __fish_use_subcommand' -s h -l help -d 'show this help'\n");
}

static const struct shell {
    const char *name;
    void (*verbs)(struct kg_buffer *out, const struct kg_cli_verb *verbs);
    void (*options)(struct kg_buffer *out, const struct kg_cli_verb *verb, const struct kg_command *command);
    void (*end)(struct kg_buffer *out);
} SHELLS[] = {
    { "bash", bash_verbs, bash_options, bash_end },
    { "zsh", zsh_verbs, zsh_options, zsh_end },
    { "fish", fish_verbs, fish_options, fish_end },
};

struct script {
    const struct shell *shell;
    const struct kg_cli_verb *verb;
    struct kg_buffer out;
};

static void take_command(void *user, const struct kg_command *command) {
    struct script *script = user;
    script->shell->options(&script->out, script->verb, command);
}

int kg_cli_completions(const char *shell, const struct kg_cli_verb *verbs) {
    struct script script = { .out = KG_BUFFER_INIT };
    for (size_t i = 0; i < KG_COUNT_OF(SHELLS); i++)
        if (shell && strcmp(shell, SHELLS[i].name) == 0) script.shell = &SHELLS[i];
    if (!script.shell) {
        kg_say(stderr, "kigo help: --completions: '%s' is none of bash, zsh, fish\n", shell ? shell : "");
        return KG_EXIT_USAGE;
    }
    script.shell->verbs(&script.out, verbs);
    kg_cli_ask_commands(take_command, &script);
    for (script.verb = verbs; script.verb->verb; script.verb++) {
        char verb[64], help[] = "--help", *argv[] = { verb, help, NULL };
        snprintf(verb, sizeof verb, "%s", script.verb->verb);
        script.verb->run(2, argv);
    }
    kg_cli_ask_commands(NULL, NULL);
    script.shell->end(&script.out);
    kg_out_put(stdout, script.out.data, script.out.len);
    kg_buffer_free(&script.out);
    return KG_EXIT_OK;
}
