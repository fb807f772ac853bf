fuzz_targets = suites/fuzz/give_up.c suites/fuzz/targets.h \
	suites/fuzz/target_gguf.c src/cli/inspect.h src/cli/inspect_json.c src/cli/inspect_model.c src/cli/inspect_text.c \
	suites/fuzz/target_archive.c suites/fuzz/target_bundle.c suites/fuzz/target_hf_config.c suites/fuzz/target_ncu.c suites/fuzz/target_safetensors.c suites/fuzz/target_tokenizer.c

check_PROGRAMS += suites/fuzz/test_mutations
suites_fuzz_test_mutations_SOURCES = suites/fuzz/test_mutations.c suites/fuzz/mutate.c suites/fuzz/mutate.h \
	$(fuzz_targets)

# `make fuzz` in a build of --enable-fuzz; then suites/fuzz/fuzz_NAME FOLDER keeps what it finds worth keeping.
EXTRA_DIST += suites/fuzz/fuzz_archive.c suites/fuzz/fuzz_bundle.c suites/fuzz/fuzz_gguf.c suites/fuzz/fuzz_hf_config.c suites/fuzz/fuzz_ncu.c suites/fuzz/fuzz_safetensors.c \
	suites/fuzz/fuzz_tokenizer.c suites/fuzz/fuzz_vocabulary.c
if WITH_FUZZ
fuzz_programs = suites/fuzz/fuzz_archive suites/fuzz/fuzz_bundle suites/fuzz/fuzz_gguf suites/fuzz/fuzz_hf_config suites/fuzz/fuzz_ncu suites/fuzz/fuzz_safetensors \
	suites/fuzz/fuzz_tokenizer suites/fuzz/fuzz_vocabulary
EXTRA_PROGRAMS = $(fuzz_programs)
suites_fuzz_fuzz_archive_SOURCES = suites/fuzz/fuzz_archive.c $(fuzz_targets)
suites_fuzz_fuzz_archive_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
suites_fuzz_fuzz_bundle_SOURCES = suites/fuzz/fuzz_bundle.c $(fuzz_targets)
suites_fuzz_fuzz_bundle_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
suites_fuzz_fuzz_gguf_SOURCES = suites/fuzz/fuzz_gguf.c $(fuzz_targets)
suites_fuzz_fuzz_gguf_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
suites_fuzz_fuzz_hf_config_SOURCES = suites/fuzz/fuzz_hf_config.c $(fuzz_targets)
suites_fuzz_fuzz_hf_config_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
suites_fuzz_fuzz_ncu_SOURCES = suites/fuzz/fuzz_ncu.c $(fuzz_targets)
suites_fuzz_fuzz_ncu_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
suites_fuzz_fuzz_safetensors_SOURCES = suites/fuzz/fuzz_safetensors.c $(fuzz_targets)
suites_fuzz_fuzz_safetensors_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
suites_fuzz_fuzz_tokenizer_SOURCES = suites/fuzz/fuzz_tokenizer.c $(fuzz_targets)
suites_fuzz_fuzz_tokenizer_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
suites_fuzz_fuzz_vocabulary_SOURCES = suites/fuzz/fuzz_vocabulary.c $(fuzz_targets)
suites_fuzz_fuzz_vocabulary_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
CLEANFILES += $(fuzz_programs)
endif
.PHONY: fuzz
fuzz: $(fuzz_programs)
