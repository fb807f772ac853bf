libkigo_a_SOURCES += \
	src/report/bandwidth.c src/report/bandwidth.h \
	src/report/bandwidth_pictures.c \
	src/report/bandwidth_plot.c \
	src/report/cases.c \
	src/report/changes.c \
	src/report/csv.c \
	src/report/environment.c \
	src/report/far_limits.c src/report/far_limits.h \
	src/report/history_page.c \
	src/report/margins.c \
	src/report/memory.c \
	src/report/page.c src/report/page.h \
	src/report/page_style.h \
	src/report/past.c src/report/past.h \
	src/report/peers.c src/report/peers.h \
	src/report/plot.c src/report/plot.h \
	src/report/report.c src/report/report.h \
	src/report/roofline.c \
	src/report/sections.h \
	src/report/summary.c \
	src/report/verdict.c src/report/verdict.h \
	src/report/timelines.c src/report/timelines.h \
	src/report/timelines_timed.c \
	src/report/timings.c \
	src/report/values.c
