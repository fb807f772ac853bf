#include "suites/support/poem.h"
#include "suites/support/minute_words.h"
#include "base/utf8.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_WORDS = 64, MOST_WORD_LEN = 48 }; /* of a line; more is no haiku */

static const char *const FAULT_TEXTS[] = {
#define FAULT_TEXT(name, text) text,
    KG_POEM_FAULT_LIST(FAULT_TEXT)
#undef FAULT_TEXT
};

struct word {
    char text[MOST_WORD_LEN + 1]; /* lower case */
    size_t len;
    bool after_blank; /* only blanks stand between it and the word before it in the line */
};

const char *kg_poem_fault_text(enum kg_poem_fault fault) {
    for (int bit = 0; bit < KG_POEM_BITS; bit++)
        if (fault & (1u << bit)) return FAULT_TEXTS[bit];
    return "is good";
}

/* Adds a fault; the message names the first. `detail` has len bytes. */
static void blame(struct kg_poem_verdict *verdict, enum kg_poem_fault fault, const char *detail, size_t len) {
    if (verdict->faults == 0)
        snprintf(verdict->message, sizeof verdict->message, "the poem %s: '%.*s'", kg_poem_fault_text(fault),
                 (int)(len < 120 ? len : 120), detail);
    verdict->faults |= (uint32_t)fault;
}

static char fold(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool holds_folded(const char *text, size_t len, const char *part) {
    const size_t n = strlen(part);
    for (size_t at = 0; n > 0 && at + n <= len; at++)
        if (strncasecmp(text + at, part, n) == 0) return true;
    return false;
}

/* Bytes of a hyphen at text[0..len): '-', U+2010 or U+2011; 0 if there is none. */
static size_t hyphen_len(const char *text, size_t len) {
    if (text[0] == '-') return 1;
    return len >= 3 && (memcmp(text, "\xe2\x80\x90", 3) == 0 || memcmp(text, "\xe2\x80\x91", 3) == 0) ? 3 : 0;
}

static size_t dash_len(const char *text, size_t len) {
    return len >= 3 && (memcmp(text, "\xe2\x80\x93", 3) == 0 || memcmp(text, "\xe2\x80\x94", 3) == 0) ? 3 : 0;
}

/* Reads one word at text[0..len), folded; gives the bytes taken, 0 if none stands there. A hyphen or an apostrophe
 * belongs to a word only between two letters. */
static size_t take_word(const char *text, size_t len, struct word *word) {
    size_t at = 0;
    word->len = 0;
    while (at < len && word->len < MOST_WORD_LEN) {
        const char c = fold(text[at]);
        const size_t joint = hyphen_len(text + at, len - at);
        if (c >= 'a' && c <= 'z') {
            word->text[word->len++] = c;
            at++;
        } else if (word->len > 0 && (joint || c == '\'')) {
            const size_t n = joint ? joint : 1;
            const char next = at + n < len ? fold(text[at + n]) : '\0';
            if (next < 'a' || next > 'z') break;
            word->text[word->len++] = joint ? '-' : '\'';
            at += n;
        } else break;
    }
    word->text[word->len] = '\0';
    return at;
}

/* Bytes of the blank, the punctuation or the dash at line[at], 0 if something else stands there. */
static size_t between_words_len(const char *line, size_t len, size_t at) {
    const size_t dash = dash_len(line + at, len - at);
    const bool lone_hyphen = line[at] == '-' && (at == 0 || line[at - 1] == ' ');
    if (dash) return dash;
    return lone_hyphen || (line[at] != '\0' && strchr(" ,.;:!?", line[at])) ? 1 : 0;
}

/* The words of a line; what is neither word, blank nor punctuation is blamed and passed over. */
static size_t split_line(const char *line, size_t len, struct word words[MOST_WORDS], struct kg_poem_verdict *verdict) {
    size_t n_words = 0;
    bool blanks_only = true;
    for (size_t at = 0, n; at < len; at += n) {
        struct word word = { .after_blank = blanks_only };
        n = take_word(line + at, len - at, &word);
        if (n > 0 && n_words < MOST_WORDS) {
            words[n_words++] = word;
            blanks_only = true;
            continue;
        }
        blanks_only = blanks_only && line[at] == ' ';
        n = between_words_len(line, len, at);
        if (n > 0) continue;
        blame(verdict, KG_POEM_MARKUP, line, len);
        uint32_t code_point;
        n = kg_utf8_sequence(line + at, len - at, &code_point);
    }
    return n_words;
}

/* Joins "twenty one" to "twenty-one". */
static size_t join_numbers(struct word *words, size_t n_words) {
    size_t n = 0;
    for (size_t i = 0; i < n_words; i++) {
        struct word *const last = n > 0 ? &words[n - 1] : NULL;
        if (last && words[i].after_blank && kg_is_tens_word(last->text, last->len) &&
            kg_is_unit_word(words[i].text, words[i].len))
            last->len += (size_t)snprintf(last->text + last->len, sizeof last->text - last->len, "-%s", words[i].text);
        else words[n++] = words[i];
    }
    return n;
}

static void judge_line(const struct kg_lexicon *lexicon, const char *line, size_t len, const char *minute_word,
                       struct kg_poem_verdict *verdict) {
    static const int WANTED[KG_HAIKU_LINES] = { 5, 7, 5 };
    struct word words[MOST_WORDS] = { 0 };
    const size_t row = verdict->n_lines++;
    const size_t n_split = split_line(line, len, words, verdict), n_words = join_numbers(words, n_split);
    int total = 0;
    bool all_known = true;
    for (size_t i = 0; i < n_words; i++) {
        const int syllables = kg_lexicon_syllables(lexicon, words[i].text, words[i].len);
        if (syllables == 0) blame(verdict, KG_POEM_UNKNOWN_WORD, words[i].text, words[i].len);
        all_known = all_known && syllables > 0;
        total += syllables;
        verdict->n_minute_words += strcmp(words[i].text, minute_word) == 0;
    }
    if (row >= KG_HAIKU_LINES) return;
    verdict->syllables[row] = total;
    /* An unknown word's syllables are not known either: that line is blamed once. */
    if (all_known && total != WANTED[row]) blame(verdict, KG_POEM_SYLLABLES, line, len);
}

void kg_poem_judge(const struct kg_lexicon *lexicon, const char *text, size_t len, const char *minute_word,
                   const char *nonce, struct kg_poem_verdict *verdict) {
    memset(verdict, 0, sizeof *verdict);
    if (!kg_utf8_valid(text, len)) {
        blame(verdict, KG_POEM_ENCODING, minute_word, 0);
        return;
    }
    if (holds_folded(text, len, nonce)) blame(verdict, KG_POEM_NONCE, nonce, strlen(nonce));
    const size_t end = len > 0 && text[len - 1] == '\n' ? len - 1 : len;
    for (size_t at = 0; at <= end;) {
        const char *const newline = memchr(text + at, '\n', end - at);
        const size_t line_end = newline ? (size_t)(newline - text) : end;
        judge_line(lexicon, text + at, line_end - at, minute_word, verdict);
        at = line_end + 1;
    }
    if (verdict->n_lines != KG_HAIKU_LINES) blame(verdict, KG_POEM_LINES, text, len);
    if (verdict->n_minute_words == 0) blame(verdict, KG_POEM_WORD_ABSENT, minute_word, strlen(minute_word));
    if (verdict->n_minute_words > 1) blame(verdict, KG_POEM_WORD_REPEATED, minute_word, strlen(minute_word));
}
