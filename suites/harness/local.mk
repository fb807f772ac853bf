libkigosuite_a_CPPFLAGS = $(AM_CPPFLAGS) -DKG_SOURCE_DIR='"$(abs_top_srcdir)"' -DKG_BUILD_DIR='"$(abs_top_builddir)"'
libkigosuite_a_SOURCES += \
	suites/harness/case.h \
	suites/harness/case_key.c suites/harness/case_key.h \
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
libkigosuite_a_SOURCES += suites/harness/process.c suites/harness/process.h
