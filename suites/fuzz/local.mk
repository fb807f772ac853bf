fuzz_targets = suites/fuzz/folder.c suites/fuzz/folder.h suites/fuzz/give_up.c suites/fuzz/limits.c \
	suites/fuzz/limits.h suites/fuzz/mutate.c suites/fuzz/mutate.h suites/fuzz/mutate_fields.c \
	suites/fuzz/mutate_json.c suites/fuzz/readers.h suites/fuzz/run.c suites/fuzz/run.h \
	suites/fuzz/seeds_bundles.c suites/fuzz/seeds_models.c suites/fuzz/seeds_vocabularies.c \
	suites/fuzz/target_archive.c suites/fuzz/target_bundle.c suites/fuzz/target_gguf.c suites/fuzz/target_hf_config.c \
	suites/fuzz/target_hf_folder.c suites/fuzz/target_json.c suites/fuzz/target_model.c suites/fuzz/target_ncu.c \
	suites/fuzz/target_records.c suites/fuzz/target_safetensors.c suites/fuzz/target_store.c \
	suites/fuzz/target_tokenizer.c suites/fuzz/target_zstd.c suites/fuzz/targets.c suites/fuzz/targets.h \
	src/cli/inspect.h src/cli/inspect_json.c src/cli/inspect_model.c src/cli/inspect_text.c

check_PROGRAMS += suites/fuzz/test_mutations
suites_fuzz_test_mutations_SOURCES = suites/fuzz/test_mutations.c $(fuzz_targets)

# `make check-fuzz`.
EXTRA_PROGRAMS = suites/fuzz/fuzz_all
suites_fuzz_fuzz_all_SOURCES = suites/fuzz/fuzz.c suites/fuzz/worker.c suites/fuzz/worker.h $(fuzz_targets)
CLEANFILES += suites/fuzz/fuzz_all

# `make fuzz` in a build of --enable-fuzz; then KIGO_FUZZ=TARGET suites/fuzz/fuzz_coverage FOLDER keeps what it finds
# worth keeping.
EXTRA_DIST += suites/fuzz/coverage.c
if WITH_FUZZ
fuzz_programs = suites/fuzz/fuzz_coverage
EXTRA_PROGRAMS += $(fuzz_programs)
suites_fuzz_fuzz_coverage_SOURCES = suites/fuzz/coverage.c $(fuzz_targets)
suites_fuzz_fuzz_coverage_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
CLEANFILES += $(fuzz_programs)
endif
.PHONY: fuzz
fuzz: $(fuzz_programs)
