libkigo_a_SOURCES += \
	src/measure/gpus.c src/measure/gpus.h \
	src/measure/nvml.c src/measure/nvml.h \
	src/measure/partition.c src/measure/partition.h \
	src/measure/process_memory.c src/measure/process_memory.h \
	src/measure/rank_test.c src/measure/rank_test.h \
	src/measure/robust.c src/measure/robust.h \
	src/measure/roofline.c src/measure/roofline.h \
	src/measure/statistics.c src/measure/statistics.h \
	src/measure/steps.c src/measure/steps.h \
	src/measure/telemetry.c src/measure/telemetry.h \
	src/measure/throttle.c src/measure/throttle.h \
	src/measure/timing.c src/measure/timing.h
