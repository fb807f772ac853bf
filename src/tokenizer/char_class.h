/* Characters newer than PCRE2's tables.
 *
 * The reference tokenizers class characters by Unicode 16; Debian 12's PCRE2 knows Unicode 14. For matching only, each
 * character that lies between is replaced by an older one of the same class and the same length in UTF-8, so that ids
 * do not depend on the PCRE2 a machine happens to have. */
#ifndef KIGO_TOKENIZER_CHAR_CLASS_H
#define KIGO_TOKENIZER_CHAR_CLASS_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

/* If well-formed text[0..len) holds such characters, puts a copy with stand-ins, len bytes too, into *copy (whose
 * contents are replaced) and returns true. */
bool kg_char_class_stand_in(const char *text, size_t len, struct kg_buffer *copy);

#endif
