/* The name that a mistyped word was meant to be.
 *
 * Distance: insertions, deletions, substitutions and exchanges of neighbours that make one word of the other (optimal
 * string alignment; Boytsov, "Indexing methods for approximate dictionary searching", ACM JEA 16, 2011). A name is
 * offered if it begins with the word, or is at most one change in three letters away. */
#ifndef KIGO_BASE_NEAREST_H
#define KIGO_BASE_NEAREST_H

#include <stddef.h>

struct kg_nearest {
    const char *word;
    size_t len;
    const char *name; /* the nearest so far, the first of equals; NULL: none is near */
    size_t distance;  /* its own */
};

/* Takes a name into account. Words and names of more than 63 bytes are near nothing. */
void kg_nearest_try(struct kg_nearest *nearest, const char *name);

/* ", did you mean '<before><name>'?", or "" where nothing is near. */
enum { KG_NEAREST_TEXT_SIZE = 128 };
void kg_nearest_text(const struct kg_nearest *nearest, const char *before, char text[KG_NEAREST_TEXT_SIZE]);

#endif
