libkigo_a_SOURCES += \
	src/measure/bandwidth.c src/measure/bandwidth.h \
	src/measure/bandwidth_plot.c \
	src/measure/device.c src/measure/device.h \
	src/measure/fp16_figures.c src/measure/fp16_figures.h \
	src/measure/fp16_goals.c src/measure/fp16_goals.h \
	src/measure/fp16_report.c src/measure/fp16_report.h \
	src/measure/nvml.c src/measure/nvml.h \
	src/measure/peers.c src/measure/peers.h \
	src/measure/process_memory.c src/measure/process_memory.h \
	src/measure/rank_test.c src/measure/rank_test.h \
	src/measure/robust.c src/measure/robust.h \
	src/measure/roofline.c src/measure/roofline.h \
	src/measure/statistics.c src/measure/statistics.h \
	src/measure/steps.c src/measure/steps.h \
	src/measure/telemetry.c src/measure/telemetry.h \
	src/measure/throttle.c src/measure/throttle.h \
	src/measure/timing.c src/measure/timing.h
