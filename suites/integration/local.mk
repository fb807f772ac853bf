check_PROGRAMS += suites/integration/test_numeric
suites_integration_test_numeric_SOURCES = suites/integration/test_numeric.c
check_PROGRAMS += suites/integration/test_session
suites_integration_test_session_SOURCES = suites/integration/test_session.c
check_PROGRAMS += suites/integration/test_generate suites/integration/test_streaming
suites_integration_test_generate_SOURCES = suites/integration/test_generate.c
suites_integration_test_streaming_SOURCES = suites/integration/test_streaming.c
check_PROGRAMS += suites/integration/test_pipeline
suites_integration_test_pipeline_SOURCES = suites/integration/test_pipeline.c
check_PROGRAMS += suites/integration/test_chat
suites_integration_test_chat_SOURCES = suites/integration/test_chat.c
check_PROGRAMS += suites/integration/test_readme
EXTRA_suites_integration_test_readme_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_readme_SOURCES = suites/integration/test_readme.c
check_PROGRAMS += suites/integration/test_readme_commands
EXTRA_suites_integration_test_readme_commands_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_readme_commands_SOURCES = suites/integration/test_readme_commands.c
check_PROGRAMS += suites/integration/test_conversation
suites_integration_test_conversation_SOURCES = suites/integration/test_conversation.c
check_PROGRAMS += suites/integration/test_bad_models
suites_integration_test_bad_models_SOURCES = suites/integration/test_bad_models.c
check_PROGRAMS += suites/integration/test_tokenize_command
suites_integration_test_tokenize_command_SOURCES = suites/integration/test_tokenize_command.c
check_PROGRAMS += suites/integration/test_check_e2e
EXTRA_suites_integration_test_check_e2e_DEPENDENCIES = suites/support/fake_nvml.so
suites_integration_test_check_e2e_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_check_e2e.c \
	$(runner_sources)
check_PROGRAMS += suites/integration/test_layers
suites_integration_test_layers_SOURCES = suites/integration/test_layers.c
check_PROGRAMS += suites/integration/test_check_plan
suites_integration_test_check_plan_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_check_plan.c
check_PROGRAMS += suites/integration/test_check_select
suites_integration_test_check_select_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_check_select.c
check_PROGRAMS += suites/integration/test_units
suites_integration_test_units_SOURCES = \
	suites/integration/test_units.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_run_names
suites_integration_test_run_names_SOURCES = \
	suites/integration/verbs.c suites/integration/verbs.h \
	suites/integration/test_run_names.c
check_PROGRAMS += suites/integration/test_demo
suites_integration_test_demo_SOURCES = suites/integration/test_demo.c
check_PROGRAMS += suites/integration/test_words
suites_integration_test_words_SOURCES = suites/integration/test_words.c
check_PROGRAMS += suites/integration/test_inspect
suites_integration_test_inspect_SOURCES = suites/integration/test_inspect.c
check_PROGRAMS += suites/integration/test_cli suites/integration/test_cli_output
suites_integration_test_cli_SOURCES = suites/integration/test_cli.c
suites_integration_test_cli_output_SOURCES = suites/integration/test_cli_output.c
check_PROGRAMS += suites/integration/test_survival
suites_integration_test_survival_SOURCES = suites/integration/test_survival.c
check_PROGRAMS += suites/integration/test_built_from
EXTRA_suites_integration_test_built_from_DEPENDENCIES = \
	kigo$(EXEEXT) suites/harness/selftest/test_broken suites/harness/selftest/test_green
suites_integration_test_built_from_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/copied_tree.c suites/integration/copied_tree.h \
	suites/integration/test_built_from.c
check_PROGRAMS += suites/integration/test_bombs
EXTRA_suites_integration_test_bombs_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_bombs_SOURCES = \
	suites/integration/test_bombs.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_file_kinds
EXTRA_suites_integration_test_file_kinds_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_file_kinds_SOURCES = \
	suites/integration/test_file_kinds.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_left_out
EXTRA_suites_integration_test_left_out_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_left_out_SOURCES = \
	suites/integration/copied_tree.c suites/integration/copied_tree.h \
	suites/integration/test_left_out.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_confirm_rebuild
EXTRA_suites_integration_test_confirm_rebuild_DEPENDENCIES = kigo$(EXEEXT) suites/harness/selftest/bench_pace
suites_integration_test_confirm_rebuild_SOURCES = \
	suites/integration/copied_tree.c suites/integration/copied_tree.h \
	suites/integration/test_confirm_rebuild.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_confirm
EXTRA_suites_integration_test_confirm_DEPENDENCIES = suites/harness/selftest/bench_pace
suites_integration_test_confirm_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_confirm.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_edited_evidence
suites_integration_test_edited_evidence_SOURCES = \
	suites/integration/test_edited_evidence.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_history_cli
suites_integration_test_history_cli_SOURCES = \
	suites/integration/test_history_cli.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_stranger
suites_integration_test_stranger_SOURCES = \
	suites/integration/test_stranger.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_bundle_cli
suites_integration_test_bundle_cli_SOURCES = \
	suites/integration/test_bundle_cli.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_check_disasters
suites_integration_test_check_disasters_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_check_disasters.c

check_PROGRAMS += suites/integration/test_manual
suites_integration_test_manual_SOURCES = suites/integration/test_manual.c
check_PROGRAMS += suites/integration/test_convert_command
suites_integration_test_convert_command_SOURCES = suites/integration/test_convert_command.c
check_PROGRAMS += suites/integration/test_quantize_command
suites_integration_test_quantize_command_SOURCES = suites/integration/test_quantize_command.c
check_PROGRAMS += suites/integration/test_synth_command
suites_integration_test_synth_command_SOURCES = suites/integration/test_synth_command.c
check_PROGRAMS += suites/integration/test_op_command
suites_integration_test_op_command_SOURCES = \
	suites/integration/op_command_fused_rows.c suites/integration/op_command_rows.c \
	suites/integration/op_command_rows.h \
	suites/integration/test_op_command.c
check_PROGRAMS += suites/integration/test_bench
EXTRA_suites_integration_test_bench_DEPENDENCIES = suites/support/fake_nvml.so suites/harness/selftest/bench_beside
suites_integration_test_bench_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_bench.c
check_PROGRAMS += suites/integration/test_bench_models
EXTRA_suites_integration_test_bench_models_DEPENDENCIES = suites/harness/selftest/bench_throttled
suites_integration_test_bench_models_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_bench_models.c
check_PROGRAMS += suites/integration/test_trust
suites_integration_test_trust_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_trust.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_policy
suites_integration_test_policy_SOURCES = \
	suites/integration/test_policy.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_checkpoint
suites_integration_test_checkpoint_SOURCES = \
	suites/integration/test_checkpoint.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_signing_time
suites_integration_test_signing_time_SOURCES = \
	suites/integration/copied_tree.c suites/integration/copied_tree.h \
	suites/integration/test_signing_time.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_promises
suites_integration_test_promises_SOURCES = suites/integration/test_promises.c
check_PROGRAMS += suites/integration/test_json
EXTRA_suites_integration_test_json_DEPENDENCIES = kigo$(EXEEXT) suites/harness/selftest/test_mixed \
	suites/harness/selftest/bench_beside
suites_integration_test_json_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_json.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_terminal
suites_integration_test_terminal_SOURCES = \
	suites/integration/test_terminal.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_tables
suites_integration_test_tables_SOURCES = suites/integration/test_tables.c
check_PROGRAMS += suites/integration/test_gpu_runner
suites_integration_test_gpu_runner_SOURCES = suites/integration/test_gpu_runner.c
check_PROGRAMS += suites/integration/test_transfer
suites_integration_test_transfer_SOURCES = \
	suites/integration/test_transfer.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_prune
suites_integration_test_prune_SOURCES = \
	suites/integration/test_prune.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_signoff_command
suites_integration_test_signoff_command_SOURCES = \
	suites/integration/test_signoff_command.c suites/integration/signoff_office.c \
	suites/integration/signoff_office.h \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_signoff_forged
suites_integration_test_signoff_forged_SOURCES = \
	suites/integration/test_signoff_forged.c suites/integration/signoff_office.c \
	suites/integration/signoff_office.h \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_rerun
suites_integration_test_rerun_SOURCES = \
	src/cli/long_write.c src/cli/rebuild.c src/cli/rebuild.h \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/test_rerun.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_report
suites_integration_test_report_SOURCES = \
	suites/integration/hostile_run.c suites/integration/hostile_run.h \
	suites/integration/browser.c suites/integration/browser.h \
	suites/integration/browser_colours.c suites/integration/browser_print.c \
	suites/integration/test_report.c \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_ci
suites_integration_test_ci_SOURCES = \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/ci_recipe.c suites/integration/ci_recipe.h \
	suites/integration/test_ci.c
check_PROGRAMS += suites/integration/test_history_limits
history_store = \
	suites/integration/history_store.c suites/integration/history_store.h
suites_integration_test_history_limits_SOURCES = suites/integration/test_history_limits.c $(history_store)
crash_sources = \
	suites/integration/crash_calls.c suites/integration/crash_calls.h \
	suites/integration/crash_check.c \
	suites/integration/crash_disk.c suites/integration/crash_disk.h \
	suites/integration/crash_log.c suites/integration/crash_log.h \
	suites/integration/crash_scenes.c suites/integration/crash_scenes.h \
	suites/integration/crash_trace.c suites/integration/crash_trace.h \
	suites/integration/crash_try.c suites/integration/crash_try.h \
	suites/integration/verbs.c suites/integration/verbs.h
check_PROGRAMS += suites/integration/test_crash
EXTRA_suites_integration_test_crash_DEPENDENCIES = suites/harness/selftest/test_green
suites_integration_test_crash_SOURCES = suites/integration/test_crash.c $(crash_sources)
# What takes minutes: `make check-crash`; too deep for `kigo check` to find.
check_PROGRAMS += suites/integration/crash/test_every_moment
EXTRA_suites_integration_crash_test_every_moment_DEPENDENCIES = suites/harness/selftest/test_green
suites_integration_crash_test_every_moment_SOURCES = suites/integration/crash/test_every_moment.c $(crash_sources)
# What takes minutes: `make check-scale`; too deep for `kigo check` to find.
check_PROGRAMS += suites/integration/full/test_full_size
suites_integration_full_test_full_size_SOURCES = suites/integration/full/test_full_size.c $(history_store)
check_PROGRAMS += suites/integration/test_sdpa
suites_integration_test_sdpa_SOURCES = suites/integration/test_sdpa.c
check_PROGRAMS += suites/integration/test_far_limits
suites_integration_test_far_limits_SOURCES = suites/integration/test_far_limits.c
check_PROGRAMS += suites/integration/test_escapes
EXTRA_suites_integration_test_escapes_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_escapes_SOURCES = \
	suites/integration/hostile_store.c suites/integration/hostile_store.h \
	suites/integration/test_escapes.c
# Faults injected into kigo (suites/support/fault_injector.c).
fault_sweep = \
	suites/integration/fault_verbs.c \
	suites/integration/fault_places.c suites/integration/fault_places.h \
	suites/integration/fault_server.c suites/integration/fault_server.h \
	suites/integration/fault_world.c suites/integration/fault_world.h \
	suites/integration/fault_sweep.c suites/integration/fault_sweep.h
check_PROGRAMS += suites/integration/test_faults
EXTRA_suites_integration_test_faults_DEPENDENCIES = kigo$(EXEEXT) suites/support/fault_injector.so \
	suites/harness/selftest/test_green
suites_integration_test_faults_SOURCES = suites/integration/test_faults.c $(fault_sweep)
check_PROGRAMS += suites/integration/test_index_files
EXTRA_suites_integration_test_index_files_DEPENDENCIES = kigo$(EXEEXT) suites/support/fault_injector.so
suites_integration_test_index_files_SOURCES = \
	suites/integration/test_index_files.c \
	suites/integration/verbs.c suites/integration/verbs.h
# What takes minutes: `make check-faults`; too deep for `kigo check` to find.
check_PROGRAMS += suites/integration/faults/test_every_fault
EXTRA_suites_integration_faults_test_every_fault_DEPENDENCIES = $(EXTRA_suites_integration_test_faults_DEPENDENCIES)
suites_integration_faults_test_every_fault_SOURCES = suites/integration/faults/test_every_fault.c $(fault_sweep)
check_PROGRAMS += suites/integration/test_install
EXTRA_suites_integration_test_install_DEPENDENCIES = kigo$(EXEEXT) suites/harness/selftest/test_green
suites_integration_test_install_SOURCES = \
	suites/integration/copied_tree.c suites/integration/copied_tree.h \
	suites/integration/test_install.c
# A fleet's history, on a PostgreSQL server that the program starts.
check_PROGRAMS += suites/integration/test_fleet
EXTRA_suites_integration_test_fleet_DEPENDENCIES = kigo$(EXEEXT) suites/harness/selftest/test_green
suites_integration_test_fleet_SOURCES = suites/integration/test_fleet.c $(fleet_lab)
# What takes minutes: `make check-fleet`; too deep for `kigo check` to find.
check_PROGRAMS += suites/integration/fleet/test_fleet_at_length
EXTRA_suites_integration_fleet_test_fleet_at_length_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_fleet_test_fleet_at_length_SOURCES = suites/integration/fleet/test_fleet_at_length.c $(fleet_lab)
fleet_lab = \
	suites/integration/browser.c suites/integration/browser.h \
	suites/integration/check_lab.c suites/integration/check_lab.h \
	suites/integration/fleet_asks.c suites/integration/fleet_asks.h \
	suites/integration/fleet_both.c suites/integration/fleet_both.h \
	suites/integration/fleet_crashes.c suites/integration/fleet_crashes.h \
	suites/integration/fleet_decides.c suites/integration/fleet_decides.h \
	suites/integration/fleet_figures.c suites/integration/fleet_figures.h \
	suites/integration/fleet_holds.c suites/integration/fleet_holds.h \
	suites/integration/fleet_lab.c suites/integration/fleet_lab.h \
	suites/integration/fleet_line.c suites/integration/fleet_line.h \
	suites/integration/fleet_links.c suites/integration/fleet_links.h \
	suites/integration/fleet_many.c \
	suites/integration/fleet_measures.c suites/integration/fleet_measures.h \
	suites/integration/fleet_prunes.c suites/integration/fleet_prunes.h \
	suites/integration/fleet_pulls.c suites/integration/fleet_pulls.h \
	suites/integration/fleet_reads.c suites/integration/fleet_reads.h \
	suites/integration/fleet_relay.c suites/integration/fleet_relay.h \
	suites/integration/fleet_reruns.c suites/integration/fleet_reruns.h \
	suites/integration/fleet_schema.c suites/integration/fleet_schema.h \
	suites/integration/fleet_server.c suites/integration/fleet_server.h \
	suites/integration/fleet_standby.c suites/integration/fleet_standby.h \
	suites/integration/fleet_urls.c suites/integration/fleet_urls.h \
	suites/integration/fleet_web.c suites/integration/fleet_web.h \
	suites/integration/hostile_run.c suites/integration/hostile_run.h \
	suites/integration/hostile_store.c suites/integration/hostile_store.h \
	suites/integration/verbs.c suites/integration/verbs.h \
	suites/integration/web_client.c suites/integration/web_client.h \
	suites/integration/web_look.c suites/integration/web_look.h
# The unit cases that ask a history, asking a fleet.
check_PROGRAMS += suites/integration/test_stores
EXTRA_suites_integration_test_stores_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_stores_CPPFLAGS = $(AM_CPPFLAGS) -DKG_CASES_ARE_ASKED
suites_integration_test_stores_SOURCES = \
	suites/integration/fleet_lab.c suites/integration/fleet_lab.h \
	suites/integration/fleet_mirror.c suites/integration/fleet_mirror.h \
	suites/integration/fleet_server.c suites/integration/fleet_server.h \
	suites/integration/test_stores.c \
	suites/unit/test_history.c \
	suites/unit/test_regress.c \
	suites/unit/test_regress_again.c \
	suites/unit/test_regress_limits.c \
	suites/unit/test_step_search.c \
	suites/unit/test_views.c
# The pages of `kigo web`, asked for over a socket.
check_PROGRAMS += suites/integration/test_web
EXTRA_suites_integration_test_web_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_web_SOURCES = \
	suites/integration/test_web.c \
	suites/integration/verbs.c suites/integration/verbs.h \
	suites/integration/web_client.c suites/integration/web_client.h
check_PROGRAMS += suites/integration/test_web_pages
EXTRA_suites_integration_test_web_pages_DEPENDENCIES = kigo$(EXEEXT)
suites_integration_test_web_pages_SOURCES = \
	suites/integration/browser.c suites/integration/browser.h \
	suites/integration/browser_colours.c \
	suites/integration/hostile_run.c suites/integration/hostile_run.h \
	suites/integration/test_web_pages.c \
	suites/integration/verbs.c suites/integration/verbs.h \
	suites/integration/web_client.c suites/integration/web_client.h \
	suites/integration/web_look.c suites/integration/web_look.h
