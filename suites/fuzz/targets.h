/* Fuzz targets: each hands a file image of any bytes to a parser and looks at all that comes out. fuzz_<name>.c runs
 * one under libFuzzer, test_mutations.c runs each over mutated good files in every check.
 *
 * They return whether the bytes were accepted. Where the parser breaks a promise (an error without a message, a message
 * that is no UTF-8) they say which, and of what input, and abort: a target has no case to fail. */
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

/* The text files of a bundle: the first byte, modulo 3, says a manifest, bag-info.txt or records; accepted: no finding.
 */
bool kg_fuzz_bundle(const uint8_t *data, size_t size);

/* A tar archive, its headers' checksums made right: what comes out lies where it was meant to. */
bool kg_fuzz_archive(const uint8_t *data, size_t size);

/* What Nsight Compute prints (suites/support/ncu_output.h). */
bool kg_fuzz_ncu(const uint8_t *data, size_t size);

/* Text of any bytes: encoding takes exactly valid UTF-8, and decoding gives it back. */
struct kg_tokenizer;
bool kg_fuzz_encode(const struct kg_tokenizer *tokenizer, const uint8_t *data, size_t size);

/* What libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* For targets: what the one of that name is given. The bytes stay until it returns. */
void kg_fuzz_begin(const char *target, const uint8_t *data, size_t size);

/* For who runs targets: which input comes next, if there is a better way to say it than its bytes. */
void kg_fuzz_name_input(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints one line to standard error, of the target, what was violated, and the input, and aborts. */
_Noreturn void kg_fuzz_give_up(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

struct kg_error;
/* Gives up unless the error is a good one. */
void kg_fuzz_expect_error(const struct kg_error *err);

#endif
