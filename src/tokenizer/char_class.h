/* Support for characters newer than PCRE2's tables.
 *
 * The reference tokenizers classify characters by Unicode 16, but Debian 12's PCRE2 knows Unicode 14. For matching
 * only, each character added in between is replaced by an older one of the same class and UTF-8 length, so that ids do
 * not depend on the installed PCRE2. */
#ifndef KIGO_TOKENIZER_CHAR_CLASS_H
#define KIGO_TOKENIZER_CHAR_CLASS_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

/* If well-formed text[0..len) contains such characters, replaces *copy by the text with substitutes (also len bytes)
 * and returns true. */
bool kg_char_class_stand_in(const char *text, size_t len, struct kg_buffer *copy);

#endif
