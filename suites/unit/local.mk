check_PROGRAMS += suites/unit/test_statistics
suites_unit_test_statistics_SOURCES = suites/unit/test_statistics.c
check_PROGRAMS += suites/unit/test_rank_test
suites_unit_test_rank_test_SOURCES = suites/unit/test_rank_test.c
suites_unit_test_rank_test_CPPFLAGS = $(AM_CPPFLAGS) $(GSL_CFLAGS)
suites_unit_test_rank_test_LDADD = $(LDADD) $(GSL_LIBS)
check_PROGRAMS += suites/unit/test_poem
suites_unit_test_poem_SOURCES = suites/unit/test_poem.c
check_PROGRAMS += suites/unit/test_process
suites_unit_test_process_SOURCES = suites/unit/test_process.c
check_PROGRAMS += suites/unit/test_gguf suites/unit/test_gguf_hostile suites/unit/test_gguf_writer
suites_unit_test_gguf_SOURCES = suites/unit/test_gguf.c
suites_unit_test_gguf_hostile_SOURCES = suites/unit/test_gguf_hostile.c
suites_unit_test_gguf_writer_SOURCES = suites/unit/test_gguf_writer.c
check_PROGRAMS += suites/unit/test_dtype suites/unit/test_mxfp4
suites_unit_test_dtype_SOURCES = suites/unit/test_dtype.c
suites_unit_test_mxfp4_SOURCES = suites/unit/test_mxfp4.c
check_PROGRAMS += suites/unit/test_block_codes suites/unit/test_row_map
suites_unit_test_block_codes_SOURCES = suites/unit/test_block_codes.c
suites_unit_test_row_map_SOURCES = suites/unit/test_row_map.c
check_PROGRAMS += suites/unit/test_repack
suites_unit_test_repack_SOURCES = suites/unit/test_repack.c
check_PROGRAMS += suites/unit/test_safetensors
suites_unit_test_safetensors_SOURCES = suites/unit/test_safetensors.c
check_PROGRAMS += suites/unit/test_config
suites_unit_test_config_SOURCES = suites/unit/test_config.c suites/unit/refusals.c suites/unit/refusals.h
check_PROGRAMS += suites/unit/test_architectures
suites_unit_test_architectures_SOURCES = suites/unit/test_architectures.c suites/unit/refusals.c
check_PROGRAMS += suites/unit/test_sampler
suites_unit_test_sampler_SOURCES = suites/unit/test_sampler.c
check_PROGRAMS += suites/unit/test_tokenizer suites/unit/test_tokenizer_vectors suites/unit/test_added_tokens \
	suites/unit/test_vocabulary suites/unit/test_sentencepiece suites/unit/test_text_stream suites/unit/test_chat
suites_unit_test_tokenizer_SOURCES = suites/unit/test_tokenizer.c
suites_unit_test_tokenizer_vectors_SOURCES = suites/unit/test_tokenizer_vectors.c
suites_unit_test_added_tokens_SOURCES = suites/unit/test_added_tokens.c
suites_unit_test_vocabulary_SOURCES = suites/unit/test_vocabulary.c
suites_unit_test_sentencepiece_SOURCES = suites/unit/test_sentencepiece.c
suites_unit_test_text_stream_SOURCES = suites/unit/test_text_stream.c
suites_unit_test_chat_SOURCES = suites/unit/test_chat.c
check_PROGRAMS += suites/unit/test_convert
suites_unit_test_convert_SOURCES = suites/unit/test_convert.c
check_PROGRAMS += suites/unit/test_convert_model suites/unit/test_convert_hostile
suites_unit_test_convert_model_SOURCES = suites/unit/test_convert_model.c
suites_unit_test_convert_hostile_SOURCES = suites/unit/test_convert_hostile.c
check_PROGRAMS += suites/unit/test_compare
suites_unit_test_compare_SOURCES = suites/unit/test_compare.c
check_PROGRAMS += suites/unit/test_runner
suites_unit_test_runner_SOURCES = \
	suites/unit/test_runner.c
check_PROGRAMS += suites/unit/test_backend
suites_unit_test_backend_SOURCES = suites/unit/test_backend.c
check_PROGRAMS += suites/unit/test_plan
suites_unit_test_plan_SOURCES = suites/unit/test_plan.c
check_PROGRAMS += suites/unit/test_kv_cache
suites_unit_test_kv_cache_SOURCES = suites/unit/test_kv_cache.c
check_PROGRAMS += suites/unit/test_linear
suites_unit_test_linear_SOURCES = suites/unit/test_linear.c suites/unit/ops_shared.h
check_PROGRAMS += suites/unit/test_attention
suites_unit_test_attention_SOURCES = suites/unit/test_attention.c suites/unit/ops_shared.h
check_PROGRAMS += suites/unit/test_row_ops
suites_unit_test_row_ops_SOURCES = suites/unit/test_row_ops.c suites/unit/ops_shared.h
check_PROGRAMS += suites/unit/test_experts
suites_unit_test_experts_SOURCES = suites/unit/test_experts.c suites/unit/ops_shared.h
check_PROGRAMS += suites/unit/test_fused_ops
suites_unit_test_fused_ops_SOURCES = suites/unit/test_fused_ops.c suites/unit/ops_shared.h
check_PROGRAMS += suites/unit/test_encode_blocks
suites_unit_test_encode_blocks_SOURCES = suites/unit/test_encode_blocks.c
check_PROGRAMS += suites/unit/test_op_contracts
suites_unit_test_op_contracts_SOURCES = suites/unit/test_op_contracts.c suites/unit/ops_shared.h
check_PROGRAMS += suites/unit/test_cuda_contracts suites/unit/test_kernels_ahead
suites_unit_test_cuda_contracts_SOURCES = suites/unit/test_cuda_contracts.c
suites_unit_test_kernels_ahead_SOURCES = suites/unit/test_kernels_ahead.c
check_PROGRAMS += suites/unit/test_base suites/unit/test_file suites/unit/test_options
suites_unit_test_base_SOURCES = suites/unit/test_base.c
suites_unit_test_file_SOURCES = suites/unit/test_file.c
suites_unit_test_options_SOURCES = suites/unit/test_options.c
check_PROGRAMS += suites/unit/test_bundle suites/unit/test_bundle_sync suites/unit/test_bundle_verify
suites_unit_test_bundle_SOURCES = suites/unit/test_bundle.c
suites_unit_test_bundle_sync_SOURCES = suites/unit/test_bundle_sync.c
suites_unit_test_bundle_verify_SOURCES = suites/unit/test_bundle_verify.c
check_PROGRAMS += suites/unit/test_generate
suites_unit_test_generate_SOURCES = suites/unit/test_generate.c suites/unit/scripted.c suites/unit/scripted.h
check_PROGRAMS += suites/unit/test_session
suites_unit_test_session_SOURCES = suites/unit/test_session.c
check_PROGRAMS += suites/unit/test_prompt
suites_unit_test_prompt_SOURCES = suites/unit/test_prompt.c
check_PROGRAMS += suites/unit/test_history
suites_unit_test_history_SOURCES = suites/unit/test_history.c
check_PROGRAMS += suites/unit/test_json_tape
suites_unit_test_json_tape_SOURCES = suites/unit/test_json_tape.c
check_PROGRAMS += suites/unit/test_steps
step_simulation_sources = suites/unit/step_simulation.c suites/unit/step_simulation.h suites/unit/noise_kinds.c \
	suites/unit/noise_kinds.h
suites_unit_test_steps_SOURCES = suites/unit/test_steps.c $(step_simulation_sources)
check_PROGRAMS += suites/unit/simulate_steps suites/unit/test_step_search
suites_unit_test_step_search_SOURCES = suites/unit/test_step_search.c
suites_unit_simulate_steps_SOURCES = suites/unit/simulate_steps.c $(step_simulation_sources)
check_PROGRAMS += suites/unit/test_regress suites/unit/test_screen
suites_unit_test_regress_SOURCES = suites/unit/test_regress.c
check_PROGRAMS += suites/unit/test_regress_again suites/unit/test_regress_limits
suites_unit_test_regress_limits_SOURCES = suites/unit/test_regress_limits.c
suites_unit_test_regress_again_SOURCES = suites/unit/test_regress_again.c
suites_unit_test_screen_SOURCES = suites/unit/test_screen.c
noise_sources = suites/unit/noise_kinds.c suites/unit/noise_kinds.h
simulation_sources = suites/unit/simulation.c suites/unit/simulation.h $(noise_sources)
check_PROGRAMS += suites/unit/test_exact suites/unit/test_confirm_values
suites_unit_test_exact_SOURCES = suites/unit/test_exact.c
suites_unit_test_confirm_values_SOURCES = suites/unit/test_confirm_values.c $(simulation_sources)
check_PROGRAMS += suites/unit/test_canary_fit suites/unit/test_drift suites/unit/test_false_alarms
suites_unit_test_canary_fit_SOURCES = suites/unit/test_canary_fit.c
suites_unit_test_drift_SOURCES = suites/unit/test_drift.c $(noise_sources)
suites_unit_test_false_alarms_SOURCES = suites/unit/test_false_alarms.c $(simulation_sources)
check_PROGRAMS += suites/unit/test_detectable
suites_unit_test_detectable_SOURCES = suites/unit/test_detectable.c $(noise_sources)
check_PROGRAMS += suites/unit/test_measured_again
other_rules = suites/unit/other_rules.c suites/unit/other_rules.h
suites_unit_test_measured_again_SOURCES = suites/unit/test_measured_again.c $(simulation_sources) $(other_rules)
# The table of docs/history.md: false alarms and powers by kind of noise.
check_PROGRAMS += suites/unit/simulate
suites_unit_simulate_SOURCES = suites/unit/simulate.c $(simulation_sources) $(other_rules)
check_PROGRAMS += suites/unit/test_history_scale
suites_unit_test_history_scale_CPPFLAGS = $(kigo_CPPFLAGS)
suites_unit_test_history_scale_SOURCES = \
	src/cli/asked.c src/cli/bundles.c src/cli/call.c src/cli/cmd_history.c src/cli/cmd_steps.c src/cli/filter.c \
	src/cli/fleet.c src/cli/regress_call.c src/cli/run_name.c src/cli/rows.c src/cli/table.c \
	suites/unit/test_history_scale.c \
	suites/unit/statement_trace.c suites/unit/statement_trace.h
# make_history ROOT N_RUNS N_CASES [COMMITS], to measure queries by hand.
check_PROGRAMS += suites/unit/make_history
suites_unit_make_history_SOURCES = suites/unit/make_history.c
check_PROGRAMS += suites/unit/test_annotation suites/unit/test_guard
suites_unit_test_annotation_SOURCES = suites/unit/test_annotation.c
suites_unit_test_guard_SOURCES = suites/unit/test_guard.c
check_PROGRAMS += suites/unit/test_regress_report
suites_unit_test_regress_report_CPPFLAGS = $(kigo_CPPFLAGS)
suites_unit_test_regress_report_SOURCES = \
	src/cli/regress_report.c src/cli/rows.c src/cli/skip_groups.c src/cli/table.c \
	suites/unit/test_regress_report.c
check_PROGRAMS += suites/unit/test_synth_blocks
suites_unit_test_synth_blocks_SOURCES = suites/unit/test_synth_blocks.c
check_PROGRAMS += suites/unit/test_late_library
suites_unit_test_late_library_SOURCES = suites/unit/test_late_library.c
check_PROGRAMS += suites/unit/test_escape
suites_unit_test_escape_SOURCES = suites/unit/test_escape.c src/cli/table.c
check_PROGRAMS += suites/unit/test_markdown
suites_unit_test_markdown_SOURCES = suites/unit/test_markdown.c
check_PROGRAMS += suites/unit/test_bundle_exports suites/unit/test_bundle_source
suites_unit_test_bundle_exports_SOURCES = suites/unit/test_bundle_exports.c
suites_unit_test_bundle_source_SOURCES = suites/unit/test_bundle_source.c
check_PROGRAMS += suites/unit/test_bundle_derived
suites_unit_test_bundle_derived_SOURCES = suites/unit/test_bundle_derived.c
check_PROGRAMS += suites/unit/test_bundle_format
suites_unit_test_bundle_format_SOURCES = suites/unit/test_bundle_format.c
check_PROGRAMS += suites/unit/test_measure
suites_unit_test_measure_SOURCES = suites/unit/test_measure.c
check_PROGRAMS += suites/unit/test_file_type
suites_unit_test_file_type_SOURCES = suites/unit/test_file_type.c
check_PROGRAMS += suites/unit/test_quantize
suites_unit_test_quantize_SOURCES = suites/unit/test_quantize.c
check_PROGRAMS += suites/unit/test_synth
suites_unit_test_synth_SOURCES = suites/unit/test_synth.c
check_PROGRAMS += suites/unit/test_bench_reports
suites_unit_test_bench_reports_SOURCES = suites/unit/test_bench_reports.c
check_PROGRAMS += suites/unit/test_nvml
suites_unit_test_nvml_SOURCES = suites/unit/test_nvml.c
EXTRA_suites_unit_test_nvml_DEPENDENCIES = suites/support/fake_nvml.so
check_PROGRAMS += suites/unit/test_bundle_stored
suites_unit_test_bundle_stored_SOURCES = suites/unit/test_bundle_stored.c
check_PROGRAMS += suites/unit/test_signoff
suites_unit_test_signoff_SOURCES = suites/unit/test_signoff.c
EXTRA_DIST += \
	suites/sprints/fp16.json \
	suites/sprints/fused.json \
	suites/sprints/mxfp4.json \
	suites/sprints/sdpa-fp16.json \
	suites/sprints/sdpa-fp8.json
check_PROGRAMS += suites/unit/test_report
suites_unit_test_report_SOURCES = suites/unit/test_report.c
check_PROGRAMS += suites/unit/test_verdict
suites_unit_test_verdict_SOURCES = suites/unit/test_verdict.c
check_PROGRAMS += suites/unit/test_ncu
suites_unit_test_ncu_SOURCES = suites/unit/test_ncu.c
check_PROGRAMS += suites/unit/test_sdpa
suites_unit_test_sdpa_SOURCES = suites/unit/test_sdpa.c
check_PROGRAMS += suites/unit/test_touched
suites_unit_test_touched_SOURCES = suites/unit/test_touched.c
check_PROGRAMS += suites/unit/test_verified
suites_unit_test_verified_SOURCES = suites/unit/test_verified.c
check_PROGRAMS += suites/unit/test_views
suites_unit_test_views_SOURCES = suites/unit/test_views.c
# The stubs in the place of a fleet, which this build may not have.
check_PROGRAMS += suites/unit/test_fleet_none
suites_unit_test_fleet_none_SOURCES = src/fleet/fleet_none.c suites/unit/test_fleet_none.c
# The stubs in the place of a server, which this build may not have.
check_PROGRAMS += suites/unit/test_web_none
suites_unit_test_web_none_SOURCES = src/web/server_none.c suites/unit/test_web_none.c
if WITH_LIBMICROHTTPD
check_PROGRAMS += suites/unit/test_web_server
suites_unit_test_web_server_SOURCES = src/web/libmicrohttpd.c src/web/libmicrohttpd.h src/web/server.c \
	suites/unit/test_web_server.c
suites_unit_test_web_server_CPPFLAGS = $(AM_CPPFLAGS) $(LIBMICROHTTPD_CFLAGS)
endif
