libkigo_a_SOURCES += \
	src/measure/device.c src/measure/device.h \
	src/measure/process_memory.c src/measure/process_memory.h \
	src/measure/roofline.c src/measure/roofline.h \
	src/measure/statistics.c src/measure/statistics.h \
	src/measure/timing.c src/measure/timing.h
