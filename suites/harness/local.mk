libkigosuite_a_SOURCES += \
	suites/harness/case.h \
	suites/harness/compare.h
