libkigo_a_SOURCES += \
	src/backend/backend.h \
	src/backend/cpu.c \
	src/backend/gpu.h \
	src/backend/memory.c src/backend/memory.h \
	src/backend/precision.c \
	src/backend/registry.c
