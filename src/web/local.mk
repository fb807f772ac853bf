libkigo_a_SOURCES += \
	src/web/chart.c src/web/chart.h \
	src/web/listen.c src/web/listen.h \
	src/web/page_case.c \
	src/web/page_cases.c \
	src/web/page_compare.c \
	src/web/page_run.c \
	src/web/page_runs.c \
	src/web/page_search.c \
	src/web/page_signoffs.c \
	src/web/page_standing.c \
	src/web/pages.h \
	src/web/parts.c \
	src/web/site.c \
	src/web/style.h \
	src/web/web.h
