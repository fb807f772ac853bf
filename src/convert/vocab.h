/* Writes a vocabulary-only GGUF from a Hugging Face folder: tokenizer.json, and optionally tokenizer_config.json,
 * chat_template.jinja and config.json.
 *
 * Keys, as llama.cpp names them: general.architecture (model_type of config.json with "-" for "_"; without one "gpt2",
 * or "llama" like .model), <architecture>.vocab_size, tokenizer.ggml.model ("gpt2"; "llama" for BPE with
 * byte_fallback), .pre (the kind whose pattern and normaliser tokenizer.json has), .tokens, .token_type (1 normal, 2
 * unknown, 3 special, 4 added but not special, 5 unused, 6 byte), .merges, .{bos,eos,padding,unknown}_token_id,
 * .add_{bos,eos}_token (by tokenizer.json's post_processor, else tokenizer_config.json's), and tokenizer.chat_template;
 * for "llama" .scores and .add_space_prefix too. kigo's keys kigo.tokenizer.* hold what GGUF cannot express:
 * rstrip_token_ids, normalized_token_ids, prepend_scheme and ignore_merges. Ids without a token, up to the vocab_size
 * of config.json, are named "[PAD<id>]" and have type unused. */
#ifndef KIGO_CONVERT_VOCAB_H
#define KIGO_CONVERT_VOCAB_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

struct kg_vocab_summary {
    const char *kind; /* of the pre-tokenizer; static */
    size_t n_tokens, n_merges, n_special, n_padding;
    int32_t eos_id; /* -1: none */
};

struct kg_gguf_writer;
struct kg_vocab_source;

/* Writes the keys tokenizer.* only, for a file that has weights too. KG_ERR_UNSUPPORTED as below. */
KG_WARN_UNUSED enum kg_status kg_convert_vocab_put(struct kg_gguf_writer *writer, const struct kg_vocab_source *source,
                                                   struct kg_vocab_summary *summary, struct kg_error *err);

/* Checks that kigo's tokenizer reads the writer's keys, before any tensor is added. name replaces the path in
 * errors. */
KG_WARN_UNUSED enum kg_status kg_convert_vocab_check(const struct kg_gguf_writer *writer, const char *name,
                                                     struct kg_error *err);

/* Converts the vocabulary of hf_dir. kigo's tokenizer reads the result back before it is published at out_path; on
 * failure nothing is left behind. KG_ERR_NOT_FOUND without a tokenizer.json; KG_ERR_UNSUPPORTED names what kigo or GGUF
 * cannot express (another model type, an unknown pattern or normaliser, added tokens that strip blanks); KG_ERR_FORMAT
 * for contradictions. */
KG_WARN_UNUSED enum kg_status kg_convert_vocab(const char *hf_dir, const char *out_path,
                                               struct kg_vocab_summary *summary, struct kg_error *err);

#endif
