/* The judge of a poem: three lines of 5, 7 and 5 syllables, every word known to fixtures/lexicon, the minute word
 * exactly once as a whole word, the nonce nowhere, and nothing but words.
 *
 * A word is a run of ASCII letters, hyphens and apostrophes, compared in lower case; `, . ; : ! ?` and dashes set off
 * by spaces may stand between words. U+2010 and U+2011 are hyphens. Two words of one line that are separated by blanks
 * only and say a number ("twenty one") are one word, "twenty-one"; so "twenty" and "one" are not in it, as "seven" is
 * not in "twenty-seven". Anything else (markup, special tokens, digits, other scripts, control characters) is refused.
 */
#ifndef KIGO_SUITES_POEM_H
#define KIGO_SUITES_POEM_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

enum { KG_HAIKU_LINES = 3, KG_NONCE_LEN = 8 };

/* X(name, text); each is one rule, and the faults of a poem are the rules it breaks. */
#define KG_POEM_FAULT_LIST(X)                                                                                          \
    X(ENCODING, "is not valid UTF-8")                                                                                  \
    X(NONCE, "repeats the nonce")                                                                                      \
    X(MARKUP, "holds what is no word")                                                                                 \
    X(LINES, "has not three lines")                                                                                    \
    X(UNKNOWN_WORD, "holds a word the lexicon lacks")                                                                  \
    X(SYLLABLES, "is not 5-7-5")                                                                                       \
    X(WORD_ABSENT, "lacks the minute word")                                                                            \
    X(WORD_REPEATED, "holds the minute word more than once")

enum kg_poem_fault_bit {
#define KG_POEM_BIT(name, text) KG_POEM_BIT_##name,
    KG_POEM_FAULT_LIST(KG_POEM_BIT)
#undef KG_POEM_BIT
        KG_POEM_BITS
};
enum kg_poem_fault {
#define KG_POEM_FAULT(name, text) KG_POEM_##name = 1 << KG_POEM_BIT_##name,
    KG_POEM_FAULT_LIST(KG_POEM_FAULT)
#undef KG_POEM_FAULT
};

struct kg_poem_verdict {
    uint32_t faults;               /* a set of enum kg_poem_fault; 0: it is the poem asked for */
    size_t n_lines;                /* found; one newline at the end opens no line */
    int syllables[KG_HAIKU_LINES]; /* of the lines found, unknown words counting nothing */
    size_t n_minute_words;         /* times the minute word stands in it as a whole word */
    char message[256];             /* the first fault with the offending words; "" if there is none */
};

/* The lexicon: word, syllables, class, by fixtures/lexicon/syllables.tsv. */
struct kg_lexicon;
KG_WARN_UNUSED enum kg_status kg_lexicon_open(const char *path, struct kg_lexicon **lexicon, struct kg_error *err);
void kg_lexicon_free(struct kg_lexicon *lexicon);
size_t kg_lexicon_n_words(const struct kg_lexicon *lexicon);
/* Syllables of a lower-case word, 0 if the lexicon lacks it. */
int kg_lexicon_syllables(const struct kg_lexicon *lexicon, const char *word, size_t len);
/* The class column of a row; row < n_words. */
const char *kg_lexicon_class_at(const struct kg_lexicon *lexicon, size_t row);
const char *kg_lexicon_word_at(const struct kg_lexicon *lexicon, size_t row);

/* Judges text[0..len) against every rule. minute_word as kg_minute_word gives it; nonce is matched as a substring, as
 * it is and with case folded. */
void kg_poem_judge(const struct kg_lexicon *lexicon, const char *text, size_t len, const char *minute_word,
                   const char *nonce, struct kg_poem_verdict *verdict);

/* "repeats the nonce" of one fault. */
const char *kg_poem_fault_text(enum kg_poem_fault fault);

#endif
