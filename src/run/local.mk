libkigo_a_SOURCES += \
	src/run/bounded_log.c src/run/bounded_log.h \
	src/run/case_key.c src/run/case_key.h \
	src/run/child.c src/run/child.h \
	src/run/discover.c src/run/discover.h \
	src/run/failure.c src/run/failure.h \
	src/run/failure_name.c src/run/failure_name.h \
	src/run/known_lists.c src/run/known_lists.h \
	src/run/layers.c src/run/layers.h \
	src/run/line_reader.c src/run/line_reader.h \
	src/run/listing.c src/run/listing.h \
	src/run/plan.c src/run/plan.h \
	src/run/publish.c src/run/publish.h \
	src/run/result_lists.c src/run/result_lists.h \
	src/run/run_case.c \
	src/run/run_events.c \
	src/run/run_slot.c src/run/run_slot.h \
	src/run/run_state.h \
	src/run/runner.c src/run/runner.h \
	src/run/selection.c src/run/selection.h \
	src/run/guard.c src/run/guard.h \
	src/run/signals.c src/run/signals.h
