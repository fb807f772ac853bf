/* Lines from a person, or from a program that writes into a pipe.
 *
 * On a terminal there is a prompt, and the line can be edited and those before it called back, if kigo was built with
 * libedit; a line that ends with a backslash goes on in the next one. A pipe or a file gives its lines as they are, and
 * nothing is printed. */
#ifndef KIGO_CLI_ASK_LINE_H
#define KIGO_CLI_ASK_LINE_H

#include "base/buffer.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stdio.h>

struct kg_line_editor;

struct kg_ask_line {
    bool on_terminal; /* standard input is one */
    FILE *screen;     /* where prompts go; NULL: nowhere */
    struct kg_line_editor *editor;
    struct kg_buffer line; /* the last line, without its end */
};

enum kg_asked { KG_ASKED_LINE, KG_ASKED_END, KG_ASKED_INTERRUPTED };

/* keep_stdout: standard output is for data alone, prompts go elsewhere. Close it in any case. */
void kg_ask_line_open(struct kg_ask_line *ask, bool keep_stdout);
/* Reads ask->line. KG_ASKED_INTERRUPTED: Ctrl-C (cli/interrupt.h), and the line was dropped. KG_ERR_FORMAT for a NUL in
 * a line, KG_ERR_IO if standard input cannot be read. */
KG_WARN_UNUSED enum kg_status kg_ask_line_next(struct kg_ask_line *ask, enum kg_asked *asked, struct kg_error *err);
void kg_ask_line_close(struct kg_ask_line *ask);

/* The editor: line_editor.c by libedit, line_editor_none.c without. NULL if there is none for this terminal. */
struct kg_line_editor *kg_line_editor_open(FILE *screen);
/* The line with its end, valid until the next call, and added to the history; NULL at the end of input and, with errno
 * EINTR, after a signal. */
const char *kg_line_editor_read(struct kg_line_editor *editor, const char *prompt, int *len);
void kg_line_editor_close(struct kg_line_editor *editor);

#endif
