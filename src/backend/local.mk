libkigo_a_SOURCES += \
	src/backend/cpu.c \
	src/backend/gpu.h \
	src/backend/memory.c src/backend/memory.h \
	src/backend/registry.c
