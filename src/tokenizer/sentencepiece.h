/* SentencePiece-style BPE: vocabularies whose tokenizer.ggml.model is "llama".
 *
 * Text between special tokens gets a space before it (add_space_prefix), spaces become U+2581, each character is a
 * symbol, and of the adjacent pairs whose texts joined are a token, the one with the highest score
 * (tokenizer.ggml.scores), then the leftmost, is merged, until there is none. What is no token in the end becomes
 * tokens of its bytes, "<0x00>" to
 * "<0xFF>". Special, unknown, unused and byte tokens are never merged into.
 *
 * Where the file has tokenizer.ggml.merges too, as kigo writes it from tokenizer.json, their ranks take the place of
 * the scores: pairs that give one token then have ranks of their own. Source: sentencepiece's bpe_model.cc. */
#ifndef KIGO_TOKENIZER_SENTENCEPIECE_H
#define KIGO_TOKENIZER_SENTENCEPIECE_H

#include "format/gguf.h"
#include "tokenizer/tokenizer.h"

/* Fills bpe and the sentencepiece fields of a tokenizer whose tokens are loaded. KG_ERR_FORMAT names what is missing or
 * contradictory: scores, byte tokens. */
KG_WARN_UNUSED enum kg_status kg_sentencepiece_load(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                    struct kg_error *err);

/* Whether a spelling is that of a byte token, "<0x0A>", and of which. */
bool kg_sentencepiece_byte(struct kg_str text, unsigned char *byte);

/* Writes a token's text with U+2581 as spaces to out, which has room for its length; returns the bytes written. */
size_t kg_sentencepiece_decode(struct kg_str text, char *out);

/* Appends text[0..len) with U+2581 for its spaces, and for one before it if prefix. */
void kg_sentencepiece_mark(const char *text, size_t len, bool prefix, struct kg_buffer *out);

/* The token that merging could give for text[0..len); -1 if there is none. */
int32_t kg_sentencepiece_find(const struct kg_tokenizer *tokenizer, const char *text, size_t len);

/* Appends the ids of well-formed text[0..len), which holds no token found as it is written; prefix: a text begins here,
 * with a space before it if the vocabulary has one there. */
KG_WARN_UNUSED enum kg_status kg_sentencepiece_encode(const struct kg_tokenizer *tokenizer, struct kg_bpe_work *work,
                                                      const char *text, size_t len, bool prefix, struct kg_ids *ids,
                                                      struct kg_error *err);

#endif
