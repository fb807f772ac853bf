#include "report/plot.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/program.h"
#include "base/size.h"
#include "report/page.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const KG_PLOT_COLOUR[KG_PLOT_COLOURS] = {
    "#1f83c4", "#d55e00", "#009e73", "#b8860b", "#cc79a7", "#808890"
};

static const char PREAMBLE[] =
    "set terminal svg noenhanced size 480,280 font ',13'\n"
    "set grid lc rgb '#808890' dt 3 lw 0.5\nset border 3\nset tics nomirror\nset key top left "
    "Left reverse samplen 1\n";

void kg_plot_quote(struct kg_buffer *script, const char *text) {
    enum { MAX_CHARACTERS = 40 };
    kg_buffer_puts(script, "'");
    for (size_t i = 0; i < MAX_CHARACTERS && text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        kg_buffer_append(script, plain || (c != '\0' && strchr(" ._/-+=,:[]()%", c)) ? &text[i] : "?", 1);
    }
    kg_buffer_puts(script, "'");
}

/* What is put in the place of gnuplot's own text; %zu is the picture's number. Its fixed ids would be those of every
 * picture of a page. */
static const struct {
    const char *from, *to;
} REPLACED[] = {
    { "\"black\"", "\"currentColor\"" },
    { "'black'", "'currentColor'" },
    { " font-family=\"Arial\"", "" },
    { "gpPt", "p%zu-t" },
    { "gpDot", "p%zu-dot" },
    { "\"gnuplot_", "\"p%zu-" },
    { "'textbox'", "'p%zu-text'" },
    { "'greybox'", "'p%zu-grey'" },
    { "#textbox", "#p%zu-text" },
    { "#greybox", "#p%zu-grey" },
    { "xlink:href", "href" },
};

/* A line of the picture, without gnuplot's titles of its parts, which would show as tool tips. */
static void put_replaced(struct kg_buffer *out, const char *text, size_t len, size_t number) {
    static const char TITLE[] = "<title>", TITLE_END[] = "</title>";
    for (size_t at = 0; at < len;) {
        const char *title_end = strncmp(text + at, TITLE, strlen(TITLE)) == 0 ? strstr(text + at, TITLE_END) : NULL;
        if (title_end) at = (size_t)(title_end - text) + strlen(TITLE_END);
        if (at >= len) return;
        size_t i = 0;
        while (i < KG_COUNT_OF(REPLACED) && strncmp(text + at, REPLACED[i].from, strlen(REPLACED[i].from)) != 0) i++;
        if (i == KG_COUNT_OF(REPLACED)) {
            kg_buffer_append(out, text + at++, 1);
            continue;
        }
        const char *mark = strstr(REPLACED[i].to, "%zu");
        if (mark) kg_buffer_printf(out, "%.*s%zu%s", (int)(mark - REPLACED[i].to), REPLACED[i].to, number, mark + 3);
        else kg_buffer_puts(out, REPLACED[i].to);
        at += strlen(REPLACED[i].from);
    }
}

/* gnuplot's groups without anything in them are a third of its picture. */
static bool is_empty_group(const char *line) {
    const char *end = strchr(line, '\n');
    return strncmp(line, "<g ", 3) == 0 && end && strncmp(end, "\n</g>\n", 6) == 0;
}

static bool put_svg(const char *picture, size_t number, const char *says, struct kg_buffer *svg) {
    int width, height;
    const char *box = strstr(picture, "viewBox=\""), *line = strstr(picture, "<g id=\"gnuplot_canvas\">");
    if (!box || !line || sscanf(box, "viewBox=\"0 0 %d %d\"", &width, &height) != 2) return false;
    kg_buffer_printf(svg, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", width, height);
    kg_escape(svg, KG_MEDIUM_HTML, says, strlen(says));
    kg_buffer_puts(svg, "\"><title>");
    kg_escape(svg, KG_MEDIUM_HTML, says, strlen(says));
    kg_buffer_puts(svg, "</title>\n");
    while (*line) {
        const char *newline = strchr(line, '\n'), *next = newline ? newline + 1 : line + strlen(line);
        if (is_empty_group(line)) next += strlen("</g>\n");
        else if (next > line + 1) put_replaced(svg, line, (size_t)(next - line), number);
        line = next;
    }
    return true;
}

/* The script as a file without a name; -1 if there is no memory for it. */
static int script_fd(const char *script) {
    const int fd = memfd_create("plot", MFD_CLOEXEC);
    struct kg_error err;
    if (fd < 0) return -1;
    if (kg_fd_write(fd, PREAMBLE, strlen(PREAMBLE), &err) == KG_OK &&
        kg_fd_write(fd, script, strlen(script), &err) == KG_OK)
        return fd;
    close(fd);
    return -1;
}

bool kg_plot_svg(const char *script, size_t number, const char *says, struct kg_buffer *svg,
                 char why[KG_PLOT_WHY_SIZE]) {
    static const char *const ARGV[] = { "gnuplot", "-d", NULL }, *const ENV[] = { "LC_ALL=C", NULL };
    char input[64];
    const int fd = script_fd(script);
    snprintf(input, sizeof input, "/proc/self/fd/%d", fd);
    const struct kg_program gnuplot = { .argv = ARGV, .env = ENV, .input_path = input, .max_out_bytes = 4 << 20 };
    struct kg_program_result result;
    struct kg_error err;
    const enum kg_status status = kg_program_run(&gnuplot, &result, &err);
    bool made = false;
    if (fd >= 0) close(fd);
    if (status != KG_OK) snprintf(why, KG_PLOT_WHY_SIZE, "gnuplot is not there (%.200s)", err.message);
    else if (result.exit_code != 0 || result.cut || !put_svg(kg_buffer_text(&result.out), number, says, svg)) {
        char *complaint = kg_program_complaint(&result);
        snprintf(why, KG_PLOT_WHY_SIZE, "gnuplot made no picture (%.200s)", complaint);
        free(complaint);
    } else {
        made = true;
    }
    kg_program_result_free(&result);
    return made;
}
