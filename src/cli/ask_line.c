#include "cli/ask_line.h"
#include "base/say.h"
#include "cli/interrupt.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kg_ask_line_open(struct kg_ask_line *ask, bool keep_stdout) {
    *ask = (struct kg_ask_line){ .on_terminal = isatty(STDIN_FILENO) };
    if (!ask->on_terminal) return;
    if (isatty(STDERR_FILENO)) ask->screen = stderr;
    else if (!keep_stdout && isatty(STDOUT_FILENO)) ask->screen = stdout;
    if (ask->screen) ask->editor = kg_line_editor_open(ask->screen);
}

/* Appends what one line holds, its end included. */
static enum kg_status read_plain(struct kg_ask_line *ask, const char *prompt, enum kg_asked *asked,
                                 struct kg_error *err) {
    char *line = NULL;
    size_t capacity = 0;
    if (ask->screen) {
        kg_say(ask->screen, "%s", prompt);
        fflush(ask->screen);
    }
    if (ask->screen && !kg_cli_wait_for_input(STDIN_FILENO)) {
        *asked = KG_ASKED_INTERRUPTED;
        return KG_OK;
    }
    const ssize_t len = getline(&line, &capacity, stdin);
    const int why = errno;
    if (len >= 0) kg_buffer_append(&ask->line, line, (size_t)len);
    free(line);
    if (len >= 0) return KG_OK;
    if (ferror(stdin) && why != EINTR) return kg_fail(err, KG_ERR_IO, "standard input: %s", strerror(why));
    *asked = ferror(stdin) ? KG_ASKED_INTERRUPTED : KG_ASKED_END;
    clearerr(stdin);
    return KG_OK;
}

static enum kg_status read_edited(struct kg_ask_line *ask, const char *prompt, enum kg_asked *asked) {
    int len = 0;
    errno = 0;
    const char *line = kg_line_editor_read(ask->editor, prompt, &len);
    if (line && len > 0) kg_buffer_append(&ask->line, line, (size_t)len);
    else *asked = kg_cli_interrupted() ? KG_ASKED_INTERRUPTED : KG_ASKED_END;
    return KG_OK;
}

/* Cuts the line's end off. */
static void cut_end(struct kg_buffer *line, char end) {
    if (line->len > 0 && line->data[line->len - 1] == end) line->data[--line->len] = '\0';
}

enum kg_status kg_ask_line_next(struct kg_ask_line *ask, enum kg_asked *asked, struct kg_error *err) {
    enum kg_status status;
    const char *prompt = "> ";
    *asked = KG_ASKED_LINE;
    kg_buffer_clear(&ask->line);
    for (bool goes_on = true; goes_on; prompt = ". ") {
        status = ask->editor ? read_edited(ask, prompt, asked) : read_plain(ask, prompt, asked, err);
        if (status || *asked != KG_ASKED_LINE) return status;
        cut_end(&ask->line, '\n');
        goes_on = ask->on_terminal && ask->line.len > 0 && ask->line.data[ask->line.len - 1] == '\\';
        if (goes_on) ask->line.data[ask->line.len - 1] = '\n';
    }
    if (!ask->on_terminal) cut_end(&ask->line, '\r');
    if (ask->line.len > 0 && memchr(ask->line.data, '\0', ask->line.len))
        return kg_fail(err, KG_ERR_FORMAT, "standard input: a line holds a NUL byte");
    return KG_OK;
}

void kg_ask_line_close(struct kg_ask_line *ask) {
    kg_line_editor_close(ask->editor);
    kg_buffer_free(&ask->line);
    *ask = (struct kg_ask_line){ 0 };
}
