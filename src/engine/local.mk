libkigo_a_SOURCES += \
	src/include/kigo/engine.h \
	src/engine/backend.h \
	src/engine/precision.c
