check_PROGRAMS += suites/unit/test_statistics
suites_unit_test_statistics_SOURCES = suites/unit/test_statistics.c
check_PROGRAMS += suites/unit/test_poem
suites_unit_test_poem_SOURCES = suites/unit/test_poem.c
check_PROGRAMS += suites/unit/test_process
suites_unit_test_process_SOURCES = suites/unit/test_process.c
check_PROGRAMS += suites/unit/test_tokenizer_vectors
suites_unit_test_tokenizer_vectors_SOURCES = suites/unit/test_tokenizer_vectors.c suites/unit/vocabulary.c suites/unit/vocabulary.h
