libkigo_a_SOURCES += \
	src/measure/process_memory.c src/measure/process_memory.h \
	src/measure/statistics.c src/measure/statistics.h \
	src/measure/timing.c src/measure/timing.h
