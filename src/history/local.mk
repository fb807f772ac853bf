libkigo_a_SOURCES += \
	src/include/kigo/history.h \
	src/history/again.c src/history/again.h \
	src/history/ancestry.c src/history/ancestry.h \
	src/history/annotation.c src/history/annotation.h \
	src/history/annotation_rows.c \
	src/history/annotation_sync.c \
	src/history/browse.c src/history/browse.h \
	src/history/canary_fit.c src/history/canary_fit.h \
	src/history/comparison_key.c src/history/comparison_key.h \
	src/history/confirm.c src/history/confirm.h \
	src/history/detectable.c src/history/detectable.h \
	src/history/digest.c \
	src/history/drift.c src/history/drift.h \
	src/history/exact.c src/history/exact.h \
	src/history/family.c src/history/family.h \
	src/history/figure_kind.c src/history/figure_kind.h \
	src/history/folder.c src/history/folder.h \
	src/history/folder_records.c \
	src/history/folder_size.c \
	src/history/id_cache.c src/history/id_cache.h \
	src/history/insert.c \
	src/history/internal.h \
	src/history/metrics.c \
	src/history/noisy.c src/history/noisy.h \
	src/history/noisy_again.c src/history/noisy_again.h \
	src/history/open.c \
	src/history/prune.c src/history/prune.h \
	src/history/query.c \
	src/history/reader.c \
	src/history/regress.c src/history/regress.h \
	src/history/regress_again.c \
	src/history/regress_baseline.c \
	src/history/regress_exact.c \
	src/history/regress_kernels.c \
	src/history/regress_limits.c \
	src/history/regress_match.c \
	src/history/regress_noisy.c \
	src/history/regress_parts.h \
	src/history/reproduce.c src/history/reproduce.h \
	src/history/row.c src/history/row.h \
	src/history/run.c src/history/run.h \
	src/history/runs_load.c \
	src/history/schema.c \
	src/history/schema_check.c \
	src/history/screen.c src/history/screen.h \
	src/history/selfcheck.c src/history/selfcheck.h \
	src/history/series.h \
	src/history/shelf.c src/history/shelf.h \
	src/history/store.c src/history/store.h \
	src/history/step_machine.c src/history/step_machine.h \
	src/history/step_runs.c src/history/step_runs.h \
	src/history/step_search.c src/history/step_search.h \
	src/history/step_series.c src/history/step_series.h \
	src/history/step_suspects.c src/history/step_suspects.h \
	src/history/step_values.c src/history/step_values.h \
	src/history/sync.c \
	src/history/trust.c src/history/trust.h \
	src/history/views.c src/history/views.h
