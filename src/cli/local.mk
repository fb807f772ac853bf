kigo_CPPFLAGS = $(AM_CPPFLAGS)
kigo_LDADD = libkigo.a $(kigo_libs)
kigo_SOURCES = \
	src/cli/allocators.c src/cli/allocators.h \
	src/cli/ask_line.c src/cli/ask_line.h \
	src/cli/asked.c src/cli/asked.h \
	src/cli/asked_runs.c src/cli/asked_runs.h \
	src/cli/bench_models.c src/cli/bench_models.h \
	src/cli/bench_report.c src/cli/bench_report.h \
	src/cli/bundles.c src/cli/bundles.h \
	src/cli/call.c \
	src/cli/chat.h \
	src/cli/chat_answer.c \
	src/cli/chat_commands.c \
	src/cli/chat_file.c \
	src/cli/check_choice.c src/cli/check_choice.h \
	src/cli/check_report.c src/cli/check_report.h \
	src/cli/cmd_annotate.c \
	src/cli/cmd_bench.c \
	src/cli/cmd_chat.c \
	src/cli/cmd_check.c \
	src/cli/cmd_checkpoint.c \
	src/cli/cmd_confirm.c \
	src/cli/cmd_convert.c \
	src/cli/cmd_devices.c \
	src/cli/cmd_diff.c \
	src/cli/cmd_export.c \
	src/cli/cmd_fleet.c \
	src/cli/cmd_generate.c \
	src/cli/cmd_history.c \
	src/cli/cmd_import.c \
	src/cli/cmd_inspect.c \
	src/cli/cmd_list.c \
	src/cli/cmd_logits.c \
	src/cli/cmd_op.c \
	src/cli/cmd_prune.c \
	src/cli/cmd_pull.c \
	src/cli/cmd_push.c \
	src/cli/cmd_quantize.c \
	src/cli/cmd_query.c \
	src/cli/cmd_recover.c \
	src/cli/cmd_regress.c \
	src/cli/cmd_reindex.c \
	src/cli/cmd_report.c \
	src/cli/cmd_rerun.c \
	src/cli/cmd_selfcheck.c \
	src/cli/cmd_show.c \
	src/cli/cmd_sign.c \
	src/cli/cmd_signoff.c \
	src/cli/cmd_steps.c \
	src/cli/cmd_synth.c \
	src/cli/cmd_tokenize.c \
	src/cli/cmd_verify.c \
	src/cli/cmd_web.c \
	src/cli/commands.h \
	src/cli/completions.c src/cli/completions.h \
	src/cli/differences.c src/cli/differences.h \
	src/cli/engine.c src/cli/engine.h \
	src/cli/filter.c src/cli/filter.h \
	src/cli/fleet.c src/cli/fleet.h \
	src/cli/fleet_cache.c src/cli/fleet_cache.h \
	src/cli/fresh_runs.c src/cli/fresh_runs.h \
	src/cli/generate.h \
	src/cli/generate_json.c \
	src/cli/generate_on.c \
	src/cli/inspect.h \
	src/cli/inspect_json.c \
	src/cli/inspect_model.c \
	src/cli/inspect_plan.c src/cli/inspect_plan.h \
	src/cli/inspect_text.c \
	src/cli/interrupt.c src/cli/interrupt.h \
	src/cli/long_write.c src/cli/long_write.h \
	src/cli/written.c src/cli/written.h \
	src/cli/main.c \
	src/cli/op_attention.c \
	src/cli/op_call.h \
	src/cli/op_experts.c \
	src/cli/op_fused.c \
	src/cli/op_inputs.c \
	src/cli/op_params.c \
	src/cli/op_run.c \
	src/cli/op_sdpa.c \
	src/cli/op_spec.h \
	src/cli/op_specs.c \
	src/cli/rebuild.c src/cli/rebuild.h \
	src/cli/regress_again.c src/cli/regress_again.h \
	src/cli/regress_call.c src/cli/regress_call.h \
	src/cli/regress_report.c \
	src/cli/rows.c src/cli/rows.h \
	src/cli/run_name.c src/cli/run_name.h \
	src/cli/sampling.c src/cli/sampling.h \
	src/cli/show_figures.c src/cli/show_figures.h \
	src/cli/show_markdown.c src/cli/show_markdown.h \
	src/cli/skip_groups.c src/cli/skip_groups.h \
	src/cli/sprint.c src/cli/sprint.h \
	src/cli/suite_run.c src/cli/suite_run.h \
	src/cli/table.c \
	src/cli/trust.c src/cli/trust.h \
	src/cli/two_builds.c src/cli/two_builds.h \
	src/cli/verify_chain.c \
	src/cli/verify_report.h \
	src/cli/verify_signoffs.c
if WITH_LIBEDIT
kigo_SOURCES += src/cli/libedit.c src/cli/libedit.h src/cli/line_editor.c
kigo_CPPFLAGS += $(LIBEDIT_CFLAGS)
else
kigo_SOURCES += src/cli/line_editor_none.c
endif
kigo_SOURCES += src/web/server.h
if WITH_LIBMICROHTTPD
kigo_SOURCES += src/web/libmicrohttpd.c src/web/libmicrohttpd.h src/web/server.c
kigo_CPPFLAGS += $(LIBMICROHTTPD_CFLAGS)
else
kigo_SOURCES += src/web/server_none.c
endif
