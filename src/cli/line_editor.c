/* Line editing and history by libedit (BSD licence), whose keys ~/.editrc may bind. The history lives as long as the
 * program: what a person asks a model is written to no file. */
#include "base/buffer.h"
#include "cli/ask_line.h"
#include "cli/interrupt.h"
#include "cli/libedit.h"
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { N_LINES_KEPT = 1000 };

struct kg_line_editor {
    EditLine *edit;
    History *history;
    const char *prompt;
};

static const char *prompt_of(EditLine *edit) {
    struct kg_line_editor *e = NULL;
    kg_libedit()->el_get(edit, EL_CLIENTDATA, &e);
    return e->prompt;
}

/* libedit's own reader would miss a Ctrl-C that comes after the prompt is shown and before it reads. */
static int read_character(EditLine *edit, wchar_t *character) {
    mbstate_t state = { 0 };
    size_t used = (size_t)-2;
    (void)edit;
    while (used == (size_t)-2) {
        char byte;
        if (!kg_cli_wait_for_input(STDIN_FILENO)) {
            errno = EINTR;
            return -1;
        }
        const ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0) return (int)n;
        used = mbrtowc(character, &byte, 1, &state);
    }
    if (used == (size_t)-1) *character = L'\uFFFD';
    return 1;
}

struct kg_line_editor *kg_line_editor_open(FILE *screen) {
    if (!kg_libedit()) return NULL;
    struct kg_line_editor *e = kg_xcalloc(1, sizeof *e);
    HistEvent event;
    /* libedit reads characters by the locale; kigo's text is UTF-8 wherever it runs. */
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
    e->prompt = "";
    e->edit = kg_libedit()->el_init("kigo", stdin, screen, stderr);
    e->history = kg_libedit()->history_init();
    if (!e->edit || !e->history) {
        kg_line_editor_close(e);
        return NULL;
    }
    kg_libedit()->history(e->history, &event, H_SETSIZE, N_LINES_KEPT);
    kg_libedit()->history(e->history, &event, H_SETUNIQUE, 1);
    kg_libedit()->el_set(e->edit, EL_CLIENTDATA, e);
    kg_libedit()->el_set(e->edit, EL_PROMPT, prompt_of);
    kg_libedit()->el_set(e->edit, EL_EDITOR, "emacs");
    kg_libedit()->el_set(e->edit, EL_HIST, kg_libedit()->history, e->history);
    kg_libedit()->el_set(e->edit, EL_GETCFN, read_character);
    kg_libedit()->el_source(e->edit, NULL);
    return e;
}

const char *kg_line_editor_read(struct kg_line_editor *e, const char *prompt, int *len) {
    HistEvent event;
    e->prompt = prompt;
    /* before the prompt is shown: an early Ctrl-D would be lost with the change */
    kg_libedit()->el_set(e->edit, EL_PREP_TERM, 1);
    const char *line = kg_libedit()->el_gets(e->edit, len);
    if (line && *len > 1) kg_libedit()->history(e->history, &event, H_ENTER, line);
    return line;
}

void kg_line_editor_close(struct kg_line_editor *e) {
    if (!e) return;
    if (e->edit) kg_libedit()->el_end(e->edit);
    if (e->history) kg_libedit()->history_end(e->history);
    free(e);
}
