/* A vocabulary-only GGUF from a Hugging Face folder: tokenizer.json, and what tokenizer_config.json,
 * chat_template.jinja and config.json add, if they are there.
 *
 * Keys, as llama.cpp names them: general.architecture (model_type of config.json with "-" for "_"; without one "gpt2",
 * or "llama" like .model), <architecture>.vocab_size, tokenizer.ggml.model ("gpt2"; "llama" for BPE with
 * byte_fallback), .pre (the kind whose pattern and normaliser tokenizer.json has), .tokens, .token_type (1 normal, 2
 * unknown, 3 special, 4 added but not special, 5 unused, 6 byte), .merges, .{bos,eos,padding,unknown}_token_id,
 * .add_{bos,eos}_token (by tokenizer.json's post_processor, else tokenizer_config.json's), and tokenizer.chat_template;
 * for "llama" .scores and .add_space_prefix too. Keys of kigo's own, kigo.tokenizer.*: rstrip_token_ids,
 * normalized_token_ids, prepend_scheme and ignore_merges, where GGUF cannot say it. Ids without a token, up to the
 * vocab_size of config.json, are named "[PAD<id>]" and unused. */
#ifndef KIGO_CONVERT_VOCAB_H
#define KIGO_CONVERT_VOCAB_H

#include <kigo/status.h>
#include <stddef.h>
#include <stdint.h>

struct kg_vocab_summary {
    const char *kind; /* of pre-tokenizer; static */
    size_t n_tokens, n_merges, n_special, n_padding;
    int32_t eos_id; /* -1: none */
};

struct kg_gguf_writer;
struct kg_vocab_source;

/* The keys of tokenizer.* alone, for a file that has weights too. Statuses: as below, of what GGUF cannot express. */
KG_WARN_UNUSED enum kg_status kg_convert_vocab_put(struct kg_gguf_writer *writer, const struct kg_vocab_source *source,
                                                   struct kg_vocab_summary *summary, struct kg_error *err);

/* Has the tokenizer read the writer's keys, to which no tensor was added yet; name stands for the file in errors. */
KG_WARN_UNUSED enum kg_status kg_convert_vocab_check(const struct kg_gguf_writer *writer, const char *name,
                                                     struct kg_error *err);

/* What is written is read back by the tokenizer before it takes its place at out_path; nothing is left on failure.
 * KG_ERR_NOT_FOUND without a tokenizer.json; KG_ERR_UNSUPPORTED names what kigo or GGUF cannot express (another model
 * type, an unknown pattern or normaliser, added tokens that strip blanks); KG_ERR_FORMAT for contradictions. */
KG_WARN_UNUSED enum kg_status kg_convert_vocab(const char *hf_dir, const char *out_path,
                                               struct kg_vocab_summary *summary, struct kg_error *err);

#endif
