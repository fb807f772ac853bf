libkigosuite_a_CPPFLAGS = $(AM_CPPFLAGS) -DKG_SOURCE_DIR='"$(abs_top_srcdir)"'
libkigosuite_a_SOURCES += \
	suites/harness/case.h \
	suites/harness/case_list.c suites/harness/case_list.h \
	suites/harness/case_run.c suites/harness/case_run.h \
	suites/harness/compare.c suites/harness/compare.h \
	suites/harness/expect.c \
	suites/harness/guarded.c \
	suites/harness/paths.c \
	suites/harness/record.c suites/harness/record.h \
	suites/harness/record_memory.c \
	suites/harness/report_events.c suites/harness/report_events.h \
	suites/harness/report_tap.c suites/harness/report_tap.h \
	suites/harness/suite_main.c

# Suites that break the rules, for suites/integration (check_lab); too deep for `kigo check` to find.
check_PROGRAMS += \
	suites/harness/selftest/bench_beside \
	suites/harness/selftest/bench_pace \
	suites/harness/selftest/bench_throttled \
	suites/harness/selftest/test_broken \
	suites/harness/selftest/test_green \
	suites/harness/selftest/test_mixed \
	suites/harness/selftest/test_twice
suites_harness_selftest_bench_beside_SOURCES = suites/harness/selftest/bench_beside.c
suites_harness_selftest_bench_pace_SOURCES = suites/harness/selftest/bench_pace.c
suites_harness_selftest_bench_throttled_SOURCES = suites/harness/selftest/bench_throttled.c
suites_harness_selftest_test_broken_SOURCES = suites/harness/selftest/test_broken.c
suites_harness_selftest_test_green_SOURCES = suites/harness/selftest/test_green.c
suites_harness_selftest_test_mixed_SOURCES = suites/harness/selftest/test_mixed.c
suites_harness_selftest_test_twice_SOURCES = suites/harness/selftest/test_twice.c

# make check: one TAP stream of every case of every suite.
TEST_EXTENSIONS = .tap
TAP_LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
AM_TESTS_ENVIRONMENT = KIGO_CHECK_FLAGS='$(KIGO_CHECK_FLAGS)'; export KIGO_CHECK_FLAGS;
AM_TAP_LOG_DRIVER_FLAGS = --comments
KIGO_CHECK_FLAGS =
dist_check_SCRIPTS = suites/check.tap
TESTS = suites/check.tap
suites/check.log: kigo$(EXEEXT) $(check_PROGRAMS)

# Bundles are a history, which no cleaning may take; distcheck shall not miss it.
distcleancheck_listfiles = find . -type f ! -path './proof-bundles/*' -print
libkigosuite_a_SOURCES += \
	suites/harness/must.c suites/harness/must.h \
	suites/harness/process.c suites/harness/process.h
