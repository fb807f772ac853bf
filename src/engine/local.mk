libkigo_a_SOURCES += src/include/kigo/engine.h
