libkigo_a_SOURCES += src/backend/gpu.h
