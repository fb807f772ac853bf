libkigosuite_a_SOURCES += \
	suites/haiku/corrupt.c suites/haiku/corrupt.h
check_PROGRAMS += suites/haiku/test_haiku suites/haiku/test_judge
suites_haiku_test_haiku_SOURCES = suites/haiku/test_haiku.c
suites_haiku_test_judge_SOURCES = suites/haiku/test_judge.c
