/* kigo: one program, one verb a file. */
#include "cli/commands.h"
#include <kigo/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command_row {
    const char *verb;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command_row COMMANDS[] = {
#define COMMAND_ROW(suffix, verb, summary) { verb, summary, kg_cmd_##suffix },
    KG_COMMAND_LIST(COMMAND_ROW)
#undef COMMAND_ROW
        { NULL, NULL, NULL },
};

int kg_cli_error(const char *verb, const struct kg_error *err) {
    fprintf(stderr, "kigo %s: %s\n", verb, err->message);
    return kg_status_exit_code(err->status);
}

static void print_help(FILE *out) {
    fputs("usage: kigo COMMAND [options]\n\n"
          "An LLM inference engine, and the suite that proves it.\n\ncommands:\n",
          out);
    for (const struct command_row *row = COMMANDS; row->verb; row++)
        fprintf(out, "  %-10s %s\n", row->verb, row->summary);
    fputs("\n'kigo COMMAND --help' lists a command's options. Exit codes: 0 good, 1 failed, 2 usage,\n"
          "3 inconclusive, 4 integrity, 5 incomplete, 77 nothing to do, 99 internal.\n",
          out);
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

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return KG_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return KG_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("kigo " PACKAGE_VERSION);
        return KG_EXIT_OK;
    }
    for (const struct command_row *row = COMMANDS; row->verb; row++)
        if (strcmp(argv[1], row->verb) == 0) return row->run(argc - 1, argv + 1);
    fprintf(stderr, "kigo: unknown command '%s'; 'kigo --help' lists them\n", argv[1]);
    return KG_EXIT_USAGE;
}

/* What a command printed and nobody received is no success, whether it looked itself or not. */
int main(int argc, char **argv) {
    keep_standard_streams();
    const int code = run(argc, argv);
    const bool flushed = fflush(stdout) == 0;
    if (code != KG_EXIT_OK || (flushed && !ferror(stdout))) return code;
    fprintf(stderr, "kigo: cannot write to standard output%s%s\n", flushed ? "" : ": ", flushed ? "" : strerror(errno));
    return KG_EXIT_INCOMPLETE;
}
