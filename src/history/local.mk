libkigo_a_SOURCES += \
	src/include/kigo/history.h \
	src/history/insert.c \
	src/history/internal.h \
	src/history/open.c \
	src/history/query.c \
	src/history/schema.c
