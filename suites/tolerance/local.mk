libkigosuite_a_SOURCES += \
	suites/tolerance/golden.c suites/tolerance/golden.h \
	suites/tolerance/op_device.c suites/tolerance/op_device.h
check_PROGRAMS += suites/tolerance/test_ops
suites_tolerance_test_ops_SOURCES = \
	suites/tolerance/op_attention.c \
	suites/tolerance/op_cases.c suites/tolerance/op_cases.h \
	suites/tolerance/test_ops.c
