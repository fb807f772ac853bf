/* Unicode normalisation form C (NFC) in linear time; the reference tokenizers apply it before splitting text. */
#ifndef KIGO_TOKENIZER_NORMALIZE_H
#define KIGO_TOKENIZER_NORMALIZE_H

#include "base/buffer.h"
#include <kigo/status.h>
#include <stdbool.h>
#include <stddef.h>

/* True if well-formed text[0..len) contains a character that NFC may change or reorder; none below U+0300 is. */
bool kg_nfc_may_change(const char *text, size_t len);

/* Appends NFC(text[0..len)) of well-formed UTF-8. */
KG_WARN_UNUSED enum kg_status kg_nfc_append(const char *text, size_t len, struct kg_buffer *out, struct kg_error *err);

#endif
