libkigo_a_SOURCES += src/backend/gpu.h
libkigo_a_SOURCES += src/backend/memory.h
