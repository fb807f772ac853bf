libkigo_a_SOURCES += \
	src/include/kigo/status.h \
	src/base/beneath.c src/base/beneath.h \
	src/base/buffer.c src/base/buffer.h \
	src/base/clock.c src/base/clock.h \
	src/base/clones.h \
	src/base/draft.c src/base/draft.h \
	src/base/escape.c src/base/escape.h \
	src/base/file.c src/base/file.h \
	src/base/finite.h \
	src/base/hash.c src/base/hash.h \
	src/base/io_errors.c src/base/io_errors.h \
	src/base/json_put.c src/base/json_put.h \
	src/base/json_read.c src/base/json_read.h \
	src/base/json_tape.c src/base/json_tape.h \
	src/base/late_library.c src/base/late_library.h \
	src/base/markdown.c src/base/markdown.h \
	src/base/nearest.c src/base/nearest.h \
	src/base/options.c src/base/options.h \
	src/base/program.c src/base/program.h \
	src/base/progress.c src/base/progress.h \
	src/base/quantity.c src/base/quantity.h \
	src/base/rng.c src/base/rng.h \
	src/base/say.c src/base/say.h \
	src/base/size.h \
	src/base/status.c \
	src/base/threads.c src/base/threads.h \
	src/base/tty.c src/base/tty.h \
	src/base/utf8.c src/base/utf8.h \
	src/base/visible.c src/base/visible.h \
	src/base/zstd.c src/base/zstd.h
