libkigosuite_a_SOURCES += \
	suites/mutation/mutant_files.c suites/mutation/mutant_files.h
check_PROGRAMS += suites/mutation/test_mutants suites/mutation/test_op_mutants
check_PROGRAMS += suites/mutation/test_sample_mutants
suites_mutation_test_sample_mutants_SOURCES = suites/mutation/test_sample_mutants.c
suites_mutation_test_mutants_SOURCES = suites/mutation/test_mutants.c
suites_mutation_test_op_mutants_SOURCES = suites/mutation/test_op_mutants.c
check_PROGRAMS += suites/mutation/test_sdpa_mutants
suites_mutation_test_sdpa_mutants_SOURCES = suites/mutation/test_sdpa_mutants.c
check_PROGRAMS += suites/mutation/test_mxfp4_mutants
suites_mutation_test_mxfp4_mutants_SOURCES = suites/mutation/test_mxfp4_mutants.c
check_PROGRAMS += suites/mutation/test_decode_attention_mutants
suites_mutation_test_decode_attention_mutants_SOURCES = suites/mutation/test_decode_attention_mutants.c
check_PROGRAMS += suites/mutation/test_block_codes_mutants
suites_mutation_test_block_codes_mutants_SOURCES = suites/mutation/test_block_codes_mutants.c
