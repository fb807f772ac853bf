check_PROGRAMS += suites/unit/test_statistics
suites_unit_test_statistics_SOURCES = suites/unit/test_statistics.c
