/* kigo: one program, one verb a file. */
#include "base/nearest.h"
#include "base/say.h"
#include "cli/allocators.h"
#include "cli/bundles.h"
#include "cli/commands.h"
#include "cli/completions.h"
#include "report/report.h"
#include <kigo/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kg_cli_verb COMMANDS[] = {
#define COMMAND_ROW(suffix, verb, summary) { verb, summary, kg_cmd_##suffix },
    KG_COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
        { NULL, NULL, NULL },
};

int kg_cli_error(const char *verb, const struct kg_error *err) {
    kg_say(stderr, "kigo %s: %s\n", verb, err->message);
    return kg_status_exit_code(err->status);
}

static void print_help(FILE *out) {
    kg_say(out, "usage: kigo COMMAND [options]\n\n"
                "An LLM inference engine, and the suite that proves it.\n\ncommands:\n");
    for (const struct kg_cli_verb *row = COMMANDS; row->verb; row++)
        kg_say(out, "  %-10s %s\n", row->verb, row->summary);
    kg_say(out, "\n'kigo help COMMAND' lists a command's options. Exit codes: 0 good, 1 failed, 2 usage,\n"
                "3 inconclusive, 4 integrity, 5 incomplete, 77 nothing to do, 99 internal.\n");
}

/* A standard stream that is not open would be taken by the next file opened, and what is printed written into that.
 * Each such place is kept by /dev/null opened the other way round: reading or writing it fails, as on what is not open.
 */
static void keep_standard_streams(void) {
    static const int WRONG_WAY[] = {
        [STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_RDONLY
    };
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", WRONG_WAY[fd]) != fd) _exit(KG_EXIT_INTERNAL);
}

static const struct kg_cli_verb *find_command(const char *verb) {
    for (const struct kg_cli_verb *row = COMMANDS; row->verb; row++)
        if (strcmp(verb, row->verb) == 0) return row;
    struct kg_nearest nearest = { .word = verb, .len = strlen(verb) };
    char meant[KG_NEAREST_TEXT_SIZE];
    for (const struct kg_cli_verb *row = COMMANDS; row->verb; row++) kg_nearest_try(&nearest, row->verb);
    kg_nearest_text(&nearest, "", meant);
    kg_say(stderr, "kigo: unknown command '%s'%s; 'kigo --help' lists them\n", verb, meant);
    return NULL;
}

/* kigo help VERB is kigo VERB --help; kigo help --completions SHELL prints a script for the shell. */
static int help(int argc, char **argv) {
    char option[] = "--help", *as_verb[] = { argc > 2 ? argv[2] : NULL, option, NULL };
    if (argc > 2 && argc < 5 && strcmp(argv[2], "--completions") == 0) return kg_cli_completions(argv[3], COMMANDS);
    if (argc > 3) {
        kg_say(stderr, "kigo help: '%s': one command at a time\n", argv[3]);
        return KG_EXIT_USAGE;
    }
    if (argc > 2 && strcmp(argv[2], "help") != 0) {
        const struct kg_cli_verb *row = find_command(argv[2]);
        return row ? row->run(2, as_verb) : KG_EXIT_USAGE;
    }
    print_help(stdout);
    return KG_EXIT_OK;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return KG_EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0) return help(argc, argv);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return KG_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        kg_say(stdout, "kigo " PACKAGE_VERSION "\n");
        return KG_EXIT_OK;
    }
    const struct kg_cli_verb *row = find_command(argv[1]);
    return row ? row->run(argc - 1, argv + 1) : KG_EXIT_USAGE;
}

/* Only main ends the program: a library that does (libarchive, when memory runs out) has given no verdict, whatever its
 * exit code. */
static bool ended;
static void end_early(void) {
    if (!ended) _exit(KG_EXIT_INCOMPLETE);
}

/* What a command printed and nobody received is no success, whether it looked itself or not. */
int main(int argc, char **argv) {
    keep_standard_streams();
    kg_cli_take_allocators();
    if (atexit(end_early) != 0) return KG_EXIT_INTERNAL;
    kg_bundle_derive_also(kg_report_documents);
    const int code = kg_cli_answer_exit_code(argv[1], run(argc, argv));
    ended = true;
    const bool flushed = fflush(stdout) == 0;
    if (code != KG_EXIT_OK || (flushed && !ferror(stdout))) return code;
    kg_say(stderr, "kigo: cannot write to standard output%s%s\n", flushed ? "" : ": ", flushed ? "" : strerror(errno));
    return KG_EXIT_INCOMPLETE;
}
