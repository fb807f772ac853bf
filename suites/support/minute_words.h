/* The minutes of an hour as English words: what FT-050's prompt asks a poem to hold. */
#ifndef KIGO_SUITES_MINUTE_WORDS_H
#define KIGO_SUITES_MINUTE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

enum { KG_MINUTES = 60 };

/* "zero" to "fifty-nine", lower case, tens and units joined by a hyphen; static storage. minute in [0, 59]. */
const char *kg_minute_word(int minute);

/* The minute a word of len bytes says, -1 if none: lower case, with a hyphen, as kg_minute_word gives it. */
int kg_minute_from_word(const char *word, size_t len);

/* Parts of a written number: "twenty" ... "fifty", and "one" ... "nine". */
bool kg_is_tens_word(const char *word, size_t len);
bool kg_is_unit_word(const char *word, size_t len);

#endif
