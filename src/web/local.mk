libkigo_a_SOURCES += \
	src/web/listen.c src/web/listen.h \
	src/web/page_cases.c \
	src/web/page_run.c \
	src/web/page_runs.c \
	src/web/pages.h \
	src/web/parts.c \
	src/web/site.c \
	src/web/style.h \
	src/web/web.h
