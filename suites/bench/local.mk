# Programs of `kigo bench`; `kigo check` runs test_* only.
libkigosuite_a_SOURCES += \
	suites/bench/fresh_process.c suites/bench/fresh_process.h \
	suites/bench/model_work.c suites/bench/model_work.h \
	suites/bench/sdpa_work.c suites/bench/sdpa_work.h
check_PROGRAMS += suites/bench/bench_ops
suites_bench_bench_ops_SOURCES = suites/bench/bench_ops.c
check_PROGRAMS += suites/bench/bench_model
suites_bench_bench_model_SOURCES = suites/bench/bench_model.c
check_PROGRAMS += suites/bench/bench_cold_start
suites_bench_bench_cold_start_SOURCES = suites/bench/bench_cold_start.c
check_PROGRAMS += suites/bench/bench_model_peer
suites_bench_bench_model_peer_SOURCES = suites/bench/bench_model_peer.c
check_PROGRAMS += suites/bench/bench_numerics
suites_bench_bench_numerics_SOURCES = suites/bench/bench_numerics.c
check_PROGRAMS += suites/bench/bench_sdpa
suites_bench_bench_sdpa_SOURCES = suites/bench/bench_sdpa.c
check_PROGRAMS += suites/bench/bench_sdpa_peer
suites_bench_bench_sdpa_peer_SOURCES = suites/bench/bench_sdpa_peer.c
EXTRA_DIST += suites/bench/peers/torch_sdpa.py
check_PROGRAMS += suites/bench/bench_mxfp4
suites_bench_bench_mxfp4_SOURCES = suites/bench/bench_mxfp4.c
check_PROGRAMS += suites/bench/bench_attention_step
suites_bench_bench_attention_step_SOURCES = suites/bench/bench_attention_step.c
check_PROGRAMS += suites/bench/bench_fused
suites_bench_bench_fused_SOURCES = suites/bench/bench_fused.c
check_PROGRAMS += suites/bench/bench_linear_formats
suites_bench_bench_linear_formats_SOURCES = suites/bench/bench_linear_formats.c
