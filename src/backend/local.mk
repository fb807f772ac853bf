libkigo_a_SOURCES += \
	src/include/kigo/backend.h \
	src/backend/backend.h \
	src/backend/cpu.c \
	src/backend/gpu.h \
	src/backend/gpu_text.c \
	src/backend/lowered_text.c \
	src/backend/memory.c src/backend/memory.h \
	src/backend/measure.c src/backend/measure.h \
	src/backend/plan.c src/backend/plan.h \
	src/backend/registry.c
