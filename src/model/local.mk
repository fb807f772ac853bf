libkigo_a_SOURCES += \
	src/include/kigo/model.h \
	src/model/arch_keys.h \
	src/model/config.c src/model/config.h \
	src/model/config_layers.c \
	src/model/config_reader.h \
	src/model/config_rope.c \
	src/model/model.c \
	src/model/repack.c src/model/repack.h \
	src/model/reserve.c src/model/reserve.h \
	src/model/weights.c src/model/weights.h \
	src/model/yarn.c src/model/yarn.h
