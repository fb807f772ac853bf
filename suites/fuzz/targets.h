/* Fuzz targets: each hands a file image of any bytes to a parser and looks at all that comes out. fuzz_<name>.c runs one
 * under libFuzzer, test_mutations.c runs each over mutated good files in every check.
 *
 * They return whether the bytes were accepted, and abort where the parser breaks a promise (an error without a message, a
 * message that is no UTF-8). */
#ifndef KIGO_SUITES_FUZZ_TARGETS_H
#define KIGO_SUITES_FUZZ_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool kg_fuzz_gguf(const uint8_t *data, size_t size);
bool kg_fuzz_safetensors(const uint8_t *data, size_t size);
bool kg_fuzz_vocabulary(const uint8_t *data, size_t size);

/* config.json of a Hugging Face model. */
bool kg_fuzz_hf_config(const uint8_t *data, size_t size);

/* The text files of a bundle: the first byte, modulo 3, says a manifest, bag-info.txt or records; accepted: no finding. */
bool kg_fuzz_bundle(const uint8_t *data, size_t size);

/* A tar archive, its headers' checksums made right: what comes out lies where it was meant to. */
bool kg_fuzz_archive(const uint8_t *data, size_t size);

/* What Nsight Compute prints (suites/bench/ncu_output.h). */
bool kg_fuzz_ncu(const uint8_t *data, size_t size);

/* Text of any bytes: encoding takes exactly valid UTF-8, and decoding gives it back. */
struct kg_tokenizer;
bool kg_fuzz_encode(const struct kg_tokenizer *tokenizer, const uint8_t *data, size_t size);

/* What libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct kg_error;
/* Aborts unless the error is a good one. */
void kg_fuzz_expect_error(const struct kg_error *err);

#endif
