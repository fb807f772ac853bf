/* In the place of line_editor.c in builds without libedit: the terminal's own line editing is all there is. */
#include "cli/ask_line.h"

struct kg_line_editor *kg_line_editor_open(FILE *screen) {
    (void)screen;
    return NULL;
}

const char *kg_line_editor_read(struct kg_line_editor *editor, const char *prompt, int *len) {
    (void)editor, (void)prompt;
    *len = 0;
    return NULL;
}

void kg_line_editor_close(struct kg_line_editor *editor) {
    (void)editor;
}
