# Programs of `kigo bench`; `kigo check` runs test_* only.
libkigosuite_a_SOURCES += suites/bench/machine.c suites/bench/machine.h
check_PROGRAMS += suites/bench/bench_ops
suites_bench_bench_ops_SOURCES = suites/bench/bench_ops.c
check_PROGRAMS += suites/bench/bench_model
suites_bench_bench_model_SOURCES = suites/bench/bench_model.c
check_PROGRAMS += suites/bench/bench_numerics
suites_bench_bench_numerics_SOURCES = suites/bench/bench_numerics.c
