#include "suites/support/minute_words.h"
#include <assert.h>
#include <string.h>

#define TENS(word)                                                                                                     \
    word, word "-one", word "-two", word "-three", word "-four", word "-five", word "-six", word "-seven",             \
        word "-eight", word "-nine"

static const char *const WORDS[] = {
    "zero",    "one",       "two",      "three",    "four",         "five",         "six",         "seven",
    "eight",   "nine",      "ten",      "eleven",   "twelve",       "thirteen",     "fourteen",    "fifteen",
    "sixteen", "seventeen", "eighteen", "nineteen", TENS("twenty"), TENS("thirty"), TENS("forty"), TENS("fifty"),
};
_Static_assert(sizeof(WORDS) / sizeof *WORDS == KG_MINUTES, "a word for each minute");

const char *kg_minute_word(int minute) {
    assert(minute >= 0 && minute < KG_MINUTES);
    return WORDS[minute];
}

int kg_minute_from_word(const char *word, size_t len) {
    for (int minute = 0; minute < KG_MINUTES; minute++)
        if (strlen(WORDS[minute]) == len && memcmp(WORDS[minute], word, len) == 0) return minute;
    return -1;
}

bool kg_is_tens_word(const char *word, size_t len) {
    const int minute = kg_minute_from_word(word, len);
    return minute >= 20 && minute % 10 == 0;
}

bool kg_is_unit_word(const char *word, size_t len) {
    const int minute = kg_minute_from_word(word, len);
    return minute >= 1 && minute <= 9;
}
