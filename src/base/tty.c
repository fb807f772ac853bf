#include "base/tty.h"
#include "base/say.h"
#include "base/size.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MARK = '\x0E', END = '\x0F', RED = 31, GREEN = 32, YELLOW = 33 };

static const struct {
    const char *word;
    int colour; /* as in "Select Graphic Rendition" of ECMA-48 */
} WORDS[] = {
    { "pass", GREEN },
    { "ok", GREEN },
    { "met", GREEN },
    { "good", GREEN },
    { "better", GREEN },
    { "no regression", GREEN },
    { "refuted", GREEN },
    { "fail", RED },
    { "crash", RED },
    { "timeout", RED },
    { "BAD", RED },
    { "bad", RED },
    { "missed", RED },
    { "goals missed", RED },
    { "regressed", RED },
    { "regression", RED },
    { "missing", RED },
    { "looser", RED },
    { "worse", RED },
    { "unsound", RED },
    { "untrusted", RED },
    { "confirmed", RED },
    { "refused", RED },
    { "incomplete", YELLOW },
    { "norun", YELLOW },
    { "skip", YELLOW },
    { "partial", YELLOW },
    { "unproven", YELLOW },
    { "pass, not compared", YELLOW },
    { "undecided", YELLOW },
    { "pass, undecided", YELLOW },
    { "incomparable", YELLOW },
    { "inconclusive", YELLOW },
};

static enum { AUTO, ALWAYS, NEVER } chosen;

size_t kg_tty_columns(FILE *stream) {
    enum { USUAL = 80 };
    struct winsize size;
    if (!isatty(fileno(stream))) return 0;
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL;
}

bool kg_colours_choose(const char *when) {
    static const char *const NAMES[] = { [AUTO] = "auto", [ALWAYS] = "always", [NEVER] = "never" };
    for (size_t i = 0; i < KG_COUNT_OF(NAMES); i++) {
        if (strcmp(when, NAMES[i]) != 0) continue;
        chosen = i;
        return true;
    }
    return false;
}

static bool has_colours(FILE *stream) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (chosen != AUTO) return chosen == ALWAYS;
    return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(stream));
}

/* 0: it does not judge. */
static int colour_of(const char *word) {
    for (size_t i = 0; i < KG_COUNT_OF(WORDS); i++)
        if (strcmp(WORDS[i].word, word) == 0) return WORDS[i].colour;
    return 0;
}

void kg_colour_word(struct kg_buffer *out, const char *word) {
    const int colour = has_colours(stdout) ? colour_of(word) : 0;
    if (colour) kg_buffer_printf(out, "%c%c", MARK, '0' + colour - RED);
    kg_text_printf(out, "%s", word);
    if (colour) kg_buffer_printf(out, "%c", END);
}

bool kg_coloured_put(FILE *stream, const char *text, size_t len) {
    if (!has_colours(stream)) return kg_out_put(stream, text, len);
    bool taken = true;
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && text[at + n] != MARK && text[at + n] != END) n++;
        if (n > 0) taken = kg_out_put(stream, text + at, n) && taken;
        at += n;
        if (at >= len) break;
        const bool begins = text[at] == MARK && at + 1 < len;
        const int colour = begins && text[at + 1] >= '0' && text[at + 1] <= '2' ? RED + text[at + 1] - '0' : 0;
        kg_say(stream, "\033[%dm", colour);
        at += begins ? 2 : 1;
    }
    return taken;
}

void kg_colour_say(FILE *stream, const char *word) {
    const int colour = has_colours(stream) ? colour_of(word) : 0;
    if (colour) kg_say(stream, "\033[%dm", colour);
    kg_say(stream, "%s", word);
    if (colour) kg_say(stream, "\033[%dm", 0);
}
