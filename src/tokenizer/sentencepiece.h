/* SentencePiece-style BPE: vocabularies whose tokenizer.ggml.model is "llama".
 *
 * Encoding: text between special tokens gets a space before it (add_space_prefix), spaces become U+2581, and each
 * character is a symbol. Of the adjacent pairs whose concatenation is a token, the one with the highest score
 * (tokenizer.ggml.scores), then the leftmost, is merged, until no pair is left. A character that is still not a token
 * becomes the tokens of its bytes, "<0x00>" to "<0xFF>". Merging never produces special, unknown, unused or byte
 * tokens.
 *
 * If the file also has tokenizer.ggml.merges (kigo writes it from tokenizer.json), the merges' ranks replace the
 * scores: different pairs that form the same token then have different ranks. Source: sentencepiece's bpe_model.cc. */
#ifndef KIGO_TOKENIZER_SENTENCEPIECE_H
#define KIGO_TOKENIZER_SENTENCEPIECE_H

#include "format/gguf.h"
#include "tokenizer/tokenizer.h"

/* Fills bpe and the sentencepiece fields of a tokenizer whose tokens are loaded. KG_ERR_FORMAT if scores or byte tokens
 * are missing or contradictory. */
KG_WARN_UNUSED enum kg_status kg_sentencepiece_load(struct kg_tokenizer *tokenizer, const struct kg_gguf *gguf,
                                                    struct kg_error *err);

/* Whether text spells a byte token, such as "<0x0A>"; *byte is its value. */
bool kg_sentencepiece_byte(struct kg_str text, unsigned char *byte);

/* Writes a token's text to out with U+2581 replaced by spaces; out has room for text.len bytes. Returns the bytes
 * written. */
size_t kg_sentencepiece_decode(struct kg_str text, char *out);

/* Appends text[0..len) with its spaces replaced by U+2581, and one more U+2581 before it if prefix. */
void kg_sentencepiece_mark(const char *text, size_t len, bool prefix, struct kg_buffer *out);

/* The token with this text that merging may produce; -1 if there is none. */
int32_t kg_sentencepiece_find(const struct kg_tokenizer *tokenizer, const char *text, size_t len);

/* Appends the ids of well-formed text[0..len), which contains no token to be found in raw text. prefix: a text begins
 * here, so the vocabulary's space prefix applies. */
KG_WARN_UNUSED enum kg_status kg_sentencepiece_encode(const struct kg_tokenizer *tokenizer, struct kg_bpe_work *work,
                                                      const char *text, size_t len, bool prefix, struct kg_ids *ids,
                                                      struct kg_error *err);

#endif
