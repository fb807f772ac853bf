libkigo_a_SOURCES += \
	src/include/kigo/model.h \
	src/model/dtype.h \
	src/model/gguf.h
